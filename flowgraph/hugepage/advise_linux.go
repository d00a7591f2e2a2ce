package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// advise asks for the huge pages that lie within s as a whole, and for nothing beside it. The kernel may refuse; nothing then is different.
func advise[E any](s []E) { tell(s[:cap(s)], step, unix.MADV_HUGEPAGE) }

// collapse moves what lies in small pages into those huge ones, as memory does that has held something else before. Kernels before 6.1 refuse.
func collapse[E any](s []E) { tell(s[:cap(s)], step, unix.MADV_COLLAPSE) }

// populate gives memory to s, whose content stays what it is. The kernel may refuse.
func populate[E any](s []E) { tell(s, uintptr(unix.Getpagesize()), unix.MADV_POPULATE_WRITE) }

// tell calls madvise for the whole pages of s, of so many bytes.
func tell[E any](s []E, page uintptr, advice int) {
	size := uintptr(len(s)) * unsafe.Sizeof(*new(E))
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	skip := -begin & (page - 1) // up to the next page
	if size < skip+page {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), skip)), (size-skip)&^(page-1))
	_ = unix.Madvise(whole, advice)
}
