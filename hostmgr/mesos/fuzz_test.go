package mesos

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzStream: whatever a master sends, the reader neither panics nor keeps more than it was sent, ends at the end of the
// stream or where that is broken, and reads the same again.
func FuzzStream(f *testing.F) {
	beat := `{"type":"HEARTBEAT"}`
	for _, seed := range []string{
		"", framed(beat, beat), framed(`{"type":"OFFERS","offers":{"offers":[{"id":{"value":"o"},"resources":[{"name":"cpus"}]}]}}`),
		framed(`{"type":"UPDATE","update":{"status":{"task_id":{"value":"1.0.1"},"state":"TASK_RUNNING","uuid":"MDEyMzQ1Njc4OWFiY2RlZg=="}}}`),
		framed(`{"type":"SONG"}`), "10000000000\n{", "-1\n", "3\n{}", "0\n0\n", "99999999999999999999\n", framed("\x08\x09"), framed("\x08\x03\x1a\x7f"),
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, asJSON bool) {
		events, bad, end := eventsOf(bytes.NewReader(data), asJSON)
		require.True(t, end == io.EOF || errors.Is(end, errFraming), "%v", end)
		require.LessOrEqual(t, len(events)+bad, len(data)/2)
		again, badAgain, _ := eventsOf(bytes.NewReader(data), asJSON)
		require.Equal(t, len(events), len(again))
		require.Equal(t, bad, badAgain)
	})
}
