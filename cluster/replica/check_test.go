package replica

import (
	"bytes"
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// damaged writes some records to a group of one, stops it, changes its folder, and returns what its member then comes to: the number of
// records that it knows, or an error.
func damaged(t *testing.T, records int, change func(dir string)) (seq uint64, err error) {
	g := newGroup(t, 1)
	g.every = 20
	g.start(0)
	_, term := g.lead()
	_, err = write(term, records)
	require.NoError(t, err)
	g.stop(0)
	change(g.dirs[0])
	m, _, err := g.open(0)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- m.Run(ctx)
		cancel()
	}()
	again, err := m.Lead(ctx)
	cancel()
	if failed := <-ended; failed != nil {
		err = failed
	}
	require.NoError(t, m.Close())
	if err != nil {
		return 0, err
	}
	return again.State().Seq(), nil
}

// Whatever is wrong in a member's files, it says so, or knows what it knew.
func TestDamagedFiles(t *testing.T) {
	const records = 60
	logOf := func(dir string) string { return filepath.Join(dir, logName) }
	change := func(path string, f func([]byte) []byte) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, f(b), 0o600))
	}
	snapshots := func(dir, name string) (paths []string) {
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, "snapshots"), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(path) == name {
				paths = append(paths, path)
			}
			return err
		}))
		require.NotEmpty(t, paths)
		return paths
	}
	for name, f := range map[string]func(dir string){
		"no log":      func(dir string) { require.NoError(t, os.Remove(logOf(dir))) },
		"log of zero": func(dir string) { change(logOf(dir), func(b []byte) []byte { return make([]byte, len(b)) }) },
		"log that is cut": func(dir string) {
			change(logOf(dir), func(b []byte) []byte { return b[:3*os.Getpagesize()] })
		},
		"no snapshots": func(dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, "snapshots"))) },
		"no state in a snapshot": func(dir string) {
			for _, path := range snapshots(dir, "state.bin") {
				change(path, func(b []byte) []byte { return b[:len(b)-1] })
			}
		},
		"a description that cannot be read": func(dir string) {
			change(snapshots(dir, "meta.json")[0], func(b []byte) []byte { return b[1:] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := damaged(t, records, f)
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		seq, err := damaged(t, records, func(dir string) {
			change(logOf(dir), func(b []byte) []byte {
				used := len(bytes.TrimRight(b, "\x00"))
				if seed%4 == 0 {
					return b[:random.IntN(used)]
				}
				at := random.IntN(used)
				for b[at] == 0 {
					at = random.IntN(used)
				}
				b[at] ^= 1 << random.IntN(8)
				return b
			})
		})
		if err == nil {
			// bbolt goes back by one sync where the last one seems not to have been finished.
			require.GreaterOrEqual(t, seq, uint64(records-1), "seed %d", seed)
			continue
		}
		require.ErrorIs(t, err, ErrDamaged, "seed %d", seed)
	}
}
