package serve

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	defaultPenalty = time.Minute // of a preference that states none
	maxSoftTimeout = 30 * 24 * time.Hour
	maxSpread      = 32
)

// placesFrom converts everything that a job asks of the places of its tasks. The hard rules become one expression.
func placesFrom(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) {
	at := child(path, "constraints")
	reader := constraintReader{v: v}
	var terms []cluster.Constraint
	for i, rule := range p.Constraints {
		at := item(at, i)
		if rule.GetExpression() == nil {
			v.Invalid(child(at, "expression"), "is required: label, all_of or any_of")
			continue
		}
		c := reader.read(rule.Expression, child(at, "expression"), 1)
		if rule.Soft == nil {
			terms = append(terms, c)
		} else {
			job.Preferences = append(job.Preferences, cluster.SoftConstraint{Constraint: c, Soft: softFrom(rule.Soft, child(at, "soft"), v)})
		}
	}
	if reader.nodes > maxConstraintOperand {
		v.Invalid(at, "has %d expressions: at most %d", reader.nodes, maxConstraintOperand)
	}
	switch len(terms) {
	case 0:
	case 1:
		job.Constraint = &terms[0]
	default:
		job.Constraint = &cluster.Constraint{Op: cluster.And, Terms: terms}
	}
	job.Spread = spreadFrom(p.Spread, child(path, "spread"), v)
	soft := len(job.Preferences)
	for i := range job.Spread {
		if job.Spread[i].Soft != nil {
			soft++
		}
	}
	if soft > cluster.MaxSoftRules {
		v.Invalid(at, "%d rules are soft, with those of spread: at most %d", soft, cluster.MaxSoftRules)
	}
}

// checkCoreLabels refuses labels by which rules would count tasks apart that start together.
func checkCoreLabels(job *cluster.JobSpec, path string, v *violations) {
	if job.Gang == nil || len(job.Spread) == 0 && len(job.Preferences) == 0 && !job.Constraint.CountsTasks() {
		return
	}
	for i := range job.Overrides {
		o := &job.Overrides[i]
		if o.First < job.Gang.Minimum && o.Task != nil && len(o.Task.Labels) > 0 {
			v.Invalid(child(item(path, i), "task.labels"), "are other ones for a part of the gang, whose rules count tasks: give the %d tasks of the gang the same labels", job.Gang.Minimum)
		}
	}
}

func softFrom(p *sluicev1.SoftRule, path string, v *violations) cluster.Soft {
	return cluster.Soft{
		Timeout: durationFrom(p.GetTimeout(), 0, maxSoftTimeout, child(path, "timeout"), v),
		Penalty: durationOr(p.GetPenalty(), defaultPenalty, time.Millisecond, cluster.MaxPenalty, child(path, "penalty"), v),
	}
}

func spreadFrom(rules []*sluicev1.SpreadRule, path string, v *violations) []cluster.Spread {
	if len(rules) > maxSpread {
		v.Invalid(path, "has %d entries: at most %d", len(rules), maxSpread)
		return nil
	}
	var all []cluster.Spread
	for i, p := range rules {
		at := item(path, i)
		s := cluster.Spread{
			Domain: domainFrom(p.GetDomain(), child(at, "domain"), v), Max: p.GetMaxPerDomain(), MaxSkew: p.GetMaxSkew(),
			Selector: labelsFrom(p.GetSelector(), child(at, "selector"), v),
		}
		switch {
		case s.MaxSkew == 0:
			checkRange(int64(s.Max), 1, cluster.MaxInstances, "tasks", child(at, "max_per_domain"), v)
		case s.Max > 0:
			v.Invalid(child(at, "max_skew"), "is %d beside max_per_domain: give each a rule of its own", s.MaxSkew)
		default:
			checkRange(int64(s.MaxSkew), 1, cluster.MaxInstances, "tasks", child(at, "max_skew"), v)
		}
		if p.GetSoft() != nil {
			soft := softFrom(p.Soft, child(at, "soft"), v)
			s.Soft = &soft
		}
		all = append(all, s)
	}
	return all
}

// domainFrom reads the name of a domain, in which "" stands for the host.
func domainFrom(name, path string, v *violations) string {
	if name == "" {
		return cluster.DomainHost
	}
	if !cluster.IsKey(name) {
		v.Invalid(path, "is %s: host, rack, zone or an attribute of hosts", quote(name))
	}
	return name
}

type constraintReader struct {
	v     *violations
	nodes int
}

func (r *constraintReader) read(p *sluicev1.Constraint, path string, depth int) cluster.Constraint {
	if r.nodes++; r.nodes > maxConstraintOperand {
		return cluster.Constraint{} // reported once, by the caller
	}
	if depth > maxConstraintDepth {
		r.v.Invalid(path, "is nested more than %d levels deep", maxConstraintDepth)
		return cluster.Constraint{}
	}
	switch k := p.GetKind().(type) {
	case *sluicev1.Constraint_Label:
		return r.label(k.Label, child(path, "label"))
	case *sluicev1.Constraint_AllOf:
		return r.list(cluster.And, k.AllOf, child(path, "all_of"), depth)
	case *sluicev1.Constraint_AnyOf:
		return r.list(cluster.Or, k.AnyOf, child(path, "any_of"), depth)
	default:
		r.v.Invalid(path, "is empty: label, all_of or any_of")
		return cluster.Constraint{}
	}
}

func (r *constraintReader) list(op cluster.ConstraintOp, p *sluicev1.ConstraintList, path string, depth int) cluster.Constraint {
	path = child(path, "operands")
	if len(p.GetOperands()) == 0 {
		r.v.Invalid(path, "is required: at least one expression")
	}
	c := cluster.Constraint{Op: op}
	for i, operand := range p.GetOperands() {
		c.Terms = append(c.Terms, r.read(operand, item(path, i), depth+1))
	}
	return c
}

func (r *constraintReader) label(p *sluicev1.LabelConstraint, path string) cluster.Constraint {
	if !cluster.IsKey(p.GetKey()) {
		r.v.Invalid(child(path, "key"), "is %s: %s", quote(p.GetKey()), keyRule)
	}
	checkText(p.GetValue(), child(path, "value"), maxLabelValue, r.v)
	c := cluster.Constraint{
		Op:       cluster.HostLabel,
		Label:    cluster.KeyValue{Key: p.GetKey(), Value: p.GetValue()},
		AnyValue: p != nil && p.Value == nil,
		Count:    p.GetRequirement(),
	}
	switch p.GetKind() {
	case sluicev1.LabelConstraint_HOST:
		if p.Domain != "" {
			r.v.Invalid(child(path, "domain"), "is %s beside kind HOST: only tasks are counted in domains", quote(p.Domain))
		}
	case sluicev1.LabelConstraint_TASK:
		c.Op, c.Domain = cluster.TaskLabel, domainFrom(p.Domain, child(path, "domain"), r.v)
		if c.Count > cluster.MaxInstances {
			r.v.Invalid(child(path, "requirement"), "is %d: 0 to %d (tasks)", c.Count, cluster.MaxInstances)
		}
	default:
		r.v.Invalid(child(path, "kind"), "is required: HOST or TASK")
	}
	c.Comparison = comparisons.from(p.GetComparison())
	switch {
	case p.GetComparison() == sluicev1.LabelConstraint_COMPARISON_UNSPECIFIED:
		r.v.Invalid(child(path, "comparison"), "is required: LESS, EQUAL or GREATER")
	case c.Comparison == cluster.Less && c.Count == 0:
		r.v.Invalid(child(path, "requirement"), "is 0, and no count is less: 1 or more")
	}
	return c
}

// constraintsTo returns the rules of a job: the hard ones as the single expression that they make, then the preferences.
func constraintsTo(s *cluster.JobSpec) []*sluicev1.ConstraintRule {
	var rules []*sluicev1.ConstraintRule
	if s.Constraint != nil {
		rules = append(rules, &sluicev1.ConstraintRule{Expression: expressionTo(s.Constraint)})
	}
	for i := range s.Preferences {
		p := &s.Preferences[i]
		rules = append(rules, &sluicev1.ConstraintRule{Expression: expressionTo(&p.Constraint), Soft: softTo(&p.Soft)})
	}
	return rules
}

func softTo(s *cluster.Soft) *sluicev1.SoftRule {
	p := &sluicev1.SoftRule{Penalty: durationpb.New(s.Penalty)}
	if s.Timeout > 0 {
		p.Timeout = durationpb.New(s.Timeout)
	}
	return p
}

func spreadTo(rules []cluster.Spread) []*sluicev1.SpreadRule {
	var all []*sluicev1.SpreadRule
	for i := range rules {
		s := &rules[i]
		p := &sluicev1.SpreadRule{Domain: s.Domain, MaxPerDomain: s.Max, MaxSkew: s.MaxSkew, Selector: pairsTo(s.Selector)}
		if s.Soft != nil {
			p.Soft = softTo(s.Soft)
		}
		all = append(all, p)
	}
	return all
}

func expressionTo(c *cluster.Constraint) *sluicev1.Constraint {
	if c.Op == cluster.HostLabel || c.Op == cluster.TaskLabel {
		label := &sluicev1.LabelConstraint{
			Kind: sluicev1.LabelConstraint_HOST, Key: c.Label.Key, Domain: c.Domain,
			Comparison: comparisons.to(c.Comparison), Requirement: c.Count,
		}
		if c.Op == cluster.TaskLabel {
			label.Kind = sluicev1.LabelConstraint_TASK
		}
		if !c.AnyValue {
			label.Value = &c.Label.Value
		}
		return &sluicev1.Constraint{Kind: &sluicev1.Constraint_Label{Label: label}}
	}
	list := &sluicev1.ConstraintList{}
	for i := range c.Terms {
		list.Operands = append(list.Operands, expressionTo(&c.Terms[i]))
	}
	if c.Op == cluster.And {
		return &sluicev1.Constraint{Kind: &sluicev1.Constraint_AllOf{AllOf: list}}
	}
	return &sluicev1.Constraint{Kind: &sluicev1.Constraint_AnyOf{AnyOf: list}}
}

var comparisons = choice[cluster.Comparison, sluicev1.LabelConstraint_Comparison]{
	{cluster.Equal, sluicev1.LabelConstraint_EQUAL},
	{cluster.Less, sluicev1.LabelConstraint_LESS},
	{cluster.Greater, sluicev1.LabelConstraint_GREATER},
}
