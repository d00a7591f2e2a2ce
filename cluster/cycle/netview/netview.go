// Package netview writes the flow network of a cycle for people and for other programs.
//
//   - [DOT] and [Mermaid] are pictures: every node with its name, every arc with "flow/capacity @ price", thick where it
//     carries flow. The price of waiting names the tier instead of adding its step.
//   - [DIMACS] is the problem that was solved, as package dimacs reads it, with the names of nodes as comments.
//   - [JSON] is everything that is known: see [Document].
package netview

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/flowgraph/view"
)

// Format is a way to write a network.
type Format string

// The formats.
const (
	DOT     Format = "dot" // of Graphviz
	Mermaid Format = "mermaid"
	DIMACS  Format = "dimacs"
	JSON    Format = "json"
)

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("netview: no such format")

// Write writes the network.
func Write(w io.Writer, n *cycle.Network, f Format) error {
	switch f {
	case DOT:
		return view.WriteDOT(w, n.Graph, flowOf(n), words(n))
	case Mermaid:
		return view.WriteMermaid(w, n.Graph, flowOf(n), words(n))
	case DIMACS:
		return writeDIMACS(w, n)
	case JSON:
		if err := json.NewEncoder(w).Encode(document(n)); err != nil {
			return fmt.Errorf("netview: write: %w", err)
		}
		return nil
	}
	return fmt.Errorf("%w: %q", ErrFormat, f)
}

// flows gives the flow of a network to those who draw it.
type flows []cycle.Arc

// Flow implements view.Flow.
func (f flows) Flow(a flowgraph.ArcID) int64 { return f[a].Flow }

func flowOf(n *cycle.Network) view.Flow {
	if !n.Solved {
		return nil
	}
	return flows(n.Arcs)
}

func words(n *cycle.Network) view.Words {
	return view.Words{
		Node: func(v flowgraph.NodeID) string { return nodeWord(&n.Nodes[v]) },
		Cost: func(a flowgraph.ArcID) string {
			as, cost := &n.Arcs[a], n.Graph.Cost(flowgraph.ArcID(a))
			if as.Kind == cycle.WaitArc {
				return fmt.Sprintf("%d ms, %v", cost-as.Step, as.Tier)
			}
			return fmt.Sprintf("%d ms", cost)
		},
	}
}

func nodeWord(x *cycle.Node) string {
	switch x.Kind {
	case cycle.ClassNode:
		what := "like " + x.Name
		if x.Gang {
			what = "gang " + x.Name
		}
		return fmt.Sprintf("%s\n%v\npool %s, priority %d", what, x.Request, x.Pool, x.Priority)
	case cycle.PoolNode:
		return "waiting in " + x.Name
	case cycle.HostNode:
		return "host " + x.Name
	case cycle.SlotNode:
		return fmt.Sprintf("who runs on %s\n%v", x.Name, x.Request)
	default:
		return x.Name
	}
}

// writeDIMACS writes what every node stands for before the problem itself.
func writeDIMACS(w io.Writer, n *cycle.Network) error {
	out := bufio.NewWriter(w)
	for v := range n.Nodes {
		x := &n.Nodes[v]
		_, _ = fmt.Fprintf(out, "c %d %s %s\n", v+1, x.Kind, x.Name) // names are without blanks and line ends
	}
	if err := dimacs.Write(out, n.Graph); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("netview: write: %w", err)
	}
	return nil
}

// Document is the JSON form of a network. All amounts are units of flow: tasks. All prices are milliseconds of expected
// delay for one of them.
type Document struct {
	Solved    bool   `json:"solved"` // false: flows, potentials and objective are left out
	Objective int64  `json:"objective,omitempty"`
	Nodes     []Node `json:"nodes"`
	Arcs      []Arc  `json:"arcs"`
}

// Node is a node of a Document. Its id is its index.
type Node struct {
	Kind      cycle.NodeKind   `json:"kind"`
	Name      string           `json:"name"`
	Supply    int64            `json:"supply,omitempty"` // above 0: tasks to place
	Potential flowgraph.Cost   `json:"potential,omitempty"`
	Pool      cluster.PoolPath `json:"pool,omitempty"` // of a class, as all that follows
	Priority  int32            `json:"priority,omitempty"`
	Gang      bool             `json:"gang,omitempty"`
	Request   map[string]int64 `json:"request,omitempty"` // by dimension
}

// Arc is an arc of a Document.
type Arc struct {
	Kind     cycle.ArcKind    `json:"kind"`
	Tail     flowgraph.NodeID `json:"tail"`
	Head     flowgraph.NodeID `json:"head"`
	Capacity *int64           `json:"capacity,omitempty"` // absent: no bound
	Price    flowgraph.Cost   `json:"price"`              // without the step
	Tier     string           `json:"tier,omitempty"`     // of waiting
	Step     flowgraph.Cost   `json:"step,omitempty"`     // of the tier, on top of the price
	Flow     int64            `json:"flow,omitempty"`
}

func document(n *cycle.Network) *Document {
	d := &Document{Solved: n.Solved, Objective: n.Objective, Nodes: make([]Node, len(n.Nodes)), Arcs: make([]Arc, len(n.Arcs))}
	for v := range n.Nodes {
		x := &n.Nodes[v]
		d.Nodes[v] = Node{
			Kind: x.Kind, Name: x.Name, Supply: n.Graph.Supply(flowgraph.NodeID(v)), Potential: x.Potential,
			Pool: x.Pool, Priority: x.Priority, Gang: x.Gang, Request: amounts(x.Request),
		}
	}
	for a := range n.Arcs {
		x, of := &n.Arcs[a], n.Graph.Arc(flowgraph.ArcID(a))
		y := Arc{Kind: x.Kind, Tail: of.Tail, Head: of.Head, Price: of.Cost - x.Step, Step: x.Step, Flow: x.Flow}
		if of.Upper != flowgraph.Infinite {
			y.Capacity = &of.Upper
		}
		if x.Kind == cycle.WaitArc {
			y.Tier = x.Tier.String()
		}
		d.Arcs[a] = y
	}
	return d
}

func amounts(r cluster.Resources) map[string]int64 {
	all := map[string]int64{}
	for d, v := range r.Fixed {
		if v != 0 {
			all[cluster.Dimension(d).String()] = v
		}
	}
	for _, a := range r.Named {
		all[a.Name] = a.Value
	}
	return all
}
