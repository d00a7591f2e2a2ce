package solvertest

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// Flows follows the flow of a network by the lists of changes alone, as a scheduler does. The zero value has seen nothing.
type Flows struct {
	net   *flowgraph.Network
	known []int64
}

// Follow reads the arcs that an optimal result says have changed, and reports the first arc that is listed without being
// alive or whose flow is not what the lists say. It begins anew on another network. Complexity: O(arcs).
func (f *Flows) Follow(n *flowgraph.Network, r solver.Result) error {
	f.track(n)
	for _, a := range r.Changed() {
		if !n.ArcAlive(a) {
			return fmt.Errorf("arc %d is listed but not alive", a)
		}
		f.known[a] = r.Flow(a)
	}
	for i := range n.ArcBound() {
		if a := flowgraph.ArcID(i); n.ArcAlive(a) && f.known[a] != r.Flow(a) {
			return fmt.Errorf("arc %d carries %d, known %d", a, r.Flow(a), f.known[a])
		}
	}
	return nil
}

// Forget is told of an arc that is removed: one added in its place counts from zero.
func (f *Flows) Forget(n *flowgraph.Network, a flowgraph.ArcID) {
	f.track(n)
	f.known[a] = 0
}

// track makes room for the flow of new arcs.
func (f *Flows) track(n *flowgraph.Network) {
	if n != f.net {
		f.net, f.known = n, nil
	}
	for len(f.known) < n.ArcBound() {
		f.known = append(f.known, 0)
	}
}
