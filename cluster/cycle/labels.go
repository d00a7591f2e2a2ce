package cycle

import (
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// labels counts the tasks that rules about places speak of. For every selection of tasks and kind of domain
// that some rule counts, it knows how many are in each domain. Counts change with every task that comes and
// goes. They are never summed up anew.
type labels struct {
	hosts *hosts
	held  map[cluster.TaskKey]*unit
	sets  map[setKey]*labelSet
	byJob map[cluster.JobUID][]*labelSet

	tallies map[tallyKey]*tally
	jobs    map[cluster.JobUID][]*tally // that count the tasks of a job
	keys    map[string][]*tally         // that count tasks with a label, by the key of the first one

	balances []*balance
	lids     map[place][]*leaf // while a plan is made

	plan []countChange       // what the plan of this cycle has counted, to be taken back before the next one
	idle bool                // what is counted will be taken back before anybody plans; see idly
	seen map[place]presence  // what was counted when begin was called; nil after changes
	low  map[*balance]levels // by balance: what its levels were then
}

// place is a domain of a tally, "" for all of them together.
type place struct {
	tally  *tally
	domain string
}

// setKey names what tasks of a job that are labeled alike have in common.
type setKey struct {
	job    cluster.JobUID
	labels string
}

// labelSet is the tasks that selections cannot tell apart.
type labelSet struct {
	key     setKey
	labels  []cluster.KeyValue
	size    int64    // how many are counted, at most
	tallies []*tally // that count them
}

// presence is how many tasks there are on a host, or in a domain: at most, with those that have room held
// there, and at least, without those that are asked to leave. A rule that counts has to hold for both. So a
// plan is true whoever comes or goes first.
type presence struct{ most, least int64 }

func (p presence) plus(q presence, sign int64) presence {
	return presence{p.most + sign*q.most, p.least + sign*q.least}
}

func (p presence) times(n int64) presence { return presence{n * p.most, n * p.least} }

type countChange struct {
	set  *labelSet
	host *host
	by   presence
}

// selector says which tasks count: those of the job, or those with all the labels. If anyValue is set, the
// first label counts with any value.
type selector struct {
	job      cluster.JobUID
	labels   []cluster.KeyValue
	anyValue bool
}

func (s *selector) takes(set *labelSet) bool {
	if len(s.labels) == 0 {
		return s.job == set.key.job
	}
	if s.anyValue {
		return slices.ContainsFunc(set.labels, func(l cluster.KeyValue) bool { return l.Key == s.labels[0].Key })
	}
	return cluster.HasPairs(set.labels, s.labels)
}

type tallyKey struct{ selector, domain string }

// tally counts the tasks of a selection by domain.
type tally struct {
	key      tallyKey
	selector selector
	domain   string
	in       map[string]presence
	total    presence // of all domains
	marks    []int64  // numbers that rules compare with
	users    int      // rules
	begins   bool     // a rule of tasks that count themselves asks for others to be there; see leaf.begins
	seed     string   // where that may begin now, "" for nowhere
	balances []*balance
}

// newLabels counts the tasks that are on the hosts, and those with a hold.
func newLabels(t *hosts, held map[cluster.TaskKey]*unit) *labels {
	return &labels{
		hosts: t, held: held, sets: map[setKey]*labelSet{}, byJob: map[cluster.JobUID][]*labelSet{},
		tallies: map[tallyKey]*tally{}, jobs: map[cluster.JobUID][]*tally{}, keys: map[string][]*tally{},
		lids: map[place][]*leaf{},
	}
}

func keyOfSet(job cluster.JobUID, pairs []cluster.KeyValue) setKey {
	if len(pairs) == 0 {
		return setKey{job, ""}
	}
	return setKey{job, fmt.Sprintf("%q", pairs)}
}

// set returns the tasks of the job that are labeled so.
func (l *labels) set(job cluster.JobUID, pairs []cluster.KeyValue) *labelSet {
	key := keyOfSet(job, pairs)
	s := l.sets[key]
	if s != nil {
		return s
	}
	s = &labelSet{key: key, labels: pairs}
	l.sets[key] = s
	l.byJob[job] = append(l.byJob[job], s)
	join := func(t *tally) {
		if t.selector.takes(s) && !slices.Contains(s.tallies, t) {
			s.tallies = append(s.tallies, t)
		}
	}
	for _, t := range l.jobs[job] {
		join(t)
	}
	for _, p := range pairs {
		for _, t := range l.keys[p.Key] {
			join(t)
		}
	}
	return s
}

// forget drops what is known of a job that exists no more.
func (l *labels) forget(job cluster.JobUID) {
	for _, s := range l.byJob[job] {
		delete(l.sets, s.key)
	}
	delete(l.byJob, job)
}

// tally returns the count of a selection for one more rule, which compares it with the number.
func (l *labels) tally(s selector, domain string, mark uint32) *tally {
	if domain == "" {
		domain = cluster.DomainHost
	}
	key := tallyKey{fmt.Sprintf("%d %q %t", s.job, s.labels, s.anyValue), domain}
	t := l.tallies[key]
	if t == nil {
		t = &tally{key: key, selector: s, domain: domain, in: map[string]presence{}}
		l.tallies[key] = t
		l.index(t)
	}
	t.users++
	if at, there := slices.BinarySearch(t.marks, int64(mark)); !there && !l.idle {
		t.marks = slices.Insert(t.marks, at, int64(mark))
	}
	return t
}

// index puts a new tally where the sets that it counts are found. It counts the sets that there are.
// Complexity: the sets, and all tasks if some of these are there.
func (l *labels) index(t *tally) {
	if len(t.selector.labels) == 0 {
		l.jobs[t.selector.job] = append(l.jobs[t.selector.job], t)
	} else {
		first := t.selector.labels[0].Key
		l.keys[first] = append(l.keys[first], t)
	}
	some := false
	l.each(t, func(s *labelSet) {
		if t.selector.takes(s) {
			s.tallies = append(s.tallies, t)
			some = some || s.size > 0
		}
	})
	if some {
		l.sum(t)
	}
}

// sum counts in a new tally who is there, who has room held, and what the plan has done.
func (l *labels) sum(t *tally) {
	add := func(s *labelSet, h *host, n presence) {
		if slices.Contains(s.tallies, t) {
			t.add(h, n)
		}
	}
	for _, h := range l.hosts.byIndex {
		if h == nil {
			continue
		}
		for _, u := range h.units {
			add(u.set, h, u.presence())
		}
	}
	for _, u := range l.held { // sums: the order does not matter
		if u.counts != nil {
			add(u.set, u.counts, waits)
		}
	}
	for _, c := range l.plan {
		add(c.set, c.host, c.by)
	}
}

// each calls do for sets, in any order. All that the tally counts are among them.
func (l *labels) each(t *tally, do func(*labelSet)) {
	if len(t.selector.labels) == 0 {
		for _, s := range l.byJob[t.selector.job] {
			do(s)
		}
		return
	}
	for _, s := range l.sets { // do is for each by itself
		do(s)
	}
}

// release gives a tally back for one rule.
func (l *labels) release(t *tally) {
	if t.users--; t.users > 0 {
		return
	}
	delete(l.tallies, t.key)
	if len(t.selector.labels) == 0 {
		unlist(l.jobs, t.selector.job, t)
	} else {
		unlist(l.keys, t.selector.labels[0].Key, t)
	}
	l.each(t, func(s *labelSet) { s.tallies = without(s.tallies, t) })
}

// unlist takes a tally out of a list, and the list out of the table when that was the last one.
func unlist[K comparable](lists map[K][]*tally, key K, t *tally) {
	if lists[key] = without(lists[key], t); len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// add counts tasks on the host. It returns what is in the domain of the host before and after; false if the
// host is in none.
func (t *tally) add(h *host, n presence) (before, after presence, ok bool) {
	value, ok := h.rec.Domain(t.domain)
	if !ok {
		return before, after, false
	}
	before = t.in[value]
	after = before.plus(n, 1)
	if after == (presence{}) {
		delete(t.in, value)
	} else {
		t.in[value] = after
	}
	t.total = t.total.plus(n, 1)
	return before, after, true
}

// beginning is what decides where the first tasks may be that may only be where others like them are. open:
// no such task is there to stay. domains: in how many domains some have room held or leave; more than two
// count as two.
type beginning struct {
	open    bool
	domains int
}

func (t *tally) beginning() (b beginning) {
	if b.open = t.total.least == 0; b.open {
		b.domains = min(2, len(t.in))
	}
	return b
}

// at returns what is in the domain of the host, false where it is in none.
func (t *tally) at(rec *cluster.Host) (presence, bool) {
	value, ok := rec.Domain(t.domain)
	return t.in[value], ok
}

// count adds tasks of the set on the host to all tallies that count them.
func (l *labels) count(s *labelSet, h *host, n presence) {
	s.size += n.most
	for _, t := range s.tallies {
		total, began := t.total, t.beginning()
		before, after, ok := t.add(h, n)
		if !ok {
			continue
		}
		l.see(t, h, before, total)
		switch lifted, crossed := l.follow(t, h, before, after); {
		case lifted, t.begins && began != t.beginning(): // and with it what holds everywhere
			l.disturb(t, nil)
		case crossed, t.crosses(before, after):
			l.disturb(t, h)
		}
	}
}

// follow brings the balances of the tally in line with a change in the domain of the host. lifted: the least
// of all domains is another one. crossed: a rule may hold in this domain that did not, or the reverse.
func (l *labels) follow(t *tally, h *host, before, after presence) (lifted, crossed bool) {
	for _, b := range t.balances {
		domain, _ := h.rec.Domain(t.domain)
		was := b.levels
		b.move(domain, before, after)
		lifted = l.lifts(b, was) || lifted
		crossed = b.crosses(before, was.least, after) || crossed
	}
	return lifted, crossed
}

// enter counts the host, or with n −1 no more, in all balances: they ask which domains can take tasks.
func (l *labels) enter(h *host, n int) {
	for _, b := range l.balances {
		was := b.levels
		b.enter(h.rec, n)
		if b.settle(); l.lifts(b, was) {
			l.disturb(b.tally, nil)
		}
	}
}

// lifts reports whether the least of a balance has changed. If its levels have, it remembers what they were:
// the next one matters to tasks that start together.
func (l *labels) lifts(b *balance, was levels) bool {
	if b.levels == was {
		return false
	}
	if _, again := l.low[b]; !again && l.low != nil {
		l.low[b] = was
	}
	return b.least != was.least
}

// begin has what is counted now remembered, until changes is called.
func (l *labels) begin() { l.seen, l.low = map[place]presence{}, map[*balance]levels{} }

func (l *labels) see(t *tally, h *host, n, total presence) {
	if l.seen == nil {
		return
	}
	value, _ := h.rec.Domain(t.domain)
	if _, again := l.seen[place{t, value}]; !again {
		l.seen[place{t, value}] = n
	}
	if _, again := l.seen[place{t, ""}]; !again && t.begins {
		l.seen[place{t, ""}] = total
	}
}

// changes reports whether a rule may hold now that did not when begin was called.
func (l *labels) changes() bool {
	defer func() { l.seen, l.low = nil, nil }()
	for b, was := range l.low { // any will do
		if b.levels != was {
			return true
		}
	}
	for p, was := range l.seen { // any will do
		now := p.tally.in[p.domain]
		if p.domain == "" {
			now = p.tally.total
		}
		if p.tally.crosses(was, now) {
			return true
		}
		for _, b := range p.tally.balances {
			if p.domain != "" && b.crosses(was, b.least, now) {
				return true
			}
		}
	}
	return false
}

// crosses reports whether a rule may hold after the change that did not before, or the reverse.
func (t *tally) crosses(before, after presence) bool {
	for _, m := range t.marks {
		side := func(n int64) int { return int(min(max(n-m, -1), 1)) }
		if side(before.most) != side(after.most) || side(before.least) != side(after.least) {
			return true
		}
	}
	return false
}

// idly has do count and take back between two plans, for an explanation or a price. Nobody has to look again
// at what is as it was: whoever did might find another one of several plans of the same cost.
func (l *labels) idly(do func()) {
	idle := l.idle
	l.idle = true
	do()
	l.idle = idle
}

// disturb has everything look again at the hosts of the domain of h; if h is nil, at all hosts.
func (l *labels) disturb(t *tally, h *host) {
	if l.idle {
		return
	}
	if h != nil && t.domain == cluster.DomainHost {
		l.hosts.disturb(h)
		return
	}
	value := ""
	if h != nil {
		value, _ = h.rec.Domain(t.domain)
	}
	for _, other := range l.hosts.byIndex {
		if other == nil || other.rec == nil {
			continue
		}
		if v, ok := other.rec.Domain(t.domain); h == nil || ok && v == value {
			l.hosts.disturb(other)
		}
	}
}

// planned counts what the plan of this cycle does.
func (l *labels) planned(s *labelSet, h *host, n presence) {
	l.plan = append(l.plan, countChange{s, h, n})
	l.count(s, h, n)
}

// takeBack undoes the last planned counts until left of them are left.
func (l *labels) takeBack(left int) {
	for i := len(l.plan) - 1; i >= left; i-- {
		c := l.plan[i]
		l.count(c.set, c.host, c.by.times(-1))
	}
	l.plan = l.plan[:left]
}

// Changes of a presence.
var (
	comes   = presence{1, 1}  // binds
	waits   = presence{1, 0}  // has room held
	gone    = presence{-1, 0} // was asked to leave, and has left; or has no room held any more
	leaving = presence{0, -1} // is asked to leave
	arrives = presence{0, 1}  // binds where it had room held; or is not asked to leave any more
)
