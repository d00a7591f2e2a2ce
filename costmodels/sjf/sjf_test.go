package sjf_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestConformance(t *testing.T) { modeltest.Run(t, sjf.Model{}) }

// A slot is worth more to who holds it for less time, by what is known of his work, what he says himself, or else what is usual; priority
// is a weight, and so many seconds of waiting count as one less to run.
func TestWhatASlotIsWorth(t *testing.T) {
	round := &costmodels.Round{Known: &modeltest.Known{Work: []modeltest.Learned{{Work: "ten", RunTime: 10 * time.Second}, {Work: "one", RunTime: time.Second}}}}
	ten, one := costmodels.Request{Work: "ten"}, costmodels.Request{Work: "one"}
	for _, c := range []struct {
		name  string
		model sjf.Model
		class costmodels.Class
		want  flowgraph.Cost
	}{
		{"known", sjf.Model{}, costmodels.Class{Request: ten}, sjf.Scale / 10},
		{"priority", sjf.Model{}, costmodels.Class{Request: ten, Priority: 2}, 3 * sjf.Scale / 10},
		{"waited for 8 s", sjf.Model{}, costmodels.Class{Request: ten, Stage: 4}, sjf.Scale * 1000 / 9200},
		{"which count half", sjf.Model{Ageing: 2}, costmodels.Class{Request: ten, Stage: 4}, sjf.Scale / 6},
		{"never less than a second", sjf.Model{}, costmodels.Class{Request: one, Stage: 9}, sjf.Scale},
		{"as he says", sjf.Model{}, costmodels.Class{Estimate: 4}, sjf.Scale / 8},
		{"as is usual", sjf.Model{}, costmodels.Class{}, sjf.Scale / 600},
		{"as the model has it", sjf.Model{Unknown: 4 * time.Second}, costmodels.Class{}, sjf.Scale / 4},
	} {
		require.Equal(t, c.want, c.model.Wait(round, &c.class), c.name)
	}
}
