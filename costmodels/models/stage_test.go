package models_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/verify"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// stage is a cluster on a virtual clock, planned by the production planner with a model.
type stage struct {
	t       *testing.T
	random  *rand.Rand // of the workload: the same for every model
	state   *cluster.State
	planner *cycle.Supervisor
	known   costmodels.Knowledge
	feed    *knowledge.Feed // of what is learned from the stage's own runs, instead of known
	now     cluster.Time
	lasts   map[cluster.JobUID]time.Duration // how long the tasks of a job run; without one, for ever
	ends    map[cluster.TaskKey]cluster.Time
	wakeAt  cluster.Time
}

const begin = cluster.Time(time.Hour)

func newStage(t *testing.T, policy string, seed uint64) *stage {
	m, err := models.New(policy)
	require.NoError(t, err)
	return &stage{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), state: cluster.NewState(), now: begin,
		planner: cycle.New(m, func() solver.Solver { return netsimplex.New() }),
		lasts:   map[cluster.JobUID]time.Duration{}, ends: map[cluster.TaskKey]cluster.Time{},
	}
}

func (s *stage) emit(e cluster.Event) {
	s.t.Helper()
	require.NoError(s.t, s.state.Apply(cluster.Record{Seq: s.state.Seq() + 1, At: s.now, Event: e}))
}

// host adds a host with 16 cores and 64 GiB that change may change.
func (s *stage) host(i int, change func(*cluster.Machine)) cluster.HostID {
	m := cluster.Machine{Rack: fmt.Sprint("r", i/4)}
	m.Capacity.Fixed[cluster.CPU], m.Capacity.Fixed[cluster.Memory] = 16_000, 64<<30
	if change != nil {
		change(&m)
	}
	id := cluster.MakeHostID("s", fmt.Sprintf("h%03d", i))
	s.emit(&cluster.HostReported{ID: id, Machine: m})
	return id
}

// submit adds a job of n tasks with a core and 1 GiB each, which change may change, and tells how long they run.
func (s *stage) submit(n uint32, lasts time.Duration, change func(*cluster.JobSpec)) cluster.JobUID {
	uid := s.state.NextJob()
	spec := &cluster.JobSpec{Name: cluster.JobID("j" + uid.String()), Pool: cluster.RootPool, Instances: n}
	spec.Task.Resources.Fixed[cluster.CPU], spec.Task.Resources.Fixed[cluster.Memory] = 1000, 1<<30
	if change != nil {
		change(spec)
	}
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	s.lasts[uid] = lasts
	return uid
}

// plan runs a cycle and carries it out.
func (s *stage) plan() cycle.Output {
	s.t.Helper()
	snapshot, changes := s.state.Snapshot()
	if s.feed != nil {
		s.known = s.feed.Next(snapshot, s.now, nil)
	}
	out := s.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now, Knowledge: s.known})
	require.Empty(s.t, out.Stats.Fault)
	require.Empty(s.t, verify.Plan(snapshot, &out, s.now, cycle.DefaultOptions().Hysteresis))
	for _, step := range out.Steps() {
		for _, e := range step {
			s.emit(e)
		}
	}
	for i := range out.Placements {
		p := &out.Placements[i]
		s.emit(&cluster.TaskStatus{Task: p.Task, Run: p.Run, State: cluster.TaskRunning})
	}
	s.wakeAt = out.WakeAt
	for i := range out.Displacements { // who is asked to leave is gone at once
		for _, v := range out.Displacements[i].Victims {
			_, err := rules.Report(rules.Begin(s.state, s.now), "s", &cluster.TaskStatus{Task: v.Task, Run: v.Run, State: cluster.TaskKilled})
			require.NoError(s.t, err)
			delete(s.ends, v.Task)
			s.wakeAt = s.now.Add(time.Second)
		}
	}
	for i := range out.Placements {
		if k := out.Placements[i].Task; s.lasts[k.Job()] > 0 {
			s.ends[k] = s.now.Add(s.lasts[k.Job()])
		}
	}
	return out
}

// run lets time pass until the given one, planning whenever a task ends or the planner asks for it.
func (s *stage) run(until cluster.Time) {
	for {
		next := until
		for _, at := range s.ends { // the least: any order will do
			next = min(next, at)
		}
		if s.wakeAt > s.now {
			next = min(next, s.wakeAt)
		}
		s.now = next
		if next == until {
			return
		}
		var over []cluster.TaskKey
		for k, at := range s.ends { // sorted below
			if at <= s.now {
				over = append(over, k)
			}
		}
		slices.SortFunc(over, func(a, b cluster.TaskKey) int { return cmp.Compare(a, b) })
		for _, k := range over {
			delete(s.ends, k)
			s.emit(&cluster.TaskStatus{Task: k, Run: s.state.Task(k).Run, State: cluster.TaskSucceeded})
		}
		s.plan()
	}
}

// guests yields every host with the kinds of work on it.
func (s *stage) guests(yield func(*cluster.Host, []string)) {
	snapshot, _ := s.state.Snapshot()
	for h := range snapshot.Hosts("") {
		var works []string
		for _, k := range h.Tasks {
			works = append(works, cluster.WorkOf(snapshot.Job(k.Job()).Spec))
		}
		yield(h, works)
	}
}

func does(work string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: work}} }
}
