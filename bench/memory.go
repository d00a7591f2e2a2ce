package bench

import "runtime"

const megabyte = 1 << 20

// heap returns the megabytes that are alive. What pools and finalizers keep
// outlives one collection, and would be missing from the next count.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / megabyte
}

// mallocs returns how many allocations there have been.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// peakMB returns the most memory that the process has had. Linux gives
// kilobytes, Darwin bytes.
func peakMB() float64 {
	peak := float64(usage().Maxrss)
	if runtime.GOOS == "darwin" {
		return peak / megabyte
	}
	return peak / 1024
}
