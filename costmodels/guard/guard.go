// Package guard keeps what a broken cost model does away from the plan.
//
// A model is someone's policy, written in a hurry perhaps, and runs in the middle of every cycle. A [Guard] stands between:
// it hands on prices that keep the contract, and at the first that does not it notes the fault, calls the model no more and
// answers with prices that are safe, so that the caller can come to an end, throw away what it has and plan with another
// model.
package guard

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ErrBroken is wrapped by every fault.
var ErrBroken = errors.New("guard: the cost model is broken")

// Steps is how many steps one call of a model may spend; see costmodels.Round.Spend. A model that loops without paying for
// its steps cannot be stopped, nor one that exhausts the stack or the memory.
const Steps = 1 << 20

// Guard is a model that watches another one. It is not safe for concurrent use.
type Guard struct {
	model costmodels.Model
	local costmodels.Localizer // the model, if it is one
	route costmodels.Router    // the model, if it is one
	mover costmodels.Mover     // the model, if it is one
	batch costmodels.Batcher   // the model, if it is one
	fault error

	steps int64 // left to the call in progress

	// The last look at a crowd: marginal prices are asked for in rising order.
	host  *cluster.Host
	k     int64
	price flowgraph.Cost
}

var (
	_ costmodels.Mover   = (*Guard)(nil)
	_ costmodels.Router  = (*Guard)(nil)
	_ costmodels.Batcher = (*Guard)(nil)
)

// New returns a guard around the model.
func New(m costmodels.Model) *Guard {
	g := &Guard{model: m}
	g.local, _ = m.(costmodels.Localizer)
	g.route, _ = m.(costmodels.Router)
	g.mover, _ = m.(costmodels.Mover)
	g.batch, _ = m.(costmodels.Batcher)
	return g
}

// Fault returns what is wrong with the model, nil if nothing was seen.
func (g *Guard) Fault() error { return g.fault }

// Name returns the model's.
func (g *Guard) Name() string { return g.model.Name() }

func (g *Guard) blame(format string, a ...any) {
	if g.fault == nil {
		g.fault = fmt.Errorf("%w: %s: %s", ErrBroken, g.model.Name(), fmt.Sprintf(format, a...))
	}
}

// call lets the model do something with the round, which has a limit of steps meanwhile, and recovers from a panic.
func (g *Guard) call(r *costmodels.Round, what string, do func(*costmodels.Round)) {
	was := r.Work
	defer func() {
		r.Work = was
		if v := recover(); v != nil {
			g.blame("%s panics: %v", what, v)
		}
	}()
	g.steps = Steps
	r.Work = &g.steps
	do(r)
}

// ask returns the model's price if it keeps the contract, else what is safe.
func (g *Guard) ask(r *costmodels.Round, what string, safe flowgraph.Cost, price func(*costmodels.Round) flowgraph.Cost) flowgraph.Cost {
	if g.fault != nil {
		return safe
	}
	answer := safe
	g.call(r, what, func(r *costmodels.Round) { answer = price(r) })
	if g.fault != nil || !g.sound(what, answer) {
		return safe
	}
	return answer
}

// Wait implements costmodels.Model. It also looks whether waiting gets cheaper with time.
func (g *Guard) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	wait := g.ask(r, "Wait", costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.model.Wait(r, c) })
	older := *c
	older.Stage++
	later := g.ask(r, "Wait", costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.model.Wait(r, &older) })
	if g.fault == nil && later < wait {
		g.blame("Wait falls from %d to %d at stage %d", wait, later, older.Stage)
	}
	return wait
}

// Start implements costmodels.Model.
func (g *Guard) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) (price flowgraph.Cost) {
	if g.fault != nil {
		return 0
	}
	defer g.watch(r, r.Work, "Start", &price)
	g.steps, r.Work = Steps, &g.steps
	return g.model.Start(r, q, h)
}

// Starts sets each price to what Start returns for the request with its index: what a call costs by being watched, many of
// them pay once. A Batcher prices two and more, and it looks whether the first price is that of Start.
func (g *Guard) Starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	clear(prices[g.starts(r, requests, h, prices):]) // the model is broken: from there on prices are 0
}

// starts returns how many prices there are before the first that is broken.
func (g *Guard) starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) (sound int) {
	if g.fault != nil || len(requests) == 0 {
		return 0
	}
	var none flowgraph.Cost
	defer g.watch(r, r.Work, "Start", &none)
	r.Work = &g.steps
	batch := g.batch != nil && len(requests) > 1
	if batch {
		g.steps = Steps * int64(1+len(requests))
		g.batch.Starts(r, requests, h, prices)
		if start := g.model.Start(r, requests[0], h); start != prices[0] {
			g.blame("Starts is %d where Start is %d", prices[0], start)
			return 0
		}
	}
	for i, q := range requests {
		if !batch {
			g.steps = Steps
			prices[i] = g.model.Start(r, q, h)
		}
		if !g.sound("Start", prices[i]) {
			break
		}
		sound++
	}
	return sound
}

// Fork returns a guard of the same model for another goroutine, which may call its Starts and nothing else; nil if the model
// is no Batcher. Its fault is handed back with Join.
func (g *Guard) Fork() *Guard {
	if g.batch == nil {
		return nil
	}
	return &Guard{model: g.model, batch: g.batch, fault: g.fault}
}

// Join takes in what a fork has found wrong, if nothing was before.
func (g *Guard) Join(fork *Guard) { g.fault = cmp.Or(g.fault, fork.fault) }

// watch ends a call that a cycle makes for every host, where the closures of ask would be felt. It is to be deferred.
func (g *Guard) watch(r *costmodels.Round, was *int64, what string, price *flowgraph.Cost) {
	r.Work = was
	if v := recover(); v != nil {
		g.blame("%s panics: %v", what, v)
	}
	if g.sound(what, *price); g.fault != nil {
		*price = 0
	}
}

// sound blames the model for a price that is out of range.
func (g *Guard) sound(what string, price flowgraph.Cost) bool {
	if price >= 0 && price <= costmodels.MaxPrice {
		return true
	}
	g.blame("%s is %d, which is not between 0 and %d", what, price, costmodels.MaxPrice)
	return false
}

func (g *Guard) crowd(r *costmodels.Round, h *cluster.Host, k int64) (price flowgraph.Cost) {
	if g.fault != nil {
		return 0
	}
	defer g.watch(r, r.Work, "Crowd", &price)
	g.steps, r.Work = Steps, &g.steps
	return g.model.Crowd(r, h, k)
}

// Items implements costmodels.Itemizer. What the model does wrong here is not held against it: nil for a panic, and terms
// that do not add up to its Start become a single one.
func (g *Guard) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) (all []costmodels.Term) {
	if g.fault != nil {
		return nil
	}
	start := g.ask(r, "Start", 0, func(r *costmodels.Round) flowgraph.Cost { return g.model.Start(r, q, h) })
	func() {
		defer func() { _ = recover() }()
		all = costmodels.Items(g.model, r, q, h)
	}()
	var sum flowgraph.Cost
	for _, t := range all {
		sum += t.Price
	}
	if sum != start {
		return []costmodels.Term{{Name: g.model.Name(), Price: start}}
	}
	return all
}

// Crowd implements costmodels.Model. It also looks whether marginal prices fall from one start to the next, and from one
// call to the next for the same host.
func (g *Guard) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	price := g.crowd(r, h, k)
	if k > 0 && g.fault == nil {
		if before := g.crowd(r, h, k-1); before > price {
			g.blame("Crowd falls from %d to %d at %d", before, price, k)
		}
	}
	if g.fault == nil && g.host == h && g.k < k && g.price > price {
		g.blame("Crowd falls from %d at %d to %d at %d", g.price, g.k, price, k)
	}
	g.host, g.k, g.price = h, k, price
	return price
}

// Locality implements costmodels.Localizer: nothing for a model that is none.
func (g *Guard) Locality(r *costmodels.Round, c *costmodels.Class) (l costmodels.Locality) {
	if g.local == nil || g.fault != nil {
		return l
	}
	g.call(r, "Locality", func(r *costmodels.Round) { l = g.local.Locality(r, c) })
	check := func(what any, price, most flowgraph.Cost) {
		if price < 0 || price > most {
			g.blame("Locality: %v costs %d, which is not between 0 and %d", what, price, most)
		}
	}
	check("elsewhere", l.Elsewhere, costmodels.MaxPrice)
	for _, x := range l.Racks {
		check(x.Rack, x.Price, l.Elsewhere)
	}
	for _, x := range l.Hosts {
		check(x.Host, x.Price, l.Elsewhere)
	}
	if g.fault != nil {
		return costmodels.Locality{}
	}
	return l
}

// Moves implements costmodels.Mover: no for a model that is none.
func (g *Guard) Moves() (moves bool) {
	if g.mover == nil || g.fault != nil {
		return false
	}
	g.call(&costmodels.Round{}, "Moves", func(*costmodels.Round) { moves = g.mover.Moves() })
	return moves && g.fault == nil
}

// Move implements costmodels.Mover: MaxPrice for a model that is none. It also looks whether the price falls with time.
func (g *Guard) Move(r *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if g.mover == nil {
		return costmodels.MaxPrice
	}
	ask := func(ran time.Duration) flowgraph.Cost {
		return g.ask(r, "Move", costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.mover.Move(r, c, ran) })
	}
	price, before := ask(ran), ask(ran/2)
	if g.fault == nil && before > price {
		g.blame("Move falls from %d after %v to %d after %v", before, ran/2, price, ran)
	}
	return price
}

// Route implements costmodels.Router: 0 for a model that is none.
func (g *Guard) Route(pool cluster.PoolPath, kind cluster.JobType) (route int) {
	if g.route == nil || g.fault != nil {
		return 0
	}
	g.call(&costmodels.Round{}, "Route", func(*costmodels.Round) { route = g.route.Route(pool, kind) })
	return route
}
