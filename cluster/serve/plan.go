package serve

import (
	"context"
	"encoding/base64"
	"maps"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// maxPlanned bounds the instances of a plan that is only looked at: each is in the answer.
const maxPlanned = 20_000

// What a plan says of tasks that it does not start at once.
const (
	plannedLater = "AFTER_PREEMPTION" // room is held for it until those have left who leave for it
	plannedMove  = "MOVES"
)

// PlanJobs implements sluicev1.JobServiceServer: a cycle like every other, of a planner of its own, on a copy of the state
// to which the jobs were added. Only one at a time is made, since it costs as much as the first cycle after a start.
func (a *jobService) PlanJobs(ctx context.Context, r *sluicev1.PlanJobsRequest) (*sluicev1.PlanJobsResponse, error) {
	select {
	case a.s.planning <- struct{}{}:
		defer func() { <-a.s.planning }()
	case <-ctx.Done():
		return nil, statusOf(ctx.Err())
	}
	var fork *cluster.State
	if err := a.do(ctx, func(tx *Tx) error { fork = tx.State().Fork(); return nil }); err != nil {
		return nil, err
	}
	revision := fork.Revision()
	before, _ := fork.Snapshot()
	now := a.s.clock()
	tx := rules.Begin(fork, now)
	jobs, err := addToPlan(tx, callOf(ctx), a.s.config.Secrets, r.Specs)
	if err != nil {
		return nil, err
	}
	if err := rules.Settle(tx); err != nil {
		return nil, statusOf(err)
	}
	snapshot, _ := fork.Snapshot()
	policy, err := a.planPolicy(snapshot, r.CostModel)
	if err != nil {
		return nil, err
	}
	var planner *cycle.Supervisor
	if err := a.s.consult(ctx, func(p *cycle.Supervisor) { planner = p.Blank(policy) }); err != nil {
		return nil, statusOf(err)
	}
	feed := knowledge.Feed{Interval: a.s.config.LearnEvery}
	p := planned{snapshot: snapshot, planner: planner, jobs: jobs, sees: callOf(ctx).who.Sight(snapshot), shown: map[cluster.TaskKey]bool{}}
	p.answer.Revision = revision
	p.stops(before)
	for again := true; again; { // the other tasks of a gang come in the cycle after the one that starts its core
		out := planner.Run(cycle.Input{
			Snapshot: p.snapshot, Rescan: true, Now: now, Budget: a.s.budget(), KeepAll: snapshot.Mode().KillingStopped,
			Knowledge: feed.Next(p.snapshot, now, func() knowledge.Usage { return a.s.hostUsage(p.snapshot) }),
		})
		if out.Stats.Fault != "" {
			return nil, fieldError(codes.InvalidArgument, "cost_model", "cannot be used: %s", out.Stats.Fault)
		}
		p.add(&out)
		if again = p.begins(&out) && rules.Commit(tx, out.Steps(), func([]cluster.Event, error) {}) == 0; again {
			if err := rules.Settle(tx); err != nil {
				return nil, statusOf(err)
			}
			p.snapshot, _ = fork.Snapshot()
		}
	}
	return p.describe(), nil
}

// addToPlan adds new jobs to the copy, and begins the updates of those that exist to their new specs. One that the caller may not
// see does not exist for him: its name is taken, as when he submits.
func addToPlan(tx *Tx, c *call, ring *Keyring, specs []*sluicev1.JobSpec) (map[cluster.JobUID]bool, error) {
	var names []cluster.JobID
	fresh, sees := submission{call: c, path: numbered, ring: ring}, c.sight(tx.State())
	for i, p := range specs {
		spec := jobSpecFrom(p, numbered(i), new(violations))
		names = append(names, spec.Name)
		old := tx.State().JobByName(spec.Name)
		if old == nil || !sees(old) {
			fresh.specs, fresh.wanted = append(fresh.specs, spec), append(fresh.wanted, p)
			continue
		}
		if spec.Pool == "" {
			spec.Pool = old.Spec.Pool
		}
		if groups, owner := c.left[p]; owner { // it stays what it is, as in an update
			if spec.Owner = old.Spec.Owner; groups {
				spec.Groups = old.Spec.Groups
			}
		}
		if over(old) && sameSpec(old.Spec, spec) {
			continue // as when it is submitted again
		}
		e, err := changeOf(tx, ring, old, spec, p, numbered(i))
		if err != nil {
			return nil, err
		}
		if e != nil {
			if err := tx.Emit(e); err != nil {
				return nil, statusOf(err)
			}
		}
	}
	if len(fresh.specs) > 0 {
		if err := fresh.add(tx); err != nil {
			return nil, err
		}
	}
	jobs := map[cluster.JobUID]bool{}
	for _, name := range names {
		jobs[tx.State().JobByName(name).UID] = true
	}
	return jobs, nil
}

// SubmitTo adds jobs to a state, and changes those that exist to these specs, as if somebody who may do all had asked for it at that
// time. It checks specs as the API does, as far as that does not depend on how a scheduler is configured, and fails as the API does. The
// state is for looking at only: the values of secrets are of no use in it.
func SubmitTo(state *cluster.State, now cluster.Time, specs []*sluicev1.JobSpec) error {
	snapshot, _ := state.Snapshot()
	c := &call{who: &access.Caller{Free: true}}
	var v violations
	if checkSpecs(c, snapshot, specs, numbered, &v); !v.Empty() {
		return v.Err()
	}
	ring, err := ParseKeyring("none:" + base64.StdEncoding.EncodeToString(make([]byte, keyBytes)))
	if err != nil {
		return err
	}
	tx := rules.Begin(state, now)
	if _, err := addToPlan(tx, c, ring, specs); err != nil {
		return err
	}
	return statusOf(rules.Settle(tx))
}

// planPolicy returns what to plan by: the model of that name, or what is in use.
func (a *api) planPolicy(snapshot *cluster.Snapshot, model string) (*cycle.Policy, error) {
	costs := a.s.config.Costs
	if model == "" {
		if last, _ := a.s.LastCycle(); last.Stats.Fault != "" {
			return nil, fieldError(codes.FailedPrecondition, "cost_model", "is needed, since what is in use cannot be used: %s", last.Stats.Fault)
		}
		set := snapshot.CostPolicy()
		if set == nil { // what is configured
			set = &cluster.CostPolicy{}
		}
		policy, err := costs.policy(set)
		return policy, statusOf(err)
	}
	m, err := costs.New(model)
	if err != nil {
		return nil, fieldError(codes.InvalidArgument, "cost_model", "cannot be used: %v", err)
	}
	return &cycle.Policy{Model: m}, nil
}

// planned makes the answer of a plan: what becomes of the tasks of its jobs, and of others for their sake.
type planned struct {
	snapshot *cluster.Snapshot
	planner  *cycle.Supervisor
	jobs     map[cluster.JobUID]bool
	sees     func(*cluster.Job) bool
	shown    map[cluster.TaskKey]bool
	answer   sluicev1.PlanJobsResponse
}

func (p *planned) task(k cluster.TaskKey, host cluster.HostID, cost int64, reason string) *sluicev1.PlannedTask {
	p.shown[k] = true
	return &sluicev1.PlannedTask{
		Job: string(p.snapshot.Job(k.Job()).Spec.Name), Instance: k.Instance(), Host: string(host), CostMs: cost, Reason: reason,
	}
}

// stops adds the tasks of the jobs that are asked to end by what was asked for, before any cycle.
func (p *planned) stops(before *cluster.Snapshot) {
	for _, uid := range slices.Sorted(maps.Keys(p.jobs)) {
		for t := range p.snapshot.TasksOf(uid, 0) {
			if was := before.Task(t.Key); was != nil && t.State.Vacating() && !was.State.Vacating() {
				p.answer.Stops = append(p.answer.Stops, p.task(t.Key, t.Host, 0, string(t.Reason)))
			}
		}
	}
}

// victim is a task that makes room. Of one that the caller may not see only that much is told.
func (p *planned) victim(v *cycle.Victim, to cluster.HostID, reason string) *sluicev1.PlannedTask {
	if !p.sees(p.snapshot.Job(v.Task.Job())) {
		return &sluicev1.PlannedTask{Reason: reason}
	}
	return p.task(v.Task, to, v.Preemption.Price, reason)
}

// add adds what a cycle does.
func (p *planned) add(out *cycle.Output) {
	for i := range out.Placements {
		if x := &out.Placements[i]; p.jobs[x.Task.Job()] {
			p.answer.Placements = append(p.answer.Placements, p.task(x.Task, x.Host, int64(x.Price), ""))
		}
	}
	for i := range out.Displacements {
		p.displacement(&out.Displacements[i])
	}
}

// begins reports whether the cycle starts the core of a gang of which others wait.
func (p *planned) begins(out *cycle.Output) bool {
	return !p.snapshot.Mode().PlacesNothing() && slices.ContainsFunc(out.Placements, func(x cycle.Placement) bool {
		j := p.snapshot.Job(x.Task.Job())
		return p.jobs[j.UID] && j.SpecFor(p.snapshot.Task(x.Task)).Core(x.Task.Instance()) && j.Spec.Instances > j.Spec.Gang.Minimum
	})
}

// describe returns the answer, with those who wait. What tasks have in common is found once, and told of the first of them.
// Complexity: that of WhyTheyWait.
func (p *planned) describe() *sluicev1.PlanJobsResponse {
	var tasks []*cluster.Task
	var keys []cluster.TaskKey
	for _, uid := range slices.Sorted(maps.Keys(p.jobs)) {
		for t := range p.snapshot.TasksOf(uid, 0) {
			if !t.State.Bound() && !t.State.Terminal() && !p.shown[t.Key] {
				tasks, keys = append(tasks, t), append(keys, t.Key)
			}
		}
	}
	var last *sluicev1.WaitingExplanation
	for i, why := range p.planner.WhyTheyWait(keys, math.MaxInt) {
		waiting := explainUnqueued(p.snapshot, tasks[i], p.snapshot.Job(keys[i].Job()))
		if waiting == nil {
			waiting = explainWaiting(&why, why.Tasks > 0)
		}
		waiting.Unblockers = nil
		task := p.task(keys[i], tasks[i].Home, int64(why.Price), waiting.Reason)
		if !proto.Equal(waiting, last) {
			task.Waiting, last = waiting, waiting
		}
		p.answer.Waiting = append(p.answer.Waiting, task)
	}
	if why := waitingByMode(p.snapshot.Mode()); why != "" {
		for _, t := range p.answer.Placements {
			t.Reason = why
		}
	}
	return &p.answer
}

// displacement adds those who make room, if it is for one of the jobs.
func (p *planned) displacement(d *cycle.Displacement) {
	if !slices.ContainsFunc(d.Holds, func(h cycle.Held) bool { return p.jobs[h.Task.Job()] }) {
		return
	}
	for _, h := range d.Holds {
		if p.jobs[h.Task.Job()] {
			p.answer.Placements = append(p.answer.Placements, p.task(h.Task, h.Hold.Host, 0, plannedLater))
		}
	}
	for i := range d.Victims {
		v := &d.Victims[i]
		from := p.snapshot.Task(v.Task).Host
		if v.Hold == nil {
			p.answer.Preemptions = append(p.answer.Preemptions, p.victim(v, from, string(cluster.ReasonPreempted)))
			continue
		}
		moves := p.victim(v, v.Hold.Host, plannedMove)
		if moves.Job != "" {
			moves.FromHost = string(from)
		}
		p.answer.Migrations = append(p.answer.Migrations, moves)
	}
}

func instancesOf(specs []*sluicev1.JobSpec) (n uint64) {
	for _, s := range specs {
		n += uint64(max(1, s.GetInstances()))
	}
	return n
}
