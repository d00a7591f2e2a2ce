package cycle

import (
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lookTogether is how many changes are looked up by two goroutines rather than one.
const lookTogether = 512

// looked is what there is to see of what changed, before any of it is taken in. To look it up is mostly waiting for memory: a
// change may be of any task on any host.
type looked struct {
	hosts []lookedHost
	tasks []lookedTask
	gone  []cluster.JobUID // jobs
}

type lookedHost struct {
	id   cluster.HostID
	rec  *cluster.Host // nil if it is gone
	host *host         // nil if it is new
	same bool          // nothing that placement can see differs
}

type lookedTask struct {
	key  cluster.TaskKey
	task *cluster.Task // nil if it is gone
	job  *cluster.Job  // where the task waits or has room
	unit *unit         // nil if it had none
}

// look looks up what changed, each once and in order.
func (p *Planner) look(snap *cluster.Snapshot, changes *cluster.Changes) *looked {
	if len(changes.Tasks)+len(changes.Hosts) < lookTogether {
		p.lookTasks(snap, changes)
		p.lookHosts(snap, changes)
		return &p.looked
	}
	var other sync.WaitGroup
	other.Go(func() { p.lookTasks(snap, changes) })
	p.lookHosts(snap, changes)
	other.Wait()
	return &p.looked
}

func (p *Planner) lookHosts(snap *cluster.Snapshot, changes *cluster.Changes) {
	all := p.looked.hosts
	for _, id := range sorted(changes.Hosts) {
		x := lookedHost{id: id, rec: snap.Host(id), host: p.hosts.byID[id]}
		x.same = x.host != nil && x.host.rec != nil && x.rec != nil && p.hosts.same(x.host.rec, x.rec)
		all = append(all, x)
	}
	p.looked.hosts = all
}

func (p *Planner) lookTasks(snap *cluster.Snapshot, changes *cluster.Changes) {
	all := p.looked.tasks
	var job *cluster.Job // of the last task that needed one
	for _, k := range sorted(changes.Tasks) {
		x := lookedTask{key: k, task: snap.Task(k), unit: p.units[k]}
		if x.task != nil && !x.task.State.Terminal() {
			if job == nil || job.UID != k.Job() {
				job = snap.Job(k.Job())
			}
			x.job = job
		}
		all = append(all, x)
	}
	p.looked.tasks = all
	for _, uid := range changes.Jobs {
		if snap.Job(uid) == nil {
			p.looked.gone = append(p.looked.gone, uid)
		}
	}
}

// clear forgets what was looked up.
func (l *looked) clear() {
	clear(l.hosts)
	clear(l.tasks)
	l.hosts, l.tasks, l.gone = l.hosts[:0], l.tasks[:0], l.gone[:0]
}
