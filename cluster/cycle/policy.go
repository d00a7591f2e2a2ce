package cycle

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
)

// Policy is a cost model in use, with another one in its shadow. Immutable; who changes it passes another pointer.
type Policy struct {
	Model costmodels.Model
	// Shadow plans every ShadowEvery-th cycle that solves, on the same snapshot, and only reports what it would do
	// otherwise; nil for none.
	Shadow      costmodels.Model
	ShadowEvery int
}

// supervise plans by the policy. If its model turns out to be broken, what was planned with it is thrown away, and
// everything is planned anew with the last model that was not; the broken one stays out until there is another policy.
func (p *Planner) supervise(in Input) Output {
	if in.Policy != nil && in.Policy != p.policy {
		p.adopt(in.Policy)
		in.Rescan = true
	}
	out := p.cycle(in)
	if fault := p.model.Fault(); fault != nil {
		p.fault = fault
		p.model = guard.New(p.good)
		again := in
		again.Rescan = true
		out = p.cycle(again)
	} else if out.Stats.Rounds > 0 && p.fault == nil {
		p.good = p.policy.Model
	}
	out.Stats.Model = p.model.Name()
	if p.fault != nil {
		out.Stats.Fault = p.fault.Error()
	}
	if p.shadow != nil {
		out.Shadow = p.shadow.follow(in, &out)
	}
	return out
}

// adopt plans by the policy from the next cycle on.
func (p *Planner) adopt(policy *Policy) {
	p.policy, p.model, p.fault, p.shadow = policy, guard.New(policy.Model), nil, nil
	if policy.Shadow != nil && policy.ShadowEvery > 0 {
		p.shadow = &shadow{planner: New(policy.Shadow, p.newSolver), every: policy.ShadowEvery, rescan: true}
	}
}

// shadow is a planner whose plans are not carried out.
type shadow struct {
	planner *Planner
	every   int
	count   int             // cycles since its last plan
	changes cluster.Changes // since then
	rescan  bool
}

// Difference is a task that the shadow treats otherwise.
type Difference struct {
	Task         cluster.TaskKey
	Host, Shadow cluster.HostID // where it starts, and where it would; "" for nowhere
}

// maxDifferences is how many differences a Comparison lists.
const maxDifferences = 20

// Comparison says how the plan of the shadow differs from the one that is carried out.
type Comparison struct {
	Model       string
	Same        int          // tasks that start on the same host in both
	Elsewhere   int          // on another host
	Later       int          // that the shadow would leave waiting
	Earlier     int          // that only the shadow would start
	Differences []Difference // the first of those, in the order of the plan, then of the shadow's
	Preemptions int          // that the shadow would make
	Fault       string       // what is wrong with the model, "" for nothing: then it stands for another one
}

// follow plans in the shadow if it is time to, and compares.
func (s *shadow) follow(in Input, out *Output) *Comparison {
	s.changes.Merge(in.Changes)
	s.rescan = s.rescan || in.Rescan
	if out.Stats.Rounds == 0 {
		return nil
	}
	if s.count++; s.count < s.every {
		return nil
	}
	own := in
	own.Policy, own.Stopwatch = nil, nil
	own.Changes, own.Rescan = s.changes, s.rescan
	s.count, s.changes, s.rescan = 0, cluster.Changes{}, false
	return compare(out, s.planner.Run(own))
}

func compare(out *Output, other Output) *Comparison {
	c := &Comparison{Model: other.Stats.Model, Preemptions: other.Stats.Preemptions, Fault: other.Stats.Fault}
	there := make(map[cluster.TaskKey]cluster.HostID, len(other.Placements))
	for i := range other.Placements {
		there[other.Placements[i].Task] = other.Placements[i].Host
	}
	differ := func(count *int, d Difference) {
		*count++
		if len(c.Differences) < maxDifferences {
			c.Differences = append(c.Differences, d)
		}
	}
	for i := range out.Placements {
		p := &out.Placements[i]
		switch host, starts := there[p.Task]; {
		case !starts:
			differ(&c.Later, Difference{p.Task, p.Host, ""})
		case host == p.Host:
			c.Same++
		default:
			differ(&c.Elsewhere, Difference{p.Task, p.Host, host})
		}
		delete(there, p.Task)
	}
	for i := range other.Placements {
		if p := &other.Placements[i]; there[p.Task] != "" {
			differ(&c.Earlier, Difference{p.Task, "", p.Host})
		}
	}
	return c
}
