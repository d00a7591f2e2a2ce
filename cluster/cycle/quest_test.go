package cycle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

// CheckOutlooks holds what is kept of hosts from plan to plan against what there is to see now. It returns how much of it was compared.
func (s *Supervisor) CheckOutlooks(t require.TestingT) (compared int) {
	p := s.planner
	d := &displacer{p: p}
	for _, o := range p.outlooks {
		all := &want{giving: slices.Concat(o.giving, make([]giving, len(p.groupOrder)+len(p.freeIndices)))}
		for _, h := range p.hosts.byIndex {
			if h == nil {
				continue
			}
			if h.promised == p.hosts.stamps[h.index] {
				require.Equal(t, h.promise(), h.promises)
			}
			if int(h.index) >= len(o.bounds) || o.bounded[h.index] != p.hosts.stamps[h.index] {
				continue
			}
			back := func(u *unit) bool { return !u.leaves() && all.giving[u.group.index] == givesBack }
			leaves := !o.full || slices.ContainsFunc(h.units, back) // else nobody does
			for k, left := range d.could(all, h, func(*unit, giving) bool { return leaves }).left().Fixed {
				require.LessOrEqual(t, left, o.bounds[h.index][k])
			}
			compared++
		}
	}
	for _, n := range p.needs {
		if now := p.hosts.position(); n.measured == now && now > 0 {
			require.Equal(t, slices.ContainsFunc(p.hosts.byIndex, func(h *host) bool { return h != nil && n.Fits(&p.hosts.fits[h.index]) }), p.hosts.takes(n))
		}
	}
	return compared
}

// CheckGivings holds of whom a search thinks that they might leave against whom it could have leave, for all that wait. It returns how many
// gangs of several were asked.
func (s *Supervisor) CheckGivings(t require.TestingT) (asked int) {
	p := s.planner
	if p.ledger == nil {
		return 0
	}
	defer func(at cluster.Time) { p.wakeAt = at }(p.wakeAt) // whoever asks is not woken for it
	d := p.displacer(&Output{})
	for _, c := range p.order {
		for _, moves := range []bool{true, false} {
			if q := d.seek(c, moves); !q.vain {
				gives := d.givings(q, &q.to, nil)
				for _, g := range p.groupOrder {
					require.Equal(t, d.givingOf(q, g), gives[g.index])
				}
			}
		}
		q := d.seek(c, false)
		if c.queue.Len() == 0 || q.vain {
			continue
		}
		for _, h := range p.hosts.byIndex {
			if h == nil {
				continue
			}
			w := d.want(q, h)
			for _, u := range h.units {
				if u.leaves() || w.giving[u.group.index] == staysOn {
					continue
				}
				if d.gangOf(u) != nil {
					require.True(t, q.mayStop(&w.to, p.donorOf(u.group)))
					asked++
				}
			}
		}
	}
	return asked
}

// givingOf says of one group by itself what givings says of all.
func (d *displacer) givingOf(q *quest, g *group) giving {
	switch {
	case g.running == 0 || !g.displaceable() || q.patient && g.key.pool != q.to.Pool || d.borrows && !g.key.revocable:
		return staysOn
	case q.mayStop(&q.to, d.p.donorOf(g)):
		if q.full && !g.key.revocable && q.beyond.Covers(g.key.pool) {
			return givesBack
		}
		return givesUp
	case q.moves && !g.key.revocable && slices.ContainsFunc(d.p.hosts.fits, func(room [cluster.NumDimensions]int64) bool { return g.need.Fits(&room) }):
		return goesOn
	}
	return staysOn
}

// CheckFloors holds what room costs on each host at least against what it costs, for all that wait. It returns how many would
// leave, how many of them gangs as a whole, and how many would move where few hosts have room for any who could.
func (s *Supervisor) CheckFloors(t require.TestingT) (leave, gangs, move int) {
	p := s.planner
	if p.ledger == nil {
		return 0, 0, 0
	}
	d := p.displacer(&Output{})
	for _, c := range p.order {
		for _, moves := range []bool{false, true} {
			if c.queue.Len() == 0 || d.seek(c, moves).vain {
				continue
			}
			c.nominees = 0
			for _, h := range p.hosts.byIndex {
				if h == nil || h.decided {
					continue
				}
				found := d.choose(c, h, moves)
				if found == nil {
					continue
				}
				floor, ok := d.floor(c, h, moves)
				require.True(t, ok)
				require.LessOrEqual(t, floor, found.price)
				require.LessOrEqual(t, d.rough(c, h, d.seek(c, moves).outlook), found.price)
				for _, b := range found.leave {
					leave++
					gangs += int(one(len(b.units) > 1))
					if b.units[0].move != nil && d.shelter().few {
						move++
					}
				}
			}
		}
	}
	return leave, gangs, move
}

// Twin returns one that plans as s does.
func (s *Supervisor) Twin() *Supervisor { return s.Blank(s.policy) }

// ForgetOutlooks has the next plan find out anew what is kept of hosts from plan to plan.
func (s *Supervisor) ForgetOutlooks() {
	p := s.planner
	p.outlooks = nil
	for _, g := range p.groupOrder {
		g.need.measured, g.ledger = 0, nil
	}
	if p.hosts == nil {
		return
	}
	for _, h := range p.hosts.byIndex {
		if h != nil {
			h.promised = -1
		}
	}
}

func TestTheLargestAmountOfGPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.Int32Range(0, cluster.WholeGPU), 0, 5).Draw(t, "free")
		for i, whole := range rapid.SliceOfN(rapid.Bool(), len(free), len(free)).Draw(t, "whole") {
			if whole {
				free[i] = cluster.WholeGPU
			}
		}
		requests := []cluster.GPURequest{{Count: 1}, {Count: 2}, {Count: 5}, {Milli: 1}, {Milli: 500}, {Milli: 999}, {Milli: rapid.Int32Range(1, 999).Draw(t, "milli")}}
		for _, r := range requests {
			require.Equal(t, r.Fit(make([]cluster.GPUDevice, len(free)), free, 1) > 0, r.Amount() <= largestGPU(free), "%+v", r)
		}
	})
}
