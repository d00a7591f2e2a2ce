package cycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestRefitTakesWhatIsWorthMoreTogether: of equal rank, the many small tasks that fill a host go before the large one that would
// leave most of them waiting; of higher priority the large one goes first all the same.
func TestRefitTakesWhatIsWorthMoreTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		priority int32
		large    int // tasks that start
		small    int
	}{
		{"equal priority", 0, 0, 4},
		{"higher priority", 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.host(0, vector(4000, 4<<30))
			// What nobody may use counts for the pool, so that all are admitted.
			w.host(1, vector(8000, 8<<30), cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "nobody"})
			large := w.submit(cluster.JobSpec{Instances: 1, Priority: c.priority, Task: cluster.TaskSpec{Resources: vector(4000, 1<<30)}})
			w.now = w.now.Add(time.Millisecond)
			small := w.submit(cluster.JobSpec{Instances: 4, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}})
			placed := map[cluster.JobUID]int{}
			for _, p := range w.cycle().Placements {
				placed[p.Task.Job()]++
			}
			require.Equal(t, c.large, placed[large])
			require.Equal(t, c.small, placed[small])
		})
	}
}

// TestRefitMovesWhatFitsElsewhere: a task that was started where another one has to be goes to the other host.
func TestRefitMovesWhatFitsElsewhere(t *testing.T) {
	w := newWorld(t)
	w.host(0, vector(4000, 8<<30))
	w.host(1, vector(2000, 8<<30))
	w.submit(cluster.JobSpec{Instances: 2, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}})
	w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(4000, 1<<30)}})
	require.Len(t, w.cycle().Placements, 3, "the large one fits on one host, if both small ones go to the other")
}

// TestRefitLeavesAloneWhatRulesCount: where a task of a class is moved, another one of it may have to change places with it; so
// none is moved where a rule counts some of them.
func TestRefitLeavesAloneWhatRulesCount(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r", 1)
	s.rack(1, "r", 3)
	s.job("root/p", 1, 1000)
	s.job("root/p", 1, 1000, labeled("app", "y"))
	s.job("root/p", 1, 1, must(tasks("y", cluster.Greater, 0, "host")))
	s.job("root/p", 1, 2000)
	s.step() // verifies the plan
}
