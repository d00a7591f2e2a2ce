package costscaling

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// takeIn brings the copy up to date, keeping flow that bounds still allow. It
// returns how many nodes and arcs it compared. Where nodes or arcs came or went
// the residual lists are laid out anew.
func (s *refiner[N]) takeIn() int64 {
	n := s.net
	touched, next, complete := n.Changes(s.seq)
	cold := s.seq == 0
	s.seq = next
	volume, _ := n.Volume()
	if cold || !complete || volume >= s.limit || n.NumNodes() >= 1<<s.scale || !s.sameArcs(touched) {
		s.layOut(cold, volume)
		return int64(n.NumNodes() + n.NumArcs())
	}
	for _, c := range touched {
		if v, ok := c.Node(); ok {
			supply := n.Supply(v)
			s.excess[v] += supply - s.supply[v]
			s.supply[v] = supply
		}
		if a, ok := c.Arc(); ok && s.arcs[a].place != none {
			s.patch(a)
		}
	}
	return int64(len(touched))
}

// sameArcs tells whether what was touched is there as it was.
func (s *refiner[N]) sameArcs(touched []flowgraph.Change) bool {
	if s.net.ArcBound() > len(s.arcs) || s.net.NodeBound() > len(s.supply) {
		return false
	}
	for _, c := range touched {
		if v, ok := c.Node(); ok && !s.net.NodeAlive(v) {
			return false
		}
		if a, ok := c.Arc(); ok {
			d, e := s.net.Arc(a), &s.arcs[a]
			if d.Tail < 0 && e.place == none {
				continue
			}
			if int32(d.Tail) != e.tail || int32(d.Head) != e.head {
				return false
			}
		}
	}
	return true
}

// patch takes in the bounds and cost of an arc that was there before.
func (s *refiner[N]) patch(a flowgraph.ArcID) {
	d, e := s.net.Arc(a), &s.arcs[a]
	r := &s.residuals[e.place]
	back := &s.residuals[s.back[e.place]]
	flow := e.lower + int64(r.total-r.room)
	e.lower = d.Lower
	kept := s.place(r, d, flow)
	s.excess[e.tail] += flow - kept
	s.excess[e.head] -= flow - kept
	back.cost, back.total, back.room = -r.cost, r.total, r.total-r.room
	s.doubt(int32(a))
}

// doubt makes the flow that the caller knows of a be listed: the arc may have
// been removed and added alike.
func (s *refiner[N]) doubt(a int32) {
	if s.old[a] > 0 {
		s.old[a] = -1
	}
}

// place sets the forward direction of d to carry about the given flow and returns
// what it is.
func (s *refiner[N]) place(r *residual[N], d flowgraph.Arc, flow int64) int64 {
	total := min(d.Upper-d.Lower, s.limit)
	kept := min(max(flow-d.Lower, 0), total)
	r.cost, r.total, r.room = N(d.Cost), N(total), N(total-kept)
	if int64(r.total) != total || int64(r.cost) != int64(d.Cost) || int64(-r.cost) != -int64(d.Cost) {
		s.exceeded = true
	}
	return d.Lower + kept
}

// layOut builds the residual lists of the whole network.
func (s *refiner[N]) layOut(cold bool, volume int64) {
	n := s.net
	s.measure(cold, volume)
	s.keepFlow(cold)
	nodes := n.NodeBound()
	// Count, sum, fill: the residuals of a node lie side by side.
	clear(s.first)
	for a := range s.arcs {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			s.arcs[a] = ends{tail: none, head: none, place: none}
			continue
		}
		s.first[d.Tail+1]++
		s.first[d.Head+1]++
	}
	most := int32(0)
	for v := range nodes {
		most = max(most, s.first[v+1])
		s.first[v+1] += s.first[v]
		s.next[v] = s.first[v]
		s.supply[v], s.excess[v] = 0, 0
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			s.supply[v] = n.Supply(id)
			s.excess[v] = s.supply[v]
		}
	}
	s.residuals = grow(s.residuals, int(s.first[nodes]))[:s.first[nodes]]
	s.found = grow(s.found, int(most))
	s.back = grow(s.back, int(s.first[nodes]))[:s.first[nodes]]
	for a := range s.arcs {
		d := n.Arc(flowgraph.ArcID(a))
		if d.Tail < 0 {
			continue
		}
		i, j := s.next[d.Tail], s.next[d.Head]
		if d.Tail == d.Head {
			j++
		}
		s.next[d.Tail]++
		s.next[d.Head]++
		r := &s.residuals[i]
		flow := s.place(r, d, s.flow[a])
		r.head = int32(d.Head)
		s.back[i], s.back[j] = j, i
		s.residuals[j] = residual[N]{cost: -r.cost, room: r.total - r.room, total: r.total, head: int32(d.Tail)}
		s.arcs[a] = ends{tail: int32(d.Tail), head: int32(d.Head), place: i, lower: d.Lower}
		s.excess[d.Tail] -= flow
		s.excess[d.Head] += flow
	}
}

// measure chooses scale, limit and, when cold, the first ε.
func (s *refiner[N]) measure(cold bool, volume int64) {
	n := s.net
	was := s.scale
	if cold || n.NumNodes() >= 1<<s.scale {
		s.scale = uint(bits.Len(uint(n.NumNodes() + 1)))
		s.unit = 1 << s.scale
	}
	if cold || volume >= s.limit {
		s.limit = 1 << bits.Len64(uint64(volume)+1)
	}
	nodes, arcs := n.NodeBound(), n.ArcBound()
	s.first = grow(s.first, nodes+1)
	s.next = grow(s.next, nodes)
	s.pi = grow(s.pi, nodes)
	s.excess = grow(s.excess, nodes)
	s.supply = grow(s.supply, nodes)
	for a := len(s.arcs); a < arcs; a++ {
		s.arcs = append(s.arcs, ends{tail: none, head: none, place: none})
	}
	s.old = grow(s.old, arcs)
	s.flow = grow(s.flow, arcs)
	s.queue.grow(nodes)
	s.rank = grow(s.rank, nodes)
	s.order.grow(nodes)
	if cold {
		s.epsilon = uint(max(n.CostBits()+int(s.scale)-firstBits, 0))
		s.failed = false
		clear(s.pi)
		return
	}
	for v := range s.pi {
		s.pi[v] <<= s.scale - was
	}
}

// keepFlow saves the flow of arcs that are still there.
func (s *refiner[N]) keepFlow(cold bool) {
	for a := range s.arcs {
		e := &s.arcs[a]
		d := s.net.Arc(flowgraph.ArcID(a))
		same := e.place != none && int32(d.Tail) == e.tail && int32(d.Head) == e.head
		s.flow[a] = 0
		if same && !cold {
			r := &s.residuals[e.place]
			s.flow[a] = e.lower + int64(r.total-r.room)
		}
		if s.doubt(int32(a)); d.Tail < 0 {
			s.old[a] = 0
		}
	}
}

// amountsFit tells whether sums of flow at a node stay in 64 bits while every arc
// may be full. O(arcs) at most.
func (s *refiner[N]) amountsFit() bool {
	if bits.Len64(uint64(s.limit))+bits.Len(uint(s.net.NumArcs())) <= 62 {
		return true
	}
	sum := s.limit
	if sum <= 0 { // it is 2⁶³
		return false
	}
	for i := range s.residuals {
		if sum += int64(s.residuals[i].total); sum >= 1<<62 {
			return false
		}
	}
	return true
}
