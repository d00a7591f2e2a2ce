package serve

import (
	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// constraintFrom joins all rules into one expression, nil if there are none.
func constraintFrom(rules []*sluicev1.ConstraintRule, path string, v *violations) *cluster.Constraint {
	reader := constraintReader{v: v}
	var terms []cluster.Constraint
	for i, rule := range rules {
		at := child(item(path, i), "expression")
		if rule.GetExpression() == nil {
			v.Invalid(at, "is required: label, all_of or any_of")
			continue
		}
		terms = append(terms, reader.read(rule.Expression, at, 1))
	}
	if reader.nodes > maxConstraintOperand {
		v.Invalid(path, "has %d expressions: at most %d", reader.nodes, maxConstraintOperand)
	}
	switch len(terms) {
	case 0:
		return nil
	case 1:
		return &terms[0]
	default:
		return &cluster.Constraint{Op: cluster.And, Terms: terms}
	}
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
	switch p.GetKind() {
	case sluicev1.LabelConstraint_HOST:
	case sluicev1.LabelConstraint_KIND_UNSPECIFIED:
		r.v.Invalid(child(path, "kind"), "is required: HOST or TASK")
	default:
		r.v.Unsupported(child(path, "kind"), "is %v: this server knows HOST only so far", p.GetKind())
	}
	if !isKey(p.GetKey()) {
		r.v.Invalid(child(path, "key"), "is %s: %s", quote(p.GetKey()), keyRule)
	}
	if p != nil && p.Value == nil {
		r.v.Unsupported(child(path, "value"), "this server does not support a key with any value yet: give a value")
	}
	checkText(p.GetValue(), child(path, "value"), maxLabelValue, r.v)
	c := cluster.Constraint{
		Op:    cluster.HostLabel,
		Label: cluster.KeyValue{Key: p.GetKey(), Value: p.GetValue()},
		Count: p.GetRequirement(),
	}
	switch p.GetComparison() {
	case sluicev1.LabelConstraint_LESS:
		c.Comparison = cluster.Less
		if c.Count == 0 {
			r.v.Invalid(child(path, "requirement"), "is 0, and no count is less: 1 or more")
		}
	case sluicev1.LabelConstraint_EQUAL:
		c.Comparison = cluster.Equal
	case sluicev1.LabelConstraint_GREATER:
		c.Comparison = cluster.Greater
	default:
		r.v.Invalid(child(path, "comparison"), "is %v: LESS, EQUAL or GREATER", p.GetComparison())
	}
	return c
}

// constraintTo returns the expression as the single rule that it stands for.
func constraintTo(c *cluster.Constraint) []*sluicev1.ConstraintRule {
	if c == nil {
		return nil
	}
	return []*sluicev1.ConstraintRule{{Expression: expressionTo(c)}}
}

func expressionTo(c *cluster.Constraint) *sluicev1.Constraint {
	if c.Op == cluster.HostLabel {
		return &sluicev1.Constraint{Kind: &sluicev1.Constraint_Label{Label: &sluicev1.LabelConstraint{
			Kind:        sluicev1.LabelConstraint_HOST,
			Key:         c.Label.Key,
			Value:       &c.Label.Value,
			Comparison:  comparisonTo(c.Comparison),
			Requirement: c.Count,
		}}}
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

func comparisonTo(c cluster.Comparison) sluicev1.LabelConstraint_Comparison {
	switch c {
	case cluster.Less:
		return sluicev1.LabelConstraint_LESS
	case cluster.Greater:
		return sluicev1.LabelConstraint_GREATER
	default:
		return sluicev1.LabelConstraint_EQUAL
	}
}
