package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
)

func image(name string, bytes int64) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) {
		s.Task.Processes = []cluster.Process{{Container: &cluster.Container{Image: name, ImageBytes: bytes}}}
	}
}

// A class that waits is priced anew when more is known of where its image is.
func TestWhereAnImageIsIsLearnedWhileItsTasksWait(t *testing.T) {
	for want := range 4 {
		s := newMoving(t, quincy.Model{})
		var hosts []cluster.HostID
		for i := range 4 {
			hosts = append(hosts, s.machine(i, cluster.Machine{Capacity: vector(10, 0), Capabilities: cluster.CanContainers}))
		}
		s.job(cluster.RootPool, 4, 10)
		s.step()
		uid := s.job(cluster.RootPool, 1, 10, image("web", 8_000_000_000))
		s.known = &modeltest.Known{}
		require.Empty(t, s.plan().Placements)
		for i := range uint32(4) {
			s.report(cluster.MakeTaskKey(uid-1, i), cluster.TaskSucceeded)
		}
		s.known = &modeltest.Known{Images: map[string][]cluster.HostID{"web": {hosts[want]}}}
		placed := s.plan().Placements
		require.Len(t, placed, 1)
		require.Equal(t, hosts[want], placed[0].Host)
		require.Zero(t, placed[0].Price)
	}
}

// A running task has its image where it is, and fetches it where it moves to.
func TestWhoMovesFetchesItsImage(t *testing.T) {
	for bytes, moves := range map[int64]int{0: 1, 8_000_000_000: 0} {
		s := newMoving(t, quincy.Model{Theta: 100})
		machine := cluster.Machine{Capacity: vector(10, 0), Capabilities: cluster.CanContainers}
		here := s.machine(0, machine)
		s.known = &modeltest.Known{Images: map[string][]cluster.HostID{"web": {here}}}
		s.job(cluster.RootPool, 1, 10, image("web", bytes))
		s.step()
		s.machine(1, machine)
		s.job(cluster.RootPool, 1, 10, data(3, here))
		s.now = s.now.Add(30 * time.Second) // waiting is dear by now
		require.Equal(t, moves, s.plan().Stats.Migrations, "an image of %d bytes", bytes)
	}
}

// Jobs in images of known size are classes by their images; all else is as without any.
func TestClassesByImage(t *testing.T) {
	key := func(change ...func(*cluster.JobSpec)) cycle.ClassKey {
		s := newMoving(t, quincy.Model{})
		uid := s.job(cluster.RootPool, 1, 10, change...)
		snapshot, _ := s.state.Snapshot()
		return cycle.KeyOf(snapshot, s.state.Job(uid), s.state.Task(cluster.MakeTaskKey(uid, 0)), s.now)
	}
	require.Equal(t, key(image("web", 5)), key(image("web", 5)))
	require.NotEqual(t, key(image("web", 5)), key(image("db", 5)))
	require.NotEqual(t, key(image("web", 5)), key(image("web", 6)))
	require.Equal(t, key(image("web", 0)), key(image("db", 0)))
}
