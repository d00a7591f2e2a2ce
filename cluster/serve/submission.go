package serve

import (
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// poolTable is what is needed of a State or a Snapshot to find a pool.
type poolTable interface {
	Pool(cluster.PoolPath) *cluster.Pool
	IsLeaf(cluster.PoolPath) bool
	Mapping() *cluster.QueueMapping
}

// resolvePool finds the pool of a job: the one that its spec names, or the one that it is mapped to. It reports if there is
// none that takes the job.
func resolvePool(in poolTable, spec *cluster.JobSpec, path string, v *violations) cluster.PoolPath {
	named := spec.Pool
	if named == "" {
		if named = mapped(in, spec, path, v); named == "" {
			return ""
		}
	}
	is := quote(string(named))
	if m := in.Mapping(); spec.Pool == "" && m != nil && len(m.Rules) > 0 {
		is += " by the queue mapping"
	}
	switch {
	case in.Pool(named) == nil:
		v.Invalid(path, "is %s: there is no such pool", is)
	case !in.IsLeaf(named):
		v.Invalid(path, "is %s: it has pools below it, and jobs go to the lowest ones only", is)
	case draining(in, named) != nil:
		v.Premature(path, "is %s: %s is draining and takes no new jobs", is, quote(string(draining(in, named).Path)))
	}
	return named
}

// single and numbered give the field path of the i-th spec of a request.
func single(int) string { return "spec" }

func numbered(i int) string { return item("specs", i) }

// checkSubmission validates the specs of a request, which are submitted together.
func (a *api) checkSubmission(c *call, specs []*sluicev1.JobSpec, path func(int) string, v *violations) {
	checkSpecs(c, a.s.Snapshot(), specs, path, v)
	for i, p := range specs[:min(len(specs), maxGraphJobs)] {
		a.checkSecrets(p, path(i), v)
		if p.GetRevocable() && a.s.config.SlackWindow <= 0 {
			v.Unsupported(child(path(i), "revocable"), "this server lends nothing: scheduler.slack_window is 0")
		}
	}
}

// checkSpecs is checkSubmission as far as it does not depend on how the scheduler is configured.
func checkSpecs(c *call, snapshot *cluster.Snapshot, specs []*sluicev1.JobSpec, path func(int) string, v *violations) {
	switch {
	case len(specs) == 0:
		v.Invalid("specs", "is required: at least one job")
	case len(specs) > maxGraphJobs:
		v.Invalid("specs", "has %d jobs: at most %d", len(specs), maxGraphJobs)
		return
	}
	sees := c.sight(snapshot)
	hosts := &kinds{snapshot: snapshot}
	first := map[string]int{}
	var instances uint64
	for i, p := range specs {
		if p == nil {
			v.Invalid(path(i), "is required")
			continue
		}
		spec := jobSpecFrom(p, path(i), v)
		instances += uint64(spec.Instances)
		if k, twice := first[p.Name]; twice && p.Name != "" {
			v.Invalid(child(path(i), "name"), "is %s, as that of %s: names are unique", quote(p.Name), path(k))
		} else {
			first[p.Name] = i
		}
		if snapshot.JobByName(spec.Name) == nil {
			checkRanges(spec, path(i), v)
		}
		checkCapabilities(hosts, spec, path(i), v)
		if !isThere(snapshot, spec.Name, sees) && (p.Pool == "" || checkPoolPath(p.Pool, "", new(violations))) {
			resolvePool(snapshot, spec, child(path(i), "pool"), v) // that of a job that exists stays
		}
	}
	if instances > maxGraphInstances {
		v.Invalid("specs", "have %d instances together: at most %d", instances, maxGraphInstances)
	}
	g := dependencies{specs: specs, path: path, first: first, snapshot: snapshot, sees: sees, v: v}
	g.check()
}

// checkRanges refuses what a new job says of instances that it does not have. One that exists may have had them, and may have
// them again: how many there are is another matter than what each of them is.
func checkRanges(job *cluster.JobSpec, path string, v *violations) {
	if job.Type == cluster.Daemon {
		return // which has no number of them
	}
	check := func(last uint32, at string) {
		if last >= max(1, job.Instances) {
			v.Invalid(child(at, "instances.last"), "is %d: the last instance is %d", last, max(1, job.Instances)-1)
		}
	}
	for i := range job.Overrides {
		check(job.Overrides[i].Last, item(child(path, "overrides"), i))
	}
	for i := range job.Inputs {
		if last := job.Inputs[i].Last; last != allInstances {
			check(last, item(child(path, "locality.inputs"), i))
		}
	}
}

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
		case !here && d.GetJob() == "":
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
