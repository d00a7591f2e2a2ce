//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Launch implements [hostmgr.Driver]. When it returns nil, the intent is durable.
func (d *driver) Launch(ctx context.Context, l hostmgr.Launch) error {
	r := newRun(l, d.state.run(l.Run.String()))
	r.want()
	if old, err := d.enter(r, &l); err != nil {
		return err
	} else if old != nil {
		return old.repeat(ctx, r)
	}
	if r.failed = d.timed(r, l); r.failed != nil {
		why := trouble(r.failed)
		if why == 0 { // the folder may be gone, or another's, but so may what the task asks for
			why = d.shortage()
		}
		if why != 0 {
			d.config.Log.Error("a launch cannot be recorded", "run", r.id, "error", r.failed)
			what := why.Error()
			if errors.Is(r.failed, errSecrets) {
				what = "the folder for secrets: " + what
			}
			r.failed = fmt.Errorf("%w: %s", hostmgr.ErrRefused, what)
			d.lookForMeans()
		}
		d.mu.Lock()
		delete(d.runs, r.id)
		d.mu.Unlock()
	} else {
		d.report(r, hostmgr.Status{Run: r.id, Host: l.Host, State: cluster.TaskLaunching, ExitCode: -1, At: now()})
	}
	close(r.recorded)
	return r.failed
}

// trouble returns the error of a machine that has run out of something, or is broken; 0 for what may be the task's own fault.
func trouble(err error) syscall.Errno {
	for _, e := range []syscall.Errno{
		unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN,
	} {
		if errors.Is(err, e) {
			return e
		}
	}
	return 0
}

// newRun returns a run of which nothing has been recorded.
func newRun(l hostmgr.Launch, dir string) *run {
	wanted := make(chan struct{})
	return &run{
		id: l.Run, dir: dir, host: l.Host, ports: l.Ports, asks: l.Task.Resources, fingerprint: l.Fingerprint(),
		checked: checked(&l.Task), told: told{interval: l.Progress},
		recorded: make(chan struct{}), ended: make(chan struct{}),
		wanted: wanted, want: sync.OnceFunc(func() { close(wanted) }),
	}
}

// enter adds a run to those that are known, or returns the one that is known by its id.
func (d *driver) enter(r *run, l *hostmgr.Launch) (old *run, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, errClosed
	}
	if old := d.runs[r.id]; old != nil {
		return old, nil
	}
	if d.released[r.id] != nil {
		return nil, fmt.Errorf("%w: run %v has ended and was released: the scheduler has an earlier copy of its store", hostmgr.ErrRefused, r.id)
	}
	if !d.hosts[l.Host] {
		return nil, fmt.Errorf("%w: %q", hostmgr.ErrUnknownHost, l.Host)
	}
	if err := check(l); err != nil {
		return nil, err
	}
	if err := d.portsFree(l); err != nil {
		return nil, err
	}
	d.runs[r.id] = r
	d.watchers.Go(func() {
		if <-r.recorded; r.failed == nil {
			d.watch(r)
		}
	})
	return nil, nil
}

// portsFree gives a launch back whose ports an earlier run on the host has yet: the scheduler has given that up while this host
// manager was away, and it is being killed. The caller holds the mutex.
func (d *driver) portsFree(l *hostmgr.Launch) error {
	for _, p := range l.Ports {
		for _, r := range d.runs { // at most one has it
			if r.status.Host == l.Host && !r.status.State.Terminal() && slices.Contains(r.ports, p) {
				return fmt.Errorf("%w: run %v has port %d and has not ended yet", hostmgr.ErrRefused, r.id, p)
			}
		}
	}
	return nil
}

// repeat answers the launch of a run that is known.
func (r *run) repeat(ctx context.Context, again *run) error {
	select {
	case <-r.recorded:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.failed == nil && r.fingerprint != again.fingerprint {
		return fmt.Errorf("%w: run %v", hostmgr.ErrConflict, r.id)
	}
	return r.failed
}

// record makes the intent durable: the folder of the run appears with all that is needed to start it, or not at all.
func (d *driver) record(r *run, l hostmgr.Launch) (err error) {
	temp := d.state.temp(r.id.String())
	defer func() {
		if err != nil {
			_ = os.Rename(r.dir, temp) // if it has appeared already: it must not start later either
			err = errors.Join(err, removeAll(temp), d.dropSecrets(r))
		}
	}()
	if err := d.writeSecrets(&l); err != nil {
		return fmt.Errorf("%w: %w", errSecrets, err)
	}
	for _, dir := range []string{temp, filepath.Join(temp, workFolder), filepath.Join(temp, tempFolder)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("local: record the launch: %w", err)
		}
	}
	for _, folder := range ownFolders(&l.Task) {
		if err := os.MkdirAll(filepath.Join(temp, workFolder, folder), 0o700); err != nil {
			return fmt.Errorf("local: record the launch: %w", err)
		}
	}
	crashPoint(temp, "driver after mkdir")
	rec, err := d.launchRecord(r, l)
	if err != nil {
		return err
	}
	if err := d.openTo(rec, temp); err != nil {
		return fmt.Errorf("local: record the launch: %w", err)
	}
	r.boot, r.cgroup, r.prepares, r.secrets = rec.Boot, rec.Cgroup, rec.prepares(), rec.secrets()
	if err := keepRoom(temp); err != nil {
		return fmt.Errorf("local: record the launch: %w", err)
	}
	if err := writeRecord(temp, launchFile, rec, synced); err != nil {
		return fmt.Errorf("local: record the launch: %w", err)
	}
	crashPoint(temp, "driver after launch record")
	if err := os.Rename(temp, r.dir); err != nil {
		return fmt.Errorf("local: record the launch: %w", err)
	}
	if err := syncDir(d.state.run("")); err != nil {
		return fmt.Errorf("local: record the launch: %w", err)
	}
	crashPoint(r.dir, "driver after intent")
	return nil
}

// openTo gives the folders of a run to the user that its processes run as, if it is another one. Where they run as
// several, the folders are open to all of them, as the machine's own folder for temporary files is.
func (d *driver) openTo(rec *launchRecord, dir string) error {
	owners := rec.owners()
	if len(owners) == 0 {
		return nil
	}
	for _, path := range []string{d.state.dir, d.state.run(""), dir} { // to be passed through, not to be read
		if err := os.Chmod(path, 0o711); err != nil {
			return err
		}
	}
	if err := giveTo(filepath.Join(dir, tempFolder), owners); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(dir, workFolder), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return giveTo(path, owners)
	})
}

// owners lists the users that processes run as, where that is not the driver's own.
func (rec *launchRecord) owners() []credential {
	var all []credential
	for _, p := range slices.Concat(rec.Init, rec.Processes) {
		if p.User != nil && !slices.ContainsFunc(all, func(c credential) bool { return c.UID == p.User.UID }) {
			all = append(all, *p.User)
		}
	}
	return all
}

// giveTo makes a folder one that the users can write to.
func giveTo(path string, owners []credential) error {
	if len(owners) == 0 {
		return nil
	}
	if err := os.Chown(path, int(owners[0].UID), int(owners[0].GID)); err != nil || len(owners) == 1 {
		return err
	}
	return os.Chmod(path, 0o777|os.ModeSticky)
}

func (d *driver) launchRecord(r *run, l hostmgr.Launch) (*launchRecord, error) {
	l.SecretsIn(d.secretsOf(l.Run))
	init, err := d.processRecords(&l, l.Task.Init, r.dir)
	if err != nil {
		return nil, err
	}
	processes, err := d.processRecords(&l, l.Task.Processes, r.dir)
	if err != nil {
		return nil, err
	}
	rec := &launchRecord{
		Launch: l, At: now(), Boot: d.boot, Address: d.config.Address,
		Init: init, Processes: processes, Volumes: d.volumeRecords(&l, r.dir),
		LogLimit: max(cmp.Or(l.Task.LogLimitBytes, d.config.LogLimitBytes), minLogLimit),
	}
	if d.cgroup != "" {
		rec.Cgroup = &cgroupLimits{
			Path:        filepath.Join(d.cgroup, fmt.Sprintf("sluice-%s-%v", folderID(d.state.dir), r.id)),
			CPUMilli:    l.Task.Resources.Fixed[cluster.CPU],
			MemoryBytes: l.Task.Resources.Fixed[cluster.Memory],
		}
	}
	return rec, nil
}
