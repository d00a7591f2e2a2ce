package view_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/view"
)

func triangle() *flowgraph.Network {
	n := flowgraph.New()
	for _, s := range []int64{2, 0, -2} {
		n.AddNode(s)
	}
	n.AddArc(0, 1, 0, 1, 4)
	n.AddArc(0, 1, 0, 1, 6)
	n.AddArc(1, 2, 1, flowgraph.Infinite, -1)
	return n
}

func TestGraph(t *testing.T) {
	n := triangle()
	g := view.Graph{Network: n}
	require.Equal(t, 3, g.Nodes().Len())
	require.True(t, g.HasEdgeFromTo(0, 1))
	require.False(t, g.HasEdgeFromTo(1, 0))
	require.True(t, g.HasEdgeBetween(1, 0))
	require.Equal(t, 1, g.From(0).Len(), "parallel arcs reach one neighbour")
	require.Equal(t, 1, g.To(2).Len())
	require.Nil(t, g.Node(9))
	require.Equal(t, 0, g.From(9).Len())
	require.Equal(t, 2, g.Lines(0, 1).Len())
	var weights []float64
	for _, l := range graph.WeightedLinesOf(g.WeightedLines(0, 1)) {
		weights = append(weights, l.Weight())
	}
	require.Equal(t, []float64{4, 6}, weights)

	weight, ok := g.Weight(0, 1)
	require.True(t, ok)
	require.Equal(t, 4.0, weight)
	require.Nil(t, g.Edge(2, 0))
	require.True(t, topo.PathExistsIn(g, g.Node(0), g.Node(2)))
	n.RemoveNode(1)
	require.False(t, topo.PathExistsIn(g, g.Node(0), g.Node(2)), "the view is live")
}

type one struct{}

func (one) Flow(a flowgraph.ArcID) int64 { return int64(a % 2) }

func TestWriteDOTWithFlow(t *testing.T) {
	var out strings.Builder
	name := func(v flowgraph.NodeID) string { return "host \"a\"" }
	require.NoError(t, view.WriteDOT(&out, triangle(), one{}, view.Words{Node: name}))
	require.Contains(t, out.String(), `0 -> 1 [label="1/1 @ 6", penwidth=2];`)
	require.Contains(t, out.String(), `0 [label="host \"a\"\n+2"];`)
}

func ExampleWriteDOT() {
	_ = view.WriteDOT(os.Stdout, triangle(), nil, view.Words{})
	// Output:
	// digraph network {
	//   rankdir=LR;
	//   0 [label="0\n+2"];
	//   1 [label="1"];
	//   2 [label="2\n-2"];
	//   0 -> 1 [label="1 @ 4"];
	//   0 -> 1 [label="1 @ 6"];
	//   1 -> 2 [label="1..∞ @ -1"];
	// }
}

func TestWriteMermaid(t *testing.T) {
	var out strings.Builder
	words := view.Words{
		Node: func(v flowgraph.NodeID) string { return fmt.Sprintf("host \"%d\" <a>", v) },
		Cost: func(a flowgraph.ArcID) string { return fmt.Sprintf("%d ms", a) },
	}
	require.NoError(t, view.WriteMermaid(&out, triangle(), one{}, words))
	require.Equal(t, `flowchart LR
  n0["host #quot;0#quot; #lt;a#gt;<br/>+2"]
  n1["host #quot;1#quot; #lt;a#gt;"]
  n2["host #quot;2#quot; #lt;a#gt;<br/>-2"]
  n0 -->|"0/1 @ 0 ms"| n1
  n0 ==>|"1/1 @ 1 ms"| n1
  n1 -->|"0/1..∞ @ 2 ms"| n2
`, out.String())
}
