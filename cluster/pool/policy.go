package pool

import (
	"maps"
	"slices"
)

// Policy says for whom running work may be stopped. An inner pool names one, which rules between its
// children, and inside those of them that are leaves. A root without children names one for itself. What is
// never stopped (not preemptible, stateful, daemon) is not put to a policy.
type Policy interface {
	// Inside reports whether, within one leaf, work of one may be stopped for the other.
	Inside(to, from Rival) bool
	// Across reports whether work of one pool may be stopped for another one. Default's law about
	// entitlements holds in any case. reserved tells that the beneficiary stays within its reservation.
	Across(reserved bool) bool
}

// Rival is one side of a comparison inside a leaf.
type Rival struct {
	Priority int32
	// Fair tells three things: the leaf is fair between jobs or users, the priorities are equal, and this
	// side's job or user is right by its share. The beneficiary's has to stay within it, the donor's to keep
	// it.
	Fair bool
}

// DefaultPolicy is the name of the policy of pools that set none.
const DefaultPolicy = "default"

var policies = map[string]Policy{
	DefaultPolicy:  Default{},
	"conservative": Conservative{},
	"none":         None{},
}

// PolicyNames returns the names of all policies, sorted.
func PolicyNames() []string { return slices.Sorted(maps.Keys(policies)) }

// policyNamed returns a policy. Unknown names stand for the default one: a newer server may have set up the
// pool.
func policyNamed(name string) Policy {
	if p, ok := policies[name]; ok {
		return p
	}
	return Default{}
}

// Default lets work be stopped inside a leaf for higher priority, or at equal priority for a job or user
// below its share. Between pools, it lets it be stopped for whoever is entitled to what the other has beyond
// its entitlement.
type Default struct{}

// Inside implements Policy.
func (Default) Inside(to, from Rival) bool {
	return to.Priority > from.Priority || to.Fair && from.Fair
}

// Across implements Policy.
func (Default) Across(bool) bool { return true }

// Conservative stops work of other pools only for what is reserved, and inside a leaf only for higher
// priority. What is merely a matter of shares is left to time.
type Conservative struct{}

// Inside implements Policy.
func (Conservative) Inside(to, from Rival) bool { return to.Priority > from.Priority }

// Across implements Policy.
func (Conservative) Across(reserved bool) bool { return reserved }

// None never stops anything.
type None struct{}

// Inside implements Policy.
func (None) Inside(Rival, Rival) bool { return false }

// Across implements Policy.
func (None) Across(bool) bool { return false }
