// Package delay lets tasks wait a little for their data.
//
// Intent: slots free up all the time, so a task that waits a few seconds for a host with its data gets one more often
// than not, and loses less than it would by reading from afar. It accepts only a host with the data at first, a rack with
// it after HostWait, and any place after RackWait more.
//
//	place(c, h) = 0 on a host with a Share of the input, Near in a rack with it, Zone in a zone with it, Far elsewhere
//	wait(c)     = Near/2 ──HostWait──► (Near + Far)/2 ──HostWait + RackWait──► costmodels.Patience(c)
//	start, crowd = 0
//
//	price   Far  ┤                        ┌──── wait
//	             ┤          ┌─────────────┘
//	        Near ┤          │
//	             ┤──────────┘
//	             └──────────┴─────────────┴────► time waited
//	              host only   or the rack   anywhere
//
// Unit: milliseconds of expected delay; only the order of these prices matters here. Times of waiting are known in powers
// of two of a second, so a threshold is reached at the next power of two. Work without input starts at once. Priority
// decides only once any place will do. A job may have thresholds of its own (locality.host_wait and rack_wait).
//
// Source: M. Zaharia et al., "Delay Scheduling: A Simple Technique for Achieving Locality and Fairness in Cluster
// Scheduling", EuroSys 2010, section 4, doi:10.1145/1755913.1755940. There a job skips its turn; here its tasks wait in
// the flow, each class by itself, and others take the slot.
//
// Configuration: cost_model: delay(host_wait=4s, rack_wait=12s)
package delay

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// The constants of the formula.
const (
	Near     = 1 << 12
	Zone     = Far * 3 / 4 // the better of the places that are taken when any will do
	Far      = 1 << 16
	HostWait = 4 * time.Second
	RackWait = 12 * time.Second
	Share    = 2 // a place has the data if it holds one Share-th of the input
)

// maxWait bounds a wait, so that sums of two are exact.
const maxWait = 365 * 24 * time.Hour

// Model is the policy. The zero value is ready for use: a field that is zero has the value of the constant.
type Model struct {
	HostWait time.Duration // how long only hosts with the data will do
	RackWait time.Duration // how long after that only racks with it will do
	Share    int64
}

var _ costmodels.Localizer = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.HostWait < 0 || m.RackWait < 0 || m.Share < 0 {
		return errors.New("host_wait, rack_wait and share must be positive")
	}
	if max(m.HostWait, m.RackWait) > maxWait {
		return fmt.Errorf("host_wait and rack_wait must be at most %v", maxWait)
	}
	return nil
}

// Name returns "delay".
func (Model) Name() string { return "delay" }

// Wait returns what the class would pay for a place now.
func (m Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	host, rack := cmp.Or(m.HostWait, HostWait), cmp.Or(m.RackWait, RackWait)
	if c.HostWait != nil {
		host = *c.HostWait
	}
	if c.RackWait != nil {
		rack = *c.RackWait
	}
	switch {
	case c.Stage < stage(host):
		return Near / 2
	case c.Stage < stage(host+rack):
		return (Near + Far) / 2
	default:
		return costmodels.Patience(c)
	}
}

// stage returns the first stage in which at least d has been waited.
func stage(d time.Duration) int {
	seconds := (d + time.Second - 1) / time.Second
	if seconds <= 0 {
		return 0
	}
	return bits.Len64(uint64(seconds-1)) + 1
}

// Start returns 0.
func (Model) Start(*costmodels.Round, *costmodels.Request, *cluster.Host) flowgraph.Cost { return 0 }

// Crowd returns 0.
func (Model) Crowd(*costmodels.Round, *cluster.Host, int64) flowgraph.Cost { return 0 }

// Locality returns nothing for hosts with the data, Near for their racks and Far for all others.
func (m Model) Locality(r *costmodels.Round, c *costmodels.Class) costmodels.Locality {
	data := costmodels.Replicas(r, c.Inputs)
	if data.Total == 0 {
		return costmodels.Locality{}
	}
	enough := max(1, data.Total/cmp.Or(m.Share, Share))
	l := costmodels.Locality{Elsewhere: Far}
	for _, rack := range data.Racks {
		switch {
		case rack.Bytes >= enough:
			l.Racks = append(l.Racks, costmodels.RackPrice{Rack: rack.Rack, Price: Near})
		case rack.InZone >= enough:
			l.Racks = append(l.Racks, costmodels.RackPrice{Rack: rack.Rack, Price: Zone})
		}
	}
	for _, host := range data.Hosts {
		switch {
		case host.Bytes >= enough:
			l.Hosts = append(l.Hosts, costmodels.HostPrice{Host: host.Host})
		case host.InRack < enough && host.InZone >= enough: // else its rack says the same
			l.Hosts = append(l.Hosts, costmodels.HostPrice{Host: host.Host, Price: Zone})
		}
	}
	return l
}
