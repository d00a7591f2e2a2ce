package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkApply measures what a cycle's events cost the State of a large cluster: 1,500 runs of 150,000 end on 12,500
// hosts, 1,500 tasks are submitted, placed, and said to run, with a snapshot in between as the planner takes it.
func BenchmarkApply(b *testing.B) {
	const hosts, perHost, perJob, changed = 12_500, 12, 100, 1_500
	s := NewState()
	apply := func(e Event) { require.NoError(b, s.Apply(Record{Seq: s.Seq() + 1, At: 1, Event: e})) }
	id := func(i int) HostID { return HostID(fmt.Sprintf("shard/h%05d", i)) }
	for i := range hosts {
		apply(&HostReported{ID: id(i), Machine: Machine{Capacity: NewResources([NumDimensions]int64{CPU: perHost * 1000})}})
	}
	spec := func() *JobSpec {
		return &JobSpec{
			Name: JobID(fmt.Sprint("job-", s.NextJob())), Pool: RootPool, Instances: perJob,
			Task: TaskSpec{Resources: NewResources([NumDimensions]int64{CPU: 1000})},
		}
	}
	var running []RunID
	start := func(n int, host func() HostID) {
		for range n / perJob {
			uid := s.NextJob()
			apply(&JobsSubmitted{Jobs: []NewJob{{UID: uid, Spec: spec()}}})
			for i := range uint32(perJob) {
				k := MakeTaskKey(uid, i)
				apply(&Placed{Task: k, Run: 1, Host: host()})
				running = append(running, RunID{k, 1})
			}
		}
		s.Snapshot()
		for _, r := range running[len(running)-n:] {
			apply(&TaskStatus{Task: r.Task, Run: r.Run, State: TaskRunning})
		}
		s.Snapshot()
	}
	next := 0
	start(hosts*perHost, func() HostID { next++; return id(next % hosts) })
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		var free []HostID
		var ended []TaskKey
		for range changed {
			i := random.IntN(len(running))
			ended = append(ended, running[i].Task)
			running[i] = running[len(running)-1]
			running = running[:len(running)-1]
		}
		for some := range slices.Chunk(ended, Ahead) {
			s.ReadAhead(some, nil)
			for _, k := range some {
				t := s.Task(k)
				free = append(free, t.Host)
				apply(&TaskStatus{Task: k, Run: t.Run, State: TaskSucceeded})
			}
		}
		s.Snapshot()
		start(changed, func() HostID { h := free[0]; free = free[1:]; return h })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(4*changed), "ns/event")
}
