package cluster

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Time is an instant in nanoseconds since the Unix epoch, 0 meaning "never". The core gets every Time as an input.
type Time int64

// Add returns t moved by d, Forever where that is later.
func (t Time) Add(d time.Duration) Time {
	if d > 0 && t > Forever-Time(d) {
		return Forever
	}
	return t + Time(d)
}

// Sub returns how long after u the instant t is.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Go converts t for display; the zero Time becomes the zero time.Time.
func (t Time) Go() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// JobID is the name a user gives a job. It is unique among the jobs that exist and may be used again after deletion.
type JobID string

// JobUID numbers jobs in the order of their submission, from 1. It is never reused, so that everything derived from
// it (task keys, run ids, folders of tasks on hosts) names one thing for ever.
type JobUID uint32

// String returns the number.
func (u JobUID) String() string { return strconv.FormatUint(uint64(u), 10) }

// TaskKey identifies a task: the job's uid and the instance within the job, and whether it is the copy of that instance.
// Keys order tasks by submission, then by instance, copies last.
type TaskKey uint64

// copyBit is set in the key of a copy, beside the number of the instance. See Copy.
const copyBit TaskKey = 1 << 31

// MakeTaskKey returns the key of an instance of a job.
func MakeTaskKey(job JobUID, instance uint32) TaskKey {
	return TaskKey(job)<<32 | TaskKey(instance)
}

// Job returns the uid of the task's job.
func (k TaskKey) Job() JobUID { return JobUID(k >> 32) }

// Instance returns the task's index within its job, from 0; of a copy that of the task that it is a copy of.
func (k TaskKey) Instance() uint32 { return uint32(k &^ copyBit) }

// Number returns what tells the task from the others of its job: MakeTaskKey makes the key of it.
func (k TaskKey) Number() uint32 { return uint32(k) }

// IsCopy reports whether the task is a copy.
func (k TaskKey) IsCopy() bool { return k&copyBit != 0 }

// Copy returns the key of the task's copy, Original that of the task of which k may be the copy.
func (k TaskKey) Copy() TaskKey { return k | copyBit }

// Original is described with Copy.
func (k TaskKey) Original() TaskKey { return k &^ copyBit }

// String returns "uid.instance", with a "c" at the end for a copy.
func (k TaskKey) String() string {
	if k.IsCopy() {
		return fmt.Sprintf("%d.%dc", k.Job(), k.Instance())
	}
	return fmt.Sprintf("%d.%d", k.Job(), k.Instance())
}

// RunID identifies one execution of a task. Runs count from 1; a task that is retried gets the next number. Launching
// the same RunID twice must start it once: this is what makes launches idempotent.
type RunID struct {
	Task TaskKey
	Run  uint32
}

// String returns "uid.instance.run", a valid file name.
func (r RunID) String() string { return fmt.Sprintf("%v.%d", r.Task, r.Run) }

// Compare orders runs by task, then by number.
func (r RunID) Compare(o RunID) int {
	return cmp.Or(cmp.Compare(r.Task, o.Task), cmp.Compare(r.Run, o.Run))
}

// ParseRunID reads what RunID.String wrote.
func ParseRunID(s string) (RunID, error) {
	var n [3]uint32
	parts := strings.Split(s, ".")
	if len(parts) != len(n) {
		return RunID{}, fmt.Errorf("cluster: run id %q is not uid.instance.run", s)
	}
	instance, isCopy := strings.CutSuffix(parts[1], "c")
	parts[1] = instance
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 32)
		if err != nil || strconv.FormatUint(v, 10) != p {
			return RunID{}, fmt.Errorf("cluster: run id %q is not uid.instance.run", s)
		}
		n[i] = uint32(v)
	}
	r := RunID{Task: MakeTaskKey(JobUID(n[0]), n[1]), Run: n[2]}
	if r.Task.IsCopy() { // a number that no instance has
		return RunID{}, fmt.Errorf("cluster: run id %q has too high an instance", s)
	}
	if isCopy {
		r.Task = r.Task.Copy()
	}
	return r, nil
}

// ShardID names a host-manager shard.
type ShardID string

// HostID names a host as "shard/name"; the name is the shard's own for it.
type HostID string

// MakeHostID joins a shard and its name for a host.
func MakeHostID(shard ShardID, name string) HostID { return HostID(string(shard) + "/" + name) }

// Shard returns the shard that owns the host.
func (h HostID) Shard() ShardID {
	shard, _, _ := strings.Cut(string(h), "/")
	return ShardID(shard)
}

// Name returns the shard's own name for the host.
func (h HostID) Name() string {
	_, name, _ := strings.Cut(string(h), "/")
	return name
}

// PoolPath names a pool by its way from the root, as "root/batch".
type PoolPath string

// RootPool is the top of the tree of pools. It always exists.
const RootPool PoolPath = "root"

// DefaultPool takes the jobs that name no pool. A new cluster has it.
const DefaultPool PoolPath = "root/default"

// Parent returns the pool above p, and "" for the root.
func (p PoolPath) Parent() PoolPath {
	i := strings.LastIndexByte(string(p), '/')
	if i < 0 {
		return ""
	}
	return p[:i]
}

// Covers reports whether q is p or below it.
func (p PoolPath) Covers(q PoolPath) bool {
	return q == p || strings.HasPrefix(string(q), string(p)+"/")
}

// KeyValue is a label, an attribute or an environment variable. Lists of them are sorted by Key, then Value, unless
// said otherwise.
type KeyValue struct {
	Key, Value string
}

// Compare orders by Key, then by Value.
func (a KeyValue) Compare(b KeyValue) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
}
