package cluster

import (
	"fmt"
	"slices"
	"strings"
)

// Comparison relates a count to a constraint's requirement.
type Comparison uint8

// The comparisons of label constraints.
const (
	Less Comparison = iota
	Equal
	Greater
)

// ConstraintOp says what a Constraint node is.
type ConstraintOp uint8

// The kinds of nodes in a constraint expression.
const (
	// HostLabel counts the host's labels that equal Label and compares the count with Count.
	HostLabel ConstraintOp = iota
	// And holds if all its Terms hold; with no Terms it holds.
	And
	// Or holds if one of its Terms holds; with no Terms it does not hold.
	Or
)

// Constraint is an expression over the labels of a host. It is immutable.
type Constraint struct {
	Op         ConstraintOp
	Terms      []Constraint `cbor:",omitempty"` // of And and Or
	Label      KeyValue     // of HostLabel
	Comparison Comparison   // of HostLabel
	Count      uint32       // of HostLabel
}

// Labels that every host has besides its attributes.
const (
	LabelHostname = "hostname"
	LabelRack     = "rack"
	LabelZone     = "zone"
)

// Allows reports whether the host satisfies c. Complexity: leaves × attributes of the host.
func (c *Constraint) Allows(h *Host) bool {
	switch c.Op {
	case And:
		for i := range c.Terms {
			if !c.Terms[i].Allows(h) {
				return false
			}
		}
		return true
	case Or:
		for i := range c.Terms {
			if c.Terms[i].Allows(h) {
				return true
			}
		}
		return false
	}
	n := h.countLabel(c.Label)
	switch c.Comparison {
	case Less:
		return n < c.Count
	case Greater:
		return n > c.Count
	default:
		return n == c.Count
	}
}

// Mentions reports whether c, which may be nil, says something about the label with that key.
func (c *Constraint) Mentions(key string) bool {
	if c == nil {
		return false
	}
	if c.Op == HostLabel {
		return c.Label.Key == key
	}
	return slices.ContainsFunc(c.Terms, func(t Constraint) bool { return t.Mentions(key) })
}

// String renders c unambiguously, so that equal strings mean equal expressions: `and(host(zone="a")>0, ...)`.
func (c *Constraint) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func (c *Constraint) write(b *strings.Builder) {
	if c.Op == HostLabel {
		fmt.Fprintf(b, "host(%q=%q)%c%d", c.Label.Key, c.Label.Value, "<=>"[c.Comparison], c.Count)
		return
	}
	b.WriteString(map[ConstraintOp]string{And: "and(", Or: "or("}[c.Op])
	for i := range c.Terms {
		if i > 0 {
			b.WriteString(", ")
		}
		c.Terms[i].write(b)
	}
	b.WriteByte(')')
}
