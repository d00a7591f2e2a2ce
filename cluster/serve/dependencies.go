package serve

import (
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// dependencies checks that what the new jobs of a request wait for exists for the caller, and that nothing, in the end, waits for itself.
type dependencies struct {
	specs    []*sluicev1.JobSpec
	path     func(int) string
	first    map[string]int // by name
	snapshot *cluster.Snapshot
	sees     func(*cluster.Job) bool
	v        *violations

	state []visit
	trail []int // the jobs on the way to the one being visited
}

// visit is how far the search has come with a job.
type visit uint8

const (
	unvisited visit = iota
	visiting
	visited
)

// check reports references to unknown jobs and cycles. Complexity: jobs + dependencies.
func (g *dependencies) check() {
	g.state = make([]visit, len(g.specs))
	for i := range g.specs {
		if g.state[i] == unvisited {
			g.visit(i)
		}
	}
}

func (g *dependencies) visit(i int) {
	g.state[i] = visiting
	g.trail = append(g.trail, i)
	exists := isThere(g.snapshot, cluster.JobID(g.specs[i].GetName()), g.sees) // then what it waits for may have gone, and stays what it is
	for k, d := range g.specs[i].GetDependsOn() {
		at := child(item(child(g.path(i), "depends_on"), k), "job")
		next, here := g.first[d.GetJob()]
		switch {
		case d.GetJob() == "": // also where a job of the request has no name
			g.v.Invalid(at, "is required: the name of a job")
		case !here && !exists && !isThere(g.snapshot, cluster.JobID(d.Job), g.sees):
			g.v.Invalid(at, "is %s: there is no such job, neither in this request nor submitted before", quote(d.Job))
		case here && g.state[next] == visiting:
			g.v.Invalid(at, "closes a cycle of dependencies: %s", g.cycle(next))
		case here && g.state[next] == unvisited:
			g.visit(next)
		}
	}
	g.trail = g.trail[:len(g.trail)-1]
	g.state[i] = visited
}

// isThere reports whether there is a job of that name for who sees only some.
func isThere(in jobTable, name cluster.JobID, sees func(*cluster.Job) bool) bool {
	j := in.JobByName(name)
	return j != nil && sees(j)
}

// cycle names the jobs on the trail from the given one on, and that one again.
func (g *dependencies) cycle(from int) string {
	var names []string
	on := false
	for _, i := range g.trail {
		on = on || i == from
		if on {
			names = append(names, quote(g.specs[i].GetName()))
		}
	}
	names = append(names, quote(g.specs[from].GetName()))
	const most = 12
	if n := len(names); n > most {
		names = append(append(names[:most/2:most/2], "…"), names[n-most/2:]...)
	}
	return strings.Join(names, " → ")
}
