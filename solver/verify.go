package solver

import (
	"errors"
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ErrNotOptimal is wrapped by every error of [Verify].
var ErrNotOptimal = errors.New("solver: not an optimal flow")

// Verify checks from the definition alone that r is an optimal result for n:
// bounds, balance at every node, no residual arc of negative reduced cost
// (which is dual feasibility and complementary slackness in one), and the
// objective. Sums are taken in 128 bits, so no input can overflow it.
// O(nodes + arcs) and the cost of r's Potential; allocates per node.
//
// The error names the first node or arc at fault.
func Verify(n *flowgraph.Network, r Result) error {
	if r.Status != Optimal || r.Solution == nil {
		return fmt.Errorf("%w: status is %q", ErrNotOptimal, r.Status)
	}
	potential := make([]flowgraph.Cost, n.NodeBound())
	balance := make([]flowgraph.Int128, n.NodeBound())
	for v := range n.NodeBound() {
		if id := flowgraph.NodeID(v); n.NodeAlive(id) {
			potential[v] = r.Potential(id)
			balance[v].Add(n.Supply(id))
		}
	}
	var objective flowgraph.Int128
	for i := range n.ArcBound() {
		a := flowgraph.ArcID(i)
		if !n.ArcAlive(a) {
			continue
		}
		d, x := n.Arc(a), r.Flow(a)
		if x < d.Lower || x > d.Upper {
			return fmt.Errorf("%w: arc %d carries %d outside [%d, %d]", ErrNotOptimal, a, x, d.Lower, d.Upper)
		}
		if sign := reducedCostSign(d, potential); sign < 0 && x < d.Upper || sign > 0 && x > d.Lower {
			return fmt.Errorf("%w: arc %d (%d→%d, cost %d) carries %d of [%d, %d] against its reduced cost", ErrNotOptimal, a, d.Tail, d.Head, d.Cost, x, d.Lower, d.Upper)
		}
		balance[d.Tail].AddMul(x, -1)
		balance[d.Head].Add(x)
		objective.AddMul(int64(d.Cost), x)
	}
	for v := range balance {
		if balance[v].Sign() != 0 {
			return fmt.Errorf("%w: node %d does not balance its supply", ErrNotOptimal, v)
		}
	}
	if value, fits := objective.Int64(); !fits || value != r.Objective {
		return fmt.Errorf("%w: objective %d is not the cost of the flow", ErrNotOptimal, r.Objective)
	}
	return nil
}

func reducedCostSign(d flowgraph.Arc, potential []flowgraph.Cost) int {
	var rc flowgraph.Int128
	rc.Add(int64(d.Cost))
	rc.Add(int64(potential[d.Tail]))
	rc.AddMul(int64(potential[d.Head]), -1)
	return rc.Sign()
}
