package cycle

import "github.com/sluice-scheduler/sluice/cluster"

// shadow is a planner whose plans are not carried out.
type shadow struct {
	planner *Supervisor
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
	Fault       string       // what is wrong with its own model, which another one then stands in for; "" for nothing
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
