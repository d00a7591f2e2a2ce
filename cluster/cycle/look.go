package cycle

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lookTogether is how many changed tasks are looked up by a goroutine of their own, while the hosts are taken in.
const lookTogether = 512

// looked is what there is to see of what changed, before it is taken in. To look it up is mostly waiting for
// memory: a change may be of any task on any host. So many changes are looked up before the first is taken
// in, and most of the waits coincide.
type looked struct {
	hosts   []lookedHost
	tasks   []lookedTask
	gone    []cluster.JobUID // jobs
	updated []*cluster.Job   // jobs that were updated, now or before
	changed hostSet
	fetched int64 // by what is read ahead, which no compiler then takes away
}

type lookedHost struct {
	id   cluster.HostID
	rec  *cluster.Host // nil if it is gone
	host *host         // nil if it is new
}

type lookedTask struct {
	key  cluster.TaskKey
	task *cluster.Task // nil if it is gone
	job  *cluster.Job  // where the task waits or has room
	host *host         // where it is bound
	unit *unit         // nil if it had none
}

// takeIn brings hosts, then tasks in line with the snapshot, each once and in order.
func (p *Planner) takeIn(snap *cluster.Snapshot, changes *cluster.Changes) {
	lookTasks := sync.OnceFunc(func() { p.lookTasks(snap, changes) })
	if len(changes.Tasks) >= lookTogether {
		go lookTasks()
	}
	p.lookHosts(changes.Hosts)
	for some := range slices.Chunk(p.looked.hosts, ahead) {
		p.readHosts(snap, some)
		for i := range some {
			p.ingestHost(&some[i])
		}
	}
	expected := p.rows.expect() // tasks change nothing of what hosts have room for
	lookTasks()                 // if that is not done yet: it may still wait for a processor
	for some := range slices.Chunk(p.looked.tasks, ahead) {
		p.readTasks(some)
		for i := range some {
			p.ingestTask(snap, &some[i])
		}
	}
	if expected != nil {
		expected.finish()
	}
}

// lookHosts finds the distinct hosts: first those that are known, in the order of their indices, then the
// others by id.
func (p *Planner) lookHosts(ids []cluster.HostID) {
	l := &p.looked
	l.changed = l.changed.empty(len(p.hosts.byIndex))
	var others []cluster.HostID
	for _, id := range ids {
		if h := p.hosts.byID[id]; h != nil {
			l.changed.add(h.index)
		} else {
			others = append(others, id)
		}
	}
	for i, some := range l.changed {
		for ; some != 0; some &= some - 1 {
			h := p.hosts.byIndex[64*i+bits.TrailingZeros64(some)]
			l.hosts = append(l.hosts, lookedHost{id: h.id, host: h})
		}
	}
	for _, id := range sorted(others) {
		l.hosts = append(l.hosts, lookedHost{id: id})
	}
}

// readHosts looks up the records of hosts. It reads ahead what they are compared by.
func (p *Planner) readHosts(snap *cluster.Snapshot, some []lookedHost) {
	var ids [ahead]cluster.HostID
	var records [2 * ahead]*cluster.Host
	sum := int64(0)
	for i := range some {
		ids[i] = some[i].id
		if h := some[i].host; h != nil {
			records[ahead+i] = h.rec
			sum += h.room.Fixed[0] + int64(len(h.units))
		}
	}
	snap.FindHosts(ids[:len(some)], records[:])
	for i := range some {
		some[i].rec = records[i]
	}
	for _, h := range records {
		if h != nil {
			sum += int64(h.Since) + h.Allocated.Fixed[3] + h.Lent.Fixed[3] + h.Slack.Fixed[3] + int64(len(h.PortsTaken)) +
				h.Withheld.Fixed[2] + int64(len(h.PortsWithheld)) + h.Capacity.Fixed[0] + int64(len(h.Revocable.Named))
		}
	}
	p.looked.fetched = sum
}

func (p *Planner) lookTasks(snap *cluster.Snapshot, changes *cluster.Changes) {
	for _, uid := range changes.Jobs {
		switch j := snap.Job(uid); {
		case j == nil:
			p.looked.gone = append(p.looked.gone, uid)
		case j.Update != nil:
			p.looked.updated = append(p.looked.updated, j)
			p.regroup(snap, j, changes)
		}
	}
	all := p.looked.tasks
	for _, k := range sorted(changes.Tasks) {
		all = append(all, lookedTask{key: k, task: snap.Task(k)})
	}
	var job *cluster.Job // of the last task that needed one
	for i := range all {
		x := &all[i]
		if x.task == nil || x.task.State.Terminal() {
			continue
		}
		if job == nil || job.UID != x.key.Job() {
			job = snap.Job(x.key.Job())
		}
		x.job = job
	}
	p.looked.tasks = all
}

// readTasks looks up the units of tasks. It reads ahead what they are compared with and counted in.
func (p *Planner) readTasks(some []lookedTask) {
	var on [ahead]*host
	sum := int64(0)
	for i := range some {
		if t := some[i].task; t != nil {
			sum += int64(t.Run) + int64(len(t.Ports)) + int64(t.Queued) + int64(t.Version) + int64(t.Unready)
		}
		some[i].unit = p.units.Get(uint64(some[i].key))
	}
	for i := range some {
		x := &some[i]
		if u := x.unit; u != nil {
			on[i] = u.host
			sum += int64(u.started) + int64(u.begun)
		}
		if x.task != nil && x.task.State.Bound() {
			x.host = p.hosts.byID[x.task.Host] // hosts come first, and one with tasks is never removed
			if on[i] == nil {
				on[i] = x.host
			}
		}
	}
	for _, h := range on {
		if h != nil {
			sum += int64(len(h.units)) + int64(h.loose)
		}
	}
	for i, h := range on {
		if h != nil && len(h.units) > 0 && h.units[0] == some[i].unit {
			sum++
		}
	}
	p.looked.fetched = sum
}

// clear forgets what was looked up.
func (l *looked) clear() {
	clear(l.hosts)
	clear(l.tasks)
	clear(l.updated)
	l.hosts, l.tasks, l.gone, l.updated = l.hosts[:0], l.tasks[:0], l.gone[:0], l.updated[:0]
}
