package mesos

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Mesos has scalars with three decimals. Here they are thousandths: of a core, a megabyte (2^20 bytes), a device.
const (
	milli    = 1000
	megabyte = 1 << 20
)

// Names of resources that Mesos gives a meaning.
const (
	nameCPUs  = "cpus"
	nameMem   = "mem"
	nameDisk  = "disk"
	nameGPUs  = "gpus"
	namePorts = "ports"
)

// maxScalar bounds a scalar, in thousandths, so that sums and products stay exact.
const maxScalar = cluster.MaxAmount

// toMilli reads a scalar; what makes no sense counts as nothing.
func toMilli(v float64) int64 {
	if !(v > 0) { // NaN too
		return 0
	}
	return int64(math.Min(math.Round(v*milli), maxScalar))
}

func fromMilli(n int64) float64 { return float64(n) / milli }

// bytesOf converts thousandths of a megabyte, rounding down.
func bytesOf(n int64) int64 { return n/milli*megabyte + n%milli*megabyte/milli }

// megabytesOf converts bytes to thousandths of a megabyte, rounding down, so that what fits in bytes fits in Mesos.
func megabytesOf(bytes int64) int64 {
	n := bytes/megabyte*milli + bytes%megabyte*milli/megabyte
	if n == 0 && bytes > 0 {
		return 1
	}
	return n
}

// piece is one resource of an offer that has not been used up.
type piece struct {
	api.Resource       // with its reservation, allocation and disk; its value is in the fields below
	scalar       int64 // thousandths
	ranges       []api.Value_Range
	set          []string
}

// pieces takes an offer's resources apart. Values that make no sense are left out.
func pieces(resources []api.Resource) []*piece {
	var out []*piece
	for _, r := range resources {
		p := &piece{Resource: r}
		switch r.GetType() {
		case api.SCALAR:
			p.scalar = toMilli(r.GetScalar().GetValue())
		case api.RANGES:
			for _, g := range r.GetRanges().GetRange() {
				if g.Begin <= g.End && g.End-g.Begin < math.MaxInt32 {
					p.ranges = append(p.ranges, g)
				}
			}
		case api.SET:
			p.set = slices.Clone(r.GetSet().GetItem())
		}
		out = append(out, p)
	}
	return out
}

// reserved reports whether the piece is reserved to a role.
func (p *piece) reserved() bool {
	return len(p.Reservations) > 0 || p.Role != nil && *p.Role != "*"
}

// volume returns the id of the persistent volume that the piece is, "" if it is none.
func (p *piece) volume() string { return p.Disk.GetPersistence().GetID() }

// plain reports whether any task may use the piece: it may not be taken back at any time, is no volume, no disk of its
// own and not shared.
func (p *piece) plain() bool { return p.Revocable == nil && p.divisible() }

// loose reports whether the piece is plain, but for that it may be taken back at any time: for revocable tasks only. Devices
// and ports are not given so.
func (p *piece) loose() bool {
	return p.Revocable != nil && p.divisible() && p.Name != nameGPUs && p.Name != namePorts
}

func (p *piece) divisible() bool {
	return p.Shared == nil && (p.Disk == nil || p.volume() == "" && p.Disk.Source == nil)
}

// quantity returns what the piece holds, as if it could not be taken back.
func (p *piece) quantity() quantity {
	var q quantity
	switch p.Name {
	case nameCPUs:
		q.amount.Fixed[cluster.CPU] = p.scalar
	case nameMem:
		q.amount.Fixed[cluster.Memory] = bytesOf(p.scalar)
	case nameDisk:
		q.amount.Fixed[cluster.Disk] = bytesOf(p.scalar)
	case nameGPUs:
		q.amount.Fixed[cluster.GPU] = p.scalar / milli * cluster.WholeGPU
	case namePorts:
		for _, g := range p.ranges {
			if first := max(g.Begin, 1); first <= min(g.End, math.MaxUint16) { // 0 is no port
				q.ports = append(q.ports, cluster.PortRange{First: uint16(first), Last: uint16(min(g.End, math.MaxUint16))})
			}
		}
		q.ports = joinPorts(q.ports)
	default:
		if !cluster.IsKey(p.Name) || cluster.IsDimension(p.Name) || cluster.DimensionMeant(p.Name) != "" {
			break // nobody can ask for it
		}
		n := p.scalar/milli + int64(len(p.set))
		for _, g := range p.ranges {
			n += int64(g.End-g.Begin) + 1
		}
		if n > 0 {
			q.amount = cluster.NewResources(q.amount.Fixed, cluster.Amount{Name: p.Name, Value: n})
		}
	}
	return q
}

// total sums up what tasks may use.
func total(all []*piece) quantity {
	var q quantity
	for _, p := range all {
		switch {
		case p.plain():
			q = q.plus(p.quantity())
		case p.loose():
			q = q.plus(quantity{revocable: p.quantity().amount})
		}
	}
	return q
}

// sameKind reports whether a taken resource may be merged with one taken before: this is what keeps a task's list short
// where several offers of an agent were combined.
func sameKind(a, b *api.Resource) bool {
	x, y := *a, *b
	for _, r := range []*api.Resource{&x, &y} {
		r.Scalar, r.Ranges, r.Set = nil, nil, nil
	}
	return x.Equal(&y)
}

// supply is what is left of the offers that one ACCEPT uses.
type supply struct{ left []*piece }

// newSupply copies pieces, reserved ones first: what is reserved to us nobody else can use.
func newSupply(all []*piece) *supply {
	s := &supply{}
	for _, p := range all {
		c := *p
		c.ranges, c.set = slices.Clone(p.ranges), slices.Clone(p.set)
		s.left = append(s.left, &c)
	}
	slices.SortStableFunc(s.left, func(a, b *piece) int { return order(a.reserved()) - order(b.reserved()) })
	return s
}

func order(reserved bool) int {
	if reserved {
		return 0
	}
	return 1
}

// take takes exactly q. It takes all or nothing.
func (s *supply) take(q quantity) ([]api.Resource, error) {
	before := newSupply(s.left)
	var taken []api.Resource
	err := s.takeAmounts(q.amount, (*piece).plain, &taken)
	if err == nil {
		err = s.takeAmounts(q.revocable, (*piece).loose, &taken)
	}
	for _, r := range q.ports {
		for port := uint64(r.First); err == nil && port <= uint64(r.Last); port++ {
			err = s.takePort(port, &taken)
		}
	}
	if err != nil {
		s.left = before.left
		return nil, err
	}
	return taken, nil
}

// takeAmounts takes out of the pieces that may be used.
func (s *supply) takeAmounts(want cluster.Resources, usable func(*piece) bool, taken *[]api.Resource) error {
	for _, scalar := range []struct {
		name string
		n    int64
	}{
		{nameCPUs, want.Fixed[cluster.CPU]},
		{nameMem, megabytesOf(want.Fixed[cluster.Memory])},
		{nameDisk, megabytesOf(want.Fixed[cluster.Disk])},
		{nameGPUs, want.Fixed[cluster.GPU] / cluster.WholeGPU * milli},
	} {
		if err := s.takeScalar(scalar.name, scalar.n, usable, taken); err != nil {
			return err
		}
	}
	for _, a := range want.Named {
		if err := s.takeNamed(a, usable, taken); err != nil {
			return err
		}
	}
	return nil
}

func (s *supply) takeScalar(name string, n int64, usable func(*piece) bool, taken *[]api.Resource) error {
	for _, p := range s.left {
		if n == 0 {
			return nil
		}
		if p.Name != name || !usable(p) || p.GetType() != api.SCALAR || p.scalar == 0 {
			continue
		}
		got := min(n, p.scalar)
		p.scalar -= got
		n -= got
		r := p.Resource
		r.Scalar = &api.Value_Scalar{Value: fromMilli(got)}
		merge(taken, r)
	}
	if n > 0 {
		return fmt.Errorf("the offers lack %v %s", fromMilli(n), name)
	}
	return nil
}

// takeAlike takes so much of a scalar that is one resource: of pieces that differ in their reservations no volume can be made.
func (s *supply) takeAlike(name string, n int64) (api.Resource, error) {
	for _, p := range s.left {
		alike := func(q *piece) bool { return q.plain() && sameKind(&p.Resource, &q.Resource) }
		sum := int64(0)
		for _, q := range s.left {
			if alike(q) {
				sum += q.scalar
			}
		}
		if p.Name == name && p.plain() && sum >= n {
			var taken []api.Resource
			err := s.takeScalar(name, n, alike, &taken)
			return taken[0], err
		}
	}
	return api.Resource{}, fmt.Errorf("the offers lack %v %s of one reservation", fromMilli(n), name)
}

// takeNamed takes so many units of a resource that is a scalar, a set or ranges.
func (s *supply) takeNamed(a cluster.Amount, usable func(*piece) bool, taken *[]api.Resource) error {
	n := a.Value
	for _, p := range s.left {
		if n == 0 {
			return nil
		}
		if p.Name != a.Name || !usable(p) {
			continue
		}
		r := p.Resource
		switch p.GetType() {
		case api.SCALAR:
			got := min(n, p.scalar/milli)
			if got == 0 {
				continue
			}
			p.scalar -= got * milli
			n -= got
			r.Scalar = &api.Value_Scalar{Value: float64(got)}
		case api.SET:
			got := min(n, int64(len(p.set)))
			if got == 0 {
				continue
			}
			r.Set = &api.Value_Set{Item: slices.Clone(p.set[:got])}
			p.set = p.set[got:]
			n -= got
		case api.RANGES:
			r.Ranges = &api.Value_Ranges{}
			for n > 0 && len(p.ranges) > 0 {
				g := &p.ranges[0]
				got := min(n, int64(g.End-g.Begin)+1)
				r.Ranges.Range = append(r.Ranges.Range, api.Value_Range{Begin: g.Begin, End: g.Begin + uint64(got) - 1})
				n -= got
				if last := g.Begin + uint64(got) - 1; last < g.End { // which may be the greatest number there is
					g.Begin = last + 1
				} else {
					p.ranges = p.ranges[1:]
				}
			}
			if len(r.Ranges.Range) == 0 {
				continue
			}
		}
		merge(taken, r)
	}
	if n > 0 {
		return fmt.Errorf("the offers lack %d of %s", n, a.Name)
	}
	return nil
}

func (s *supply) takePort(port uint64, taken *[]api.Resource) error {
	for _, p := range s.left {
		if p.Name != namePorts || !p.plain() {
			continue
		}
		for i, g := range p.ranges {
			if port < g.Begin || port > g.End {
				continue
			}
			rest := []api.Value_Range{}
			if g.Begin < port {
				rest = append(rest, api.Value_Range{Begin: g.Begin, End: port - 1})
			}
			if port < g.End {
				rest = append(rest, api.Value_Range{Begin: port + 1, End: g.End})
			}
			p.ranges = slices.Replace(p.ranges, i, i+1, rest...)
			r := p.Resource
			r.Ranges = &api.Value_Ranges{Range: []api.Value_Range{{Begin: port, End: port}}}
			merge(taken, r)
			return nil
		}
	}
	return fmt.Errorf("the offers lack port %d", port)
}

// takeVolume takes the disk of a persistent volume whole.
func (s *supply) takeVolume(id string) (api.Resource, bool) {
	for i, p := range s.left {
		if p.volume() == id && p.scalar > 0 {
			s.left = slices.Delete(s.left, i, i+1)
			r := p.Resource
			r.Scalar = &api.Value_Scalar{Value: fromMilli(p.scalar)}
			return r, true
		}
	}
	return api.Resource{}, false
}

// merge adds a resource to a list, in the entry of its kind where there is one.
func merge(list *[]api.Resource, r api.Resource) {
	for i := range *list {
		l := &(*list)[i]
		if !sameKind(l, &r) {
			continue
		}
		switch {
		case r.Scalar != nil:
			l.Scalar = &api.Value_Scalar{Value: fromMilli(toMilli(l.Scalar.Value) + toMilli(r.Scalar.Value))}
		case r.Ranges != nil:
			l.Ranges = &api.Value_Ranges{Range: joinRanges(l.Ranges.Range, r.Ranges.Range)}
		case r.Set != nil:
			l.Set = &api.Value_Set{Item: append(slices.Clone(l.Set.Item), r.Set.Item...)}
		}
		return
	}
	*list = append(*list, r)
}

func joinRanges(a, b []api.Value_Range) []api.Value_Range {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y api.Value_Range) int { return cmp.Compare(x.Begin, y.Begin) })
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && (r.Begin <= out[n-1].End || r.Begin-1 == out[n-1].End) {
			out[n-1].End = max(out[n-1].End, r.End)
		} else {
			out = append(out, r)
		}
	}
	return out
}
