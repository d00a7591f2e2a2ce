package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
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
	HostNoSlack     HostReason = "NO_SLACK"            // the task is revocable, and its tasks leave too little unused of what they hold
	HostExclusive   HostReason = "EXCLUSIVE"           // it is kept for tasks that name it, and the job does not
	HostOutside     HostReason = "OUTSIDE_POOL"        // the pool of the task keeps its tasks on hosts with other labels
	HostCrowded     HostReason = "TOO_MANY_TASKS"      // a rule of the job allows no more of some tasks there
	HostLonely      HostReason = "TOO_FEW_TASKS"       // a rule of the job asks for more of some tasks to be there
	HostNoDomain    HostReason = "NO_DOMAIN"           // it has no such rack, zone or attribute, in which a rule counts tasks
	HostUneven      HostReason = "UNEVEN"              // a rule of the job allows no more of some tasks there while another domain has so few
	HostOpen        HostReason = "OPEN"                // it has room
)

// verdict is a HostReason with what it is about: reason + 16 × dimension, where reasons are 0..15. The fixed
// dimensions come first, then the named ones in the order of the request, then ports. For incapable it is the
// index of the capability, for crowded and those after it the leaf of the rule.
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
	noSlack
	exclusive
	outside
	crowded
	lonely
	noDomain
	uneven
)

// kinds is how many reasons there are at most.
const kinds = 16

var verdictReasons = [...]HostReason{"", HostOpen, HostDraining, HostUnreachable, HostMismatch, HostWrongGPU, HostIncapable, HostTooSmall, HostFull, HostNoSlack, HostExclusive, HostOutside, HostCrowded, HostLonely, HostNoDomain, HostUneven}

// judge decides whether the host, nil for none, can take one task of the row. Complexity: the dimensions.
// What holds at any load is worked out once for all hosts that are alike.
func (r *row) judge(h *host) verdict {
	if h == nil {
		return absent
	}
	known := r.likeness(h.alike)
	v := known.verdict
	if r.rule != nil && r.rule.byName && v != unreachable && v != draining && r.rule.static(h.rec) == cluster.False {
		return r.rule.refusal(h.rec)
	}
	if v == open && known.counts {
		v = r.rule.judge(h.rec)
	}
	switch {
	case v != open:
	case r.key.revocable:
		spare := h.lend().Free()
		if v = r.judgeRoom(h.lend(), &spare); v%kinds == full {
			v += noSlack - full
		}
	default:
		v = r.judgeRoom(h.rec, &h.room)
	}
	return v
}

// likeness returns what holds for all hosts that are alike.
func (r *row) likeness(alike signature) *likeness {
	r.table.date(r)
	if grow := int(alike) + 1 - len(r.fixed); grow > 0 {
		r.fixed = append(r.fixed, make([]likeness, grow)...)
	}
	known := &r.fixed[alike]
	if known.verdict == absent {
		known.verdict, known.counts = r.judgeMachine(r.table.hosts.machines[alike])
		if known.verdict != open {
			r.shut++
		} else if r.able++; !known.counts {
			r.free++
		}
	}
	return known
}

// everywhere reports whether room in the fixed dimensions is all that it takes on any host.
func (r *row) everywhere() bool { return r.plain && r.free == len(r.table.hosts.machines) }

// nowhere reports whether no host could take a task of the row even if it were empty. Complexity: the
// signatures, once.
func (r *row) nowhere() bool {
	r.table.date(r)
	all := len(r.table.hosts.machines)
	for s := 0; r.able == 0 && r.shut < all; s++ {
		r.likeness(signature(s))
	}
	return r.able == 0
}

// judgeMachine decides by what hosts of one signature have in common. It tells whether more depends on the
// tasks there.
func (r *row) judgeMachine(rec *cluster.Host) (v verdict, counts bool) {
	switch {
	case rec.Unreachable:
		return unreachable, false
	case rec.Draining:
		return draining, false
	case !r.rule.admitted(rec):
		return exclusive, false
	}
	if r.rule != nil && !r.rule.byName {
		switch r.rule.static(rec) {
		case cluster.False:
			return r.rule.refusal(rec), false
		case cluster.Unknown:
			counts = true
		}
	} else if r.rule != nil {
		counts = len(r.rule.order) > 0
	}
	if missing := r.key.needs &^ rec.Capabilities; missing != 0 {
		return incapable + kinds*verdict(missing.Index()), counts
	}
	if d, lacks := firstLacking(&r.task.Resources, &rec.Capacity); lacks {
		return tooSmall + kinds*d, counts
	}
	if gpu := &r.task.GPU; !gpu.IsZero() {
		empty := slices.Repeat([]int32{cluster.WholeGPU}, len(rec.GPUs))
		if gpu.Fit(rec.GPUs, empty, 1) == 0 {
			return wrongGPU, counts
		}
	}
	return open, counts
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

// reason splits a verdict into the constant and the name of what it is about, "" if there is none.
func (r *row) reason(v verdict) (HostReason, string) {
	kind, d := v%kinds, int(v/kinds)
	request := &r.task.Resources
	switch {
	case kind >= crowded:
		return verdictReasons[kind], r.rule.order[d].name
	case kind == exclusive || kind == outside:
		return verdictReasons[kind], ""
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
