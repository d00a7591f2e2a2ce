package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// fitOption is how many tasks of a class may start on the hosts of a search.
type fitOption struct {
	class     *class
	here      []int64 // that this plan starts there and may take back, by host
	total     int64   // sum of these
	more      int64   // that wait
	level     int
	elsewhere flowgraph.Cost // what one that goes saves on the best other host that is open now
	spare     int64          // how many of those who go may go there
}

// options returns what the hosts would be without the starts that may be taken back. It also returns what may
// start there instead.
func (r *refitter) options(hosts []*host, waiting []*class) ([]*cluster.Host, []fitOption) {
	var all []fitOption
	recs := make([]*cluster.Host, len(hosts))
	for j, h := range hosts {
		recs[j] = h.rec
	}
	for i := range r.p.made {
		m := &r.p.made[i]
		j := slices.Index(hosts, m.host)
		if j < 0 || m.class.group.key.gang || !r.movable(m) {
			continue
		}
		pl := &r.out.Placements[m.at]
		recs[j] = m.class.row.task.Unbind(recs[j], pl.Devices)
		at := slices.IndexFunc(all, func(o fitOption) bool { return o.class == m.class })
		if at < 0 {
			at = len(all)
			all = append(all, fitOption{class: m.class, level: r.level(m.class, pl.Tier), here: make([]int64, len(hosts))})
		}
		all[at].here[j]++
		all[at].total++
	}
	for i := range all {
		if all[i].more = all[i].class.open(); all[i].more == 0 {
			r.look(&all[i], hosts)
		}
	}
	for _, c := range waiting {
		if len(all) >= refitLooks {
			break
		}
		r.nodes--
		if c.group.key.gang || slices.ContainsFunc(all, func(o fitOption) bool { return o.class == c }) {
			continue
		}
		for j, h := range hosts {
			if couldTake(c.row.judge(h)) && c.row.task.CountOn(recs[j], 1) > 0 {
				all = append(all, fitOption{class: c, more: c.open(), level: r.level(c, c.tier()), here: make([]int64, len(hosts))})
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b fitOption) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(r.density(b.class), r.density(a.class)))
	})
	return recs, all
}

// look finds where tasks of the option may go that go from these hosts.
func (r *refitter) look(o *fitOption, from []*host) {
	c := o.class
	r.p.rows.refresh(c.row)
	for h, price := range r.p.cheapest(c) {
		if !slices.Contains(from, h) {
			if saves := c.price - price; o.spare == 0 || saves > o.elsewhere {
				o.elsewhere, o.spare = saves, r.p.fit(c, h, o.total)
			}
			if !c.local.isNear(h.index) {
				return
			}
		}
	}
}

// fitSearch is an exact knapsack of starts on one host or up to three, by branch and bound.
type fitSearch struct {
	r       *refitter
	hosts   []*host
	options []fitOption
	rest    []worths // what the options from each on save at most
	nodes   int

	now, best worths
	n, chosen [][]int64 // by option and host
}

func (r *refitter) search(hosts []*host, options []fitOption) *fitSearch {
	s := &fitSearch{r: r, hosts: hosts, options: options, nodes: refitHostNodes, now: make(worths, len(r.levels)), n: counts(options, hosts)}
	s.rest = make([]worths, len(options)+1)
	s.rest[len(options)] = make(worths, len(r.levels))
	for i := len(options) - 1; i >= 0; i-- {
		o := &options[i]
		s.rest[i] = slices.Clone(s.rest[i+1])
		s.rest[i][o.level] += flowgraph.Cost(o.total+o.more) * o.class.price
	}
	return s
}

func counts(options []fitOption, hosts []*host) [][]int64 {
	n := make([][]int64, len(options))
	for i := range n {
		n[i] = make([]int64, len(hosts))
	}
	return n
}

// start prices one more start on the j-th host as it would be.
func (s *fitSearch) start(c *class, j int, rec *cluster.Host) (flowgraph.Cost, bool) {
	p := s.r.p
	price := clamp(clamp(clamp(p.model.Start(&p.round, &c.row.request, rec))+c.row.rule.price(rec, 0)) + c.local.extra(s.hosts[j].index))
	return price, price < c.price
}

// saves returns what those who go save when n of the option start on the hosts.
func (o *fitOption) saves(n int64) flowgraph.Cost {
	return o.elsewhere * flowgraph.Cost(min(max(0, o.total-n), o.spare))
}

// fill binds up to limit tasks of the class on the j-th host. It returns the host after each of them, with
// what they save so far.
func (s *fitSearch) fill(c *class, j int, rec *cluster.Host, limit int64) ([]*cluster.Host, []flowgraph.Cost) {
	recs, saved := []*cluster.Host{rec}, []flowgraph.Cost{0}
	if limit > 0 && !couldTake(c.row.judge(s.hosts[j])) {
		return recs, saved
	}
	for k := int64(0); k < limit && c.row.task.CountOn(rec, 1) > 0; k++ {
		price, ok := s.start(c, j, rec)
		devices, picked := c.row.task.Pick(rec)
		if !ok || !picked {
			break
		}
		rec = c.row.task.Bind(rec, devices)
		recs, saved = append(recs, rec), append(saved, saved[k]+c.price-price)
	}
	return recs, saved
}

// asIs works out what the starts as they are save, by the same reckoning. False if they cannot be made in
// this order.
func (s *fitSearch) asIs(recs []*cluster.Host) bool {
	s.best, s.chosen = make(worths, len(s.now)), counts(s.options, s.hosts)
	recs = slices.Clone(recs)
	for i := range s.options {
		o := &s.options[i]
		for j, here := range o.here {
			after, saved := s.fill(o.class, j, recs[j], here)
			if int64(len(after)) <= here {
				return false
			}
			recs[j] = after[here]
			s.best[o.level] += saved[here]
			s.chosen[i][j] = here
		}
	}
	return true
}

// try decides on the options from i on. Of option i, n start on the hosts before j, and the others may start
// from j on.
func (s *fitSearch) try(i, j int, n int64, recs []*cluster.Host) {
	if s.nodes--; s.nodes < 0 {
		return
	}
	if i == len(s.options) {
		if s.best == nil || slices.Compare(s.now, s.best) > 0 {
			s.best, s.chosen = slices.Clone(s.now), counts(s.options, s.hosts)
			for k := range s.n {
				copy(s.chosen[k], s.n[k])
			}
		}
		return
	}
	o := &s.options[i]
	if j == len(s.hosts) {
		gain := o.saves(n)
		s.now[o.level] += gain
		if s.best == nil || s.mayGain(i+1) {
			s.try(i+1, 0, 0, recs)
		}
		s.now[o.level] -= gain
		return
	}
	was := recs[j]
	after, saved := s.fill(o.class, j, was, o.total+o.more-n)
	for k := len(after) - 1; k >= 0; k-- {
		s.now[o.level] += saved[k]
		s.n[i][j], recs[j] = int64(k), after[k]
		s.try(i, j+1, n+int64(k), recs)
		s.now[o.level] -= saved[k]
	}
	s.n[i][j], recs[j] = 0, was
}

// mayGain reports whether the options from i on could still make this the best.
func (s *fitSearch) mayGain(i int) bool {
	for l := range s.now {
		if most := s.now[l] + s.rest[i][l]; most != s.best[l] {
			return most > s.best[l]
		}
	}
	return false
}

// fit tries other starts on the hosts.
func (r *refitter) fit(hosts ...*host) bool {
	if r.nodes <= 0 {
		return false
	}
	recs, options := r.options(hosts, r.waiting())
	r.nodes -= 4 * refitLooks // what it takes to look at all
	s := r.search(hosts, options)
	if !s.asIs(recs) {
		return false
	}
	before := slices.Clone(s.best)
	s.try(0, 0, 0, slices.Clone(recs))
	r.nodes -= refitHostNodes - max(0, s.nodes)
	if slices.Compare(s.best, before) <= 0 {
		return false
	}
	return r.attempt(func() bool { return r.carryOut(s) })
}

// carryOut makes the chosen starts on the hosts, and settles those who had to go.
func (r *refitter) carryOut(s *fitSearch) bool {
	r.clear(s)
	for i := range s.options {
		o := &s.options[i]
		for j, h := range s.hosts {
			for n := o.here[j]; n < s.chosen[i][j]; n++ {
				if !r.startOn(o.class, h) {
					break
				}
			}
		}
	}
	for i := range s.options {
		r.settle(s.options[i].class)
	}
	return true
}

// clear takes back those who are to go.
func (r *refitter) clear(s *fitSearch) {
	for i := range s.options {
		o := &s.options[i]
		for j, h := range s.hosts {
			for n := s.chosen[i][j]; n < o.here[j]; n++ {
				r.takeBack(o.class, h)
			}
		}
	}
}

func (r *refitter) startOn(c *class, h *host) bool {
	r.p.rows.refresh(c.row)
	price, ok := c.accepts(h.index)
	if ok {
		r.place(c, h, price)
	}
	return ok
}

// gang looks for room for a gang that waits, on several hosts together. For each host and each number of the
// gang there, it takes the best set of other starts that leaves room for them. Over the hosts it takes the
// best way to add these up.
func (r *refitter) gang(c *class) bool {
	need := c.open()
	if need > refitGang || need == 0 || r.nodes <= 0 {
		return false
	}
	sum := make([]worths, need+1) // by how many have room on the hosts so far; nil for not at all
	sum[0] = make(worths, len(r.levels))
	var ways [][]*fitSearch // by host that is looked at, and how many of the gang start there
	var picks [][]int64     // by the same host, and how many have room with it: how many on it
	for _, h := range r.p.hosts.byIndex {
		if h == nil || h.reserved() || !couldTake(c.row.judge(h)) {
			continue
		}
		if r.nodes <= 0 || len(ways) == 2*refitGang {
			break
		}
		way := r.ways(c, h, need)
		if way == nil {
			continue
		}
		next, pick := make([]worths, need+1), make([]int64, need+1)
		for had := range sum {
			for k := 0; sum[had] != nil && k < len(way) && had+k <= int(need); k++ {
				w := slices.Clone(sum[had])
				for l := range w {
					w[l] += way[k].best[l] - way[0].best[l]
				}
				if next[had+k] == nil || slices.Compare(w, next[had+k]) > 0 {
					next[had+k], pick[had+k] = w, int64(k)
				}
			}
		}
		sum, ways, picks = next, append(ways, way), append(picks, pick)
	}
	if sum[need] == nil || slices.Compare(sum[need], make(worths, len(r.levels))) <= 0 {
		return false
	}
	return r.attempt(func() bool { return r.gather(c, ways, picks) })
}

// ways returns the best set of the other starts on the host for each number of tasks of the gang that it
// leaves room for.
func (r *refitter) ways(c *class, h *host, need int64) []*fitSearch {
	hosts := []*host{h}
	recs, options := r.options(hosts, nil)
	first := r.search(hosts, options)
	if !first.asIs(recs) {
		return nil
	}
	after, saved := first.fill(c, 0, recs[0], need)
	all := []*fitSearch{first}
	for k := 1; k < len(after); k++ {
		s := r.search(hosts, options)
		s.try(0, 0, 0, []*cluster.Host{after[k]})
		r.nodes -= refitHostNodes - max(0, s.nodes)
		if s.best == nil {
			break
		}
		s.best[r.level(c, c.tier())] += saved[k]
		all = append(all, s)
	}
	return all
}

// gather starts the gang where room was found for it.
func (r *refitter) gather(c *class, ways [][]*fitSearch, picks [][]int64) bool {
	left := c.open()
	for i := len(ways) - 1; i >= 0; i-- {
		k := picks[i][left]
		if k == 0 {
			continue
		}
		s := ways[i][k]
		r.clear(s)
		for range k {
			if !r.startOn(c, s.hosts[0]) {
				return false
			}
		}
		left -= k
	}
	r.settleAll()
	return left == 0
}
