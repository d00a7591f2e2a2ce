//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a run says of its progress is read as often as its job wants, and whatever else lies in the place of the file changes
// nothing.
func TestProgressIsReadFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "progress")
	at := time.Unix(1000, 0)
	p := told{interval: time.Second}
	says := func() any {
		at = at.Add(time.Second)
		p.read(file, at)
		if p.last == nil {
			return nil
		}
		return *p.last
	}
	require.Nil(t, says())
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("0.25\n")
	require.EqualValues(t, 0.25, says())
	for _, text := range []string{"", "half", "1.5", "-0.1", "NaN", "+Inf", strings.Repeat("0", 100) + "x"} {
		write(text)
		require.EqualValues(t, 0.25, says(), text)
	}
	write("1")
	p.read(file, at.Add(time.Second/2))
	require.EqualValues(t, 0.25, *p.last, "not yet")
	require.EqualValues(t, 1, says())
	write("0.75")
	p.read(file, at.Add(time.Second-time.Millisecond))
	require.EqualValues(t, 0.75, *p.last, "a measurement of the same interval that comes a little early")
	write("1")
	require.EqualValues(t, 0.75, says(), "and so it is a little late")
	require.EqualValues(t, 1, says())
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	require.EqualValues(t, 1, says())
	require.NoError(t, os.Remove(file))
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("0.5"), 0o600))
	require.NoError(t, os.Symlink(other, file))
	require.EqualValues(t, 1, says())
	none := told{}
	none.read(other, at)
	require.Nil(t, none.last)
}
