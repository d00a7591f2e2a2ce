package repair

import (
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// Older is an optimal solution that another solver found from zero, and that the
// caller has read: its list of changes is that of all arcs with flow.
type Older struct {
	solver.Solution
	Since flowgraph.Seq // where the changes of the network were
	Nodes int           // its bound of nodes
}

// AdoptOlder takes over a solution of n as it was before changes. The next call of Solve repairs what they
// did, and lists what differs from the solution. The solution is only a guess: all of it is compared. O(nodes
// + arcs).
func (s *Solver) AdoptOlder(n *flowgraph.Network, found Older) {
	if n.NumNodes() == 0 {
		return // of the solution nothing is left
	}
	s.reset(n)
	s.sync()
	changes, _, complete := n.Changes(found.Since)
	touched := make([]bool, n.ArcBound())
	for _, c := range changes {
		if a, ok := c.Arc(); ok {
			touched[a] = true
		}
	}
	if complete && int(s.ground) < found.Nodes {
		shift := int64(found.Potential(flowgraph.NodeID(s.ground)))
		for v, k := range s.kinds[:found.Nodes] {
			if k >= isCore {
				s.price[v] = shift - int64(found.Potential(flowgraph.NodeID(v)))
			}
		}
	}
	for _, a := range found.Changed() {
		if complete && !touched[a] {
			s.force(int32(a), found.Flow(a)-s.arcs[a].flow)
		}
	}
	s.known(found, touched, complete)
	for v, k := range s.kinds {
		if k == isSource {
			s.lookAgain(int32(v))
		}
	}
}

// known makes found what the caller knows. On arcs touched since, or on all if it is not known which were,
// whatever flow there will be is listed.
func (s *Solver) known(found solver.Solution, touched []bool, complete bool) {
	s.moved = s.moved[:0]
	s.batch++
	doubt := func(a int32, flow int64) {
		if r := &s.arcs[a]; s.net.ArcAlive(flowgraph.ArcID(a)) && r.stamp != s.batch {
			r.stamp = s.batch
			s.moved = append(s.moved, movement{flow: flow, arc: a, list: true})
		}
	}
	for _, a := range found.Changed() {
		if touched[a] || !complete {
			doubt(int32(a), found.Flow(a))
		}
	}
	for a, t := range touched {
		if t || !complete {
			doubt(int32(a), 0)
		}
	}
}
