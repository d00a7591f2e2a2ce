// Package hugepage gives room to slices of hundreds of megabytes in which a
// program reads here and there. On pages of 4 KiB most such reads also miss the
// translation of their address; on huge pages, of 2 MiB on most machines, few do.
package hugepage

import "unsafe"

const (
	// least is from how many bytes on it is worth the call.
	least = 512 << 10
	// step is of how many bytes memory is asked for ahead.
	step = 2 << 20
)

// Grow returns s with room for n more elements, like slices.Grow: beyond its
// capacity a new array is made, twice as long as the old one if that is more. What
// is not used yet takes no memory, while to copy 100 MB to a new place takes some
// 0.1 s, all in one cycle. A large array is made of huge pages where the kernel has
// them; memory that has held something else before is moved into them while the program goes
// on. Amortized O(n); the content is the same either way.
func Grow[S ~[]E, E any](s S, n int) S {
	if cap(s)-len(s) >= n {
		return s
	}
	grown := make(S, 0, len(s)+max(n, len(s), 64))
	large := uintptr(cap(grown))*unsafe.Sizeof(*new(E)) >= least
	if large {
		advise(grown)
	}
	grown = append(grown, s...)
	if large {
		go collapse(grown)
	}
	return grown
}

// Extend returns s with n more elements, zero unless they had a value before, and room as
// from Grow. While the program goes on, it asks for the memory that comes next: else
// the first to write there waits until the kernel has a huge page, on a virtual machine
// that must get it from its host five milliseconds. Amortized O(n).
func Extend[S ~[]E, E any](s S, n int) S {
	begin := len(s)
	s = Grow(s, n)[:begin+n]
	each := int(unsafe.Sizeof(*new(E)))
	if len(s)*each/step != begin*each/step && cap(s)*each >= least {
		go populate(s[len(s):min(cap(s), len(s)+2*step/each)])
	}
	return s
}
