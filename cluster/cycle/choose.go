package cycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// maxNodes bounds the search for the cheapest victims on one host. What the search has found by then is used.
const maxNodes = 1 << 12

// choose finds the cheapest set of units whose leaving makes room for one task of the class on the host, and
// prices it. It is exact for up to maxNodes sets. It returns nil if there is none. With moves, units that fit
// elsewhere now may go there.
func (d *displacer) choose(c *class, h *host, moves bool) *displacement {
	first, ok := c.queue.GetAt(c.nominees) // those before it are nominated already
	q, task := d.seek(c, moves), c.row.task
	if !ok || q.vain || !q.outlook.couldTake(d, h, c) {
		return nil
	}
	w := d.want(q, h)
	s := search{d: d, class: c, quest: q, host: h, room: d.promised(h), lacks: w.lacks, best: math.MaxInt64}
	if !task.Ports.IsZero() && task.Ports.Fit(h.rec, 1) == 0 { // ports are not waited for
		return nil
	}
	s.short = s.shortage()
	switch {
	case s.room.takes(h, task) && d.borrows && !c.together():
		return nil // it comes free by itself, for whoever then goes first
	case !s.room.takes(h, task):
		if moves && !d.could(w, h, func(u *unit, g giving) bool { return g != goesOn || d.refuge(u) != nil }).takes(h, task) {
			return nil
		}
		s.room.gpus = slices.Clone(s.room.gpus) // the search changes them
		if s.bundles = d.bundles(q, h, w); !s.couldStay() || !s.suffice() || s.hopeless() {
			return nil // a search would try all sets of them
		}
		s.greedy()
		s.sum()
		s.try(0, 0)
		if s.found == nil {
			return nil
		}
	}
	if !s.relieveLimits() {
		return nil
	}
	return s.displacement(first)
}

// displacement returns what the search has found for the waiter, or nil if his pool may not have it.
func (s *search) displacement(w waiter) *displacement {
	c, h, task := s.class, s.host, s.class.row.task
	if !s.stays() {
		return nil
	}
	after := h.promise()
	for _, b := range s.found {
		s.leave(&after, b, 1)
	}
	gpus, ok := task.GPU.Pick(h.rec.GPUs, after.gpus)
	if !ok {
		return nil
	}
	ports, ok := task.Ports.Pick(h.rec)
	if !ok {
		return nil
	}
	n := c.displacementOn(h, w, cluster.Devices{GPUs: gpus, Ports: ports})
	for _, b := range s.found {
		n.price += b.price
	}
	n.price += s.start()
	n.leave = s.found
	return n
}

// start returns what the task pays for starting on the host when the units found by the search are gone.
func (s *search) start() (price flowgraph.Cost) {
	l, r := s.d.p.labels, s.class.row.rule
	if r == nil {
		return s.d.startAt(s.class, s.host)
	}
	mark := len(l.plan)
	l.idly(func() {
		for _, b := range s.found {
			for _, u := range b.units {
				if r.hinges(u.set) {
					l.planned(u.set, u.host, leaving)
				}
			}
		}
		price = s.d.startAt(s.class, s.host)
		l.takeBack(mark)
	})
	return price
}

// startAt returns what a task of the class pays for starting on the host when others have left it.
func (p *Planner) startAt(c *class, h *host) flowgraph.Cost {
	return p.startFor(c, h, p.model.Start(&p.round, &c.seen.Request, h.rec))
}

// startFor is startAt where the price of the model is known.
func (p *Planner) startFor(c *class, h *host, price flowgraph.Cost) flowgraph.Cost {
	return clamp(price) + c.row.rule.price(h.rec, 0) + c.local.extra(h.index)
}

// contentPrice is what the price of a start depends on for a costmodels.Batcher.
type contentPrice struct {
	row     *row
	content int // of the host
}

// startAt is Planner.startAt, but asks a costmodels.Batcher only once for hosts that are the same to it.
func (d *displacer) startAt(c *class, h *host) flowgraph.Cost {
	if !d.p.model.Batches() {
		return d.p.startAt(c, h)
	}
	if d.starts == nil {
		d.starts = map[contentPrice]flowgraph.Cost{}
	}
	of := contentPrice{c.row, h.content}
	price, known := d.starts[of]
	if !known {
		price = d.p.model.Start(&d.p.round, &c.row.request, h.rec)
		d.starts[of] = price
	}
	return d.p.startFor(c, h, price)
}

// search looks for the cheapest bundles by branch and bound.
type search struct {
	d       *displacer
	class   *class
	quest   *quest
	host    *host
	room    space
	most    space    // room if all that may still leave were gone
	lacks   []string // dimensions that bind on the host
	short   []string // see shortage
	bundles []bundle
	sums    []flowgraph.Cost // at k the prices of the first k bundles together
	largest amounts          // the most that one of them frees
	taken   []bundle
	housed  []housed
	nodes   int

	best  flowgraph.Cost
	found []bundle
}

// housed is where a taken unit that moves would go.
type housed struct {
	unit    *unit
	host    *host
	devices cluster.Devices
	after   *cluster.Host // record of the host with it and the units before, nil while nobody has asked
}

// leave adds the room that a bundle has on the host, or takes it away again, as sign says.
func (s *search) leave(room *space, b bundle, sign int32) {
	for _, u := range b.here {
		room.add(u, sign)
	}
}

func (s *search) enter(b bundle) bool {
	if !s.d.p.bears(b.units) || !s.d.p.available(b) || !s.leavesCompany(b) {
		return false
	}
	if u := b.units[0]; u.move != nil {
		to, ok := s.house(u)
		if !ok {
			return false
		}
		s.housed = append(s.housed, to)
	} else if to, from := s.beneficiary(), s.d.p.ledger.Donor(b.sum); !s.quest.mayStop(&to, &from) {
		return false
	}
	s.leave(&s.room, b, 1)
	s.taken = append(s.taken, b)
	s.count(b, -1)
	return true
}

// leavesCompany reports whether enough tasks stay that others have to be near, if the bundle leaves beside
// those taken: tasks that the class has to be near, and tasks that others with room held there have to be
// near.
func (s *search) leavesCompany(b bundle) bool {
	lacks := func(x *leaf, h *host) bool {
		n := x.among(b.units, h)
		for _, other := range s.taken {
			n += x.among(other.units, h)
		}
		return n > 0 && !x.spares(h, n)
	}
	for _, x := range s.class.row.leaves() {
		if x.hard && x.compare == cluster.Greater && lacks(x, s.host) {
			return false
		}
	}
	for x, u := range s.d.p.labels.needed(b.units) {
		if lacks(x, u.host) {
			return false
		}
	}
	return true
}

func (s *search) exit() {
	b := s.taken[len(s.taken)-1]
	s.taken = s.taken[:len(s.taken)-1]
	if b.units[0].move != nil {
		s.housed = s.housed[:len(s.housed)-1]
	}
	s.leave(&s.room, b, -1)
	s.count(b, 1)
}

// house returns where the unit would go beside those that are taken. That is the cheapest place for it alone,
// or another one if these leave it no room there. Complexity: those taken, and the open hosts of the unit if
// it takes another place.
func (s *search) house(u *unit) (housed, bool) {
	to, on := u.move.host, cluster.Devices{}
	fits := func(h *host) (ok bool) {
		on, ok = s.beside(u, h)
		return ok
	}
	if !fits(to) {
		other, _ := s.d.p.otherRoom(u, u.host, func(r *rule, h *host) bool { return fits(h) && s.d.stands(r, h) })
		if other == nil {
			return housed{}, false
		}
		to = other.host
	}
	return housed{unit: u, host: to, devices: on}, true
}

// beside returns the devices that the unit would have on the host, if it fits there beside those taken that
// would go there.
func (s *search) beside(u *unit, h *host) (cluster.Devices, bool) {
	rec := h.rec
	for i := range s.housed {
		if other := &s.housed[i]; other.host == h {
			if other.after == nil {
				other.after = other.unit.spec.Bind(rec, other.devices)
			}
			rec = other.after
		}
	}
	if u.spec.CountOn(rec, 1) == 0 {
		return cluster.Devices{}, false
	}
	return u.spec.Pick(rec)
}

// shortage lists the dimensions in which the pool of the class takes no more than others of it leave, if it
// has all that it is entitled to. These are the dimensions that bind on the host, and those of limits. If the
// pool has work of others leave, they are all that the class asks for. In the rest it may borrow.
func (s *search) shortage() []string {
	switch {
	case s.quest.beyond == "":
		return nil
	case s.quest.gains:
		return s.class.group.request.Lacking(cluster.Resources{})
	}
	short := s.lacks
	for _, l := range s.d.p.limitsOn(s.class.group) {
		short = append(short[:len(short):len(short)], l.exceeded(&s.class.group.request, s.d.p.ledger)...)
	}
	return short
}

// stays reports whether the pools allow the bundles that were found to leave. What others leave, or move for,
// goes to claims only.
func (s *search) stays() (ok bool) {
	if s.quest.beyond == "" { // whoever leaves, it has no more by that
		return true
	}
	s.without(s.found, func() { ok = s.allowed(s.found) })
	return ok
}

// couldStay drops the bundles that may not leave even if all do. It reports whether the pools could allow the
// others to leave, if nobody leaves elsewhere.
func (s *search) couldStay() (ok bool) {
	if !s.quest.full {
		return true
	}
	s.without(s.bundles, func() {
		to := s.beneficiary()
		s.bundles = slices.DeleteFunc(slices.Clone(s.bundles), func(b bundle) bool { return !s.mayGain(&to, b) })
		ok = s.allowed(s.bundles)
	})
	return ok
}

// without calls do with the bundles counted as gone.
func (s *search) without(bundles []bundle, do func()) {
	for _, b := range bundles {
		s.count(b, -1)
	}
	do()
	for _, b := range bundles {
		s.count(b, 1)
	}
}

// allowed reports whether the pools allow the bundles, which are counted as gone, to leave. The pool of the
// class, and each above it, has to end with what it is entitled to of what is short, or at least with no more
// than it has; the rest it may borrow. What revocable tasks had is not counted against it. If it has all of
// something, work of others leaves only if as much of its own does.
func (s *search) allowed(bundles []bundle) bool {
	gone, to := make([]pool.Unit, 0, len(bundles)), s.beneficiary()
	for _, b := range bundles {
		if !s.mayGain(&to, b) {
			return false
		}
		if b.units[0].move == nil {
			gone = append(gone, b.sum)
		}
	}
	return s.d.p.ledger.Keeps(to.Unit, gone, s.short)
}

// mayGain reports whether the pool of the class may have the bundle leave, as the accounts are.
func (s *search) mayGain(to *pool.Beneficiary, b bundle) bool {
	from := s.d.p.ledger.Donor(b.sum)
	return b.units[0].move != nil || to.Stays(&from)
}

// beneficiary returns a task of the class for which others might be stopped on the host, given what has been
// planned so far.
func (s *search) beneficiary() pool.Beneficiary {
	return s.d.p.ledger.Beneficiary(s.class.group.unit(1), s.lacks)
}

// givesBack reports whether the bundle takes from the pool of the class something of which it has too much.
func (s *search) givesBack(b bundle) bool {
	u := b.units[0]
	return u.move == nil && s.quest.outlook.giving[u.group.index] == givesBack
}

// enough reports whether there is room when the taken bundles have left, and the pools allow that.
func (s *search) enough() bool {
	return s.room.takes(s.host, s.class.row.task) && (!s.quest.full || s.allowed(s.taken))
}

func (s *search) count(b bundle, sign int64) {
	if b.alike {
		s.d.account(b.sum, sign, b.units...)
		return
	}
	for _, u := range b.units {
		s.d.account(u.group.unit(1), sign, u)
	}
}

// suffice reports whether there would be room if all bundles left, whatever the pools say of the last ones
// when the first are gone.
func (s *search) suffice() bool {
	if len(s.bundles) == 0 {
		return false
	}
	s.most.become(s.room)
	for _, b := range s.bundles {
		s.leave(&s.most, b, 1)
	}
	return s.most.takes(s.host, s.class.row.task)
}

// greedy takes the cheapest bundles until the task fits. That gives the search a first bound, if it gets
// there: a bundle that the pools allow may stand in the way of another.
func (s *search) greedy() {
	var price flowgraph.Cost
	for _, b := range s.bundles {
		if s.enough() {
			break
		}
		if s.enter(b) {
			price += b.price
		}
	}
	if s.enough() {
		s.best, s.found = price, slices.Clone(s.taken)
	}
	for len(s.taken) > 0 {
		s.exit()
	}
}

// sum works out what bounds the search.
func (s *search) sum() {
	s.sums = append(make([]flowgraph.Cost, 0, len(s.bundles)+1), 0)
	for i, b := range s.bundles {
		s.sums = append(s.sums, s.sums[i]+b.price)
		var all cluster.Resources
		for _, u := range b.here {
			all = all.Add(u.spec.Resources)
		}
		s.largest.raise(&all)
	}
}

// amounts are amounts of the fixed dimensions.
type amounts [cluster.NumDimensions]int64

// raise raises each amount to that of the resources, where that is more.
func (a *amounts) raise(r *cluster.Resources) {
	for d, v := range r.Fixed {
		a[d] = max(a[d], v)
	}
}

// add adds the resources n times.
func (a *amounts) add(r *cluster.Resources, n int64) {
	for d, v := range r.Fixed {
		a[d] += v * n
	}
}

// cover reports whether the amounts are at least what r asks for in each fixed dimension.
func (a *amounts) cover(r *cluster.Resources) bool {
	for d, v := range r.Fixed {
		if v > a[d] {
			return false
		}
	}
	return true
}

// coverExcess reports whether the amounts are as much as the quest has too much of, or as it asks for if that
// is less. It looks at the dimensions that lack, or at all if the quest gains.
func (a *amounts) coverExcess(q *quest, lack *cluster.Resources) bool {
	for d, n := range q.excess.Fixed {
		if (lack.Fixed[d] > 0 || q.gains) && min(n, q.class.group.request.Fixed[d]) > a[d] {
			return false
		}
	}
	return true
}

// times returns how often, at least, the amounts have to be freed for what lacks; never less than once.
func (a *amounts) times(lacks cluster.Resources) int {
	n := int64(1)
	for d, lack := range lacks.Fixed {
		if lack > 0 && a[d] > 0 {
			n = max(n, (lack-1)/a[d]+1)
		}
	}
	return int(n)
}

// try decides on the bundles from i on. Those taken so far cost price.
func (s *search) try(i int, price flowgraph.Cost) {
	if s.nodes++; s.nodes > maxNodes {
		return
	}
	if s.enough() {
		if price < s.best || price == s.best && len(s.taken) < len(s.found) {
			s.best, s.found = price, slices.Clone(s.taken)
		}
		return
	}
	if s.quest.full && s.room.takes(s.host, s.class.row.task) { // it only lacks somebody of what its pool has too much of
		next := slices.IndexFunc(s.bundles[i:], s.givesBack)
		if next < 0 {
			return
		}
		i += next
	}
	if !s.most.takes(s.host, s.class.row.task) {
		return
	}
	more := i + s.largest.times(shortage(s.class.row.task.Resources, s.room.left())) // they only get dearer
	if more > len(s.bundles) || price+s.sums[more]-s.sums[i] > s.best {
		return
	}
	b := s.bundles[i]
	if s.enter(b) {
		s.try(i+1, price+b.price)
		s.exit()
	}
	next := i + 1
	if s.class.row.task.GPU.IsZero() { // without this one, none that gives the same and costs more
		for next < len(s.bundles) && s.d.p.alike(s.bundles[next], b) && s.class.row.rule.asAlike(s.bundles[next].units[0].set, b.units[0].set) {
			next++
		}
	}
	for _, b := range s.bundles[i:next] {
		s.leave(&s.most, b, -1)
	}
	s.try(next, price)
	for _, b := range s.bundles[i:next] {
		s.leave(&s.most, b, 1)
	}
}

// alike reports whether both bundles give the same, and each may leave wherever the other may.
func (p *Planner) alike(a, b bundle) bool {
	if len(a.units)+len(b.units) > 2 {
		return false
	}
	u, v := a.units[0], b.units[0]
	return u.group == v.group && (u.move == nil) == (v.move == nil) && (u.task.Job() == v.task.Job() || p.leavesFreely(u) && p.leavesFreely(v))
}

// bundles lists what may leave the host for the quest, cheapest first.
func (d *displacer) bundles(q *quest, h *host, w *want) []bundle {
	var all []bundle
	for i, u := range h.units {
		gives := w.giving[u.group.index]
		if gives == staysOn || u.group.key.gang && !h.isFirst(i) || !d.mayLeave(q.class, u) {
			continue
		}
		b := d.bundle(u).on(h)
		if gives == goesOn || u.group.key.gang && !q.mayStop(&w.to, d.p.donorOf(u.group)) {
			if !q.moves || len(b.units) > 1 || !d.findMove(u) {
				continue
			}
			b.price = u.price
		}
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b bundle) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.units[0].task, b.units[0].task))
	})
	return all
}

// isFirst reports whether the unit of index i is the first of its gang on the host, among those that do not
// vacate it. There the gang is listed. Complexity: the units of the host.
func (h *host) isFirst(i int) bool {
	u := h.units[i]
	return !slices.ContainsFunc(h.units, func(v *unit) bool {
		return v.task < u.task && u.staysWith(v)
	})
}

// mayLeave reports whether the unit, with those that leave together with it, may leave for the class,
// whatever the pools say.
func (d *displacer) mayLeave(c *class, u *unit) bool {
	if u.leaves() || u.group == c.group && (c.group.key.gang || u.row == c.row.key.rowKey) || u.host.makesWay(u) || c.row.rule.clings(u) || !d.mayGo(u) {
		return false
	}
	if u.group.key.gang && (u.group.pledged > 0 || d.forming[u.group.key.job]) {
		return false // it is just getting what it lacks
	}
	if d.budget() < 1 || u.group.key.gang && len(d.p.together(u)) > d.budget() {
		return false
	}
	if g := d.gangOf(u); g != nil {
		d.rests = d.rests || g.rests
		return g.may
	}
	return d.later || !u.host.decided
}

// bundle returns what leaves with the unit.
func (d *displacer) bundle(u *unit) bundle {
	if g := d.gangOf(u); g != nil {
		return g.bundle
	}
	return d.bundleOf(u)
}

// mayGo reports whether the unit may be asked to leave now. If it may later, it sets an alarm for that time.
func (d *displacer) mayGo(u *unit) bool {
	if u.host == nil || !u.group.displaceable() {
		return false
	}
	rested := u.rested(d.p.options.Hysteresis)
	if rested <= d.now || d.later {
		return true
	}
	d.rests = true
	d.p.alarm(rested)
	return false
}

// rested returns when the unit may be asked again, 0 if it never was asked.
func (u *unit) rested(hysteresis time.Duration) cluster.Time {
	if u.last == 0 {
		return 0
	}
	return u.last.Add(hysteresis)
}

// findMove looks for the cheapest host other than its own where the unit fits now, and prices its going there.
func (d *displacer) findMove(u *unit) bool {
	if u.move = d.refuge(u); u.move == nil {
		return false
	}
	u.price = d.loss(u) + u.dearer
	return true
}

// refuge returns where the unit would go, nil for nowhere. The answer is remembered while nothing else is
// planned.
func (d *displacer) refuge(u *unit) *move {
	if u.job.Preemption.Kill || u.job.Revocable {
		return nil // being asked to leave ends it, or nothing is kept for it elsewhere
	}
	if now := d.p.instant(); u.measured != now {
		u.measured = now
		u.refuge, u.dearer = d.p.otherRoom(u, u.host, d.stands)
	}
	return u.refuge
}

func (u *unit) moveTo(h *host, with cluster.Devices, r *rule) *move {
	return &move{host: h, nomination: nomination{spec: u.spec, devices: with, set: u.set, rule: r}}
}

// otherRoom returns the cheapest host other than own that suits and where the unit fits now, with its devices
// there, and the price. It returns nil if there is none.
func (p *Planner) otherRoom(u *unit, own *host, suits func(*rule, *host) bool) (*move, flowgraph.Cost) {
	r := p.rows.get(u.row, u.spec, u.wishes)
	defer p.rows.release(r)
	p.rows.refresh(r)
	for _, s := range r.from(0) {
		h := p.hosts.byIndex[s.index()]
		if h == own || h.id == "" || p.labels.below(u.set, h) == 0 || !suits(r.rule, h) {
			continue
		}
		if devices, ok := u.spec.Pick(h.rec); ok {
			return u.moveTo(h, devices, r.rule), s.price()
		}
	}
	return nil, 0
}

// loss is what is lost when the unit leaves: the work it has done, by its priority, and what it has lost to
// others before. So units that have left before leave last, and the loss goes round.
func (d *displacer) loss(u *unit) flowgraph.Cost {
	if u.started == 0 {
		return u.owed
	}
	lost := 1 + int64(d.now.Sub(u.started).Milliseconds())
	return clamp(u.owed + flowgraph.Cost(max(0, lost))*flowgraph.Cost(u.group.key.priority+1))
}
