package serve

import (
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Usage is what a run used when it was last measured.
type Usage struct {
	Run         uint32
	At          time.Time
	CPUMilli    int64
	MemoryBytes int64
	Progress    *float64          // how far the run says it is, 0..1; nil: it has not said
	peak        cluster.Resources // of all measurements, in each dimension
}

func (u *Usage) resources() cluster.Resources {
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU], fixed[cluster.Memory] = max(0, u.CPUMilli), max(0, u.MemoryBytes)
	return cluster.NewResources(fixed)
}

// takeUsage replaces what is known of the shard's runs: each report names all that run. Of those that are not named any
// more, the peak is kept until their end is reported.
func (s *Scheduler) takeUsage(shard cluster.ShardID, r *sluicev1.UsageReport) {
	s.offerSlack(shard, r)
	now, snapshot := time.Now(), s.Snapshot()
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sh := s.shards.get(shard)
	before := sh.usage
	sh.usage = make(map[cluster.TaskKey]Usage, len(r.GetRuns()))
	for _, m := range r.GetRuns() {
		run := runFrom(m.GetRun())
		u := Usage{Run: run.Run, At: now, CPUMilli: m.GetCpuMilli(), MemoryBytes: m.GetMemoryBytes()}
		if p := m.Progress; p != nil && *p >= 0 && *p <= 1 {
			u.Progress = p
		}
		u.peak = u.resources()
		if old := before[run.Task]; old.Run == run.Run {
			for d, v := range old.peak.Fixed {
				u.peak.Fixed[d] = max(u.peak.Fixed[d], v)
			}
		}
		sh.usage[run.Task] = u
	}
	for k, old := range before {
		t := snapshot.Task(k)
		if _, named := sh.usage[k]; !named && t != nil && t.State.Bound() && t.Run == old.Run {
			sh.usage[k] = old
		}
	}
}

// TaskUsage returns what the task's current run was last measured to use; false if it was not measured.
func (s *Scheduler) TaskUsage(t *cluster.Task) (Usage, bool) {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return s.shards.usageOf(t)
}

// usageOf is TaskUsage for who holds the lock.
func (r *shardTable) usageOf(t *cluster.Task) (Usage, bool) {
	sh := r.byName[t.Host.Shard()]
	if sh == nil || !t.State.Bound() {
		return Usage{}, false
	}
	u, ok := sh.usage[t.Key]
	return u, ok && u.Run == t.Run
}

// progressOf returns how far a run says it is; false where it has not said.
func (s *Scheduler) progressOf(run cluster.RunID) (float64, bool) {
	t := s.Snapshot().Task(run.Task)
	if t == nil || t.Run != run.Run {
		return 0, false
	}
	u, ok := s.TaskUsage(t)
	if !ok || u.Progress == nil {
		return 0, false
	}
	return *u.Progress, true
}

// jobProgress is the mean of how far the tasks of a job are, nil where they do not say. Complexity: the tasks.
func (s *Scheduler) jobProgress(snapshot *cluster.Snapshot, j *cluster.Job) *float64 {
	if j.Spec.Progress == 0 || j.Spec.Instances == 0 {
		return nil
	}
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sum := 0.0
	for t := range snapshot.TasksOf(j.UID, 0) {
		switch u, ok := s.shards.usageOf(t); {
		case t.Key.IsCopy():
		case t.State == cluster.TaskSucceeded:
			sum++
		case ok && u.Progress != nil:
			sum += *u.Progress
		}
	}
	mean := min(sum/float64(j.Spec.Instances), 1)
	return &mean
}

// notePeak adds to the end of a run what it was measured to use at most.
func (s *Scheduler) notePeak(shard cluster.ShardID, e *cluster.TaskStatus) {
	if !e.State.Terminal() {
		return
	}
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	if u, ok := s.shards.get(shard).usage[e.Task]; ok && u.Run == e.Run {
		e.Peak = &u.peak
	}
}

// hostUsage sums what was measured by host.
func (s *Scheduler) hostUsage(snapshot *cluster.Snapshot) knowledge.Usage {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sums := knowledge.Usage{}
	for _, sh := range s.shards.byName { // in any order: sums
		for k, u := range sh.usage {
			if t := snapshot.Task(k); t != nil && t.State.Bound() && t.Run == u.Run {
				sums[t.Host] = sums[t.Host].Add(u.resources())
			}
		}
	}
	return sums
}
