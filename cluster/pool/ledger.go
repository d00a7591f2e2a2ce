package pool

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Unit is work that is started or stopped as a whole: a task, or a gang.
type Unit struct {
	Pool      cluster.PoolPath
	Job       cluster.JobUID // as in Group, like User
	User      string
	Priority  int32
	Revocable bool
	Request   cluster.Resources // of all of it
}

// Ledger keeps account of who holds what while a plan is made, and says who may be stopped for whom. It is a
// copy: it does not change the Admission, and does not follow its later changes.
type Ledger struct {
	tree  *tree
	holds [][]int64           // by pool
	fair  map[int32][]account // accounts of the parties of each fair leaf, sorted
}

// account is what a party holds in its leaf, and its share of it.
type account struct {
	share
	holds []int64
}

// Ledger returns the accounts as of the last Run. Complexity: pools · dimensions, and the groups of leaves that are fair
// with a logarithmic factor.
func (a *Admission) Ledger() *Ledger {
	l := &Ledger{tree: a.tree, holds: make([][]int64, len(a.tree.nodes)), fair: map[int32][]account{}}
	for i := range a.tree.nodes {
		l.holds[i] = slices.Clone(a.tree.nodes[i].allocation)
	}
	dims := len(a.tree.dims)
	for _, q := range a.queues {
		if len(q.shares) == 0 {
			continue
		}
		accounts, slab := make([]account, len(q.shares)), make([]int64, len(q.shares)*dims)
		for i, s := range q.shares {
			accounts[i] = account{s, slab[i*dims : (i+1)*dims : (i+1)*dims]}
		}
		l.fair[q.node] = accounts
		v := make([]int64, dims)
		for i := range q.groups {
			g := &q.groups[i]
			if g.Running == 0 || g.Revocable {
				continue
			}
			if to := l.account(q.node, g.Job, g.User); to != nil {
				addTimes(to.holds, a.tree.vector(g.Request, v), g.Running)
			}
		}
	}
	return l
}

// account returns the account of the job or the user, or nil if the leaf is not fair or knows of no task of
// it.
func (l *Ledger) account(leaf int32, job cluster.JobUID, user string) *account {
	accounts := l.fair[leaf]
	who := partyOf(l.tree.nodes[leaf].pool.Order, job, user)
	i, ok := slices.BinarySearchFunc(accounts, who, func(a account, p Party) int { return a.compare(p) })
	if !ok {
		return nil
	}
	return &accounts[i]
}

// Holds returns what a pool and all below it hold of a dimension.
func (l *Ledger) Holds(p cluster.PoolPath, dimension string) int64 {
	if d, ok := l.tree.named[dimension]; ok && d < len(l.holds[0]) {
		return l.holds[l.tree.at(p)][d]
	}
	return 0
}

// Add books a unit that starts.
func (l *Ledger) Add(u Unit) { l.book(u, 1) }

// Remove books a unit that stops.
func (l *Ledger) Remove(u Unit) { l.book(u, -1) }

func (l *Ledger) book(u Unit, sign int64) {
	if u.Revocable {
		return // it holds what others have not given up
	}
	leaf := l.tree.at(u.Pool)
	v := l.vector(u.Request)
	add := func(to []int64) {
		for d := range v {
			to[d] += sign * v[d]
		}
	}
	for i := leaf; i >= 0; i = l.tree.nodes[i].parent {
		add(l.holds[i])
	}
	if to := l.account(leaf, u.Job, u.User); to != nil {
		add(to.holds)
	}
}

// vector returns a request by the dimensions that the accounts have. It leaves out others, to which nobody is
// entitled.
func (l *Ledger) vector(r cluster.Resources) []int64 {
	v := make([]int64, len(l.holds[0]))
	copy(v, r.Fixed[:])
	for _, a := range r.Named {
		if d, ok := l.tree.named[a.Name]; ok && d < len(v) {
			v[d] = a.Value
		}
	}
	return v
}

// Permits reports whether one unit may be stopped so that another one can start, which waits and is not
// booked yet. dims are the dimensions in which the host has too little room for that. The policy of the
// lowest pool above both applies.
//
// Between pools two things are needed. In every pool from its leaf up to the one below the common parent, the
// beneficiary stays within the entitlement in all that it asks for. And in one of the dims the donor's pools,
// on every level, keep their entitlement without the unit.
//
// Inside a leaf higher priority is needed. Where the leaf is fair, it may also be equal priority between two
// parties: their shares are to them what entitlements are to pools. Revocable work gives way to all that is
// not revocable, and nothing gives way to revocable work.
//
// Complexity: the depth of the pools and their dimensions, and a look-up of each party. To ask about many
// units, look them up once: see [Ledger.Beneficiary].
func (l *Ledger) Permits(to, from Unit, dims []string) bool {
	b, d := l.Beneficiary(to, dims), l.Donor(from)
	return b.MayStop(&d)
}

// Donor is a unit that may be asked about again and again, whatever is booked.
type Donor struct {
	Unit
	leaf  int32
	gives []int64
	party *account
}

// Donor looks up a unit that might be stopped.
func (l *Ledger) Donor(u Unit) Donor {
	leaf := l.tree.at(u.Pool)
	return Donor{u, leaf, l.vector(u.Request), l.account(leaf, u.Job, u.User)}
}

// Beneficiary is a unit that waits. It describes the accounts until something is booked.
type Beneficiary struct {
	Unit
	ledger *Ledger
	leaf   int32
	asks   []int64
	dims   []int // dimensions in which there is too little room
	party  *account
	fair   bool   // its party stays within its share
	inside Policy // of its leaf

	// About the donor's pool that was asked about last:
	common             int32
	entitled, reserved bool // the beneficiary stays within that below common
	// About the donor's leaf that was asked about last, −1 for none; see sparedBy.
	giver int32
	spare []int64
}

// Beneficiary looks up a unit for which others might be stopped; see [Ledger.Permits].
func (l *Ledger) Beneficiary(u Unit, dims []string) Beneficiary {
	leaf := l.tree.at(u.Pool)
	b := Beneficiary{
		Unit: u, ledger: l, leaf: leaf, asks: l.vector(u.Request), party: l.account(leaf, u.Job, u.User), inside: l.policy(l.tree.nodes[leaf].parent), common: leaf,
		giver: -1,
	}
	for _, name := range dims {
		if d, ok := l.tree.named[name]; ok && d < len(b.asks) {
			b.dims = append(b.dims, d)
		}
	}
	b.fair = b.party != nil && b.party.stays(b.asks)
	return b
}

// MayStop is [Ledger.Permits] for the two. Complexity: the depth of the pools and their dimensions.
func (b *Beneficiary) MayStop(d *Donor) bool { return b.Stays(d) && b.Gives(d) }

// Stays is the half of the law about the one who gains: its pools stay within what they are entitled to.
// Complexity: as MayStop.
func (b *Beneficiary) Stays(d *Donor) bool {
	if b.Revocable || d.Revocable || b.leaf == d.leaf {
		return true
	}
	if common := b.ledger.common(b.leaf, d.leaf); common != b.common {
		b.see(common)
	}
	return b.entitled && b.ledger.policy(b.common).Across(b.reserved)
}

// Gives is the other half, about the one who loses; inside a leaf it is all. Complexity: as MayStop.
func (b *Beneficiary) Gives(d *Donor) bool {
	if b.Revocable || d.Revocable {
		return !b.Revocable
	}
	if b.leaf == d.leaf {
		to, from := Rival{Priority: b.Priority}, Rival{Priority: d.Priority}
		if b.fair && b.Priority == d.Priority && d.party != nil && d.party != b.party {
			to.Fair, from.Fair = true, d.party.keeps(d.gives, b.dims)
		}
		return b.inside.Inside(to, from)
	}
	for i, spare := range b.sparedBy(d.leaf) {
		if n := d.gives[b.dims[i]]; n > 0 && n <= spare {
			return true
		}
	}
	return false
}

// see finds out what the beneficiary stays within, in its pools below common.
func (b *Beneficiary) see(common int32) {
	l := b.ledger
	b.common, b.entitled, b.reserved = common, true, l.tree.keeps(b.asks)
	for i := b.leaf; i != common; i = l.tree.nodes[i].parent {
		b.entitled = b.entitled && within(l.holds[i], b.asks, l.tree.nodes[i].entitled)
		b.reserved = b.reserved && within(l.holds[i], b.asks, l.tree.guaranteed(i))
	}
}

// Stays reports whether its pool, and all above, would stay within what they are entitled to with a unit that
// is not booked yet. Complexity: the depth of the pool and the dimensions.
func (l *Ledger) Stays(u Unit) bool { return l.Beyond(u) == "" }

// Beyond returns the lowest pool that would not stay within it: only what stops there could change that. It
// is "" if all would. Complexity: as Stays.
func (l *Ledger) Beyond(u Unit) cluster.PoolPath {
	if i := l.beyond(l.vector(u.Request), l.tree.at(u.Pool), -1); i >= 0 {
		return l.tree.nodes[i].pool.Path
	}
	return ""
}

// Excess returns how much of what the unit asks for a pool would have to give up, to end within what it is
// entitled to.
func (l *Ledger) Excess(u Unit, p cluster.PoolPath) cluster.Resources {
	i, over := l.tree.at(p), l.vector(u.Request)
	for d, n := range over {
		if n > 0 {
			over[d] = max(0, sum(l.holds[i][d], n)-l.tree.nodes[i].entitled[d])
		}
	}
	return l.tree.resources(over)
}

// beyond is Beyond for the pools from lowest up to the one below top, or for none if top is not above lowest.
// It returns −1 for "". top and lowest must be in one line.
func (l *Ledger) beyond(asks []int64, lowest, top int32) int32 {
	for i := lowest; i > top; i = l.tree.nodes[i].parent {
		if !within(l.holds[i], asks, l.tree.nodes[i].entitled) {
			return i
		}
	}
	return -1
}

// Keeps reports whether the pool of u, and each above it, would end with u within what it is entitled to, or
// with no more than before the units left were taken out. It looks at those of the dims that u asks for. u is
// not booked yet; that the others left is. Complexity: the depth of the pool times the others and the
// dimensions.
func (l *Ledger) Keeps(u Unit, left []Unit, dims []string) bool {
	asks, gave := l.vector(u.Request), make([][]int64, len(left))
	for k := range left {
		gave[k] = l.vector(left[k].Request)
	}
	for i := l.tree.at(u.Pool); i >= 0; i = l.tree.nodes[i].parent {
		n, more := &l.tree.nodes[i], slices.Clone(asks)
		for k := range left {
			if !left[k].Revocable && n.pool.Path.Covers(left[k].Pool) {
				subTimes(more, gave[k], 1)
			}
		}
		for _, name := range dims {
			d, known := l.tree.named[name]
			if known && d < len(asks) && asks[d] > 0 && more[d] > 0 && sum(l.holds[i][d], asks[d]) > n.entitled[d] {
				return false
			}
		}
	}
	return true
}

// MayReturn reports whether u, which was stopped and is not booked any more, may stay after all, although
// from is stopped for to, which is booked. For that stop some pools and parties had to stay within something.
// Those that u belongs to have to do so with u as well. Complexity: as Permits.
func (l *Ledger) MayReturn(u, to, from Unit) bool {
	if u.Revocable {
		return true // what it has is not counted against anybody
	}
	own, gains, loses := l.tree.at(u.Pool), l.tree.at(to.Pool), l.tree.at(from.Pool)
	if gains != loses {
		return l.beyond(l.vector(u.Request), l.common(own, gains), l.common(gains, loses)) < 0
	}
	gainer := l.account(gains, to.Job, to.User)
	fair := gainer != nil && to.Priority == from.Priority && !from.Revocable
	return !fair || gainer != l.account(own, u.Job, u.User) || gainer.stays(l.vector(u.Request))
}

func (l *Ledger) policy(pool int32) Policy {
	return policyNamed(l.tree.nodes[max(0, pool)].pool.Preemption) // the root's own if it is the only pool
}

// common returns the lowest pool that is each of two, or is above it. Since parents come before their
// children, the pool with the larger index is never above the other.
func (l *Ledger) common(a, b int32) int32 {
	for a != b {
		if a > b {
			a = l.tree.nodes[a].parent
		} else {
			b = l.tree.nodes[b].parent
		}
	}
	return a
}

// within reports whether holds + asks ≤ bound in every dimension that asks for something.
func within(holds, asks, bound []int64) bool {
	for d, n := range asks {
		if n > 0 && sum(holds[d], n) > bound[d] {
			return false
		}
	}
	return true
}

// stays reports whether the party stays within its share with what is asked for.
func (a *account) stays(asks []int64) bool { return within(a.holds, asks, a.amounts) }

// keeps reports whether the party gives some of one of the dimensions, and keeps its share of that.
func (a *account) keeps(gives []int64, dims []int) bool {
	return slices.ContainsFunc(dims, func(d int) bool { return gives[d] > 0 && a.holds[d]-gives[d] >= a.amounts[d] })
}
