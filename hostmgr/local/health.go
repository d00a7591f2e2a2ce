//go:build linux

package local

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// healthInterval is how often the driver looks whether a supervisor has written something new about the health of its
// run. Only runs with checks are looked at.
const healthInterval = 250 * time.Millisecond

// checked reports whether a task has checks.
func checked(task *cluster.TaskSpec) bool {
	for i := range task.Processes {
		if len(task.Processes[i].Checks) > 0 {
			return true
		}
	}
	return false
}

// reportHealth passes on what supervisors find out. A driver that has just been started tells it anew.
func (d *driver) reportHealth() {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-ticker.C:
		}
		for _, r := range d.runningWithChecks() {
			d.lookAtHealth(r)
		}
	}
}

func (d *driver) runningWithChecks() []*run {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*run
	for _, r := range d.runs {
		if r.checked && r.status.State == cluster.TaskRunning {
			all = append(all, r)
		}
	}
	return all
}

func (d *driver) lookAtHealth(r *run) {
	health, err := readRecord[healthRecord](r.dir, healthFile)
	if err != nil || health == nil || *health == r.health { // a record that is damaged will be replaced, or never was one
		return
	}
	d.reporting.RLock()
	defer d.reporting.RUnlock()
	if d.sink != nil {
		r.health = *health
		d.sink.ReportHealth(hostmgr.Health{Run: r.id, Health: health.Health, Message: health.Message, At: health.At})
	}
}
