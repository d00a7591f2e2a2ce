//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Launch implements [hostmgr.Driver]. When it returns nil, the intent is durable.
func (d *driver) Launch(ctx context.Context, l hostmgr.Launch) error {
	r, err := newRun(l, d.state.run(l.Run.String()))
	if err != nil {
		return err
	}
	if old, err := d.enter(r, &l); err != nil {
		return err
	} else if old != nil {
		return old.repeat(ctx, r)
	}
	if r.failed = d.record(r, l); r.failed != nil {
		d.mu.Lock()
		delete(d.runs, r.id)
		d.mu.Unlock()
	} else {
		d.report(r, hostmgr.Status{Run: r.id, Host: l.Host, State: cluster.TaskLaunching, ExitCode: -1, At: now()})
	}
	close(r.recorded)
	return r.failed
}

// newRun returns a run of which nothing has been recorded.
func newRun(l hostmgr.Launch, dir string) (*run, error) {
	return &run{
		id: l.Run, dir: dir, fingerprint: l.Fingerprint(),
		recorded: make(chan struct{}), ended: make(chan struct{}),
	}, nil
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
		return nil, fmt.Errorf("local: run %v has ended and was released", r.id)
	}
	if !d.hosts[l.Host] {
		return nil, fmt.Errorf("%w: %q", hostmgr.ErrUnknownHost, l.Host)
	}
	if err := check(l); err != nil {
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

// check refuses payloads that no process can be made of.
func check(l *hostmgr.Launch) error {
	if len(l.Task.Processes) != 1 {
		return fmt.Errorf("local: launch: %d processes, one is needed", len(l.Task.Processes))
	}
	p := &l.Task.Processes[0]
	if argv := p.Argv(); len(argv) == 0 || argv[0] == "" {
		return errors.New("local: launch: the command is empty")
	}
	for i, arg := range p.Argv() {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("local: launch: command[%d] contains a zero byte", i)
		}
	}
	for i, kv := range slices.Concat(l.Env, p.Env) {
		if kv.Key == "" || strings.ContainsAny(kv.Key, "=\x00") || strings.ContainsRune(kv.Value, 0) {
			return fmt.Errorf("local: launch: env[%d] %q is not a name without '=' and a value without zero bytes", i, kv.Key)
		}
	}
	if p.WorkDir != "" && !filepath.IsAbs(p.WorkDir) && !filepath.IsLocal(p.WorkDir) || strings.ContainsRune(p.WorkDir, 0) {
		return fmt.Errorf("local: launch: work dir %q is neither an absolute path nor one inside the run's own folder", p.WorkDir)
	}
	if l.Task.LogLimitBytes < 0 {
		return fmt.Errorf("local: launch: log limit of %d bytes is negative", l.Task.LogLimitBytes)
	}
	return nil
}

// record makes the intent durable: the folder of the run appears with all that is needed to start it, or not at all.
func (d *driver) record(r *run, l hostmgr.Launch) (err error) {
	temp := d.state.temp(r.id.String())
	defer func() {
		if err != nil {
			_ = os.Rename(r.dir, temp) // if it has appeared already: it must not start later either
			err = errors.Join(err, removeAll(temp))
		}
	}()
	for _, dir := range []string{temp, filepath.Join(temp, workFolder), filepath.Join(temp, tempFolder)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("local: record the launch: %w", err)
		}
	}
	if dir := l.Task.Processes[0].WorkDir; filepath.IsLocal(dir) {
		if err := os.MkdirAll(filepath.Join(temp, workFolder, dir), 0o700); err != nil {
			return fmt.Errorf("local: record the launch: %w", err)
		}
	}
	crashPoint(temp, "driver after mkdir")
	rec := d.launchRecord(r, l)
	r.boot, r.cgroup = rec.Boot, rec.Cgroup
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

func (d *driver) launchRecord(r *run, l hostmgr.Launch) *launchRecord {
	rec := &launchRecord{
		Launch: l, At: now(), Boot: d.boot,
		Argv:     l.Task.Processes[0].Argv(),
		Env:      environment(&l, r.dir),
		Dir:      workDir(l.Task.Processes[0].WorkDir, r.dir),
		LogLimit: max(or(l.Task.LogLimitBytes, d.config.LogLimitBytes), minLogLimit),
	}
	if d.cgroup != "" {
		folder := fnv.New32a()
		_, _ = folder.Write([]byte(d.state.dir)) // never fails
		rec.Cgroup = &cgroupLimits{
			Path:        filepath.Join(d.cgroup, fmt.Sprintf("sluice-%08x-%v", folder.Sum32(), r.id)),
			CPUMilli:    l.Task.Resources.Fixed[cluster.CPU],
			MemoryBytes: l.Task.Resources.Fixed[cluster.Memory],
		}
	}
	return rec
}

// workDir returns where a task begins: an absolute path as it is, another inside the run's own folder, where it is made.
func workDir(named, dir string) string {
	if filepath.IsAbs(named) {
		return named
	}
	return filepath.Join(dir, workFolder, named)
}

// inherited variables make up the base environment of a task, where the driver has them itself.
var inherited = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "TZ", "USER"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns all variables of a task: the base, those that tell it who it is, and the job's own, which win.
func environment(l *hostmgr.Launch, dir string) []string {
	var env []string
	at := map[string]int{}
	set := func(key, value string) {
		if i, ok := at[key]; ok {
			env[i] = key + "=" + value
			return
		}
		at[key] = len(env)
		env = append(env, key+"="+value)
	}
	set("PATH", or(os.Getenv("PATH"), defaultPath))
	for _, key := range inherited {
		if value, ok := os.LookupEnv(key); ok {
			set(key, value)
		}
	}
	set("TMPDIR", filepath.Join(dir, tempFolder))
	set("SLUICE_JOB", string(l.Job))
	set("SLUICE_JOB_UID", strconv.FormatUint(uint64(l.Run.Task.Job()), 10))
	set("SLUICE_INSTANCE", strconv.FormatUint(uint64(l.Run.Task.Instance()), 10))
	set("SLUICE_TASK_ID", l.Run.Task.String())
	set("SLUICE_RUN", strconv.FormatUint(uint64(l.Run.Run), 10))
	set("SLUICE_RUN_ID", l.Run.String())
	set("SLUICE_HOST", l.Host)
	set(runDirVariable, runDirValue(dir))
	for _, kv := range slices.Concat(l.Env, l.Task.Processes[0].Env) {
		set(kv.Key, kv.Value)
	}
	return env
}

// runDirVariable names the task's own folder. Because no other run has the same value, it also marks the task's
// processes; see leftovers.
const runDirVariable = "SLUICE_RUN_DIR"

func runDirValue(dir string) string { return filepath.Join(dir, workFolder) }
