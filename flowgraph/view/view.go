// Package view shows a network to programs written for gonum graphs, and as a
// picture.
package view

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/multi"
	"gonum.org/v1/gonum/graph/simple"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Graph presents a network as a weighted directed multigraph without copying
// it: node and line ids are NodeID and ArcID, weights are costs. To algorithms on
// simple graphs the cheapest of parallel arcs is the edge. It shows the network
// as it is when asked.
type Graph struct{ Network *flowgraph.Network }

var (
	_ graph.WeightedDirectedMultigraph = Graph{}
	_ graph.WeightedDirected           = Graph{}
)

// Node returns the node of that id, or nil.
func (g Graph) Node(id int64) graph.Node {
	if v := flowgraph.NodeID(id); int64(v) == id && g.Network.NodeAlive(v) {
		return multi.Node(id)
	}
	return nil
}

// Nodes returns all live nodes in order of id. O(nodes).
func (g Graph) Nodes() graph.Nodes {
	var list []graph.Node
	for v := range g.Network.NodeBound() {
		if g.Network.NodeAlive(flowgraph.NodeID(v)) {
			list = append(list, multi.Node(v))
		}
	}
	return iterator.NewOrderedNodes(list)
}

// From returns the nodes that arcs out of id enter, each once. O(degree).
func (g Graph) From(id int64) graph.Nodes {
	return g.neighbours(id, g.Network.Out)
}

// To returns the nodes that arcs into id leave, each once. O(degree).
func (g Graph) To(id int64) graph.Nodes {
	return g.neighbours(id, g.Network.In)
}

func (g Graph) neighbours(id int64, arcs func(flowgraph.NodeID) []flowgraph.Ref) graph.Nodes {
	if g.Node(id) == nil {
		return graph.Empty
	}
	seen := map[flowgraph.NodeID]bool{}
	var list []graph.Node
	for _, r := range arcs(flowgraph.NodeID(id)) {
		if !seen[r.Node] {
			seen[r.Node] = true
			list = append(list, multi.Node(r.Node))
		}
	}
	return iterator.NewOrderedNodes(list)
}

// HasEdgeBetween tells whether an arc joins x and y in either direction.
func (g Graph) HasEdgeBetween(x, y int64) bool {
	return g.HasEdgeFromTo(x, y) || g.HasEdgeFromTo(y, x)
}

// HasEdgeFromTo tells whether an arc leads from u to v.
func (g Graph) HasEdgeFromTo(u, v int64) bool { return len(g.between(u, v)) > 0 }

// Lines returns the arcs from u to v.
func (g Graph) Lines(u, v int64) graph.Lines {
	var list []graph.Line
	for _, l := range g.between(u, v) {
		list = append(list, l)
	}
	return iterator.NewOrderedLines(list)
}

// WeightedLines returns the arcs from u to v with their costs.
func (g Graph) WeightedLines(u, v int64) graph.WeightedLines {
	return iterator.NewOrderedWeightedLines(g.between(u, v))
}

// Edge returns the cheapest arc from u to v, or nil.
func (g Graph) Edge(u, v int64) graph.Edge {
	if e := g.WeightedEdge(u, v); e != nil {
		return e
	}
	return nil
}

// WeightedEdge returns the cheapest arc from u to v, or nil.
func (g Graph) WeightedEdge(u, v int64) graph.WeightedEdge {
	lines := g.between(u, v)
	if len(lines) == 0 {
		return nil
	}
	best := slices.MinFunc(lines, func(a, b graph.WeightedLine) int { return cmp.Compare(a.Weight(), b.Weight()) })
	return simple.WeightedEdge{F: best.From(), T: best.To(), W: best.Weight()}
}

// Weight returns the cost of the cheapest arc from u to v and whether there is
// one; zero for a node and itself.
func (g Graph) Weight(u, v int64) (float64, bool) {
	if e := g.WeightedEdge(u, v); e != nil {
		return e.Weight(), true
	}
	if u == v {
		return 0, g.Node(u) != nil
	}
	return math.Inf(1), false
}

func (g Graph) between(u, v int64) []graph.WeightedLine {
	if g.Node(u) == nil || g.Node(v) == nil {
		return nil
	}
	var list []graph.WeightedLine
	for _, r := range g.Network.Out(flowgraph.NodeID(u)) {
		if int64(r.Node) == v {
			list = append(list, multi.WeightedLine{F: multi.Node(u), T: multi.Node(v), W: float64(r.Cost), UID: int64(r.Arc)})
		}
	}
	return list
}

// Flow is what [WriteDOT] reads.
type Flow interface{ Flow(a flowgraph.ArcID) int64 }

// Words label a picture. A nil function leaves numbers as they are.
type Words struct {
	Node func(flowgraph.NodeID) string // what a node stands for
	Cost func(flowgraph.ArcID) string  // what a unit on the arc costs
}

// WriteDOT writes the network in Graphviz's language: nodes with their supply,
// arcs with "flow/upper @ cost". flow may be nil.
func WriteDOT(w io.Writer, n *flowgraph.Network, flow Flow, words Words) error {
	out := bufio.NewWriter(w)
	_, _ = fmt.Fprintln(out, "digraph network {\n  rankdir=LR;")
	for v := range n.NodeBound() {
		id := flowgraph.NodeID(v)
		if !n.NodeAlive(id) {
			continue
		}
		_, _ = fmt.Fprintf(out, "  %d [label=%q];\n", v, words.node(n, id))
	}
	for i := range n.ArcBound() {
		if a := flowgraph.ArcID(i); n.ArcAlive(a) {
			style := ""
			if flow != nil && flow.Flow(a) > 0 {
				style = ", penwidth=2"
			}
			d := n.Arc(a)
			_, _ = fmt.Fprintf(out, "  %d -> %d [label=%q%s];\n", d.Tail, d.Head, words.arc(n, a, flow), style)
		}
	}
	_, _ = fmt.Fprintln(out, "}")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("view: write: %w", err)
	}
	return nil
}

// WriteMermaid writes the same picture in the language of Mermaid's flowcharts.
func WriteMermaid(w io.Writer, n *flowgraph.Network, flow Flow, words Words) error {
	out := bufio.NewWriter(w)
	quote := strings.NewReplacer("&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", "<br/>")
	_, _ = fmt.Fprintln(out, "flowchart LR")
	for v := range n.NodeBound() {
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			_, _ = fmt.Fprintf(out, "  n%d[\"%s\"]\n", v, quote.Replace(words.node(n, id)))
		}
	}
	for i := range n.ArcBound() {
		if a := flowgraph.ArcID(i); n.ArcAlive(a) {
			line := "-->"
			if flow != nil && flow.Flow(a) > 0 {
				line = "==>"
			}
			d := n.Arc(a)
			_, _ = fmt.Fprintf(out, "  n%d %s|\"%s\"| n%d\n", d.Tail, line, quote.Replace(words.arc(n, a, flow)), d.Head)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("view: write: %w", err)
	}
	return nil
}

func (words Words) node(n *flowgraph.Network, v flowgraph.NodeID) string {
	label := fmt.Sprint(v)
	if words.Node != nil {
		label = words.Node(v)
	}
	if s := n.Supply(v); s != 0 {
		label = fmt.Sprintf("%s\n%+d", label, s)
	}
	return label
}

func (words Words) arc(n *flowgraph.Network, a flowgraph.ArcID, flow Flow) string {
	d := n.Arc(a)
	bound, cost := fmt.Sprint(d.Upper), fmt.Sprint(d.Cost)
	if d.Upper == flowgraph.Infinite {
		bound = "∞"
	}
	if d.Lower > 0 {
		bound = fmt.Sprintf("%d..%s", d.Lower, bound)
	}
	if flow != nil {
		bound = fmt.Sprintf("%d/%s", flow.Flow(a), bound)
	}
	if words.Cost != nil {
		cost = words.Cost(a)
	}
	return bound + " @ " + cost
}
