//go:build amd64 || arm64

package prefetch

import "unsafe"

//go:noescape
func line(p unsafe.Pointer)

//go:noescape
func each(base unsafe.Pointer, size uintptr, index unsafe.Pointer, stride uintptr, n int)
