package cycle

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// option is a host and what it would cost to make room there.
type option struct {
	host  *host
	price flowgraph.Cost
	known known
}

// known is how well the price of an option is known.
type known uint8

const (
	roughly known = iota // a lower bound, by the toll of the host
	nearly               // a lower bound, by its lodgers
	atLeast              // a lower bound, by those who may leave it for the class
	exactly              // as it was when the host was looked at
)

func byPrice(a, b option) int {
	return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.host.index, b.host.index))
}

type options []option

func (o options) Len() int           { return len(o) }
func (o options) Less(i, j int) bool { return byPrice(o[i], o[j]) < 0 }
func (o options) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *options) Push(x any)        { *o = append(*o, x.(option)) }
func (o *options) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

// look lists the hosts on which room could be made for the class, by a lower bound on the cost. The cheapest
// one has its price. If begin is given, it lists only those of begin.
//
// For a class that is no gang's, all hosts are full, unless it waits for a limit. So only those in motion
// come into question.
func (d *displacer) look(c *class, moves bool, begin []*host) *options {
	all := &options{}
	if d.seek(c, moves).vain {
		return all
	}
	hosts := begin
	switch {
	case begin != nil:
	case c.group.key.gang && c.row.rule == nil:
		hosts = d.chances(c, moves)
	case c.group.key.gang:
		hosts = d.p.hosts.byIndex
	case c.row.anyOpen(): // it is not for room on hosts that it waits
		hosts = d.p.openTo(c)
	case c.row.rule == nil:
		hosts = d.chances(c, moves)
	case !d.seek(c, moves).outlook.some:
		hosts = d.left() // elsewhere what is full stays full
	default:
		hosts = d.moving()
	}
	q := d.seek(c, moves)
	for _, h := range hosts {
		if h != nil && d.couldServe(q, h) {
			*all = append(*all, option{host: h, price: d.rough(c, h, q.outlook)})
		}
	}
	heap.Init(all)
	d.best(c, all, moves, 1)
	return all
}

// best returns the n cheapest of the options, cheapest first, with their prices.
func (d *displacer) best(c *class, all *options, moves bool, n int) (top options) {
	for dropped := 0; len(top) < n && all.Len() > 0; {
		switch {
		case (*all)[0].known == exactly:
			top = append(top, heap.Pop(all).(option))
		case d.refine(c, all, moves):
			dropped = 0
		default:
			if dropped++; dropped == manyDropped {
				d.sift(c, all, moves)
			}
		}
	}
	for _, o := range top {
		heap.Push(all, o)
	}
	return top
}

// refine finds out more about the first of the options. It drops it, and returns false, if there is no room for
// the class.
func (d *displacer) refine(c *class, all *options, moves bool) (ok bool) {
	o := (*all)[0]
	switch o.known {
	case roughly:
		o, ok = d.sketched(c, o, moves), true
	case nearly:
		o, ok = d.bounded(c, o, moves)
	default:
		o, ok = d.price(c, o.host, moves)
	}
	if !ok {
		heap.Pop(all)
		return false
	}
	(*all)[0] = o
	heap.Fix(all, 0)
	return true
}

// manyDropped is after how many options in a row that were none the others likely are none, too.
const manyDropped = 32

// sift drops all options that are none by those who may leave, which takes less time than one by one.
func (d *displacer) sift(c *class, all *options, moves bool) {
	kept := (*all)[:0]
	for _, o := range *all {
		ok := true
		if o.known < atLeast {
			o, ok = d.bounded(c, o, moves)
		}
		if ok {
			kept = append(kept, o)
		}
	}
	*all = kept
	heap.Init(all)
}

// sketched returns an option, of which only a rough bound is known, with that by the lodgers. Those of most
// hosts tell as much as a closer look at their units, which lie here and there in memory. Complexity: the
// lodgers, with a logarithmic factor.
func (d *displacer) sketched(c *class, o option, moves bool) option {
	o.known = nearly
	q, room, task := d.seek(c, moves), d.promised(o.host), c.row.task
	if q.vain || room.takes(o.host, task) {
		return o
	}
	leavers := d.leavers[:0]
	for _, l := range d.lodgers(o.host) {
		if q.outlook.giving[l.group] != staysOn {
			leavers = append(leavers, leaver{l.loss, l.frees, 0})
		}
	}
	d.leavers = leavers
	lack := shortage(task.Resources, room.left())
	o.price = max(o.price, d.startAt(c, o.host)+leastLoss(leavers, &lack))
	return o
}

// bounded returns an option, of which no more than a sketch is known, with the bound by those who may leave.
func (d *displacer) bounded(c *class, o option, moves bool) (option, bool) {
	floor, ok := d.floor(c, o.host, moves)
	o.known, o.price = atLeast, max(o.price, floor)
	return o, ok
}

// moving lists the hosts that are in motion, by index.
func (d *displacer) moving() []*host {
	if now := d.p.hosts.clock; d.listed != now {
		d.yield, d.listed = d.yield[:0], now
		for _, h := range d.p.hosts.byIndex {
			if h != nil && h.inMotion() {
				d.yield = append(d.yield, h)
			}
		}
	}
	return d.yield
}

// left lists the hosts in motion that somebody leaves.
func (d *displacer) left() (some []*host) {
	for _, h := range d.moving() {
		if slices.ContainsFunc(h.units, (*unit).leaves) {
			some = append(some, h)
		}
	}
	return some
}

// inMotion reports whether anybody leaves the host or might, or has room held there. Otherwise what is full
// stays full.
func (h *host) inMotion() bool { return h.loose+len(h.holds)+len(h.nominated) > 0 }

// couldTake reports whether a host with this verdict would have room if it were empty.
func couldTake(v verdict) bool { return v == open || v%kinds == full }

// couldServe reports whether the host comes into question for the quest. If it is decided, who leaves it has been
// weighed against who comes.
func (d *displacer) couldServe(q *quest, h *host) bool {
	return !q.vain && (!h.decided || d.later) && q.outlook.couldTake(d, h, q.class)
}

func (d *displacer) price(c *class, h *host, moves bool) (option, bool) {
	if h.decided && !d.later {
		return option{}, false
	}
	found := d.choose(c, h, moves)
	if found == nil {
		return option{}, false
	}
	return option{h, found.price, exactly}, true
}

// rough returns a lower bound on the cost of making room for one task of the class on the host. Complexity:
// constant, or the units of the host if anything changed there.
func (d *displacer) rough(c *class, h *host, o *outlook) flowgraph.Cost {
	price, room := d.startAt(c, h), d.promised(h)
	if room.takes(h, c.row.task) {
		return price
	}
	left, t := room.left(), o.toll(d, h)
	loss := t.least
	for dim, v := range c.row.task.Resources.Fixed {
		if lack := v - left.Fixed[dim]; v > 0 && lack > 0 && t.rates[dim] < math.MaxFloat32 {
			loss = max(loss, flowgraph.Cost(float64(lack)*float64(t.rates[dim])))
		}
	}
	return price + loss
}

// floor returns a lower bound on the cost of making room for one task of the class on the host; false if
// there surely will be none. Complexity: the units of the host, with a logarithmic factor.
func (d *displacer) floor(c *class, h *host, moves bool) (flowgraph.Cost, bool) {
	q, room, task := d.seek(c, moves), d.promised(h), c.row.task
	if !d.couldServe(q, h) {
		return 0, false
	}
	fits := room.takes(h, task)
	if fits && !q.gains {
		return d.startAt(c, h), true
	}
	w := d.want(q, h)
	lack := shortage(task.Resources, room.left())
	var most amounts
	for _, t := range h.tenants { // those who leave already count, too
		if w.giving[t.group.index] != staysOn {
			most.add(&t.group.request, t.n)
		}
	}
	if !most.cover(&lack) {
		return 0, false
	}
	// largest is what one who might leave frees at most, and all what all of them free. own is of those whom the
	// class may have leave whatever its pool has, back of those that its pool has too much of, and stops of all
	// who need no other host.
	var largest, all, own, back, stops amounts
	leavers, gangs := d.leavers[:0], false
	for i, u := range h.units {
		gives := w.giving[u.group.index]
		if gives == staysOn || !d.mayLeave(c, u) {
			continue
		}
		loss, frees := d.loss(u), u.spec.Resources
		if gang := d.gangOf(u); gang != nil { // it leaves whole or not at all
			if !h.isFirst(i) {
				continue
			}
			loss = gang.price
			for _, v := range h.units {
				if v != u && u.staysWith(v) {
					frees = frees.Add(v.spec.Resources)
				}
			}
		}
		leavers, gangs = append(leavers, leaver{loss, frees.Fixed, 0}), gangs || u.group.key.gang
		largest.raise(&frees)
		all.add(&frees, 1)
		if gives != givesUp || u.group.key.revocable {
			own.add(&frees, 1)
		}
		if gives == givesBack {
			back.add(&frees, 1)
		}
		if gives != goesOn {
			stops.add(&frees, 1)
		}
	}
	d.leavers = leavers
	if q.full && !gangs && !(back.coverExcess(q, &lack) && (own.cover(&lack) || back.cover(&q.excess))) {
		return 0, false
	}
	price := d.startAt(c, h)
	if fits {
		return price, true
	}
	leave := largest.times(lack)
	if leave > len(leavers) || !all.cover(&lack) || !stops.cover(&lack) && !d.shelter().helps(&stops, &lack) {
		return 0, false
	}
	slices.SortFunc(leavers, func(a, b leaver) int { return cmp.Compare(a.loss, b.loss) })
	loss := flowgraph.Cost(0)
	for i := range leavers[:leave] {
		loss += leavers[i].loss
	}
	return price + max(loss, leastLoss(leavers, &lack)), true
}

// leaver is a unit that may leave, or a gang, with what it frees on a host.
type leaver struct {
	loss  flowgraph.Cost
	frees [cluster.NumDimensions]int64
	rate  float64 // loss for each unit that it frees of a dimension
}

// leastLoss returns what is lost at least when as much is freed as is lacking, by the dimension in which that is
// most. It changes the order of the leavers.
func leastLoss(leavers []leaver, lack *cluster.Resources) (loss flowgraph.Cost) {
	for dim, v := range lack.Fixed {
		if v > 0 {
			loss = max(loss, leastLossOf(leavers, dim, v))
		}
	}
	return loss
}

// leastLossOf is leastLoss for so much of one dimension: as if the last one who has to leave could do so in
// part. Source: G. B. Dantzig, "Discrete-Variable Extremum Problems", Operations Research 5(2), 1957,
// doi:10.1287/opre.5.2.266.
func leastLossOf(leavers []leaver, dim int, lack int64) flowgraph.Cost {
	for i := range leavers {
		x := &leavers[i]
		x.rate = math.Inf(1)
		if x.frees[dim] > 0 {
			x.rate = float64(x.loss) / float64(x.frees[dim])
		}
	}
	slices.SortFunc(leavers, func(a, b leaver) int { return cmp.Compare(a.rate, b.rate) })
	var loss flowgraph.Cost
	for i := range leavers {
		x := &leavers[i]
		if x.frees[dim] >= lack {
			return loss + flowgraph.Cost(x.rate*float64(lack)*roundedUp)
		}
		loss, lack = loss+x.loss, lack-x.frees[dim]
	}
	return loss // they do not free as much
}
