package hostmgr

import (
	"slices"
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// outbox is what the scheduler has yet to be told over the Control stream. Nothing that fills it ever waits for the
// stream: of hosts and of each run it holds the latest news only, so that it is bounded by what exists.
type outbox struct {
	wake chan struct{} // has an element when next may return something

	mu       sync.Mutex
	hosts    []Host
	newHosts bool
	pongs    []uint64
	volumes  []*sluicev1.VolumeInfo // answers to commands
	runs     map[cluster.RunID]*known
	byTask   map[cluster.TaskKey][]*known // the same runs
	queue    []cluster.RunID              // with news that has not been sent, in the order of the news
	updateID uint64                       // last one given
	sent     map[uint64]cluster.RunID
	health   healthBox
	confirm  bool                 // the driver wants to know of each status that it is durable, of those in its inventory too
	can      cluster.Capabilities // of the driver
}

// known is the latest status of a run that has not been released.
type known struct {
	Status
	news     bool   // the scheduler has not acknowledged it
	updateID uint64 // that it was sent under, 0 if it was not sent in this session
	ours     bool   // of a launch that never got to the driver, or that the driver refused
}

// maxPongs bounds the answers that wait; a scheduler that does not read them is not waiting for them.
const maxPongs = 16

func newOutbox() *outbox {
	return &outbox{
		wake:   make(chan struct{}, 1),
		runs:   map[cluster.RunID]*known{},
		byTask: map[cluster.TaskKey][]*known{},
		sent:   map[uint64]cluster.RunID{},
		health: newHealthBox(),
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// setHosts replaces the list of hosts. What runs on a host that was not in it before is told again: the scheduler may have
// given it up while the host was away, and has to say so.
func (o *outbox) setHosts(hosts []Host) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := make(map[string]bool, len(o.hosts))
	for _, h := range o.hosts {
		before[h.Name] = true
	}
	back := map[string]bool{}
	for _, h := range hosts {
		if !before[h.Name] {
			back[h.Name] = true
		}
	}
	o.hosts, o.newHosts = slices.Clone(hosts), true
	if len(back) > 0 {
		o.tellAgain(back)
	}
	o.signal()
}

// tellAgain queues the latest status of all that runs on the hosts, in the order of the runs.
func (o *outbox) tellAgain(hosts map[string]bool) {
	var again []*known
	for _, k := range o.runs {
		if hosts[k.Host] && !k.State.Terminal() {
			again = append(again, k)
		}
	}
	slices.SortFunc(again, func(a, b *known) int { return a.Run.Compare(b.Run) })
	for _, k := range again {
		o.push(k)
	}
}

func (o *outbox) pong(number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pongs = append(o.pongs, number); len(o.pongs) > maxPongs {
		o.pongs = o.pongs[1:]
	}
	o.signal()
}

// volume answers a command for a volume. An answer is lost with its session, as is the question.
func (o *outbox) volume(answer *sluicev1.VolumeInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.volumes = append(o.volumes, answer)
	o.signal()
}

// report takes in a status; ours marks one that did not come from the driver. One that cannot follow what is known, as
// when a driver repeats itself or its reports overtake each other, is dropped.
func (o *outbox) report(s Status, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.runs[s.Run]
	if k == nil {
		k = o.add(s, ours)
	} else if k.State.Terminal() || !k.State.CanBecome(s.State) {
		return
	}
	k.Status = s
	o.push(k)
	if s.State.Terminal() {
		delete(o.health.latest, s.Run)
	}
}

// add and drop keep runs and byTask together.
func (o *outbox) add(s Status, ours bool) *known {
	k := &known{Status: s, ours: ours}
	o.runs[s.Run] = k
	o.byTask[s.Run.Task] = append(o.byTask[s.Run.Task], k)
	return k
}

func (o *outbox) drop(k *known) {
	delete(o.sent, k.updateID)
	delete(o.runs, k.Run)
	rest := slices.DeleteFunc(o.byTask[k.Run.Task], func(other *known) bool { return other == k })
	if o.byTask[k.Run.Task] = rest; len(rest) == 0 {
		delete(o.byTask, k.Run.Task)
	}
}

// rival returns another run of the task that has not ended on a host that is there, if there is one.
func (o *outbox) rival(run cluster.RunID) (other cluster.RunID, host string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.byTask[run.Task] {
		if k.Run == run || k.State.Terminal() {
			continue
		}
		if slices.ContainsFunc(o.hosts, func(h Host) bool { return h.Name == k.Host }) {
			return k.Run, k.Host, true
		}
	}
	return cluster.RunID{}, "", false
}

// push queues what is known of a run, in place of what was queued or sent before.
func (o *outbox) push(k *known) {
	queued := k.news && k.updateID == 0
	delete(o.sent, k.updateID)
	k.news, k.updateID = true, 0
	if !queued {
		o.queue = append(o.queue, k.Run)
	}
	o.signal()
}

// repeat queues the latest status of a run again; false if the run is not known.
func (o *outbox) repeat(run cluster.RunID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.runs[run]
	if k != nil {
		o.push(k)
	}
	return k != nil
}

// ack takes in that the scheduler has made an update durable, and returns it if it is the driver's and still the latest.
func (o *outbox) ack(updateID uint64) (s Status, fromDriver bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	run, ok := o.sent[updateID]
	if !ok {
		return Status{}, false // replaced by a later one, or released
	}
	delete(o.sent, updateID)
	k := o.runs[run]
	k.news, k.updateID = false, 0
	return k.Status, !k.ours
}

// release forgets a run.
func (o *outbox) release(run cluster.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.runs[run]; k != nil {
		o.drop(k)
	}
}

// lives reports whether a run is known and has not ended.
func (o *outbox) lives(run cluster.RunID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.runs[run]
	return k != nil && !k.State.Terminal()
}

// begin starts a session: it returns what goes up first, all hosts and the inventory, and queues again what has not
// been acknowledged. The driver's word on what exists counts; inventory is called for it. No command may be in progress,
// or a run that is about to exist would be missing.
func (o *outbox) begin(inventory func() []Status) []*sluicev1.ShardUp {
	o.mu.Lock()
	before := make([]cluster.RunID, 0, len(o.runs))
	for run, k := range o.runs {
		if !k.ours {
			before = append(before, run)
		}
	}
	o.mu.Unlock()
	current := inventory() // not under the lock: a driver may report at the same time
	o.mu.Lock()
	defer o.mu.Unlock()
	o.merge(before, current)
	o.requeue()
	o.newHosts, o.pongs, o.volumes = false, nil, nil
	o.health.again()
	all := make([]Status, 0, len(o.runs))
	for _, k := range o.runs {
		all = append(all, k.Status)
	}
	slices.SortFunc(all, func(a, b Status) int { return a.Run.Compare(b.Run) })
	return append(hostReports(o.hosts, o.can), inventories(all)...)
}

// merge drops runs that the driver does not know any more, and adds what it knows and has not reported.
func (o *outbox) merge(before []cluster.RunID, current []Status) {
	there := make(map[cluster.RunID]bool, len(current))
	for _, s := range current {
		there[s.Run] = true
		switch k := o.runs[s.Run]; {
		case k == nil:
			k = o.add(s, false)
			if o.confirm {
				o.push(k)
			}
		case k.State.CanBecome(s.State) && !k.State.Terminal():
			k.Status = s // the report is on its way
		}
	}
	for _, run := range before {
		if k := o.runs[run]; !there[run] && k != nil {
			o.drop(k)
		}
	}
}

// requeue puts what was sent and not acknowledged before what was not sent, in the old order.
func (o *outbox) requeue() {
	var again []*known
	for _, run := range o.sent {
		again = append(again, o.runs[run])
	}
	slices.SortFunc(again, func(a, b *known) int { return int(a.updateID) - int(b.updateID) })
	queue := make([]cluster.RunID, 0, len(again)+len(o.queue))
	for _, k := range again {
		k.updateID = 0
		queue = append(queue, k.Run)
	}
	o.queue = append(queue, o.queue...)
	clear(o.sent)
	o.signal()
}

// next returns what is to be sent next, nothing if there is nothing.
func (o *outbox) next() []*sluicev1.ShardUp {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pongs) > 0 {
		pong := &sluicev1.Pong{Number: o.pongs[0]}
		o.pongs = o.pongs[1:]
		return []*sluicev1.ShardUp{{Message: &sluicev1.ShardUp_Pong{Pong: pong}}}
	}
	if o.newHosts {
		o.newHosts = false
		return hostReports(o.hosts, o.can)
	}
	if len(o.volumes) > 0 { // behind the hosts, which say the same
		report := &sluicev1.VolumeReport{Volumes: o.volumes}
		o.volumes = nil
		return []*sluicev1.ShardUp{{Message: &sluicev1.ShardUp_Volumes{Volumes: report}}}
	}
	for len(o.queue) > 0 {
		k := o.runs[o.queue[0]]
		o.queue = o.queue[1:]
		if k == nil || !k.news || k.updateID != 0 {
			continue // released since
		}
		o.updateID++
		k.updateID = o.updateID
		o.sent[k.updateID] = k.Run
		status := statusTo(k.updateID, k.Status)
		return []*sluicev1.ShardUp{{Message: &sluicev1.ShardUp_Status{Status: status}}}
	}
	return o.nextHealth() // after the statuses, so that the run is known to run
}
