package mesos

import (
	"cmp"
	"maps"
	"slices"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// reconciliation is when Mesos is asked next what it knows of our tasks.
//
// Explicitly, by their ids, after each subscription: a master answers for each, but one that has just started does not
// while it waits for the task's agent to come back, so what was not answered is asked again, ever more rarely.
// Implicitly, for all that it knows, now and then: that shows tasks of which we know nothing.
type reconciliation struct {
	explicit time.Time // zero: not needed
	pause    time.Duration
	implicit time.Time
}

// Bounds of the pause between explicit rounds, and how many tasks one call names.
const (
	minRound   = 5 * time.Second
	maxRound   = 2 * time.Minute
	roundTasks = 500
)

func (r *reconciliation) begin(now time.Time, every time.Duration) {
	r.explicit, r.pause, r.implicit = now, minRound, now.Add(every)
}

// soon begins explicit rounds, if none are going on.
func (r *reconciliation) soon(now time.Time) {
	if r.explicit.IsZero() {
		r.anew(now)
	}
}

// anew begins explicit rounds from the first pause on. One that is due before is not put off: agents may come back one after the other.
func (r *reconciliation) anew(now time.Time) {
	if first := now.Add(minRound); r.explicit.IsZero() || r.explicit.After(first) {
		r.explicit = first
	}
	r.pause = minRound
}

// reconcile makes the calls that are due.
func (d *driver) reconcile(s *session, now time.Time) {
	if !s.rounds.explicit.IsZero() && !now.Before(s.rounds.explicit) {
		asked := d.ask(s)
		s.rounds.explicit = time.Time{}
		if asked {
			s.rounds.explicit = now.Add(s.rounds.pause)
			s.rounds.pause = min(2*s.rounds.pause, maxRound)
		}
	}
	if !now.Before(s.rounds.implicit) {
		s.rounds.implicit = now.Add(d.config.ReconcileEvery)
		s.send(0, &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: &scheduler.Call_Reconcile{}}, nil)
		d.askForAgents(s)
	}
}

// anyTask is the id of no task. Of one that it does not know a master says what is known of the agent.
const anyTask = "agent"

// askForAgents asks for the agents that are away and remembered for their volumes: those that an operator has marked as gone are forgotten.
func (d *driver) askForAgents(s *session) {
	var tasks []scheduler.Call_Reconcile_Task
	for _, id := range slices.Sorted(maps.Keys(d.agents)) {
		if a := d.agents[id]; a.lost && len(a.runs) == 0 {
			tasks = append(tasks, scheduler.Call_Reconcile_Task{TaskID: api.TaskID{Value: anyTask}, AgentID: &api.AgentID{Value: id}})
		}
	}
	s.reconcileTasks(tasks)
}

// reconcileTasks asks for tasks by their ids.
func (s *session) reconcileTasks(tasks []scheduler.Call_Reconcile_Task) {
	for some := range slices.Chunk(tasks, roundTasks) {
		s.send(0, &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: &scheduler.Call_Reconcile{Tasks: some}}, nil)
	}
}

// ask asks for all tasks of which nothing was heard in this session.
func (d *driver) ask(s *session) bool {
	var unheard []*run
	for _, r := range d.runs {
		if r.placed && !r.accepting && !r.ended() && r.heard != s {
			unheard = append(unheard, r)
		}
	}
	slices.SortFunc(unheard, func(a, b *run) int { return a.record.Run.Compare(b.record.Run) })
	var tasks []scheduler.Call_Reconcile_Task
	for _, r := range unheard {
		for _, task := range r.tasks() {
			tasks = append(tasks, scheduler.Call_Reconcile_Task{TaskID: api.TaskID{Value: task}, AgentID: &api.AgentID{Value: r.record.Agent}})
		}
	}
	s.reconcileTasks(tasks)
	return len(tasks) > 0
}

// Pauses of the keeper.
const (
	keepEvery  = time.Second
	reportRest = 100 * time.Millisecond // between two reports of all hosts
)

// keep does what time calls for, until the driver is closed.
func (d *driver) keep() {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
			ticked = true
		case <-d.wake:
		}
		d.mu.Lock()
		if d.sink != nil {
			now := time.Now()
			if ticked || d.overdue {
				d.housekeeping(now)
			}
			if len(d.touched) > 0 {
				d.reportHosts(false)
			}
		}
		d.mu.Unlock()
		if pauseFor(d.ctx, reportRest) != nil {
			return
		}
	}
}

// housekeeping goes through all that there is.
func (d *driver) housekeeping(now time.Time) {
	d.overdue = false
	for _, a := range d.agents {
		d.keepAgent(a, now)
	}
	s := d.session
	if s == nil {
		return
	}
	if !d.quiet && now.Sub(s.begun) >= agentReturns {
		d.dropUnseen(s)
	}
	d.reconcile(s, now)
	for _, r := range d.runs {
		if r.closing() && r.placed && !r.ended() && !r.killAt.IsZero() && !now.Before(r.killAt) {
			d.sendKill(s, r, r.record.Grace)
		}
	}
	d.keepOffers(s, now)
}

// keepAgent gives back launches that have waited too long, and stops counting on what was not offered in time.
func (d *driver) keepAgent(a *agent, now time.Time) {
	late, s := false, d.session
	for len(a.queue) > 0 && !now.Before(a.queue[0].deadline) && a.queue[0].status.At != 0 {
		why := "its resources were not offered in time: " + cmp.Or(a.queue[0].lacks, "there were no offers of its agent")
		if s == nil {
			why = "there is no connection to a Mesos master"
		}
		late = s != nil && a.queue[0].deadline.Sub(s.begun) >= d.config.OfferWait // else it did not wait for offers only
		d.refuse(a.queue[0], why)
	}
	if len(a.resting) > 0 && (late || !d.quiet && !now.Before(a.restUntil)) {
		a.resting = nil
		d.touch(a)
	}
	if len(a.queue) > 0 && s != nil {
		d.demandFor(s, a) // when it began to wait that may have been too soon after the last time
	}
	if a.maintenance != nil {
		d.touch(a) // it comes nearer
	}
}

// agentReturns is how long after a subscription the agents have to be heard of: those of a new master must find it first.
const agentReturns = 2 * time.Minute

// dropUnseen gives up the agents of which nothing is heard in a session: what became of them while there was none nobody tells. Of
// an agent that is there all that is free has been offered, and its tasks are asked for.
func (d *driver) dropUnseen(s *session) {
	for _, a := range d.agents {
		if a.seen != s && len(a.runs) == 0 {
			d.loseAgent(a)
		}
	}
}

// lookEvery is after how long it is looked at what there is while offers are suppressed: until then nobody tells of an agent that is
// new, or of what others have freed.
const lookEvery = time.Minute

// keepOffers declines what was held too long and what lies on agents near their maintenance, and suppresses offers while
// nothing is launched.
func (d *driver) keepOffers(s *session, now time.Time) {
	idle := now.Sub(d.launched) >= d.config.IdleAfter && !now.Before(d.lookUntil)
	var ids, closed []api.OfferID
	for _, o := range d.offers {
		closing := o.agent.closing(now, d.config.MaintenanceLead)
		if len(o.agent.queue) > 0 || !closing && !idle && now.Sub(o.since) < d.config.OfferHold {
			continue
		}
		d.dropOffer(o)
		if closing {
			closed = append(closed, api.OfferID{Value: o.id})
		} else {
			ids = append(ids, api.OfferID{Value: o.id})
			o.agent.rest(o.role, o.total, now, d.config.DeclineFor+d.config.OfferWait)
		}
		d.touch(o.agent)
	}
	s.declineAll(ids, d.config.DeclineFor)
	s.declineAll(closed, closedFilter)
	switch {
	case idle && !d.quiet:
		d.quiet, d.quietFrom = true, now
		s.send(0, &scheduler.Call{Type: scheduler.Call_SUPPRESS}, nil)
	case d.quiet && now.Sub(d.quietFrom) >= lookEvery:
		d.demand(s)
	}
}

// declineAll declines offers of all agents.
func (s *session) declineAll(ids []api.OfferID, d time.Duration) {
	slices.SortFunc(ids, func(a, b api.OfferID) int { return cmp.Compare(a.Value, b.Value) })
	for some := range slices.Chunk(ids, roundTasks) {
		s.send(0, decline(some, d), nil)
	}
}
