// Package prefetch asks for memory before it is needed.
package prefetch

import "unsafe"

// Line asks for the cache line that p points into. It never waits and changes nothing that
// a program can see; p may be any address.
func Line[T any](p *T) { line(unsafe.Pointer(p)) }
