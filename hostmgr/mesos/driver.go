package mesos

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Errors that end a driver: an operator has to decide.
var (
	// ErrSuperseded: another subscription with the same framework id has taken over.
	ErrSuperseded = errors.New("mesos: another subscription has taken this framework over; two drivers must not share a state folder or its copy, so stop one of them")
	// ErrRemoved: the master has removed the framework, and with it all its tasks.
	ErrRemoved = errors.New("mesos: the master has removed this framework, because it was away for longer than its failover timeout or because somebody tore it down; its tasks are gone. Start with a new framework to go on")
	// ErrRejected: the master does not accept the framework as it is.
	ErrRejected = errors.New("mesos: the master rejects the framework")
)

var errClosed = errors.New("mesos: the driver is not running")

// capabilities is what tasks may ask for on Mesos.
const capabilities = cluster.CanGroups | cluster.CanContainers | cluster.CanDocker | cluster.CanUsers | cluster.CanFetch |
	cluster.CanHealthChecks | cluster.CanVolumes | cluster.CanHostPaths | cluster.CanScratch | cluster.CanSecrets | cluster.CanPorts | cluster.CanMount

// driver runs tasks on a Mesos cluster. One mutex guards all that it knows; nothing under it waits for the network or the
// disk. The sink is called under it, so that reports keep their order.
type driver struct {
	config   Config
	client   *client
	detector detector
	folder   *folder

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	working sync.WaitGroup
	ended   chan error
	wake    chan struct{} // of the keeper
	persist chan struct{} // wakes the writer

	closing     sync.Mutex // held by Close
	mu          sync.Mutex
	started     bool
	sink        hostmgr.Sink // nil before Start and after Close
	framework   string       // id
	session     *session     // nil while there is no subscription
	agents      map[string]*agent
	byName      map[string]*agent
	agentSerial uint64 // of the last agent that came
	offers      map[string]*offer
	runs        map[cluster.RunID]*run
	touched     []*agent  // that may not be as they were last reported
	overdue     bool      // the keeper must not wait for its tick
	launched    time.Time // the last launch, demand for offers, or subscription
	quiet       bool      // offers are suppressed
	quietFrom   time.Time
	lookUntil   time.Time // offers are not suppressed before, though nothing is launched
	revived     time.Time
	complaints  complaints

	toWrite []write
	writing bool // what was in toWrite
}

var (
	_ hostmgr.Driver       = (*driver)(nil)
	_ hostmgr.Acknowledger = (*driver)(nil)
	_ hostmgr.Ender        = (*driver)(nil)
	_ hostmgr.Capable      = (*driver)(nil)
	_ hostmgr.Wide         = (*driver)(nil)
	_ hostmgr.VolumeKeeper = (*driver)(nil)
)

// New returns a driver that is not started. It touches neither disk nor network.
func New(c Config) (hostmgr.Driver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c = c.withDefaults(); c.User == "" {
		return nil, errors.New("mesos: user: who runs this process has no name that tasks could run as; name a user of the agents with --framework-user")
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &driver{
		config: c, ctx: ctx, stop: stop,
		ended: make(chan error, 1), wake: make(chan struct{}, 1), persist: make(chan struct{}, 1),
		agents: map[string]*agent{}, byName: map[string]*agent{}, offers: map[string]*offer{},
		runs: map[cluster.RunID]*run{},
	}
	d.client = newClient(&d.config)
	return d, nil
}

// firstOffers is how long Start waits for offers after the subscription: there may be none.
const firstOffers = 3 * time.Second

// Start implements [hostmgr.Driver]. It returns when the framework is subscribed, however long that takes, and hosts are
// known; it fails when the master rejects the framework.
func (d *driver) Start(ctx context.Context, sink hostmgr.Sink) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	warn := func(m string) { d.config.Log.Warn("state folder: " + m) }
	if d.folder, err = openFolder(d.config.Dir, warn); err != nil {
		return err
	}
	if err := d.recover(); err != nil {
		return err
	}
	if d.detector, err = d.config.detector(); err != nil {
		return err
	}
	d.mu.Lock()
	d.sink, d.started, d.launched = sink, true, time.Now()
	d.mu.Unlock()
	subscribed, offered := make(chan struct{}), make(chan struct{})
	d.work(d.write)
	d.work(func() { d.keepSubscribed(subscribed, offered) })
	if err := d.await(ctx, subscribed, 0); err != nil {
		return err
	}
	if err := d.await(ctx, offered, firstOffers); err != nil {
		return err
	}
	d.mu.Lock()
	d.reportHosts(true)
	d.mu.Unlock()
	d.work(d.keep)
	return nil
}

// work runs fn in the background until it ends or the driver is closed; not at all if that is now: Close may come while
// Start still waits.
func (d *driver) work(fn func()) {
	d.closing.Lock()
	defer d.closing.Unlock()
	if d.ctx.Err() == nil {
		d.working.Go(fn)
	}
}

// await waits for an event of the subscription; patience 0 is without end.
func (d *driver) await(ctx context.Context, event <-chan struct{}, patience time.Duration) error {
	var over <-chan time.Time
	if patience > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-event:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return errClosed
	case err := <-d.ended:
		return err
	}
	return nil
}

// recover reads what earlier incarnations left, and chooses an id where there is no framework.
func (d *driver) recover() error {
	framework, err := d.folder.framework()
	if err != nil {
		return err
	}
	agents, runs, err := d.folder.load()
	if err != nil {
		return err
	}
	if framework != "" && framework == d.config.GiveUp {
		d.config.Log.Warn("giving up the framework and its tasks", "framework", framework)
		if err := d.folder.setFramework(""); err != nil {
			return err
		}
		framework = ""
	}
	d.framework = framework
	slices.SortFunc(agents, func(x, y agentRecord) int { return cmp.Or(cmp.Compare(x.Serial, y.Serial), cmp.Compare(x.ID, y.ID)) })
	known := make([]*agent, len(agents))
	for i, record := range agents {
		a := d.newAgent(record)
		a.recorded, a.written = true, true
		known[i] = a
	}
	for _, record := range runs {
		d.adoptRecord(record)
	}
	for _, a := range known {
		// One without tasks is lost until it is heard of; for the others Mesos is asked.
		a.lost = len(a.runs) == 0
		if a.Name != "" && d.byName[a.Name] != a { // the end came before that was written
			d.succeeded(a)
		}
	}
	if d.framework != "" {
		return nil
	}
	// A master takes any id. One of its own choice is lost with its answer, and the next subscription would make a second framework.
	// What ran in the last one has ended before there is another.
	if err := d.flushWrites(d.toWrite); err != nil {
		return err
	}
	d.toWrite, d.framework = nil, "sluice-"+strings.ToLower(rand.Text())
	return d.folder.setFramework(d.framework)
}

// newAgent takes in an agent. One that has no name is no host before an offer names it.
func (d *driver) newAgent(record agentRecord) *agent {
	d.agentSerial = max(d.agentSerial+1, record.Serial)
	record.Serial = cmp.Or(record.Serial, d.agentSerial)
	a := &agent{
		agentRecord: record, offers: map[string]*offer{}, runs: map[cluster.RunID]*run{}, inverse: map[string]bool{}, offeredFor: map[string]bool{},
	}
	d.agents[a.ID] = a
	if a.Name != "" {
		d.byName[a.Name] = a
	}
	return a
}

// name gives an agent a name, which it takes from whoever had it.
func (d *driver) name(a *agent, name string) {
	d.agentSerial++
	a.Name, a.Serial = name, d.agentSerial
	d.byName[name] = a
}

// Close implements [hostmgr.Driver]. The tasks keep running, as long as the failover timeout allows.
func (d *driver) Close() error {
	d.closing.Lock() // a Start that fails closes, too
	defer d.closing.Unlock()
	d.drain()
	d.mu.Lock()
	d.sink = nil // nothing is reported any more
	d.mu.Unlock()
	d.stop()
	d.working.Wait()
	if d.detector != nil {
		d.detector.close()
		d.detector = nil
	}
	d.client.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.folder == nil {
		return nil
	}
	err := d.folder.Close()
	d.folder = nil
	return err
}

// drain waits until Mesos has what was promised to be launched, since what has not got there when the driver ends is lost,
// and until it knows which updates it need not send to the next driver.
func (d *driver) drain() {
	deadline := time.Now().Add(d.config.OfferWait)
	for time.Now().Before(deadline) {
		d.mu.Lock()
		waits := d.sink != nil && d.session != nil && (d.writing || len(d.toWrite) > 0 || d.session.busy())
		if !waits && d.sink != nil && d.session != nil {
			for _, r := range d.runs {
				waits = waits || !r.ended() && (!r.placed || r.accepting)
			}
		}
		d.mu.Unlock()
		if !waits || pauseFor(d.ctx, drainPause) != nil {
			return
		}
	}
}

const drainPause = 5 * time.Millisecond

// Ended implements [hostmgr.Ender].
func (d *driver) Ended() <-chan error { return d.ended }

// Capabilities implements [hostmgr.Capable].
func (d *driver) Capabilities() cluster.Capabilities { return d.config.capabilities() }

// Width implements [hostmgr.Wide]: launches wait for a sync of the state folder, which those that wait together share.
func (d *driver) Width() int { return 128 }

// Inventory implements [hostmgr.Driver]. Complexity: O(n log n) for n runs.
func (d *driver) Inventory() []hostmgr.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]hostmgr.Status, 0, len(d.runs))
	for _, r := range d.runs {
		if r.status.At != 0 { // else it is still being recorded
			all = append(all, r.status)
		}
	}
	slices.SortFunc(all, func(a, b hostmgr.Status) int { return a.Run.Compare(b.Run) })
	return all
}

// OpenLog implements [hostmgr.Driver]. Mesos keeps the output of tasks on the agents, in the sandbox of each, where this
// driver does not read.
func (d *driver) OpenLog(_ context.Context, req hostmgr.LogRequest) (io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[req.Run]
	if r == nil {
		return nil, fmt.Errorf("%w: %v; what it wrote is in the sandbox of the Mesos task of that name, or of those that have _0, _1 ... behind it, on this host's agent, for as long as Mesos keeps it",
			hostmgr.ErrUnknownRun, req.Run)
	}
	member := max(0, slices.Index(r.record.Main, true))
	if names := r.record.Members; req.Process != "" && len(names) > 0 {
		if member = slices.Index(names, req.Process); member < 0 {
			return nil, fmt.Errorf("%w: run %v has %s, and none named %q", hostmgr.ErrUnknownProcess, req.Run, strings.Join(names, ", "), req.Process)
		}
	}
	return nil, fmt.Errorf("mesos: logs are in the sandbox of task %s on agent %s (%s); look there, for example with the Mesos console",
		r.task(member), r.record.Agent, r.record.Host)
}

// touch lets the keeper see whether the host is as it was last reported.
func (d *driver) touch(a *agent) {
	if !a.touched {
		a.touched = true
		d.touched = append(d.touched, a)
	}
	d.wakeKeeper()
}

func (d *driver) wakeKeeper() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// reportHosts reports the hosts if any is not as it was last reported. Complexity: O(k) for k hosts that were touched,
// and O(n log n) for all n where one has changed.
func (d *driver) reportHosts(first bool) {
	now, changed := time.Now(), first
	for _, a := range d.touched {
		a.touched = false
		there := d.agents[a.ID] == a && !a.lost && a.Name != ""
		changed = a.refresh(there, now, &d.config) || changed
	}
	clear(d.touched)
	d.touched = d.touched[:0]
	if changed && d.sink != nil {
		d.sink.ReportHosts(d.visible())
	}
}

// fail ends the driver for good.
func (d *driver) fail(err error) {
	d.config.Log.Error("the driver has ended", "error", err)
	select {
	case d.ended <- err:
	default:
	}
}

// complain logs a thing that may happen often: the first time as a warning, then for debugging only. It may be called
// with the mutex held or not, but not both at once: it has one of its own.
func (d *driver) complain(what string, args ...any) {
	key := fmt.Sprint(append([]any{what}, args...)...)
	if d.complaints.first(key) {
		d.config.Log.Warn("mesos: "+what, args...)
	} else {
		d.config.Log.Debug("mesos: "+what, args...)
	}
}

// frameworkInfo describes us to the master.
func (d *driver) frameworkInfo() *api.FrameworkInfo {
	c := &d.config
	timeout := c.FailoverTimeout.Seconds()
	info := &api.FrameworkInfo{
		User: c.User, Name: c.Name, Roles: slices.Clone(c.Roles), FailoverTimeout: &timeout, Checkpoint: flag(!c.NoCheckpoint),
	}
	if c.Principal != "" {
		info.Principal = text(c.Principal)
	}
	if c.WebUIURL != "" {
		info.WebUiURL = text(c.WebUIURL)
	}
	can := func(t api.FrameworkInfo_Capability_Type) {
		info.Capabilities = append(info.Capabilities, api.FrameworkInfo_Capability{Type: t})
	}
	can(api.FrameworkInfo_Capability_MULTI_ROLE)
	can(api.FrameworkInfo_Capability_RESERVATION_REFINEMENT)
	can(api.FrameworkInfo_Capability_TASK_KILLING_STATE)
	if !c.PartitionUnaware {
		can(api.FrameworkInfo_Capability_PARTITION_AWARE)
	}
	if c.GPUs {
		can(api.FrameworkInfo_Capability_GPU_RESOURCES)
	}
	if c.Revocable {
		can(api.FrameworkInfo_Capability_REVOCABLE_RESOURCES)
	}
	info.ID = &api.FrameworkID{Value: d.framework}
	return info
}

// subscribeCall subscribes with the id that is remembered, in both places where the master wants it.
func (d *driver) subscribeCall() *scheduler.Call {
	info := d.frameworkInfo()
	return &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, FrameworkID: info.ID, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: info}}
}
