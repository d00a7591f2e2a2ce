package knowledge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
)

// race is a job of tasks that began together, of which some ended after so many minutes, and a view of them at a minute.
type race struct {
	ended  []int // minutes, of the first tasks
	tasks  uint32
	job    func(*cluster.JobSpec)
	waits  bool     // one task more, which has no place
	copies []uint32 // of these tasks, which run on another host
	since  cluster.Event
}

func (r *race) at(t *testing.T, minute int) (*cluster.State, *cluster.Snapshot, cluster.Time) {
	s := cluster.NewState()
	begin := cluster.Time(time.Hour)
	emit := func(at cluster.Time, e cluster.Event) {
		require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: at, Event: e}))
	}
	emit(begin, &cluster.HostReported{ID: "s/h"})
	spec := &cluster.JobSpec{Name: "j", Pool: cluster.RootPool, Instances: r.tasks, Speculation: &cluster.Speculation{}}
	if r.waits {
		spec.Instances++
	}
	if r.job != nil {
		r.job(spec)
	}
	emit(begin, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
	for i := range r.tasks {
		k := cluster.MakeTaskKey(1, i)
		emit(begin, &cluster.Placed{Task: k, Run: 1, Host: "s/h"})
		emit(begin, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
	}
	for i, m := range r.ended {
		emit(begin.Add(time.Duration(m)*time.Minute), &cluster.TaskStatus{Task: cluster.MakeTaskKey(1, uint32(i)), Run: 1, State: cluster.TaskSucceeded})
	}
	for _, i := range r.copies {
		k := cluster.MakeTaskKey(1, i)
		emit(begin, &cluster.HostReported{ID: "s/other"})
		emit(begin, &cluster.CopyAdded{Task: k, Run: 1})
		emit(begin, &cluster.Placed{Task: k.Copy(), Run: 1, Host: "s/other"})
		emit(begin, &cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskRunning})
	}
	if r.since != nil {
		emit(begin.Add(time.Duration(minute)*time.Minute), r.since)
	}
	snap, _ := s.Snapshot()
	return s, snap, begin.Add(time.Duration(minute) * time.Minute)
}

func TestTheSlowestGetCopies(t *testing.T) {
	share := func(percent uint32) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) { s.Speculation.MaxPercent = percent }
	}
	for _, c := range []struct {
		name     string
		race     race
		minute   int
		progress map[uint32]float64
		want     []uint32
	}{
		{"nobody has ended", race{tasks: 9}, 100, nil, nil},
		{"two tell too little", race{tasks: 9, ended: []int{2, 2}}, 100, nil, nil},
		{"as long as others", race{tasks: 4, ended: []int{2, 2, 3}}, 3, nil, nil},
		{"longer than others", race{tasks: 4, ended: []int{2, 2, 3}}, 4, nil, []uint32{3}},
		{"while another waits", race{tasks: 4, ended: []int{2, 2, 3}, waits: true}, 4, nil, nil},
		{"while it is stopped", race{tasks: 4, ended: []int{2, 2, 3}, since: &cluster.JobStopping{Job: 1}}, 4, nil, nil},
		{
			"not for who leaves",
			race{tasks: 5, ended: []int{2, 2, 3}, since: &cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 3), Reason: cluster.ReasonTaskRestarted, Restart: true}},
			4, nil,
			[]uint32{4},
		},
		{"whoever ended first", race{tasks: 5, ended: []int{3, 9, 2, 2}}, 9, nil, []uint32{4}},
		{"not for the first minute", race{tasks: 4, ended: []int{0, 0, 0}}, 0, nil, nil},
		{"one in ten", race{tasks: 20, ended: []int{2, 2, 2}}, 9, nil, []uint32{3, 4}},
		{"as many as the job says", race{tasks: 20, ended: []int{2, 2, 2}, job: share(20)}, 9, nil, []uint32{3, 4, 5, 6}},
		{"not allowed", race{tasks: 4, ended: []int{2, 2, 3}, job: func(s *cluster.JobSpec) { s.Speculation = nil }}, 9, nil, nil},
		{"with the copies that run already", race{tasks: 20, ended: []int{2, 2, 2}, copies: []uint32{5}}, 9, nil, []uint32{3}},
		{"no copy again", race{tasks: 4, ended: []int{2, 2, 3}, copies: []uint32{3}, job: share(100)}, 9, nil, nil},
		{"not slower than the slow", race{tasks: 4, job: share(100)}, 2, map[uint32]float64{0: 1, 1: 1, 2: 0.2, 3: 0.21}, []uint32{2}},
		{"longest time left first", race{tasks: 8, job: share(50)}, 10, map[uint32]float64{0: 0.9, 1: 0.9, 2: 0.9, 3: 0.9, 4: 0.9, 5: 0.9, 6: 0.2, 7: 0.1}, []uint32{7, 6}},
		{"slow and nearly done", race{tasks: 4}, 10, map[uint32]float64{0: 0.99, 1: 0.99, 2: 0.99, 3: 0.6}, nil},
		{"fast by its progress", race{tasks: 4, ended: []int{2, 2, 2}}, 9, map[uint32]float64{3: 0.95}, nil},
		{"no number", race{tasks: 4, ended: []int{2, 2, 3}}, 4, map[uint32]float64{3: 7}, []uint32{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, snap, now := c.race.at(t, c.minute)
			progress := func(r cluster.RunID) (float64, bool) {
				p, ok := c.progress[r.Task.Instance()]
				return p, ok
			}
			s := knowledge.DefaultSpeculation()
			var got []uint32
			for _, e := range s.Choose(snap, nil, progress, now) {
				got = append(got, e.Task.Instance())
				require.Equal(t, uint32(1), e.Run)
				require.Equal(t, int32(1500), e.Pace)
			}
			require.Equal(t, c.want, got)
			s.Interval = 0
			require.Empty(t, s.Choose(snap, nil, progress, now))
		})
	}
}

// What earlier jobs taught tells a single task to be slow; one that has a copy gets no other; nobody gets one while others wait.
func TestCopiesByKnowledge(t *testing.T) {
	taught, _ := runs(t, "sort", 5).Snapshot() // a second each
	base := new(knowledge.Feed).Next(taught, 0, nil)
	s := knowledge.DefaultSpeculation()
	for i, work := range []string{"sort", "", "unknown"} {
		t.Run(fmt.Sprintf("work %q", work), func(t *testing.T) {
			r := race{tasks: 1, job: func(j *cluster.JobSpec) { j.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: work}} }}
			state, snap, now := r.at(t, 2)
			chosen := s.Choose(snap, base, nil, now)
			require.Equal(t, i == 0, len(chosen) == 1)
			if len(chosen) > 0 {
				require.NoError(t, state.Apply(cluster.Record{Seq: state.Seq() + 1, At: now, Event: &chosen[0]}))
				again, _ := state.Snapshot()
				require.Empty(t, s.Choose(again, base, nil, now))
			}
		})
	}
}

// Run times that more than a quarter of earlier runs had are not slow, and a young run is not judged.
func TestWhatIsNotSlow(t *testing.T) {
	s := cluster.NewState()
	w := &cluster.Work{Name: "sort", Times: []cluster.TimeBin{{Bin: 64, Runs: 3}, {Bin: 128, Runs: 3}}} // a second, and more than four minutes
	require.NoError(t, s.Apply(cluster.Record{Event: &cluster.Restored{Works: []*cluster.Work{w}}}))
	taught, _ := s.Snapshot()
	base := new(knowledge.Feed).Next(taught, 0, nil)
	r := race{tasks: 1, job: func(j *cluster.JobSpec) { j.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: "sort"}} }}
	for minute, want := range map[int]int{4: 0, 6: 1} {
		_, snap, now := r.at(t, minute)
		limits := knowledge.DefaultSpeculation()
		require.Len(t, limits.Choose(snap, base, nil, now), want, minute)
		limits.After = 10 * time.Minute
		require.Empty(t, limits.Choose(snap, base, nil, now))
	}
}
