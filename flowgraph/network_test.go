package flowgraph

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestVerbs(t *testing.T) {
	n := New()
	s, m, d := n.AddNode(3), n.AddNode(0), n.AddNode(-3)
	a := n.AddArc(s, m, 0, Infinite, 5)
	b := n.AddArc(m, d, 1, 4, -2)
	loop := n.AddArc(m, m, 0, 2, 1)
	require.NoError(t, n.Check())
	require.Equal(t, 3, n.NumNodes())
	require.Equal(t, 3, n.NumArcs())
	require.Equal(t, []Ref{{-2, b, d}, {1, loop, m}}, n.Out(m))
	require.Equal(t, []Ref{{5, a, s}, {1, loop, m}}, n.In(m))
	require.Equal(t, Arc{Tail: m, Head: d, Bounds: Bounds{1, 4}, Cost: -2}, n.Arc(b))
	require.Equal(t, 3, n.CostBits())
	sum := n.TotalSupply()
	require.Zero(t, sum.Sign())
	volume, ok := n.Volume()
	require.True(t, ok)
	require.Equal(t, int64(3+1+6), volume)

	before := n.Stats()
	n.SetCost(a, 5)
	n.SetBounds(b, 1, 4)
	n.SetSupply(s, 3)
	require.Equal(t, before, n.Stats(), "a value set to what it is counts as no change")

	n.RemoveNode(m)
	require.NoError(t, n.Check())
	require.Equal(t, 0, n.NumArcs())
	require.False(t, n.ArcAlive(a))
	require.Equal(t, m, n.AddNode(0), "freed ids come back")
	require.Equal(t, a, n.AddArc(s, m, 0, 1, 1), "in their old order")
}

func TestMisusePanics(t *testing.T) {
	n := New()
	v := n.AddNode(0)
	a := n.AddArc(v, v, 0, 1, 0)
	for name, misuse := range map[string]func(){
		"node never made":     func() { n.AddArc(v, 7, 0, 1, 0) },
		"negative node":       func() { n.SetSupply(-1, 0) },
		"arc never made":      func() { n.SetCost(9, 0) },
		"among arcs":          func() { n.AddArcs([]Arc{{Tail: v, Head: v}, {Tail: v, Head: 9}}, nil) },
		"fewer costs":         func() { n.SetCosts([]ArcID{a}, nil) },
		"costs of no arc":     func() { n.SetCosts([]ArcID{a, 9}, []Cost{1, 2}) },
		"negative lower":      func() { n.AddArc(v, v, -1, 1, 0) },
		"lower above upper":   func() { n.SetBounds(a, 2, 1) },
		"arc removed twice":   func() { n.RemoveArc(a); n.RemoveArc(a) },
		"node removed twice":  func() { n.RemoveNode(v); n.RemoveNode(v) },
		"named twice":         func() { w := n.AddNode(0); n.RemoveNodes([]NodeID{w, w}) },
		"arcs of a dead node": func() { n.Out(99) },
	} {
		t.Run(name, func(t *testing.T) { require.Panics(t, misuse) })
	}
}

// mirror is a reader that knows the network only through its changes.
type mirror struct {
	seq      Seq
	arcs     map[ArcID]Arc
	supplies map[NodeID]int64
}

func (m *mirror) read(n *Network) {
	touched, next, complete := n.Changes(m.seq)
	m.seq = next
	if !complete {
		touched = nil
		for v := range n.NodeBound() {
			touched = append(touched, ^Change(v))
		}
		for a := range n.ArcBound() {
			touched = append(touched, Change(a))
		}
	}
	for _, c := range touched {
		if v, ok := c.Node(); ok {
			delete(m.supplies, v)
			if n.NodeAlive(v) {
				m.supplies[v] = n.Supply(v)
			}
		}
		if a, ok := c.Arc(); ok {
			delete(m.arcs, a)
			if n.ArcAlive(a) {
				m.arcs[a] = n.Arc(a)
			}
		}
	}
}

// TestModel runs random verbs against a plain map of what should be there,
// followed by two readers of different diligence.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := New()
		arcs, supplies := map[ArcID]Arc{}, map[NodeID]int64{}
		eager := mirror{arcs: map[ArcID]Arc{}, supplies: map[NodeID]int64{}}
		lazy := mirror{arcs: map[ArcID]Arc{}, supplies: map[NodeID]int64{}}
		node := func() NodeID { return pick(t, supplies) }
		forget := func(v NodeID) {
			delete(supplies, v)
			for a, d := range arcs {
				if d.Tail == v || d.Head == v {
					delete(arcs, a)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"addNode": func(t *rapid.T) {
				s := rapid.Int64().Draw(t, "supply")
				supplies[n.AddNode(s)] = s
			},
			"removeNode": func(t *rapid.T) {
				if len(supplies) == 0 {
					t.Skip()
				}
				v := node()
				n.RemoveNode(v)
				forget(v)
			},
			"removeNodes": func(t *rapid.T) {
				var nodes []NodeID
				for len(supplies) > 0 && rapid.Bool().Draw(t, "more") {
					nodes = append(nodes, node())
					forget(nodes[len(nodes)-1])
				}
				n.RemoveNodes(nodes)
			},
			"addArc": func(t *rapid.T) {
				if len(supplies) == 0 {
					t.Skip()
				}
				d := Arc{Tail: node(), Head: node(), Bounds: Bounds{rapid.Int64Range(0, 9).Draw(t, "lower"), Infinite}, Cost: Cost(rapid.Int64().Draw(t, "cost"))}
				if rapid.Bool().Draw(t, "finite") {
					d.Upper = d.Lower + rapid.Int64Range(0, 9).Draw(t, "room")
				}
				arcs[n.AddArc(d.Tail, d.Head, d.Lower, d.Upper, d.Cost)] = d
			},
			"addArcs": func(t *rapid.T) {
				var list []Arc
				for len(supplies) > 0 && rapid.Bool().Draw(t, "more") {
					list = append(list, Arc{Tail: node(), Head: node(), Bounds: Bounds{Upper: rapid.Int64Range(0, 9).Draw(t, "room")}})
				}
				for i, a := range n.AddArcs(list, nil) {
					arcs[a] = list[i]
				}
			},
			"change": func(t *rapid.T) {
				if len(arcs) == 0 {
					t.Skip()
				}
				a := pick(t, arcs)
				d := arcs[a]
				d.Cost = Cost(rapid.Int64Range(-3, 3).Draw(t, "cost"))
				d.Lower = rapid.Int64Range(0, min(9, d.Upper)).Draw(t, "lower")
				n.SetCost(a, d.Cost)
				n.SetBounds(a, d.Lower, d.Upper)
				arcs[a] = d
			},
			"setCosts": func(t *rapid.T) {
				var ids []ArcID
				for a := range arcs {
					ids = append(ids, a)
				}
				slices.Sort(ids)
				costs := make([]Cost, len(ids))
				for i, a := range ids {
					d := arcs[a]
					d.Cost = Cost(rapid.Int64Range(-3, 3).Draw(t, "cost"))
					arcs[a], costs[i] = d, d.Cost
				}
				n.SetCosts(ids, costs)
			},
			"removeArc": func(t *rapid.T) {
				if len(arcs) == 0 {
					t.Skip()
				}
				a := pick(t, arcs)
				n.RemoveArc(a)
				delete(arcs, a)
			},
			"readLazily": func(t *rapid.T) { lazy.read(n) },
			"": func(t *rapid.T) {
				require.NoError(t, n.Check())
				eager.read(n)
				require.Equal(t, arcs, eager.arcs)
				require.Equal(t, supplies, eager.supplies)
			},
		})
		lazy.read(n)
		require.Equal(t, arcs, lazy.arcs)
		require.Equal(t, supplies, lazy.supplies)
	})
}

func pick[K ~int32, V any](t *rapid.T, m map[K]V) K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return rapid.SampledFrom(keys).Draw(t, "id")
}

// TestWindow lets a reader fall behind until it is told to compare everything.
func TestWindow(t *testing.T) {
	n := New()
	v := n.AddNode(0)
	a := n.AddArc(v, v, 0, 1, 0)
	stale := Seq(0)
	var fresh Seq
	sawIncomplete := false
	for i := range 3 * minWindow {
		n.SetCost(a, Cost(i+1))
		var complete bool
		var touched []Change
		touched, fresh, complete = n.Changes(fresh)
		require.True(t, complete)
		require.NotEmpty(t, touched)
		_, _, complete = n.Changes(stale)
		sawIncomplete = sawIncomplete || !complete
	}
	require.True(t, sawIncomplete)
	require.LessOrEqual(t, len(n.log.entries), 2*minWindow, "the log is bounded whoever reads")
}

func TestUnreadChangesAreLoggedOnce(t *testing.T) {
	n := New()
	v := n.AddNode(0)
	a := n.AddArc(v, v, 0, 1, 0)
	_, seq, _ := n.Changes(0)
	for i := range 10 {
		n.SetCost(a, Cost(i+1))
	}
	touched, _, _ := n.Changes(seq)
	require.Equal(t, []Change{Change(a)}, touched)
}

func TestAddedSince(t *testing.T) {
	n := New()
	u, v := n.AddNode(0), n.AddNode(0)
	old, again := n.AddArc(u, v, 0, 1, 0), n.AddArc(u, v, 0, 1, 0)
	_, since, _ := n.Changes(0)
	n.SetCost(old, 1)
	n.RemoveArc(again)
	require.Equal(t, again, n.AddArc(u, v, 0, 1, 0))
	require.False(t, n.AddedSince(old, since))
	require.True(t, n.AddedSince(again, since))
	_, since, _ = n.Changes(since)
	n.SetCost(again, 2)
	require.False(t, n.AddedSince(again, since))
}

func TestWarmVerbsDoNotAllocate(t *testing.T) {
	n := New()
	sink := n.AddNode(0)
	cycle := func() {
		v := n.AddNode(2)
		for range 5 {
			n.SetCost(n.AddArc(v, sink, 0, 1, 1), 2)
		}
		n.RemoveNode(v)
		_, _, _ = n.Changes(0)
	}
	for range 3 * minWindow {
		cycle()
	}
	require.Zero(t, testing.AllocsPerRun(100, cycle))
}

// TestHubsMove has one large node come back under the ids of many small ones: they keep none of its room.
func TestHubsMove(t *testing.T) {
	n := New()
	small := make([]NodeID, 300)
	for i := range small {
		small[i] = n.AddNode(0)
	}
	hub := n.AddNode(0)
	for i := range small {
		for _, v := range small {
			n.AddArc(v, hub, 0, 1, 0)
			n.AddArc(hub, v, 0, 1, 0)
		}
		n.RemoveNode(hub)
		n.RemoveNode(small[i])
		hub, small[i] = n.AddNode(0), n.AddNode(0)
	}
	require.Equal(t, 301, n.NodeBound())
	require.Less(t, len(n.out.arena), 10*n.ArcBound())
	require.Less(t, len(n.in.arena), 10*n.ArcBound())
	require.NoError(t, n.Check())
}

func TestInt128(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got Int128
		want := new(big.Int)
		for range rapid.IntRange(0, 20).Draw(t, "terms") {
			x, y := rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y")
			got.AddMul(x, y)
			got.Add(y)
			want.Add(want, new(big.Int).Mul(big.NewInt(x), big.NewInt(y)))
			want.Add(want, big.NewInt(y))
		}
		require.Equal(t, want.Sign(), got.Sign())
		value, fits := got.Int64()
		require.Equal(t, want.IsInt64(), fits)
		if fits {
			require.Equal(t, want.Int64(), value)
		}
	})
	var s Int128
	s.AddMul(math.MinInt64, math.MinInt64)
	s.AddMul(math.MinInt64, math.MaxInt64)
	s.Add(math.MinInt64)
	require.Zero(t, s.Sign())
}
