package serve

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// samplesFrom converts a report. Amounts of which no host can have as many are cut.
func samplesFrom(r *sluicev1.UsageReport) []knowledge.Sample {
	samples := make([]knowledge.Sample, 0, len(r.GetRuns()))
	for _, m := range r.GetRuns() {
		s := knowledge.Sample{Run: runFrom(m.GetRun())}
		used := &s.Used.Fixed
		used[cluster.CPU], used[cluster.Memory] = m.GetCpuMilli(), m.GetMemoryBytes()
		used[cluster.Disk], used[cluster.Network] = m.GetDiskBytes(), m.GetNetworkBytesPerSecond()
		for d, v := range used {
			used[d] = min(max(0, v), cluster.MaxAmount)
		}
		if p := m.Progress; p != nil && *p >= 0 && *p <= 1 {
			s.Progress = p
		}
		samples = append(samples, s)
	}
	return samples
}

// samplesOf converts a report. What a shard says of runs on hosts of others is left out.
func (s *Scheduler) samplesOf(shard cluster.ShardID, r *sluicev1.UsageReport) []knowledge.Sample {
	snapshot := s.Snapshot()
	return slices.DeleteFunc(samplesFrom(r), func(m knowledge.Sample) bool {
		return !rules.Awaited(snapshot.Task(m.Run.Task), shard, m.Run.Run)
	})
}

// takeUsage replaces what is known of the shard's runs.
func (s *Scheduler) takeUsage(shard cluster.ShardID, samples []knowledge.Sample) {
	s.offerSlack(shard, samples)
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sh := s.shards.get(shard)
	sh.usage = sh.usage.Next(s.Snapshot(), samples)
}

// TaskUsage returns what the task's current run was last measured to use; false if it was not measured.
func (s *Scheduler) TaskUsage(t *cluster.Task) (knowledge.Use, bool) {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return s.shards.usageOf(t)
}

// usageOf is TaskUsage for who holds the lock.
func (r *shardTable) usageOf(t *cluster.Task) (knowledge.Use, bool) {
	sh := r.byName[t.Host.Shard()]
	if sh == nil || !t.State.Bound() {
		return knowledge.Use{}, false
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
	e.Peak = s.shards.get(shard).usage.Peak(cluster.RunID{Task: e.Task, Run: e.Run})
}

// hostUsage sums what was measured by host.
func (s *Scheduler) hostUsage(snapshot *cluster.Snapshot) knowledge.Usage {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	sums := knowledge.Usage{}
	for _, sh := range s.shards.byName { // in any order: sums
		sums.Add(sh.usage, snapshot)
	}
	return sums
}
