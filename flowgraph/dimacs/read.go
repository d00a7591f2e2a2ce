// Package dimacs reads and writes minimum-cost-flow problems in the DIMACS text
// format (First DIMACS Implementation Challenge, 1991):
//
//	c comment
//	p min NODES ARCS
//	n ID SUPPLY
//	a TAIL HEAD LOWER UPPER COST
//
// Ids run from 1; node id i becomes NodeID i−1 and the k-th arc line ArcID k−1.
// An upper bound of -1 means none, as some other programs read it, and so does the largest there is, 2⁶³−1.
//
// Reading is strict: whatever is missing, twice, out of range or too many is an
// error that names the line and the reason. Memory follows the size of the
// input, never the numbers that its p line announces.
package dimacs

import (
	"fmt"
	"io"
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

var (
	nodeFields = []string{"id", "supply"}
	arcFields  = []string{"tail", "head", "lower", "upper", "cost"}
)

// reader collects a problem before it is built, so that a p line cannot make it
// allocate.
type reader struct {
	*lines
	alone       bool // no changes follow
	seenP       bool
	nodes, arcs int64
	supplies    []supply
	list        []flowgraph.Arc
}

type supply struct {
	line   int
	node   flowgraph.NodeID
	amount int64
}

// Read reads one problem, plain or gzip. Errors wrap [ErrFormat] unless reading
// itself failed.
func Read(r io.Reader) (*flowgraph.Network, error) {
	l, err := newLines(r)
	if err != nil {
		return nil, err
	}
	in := reader{lines: l, alone: true}
	for l.next() {
		if err := in.line(); err != nil {
			return nil, err
		}
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	return in.build()
}

func (in *reader) line() error {
	kind := string(in.fields[0])
	switch {
	case in.fields[0][0] == 'c':
		return nil
	case kind == "p":
		return in.problem()
	case kind == "x" || kind == "r" || kind == "d":
		if in.alone {
			return in.fail("a change, %q: one problem alone is read here", kind)
		}
		return in.fail("a change, %q, in the problem: end the problem with \"c EOI\" first", kind)
	case kind != "n" && kind != "a":
		return in.fail("unknown line kind %q, want c, p, n or a", clip(kind))
	case !in.seenP:
		return in.fail("%q line before the p line", kind)
	case kind == "n":
		return in.node()
	}
	return in.arc()
}

func clip(s string) string {
	if len(s) > 20 {
		return s[:20] + "…"
	}
	return s
}

func (in *reader) problem() error {
	if in.seenP {
		return in.fail("second p line")
	}
	if err := in.want("min", "nodes", "arcs"); err != nil {
		return err
	}
	if string(in.fields[1]) != "min" {
		return in.fail("problem %q, want min", clip(string(in.fields[1])))
	}
	var err error
	if in.nodes, err = in.integer(2, "nodes"); err != nil {
		return err
	}
	if in.arcs, err = in.integer(3, "arcs"); err != nil {
		return err
	}
	if in.nodes < 0 || in.nodes >= math.MaxInt32 {
		return in.fail("%d nodes, want 0 to %d", in.nodes, math.MaxInt32-1)
	}
	if in.arcs < 0 || in.arcs >= math.MaxInt32 {
		return in.fail("%d arcs, want 0 to %d", in.arcs, math.MaxInt32-1)
	}
	in.seenP = true
	return nil
}

func (in *reader) node() error {
	var id, amount int64
	if err := in.integers(nodeFields, &id, &amount); err != nil {
		return err
	}
	v, err := in.nodeID("id", id)
	if err != nil {
		return err
	}
	if len(in.list) > 0 {
		return in.fail("n line after the first a line")
	}
	in.supplies = append(in.supplies, supply{in.number, v, amount})
	return nil
}

func (in *reader) nodeID(name string, id int64) (flowgraph.NodeID, error) {
	if id < 1 || id > in.nodes {
		return 0, in.fail("%s %d is not a node, want 1 to %d", name, id, in.nodes)
	}
	return flowgraph.NodeID(id - 1), nil
}

func (in *reader) arc() error {
	var tail, head, lower, upper, cost int64
	if err := in.integers(arcFields, &tail, &head, &lower, &upper, &cost); err != nil {
		return err
	}
	if int64(len(in.list)) == in.arcs {
		return in.fail("more arcs than the %d of the p line", in.arcs)
	}
	d := flowgraph.Arc{Bounds: flowgraph.Bounds{Lower: lower, Upper: upper}, Cost: flowgraph.Cost(cost)}
	var err error
	if d.Tail, err = in.nodeID("tail", tail); err != nil {
		return err
	}
	if d.Head, err = in.nodeID("head", head); err != nil {
		return err
	}
	if d.Upper, err = in.bounds(lower, upper); err != nil {
		return err
	}
	in.list = append(in.list, d)
	return nil
}

func (l *lines) bounds(lower, upper int64) (int64, error) {
	if upper == -1 {
		upper = flowgraph.Infinite
	}
	if lower < 0 {
		return 0, l.fail("lower %d is negative", lower)
	}
	if upper < 0 {
		return 0, l.fail("upper %d is negative: -1 stands for none", upper)
	}
	if lower > upper {
		return 0, l.fail("lower %d is above upper %d", lower, upper)
	}
	return upper, nil
}

// isolated limits how many nodes the p line may announce that nothing names.
const isolated = 1 << 16

func (in *reader) build() (*flowgraph.Network, error) {
	named := int64(len(in.supplies) + 2*len(in.list))
	switch {
	case !in.seenP && in.number == 0:
		return nil, fmt.Errorf("%w: the input is empty", ErrFormat)
	case !in.seenP:
		return nil, in.fail("the input ends without a p line: \"p min NODES ARCS\"")
	case int64(len(in.list)) < in.arcs:
		return nil, in.fail("the input ends after %d of %d arcs", len(in.list), in.arcs)
	case in.nodes > isolated+4*named:
		return nil, in.fail("the p line announces %d nodes, but all lines together name at most %d", in.nodes, named)
	}
	n := flowgraph.New()
	for range in.nodes {
		n.AddNode(0)
	}
	given := make([]bool, in.nodes)
	for _, s := range in.supplies {
		if given[s.node] {
			in.number = s.line
			return nil, in.fail("second supply for node %d", s.node+1)
		}
		given[s.node] = true
		n.SetSupply(s.node, s.amount)
	}
	for _, d := range in.list {
		n.AddArc(d.Tail, d.Head, d.Lower, d.Upper, d.Cost)
	}
	return n, nil
}
