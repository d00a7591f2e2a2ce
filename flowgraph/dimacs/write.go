package dimacs

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Write writes n, its live nodes renumbered from 1 in order of id and its live
// arcs in order of id. For a network without removals, [Read] gives back the
// same ids.
//
// Many programs know no arc without an upper bound. One is written where it
// changes neither whether there is an optimum nor its cost: as much as any arc
// needs. It holds for n alone, until a change brings more supply.
func Write(w io.Writer, n *flowgraph.Network) error {
	out := bufio.NewWriterSize(w, 1<<16)
	number, unbounded := Numbers(n), bound(n)
	_, _ = fmt.Fprintf(out, "p min %d %d\n", n.NumNodes(), n.NumArcs())
	buf := make([]byte, 0, 128)
	for v, id := range number {
		if id > 0 && n.Supply(flowgraph.NodeID(v)) != 0 {
			buf = line(buf, 'n', int64(id), n.Supply(flowgraph.NodeID(v)))
			_, _ = out.Write(buf)
		}
	}
	for a := range n.ArcBound() {
		if d := n.Arc(flowgraph.ArcID(a)); d.Tail >= 0 {
			if d.Upper == flowgraph.Infinite {
				d.Upper = unbounded
			}
			buf = line(buf, 'a', int64(number[d.Tail]), int64(number[d.Head]), d.Lower, d.Upper, int64(d.Cost))
			_, _ = out.Write(buf)
		}
	}
	// A bufio.Writer keeps its first error.
	if err := out.Flush(); err != nil {
		return fmt.Errorf("dimacs: write: %w", err)
	}
	return nil
}

// bound returns the upper bound to write where n has none, or -1: where an arc
// of negative cost has none, a cycle may pay without end; and bounds that are too
// large together would not be read as an exact problem.
func bound(n *flowgraph.Network) int64 {
	for a := 0; a < n.ArcBound() && n.NegativeArcs() > 0; a++ {
		if d := n.Arc(flowgraph.ArcID(a)); d.Tail >= 0 && d.Upper == flowgraph.Infinite && d.Cost < 0 {
			return -1
		}
	}
	volume, fits := n.Volume()
	if !fits || volume >= 1<<60/int64(n.NumArcs()+1) {
		return -1
	}
	return volume
}

// Numbers returns the id that [Write] gives each node, indexed by NodeID; zero
// where none lives.
func Numbers(n *flowgraph.Network) []int32 {
	number := make([]int32, n.NodeBound())
	next := int32(1)
	for v := range number {
		if n.NodeAlive(flowgraph.NodeID(v)) {
			number[v] = next
			next++
		}
	}
	return number
}

// Flow is what [Stream.WriteFlow] reads.
type Flow interface{ Flow(a flowgraph.ArcID) int64 }

func line(buf []byte, kind byte, fields ...int64) []byte {
	buf = append(buf[:0], kind)
	for _, f := range fields {
		buf = strconv.AppendInt(append(buf, ' '), f, 10)
	}
	return append(buf, '\n')
}
