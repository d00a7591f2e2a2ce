// Package knowledge answers what earlier runs teach: how long work runs, what it uses, which hosts and which company suit
// it, and where images are. What was learned is part of the State (cluster.Work, cluster.ImageHosts), so that it is as durable
// as the rest; what runs now and is measured comes from outside. Cost models ask through costmodels.Knowledge.
package knowledge

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// MinRuns is how many runs it takes until they are believed.
const MinRuns = 3

// Base is what was known at one moment. It does not change and may be read from any number of goroutines.
type Base struct {
	lessons uint64
	works   map[string]*cluster.Work
	images  map[string][]cluster.HostID
	usage   Usage
}

// RunTime returns the median run time of the work.
func (b *Base) RunTime(work string) (time.Duration, bool) { return b.RunTimeWithin(work, 500) }

// RunTimeWithin returns the run time that a part of the runs of the work, in thousandths, did not exceed.
func (b *Base) RunTimeWithin(work string, permille int) (time.Duration, bool) {
	w := b.works[work]
	if w == nil || w.Runs() < MinRuns {
		return 0, false
	}
	return w.RunTime(permille), true
}

// Usage returns the peak of what a task of the work uses, false where no run was measured.
func (b *Base) Usage(work string) (cluster.Resources, bool) {
	w := b.works[work]
	if w == nil || w.Peak.IsZero() {
		return cluster.Resources{}, false
	}
	return w.Peak, true
}

// Used returns what the tasks on the host use, false where nothing was measured.
func (b *Base) Used(h cluster.HostID) (cluster.Resources, bool) {
	u, ok := b.usage[h]
	return u, ok
}

// Holders returns the hosts that have the image, as far as that is known. The caller must not modify them.
func (b *Base) Holders(image string) []cluster.HostID { return b.images[image] }

// Pace returns how many thousandths of its run time alone on its best kind of host the work needs on hosts of the given
// kind, beside one task of the company, "" for none. Complexity: O(pairs of the work).
func (b *Base) Pace(work, kind, company string) (int64, bool) {
	w := b.works[work]
	if w == nil {
		return 0, false
	}
	best := int64(0)
	for i := range w.Pairs {
		if p := &w.Pairs[i]; p.Company == "" && p.Runs >= MinRuns && (best == 0 || p.Milli < best) {
			best = p.Milli
		}
	}
	alone := w.Pair(kind, "")
	if best <= 0 || alone == nil || alone.Runs < MinRuns {
		return 0, false
	}
	took := alone.Milli
	if company != "" {
		p := w.Pair(kind, company)
		if p == nil || p.Runs < MinRuns {
			return 0, false
		}
		took = max(0, took+p.Milli)
	}
	return took * 1000 / best, true
}

// Feed decides when what is known has changed enough to be told: every new Base has all prices worked out anew. The zero
// value tells every change.
type Feed struct {
	Interval time.Duration // between two that differ
	asked    cluster.Time  // when it last looked
	last     *Base
}

// Next returns what is known: the Base of the last call where nothing was learned and measured since, or too little time
// has passed. measure is only called when enough has; nil measures nothing. Complexity: O(kinds of work and images) for a new one.
func (f *Feed) Next(snap *cluster.Snapshot, now cluster.Time, measure func() Usage) *Base {
	last := f.last
	if since := now.Sub(f.asked); last != nil && since >= 0 && since < f.Interval {
		return last
	}
	f.asked = now
	var usage Usage
	if measure != nil {
		usage = measure()
	}
	if last != nil && last.lessons == snap.Lessons() && same(last.usage, usage) {
		return last
	}
	f.last = &Base{lessons: snap.Lessons(), works: map[string]*cluster.Work{}, images: map[string][]cluster.HostID{}, usage: usage}
	for w := range snap.Works() {
		f.last.works[w.Name] = w
	}
	for x := range snap.Images() {
		f.last.images[x.Name] = x.Hosts
	}
	return f.last
}

func same(a, b Usage) bool {
	if len(a) != len(b) {
		return false
	}
	for h, u := range a { // in any order: a comparison
		if v, ok := b[h]; !ok || !v.Equal(u) {
			return false
		}
	}
	return true
}
