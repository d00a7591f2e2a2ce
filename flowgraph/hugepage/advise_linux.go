package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages for the whole capacity of s, and for nothing beside it. The kernel
// may refuse; nothing then is different.
func advise[E any](s []E) { tell(s[:cap(s)], unix.MADV_HUGEPAGE) }

// populate gives memory to s, whose content stays what it is. The kernel may refuse.
func populate[E any](s []E) { tell(s, unix.MADV_POPULATE_WRITE) }

// tell calls madvise for the whole pages of s.
func tell[E any](s []E, advice int) {
	size := uintptr(len(s)) * unsafe.Sizeof(*new(E))
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	page := uintptr(unix.Getpagesize())
	skip := -begin & (page - 1) // up to the next page
	if size < skip+page {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), skip)), (size-skip)&^(page-1))
	_ = unix.Madvise(whole, advice)
}
