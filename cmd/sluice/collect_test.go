package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that nobody else collects
	var c restCollector
	var m runtime.MemStats
	collections := func() uint32 {
		runtime.ReadMemStats(&m)
		return m.NumGC
	}
	runtime.GC()
	before := collections()
	require.Zero(t, c.collect(), "nothing has come since the last collection")
	require.Equal(t, before, collections())

	garbage := make([]byte, m.HeapAlloc+2*leastGarbage)
	runtime.KeepAlive(garbage)
	require.True(t, c.due())
	require.Zero(t, c.collect(), "somebody collects")
	c.busy.Store(false)
	require.Positive(t, c.collect())
	require.Greater(t, collections(), before)
	require.False(t, c.busy.Load())
}
