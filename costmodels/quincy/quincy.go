// Package quincy runs tasks where their data is.
//
// Intent: moving data costs time and network, so a task goes to the host that holds its input, else to a rack that does,
// and waits a while for such a place before it goes elsewhere.
//
//	read(c, h) = Psi · GB(c in h's rack, not on h) + Xi · GB(c in other racks only)
//	wait(c)    = 1 + Second · 2^(stage−1)            a step function of the time waited
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
// of the input, and so is a rack. Running tasks do not move, so the term for time already run has nothing to price.
//
// Source: M. Isard et al., "Quincy: Fair Scheduling for Distributed Computing Clusters", SOSP 2009, section 4 and
// appendix, doi:10.1145/1629575.1629601. We differ in that waiting is a step function, so that a quiet cluster costs
// nothing, and in that priority weighs it.
package quincy

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula.
const (
	Psi    = 2000 // milliseconds a GB through a rack switch
	Xi     = 4000 // milliseconds a GB through the core switch
	Second = 1000 // milliseconds a second of waiting
	Delta  = 10   // a place is preferred from one Delta-th of the input on

	gb = 1_000_000_000
)

// Model is the policy. The zero value is ready for use.
type Model struct{}

var _ costmodels.Localizer = Model{}

// Name returns "quincy".
func (Model) Name() string { return "quincy" }

// Wait returns what the time waited so far is worth.
func (Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	waited := flowgraph.Cost(1)
	if c.Stage > 0 {
		waited += Second << min(c.Stage-1, 20)
	}
	return min(waited*flowgraph.Cost(c.Priority+1), costmodels.MaxPrice)
}

// Start returns 0: only data decides.
func (Model) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost { return 0 }

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// Locality returns the price of reading the inputs from anywhere, from the preferred racks and on the preferred hosts.
// Complexity: O(replicas · log replicas).
func (Model) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	total, onHost, inRack := tally(r, c.Inputs)
	if total == 0 {
		return costmodels.Locality{}
	}
	l := costmodels.Locality{Elsewhere: price(total, Xi)}
	for _, rack := range slices.Sorted(maps.Keys(inRack)) {
		if near := inRack[rack]; near >= total/Delta {
			cost := min(price(near, Psi)+price(total-near, Xi), l.Elsewhere)
			l.Racks = append(l.Racks, costmodels.RackPrice{Rack: rack, Price: cost})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(onHost)) {
		if here := onHost[id]; here >= total/Delta {
			near := max(here, inRack[r.RackOf(id)])
			cost := min(price(near-here, Psi)+price(total-near, Xi), l.Elsewhere)
			l.Hosts = append(l.Hosts, costmodels.HostPrice{Host: id, Price: cost})
		}
	}
	return l
}

// tally sums the bytes of all inputs, of those with a replica on each host, and of those with one in each rack.
func tally(r *costmodels.Round, inputs []cluster.Input) (total int64, onHost map[cluster.HostID]int64, inRack map[string]int64) {
	onHost, inRack = map[cluster.HostID]int64{}, map[string]int64{}
	for _, in := range inputs {
		total = min(total+in.Bytes, cluster.MaxAmount)
		hosts, racks := slices.Clone(in.Hosts), slices.Clone(in.Racks)
		slices.Sort(hosts)
		for _, h := range slices.Compact(hosts) {
			onHost[h] += in.Bytes
			if rack := r.RackOf(h); rack != "" {
				racks = append(racks, rack)
			}
		}
		slices.Sort(racks)
		for _, rack := range slices.Compact(racks) {
			inRack[rack] += in.Bytes
		}
	}
	for h, bytes := range onHost {
		onHost[h] = min(bytes, total)
	}
	for rack, bytes := range inRack {
		inRack[rack] = min(bytes, total)
	}
	return total, onHost, inRack
}

// price returns the milliseconds of moving the bytes at a rate per GB, rounded up, saturating.
func price(bytes int64, perGB int64) flowgraph.Cost {
	if bytes >= int64(costmodels.MaxPrice)/perGB*gb {
		return costmodels.MaxPrice
	}
	whole, rest := bytes/gb, bytes%gb
	return flowgraph.Cost(whole*perGB + (rest*perGB+gb-1)/gb)
}
