// Package hugepage gives room to slices of hundreds of megabytes in which a
// program reads here and there. On pages of 4 KiB most such reads also miss the
// translation of their address; on huge pages, of 2 MiB on most machines, few do.
package hugepage

// least is from how many bytes on it is worth the call.
const least = 4 << 20

// Grow returns s with room for n more elements, like slices.Grow: beyond its
// capacity a new array is made, twice as long as the old one if that is more. What
// is not used yet takes no memory, while to copy 100 MB to a new place takes some
// 0.1 s, all in one cycle. A large array is made of huge pages where the kernel has
// them. Amortized O(n); the content is the same either way.
func Grow[S ~[]E, E any](s S, n int) S {
	if cap(s)-len(s) >= n {
		return s
	}
	grown := make(S, 0, len(s)+max(n, len(s), 64))
	advise(grown)
	return append(grown, s...)
}
