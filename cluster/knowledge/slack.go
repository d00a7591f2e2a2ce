package knowledge

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Slack estimates what the tasks of hosts leave unused of what they were allocated, for revocable ones to have.
//
// A task is believed to use all that it asks for when it is measured first. From then on it is believed to use what it is
// measured to, at least; what it was believed to use before fades, by a share of the difference of elapsed time ÷ Window with
// each report: so a peak counts for about a Window. What the belief and a margin leave of the request is slack. Summed up by
// host it is told in steps of 1/32 of the capacity, rounded down: less at once, more at most once in a Window. So hosts
// whose tasks go on as they did are told nothing of.
//
// In the first Window of its life a Slack believes tasks that are older than that by the first measurement, and raises
// nothing: a restart then takes nothing away from those who run on slack.
//
// It is for one goroutine. Time comes from the caller.
type Slack struct {
	Window time.Duration
	Margin int // kept beside what a task is believed to use, in percent of that

	began  cluster.Time
	last   cluster.Time // that the caller gave
	shards map[cluster.ShardID]*shardUse
	raised map[cluster.HostID]cluster.Time // when more was told last
}

type shardUse struct {
	at   cluster.Time // of the last report
	runs map[cluster.TaskKey]use
}

type use struct {
	run    uint32
	belief cluster.Resources
}

// SlackChange says what the slack of a host is to be.
type SlackChange struct {
	seen  *cluster.Host // as it was when its tasks were measured
	slack cluster.Resources
}

// Event returns the change as it may be made by now, nil if there is none: a host on which tasks have come or gone
// meanwhile gets no more than it had.
func (c SlackChange) Event(s *cluster.State) cluster.Event {
	now := s.Host(c.seen.ID)
	if now == nil {
		return nil
	}
	slack := c.slack
	if !slices.Equal(now.Tasks, c.seen.Tasks) {
		slack = least(slack, now.Slack)
	}
	if slack.Equal(now.Slack) {
		return nil
	}
	return &cluster.SlackMeasured{Host: now.ID, Slack: slack}
}

// steps is into how many the capacity of a host is divided to say how much of it is slack.
const steps = 32

// Measured takes in a report of all runs of a shard and returns what it changes. Where no job of the snapshot is revocable
// the slack of all hosts is taken back: nobody would keep it up to date. Complexity: the runs and the hosts of the shard.
func (s *Slack) Measured(snap *cluster.Snapshot, shard cluster.ShardID, at cluster.Time, report []Sample) []SlackChange {
	s.begin(at)
	before := s.shards[shard]
	if before == nil {
		before = &shardUse{at: at}
	}
	now := &shardUse{at: at, runs: make(map[cluster.TaskKey]use, len(report))}
	s.shards[shard] = now
	slack := map[cluster.HostID]cluster.Resources{}
	for _, r := range report {
		t := snap.Task(r.Run.Task)
		if t == nil || !t.State.Bound() || t.Run != r.Run.Run {
			continue
		}
		j := snap.Job(t.Key.Job())
		if j.Spec.Revocable {
			continue
		}
		asked := j.TaskFor(t).Resources
		old, known := before.runs[t.Key]
		u := use{t.Run, r.Used}
		switch {
		case known && old.run == t.Run:
			u.belief = fade(old.belief, r.Used, at.Sub(before.at), s.Window)
		case t.Started == 0 || at.Sub(s.began) >= s.Window || at.Sub(t.Started) < s.Window:
			u.belief = asked
		}
		now.runs[t.Key] = u
		slack[t.Host] = slack[t.Host].Add(s.left(asked, u.belief))
	}
	lent := snap.Lending() > 0
	return s.tell(at, snap.ShardHosts(shard), func(h *cluster.Host) (next cluster.Resources) {
		if lent {
			next = inSteps(slack[h.ID], h.Capacity)
		}
		return next
	})
}

// Silent takes back the slack of hosts of which nothing was measured for longer than a Window, and forgets shards that have none.
// Complexity: hosts.
func (s *Slack) Silent(snap *cluster.Snapshot, at cluster.Time) []SlackChange {
	s.begin(at)
	maps.DeleteFunc(s.raised, func(_ cluster.HostID, last cluster.Time) bool { return at.Sub(last) >= s.Window }) // which says nothing any more
	maps.DeleteFunc(s.shards, func(shard cluster.ShardID, _ *shardUse) bool { return !snap.HasHosts(shard) })     // nor what ran there
	return s.tell(at, snap.Hosts(""), func(h *cluster.Host) cluster.Resources {
		last := s.began
		if u := s.shards[h.ID.Shard()]; u != nil {
			last = u.at
		}
		if at.Sub(last) > s.Window {
			return cluster.Resources{}
		}
		return h.Slack
	})
}

func (s *Slack) begin(at cluster.Time) {
	if s.shards == nil {
		s.began, s.shards, s.raised = at, map[cluster.ShardID]*shardUse{}, map[cluster.HostID]cluster.Time{}
	}
	if by := at.Sub(s.last); by < 0 { // the clock has been set back: what it has said goes with it
		s.began = s.began.Add(by)
		for _, u := range s.shards { // in any order: each for itself
			u.at = u.at.Add(by)
		}
		for h, told := range s.raised {
			s.raised[h] = told.Add(by)
		}
	}
	s.last = at
}

// tell returns what changes when the slack of the hosts is the given one.
func (s *Slack) tell(at cluster.Time, hosts iter.Seq[*cluster.Host], slack func(*cluster.Host) cluster.Resources) []SlackChange {
	var changes []SlackChange
	for h := range hosts {
		next := slack(h)
		if !next.Fits(h.Slack) { // more of something
			last, before := s.raised[h.ID]
			if young := at.Sub(s.began) < s.Window; young && !h.Slack.IsZero() || before && at.Sub(last) < s.Window {
				next = least(next, h.Slack)
			} else {
				s.raised[h.ID] = at
			}
		}
		if !next.Equal(h.Slack) {
			changes = append(changes, SlackChange{h, next})
		}
	}
	return changes
}

// left returns what a task leaves of what it asks for, in the dimensions that are measured.
func (s *Slack) left(asked, belief cluster.Resources) (left cluster.Resources) {
	for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} {
		left.Fixed[d] = max(0, asked.Fixed[d]-belief.Fixed[d]-belief.Fixed[d]*int64(s.Margin)/100)
	}
	return left
}

// fade returns what is believed after one more measurement.
func fade(belief, used cluster.Resources, elapsed, window time.Duration) cluster.Resources {
	const whole = 100_000
	part := int64(min(elapsed, window) / max(1, window/whole))
	for d, was := range belief.Fixed {
		belief.Fixed[d] = max(used.Fixed[d], was-(was-used.Fixed[d])*part/whole)
	}
	return belief
}

// inSteps rounds down to steps of the capacity.
func inSteps(r, capacity cluster.Resources) cluster.Resources {
	for d, v := range r.Fixed {
		if step := capacity.Fixed[d] / steps; step > 0 {
			r.Fixed[d] = v - v%step
		} else {
			r.Fixed[d] = 0
		}
	}
	return r
}

func least(a, b cluster.Resources) cluster.Resources {
	for d := range a.Fixed {
		a.Fixed[d] = min(a.Fixed[d], b.Fixed[d])
	}
	return a
}
