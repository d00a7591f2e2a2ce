package difftest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Verb is what one step of a script does. Its name is that of the printed form.
type Verb string

// The verbs. Nodes and arcs go by labels, which say nothing of their ids, so that
// a script with steps left out is still one: a step about what is not there does
// nothing.
const (
	AddNode    Verb = "node"        // label
	AddArc     Verb = "arc"         // label, tail, head, lower, upper, cost
	RemoveNode Verb = "remove-node" // label
	RemoveArc  Verb = "remove-arc"  // label
	SetSupply  Verb = "supply"      // label, value; the first node takes the difference
	Tilt       Verb = "tilt"        // label, amount added to its supply, unbalanced
	SetCost    Verb = "cost"        // label, value
	SetBounds  Verb = "bounds"      // label, lower, upper
	Copy       Verb = "copy"        // go on with another network that is the same
	Step       Verb = "step"        // work: solve with that budget only
	Solve      Verb = "solve"
)

// arity is how many numbers follow a verb.
var arity = map[Verb]int{
	AddNode: 1, AddArc: 6, RemoveNode: 1, RemoveArc: 1, SetSupply: 2, Tilt: 2, SetCost: 2, SetBounds: 3, Copy: 0, Step: 1, Solve: 0,
}

// Op is one step: a verb and its numbers, the rest being zero.
type Op struct {
	Verb Verb
	Args [6]int64
}

// Script is a sequence of steps. Two players of one script do the same.
type Script []Op

// ErrScript is wrapped by errors of [Read].
var ErrScript = errors.New("difftest: not a script")

// WriteTo prints one step a line; an upper bound of "inf" is none.
func (s Script) WriteTo(w io.Writer) (int64, error) {
	total := int64(0)
	for _, op := range s {
		k, err := fmt.Fprintln(w, op)
		total += int64(k)
		if err != nil {
			return total, fmt.Errorf("difftest: writing a script: %w", err)
		}
	}
	return total, nil
}

// String prints the step.
func (o Op) String() string {
	var b strings.Builder
	b.WriteString(string(o.Verb))
	for _, x := range o.Args[:arity[o.Verb]] {
		b.WriteByte(' ')
		if x == flowgraph.Infinite {
			b.WriteString("inf")
		} else {
			b.WriteString(strconv.FormatInt(x, 10))
		}
	}
	return b.String()
}

// Read reads what [Script.WriteTo] prints; lines that are empty or begin with #
// are left out. The error names the line.
func Read(r io.Reader) (Script, error) {
	var s Script
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		op, err := parse(f)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrScript, number, err)
		}
		s = append(s, op)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScript, err)
	}
	return s, nil
}

func parse(f []string) (Op, error) {
	op := Op{Verb: Verb(f[0])}
	want, known := arity[op.Verb]
	if !known {
		return op, fmt.Errorf("%q is not a verb", f[0])
	}
	if len(f)-1 != want {
		return op, fmt.Errorf("%s takes %d numbers, not %d", op.Verb, want, len(f)-1)
	}
	for i, text := range f[1:] {
		if text == "inf" {
			op.Args[i] = flowgraph.Infinite
			continue
		}
		x, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return op, fmt.Errorf("%q is not a whole number", text)
		}
		op.Args[i] = x
	}
	lower, upper := op.Args[3], op.Args[4]
	if op.Verb == SetBounds {
		lower, upper = op.Args[1], op.Args[2]
	}
	if lower < 0 || lower > upper {
		return op, fmt.Errorf("bounds [%d, %d] break 0 ≤ lower ≤ upper", lower, upper)
	}
	return op, nil
}

// world is the network that a script makes.
type world struct {
	net   *flowgraph.Network
	nodes map[int64]flowgraph.NodeID
	arcs  map[int64]flowgraph.ArcID
	first []int64           // labels of nodes in the order they came
	names []int64           // of arcs, by id
	gone  []flowgraph.ArcID // removed by the last step
}

func newWorld() *world {
	return &world{net: flowgraph.New(), nodes: map[int64]flowgraph.NodeID{}, arcs: map[int64]flowgraph.ArcID{}}
}

// apply does one step that changes the network.
func (w *world) apply(op Op) {
	w.gone = w.gone[:0]
	label := op.Args[0]
	switch op.Verb {
	case AddNode:
		if _, there := w.nodes[label]; !there {
			w.nodes[label] = w.net.AddNode(0)
			w.first = append(w.first, label)
		}
	case AddArc:
		tail, one := w.nodes[op.Args[1]]
		head, two := w.nodes[op.Args[2]]
		if _, there := w.arcs[label]; one && two && !there {
			w.addArc(label, flowgraph.Arc{Tail: tail, Head: head, Bounds: flowgraph.Bounds{Lower: op.Args[3], Upper: op.Args[4]}, Cost: flowgraph.Cost(op.Args[5])})
		}
	case RemoveNode:
		w.removeNode(label)
	case SetSupply:
		w.setSupply(label, op.Args[1])
	case Tilt:
		if v, there := w.nodes[label]; there {
			w.net.SetSupply(v, w.net.Supply(v)+op.Args[1])
		}
	case Copy:
		w.copy()
	case RemoveArc, SetCost, SetBounds:
		w.changeArc(op)
	}
}

func (w *world) changeArc(op Op) {
	a, there := w.arcs[op.Args[0]]
	if !there {
		return
	}
	switch op.Verb {
	case RemoveArc:
		w.gone = append(w.gone, a)
		w.net.RemoveArc(a)
		delete(w.arcs, op.Args[0])
	case SetCost:
		w.net.SetCost(a, flowgraph.Cost(op.Args[1]))
	case SetBounds:
		w.net.SetBounds(a, op.Args[1], op.Args[2])
	}
}

func (w *world) addArc(label int64, d flowgraph.Arc) {
	a := w.net.AddArc(d.Tail, d.Head, d.Lower, d.Upper, d.Cost)
	w.arcs[label] = a
	for len(w.names) <= int(a) {
		w.names = append(w.names, 0)
	}
	w.names[a] = label
}

// removeNode gives what the node supplies to the first one.
func (w *world) removeNode(label int64) {
	v, there := w.nodes[label]
	if !there {
		return
	}
	w.setSupply(label, 0)
	for _, refs := range [][]flowgraph.Ref{w.net.Out(v), w.net.In(v)} {
		for _, ref := range refs {
			w.gone = append(w.gone, ref.Arc)
			delete(w.arcs, w.names[ref.Arc])
		}
	}
	w.net.RemoveNode(v)
	delete(w.nodes, label)
	i := slices.Index(w.first, label)
	w.first = slices.Delete(w.first, i, i+1)
}

func (w *world) setSupply(label, value int64) {
	v, there := w.nodes[label]
	if !there || label == w.first[0] {
		return
	}
	ground := w.nodes[w.first[0]]
	w.net.SetSupply(ground, w.net.Supply(ground)+w.net.Supply(v)-value)
	w.net.SetSupply(v, value)
}

// copy replaces the network by another whose ids follow the labels.
func (w *world) copy() {
	fresh := newWorld()
	for _, label := range w.first {
		fresh.nodes[label] = fresh.net.AddNode(w.net.Supply(w.nodes[label]))
	}
	fresh.first = w.first
	names := map[flowgraph.NodeID]int64{}
	for label, v := range w.nodes {
		names[v] = label
	}
	labels := make([]int64, 0, len(w.arcs))
	for label := range w.arcs {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	for _, label := range labels {
		d := w.net.Arc(w.arcs[label])
		d.Tail, d.Head = fresh.nodes[names[d.Tail]], fresh.nodes[names[d.Head]]
		fresh.addArc(label, d)
	}
	*w = *fresh
}
