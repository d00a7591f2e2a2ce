package cluster

// The availability budget of services, in one place: whatever is done of the scheduler's or an operator's own accord
// (updates, drains, preemptions, migrations) asks Bears first, on the state that it changes.

// MaxAway returns how many instances of a service may be unavailable at once for anything voluntary; at least 1.
func (s *JobSpec) MaxAway() int64 { return int64(max(1, s.Limits.MaxUnavailable)) }

// Away returns how many instances the job lacks: those that are wanted less those that are ready. It is negative while an
// update runs more than are wanted.
func (j *Job) Away() int64 {
	if j.Spec.Type != Daemon {
		return int64(j.Spec.Instances) - int64(j.Ready)
	}
	return int64(j.tasks()) - int64(j.Ready) // one is wanted on every matching host
}

// Spare returns how many more ready instances of a service may become unavailable for something voluntary. It is negative where
// more are unavailable already.
func (j *Job) Spare() int64 { return j.Spec.MaxAway() - j.Away() }

// Bears reports whether the job bears that n more of its ready instances become unavailable for something voluntary. A
// batch job bears everything.
func (j *Job) Bears(n int64) bool { return !j.Spec.Type.Service() || n <= j.Spare() }

// BearsLoss is Bears for one of the job's tasks, which counts if it is ready.
func (j *Job) BearsLoss(t *Task) bool {
	if t.Ready == 0 {
		return j.Bears(0)
	}
	return j.Bears(1)
}

// ChecksReadiness reports whether some check of the task says when it is fit to serve.
func (s *TaskSpec) ChecksReadiness() bool {
	for i := range s.Processes {
		for _, c := range s.Processes[i].Checks {
			if c.Effect != Liveness {
				return true
			}
		}
	}
	return false
}

// serves reports whether the task is ready: it runs on a host that is vouched for, and its checks, if there are any, say
// that it is fit to serve.
func (s *State) serves(t *Task, j *Job) bool {
	if t.State != TaskRunning || t.Health == Unhealthy || t.Health == HealthUnready {
		return false
	}
	h := s.Host(t.Host)
	return h != nil && !h.Unreachable && (t.Health == HealthReady || !j.TaskFor(t).ChecksReadiness())
}

// judge brings the readiness of a task that changed in line with it, and the job's count with both.
func (s *State) judge(at Time, from, to *Task, j *Job) {
	switch {
	case !s.serves(to, j):
		if to.Ready != 0 {
			to.Unready = at
		}
		to.Ready = 0
	case to.Ready == 0:
		to.Ready = at
	}
	if from != nil && from.Ready != 0 {
		j.Ready--
	}
	if to.Ready != 0 {
		j.Ready++
	}
}

// judgeAll judges the tasks of a host that went away, came back, or moved to another address: where a ready task is reached is
// news of its job.
func (s *State) judgeAll(at Time, h *Host, moved bool) {
	for _, k := range h.Tasks {
		t, j := s.Task(k), *s.Job(k.Job())
		if ready := t.Ready != 0; ready != s.serves(t, &j) || ready && moved {
			next := *t
			s.setTask(at, t, &next, &j)
			s.setJob(at, &j)
		}
	}
}
