package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
)

func newMoving(t require.TestingT, m costmodels.Model) *shared {
	return &shared{world: newWorldWith(t, m)}
}

// data has every task of the job read so many GB that lie on the hosts.
func data(gb int64, hosts ...cluster.HostID) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) {
		s.Inputs = []cluster.Input{{Bytes: gb * 1_000_000_000, Hosts: hosts, Last: s.Instances - 1}}
	}
}

// One task runs where the data of another is that comes. It moves if what it has done so far costs less than to read the data
// from afar.
func TestARunningTaskMakesWayForOneWithDataThere(t *testing.T) {
	for _, c := range []struct {
		name  string
		theta quincy.Model
		ran   time.Duration
		moves bool
	}{
		{"who has just begun moves", quincy.Model{Theta: 100}, 5 * time.Second, true},
		{"who has done more than is lost by reading stays", quincy.Model{Theta: 100}, 10 * time.Minute, false},
		{"where nobody moves all stay", quincy.Model{}, 5 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newMoving(t, c.theta)
			here := s.host(0, vector(10, 0))
			runs := s.job(cluster.RootPool, 1, 10)
			s.step()
			require.Equal(t, 1, s.running(runs))
			there := s.host(1, vector(10, 0))

			s.now = s.now.Add(c.ran)
			comes := s.job(cluster.RootPool, 1, 10, data(3, here))
			s.now = s.now.Add(30 * time.Second) // waiting is dear by now
			out := s.step()
			if !c.moves {
				require.Zero(t, out.Stats.Migrations)
				require.Len(t, out.Placements, 1)
				require.Equal(t, there, out.Placements[0].Host)
				return
			}
			require.Equal(t, 1, out.Stats.Migrations)
			require.Zero(t, out.Stats.Preemptions)
			whole, err := s.planner.Network(nil)
			require.NoError(t, err)
			balanced(t, whole)
			require.Equal(t, out.Stats.Objective, whole.Objective)
			around, err := s.planner.Network(new(cluster.MakeTaskKey(comes, 0)))
			require.NoError(t, err)
			for _, n := range []*cycle.Network{whole, around} {
				require.Equal(t, 1, kinds(n)[cycle.SlotNode])
				require.Equal(t, 2, kinds(n)[cycle.ClassNode], "who comes, and who may go on elsewhere")
			}
			require.Equal(t, 1, s.leave())
			s.settle()
			require.Equal(t, here, s.state.Task(cluster.MakeTaskKey(comes, 0)).Host)
			require.Equal(t, there, s.state.Task(cluster.MakeTaskKey(runs, 0)).Host)
			for range 10 {
				require.Empty(t, s.step().Displacements)
			}
		})
	}
}
