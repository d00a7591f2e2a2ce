package cluster

import (
	"slices"
	"time"
)

// Soft makes a rule about places a preference.
type Soft struct {
	// Timeout is how long after it was queued a task waits as if the rule were hard.
	Timeout time.Duration `cbor:",omitempty"`
	// Penalty is what a place that breaks the rule costs after that, as expected delay: above 0, at most MaxPenalty.
	Penalty time.Duration
}

// Limits of preferences that hold everywhere.
const (
	// MaxPenalty is the most that breaking a rule may cost. It lies below what a step of priority is worth to the default
	// cost model, so that a preference never keeps a task waiting where there is room.
	MaxPenalty = 10 * time.Minute
	// MaxSoftRules is how many preferences a job may have.
	MaxSoftRules = 32
)

// SoftConstraint is a constraint that may be broken at a price.
type SoftConstraint struct {
	Constraint
	Soft
}

// Spread keeps tasks apart: at most Max of a selection in one domain, or, with MaxSkew, one domain has at most so many more of
// them than any other in which there is a host that takes work and that the job's constraint and its pool allow. Exactly one
// of the two is above 0.
type Spread struct {
	Domain   string     // see Host.Domain
	Max      uint32     `cbor:",omitempty"`
	MaxSkew  uint32     `cbor:",omitempty"`
	Selector []KeyValue `cbor:",omitempty"` // tasks with all these labels count, sorted; none: the tasks of the job
	Soft     *Soft      `cbor:",omitempty"` // nil: it holds for ever
}

// HasPairs reports whether the pairs hold all that are wanted.
func HasPairs(pairs, wanted []KeyValue) bool {
	return !slices.ContainsFunc(wanted, func(p KeyValue) bool { return !slices.Contains(pairs, p) })
}

// Yielded returns the preferences of the job that hold no longer as if they were hard for a task that waits since then: bit
// i for Preferences[i], bit len(Preferences)+k for the k-th of Spread, where these are soft. next is when another one
// gives way, 0 for never.
func (s *JobSpec) Yielded(queued, now Time) (mask uint64, next Time) {
	look := func(bit int, soft *Soft) {
		at := queued.Add(soft.Timeout)
		switch {
		case now >= at || soft.Timeout == 0:
			mask |= 1 << bit
		case next == 0 || at < next:
			next = at
		}
	}
	for i := range s.Preferences {
		look(i, &s.Preferences[i].Soft)
	}
	for k := range s.Spread {
		if soft := s.Spread[k].Soft; soft != nil {
			look(len(s.Preferences)+k, soft)
		}
	}
	return mask, next
}
