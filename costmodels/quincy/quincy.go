// Package quincy runs tasks where their data is.
//
// Intent: moving data costs time and network, so a task goes to the host that holds its input, else to a rack that does,
// and waits a while for such a place before it goes elsewhere.
//
//	read(c, h) = Psi · GB(c in h's rack, not on h) + Zone · GB(c in h's zone only) + Xi · GB(c elsewhere only)
//	wait(c)    = 1 + Second · 2^(stage−1)            a step function of the time waited
//	move(c)    = Theta · seconds that it has run     where running tasks may move
//	start, crowd = 0
//
//	         ┌── read(c, h) ──► preferred host ─┐
//	class ───┼── read(c, r) ──► hosts of rack r ─┼──► sink
//	         ├── worst case ──► any other host ─┘
//	         └── wait ──────────────────────────────► sink
//
// Unit: milliseconds of expected delay. Quincy prices in units of one GB through a rack switch, and a second of waiting
// at ω = 0.5 of them. A second of waiting is 1000 ms here, so its unit is 2000 ms: ψ = 1 and ξ = 2 become Psi and Xi.
// A rack's price is that of its worst host, where nothing is local; a host is preferred when it holds at least δ = 1/10
// of the input, and so is a rack. Data that is said to be in a zone, as in a store there, costs Zone on its hosts, which lies
// between.
//
// An image of known size is one more input: it is on the hosts on which tasks in it run or ran, as far as that is known, and one
// that none is known to have does not count. That the rack of such a host is nearer is true where hosts fetch from each other or
// from a mirror in the rack; elsewhere the price of an image there is too low, by half.
//
// The paper has four policies, with and without preemption and fair sharing. Fair sharing is the order of the pool: FAIR_JOBS
// or PRIORITY_FIFO. Preemption is Theta: with it, a task may have the place of a running one that can run elsewhere, if both
// together are better off, what is lost included. It is measured against waiting, which Second prices: at 1000 only those move who
// began after the other came. Without it, 0, running tasks stay where they are, save for those that their pools have to give up.
//
// Configuration: cost_model: quincy(psi=2000, zone=3000, xi=4000, second=1000, delta=10, theta=100)
//
// Source: M. Isard et al., "Quincy: Fair Scheduling for Distributed Computing Clusters", SOSP 2009, section 4 and
// appendix, doi:10.1145/1629575.1629601. We differ in that waiting is a step function, so that a quiet cluster costs
// nothing, in that priority weighs it and what a move loses, and in that a running task moves only for another one.
package quincy

import (
	"cmp"
	"errors"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula.
const (
	Psi    = 2000 // milliseconds a GB through a rack switch
	Zone   = 3000 // milliseconds a GB from somewhere in the zone
	Xi     = 4000 // milliseconds a GB through the core switch
	Second = 1000 // milliseconds a second of waiting
	Delta  = 10   // a place is preferred from one Delta-th of the input on

	gb = 1_000_000_000
)

// Model is the policy. The zero value is ready for use: a field that is zero has the value of the constant.
type Model struct {
	Psi, Zone, Xi, Second flowgraph.Cost
	Delta                 int64
	Theta                 flowgraph.Cost // milliseconds lost for each second that a task ran that is moved; 0: none is
}

var _ costmodels.Mover = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.Psi < 0 || m.Zone < 0 || m.Xi < 0 || m.Second < 0 || m.Delta < 0 || m.Theta < 0 {
		return errors.New("psi, zone, xi, second, delta and theta must be positive")
	}
	if p := m.prices(); p.Psi > p.Zone || p.Zone > p.Xi || max(p.Xi, p.Second, p.Theta) > 1<<20 {
		return errors.New("psi must not exceed zone, nor zone xi, nor xi, second and theta 1048576")
	}
	return nil
}

// prices returns the model with every setting filled in.
func (m Model) prices() Model {
	psi, xi := cmp.Or(m.Psi, Psi), cmp.Or(m.Xi, Xi)
	zone := cmp.Or(m.Zone, min(max(psi, Zone), xi)) // between the others, however these are set
	return Model{psi, zone, xi, cmp.Or(m.Second, Second), cmp.Or(m.Delta, Delta), m.Theta}
}

// Name returns "quincy".
func (Model) Name() string { return "quincy" }

// Wait returns what the time waited so far is worth.
func (m Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	waited := flowgraph.Cost(1)
	if c.Stage > 0 {
		waited += m.prices().Second << min(c.Stage-1, 20)
	}
	return min(waited*flowgraph.Cost(c.Priority+1), costmodels.MaxPrice)
}

// Start returns 0: only data decides.
func (Model) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost { return 0 }

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// Locality returns the price of reading inputs and images from anywhere, from the preferred racks and on the preferred hosts.
// Complexity: O(replicas · log replicas).
func (m Model) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	data, p := costmodels.Replicas(r, r.Reads(c)), m.prices()
	if data.Total == 0 {
		return costmodels.Locality{}
	}
	l := costmodels.Locality{Elsewhere: price(data.Total, p.Xi)}
	for _, rack := range data.Racks {
		if rack.InZone >= data.Total/p.Delta {
			cost := min(price(rack.Bytes, p.Psi)+price(rack.InZone-rack.Bytes, p.Zone)+price(data.Total-rack.InZone, p.Xi), l.Elsewhere)
			l.Racks = append(l.Racks, costmodels.RackPrice{Rack: rack.Rack, Price: cost})
		}
	}
	for _, h := range data.Hosts {
		if h.Bytes >= data.Total/p.Delta || h.InZone > h.InRack && h.InZone >= data.Total/p.Delta {
			cost := min(price(h.InRack-h.Bytes, p.Psi)+price(h.InZone-h.InRack, p.Zone)+price(data.Total-h.InZone, p.Xi), l.Elsewhere)
			l.Hosts = append(l.Hosts, costmodels.HostPrice{Host: h.Host, Price: cost})
		}
	}
	return l
}

// Moves reports whether running tasks may move.
func (m Model) Moves() bool { return m.Theta > 0 }

// Move returns what is lost of the time that the task ran.
func (m Model) Move(_ *costmodels.Round, c *costmodels.Class, ran time.Duration) flowgraph.Cost {
	if m.Theta == 0 {
		return costmodels.MaxPrice
	}
	seconds := min(flowgraph.Cost(max(0, ran)/time.Second), costmodels.MaxPrice)
	return min(min(m.Theta*seconds, costmodels.MaxPrice)*flowgraph.Cost(c.Priority+1), costmodels.MaxPrice)
}

// price returns the milliseconds of moving the bytes at a rate per GB, rounded up, saturating.
func price(bytes int64, perGB flowgraph.Cost) flowgraph.Cost {
	if bytes >= int64(costmodels.MaxPrice)/int64(perGB)*gb {
		return costmodels.MaxPrice
	}
	whole, rest := flowgraph.Cost(bytes/gb), flowgraph.Cost(bytes%gb)
	return whole*perGB + (rest*perGB+gb-1)/gb
}
