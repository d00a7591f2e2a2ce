package mesos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// run is what the driver knows of one run. From the moment that it is recorded it is reported to the sink, once for each
// change; it is forgotten when it is released.
type run struct {
	record *runRecord
	need   quantity
	agent  *agent              // nil once it has ended
	launch *hostmgr.Launch     // until it is accepted
	status hostmgr.Status      // At is 0 while it is being recorded
	early  *ending             // how it ends as soon as it is recorded; nil if it does not
	failed error               // why it could not be recorded
	done   chan struct{}       // closed when it is recorded, or has failed
	states []cluster.TaskState // of its members

	placed     bool      // an ACCEPT was made for it, by this driver or an earlier one
	accepting  bool      // that ACCEPT is on its way
	uncertain  bool      // that ACCEPT may not have arrived, and no update has come
	deadline   time.Time // while it waits for resources
	lacks      string    // what the offers lacked that were there
	unprepared string    // why its volumes could not be made
	again      bool      // they may be made at the next attempt
	heard      *session  // the last one in which it was heard of
	vague      time.Time // when Mesos first said that it, or a member of it, has ended, and not how

	killAt    time.Time // when KILL is sent again
	killTries int
	dying     time.Time // since when its executor gives it the grace that it has now; zero: the executor has not said that it ends it

	durable  bool // the status is durable with the scheduler
	awaiting []receipt
	checks   map[int]opinion // of its members, as far as is known
	health   cluster.Health  // as it was last reported
}

// opinion is what the checks of one member say.
type opinion struct {
	health cluster.Health
	why    string
}

// receipt is an update that is acknowledged to Mesos when what it changed is durable.
type receipt struct {
	agent, task string
	uuid        []byte
}

func (r *run) ended() bool { return r.status.State.Terminal() }

func (r *run) members() int { return max(1, len(r.record.Members), len(r.record.Found)) }

// tasks lists the ids of its Mesos tasks that have not ended.
func (r *run) tasks() (ids []string) {
	for member := range r.members() {
		if !slices.ContainsFunc(r.record.Ended, func(x ending) bool { return x.Member == member }) {
			ids = append(ids, r.task(member))
		}
	}
	return ids
}

// task returns the id of the Mesos task of a member.
func (r *run) task(member int) string {
	if len(r.record.Found) > 0 {
		return r.record.Found[member]
	}
	return taskID(r.record.Run, member, r.members())
}

// newRun returns a run for a record.
func newRun(record *runRecord) *run {
	r := &run{
		record: record, done: make(chan struct{}), checks: map[int]opinion{},
		need: needOfRun(record.Resources, record.Revocable, record.Ports, len(record.Members)),
	}
	r.states = make([]cluster.TaskState, r.members())
	for _, e := range record.Ended {
		r.states[e.Member] = cluster.TaskRunning // no longer what the others wait for
	}
	return r
}

// adoptRecord takes in a run of an earlier incarnation. Whether it was accepted is found out by reconciliation.
func (d *driver) adoptRecord(record *runRecord) {
	r := newRun(record)
	close(r.done)
	r.placed = true
	d.runs[record.Run] = r
	r.status = hostmgr.Status{Run: record.Run, Host: record.Host, State: cluster.TaskLaunching, ExitCode: -1, At: record.At}
	if record.Status.At != 0 {
		r.status = record.Status
	}
	switch {
	case r.ended():
		return
	case d.framework == "":
		d.endedBefore(r, ending{
			State: cluster.TaskLost, ExitCode: -1, Reason: cluster.ReasonHostLost, Message: "the framework that it ran in was given up",
		})
		return
	case d.agents[record.Agent] == nil && d.byName[record.Host] != nil: // its agent had been forgotten, and so its end was known
		d.endedBefore(r, succession)
		return
	}
	d.bind(r)
}

// endedBefore ends a run of an earlier incarnation, of which Mesos knows nothing any more.
func (d *driver) endedBefore(r *run, e ending) {
	e.At = cluster.Time(time.Now().UnixNano())
	r.record.Status = e.status(r.status)
	r.status = r.record.Status
	d.writeLater(write{run: r.record.copy()})
}

// bind makes a run known at its agent, which may be known by this only. Then it has the name that is recorded with the run, unless
// that is its id, for want of a name, or another agent has come in its place.
func (d *driver) bind(r *run) {
	a := d.agents[r.record.Agent]
	if a == nil {
		name := r.record.Host
		if name == r.record.Agent || d.byName[name] != nil {
			name = ""
		}
		a = d.newAgent(agentRecord{ID: r.record.Agent, Name: name})
		a.lost = true
	}
	r.agent = a
	a.runs[r.record.Run] = r
	d.touch(a)
}

// report makes a status the run's, and tells the sink. The status follows the one before.
func (d *driver) report(r *run, s hostmgr.Status) {
	r.status, r.durable = s, false
	if d.sink != nil {
		d.sink.ReportStatus(s)
	}
}

// finish ends a run, and records how: its agent may be forgotten with it. What it used is expected to be offered soon. One that is being
// recorded only stops waiting for resources: it must be known to have been launching before it can be known to have ended, so it ends
// when that is on disk.
func (d *driver) finish(r *run, e ending) {
	if r.status.At == 0 {
		r.agent.unqueue(r)
		if r.early == nil {
			r.early = &e
		}
		return
	}
	if a := r.agent; a != nil {
		if r.placed && !a.lost {
			a.rest(cmp.Or(r.record.Role, d.config.Roles[0]), r.need, time.Now(), d.config.OfferWait)
		}
		d.detach(r)
	}
	r.agent, r.launch, r.killAt = nil, nil, time.Time{}
	if e.At == 0 {
		e.At = cluster.Time(time.Now().UnixNano())
	}
	r.record.Status = e.status(r.status)
	d.writeLater(write{run: r.record.copy()})
	d.report(r, r.record.Status)
}

// detach takes a run from its agent, which may be forgotten with its last run if it is lost.
func (d *driver) detach(r *run) {
	a := r.agent
	delete(a.runs, r.record.Run)
	a.unqueue(r)
	d.touch(a)
	d.leave(a)
	if a.lost && a.forgettable() {
		d.forget(a)
	}
}

// unqueue ends a run's wait for resources.
func (a *agent) unqueue(r *run) {
	a.queue = slices.DeleteFunc(a.queue, func(q *run) bool { return q == r })
}

// refuse gives back a launch that waits for resources.
func (d *driver) refuse(r *run, why string) {
	e := ending{State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchRefused, Message: why}
	if r.record.Killed {
		e.State, e.Reason = cluster.TaskKilled, cluster.ReasonNone
	}
	d.finish(r, e)
}

// update takes in the status of a task.
func (d *driver) update(s *session, u *api.TaskStatus, now time.Time) {
	id, member, err := parseTaskID(u.TaskID.Value)
	agentID := u.GetAgentID().GetValue()
	slip := receipt{agent: agentID, task: u.TaskID.Value, uuid: u.UUID}
	d.config.Log.Debug("update", "task", u.TaskID.Value, "says", explain(u), "acknowledged", len(u.UUID) > 0)
	if a := d.agents[agentID]; a != nil && goneAgent(u) {
		a.Machine.Volumes = nil // nobody will ever have them
		d.loseAgent(a)
	}
	if u.TaskID.Value == anyTask {
		return
	}
	if err != nil {
		d.complain("a task that is not ours is killed", "task", u.TaskID.Value)
		d.acknowledge(s, slip)
		if _, lives := progressOf(u.GetState()); lives {
			s.send(laneOf(agentID), kill(u.TaskID.Value, agentID, 0), nil)
		}
		return
	}
	r := d.runs[id]
	if r == nil {
		if r = d.adopt(id, u, now); r == nil {
			d.acknowledge(s, slip)
			return
		}
	}
	if r.status.At == 0 {
		d.complain("a task is told of before it was launched, and is looked at when that is told again", "task", u.TaskID.Value)
		return
	}
	if len(r.record.Fingerprint) == 0 && len(r.record.Members) == 0 { // not launched by us, as far as we know
		member = d.found(r, u.TaskID.Value, now)
	}
	r.heard = s
	if u.GetState() == api.TASK_UNREACHABLE {
		r.heard = nil // an agent that comes back without the task says nothing, so it is asked again
		s.rounds.soon(now)
	}
	if a := d.agents[agentID]; a != nil && d.tellsOfNoAgent(s, u, now) {
		d.loseAgent(a)
	} else if a != nil && u.GetState() == api.TASK_KILLING {
		d.foundAgent(a)
		if r.closing() && !r.ended() && r.dying.IsZero() {
			r.dying, r.killAt = now, now.Add(max(r.record.Grace, 0)+minKillPause)
		}
	}
	if member >= r.members() {
		d.complain("a task has more members than were launched", "task", u.TaskID.Value)
	} else if state, lives := progressOf(u.GetState()); lives {
		d.lives(s, r, member, state, u, now)
	} else if c := r.circumstances(member); vague(u, c) && !r.ended() && r.mayTellMore(now) {
		r.heard = nil
		s.rounds.soon(now)
	} else if unknown(u) && !r.ended() && d.mayReturn(s, r.record.Agent, now) {
		r.heard = nil
		s.rounds.soon(now)
	} else if end, over := endOf(u, c); over {
		if r.uncertain && end.State == cluster.TaskLost {
			end.State, end.Reason = cluster.TaskFailed, cluster.ReasonLaunchRefused // it never arrived
		}
		if r.unprepared != "" && u.GetState() == api.TASK_ERROR {
			end.Message = r.unprepared + "; " + end.Message
		}
		if r.again && u.GetState() == api.TASK_ERROR {
			end.Reason = cluster.ReasonLaunchRefused
		}
		if end.State == cluster.TaskFailed && end.Reason != cluster.ReasonLaunchRefused && member < len(r.record.Members) {
			end.Message = fmt.Sprintf("process %q: %s", r.record.Members[member], end.Message)
		}
		end.Member = member
		d.memberEnded(s, r, end, now)
	}
	d.receipt(s, r, slip)
}

func (r *run) circumstances(member int) circumstances {
	seen := max(r.status.State, r.states[member])
	return circumstances{r.record.Killed, r.status.State > cluster.TaskLaunching, seen >= cluster.TaskRunning}
}

// agentRepeats is longer than an agent waits before it repeats an update that was not acknowledged, the first time. After a
// subscription, or when it is back, it does so at once.
const agentRepeats = 15 * time.Second

// mayTellMore takes in that a run has ended, nobody knows how, and reports whether its agent may still say so.
func (r *run) mayTellMore(now time.Time) bool {
	if r.vague.IsZero() {
		r.vague = now
	}
	return now.Sub(r.vague) < agentRepeats
}

// mayReturn reports whether a master that knows nothing of an agent may still hear of it: one that leads without what the one before had
// written down, since its registry is in memory, does not wait for agents before it answers.
func (d *driver) mayReturn(s *session, agentID string, now time.Time) bool {
	a := d.agents[agentID]
	return now.Sub(s.begun) < agentReturns && (a == nil || a.seen != s)
}

// tellsOfNoAgent reports whether a status says that the master has no contact with the task's agent, which it tells once when that ends,
// and to nobody who was not there.
func (d *driver) tellsOfNoAgent(s *session, u *api.TaskStatus, now time.Time) bool {
	switch {
	case u.GetState() == api.TASK_UNREACHABLE:
		return true
	case unknown(u):
		return !d.mayReturn(s, u.GetAgentID().GetValue(), now)
	}
	return false
}

// adopt takes in a task that Mesos knows and we do not: the scheduler knows what is to become of it. An answer that
// nobody knows the task is no news.
func (d *driver) adopt(id cluster.RunID, u *api.TaskStatus, now time.Time) *run {
	_, lives := progressOf(u.GetState())
	if !lives && len(u.UUID) == 0 {
		return nil
	}
	agentID := u.GetAgentID().GetValue()
	if agentID == "" {
		d.complain("an update of a task that is not known names no agent, and is left out", "task", u.TaskID.Value)
		return nil
	}
	host := agentID // that of an agent without a name
	if a := d.agents[agentID]; a != nil && a.Name != "" {
		host = a.Name
	}
	record := &runRecord{Run: id, Host: host, Agent: agentID, At: cluster.Time(now.UnixNano())}
	r := newRun(record)
	close(r.done)
	r.placed = true
	d.runs[id] = r
	d.bind(r)
	d.config.Log.Info("found a task that was not known", "run", id, "host", host)
	d.report(r, hostmgr.Status{Run: id, Host: host, State: cluster.TaskLaunching, ExitCode: -1, At: record.At})
	return r
}

// found returns which member a Mesos task is of a run that was adopted. One that was not seen before is one more: how many there
// are, and how they are numbered, nobody tells. If the others are being killed that one must be, too.
func (d *driver) found(r *run, task string, now time.Time) int {
	member := slices.Index(r.record.Found, task)
	switch {
	case r.ended():
		return 0
	case member >= 0:
		return member
	}
	r.record.Found = append(r.record.Found, task)
	r.states = append(r.states, cluster.TaskLaunching)[:len(r.record.Found)]
	if r.closing() {
		r.killAt = now
	}
	if r.record.Status.At != 0 { // it is in the store
		d.writeLater(write{run: r.record.copy()})
	}
	return len(r.record.Found) - 1
}

// lives takes in that a member of a run lives.
func (d *driver) lives(s *session, r *run, member int, state cluster.TaskState, u *api.TaskStatus, now time.Time) {
	if r.ended() {
		d.config.Log.Info("a copy of a task that has ended came back, and is killed", "run", r.record.Run)
		s.send(laneOf(u.GetAgentID().GetValue()), kill(u.TaskID.Value, u.GetAgentID().GetValue(), 0), nil)
		return
	}
	if a := d.agents[u.GetAgentID().GetValue()]; a != nil {
		d.foundAgent(a)
	}
	r.uncertain = false
	r.states[member] = max(r.states[member], state)
	slowest := slices.Min(r.states)
	if r.status.State.CanBecome(slowest) {
		at := max(r.status.At, timeOf(u))
		d.report(r, hostmgr.Status{Run: r.record.Run, Host: r.record.Host, State: slowest, ExitCode: -1, At: at})
		if slowest == cluster.TaskRunning {
			r.record.Status = r.status
			d.writeLater(write{run: r.record.copy()})
			for _, name := range r.record.Volumes { // also those that were made for it
				if !r.agent.keeps(name) {
					d.keepAndWrite(r.agent, cluster.HeldVolume{Name: name, Bytes: d.config.VolumeBytes})
				}
			}
		}
	}
	if health, why := healthOf(u); health != cluster.HealthUnknown {
		r.checks[member] = opinion{health, why}
	}
	if all := r.conclude(); all.health != cluster.HealthUnknown && all.health != r.health && r.status.State == cluster.TaskRunning {
		r.health = all.health
		if d.sink != nil {
			d.sink.ReportHealth(hostmgr.Health{Run: r.record.Run, Health: all.health, Message: all.why, At: cluster.Time(now.UnixNano())})
		}
	}
}

// conclude returns the health of a run: the worst of its members that live, and nothing as long as one may still be worse than what is
// known.
func (r *run) conclude() (worst opinion) {
	open := false
	for member := range r.members() {
		if slices.ContainsFunc(r.record.Ended, func(x ending) bool { return x.Member == member }) {
			continue
		}
		said, known := r.checks[member]
		open = open || !known && member < len(r.record.Checked) && r.record.Checked[member]
		if said.health > worst.health {
			worst = said
		}
	}
	if open && worst.health == cluster.HealthReady {
		return opinion{}
	}
	return worst
}

// memberEnded takes in that a member of a run has ended. The run ends with the last of them; when its main process has
// ended, or one has failed, the others are killed.
func (d *driver) memberEnded(s *session, r *run, e ending, now time.Time) {
	again := slices.ContainsFunc(r.record.Ended, func(x ending) bool { return x.Member == e.Member })
	if r.ended() || again {
		return
	}
	if e.At == 0 {
		e.At = cluster.Time(now.UnixNano())
	}
	r.record.Ended = append(r.record.Ended, e)
	r.states[e.Member] = cluster.TaskRunning // no longer what the others wait for
	if len(r.record.Ended) == r.members() {
		d.finish(r, combined(r.record.Ended, r.record.Main, r.record.Killed))
		return
	}
	d.writeLater(write{run: r.record.copy()})
	if r.endsAll(e) {
		d.sendKill(s, r, r.record.Grace)
	}
}

// endsAll reports whether the other members of a run end with one that has ended so.
func (r *run) endsAll(e ending) bool {
	return e.State != cluster.TaskSucceeded || e.Member < len(r.record.Main) && r.record.Main[e.Member]
}

// closing reports whether what lives of a run is to end. A KILL may be lost, also behind the master that took it.
func (r *run) closing() bool {
	return r.record.Killed || slices.ContainsFunc(r.record.Ended, r.endsAll)
}

// receipt acknowledges an update: at once if all that is known of the run is durable, else when it will be.
func (d *driver) receipt(s *session, r *run, slip receipt) {
	switch {
	case len(slip.uuid) == 0:
	case r.durable && !r.ended() && len(r.record.Ended) == 0:
		d.acknowledge(s, slip)
	case r.durable:
		d.writeLater(write{then: []receipt{slip}}) // behind the write of the end, be it that of a member only
	case !slices.ContainsFunc(r.awaiting, func(x receipt) bool { return slices.Equal(x.uuid, slip.uuid) }):
		r.awaiting = append(r.awaiting, slip)
	}
}

// acknowledge tells Mesos that an update need not be repeated.
func (d *driver) acknowledge(s *session, slips ...receipt) {
	for _, slip := range slips {
		if s == nil || len(slip.uuid) == 0 {
			continue
		}
		s.send(laneOf(slip.agent), &scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
			AgentID: api.AgentID{Value: slip.agent}, TaskID: api.TaskID{Value: slip.task}, UUID: slip.uuid,
		}}, nil)
	}
}

// Durable implements [hostmgr.Acknowledger].
func (d *driver) Durable(s hostmgr.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[s.Run]
	if r == nil || r.status.State != s.State {
		return // of an earlier status
	}
	d.settle(r)
}

// settle takes in that the run's status is durable with the scheduler. The end of a run is durable here, too, before Mesos
// is told that it may forget it.
func (d *driver) settle(r *run) {
	r.durable = true
	slips := r.awaiting
	r.awaiting = nil
	switch {
	case r.ended() || len(r.record.Ended) > 0:
		d.writeLater(write{then: slips}) // behind that of the end
	default:
		d.acknowledge(d.session, slips...)
	}
}

// Release implements [hostmgr.Driver].
func (d *driver) Release(id cluster.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil || !r.ended() {
		return
	}
	delete(d.runs, id)
	d.writeLater(write{drop: id.String(), then: r.awaiting})
}

// Kill implements [hostmgr.Driver]. The call is repeated until Mesos says that the task has ended.
func (d *driver) Kill(_ context.Context, id cluster.RunID, grace time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	switch {
	case !d.started:
		return errClosed
	case r == nil || r.status.At == 0 && r.failed != nil:
		return fmt.Errorf("%w: %v", hostmgr.ErrUnknownRun, id)
	case r.ended():
		return nil
	case !r.record.Killed || grace < r.record.Grace:
		r.record.Killed, r.record.Grace = true, grace
	default:
		return nil
	}
	if r.status.At == 0 {
		return nil // being recorded; Launch sees it
	}
	d.writeLater(write{run: r.record.copy()})
	if !r.placed {
		d.finish(r, ending{State: cluster.TaskKilled, ExitCode: -1, Message: "killed before it was launched"})
		return nil
	}
	r.killTries = 0
	if !r.dying.IsZero() {
		r.dying = time.Now()
	}
	d.sendKill(d.session, r, grace)
	return nil
}

// Bounds of the pause between two calls to kill the same run.
const (
	minKillPause = 5 * time.Second
	maxKillPause = time.Minute
)

// sendKill asks Mesos to end the members of a run that have not ended. What has not long after its grace is ended with its executor, which
// gives it another grace than was asked for: not all go by that of a KILL.
func (d *driver) sendKill(s *session, r *run, grace time.Duration) {
	now := time.Now()
	overdue := !r.dying.IsZero() && now.Sub(r.dying) >= max(grace, 0)+minKillPause
	r.killAt = now.Add(max(grace, 0) + min(minKillPause<<min(r.killTries, 4), maxKillPause))
	r.killTries++
	if s == nil {
		return // the next session does it
	}
	for _, task := range r.tasks() {
		s.send(laneOf(r.record.Agent), kill(task, r.record.Agent, grace), nil)
	}
	if overdue {
		s.send(laneOf(r.record.Agent), &scheduler.Call{Type: scheduler.Call_SHUTDOWN, Shutdown: &scheduler.Call_Shutdown{
			ExecutorID: api.ExecutorID{Value: r.record.Run.String()}, AgentID: api.AgentID{Value: r.record.Agent}, // also of a single process
		}}, nil)
	}
}

func kill(task, agentID string, grace time.Duration) *scheduler.Call {
	k := &scheduler.Call_Kill{
		TaskID: api.TaskID{Value: task}, KillPolicy: &api.KillPolicy{GracePeriod: &api.DurationInfo{Nanoseconds: int64(max(0, grace))}},
	}
	if agentID != "" {
		k.AgentID = &api.AgentID{Value: agentID}
	}
	return &scheduler.Call{Type: scheduler.Call_KILL, Kill: k}
}
