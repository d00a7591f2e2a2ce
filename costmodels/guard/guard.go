// Package guard keeps what a broken cost model does away from the plan.
//
// A model is someone's policy, written in a hurry perhaps, and runs in the middle of every cycle. A [Guard] stands between:
// it hands on prices that keep the contract, and at the first that does not it notes the fault, calls the model no more and
// answers with prices that are safe, so that the caller can come to an end, throw away what it has and plan with another
// model. A model that does not answer keeps the caller for ever; somebody else can tell by [Guard.Look], and go on without him.
package guard

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// ErrBroken is wrapped by every fault.
var ErrBroken = errors.New("guard: the cost model is broken")

// Steps is how many steps one call of a model may spend; see costmodels.Round.Spend. A model that loops without paying for
// its steps cannot be stopped, but found out, see Look; one that exhausts the stack or the memory neither.
const Steps = 1 << 20

// method is what a model is asked for.
type method uint64

const (
	idle method = iota // nothing
	wait
	start
	crowd
	locality
	moves
	move
	route
	items
	name
)

// methodBits is how many bits a method takes.
const methodBits = 4

var methodNames = [...]string{"", "Wait", "Start", "Crowd", "Locality", "Moves", "Move", "Route", "Items", "Name"}

func (m method) String() string { return methodNames[m] }

// Guard is a model that watches another one. It is not safe for concurrent use, but for Look.
type Guard struct {
	model costmodels.Model
	name  string               // the model's, "" before it was asked
	local costmodels.Localizer // the model, if it is one
	route costmodels.Router    // the model, if it is one
	mover costmodels.Mover     // the model, if it is one
	batch costmodels.Batcher   // the model, if it is one
	fault error

	steps int64 // left to the call in progress
	calls uint64
	mark  atomic.Uint64 // the call in progress: its number, then its method; 0 where there is none
	seen  uint64        // the mark at the last look
	all   *family

	// The last look at a crowd: marginal prices are asked for in rising order, of tasks of one size.
	host  *cluster.Host
	unit  cluster.Resources
	k     int64
	price flowgraph.Cost
}

var (
	_ costmodels.Mover   = (*Guard)(nil)
	_ costmodels.Router  = (*Guard)(nil)
	_ costmodels.Batcher = (*Guard)(nil)
)

// family is a guard and its forks.
type family struct {
	mu      sync.Mutex
	members []*Guard
	left    atomic.Bool // nobody waits for them any more
}

// New returns a guard around the model, of which it asks nothing yet but what it is.
func New(m costmodels.Model) *Guard {
	g := &Guard{model: m, all: &family{}}
	g.all.members = append(g.all.members, g)
	if costmodels.Localizes(m) {
		g.local, _ = m.(costmodels.Localizer)
	}
	g.route, _ = m.(costmodels.Router)
	g.mover, _ = m.(costmodels.Mover)
	g.batch, _ = m.(costmodels.Batcher)
	return g
}

// Fault returns what is wrong with the model, nil if nothing was seen.
func (g *Guard) Fault() error { return g.fault }

// Look returns a fault if the model, asked by this guard or a fork of it, was in the same call at the last look already. Then who
// asked has to be left alone with all that he has: he may never come back, and if he does, he asks the model nothing more and
// comes to an end. Look may be called beside the other methods, but by one goroutine.
func (g *Guard) Look() (fault error) {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for _, x := range g.all.members {
		mark := x.mark.Load()
		if mark == x.seen && mark != 0 {
			what, who := method(mark%(1<<methodBits)), fmt.Sprintf("%T", x.model)
			if what != name {
				who = x.who() // was written before the call began
			}
			fault = fmt.Errorf("%w: %s: %v does not return", ErrBroken, who, what)
			g.all.left.Store(true)
		}
		x.seen = mark
	}
	return fault
}

// Name returns the model's, and its type where it says none.
func (g *Guard) Name() string {
	if g.name == "" && g.fault == nil {
		said := ""
		g.call(&costmodels.Round{}, name, func(*costmodels.Round) { said = g.model.Name() })
		g.name = said
	}
	return g.who()
}

// who is Name without asking.
func (g *Guard) who() string {
	if g.name == "" {
		return fmt.Sprintf("%T", g.model)
	}
	return g.name
}

func (g *Guard) blame(format string, a ...any) {
	if g.fault == nil {
		g.fault = fmt.Errorf("%w: %s: %s", ErrBroken, g.who(), fmt.Sprintf(format, a...))
	}
}

// enter begins a call, with a limit of steps for each of so many answers.
func (g *Guard) enter(r *costmodels.Round, what method, answers int) {
	g.steps, r.Work = Steps*int64(answers), &g.steps
	g.calls++
	g.mark.Store(g.calls<<methodBits | uint64(what))
}

// leave ends it.
func (g *Guard) leave(r *costmodels.Round, was *int64) {
	r.Work = was
	g.mark.Store(0)
	if g.all.left.Load() {
		g.blame("it came back too late")
	}
}

// try lets the model do something with the round, which has a limit of steps meanwhile, and recovers from a panic.
func (g *Guard) try(r *costmodels.Round, what method, do func(*costmodels.Round)) (panicked any) {
	was := r.Work
	defer func() {
		panicked = recover()
		g.leave(r, was)
	}()
	g.enter(r, what, 1)
	do(r)
	return nil
}

// call blames the model for a panic.
func (g *Guard) call(r *costmodels.Round, what method, do func(*costmodels.Round)) {
	if v := g.try(r, what, do); v != nil {
		g.blame("%v panics: %v", what, v)
	}
}

// ask returns the model's price if it keeps the contract, else what is safe.
func (g *Guard) ask(r *costmodels.Round, what method, safe flowgraph.Cost, price func(*costmodels.Round) flowgraph.Cost) flowgraph.Cost {
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
	price := g.ask(r, wait, costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.model.Wait(r, c) })
	older := *c
	older.Stage++
	later := g.ask(r, wait, costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.model.Wait(r, &older) })
	if g.fault == nil && later < price {
		g.blame("Wait falls from %d to %d at stage %d", price, later, older.Stage)
	}
	return price
}

// Start implements costmodels.Model.
func (g *Guard) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) (price flowgraph.Cost) {
	if g.fault != nil {
		return 0
	}
	defer g.watch(r, r.Work, start, &price)
	g.enter(r, start, 1)
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
	defer g.watch(r, r.Work, start, &none)
	g.enter(r, start, 1+len(requests))
	batch := g.batch != nil && len(requests) > 1
	if batch {
		g.batch.Starts(r, requests, h, prices)
		if one := g.model.Start(r, requests[0], h); one != prices[0] {
			g.blame("Starts is %d where Start is %d", prices[0], one)
			return 0
		}
	}
	for i, q := range requests {
		if !batch {
			g.steps = Steps
			prices[i] = g.model.Start(r, q, h)
		}
		if !g.sound(start, prices[i]) {
			break
		}
		sound++
	}
	return sound
}

// Batches reports whether the model is a Batcher.
func (g *Guard) Batches() bool { return g.batch != nil }

// Fork returns a guard of the same model for another goroutine, which may call its Starts and nothing else; nil if the model
// is no Batcher. Its fault is handed back with Join.
func (g *Guard) Fork() *Guard {
	if g.batch == nil {
		return nil
	}
	fork := &Guard{model: g.model, name: g.name, batch: g.batch, fault: g.fault, all: g.all}
	g.all.mu.Lock()
	g.all.members = append(g.all.members, fork)
	g.all.mu.Unlock()
	return fork
}

// Join takes in what a fork has found wrong, if nothing was before.
func (g *Guard) Join(fork *Guard) { g.fault = cmp.Or(g.fault, fork.fault) }

// watch ends a call that a cycle makes for every host, where the closures of ask would be felt. It is to be deferred.
func (g *Guard) watch(r *costmodels.Round, was *int64, what method, price *flowgraph.Cost) {
	v := recover()
	if g.leave(r, was); v != nil {
		g.blame("%v panics: %v", what, v)
	}
	if g.sound(what, *price); g.fault != nil {
		*price = 0
	}
}

// sound blames the model for a price that is out of range.
func (g *Guard) sound(what method, price flowgraph.Cost) bool {
	if price >= 0 && price <= costmodels.MaxPrice {
		return true
	}
	g.blame("%v is %d, which is not between 0 and %d", what, price, costmodels.MaxPrice)
	return false
}

// crowd returns the price, and that of the start before, if there is one.
func (g *Guard) crowd(r *costmodels.Round, h *cluster.Host, k int64) (price, before flowgraph.Cost) {
	if g.fault != nil {
		return 0, 0
	}
	defer g.watch(r, r.Work, crowd, &price)
	g.enter(r, crowd, 2)
	price = g.model.Crowd(r, h, k)
	if k > 0 {
		before = g.model.Crowd(r, h, k-1)
	}
	return price, before
}

// Items implements costmodels.Itemizer. What the model does wrong here is not held against it: nil for a panic, and terms
// that do not add up to its Start become a single one.
func (g *Guard) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) (all []costmodels.Term) {
	if g.fault != nil {
		return nil
	}
	price := g.ask(r, start, 0, func(r *costmodels.Round) flowgraph.Cost { return g.model.Start(r, q, h) })
	_ = g.try(r, items, func(r *costmodels.Round) { all = costmodels.Items(g.model, r, q, h) })
	var sum flowgraph.Cost
	for _, t := range all {
		sum += t.Price
	}
	if sum != price {
		return []costmodels.Term{{Name: g.Name(), Price: price}}
	}
	return all
}

// Crowd implements costmodels.Model. It also looks whether marginal prices fall from one start to the next, and from one
// call to the next for the same host and the same Unit.
func (g *Guard) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	price, before := g.crowd(r, h, k)
	if g.fault == nil && g.sound(crowd, before) && before > price {
		g.blame("Crowd falls from %d to %d at %d", before, price, k)
	}
	if g.fault == nil && g.host == h && g.k < k && g.price > price && g.unit.Equal(r.Unit) {
		g.blame("Crowd falls from %d at %d to %d at %d", g.price, g.k, price, k)
	}
	g.host, g.unit, g.k, g.price = h, r.Unit, k, price
	return price
}

// Localizes reports whether the model does; see [costmodels.Localizes].
func (g *Guard) Localizes() bool { return g.local != nil }

// Locality implements costmodels.Localizer: nothing for a model that is none.
func (g *Guard) Locality(r *costmodels.Round, c *costmodels.Class) (l costmodels.Locality) {
	if g.local == nil || g.fault != nil {
		return l
	}
	g.call(r, locality, func(r *costmodels.Round) { l = g.local.Locality(r, c) })
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
func (g *Guard) Moves() (yes bool) {
	if g.mover == nil || g.fault != nil {
		return false
	}
	g.call(&costmodels.Round{}, moves, func(*costmodels.Round) { yes = g.mover.Moves() })
	return yes && g.fault == nil
}

// Move implements costmodels.Mover: MaxPrice for a model that is none. It also looks whether the price falls with time.
func (g *Guard) Move(r *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if g.mover == nil {
		return costmodels.MaxPrice
	}
	ask := func(ran time.Duration) flowgraph.Cost {
		return g.ask(r, move, costmodels.MaxPrice, func(r *costmodels.Round) flowgraph.Cost { return g.mover.Move(r, c, ran) })
	}
	price, before := ask(ran), ask(ran/2)
	if g.fault == nil && before > price {
		g.blame("Move falls from %d after %v to %d after %v", before, ran/2, price, ran)
	}
	return price
}

// Route implements costmodels.Router: 0 for a model that is none.
func (g *Guard) Route(pool cluster.PoolPath, kind cluster.JobType) (number int) {
	if g.route == nil || g.fault != nil {
		return 0
	}
	g.call(&costmodels.Round{}, route, func(*costmodels.Round) { number = g.route.Route(pool, kind) })
	return number
}
