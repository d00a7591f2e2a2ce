// Package check judges a history: it reads the records of a journal beside the list of the machines that truly exist, and
// says what should never have happened.
//
// It shares no code with what it judges. The types of package cluster are its vocabulary, but sums, fits, constraints and
// devices are worked out anew here, in the plainest way, so that one mistake cannot hide behind itself.
//
// A [Checker] is fed every record in order ([Checker.Record]) and every start of a process ([Checker.Started]). Two
// questions can only be asked at certain moments: [Checker.Quiet], when the scheduler had the chance to place everything
// that fits, and [Checker.Settled], when no message is on its way any more.
package check

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Rule names what was broken.
type Rule string

// The rules.
const (
	// Sequence: records without gaps, times that never fall.
	Sequence Rule = "SEQUENCE"
	// Life: nothing happens to what does not exist, is not bound, or has ended.
	Life Rule = "LIFE"
	// Once: a task has one run at a time, and a run starts once.
	Once Rule = "ONCE"
	// TakesWork: a placement names a host that is there, reachable and not draining.
	TakesWork Rule = "TAKES_WORK"
	// Constraint: a placement satisfies the job's constraint.
	Constraint Rule = "CONSTRAINT"
	// Exclusive: a host that is kept for jobs that name it runs no others.
	Exclusive Rule = "EXCLUSIVE"
	// HostPool: a task runs on a host with the labels that its pool and those above it ask for.
	HostPool Rule = "HOST_POOL"
	// Spread: no more tasks of a selection are in a domain than the job allows.
	Spread Rule = "SPREAD"
	// Preference: a preference holds until it gives way.
	Preference Rule = "PREFERENCE"
	// Capacity: what is bound to a host fits into the machine, in every dimension a task asks for.
	Capacity Rule = "CAPACITY"
	// Devices: a run has just the devices it asked for, of the right model, none beyond a whole.
	Devices Rule = "DEVICES"
	// Ports: a run has just the ports it asked for, of those that the machine gives, and none that another run has.
	Ports Rule = "PORTS"
	// Capability: a task is where all that it needs can be done.
	Capability Rule = "CAPABILITY"
	// Gang: the core of a gang is placed whole, and asked to leave whole.
	Gang Rule = "GANG"
	// Reservation: nothing is placed into room that is held for another task, and only what may be preempted is preempted.
	Reservation Rule = "RESERVATION"
	// Slack: revocable tasks have only what others were measured to leave unused of what they hold, or what is free.
	Slack Rule = "SLACK"
	// Plan: a cycle's plan is true to its snapshot. Somebody else looks; see Checker.Plan.
	Plan Rule = "PLAN"
	// Limit: no pool has more than its limit of anything when a task starts that asks for it, those that leave included.
	Limit Rule = "LIMIT"
	// Availability: nothing voluntary takes more of a service away than its job bears.
	Availability Rule = "AVAILABILITY"
	// Mode: nothing is placed while scheduling is switched off, and nobody is asked to leave while killing is.
	Mode Rule = "MODE"
	// Idle: at a quiet moment nothing waits that fits.
	Idle Rule = "IDLE"
	// Stuck: when all is settled no task is between two states.
	Stuck Rule = "STUCK"
)

// Violation is one broken rule.
type Violation struct {
	Rule    Rule         `json:"rule"`
	Seq     uint64       `json:"seq"` // of the record, or of the last one before the question
	At      cluster.Time `json:"at"`
	Message string       `json:"message"`
}

// String says it in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at record %d: %s", v.Rule, v.Seq, v.Message)
}

// kept is how many violations are kept in full; the others are counted. The first ones tell most.
const kept = 100

// Checker follows one history. It keeps references to the events, which must not be modified.
type Checker struct {
	truth map[cluster.HostID]cluster.Machine // nil: what is reported is the truth

	seq    uint64
	at     cluster.Time
	mode   cluster.Mode
	hosts  map[cluster.HostID]*host
	jobs   map[cluster.JobUID]*job
	starts map[cluster.RunID]struct{} // of jobs that exist

	pools    map[cluster.PoolPath]*account
	reserves bool                       // some pool reserves something
	there    map[string]int64           // at the last look, see capacity
	short    map[string]bool            // of what more is reserved than there is, at the quiet moment
	waits    map[cluster.PoolPath]*line // at the quiet moment

	waiting   int // tasks
	bound     int // tasks
	borrowers int // revocable ones of those

	forming, leaving *job            // whose core the records before were about
	moving           cluster.TaskKey // has just ended, with room kept for its next run; 0 if there is none

	violations []Violation
	count      int
}

// New returns a checker before any record. truth holds the machines that exist; with nil, what hosts report is believed.
func New(truth map[cluster.HostID]cluster.Machine) *Checker {
	return &Checker{
		truth:  truth,
		hosts:  map[cluster.HostID]*host{},
		jobs:   map[cluster.JobUID]*job{},
		pools:  map[cluster.PoolPath]*account{},
		starts: map[cluster.RunID]struct{}{},
	}
}

// Violations returns the first violations, at most 100, in the order in which they were found.
func (c *Checker) Violations() []Violation { return c.violations }

// Count returns how many violations there were.
func (c *Checker) Count() int { return c.count }

// Compare asks whether the scheduler's own state, in which so many tasks wait and are bound, agrees with the records.
func (c *Checker) Compare(waiting, bound int) {
	if waiting != c.waiting || bound != c.bound {
		c.report(Life, "the state has %d tasks waiting and %d bound, the records say %d and %d", waiting, bound, c.waiting, c.bound)
	}
}

// Plan takes in what somebody else found wrong with a plan before it was carried out.
func (c *Checker) Plan(wrong []string) {
	for _, w := range wrong {
		c.report(Plan, "%s", w)
	}
}

func (c *Checker) report(rule Rule, format string, args ...any) {
	c.count++
	if len(c.violations) < kept {
		c.violations = append(c.violations, Violation{rule, c.seq, c.at, fmt.Sprintf(format, args...)})
	}
}

// Record takes in the next record.
func (c *Checker) Record(r cluster.Record) {
	if r.Seq != c.seq+1 {
		c.report(Sequence, "record %d follows record %d", r.Seq, c.seq)
	}
	if r.At < c.at {
		c.report(Sequence, "record %d is of an earlier time than the one before", r.Seq)
	}
	c.seq, c.at = r.Seq, r.At
	c.whole(r.Event)
	c.goesOn(r.Event)
	switch e := r.Event.(type) {
	case *cluster.ClusterCreated:
	case *cluster.ModeSet:
		c.mode = e.Mode
	case *cluster.PoolPut:
		c.putPool(&e.Pool)
	case *cluster.PoolDeleted:
		c.putPool(&cluster.Pool{Path: e.Path}) // it had no jobs
	case *cluster.JobsSubmitted:
		for i := range e.Jobs {
			c.submit(&e.Jobs[i])
		}
	case *cluster.JobUpdated:
		c.update(e)
	case *cluster.UpdateAdvanced:
		c.advance(e)
	case *cluster.TaskUpdated:
		c.updateTask(e)
	case *cluster.JobStopping:
		c.stopJob(e.Job)
	case *cluster.JobDeleted:
		c.deleteJob(e.Job)
	case *cluster.Placed:
		c.place(e)
	case *cluster.TaskStatus:
		c.status(e)
	case *cluster.TaskStopping:
		c.stop(e)
	case *cluster.TaskRequeued:
		c.requeue(e)
	case *cluster.TaskReleased:
		c.wake(e.Task)
	case *cluster.InstanceAdded:
		c.addInstance(e)
	case *cluster.InstanceRemoved:
		c.leave(e.Task)
	case *cluster.CopyAdded:
		c.addCopy(e)
	case *cluster.CopyWon:
		c.winCopy(e.Task)
	case *cluster.HomeForgotten:
		if t := c.task(e.Task); t != nil && t.state == held {
			c.release(e.Task, t)
			c.waitsOn(e.Task, t)
		}
	case *cluster.JobReleased:
		c.releaseJob(e.Job)
	case *cluster.TaskHeld:
		c.hold(e)
	case *cluster.TaskPreempted:
		c.preempt(e)
	case *cluster.TaskHealth:
		if t := c.task(e.Task); t == nil || t.run != e.Run || !t.state.bound() {
			c.report(Life, "the health of run %d of task %v, which is not bound in that run", e.Run, e.Task)
		} else {
			t.health = e.Health
		}
	case *cluster.HostReported:
		c.reportHost(e)
	case *cluster.HostDrain:
		c.withHost(e.ID, func(h *host) { h.draining = e.Drain })
	case *cluster.HostUnreached:
		c.withHost(e.ID, func(h *host) { h.unreachable = true })
	case *cluster.SlackMeasured:
		c.measure(e)
	case *cluster.HostRemoved:
		c.removeHost(e.ID)
	case *cluster.NumbersForgotten:
		c.forgetNumbers()
	default:
		c.report(Life, "an event of type %T, which this checker cannot judge", e)
	}
}

// Started takes in that the process of a run has begun on its host.
func (c *Checker) Started(run cluster.RunID) {
	if _, again := c.starts[run]; again {
		c.report(Once, "run %v was started twice", run)
	}
	c.starts[run] = struct{}{}
	t := c.task(run.Task)
	switch {
	case t == nil:
		c.report(Life, "run %v was started, whose job does not exist", run)
	case run.Run > t.run:
		c.report(Life, "run %v was started and never placed", run)
	case run.Run == t.run && t.state == ended && !t.presumed:
		c.report(Once, "run %v was started after its end was recorded", run)
	}
}
