package cycle

import (
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// balance knows the least that a tally has in any domain. It is for a rule that bounds how much more another
// domain may have. A domain counts only if a host there takes work and the rule allows that host, whatever
// tasks are around: nobody waits for a rack that can take none. The balance follows the tally and the hosts,
// change by change.
//
// Source: the maximal skew of Kubernetes' pod topology spread constraints. Here, hosts which take no work do
// not count, nor do tasks that are asked to leave, where that would let a domain seem fuller than it will be.
type balance struct {
	tally  *tally
	rule   *rule
	number int64          // the rule holds where a domain is less than so many above the least
	hosts  map[string]int // how many count, by domain
	at     []int          // how many of these domains have so many tasks, at least
	levels
}

// levels are where the domains of a balance begin.
type levels struct {
	least int64 // the lowest level
	next  int64 // the lowest level of all domains but one at the lowest
}

// balance returns a new balance of the tally for the rule. Complexity: hosts.
func (l *labels) balance(t *tally, r *rule, number int64) *balance {
	b := &balance{tally: t, rule: r, number: number, hosts: map[string]int{}}
	for _, h := range l.hosts.byIndex {
		if h != nil && h.rec != nil {
			b.enter(h.rec, 1)
		}
	}
	b.settle()
	t.balances = append(t.balances, b)
	l.balances = append(l.balances, b)
	return b
}

// unbalance gives a balance back.
func (l *labels) unbalance(b *balance) {
	b.tally.balances = without(b.tally.balances, b)
	l.balances = without(l.balances, b)
}

// enter counts the host in its domain; with n −1 no more.
func (b *balance) enter(rec *cluster.Host, n int) {
	domain, ok := rec.Domain(b.tally.domain)
	if !ok || !b.rule.mayTake(rec) {
		return
	}
	was := b.hosts[domain]
	b.hosts[domain] = was + n
	switch {
	case was == 0:
		b.shift(b.tally.in[domain].least, 1)
	case was+n == 0:
		delete(b.hosts, domain)
		b.shift(b.tally.in[domain].least, -1)
	}
}

// move follows a domain of the tally.
func (b *balance) move(domain string, before, after presence) {
	if b.hosts[domain] > 0 && before.least != after.least {
		b.shift(before.least, -1)
		b.shift(after.least, 1)
		b.settle()
	}
}

// shift counts domains at a level.
func (b *balance) shift(level int64, n int) {
	if grow := int(level) + 1 - len(b.at); grow > 0 {
		b.at = append(b.at, make([]int, grow)...)
	}
	b.at[level] += n
}

// settle finds the lowest levels. Complexity: the tasks in the domain that has most.
func (b *balance) settle() {
	if b.least, b.next = b.from(0), math.MaxInt64; b.least == math.MaxInt64 {
		b.least = 0 // no domain
	} else if b.next = b.least; b.at[b.least] == 1 {
		b.next = b.from(b.least + 1)
	}
}

// from returns the lowest level, from that one on, at which a domain is; math.MaxInt64 for none.
func (b *balance) from(level int64) int64 {
	if i := slices.IndexFunc(b.at[min(level, int64(len(b.at))):], func(n int) bool { return n > 0 }); i >= 0 {
		return level + int64(i)
	}
	return math.MaxInt64
}

// floor returns the least that any domain has after more tasks came to one that has n.
func (b *balance) floor(domain string, n presence, more int64) int64 {
	if more > 0 && n.least == b.least && b.hosts[domain] > 0 {
		return min(n.least+more, b.next)
	}
	return b.least
}

// crosses reports whether a rule may hold in a domain after the change that did not before, or the reverse.
// was is the least before, which may have changed, too.
func (b *balance) crosses(before presence, was int64, after presence) bool {
	return (before.most-was < b.number) != (after.most-b.least < b.number)
}
