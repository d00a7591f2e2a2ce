package mesostest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// piece is an amount of one kind of resource: cpus, say, reserved for a role, or a persistent volume. Kinds differ when
// anything but the amount and the allocation differs.
type piece struct {
	key    string
	kind   mesos.Resource // without amount and allocation
	milli  int64          // of a scalar: thousandths, as the master counts
	ranges []span         // sorted, apart by one at least
	set    []string       // sorted
}

// span is a range of integers, both ends in it.
type span struct{ from, to uint64 }

// bag is a vector of resources with at most one piece of each kind. A bag is a value: operations return new ones.
type bag []piece

// bagOf adds resources up. Those in the form that is older than reservation refinement are understood too.
func bagOf(resources []mesos.Resource) bag {
	var out bag
	for i := range resources {
		out = out.add(bag{pieceOf(resources[i])})
	}
	return out
}

func pieceOf(r mesos.Resource) piece {
	if len(r.Reservations) == 0 && r.Role != nil && *r.Role != "*" {
		old := mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: r.Role}
		if r.Reservation != nil {
			old = *r.Reservation
			old.Type, old.Role = mesos.Resource_ReservationInfo_DYNAMIC.Enum(), r.Role
		}
		r.Reservations = []mesos.Resource_ReservationInfo{old}
	}
	r.Role, r.Reservation, r.AllocationInfo = nil, nil, nil
	p := piece{kind: r}
	switch {
	case r.Scalar != nil:
		p.milli = int64(math.Round(r.Scalar.Value * 1000))
	case r.Ranges != nil:
		for _, x := range r.Ranges.Range {
			p.ranges = addSpan(p.ranges, span{x.Begin, x.End})
		}
	case r.Set != nil:
		p.set = slices.Clone(r.Set.Item)
		slices.Sort(p.set)
	}
	p.kind.Scalar, p.kind.Ranges, p.kind.Set = nil, nil, nil
	p.key = kindKey(&p.kind)
	return p
}

// kindKey names a kind. How a volume is mounted is not part of its kind: that is up to each task.
func kindKey(r *mesos.Resource) string {
	if r.Disk == nil && len(r.Reservations) == 0 && r.Revocable == nil && r.Shared == nil && r.ProviderID == nil {
		return r.Name
	}
	k := *r
	if k.Disk != nil {
		disk := *k.Disk
		disk.Volume, k.Disk = nil, &disk
	}
	name := k.Name + attributes(&k)
	if k.ProviderID != nil {
		name += "@" + k.ProviderID.Value
	}
	if k.Disk != nil && k.Disk.Source != nil {
		name += " on " + k.Disk.Source.String()
	}
	return name
}

// whole tells whether the piece is used whole, or not at all: a persistent volume, and disk that is a mount or a device of its own.
func (p *piece) whole() bool {
	d := p.kind.Disk
	if d == nil || d.Persistence == nil && d.Source == nil {
		return false
	}
	return d.Persistence != nil || d.Source.Type != mesos.Resource_DiskInfo_Source_PATH && (d.Source.Type != mesos.Resource_DiskInfo_Source_RAW || d.Source.ID != nil)
}

// attributes writes what sets a kind apart as the master's messages do.
func attributes(r *mesos.Resource) string {
	var b strings.Builder
	if len(r.Reservations) > 0 {
		b.WriteString("(reservations: [")
		for i, res := range r.Reservations {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "(%s,%s", res.GetType(), res.GetRole())
			if res.Principal != nil {
				b.WriteString("," + *res.Principal)
			}
			if res.Labels != nil {
				b.WriteString(",{")
				for j, l := range res.Labels.Labels {
					if j > 0 {
						b.WriteString(", ")
					}
					b.WriteString(l.Key + ": " + l.GetValue())
				}
				b.WriteString("}")
			}
			b.WriteString(")")
		}
		b.WriteString("])")
	}
	if d := r.Disk; d != nil && d.Persistence != nil {
		b.WriteString("[" + d.Persistence.ID)
		if d.Volume != nil {
			b.WriteString(":" + d.Volume.ContainerPath)
		}
		b.WriteString("]")
	}
	if r.Revocable != nil {
		b.WriteString("{REV}")
	}
	if r.Shared != nil {
		b.WriteString("<SHARED>")
	}
	return b.String()
}

// reservedFor returns the role for which the piece is reserved, "" for none.
func (p *piece) reservedFor() string {
	if n := len(p.kind.Reservations); n > 0 {
		return p.kind.Reservations[n-1].GetRole()
	}
	return ""
}

func (p *piece) empty() bool { return p.milli == 0 && len(p.ranges) == 0 && len(p.set) == 0 }

func (b bag) index(key string) int {
	for i := range b {
		if b[i].key == key {
			return i
		}
	}
	return -1
}

// add returns b + other.
func (b bag) add(other bag) bag {
	out := slices.Clone(b)
	for _, p := range other {
		i := out.index(p.key)
		if i < 0 {
			out = append(out, p)
			continue
		}
		q := &out[i]
		q.milli += p.milli
		q.ranges = slices.Clone(q.ranges)
		for _, s := range p.ranges {
			q.ranges = addSpan(q.ranges, s)
		}
		if len(p.set) > 0 {
			q.set = slices.Compact(slices.Sorted(slices.Values(slices.Concat(q.set, p.set))))
		}
	}
	return out
}

// sub returns b − other, of which b must contain all, without empty pieces.
func (b bag) sub(other bag) bag {
	out := slices.Clone(b)
	for _, p := range other {
		i := out.index(p.key)
		if i < 0 {
			continue
		}
		q := &out[i]
		q.milli -= p.milli
		for _, s := range p.ranges {
			q.ranges = cutSpan(q.ranges, s)
		}
		if len(p.set) > 0 {
			q.set = slices.DeleteFunc(slices.Clone(q.set), func(x string) bool { return slices.Contains(p.set, x) })
		}
	}
	return slices.DeleteFunc(out, func(p piece) bool { return p.empty() })
}

// contains tells whether b has all of other.
func (b bag) contains(other bag) bool {
	for _, p := range other {
		if p.empty() {
			continue
		}
		i := b.index(p.key)
		if i < 0 || b[i].milli < p.milli || p.whole() && b[i].milli != p.milli {
			return false
		}
		for _, s := range p.ranges {
			if !slices.ContainsFunc(b[i].ranges, func(x span) bool { return x.from <= s.from && s.to <= x.to }) {
				return false
			}
		}
		for _, x := range p.set {
			if !slices.Contains(b[i].set, x) {
				return false
			}
		}
	}
	return true
}

// scalar returns the thousandths of all that goes by a name.
func (b bag) scalar(name string) (milli int64) {
	for i := range b {
		if b[i].kind.Name == name {
			milli += b[i].milli
		}
	}
	return milli
}

// worthOffering tells whether the allocator would offer so little.
func (b bag) worthOffering() bool { return b.scalar("cpus") >= 10 || b.scalar("mem") >= 32_000 }

// resources writes the bag as allocated to a role; with role "" as not allocated.
func (b bag) resources(role string) []mesos.Resource { return b.write(role, false) }

// write is resources, in the form that is older than reservation refinement if so wished.
func (b bag) write(role string, old bool) []mesos.Resource {
	out := make([]mesos.Resource, 0, len(b))
	for _, p := range b {
		r := p.kind
		if old {
			r.Role = text("*")
			if len(r.Reservations) > 0 {
				last := r.Reservations[len(r.Reservations)-1]
				r.Role, r.Reservations = last.Role, nil
				if last.GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
					r.Reservation = &mesos.Resource_ReservationInfo{Principal: last.Principal, Labels: last.Labels}
				}
			}
		}
		switch {
		case r.GetType() == mesos.SCALAR:
			r.Scalar = &mesos.Value_Scalar{Value: float64(p.milli) / 1000}
		case r.GetType() == mesos.RANGES:
			r.Ranges = &mesos.Value_Ranges{Range: make([]mesos.Value_Range, len(p.ranges))}
			for i, s := range p.ranges {
				r.Ranges.Range[i] = mesos.Value_Range{Begin: s.from, End: s.to}
			}
		case r.GetType() == mesos.SET:
			r.Set = &mesos.Value_Set{Item: p.set}
		}
		if role != "" {
			r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		}
		out = append(out, r)
	}
	return out
}

// text writes the bag as the master's messages do: "cpus(allocated: *):4; ports(allocated: *):[31000-31999]".
func (b bag) text(role string) string {
	parts := make([]string, len(b))
	for i, p := range b {
		amount := strconv.FormatFloat(float64(p.milli)/1000, 'f', -1, 64)
		switch p.kind.GetType() {
		case mesos.RANGES:
			spans := make([]string, len(p.ranges))
			for j, s := range p.ranges {
				spans[j] = fmt.Sprintf("%d-%d", s.from, s.to)
			}
			amount = "[" + strings.Join(spans, ", ") + "]"
		case mesos.SET:
			amount = "{" + strings.Join(p.set, ", ") + "}"
		}
		parts[i] = fmt.Sprintf("%s(allocated: %s)%s:%s", p.kind.Name, role, attributes(&p.kind), amount)
	}
	return strings.Join(parts, "; ")
}

// addSpan returns the union of sorted spans and one more, in a new slice.
func addSpan(spans []span, s span) []span {
	out := make([]span, 0, len(spans)+1)
	for _, x := range spans {
		switch {
		case x.to+1 < s.from:
			out = append(out, x)
		case s.to+1 < x.from:
			out = append(out, s)
			s = x
		default:
			s = span{min(s.from, x.from), max(s.to, x.to)}
		}
	}
	return append(out, s)
}

// cutSpan returns sorted spans without s, in a new slice.
func cutSpan(spans []span, s span) []span {
	out := make([]span, 0, len(spans)+1)
	for _, x := range spans {
		if x.to < s.from || s.to < x.from {
			out = append(out, x)
			continue
		}
		if x.from < s.from {
			out = append(out, span{x.from, s.from - 1})
		}
		if s.to < x.to {
			out = append(out, span{s.to + 1, x.to})
		}
	}
	return out
}

// Scalar returns a scalar resource: cpus, mem and disk in MB, gpus.
func Scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// Ports returns a range of ports, both ends in it.
func Ports(from, to uint64) mesos.Resource {
	return mesos.Resource{
		Name: "ports", Type: mesos.RANGES.Enum(),
		Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: from, End: to}}},
	}
}
