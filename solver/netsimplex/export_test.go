package netsimplex

import "testing"

// AlwaysByDistance lets a test begin with shortest paths in the smallest networks, too.
func AlwaysByDistance(t *testing.T) {
	before := fewNodes
	t.Cleanup(func() { fewNodes = before })
	fewNodes = 0
}

// AlwaysCompact lets a test give up the slot of each arc that is gone.
func AlwaysCompact(t *testing.T) {
	some, few := roomy, someSlots
	t.Cleanup(func() { roomy, someSlots = some, few })
	roomy, someSlots = 1, 0
}

// InParts calls do where rows are taken in one by one.
func InParts(do func()) {
	before := part
	defer func() { part = before }()
	part = 1
	do()
}
