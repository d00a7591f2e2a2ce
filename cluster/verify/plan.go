package verify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
)

// Plan returns what is wrong with a plan that was made from the snapshot at the time, nothing if it is true. hysteresis is
// how long a task that was asked to leave has to be left alone. The complaints are in a fixed order. Complexity: the plan
// and the hosts that it touches; the whole cluster where somebody is asked to leave.
func Plan(snap *cluster.Snapshot, plan *cycle.Output, now cluster.Time, hysteresis time.Duration) []string {
	c := newChecker(snap, plan, now, hysteresis)
	c.placements()
	c.displacements()
	c.gangs()
	c.rules()
	c.overfull()
	c.lending()
	c.rates()
	c.limits()
	c.statics()
	c.running()
	c.jobs()
	c.pools()
	c.inVain()
	return c.wrong
}

func newChecker(snap *cluster.Snapshot, plan *cycle.Output, now cluster.Time, hysteresis time.Duration) *checker {
	return &checker{
		snap: snap, plan: plan, now: now, hysteresis: hysteresis,
		hosts: map[cluster.HostID]*ledger{}, seen: map[cluster.TaskKey]string{}, victims: map[cluster.TaskKey]*cycle.Victim{},
	}
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
	books      *books                        // nil if nobody is asked to leave
	bounded    map[cluster.PoolPath]*bounded // the pools with limits
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
	landed   amounts // held for tasks that start, here or elsewhere, or wait on
	promised amounts // holds of this plan
	vacated  amounts // by the victims of this plan
	lent     amounts // what revocable tasks hold that were not asked to leave before this plan; in none of the above
	going    amounts // by revocable tasks that were asked to leave before
	recalled amounts // of lent: by the victims of this plan
	lends    amounts // revocable placements of this plan
	slack    amounts // as measured
	reserved bool    // a hold of this plan counts on others to end by themselves
}

// ledger returns the ledger of a host as it was before the plan, nil if there is no such host.
func (c *checker) ledger(id cluster.HostID) *ledger {
	l, known := c.hosts[id]
	if !known {
		if h := c.snap.Host(id); h != nil {
			l = c.open(h)
		}
		c.hosts[id] = l
	}
	return l
}

func (c *checker) open(h *cluster.Host) *ledger {
	l := &ledger{
		host: h, has: amounts{}, bound: amounts{}, leaving: amounts{}, held: amounts{},
		starts: amounts{}, landed: amounts{}, promised: amounts{}, vacated: amounts{},
		lent: amounts{}, going: amounts{}, recalled: amounts{}, lends: amounts{}, slack: vector(h.Slack.Add(h.Revocable)),
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
	for _, k := range h.Tasks {
		t := c.snap.Task(k)
		takes := ask(c.spec(k), t.GPUs, t.Ports)
		leaves := t.State.Vacating()
		if c.revocable(k) {
			takes = l.borrows(takes, leaves)
		}
		l.bound.add(takes, 1)
		if leaves {
			l.leaving.add(takes, 1)
		}
	}
	for _, k := range h.Held {
		hold := c.snap.Task(k).Hold
		l.held.add(ask(c.spec(k), hold.GPUs, hold.Ports), 1)
	}
	return l
}

// capacity returns what the host has of a dimension. Ports are asked about one by one: there may be tens of thousands.
func (l *ledger) capacity(k string) int64 {
	number, isPort := strings.CutPrefix(k, "port/")
	if !isPort {
		return l.has[k]
	}
	p, _ := strconv.Atoi(number) // it was written by ask
	for _, r := range l.host.Ports {
		if int(r.First) <= p && p <= int(r.Last) {
			return 1
		}
	}
	return 0
}

// runsBy returns the spec of the job that the task runs by, or will run by where it waits: its priority is that of its run.
func (c *checker) runsBy(k cluster.TaskKey) *cluster.JobSpec {
	return c.snap.Job(k.Job()).SpecFor(c.snap.Task(k))
}

func (c *checker) spec(k cluster.TaskKey) *cluster.TaskSpec { return c.runsBy(k).TaskOf(k.Instance()) }

func (c *checker) once(k cluster.TaskKey, as string) {
	if was, twice := c.seen[k]; twice {
		c.fail("task %v is in the plan as %s and as %s", k, was, as)
	}
	c.seen[k] = as
}

// target returns the ledger of a host that new work may go to.
func (c *checker) target(k cluster.TaskKey, id cluster.HostID) *ledger {
	l := c.ledger(id)
	if l == nil {
		c.fail("task %v is to go to host %s, which does not exist", k, id)
		return nil
	}
	if l.host.State() != cluster.HostUp {
		c.fail("task %v is to go to host %s, which takes no work", k, id)
	}
	if missing := c.runsBy(k).NeedsFor(c.spec(k)) &^ l.host.Capabilities; missing != 0 {
		c.fail("task %v is to go to host %s, which cannot do %v", k, id, missing)
	}
	return l
}

func (c *checker) placements() {
	for i := range c.plan.Placements {
		p := &c.plan.Placements[i]
		c.once(p.Task, "a placement")
		t := c.snap.Task(p.Task)
		if t == nil || !t.State.Waits() {
			c.fail("task %v is placed and does not wait", p.Task)
			continue
		}
		if p.Run != c.snap.Job(p.Task.Job()).NextRun(t) {
			c.fail("task %v is placed as run %d after run %d", p.Task, p.Run, t.Run)
		}
		l := c.target(p.Task, p.Host)
		if l == nil {
			continue
		}
		takes := ask(c.spec(p.Task), p.GPUs, p.Ports)
		if c.revocable(p.Task) {
			ports := amounts{}
			for d, n := range takes {
				if strings.HasPrefix(d, "port/") {
					ports[d] = n
				} else {
					l.lends[d] += n
				}
			}
			takes = ports
		}
		l.starts.add(takes, 1)
		c.landed(t)
		c.cut(p.Task, l.host, p.GPUs)
		c.ports(p.Task, p.Ports)
	}
	for _, k := range c.plan.Ended {
		c.once(k, "the end of a hold")
		if t := c.snap.Task(k); t == nil || t.State != cluster.TaskReserved {
			c.fail("task %v has no hold that could end", k)
		} else {
			c.landed(t)
		}
	}
}

// landed notes that the room that is held for a task is held no longer: it starts, there or elsewhere, or waits on.
func (c *checker) landed(t *cluster.Task) {
	if t.Hold == nil {
		return
	}
	if l := c.ledger(t.Hold.Host); l != nil {
		l.landed.add(ask(c.spec(t.Key), t.Hold.GPUs, t.Hold.Ports), 1)
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

// ports checks that the ports are those that the task asks for, none twice. Whether they are free is a sum like any other.
func (c *checker) ports(k cluster.TaskKey, ports []uint16) {
	request := &c.spec(k).Ports
	if len(ports) != len(request.Numbers)+int(request.Dynamic) || !slices.Equal(ports[:len(request.Numbers)], request.Numbers) {
		c.fail("task %v gets ports %v and asked for %v and %d more", k, ports, request.Numbers, request.Dynamic)
	}
	for n, p := range ports {
		if slices.Contains(ports[:n], p) {
			c.fail("task %v gets port %d twice", k, p)
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
			if l := c.ledger(h.Hold.Host); l != nil && len(d.Victims) == 0 {
				l.reserved = true
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
	if t == nil || !t.State.Bound() || t.State.Vacating() || t.Run != v.Run {
		c.fail("task %v is asked to leave and is not there", v.Task)
		return
	}
	spec := c.runsBy(v.Task)
	if !spec.Preemptible && !spec.Revocable || spec.Type == cluster.Stateful || spec.Type == cluster.Daemon {
		c.fail("task %v may not be preempted", v.Task)
	}
	recalled := spec.Revocable && v.Preemption.For == 0
	if t.Preempted != nil && c.now.Sub(t.Preempted.At) < c.hysteresis && !recalled {
		c.fail("task %v was asked to leave a moment ago", v.Task)
	}
	if v.Hold == nil && !recalled && c.snap.Task(v.Preemption.For) == nil {
		c.fail("task %v is asked to leave for task %v, which does not exist", v.Task, v.Preemption.For)
		return
	}
	c.victims[v.Task] = v
	if spec.Revocable {
		c.ledger(t.Host).recalled.add(vector(c.spec(v.Task).Resources), 1)
	} else {
		c.ledger(t.Host).vacated.add(ask(c.spec(v.Task), t.GPUs, t.Ports), 1)
	}
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
		return cycle.KeyOf(c.snap, c.snap.Job(k.Job()), c.snap.Task(k), c.now)
	}
	return a.Job() == b.Job() || class(a) == class(b)
}

// gangs checks that the waiting members of a core all come in, and the bound ones all go, or none, and that nobody else starts before.
func (c *checker) gangs() {
	jobs := map[cluster.JobUID]bool{}
	for k := range c.seen {
		jobs[k.Job()] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(jobs)) {
		if j := c.snap.Job(uid); j == nil || j.Spec.Gang == nil {
			continue // tasks that do not exist were named before
		}
		spec := c.snap.Job(uid).Spec
		in, out, go1, stay := 0, 0, 0, 0
		begun, waits := false, false
		for i := range spec.Gang.Minimum {
			t := c.snap.Task(cluster.MakeTaskKey(uid, i))
			as, planned := c.seen[t.Key]
			begun, waits = begun || t.State.Bound() || as == "a placement", waits || t.State.Waits() && t.NotBefore == 0
			switch {
			case t.State == cluster.TaskPending && planned, t.State == cluster.TaskReserved && as == "a placement":
				in++
			case t.State == cluster.TaskPending:
				out++
			case t.State == cluster.TaskReserved && as != "the end of a hold" && in > 0:
				out++
			case as == "a victim":
				go1++
			case t.State.Bound() && !t.State.Vacating(): // else it leaves already
				stay++
			}
		}
		if in > 0 && out > 0 {
			c.fail("of the core of job %d, %d come in and %d stay out", uid, in, out)
		}
		if go1 > 0 && stay > 0 {
			c.fail("of the core of job %d, %d leave and %d stay", uid, go1, stay)
		}
		if waits && !begun {
			for _, p := range c.plan.Placements {
				if t := c.snap.Task(p.Task); p.Task.Job() == uid && t != nil && t.State == cluster.TaskPending { // else it was let in when the core ran
					c.fail("task %v starts before the core of its gang", p.Task)
				}
			}
		}
	}
}

// overfull checks every host in every dimension.
func (c *checker) overfull() {
	for _, id := range c.ids() {
		l := c.hosts[id]
		for _, k := range slices.Sorted(maps.Keys(l.starts)) {
			starts := l.starts[k]
			// What is held for others is not free for starts, save what of it is still being vacated.
			held := max(0, l.held[k]-l.landed[k]+l.promised[k]-l.leaving[k]-l.vacated[k]-l.excess(k, false)+l.excess(k, true))
			if free := l.capacity(k) - l.bound[k] - l.excess(k, false); starts > 0 && starts > free {
				c.fail("host %s: %d of %s start and %d are free", id, starts, k, free)
			} else if starts > 0 && starts-l.landed[k] > 0 && starts > free-held && !l.reserved {
				c.fail("host %s: %d of %s start into %d that is held for others", id, starts, k, held)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(l.promised)) {
			if promised := l.promised[k]; promised > 0 && !l.reserved && promised > l.promise(k) {
				c.fail("host %s: %d of %s are promised and %d will be there", id, promised, k, l.promise(k))
			}
		}
	}
}

// promise is what will be there for the holds of the plan.
func (l *ledger) promise(k string) int64 {
	return l.capacity(k) - l.bound[k] + l.leaving[k] + l.vacated[k] - l.held[k] + l.landed[k] - l.starts[k] - l.excess(k, true)
}

// inVain checks that nobody leaves who could stay.
func (c *checker) inVain() {
	for i := range c.plan.Displacements {
		for j := range c.plan.Displacements[i].Victims {
			v := &c.plan.Displacements[i].Victims[j]
			if c.victims[v.Task] != v || !c.first(v.Task) {
				continue
			}
			if v.Hold == nil && v.Preemption.For == 0 {
				c.recall(v)
				continue
			}
			needed := false
			takes := map[cluster.HostID]amounts{} // what it has on each host
			gives := amounts{}                    // and of its pool
			for _, k := range c.together(v.Task) {
				t := c.snap.Task(k)
				if takes[t.Host] == nil {
					takes[t.Host] = amounts{}
				}
				takes[t.Host].add(ask(c.spec(k), t.GPUs, t.Ports), 1)
				gives.add(vector(c.spec(k).Resources), 1)
			}
			if v.Hold == nil && !c.revocable(v.Task) {
				needed = c.atLimit(c.runsBy(v.Task).Pool, gives)
			}
			for id, all := range takes {
				l := c.hosts[id]
				for dim, n := range all {
					if c.revocable(v.Task) {
						n = l.gives(dim, n)
					}
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
	var ids []cluster.HostID
	for id, l := range c.hosts {
		if l != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
