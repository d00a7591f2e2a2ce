package rules

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// ReportHosts takes in what a shard says of its hosts, by the shard's own names. A host that it does not see any more,
// because gone names it or because the report is full and leaves it out, becomes unreachable, and Settle removes it when
// nothing is known of it that has to be there when it comes back. Hosts that have not changed cause no event.
func ReportHosts(tx *Tx, shard cluster.ShardID, hosts map[string]cluster.Machine, gone []string, full bool) error {
	lost := make(map[string]bool, len(gone))
	for _, name := range gone {
		lost[name] = true
	}
	var missing []*cluster.Host
	for h := range tx.State().ShardHosts(shard) {
		if _, there := hosts[h.ID.Name()]; !there && !h.Gone && (full || lost[h.ID.Name()]) {
			missing = append(missing, h)
		}
	}
	for _, h := range missing {
		e := &cluster.HostUnreached{ID: h.ID, Reason: "its shard does not see it any more", Gone: true}
		if err := tx.Emit(e); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		id := cluster.MakeHostID(shard, name)
		if old := tx.State().Host(id); old != nil && !old.Unreachable && old.Machine.Equal(hosts[name]) {
			continue
		}
		if err := tx.Emit(&cluster.HostReported{ID: id, Machine: hosts[name]}); err != nil {
			return err
		}
	}
	return nil
}

// Serve takes in that a shard is served by a state folder. A shard without hosts has nothing that could be elsewhere.
func Serve(tx *Tx, shard cluster.ShardID, folder string) error {
	if in := tx.State(); in.FolderOf(shard) == folder || !in.HasHosts(shard) {
		return nil
	}
	return tx.Emit(&cluster.ShardServed{By: cluster.ShardFolder{Shard: shard, Folder: folder}})
}

// forget removes a host that its shard does not see any more, unless it has tasks, or is drained, which the operator wants to find
// so when it comes back.
func forget(tx *Tx, id cluster.HostID) error {
	h := tx.State().Host(id)
	if h == nil || !h.Gone || h.Draining || len(h.Tasks) > 0 {
		return nil
	}
	return tx.Emit(&cluster.HostRemoved{ID: id})
}

// Deadlines says how long silence is borne.
type Deadlines struct {
	// UnreachableAfter is how long a shard may be away before its hosts count as unreachable, and how long it may say nothing
	// of the end of a run that is to end, when the run's grace is over.
	UnreachableAfter time.Duration
	// LostAfter is how long a host may be unreachable before its tasks are to run elsewhere. It counts from when the shard was
	// connected or cut off, if that is later: time in which nobody listened does not count.
	LostAfter time.Duration
	// Away returns since when a shard is cut off or connected, and whether it is cut off.
	Away func(cluster.ShardID) (since cluster.Time, away bool)
	// Unsent reports whether the launch of a PLACED run was certainly not sent to a shard that is cut off, and is not until it
	// connects. Nil: that is known of none.
	Unsent func(cluster.ShardID, cluster.RunID) bool
}

// records are what is looked at of a State or a Snapshot.
type records interface {
	Hosts(from cluster.HostID) iter.Seq[*cluster.Host]
	Task(cluster.TaskKey) *cluster.Task
	Job(cluster.JobUID) *cluster.Job
	Mode() cluster.Mode
}

// Overdue returns the hosts about which Expire would do something, in the order of their names. Complexity: the hosts, and the tasks
// of those that are unreachable.
func (d *Deadlines) Overdue(in records, now cluster.Time) (hosts []cluster.HostID) {
	for h := range in.Hosts("") {
		if d.overdue(in, h, now) {
			hosts = append(hosts, h.ID)
		}
	}
	return hosts
}

func (d *Deadlines) overdue(in records, h *cluster.Host, now cluster.Time) bool {
	return d.lostContact(h, now) || h.Unreachable && slices.ContainsFunc(h.Tasks, func(k cluster.TaskKey) bool {
		return d.lostForGood(in, h, in.Task(k), now)
	})
}

func (d *Deadlines) lostContact(h *cluster.Host, now cluster.Time) bool {
	since, away := d.Away(h.ID.Shard())
	return away && !h.Unreachable && now.Sub(since) >= d.UnreachableAfter
}

// lostForGood reports whether something is to be done about a task of a host that is unreachable. A connected shard gets the
// time to end a run that is to end, and to say so; while nothing is killed it cannot.
func (d *Deadlines) lostForGood(in records, h *cluster.Host, t *cluster.Task, now cluster.Time) bool {
	if d.neverSent(h, t) {
		return true
	}
	since, away := d.Away(h.ID.Shard())
	if h.Since <= now { // else the clock has been set back
		since = max(since, h.Since)
	}
	at := since.Add(d.LostAfter)
	switch {
	case away:
	case in.Mode().KillingStopped:
		return false
	case t.State.Vacating():
		spec := in.Job(t.Key.Job()).SpecFor(t)
		grace, _ := Leave(t, spec)
		at = max(at, max(since, LeavesAt(t, spec, now)).Add(grace).Add(d.UnreachableAfter))
	}
	return now >= at
}

// neverSent reports whether nobody was told of the run of a task on a host of a shard that is away: it goes elsewhere without more ado.
func (d *Deadlines) neverSent(h *cluster.Host, t *cluster.Task) bool {
	if t.State != cluster.TaskPlaced || d.Unsent == nil {
		return false
	}
	_, away := d.Away(h.ID.Shard())
	return away && d.Unsent(h.ID.Shard(), t.RunID())
}

// Expire marks the hosts of shards that are away for too long as unreachable, and gives up the tasks of hosts that are
// unreachable for too long: they wait again. Where the shard is connected, and only does not see the host, their runs are
// killed first, and LOST when nothing is heard of their end; where it is away they are LOST at once. What was never sent there waits
// again as soon as the host is unreachable.
func (d *Deadlines) Expire(tx *Tx) (wrong error) {
	now := tx.Now()
	var overdue []*cluster.Host
	for h := range tx.State().Hosts("") {
		if d.overdue(tx.State(), h, now) {
			overdue = append(overdue, h)
		}
	}
	wrong = d.takeBack(tx, overdue)
	for _, h := range overdue {
		if d.lostContact(h, now) {
			wrong = errors.Join(wrong, tx.Emit(&cluster.HostUnreached{ID: h.ID, Reason: "its host-manager shard is cut off"}))
			continue
		}
		for _, k := range tx.State().Host(h.ID).Tasks {
			if d.lostForGood(tx.State(), h, tx.State().Task(k), now) {
				wrong = errors.Join(wrong, d.giveUp(tx, h, k))
			}
		}
	}
	return wrong
}

// takeBack has the tasks wait again that were never sent to hosts that are unreachable. What of their gangs was sent is taken down
// after that, so that what was not has nothing to wait for.
func (d *Deadlines) takeBack(tx *Tx, hosts []*cluster.Host) (wrong error) {
	var back []*cluster.Task // as they were
	for _, h := range hosts {
		if !h.Unreachable {
			continue
		}
		for _, k := range h.Tasks {
			t := tx.State().Task(k)
			if !d.neverSent(h, t) {
				continue
			}
			back = append(back, t)
			wrong = errors.Join(wrong, tx.Emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonHostLost}), leaveHome(tx, k))
		}
	}
	broken := map[cluster.JobUID]bool{}
	for _, t := range back {
		j := tx.State().Job(t.Key.Job())
		if !broken[j.UID] && breaks(tx, j, t) {
			broken[j.UID] = true
			wrong = errors.Join(wrong, giveBack(tx, j))
		}
	}
	return wrong
}

// giveUp has a task wait again whose host is lost: as soon as its run has ended, or now if nobody is there who could end it,
// or nobody has said that it did.
func (d *Deadlines) giveUp(tx *Tx, h *cluster.Host, k cluster.TaskKey) error {
	t, j := tx.State().Task(k), tx.State().Job(k.Job())
	if _, away := d.Away(h.ID.Shard()); away || t.State.Vacating() {
		message := fmt.Sprintf("host %s was unreachable for %v", h.ID, d.LostAfter)
		return conclude(tx, k, cluster.TaskLost, cluster.ReasonHostLost, message)
	}
	err := tx.Emit(&cluster.TaskStopping{Task: k, Reason: cluster.ReasonHostLost, Restart: !j.Stopping})
	if err == nil && breaks(tx, j, t) {
		err = giveBack(tx, j)
	}
	return err
}
