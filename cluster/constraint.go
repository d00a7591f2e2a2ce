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

// Holds reports whether the count stands in the relation to the number.
func (c Comparison) Holds(count, number uint32) bool {
	switch c {
	case Less:
		return count < number
	case Greater:
		return count > number
	default:
		return count == number
	}
}

// ConstraintOp says what a Constraint node is.
type ConstraintOp uint8

// The kinds of nodes in a constraint expression.
const (
	// HostLabel compares 1 with Count where the host has the label, and 0 where it has not.
	HostLabel ConstraintOp = iota
	// And holds if all its Terms hold; with no Terms it holds.
	And
	// Or holds if one of its Terms holds; with no Terms it does not hold.
	Or
	// TaskLabel compares the number of tasks in the host's Domain that carry the label with Count. It does not hold on a
	// host that belongs to no such domain.
	TaskLabel
)

// Constraint is an expression over the labels of a host, and of the tasks around a place on it. It is immutable.
type Constraint struct {
	Op         ConstraintOp
	Terms      []Constraint `cbor:",omitempty"` // of And and Or
	Label      KeyValue     // of HostLabel and TaskLabel
	AnyValue   bool         `cbor:",omitempty"` // of the same: every value of Label.Key will do
	Comparison Comparison   // of the same
	Count      uint32       // of the same
	Domain     string       `cbor:",omitempty"` // of TaskLabel: where tasks are counted, see Host.Domain
}

// Labels that every host has besides its attributes.
const (
	LabelHostname = "hostname"
	LabelRack     = "rack"
	LabelZone     = "zone"
)

// DomainHost is the domain that every host forms by itself; see Host.Domain.
const DomainHost = "host"

// AttributeExclusive is the attribute that closes a host to tasks that do not name it: those for which neither the job nor
// the pool has a constraint with a label of this key and the host's value that holds there.
const AttributeExclusive = "sluice/exclusive"

// Truth is the value of an expression of which not everything need be known.
type Truth uint8

// The values, weakest first: And is their least, Or their greatest.
const (
	False Truth = iota
	Unknown
	True
)

func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// Evaluate returns what c is on the host, asking count about each TaskLabel. With nil these are Unknown, and so is c where
// it depends on them. Source: S. C. Kleene's strong three-valued logic. Complexity: leaves × attributes of the host.
func (c *Constraint) Evaluate(h *Host, count func(*Constraint) bool) Truth {
	switch c.Op {
	case And:
		value := True
		for i := range c.Terms {
			value = min(value, c.Terms[i].Evaluate(h, count))
		}
		return value
	case Or:
		value := False
		for i := range c.Terms {
			value = max(value, c.Terms[i].Evaluate(h, count))
		}
		return value
	case TaskLabel:
		if count == nil {
			return Unknown
		}
		return truthOf(count(c))
	}
	return truthOf(c.Comparison.Holds(b2u(h.hasLabel(c.Label, c.AnyValue)), c.Count))
}

// Mentions reports whether c, which may be nil, says something about the host label with that key.
func (c *Constraint) Mentions(key string) bool {
	return c.Any(func(leaf *Constraint) bool { return leaf.Op == HostLabel && leaf.Label.Key == key })
}

// CountsTasks reports whether c, which may be nil, has a TaskLabel.
func (c *Constraint) CountsTasks() bool {
	return c.Any(func(leaf *Constraint) bool { return leaf.Op == TaskLabel })
}

// Names reports whether c, which may be nil, has a label of the key that holds for the value: that it is asked for, and not
// ruled out.
func (c *Constraint) Names(label KeyValue) bool {
	return c.Any(func(leaf *Constraint) bool {
		return leaf.Op == HostLabel && leaf.Label.Key == label.Key && (leaf.AnyValue || leaf.Label.Value == label.Value) &&
			leaf.Comparison.Holds(1, leaf.Count)
	})
}

// Any reports whether a leaf of c, which may be nil, is as said.
func (c *Constraint) Any(is func(leaf *Constraint) bool) bool {
	switch {
	case c == nil:
		return false
	case c.Op == And || c.Op == Or:
		for i := range c.Terms {
			if c.Terms[i].Any(is) {
				return true
			}
		}
		return false
	default:
		return is(c)
	}
}

// Admits reports whether a host that is closed to others, if it is, is open to tasks with the constraints, each of which may
// be nil.
func (h *Host) Admits(constraints ...*Constraint) bool {
	for _, a := range h.Attributes {
		if a.Key == AttributeExclusive && !slices.ContainsFunc(constraints, func(c *Constraint) bool { return c.Names(a) }) {
			return false
		}
	}
	return true
}

// Meets reports whether the host is as c, which may be nil, asks by its own labels.
func (h *Host) Meets(c *Constraint) bool { return c == nil || c.Evaluate(h, nil) == True }

// Opens reports whether tasks with the constraint, of a pool that asks within of its hosts, may be on the host, whatever runs around them.
// Both may be nil.
func (h *Host) Opens(c, within *Constraint) bool {
	return h.Admits(c, within) && h.Meets(within) && (c == nil || c.Evaluate(h, nil) != False)
}

// hasLabel reports whether the host has the label, or with any value one of its key.
func (h *Host) hasLabel(l KeyValue, anyValue bool) bool {
	switch l.Key {
	case LabelHostname:
		if anyValue || l.Value == h.ID.Name() || l.Value == string(h.ID) {
			return true
		}
	case LabelRack:
		if h.Rack != "" && (anyValue || l.Value == h.Rack) {
			return true
		}
	case LabelZone:
		if h.Zone != "" && (anyValue || l.Value == h.Zone) {
			return true
		}
	}
	return slices.ContainsFunc(h.Attributes, func(a KeyValue) bool {
		return a.Key == l.Key && (anyValue || a.Value == l.Value)
	})
}

// Domain returns the host's value of a domain: itself for DomainHost (and ""), its rack for LabelRack, its zone for
// LabelZone, else the first value of the attribute of that name. Hosts with equal values form one domain; one without a
// value belongs to none.
func (h *Host) Domain(name string) (value string, ok bool) {
	switch name {
	case "", DomainHost:
		return string(h.ID), true
	case LabelRack:
		value = h.Rack
	case LabelZone:
		value = h.Zone
	default:
		i := slices.IndexFunc(h.Attributes, func(a KeyValue) bool { return a.Key == name })
		if i < 0 {
			return "", false
		}
		value = h.Attributes[i].Value
	}
	return value, value != ""
}

// String renders c unambiguously, so that equal strings mean equal expressions: `and(host(zone="a")>0, ...)`.
func (c *Constraint) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

func (c *Constraint) write(b *strings.Builder) {
	switch c.Op {
	case HostLabel, TaskLabel:
		fmt.Fprintf(b, "%s(%q", map[ConstraintOp]string{HostLabel: "host", TaskLabel: "task"}[c.Op], c.Label.Key)
		if !c.AnyValue {
			fmt.Fprintf(b, "=%q", c.Label.Value)
		}
		if c.Op == TaskLabel {
			fmt.Fprintf(b, " in %q", c.Domain)
		}
		fmt.Fprintf(b, ")%c%d", "<=>"[c.Comparison], c.Count)
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
