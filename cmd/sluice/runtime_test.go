package main

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeapIsBounded(t *testing.T) {
	tuneRuntime()
	limit := debug.SetMemoryLimit(-1)
	require.Less(t, limit, int64(math.MaxInt64))
	require.Greater(t, limit, int64(64<<20), "less is no machine that runs these tests")
}
