package rules

import (
	"errors"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// settleHosts does what follows from changes of hosts: those that are gone and empty are forgotten, daemons come to those
// that match and leave those that do not, and, when nothing but daemons is left on a host that is drained, stop; their updates
// go on. Complexity: hosts × daemons, the tasks bound to the hosts, and the instances of each daemon that comes to one of them, of each job
// that one of these concerns.
func settleHosts(tx *Tx, hosts []cluster.HostID) error {
	for _, id := range hosts {
		if err := forget(tx, id); err != nil {
			return err
		}
	}
	for _, uid := range tx.State().Daemons() {
		if err := cover(tx, tx.State().Job(uid), hosts); err != nil {
			return err
		}
	}
	var jobs []cluster.JobUID
	for _, id := range hosts {
		if err := lastOff(tx, id); err != nil {
			return err
		}
		for _, k := range tx.State().HomeTo(id) {
			if err := holdHome(tx, k); err != nil {
				return err
			}
			if concerns(tx, k) {
				jobs = append(jobs, k.Job())
			}
		}
	}
	for _, uid := range distinct(jobs) {
		if err := errors.Join(advanceUpdate(tx, tx.State().Job(uid)), catchUp(tx, tx.State().Job(uid))); err != nil {
			return err
		}
	}
	return nil
}

// cover brings the instances of a daemon in line with the hosts: one on each that matches.
func cover(tx *Tx, j *cluster.Job, hosts []cluster.HostID) error {
	if j.Stopping {
		return nil
	}
	var lacking []cluster.HostID
	within := tx.State().HostsOf(j.Spec.Pool)
	for _, id := range hosts {
		h := tx.State().Host(id)
		has := instanceAt(tx, j.UID, id)
		switch {
		case h == nil: // its instance went with it
		case has == nil && h.State() == cluster.HostUp && suits(j.Spec, within, h):
			lacking = append(lacking, id)
		case has != nil && !has.Removed && !suits(j.Spec, within, h):
			if err := tx.Emit(&cluster.InstanceRemoved{Task: has.Key}); err != nil {
				return err
			}
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	var taken []uint32
	for t := range tx.State().TasksOf(j.UID, 0) {
		taken = append(taken, t.Key.Instance())
	}
	number := uint32(0)
	for _, id := range lacking {
		for len(taken) > 0 && taken[0] == number {
			taken, number = taken[1:], number+1
		}
		e := &cluster.InstanceAdded{Task: cluster.MakeTaskKey(j.UID, number), Host: id}
		if v := j.VersionOf(number); v != j.Version && suits(j.SpecOf(v), within, tx.State().Host(id)) {
			e.Version = v
		}
		if err := tx.Emit(e); err != nil {
			return err
		}
		number++
	}
	return nil
}

// instanceAt returns the instance of a daemon on a host, also one that is going; nil if there is none.
func instanceAt(tx *Tx, daemon cluster.JobUID, host cluster.HostID) *cluster.Task {
	for _, k := range tx.State().HomeTo(host) {
		if k.Job() == daemon {
			return tx.State().Task(k)
		}
	}
	return nil
}

// suits reports whether a host is one of those on which a daemon is to run, whatever runs there now. within is what its pool
// asks of hosts.
func suits(spec *cluster.JobSpec, within *cluster.Constraint, h *cluster.Host) bool {
	_, could := couldHave(h, spec, &spec.Task)
	return could && h.Admits(spec.Constraint, within) && h.Meets(spec.Constraint) && h.Meets(within)
}

// holdHomes looks at all tasks that wait for the only host where they may run. Complexity: the hosts, and the tasks bound to them.
func holdHomes(tx *Tx) (wrong error) {
	var hosts []cluster.HostID
	for h := range tx.State().Hosts("") {
		hosts = append(hosts, h.ID)
	}
	for _, id := range hosts {
		for _, k := range tx.State().HomeTo(id) {
			wrong = errors.Join(wrong, holdHome(tx, k))
		}
	}
	return wrong
}

// couldHave reports whether a host could have a task of the job if it were empty, and returns the devices that it would have then.
func couldHave(h *cluster.Host, spec *cluster.JobSpec, task *cluster.TaskSpec) (gpus []uint16, could bool) {
	gpus, could = task.GPU.Pick(h.GPUs, slices.Repeat([]int32{cluster.WholeGPU}, len(h.GPUs)))
	return gpus, could && task.Resources.Fits(h.Capacity) && spec.NeedsFor(task)&^h.Capabilities == 0
}

// lastOff stops the daemons on a host that is drained when all others have left it, unless nothing is killed. They wait, and come back
// with the host.
func lastOff(tx *Tx, id cluster.HostID) error {
	h := tx.State().Host(id)
	if h == nil || h.State() != cluster.HostDraining || tx.State().Mode().KillingStopped {
		return nil
	}
	for _, k := range h.Tasks {
		if tx.State().Job(k.Job()).Spec.Type != cluster.Daemon {
			return nil
		}
	}
	for _, k := range h.Tasks {
		t := tx.State().Task(k)
		if t.State.Vacating() {
			continue
		}
		again := !tx.State().Job(k.Job()).Stopping
		if err := tx.Emit(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonDrained, Restart: again}); err != nil {
			return err
		}
	}
	return nil
}

// leaveHome lets a stateful task whose launches were all given back begin on another host: it has no data on the one that was to be its home.
func leaveHome(tx *Tx, k cluster.TaskKey) error {
	if !tx.State().Task(k).Bare {
		return nil
	}
	return tx.Emit(&cluster.HomeForgotten{Task: k})
}

// holdHome has the only host where a waiting task may run keep room for it, as soon as that host takes work: nobody else
// gets what it needs there, also while it backs off. A host that could not have it if it were empty, or that its job or pool keeps it from,
// keeps nothing from others.
func holdHome(tx *Tx, k cluster.TaskKey) error {
	t := tx.State().Task(k)
	if t == nil || t.Home == "" || !t.State.Waits() {
		return nil
	}
	h := tx.State().Host(t.Home)
	if h == nil || h.State() != cluster.HostUp {
		return nil
	}
	spec, within := tx.State().Job(k.Job()).SpecFor(t), tx.State().HostsOf(tx.State().Job(k.Job()).Spec.Pool)
	task := spec.TaskOf(k.Instance())
	gpus, could := couldHave(h, spec, task)
	could = could && h.Opens(spec.Constraint, within)
	switch {
	case could && t.State == cluster.TaskPending:
		if now, ok := task.GPU.Pick(h.GPUs, h.GPURoom()); ok {
			gpus = now
		}
		return tx.Emit(&cluster.TaskHeld{Task: k, Hold: cluster.Hold{Host: t.Home, GPUs: gpus, Until: cluster.Forever}})
	case !could && t.State == cluster.TaskReserved:
		return tx.Emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonHoldEnded, NotBefore: t.NotBefore})
	default:
		return nil
	}
}
