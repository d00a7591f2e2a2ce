package hugepage

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages for the whole capacity of s. The kernel may refuse;
// nothing then is different.
func advise[E any](s []E) {
	s = s[:cap(s)]
	size := uintptr(len(s)) * unsafe.Sizeof(*new(E))
	if size < least {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	page := uintptr(unix.Getpagesize())
	skip := -begin & (page - 1) // up to the next page
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), skip)), (size-skip)&^(page-1))
	_ = unix.Madvise(whole, unix.MADV_HUGEPAGE)
}
