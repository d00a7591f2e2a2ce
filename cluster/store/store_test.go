package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarnings(t *testing.T) {
	var got []string
	logger := badgerOptions(t.TempDir(), Options{Warn: func(m string) { got = append(got, m) }}).Logger
	logger.Infof("all is well")
	logger.Debugf("all is well")
	logger.Warningf("file %d is torn\n", 1)
	logger.Errorf("disk %q is full", "a")
	require.Equal(t, []string{"file 1 is torn", `disk "a" is full`}, got)
}

// Badger's advice to make a cache larger is not for whoever reads the scheduler's log; what it warns of otherwise is.
func TestAdviceIsNoWarning(t *testing.T) {
	var said []string
	w := warnings(func(s string) { said = append(said, s) })
	w.Warningf("%s might be too small. Metrics: %s\n", "Block cache", "hit: 4964 miss: 16257")
	w.Warningf("Cache life expectancy (in seconds): %+v\n", "50p: 2.00")
	w.Warningf("While forcing compaction on level %d: %v\n", 0, "no room")
	require.Equal(t, []string{"While forcing compaction on level 0: no room"}, said)
}

// A store is its owner's alone, with the folders above it that there were not, and leaves room on the disk.
func TestANewStore(t *testing.T) {
	above := filepath.Join(t.TempDir(), "a")
	dir := filepath.Join(above, "b")
	s, err := Open(dir, Kind{Magic: "sluice-test", Version: 1, Oldest: 1}, Options{})
	require.NoError(t, err)
	require.EqualValues(t, DefaultReserve, s.Reserve.Load())
	for path, want := range map[string]fs.FileMode{above: 0o700, dir: 0o700, filepath.Join(dir, formatName): 0o600, filepath.Join(dir, lastName): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), path)
	}
	require.NoError(t, s.Close())
}

// What the machine lacks is no damage: nobody is to throw a store away for it.
func TestWhatTheMachineLacksIsNoDamage(t *testing.T) {
	s := &Store{dir: "d", kind: Kind{Remedy: "give up"}}
	err := s.openError(fmt.Errorf("read a table: %w", syscall.EIO))
	require.NotErrorIs(t, err, ErrDamaged)
	require.EqualError(t, err, "open the store in d: read a table: input/output error")
	err = s.openError(fmt.Errorf("nobody knows"))
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, "(in d: give up)")
}
