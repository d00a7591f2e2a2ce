package cycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
)

// A batch of which one half wants processor and the other memory fills an empty cluster as well by the flow, which counts tasks
// only, as one by one.
func TestABatchOfOpposedDimensionsMixes(t *testing.T) {
	const hosts, each = 100, 20
	for _, x := range []struct {
		ratio, load int64 // of the dimensions; in per cent of each
	}{{8, 90}, {8, 95}, {8, 110}, {4, 95}, {4, 110}} {
		t.Run(fmt.Sprintf("%d to 1 at %d %%", x.ratio, x.load), func(t *testing.T) {
			placed := func(w *world) int {
				for i := range hosts {
					w.host(i, vector(100_000, 100_000))
				}
				for i := range int64(2 * each) { // the largest twice the smallest
					size := 100_000 * x.load / 100 * (2*each + i) / (3 * each) / 40 // forty to a host
					much, little := 2*size*x.ratio/(x.ratio+1), 2*size/(x.ratio+1)
					request := vector(much, little)
					if i%2 == 1 {
						request = vector(little, much)
					}
					w.submit(cluster.JobSpec{Instances: hosts, Task: cluster.TaskSpec{Resources: request}})
				}
				return len(w.plan().Placements)
			}
			one := newWorldWith(t, loadspread.Model{})
			one.planner = cycle.New(loadspread.Model{}, nil)
			byFlow, oneByOne := placed(newWorldWith(t, loadspread.Model{})), placed(one)
			t.Logf("%d of %d, and %d one by one", byFlow, 2*each*hosts, oneByOne)
			require.GreaterOrEqual(t, float64(byFlow), 0.98*float64(oneByOne))
		})
	}
}
