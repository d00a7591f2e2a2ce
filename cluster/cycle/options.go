package cycle

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// option is a host and what it would cost to make room there. If exact, that is the price as it was when the
// host was looked at; else it is a lower bound.
type option struct {
	host  *host
	price flowgraph.Cost
	exact bool
}

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
	for _, h := range hosts {
		if h == nil {
			continue
		}
		if floor, ok := d.floor(c, h, moves); ok {
			*all = append(*all, option{host: h, price: floor})
		}
	}
	heap.Init(all)
	d.best(c, all, moves, 1)
	return all
}

// best returns the n cheapest of the options, cheapest first, with their prices.
func (d *displacer) best(c *class, all *options, moves bool, n int) (top options) {
	for len(top) < n && all.Len() > 0 {
		o, ok := heap.Pop(all).(option), true
		if o.exact {
			top = append(top, o)
		} else if o, ok = d.price(c, o.host, moves); ok {
			heap.Push(all, o)
		}
	}
	for _, o := range top {
		heap.Push(all, o)
	}
	return top
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

func (d *displacer) price(c *class, h *host, moves bool) (option, bool) {
	if h.decided && !d.later { // who leaves it has been weighed against who comes
		return option{}, false
	}
	found := d.choose(c, h, moves)
	if found == nil {
		return option{}, false
	}
	return option{h, found.price, true}, true
}

// floor returns a lower bound on the cost of making room for one task of the class on the host; false if
// there surely will be none. Complexity: the units of the host, with a logarithmic factor.
func (d *displacer) floor(c *class, h *host, moves bool) (flowgraph.Cost, bool) {
	q, room, task := d.seek(c, moves), d.promised(h), c.row.task
	if h.decided && !d.later || !q.outlook.couldTake(d, h, c) {
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
	losses, gangs := d.losses[:0], false
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
		losses, gangs = append(losses, loss), gangs || u.group.key.gang
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
	d.losses = losses
	if q.full && !gangs && !(back.coverExcess(q, &lack) && (own.cover(&lack) || back.cover(&q.excess))) {
		return 0, false
	}
	price := d.startAt(c, h)
	if fits {
		return price, true
	}
	leave := largest.times(lack)
	if leave > len(losses) || !all.cover(&lack) || !stops.cover(&lack) && !d.shelter().helps(&stops, &lack) {
		return 0, false
	}
	slices.Sort(losses)
	for _, loss := range losses[:leave] {
		price += loss
	}
	return price, true
}
