// Package trace reads recorded workloads and makes synthetic ones: hosts, and jobs in the order of their submission.
//
// A [Format] opens files and returns a [Workload]; [Formats] lists all of them. Readers are strict (every error says
// file, line and column), take plain and gzipped files alike, and hold at most a compact row per job: a file of 300,000
// lines stays far below 1 GiB. What a format does not record (requests, durations, block positions) is synthesised by a
// rule stated in the format's doc comment and in docs/traces.md, from a seed.
//
// A [Mode] changes when jobs arrive: compressed until an offered load is reached, or drawn until a demand is.
//
// Everything is deterministic: the same files, options and seed give the same workload. Nothing is safe for concurrent
// use.
package trace

import (
	"cmp"
	"io"
	"os"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Shard owns the hosts of every workload that names no other: where a job names a host, it does so as MakeHostID(Shard, Host.Name).
const Shard cluster.ShardID = "sim"

// Host is a machine of a trace.
type Host struct {
	Name  string          // unique in its shard
	Shard cluster.ShardID // that owns it; "" is Shard
	cluster.Machine
}

// ID returns the id under which the host's shard reports it.
func (h *Host) ID() cluster.HostID { return cluster.MakeHostID(cmp.Or(h.Shard, Shard), h.Name) }

// Job is a job of a trace. Whoever gets one from a Source owns it, except for slices that its Spec shares with other
// jobs of the source, which nobody may write.
type Job struct {
	Submit time.Duration // since the beginning of the trace; never falls from one job of a Source to the next

	// Spec is complete and valid. Its Name is unique in the workload, and its Pool is below the root: pools come into
	// being with the first job that names them, and no pool of a workload is above another one that has jobs.
	Spec cluster.JobSpec

	// Durations holds the run time of each instance, or one for all of them. 0 means that the instance runs for ever.
	Durations []time.Duration
}

// Duration returns the run time of an instance, 0 for ever.
func (j *Job) Duration(instance uint32) time.Duration {
	if len(j.Durations) == 1 {
		return j.Durations[0]
	}
	return j.Durations[instance]
}

// Source yields jobs in the order of Submit, and io.EOF after the last one. Any other error is final; it names the
// file, line and column where there is one.
type Source interface {
	Next() (*Job, error)
}

// Workload is what a run of the simulator is fed with. The owner closes it when done with Jobs.
type Workload struct {
	Hosts []Host // sorted by Name
	Jobs  Source

	// Pools are those that have settings, sorted by path.
	Pools []cluster.Pool

	// Departures tells whether jobs have durations. Where they do not, all run for ever.
	Departures bool
	// Arrivals tells whether Submit was recorded. Where it was not, every Submit is 0 and the order is the file's.
	Arrivals bool

	// Compression says how arrivals were compressed for an offered load; nil if they were not.
	Compression *Compression

	until   time.Duration // when the last job arrives; 0 if that is not known
	file    *os.File      // that Jobs is read from, nil for none
	size    int64         // of it, in bytes
	limited *thinned      // nil if as many jobs come as there are
	leftOut *int          // nil: none can be
}

// LeftOut returns how many rows of the file of jobs record no job to replay, as far as it is read.
func (w *Workload) LeftOut() int {
	if w.leftOut == nil {
		return 0
	}
	return *w.leftOut
}

// Arrived returns which part of the jobs has arrived at a time of the trace, from 0 to 1: of the time, of the file, or of those that are
// to come. Known is false where none says, as a file that has been read to its end: its last jobs, in a short one all, may wait in memory.
func (w *Workload) Arrived(now time.Duration) (part float64, known bool) {
	if l := w.limited; l != nil {
		part, _ := w.arrived(now)
		return max(part, float64(l.kept)/float64(l.limit)), l.kept < l.limit
	}
	return w.arrived(now)
}

func (w *Workload) arrived(now time.Duration) (part float64, known bool) {
	switch {
	case w.until > 0:
		return min(1, float64(now)/float64(w.until)), true
	case w.file == nil || w.size == 0:
		return 0, false
	}
	at, err := w.file.Seek(0, io.SeekCurrent)
	return float64(at) / float64(w.size), err == nil && at < w.size
}

// Close releases the file behind Jobs.
func (w *Workload) Close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
