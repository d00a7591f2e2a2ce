package costmodels

import (
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Term is a part of a price, by name.
type Term struct {
	Name  string
	Price flowgraph.Cost
}

// Itemizer is implemented by models whose Start is a sum that is worth showing. It is for explanations only.
type Itemizer interface {
	Model
	// Items returns the terms of Start; their sum is Start.
	Items(r *Round, q *Request, h *cluster.Host) []Term
}

// Items returns the terms of the model's Start: one, by the model's name, where it is no Itemizer.
func Items(m Model, r *Round, q *Request, h *cluster.Host) []Term {
	if i, ok := m.(Itemizer); ok {
		return i.Items(r, q, h)
	}
	return []Term{{m.Name(), m.Start(r, q, h)}}
}
