// Package compose makes cost models of cost models: sums with weights, and a choice by pool and type of job.
//
//	            ┌── root/batch ──► sjf + 0.5 quincy ─┐
//	class ──────┼── stateless ───► coco              ├──► one network, one solve
//	            └── the rest ────► sluice ───────────┘
//
// Prices are in one currency, so parts of a sum and classes of different bindings compete as they are: a weight says how
// much a policy counts, not how large its numbers happen to be.
package compose

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// One is the weight of a model that counts as it is.
const One = 1000

// MaxWeight is the largest weight of a part.
const MaxWeight = 1000 * One

// Part is a model with its weight in thousandths, 1..MaxWeight.
type Part struct {
	Model  costmodels.Model
	Weight int64
}

// Sum adds the prices of its parts, each times its weight and rounded down, at most MaxPrice. Waiting adds up as well, so
// that a place that every part prefers to waiting is preferred by the sum; where the weights are more than 1 together,
// the highest priorities become equal.
type Sum []Part

var _ costmodels.Mover = Sum{}

// Name returns the parts as the configuration spells them.
func (s Sum) Name() string {
	words := make([]string, len(s))
	for i, p := range s {
		words[i] = p.Model.Name()
		if p.Weight != One {
			words[i] = strconv.FormatFloat(float64(p.Weight)/One, 'f', -1, 64) + " " + words[i]
		}
	}
	return strings.Join(words, " + ")
}

// add sums up a price of every part.
func (s Sum) add(price func(costmodels.Model) flowgraph.Cost) flowgraph.Cost {
	sum := flowgraph.Cost(0)
	for _, p := range s {
		sum += weigh(price(p.Model), p.Weight)
	}
	return min(sum, costmodels.MaxPrice)
}

func weigh(price flowgraph.Cost, weight int64) flowgraph.Cost {
	if price >= costmodels.MaxPrice {
		return costmodels.MaxPrice // a bar, whatever the weight
	}
	return price * flowgraph.Cost(weight) / One
}

// Wait returns the sum. MaxPrice is no bar here, but what waiting for long comes to.
func (s Sum) Wait(r *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	sum := flowgraph.Cost(0)
	for _, p := range s {
		sum += p.Model.Wait(r, c) * flowgraph.Cost(p.Weight) / One
	}
	return min(max(1, sum), costmodels.MaxPrice)
}

// Start returns the sum.
func (s Sum) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	return s.add(func(m costmodels.Model) flowgraph.Cost { return m.Start(r, q, h) })
}

// Items returns the terms of the parts, with their weights.
func (s Sum) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) []costmodels.Term {
	var all []costmodels.Term
	for _, p := range s {
		so := flowgraph.Cost(0) // far of the part, so that what is rounded is rounded once
		for _, t := range costmodels.Items(p.Model, r, q, h) {
			price := weigh(so+t.Price, p.Weight) - weigh(so, p.Weight)
			all, so = append(all, costmodels.Term{Name: t.Name, Price: price}), so+t.Price
		}
	}
	return all
}

// Crowd returns the sum: it does not fall if no part does.
func (s Sum) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	return s.add(func(m costmodels.Model) flowgraph.Cost { return m.Crowd(r, h, k) })
}

// Locality returns the sum, place by place. A host that one part names and another does not has there the price of its
// rack or of elsewhere.
func (s Sum) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	var parts []costmodels.Locality
	var weights []int64
	for _, p := range s {
		if l, ok := p.Model.(costmodels.Localizer); ok {
			parts, weights = append(parts, l.Locality(r, c)), append(weights, p.Weight)
		}
	}
	add := func(price func(*costmodels.Locality) flowgraph.Cost) flowgraph.Cost {
		sum := flowgraph.Cost(0)
		for i := range parts {
			sum += weigh(price(&parts[i]), weights[i])
		}
		return min(sum, costmodels.MaxPrice)
	}
	total := costmodels.Locality{Elsewhere: add(func(l *costmodels.Locality) flowgraph.Cost { return l.Elsewhere })}
	racks, hosts := places(parts)
	for _, rack := range racks {
		price := add(func(l *costmodels.Locality) flowgraph.Cost { return inRack(l, rack) })
		total.Racks = append(total.Racks, costmodels.RackPrice{Rack: rack, Price: price})
	}
	for _, id := range hosts {
		rack := r.RackOf(id)
		price := add(func(l *costmodels.Locality) flowgraph.Cost { return onHost(l, id, rack) })
		total.Hosts = append(total.Hosts, costmodels.HostPrice{Host: id, Price: price})
	}
	return total
}

// Localizes reports whether a part does; see [costmodels.Localizes].
func (s Sum) Localizes() bool {
	return slices.ContainsFunc(s, func(p Part) bool { return costmodels.Localizes(p.Model) })
}

// Moves reports whether a part moves running tasks.
func (s Sum) Moves() bool { return slices.ContainsFunc(s, func(p Part) bool { return moves(p.Model) }) }

func moves(m costmodels.Model) bool {
	mover, ok := m.(costmodels.Mover)
	return ok && mover.Moves()
}

// Move returns the sum over the parts that move running tasks.
func (s Sum) Move(r *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if !s.Moves() {
		return costmodels.MaxPrice
	}
	return s.add(func(m costmodels.Model) flowgraph.Cost {
		if !moves(m) {
			return 0
		}
		return m.(costmodels.Mover).Move(r, c, ran)
	})
}

// places returns the racks and hosts that any part names, sorted.
func places(parts []costmodels.Locality) (racks []string, hosts []cluster.HostID) {
	for i := range parts {
		for _, p := range parts[i].Racks {
			racks = append(racks, p.Rack)
		}
		for _, p := range parts[i].Hosts {
			hosts = append(hosts, p.Host)
		}
	}
	slices.Sort(racks)
	slices.Sort(hosts)
	return slices.Compact(racks), slices.Compact(hosts)
}

func inRack(l *costmodels.Locality, rack string) flowgraph.Cost {
	for _, p := range l.Racks {
		if p.Rack == rack && rack != "" {
			return p.Price
		}
	}
	return l.Elsewhere
}

func onHost(l *costmodels.Locality, id cluster.HostID, rack string) flowgraph.Cost {
	for _, p := range l.Hosts {
		if p.Host == id {
			return p.Price
		}
	}
	return inRack(l, rack)
}

// Binding is a model for the classes of a pool and those below it, of a type of job, or of both.
type Binding struct {
	Pool  cluster.PoolPath // "": any
	Type  cluster.JobType
	Typed bool // Type counts
	Model costmodels.Model
}

// name returns the binding as the configuration spells it.
func (b *Binding) name() string {
	target := string(b.Pool)
	if b.Typed {
		target = strings.TrimPrefix(target+":"+strings.ToLower(b.Type.String()), ":")
	}
	return target + " = " + b.Model.Name()
}

func (b *Binding) covers(pool cluster.PoolPath, kind cluster.JobType) bool {
	return (!b.Typed || b.Type == kind) && (b.Pool == "" || b.Pool.Covers(pool))
}

// Choice gives every class the model of the most particular binding that covers it: the deepest pool, then one that names
// the type. Crowding is a matter of the host, where all meet, and is priced by the model of the whole cluster.
type Choice struct {
	base     costmodels.Model
	bindings []Binding // the most particular first
}

var (
	_ costmodels.Router = (*Choice)(nil)
	_ costmodels.Mover  = (*Choice)(nil)
)

// NewChoice returns a model that is base wherever no binding covers the class. The bindings differ in what they cover.
func NewChoice(base costmodels.Model, bindings []Binding) *Choice {
	c := &Choice{base: base, bindings: slices.Clone(bindings)}
	depth := func(b *Binding) int {
		if b.Pool == "" {
			return 0
		}
		return 1 + strings.Count(string(b.Pool), "/")
	}
	slices.SortStableFunc(c.bindings, func(a, b Binding) int {
		typed := cmp.Compare(boolean(b.Typed), boolean(a.Typed))
		return cmp.Or(cmp.Compare(depth(&b), depth(&a)), typed)
	})
	return c
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Name returns the base and the bindings as the configuration spells them.
func (c *Choice) Name() string {
	words := []string{c.base.Name()}
	for i := range c.bindings {
		words = append(words, c.bindings[i].name())
	}
	return strings.Join(words, "; ")
}

// Route returns 0 for the base, else the number of the binding, from 1.
func (c *Choice) Route(pool cluster.PoolPath, kind cluster.JobType) int {
	return 1 + slices.IndexFunc(c.bindings, func(b Binding) bool { return b.covers(pool, kind) })
}

func (c *Choice) model(route int) costmodels.Model {
	if route <= 0 || route > len(c.bindings) {
		return c.base
	}
	return c.bindings[route-1].Model
}

// Wait asks the model of the class.
func (c *Choice) Wait(r *costmodels.Round, k *costmodels.Class) flowgraph.Cost {
	return c.model(k.Route).Wait(r, k)
}

// Start asks the model of the class.
func (c *Choice) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	return c.model(q.Route).Start(r, q, h)
}

// Items asks the model of the class.
func (c *Choice) Items(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) []costmodels.Term {
	return costmodels.Items(c.model(q.Route), r, q, h)
}

// Crowd asks the base.
func (c *Choice) Crowd(r *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	return c.base.Crowd(r, h, k)
}

// Locality asks the model of the class, if it cares.
func (c *Choice) Locality(r *costmodels.Round, k *costmodels.Class) costmodels.Locality {
	if l, ok := c.model(k.Route).(costmodels.Localizer); ok {
		return l.Locality(r, k)
	}
	return costmodels.Locality{}
}

// Localizes reports whether one of the models does; see [costmodels.Localizes].
func (c *Choice) Localizes() bool {
	return costmodels.Localizes(c.base) || slices.ContainsFunc(c.bindings, func(b Binding) bool { return costmodels.Localizes(b.Model) })
}

// Moves reports whether one of the models moves running tasks.
func (c *Choice) Moves() bool {
	return moves(c.base) || slices.ContainsFunc(c.bindings, func(b Binding) bool { return moves(b.Model) })
}

// Move asks the model of the class.
func (c *Choice) Move(r *costmodels.Round, k *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if m := c.model(k.Route); moves(m) {
		return m.(costmodels.Mover).Move(r, k, ran)
	}
	return costmodels.MaxPrice
}
