package cycle

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// CheckIngest takes a snapshot in and holds what is known then against what is known of it to one that reads all of it anew. The same
// input may be planned afterwards.
func (s *Supervisor) CheckIngest(t require.TestingT, in Input) {
	p, q := s.planner, s.Blank(s.policy).planner
	if !p.primed || in.Rescan || len(in.Changes.Pools) > 0 {
		return // all of it is read anew in any case
	}
	p.ingest(in)
	p.dropEmpty()
	in.Rescan = true
	q.ingest(in)
	q.dropEmpty()
	require.Equal(t, q.seen(), p.seen())
	for id, h := range q.hosts.byID {
		require.True(t, sameToPlace(p.hosts.byID[id].rec, h.rec), "%s: %+v, and is %+v", id, p.hosts.byID[id].rec, h.rec)
	}
}

// seen is what a planner knows of a snapshot, as text by what it is about.
func (p *Planner) seen() map[string]string {
	all := map[string]string{}
	for id, h := range p.hosts.byID {
		all[fmt.Sprint("host ", id)] = fmt.Sprint(tasksOf(h.units), tasksOf(h.holds), h.loose, len(h.nominated)+len(h.arrivals), h.decided, h.recalls)
	}
	for _, u := range p.units.From(0) {
		count := "none"
		for name, n := range map[string]*int64{"running": &u.group.running, "leaving": &u.group.leaving, "ending": &u.group.ending} {
			if u.counted == n {
				count = name
			}
		}
		at := cluster.HostID("")
		if u.host != nil {
			at = u.host.id
		}
		all[fmt.Sprint("unit ", u.task)] = fmt.Sprint(
			u.run, u.state, u.ready, u.rests, at, u.devices, u.started, u.last, u.owed, u.hold, count, u.begun, u.settled, u.victim,
			coarse(u.group.key), u.set.key, p.held[u.task] == u, u.job == p.snap.Job(u.task.Job()).SpecFor(p.snap.Task(u.task)),
		)
	}
	for k, u := range p.held {
		if u.state == cluster.TaskReserved {
			all[fmt.Sprint("held ", k)] = fmt.Sprint(u.row) // of those that run it is what they wished when they were placed
		}
	}
	counts := map[string][3]int64{}
	for key, g := range p.groups {
		if g.running+g.leaving+g.ending > 0 {
			name := fmt.Sprint("group ", coarse(key))
			n := counts[name]
			counts[name] = [3]int64{n[0] + g.running, n[1] + g.leaving, n[2] + g.ending}
		}
	}
	for k, w := range p.waiting {
		key := w.class.key
		key.group = coarse(key.group)
		_, queued := w.class.queue.Get(w.as)
		all[fmt.Sprint("waiting ", k)] = fmt.Sprint(key, w.as.queued, w.as.run, w.as.ahead, w.as.set.key, queued)
	}
	for key, c := range p.classes {
		key.group = coarse(key.group)
		name := fmt.Sprint("class ", key)
		counts[name] = [3]int64{counts[name][0] + int64(c.queue.Len())}
	}
	for name, n := range counts {
		all[name] = fmt.Sprint(n)
	}
	for job, c := range p.cores {
		all[fmt.Sprint("core ", job)] = fmt.Sprint(tasksOf(c.all()))
	}
	return all
}

// coarse returns the key without what an update that takes a bound away leaves finer than need be.
func coarse(k groupKey) groupKey {
	if k.gated = false; !k.gang {
		k.job = 0
	}
	return k
}

func tasksOf(units []*unit) []cluster.TaskKey {
	var tasks []cluster.TaskKey
	for _, u := range units {
		tasks = append(tasks, u.task)
	}
	return sorted(tasks)
}

// Gone returns how many classes and hosts that are gone the next solve is to take out of the network.
func (s *Supervisor) Gone() int { return len(s.planner.graph.retired) }

// Racks returns for how many racks there is a place.
func (s *Supervisor) Racks() int { return len(s.planner.hosts.byRack) }

// Alarms returns how many times are kept at which a preference of a task gives way.
func (s *Supervisor) Alarms() int { return s.planner.ripening.Len() }
