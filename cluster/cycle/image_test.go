package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/compose"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
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

// Data and images tell classes apart where a model prices them, also as one of several, and nowhere else.
func TestClassesByWhatIsPriced(t *testing.T) {
	sum := func(m ...costmodels.Model) (s compose.Sum) {
		for _, m := range m {
			s = append(s, compose.Part{Model: m, Weight: compose.One})
		}
		return s
	}
	for _, c := range []struct {
		model costmodels.Model
		want  int
	}{
		{loadspread.Model{}, 2}, // what is to run in containers needs hosts that can
		{quincy.Model{}, 5},
		{sum(loadspread.Model{}, binpack.Model{}), 2},
		{sum(loadspread.Model{}, quincy.Model{}), 5},
		{compose.NewChoice(loadspread.Model{}, nil), 2},
		{compose.NewChoice(loadspread.Model{}, []compose.Binding{{Typed: true, Model: quincy.Model{}}}), 5},
	} {
		s := newMoving(t, c.model)
		a, b := s.machine(0, cluster.Machine{Capacity: vector(1, 0)}), s.machine(1, cluster.Machine{Capacity: vector(1, 0)})
		s.job(cluster.RootPool, 3, 10)
		for range 2 {
			s.job(cluster.RootPool, 1, 10, data(3, a))
			s.job(cluster.RootPool, 1, 10, data(3, b))
			s.job(cluster.RootPool, 1, 10, image("web", 5))
			s.job(cluster.RootPool, 1, 10, image("db", 5))
		}
		require.Equal(t, c.want, s.plan().Stats.Classes, c.model.Name())
	}
}
