package cycle

import (
	"cmp"
	"slices"
	"sort"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Explanations are worked out when somebody asks, between two cycles, from what the planner knows after the
// last one. They cost a cycle nothing and leave no trace. Which of several plans of the same cost is found
// next depends on the order in which hosts were looked at, and on which counts there are. So explanations
// bring no row in line and tell nobody of what they count.

// Waiting says why a task waits.
type Waiting struct {
	Tasks int            // that wait as it does: of its class
	Price flowgraph.Cost // of one task's waiting for one cycle
	Hosts int            // all hosts; the sum of the tally
	Tally []Tally        // most hosts first
	// Together is how many tasks are placed at once with it or not at all, itself counted; 0 if it is placed
	// alone. Fit is how many of these have room now.
	Together, Fit int
	// Position among the Queue tasks that wait in the pool, from 1, by priority and age.
	Position, Queue int
	// Binding is what keeps the pool from admitting the task; its rule is pool.RuleNone where nothing does.
	Binding pool.Binding
	// Blocked is the place that would cost least if it were open, nil if the task can run on no host as it is.
	Blocked *Blocked
	// Unblockers are what would get the task placed in the next cycle, all of them together.
	Unblockers []Unblocker
}

// Tally counts the hosts that were ruled out for one reason.
type Tally struct {
	Reason HostReason
	Detail string // the dimension or the rules, "" where the reason has none
	Hosts  int
}

// Place is a host and what it costs to start there.
type Place struct {
	Host  cluster.HostID
	Price flowgraph.Cost // the sum of the terms
	Terms []costmodels.Term
}

// Blocked is a place that is not open.
type Blocked struct {
	Place
	Reason HostReason
	Detail string
}

// UnblockKind says what has to change.
type UnblockKind string

// The kinds of changes.
const (
	ResumeHost    UnblockKind = "RESUME_HOST"    // the host takes work again
	ReconnectHost UnblockKind = "RECONNECT_HOST" // its host manager connects again
	MoreRoom      UnblockKind = "MORE_ROOM"      // the host has so much more free than it has
	MoreSlack     UnblockKind = "MORE_SLACK"     // its tasks use so much less of what they hold
	FewerTasks    UnblockKind = "FEWER_TASKS"    // so many tasks that a rule counts leave the host's domain
	MoreTasks     UnblockKind = "MORE_TASKS"     // so many tasks that a rule counts come to the host's domain
	RaisePool     UnblockKind = "RAISE_POOL"     // the pool may have so much more of a dimension
	LiftLimit     UnblockKind = "LIFT_LIMIT"     // something ends that a limit on running work counts, or the limit is raised
	MoreGPUs      UnblockKind = "MORE_GPUS"      // on so many more devices of the host so much is free
	MorePorts     UnblockKind = "MORE_PORTS"     // these ports of the host are free, and so many more
	OtherHost     UnblockKind = "OTHER_HOST"     // so many hosts come that could run the task
	Patience      UnblockKind = "PATIENCE"       // nothing: if no better place opens, it goes where there is room
	CoreBegins    UnblockKind = "CORE_BEGINS"    // the core of its gang begins, for which room is held
)

// Unblocker is a change that a task waits for.
type Unblocker struct {
	Kind UnblockKind
	Host cluster.HostID
	// Room is what the host needs beyond what it has free, for the task and for the Ahead tasks that may go
	// there first.
	Room  cluster.Resources
	Ahead int
	// Together is how many tasks all this is for, if they are placed at once with the task, itself counted; 0
	// where it is alone.
	Together int
	// GPUs of MoreGPUs: how many more parts of Milli thousandths of a device have to be free; whole devices
	// if that is all of one.
	GPUs, Milli int64
	// Ports of MorePorts and OtherHost: these, and so many others.
	Ports     []uint16
	FreePorts int
	// Hosts of OtherHost: how many; each needs all the rest. With Slack, Room is what the tasks of each have
	// to leave unused.
	Hosts int
	Slack bool
	// Rule and Count of FewerTasks and MoreTasks. Rule of RaisePool and LiftLimit: what of the pool is to be
	// raised. Count of LiftLimit: how many of what the limit counts have to end, for the task and those that
	// may be let in before it; 0 if that does not help. For a limit in percent for revocable tasks, Count is
	// what it has to be.
	Rule  string
	Count int64
	// Pool, Dimension and Amount of RaisePool and LiftLimit: whose rule is to be raised, in which dimension
	// if the rule has one, and by how much.
	Pool      cluster.PoolPath
	Dimension string
	Amount    int64
}

// Placed says why a task is where it is.
type Placed struct {
	Place
	Next []Place // the cheapest other places that are open to it now, at most 3
}

// WhyWaiting says why the task waits, false if it does not. Complexity: hosts, and classes with waiting tasks.
func (p *Planner) WhyWaiting(k cluster.TaskKey) (Waiting, bool) {
	at, waits := p.waiting[k]
	if !waits {
		return Waiting{}, false
	}
	var w Waiting
	p.idly(func() { w = p.whyWaiting(at) })
	return w, true
}

func (p *Planner) whyWaiting(at entry) Waiting {
	c := at.class
	w := p.describeClass(c)
	rank := c.rank(at.as)
	w.Position, w.Queue = p.position(c, at.as)
	var refused bool
	w.Binding, refused = c.binding(rank)
	w.Blocked = p.cheapestBlocked(c)
	if c.why.Rule == pool.RuleGang { // when the core has begun, the task is looked at again
		w.Unblockers = []Unblocker{{Kind: CoreBegins}}
		if core := p.coreOfGang(c); core != nil {
			head, _ := core.queue.Min()
			w.Unblockers = p.whyWaiting(p.waiting[head.task]).Unblockers
		}
		return w
	}
	w.Unblockers = p.unblockers(c, at.as, rank, refused, &w)
	return w
}

// WhyTheyWait says of each of the tasks why it waits, without its place in the queue, the best place and what
// would help. If one does not wait, Tasks is 0. What tasks have in common is found once. When about looks
// hosts have been looked at, the rest of the tasks are left out; the first is always answered for.
// Complexity: hosts times the requests of the tasks, and O(log² tasks) for each.
func (p *Planner) WhyTheyWait(tasks []cluster.TaskKey, looks int) []Waiting {
	classes, rows := map[*class]Waiting{}, map[*row]Waiting{} // for look-up
	all := make([]Waiting, 0, len(tasks))
	for _, k := range tasks {
		at, waits := p.waiting[k]
		if !waits {
			all = append(all, Waiting{})
			continue
		}
		c := at.class
		w, known := classes[c]
		if !known {
			if looks <= 0 && len(all) > 0 {
				break
			}
			of, counted := rows[c.row]
			if !counted {
				of.Hosts, of.Tally = p.tally(c.row)
				rows[c.row] = of
				looks -= len(p.hosts.byIndex)
			}
			if c.together() {
				looks -= len(p.hosts.byIndex)
			}
			w = p.ofClass(c, of)
			classes[c] = w
		}
		w.Binding, _ = c.binding(c.rank(at.as))
		all = append(all, w)
	}
	return all
}

func (p *Planner) describeClass(c *class) (w Waiting) {
	w.Hosts, w.Tally = p.tally(c.row)
	return p.ofClass(c, w)
}

// ofClass completes what is known of all tasks of a row for those of a class.
func (p *Planner) ofClass(c *class, w Waiting) Waiting {
	w.Tasks, w.Price = c.queue.Len(), c.price
	if c.together() {
		p.labels.idly(func() { w.Together, w.Fit = c.queue.Len(), int(p.placesAtOnce(c, nil)) })
	}
	return w
}

// binding returns what keeps the task of that rank in the class from being admitted, and whether it is kept
// out. Some tasks are kept out by nothing but that their claims went to others for want of a host.
func (c *class) binding(rank int) (b pool.Binding, refused bool) {
	switch n := int64(rank) - c.open(); {
	case n < 0:
		return b, false
	case n < c.overall():
		return c.limited, true
	default:
		return c.why, true
	}
}

// coreOfGang returns the core of the gang that the class is of; nil if nobody of the core waits for a place.
func (p *Planner) coreOfGang(c *class) *class {
	i := slices.IndexFunc(p.order, func(x *class) bool {
		return x.key.group.gang && x.key.group.job == c.key.group.job && x.queue.Len() > 0
	})
	if i < 0 {
		return nil
	}
	return p.order[i]
}

// tally counts all hosts by what rules them out for a task of the row.
func (p *Planner) tally(r *row) (hosts int, tally []Tally) {
	counts := map[verdict]int{}
	labels := r.rule.labels()
	for _, h := range p.hosts.byIndex {
		v := r.judge(h)
		if v == absent {
			continue
		}
		counts[v]++
		hosts++
		if v == mismatch {
			labels.Count(h.rec)
		}
	}
	for v, n := range counts { // sorted below
		reason, detail := r.reason(v)
		if v == mismatch {
			detail = labels.String()
		}
		tally = append(tally, Tally{reason, detail, n})
	}
	slices.SortFunc(tally, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Detail, b.Detail))
	})
	return hosts, tally
}

// rank returns how many tasks of the class go before the waiter. Complexity: O(log² tasks).
func (c *class) rank(w waiter) int {
	return sort.Search(c.queue.Len(), func(i int) bool {
		at, _ := c.queue.GetAt(i)
		return !earlier(at, w)
	})
}

// position returns the task's place among those that wait in its pool, from 1, and how many these are.
func (p *Planner) position(own *class, w waiter) (position, queue int) {
	position = 1
	for _, c := range p.order {
		if c.key.group.pool != own.key.group.pool {
			continue
		}
		queue += c.queue.Len()
		position += p.before(c, own, w)
	}
	return position, queue
}

// goesBefore reports whether the task w of class c goes before the task than of class own in the same pool,
// by priority and age.
func (p *Planner) goesBefore(c *class, w waiter, own *class, than waiter) bool {
	pool := p.snap.Pool(own.key.group.pool)
	raised := func(c *class, w waiter) int64 { return pool.Raised(c.key.group.priority, w.queued, p.now) }
	switch by := cmp.Or(cmp.Compare(raised(c, w), raised(own, than)), cmp.Compare(one(c.key.ahead), one(own.key.ahead))); {
	case by != 0:
		return by > 0
	default:
		return earlier(w, than)
	}
}

// cheapestBlocked returns the place that would cost least, of those that something closes which may change:
// room, rules that count tasks, or the host's state.
func (p *Planner) cheapestBlocked(c *class) *Blocked {
	var best *Blocked
	for _, h := range p.hosts.byIndex {
		v := c.row.judge(h)
		switch v % kinds {
		case full, noSlack, crowded, lonely, uneven, draining, unreachable:
		default:
			continue
		}
		if v := c.row.judgeOpen(h); v != open { // it would be ruled out for another reason
			continue
		}
		place := p.priceOf(&c.seen.Request, c.row, &c.local, h.index, withRoom(h.rec, c.row.task))
		if best == nil || place.Price < best.Price {
			reason, detail := c.row.reason(v)
			best = &Blocked{place, reason, detail}
		}
	}
	return best
}

// judgeOpen judges the host as if it were up and empty, and all that rules count were as they wish.
func (r *row) judgeOpen(h *host) verdict {
	rec := *h.rec
	rec.Draining, rec.Unreachable = false, false
	v, _ := r.judgeMachine(&rec)
	if v == open && r.rule != nil && r.rule.static(&rec) == cluster.False {
		return mismatch
	}
	for _, x := range r.leaves() {
		if _, ok := x.tally.at(&rec); !ok {
			return noDomain
		}
	}
	if v == open && r.task.Ports.Fit(&cluster.Host{Machine: h.rec.Machine}, 1) == 0 {
		return tooSmall
	}
	return v
}

func (r *row) leaves() []*leaf {
	if r.rule == nil {
		return nil
	}
	return r.rule.order
}

// withRoom returns the host as it would be with room for one task.
func withRoom(rec *cluster.Host, task *cluster.TaskSpec) *cluster.Host {
	out := *rec
	out.Withheld, out.GPUWithheld, out.PortsWithheld = cluster.Resources{}, nil, nil
	out.Allocated = rec.Allocated.Sub(shortage(task.Resources, rec.Free()))
	if !task.GPU.IsZero() && task.GPU.Fit(rec.GPUs, rec.GPUFree, 1) == 0 {
		out.GPUFree = slices.Clone(rec.GPUFree)
		for i := range out.GPUFree {
			if out.GPUFree[i] = cluster.WholeGPU; task.GPU.Fit(rec.GPUs, out.GPUFree, 1) > 0 {
				break
			}
		}
	}
	return &out
}

// priceOf prices one place, term by term. rec is the host as it would be for the task, with room.
func (p *Planner) priceOf(q *costmodels.Request, r *row, l *locality, i int32, rec *cluster.Host) Place {
	place := Place{Host: rec.ID, Terms: p.model.Items(&p.round, q, rec)}
	if extra := l.extra(i); extra > 0 {
		place.Terms = append(place.Terms, costmodels.Term{Name: "data", Price: extra})
	}
	place.Terms = append(place.Terms, costmodels.Term{Name: "launches that failed", Price: distrust(rec)})
	place.Terms = append(place.Terms, r.rule.terms(rec)...)
	place.Terms = slices.DeleteFunc(place.Terms, func(t costmodels.Term) bool { return t.Price == 0 })
	for _, t := range place.Terms {
		place.Price += t.Price
	}
	return place
}

// terms returns what each preference costs that the host breaks.
func (r *rule) terms(rec *cluster.Host) []costmodels.Term {
	if r == nil {
		return nil
	}
	var all []costmodels.Term
	left := flowgraph.Cost(cluster.MaxPenalty.Milliseconds())
	r.rec, r.own = rec, 0
	for i := range r.soft {
		if s := &r.soft[i]; s.is.Evaluate(rec, r.ask) != cluster.True {
			all = append(all, costmodels.Term{Name: s.name, Price: min(s.price, left)})
			left -= min(s.price, left)
		}
	}
	return all
}

// WhyPlaced says what the task costs where it is, as if it started there now, and where else it could be.
// False if it is bound to no host. Complexity: hosts.
func (p *Planner) WhyPlaced(k cluster.TaskKey) (out Placed, known bool) {
	u := p.units.Get(uint64(k))
	if u == nil || u.host == nil || u.host.rec == nil {
		return Placed{}, false
	}
	p.idly(func() {
		p.rows.peek(u.row, u.spec, u.wishes, func(r *row) { out = p.placed(u, r) })
	})
	return out, true
}

// idly has do answer a question between two plans, so that these are as if nobody had asked. What a model asked
// then of what was learned from runs changes no price, unless rows took in prices meanwhile.
func (p *Planner) idly(do func()) {
	known, taken := p.known, p.rows.taken
	p.labels.idly(do)
	if p.rows.taken == taken {
		p.known = known
	}
}

func (p *Planner) placed(u *unit, r *row) Placed {
	own := u.host
	q := costmodels.Request{Task: u.spec, Work: u.row.work, Route: r.request.Route}
	l := p.resolve(&costmodels.Class{
		Request: q, Pool: u.job.Pool, Type: u.job.Type, Priority: u.job.Priority, Inputs: cluster.IndexInputs(u.job.Inputs).Of(u.task.Instance()), Images: cluster.ImagesOf(u.spec),
	})
	mark := len(p.labels.plan)
	p.labels.planned(u.set, own, u.presence().times(-1))
	defer p.labels.takeBack(mark)
	out := Placed{Place: p.priceOf(&q, r, &l, own.index, u.spec.Unbind(own.rec, u.devices))}
	for _, h := range p.hosts.byIndex {
		if h == own || r.judge(h) != open {
			continue
		}
		out.Next = append(out.Next, Place{Host: h.id, Price: clamp(p.model.Start(&p.round, &q, h.rec)) + l.extra(h.index) + r.rule.price(h.rec, 0)})
	}
	slices.SortStableFunc(out.Next, func(a, b Place) int { return cmp.Compare(a.Price, b.Price) })
	out.Next = out.Next[:min(3, len(out.Next))]
	for i := range out.Next {
		h := p.hosts.byID[out.Next[i].Host]
		out.Next[i] = p.priceOf(&q, r, &l, h.index, h.rec)
	}
	return out
}
