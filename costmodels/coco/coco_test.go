package coco_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, coco.Model{}) }

// The prices of the formula, by hand. A devil alone spoils a host by 0 + 9 + 32 + 16 = 57, which everybody pays half on one that is empty.
func TestWhoFightsPays(t *testing.T) {
	one := func(work string) []costmodels.Resident { return []costmodels.Resident{{Work: work, Tasks: 1}} }
	settings := coco.Model{Turtles: []string{"t"}, Rabbits: []string{"r"}, Devils: []string{"d"}}
	for _, c := range []struct {
		name      string
		model     coco.Model
		work      string
		residents []costmodels.Resident
		want      flowgraph.Cost
	}{
		{"a turtle alone", coco.Model{}, "turtle", nil, 50 * 57 / 2},
		{"a rabbit alone", coco.Model{}, "rabbit", nil, 50 * 57 / 2},
		{"a devil alone", coco.Model{}, "devil", nil, 50 * 57 / 2},
		{"what nobody knows", coco.Model{}, "", nil, 50 * 57 / 2},
		{"half as disturbed", coco.Model{Disturbance: 25}, "", nil, 25 * 57 / 2},
		// They fight for 2·1 + 8·4 = 34. The host goes from 0 + 6 + 16 + 32 to 0 + 15 + 32 + 32.
		{"a devil to a rabbit", coco.Model{}, "devil", one("rabbit"), 50 * (2*34 + 79 - 54) / 2},
		{"the same by settings", settings, "d", one("r"), 50 * (2*34 + 79 - 54) / 2},
		// 2·1 + 1·2 = 4, from 0 + 4 + 12 + 18 to 0 + 6 + 18 + 27; alone a sheep spoils by 0 + 2 + 6 + 9.
		{"a sheep to two", coco.Model{}, "sheep", []costmodels.Resident{{Work: "x", Tasks: 2}}, 50 * (2*4 + 51 - 34 + 57 - 17) / 2},
		{"a turtle to a rabbit", coco.Model{}, "turtle", one("rabbit"), 50 * 57 / 2},
		{"the same by settings", settings, "t", one("r"), 50 * 57 / 2},
		{"a devil to a turtle", coco.Model{}, "devil", one("turtle"), 50 * 57 / 2},
		{"a devil to a thousand rabbits", coco.Model{}, "devil", []costmodels.Resident{{Work: "rabbit", Tasks: 1000}}, costmodels.Step / 2},
	} {
		round := &costmodels.Round{Guests: func(*cluster.Host) []costmodels.Resident { return c.residents }}
		require.Equal(t, c.want, c.model.Start(round, &costmodels.Request{Work: c.work, Task: &cluster.TaskSpec{}}, &cluster.Host{Machine: &cluster.Machine{}}), c.name)
	}
	h := &cluster.Host{Machine: &cluster.Machine{}}
	h.Capacity.Fixed[cluster.CPU], h.Capacity.Fixed[cluster.Memory], h.Allocated.Fixed[cluster.CPU] = 100, 10, 20
	task := &cluster.TaskSpec{}
	task.Resources.Fixed[cluster.CPU] = 31
	require.EqualValues(t, 50*57/2+250, coco.Model{}.Start(&costmodels.Round{}, &costmodels.Request{Task: task}, h), "and the mean load, in steps")
	require.Zero(t, coco.Model{}.Crowd(nil, h, 0))
	require.Equal(t, costmodels.MaxPrice, coco.Model{}.Crowd(nil, h, 1))
	require.Zero(t, coco.Model{Starts: 3}.Crowd(nil, h, 2))
	require.Equal(t, costmodels.MaxPrice, coco.Model{Starts: 3}.Crowd(nil, h, 3))
}
