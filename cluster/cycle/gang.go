package cycle

import "github.com/sluice-scheduler/sluice/flowgraph"

// share is a number of tasks of one class for a host.
type share struct {
	host  *host
	n     int64
	price flowgraph.Cost
}

// whole returns where all that is left of a gang fits together: where the flow sends it as far as that holds, then on the
// hosts that are cheapest for it. It returns nil if the gang does not fit. The tasks of a gang are alike, so it fits if and
// only if the hosts take enough of them one by one.
func (p *Planner) whole(c *class, flow []share) []share {
	var shares []share
	taken := map[*host]int64{}
	need := c.open()
	for _, s := range flow {
		if n := p.fit(c, s.host, min(s.n, need)); n > 0 {
			shares = append(shares, share{s.host, n, s.price})
			taken[s.host] = n
			need -= n
		}
	}
	if need == 0 {
		return shares
	}
	p.rows.refresh(c.row)
	seen := map[*host]bool{}
	for h, price := range p.cheapest(c) {
		if seen[h] {
			continue
		}
		seen[h] = true
		n := p.fit(c, h, taken[h]+need) - taken[h]
		if n <= 0 {
			continue
		}
		shares = append(shares, share{h, n, price})
		if need -= n; need == 0 {
			return shares
		}
	}
	return nil
}

func (p *Planner) placeShares(out *Output, c *class, shares []share) {
	for _, s := range shares {
		p.place(out, c, s.host, s.n, s.price)
	}
}
