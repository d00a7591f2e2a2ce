package dimacs

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Apply brings what Next has read into the network. Errors wrap [ErrFormat].
func (s *Stream) Apply() error {
	if s.net == nil {
		n, err := s.problem.build()
		if err != nil {
			return err
		}
		s.net, s.problem, s.named = n, reader{}, int64(n.NumNodes())
		for v := range n.NodeBound() {
			s.nodes = append(s.nodes, flowgraph.NodeID(v))
			s.ids = append(s.ids, int64(v+1))
			if n.Supply(flowgraph.NodeID(v)) < 0 {
				s.demand(flowgraph.NodeID(v), 1)
			}
		}
		return nil
	}
	last := s.lines.number
	for i := range s.batch {
		s.lines.number = s.batch[i].line
		if err := s.apply(&s.batch[i]); err != nil {
			return err
		}
	}
	s.lines.number = last
	return nil
}

func (s *Stream) apply(c *change) error {
	switch {
	case c.kind == 'd':
		if err := s.addNode(int64(len(s.nodes))+1, c.supply); err != nil {
			return err
		}
		s.added = s.nodes[len(s.nodes)-1]
		return nil
	case c.kind == 'n' && !s.lives(c.arc[0]):
		return s.addNode(c.arc[0], c.supply)
	}
	var ends [2]flowgraph.NodeID
	for i, name := range []string{"tail", "head"} {
		if i == 1 && (c.kind == 'n' || c.kind == 'r') {
			break
		}
		var err error
		if ends[i], err = s.node(c, name, c.arc[i]); err != nil {
			return err
		}
	}
	switch c.kind {
	case 'n':
		s.setSupply(ends[0], c.supply)
	case 'r':
		return s.removeNode(ends[0], c.arc[0])
	case 'a':
		s.net.AddArc(ends[0], ends[1], c.lower, c.upper, flowgraph.Cost(c.cost))
	case 'x':
		return s.changeArc(c, ends[0], ends[1])
	}
	return nil
}

func (s *Stream) node(c *change, name string, id int64) (flowgraph.NodeID, error) {
	if c.kind == 'n' || c.kind == 'r' {
		name = "id"
	}
	switch {
	case id == 0 && c.kind == 'a' && s.added != flowgraph.NoNode:
		return s.added, nil
	case id == 0 && c.kind == 'a':
		return 0, s.lines.fail("%s 0 stands for the node of a d line, and there is none before", name)
	case id < 1 || id > int64(len(s.nodes)):
		return 0, s.lines.fail("%s %d is not a node, want 1 to %d", name, id, len(s.nodes))
	case s.nodes[id-1] == flowgraph.NoNode:
		return 0, s.lines.fail("%s %d is a node that was removed", name, id)
	}
	return s.nodes[id-1], nil
}

// lives reports whether a node has the id now.
func (s *Stream) lives(id int64) bool {
	return id >= 1 && id <= int64(len(s.nodes)) && s.nodes[id-1] != flowgraph.NoNode
}

// addNode adds a node of an id that none has.
func (s *Stream) addNode(id, supply int64) error {
	if most := isolated + 4*s.named; id < 1 || id > most {
		return s.lines.fail("id %d of a new node, want 1 to %d", id, most)
	}
	if err := s.shiftDemand(supply, 1); err != nil {
		return err
	}
	for int64(len(s.nodes)) < id {
		s.nodes = append(s.nodes, flowgraph.NoNode)
	}
	v := s.net.AddNode(0)
	if int(v) == len(s.ids) {
		s.ids = append(s.ids, 0)
	}
	s.nodes[id-1], s.ids[v] = v, id
	s.named++
	s.setSupply(v, supply)
	return nil
}

func (s *Stream) removeNode(v flowgraph.NodeID, id int64) error {
	supply := s.net.Supply(v)
	s.setSupply(v, 0) // so that it is not the sink itself
	if supply > 0 || s.demands > 0 {
		if err := s.shiftDemand(supply, -1); err != nil {
			return err
		}
	}
	s.net.RemoveNode(v)
	s.nodes[id-1] = flowgraph.NoNode
	if s.added == v {
		s.added = flowgraph.NoNode
	}
	if s.sink == v {
		s.sink = flowgraph.NoNode
	}
	return nil
}

// shiftDemand raises or lowers the demand of the sink by a supply.
func (s *Stream) shiftDemand(supply, sign int64) error {
	if supply == 0 {
		return nil
	}
	var sink flowgraph.NodeID
	switch {
	case s.demands == 1:
		sink = flowgraph.NodeID(s.demandSum)
	case s.demands == 0 && sign*supply > 0 && s.sink != flowgraph.NoNode && s.net.Supply(s.sink) == 0:
		sink = s.sink
	default:
		return s.lines.fail("supply %d changes the demand of a single sink, and %d nodes demand: give the node supply 0 and set supplies by n lines", supply, s.demands)
	}
	demand := s.net.Supply(sink)
	next := demand - sign*supply
	if sign*supply > 0 != (next < demand) {
		return s.lines.fail("the demand of node %d would not fit in 64 bits", s.ids[sink])
	}
	s.setSupply(sink, next)
	return nil
}

// setSupply keeps account of the nodes that demand, and the last that did.
func (s *Stream) setSupply(v flowgraph.NodeID, supply int64) {
	if s.net.Supply(v) < 0 {
		s.sink = v
		s.demand(v, -1)
	}
	if supply < 0 {
		s.demand(v, 1)
	}
	s.net.SetSupply(v, supply)
}

// demand counts a node among those that demand, or no longer.
func (s *Stream) demand(v flowgraph.NodeID, times int64) {
	s.demands += times
	s.demandSum += times * int64(v)
}

func (s *Stream) changeArc(c *change, tail, head flowgraph.NodeID) error {
	n := s.net
	all := s.between(tail, head)
	found := all
	if c.hasOld {
		found = slices.DeleteFunc(slices.Clone(all), func(a flowgraph.ArcID) bool { return n.Cost(a) != flowgraph.Cost(c.old) })
	}
	remove := c.lower == 0 && c.upper == 0
	switch {
	case len(found) == 0 && len(all) > 0:
		// One more would stand beside the one that was meant.
		return s.lines.fail("no arc %d→%d has the old cost %d: there is one of cost %d, and an a line adds another",
			c.arc[0], c.arc[1], c.old, n.Cost(all[0]))
	case len(found) == 0 && remove:
		// It was removed by bounds 0 0 before, and its scheduler has a new price for it, or forgets it only now.
	case len(found) == 0:
		n.AddArc(tail, head, c.lower, c.upper, flowgraph.Cost(c.cost))
	case len(found) > 1 && !c.hasOld:
		return s.lines.fail("%d arcs %d→%d: give a type and the old cost", len(found), c.arc[0], c.arc[1])
	case slices.ContainsFunc(found, func(a flowgraph.ArcID) bool { return n.Arc(a).Bounds != n.Arc(found[0]).Bounds }):
		// As when prices of a bundle rise one after the other, the lowest first, each to that of the next.
		return s.lines.fail("%d arcs %d→%d have the old cost %d and unlike bounds: change the one that had it before the other comes to it",
			len(found), c.arc[0], c.arc[1], c.old)
	case remove:
		n.RemoveArc(found[0])
	default:
		n.SetBounds(found[0], c.lower, c.upper)
		n.SetCost(found[0], flowgraph.Cost(c.cost))
	}
	return nil
}

// between returns the arcs from tail to head in order of id. O(the smaller
// degree).
func (s *Stream) between(tail, head flowgraph.NodeID) []flowgraph.ArcID {
	list, other := s.net.Out(tail), head
	if in := s.net.In(head); len(in) < len(list) {
		list, other = in, tail
	}
	var found []flowgraph.ArcID
	for _, ref := range list {
		if ref.Node == other {
			found = append(found, ref.Arc)
		}
	}
	slices.Sort(found)
	return found
}

// WriteFlow writes a solution: an s line with its cost, an f line "f TAIL HEAD AMOUNT"
// for every arc, as the format has it, or only for those with flow, as schedulers that
// send changes expect, with the ids of the stream, and a line "c EOI".
func (s *Stream) WriteFlow(w io.Writer, cost int64, flow Flow, every bool) error {
	out := bufio.NewWriterSize(w, 1<<16)
	buf := line(make([]byte, 0, 128), 's', cost)
	_, _ = out.Write(buf)
	for a := range s.net.ArcBound() {
		id := flowgraph.ArcID(a)
		if d := s.net.Arc(id); d.Tail >= 0 && (every || flow.Flow(id) != 0) {
			buf = line(buf, 'f', s.ids[d.Tail], s.ids[d.Head], flow.Flow(id))
			_, _ = out.Write(buf)
		}
	}
	_, _ = out.WriteString(EndOfBatch)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("dimacs: write flow: %w", err)
	}
	return nil
}

// EndOfBatch is the line that ends a batch, and an answer to one.
const EndOfBatch = "c EOI\n"
