package mesos

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// quantity is what an agent has or a run needs: amounts, which ports, and amounts of what may be taken back at any time.
// It is a value; methods return new ones.
type quantity struct {
	amount    cluster.Resources
	ports     []cluster.PortRange // sorted, without overlaps, not adjacent
	revocable cluster.Resources
}

// plus returns q and o together.
func (q quantity) plus(o quantity) quantity {
	return quantity{q.amount.Add(o.amount), joinPorts(q.ports, o.ports), q.revocable.Add(o.revocable)}
}

// minus returns q without o; nothing becomes negative.
func (q quantity) minus(o quantity) quantity {
	return quantity{q.amount.Sub(o.amount).Positive(), cutPorts(q.ports, o.ports), q.revocable.Sub(o.revocable).Positive()}
}

// covers reports whether o fits into q.
func (q quantity) covers(o quantity) bool {
	return o.amount.Fits(q.amount) && o.revocable.Fits(q.revocable) && len(cutPorts(o.ports, q.ports)) == 0
}

func (q quantity) isZero() bool {
	return q.amount.IsZero() && len(q.ports) == 0 && q.revocable.IsZero()
}

// joinPorts returns the union of ranges in any order.
func joinPorts(lists ...[]cluster.PortRange) []cluster.PortRange {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b cluster.PortRange) int { return int(a.First) - int(b.First) })
	var out []cluster.PortRange
	for _, r := range all {
		if n := len(out); n > 0 && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// cutPorts returns the ranges without those of cut. Both are sorted and without overlaps.
func cutPorts(ranges, cut []cluster.PortRange) []cluster.PortRange {
	var out []cluster.PortRange
	for _, r := range ranges {
		first, last := int(r.First), int(r.Last)
		for _, c := range cut {
			if int(c.Last) < first || int(c.First) > last {
				continue
			}
			if int(c.First) > first {
				out = append(out, cluster.PortRange{First: uint16(first), Last: c.First - 1})
			}
			first = int(c.Last) + 1
		}
		if first <= last {
			out = append(out, cluster.PortRange{First: uint16(first), Last: uint16(last)})
		}
	}
	return out
}

// portRanges returns the ranges that hold exactly these ports.
func portRanges(ports []uint16) []cluster.PortRange {
	single := make([]cluster.PortRange, len(ports))
	for i, p := range ports {
		single[i] = cluster.PortRange{First: p, Last: p}
	}
	return joinPorts(single)
}
