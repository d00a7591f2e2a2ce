package cycle

import (
	"iter"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// lengths bound how many rows are kept, and how much each lists. Plans do not depend on them, except by the
// estimate of breadth.
type lengths struct {
	// idle is how many rows without a class are kept: the next job often asks for what an earlier one did.
	idle int
	// short is how many hosts a row lists at least.
	short int
	// full is up to how many open hosts a row lists all. To sort them costs nothing beside having looked for
	// them.
	full int
	// hosts: on a cluster of up to so many hosts a row lists all that are open, since it would look again.
	hosts int
}

// usual are the lengths of all rows except in tests.
var usual = lengths{idle: 4096, short: 384, full: 1024, hosts: 2048}

// rows is the table of all rows.
type rows struct {
	lengths lengths
	model   *guard.Guard
	round   *costmodels.Round
	hosts   *hosts
	count   *labels
	byKey   map[pricedKey]*row
	idle    []*row // without a class, longest idle first

	pricers  []*pricer // the first with the model itself, others with forks of it
	cycle    int       // counts the plans
	recent   changed
	all      changed // see rebuild
	together []*row
	single   []*row
	old      []*row   // rows to be brought in line
	found    [][]slot // see renewal
	asked    asked
	short    short
	taken    int // counts how often rows took in prices
}

// short is about the rows that ran out in a plan: how many did, and up to where in asked.rows others have
// been lengthened with them.
type short struct {
	cycle, out, next int
	rows             []*row // scratch
}

// asked is the rows that a plan asked for. at is the position in the log of host changes up to which they
// were brought in line.
type asked struct {
	cycle, at int
	rows      []*row
}

func newRows(model *guard.Guard, round *costmodels.Round, hosts *hosts, count *labels, l lengths) *rows {
	return &rows{
		lengths: l, model: model, round: round, hosts: hosts, count: count, byKey: map[pricedKey]*row{},
		pricers: []*pricer{{model: model}}, all: changed{all: true},
	}
}

// pricedKey names a row. The same request has another price by another route of the model.
type pricedKey struct {
	rowKey
	route int
}

// row knows for one request and constraint which hosts can take one more task, and at which price. It lists
// only its head, the cheapest hosts, and more when somebody looks further. So a change of a host costs a row
// one look at that host, however many hosts there are.
type row struct {
	key     pricedKey
	table   *rows
	task    *cluster.TaskSpec // what is asked for
	request costmodels.Request
	rule    *rule
	plain   bool // only room in the fixed dimensions counts, on hosts where neither tasks nor devices do
	users   int  // classes

	fixed  []likeness // by signature
	free   int        // signatures that leave it to what a host has room for
	able   int        // signatures whose hosts could take a task if they were empty and nothing else is in the way
	shut   int        // the other signatures, as far as somebody has asked
	era    int        // of the signatures
	head   []slot     // the open hosts below the end, cheapest first
	end    slot
	count  int // open hosts when all were last looked at
	read   int // position in the log of host changes
	deep   int // how far down the head somebody looked in the last cycles
	cycle  int // cycle in which deep was last lowered
	listed int // cycle in which all open hosts were last looked at
	asked  int // last cycle whose plan asked for the row

	floor floor
	racks []openRack // by number

	sampled, share int // share is the last result of openOf, sampled its position in the log of host changes
	vacant         vacant
}

// vacant is the hosts of a row that are not full in a pass of offers, as far as somebody has looked.
type vacant struct {
	pass    int
	slots   []slot // cheapest first; some are full since
	read    int    // where in the row the rest begins
	offered int    // so many at the beginning were offered to classes
}

// openRack is the hosts of one rack that can take one more task of a row.
type openRack struct {
	read  int    // position in the log behind the last change taken in of one of these hosts; 0 before anybody looked
	slots []slot // cheapest first

	least flowgraph.Cost // what a start on one of them pays at least, with the place, by the potentials of the pass
	pass  int            // pass of price-out that least belongs to
}

// inRack returns the open hosts of rack k. Complexity: the hosts of the rack, once after one of them changed.
func (r *row) inRack(k int32) *openRack {
	all := r.table.hosts
	if grow := len(all.byRack) - len(r.racks); grow > 0 {
		r.racks = append(r.racks, make([]openRack, grow)...)
	}
	o := &r.racks[k]
	if in := &all.byRack[k]; o.read < in.changed {
		o.read, o.pass, o.slots = in.changed, 0, o.slots[:0]
		r.table.taken++
		needs := r.need()
		for _, i := range in.hosts {
			if !needs.Fits(&all.fits[i]) {
				continue
			}
			if s, ok := r.price(i); ok {
				o.slots = append(o.slots, s)
			}
		}
		slices.Sort(o.slots)
	}
	return o
}

// floor is what a start on one of the first hosts of a row pays at least, with the place, by the potentials
// of a pass of offers.
type floor struct {
	least flowgraph.Cost
	read  int // how many hosts were read
	pass  int
}

// likeness is what holds for all hosts of a signature at any load.
type likeness struct {
	verdict verdict // absent where nobody has asked yet
	counts  bool    // the rule depends on the tasks there
}

// slot packs a price and a host index, so that slots sort by price, then by index. Prices are below 2^31.
type slot uint64

// endless lies above all slots.
const endless slot = math.MaxUint64

func makeSlot(price flowgraph.Cost, index int32) slot { return slot(price)<<32 | slot(uint32(index)) }

func (s slot) price() flowgraph.Cost { return flowgraph.Cost(s >> 32) }
func (s slot) index() int32          { return int32(uint32(s)) }

// get returns the row of the key, and counts one more class for it.
func (t *rows) get(asks rowKey, task *cluster.TaskSpec, w wishes) *row {
	key := t.keyOf(asks, w)
	r := t.byKey[key]
	switch {
	case r == nil:
		r = t.make(key, task, w)
		t.byKey[key] = r
	case r.users == 0:
		t.idle = without(t.idle, r)
	}
	r.users++
	return r
}

// peek calls do with the row of the key as it is, for a question that changes nothing. If there is none, it
// makes one for this question alone.
func (t *rows) peek(asks rowKey, task *cluster.TaskSpec, w wishes, do func(*row)) {
	key := t.keyOf(asks, w)
	r := t.byKey[key]
	if r == nil {
		r = t.make(key, task, w)
		defer t.count.drop(r.rule)
	}
	do(r)
}

func (t *rows) keyOf(asks rowKey, w wishes) pricedKey {
	return pricedKey{asks, t.model.Route(w.spec.Pool, w.spec.Type)}
}

// make returns a row that knows of no host yet.
func (t *rows) make(key pricedKey, task *cluster.TaskSpec, w wishes) *row {
	r := &row{
		key: key, table: t, task: task, rule: t.count.compile(w),
		request: costmodels.Request{Task: task, Work: key.work, Route: key.route},
		read:    -1, sampled: -1,
	}
	r.plain = !key.revocable && r.rule == nil && len(task.Resources.Named) == 0 && task.GPU.IsZero() && task.Ports.IsZero()
	return r
}

// release gives a row back for one class.
func (t *rows) release(r *row) {
	if r.users--; r.users > 0 {
		return
	}
	t.idle, r.racks, r.vacant = append(t.idle, r), nil, vacant{}
	if len(t.idle) > t.lengths.idle {
		delete(t.byKey, t.idle[0].key)
		t.count.drop(t.idle[0].rule)
		t.idle = slices.Delete(t.idle, 0, 1)
	}
}

// rebuild has rows list anew what is open.
func (t *rows) rebuild(together []*row) {
	for some := range slices.Chunk(together, block) {
		t.all.hosts = t.roomy(some, t.all.hosts[:0])
		for _, r := range some {
			r.end = endless
		}
		t.bring(some, &t.all)
	}
}

// lengthen has a row that ran out list more open hosts. It lengthens others with it that were asked for and
// are about as short, the more of them the more rows have run out in this plan. They are likely next, and
// together each takes a fraction of the time.
func (t *rows) lengthen(r *row) {
	if t.short.cycle != t.cycle {
		t.short.cycle, t.short.out, t.short.next = t.cycle, 0, 0
	}
	together := append(t.short.rows[:0], r)
	for n := min(block, t.short.out/4); len(together) < n && t.short.next < len(t.asked.rows); t.short.next++ {
		if o := t.asked.rows[t.short.next]; o != r && o.end != endless && o.read == t.hosts.position() && len(o.head) <= 2*max(len(r.head), t.lengths.short) {
			o.deep = max(o.deep, len(o.head))
			together = append(together, o)
		}
	}
	t.short.out++
	t.short.rows = together
	t.rebuild(together)
}

// roomy lists the hosts with room for what at least one of the rows asks for, in each dimension by itself.
func (t *rows) roomy(together []*row, hosts []int32) []int32 {
	least := together[0].need()
	for _, r := range together[1:] {
		for d, v := range r.need() {
			least[d] = min(least[d], v)
		}
	}
	for i, h := range t.hosts.byIndex {
		if h != nil && least.Fits(&t.hosts.fits[i]) {
			hosts = append(hosts, int32(i))
		}
	}
	return hosts
}

// list lists the cheapest of all open hosts. found has these in the order of the hosts.
func (r *row) list(w *pricer, found *[]slot) {
	r.count, r.end = len(*found), endless
	l := &r.table.lengths
	n := max(l.short, 8*r.deep)
	if r.listed == r.table.cycle { // somebody looks far, and would have all hosts priced once more
		n *= 8
	}
	r.listed = r.table.cycle
	// Who gets through half of all that is open gets to the end.
	if 2*n < len(*found) && len(*found) > l.full && len(r.table.hosts.byIndex) > l.hosts {
		w.spare = append(w.spare[:0], *found...)
		r.end = nth(w.spare, n)
		*found = slices.DeleteFunc(*found, func(s slot) bool { return s >= r.end })
	}
	*found = w.sorted(*found)
	r.head = append(r.head[:0], *found...)
}

// nth returns the n-th smallest of distinct slots, from 0, and moves the smaller ones before it. Expected complexity: the
// number of slots. Source: C. A. R. Hoare, "Algorithm 65: FIND", CACM 4(7), 1961, doi:10.1145/366622.366647.
func nth(all []slot, n int) slot {
	lo, hi := 0, len(all)-1
	for lo < hi {
		pivot := all[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for all[i] < pivot {
				i++
			}
			for all[j] > pivot {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return all[n]
		}
	}
	return all[n]
}

// at returns the k-th cheapest open host, from 0, endless if there are fewer. The row must be fresh.
func (r *row) at(k int) slot {
	r.deep = max(r.deep, k)
	if k < len(r.head) {
		return r.head[k]
	}
	return r.beyond(k)
}

// from yields the open hosts from the k-th on, cheapest first, each with its number. The row must be fresh,
// and must not change meanwhile.
func (r *row) from(k int) iter.Seq2[int, slot] {
	return func(yield func(int, slot) bool) {
		for {
			for ; k < len(r.head); k++ {
				if !yield(k, r.head[k]) {
					r.deep = max(r.deep, k)
					return
				}
			}
			if r.at(k) == endless {
				return
			}
		}
	}
}

// beyond is at for what is not listed yet.
func (r *row) beyond(k int) slot {
	if r.end != endless {
		r.table.lengthen(r)
	}
	if k >= len(r.head) {
		return endless
	}
	return r.head[k]
}

// shorten cuts off what nobody has looked at in the last cycles, since keeping it sorted is most of what a
// head costs. It forgets slowly how far somebody looked, and leaves half as much again: a head that turns out
// too short costs a look at all hosts.
func (r *row) shorten() {
	if r.cycle != r.table.cycle {
		r.cycle = r.table.cycle
		r.deep -= r.deep / 64
	}
	n := r.deep + r.deep/2 + r.table.lengths.short
	if len(r.head) <= r.table.lengths.full || len(r.head) <= n+n/4 {
		return
	}
	r.end = r.head[n]
	if r.head = r.head[:n]; cap(r.head) > 4*n { // room for very many more
		r.head = slices.Clone(r.head)
	}
}

// anyOpen reports whether a host can take a task. The row must be fresh.
func (r *row) anyOpen() bool { return r.at(0) != endless }

// breadth estimates how many hosts are open. The row must be fresh.
func (r *row) breadth() int { return max(r.count, len(r.head)) }

// openOf counts the open hosts of the sample, see sample. The row must be fresh.
func (r *row) openOf(sample []int32) (open int) {
	if r.sampled == r.read {
		return r.share
	}
	all, needs := r.table.hosts, r.need()
	for _, i := range sample {
		if needs.Fits(&all.fits[i]) && r.opens(all.byIndex[i]) {
			open++
		}
	}
	r.sampled, r.share = r.read, open
	return open
}

// price returns the slot of a host, false if it is not open.
func (r *row) price(i int32) (slot, bool) { return r.priceOn(r.table.hosts.byIndex[i]) }

func (r *row) priceOn(h *host) (slot, bool) {
	if r.judge(h) != open {
		return 0, false
	}
	return r.slot(r.table.model.Start(r.table.round, &r.request, h.rec), h.rec, h.index), true
}

// slot returns the slot of an open host at the model's price.
func (r *row) slot(start flowgraph.Cost, rec *cluster.Host, i int32) slot {
	return makeSlot(clamp(clamp(start)+r.rule.price(rec, 0)), i)
}

// opens reports whether the host is open, given that it has the room needed.
func (r *row) opens(h *host) bool {
	return r.roomDecides(h) || r.judge(h) == open
}

// roomDecides reports whether the host is known to be open whenever it has room in the fixed dimensions.
func (r *row) roomDecides(h *host) bool {
	return r.plain && int(h.alike) < len(r.fixed) && r.fixed[h.alike] == likeness{verdict: open}
}

// byRoom reports whether a host's signature and what is free there decide whether it is open.
func (r *row) byRoom() bool { return r.rule == nil && !r.key.revocable && r.task.Ports.IsZero() }

// fit returns how many tasks, at most limit, the host takes together as it is planned. The host is open or
// was. Room counts, and the rule at the price that it has for the first of them.
func (r *row) fit(h *host, limit int64) int64 {
	if r.roomDecides(h) {
		n := limit
		for d, v := range &r.key.fixed {
			if v > 0 {
				n = min(n, max(0, h.room.Fixed[d]/v))
			}
		}
		return n
	}
	return r.rule.room(h.rec, r.task.CountOn(r.lend(h), limit), true)
}

// clamp keeps a price inside the range in which the network is exact, whatever a model returns.
func clamp(c flowgraph.Cost) flowgraph.Cost { return min(max(c, 0), costmodels.MaxPrice) }
