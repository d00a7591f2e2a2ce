package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Dimension indexes the fixed part of a resource vector.
type Dimension uint8

// The fixed dimensions with their units.
const (
	CPU     Dimension = iota // thousandths of a core
	Memory                   // bytes
	Disk                     // bytes
	GPU                      // thousandths of a device
	Network                  // bytes per second of the interface, both directions together
	NumDimensions
)

var dimensionNames = [NumDimensions]string{"cpu_milli", "memory_bytes", "disk_bytes", "gpu_milli", "network_bytes_per_second"}

// String returns the dimension's name with its unit, as the API spells it.
func (d Dimension) String() string { return dimensionNames[d] }

// IsDimension reports whether a fixed dimension has the name, which no named resource can have: pools would take it for the whole
// of what there is of that dimension.
func IsDimension(name string) bool { return slices.Contains(dimensionNames[:], name) }

// DimensionCalled returns the name of the fixed dimension that people call so, without its unit: cpu_milli for cpu; "" if there is none.
func DimensionCalled(word string) string {
	i := slices.IndexFunc(dimensionNames[:], func(name string) bool { return strings.HasPrefix(name, word+"_") })
	if i < 0 {
		return ""
	}
	return dimensionNames[i]
}

// DimensionMeant is DimensionCalled for a word that is given as the name of a resource. It may be that of a named one where it is
// "network": agents of Mesos have what the fixed dimension is not.
func DimensionMeant(word string) string {
	if name := DimensionCalled(word); name != Network.String() {
		return name
	}
	return ""
}

// MaxKey is how many characters a key has at most.
const MaxKey = 63

// IsKey reports whether a label may have the key, or a named resource the name: 1..[MaxKey] letters, digits, '-', '_', '.' and '/'.
func IsKey(s string) bool {
	part := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_./", c)
	}
	return s != "" && len(s) <= MaxKey && !strings.ContainsFunc(s, func(c rune) bool { return !part(c) })
}

// MaxAmount is the largest amount of one dimension that a task may ask for and a host may have. Sums over 8,192 hosts
// of this size stay exact; larger ones saturate.
const MaxAmount = 1 << 50

// Amount is a quantity of a named resource, in that resource's own unit.
type Amount struct {
	Name  string
	Value int64
}

// Resources is a vector of amounts: fixed dimensions in an array, named resources in a slice sorted by name without
// zeros. It is a value; no method modifies its receiver, and Named is never written after construction.
type Resources struct {
	Fixed [NumDimensions]int64
	Named []Amount `cbor:",omitempty"`
}

// NewResources builds a vector from the fixed amounts and named ones in any order. Amounts of one name are summed.
func NewResources(fixed [NumDimensions]int64, named ...Amount) Resources {
	r := Resources{Fixed: fixed}
	for _, a := range named {
		r = r.Add(Resources{Named: []Amount{a}})
	}
	return r
}

// Amount returns the amount of a named resource, 0 if there is none.
func (r *Resources) Amount(name string) int64 {
	if len(r.Named) <= 8 { // nearly always, and then to compare with all is fastest
		for i := range r.Named {
			if r.Named[i].Name == name {
				return r.Named[i].Value
			}
		}
		return 0
	}
	i, ok := slices.BinarySearchFunc(r.Named, name, func(a Amount, n string) int { return strings.Compare(a.Name, n) })
	if !ok {
		return 0
	}
	return r.Named[i].Value
}

// orNone returns the vector, or an empty one where there is none.
func (r *Resources) orNone() Resources {
	if r == nil {
		return Resources{}
	}
	return *r
}

// Add returns r + s, saturating.
func (r Resources) Add(s Resources) Resources { return r.combine(s, 1) }

// Sub returns r − s, saturating; amounts may become negative.
func (r Resources) Sub(s Resources) Resources { return r.combine(s, -1) }

func (r Resources) combine(s Resources, sign int64) Resources {
	for d := range r.Fixed {
		r.Fixed[d] = addSaturating(r.Fixed[d], sign*s.Fixed[d])
	}
	if len(s.Named) == 0 {
		return r
	}
	merged := make([]Amount, 0, len(r.Named)+len(s.Named))
	a, b := r.Named, s.Named
	for len(a) > 0 || len(b) > 0 {
		var next Amount
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			next, a = a[0], a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			next, b = Amount{b[0].Name, sign * b[0].Value}, b[1:]
		default:
			next = Amount{a[0].Name, addSaturating(a[0].Value, sign*b[0].Value)}
			a, b = a[1:], b[1:]
		}
		if next.Value != 0 {
			merged = append(merged, next)
		}
	}
	r.Named = merged
	return r
}

// Positive returns r with 0 for every negative amount.
func (r Resources) Positive() Resources {
	for d, v := range r.Fixed {
		r.Fixed[d] = max(0, v)
	}
	r.Named = slices.Clone(r.Named)
	r.Named = slices.DeleteFunc(r.Named, func(a Amount) bool { return a.Value <= 0 })
	return r
}

// Times returns r multiplied by n ≥ 0, saturating.
func (r Resources) Times(n int64) Resources {
	if n == 1 {
		return r
	}
	for d, v := range r.Fixed {
		r.Fixed[d] = mulSaturating(v, n)
	}
	if len(r.Named) > 0 && n == 0 {
		r.Named = nil
	}
	r.Named = slices.Clone(r.Named)
	for i := range r.Named {
		r.Named[i].Value = mulSaturating(r.Named[i].Value, n)
	}
	return r
}

func mulSaturating(v, n int64) int64 {
	if v != 0 && n != 0 && v*n/n != v {
		if v > 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	return v * n
}

func addSaturating(a, b int64) int64 {
	s := a + b
	if (a^s)&(b^s) < 0 { // both have the sign that the sum has not
		if a > 0 {
			return math.MaxInt64
		}
		return math.MinInt64
	}
	return s
}

// Fits reports whether r ≤ room in every dimension that r asks for. A dimension in which r asks for nothing never
// rules a host out, even if the host is over-committed there.
func (r Resources) Fits(room Resources) bool {
	for d, v := range r.Fixed {
		if v > 0 && v > room.Fixed[d] {
			return false
		}
	}
	return r.FitsNamed(&room)
}

// FitsNamed is Fits for the named dimensions alone.
func (r *Resources) FitsNamed(room *Resources) bool {
	for _, a := range r.Named {
		if a.Value > 0 && a.Value > room.Amount(a.Name) {
			return false
		}
	}
	return true
}

// Need is the room that a request needs in each fixed dimension, math.MinInt64 where it asks for nothing: one comparison a
// dimension tells whether there is enough.
type Need [NumDimensions]int64

// NeedOf returns the need of a request for so much.
func NeedOf(fixed *[NumDimensions]int64) (n Need) {
	for d, v := range fixed {
		if n[d] = v; v <= 0 {
			n[d] = math.MinInt64
		}
	}
	return n
}

// Fits reports whether the room is enough. It is Resources.Fits for the fixed dimensions alone.
func (n *Need) Fits(room *[NumDimensions]int64) bool {
	for d, v := range n {
		if v > room[d] {
			return false
		}
	}
	return true
}

// Count returns how many copies of r fit into room together, at most limit.
func (r Resources) Count(room Resources, limit int64) int64 {
	n := limit
	for d, v := range r.Fixed {
		if v > 0 {
			n = min(n, max(0, room.Fixed[d]/v))
		}
	}
	for _, a := range r.Named {
		if a.Value > 0 {
			n = min(n, max(0, room.Amount(a.Name)/a.Value))
		}
	}
	return n
}

// Lacking names the dimensions in which r does not fit into room, fixed ones first, then named ones by name.
func (r Resources) Lacking(room Resources) []string {
	var out []string
	for d, v := range r.Fixed {
		if v > 0 && v > room.Fixed[d] {
			out = append(out, Dimension(d).String())
		}
	}
	for _, a := range r.Named {
		if a.Value > 0 && a.Value > room.Amount(a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

// IsZero reports whether every amount is 0.
func (r Resources) IsZero() bool { return r.Fixed == [NumDimensions]int64{} && len(r.Named) == 0 }

// Equal reports whether r and s are the same vector.
func (r Resources) Equal(s Resources) bool {
	return r.Fixed == s.Fixed && slices.Equal(r.Named, s.Named)
}

// String lists the amounts that are not 0, as "cpu_milli=500 memory_bytes=1048576".
func (r Resources) String() string {
	var b strings.Builder
	put := func(name string, v int64) {
		if v == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", name, v)
	}
	for d, v := range r.Fixed {
		put(Dimension(d).String(), v)
	}
	for _, a := range r.Named {
		put(a.Name, a.Value)
	}
	return b.String()
}
