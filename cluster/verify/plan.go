package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// Plan returns what is wrong with a plan that was made from the snapshot at the time, nothing if it is true. hysteresis is
// how long a task that was asked to leave has to be left alone. Complexity: the cluster and the plan.
func Plan(snap *cluster.Snapshot, plan *cycle.Output, now cluster.Time, hysteresis time.Duration) []string {
	c := &checker{
		snap: snap, plan: plan, now: now, hysteresis: hysteresis,
		hosts: map[cluster.HostID]*ledger{}, seen: map[cluster.TaskKey]string{}, victims: map[cluster.TaskKey]*cycle.Victim{},
	}
	for h := range snap.Hosts("") {
		c.open(h)
	}
	c.placements()
	c.displacements()
	c.gangs()
	c.overfull()
	c.pools()
	c.inVain()
	return c.wrong
}

type checker struct {
	snap       *cluster.Snapshot
	plan       *cycle.Output
	now        cluster.Time
	hysteresis time.Duration
	hosts      map[cluster.HostID]*ledger
	seen       map[cluster.TaskKey]string
	victims    map[cluster.TaskKey]*cycle.Victim
	stops      []*stop
	books      *books // nil if nobody is asked to leave
	wrong      []string
}

func (c *checker) fail(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// amounts is a vector by dimension name, devices included as "gpu/3" and ports as "port/8080".
type amounts map[string]int64

func (a amounts) add(b amounts, sign int64) {
	for k, v := range b {
		a[k] += sign * v
	}
}

// ask returns what a task takes of a host.
func ask(spec *cluster.TaskSpec, gpus, ports []uint16) amounts {
	a := amounts{}
	for d, v := range spec.Resources.Fixed {
		a[cluster.Dimension(d).String()] = v
	}
	for _, n := range spec.Resources.Named {
		a[n.Name] = n.Value
	}
	for _, g := range gpus {
		part := int64(cluster.WholeGPU)
		if spec.GPU.Milli > 0 {
			part = int64(spec.GPU.Milli)
		}
		a[fmt.Sprint("gpu/", g)] = part
	}
	for _, p := range ports {
		a[fmt.Sprint("port/", p)] = 1
	}
	return a
}

// ledger is what a host has and what is done with it.
type ledger struct {
	host     *cluster.Host
	has      amounts // capacity
	bound    amounts // by tasks that hold room now, whatever becomes of them
	leaving  amounts // of bound: by tasks that were asked to leave before
	held     amounts // by holds from before
	starts   amounts // placements of this plan
	landed   amounts // of starts: by tasks with a hold here, which is over then
	promised amounts // holds of this plan
	vacated  amounts // by the victims of this plan
	reserved bool    // a hold of this plan counts on others to end by themselves
}

func (c *checker) open(h *cluster.Host) {
	l := &ledger{
		host: h, has: amounts{}, bound: amounts{}, leaving: amounts{}, held: amounts{},
		starts: amounts{}, landed: amounts{}, promised: amounts{}, vacated: amounts{},
	}
	for d, v := range h.Capacity.Fixed {
		l.has[cluster.Dimension(d).String()] = v
	}
	for _, n := range h.Capacity.Named {
		l.has[n.Name] = n.Value
	}
	for i := range h.GPUs {
		l.has[fmt.Sprint("gpu/", i)] = cluster.WholeGPU
	}
	for _, r := range h.Ports {
		for p := int(r.First); p <= int(r.Last); p++ {
			l.has[fmt.Sprint("port/", p)] = 1
		}
	}
	for _, k := range h.Tasks {
		t := c.snap.Task(k)
		takes := ask(c.spec(k), t.GPUs, t.Ports)
		l.bound.add(takes, 1)
		if t.State == cluster.TaskPreempting || t.State == cluster.TaskKilling {
			l.leaving.add(takes, 1)
		}
	}
	for _, k := range h.Held {
		hold := c.snap.Task(k).Hold
		l.held.add(ask(c.spec(k), hold.GPUs, hold.Ports), 1)
	}
	c.hosts[h.ID] = l
}

func (c *checker) spec(k cluster.TaskKey) *cluster.TaskSpec {
	return c.snap.Job(k.Job()).Spec.TaskOf(k.Instance())
}

func (c *checker) once(k cluster.TaskKey, as string) {
	if was, twice := c.seen[k]; twice {
		c.fail("task %v is in the plan as %s and as %s", k, was, as)
	}
	c.seen[k] = as
}

// target returns the ledger of a host that new work may go to.
func (c *checker) target(k cluster.TaskKey, id cluster.HostID) *ledger {
	l := c.hosts[id]
	if l == nil {
		c.fail("task %v is to go to host %s, which does not exist", k, id)
		return nil
	}
	if l.host.State() != cluster.HostUp {
		c.fail("task %v is to go to host %s, which takes no work", k, id)
	}
	if rule := c.snap.Job(k.Job()).Spec.Constraint; rule != nil && !rule.Allows(l.host) {
		c.fail("task %v is to go to host %s against its constraint", k, id)
	}
	return l
}

func (c *checker) placements() {
	for i := range c.plan.Placements {
		p := &c.plan.Placements[i]
		c.once(p.Task, "a placement")
		t := c.snap.Task(p.Task)
		if t == nil || t.State != cluster.TaskPending && t.State != cluster.TaskReserved {
			c.fail("task %v is placed and does not wait", p.Task)
			continue
		}
		if p.Run != t.Run+1 {
			c.fail("task %v is placed as run %d after run %d", p.Task, p.Run, t.Run)
		}
		l := c.target(p.Task, p.Host)
		if l == nil {
			continue
		}
		takes := ask(c.spec(p.Task), p.GPUs, p.Ports)
		l.starts.add(takes, 1)
		if t.Hold != nil && t.Hold.Host == p.Host {
			l.landed.add(ask(c.spec(p.Task), t.Hold.GPUs, t.Hold.Ports), 1)
		}
		c.cut(p.Task, l.host, p.GPUs)
	}
	for _, k := range c.plan.Ended {
		c.once(k, "the end of a hold")
		if t := c.snap.Task(k); t == nil || t.State != cluster.TaskReserved {
			c.fail("task %v has no hold that could end", k)
		} else if l := c.hosts[t.Hold.Host]; l != nil {
			l.landed.add(ask(c.spec(k), t.Hold.GPUs, t.Hold.Ports), 1)
		}
	}
}

// cut checks that the devices are those that the task asks for.
func (c *checker) cut(k cluster.TaskKey, h *cluster.Host, gpus []uint16) {
	request := &c.spec(k).GPU
	want := int(request.Count)
	if request.Milli > 0 {
		want = 1
	}
	if len(gpus) != want {
		c.fail("task %v gets %d devices and asked for %d", k, len(gpus), want)
	}
	for n, i := range gpus {
		switch {
		case int(i) >= len(h.GPUs):
			c.fail("task %v gets device %d of host %s, which has %d", k, i, h.ID, len(h.GPUs))
		case slices.Contains(gpus[:n], i):
			c.fail("task %v gets device %d twice", k, i)
		case len(request.Models) > 0 && !slices.Contains(request.Models, h.GPUs[i].Model):
			c.fail("task %v gets a %s", k, h.GPUs[i].Model)
		}
	}
}

func (c *checker) displacements() {
	for i := range c.plan.Displacements {
		d := &c.plan.Displacements[i]
		for _, h := range d.Holds {
			c.once(h.Task, "a hold")
			if t := c.snap.Task(h.Task); t == nil || t.State != cluster.TaskPending {
				c.fail("room is held for task %v, which does not wait", h.Task)
				continue
			}
			c.hold(h.Task, &h.Hold)
			if len(d.Victims) == 0 {
				c.hosts[h.Hold.Host].reserved = true
			}
		}
		for j := range d.Victims {
			c.victim(&d.Victims[j])
		}
	}
}

func (c *checker) hold(k cluster.TaskKey, hold *cluster.Hold) {
	l := c.target(k, hold.Host)
	if l == nil {
		return
	}
	l.promised.add(ask(c.spec(k), hold.GPUs, hold.Ports), 1)
	c.cut(k, l.host, hold.GPUs)
	if hold.Until <= c.now {
		c.fail("the hold of task %v is over before it begins", k)
	}
}

func (c *checker) victim(v *cycle.Victim) {
	c.once(v.Task, "a victim")
	t := c.snap.Task(v.Task)
	if t == nil || !t.State.Bound() || t.State == cluster.TaskPreempting || t.State == cluster.TaskKilling || t.Run != v.Run {
		c.fail("task %v is asked to leave and is not there", v.Task)
		return
	}
	spec := c.snap.Job(v.Task.Job()).Spec
	if !spec.Preemptible || spec.Type == cluster.Stateful || spec.Type == cluster.Daemon {
		c.fail("task %v may not be preempted", v.Task)
	}
	if t.Preempted != nil && c.now.Sub(t.Preempted.At) < c.hysteresis {
		c.fail("task %v was asked to leave a moment ago", v.Task)
	}
	c.victims[v.Task] = v
	c.hosts[t.Host].vacated.add(ask(c.spec(v.Task), t.GPUs, t.Ports), 1)
	if v.Hold != nil {
		c.hold(v.Task, v.Hold)
	}
	for i := range c.plan.Placements {
		if p := &c.plan.Placements[i]; p.Host == t.Host && c.alike(p.Task, v.Task) {
			c.fail("task %v starts on the host from which task %v, one of its own, is asked to leave", p.Task, v.Task)
		}
	}
}

// alike reports whether two tasks belong to the same job or class.
func (c *checker) alike(a, b cluster.TaskKey) bool {
	class := func(k cluster.TaskKey) cycle.ClassKey {
		return cycle.KeyOf(c.snap, c.snap.Job(k.Job()), c.snap.Task(k))
	}
	return a.Job() == b.Job() || class(a) == class(b)
}

// gangs checks that the waiting members of a core all come in, and the bound ones all go, or none.
func (c *checker) gangs() {
	jobs := map[cluster.JobUID]bool{}
	for k := range c.seen {
		jobs[k.Job()] = true
	}
	for uid := range jobs {
		spec := c.snap.Job(uid).Spec
		if spec.Gang == nil {
			continue
		}
		in, out, go1, stay := 0, 0, 0, 0
		for i := range spec.Gang.Minimum {
			t := c.snap.Task(cluster.MakeTaskKey(uid, i))
			as, planned := c.seen[t.Key]
			switch {
			case t.State == cluster.TaskPending && planned, t.State == cluster.TaskReserved && as == "a placement":
				in++
			case t.State == cluster.TaskPending:
				out++
			case t.State == cluster.TaskReserved && as != "the end of a hold" && in > 0:
				out++
			case as == "a victim":
				go1++
			case t.State.Bound():
				stay++
			}
		}
		if in > 0 && out > 0 {
			c.fail("of the core of job %d, %d come in and %d stay out", uid, in, out)
		}
		if go1 > 0 && stay > 0 {
			c.fail("of the core of job %d, %d leave and %d stay", uid, go1, stay)
		}
	}
}

// overfull checks every host in every dimension.
func (c *checker) overfull() {
	for _, id := range c.ids() {
		l := c.hosts[id]
		for k, starts := range l.starts {
			// What is held for others is not free for starts, save what of it is still being vacated.
			held := max(0, l.held[k]-l.landed[k]+l.promised[k]-l.leaving[k]-l.vacated[k])
			if free := l.has[k] - l.bound[k]; starts > 0 && starts > free {
				c.fail("host %s: %d of %s start and %d are free", id, starts, k, free)
			} else if starts > 0 && starts-l.landed[k] > 0 && starts > free-held && !l.reserved {
				c.fail("host %s: %d of %s start into %d that is held for others", id, starts, k, held)
			}
		}
		for k, promised := range l.promised {
			if promised > 0 && !l.reserved && promised > l.promise(k) {
				c.fail("host %s: %d of %s are promised and %d will be there", id, promised, k, l.promise(k))
			}
		}
	}
}

// promise is what will be there for the holds of the plan.
func (l *ledger) promise(k string) int64 {
	return l.has[k] - l.bound[k] + l.leaving[k] + l.vacated[k] - l.held[k] + l.landed[k] - l.starts[k]
}

// inVain checks that nobody leaves who could stay.
func (c *checker) inVain() {
	for i := range c.plan.Displacements {
		for j := range c.plan.Displacements[i].Victims {
			v := &c.plan.Displacements[i].Victims[j]
			if c.victims[v.Task] != v || !c.first(v.Task) {
				continue
			}
			needed := false
			takes := map[cluster.HostID]amounts{} // what it has on each host
			for _, k := range c.together(v.Task) {
				t := c.snap.Task(k)
				if takes[t.Host] == nil {
					takes[t.Host] = amounts{}
				}
				takes[t.Host].add(ask(c.spec(k), t.GPUs, t.Ports), 1)
			}
			for id, all := range takes {
				l := c.hosts[id]
				for dim, n := range all {
					needed = needed || n > 0 && l.promised[dim] > l.promise(dim)-n
				}
			}
			if !needed && !c.pays(v) {
				c.fail("task %v is asked to leave in vain", v.Task)
			}
		}
	}
}

// together returns the victims that leave with the task: the core of its gang, or itself.
func (c *checker) together(k cluster.TaskKey) []cluster.TaskKey {
	spec := c.snap.Job(k.Job()).Spec
	if !spec.Core(k.Instance()) {
		return []cluster.TaskKey{k}
	}
	var all []cluster.TaskKey
	for i := range spec.Gang.Minimum {
		if m := cluster.MakeTaskKey(k.Job(), i); c.victims[m] != nil {
			all = append(all, m)
		}
	}
	return all
}

func (c *checker) first(k cluster.TaskKey) bool { return c.together(k)[0] == k }

func (c *checker) ids() []cluster.HostID {
	ids := make([]cluster.HostID, 0, len(c.hosts))
	for id := range c.hosts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
