//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// errClosed: the driver was used after Close.
var errClosed = errors.New("local: the driver is not running")

// driver runs tasks as processes of this machine.
type driver struct {
	config         Config
	state          *stateFolder
	sink           hostmgr.Sink
	boot           string
	secrets        string // folder in memory for the secrets of runs, "" where there is none
	secretsProblem error  // why
	cgroup         string // folder for the control groups of runs, "" where limits are not enforced
	hosts          map[string]bool

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	watchers sync.WaitGroup
	starting chan struct{} // bounds how many supervisors are being started at once

	reporting  sync.RWMutex // held for reading while the sink is called; Close takes it to end reporting
	tidying    sync.Mutex   // held while kept runs are measured and removed
	presenting sync.Mutex   // held while the hosts are reported, so that the last report is the latest
	mu         sync.Mutex
	runs       map[cluster.RunID]*run
	released   map[cluster.RunID]*kept
	dropping   chan struct{} // wakes the janitor
	failing    chan struct{} // has an element when a launch could not be recorded or started
	hanging    chan struct{} // has an element when one takes longer to record than patience
	patience   time.Duration
	lacks      string // why none can, "" if that is not so
	machines   []hostmgr.Host
}

// run is what the driver knows of one run. Its status is changed by one goroutine at a time: Start or Launch, and then
// its watcher. The driver's mutex guards the fields that change.
type run struct {
	id          cluster.RunID
	dir         string
	host        string
	boot        string // id of the boot in which the launch was recorded
	secrets     string // folder of its secrets, "" if it has none
	ports       []uint16
	asks        cluster.Resources
	cgroup      *cgroupLimits
	fingerprint hostmgr.Fingerprint
	recorded    chan struct{} // closed when the intent is durable, or has failed
	wanted      chan struct{} // closed when it may begin; it waits for that where an earlier driver has recorded it
	want        func()        // closes wanted
	ended       chan struct{} // closed when the status is terminal

	status     hostmgr.Status
	failed     error        // why the intent could not be recorded
	supervisor *supervised  // nil while none is known
	killed     bool         // there is a kill record
	strays     bool         // it has ports that are not its host's any more
	killing    sync.Mutex   // held while the kill record is written
	meter      meter        // of the goroutine that reports usage
	told       told         // of the same
	checked    bool         // it has health checks
	prepares   bool         // there is something to do before its processes can start
	health     healthRecord // of the goroutine that reports health
}

var (
	_ hostmgr.Driver       = (*driver)(nil)
	_ hostmgr.Capable      = (*driver)(nil)
	_ hostmgr.Acknowledger = (*driver)(nil)
)

// New returns a driver that is not started.
func New(c Config) (hostmgr.Driver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	secrets, problem := findSecrets(c)
	return &driver{
		config: c, ctx: ctx, stop: stop, secrets: secrets, secretsProblem: problem,
		starting: make(chan struct{}, 2*runtime.NumCPU()),
		runs:     map[cluster.RunID]*run{},
		dropping: make(chan struct{}, 1),
		failing:  make(chan struct{}, 1),
		hanging:  make(chan struct{}, 1), patience: recordPatience,
	}, nil
}

// Start implements [hostmgr.Driver]. It fails if another driver has the state folder, or if the folder has a format that this version
// does not know.
func (d *driver) Start(_ context.Context, sink hostmgr.Sink) (err error) {
	if d.state, err = openState(d.config.Dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.state.clear(); err != nil { // a task may have left what this user may not remove
		d.config.Log.Warn("what is removed stays until the next start", "error", err)
	}
	d.sink = sink
	if d.boot, err = bootID(); err != nil {
		return err
	}
	hosts, err := d.measure()
	if err != nil {
		return err
	}
	adopted, err := d.adopt()
	if err != nil {
		return err
	}
	if err := d.killStrangers(); err != nil {
		return err
	}
	if err := d.sweepSecrets(); err != nil {
		return err
	}
	d.machines = hosts
	for _, r := range adopted {
		r.strays = d.strays(r)
	}
	d.reportHosts()
	for _, r := range adopted {
		d.watchers.Go(func() { d.watch(r) })
	}
	d.watchers.Go(d.janitor)
	d.watchers.Go(d.watchMeans)
	d.watchers.Go(d.reportUsage)
	d.watchers.Go(d.reportHealth)
	return nil
}

// measure finds out what this machine has and can do.
func (d *driver) measure() ([]hostmgr.Host, error) {
	var notes []string
	parent, problem := findCgroup(d.config.Cgroup)
	if problem != nil {
		notes = []string{fmt.Sprintf("limits on cpu and memory are not enforced: %v", problem)}
		d.config.Log.Info("limits on cpu and memory are not enforced", "reason", problem)
	}
	d.cgroup = parent
	if d.secretsProblem != nil {
		notes = append(notes, fmt.Sprintf("tasks with secrets do not run here: %v", d.secretsProblem))
	}
	hosts, err := divide(d.config, notes)
	if err != nil {
		return nil, err
	}
	d.hosts = map[string]bool{}
	for _, h := range hosts {
		d.hosts[h.Name] = true
	}
	return hosts, nil
}

// strays reports whether a run has ports that are not its host's: the machine was divided in another way when it began.
func (d *driver) strays(r *run) bool {
	own := func(h hostmgr.Host) bool {
		return h.Name == r.status.Host && cluster.CountPorts(without(h.Ports, r.ports)) == cluster.CountPorts(h.Ports)-len(r.ports)
	}
	return len(r.ports) > 0 && !slices.ContainsFunc(d.machines, own)
}

// keepPorts takes the ports of runs that stray and go on away from the other hosts.
func (d *driver) keepPorts(hosts []hostmgr.Host) {
	for _, r := range d.runs {
		if !r.strays || r.status.State.Terminal() {
			continue
		}
		for i := range hosts {
			if hosts[i].Name != r.status.Host {
				hosts[i].Ports = without(hosts[i].Ports, r.ports)
			}
		}
	}
}

// adopt reads what earlier incarnations left and returns the runs that have to be watched.
func (d *driver) adopt() (watch []*run, err error) {
	if d.released, err = d.state.loadReleased(); err != nil {
		return nil, err
	}
	names, err := d.state.runNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		r, err := d.adoptRun(d.state.run(name))
		if err != nil {
			return nil, err
		}
		d.runs[r.id] = r
		if r.status.State.Terminal() {
			close(r.ended)
		} else {
			watch = append(watch, r)
		}
	}
	return watch, nil
}

// adoptRun reads what is known of a run. Of one whose launch is damaged that is little, but it is followed, can be killed, and is
// not started twice; the others have no part in it.
func (d *driver) adoptRun(dir string) (*run, error) {
	id, err := runOf(dir)
	if err != nil {
		return nil, err
	}
	launch, err := readLaunch(dir)
	if err == nil && launch.Launch.Run != id {
		err = fmt.Errorf("%s is %w: it holds the launch of run %v", dir, errDamaged, launch.Launch.Run)
	}
	if errors.Is(err, errDamaged) {
		d.config.Log.Warn("how a run was launched is not known any more", "run", id, "error", err)
		launch, err = &launchRecord{Launch: hostmgr.Launch{Run: id}, At: now(), Boot: d.boot}, nil
	}
	if err != nil {
		return nil, err
	}
	r := newRun(launch.Launch, dir)
	close(r.recorded)
	if r.killed = exists(dir, killFile); r.killed {
		r.want()
	}
	r.status = hostmgr.Status{Run: id, Host: launch.Launch.Host, State: cluster.TaskLaunching, ExitCode: -1, At: launch.At}
	r.boot, r.cgroup, r.prepares, r.secrets = launch.Boot, launch.Cgroup, launch.prepares(), launch.secrets()
	// A machine that lost its power may have damaged the records that need not outlive it.
	if running, err := readRecord[runningRecord](dir, runningFile); err == nil && running != nil {
		r.status.State, r.status.At = cluster.TaskRunning, running.At
	}
	if exit, err := readExit(dir); err != nil {
		return nil, err
	} else if exit != nil {
		r.status = exit.after(r.status)
	} else if r.boot == d.boot {
		return r, launch.elsewhere(dir)
	}
	return r, nil
}

// elsewhere refuses the folder of a run that began in another folder. The run has its lock there, and records its end there: here
// it would be taken for lost, and run once more.
func (l *launchRecord) elsewhere(dir string) error {
	if len(l.Processes) == 0 {
		return nil // damaged
	}
	here, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for _, kv := range l.Processes[0].Env {
		work, ok := strings.CutPrefix(kv, runDirVariable+"=")
		if !ok || work == runDirValue(dir) {
			continue
		}
		home := filepath.Dir(work)
		if there, err := os.Stat(home); err == nil {
			if os.SameFile(here, there) {
				continue // by another name
			}
			return fmt.Errorf("local: %s is a copy: run %v is in %s; start over the state folder there, or remove that when its tasks have ended",
				dir, l.Launch.Run, home)
		}
		if pid, err := lockHolder(filepath.Join(dir, lockFile)); err != nil || pid != 0 {
			return errors.Join(err, fmt.Errorf("local: %s was moved: run %v goes on, and writes to %s; "+
				"move the state folder back until its tasks have ended", dir, l.Launch.Run, home))
		}
	}
	return nil
}

// after returns the terminal status that follows another.
func (e *exitRecord) after(s hostmgr.Status) hostmgr.Status {
	return hostmgr.Status{
		Run: s.Run, Host: s.Host, State: e.State, ExitCode: e.ExitCode, Signal: e.Signal,
		Reason: e.Reason, Message: e.Message, At: max(s.At, e.At),
	}
}

// Close implements [hostmgr.Driver]. The tasks keep running.
func (d *driver) Close() error {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.watchers.Wait()
	if d.state != nil && d.secrets != "" {
		_ = os.Remove(d.secrets) // unless there are secrets of tasks that keep running
	}
	d.reporting.Lock()
	defer d.reporting.Unlock()
	d.sink = nil
	return d.state.close()
}

// report changes a run's status and tells the sink, unless the driver is closed.
func (d *driver) report(r *run, s hostmgr.Status) {
	d.reporting.RLock()
	defer d.reporting.RUnlock()
	if s.State.Terminal() {
		if err := d.dropSecrets(r); err != nil {
			d.config.Log.Warn("the secrets of a run could not be removed, trying again", "run", r.id, "error", err)
		}
	}
	d.mu.Lock()
	r.status = s
	if s.State.Terminal() {
		r.supervisor = nil
		close(r.ended)
	}
	d.mu.Unlock()
	if s.Reason == cluster.ReasonLaunchRefused {
		d.lookForMeans()
	}
	crashPoint(r.dir, "driver before report "+s.State.String())
	if d.sink != nil {
		d.sink.ReportStatus(s)
	}
}

// Durable implements [hostmgr.Acknowledger]. A run that an earlier driver recorded may begin now: the scheduler may have given it up
// while no driver was here, and would have answered otherwise.
func (d *driver) Durable(s hostmgr.Status) {
	if r := d.known(s.Run); r != nil {
		r.want()
	}
}

// Inventory implements [hostmgr.Driver]. Complexity: O(n log n) for n runs.
func (d *driver) Inventory() []hostmgr.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]hostmgr.Status, 0, len(d.runs))
	for _, r := range d.runs {
		if r.status.At != 0 { // else its intent is still being recorded
			all = append(all, r.status)
		}
	}
	slices.SortFunc(all, func(a, b hostmgr.Status) int { return a.Run.Compare(b.Run) })
	return all
}

// known returns a run whose intent is durable, nil if there is none.
func (d *driver) known(id cluster.RunID) *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.runs[id]; r != nil && r.status.At != 0 {
		return r
	}
	return nil
}
