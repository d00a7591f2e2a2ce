package repair

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
)

// TestRoomsServeAll lets lists grow, and begin anew, in rooms that others have left.
func TestRoomsServeAll(t *testing.T) {
	var r rooms[int]
	rng := rand.New(rand.NewPCG(1, 2))
	lists := make([][]int, 200)
	allocs := testing.AllocsPerRun(1, func() {
		r = rooms[int]{}
		clear(lists)
		for range 20_000 {
			k := rng.IntN(len(lists))
			if len(lists[k]) == cap(lists[k]) {
				lists[k] = r.grow(lists[k])
			}
			lists[k] = append(lists[k], k)
			if rng.IntN(40) == 0 {
				lists[k] = lists[k][:0]
			}
		}
	})
	require.LessOrEqual(t, allocs, 60.0, "pieces and the lists of what is free")
	for k, list := range lists {
		for _, x := range list {
			require.Equal(t, k, x, "nobody else writes there")
		}
		list = r.grow(list[:cap(list)])
		require.Greater(t, cap(list), len(list))
	}
}

// TestHubsMove has a node with much that sources hold on it, and many arcs from other nodes, come back under the ids of
// small ones: they keep none of its room.
func TestHubsMove(t *testing.T) {
	const tasks, hosts = 300, 200
	n := flowgraph.New()
	sink := n.AddNode(-tasks)
	work, places := make([]flowgraph.NodeID, tasks), make([]flowgraph.NodeID, hosts)
	for i := range work {
		work[i] = n.AddNode(1)
	}
	for i := range places {
		places[i] = n.AddNode(0)
		n.AddArc(places[i], sink, 0, 1, 0)
		n.AddArc(work[i], places[i], 0, 1, 1000)
	}
	s, hub := New(), n.AddNode(0)
	for i := range places {
		n.AddArc(hub, sink, 0, tasks, 0)
		for _, v := range work {
			n.AddArc(v, hub, 0, 1, 1)
		}
		for _, v := range places {
			n.AddArc(v, hub, 0, 1, 1)
		}
		r, err := s.Solve(n, solver.Budget{})
		require.NoError(t, err)
		require.NoError(t, solver.Verify(n, r))
		n.RemoveNode(hub)
		n.RemoveNode(places[i])
		hub, places[i] = n.AddNode(0), n.AddNode(0)
		n.AddArc(places[i], sink, 0, 1, 0)
		n.AddArc(work[i], places[i], 0, 1, 1000)
	}
	require.LessOrEqual(t, s.holdings.made, 2*pieceSize)
	require.LessOrEqual(t, s.inward.made, 2*pieceSize)
}
