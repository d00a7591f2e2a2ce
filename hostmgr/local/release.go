//go:build linux

package local

import (
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Release implements [hostmgr.Driver]. The run's folder moves to those that are kept for their logs. A run that has not
// ended is not released.
func (d *driver) Release(id cluster.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil || !r.status.State.Terminal() || d.ctx.Err() != nil {
		return
	}
	// Not synced: after a crash of the machine the run is known again, and is released again.
	if d.gone(r) {
		delete(d.runs, id)
		return
	}
	if err := os.Rename(r.dir, d.state.releasedRun(id.String())); err != nil {
		d.config.Log.Warn("a released run stays", "run", id, "error", err)
		return
	}
	delete(d.runs, id)
	ended := min(r.status.At, now()) // its time is not before its start's, though the clock was set back between the two
	d.released[id] = &kept{id: id, ended: ended, bytes: -1}
	select {
	case d.dropping <- struct{}{}:
	default:
	}
}

// janitor removes the folders that the retention does not keep.
func (d *driver) janitor() {
	tick := time.NewTicker(janitorInterval)
	defer tick.Stop()
	for {
		d.tidy(d.config.Retention)
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
			d.sweep()
		case <-d.dropping:
		}
	}
}

// sweep removes what could not be removed when it was to go, as while the machine was out of files. Of that it was logged then.
func (d *driver) sweep() {
	d.tidying.Lock()
	defer d.tidying.Unlock()
	d.mu.Lock()
	_ = d.sweepSecrets()
	folders := d.remains()
	d.mu.Unlock()
	for _, folder := range folders {
		_ = removeAll(folder)
	}
}

// remains returns what is left of folders that were being removed, and of launches that were not recorded: nobody is at work on these.
// The caller holds the mutex, so that none of these is launched, and tidying.
func (d *driver) remains() (folders []string) {
	entries, _ := os.ReadDir(d.state.temp(""))
	for _, e := range entries {
		folder := d.state.temp(e.Name())
		if id, err := cluster.ParseRunID(e.Name()); err == nil && d.runs[id] == nil {
			to := d.state.temp(removedPrefix + rand.Text())
			if os.Rename(folder, to) == nil {
				folders = append(folders, to)
			}
		} else if strings.HasPrefix(e.Name(), removedPrefix) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// removedPrefix is what the names of folders in tmp begin with that are being removed.
const removedPrefix = "removed-"

// tidy removes the folders that a retention does not keep, and returns how many.
func (d *driver) tidy(keep Retention) int {
	d.tidying.Lock()
	defer d.tidying.Unlock()
	d.measureKept()
	folders := d.drop(keep)
	for _, folder := range folders {
		if err := removeAll(folder); err != nil {
			d.config.Log.Warn("a folder could not be removed, trying again", "error", err)
		}
	}
	return len(folders)
}

// thin removes the older half of what is kept, and reports whether there was anything.
func (d *driver) thin() bool {
	keep := d.config.Retention
	d.mu.Lock()
	keep.Runs = len(d.released) / 2
	d.mu.Unlock()
	gone := d.tidy(keep)
	if gone > 0 {
		d.config.Log.Warn("the disk is full: the oldest ended runs are not kept any longer", "runs", gone)
	}
	return gone > 0
}

// measureKept finds the sizes of the folders that were added. One that takes more than all may loses what the task has left in it: its
// output, and that of all others, would go at once.
func (d *driver) measureKept() {
	d.mu.Lock()
	var added []cluster.RunID
	for id, k := range d.released {
		if k.bytes < 0 {
			added = append(added, id)
		}
	}
	d.mu.Unlock()
	for _, id := range added {
		dir := d.state.releasedRun(id.String())
		bytes := size(dir)
		if bytes > d.config.Retention.Bytes {
			if err := errors.Join(removeAll(filepath.Join(dir, workFolder)), removeAll(filepath.Join(dir, tempFolder))); err != nil {
				d.config.Log.Warn("what a run has left stays", "run", id, "error", err)
			}
			bytes = size(dir)
		}
		d.mu.Lock()
		d.released[id].bytes = bytes
		d.mu.Unlock()
	}
}

// drop takes what a retention does not keep away from the kept runs and returns the folders to remove.
func (d *driver) drop(keep Retention) (folders []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Collect(maps.Values(d.released))
	all = slices.DeleteFunc(all, func(k *kept) bool { return k.bytes < 0 }) // come next time
	for _, k := range keep.surplus(all, now()) {
		// A RunID may come back when nothing is known of it any more, so its name alone is not enough.
		to := d.state.temp(removedPrefix + rand.Text())
		if err := os.Rename(d.state.releasedRun(k.id.String()), to); err != nil {
			d.config.Log.Warn("a kept run stays", "run", k.id, "error", err)
			continue
		}
		delete(d.released, k.id)
		folders = append(folders, to)
	}
	return folders
}
