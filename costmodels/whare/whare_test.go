package whare_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/whare"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, whare.Model{}) }

// A task pays for the time that it loses on hosts of a kind and beside each of the others, and for what those lose by it.
func TestTimeLost(t *testing.T) {
	paces := map[[2]string]int64{{"w", ""}: 1200, {"w", "x"}: 1500, {"x", ""}: 1000, {"x", "w"}: 1100, {"w", "y"}: 1100, {"y", ""}: 1300, {"y", "w"}: 1200, {"u", ""}: 1200}
	known := &modeltest.Known{
		Work: []modeltest.Learned{{Work: "w", RunTime: 10 * time.Second}, {Work: "x", RunTime: 100 * time.Second}, {Work: "y", RunTime: time.Second}},
		Paces: func(work, kind, company string) int64 {
			if kind != "k" {
				return 1000
			}
			return paces[[2]string{work, company}]
		},
	}
	on := func(kind string) *cluster.Host {
		return &cluster.Host{Machine: &cluster.Machine{Attributes: []cluster.KeyValue{{Key: "platform", Value: kind}}}}
	}
	for _, c := range []struct {
		name, work, kind string
		model            whare.Model
		residents        []costmodels.Resident
		want             flowgraph.Cost
	}{
		{"the best kind", "w", "best", whare.Model{}, nil, 0},
		{"another kind", "w", "k", whare.Model{}, nil, 10 * 200},
		{"two beside it", "w", "k", whare.Model{}, []costmodels.Resident{{Work: "x", Tasks: 2}}, 10*200 + 2*10*300 + 2*100*100},
		{"nobody gains", "w", "k", whare.Model{}, []costmodels.Resident{{Work: "y", Tasks: 2}}, 10 * 200},
		{"takes nobody knows how long", "u", "k", whare.Model{}, nil, 60 * 200},
		{"as the model has it", "u", "k", whare.Model{Unknown: 5 * time.Second}, nil, 5 * 200},
		{"no work at all", "", "k", whare.Model{}, nil, 0},
		{"a thousand beside it", "w", "k", whare.Model{}, []costmodels.Resident{{Work: "x", Tasks: 1000}}, costmodels.Step / 2},
	} {
		round := &costmodels.Round{Known: known, Guests: func(*cluster.Host) []costmodels.Resident { return c.residents }}
		require.Equal(t, c.want, c.model.Start(round, &costmodels.Request{Work: c.work, Task: &cluster.TaskSpec{}}, on(c.kind)), c.name)
		require.Zero(t, c.model.Start(&costmodels.Round{Guests: round.Guests}, &costmodels.Request{Work: c.work}, on(c.kind)), "nothing is known")
	}
	require.Zero(t, whare.Model{}.Crowd(nil, nil, 0))
	require.Equal(t, costmodels.MaxPrice, whare.Model{}.Crowd(nil, nil, 1))
	require.Zero(t, whare.Model{Starts: 3}.Crowd(nil, nil, 2))
	require.Equal(t, costmodels.MaxPrice, whare.Model{Starts: 3}.Crowd(nil, nil, 3))
}
