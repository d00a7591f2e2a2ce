//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
)

// settle records the end of a run that no supervisor will record, unless one has the run after all. The lock keeps
// late supervisors away; the record keeps away those that come when the lock is free again.
func (d *driver) settle(r *run, end exitRecord) (err error) {
	lock, err := tryLock(filepath.Join(r.dir, lockFile))
	if errors.Is(err, errHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if exists(r.dir, exitFile) {
		return nil
	}
	claimed := exists(r.dir, startedFile)
	if claimed && end.State != cluster.TaskLost {
		return nil // claimed since we looked: look again
	}
	crashPoint(r.dir, "driver before settle")
	if claimed && r.boot == d.boot {
		if err := d.killLeftovers(r.dir); err != nil {
			return err
		}
	}
	if r.cgroup != nil {
		if err := r.cgroup.remove(); err != nil {
			return err
		}
	}
	if err := removeAll(filepath.Join(r.dir, scratches)); err != nil {
		d.config.Log.Warn("the scratch folders of a run stay as long as its output", "run", r.id, "error", err)
	}
	crashPoint(r.dir, "driver before settled")
	end.At = now()
	return writeRecord(r.dir, exitFile, end, synced)
}

// gone reports whether the folder of a run was removed, as by its own task. With the whole state folder it may come back.
func (d *driver) gone(r *run) bool {
	return !exists(filepath.Dir(r.dir), r.id.String()) && exists(d.state.dir, "runs")
}

// settleGone ends what is left of a run whose folder is gone, and whose supervisor could not record how it ended.
func (d *driver) settleGone(r *run) (*exitRecord, error) {
	if err := d.killLeftovers(r.dir); err != nil {
		return nil, err
	}
	if r.cgroup != nil {
		if err := r.cgroup.remove(); err != nil {
			return nil, err
		}
	}
	lost := supervisorLost("its folder is gone")
	lost.At = now()
	return &lost, nil
}

// killStrangers ends what goes on of runs whose folders were removed: nobody knows of them any more.
func (d *driver) killStrangers() error {
	all, err := processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		dir := filepath.Dir(envOf(p.pid, runDirVariable))
		if filepath.Dir(dir) != d.state.run("") || exists(filepath.Dir(dir), filepath.Base(dir)) {
			continue
		}
		if err := d.killLeftovers(dir); err != nil {
			return err
		}
	}
	return nil
}

// killLeftovers ends the processes of a run whose supervisor has died, and returns when two looks in a row have found none: one alone
// may miss a process whose parent ends while it looks.
func (d *driver) killLeftovers(dir string) error {
	started, err := readRecord[startedRecord](dir, startedFile)
	if err != nil || started == nil || started.PIDs != pidNamespace() {
		started = &startedRecord{} // died while it wrote; or its numbers mean nothing here
	}
	quiet := false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, retryPause) {
		all, err := processes()
		if err != nil {
			return err
		}
		left := leftovers(all, started.Supervisor, runDirVariable+"="+runDirValue(dir))
		if len(left) == 0 && quiet {
			return nil
		}
		quiet = len(left) == 0
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				d.config.Log.Warn("a process of a lost run cannot be killed", "process", pid, "error", err)
			}
		}
		select {
		case <-d.ctx.Done():
			return d.ctx.Err()
		case <-time.After(pause):
		}
	}
}

// leftovers returns the processes of a run: those in the session of its supervisor, and those that were started with its
// mark in their environment, wherever they went. A session's number is not given away while it has members; if its
// leader is alive, the number has been given away since, because the supervisor is dead.
func leftovers(all []process, supervisor int, mark string) (pids []int) {
	session := supervisor
	for _, p := range all {
		if p.pid == supervisor && !p.ended {
			session = 0
		}
	}
	for _, p := range all {
		if !p.ended && p.pid != os.Getpid() && (session != 0 && p.session == session || hasEnv(p.pid, mark)) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}
