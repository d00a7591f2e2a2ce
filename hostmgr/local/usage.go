//go:build linux

package local

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// meter remembers what a run had used when its usage was last reported.
type meter struct {
	used time.Duration // of processors
	at   time.Time
}

// tick is the unit of processor time in /proc: the kernel shows hundredths of a second on all architectures.
const tick = 10 * time.Millisecond

// reportUsage reports the usage of all runs together, every now and then, from one look at all processes, and continues supervisors that
// stand still.
func (d *driver) reportUsage() {
	ticker := time.NewTicker(d.config.UsageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-ticker.C:
		}
		running := d.running()
		if len(running) == 0 {
			continue
		}
		all, err := processes()
		if err != nil {
			d.config.Log.Warn("usage cannot be measured", "error", err)
			continue
		}
		d.resume(running, all)
		usage := usageOf(running, all, time.Now())
		d.reporting.RLock()
		if d.sink != nil && len(usage) > 0 {
			d.sink.ReportUsage(usage)
		}
		d.reporting.RUnlock()
	}
}

// resume continues supervisors that were stopped, as by their tasks: one that stands still reads no output, checks no health, and records
// no end.
func (d *driver) resume(running map[int]*run, all []process) {
	for _, p := range all {
		r := running[p.pid]
		if r == nil || !p.stopped {
			continue
		}
		d.config.Log.Warn("the supervisor of a run was stopped, and is continued", "run", r.id)
		d.mu.Lock()
		supervisor := r.supervisor
		d.mu.Unlock()
		if supervisor != nil {
			supervisor.wake()
		}
	}
}

// running returns the runs with a supervisor, by its process id.
func (d *driver) running() map[int]*run {
	d.mu.Lock()
	defer d.mu.Unlock()
	runs := map[int]*run{}
	for _, r := range d.runs {
		if r.supervisor != nil {
			runs[r.supervisor.pid] = r
		}
	}
	return runs
}

// consumption is what the processes of a run use together.
type consumption struct {
	used   time.Duration
	memory int64
}

// usageOf measures runs since their meters were last read, and reads the meters. A run that is seen for the first time
// gets its usage with the next report. It leaves out the network: the runs share the interfaces of the machine, which count
// for all together. Complexity: O(processes).
func usageOf(runs map[int]*run, all []process, at time.Time) (usage []hostmgr.Usage) {
	for pid, c := range consume(runs, all) {
		r := runs[pid]
		if g := r.cgroup; g != nil {
			c.used = time.Duration(g.value("cpu.stat", "usage_usec")) * time.Microsecond
			c.memory = g.value("memory.current", "")
		}
		r.told.read(filepath.Join(r.dir, progressFile), at)
		before := r.meter
		r.meter = meter{c.used, at}
		if before.at.IsZero() || !at.After(before.at) {
			continue
		}
		u := hostmgr.Usage{Run: r.id, Progress: r.told.last}
		u.Used.Fixed[cluster.CPU] = max(0, int64(c.used-before.used)*1000/int64(at.Sub(before.at)))
		u.Used.Fixed[cluster.Memory] = c.memory
		usage = append(usage, u)
	}
	return usage
}

// consume sums the processes of each run, which are the descendants of its supervisor: whatever a task starts in
// whatever session stays below it. What has ended is in the account of whoever has waited for it. Memory that processes
// share counts once for each.
func consume(runs map[int]*run, all []process) map[int]consumption {
	byPID := make(map[int]process, len(all))
	for _, p := range all {
		byPID[p.pid] = p
	}
	supervisor := make(map[int]int, len(all)) // of a process; 0 if it belongs to no run
	var find func(pid int) int
	find = func(pid int) int {
		if known, ok := supervisor[pid]; ok {
			return known
		}
		supervisor[pid] = 0 // ends the search should the parents, read at different moments, form a circle
		if _, ok := runs[pid]; ok {
			supervisor[pid] = pid
		} else if p, ok := byPID[pid]; ok && p.parent != 0 {
			supervisor[pid] = find(p.parent)
		}
		return supervisor[pid]
	}
	sums := map[int]consumption{}
	page := int64(os.Getpagesize())
	for _, p := range all {
		s := find(p.pid)
		if s == 0 {
			continue
		}
		sum := sums[s]
		sum.used += time.Duration(p.reaped) * tick
		if p.pid != s {
			sum.used += time.Duration(p.ticks) * tick
			sum.memory += p.pages * page
		}
		sums[s] = sum
	}
	return sums
}
