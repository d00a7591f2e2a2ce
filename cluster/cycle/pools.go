package cycle

import "github.com/sluice-scheduler/sluice/cluster"

// admit lets everything that waits borrow.
func (p *Planner) admit(cluster.Time) {
	for _, c := range p.order {
		c.skipped, c.passed, c.pledged = false, false, 0
		c.left = [cluster.NumTiers]int64{cluster.TierBorrowed: c.waiting()}
	}
	p.moved = false
}

func (p *Planner) passOn(cluster.Time) bool { return false }
