//go:build !highs

package registry

// tagged lists the solvers that need a build tag.
var tagged []entry
