package hugepage

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages for the whole capacity of s, and for what else would lie in
// them. The kernel may refuse; nothing then is different.
func advise[E any](s []E) { tellAround(s, unix.MADV_HUGEPAGE) }

// collapse moves into huge pages what of s has small ones, as memory has that held something else
// before. Kernels before 6.1 refuse.
func collapse[E any](s []E) { tellAround(s, unix.MADV_COLLAPSE) }

// tellAround calls madvise for the huge pages in which any of s would lie.
func tellAround[E any](s []E, advice uintptr) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	end := begin + uintptr(cap(s))*unsafe.Sizeof(*new(E))
	begin, end = begin&^(step-1), (end+step-1)&^(step-1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, advice)
	runtime.KeepAlive(s)
}

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
