package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Reasons for which a task waits, beside those for which hosts are ruled out.
const (
	waitingForCycle = "NEXT_CYCLE"         // it began to wait after the last cycle
	waitingForMode  = "SCHEDULING_STOPPED" // an operator has switched scheduling off
	waitingForTruth = "RESTORED"           // the cluster was restored from a snapshot, and it is not known yet what runs
	waitingForHosts = "NO_HOSTS"           // no host manager has reported any
	waitingForJobs  = "DEPENDENCIES"       // its job waits for others
	waitingForRetry = "BACK_OFF"           // it failed, or its launch was given back again, and waits until it is tried anew
	waitingForHold  = "ROOM_HELD"          // it starts when those have left who leave for it
	waitingForHome  = "HOST_AWAY"          // it runs on one host only, which takes no work, or could not hold it
	waitingForRoom  = "NO_ROOM"            // hosts could take it, but are full
	waitingForFit   = "NO_HOST_FITS"       // no host could take it, even empty
)

// ExplainTask implements sluicev1.TaskServiceServer.
func (a *taskService) ExplainTask(ctx context.Context, r *sluicev1.ExplainTaskRequest) (*sluicev1.ExplainTaskResponse, error) {
	t, j, err := findTask(a.s.Snapshot(), r.Job, r.Instance)
	if err != nil {
		return nil, err
	}
	answer := &sluicev1.ExplainTaskResponse{Task: a.measuredTask(t, j), Preempted: explainPreempted(a.s.Snapshot(), t, callOf(ctx).who)}
	switch {
	case t.State.Terminal():
		answer.Explanation = &sluicev1.ExplainTaskResponse_Ended{Ended: &sluicev1.EndedExplanation{
			Reason: string(t.Reason), Message: t.Message,
		}}
		answer.Summary = summarizeEnd(t)
	case t.State.Bound():
		var why cycle.Placed
		if err := a.s.consult(ctx, func(p *cycle.Supervisor) { why, _ = p.WhyPlaced(t.Key) }); err != nil {
			return nil, statusOf(err)
		}
		placed := explainPlaced(t, &why)
		placed.Cycle, placed.Time = a.lastCycle()
		answer.Explanation = &sluicev1.ExplainTaskResponse_Placed{Placed: placed}
		answer.Summary = a.summarizeBound(t)
	default:
		var why cycle.Waiting
		waiting := explainBeforehand(a.s.Snapshot(), t, j)
		if waiting == nil {
			var known bool
			if err := a.s.consult(ctx, func(p *cycle.Supervisor) { why, known = p.WhyWaiting(t.Key) }); err != nil {
				return nil, statusOf(err)
			}
			waiting = explainWaiting(&why, known)
		}
		if waiting.Reason != waitingForMode && waiting.Reason != waitingForTruth {
			waiting.Cycle, waiting.Time = a.lastCycle()
		}
		answer.Explanation = &sluicev1.ExplainTaskResponse_Waiting{Waiting: waiting}
		answer.Summary = summarizeWaiting(waiting, why.Binding, t, j)
	}
	return answer, nil
}

// explainPreempted says for whom the task was asked to leave, as far as the caller may know; nil if it was not or has run again
// since.
func explainPreempted(snap *cluster.Snapshot, t *cluster.Task, who *access.Caller) *sluicev1.PreemptionExplanation {
	p := t.Preempted
	if p == nil || t.Placed > p.At {
		return nil
	}
	x := &sluicev1.PreemptionExplanation{CostMs: p.Price, Time: timestamppb.New(p.At.Go())}
	if who.MayKnow(snap, p.ForPool) {
		x.BeneficiaryPool = string(p.ForPool)
	}
	if j := snap.Job(p.For.Job()); j != nil && who.MaySee(snap, j) {
		x.BeneficiaryJob, x.BeneficiaryInstance = string(j.Spec.Name), p.For.Instance()
	}
	if p.NextHost != "" {
		x.Alternatives = []*sluicev1.VictimAlternative{{Host: string(p.NextHost), CostMs: p.Next}}
	}
	for _, o := range p.Further {
		x.Alternatives = append(x.Alternatives, &sluicev1.VictimAlternative{Host: string(o.Host), CostMs: o.Price})
	}
	return x
}

func (a *taskService) lastCycle() (uint64, *timestamppb.Timestamp) {
	last, _ := a.s.LastCycle()
	if last.Number == 0 {
		return 0, nil
	}
	return last.Number, timestamppb.New(last.At)
}

func explainPlaced(t *cluster.Task, why *cycle.Placed) *sluicev1.PlacedExplanation {
	p := &sluicev1.PlacedExplanation{Host: string(t.Host)}
	if why.Host != t.Host { // it came after the last cycle, or went
		return p
	}
	p.CostMs, p.Terms = int64(why.Price), termsTo(&why.Place)
	for i := range why.Next {
		n := &why.Next[i]
		p.Alternatives = append(p.Alternatives, &sluicev1.Alternative{Host: string(n.Host), CostMs: int64(n.Price), Terms: termsTo(n)})
	}
	return p
}

func termsTo(p *cycle.Place) []*sluicev1.CostTerm {
	var all []*sluicev1.CostTerm
	for _, t := range p.Terms {
		all = append(all, &sluicev1.CostTerm{Name: t.Name, CostMs: int64(t.Price)})
	}
	return all
}

// explainBeforehand says why a task waits where it takes no planner to know, nil elsewhere.
func explainBeforehand(in *cluster.Snapshot, t *cluster.Task, j *cluster.Job) *sluicev1.WaitingExplanation {
	if why := waitingByMode(in.Mode()); why != "" && t.State != cluster.TaskInitialized {
		return &sluicev1.WaitingExplanation{Reason: why}
	}
	return explainUnqueued(in, t, j)
}

// waitingByMode says why nothing is placed, "" where something is.
func waitingByMode(m cluster.Mode) string {
	switch {
	case m.SchedulingStopped:
		return waitingForMode
	case m.Restored:
		return waitingForTruth
	}
	return ""
}

// explainUnqueued says why a task waits that no cycle looks at, nil if one does.
func explainUnqueued(in *cluster.Snapshot, t *cluster.Task, j *cluster.Job) *sluicev1.WaitingExplanation {
	w := &sluicev1.WaitingExplanation{}
	switch {
	case t.State == cluster.TaskInitialized:
		w.Reason = waitingForJobs
		if first := outstanding(in, j); first != nil {
			w.BlockingJob = string(first.Job)
		}
	case t.NotBefore != 0:
		w.Reason = waitingForRetry
	case t.State == cluster.TaskReserved:
		w.Reason = waitingForHold
		limit, dimension := in.OverLimit(j, j.TaskFor(t).Resources)
		w.BindingPool, w.BindingDimension = string(limit), dimension
	case t.Home != "": // room is held for it as soon as its host takes work
		w.Reason = waitingForHome
		explainHome(in, w, t, j)
	default:
		return nil
	}
	return w
}

// explainWaiting makes an explanation of what the planner knows about the task.
func explainWaiting(why *cycle.Waiting, known bool) *sluicev1.WaitingExplanation {
	if !known {
		return &sluicev1.WaitingExplanation{Reason: waitingForCycle}
	}
	w := &sluicev1.WaitingExplanation{
		Reason: waitingForFit, Hosts: uint64(why.Hosts), QueuePosition: uint64(why.Position), QueueLength: uint64(why.Queue),
		BindingPool: string(why.Binding.Pool), BindingDimension: why.Binding.Dimension,
		Together: uint64(why.Together), TogetherFit: uint64(why.Fit),
	}
	for _, c := range why.Tally {
		w.Tally = append(w.Tally, &sluicev1.HostTally{Reason: string(c.Reason), Hosts: uint64(c.Hosts), Detail: c.Detail})
		if c.Reason == cycle.HostFull || c.Reason == cycle.HostNoSlack || c.Reason == cycle.HostOpen {
			w.Reason = waitingForRoom
		}
	}
	switch {
	case why.Hosts == 0:
		w.Reason = waitingForHosts
	case w.Reason == waitingForRoom && why.Binding.Rule != pool.RuleNone && why.Binding.Rule != pool.RuleEntitlement:
		w.Reason = string(why.Binding.Rule)
	}
	if b := why.Blocked; b != nil {
		blockedBy := strings.TrimSpace(string(b.Reason) + " " + b.Detail)
		w.CheapestBlocked = &sluicev1.BlockedArc{Host: string(b.Host), CostMs: int64(b.Price), Terms: termsTo(&b.Place), BlockedBy: blockedBy}
	}
	for i := range why.Unblockers {
		w.Unblockers = append(w.Unblockers, unblockerWord(&why.Unblockers[i]))
	}
	return w
}

// explainHome says why the only host where a task may run does not take it, and what would help.
func explainHome(in *cluster.Snapshot, w *sluicev1.WaitingExplanation, t *cluster.Task, j *cluster.Job) {
	h := in.Host(t.Home)
	tally, help := &sluicev1.HostTally{Reason: string(cycle.HostTooSmall), Hosts: 1}, &cycle.Unblocker{}
	switch {
	case h == nil || h.State() == cluster.HostUnreachable:
		tally.Reason, help = string(cycle.HostUnreachable), &cycle.Unblocker{Kind: cycle.ReconnectHost, Host: t.Home}
	case h.State() == cluster.HostDraining:
		tally.Reason, help = string(cycle.HostDraining), &cycle.Unblocker{Kind: cycle.ResumeHost, Host: t.Home}
	default:
		task, spec, within := j.TaskFor(t), j.SpecFor(t), in.HostsOf(j.Spec.Pool)
		if !h.Admits(spec.Constraint, within) {
			tally.Reason = string(cycle.HostExclusive)
		} else if !h.Meets(within) {
			tally.Reason = string(cycle.HostOutside)
		} else if !h.Opens(spec.Constraint, within) {
			var labels cluster.Refusals
			labels.Demand(spec.Constraint)
			labels.Count(h)
			tally.Reason, tally.Detail = string(cycle.HostMismatch), labels.String()
		} else if missing := spec.NeedsFor(task) &^ h.Capabilities; missing != 0 {
			tally.Reason, tally.Detail = string(cycle.HostIncapable), missing.First().String()
		} else if lacking := task.Resources.Lacking(h.Capacity); len(lacking) > 0 {
			tally.Detail = lacking[0]
		} else {
			tally.Reason = string(cycle.HostWrongGPU)
		}
	}
	w.Hosts, w.Tally = 1, []*sluicev1.HostTally{tally}
	if help.Host != "" {
		w.Unblockers = append(w.Unblockers, unblockerWord(help))
	}
	if j.Spec.Type == cluster.Stateful {
		w.Unblockers = append(w.Unblockers, fmt.Sprintf("where its data is gone for good: `sluice task forget-data %s/%d`", j.Spec.Name, t.Key.Instance()))
	}
}

// unblockerWord says what has to change.
func unblockerWord(u *cycle.Unblocker) string {
	with := ""
	if u.Together > 1 {
		with = fmt.Sprintf(", for %d of those that start together", u.Together)
	}
	switch {
	case u.Ahead == 1:
		with += ", with what the one other that may go there first asks for"
	case u.Ahead > 1:
		with += fmt.Sprintf(", with what the %d others that may go there first ask for", u.Ahead)
	}
	switch u.Kind {
	case cycle.ResumeHost:
		return fmt.Sprintf("host %s takes work again", u.Host)
	case cycle.ReconnectHost:
		return fmt.Sprintf("the host manager of host %s connects again", u.Host)
	case cycle.CoreBegins:
		return "the core of its gang begins, for which room is held"
	case cycle.MoreRoom:
		if u.Room.IsZero() {
			return fmt.Sprintf("the cluster has more for its pool to claim%s", with)
		}
		return fmt.Sprintf("%v more free on host %s%s", u.Room, u.Host, with)
	case cycle.MoreGPUs:
		if u.Milli == cluster.WholeGPU {
			return fmt.Sprintf("%s free on host %s%s", number(u.GPUs, "more whole GPU"), u.Host, with)
		}
		if u.GPUs > 1 {
			return fmt.Sprintf("%d times gpu_milli=%d more free, each on one GPU, on host %s%s", u.GPUs, u.Milli, u.Host, with)
		}
		return fmt.Sprintf("gpu_milli=%d more free on one GPU of host %s%s", u.Milli, u.Host, with)
	case cycle.MorePorts:
		return fmt.Sprintf("%s free on host %s%s", portsWord(u), u.Host, with)
	case cycle.MoreSlack:
		return fmt.Sprintf("the tasks of host %s leave %v more unused of what they hold%s", u.Host, u.Room, with)
	case cycle.FewerTasks:
		return fmt.Sprintf("%d fewer around host %s of the tasks that it keeps apart from (%s)", u.Count, u.Host, u.Rule)
	case cycle.MoreTasks:
		return fmt.Sprintf("%d more around host %s of the tasks that it wants near (%s)", u.Count, u.Host, u.Rule)
	case cycle.RaisePool:
		return fmt.Sprintf("%d more %s for pool %s (its %s)", u.Amount, u.Dimension, u.Pool, strings.ToLower(u.Rule))
	case cycle.LiftLimit:
		return liftWord(u)
	case cycle.OtherHost:
		return otherWord(u, with)
	default:
		return "nothing: there is room, and it goes there when no better place opens"
	}
}

// otherWord says what hosts that come have to have.
func otherWord(u *cycle.Unblocker, with string) string {
	what := u.Room.String()
	if u.Slack {
		what += " that its tasks leave unused of what they hold"
	}
	if len(u.Ports) > 0 || u.FreePorts > 0 {
		what += " and " + portsWord(u)
	}
	if u.Hosts > 1 {
		return fmt.Sprintf("%d hosts that its rules allow, of which each has %s%s, or other rules or a request for less", u.Hosts, what, with)
	}
	return fmt.Sprintf("a host that its rules allow and that has %s%s, or other rules or a request for less", what, with)
}

// portsWord names ports by their numbers, and counts those that may be any.
func portsWord(u *cycle.Unblocker) string {
	var words []string
	for _, p := range u.Ports {
		words = append(words, fmt.Sprintf("port %d", p))
	}
	if u.FreePorts > 0 {
		words = append(words, number(u.FreePorts, "more port"))
	}
	return strings.Join(words, " and ")
}

// liftWord says how a limit on running work lets one more in.
func liftWord(u *cycle.Unblocker) string {
	in := fmt.Sprintf("pool %s", u.Pool)
	lift := func(what, of, raise string) string {
		switch u.Count {
		case 0: // it lets nobody in
			return raise
		case 1:
			return fmt.Sprintf("another %s of %s ends, or %s", what, of, raise)
		}
		return fmt.Sprintf("%d other %ss of %s end, or %s", u.Count, what, of, raise)
	}
	more := "more"
	if u.Amount > 1 || u.Dimension != "" {
		more = fmt.Sprintf("%d more", u.Amount)
	}
	switch pool.Rule(u.Rule) {
	case pool.RuleMaxRunning:
		return lift("instance", "its job", fmt.Sprintf("the job may run %s at once (limits.max_running_instances)", more))
	case pool.RuleRevocable:
		return fmt.Sprintf("revocable tasks of %s may have %d %% of the cluster instead of %d %% (limits.revocable_percent)", in, u.Count, u.Count-u.Amount)
	case pool.RuleController:
		return lift("controller", in, fmt.Sprintf("controllers of %s may have %s of its %s (limits.controller_percent)", in, more, u.Dimension))
	case pool.RuleRunningUser:
		return lift("job", "its owner in "+in, fmt.Sprintf("%s lets owners run %s (limits.max_running_jobs_per_user)", in, more))
	case pool.RuleRunningGroup:
		return lift("job", "its owner's group in "+in, fmt.Sprintf("%s lets groups run %s (limits.max_running_jobs_per_group)", in, more))
	default:
		return lift("job", in, fmt.Sprintf("%s may run %s (limits.max_running_jobs)", in, more))
	}
}

// outstanding returns the first dependency that keeps the job from running, nil if none does.
func outstanding(in *cluster.Snapshot, j *cluster.Job) *cluster.Dependency {
	for i := range j.Spec.DependsOn {
		d := &j.Spec.DependsOn[i]
		if holds, _ := d.Judge(in.JobByName(d.Job)); j.Waiting && !holds {
			return d
		}
	}
	return nil
}

// summarizeBound says where a task is, and whether its host is out of reach.
func (a *taskService) summarizeBound(t *cluster.Task) string {
	text := fmt.Sprintf("run %d is %v on host %s", t.Run, t.State, t.Host)
	since, away := a.s.shards.away(t.Host.Shard(), a.s.now())
	switch h := a.s.Snapshot().Host(t.Host); {
	case h != nil && h.Unreachable:
		text += fmt.Sprintf(", which is unreachable since %s: the run is given up %s",
			h.Since.Go().Format(time.RFC3339), a.s.config.givesUp())
	case away:
		text += fmt.Sprintf(", whose host manager is cut off since %s", since.Go().Format(time.RFC3339))
	}
	return text
}

// givesUp says for people when runs on a host that is out of reach are given up.
func (c *Config) givesUp() string {
	return fmt.Sprintf("%v (scheduler.lost_after) after that, or after its host manager connected or was cut off, or the scheduler started, if that was later",
		c.LostAfter)
}

func summarizeEnd(t *cluster.Task) string {
	parts := []string{fmt.Sprintf("%v after run %d", t.State, t.Run)}
	if t.Reason != cluster.ReasonNone {
		parts = append(parts, string(t.Reason))
	}
	if t.ExitCode >= 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", t.ExitCode))
	}
	if t.Signal > 0 {
		parts = append(parts, fmt.Sprintf("signal %d", t.Signal))
	}
	if t.Message != "" {
		parts = append(parts, t.Message)
	}
	return strings.Join(parts, ", ")
}

// hostReasons is how a tally reads.
var hostReasons = map[string]string{
	string(cycle.HostFull):        "have too little %s free",
	string(cycle.HostNoSlack):     "have tasks that leave too little %s unused of what they hold",
	string(cycle.HostTooSmall):    "have too little %s, even empty",
	string(cycle.HostMismatch):    "do not meet the constraints",
	string(cycle.HostIncapable):   "have a host manager that cannot do what the task needs: %s",
	string(cycle.HostWrongGPU):    "have no such GPUs, or too few of them",
	string(cycle.HostDraining):    "are draining",
	string(cycle.HostUnreachable): "are unreachable",
	string(cycle.HostOpen):        "have room by now",
	string(cycle.HostExclusive):   "are kept for others",
	string(cycle.HostOutside):     "are not among the hosts of its pool",
	string(cycle.HostCrowded):     "have too many tasks around: %s",
	string(cycle.HostLonely):      "have too few tasks around: %s",
	string(cycle.HostUneven):      "are where there are too many tasks, for how few there are elsewhere: %s",
	string(cycle.HostNoDomain):    "belong to no such domain: %s",
}

// ofOne is what a tally of one host begins with.
var ofOne = map[string]string{"are": "is", "belong": "belongs", "do": "does", "have": "has"}

// predicate says what is true of the hosts of a tally.
func predicate(c *sluicev1.HostTally) string {
	reason := hostReasons[c.Reason]
	if verb, rest, _ := strings.Cut(reason, " "); c.Hosts == 1 {
		reason = ofOne[verb] + " " + rest
	}
	if c.Detail == "ports" {
		reason = strings.Replace(reason, "too little", "too few", 1)
	}
	switch {
	case strings.Contains(reason, "%s"):
		reason = fmt.Sprintf(reason, c.Detail)
	case c.Detail != "":
		reason += ": " + c.Detail
	}
	return reason
}

// bindingWord says what keeps a task from being let in.
func bindingWord(b pool.Binding) string {
	rule := strings.ToLower(strings.ReplaceAll(string(b.Rule), "_", " "))
	switch {
	case b.Rule == pool.RuleMaxRunning:
		return "its job lets no more in: " + rule
	case b.Rule == pool.RuleGang:
		return "the core of its gang goes first, as a whole"
	case b.Rule == pool.RuleStatic:
		return fmt.Sprintf("what is left of %s is claimed, or kept free for a pool with a static reservation", b.Dimension)
	case b.Dimension != "":
		rule += " of " + b.Dimension
	}
	return fmt.Sprintf("pool %s lets no more in: %s", b.Pool, rule)
}

// number counts things, whose word gets an s where they are not one.
func number[N int | int64 | uint32 | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func summarizeWaiting(w *sluicev1.WaitingExplanation, binds pool.Binding, t *cluster.Task, j *cluster.Job) string {
	switch w.Reason {
	case waitingForJobs:
		return fmt.Sprintf("its job waits for others, of which %s has not ended yet", w.BlockingJob)
	case waitingForRetry:
		why := "it failed " + times(t.Failures)
		if t.Reason == cluster.ReasonLaunchRefused {
			why = "its host manager gave the launch back " + times(t.Refusals)
			if t.Message != "" {
				why += fmt.Sprintf(" (%s)", t.Message)
			}
		}
		return fmt.Sprintf("%s and is tried again at %s", why, t.NotBefore.Go().Format(time.RFC3339))
	case waitingForHold:
		if !j.MayRun(1) {
			return fmt.Sprintf("room is held for it on host %s until another instance of its job ends, which runs as many at once as it may (limits.max_running_instances)", t.Hold.Host)
		}
		if w.BindingPool != "" {
			return fmt.Sprintf("room is held for it on host %s until pool %s, which is at its limit, has less %s", t.Hold.Host, w.BindingPool, w.BindingDimension)
		}
		if t.Home != "" {
			return fmt.Sprintf("it runs on host %s only, and takes what becomes free there before others do", t.Home)
		}
		return fmt.Sprintf("room is held for it on host %s until %s, when those who leave are gone", t.Hold.Host, t.Hold.Until.Go().Format(time.RFC3339))
	case waitingForMode:
		return "scheduling is switched off: an operator switches it on with `sluice cluster mode --stop-scheduling=false`"
	case waitingForTruth:
		return "the cluster was restored from a snapshot: nothing is placed until host managers have told what they run since, or scheduler.lost_after has passed; `sluice cluster status` shows for which it waits"
	case waitingForCycle:
		return "it has not been looked at yet; the next cycle will"
	case waitingForHome:
		return strings.Join(append([]string{fmt.Sprintf("it runs on host %s only, which %s", t.Home, predicate(w.Tally[0]))}, helps(w, "or: ")...), "\n")
	case waitingForHosts:
		return "there are no hosts: no host manager is connected"
	}
	lines := []string{fmt.Sprintf("it asks for %v; of %s", j.TaskFor(t).Resources, number(w.Hosts, "host"))}
	for _, c := range w.Tally {
		reason := predicate(c)
		if c.Reason == string(cycle.HostOpen) && w.TogetherFit < w.Together {
			reason += " for some of those that start together"
		}
		lines = append(lines, fmt.Sprintf("  %d %s", c.Hosts, reason))
	}
	if w.Together > 0 {
		need := "%d need a place at once, and there is room for %d of them"
		if w.Together == 1 {
			need = "%d needs a place yet, and there is room for %d"
		}
		lines = append(lines, fmt.Sprintf("it starts together with others or not at all: "+need, w.Together, w.TogetherFit))
	}
	if w.QueueLength == 1 {
		lines = append(lines, fmt.Sprintf("it is the only one that waits in pool %s", j.Spec.Pool))
	} else {
		lines = append(lines, fmt.Sprintf("it is number %d of %d that wait in pool %s", w.QueuePosition, w.QueueLength, j.Spec.Pool))
	}
	if binds.Rule != pool.RuleNone {
		lines = append(lines, bindingWord(binds))
	}
	return strings.Join(append(lines, helps(w, "and: ")...), "\n")
}

// helps are the lines that say what would help, together or one of them.
func helps(w *sluicev1.WaitingExplanation, join string) (lines []string) {
	for i, u := range w.Unblockers {
		lines = append(lines, fmt.Sprintf("%12s%s", []string{"would help: ", join}[min(i, 1)], u))
	}
	return lines
}
