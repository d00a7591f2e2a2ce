package cycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
)

// learn takes in what was learned from runs. Prices that asked for none of it stay.
func (p *Planner) learn(k costmodels.Knowledge) {
	if k == p.known.Knowledge {
		return
	}
	p.known.Knowledge, p.round.Known = k, nil
	if k != nil {
		p.round.Known = &p.known
	}
	if p.known.asked {
		p.known.asked = false
		p.reprice()
	}
	if p.known.located {
		p.known.located, p.dirty = false, true
		p.hosts.version++
	}
}

// consulted is knowledge that notices whether a model has asked it since it last changed.
type consulted struct {
	costmodels.Knowledge
	asked   bool
	located bool // the same, for where images are, on which only localities depend
}

// RunTime implements costmodels.Knowledge.
func (c *consulted) RunTime(work string) (time.Duration, bool) {
	c.asked = true
	return c.Knowledge.RunTime(work)
}

// Usage implements costmodels.Knowledge.
func (c *consulted) Usage(work string) (cluster.Resources, bool) {
	c.asked = true
	return c.Knowledge.Usage(work)
}

// Used implements costmodels.Knowledge.
func (c *consulted) Used(h cluster.HostID) (cluster.Resources, bool) {
	c.asked = true
	return c.Knowledge.Used(h)
}

// Pace implements costmodels.Knowledge.
func (c *consulted) Pace(work, kind, company string) (int64, bool) {
	c.asked = true
	return c.Knowledge.Pace(work, kind, company)
}

// Holders implements costmodels.Knowledge.
func (c *consulted) Holders(image string) []cluster.HostID {
	c.located = true
	return c.Knowledge.Holders(image)
}

// reprice has every price of a start worked out anew when it is needed next: something changed that all of
// them may depend on.
func (p *Planner) reprice() {
	if p.rows == nil {
		return
	}
	p.dirty = true
	for _, r := range p.rows.byKey { // in any order: each for itself
		r.read, r.racks = -1, nil
	}
	for _, h := range p.hosts.byIndex {
		if h != nil {
			p.graph.touch(h)
		}
	}
}

// welcome notes that n tasks of the work start on the host by this plan.
func (p *Planner) welcome(h *host, work string, n int64) {
	if len(h.joined) == 0 {
		p.joined = append(p.joined, h)
	}
	h.joined = append(h.joined, costmodels.Resident{Work: work, Tasks: int(n)})
}

// residents counts, by kind of work, the tasks on a host and those that this plan starts there, without those
// that leave by this plan. See costmodels.Round. Complexity: the tasks.
func (p *Planner) residents(rec *cluster.Host) []costmodels.Resident {
	p.hosts.social = true
	h := p.hosts.byID[rec.ID]
	if h == nil {
		return nil
	}
	all := slices.Clone(h.joined)
	for _, u := range h.units {
		if !u.leaves() {
			all = append(all, costmodels.Resident{Work: u.row.work, Tasks: 1})
		}
	}
	slices.SortFunc(all, func(a, b costmodels.Resident) int { return cmp.Compare(a.Work, b.Work) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && merged[n-1].Work == r.Work {
			merged[n-1].Tasks += r.Tasks
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}
