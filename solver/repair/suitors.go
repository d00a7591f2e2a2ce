package repair

import (
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver/radixheap"
)

// suitor is a source that could move to a node over an arc of the given cost.
type suitor struct {
	cost int64
	arc  int32
	from int32
}

// suitors lists the sources that would come to a node first. Their bid is the cost of their arc less what
// they pay elsewhere. Listed are all whose bid was below cut when the list was made, and those that left the
// node since. While searches go backward nobody pays more than before. So bids only rise, and the list stays
// good. It is made anew when it has no place for one that leaves.
type suitors struct {
	off, size int32
	spare     int32 // places left
	stamp     uint32
	cut       int64
	wide      bool // it was made for the second time
}

// courts keeps the suitors of nodes that searches backward have passed. At full clusters they pass the same
// nodes many times, where a tenth of the arcs in matters.
type courts struct {
	of    []suitors // indexed by NodeID
	list  []suitor
	near  []int32 // scratch of invite and loosen
	stamp uint32
	// width is how far beyond the price of a node its list reaches. It is about the reduced length of the
	// longer of recent paths, as few nodes are passed right at the start.
	width int64
}

// spareSuitors is how many places the list of a node has for those that leave it.
const spareSuitors = 4

// left lists the source, who had flow on arc a into v until now.
func (c *courts) left(v, a, source int32, cost int64) {
	l := &c.of[v]
	if l.stamp != c.stamp {
		return
	}
	if l.spare == 0 {
		l.stamp = 0
		return
	}
	c.list[l.off+l.size] = suitor{cost, a, source}
	l.size++
	l.spare--
}

// forget drops all lists, as prices may have risen.
func (c *courts) forget() {
	c.stamp++
	if c.stamp == 0 {
		clear(c.of)
		c.stamp = 1
	}
	c.list = c.list[:0]
}

// trim drops all lists when they are half as long as the network: in a long phase most of
// them are of nodes that have newer ones.
func (c *courts) trim(arcs int) {
	if 2*len(c.list) > arcs {
		c.forget()
	}
}

// walked takes in the reduced length of a path.
func (c *courts) walked(length int64) {
	c.width = max(c.width-c.width/32, length-length/4)
}

// expandSuitors steps back from v to the sources that could move there. Those that
// are not on the list wait in the queue until the search has come as far as the best
// of them could be.
func (s *Solver) expandSuitors(t *target, v int32, key int64) {
	c := &s.courts
	label := s.nodes[v].label
	l := &c.of[v]
	if l.stamp != c.stamp {
		l.stamp, l.cut, l.wide = c.stamp, c.width-s.price[v], false
		if t.found {
			l.cut = max(l.cut, min(t.cost-label, l.cut+c.width))
		}
		s.invite(v)
	}
	list := c.list[l.off : l.off+l.size]
	s.work.Units += int64(len(list))
	for i := range list {
		if x := &list[i]; label+x.cost-s.price[x.from] < t.cost && s.hasRoom(x.arc) {
			s.court(t, v, x.arc, x.from, label+x.cost, key)
		}
	}
	if rest := label + l.cut; l.cut < far && rest < t.cost {
		s.queue.Push(radixheap.Item{Key: max(rest, key), Node: ^v})
	}
}

// invite lists the suitors of v.
func (s *Solver) invite(v int32) {
	c := &s.courts
	l := &c.of[v]
	in := s.net.In(flowgraph.NodeID(v))
	s.work.Units += int64(len(in))
	// Whose price is near cannot be foreseen, nor which arcs have room. There is no branch for
	// that, so that the prices, which lie anywhere in memory, are read side by side.
	c.near = extend(c.near, len(in))
	near, k, price, cut := c.near[:len(in)], 0, s.price, l.cut
	for i := range in {
		r := &in[i]
		near[k] = int32(i)
		if int64(r.Cost)-price[r.Node] < cut {
			k++
		}
	}
	low := len(c.list)
	l.off = int32(low)
	c.list = slices.Grow(c.list, k+spareSuitors)[:low+k+spareSuitors]
	list, full := c.list, s.full
	for _, i := range near[:k] {
		r := &in[i]
		list[low] = suitor{int64(r.Cost), int32(r.Arc), int32(r.Node)}
		low += int(^full[uint32(r.Arc)>>6] >> (uint32(r.Arc) & 63) & 1)
	}
	l.size, l.spare = int32(low)-l.off, spareSuitors
	c.list = c.list[:low+spareSuitors]
}

// expandRest steps back from v once more, with a list that from then on reaches
// four times as far, the second time to all.
func (s *Solver) expandRest(t *target, v int32, key int64) {
	c := &s.courts
	if l := &c.of[v]; l.stamp == c.stamp {
		if next := 4*c.width - s.price[v]; next > l.cut && !l.wide {
			l.cut, l.wide = next, true
		} else {
			l.cut = far
		}
		s.invite(v)
	}
	s.expandSuitors(t, v, key)
}

// court steps back over source u, which could move to v over arc a, a path of the
// given cost from u.
func (s *Solver) court(t *target, v, a, u int32, cost, key int64) {
	switch p := &s.payers[u]; {
	case p.count == 0 || p.arc == a && p.count == 1:
	case p.count == 1:
		s.price[u] = p.cost + s.price[p.head]
		if cost-s.price[u] < t.cost {
			s.reachBack(t, p.head, v, cost-p.cost, p.arc, a)
		}
	case p.improves(s.search, cost):
		p.seen, p.label, p.via = s.search, cost, a
		s.queue.Push(radixheap.Item{Key: max(cost-s.price[u], key), Node: u})
	}
}
