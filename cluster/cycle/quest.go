package cycle

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// quest is whom a class might have leave, on whatever host and for whatever it lacks there. It holds as long
// as nothing else is planned. Few classes find anybody, and those who look in vain look at every host.
type quest struct {
	class   *class
	moves   bool
	at      int // clock of hosts
	patient bool
	to      pool.Beneficiary  // who gains, as if it lacked all that it asks for
	beyond  cluster.PoolPath  // pool that may not have more unless somebody of it leaves; see pool.Ledger
	full    bool              // such a task has to leave on the same host; for a limit it might be elsewhere
	excess  cluster.Resources // if full: how much of its own has to leave there before that of others
	gains   bool              // and in this plan its pool, or one above, has work of others leave
	vain    bool              // nobody might leave who would change that
	outlook *outlook          // nil if vain
	wants   []*want           // asked for so far
}

// want is a quest on hosts that lack the same dimensions. With fewer of them, fewer may be asked to leave.
type want struct {
	lacks  []string         // dimensions
	to     pool.Beneficiary // who gains, lacking those
	giving []giving         // by index of the group
}

// want returns that of the quest on the host. Complexity: constant, or the groups that might give if it was
// not asked for before.
func (d *displacer) want(q *quest, h *host) *want {
	d.lacks = d.binding(d.lacks[:0], q.class.row.task, h)
	if i := slices.IndexFunc(q.wants, func(w *want) bool { return slices.Equal(w.lacks, d.lacks) }); i >= 0 {
		return q.wants[i]
	}
	w := &want{lacks: slices.Clone(d.lacks), to: d.p.ledger.Beneficiary(q.to.Unit, d.lacks)}
	w.giving = d.givings(q, &w.to, nil)
	q.wants = append(q.wants, w)
	return w
}

// binding appends the dimensions in which the host has too little for the task.
func (d *displacer) binding(dims []string, task *cluster.TaskSpec, h *host) []string {
	room := d.promised(h)
	left := room.left()
	for d, v := range task.Resources.Fixed {
		lacks := v > 0 && v > left.Fixed[d]
		if cluster.Dimension(d) == cluster.GPU && v > 0 && task.GPU.Fit(h.rec.GPUs, room.gpus, 1) == 0 {
			lacks = true
		}
		if lacks {
			dims = append(dims, cluster.Dimension(d).String())
		}
	}
	for _, a := range task.Resources.Named {
		if a.Value > left.Amount(a.Name) {
			dims = append(dims, a.Name)
		}
	}
	return dims
}

// seek returns the quest of the class. It makes a new one if something has been planned since. Complexity:
// the groups then.
func (d *displacer) seek(c *class, moves bool) *quest {
	now := d.p.hosts.clock
	if q := &d.quest; q.class == c && q.moves == moves && q.at == now {
		return q
	}
	unit := c.group.unit(1)
	d.quest = quest{
		class: c, moves: moves, at: now, patient: d.patient(c),
		to: d.p.ledger.Beneficiary(unit, unit.Request.Lacking(cluster.Resources{})), beyond: d.p.ledger.Beyond(unit),
	}
	q := &d.quest
	if d.borrows { // nothing that is counted leaves for it
		q.beyond = ""
	}
	q.gains = q.beyond != "" && d.gains(unit.Pool)
	if q.full = q.beyond != "" && d.p.mayHave(c.group, 1); q.full {
		q.excess = d.p.ledger.Excess(unit, q.beyond)
	}
	if q.vain = q.beyond != "" && !d.someLightens(q); !q.vain {
		q.outlook = d.outlook(q)
	}
	return q
}

// giver is a group with tasks on hosts, or room held there, that may be asked to leave.
type giver struct {
	*group
	donor *pool.Donor // what might be stopped
}

// band is givers of one pool, equally revocable and equally urgent.
type band struct {
	pool      cluster.PoolPath
	revocable bool
	givers    []giver
	donors    pool.Band
}

// bands lists all givers. They stay the same in a pass of displacements. Complexity: the groups, the first
// time.
func (d *displacer) bands() []*band {
	if d.listing != nil {
		return d.listing
	}
	type trait struct {
		pool      cluster.PoolPath
		revocable bool
		priority  int32
	}
	d.listing = []*band{}
	known := map[trait]*band{}
	for _, g := range d.p.groupOrder {
		if g.running == 0 || !g.displaceable() {
			continue
		}
		of := trait{g.key.pool, g.key.revocable, g.key.priority}
		b := known[of]
		if b == nil {
			b = &band{pool: of.pool, revocable: of.revocable}
			known[of], d.listing = b, append(d.listing, b)
		}
		donor := d.p.donorOf(g)
		b.givers = append(b.givers, giver{g, donor})
		b.donors.Add(donor)
	}
	return d.listing
}

// gains reports whether a pool, or one above it, has work of others leave in this plan. Complexity: the
// displacements, times the depth of the pool.
func (d *displacer) gains(leaf cluster.PoolPath) bool {
	by := func(n *displacement) bool {
		own := n.class.key.group.pool
		return slices.ContainsFunc(n.victims, func(u *unit) bool {
			from := u.group.key.pool
			if own == from || u.move != nil || u.group.key.revocable {
				return false
			}
			at := leaf
			for at != "" && !at.Covers(own) {
				at = at.Parent()
			}
			return !at.Covers(from)
		})
	}
	return slices.ContainsFunc(d.p.done, by) || slices.ContainsFunc(d.done, by)
}

// mayStop reports whether the pools allow from to be stopped for to. If the pool of to has all that it is
// entitled to, it reports whether they would once others of that pool had left.
func (q *quest) mayStop(to *pool.Beneficiary, from *pool.Donor) bool {
	return to.Gives(from) && (q.beyond != "" || to.Stays(from))
}

// mayStopOf is mayStop for a band: for all of it, or for none as some is false, or each has to be asked.
func (q *quest) mayStopOf(to *pool.Beneficiary, from *pool.Band) (some, all bool) {
	if q.beyond == "" && !to.StaysFor(from) {
		return false, false
	}
	return to.FromBand(from)
}

// someLightens reports whether some tasks count where the quest has too much, and might be stopped for it.
func (d *displacer) someLightens(q *quest) bool {
	return slices.ContainsFunc(d.bands(), func(b *band) bool {
		if b.revocable || !q.beyond.Covers(b.pool) || !q.to.StaysFor(&b.donors) {
			return false
		}
		some, all := q.to.FromBand(&b.donors)
		return all || some && slices.ContainsFunc(b.givers, func(g giver) bool { return q.to.Gives(g.donor) })
	})
}

// giving is how units of a group might leave.
type giving uint8

const (
	staysOn   giving = iota // not at all
	goesOn                  // for another host, if one has room for them
	givesUp                 // also if none has
	givesBack               // and that is what its pool has too much of
)

// givings returns how the units of each group might leave for the quest, if to is the one who gains. Nobody
// else may be asked to leave if it lacks in fewer dimensions. The class's own group is no exception here. The
// answer is in the memory of scratch, if that is enough. Complexity: the groups of the bands that may be asked
// to leave in part, or to move.
func (d *displacer) givings(q *quest, to *pool.Beneficiary, scratch []giving) []giving {
	n := len(d.p.groupOrder) + len(d.p.freeIndices)
	all := slices.Grow(scratch[:0], n)[:n]
	clear(all)
	for _, b := range d.bands() {
		if q.patient && b.pool != q.to.Pool || d.borrows && !b.revocable {
			continue
		}
		some, whole := q.mayStopOf(to, &b.donors)
		moves := q.moves && !b.revocable
		if !some && !moves {
			continue
		}
		stops := givesUp
		if q.full && !b.revocable && q.beyond.Covers(b.pool) {
			stops = givesBack
		}
		for i := range b.givers {
			switch g := &b.givers[i]; {
			case whole || some && to.Gives(g.donor):
				all[g.index] = stops
			case moves && d.p.hosts.takes(g.need):
				all[g.index] = goesOn
			}
		}
	}
	return all
}

// needs are the different requests for fixed dimensions that groups have, with a host that has room for each.
type needs map[[cluster.NumDimensions]int64]*need

// need is one of them.
type need struct {
	cluster.Need
	groups   int     // that have it
	measured int     // position of hosts when roomy was true
	roomy    []int32 // hosts that have room
	all      bool    // no other has
	listed   int     // which of the planner's listings of refuges has it last
}

// of returns the need of a request for so much, for one more group.
func (all needs) of(fixed *[cluster.NumDimensions]int64) *need {
	n := all[*fixed]
	if n == nil {
		n = &need{Need: cluster.NeedOf(fixed)}
		all[*fixed] = n
	}
	n.groups++
	return n
}

// drop forgets that a group has it.
func (all needs) drop(fixed *[cluster.NumDimensions]int64) {
	n := all[*fixed]
	if n.groups--; n.groups == 0 {
		delete(all, *fixed)
	}
}

// takes reports whether a host has the room.
func (t *hosts) takes(n *need) bool { return len(t.roomyFor(n, 1)) > 0 }

// roomyFor lists some hosts that have the room: at least most, or all that do. The list is the need's own. While
// all are known, it looks at the hosts that changed since it last did. Else it looks at hosts only when those that
// it has listed have it no more.
func (t *hosts) roomyFor(n *need, most int) []int32 {
	fits := func(i int32) bool { return n.Fits(&t.fits[i]) }
	if now := t.position(); n.measured != now {
		since := n.measured - t.start
		n.measured = now
		n.roomy = slices.DeleteFunc(n.roomy, func(i int32) bool { return !fits(i) })
		if n.all = n.all && since > 0; n.all {
			for _, i := range t.log[since:] {
				if fits(i) && !slices.Contains(n.roomy, i) {
					n.roomy = append(n.roomy, i)
				}
			}
			n.all = len(n.roomy) <= fewRefuges
		}
	}
	if !n.all && len(n.roomy) < most {
		n.roomy = n.roomy[:0]
		for i := range t.fits {
			if len(n.roomy) == most {
				return n.roomy
			}
			if fits(int32(i)) {
				n.roomy = append(n.roomy, int32(i))
			}
		}
		n.all = true
	}
	return n.roomy
}

// fewRefuges is how many hosts, at most, are few. Where so few have room for any task that could move, what they
// have room for together bounds how many may.
const fewRefuges = 32

// refuges is what hosts have left to which tasks could move.
type refuges struct {
	known bool
	at    int // position of hosts
	few   bool
	left  amounts // on all of them together, if they are few
	hosts []int32 // scratch
}

// shelter returns what is left to those who move. Complexity: constant, or the groups if hosts have changed.
func (d *displacer) shelter() *refuges {
	r, t := &d.refuges, d.p.hosts
	now := t.position()
	if r.known && r.at == now {
		return r
	}
	*r = refuges{known: true, at: now, hosts: r.hosts[:0]}
	d.p.listings++
	for _, b := range d.bands() {
		if b.revocable {
			continue
		}
		for i := range b.givers {
			n := b.givers[i].need
			if n.listed == d.p.listings {
				continue
			}
			n.listed = d.p.listings
			for _, h := range t.roomyFor(n, fewRefuges+1) {
				if !slices.Contains(r.hosts, h) {
					r.hosts = append(r.hosts, h)
				}
			}
			if len(r.hosts) > fewRefuges {
				return r
			}
		}
	}
	r.few = true
	for _, h := range r.hosts {
		for dim, v := range t.rooms[h] {
			r.left[dim] += v
		}
	}
	return r
}

// helps reports whether there could be as much room for those who move as is lacking when others stop.
func (r *refuges) helps(stops *amounts, lack *cluster.Resources) bool {
	if !r.few {
		return true
	}
	all := *stops
	for d, v := range r.left {
		all[d] += v
	}
	return all.cover(lack)
}

// displaceable reports whether tasks of the group that are on hosts may be asked to leave at all.
func (g *group) displaceable() bool {
	return (g.key.preemptible || g.key.revocable) && g.key.jobType != cluster.Stateful && g.key.jobType != cluster.Daemon
}

// A planner keeps minOutlooks to maxOutlooks outlooks, as long as together they hold maxBounds bounds of
// hosts at most. Each pool and priority has one.
const (
	minOutlooks, maxOutlooks = 8, 64
	maxBounds                = 1 << 20
)

// outlook is the most that hosts could have left for quests for which the same groups might leave. Most
// classes of a pool with the same priority share one. A host where a task does not even fit then is not
// looked at further.
type outlook struct {
	giving []giving // by index of the group
	some   bool     // some group gives
	full   bool     // some group gives back, and on each host some unit of such a group has to leave
	// By index of the host:
	bounds  []bound
	bounded []int // value of hosts.stamps for which the bound is known, −1 for none
	tolls   []toll
	tolled  []int // the same for the toll
}

// bound is how much a host could have left, at most, in the fixed dimensions.
type bound = [cluster.NumDimensions]int64

// toll is what it costs at least if anybody leaves a host who might, now or later: losses only grow.
type toll struct {
	least flowgraph.Cost                 // of all of them
	rates [cluster.NumDimensions]float32 // for each unit of the dimension that is freed; math.MaxFloat32 if nobody has any
}

// instant is a state of a plan: while it is the same, nothing else has been planned.
type instant struct{ cycle, at int }

func (p *Planner) instant() instant { return instant{p.rows.cycle, p.hosts.position()} }

// outlook returns the outlook of the quest. Complexity: as givings, and a comparison of all groups.
func (d *displacer) outlook(q *quest) *outlook {
	d.giving = d.givings(q, &q.to, d.giving)
	gives := d.giving
	all := d.p.outlooks
	i := slices.IndexFunc(all, func(o *outlook) bool { return sameGivings(o.giving, gives) })
	if i < 0 {
		if hosts := max(1, len(d.p.hosts.byIndex)); len(all) < max(minOutlooks, min(maxOutlooks, maxBounds/hosts)) {
			all = append(all, &outlook{})
		}
		i = len(all) - 1 // nobody has asked for it for longest
		for k := range all[i].bounded {
			all[i].bounded[k], all[i].tolled[k] = -1, -1
		}
		all[i].some = slices.ContainsFunc(gives, func(g giving) bool { return g != staysOn })
		all[i].full = slices.Contains(gives, givesBack)
	}
	o := all[i]
	o.giving = append(o.giving[:0], gives...)
	copy(all[1:i+1], all[:i])
	all[0], d.p.outlooks = o, all
	if more := len(d.p.hosts.byIndex) - len(o.bounds); more > 0 {
		o.bounds, o.bounded = append(o.bounds, make([]bound, more)...), append(o.bounded, slices.Repeat([]int{-1}, more)...)
		o.tolls, o.tolled = append(o.tolls, make([]toll, more)...), append(o.tolled, slices.Repeat([]int{-1}, more)...)
	}
	return o
}

// sameGivings reports whether both are the same. One of them need not know of groups that do not give.
func sameGivings(a, b []giving) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return slices.Equal(a, b[:len(a)]) && !slices.ContainsFunc(b[len(a):], func(g giving) bool { return g != staysOn })
}

// bound returns the bound of the host. It is known until something changes there. Complexity: the groups
// there, the first time.
func (o *outlook) bound(d *displacer, h *host) *bound {
	b := &o.bounds[h.index]
	if now := d.p.hosts.stamps[h.index]; o.bounded[h.index] != now {
		o.bounded[h.index] = now
		room := d.promised(h)
		*b = room.left().Fixed
		if o.full && !slices.ContainsFunc(h.tenants, func(t tenants) bool { return o.giving[t.group.index] == givesBack }) {
			return b
		}
		for _, t := range h.tenants { // those who leave already are counted twice
			if o.giving[t.group.index] != staysOn {
				for k, v := range t.group.request.Fixed {
					b[k] += v * t.n
				}
			}
		}
	}
	return b
}

// roundedUp is how much too high the rate of a toll may be, and be taken for, as it is rounded.
const roundedUp = 1 - 1e-6

// lodger is a unit that does not leave its host yet, as far as bounds on the price of its leaving ask.
type lodger struct {
	group int            // index
	loss  flowgraph.Cost // at least: losses only grow
	frees [cluster.NumDimensions]int64
}

// lodgers lists those of the host. They are known until something changes there. Complexity: constant, or the
// units of the host.
func (d *displacer) lodgers(h *host) []lodger {
	if now := d.p.hosts.stamps[h.index]; h.listed != now {
		h.listed, h.lodgers = now, h.lodgers[:0]
		for _, u := range h.units {
			if !u.leaves() {
				h.lodgers = append(h.lodgers, lodger{u.group.index, d.loss(u), u.spec.Resources.Fixed})
			}
		}
	}
	return h.lodgers
}

// toll returns the toll of the host. It is known until something changes there. Who leaves together with others
// pays no less than for each. Complexity: the units of the host, the first time.
func (o *outlook) toll(d *displacer, h *host) *toll {
	t := &o.tolls[h.index]
	if now := d.p.hosts.stamps[h.index]; o.tolled[h.index] != now {
		o.tolled[h.index] = now
		*t = toll{least: math.MaxInt64}
		for k := range t.rates {
			t.rates[k] = math.MaxFloat32
		}
		for _, l := range d.lodgers(h) {
			if o.giving[l.group] == staysOn {
				continue
			}
			t.least = min(t.least, l.loss)
			for k, v := range l.frees {
				if v > 0 {
					t.rates[k] = min(t.rates[k], float32(float64(l.loss)/float64(v)*roundedUp))
				}
			}
		}
		if t.least == math.MaxInt64 {
			t.least = 0
		}
	}
	return t
}

// couldTake reports whether the host could have room for a task of the class, by its rules and the bound.
func (o *outlook) couldTake(d *displacer, h *host, c *class) bool {
	needs := cluster.NeedOf(&c.row.task.Resources.Fixed)
	return couldTake(c.row.judge(h)) && needs.Fits(o.bound(d, h))
}

// could returns what the host would have left if all units left that may for the want and that leaves
// accepts. The space is used again. Complexity: the units of the host.
func (d *displacer) could(w *want, h *host, leaves func(*unit, giving) bool) *space {
	d.room.become(d.promised(h))
	for _, u := range h.units {
		if gives := w.giving[u.group.index]; gives != staysOn && !u.leaves() && leaves(u, gives) {
			d.room.add(u, 1)
		}
	}
	return &d.room
}

// chances returns the hosts that could take a task of the class, in the order of their indices. Where nobody
// leaves or might, what is full stays full: such hosts count only for a gang, which also takes what is free.
// The rules of the class depend on nothing elsewhere. Complexity: hosts, most of which have too little left
// anyway.
func (d *displacer) chances(c *class, moves bool) []*host {
	o, t, needs := d.seek(c, moves).outlook, d.p.hosts, cluster.NeedOf(&c.row.task.Resources.Fixed)
	some := d.chance[:0]
	for i, h := range t.byIndex {
		if o.bounded[i] == t.stamps[i] && !needs.Fits(&o.bounds[i]) || h == nil || !c.group.key.gang && !h.inMotion() || !needs.Fits(o.bound(d, h)) {
			continue
		}
		some = append(some, h)
	}
	d.chance = some
	return some
}
