package pool

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Unit is work that is started or stopped as a whole: a task, or a gang.
type Unit struct {
	Pool      cluster.PoolPath
	User      string
	Priority  int32
	Revocable bool
	Request   cluster.Resources // of all of it
}

// Ledger keeps account of who holds what while a plan is made, and says who may be stopped for whom. It is a copy: it does
// not change the Admission, and later changes of that do not reach it.
type Ledger struct {
	tree  *Tree
	holds [][]int64 // by pool
	users map[userKey]*userAccount
}

type userKey struct {
	leaf int32
	user string
}

// userAccount is what a user holds in a leaf that is fair between users, and his share of it.
type userAccount struct{ holds, share []int64 }

// Ledger returns the accounts as of the last Run. Complexity: pools · dimensions, and the users of leaves that are fair
// between users.
func (a *Admission) Ledger() *Ledger {
	l := &Ledger{tree: a.tree, holds: make([][]int64, len(a.tree.nodes)), users: map[userKey]*userAccount{}}
	for i := range a.tree.nodes {
		l.holds[i] = slices.Clone(a.tree.nodes[i].allocation)
	}
	for _, q := range a.queues {
		for user, share := range q.shares {
			l.users[userKey{q.node, user}] = &userAccount{holds: make([]int64, len(a.tree.dims)), share: share}
		}
		for i := range q.groups {
			g := &q.groups[i]
			if account := l.users[userKey{q.node, g.User}]; account != nil && !g.Revocable {
				addTimes(account.holds, a.tree.vector(g.Request, nil), g.Running)
			}
		}
	}
	return l
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
	if account := l.users[userKey{leaf, u.User}]; account != nil {
		add(account.holds)
	}
}

// vector returns a request by the dimensions that the accounts have. Others are nobody's: nothing is entitled to them.
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

// Permits reports whether one unit may be stopped so that another one, which waits and is not booked yet, can start. dims
// are the dimensions in which the host has too little room for it. The policy is that of the lowest pool above both.
//
// Inside a leaf it is for higher priority only, or, where the leaf is fair between users, at equal priority for one who
// stays within his share from one who keeps his. Between pools, in every pool from the leaf up to the one below the common
// parent, the beneficiary stays within the entitlement in all that it asks for, and there is one of the dims in which the
// donor, on every level, keeps its entitlement without the unit. Revocable work gives way to all that is not revocable,
// and nothing gives way to revocable work.
//
// Complexity: the depth of the pools and their dimensions.
func (l *Ledger) Permits(to, from Unit, dims []string) bool {
	if to.Revocable || from.Revocable {
		return from.Revocable && !to.Revocable
	}
	gains, loses := l.tree.at(to.Pool), l.tree.at(from.Pool)
	if gains == loses {
		a, b := Rival{Priority: to.Priority}, Rival{Priority: from.Priority}
		if to.User != from.User {
			asks, gives := l.vector(to.Request), l.vector(from.Request)
			a.Fair = l.userStays(gains, to.User, asks)
			b.Fair = l.userKeeps(loses, from.User, gives, l.short(dims, gives))
		}
		return l.policy(l.tree.nodes[gains].parent).Inside(a, b)
	}
	asks, gives := l.vector(to.Request), l.vector(from.Request)
	common := l.common(gains, loses)
	reserved := l.tree.keeps(asks)
	for i := gains; i != common; i = l.tree.nodes[i].parent {
		n := &l.tree.nodes[i]
		if !within(l.holds[i], asks, n.entitled) {
			return false
		}
		reserved = reserved && within(l.holds[i], asks, l.tree.guaranteed(i))
	}
	short := l.short(dims, gives)
	for i := loses; i != common; i = l.tree.nodes[i].parent {
		short = slices.DeleteFunc(short, func(d int) bool { return l.holds[i][d]-gives[d] < l.tree.nodes[i].entitled[d] })
	}
	return len(short) > 0 && l.policy(common).Across(reserved)
}

// Stays reports whether a unit that is not booked yet would leave its pool, and all above, within what they are entitled to.
// Complexity: the depth of the pool and the dimensions.
func (l *Ledger) Stays(u Unit) bool { return l.StaysBeside(u, u.Pool, "") }

// StaysBeside is Stays for the pools from lowest, which is the unit's or above it, up to those that are above the rival too.
func (l *Ledger) StaysBeside(u Unit, lowest, rival cluster.PoolPath) bool {
	asks := l.vector(u.Request)
	for i := l.tree.at(lowest); i >= 0 && !l.tree.nodes[i].pool.Path.Covers(rival); i = l.tree.nodes[i].parent {
		if !within(l.holds[i], asks, l.tree.nodes[i].entitled) {
			return false
		}
	}
	return true
}

func (l *Ledger) policy(pool int32) Policy {
	if pool < 0 {
		return Default{} // the root is the only pool
	}
	return policyNamed(l.tree.nodes[pool].pool.Preemption)
}

// short returns those of the dimensions of which a unit gives something.
func (l *Ledger) short(dims []string, gives []int64) []int {
	var out []int
	for _, name := range dims {
		if d, ok := l.tree.named[name]; ok && d < len(gives) && gives[d] > 0 {
			out = append(out, d)
		}
	}
	return out
}

// common returns the lowest pool above two different leaves. Since parents come before their children, the one with the
// larger index is never above the other.
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

func (l *Ledger) userStays(leaf int32, user string, asks []int64) bool {
	account := l.users[userKey{leaf, user}]
	return account != nil && within(account.holds, asks, account.share)
}

func (l *Ledger) userKeeps(leaf int32, user string, gives []int64, short []int) bool {
	account := l.users[userKey{leaf, user}]
	return account != nil && slices.ContainsFunc(short, func(d int) bool { return account.holds[d]-gives[d] >= account.share[d] })
}
