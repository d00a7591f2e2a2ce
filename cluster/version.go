package cluster

import (
	"reflect"
	"slices"
)

// KeptVersions is how many specs of a job are kept, the present one included. Those that its tasks run, and the ones that
// an update began from and that the next one would return to, are kept as long as that is so.
const KeptVersions = 10

// Version is a spec that a job has or had.
type Version struct {
	Number         uint64 // 1 when submitted, one more with every update
	Spec           *JobSpec
	At             Time   // when it became the job's
	Description    string `cbor:",omitempty"`
	IdempotencyKey string `cbor:",omitempty"` // no longer used: there are receipts
}

// Versions returns the specs that are kept, oldest first; the last is the present one.
func (j *Job) Versions() []Version {
	now := Version{Number: j.Version, Spec: j.Spec, At: j.Changed, Description: j.Description}
	if now.At == 0 {
		now.At = j.Submitted
	}
	return append(slices.Clone(j.Past), now)
}

// SpecOf returns the spec of that version, nil if it is not kept.
func (j *Job) SpecOf(version uint64) *JobSpec {
	if version == j.Version {
		return j.Spec
	}
	for i := range j.Past {
		if j.Past[i].Number == version {
			return j.Past[i].Spec
		}
	}
	return nil
}

// SpecFor returns the spec that a task of the job runs by, or will run by where it waits.
func (j *Job) SpecFor(t *Task) *JobSpec {
	if s := j.SpecOf(t.Version); s != nil {
		return s
	}
	return j.Spec
}

// TaskFor returns what a task of the job runs, or will run where it waits. See JobSpec.TaskOf.
func (j *Job) TaskFor(t *Task) *TaskSpec { return j.SpecFor(t).TaskOf(t.Key.Instance()) }

// retire keeps the job's present spec as a past one and forgets those that nobody needs. Complexity: the tasks.
func (s *State) retire(j *Job) {
	used := map[uint64]bool{}
	if j.Update != nil {
		used[j.Update.From], used[j.Update.Safe] = true, true
	}
	for t := range s.TasksOf(j.UID, 0) {
		used[t.Version], used[t.Next] = true, true
	}
	all := j.Versions()
	spare := len(all) - (KeptVersions - 1)
	j.Past = nil
	for i, v := range all {
		if i >= spare || used[v.Number] {
			if v.Number == j.Version && len(v.Spec.Secrets) > 0 {
				spec := *v.Spec
				spec.Secrets = withoutValues(spec.Secrets)
				v.Spec = &spec
			}
			j.Past = append(j.Past, v)
		}
	}
}

// Change says what it takes to bring an instance from one spec to another.
type Change uint8

// The changes, from the smallest to the largest.
const (
	NoChange    Change = iota // it runs the same
	SmallChange               // labels, or how much it asks for
	NewRun                    // something that only a new run can have
)

// ChangeOf returns what it takes to bring the instance from spec s to spec o. What it asks for counts as small where the
// devices and ports stay. Another value of a secret is none: runs are given what it is when they start.
func (s *JobSpec) ChangeOf(o *JobSpec, instance uint32) Change {
	a, b := *s.TaskOf(instance), *o.TaskOf(instance)
	a.KillGrace, b.KillGrace = 0, 0 // counts from the next stop on, whatever runs
	same := equal(s.Constraint, o.Constraint) && equal(s.Preferences, o.Preferences) && equal(s.Spread, o.Spread) &&
		samePlaces(s.Secrets, o.Secrets)
	switch {
	case same && equal(a, b) && equal(s.Labels, o.Labels):
		return NoChange
	case same && equal(a.envelope(), b.envelope()):
		return SmallChange
	default:
		return NewRun
	}
}

// envelope returns the task without what a small change changes.
func (s TaskSpec) envelope() TaskSpec {
	s.Labels, s.Resources = nil, Resources{}
	s.Processes = slices.Clone(s.Processes)
	for i := range s.Processes {
		if r := s.Processes[i].Request; r != nil {
			s.Processes[i].Request = &Request{GPU: r.GPU, Ports: r.Ports}
		}
	}
	return s
}

// equal compares two values of the same type field by field. Empty lists are equal to none at all, since what comes back
// from the journal cannot tell them apart.
func equal[T any](a, b T) bool { return equalValues(reflect.ValueOf(a), reflect.ValueOf(b)) }

func equalValues(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Pointer() == b.Pointer() || equalValues(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	default:
		return a.Equal(b)
	}
}

// adopt fills in what records of tasks lacked before jobs had versions.
func (s *State) adopt(tasks []*Task) {
	for _, old := range tasks {
		if old.Version != 0 {
			continue
		}
		t, j := *old, *s.Job(old.Key.Job())
		t.Version = j.Version
		s.judge(t.Since, nil, &t, &j)
		s.tasks.Set(uint64(t.Key), &t)
		s.jobs.Set(uint64(j.UID), &j)
	}
}

// adoptSecrets returns the job with the places of its present secrets in earlier specs that have some and were kept without their
// names, as all were once. Of a controller with a credential the spec does not tell whether it has secrets, too.
func adoptSecrets(j *Job) *Job {
	lacks := func(v Version) bool { return v.Spec.Task.Secrets && !v.Spec.APIAccess && len(v.Spec.Secrets) == 0 }
	if !slices.ContainsFunc(j.Past, lacks) {
		return j
	}
	own := *j
	own.Past = slices.Clone(j.Past)
	for i, v := range own.Past {
		if lacks(v) {
			spec := *v.Spec
			spec.Secrets = withoutValues(j.Spec.Secrets)
			own.Past[i].Spec = &spec
		}
	}
	return &own
}
