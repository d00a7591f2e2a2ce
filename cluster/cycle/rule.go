package cycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// wishes is what a task's job and its pool ask of its place, at this stage of the task's waiting.
type wishes struct {
	spec    *cluster.JobSpec
	hosts   *cluster.Constraint // of the pool, may be nil
	copy    *cluster.Copy       // of a copy of another task; else nil
	set     *labelSet
	yielded uint64 // see cluster.JobSpec.Yielded
}

// none reports whether nothing is asked for.
func (w *wishes) none() bool {
	return w.hosts == nil && w.copy == nil && w.spec.Constraint == nil && len(w.spec.Preferences) == 0 && len(w.spec.Spread) == 0
}

// rulesKey renders the rules that hold at a stage, and names the tasks that they count as their own, if any do.
func rulesKey(w wishes, own setKey) (text string, self setKey) {
	if w.none() {
		return "", setKey{}
	}
	spec := w.spec
	var b strings.Builder
	if w.hosts != nil {
		fmt.Fprintf(&b, "pool %s ", w.hosts)
	}
	if w.copy != nil {
		fmt.Fprintf(&b, "copy %q %d ", w.copy.Off, w.copy.Pace)
	}
	counts := spec.Constraint.CountsTasks() || len(spec.Spread) > 0
	if spec.Constraint != nil {
		b.WriteString(spec.Constraint.String())
	}
	for i := range spec.Preferences {
		p := &spec.Preferences[i]
		counts = counts || p.CountsTasks()
		fmt.Fprintf(&b, " soft %d %s", p.Penalty, p.String())
	}
	for i := range spec.Spread {
		s := &spec.Spread[i]
		fmt.Fprintf(&b, " spread %q %d %d %q %v", s.Domain, s.Max, s.MaxSkew, s.Selector, s.Soft)
	}
	if w.yielded != 0 {
		fmt.Fprintf(&b, " %b", w.yielded)
	}
	if counts {
		self = own
	}
	return b.String(), self
}

// rule is what tasks of one row ask of their place besides room. A nil rule asks for nothing.
type rule struct {
	given   *cluster.Constraint   // of the job
	hosts   *cluster.Constraint   // of its pool; may name an exclusive host, as given may
	copy    *cluster.Copy         // of a copy of another task; else nil
	hard    []*cluster.Constraint // each has to hold
	soft    []preference
	leaves  map[*cluster.Constraint]*leaf // the parts that count tasks
	order   []*leaf                       // the same in the order of the rules
	byName  bool                          // tells hosts apart that are alike otherwise
	growing bool                          // counts tasks of the row itself

	// Of the evaluation in progress:
	rec *cluster.Host
	own int64
	ask func(*cluster.Constraint) bool
}

// preference is a rule that may be broken at a price.
type preference struct {
	is    *cluster.Constraint
	price flowgraph.Cost
	name  string
}

// leaf compares the number of tasks of a selection in the domain of a place with a number.
type leaf struct {
	index   int
	tally   *tally
	self    bool // the tasks of the row count
	compare cluster.Comparison
	number  int64
	name    string
	balance *balance // if the leaf compares how much more there is than in another domain; else nil
	hard    bool     // a part of what has to hold
}

// compile returns the rule of what is wished for, nil if nothing is.
func (l *labels) compile(w wishes) *rule {
	spec := w.spec
	if w.none() {
		return nil
	}
	r := &rule{given: spec.Constraint, hosts: w.hosts, copy: w.copy, byName: w.copy != nil, leaves: map[*cluster.Constraint]*leaf{}}
	r.ask = func(c *cluster.Constraint) bool { return r.leaves[c].holds(r.rec, r.own) }
	add := func(c *cluster.Constraint, soft *cluster.Soft, bit int, name string) {
		r.byName = r.byName || c.Mentions(cluster.LabelHostname)
		if soft != nil && w.yielded>>bit&1 != 0 {
			r.soft = append(r.soft, preference{c, flowgraph.Cost(soft.Penalty.Milliseconds()), name})
		} else {
			r.hard = append(r.hard, c)
		}
	}
	if w.hosts != nil {
		add(w.hosts, nil, 0, "")
	}
	if c := spec.Constraint; c != nil {
		l.bind(r, c, w.set)
		add(c, nil, 0, "")
	}
	for i := range spec.Preferences {
		p := &spec.Preferences[i]
		l.bind(r, &p.Constraint, w.set)
		add(&p.Constraint, &p.Soft, i, "preference "+p.String())
	}
	for i := range spec.Spread {
		s := &spec.Spread[i]
		c := &cluster.Constraint{Op: cluster.TaskLabel, Domain: s.Domain}
		x := &leaf{compare: cluster.Less, number: int64(s.Max), name: fmt.Sprintf("at most %d of %s per %s", s.Max, selection(s.Selector), s.Domain)}
		if s.MaxSkew > 0 {
			x.number, x.name = int64(s.MaxSkew)+1, fmt.Sprintf("at most %d more of %s in one %s than in another", s.MaxSkew, selection(s.Selector), s.Domain)
		}
		l.leaf(r, c, w.set, x, selector{job: w.set.key.job, labels: s.Selector})
		if s.MaxSkew > 0 {
			if x.self { // it counts what there is once the task has come
				x.number--
			}
			x.balance = l.balance(x.tally, r, x.number)
		}
		add(c, s.Soft, len(spec.Preferences)+i, x.name)
	}
	for _, x := range r.order {
		x.hard = slices.ContainsFunc(r.hard, func(c *cluster.Constraint) bool { return x.of(c, r) })
	}
	return r
}

func selection(labels []cluster.KeyValue) string {
	if len(labels) == 0 {
		return "the job"
	}
	var parts []string
	for _, l := range labels {
		parts = append(parts, l.Key+"="+l.Value)
	}
	return strings.Join(parts, ",")
}

// bind finds the counts that the leaves of an expression compare.
func (l *labels) bind(r *rule, c *cluster.Constraint, own *labelSet) {
	c.Any(func(c *cluster.Constraint) bool {
		if c.Op == cluster.TaskLabel {
			l.leaf(r, c, own, &leaf{compare: c.Comparison, number: int64(c.Count), name: c.Words()},
				selector{labels: []cluster.KeyValue{c.Label}, anyValue: c.AnyValue})
		}
		return false
	})
}

func (l *labels) leaf(r *rule, c *cluster.Constraint, own *labelSet, x *leaf, s selector) {
	x.index, x.tally, x.self = len(r.order), l.tally(s, c.Domain, uint32(x.number)), s.takes(own)
	x.tally.begins = x.tally.begins || x.begins() && !l.idle
	r.growing = r.growing || x.self
	r.leaves[c] = x
	r.order = append(r.order, x)
}

// drop gives back what the rule counts.
func (l *labels) drop(r *rule) {
	if r != nil {
		for _, x := range r.order {
			if x.balance != nil {
				l.unbalance(x.balance)
			}
			l.release(x.tally)
		}
	}
}

// begins reports whether the leaf asks for tasks like its own to be there already. Somebody has to be the
// first. The first ones all go to one domain, and only if there is room for all that wait; see Planner.begin.
// If some have room held, or are leaving, it is their domain.
func (x *leaf) begins() bool { return x.self && x.compare == cluster.Greater && x.number == 0 }

// unbegun reports whether the leaf waits for a first one.
func (x *leaf) unbegun() bool { return x.begins() && x.tally.total.least == 0 }

// holds reports whether the leaf holds on the host for one more task of the row, after own others that start
// there.
func (x *leaf) holds(rec *cluster.Host, own int64) bool {
	domain, ok := rec.Domain(x.tally.domain)
	if !ok {
		return false
	}
	if !x.self {
		own = 0
	}
	n := x.tally.in[domain]
	if x.balance != nil {
		return n.most+own-x.balance.floor(domain, n, own) < x.number
	}
	n = n.plus(presence{own, own}, 1)
	switch x.compare {
	case cluster.Less:
		return n.most < x.number
	case cluster.Equal:
		return n.most == x.number && n.least == x.number
	}
	if x.unbegun() {
		if all := x.tally.total.most; all > 0 {
			return x.tally.in[domain].most == all
		}
		return x.tally.seed == domain
	}
	return n.least > x.number
}

// hinges reports whether the leaf asks for the tasks of the set to be there, or may not hold any more if they
// leave.
func (x *leaf) hinges(s *labelSet) bool {
	return (x.compare != cluster.Less || x.balance != nil) && x.tally.selector.takes(s)
}

// hinges reports whether one of the rule's leaves hinges on the set.
func (r *rule) hinges(s *labelSet) bool {
	return r != nil && slices.ContainsFunc(r.order, func(x *leaf) bool { return x.hinges(s) })
}

// asAlike reports whether it makes no difference to the rule of which of the sets a task leaves.
func (r *rule) asAlike(a, b *labelSet) bool { return a == b || !r.hinges(a) && !r.hinges(b) }

// clings reports whether the rule would not hold in the domains of the unit any more if that left.
func (r *rule) clings(u *unit) bool {
	return r != nil && slices.ContainsFunc(r.order, func(x *leaf) bool { return x.hard && x.hinges(u.set) && !x.spares(u.host, 1) })
}

// spares reports whether the leaf still holds on the host when n of the tasks leave that it asks for.
func (x *leaf) spares(h *host, n int64) bool {
	in, _ := x.tally.at(h.rec)
	return x.compare == cluster.Greater && in.least-n > x.number
}

// among returns how many of the units the leaf counts in the domain of the host.
func (x *leaf) among(units []*unit, h *host) (n int64) {
	domain, _ := h.rec.Domain(x.tally.domain)
	for _, u := range units {
		if in, ok := u.host.rec.Domain(x.tally.domain); ok && in == domain && x.tally.selector.takes(u.set) {
			n++
		}
	}
	return n
}

// unbegun reports whether the rule waits for first ones. Only hard parts count: where tasks would merely
// rather be together, nobody waits.
func (r *rule) unbegun() bool {
	return r != nil && slices.ContainsFunc(r.order, func(x *leaf) bool { return x.hard && x.unbegun() })
}

// anywhere reports whether the rule waits for first ones that may be in any domain: none has room held, or is
// leaving.
func (r *rule) anywhere() bool {
	return r.unbegun() && !slices.ContainsFunc(r.order, func(x *leaf) bool { return x.hard && x.unbegun() && x.tally.total.most > 0 })
}

// admitted reports whether the host, if it is exclusive, is named.
func (r *rule) admitted(rec *cluster.Host) bool {
	if r == nil {
		return rec.Admits()
	}
	return rec.Admits(r.given, r.hosts)
}

// refusal says whose labels keep the tasks off a host where the rules cannot hold.
func (r *rule) refusal(rec *cluster.Host) verdict {
	if !rec.Meets(r.hosts) {
		return outside
	}
	return mismatch
}

// labels begins to count the hosts that the job's hard rules, each by itself, keep the tasks off by their labels.
func (r *rule) labels() (counts cluster.Refusals) {
	if r != nil {
		for _, c := range r.hard {
			if c != r.hosts {
				counts.Demand(c)
			}
		}
	}
	return counts
}

// mayTake reports whether the host takes work, and the job's constraint and its pool allow it, whatever tasks
// are around.
func (r *rule) mayTake(rec *cluster.Host) bool {
	return rec.State() == cluster.HostUp && rec.Opens(r.given, r.hosts)
}

// balances reports whether the rule bounds how much more one domain has than another. Then a place opens as
// others fill.
func (r *rule) balances() bool {
	return r != nil && slices.ContainsFunc(r.order, func(x *leaf) bool { return x.balance != nil })
}

// static returns what the hard rules are by the host alone.
func (r *rule) static(rec *cluster.Host) cluster.Truth {
	value := cluster.True
	if r != nil {
		if !r.mayCopy(rec) {
			return cluster.False
		}
		for _, c := range r.hard {
			value = min(value, c.Evaluate(rec, nil))
		}
	}
	return value
}

// holds reports whether every hard rule holds for one more task, after own others.
func (r *rule) holds(rec *cluster.Host, own int64) bool {
	r.rec, r.own = rec, own
	for _, c := range r.hard {
		if c.Evaluate(rec, r.ask) != cluster.True {
			return false
		}
	}
	return r.mayCopy(rec)
}

// mayCopy reports whether a copy may gain on its task on the host. True if the rule is not of a copy.
func (r *rule) mayCopy(rec *cluster.Host) bool {
	return r.copy == nil || rec.ID != r.copy.Off && (r.copy.Pace == 0 || rec.Pace <= r.copy.Pace)
}

// judge returns why the host is ruled out, open if it is not.
func (r *rule) judge(rec *cluster.Host) verdict {
	if r.holds(rec, 0) {
		return open
	}
	for _, c := range r.hard {
		if c.Evaluate(rec, r.ask) == cluster.True {
			continue
		}
		if c.Evaluate(rec, nil) == cluster.False {
			return r.refusal(rec)
		}
		for _, x := range r.order {
			if x.of(c, r) && !x.holds(rec, 0) {
				return x.verdict(rec)
			}
		}
	}
	return mismatch
}

// of reports whether the leaf is a part of the expression.
func (x *leaf) of(c *cluster.Constraint, r *rule) bool {
	return c.Any(func(part *cluster.Constraint) bool { return r.leaves[part] == x })
}

// verdict says why the leaf, which does not hold, rules the host out.
func (x *leaf) verdict(rec *cluster.Host) verdict {
	n, ok := x.tally.at(rec)
	switch {
	case !ok:
		return noDomain + kinds*verdict(x.index)
	case x.balance != nil:
		return uneven + kinds*verdict(x.index)
	case x.compare == cluster.Less || x.compare == cluster.Equal && n.most > x.number:
		return crowded + kinds*verdict(x.index)
	default:
		return lonely + kinds*verdict(x.index)
	}
}

// room returns how many tasks of the row may start on the host, at most limit, until a rule forbids one more.
// With samePrice, also until a rule makes one more dearer.
func (r *rule) room(rec *cluster.Host, limit int64, samePrice bool) int64 {
	if r == nil || len(r.order) == 0 || limit == 0 {
		return limit // the host is open, or nobody would ask
	}
	if !r.holds(rec, 0) {
		return 0
	}
	if !r.growing {
		return limit
	}
	price := r.price(rec, 0)
	n := int64(1)
	for n < limit && r.holds(rec, n) && (!samePrice || r.price(rec, n) == price) {
		n++
	}
	return n
}

// price returns what one more task pays for a start on the host after own others, beside what the model says.
func (r *rule) price(rec *cluster.Host, own int64) flowgraph.Cost {
	if r == nil {
		return distrust(rec)
	}
	return distrust(rec) + r.broken(rec, own)
}

// distrust is what a start costs on a host where the last launches came to nothing, in milliseconds. It is
// nothing after the first, then a second, which outweighs most of what load costs, then four times as much
// after each further one. The maximum outweighs near data, but not what it costs to wait: if there is no
// other host, this one is tried.
func distrust(rec *cluster.Host) flowgraph.Cost {
	if rec.Misfires < cluster.Suspect {
		return 0
	}
	return min(flowgraph.Cost(costmodels.Second)<<(2*min(rec.Misfires-cluster.Suspect, 8)), costmodels.Step/2)
}

// broken returns what the preferences that the host breaks cost together.
func (r *rule) broken(rec *cluster.Host, own int64) flowgraph.Cost {
	var sum flowgraph.Cost
	r.rec, r.own = rec, own
	for i := range r.soft {
		if r.soft[i].is.Evaluate(rec, r.ask) != cluster.True {
			sum += r.soft[i].price
		}
	}
	return min(sum, flowgraph.Cost(cluster.MaxPenalty.Milliseconds()))
}
