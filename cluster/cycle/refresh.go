package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// changed is the hosts that changed between two positions of their log, each once, by index. Most rows of a
// cycle were last read at the same position. They share it.
type changed struct {
	from, to int
	hosts    []int32
	set      hostSet // of the same
	all      bool    // nothing else is open to the rows: neither set nor positions count
}

// changes returns the hosts that changed since the position. The log still holds that.
func (t *rows) changes(from int) *changed {
	c, to := &t.recent, t.hosts.position()
	if c.from == from && c.to == to && len(c.set) > 0 {
		return c
	}
	c.from, c.to, c.hosts = from, to, c.hosts[:0]
	c.set = c.set.empty(len(t.hosts.byIndex))
	for at, i := range t.hosts.log[from-t.hosts.start:] {
		if t.hosts.last[i] == from+at { // else it changed again later
			c.hosts = append(c.hosts, i)
			c.set.add(i)
		}
	}
	slices.Sort(c.hosts)
	return c
}

// refresh brings a row in line with the hosts. Complexity: the changes of hosts since the last refresh, and
// the length of the head; all hosts for a new row, or one that was not refreshed for long.
func (t *rows) refresh(r *row) {
	from := r.read
	if from == t.hosts.position() {
		return
	}
	r.read = t.hosts.position()
	t.single = append(t.single[:0], r)
	t.renew(t.single, from)
}

// refreshAll refreshes the rows of all classes that are in the network.
func (t *rows) refreshAll(classes []*class) {
	to := t.hosts.position()
	if t.asked.cycle != t.cycle {
		t.asked.cycle, t.asked.at, t.asked.rows = t.cycle, to, t.asked.rows[:0]
	}
	old := t.old[:0]
	for _, c := range classes {
		if c.node == flowgraph.NoNode {
			continue
		}
		if c.row.asked != t.cycle {
			c.row.asked = t.cycle
			t.asked.rows = append(t.asked.rows, c.row)
		}
		if c.row.read != to {
			old = append(old, c.row)
		}
	}
	t.old = old
	t.refreshTogether(old)
}

// refreshSome refreshes the rows of a few classes.
func (t *rows) refreshSome(classes []*class) {
	old, to := t.old[:0], t.hosts.position()
	for _, c := range classes {
		if c.row.read != to {
			old = append(old, c.row)
		}
	}
	t.old = old
	t.refreshTogether(old)
}

// refreshTogether brings rows in line. Some may be listed twice.
func (t *rows) refreshTogether(old []*row) {
	to, from := t.hosts.position(), 0
	slices.SortStableFunc(old, func(a, b *row) int { return cmp.Compare(a.read, b.read) })
	together := t.together[:0]
	for _, r := range old {
		if r.read == to { // of another class, too
			continue
		}
		if r.read != from {
			t.renew(together, from)
			together, from = together[:0], r.read
		}
		r.read = to
		together = append(together, r)
	}
	t.renew(together, from)
	t.together = together
}

// renew brings rows that were last read at the position in line.
func (t *rows) renew(together []*row, from int) {
	if len(together) == 0 {
		return
	}
	for _, r := range together {
		t.date(r)
	}
	if from < t.hosts.start {
		t.rebuild(together)
		return
	}
	t.bring(together, t.changes(from))
}

// bring brings rows in line with the hosts that changed, on several processors if that is worth it.
func (t *rows) bring(together []*row, c *changed) {
	t.taken++
	if len(together)*len(c.hosts) < part {
		t.pricers[0].round = *t.round
		t.pricers[0].renew(t.hosts, together, c)
		return
	}
	for some := range slices.Chunk(together, most) {
		t.begin(some, c).finish()
	}
}

// date has a row forget what it knows of signatures that were given anew.
func (t *rows) date(r *row) {
	if r.era != t.hosts.era {
		r.era, r.fixed, r.free, r.able, r.shut = t.hosts.era, nil, 0, 0, 0
	}
}

// expect begins to bring plain rows in line that the last plan asked for, and the next one likely will. It
// returns nil if that is not worth a goroutine. So what hosts became since is priced as it comes, between
// plans too, and each change once.
func (t *rows) expect() *renewal {
	from := t.asked.at
	if (t.hosts.position()-from)*min(len(t.asked.rows), expected) < part || from < t.hosts.start || t.hosts.social || len(t.helpers(1)) == 0 {
		return nil
	}
	together := t.together[:0]
	for _, r := range t.asked.rows {
		if r.plain && r.read >= from && len(together) < expected {
			together = append(together, r)
		}
	}
	t.together = together
	c := t.changes(from)
	if len(together)*len(c.hosts) < part {
		return nil
	}
	for _, r := range together {
		t.date(r)
		r.read = c.to
	}
	t.asked.at = c.to
	return t.begin(together, c)
}
