package cycle

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestCore: whoever comes and goes in whatever order, the members are known in the order in which they came, and who of them stays.
func TestCore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := &Planner{cores: map[cluster.JobUID]*core{}}
	of := &kind{group: &group{key: groupKey{gang: true, job: 7}}}
	var want []*unit
	for range 2000 {
		switch n := random.IntN(8); {
		case n < 3 || len(want) == 0:
			u := &unit{kind: of, state: cluster.TaskRunning}
			if n == 0 {
				u.state = cluster.TaskPreempting
			}
			p.seatIn(u)
			want = append(want, u)
		case n < 7:
			i := random.IntN(len(want))
			p.unseat(want[i])
			want = slices.Delete(want, i, i+1)
		default:
			c := p.cores[7]
			require.True(t, slices.Equal(want, c.all()))
			stay := slices.DeleteFunc(slices.Clone(want), func(u *unit) bool { return u.state.Vacating() })
			require.True(t, slices.Equal(stay, c.staying()))
		}
		require.Equal(t, len(want) > 0, p.cores[7] != nil)
	}
}
