package cycle

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Displacement is room that is made for waiting tasks: what is held for them, and who leaves for it. It is
// carried out as a whole, or not at all.
type Displacement struct {
	Holds   []Held
	Victims []Victim
}

// Held keeps room for a waiting task.
type Held struct {
	Task cluster.TaskKey
	Hold cluster.Hold
}

// Victim is a task that is asked to leave.
type Victim struct {
	Task       cluster.TaskKey
	Run        uint32
	Preemption cluster.Preemption
	Hold       *cluster.Hold // where it moves; nil: it waits again, or ends
}

// nomination is room held by this plan on a host.
type nomination struct {
	spec    *cluster.TaskSpec
	devices cluster.Devices
	set     *labelSet
	rule    *rule
	lids    []lid // for the rule, while the room is held
}

func (n *nomination) hold(h *host, until cluster.Time) cluster.Hold {
	return cluster.Hold{Host: h.id, GPUs: n.devices.GPUs, Ports: n.devices.Ports, Until: until}
}

// alternatives is how many other hosts are named to those who leave.
const alternatives = 3

// displacement is one waiting unit, the host it is to have, and who leaves that host for it.
type displacement struct {
	class   *class
	host    *host
	nominee *nomination
	leave   []bundle
	victims []*unit        // the units of leave, once it is chosen
	price   flowgraph.Cost // what the victims lose and the start there costs
	next    options        // the next best hosts, cheapest first
	tier    cluster.Tier   // in which the unit was admitted
	due     cluster.Time   // until when the room is held at the latest; 0 for no limit
	step    int            // displacements with the same step are carried out together
}

// displacementOn has a unit of the class come to the host. Nobody leaves for it yet.
func (c *class) displacementOn(h *host, w waiter, with cluster.Devices) *displacement {
	return &displacement{class: c, host: h, nominee: &nomination{spec: c.row.task, devices: with, set: w.set, rule: c.row.rule}}
}

// displace makes room for units that wait although their pools may claim room for them. The strongest claims
// come first, among equals the hardest to place. Each unit takes the host where those who leave lose least.
// None of those leaves in vain: in the end everyone who can stay stays.
func (p *Planner) displace(in Input, out *Output) {
	d := p.displacer(out)
	p.unbind()
	defer p.bind()
	claims := make([]*class, 0, len(p.order))
	for _, c := range p.order {
		c.nominees = 0
		if path := c.key.group.pool; c.passed {
			d.bide[path] = max(d.bide[path], c.bides)
		}
		if c.claims() == 0 {
			continue
		}
		if p.rows.refresh(c.row); (!c.row.anyOpen() || c.together() || c.limited.Rule != pool.RuleNone) && !c.row.nowhere() {
			claims = append(claims, c)
		}
	}
	if len(claims) == 0 || in.KeepAll {
		return
	}
	total := p.hosts.capacity()
	slices.SortStableFunc(claims, func(a, b *class) int {
		return cmp.Or(cmp.Compare(a.tier(), b.tier()),
			cmp.Compare(dominant(b.row.task.Resources, total), dominant(a.row.task.Resources, total)),
			cmp.Compare(b.price, a.price))
	})
	d.soon = p.comesSoon(claims)
	if p.fruitless.at == p.still() {
		d.fruitless = p.fruitless
	}
	for _, c := range claims {
		for _, moves := range []bool{false, true} {
			if c.claims() > 0 && d.budget() > 0 && !(moves && d.patient(c)) {
				d.serve(c, moves, c.seeks())
			}
		}
		if c.bides = 0; c.claims() > 0 && d.patient(c) {
			c.bides = d.patience(c)
		}
	}
	p.fruitless = d.fruitless
	p.fruitless.at = p.still()
	d.reprieve()
	d.emit()
	d.reserve()
}

// recede makes room for those who only borrow, if revocable tasks hold more than the slack: others are placed
// as if these were not there. Only revocable tasks leave for it, after what they leave for claims.
func (p *Planner) recede(in Input, out *Output) {
	if in.KeepAll || !p.hosts.lendsTooMuch() {
		return
	}
	d := p.receding(out)
	for _, c := range p.order {
		c.nominees = 0
	}
	for _, c := range p.byWorth(p.mayBorrow) {
		p.rows.refresh(c.row)
		began := len(d.done)
		if d.budget() > 0 && (!c.row.anyOpen() || c.together()) && !c.row.nowhere() {
			d.serve(c, false, c.open())
		}
		if !slices.ContainsFunc(d.done[began:], func(n *displacement) bool { return len(n.victims) > 0 }) {
			for len(d.done) > began { // those who start together, and nobody has to leave
				d.revert()
			}
		}
	}
	d.reprieve()
	d.emit()
}

// mayBorrow reports whether no others than revocable tasks leave for the next task of the class: it has no
// claim, or one that its pool cannot have as long as others of it stay.
func (p *Planner) mayBorrow(c *class) bool {
	return !c.key.group.revocable && (c.claims() == 0 || !p.ledger.Stays(c.group.unit(1)))
}

// receding returns a displacer for those who borrow.
func (p *Planner) receding(out *Output) displacer {
	d := p.displacer(out)
	d.borrows = true
	return d
}

// mayRecede reports whether revocable tasks could leave for a task of the class, which has no host, if it
// only borrows.
func (p *Planner) mayRecede(c *class, in *Input, out *Output) bool {
	if in.KeepAll || !p.mayBorrow(c) || c.together() || !p.hosts.lendsTooMuch() {
		return false
	}
	d := p.receding(out)
	c.nominees = 0
	return d.look(c, false, nil).Len() > 0
}

// dominant returns the largest share of any dimension of the total that the request asks for, in millionths.
func dominant(request, total cluster.Resources) int64 {
	return costmodels.DominantShare(&request, &total, 1000, math.MaxInt32)
}

// displacer is the state of one pass of displacements.
type displacer struct {
	fruitless
	p       *Planner
	out     *Output
	now     cluster.Time
	borrows bool // see recede
	done    []*displacement
	hit     []*unit // victims of this pass, in the order in which they were chosen
	freed   []int   // displacements of earlier passes that have lost a victim
	step    int
	first   []*displacement // see precede

	soon    bool                              // see comesSoon
	bide    map[cluster.PoolPath]cluster.Time // until when claims of the pool wait for what comes soon, if they went to those next
	later   bool                              // seeks also what this plan may not do yet, see roomAt
	forming map[cluster.JobUID]bool           // gangs that this plan places members of
	yield   []*host                           // see moving
	listed  int                               // clock of hosts when yield was listed
	within  map[*limit][]*insiders            // see inside; for look-up
	barren  map[barren]int                    // value: the clock then; for look-up
	starts  map[contentPrice]flowgraph.Cost   // for look-up

	gangs   map[cluster.JobUID]*gangBundle // for look-up
	quest   quest                          // the last one
	listing []*band                        // see bands
	refuges refuges                        // see shelter
	leavers []leaver                       // scratch
	lacks   []string                       // scratch
	room    space                          // scratch
	giving  []giving                       // scratch
	chance  []*host                        // scratch
}

// displacer returns one with nothing planned beside what the plan has so far.
func (p *Planner) displacer(out *Output) displacer {
	d := displacer{p: p, out: out, now: p.now, fruitless: newFruitless(), forming: map[cluster.JobUID]bool{}, bide: map[cluster.PoolPath]cluster.Time{}, listed: -1}
	for i := range out.Placements {
		d.forming[out.Placements[i].Gang] = true
	}
	return d
}

// fruitless is what searches without success have found out. It serves others of the same kind, also in later
// passes if nothing is planned in between.
type fruitless struct {
	vain  map[errand]int     // errands without a host, and the clock then
	unmet map[likeGang]unmet // gangs without room for all of them, since anybody last found some
	rests bool               // somebody may not be asked to leave yet
	at    stillness
}

func newFruitless() fruitless {
	return fruitless{vain: map[errand]int{}, unmet: map[likeGang]unmet{}}
}

// stillness is a state of a plan. While it is the same, nobody comes, leaves or has room held.
type stillness struct {
	instant
	clock int // of hosts
}

func (p *Planner) still() stillness { return stillness{p.instant(), p.hosts.clock} }

// errand is what decides whether room can be made for a class. Its inputs only decide at what price.
type errand struct {
	row            *row
	group          *group
	moves, patient bool
}

// likeGang is what gangs of one size have in common if one of them finds room for all of it wherever another
// does.
type likeGang struct {
	row            *row
	group          groupKey // without the job
	moves, patient bool
}

// unmet is a gang that found no room for all of it: how many tasks it still needs, and what waiting costs
// each. A gang that found no room for any counts as one that needs one, whatever that costs.
type unmet struct {
	count int64
	price flowgraph.Cost
}

// likeGang returns what a gang is like. It returns false for what is no gang, and where it matters which job
// it is: to its own rules or those of others, to limits, to the shares of a leaf, or since others of it are
// on hosts.
func (d *displacer) likeGang(c *class, what errand) (likeGang, bool) {
	k, g := c.key.group, c.group
	if !k.gang || k.gated || d.later || d.borrows || c.row.rule != nil || c.limited.Rule != pool.RuleNone || g.running+g.leaving+g.ending > 0 ||
		d.p.snap.Pool(k.pool).Order != cluster.PriorityFIFO {
		return likeGang{}, false
	}
	uncounted := true
	c.queue.Scan(func(w waiter) bool {
		uncounted = len(w.set.tallies) == 0
		return uncounted
	})
	k.job = 0
	return likeGang{c.row, k, what.moves, what.patient}, uncounted
}

// budget returns how many more may be asked to leave in this cycle.
func (d *displacer) budget() int { return d.p.options.MaxDisplaced - d.p.churn.all }

// seeks returns for how many units of the class room is made, at most.
func (c *class) seeks() int64 {
	if c.group.key.gang {
		return c.open()
	}
	return c.claims()
}

// serve makes room for up to count units of a class, or for all or none if they start together.
func (d *displacer) serve(c *class, moves bool, count int64) {
	what := errand{c.row, c.group, moves, d.patient(c)}
	if at, known := d.vain[what]; known && at == d.p.hosts.clock {
		return
	}
	like, fresh := d.likeGang(c, what)
	if last, known := d.unmet[like]; fresh && known && count >= last.count && c.price <= last.price {
		return
	}
	some := false
	d.p.inCheapest(c, count, func(h *host) (flowgraph.Cost, int64) {
		o, ok := d.price(c, h, moves)
		if !ok {
			return 0, 0
		}
		some = true
		w := d.want(d.seek(c, moves), h)
		return o.price, d.could(w, h, func(*unit, giving) bool { return true }).count(h, c.row.task, count)
	}, func(hosts []*host) bool {
		all := d.look(c, moves, hosts)
		some = some || all.Len() > 0
		made := d.serveOn(c, hosts, all, moves, count)
		if made {
			clear(d.unmet)
		} else if fresh {
			d.unmet[like] = unmet{count, c.price}
		}
		return made
	})
	if !some {
		if d.vain[what] = d.p.hosts.clock; fresh {
			d.unmet[like] = unmet{1, nowhere}
		}
	}
}

// serveOn does that on hosts that were looked at. It reports whether it has made room for anybody.
func (d *displacer) serveOn(c *class, hosts []*host, all *options, moves bool, count int64) bool {
	began, together := len(d.done), c.together()
	looked := began
	lacks := func() bool { return int64(len(d.done)-began) < count }
	d.step++
	for lacks() {
		next := d.cheapest(c, all, moves)
		if next == nil && c.evens() && len(d.done) > looked { // again where places open as others fill
			looked, all = len(d.done), d.look(c, moves, hosts)
			continue
		}
		if next == nil {
			break
		}
		if !together {
			d.step++
		}
		next.step = d.step
		if !d.apply(next) {
			continue
		}
		d.precede(next)
		if lacks() {
			if again, ok := d.price(c, next.host, moves); ok {
				heap.Push(all, again)
			}
		}
	}
	d.wait()
	if together && lacks() {
		for len(d.done) > began {
			d.revert()
		}
	}
	return len(d.done) > began
}

// cheapest returns the best displacement for one unit of the class. Prices of hosts only rise as room goes.
// So one that costs no more now than the next one did when that was looked at is the cheapest.
func (d *displacer) cheapest(c *class, all *options, moves bool) *displacement {
	for all.Len() > 0 {
		if (*all)[0].known < atLeast {
			d.refine(c, all, moves)
			continue
		}
		h := heap.Pop(all).(option).host
		found := d.choose(c, h, moves)
		switch {
		case found == nil:
			continue
		case all.Len() > 0 && byPrice(option{host: h, price: found.price}, (*all)[0]) > 0:
			heap.Push(all, option{h, found.price, exactly})
			continue
		}
		for _, b := range found.leave {
			found.victims = append(found.victims, b.units...)
		}
		if len(found.victims) > d.budget() {
			continue
		}
		found.next = d.best(c, all, moves, alternatives)
		return found
	}
	return nil
}

// apply takes a displacement into the plan. It fails if a victim that was to move has lost the place to go
// to.
func (d *displacer) apply(n *displacement) bool {
	for i, u := range n.victims {
		if u.move != nil && !d.findMove(u) {
			for _, v := range n.victims[:i] {
				d.spare(v)
			}
			return false
		}
		d.strike(u)
	}
	d.pledge(n)
	return true
}

// pledge holds the room of a displacement for its unit. All victims have been struck.
func (d *displacer) pledge(n *displacement) {
	n.tier = n.class.tier()
	n.class.take(1)
	n.class.group.pledged++
	n.class.nominees++
	d.p.ledger.Add(n.class.group.unit(1))
	d.nominate(n.host, n.nominee)
	d.done = append(d.done, n)
}

// revert takes the last displacement out of the plan again.
func (d *displacer) revert() {
	n := d.done[len(d.done)-1]
	d.done = d.done[:len(d.done)-1]
	n.class.giveBack(n.tier)
	n.class.group.pledged--
	n.class.nominees--
	d.p.ledger.Remove(n.class.group.unit(1))
	d.withdraw(n.host, n.nominee)
	for _, u := range n.victims {
		d.spare(u)
	}
}

func (d *displacer) nominate(h *host, n *nomination) {
	h.nominated = append(h.nominated, n)
	d.p.crowded = append(d.p.crowded, h)
	n.lids = d.p.labels.cover(n.rule, h)
	d.p.labels.planned(n.set, h, waits)
	d.p.withhold(h)
}

func (d *displacer) withdraw(h *host, n *nomination) {
	h.nominated = without(h.nominated, n)
	d.p.labels.uncover(n.lids)
	d.p.labels.planned(n.set, h, gone)
	d.p.withhold(h)
}

// precede counts the task as if it had come to its host, for those of its gang that have to be spread evenly
// with it: they come one after the other in one step. For all others it only waits, and wait returns to that.
func (d *displacer) precede(n *displacement) {
	if n.class.evens() {
		d.first = append(d.first, n)
		d.p.labels.planned(n.nominee.set, n.host, arrives)
	}
}

func (d *displacer) wait() {
	for _, n := range d.first {
		d.p.labels.planned(n.nominee.set, n.host, leaving)
	}
	d.first = d.first[:0]
}

// stands reports whether the rule, which holds on the host, still does if those who precede only wait.
func (d *displacer) stands(r *rule, h *host) (holds bool) {
	if r == nil || len(d.first) == 0 {
		return true
	}
	l := d.p.labels
	l.idly(func() {
		mark := len(l.plan)
		for _, n := range d.first {
			l.planned(n.nominee.set, n.host, leaving)
		}
		holds = r.holds(h.rec, 0)
		l.takeBack(mark)
	})
	return holds
}

// strike makes a unit a victim.
func (d *displacer) strike(u *unit) {
	u.victim = true
	d.hit = append(d.hit, u)
	d.p.victims = append(d.p.victims, u)
	d.account(u.group.unit(1), -1, u)
	d.p.labels.planned(u.set, u.host, leaving)
	if u.move != nil {
		d.nominate(u.move.host, &u.move.nomination)
	}
	d.p.withhold(u.host)
}

// spare lets a victim stay.
func (d *displacer) spare(u *unit) {
	if u.victim = false; u.written {
		d.retract(u)
	}
	d.hit = without(d.hit, u)
	d.account(u.group.unit(1), 1, u)
	d.p.labels.planned(u.set, u.host, arrives)
	if u.move != nil {
		d.withdraw(u.move.host, &u.move.nomination)
		u.move = nil
	}
	d.p.withhold(u.host)
}

// retract takes a victim out of the output, where an earlier pass put it.
func (d *displacer) retract(u *unit) {
	u.written = false
	for i := range d.out.Displacements {
		step := &d.out.Displacements[i]
		if left := slices.DeleteFunc(step.Victims, func(v Victim) bool { return v.Task == u.task }); len(left) < len(step.Victims) {
			step.Victims, d.freed = left, append(d.freed, i)
		}
	}
	if u.move != nil {
		d.out.Stats.Migrations--
	} else {
		d.out.Stats.Preemptions--
	}
}

// reprieve lets victims stay, also those of earlier passes: the dearest first, a gang as a whole, until none
// can.
func (d *displacer) reprieve() {
	for _, n := range d.done {
		d.p.gain(n.class.group)
	}
	order := slices.Concat(d.p.hit, d.hit)
	slices.SortStableFunc(order, func(a, b *unit) int { return cmp.Compare(b.price, a.price) })
	for again := true; again; {
		again = false
		for _, u := range order {
			together := d.p.together(u)
			if !u.victim || !d.canStay(together) || u.move == nil && d.pays(together) {
				continue
			}
			for _, v := range together {
				d.spare(v)
			}
			again = true
		}
	}
}

// pays reports whether the units leave so that somebody takes something from others without ending beyond
// what it is entitled to: their own pool, one above it, or their job or user in a leaf that is fair.
func (d *displacer) pays(units []*unit) bool {
	all := sumOf(units)
	takes := func(n *displacement) bool {
		return slices.ContainsFunc(n.victims, func(u *unit) bool {
			return u.victim && u.move == nil && !d.p.ledger.MayReturn(all, n.class.group.unit(1), u.group.unit(1))
		})
	}
	return slices.ContainsFunc(d.p.done, takes) || slices.ContainsFunc(d.done, takes)
}

// canStay reports whether the units, if they stay, leave everybody what is promised.
func (d *displacer) canStay(units []*unit) bool {
	if !d.withinLimits(units) {
		return false
	}
	for i, u := range units {
		h := u.host
		promise := h.promise()
		for _, v := range units[:i+1] {
			if v.host == u.host {
				promise.add(v, -1)
			}
		}
		if promise.short(u) {
			return false
		}
	}
	return true
}

// arrival is a task that this plan starts on a host.
type arrival struct {
	job   cluster.JobUID
	group *group
}

func (p *Planner) note(h *host, k cluster.TaskKey, g *group) {
	h.arrivals = append(h.arrivals, arrival{k.Job(), g})
	p.crowded = append(p.crowded, h)
}

// makesWay reports whether the plan starts a task of the unit's own job or group on its host. Then the unit
// is not the one to leave.
func (h *host) makesWay(u *unit) bool {
	return slices.ContainsFunc(h.arrivals, func(a arrival) bool { return a.job == u.task.Job() || a.group == u.group })
}

// losesTo reports whether the plan asks a task of the job or the group to leave the host. Then no other task
// of these starts there.
func (h *host) losesTo(job cluster.JobUID, g *group) bool {
	return slices.ContainsFunc(h.units, func(u *unit) bool { return u.victim && (u.task.Job() == job || u.group == g) })
}

// forgetPlan takes back what the last plan noted beside the snapshot. What came of it is in the next
// snapshot.
func (p *Planner) forgetPlan() {
	for _, h := range p.crowded {
		if len(h.nominated) > 0 {
			p.hosts.tick(h)
		}
		h.nominated, h.arrivals, h.decided = h.nominated[:0], h.arrivals[:0], false
	}
	for _, u := range p.victims {
		u.victim, u.written, u.move = false, false, nil
		if h := u.host; h != nil && h.rec != nil {
			h.decided = false
			p.hosts.tick(h)
			p.hosts.mingle(h)
			p.hosts.recall(h, false)
		}
	}
	p.crowded, p.victims, p.hit, p.done = p.crowded[:0], p.victims[:0], p.hit[:0], p.done[:0]
	if p.labels != nil {
		p.labels.takeBack(0)
	}
	for _, h := range p.joined {
		h.joined = h.joined[:0]
		p.hosts.mingle(h)
	}
	p.joined = p.joined[:0]
}
