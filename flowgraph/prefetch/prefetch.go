// Package prefetch asks for memory before it is needed.
package prefetch

import "unsafe"

// Line asks for the cache line that p points into. It never waits and changes nothing that
// a program can see; p may be any address.
func Line[T any](p *T) { line(unsafe.Pointer(p)) }

// Each asks for the elements of array that the records of a list name, by their fields like
// first, which is of the first record: the first and the last byte of each element. Indices may
// be out of range. It takes a quarter of the time of as many calls of Line, or less.
func Each[T, R any, I ~int32](array []T, list []R, first *I) {
	each(unsafe.Pointer(unsafe.SliceData(array)), unsafe.Sizeof(*new(T)), unsafe.Pointer(first), unsafe.Sizeof(*new(R)), len(list))
}
