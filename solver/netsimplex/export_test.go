package netsimplex

import "testing"

// AlwaysByDistance lets a test begin with shortest paths in the smallest networks, too.
func AlwaysByDistance(t *testing.T) {
	before := fewNodes
	t.Cleanup(func() { fewNodes = before })
	fewNodes = 0
}
