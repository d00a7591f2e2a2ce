package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Commit carries out a plan step by step and returns how many events the state no longer allowed: since the snapshot of
// the plan a task may have been stopped, or a host drained or lost, or scheduling or killing switched off, or others may have come or
// gone so that a rule about places would be broken. A step that has become impossible is left out whole.
func Commit(tx *Tx, plan [][]cluster.Event, refused func(step []cluster.Event, err error)) (count int) {
	var p places
	for some := range slices.Chunk(plan, cluster.Ahead) {
		readAhead(tx, some)
		for _, step := range some {
			if err := emitAll(tx, &p, step); err != nil {
				count += len(step)
				refused(step, err)
			}
		}
	}
	return count
}

// Refusals paces the cycles after plans that the state refused a part of: what was to be placed waits again, though nothing else may
// have changed. The zero value has seen none.
type Refusals struct {
	seq  uint64 // of the state that the last plan was made of, if a part of it was refused
	some bool
}

// RefusedPause is how long after a plan the next one is made of the same state, once a part of two was refused: no third one can do
// better but by the time that goes by.
const RefusedPause = time.Second

// Next returns how long after a plan, made of that state, the next one begins if nothing changes before; false: it need not begin.
func (r *Refusals) Next(planned *cluster.Snapshot, refused int) (pause time.Duration, again bool) {
	before := *r
	*r = Refusals{planned.Seq(), refused > 0}
	if before == *r && refused > 0 {
		pause = RefusedPause
	}
	return pause, refused > 0
}

// readAhead reads what the placements of as many steps will need, as far as it is worth it.
func readAhead(tx *Tx, steps [][]cluster.Event) {
	tasks, hosts := make([]cluster.TaskKey, 0, cluster.Ahead), make([]cluster.HostID, 0, cluster.Ahead)
	for _, step := range steps {
		for _, e := range step {
			if p, ok := e.(*cluster.Placed); ok && len(tasks) < cluster.Ahead {
				tasks, hosts = append(tasks, p.Task), append(hosts, p.Host)
			}
		}
	}
	tx.state.ReadAhead(tasks, hosts)
}

// emitAll emits the events of a step. A step of several is tried on a copy first.
func emitAll(tx *Tx, p *places, step []cluster.Event) error {
	if err := switchedOn(tx.state.Mode(), step); err != nil {
		return err
	}
	if err := startsWhole(tx, p, step); err != nil {
		return err
	}
	if len(step) == 1 {
		return p.emit(tx, step[0])
	}
	trial := Begin(tx.state.Fork(), tx.at)
	p.begin(trial.state, step)
	for _, e := range step {
		if err := p.emit(trial, e); err != nil {
			*p = places{pools: p.pools} // the counts have followed the trial
			return err
		}
	}
	for _, e := range step {
		if err := tx.Emit(e); err != nil {
			return err // cannot happen after the trial
		}
	}
	return nil
}

// switchedOn refuses a step that is switched off since the plan was made: an operator has been told that it is not done any more.
func switchedOn(mode cluster.Mode, step []cluster.Event) error {
	leaves := func(e cluster.Event) bool { _, is := e.(*cluster.TaskPreempted); return is }
	switch {
	case mode.SchedulingStopped:
		return errors.New("rules: scheduling is switched off")
	case mode.Restored:
		return errors.New("rules: what runs since the snapshot is not known yet")
	case mode.KillingStopped && slices.ContainsFunc(step, leaves):
		return errors.New("rules: killing is switched off: nobody is asked to leave")
	}
	return nil
}

// startsWhole refuses a step that places members of a gang's core while another one has come to wait since the plan was
// made: those that wait start together. All placements of a core are in one step. Where that was refused, so are the others of the
// gang. Complexity: the core.
func startsWhole(tx *Tx, p *places, step []cluster.Event) error {
	first, ok := step[0].(*cluster.Placed)
	if !ok {
		return nil
	}
	j := tx.state.Job(first.Task.Job())
	if j == nil || j.Spec.Gang == nil {
		return nil
	}
	if !j.Spec.Core(first.Task.Instance()) {
		if t := tx.state.Task(first.Task); t != nil && t.State == cluster.TaskPending && p.unbegun(tx.state, j) {
			return fmt.Errorf("rules: task %v of job %q starts after the core of its gang, which waits", first.Task, j.Spec.Name)
		}
		return nil
	}
	starts, waits := 0, 0
	for _, e := range step {
		if p, places := e.(*cluster.Placed); places && p.Task.Job() == j.UID {
			starts++
		}
	}
	for i := range j.Spec.Gang.Minimum {
		if t := tx.state.Task(cluster.MakeTaskKey(j.UID, i)); t.State.Waits() {
			waits++
		}
	}
	if waits > starts {
		return fmt.Errorf("rules: %d tasks of the gang of job %q wait and %d would start", waits, j.Spec.Name, starts)
	}
	return nil
}

// unbegun reports whether nobody has begun of the core of a gang, and some wait. Complexity: the core, once in a plan.
func (p *places) unbegun(state *cluster.State, j *cluster.Job) bool {
	if is, known := p.cores[j.UID]; known {
		return is
	}
	waits, bound := false, false
	for i := range j.Spec.Gang.Minimum {
		t := state.Task(cluster.MakeTaskKey(j.UID, i))
		if bound = t.State.Bound(); bound {
			break
		}
		waits = waits || t.State.Waits() && t.NotBefore == 0
	}
	if p.cores == nil {
		p.cores = map[cluster.JobUID]bool{}
	}
	p.cores[j.UID] = waits && !bound
	return p.cores[j.UID]
}

// withinLimits refuses the start of a task that would take its job, its pool or one above beyond a limit.
func withinLimits(state *cluster.State, k cluster.TaskKey) error {
	t, j := state.Task(k), state.Job(k.Job())
	if t == nil {
		return nil // which the state refuses
	}
	if !j.MayRun(1) {
		return fmt.Errorf("rules: job %q runs as many tasks at once as it may: task %v cannot start", j.Spec.Name, k)
	}
	if p, dimension := state.OverLimit(j, j.TaskFor(t).Resources); p != "" {
		return fmt.Errorf("rules: pool %q is at its limit of %s: task %v cannot start", p, dimension, k)
	}
	return nil
}

// bears refuses a preemption that the availability budget has no room for any more, since something else was done meanwhile.
func bears(tx *Tx, p *cluster.TaskPreempted) error {
	if t := tx.State().Task(p.Task); t != nil && !tx.State().Job(p.Task.Job()).BearsLoss(t) {
		return fmt.Errorf("rules: the service of task %v bears the loss of no more instances", p.Task)
	}
	return nil
}

// LeavesAt returns when a task that has been chosen to leave is to be asked: those who found it by discovery get time to
// turn away. One that was chosen at a time to come is asked now: the clock has been set back.
func LeavesAt(t *cluster.Task, spec *cluster.JobSpec, now cluster.Time) cluster.Time {
	if t.Since > now {
		return now
	}
	return t.Since.Add(spec.Quiet())
}

// StaleGrace is how long a run has to end by itself that nobody waits for, or whose host is lost.
const StaleGrace = 5 * time.Second

// Leave says how a task that has been asked to leave is to go: how long it has, and what is run beside it when that time
// begins, if anything.
func Leave(t *cluster.Task, spec *cluster.JobSpec) (grace time.Duration, command []string) {
	switch {
	case t.State == cluster.TaskPreempting:
		return spec.PreemptionGrace(), spec.Preemption.Command
	case t.Reason == cluster.ReasonHostLost:
		return StaleGrace, nil
	default:
		return spec.Task.KillGrace, nil
	}
}
