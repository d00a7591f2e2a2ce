package compose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/compose"
	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/fragmentation"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

func TestSumConforms(t *testing.T) {
	modeltest.Run(t, compose.Sum{{quincy.Model{Theta: 10}, 300}, {loadspread.Model{}, compose.One}, {delay.Model{}, 2000}, {fragmentation.Model{}, 1}})
}

func TestChoiceConforms(t *testing.T) {
	modeltest.Run(t, compose.NewChoice(loadspread.Model{}, []compose.Binding{
		{Pool: "root/a", Model: quincy.Model{Theta: 1000}},
		{Pool: "root/a/b", Type: cluster.Batch, Typed: true, Model: sjf.Model{}},
		{Type: cluster.Stateless, Typed: true, Model: coco.Model{}},
	}))
}

// fixed is a model with given prices.
type fixed struct {
	loadspread.Model
	wait, start flowgraph.Cost
	place       costmodels.Locality
}

func (f fixed) Wait(*costmodels.Round, *costmodels.Class) flowgraph.Cost { return f.wait }
func (f fixed) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost {
	return f.start
}
func (f fixed) Locality(*costmodels.Round, *costmodels.Class) costmodels.Locality { return f.place }

func TestPartsAddUpByWeight(t *testing.T) {
	sum := compose.Sum{{fixed{wait: 1000, start: 101}, 500}, {fixed{wait: 10, start: 7}, 2000}}
	require.EqualValues(t, 520, sum.Wait(nil, nil))
	require.EqualValues(t, 50+14, sum.Start(nil, nil, nil))
	require.Equal(t, costmodels.MaxPrice, compose.Sum{{fixed{start: costmodels.MaxPrice}, 1}}.Start(nil, nil, nil), "a bar stays one")
	require.Equal(t, costmodels.MaxPrice, compose.Sum{{fixed{start: costmodels.MaxPrice - 1}, compose.MaxWeight}}.Start(nil, nil, nil))
	require.Equal(t, costmodels.MaxPrice/4, compose.Sum{{fixed{wait: costmodels.MaxPrice}, 250}}.Wait(nil, nil), "to wait is never barred")
}

// Who has waited for long does not go before a higher priority because of a part that hardly counts.
func TestALongWaitKeepsItsWeight(t *testing.T) {
	sum := compose.Sum{{loadspread.Model{}, compose.One}, {quincy.Model{}, 1}}
	patient := sum.Wait(nil, &costmodels.Class{Priority: 100, Stage: 15})
	require.Less(t, patient, sum.Wait(nil, &costmodels.Class{Priority: 200}))
}

// itemized is a model whose price is made of two terms.
type itemized struct{ fixed }

func (itemized) Items(*costmodels.Round, *costmodels.Request, *cluster.Host) []costmodels.Term {
	return []costmodels.Term{{Name: "a", Price: 35}, {Name: "b", Price: 35}}
}

// What weights round, they round once in each part: the terms are the price together, else they are not shown.
func TestTermsOfASumAreItsPrice(t *testing.T) {
	sum := compose.Sum{{itemized{fixed{start: 70}}, 300}, {fixed{start: 7}, 500}}
	var all flowgraph.Cost
	for _, term := range sum.Items(nil, nil, nil) {
		require.GreaterOrEqual(t, term.Price, flowgraph.Cost(0))
		all += term.Price
	}
	require.Equal(t, sum.Start(nil, nil, nil), all)
	require.EqualValues(t, 21+3, all)
}

// A host that only one part names has in the other the price of its rack, or of elsewhere.
func TestPlacesAddUp(t *testing.T) {
	near := fixed{place: costmodels.Locality{
		Elsewhere: 100, Hosts: []costmodels.HostPrice{{Host: "s/a", Price: 0}}, Racks: []costmodels.RackPrice{{Rack: "r1", Price: 40}},
	}}
	other := fixed{place: costmodels.Locality{Elsewhere: 8, Hosts: []costmodels.HostPrice{{Host: "s/b", Price: 2}, {Host: "s/c", Price: 4}}}}
	racks := map[cluster.HostID]string{"s/a": "r1", "s/b": "r1", "s/c": "r2"}
	round := &costmodels.Round{Hosts: func(id cluster.HostID) *cluster.Host {
		return &cluster.Host{Machine: &cluster.Machine{Rack: racks[id]}}
	}}
	require.Equal(t, costmodels.Locality{
		Elsewhere: 108,
		Racks:     []costmodels.RackPrice{{Rack: "r1", Price: 48}},
		Hosts:     []costmodels.HostPrice{{Host: "s/a", Price: 8}, {Host: "s/b", Price: 42}, {Host: "s/c", Price: 104}},
	}, compose.Sum{{near, compose.One}, {other, compose.One}}.Locality(round, nil))
}

func TestTheMostParticularBindingDecides(t *testing.T) {
	c := compose.NewChoice(fixed{start: 1}, []compose.Binding{
		{Type: cluster.Stateless, Typed: true, Model: fixed{start: 2}},
		{Pool: "root/a", Model: fixed{start: 3}},
		{Pool: "root/a", Type: cluster.Stateless, Typed: true, Model: fixed{start: 4}},
		{Pool: "root/a/b", Model: fixed{start: 5}},
	})
	for _, x := range []struct {
		pool cluster.PoolPath
		kind cluster.JobType
		want flowgraph.Cost
	}{
		{"root", cluster.Batch, 1},
		{"root/ab", cluster.Batch, 1},
		{"root/c", cluster.Stateless, 2},
		{"root/a", cluster.Batch, 3},
		{"root/a/c", cluster.Stateful, 3},
		{"root/a/c", cluster.Stateless, 4},
		{"root/a/b/c", cluster.Stateless, 5},
	} {
		route := c.Route(x.pool, x.kind)
		require.Equal(t, x.want, c.Start(nil, &costmodels.Request{Route: route}, nil), "%s %v", x.pool, x.kind)
	}
}

// Running tasks move where a part of their model says so, at the weight of that part.
func TestMovesAreThoseOfTheModelOfTheClass(t *testing.T) {
	moves, stays := quincy.Model{Theta: 1000}, quincy.Model{}
	half := compose.Sum{{moves, 500}, {loadspread.Model{}, compose.One}}
	require.True(t, half.Moves())
	require.EqualValues(t, 30_000, half.Move(nil, &costmodels.Class{}, time.Minute))
	none := compose.Sum{{stays, compose.One}, {loadspread.Model{}, compose.One}}
	require.False(t, none.Moves())
	require.Equal(t, costmodels.MaxPrice, none.Move(nil, &costmodels.Class{}, 0))

	c := compose.NewChoice(stays, []compose.Binding{{Pool: "root/a", Model: half}})
	require.True(t, c.Moves())
	require.Equal(t, costmodels.MaxPrice, c.Move(nil, &costmodels.Class{}, time.Minute))
	there := &costmodels.Class{}
	there.Route = c.Route("root/a", cluster.Batch)
	require.EqualValues(t, 30_000, c.Move(nil, there, time.Minute))
	require.False(t, compose.NewChoice(stays, nil).Moves())
}
