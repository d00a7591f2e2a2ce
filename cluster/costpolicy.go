package cluster

import (
	"cmp"
	"slices"
)

// CostPolicy is what an operator set at run time in place of the configured cost model. Immutable; State replaces it.
type CostPolicy struct {
	Bindings    []CostBinding `cbor:",omitempty"` // by Pool, then Type; no two of the same
	Shadow      string        `cbor:",omitempty"` // cost model that only reports what it would do otherwise; "" for none
	ShadowEvery uint32        `cbor:",omitempty"` // cycles between two of its plans
}

// CostBinding gives the cluster, a pool and those below it, or a type of job in them, a cost model of its own.
type CostBinding struct {
	Pool  PoolPath // "" for all
	Type  string   // in lower case, "" for all
	Model string   // as the configuration spells it; "": as if it had never been set
}

func (b CostBinding) compare(o CostBinding) int {
	return cmp.Or(cmp.Compare(b.Pool, o.Pool), cmp.Compare(b.Type, o.Type))
}

// CostPolicy returns what was set, nil for nothing. It is the same pointer until something else is set.
func (t *tables) CostPolicy() *CostPolicy { return t.costs }

func (s *State) setCostModel(e *CostModelSet) {
	next := CostPolicy{}
	if s.costs != nil {
		next = *s.costs
	}
	next.Bindings = slices.Clone(next.Bindings)
	i, found := slices.BinarySearchFunc(next.Bindings, e.Binding, CostBinding.compare)
	if found {
		next.Bindings = slices.Delete(next.Bindings, i, i+1)
	}
	if e.Binding.Model != "" {
		next.Bindings = slices.Insert(next.Bindings, i, e.Binding)
	}
	if e.Binding.Pool == "" && e.Binding.Type == "" {
		next.Shadow, next.ShadowEvery = e.Shadow, e.ShadowEvery
	}
	s.costs = &next
}
