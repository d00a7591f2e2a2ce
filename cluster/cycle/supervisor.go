package cycle

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
	"github.com/sluice-scheduler/sluice/solver"
)

// Policy is a cost model in use, with another one in its shadow. Immutable; who changes it passes another pointer.
type Policy struct {
	Model costmodels.Model
	// Shadow plans every ShadowEvery-th cycle that solves, on the same snapshot, and only reports what it would do
	// otherwise; nil for none.
	Shadow      costmodels.Model
	ShadowEvery int
}

// Supervisor plans by a policy, with a Planner for its model. It keeps broken models away from what it
// returns. What was planned with one is thrown away, and everything is planned anew, as after a restart, with
// the last model that was not broken. The broken one stays out until there is another policy. A Supervisor is
// not safe for concurrent use.
type Supervisor struct {
	newSolver func() solver.Solver
	options   Options
	watch     Watch

	policy  *Policy
	shadow  *shadow
	planner *Planner
	model   costmodels.Model // of the planner
	proven  bool             // it has made a plan without a fault
	good    costmodels.Model // the last one before it that had
	fault   error            // why the policy's own model is not in use; nil if it is
}

// New returns a supervisor whose policy is the model, and that solves with what newSolver returns. It asks
// for a new solver whenever it begins a new network. If newSolver is nil, it plans without a flow: the tasks
// in order take the cheapest start. That is the baseline that the flow is measured against; tiers, prices,
// displacement and what fits are the same.
func New(model costmodels.Model, newSolver func() solver.Solver) *Supervisor {
	s := &Supervisor{newSolver: newSolver, options: DefaultOptions(), good: trivial.Model{}}
	s.adopt(&Policy{Model: model})
	return s
}

// Blank returns a supervisor that has seen nothing and plans as s does, with the policy.
func (s *Supervisor) Blank(policy *Policy) *Supervisor {
	q := &Supervisor{newSolver: s.newSolver, options: s.options, watch: s.watch, good: trivial.Model{}}
	q.adopt(policy)
	return q
}

// Bound sets what plans may do to running work from the next cycle on.
func (s *Supervisor) Bound(o Options) {
	s.options = o
	s.planner.options = o
}

// Run plans one cycle. If nothing changed that could let a task be placed, nothing is solved. Complexity: the
// changes, the waiting classes with the changed hosts of their rows, and the solves; never the number of
// waiting tasks.
func (s *Supervisor) Run(in Input) Output {
	if in.Policy != nil && in.Policy != s.policy {
		s.adopt(in.Policy)
	}
	plan := func(p *Planner) Output { return p.Run(in) }
	out, fault := attend(s, plan)
	for fault != nil {
		s.replace(fault)
		out, fault = attend(s, plan)
	}
	s.proven = s.proven || out.Stats.Rounds > 0
	if s.fault != nil {
		out.Stats.Fault = s.fault.Error()
	}
	if s.shadow != nil {
		out.Shadow = s.shadow.follow(in, &out)
	}
	return out
}

// adopt plans by the policy from the next cycle on.
func (s *Supervisor) adopt(policy *Policy) {
	s.good, s.policy, s.fault, s.shadow = s.lastGood(), policy, nil, nil
	s.begin(policy.Model)
	if policy.Shadow != nil && policy.ShadowEvery > 0 {
		s.shadow = &shadow{planner: s.Blank(&Policy{Model: policy.Shadow}), every: policy.ShadowEvery, rescan: true}
	}
}

// replace plans with the last good model from the next cycle on. Once that breaks too, it plans with one that
// has nothing to break.
func (s *Supervisor) replace(fault error) {
	if s.fault == nil {
		s.fault = fault
	} else {
		s.fault = fmt.Errorf("%w; %w", s.fault, fault)
	}
	model := s.good
	s.good = trivial.Model{}
	s.begin(model)
}

// begin plans with the model, of which nothing is known yet, and with a planner that has seen nothing.
func (s *Supervisor) begin(model costmodels.Model) {
	s.model, s.proven = model, false
	s.planner = &Planner{model: guard.New(model), newSolver: s.newSolver, lengths: usual, options: s.options}
}

func (s *Supervisor) lastGood() costmodels.Model {
	if s.proven {
		return s.model
	}
	return s.good
}
