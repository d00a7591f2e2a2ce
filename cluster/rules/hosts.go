package rules

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// HostsOf yields the hosts of a shard, by id.
func HostsOf(in interface {
	Hosts(from cluster.HostID) iter.Seq[*cluster.Host]
}, shard cluster.ShardID,
) iter.Seq[*cluster.Host] {
	return func(yield func(*cluster.Host) bool) {
		for h := range in.Hosts(cluster.MakeHostID(shard, "")) {
			if h.ID.Shard() != shard || !yield(h) {
				return
			}
		}
	}
}

// ReportHosts takes in what a shard says of its hosts, by the shard's own names. A host that it does not see any more,
// because gone names it or because the report is full and leaves it out, is removed; with tasks on it, or drained, it
// becomes unreachable instead, so that what is known of it is there when it comes back. Hosts that have not changed cause
// no event.
func ReportHosts(tx *Tx, shard cluster.ShardID, hosts map[string]cluster.Machine, gone []string, full bool) error {
	lost := make(map[string]bool, len(gone))
	for _, name := range gone {
		lost[name] = true
	}
	var missing []*cluster.Host
	for h := range HostsOf(tx.State(), shard) {
		if _, there := hosts[h.ID.Name()]; !there && (full || lost[h.ID.Name()]) {
			missing = append(missing, h)
		}
	}
	for _, h := range missing {
		var err error
		switch {
		case len(h.Tasks) == 0 && !h.Draining:
			err = tx.Emit(&cluster.HostRemoved{ID: h.ID})
		case !h.Unreachable:
			err = tx.Emit(&cluster.HostUnreached{ID: h.ID, Reason: "its shard does not see it any more"})
		}
		if err != nil {
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

// Deadlines says how long silence is borne.
type Deadlines struct {
	// UnreachableAfter is how long a shard may be away before its hosts count as unreachable.
	UnreachableAfter time.Duration
	// LostAfter is how long a host may be unreachable before its tasks are given up and run elsewhere. It counts from when
	// the shard was connected or cut off, if that is later: time in which nobody listened does not count.
	LostAfter time.Duration
	// Away returns since when a shard is cut off or connected, and whether it is cut off.
	Away func(cluster.ShardID) (since cluster.Time, away bool)
}

// Overdue reports whether Expire would do something about the host.
func (d *Deadlines) Overdue(h *cluster.Host, now cluster.Time) bool {
	return d.lostContact(h, now) || d.lostForGood(h, now)
}

func (d *Deadlines) lostContact(h *cluster.Host, now cluster.Time) bool {
	since, away := d.Away(h.ID.Shard())
	return away && !h.Unreachable && now.Sub(since) >= d.UnreachableAfter
}

func (d *Deadlines) lostForGood(h *cluster.Host, now cluster.Time) bool {
	if !h.Unreachable || len(h.Tasks) == 0 {
		return false
	}
	since, _ := d.Away(h.ID.Shard())
	return now.Sub(max(since, h.Since)) >= d.LostAfter
}

// Expire marks the hosts of shards that are away for too long as unreachable, and gives up the tasks of hosts that are
// unreachable for too long: they are LOST, and wait again.
func (d *Deadlines) Expire(tx *Tx) error {
	now := tx.Now()
	var overdue []*cluster.Host
	for h := range tx.State().Hosts("") {
		if d.Overdue(h, now) {
			overdue = append(overdue, h)
		}
	}
	for _, h := range overdue {
		if d.lostContact(h, now) {
			if err := tx.Emit(&cluster.HostUnreached{ID: h.ID, Reason: "its host-manager shard is cut off"}); err != nil {
				return err
			}
			continue
		}
		for _, k := range h.Tasks {
			message := fmt.Sprintf("host %s was unreachable for %v", h.ID, d.LostAfter)
			if err := conclude(tx, k, cluster.TaskLost, cluster.ReasonHostLost, message); err != nil {
				return err
			}
		}
	}
	return nil
}
