package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// host is a machine of the world.
type host struct {
	hostmgr.Host
	dead   bool // it has crashed and is not back
	cutOff bool // nobody sees it; what it runs goes on

	running []*run // where there is interference: what runs on it, in the order in which it began
}

// Crash ends a host with all that it runs.
func (f *Fleet) Crash(name string) error {
	return f.change(named(name), func(h *host) {
		h.dead = true
		for _, r := range f.sortedRuns() {
			if r.host == h && !r.truth.State.Terminal() {
				f.end(r, cluster.TaskLost, -1, 0, cluster.ReasonHostLost, "its host crashed")
			}
		}
	})
}

// Return brings a host that has crashed back, empty.
func (f *Fleet) Return(name string) error {
	return f.change(named(name), func(h *host) { h.dead = false })
}

// CutOff makes a host invisible. It goes on with what it runs; kills reach it when it is found again.
func (f *Fleet) CutOff(name string) error {
	return f.change(named(name), func(h *host) { h.cutOff = true })
}

// Heal makes a host visible again, and what happened meanwhile known.
func (f *Fleet) Heal(name string) error { return f.change(named(name), f.heal) }

// CutOffRack cuts off all hosts of a rack at once.
func (f *Fleet) CutOffRack(rack string) error {
	return f.change(inRack(rack), func(h *host) { h.cutOff = true })
}

// HealRack heals all hosts of a rack at once.
func (f *Fleet) HealRack(rack string) error { return f.change(inRack(rack), f.heal) }

func named(name string) func(*host) bool  { return func(h *host) bool { return h.Name == name } }
func inRack(rack string) func(*host) bool { return func(h *host) bool { return h.Rack == rack } }

// change changes the hosts that are picked, and has the list of hosts reported. There must be one at least.
func (f *Fleet) change(pick func(*host) bool, change func(*host)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := false
	for _, h := range f.hosts {
		if pick(h) {
			found = true
			change(h)
		}
	}
	if !found {
		return fmt.Errorf("%w or rack", hostmgr.ErrUnknownHost)
	}
	if d := f.driver; d != nil {
		f.clock.AfterFunc(0, func() {
			d.deliver(func(sink hostmgr.Sink) { sink.ReportHosts(f.visible()) })
		})
	}
	return nil
}

func (f *Fleet) heal(h *host) {
	if !h.cutOff {
		return
	}
	h.cutOff = false
	for _, r := range f.sortedRuns() {
		if r.host != h {
			continue
		}
		f.learn(r)
		f.tell(r)
		if r.ordered {
			r.ordered = false
			f.kill(r, r.grace)
		}
	}
}

// visible lists the hosts that a driver sees.
func (f *Fleet) visible() []hostmgr.Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	hosts := make([]hostmgr.Host, 0, len(f.hosts))
	for _, h := range f.hosts {
		if !h.dead && !h.cutOff {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// sortedRuns returns all runs by id. Complexity: O(n log n).
func (f *Fleet) sortedRuns() []*run {
	return slices.SortedFunc(maps.Values(f.runs), func(a, b *run) int { return a.launch.Run.Compare(b.launch.Run) })
}
