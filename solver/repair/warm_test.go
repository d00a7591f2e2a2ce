package repair

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// TestWarmSolveDoesNotAllocate lets a cluster come to its largest size first.
func TestWarmSolveDoesNotAllocate(t *testing.T) { solvertest.WarmAllocatesNothing(t, New()) }

// TestBrokenStateIsRebuilt spoils prices behind the solver's back. Where a search
// notices, the answer must be right all the same.
func TestBrokenStateIsRebuilt(t *testing.T) {
	rebuilds := int64(0)
	for seed := range uint64(40) {
		c := solvertest.NewCluster(solvertest.Seeded(seed), solvertest.ClusterShape{Hosts: 30, Slots: 2, Classes: 60, Patterns: 9, MaxCost: 40, MaxSupply: 3})
		s := New()
		solvertest.Compare(t, c.Network, s)
		for v := range s.price {
			if int32(v) != s.ground {
				s.price[v] -= int64(v*v%13) * 10
			}
		}
		c.Churn(10)
		r, err := s.Solve(c.Network, solver.Budget{})
		require.NoError(t, err)
		if r.Work.Rebuilds > 0 {
			require.NoError(t, solver.Verify(c.Network, r))
			c.Churn(10)
			solvertest.Compare(t, c.Network, s)
		}
		rebuilds += r.Work.Rebuilds
	}
	require.Positive(t, rebuilds)
}

// TestBoundsHold compares what is cached of sources and hubs with what it bounds,
// also after another solver answered in between, which moves all prices.
func TestBoundsHold(t *testing.T) {
	for seed := range uint64(30) {
		c := solvertest.NewCluster(solvertest.Seeded(seed), solvertest.ClusterShape{Hosts: 150, Slots: 2, Classes: 200, Patterns: 60, MaxCost: 90, MaxSupply: 3})
		s := New()
		s.hubDegree = 40
		for round := range 8 {
			r, err := s.Solve(c.Network, solver.Budget{})
			require.NoError(t, err)
			if r.Status == solver.Optimal {
				requireBounds(t, s)
			}
			c.Churn(12)
			if round%3 != 2 {
				continue
			}
			if r, err = netsimplex.New().Solve(c.Network, solver.Budget{}); r.Status == solver.Optimal {
				s.Adopt(c.Network, r)
				requireBounds(t, s)
			}
			require.NoError(t, err)
		}
	}
}

func requireBounds(t *testing.T, s *Solver) {
	t.Helper()
	s.tell(1)
	s.tell(-1)
	for v, k := range s.kinds {
		p := &s.payers[v]
		if k != isSource || p.count == 0 {
			continue
		}
		require.Equal(t, p.second, s.second[v])
		for _, ref := range s.net.Out(flowgraph.NodeID(v)) {
			a, value := int32(ref.Arc), int64(ref.Cost)+s.price[ref.Node]
			require.Equal(t, s.room(a) > 0, s.hasRoom(a))
			require.Equal(t, s.load(a) > 0, s.hasLoad(a))
			if s.hasLoad(a) {
				require.LessOrEqual(t, value, s.price[v])
				require.LessOrEqual(t, s.nodes[ref.Node].held[s.arcs[a].pos].rest, p.without(a))
			}
			if s.hasRoom(a) && s.kinds[ref.Node] != isHub {
				require.LessOrEqual(t, p.first, value)
				if a != p.best {
					require.LessOrEqual(t, p.second, value)
				}
			}
		}
	}
	for _, b := range s.hubs {
		for u := range b.moves {
			for _, h := range s.nodes[u].held {
				if to := b.ways[h.from]; to.arc != none && to.arc != h.arc {
					require.Equal(t, s.arcs[to.arc].cost, to.cost)
					gain := to.cost - h.cost
					require.LessOrEqual(t, b.moves[u].gain, gain)
					require.LessOrEqual(t, b.blocks[u/hubBlock], gain-s.price[u])
				}
			}
		}
	}
}

// TestSourceRepricedBecomesNode changes the price of a source's arc and adds an arc into
// the source at once.
func TestSourceRepricedBecomesNode(t *testing.T) {
	n := flowgraph.New()
	sink, a, b := n.AddNode(-1), n.AddNode(1), n.AddNode(0)
	out := n.AddArc(a, sink, 0, 2, 0)
	s := New()
	solvertest.Compare(t, n, s)
	n.SetCost(out, 3)
	n.AddArc(b, a, 0, 1, 0)
	solvertest.Compare(t, n, s)
	require.EqualValues(t, 1, s.Flow(out))
}

// TestGroundOfHugeDemandStays: four times its demand is beyond an int64.
func TestGroundOfHugeDemandStays(t *testing.T) {
	n, s := flowgraph.New(), New()
	for _, amount := range []int64{3 << 60, 1} {
		n.AddArc(n.AddNode(amount), n.AddNode(-amount), 0, flowgraph.Infinite, 1)
		solvertest.Compare(t, n, s)
		require.False(t, s.misplaced)
	}
}
