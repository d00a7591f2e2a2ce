package costmodels

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Round is what the prices of one solve may depend on besides their arguments. The zero value knows nothing and is ready
// for use.
type Round struct {
	// Unit is the mean request of the tasks that wait. A host keeps the Unit at which it was first priced while it stays
	// in the network. It is for Crowd: a Start is not asked for again when it changes.
	Unit cluster.Resources
	// Mix is what tasks that need GPUs typically ask for. It changes rarely: see Census.
	Mix Mix
	// Hosts looks a host up, for its rack; it returns nil for one that is not known. Call Host.
	Hosts func(cluster.HostID) *cluster.Host
	// Zones returns the racks of which all hosts are in a zone, and the other hosts of that zone, both sorted. Call Zone.
	Zones func(zone string) (racks []string, hosts []cluster.HostID)
	// Guests returns the kinds of work of the tasks on a host, sorted. Call Residents.
	Guests func(*cluster.Host) []Resident
	// Known is what was learned from runs. Call RunTime, Usage, Used, Pace and Reads.
	Known Knowledge
	// Work limits how many steps the model may still spend; nil does not. See Spend.
	Work *int64
}

// Mix is what tasks that need GPUs typically ask for. See NewMix. The zero value is nothing.
type Mix struct {
	Shares  []Share           // most frequent first
	Typical cluster.Resources // what a thousand such tasks ask for in the fixed dimensions
}

// Share is a part of the tasks that need GPUs.
type Share struct {
	Task   *cluster.TaskSpec // what is asked for: only Resources and GPU
	Weight int64             // in millionths, at least 1
	// NewMix sets what follows, which prices read often.
	Needs   cluster.Need // the room that one takes
	Devices int32        // that one needs
	Part    int32        // thousandths that it needs of each
}

// NewMix returns the mix of the shares, which it takes over.
func NewMix(shares []Share) Mix {
	m := Mix{Shares: shares}
	for i := range shares {
		s := &shares[i]
		s.Needs, s.Devices, s.Part = cluster.NeedOf(&s.Task.Resources.Fixed), max(1, s.Task.GPU.Count), s.Task.GPU.Takes()
		for d, v := range &s.Task.Resources.Fixed {
			m.Typical.Fixed[d] += Scale(s.Weight, v, 1000, math.MaxInt64)
		}
	}
	return m
}

// Resident is a number of tasks of one kind of work.
type Resident struct {
	Work  string
	Tasks int
}

// Knowledge is what was learned from runs. Each method returns false or nothing where too little is known, and always the same
// answer during a solve.
type Knowledge interface {
	// RunTime is the median run time of a task.
	RunTime(work string) (time.Duration, bool)
	// Usage is the peak of what a task uses.
	Usage(work string) (cluster.Resources, bool)
	// Used is what the tasks on the host use now.
	Used(h cluster.HostID) (cluster.Resources, bool)
	// Pace is how many thousandths of its run time alone on its best kind of host a task needs on hosts of the given kind
	// in company of one task of the other work; company "" is none.
	Pace(work, kind, company string) (int64, bool)
	// Holders are hosts that have the image.
	Holders(image string) []cluster.HostID
}

// ErrSpent is what Spend panics with.
var ErrSpent = errors.New("costmodels: the model took more steps than it may")

// Spend takes n steps from what the model may still do, and panics with ErrSpent when nothing is left: the caller of the
// model recovers and does without it.
func (r *Round) Spend(n int64) {
	if r.Work == nil {
		return
	}
	if *r.Work -= n; *r.Work < 0 {
		panic(ErrSpent)
	}
}

// Host returns the host, nil where it is not known.
func (r *Round) Host(id cluster.HostID) *cluster.Host {
	if r.Hosts == nil {
		return nil
	}
	return r.Hosts(id)
}

// RackOf returns the host's rack, "" where it is not known.
func (r *Round) RackOf(id cluster.HostID) string {
	if h := r.Host(id); h != nil {
		return h.Rack
	}
	return ""
}

// Zone returns the racks of which all hosts are in the zone, and the other hosts of the zone. The caller must not modify them.
func (r *Round) Zone(zone string) (racks []string, hosts []cluster.HostID) {
	if r.Zones == nil {
		return nil, nil
	}
	return r.Zones(zone)
}

// Residents returns the kinds of work of the tasks on the host, sorted by name. The caller must not modify it.
// Complexity: the tasks on the host.
func (r *Round) Residents(h *cluster.Host) []Resident {
	if r.Guests == nil {
		return nil
	}
	return r.Guests(h)
}

// RunTime returns the expected run time of a task of the class: what was observed of its work, else the user's estimate.
func (r *Round) RunTime(c *Class) (time.Duration, bool) {
	if r.Known != nil && c.Work != "" {
		if d, ok := r.Known.RunTime(c.Work); ok {
			return d, true
		}
	}
	return time.Second << max(0, min(c.Estimate, 32)-1), c.Estimate > 0
}

// Usage returns the peak of what a task of the request uses: what was observed of its work, else what it asks for.
func (r *Round) Usage(q *Request) cluster.Resources {
	if r.Known != nil && q.Work != "" {
		if u, ok := r.Known.Usage(q.Work); ok {
			return u
		}
	}
	return q.Task.Resources
}

// Used returns what the tasks on the host use now, false where it is not observed.
func (r *Round) Used(h *cluster.Host) (cluster.Resources, bool) {
	if r.Known == nil {
		return cluster.Resources{}, false
	}
	return r.Known.Used(h.ID)
}

// Pace returns how many thousandths of its best run time the work needs on hosts of a kind, in company; false where that
// is not known.
func (r *Round) Pace(work, kind, company string) (int64, bool) {
	if r.Known == nil || work == "" {
		return 0, false
	}
	return r.Known.Pace(work, kind, company)
}

// Reads returns what a task of the class reads before it can work: its inputs, and as one more each image that some host has. An
// image that none is known to have costs the same everywhere, and is left out. The caller must not modify it.
func (r *Round) Reads(c *Class) []cluster.Input {
	reads := slices.Clip(c.Inputs)
	for _, image := range c.Images {
		if r.Known == nil {
			break
		}
		if hosts := r.Known.Holders(image.Name); len(hosts) > 0 {
			reads = append(reads, cluster.Input{Name: image.Name, Bytes: image.Bytes, Hosts: hosts})
		}
	}
	return reads
}
