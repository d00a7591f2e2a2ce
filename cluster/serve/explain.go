package serve

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Reasons for which a task waits, beside those for which hosts are ruled out.
const (
	waitingForCycle = "NEXT_CYCLE" // it began to wait after the last cycle
	waitingForHosts = "NO_HOSTS"   // no host manager has reported any
	waitingForJob   = "JOB_NOT_STARTED"
	waitingForRoom  = "NO_ROOM"      // hosts could take it, but are full
	waitingForFit   = "NO_HOST_FITS" // no host could take it, even empty
)

// ExplainTask implements sluicev1.TaskServiceServer.
func (a *taskService) ExplainTask(_ context.Context, r *sluicev1.ExplainTaskRequest) (*sluicev1.ExplainTaskResponse, error) {
	t, j, err := findTask(a.s.Snapshot(), r.Job, r.Instance)
	if err != nil {
		return nil, err
	}
	answer := &sluicev1.ExplainTaskResponse{Task: a.measuredTask(t, j), Preempted: explainPreempted(a.s.Snapshot(), t)}
	switch {
	case t.State.Terminal():
		answer.Explanation = &sluicev1.ExplainTaskResponse_Ended{Ended: &sluicev1.EndedExplanation{
			Reason: string(t.Reason), Message: t.Message,
		}}
		answer.Summary = summarizeEnd(t)
	case t.State.Bound():
		answer.Explanation = &sluicev1.ExplainTaskResponse_Placed{Placed: &sluicev1.PlacedExplanation{Host: string(t.Host)}}
		answer.Summary = fmt.Sprintf("run %d is %v on host %s", t.Run, t.State, t.Host)
	default:
		why, last, known := a.s.WhyWaiting(a.s.Snapshot(), j, t)
		waiting := explainWaiting(t, j, why, known)
		waiting.Cycle = last.Number
		if last.Number > 0 {
			waiting.Time = timestamppb.New(last.At)
		}
		answer.Explanation = &sluicev1.ExplainTaskResponse_Waiting{Waiting: waiting}
		answer.Summary = summarizeWaiting(waiting, j)
	}
	return answer, nil
}

// explainPreempted says for whom the task was asked to leave, nil if it was not or has run again since.
func explainPreempted(snap *cluster.Snapshot, t *cluster.Task) *sluicev1.PreemptionExplanation {
	p := t.Preempted
	if p == nil || t.Placed > p.At {
		return nil
	}
	x := &sluicev1.PreemptionExplanation{
		BeneficiaryInstance: p.For.Instance(), BeneficiaryPool: string(p.ForPool), CostMs: p.Price, Time: timestamppb.New(p.At.Go()),
	}
	if j := snap.Job(p.For.Job()); j != nil {
		x.BeneficiaryJob = string(j.Spec.Name)
	}
	if p.NextHost != "" {
		x.Alternatives = []*sluicev1.VictimAlternative{{Host: string(p.NextHost), CostMs: p.Next}}
	}
	return x
}

// explainWaiting makes an explanation of what the last cycle found out about tasks like this one.
func explainWaiting(t *cluster.Task, j *cluster.Job, why cycle.Waiting, known bool) *sluicev1.WaitingExplanation {
	switch {
	case t.State == cluster.TaskInitialized:
		return &sluicev1.WaitingExplanation{Reason: waitingForJob}
	case !known:
		return &sluicev1.WaitingExplanation{Reason: waitingForCycle}
	}
	w := &sluicev1.WaitingExplanation{Reason: waitingForFit, Hosts: uint64(why.Hosts)}
	if why.Hosts == 0 {
		w.Reason = waitingForHosts
	}
	for _, c := range why.Tally {
		w.Tally = append(w.Tally, &sluicev1.HostTally{Reason: string(c.Reason), Hosts: uint64(c.Hosts), Detail: c.Detail})
		switch c.Reason {
		case cycle.HostFull, cycle.HostOpen:
			w.Reason = waitingForRoom
		}
		if u := unblocker(c, j.Spec.TaskOf(t.Key.Instance())); u != "" {
			w.Unblockers = append(w.Unblockers, u)
		}
	}
	return w
}

// unblocker says what would open the hosts that were ruled out for a reason.
func unblocker(c cycle.Tally, task *cluster.TaskSpec) string {
	asked := amountOf(task.Resources, c.Detail)
	switch c.Reason {
	case cycle.HostFull:
		if c.Detail == dimensionPorts {
			return describePorts(&task.Ports) + " free on one host"
		}
		return fmt.Sprintf("%d %s free on one host", asked, c.Detail)
	case cycle.HostTooSmall:
		if c.Detail == dimensionPorts {
			return "a host that offers " + describePorts(&task.Ports)
		}
		return fmt.Sprintf("a host with at least %d %s, or a request for less", asked, c.Detail)
	case cycle.HostMismatch:
		return "a host that the constraints allow, or other constraints"
	case cycle.HostIncapable:
		return fmt.Sprintf("a host manager that can do %s, or a task that does not need it", c.Detail)
	case cycle.HostWrongGPU:
		return "a host with such GPUs, or a request for others"
	case cycle.HostDraining:
		return "a draining host that is resumed"
	case cycle.HostUnreachable:
		return "an unreachable host whose host manager connects again"
	default:
		return ""
	}
}

// dimensionPorts is how a tally names ports.
const dimensionPorts = "ports"

// describePorts says which ports are asked for.
func describePorts(r *cluster.PortRequest) string {
	switch {
	case len(r.Numbers) == 0:
		return fmt.Sprintf("%d ports", r.Dynamic)
	case r.Dynamic == 0:
		return fmt.Sprintf("the ports %v", r.Numbers)
	default:
		return fmt.Sprintf("the ports %v and %d more", r.Numbers, r.Dynamic)
	}
}

func amountOf(r cluster.Resources, dimension string) int64 {
	for d := range cluster.NumDimensions {
		if d.String() == dimension {
			return r.Fixed[d]
		}
	}
	return r.Amount(dimension)
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
	string(cycle.HostTooSmall):    "have too little %s, even empty",
	string(cycle.HostMismatch):    "do not meet the constraints",
	string(cycle.HostIncapable):   "have a host manager that cannot do what the task needs: %s",
	string(cycle.HostWrongGPU):    "have no such GPUs, or too few of them",
	string(cycle.HostDraining):    "are draining",
	string(cycle.HostUnreachable): "are unreachable",
	string(cycle.HostOpen):        "have room by now",
}

func summarizeWaiting(w *sluicev1.WaitingExplanation, j *cluster.Job) string {
	switch w.Reason {
	case waitingForJob:
		return "the job may not start yet"
	case waitingForCycle:
		return "it has not been looked at yet; the next cycle will"
	case waitingForHosts:
		return "there are no hosts: no host manager is connected"
	}
	lines := []string{fmt.Sprintf("it asks for %v; of %d hosts", j.Spec.Task.Resources, w.Hosts)}
	for _, c := range w.Tally {
		reason := hostReasons[c.Reason]
		if strings.Contains(reason, "%s") {
			reason = fmt.Sprintf(reason, c.Detail)
		}
		lines = append(lines, fmt.Sprintf("  %d %s", c.Hosts, reason))
	}
	for _, u := range w.Unblockers {
		lines = append(lines, "would help: "+u)
	}
	return strings.Join(lines, "\n")
}
