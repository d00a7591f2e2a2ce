package cycle

import "github.com/sluice-scheduler/sluice/cluster"

// A flow counts tasks. It may cost the flow nothing to send those that want much processor to some hosts, and
// those that want much memory to others. Such hosts would be full in one dimension, with room in the other
// that nobody could use. So a host keeps a part of its room in a dimension for the next round, if it is sent
// many tasks, and more than fit in that dimension. Others are sent there then, if the model makes what is
// busy dear.
const (
	keepMany = 8    // tasks that such a host is sent at least
	keepPart = 4    // it keeps one of so many parts
	keepNear = 0.75 // when the room in the scarcest dimension is taken, at least this part of that in the second is
)

// keep is the room that a host keeps, in dimensions in which it is sent more than fits; 0 in others.
type keep [cluster.NumDimensions]int64

// keep returns the hosts that keep room, given what the flow sends from each class. The map is for look-up
// only. Complexity: hosts and shares.
func (p *Planner) keep(classes []*class, flows [][]share) map[*host]*keep {
	p.counts = append(p.counts[:0], make([]int64, len(p.hosts.byIndex))...)
	var many map[*host]*keep // what they are sent, at first
	for _, flow := range flows {
		for _, s := range flow {
			if p.counts[s.host.index] += s.n; p.counts[s.host.index] < keepMany {
				continue
			}
			if many == nil {
				many = map[*host]*keep{}
			}
			many[s.host] = &keep{}
		}
	}
	for i, c := range classes {
		if many == nil || c.row.key.revocable { // these have room of their own
			continue
		}
		for _, s := range flows[i] {
			if k := many[s.host]; k != nil {
				for d, v := range c.row.key.fixed {
					k[d] += s.n * v
				}
			}
		}
	}
	for h, k := range many {
		several := p.severalBind(h)
		for d, sent := range k {
			if k[d] = 0; several && sent > h.room.Fixed[d] {
				k[d] = h.room.Fixed[d] / keepPart
			}
		}
	}
	return many
}

// severalBind reports whether two dimensions of the host are nearly as scarce: where tasks like the mean of
// those that wait fill it in one, they nearly fill it in another. Mixtures matter only then.
func (p *Planner) severalBind(h *host) bool {
	var first, second float64
	for d, v := range p.round.Unit.Fixed {
		if v <= 0 || h.room.Fixed[d] <= 0 {
			continue
		}
		if share := float64(v) / float64(h.room.Fixed[d]); share > first {
			first, second = share, first
		} else {
			second = max(second, share)
		}
	}
	return second >= keepNear*first
}

// leaves returns how many of n tasks may start on the host beside what it keeps; nil keeps nothing. Tasks
// that could not start in the room that is kept may have it.
func (k *keep) leaves(c *class, h *host, n int64) int64 {
	if k == nil || c.row.key.revocable {
		return n
	}
	for d, v := range c.row.key.fixed {
		if 0 < v && v <= k[d] {
			n = min(n, max(0, h.room.Fixed[d]-k[d])/v)
		}
	}
	return n
}
