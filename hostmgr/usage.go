package hostmgr

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// usageBox holds the latest usage of every run. What is not sent before newer numbers come is never sent: a report names all
// runs that live, so nothing is missed that still matters.
type usageBox struct {
	wake chan struct{} // has an element when take returns something new

	mu       sync.Mutex
	runs     map[cluster.RunID]Usage
	at       time.Time // of the last put
	interval time.Duration
}

func newUsageBox() *usageBox {
	return &usageBox{wake: make(chan struct{}, 1), runs: map[cluster.RunID]Usage{}}
}

func (b *usageBox) put(usage []Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.at.IsZero() {
		b.interval = now.Sub(b.at)
	}
	b.at = now
	for _, u := range usage {
		b.runs[u.Run] = u
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns a report of all runs that live, sorted, in parts, and forgets the others: a driver may have measured them just before
// they ended.
func (b *usageBox) take(lives func(cluster.RunID) bool) []*sluicev1.BulkUp {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.runs, func(run cluster.RunID, _ Usage) bool { return !lives(run) })
	runs := make([]*sluicev1.RunUsage, 0, len(b.runs))
	for _, run := range slices.SortedFunc(maps.Keys(b.runs), cluster.RunID.Compare) {
		u := b.runs[run]
		runs = append(runs, &sluicev1.RunUsage{
			Run: runTo(run), Progress: u.Progress,
			CpuMilli: u.Used.Fixed[cluster.CPU], MemoryBytes: u.Used.Fixed[cluster.Memory],
			DiskBytes: u.Used.Fixed[cluster.Disk], NetworkBytesPerSecond: u.Used.Fixed[cluster.Network],
		})
	}
	var out []*sluicev1.BulkUp
	for part, last := range parts(runs) {
		report := &sluicev1.UsageReport{TimeUnixNs: b.at.UnixNano(), IntervalNs: int64(b.interval), Runs: part, More: !last}
		out = append(out, &sluicev1.BulkUp{Message: &sluicev1.BulkUp_Usage{Usage: report}})
	}
	return out
}
