package cluster

import (
	"math/bits"
	"slices"
	"time"
)

// TurnoverWindow is the time over which it is counted what comes free by itself.
const TurnoverWindow = time.Minute

// Turnover counts what runs gave back that ended by themselves: not those that were asked to end, nor those that were lost,
// nor those on slack, nor those that run again: these take back what they gave. Immutable.
type Turnover struct {
	Since  Time      `cbor:",omitempty"` // when the window in progress began
	Freed  Resources // in it
	Before Resources // in the window before it
}

// freed returns the turnover with what a run gave back at a time.
func (t Turnover) freed(at Time, r Resources) Turnover {
	t = t.at(at)
	t.Freed = t.Freed.Add(r)
	return t
}

// at returns the turnover with the window in progress at the time.
func (t Turnover) at(now Time) Turnover {
	switch since := now.Sub(t.Since); {
	case since >= 2*TurnoverWindow:
		return Turnover{Since: now}
	case since >= TurnoverWindow:
		return Turnover{Since: t.Since.Add(TurnoverWindow), Before: t.Freed}
	}
	return t
}

// Within returns how much comes free by itself in a time, at most TurnoverWindow, if it goes on as in the window before
// now.
func (t Turnover) Within(d time.Duration, now Time) Resources {
	t = t.at(now)
	old := TurnoverWindow - now.Sub(t.Since) // the part of the window before that counts
	return inPart(inPart(t.Before, old).Add(t.Freed), d)
}

// inPart returns what of a window's resources, none below 0, falls to a part of it, rounded down.
func inPart(r Resources, d time.Duration) Resources {
	part := func(v int64) int64 {
		hi, lo := bits.Mul64(uint64(v), uint64(min(d, TurnoverWindow)))
		q, _ := bits.Div64(hi, lo, uint64(TurnoverWindow))
		return int64(q)
	}
	for d, v := range r.Fixed {
		r.Fixed[d] = part(v)
	}
	r.Named = slices.Clone(r.Named)
	for i, a := range r.Named {
		r.Named[i].Value = part(a.Value)
	}
	return r
}
