package cluster

import (
	"fmt"
	"slices"
	"strings"
)

const (
	mostRefusals = 4 // rules that are named
	mostChoices  = 3 // terms of an Or that are named
)

// Refusals counts, of hosts whose labels keep tasks off, how many each of the tasks' rules rules out: one host may count for several.
type Refusals struct {
	rules []*Constraint
	hosts []int // by rule
	all   int
}

// Demand adds an expression that has to hold; of an And each term is a rule by itself.
func (r *Refusals) Demand(c *Constraint) {
	if c.Op != And {
		r.rules, r.hosts = append(r.rules, c), append(r.hosts, 0)
		return
	}
	for i := range c.Terms {
		r.Demand(&c.Terms[i])
	}
}

// Count adds a host that is ruled out, after all Demands. Complexity: leaves × attributes of the host.
func (r *Refusals) Count(h *Host) {
	r.all++
	for i, c := range r.rules {
		if c.Evaluate(h, nil) == False {
			r.hosts[i]++
		}
	}
}

// String names the rules, those first that rule out most hosts, with their numbers where that is not the same hosts for all; "" if
// there are none.
func (r *Refusals) String() string {
	var order []int
	differ := false
	for i, n := range r.hosts {
		if n > 0 {
			order = append(order, i)
			differ = differ || n < r.all
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return r.hosts[b] - r.hosts[a] })
	var names []string
	for _, i := range order[:min(len(order), mostRefusals)] {
		name := r.rules[i].Words()
		if differ {
			name += fmt.Sprintf(" (%d)", r.hosts[i])
		}
		names = append(names, name)
	}
	if more := len(order) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Words renders c for people: `rack=r1`, `no ssd`, `zone=a or zone=b`. It names no more than some of many alternatives.
func (c *Constraint) Words() string {
	label := c.Label.Key
	if !c.AnyValue {
		label += "=" + c.Label.Value
	}
	switch with, without := c.Comparison.Holds(1, c.Count), c.Comparison.Holds(0, c.Count); {
	case c.Op == TaskLabel:
		domain := c.Domain
		if domain == "" {
			domain = DomainHost
		}
		return fmt.Sprintf("tasks with %s per %s %c %d", label, domain, "<=>"[c.Comparison], c.Count)
	case c.Op == HostLabel && with && !without:
		return label
	case c.Op == HostLabel && without && !with:
		return "no " + label
	case c.Op == HostLabel || len(c.Terms) == 0:
		return c.String()
	}
	var terms []string
	for i := range c.Terms[:min(len(c.Terms), mostChoices)] {
		term := &c.Terms[i]
		if name := term.Words(); len(term.Terms) > 1 {
			terms = append(terms, "("+name+")")
		} else {
			terms = append(terms, name)
		}
	}
	if more := len(c.Terms) - len(terms); more > 0 {
		terms = append(terms, fmt.Sprintf("%d more", more))
	}
	return strings.Join(terms, map[ConstraintOp]string{And: " and ", Or: " or "}[c.Op])
}
