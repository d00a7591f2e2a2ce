package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// HostReason says why a host was ruled out for a task.
type HostReason string

// The reasons.
const (
	HostDraining    HostReason = "DRAINING"            // takes no new work
	HostUnreachable HostReason = "UNREACHABLE"         // its shard is cut off
	HostMismatch    HostReason = "CONSTRAINT_MISMATCH" // the job's constraint does not allow it
	HostIncapable   HostReason = "INCAPABLE"           // its host manager cannot do something that the task needs
	HostWrongGPU    HostReason = "GPU_MISMATCH"        // its devices are of other models, or too few are of the right one
	HostTooSmall    HostReason = "TOO_SMALL"           // even empty it has less than the task asks for
	HostFull        HostReason = "NO_ROOM"             // others hold what the task asks for
	HostOpen        HostReason = "OPEN"                // it has room
)

// verdict is a HostReason with what it is about: reason + 16 × dimension, the reasons being 0..15. The fixed dimensions come
// first, then the named ones in the order of the request, then ports. For incapable it is the capability's index.
type verdict uint16

const (
	absent verdict = iota // no such host
	open
	draining
	unreachable
	mismatch
	wrongGPU
	incapable
	tooSmall
	full
)

// kinds is how many reasons there are at most.
const kinds = 16

var verdictReasons = [...]HostReason{"", HostOpen, HostDraining, HostUnreachable, HostMismatch, HostWrongGPU, HostIncapable, HostTooSmall, HostFull}

// judge decides whether the host, nil for none, can take one task of the row. Complexity: the dimensions; what holds at
// any load is worked out once for all hosts that are alike.
func (r *row) judge(h *host) verdict {
	if h == nil {
		return absent
	}
	if grow := int(h.alike) + 1 - len(r.fixed); grow > 0 {
		r.fixed = append(r.fixed, make([]verdict, grow)...)
	}
	v := r.fixed[h.alike]
	if v == absent {
		v = r.judgeMachine(h.rec)
		r.fixed[h.alike] = v
	}
	if r.byName && v != unreachable && v != draining && !r.constraint.Allows(h.rec) {
		return mismatch
	}
	if v == open {
		v = r.judgeRoom(h.rec, &h.room)
	}
	return v
}

// judgeMachine decides by what hosts of one signature have in common.
func (r *row) judgeMachine(rec *cluster.Host) verdict {
	switch {
	case rec.Unreachable:
		return unreachable
	case rec.Draining:
		return draining
	case r.constraint != nil && !r.byName && !r.constraint.Allows(rec):
		return mismatch
	}
	if missing := r.key.needs &^ rec.Capabilities; missing != 0 {
		return incapable + kinds*verdict(missing.Index())
	}
	if d, lacks := firstLacking(&r.task.Resources, &rec.Capacity); lacks {
		return tooSmall + kinds*d
	}
	if gpu := &r.task.GPU; !gpu.IsZero() {
		empty := slices.Repeat([]int32{cluster.WholeGPU}, len(rec.GPUs))
		if gpu.Fit(rec.GPUs, empty, 1) == 0 {
			return wrongGPU
		}
	}
	return open
}

// judgeRoom decides for a host that could take the task if it were empty. room is rec.Room().
func (r *row) judgeRoom(rec *cluster.Host, room *cluster.Resources) verdict {
	if d, lacks := firstLacking(&r.task.Resources, room); lacks {
		return full + kinds*d
	}
	if gpu := &r.task.GPU; !gpu.IsZero() && gpu.Fit(rec.GPUs, rec.GPURoom(), 1) == 0 {
		return full + kinds*verdict(cluster.GPU)
	}
	if r.task.Ports.IsZero() {
		return open
	}
	ports := verdict(int(cluster.NumDimensions) + len(r.task.Resources.Named))
	switch request := &r.task.Ports; {
	case request.Fit(rec, 1) > 0:
		return open
	case request.Fit(&cluster.Host{Machine: rec.Machine}, 1) > 0:
		return full + kinds*ports
	default:
		return tooSmall + kinds*ports
	}
}

// firstLacking returns the first dimension in which the request exceeds the room.
func firstLacking(request, room *cluster.Resources) (verdict, bool) {
	for d := range request.Fixed {
		if v := request.Fixed[d]; v > 0 && v > room.Fixed[d] {
			return verdict(d), true
		}
	}
	for i, a := range request.Named {
		if a.Value > 0 && a.Value > room.Amount(a.Name) {
			return verdict(int(cluster.NumDimensions) + i), true
		}
	}
	return 0, false
}

// reason splits a verdict into the constant and the name of the dimension, "" where there is none.
func (v verdict) reason(request cluster.Resources) (HostReason, string) {
	kind, d := v%kinds, int(v/kinds)
	switch {
	case kind == incapable:
		return verdictReasons[kind], cluster.Capabilities(1 << d).String()
	case kind < tooSmall:
		return verdictReasons[kind], ""
	case d < int(cluster.NumDimensions):
		return verdictReasons[kind], cluster.Dimension(d).String()
	case d == int(cluster.NumDimensions)+len(request.Named):
		return verdictReasons[kind], "ports"
	default:
		return verdictReasons[kind], request.Named[d-int(cluster.NumDimensions)].Name
	}
}

// Waiting says why the tasks of a class wait.
type Waiting struct {
	Class ClassKey
	Tasks int
	Price flowgraph.Cost // of one task's waiting for one cycle
	Hosts int            // all hosts; the sum of the tally
	Tally []Tally        // most hosts first
}

// Tally counts the hosts that were ruled out for one reason.
type Tally struct {
	Reason HostReason
	Detail string // the dimension that lacks, "" where the reason has none
	Hosts  int
}

func (p *Planner) describeClass(c *class) Waiting {
	w := Waiting{Class: c.key, Tasks: c.queue.Len(), Price: c.price}
	counts := map[verdict]int{}
	for _, h := range p.hosts.byIndex {
		if v := c.row.judge(h); v != absent {
			counts[v]++
			w.Hosts++
		}
	}
	for v, n := range counts { // sorted below
		reason, detail := v.reason(c.row.task.Resources)
		w.Tally = append(w.Tally, Tally{reason, detail, n})
	}
	slices.SortFunc(w.Tally, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Detail, b.Detail))
	})
	return w
}
