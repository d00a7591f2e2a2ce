package pool

import (
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Group is tasks of one leaf that admission cannot tell apart. The caller decides how finely a queue is cut.
// Age is exact between groups and not within one. Limits of jobs, and fairness between jobs or users, need
// groups of a single job or user.
type Group struct {
	Job    cluster.JobUID // 0 where the tasks belong to several jobs
	User   string         // owner of the job
	Groups []string       // of the owner

	Priority int32
	Queued   cluster.Time      // when its first waiting task began to wait
	Worth    int64             // among groups of one rank that wait equally long, the greater goes first
	Head     cluster.TaskKey   // its next task; among groups equal so far, the lower goes first
	Ahead    bool              // goes before others of its priority, as what was preempted does
	Request  cluster.Resources // of one task

	// Running counts the tasks that hold room: they run, are about to, leave already, or have room kept for
	// them. Waiting counts those that want some.
	Running, Waiting int64
	// Leaving counts tasks that are still on hosts and leave. Their job runs until they are gone. They have
	// their part of what the job may run, whoever is more urgent. Those that will wait again are Waiting.
	Leaving int64
	// Core counts the Waiting that are admitted together with the cores of all groups of the same job, or not
	// at all.
	Core int64
	// Behind: nobody of the core of the job has begun, and this group starts after the core.
	Behind bool
	// Passed: the group claims like others and is granted nothing, since there is no host for it now. What
	// its pool or a limit may let in goes to those next in its order.
	Passed bool
	// NoHost: the group could start on no host, whoever were asked to leave it. Where limits count or bound
	// what runs, it comes last.
	NoHost bool

	Preemptible bool // if not, it runs only inside the reservation, where somebody reserves anything
	Revocable   bool // it runs only on slack
	Controller  bool // controller tasks, which the pools' limits may bound
	// MaxRunning bounds the running tasks of the job, over all its groups; 0 is no limit. ForCore of these
	// are kept for the core of the job; other groups have the rest.
	MaxRunning, ForCore int64
	// MaxRunTime ends a run, 0 if nothing does.
	MaxRunTime time.Duration
	// RunningUntil is by when all of Running have ended, by their run-time limits; 0 if that is not known.
	RunningUntil cluster.Time
}

// Same reports whether admission cannot tell the two apart.
func (g *Group) Same(h *Group) bool {
	return g.Head == h.Head && g.Job == h.Job && g.Running == h.Running && g.Waiting == h.Waiting && g.Leaving == h.Leaving && g.Core == h.Core &&
		g.Passed == h.Passed && g.Behind == h.Behind && g.NoHost == h.NoHost && g.Ahead == h.Ahead && g.Queued == h.Queued && g.Worth == h.Worth &&
		g.Priority == h.Priority && g.Preemptible == h.Preemptible && g.Revocable == h.Revocable && g.Controller == h.Controller &&
		g.MaxRunning == h.MaxRunning && g.ForCore == h.ForCore && g.MaxRunTime == h.MaxRunTime && g.RunningUntil == h.RunningUntil &&
		g.Request.Equal(h.Request) && g.User == h.User && slices.Equal(g.Groups, h.Groups)
}

// Grant is what admission decided for a group.
type Grant struct {
	// Running and Waiting count tasks by tier. Running tasks are always admitted: what exceeds every bound is
	// borrowed.
	Running, Waiting [cluster.NumTiers]int64
	Refused          int64 // waiting tasks that get no tier
	// Why names what keeps some of the waiting tasks from the tiers reserved and entitled; zero if nothing does.
	Why Binding
}

// Admitted returns how many waiting tasks have a tier.
func (g *Grant) Admitted() int64 {
	var n int64
	for _, w := range g.Waiting {
		n += w
	}
	return n
}

// Rule is a kind of bound that keeps tasks from being admitted, or lets them borrow only.
type Rule string

// The rules.
const (
	RuleNone         Rule = ""
	RuleEntitlement  Rule = "ENTITLEMENT"            // the pool is not entitled to more of the dimension
	RuleReservation  Rule = "RESERVATION"            // not preemptible, and the reservation has no more of the dimension
	RuleLimit        Rule = "LIMIT"                  // the pool, or one above it, is at its limit in the dimension
	RuleStatic       Rule = "STATIC_RESERVATION"     // the rest of the dimension is claimed, or kept free for those who never lend it
	RuleSlack        Rule = "SLACK"                  // revocable, and no slack is left in the dimension
	RuleRevocable    Rule = "REVOCABLE_LIMIT"        // revocable tasks of the pool, and below it, may have no more of the dimension
	RuleHead         Rule = "HEAD_OF_QUEUE"          // room in the dimension is kept for a unit that was there before
	RuleGang         Rule = "GANG"                   // the core of its job goes first, as a whole
	RuleMaxRunning   Rule = "MAX_RUNNING_INSTANCES"  // of its job
	RuleController   Rule = "CONTROLLER_LIMIT"       // controller tasks have used up their part of the reservation
	RuleRunningJobs  Rule = "RUNNING_JOBS"           // of the pool
	RuleRunningUser  Rule = "RUNNING_JOBS_PER_USER"  // of the pool, for the owner
	RuleRunningGroup Rule = "RUNNING_JOBS_PER_GROUP" // of the pool, for one of the owner's groups
)

// lent reports whether the rule bounds what may be borrowed.
func (r Rule) lent() bool { return r == RuleLimit || r == RuleStatic }

// Binding is what binds: a rule, the pool that it belongs to, and the dimension where the rule has one.
type Binding struct {
	Rule      Rule
	Pool      cluster.PoolPath
	Dimension string // as in cluster.PoolResource
}
