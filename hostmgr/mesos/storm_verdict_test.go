package mesos_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// stopJob stops a job, as soon as there is a scheduler.
func (s *storm) stopJob(job cluster.JobUID) {
	s.Helper()
	s.awaitScheduler()
	s.emit(&cluster.JobStopping{Job: job})
}

// endsWell waits until all jobs have got where their policies say, stops the services, and looks for what is left.
func (s *storm) endsWell(from time.Time) {
	ends := map[kind]cluster.JobState{
		batchJob: cluster.JobSucceeded, groupJob: cluster.JobSucceeded, doomedJob: cluster.JobFailed, briefJob: cluster.JobKilled,
	}
	for i, job := range s.jobs {
		if !job.stays() {
			s.await(from, time.Hour, cluster.JobUID(i+1), func(j *cluster.Job) bool { return j.State() == ends[job] })
		}
	}
	all := 0
	for _, uid := range s.services {
		spec := s.scheduler.Snapshot().Job(uid).Spec
		all += int(spec.Instances) * len(spec.Task.Processes)
	}
	for _, uid := range s.services {
		s.await(from, time.Hour, uid, func(j *cluster.Job) bool {
			return j.Counts[cluster.TaskRunning] == j.Spec.Instances && s.living() == all
		})
	}
	for _, uid := range s.services {
		s.stopJob(uid)
	}
	for _, uid := range s.services {
		s.await(from, 2*time.Hour, uid, func(j *cluster.Job) bool {
			return j.State() == cluster.JobKilled && s.living() == 0 && len(s.known()) == 0
		})
	}
	s.noSecondVolume()
	s.deleteVolumes()
	for h := range s.scheduler.Snapshot().Hosts("") {
		require.Empty(s, h.Tasks)
		require.True(s, h.Allocated.IsZero())
	}
	time.Sleep(offerHold + time.Minute)
	s.noLeakedOffer()
	for _, at := range s.sites {
		used, offered, total := at.mesos.Cores()
		require.Zero(s, used, "resources of %s are still used", at.name)
		require.LessOrEqual(s, offered, total)
		require.InDelta(s, siteHosts*8, total, 1e-9, "all hosts are back")
	}
}

// deleteVolumes: when nobody uses them, all volumes can be deleted.
func (s *storm) deleteVolumes() {
	for _, at := range s.sites {
		for i := range siteHosts {
			host := fmt.Sprint("h", i)
			for _, v := range at.mesos.Volumes(host) {
				err := at.driver.(hostmgr.VolumeKeeper).DeleteVolume(s.Context(), host, v.ID)
				require.NoError(s, err, "%v of %s/%s\n%s", v, at.name, host, s.story())
			}
			require.Empty(s, at.mesos.Volumes(host), "%s/%s\n%s", at.name, host, s.story())
		}
	}
}

// await waits until a job is as it should be.
func (s *storm) await(from time.Time, longest time.Duration, uid cluster.JobUID, there func(*cluster.Job) bool) {
	s.Helper()
	for {
		j := s.scheduler.Snapshot().Job(uid)
		if there(j) {
			return
		}
		require.Less(s, time.Since(from), longest, "job %d %v: %v, %d live\nunfinished: %s\nknown: %v\n%s", uid, s.jobs[uid-1], j.Counts, s.living(),
			s.unfinished(uid), s.known(), s.story())
		time.Sleep(time.Second)
	}
}

func (s *storm) unfinished(job cluster.JobUID) string {
	var b strings.Builder
	for t := range s.scheduler.Snapshot().TasksOf(job, 0) {
		if !t.State.Terminal() {
			fmt.Fprintf(&b, "%v run %d %v on %v; ", t.Key, t.Run, t.State, t.Host)
		}
	}
	return b.String()
}

// living counts the processes that run.
func (s *storm) living() (n int) {
	for _, at := range s.sites {
		for _, r := range at.mesos.Runs() {
			if r.Ended.IsZero() {
				n++
			}
		}
	}
	return n
}

// known lists the runs that the drivers still know.
func (s *storm) known() (all []hostmgr.Status) {
	for _, at := range s.sites {
		all = append(all, at.driver.Inventory()...)
	}
	return all
}

// life is what became of a run on its agent.
type life struct {
	id             cluster.RunID
	where          string // SITE/HOST
	started, ended time.Time
	ends           []api.TaskState // of its processes
	volumes        []mesostest.Volume
}

func (l *life) String() string {
	return fmt.Sprintf("%v on %s from %s to %s: %v %v", l.id, l.where, l.started.Format("15:04:05.000"), l.ended.Format("15:04:05.000"), l.ends, l.volumes)
}

// all and any tell whether its processes ended so.
func (l *life) all(state api.TaskState) bool {
	return !slices.ContainsFunc(l.ends, func(e api.TaskState) bool { return e != state })
}
func (l *life) any(state api.TaskState) bool { return slices.Contains(l.ends, state) }

// lives returns what the agents ran, by task, each in the order of the starts. No process was started twice.
func (s *storm) lives() map[cluster.TaskKey][]*life {
	seen := make(map[string]bool)
	byRun := make(map[cluster.RunID]*life)
	for _, at := range s.sites {
		for _, r := range at.mesos.Runs() {
			require.False(s, seen[r.TaskID], "%s was started twice", r.TaskID)
			seen[r.TaskID] = true
			id, err := runOf(r.TaskID)
			require.NoError(s, err)
			require.False(s, r.Ended.IsZero(), "%s still runs", r.TaskID)
			l := byRun[id]
			if l == nil {
				l = &life{id: id, where: at.name + "/" + r.Hostname, started: r.Started, ended: r.Ended, volumes: r.Volumes}
				byRun[id] = l
			}
			if r.Started.Before(l.started) {
				l.started = r.Started
			}
			if r.Ended.After(l.ended) {
				l.ended = r.Ended
			}
			l.ends = append(l.ends, r.State)
		}
	}
	byTask := make(map[cluster.TaskKey][]*life)
	for _, l := range byRun {
		byTask[l.id.Task] = append(byTask[l.id.Task], l)
	}
	for _, all := range byTask {
		slices.SortFunc(all, func(a, b *life) int { return cmp.Or(a.started.Compare(b.started), a.id.Compare(b.id)) })
	}
	return byTask
}

// judge holds what the agents ran to what the jobs' policies say.
func (s *storm) judge() {
	byTask := s.lives()
	runs, beside := 0, 0
	for _, key := range slices.Sorted(maps.Keys(byTask)) {
		all := byTask[key]
		runs += len(all)
		for i, l := range all {
			for _, next := range all[i+1:] {
				if l.ended.After(next.started) {
					beside++
					s.replaced(l, next)
				}
			}
		}
	}
	for i, job := range s.jobs {
		uid := cluster.JobUID(i + 1)
		n := s.scheduler.Snapshot().Job(uid).Spec.Instances
		for i := range n {
			s.followed(job, cluster.MakeTaskKey(uid, i), byTask)
		}
	}
	require.Greater(s, runs, len(byTask), "the storm was felt")
	s.Logf("%d tasks, %d runs, %d beside one that was out of reach; %d strikes: %v", len(byTask), runs, beside, len(s.outages), s.struck)
}

// replaced: a run that lived beside its replacement had been out of reach for as long as it takes, and it ended, by a kill
// or a strike if not by itself, soon after it was in reach again.
func (s *storm) replaced(l, next *life) {
	ok := slices.ContainsFunc(s.outages, func(o *outage) bool {
		soon := l.ended.Before(o.to.Add(10 * time.Minute))
		itself := l.ended.Before(o.to.Add(2*time.Minute)) || l.all(api.TASK_KILLED) || l.any(api.TASK_LOST) || s.shot[l.id]
		return o.covers(l.where) && !next.started.Before(o.from.Add(lostAfter)) && soon && itself
	})
	require.True(s, ok, "%v, and beside it %v\n%s", l, next, s.story())
}

func (o *outage) covers(where string) bool {
	return o.where == "all" || o.where == where || strings.HasPrefix(where, o.where+"/")
}

// untold reports whether the end of a run can have been unknown when its replacement started: its host went away with it,
// or could not be asked for as long as it takes to replace it, be it that the run ended only when that was over, or before,
// while the masters told nobody.
func (s *storm) untold(l, next *life) bool {
	return slices.ContainsFunc(s.outages, func(o *outage) bool {
		host := o.where == l.where && !o.to.Before(l.ended) && !o.from.After(next.started)
		given := o.from.Add(lostAfter) // up
		long := !o.to.Before(given) && !next.started.Before(given) && !l.started.After(given) &&
			l.ended.After(s.heardUntil(o)) && l.ended.Before(o.to.Add(10*time.Minute))
		return o.covers(l.where) && (host || long)
	})
}

// heardUntil returns until when ends were surely told before an outage: those of a moment before may have been on their way,
// or were held up. What was held up before is not told at once when it may be: a moment between two silences may be too short.
func (s *storm) heardUntil(o *outage) time.Time {
	const moment = 30 * time.Second
	until := o.from.Add(-moment)
	told := until
	for again := true; again; {
		again = false
		for _, m := range s.mutes {
			if (o.where == "all" || m.covers(o.where)) && m.from.Before(until) && !m.to.Before(told) {
				until, told, again = m.from, m.from.Add(-moment), true
			}
		}
	}
	return until
}

// followed holds the runs of one task to the policy of its job.
func (s *storm) followed(job kind, key cluster.TaskKey, byTask map[cluster.TaskKey][]*life) {
	all := byTask[key]
	told := func(i int) bool { return i == len(all)-1 || !s.untold(all[i], all[i+1]) }
	successes, failures := 0, 0
	for i, l := range all {
		if l.all(api.TASK_FINISHED) && told(i) {
			successes++
		}
		if l.any(api.TASK_FAILED) && told(i) {
			failures++
		}
	}
	history := func() string { return fmt.Sprintf("task %v: %v\n%s", key, all, s.story()) }
	switch {
	case job == batchJob, job == groupJob:
		require.Equal(s, 1, successes, "one success, and no run after it; %s", history())
		require.True(s, all[len(all)-1].all(api.TASK_FINISHED), "%s", history())
	case job == doomedJob:
		require.LessOrEqual(s, failures, maxFails+1, "%s", history())
		require.GreaterOrEqual(s, len(all), maxFails+1, "%s", history())
		require.True(s, all[len(all)-1].any(api.TASK_FAILED), "%s", history())
	default:
		require.Zero(s, successes, "%s", history())
		if job.stays() {
			require.True(s, all[len(all)-1].all(api.TASK_KILLED), "%s", history())
		}
		for i, l := range all {
			require.True(s, !job.keeps() || i == 0 || s.found(all[i-1], l), "run %v; %s", l.id, history())
		}
	}
}

// found reports whether a run of a task with a volume began when the one before had ended, where that had been, and with its volume,
// unless the disk was lost in between.
func (s *storm) found(l, next *life) bool {
	wiped := slices.ContainsFunc(s.wiped, func(o *outage) bool {
		return o.where == l.where && !o.to.Before(l.ended) && !o.from.After(next.started)
	})
	return l.where == next.where && !next.started.Before(l.ended) && len(next.volumes) == 1 && (wiped || slices.Equal(l.volumes, next.volumes))
}

// TestWhatEndsBetweenTwoSilencesMayBeUntold: a run ended while a new leader read its log. Nine seconds after that there was no leader, and then
// the host manager was away until after the run's replacement had begun.
func TestWhatEndsBetweenTwoSilencesMayBeUntold(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	silent := func(from, to int) *outage { return &outage{where: "east", from: at(from), to: at(to)} }
	s := &storm{T: t, outages: []*outage{silent(600, 800)}, mutes: []*outage{silent(510, 540), silent(549, 750)}}
	next := &life{where: "west/h1", started: at(790), ended: at(800)}
	for ended, want := range map[int]bool{470: false, 530: true, 545: true} {
		require.Equal(t, want, s.untold(&life{where: "east/h0", started: at(400), ended: at(ended)}, next), "it ended at %d", ended)
	}
}
