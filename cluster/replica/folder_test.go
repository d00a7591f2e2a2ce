package replica

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// alone makes a folder of a group of one with some records, as kill -9 leaves it, or as a member does that was stopped in order.
func alone(t *testing.T, records int, killed bool) (g *group, dir string) {
	g = newGroup(t, 1)
	g.every, g.election = 20, 50*time.Millisecond
	g.startWith(0, patient)
	_, term := g.lead()
	_, err := write(term, records)
	require.NoError(t, err)
	require.NoError(t, g.live[0].raft.Shutdown().Error()) // nothing is written from now on
	if !killed {
		g.stop(0)
	}
	dir = filepath.Join(t.TempDir(), "replica")
	require.NoError(t, os.CopyFS(dir, os.DirFS(g.dirs[0])))
	g.stop(0)
	return g, dir
}

// known changes a copy of the folder, and returns what a member comes to with that: the number of records that it knows, or an error.
func known(t *testing.T, g *group, dir string, change func(dir string)) (seq uint64, err error) {
	g.dirs[0] = filepath.Join(t.TempDir(), "replica")
	require.NoError(t, os.CopyFS(g.dirs[0], os.DirFS(dir)))
	change(g.dirs[0])
	m, _, err := g.open(0)
	if err != nil {
		return 0, err
	}
	patient(&running{Member: m})
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

// filesOf returns the files of a folder that a pattern of their paths is for.
func filesOf(t *testing.T, dir, pattern string) []string {
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	return paths
}

func changeFile(t *testing.T, path string, change func([]byte) []byte) {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, change(b), 0o600))
}

// Whatever is missing in a member's folder, it says so.
func TestMissingInAFolder(t *testing.T) {
	t.Parallel()
	removed := func(pattern string) func(dir string) {
		return func(dir string) {
			for _, path := range filesOf(t, dir, pattern) {
				require.NoError(t, os.RemoveAll(path))
			}
		}
	}
	cut := func(pattern string, left int) func(dir string) {
		return func(dir string) {
			for _, path := range filesOf(t, dir, pattern) {
				changeFile(t, path, func(b []byte) []byte { return b[:len(b)*left/100] })
			}
		}
	}
	g, dir := alone(t, 60, true)
	for name, f := range map[string]func(dir string){
		"no log":                            removed("*.mem"),
		"no list of tables":                 func(dir string) { removed("*.mem")(dir); removed("MANIFEST")(dir) },
		"log that is cut":                   cut("*.mem", 0),
		"no snapshots":                      removed("snapshots"),
		"no state in a snapshot":            cut("snapshots/*/state.bin", 50),
		"a description that cannot be read": cut("snapshots/*/meta.json", 50),
		"neither log nor how long it was":   func(dir string) { removed("*.mem")(dir); removed("LAST")(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := known(t, g, dir, f)
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorContains(t, err, "gets all from the others")
		})
	}
}

// Whatever bit is wrong in a member's files, it says so, or knows all that it knew. Of the descriptions of snapshots, who the members are is
// not checked: raft keeps no checksum of it.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	const records = 60
	killed, left := alone(t, records, true)
	stopped, ended := alone(t, records, false)
	for seed := range uint64(60) {
		g, dir := killed, left
		if seed%2 == 0 {
			g, dir = stopped, ended
		}
		random := rand.New(rand.NewPCG(seed, 1))
		where := ""
		seq, err := known(t, g, dir, func(dir string) {
			var paths []string
			require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if !d.IsDir() && d.Name() != "LOCK" && d.Name() != "meta.json" {
					paths = append(paths, path)
				}
				return err
			}))
			path := paths[random.IntN(len(paths))]
			changeFile(t, path, func(b []byte) []byte {
				used := bytes.TrimRight(b, "\x00")
				if len(used) > 0 {
					at := random.IntN(len(used))
					where = fmt.Sprintf("%s, byte %d", path, at)
					b[at] ^= 1 << random.IntN(8)
				}
				return b
			})
		})
		if err == nil {
			require.EqualValues(t, records, seq, "seed %d: %s", seed, where)
			continue
		}
		if !errors.Is(err, store.ErrNotStore) && !errors.Is(err, store.ErrNewer) {
			require.ErrorIs(t, err, store.ErrDamaged, "seed %d: %s", seed, where)
		}
	}
}

// The log keeps what it is given, as raft's own in memory does, also after it was closed and opened again.
func TestEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "entries")
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(dir)) }()
		fail := func(err error) { t.Fatal(err) }
		open := func() (*store.Store, *entries) {
			s, err := store.Open(dir, kind, store.Options{})
			require.NoError(t, err)
			e, err := openEntries(s, fail, fail)
			require.NoError(t, err)
			return s, e
		}
		s, e := open()
		model := raft.NewInmemStore()
		require.NoError(t, e.SetUint64(termKey, 9))
		next, term := uint64(1), uint64(1)
		compare := func(t *rapid.T) {
			first, err := e.FirstIndex()
			require.NoError(t, err)
			wantFirst, _ := model.FirstIndex()
			last, err := e.LastIndex()
			require.NoError(t, err)
			wantLast, _ := model.LastIndex()
			require.Equal(t, [2]uint64{wantFirst, wantLast}, [2]uint64{first, last})
			for i := wantFirst; i <= wantLast+1; i++ {
				var want, got raft.Log
				wantErr, err := model.GetLog(i, &want), e.GetLog(i, &got)
				require.Equal(t, wantErr, err)
				require.True(t, want.AppendedAt.Equal(got.AppendedAt))
				want.AppendedAt, got.AppendedAt = time.Time{}, time.Time{}
				require.Equal(t, want, got)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": compare,
			"append": func(t *rapid.T) {
				var logs []*raft.Log
				for range rapid.IntRange(1, 70).Draw(t, "entries") {
					l := &raft.Log{Index: next, Term: term, Type: raft.LogCommand, Data: entry{kind: leaderEntry, term: 1, pieces: 1, payload: make([]byte, rapid.IntRange(0, 300).Draw(t, "bytes"))}.encode()}
					if rapid.Bool().Draw(t, "more of it") {
						l.AppendedAt, l.Extensions = time.Unix(int64(next), 5), []byte{1, byte(next)}
					} else {
						l.Extensions = []byte{}
					}
					logs = append(logs, l)
					next++
				}
				require.NoError(t, e.StoreLogs(logs))
				require.NoError(t, model.StoreLogs(logs))
			},
			"a long piece": func(t *rapid.T) {
				l := &raft.Log{Index: next, Term: term, Type: raft.LogCommand, Data: pieces(1, make([]byte, pieceSize))[0].encode(), Extensions: []byte{}}
				next++
				require.NoError(t, e.StoreLog(l))
				require.NoError(t, model.StoreLog(l))
			},
			"remove": func(t *rapid.T) {
				first, _ := model.FirstIndex()
				last, _ := model.LastIndex()
				if last == 0 {
					t.Skip("there is nothing")
				}
				from, to := first, last
				if rapid.Bool().Draw(t, "the last") {
					from = rapid.Uint64Range(first, last).Draw(t, "from")
					next, term = from, min(term+1, 9)
				} else if to = rapid.Uint64Range(first, last).Draw(t, "to"); to == last {
					next += rapid.Uint64Range(0, 3).Draw(t, "a snapshot of later on")
				}
				require.NoError(t, e.DeleteRange(from, to))
				require.NoError(t, model.DeleteRange(from, to))
				if first > to || from > last || from == first && to == last {
					model = raft.NewInmemStore() // its first and last are wrong when nothing is left
				}
			},
			"keep": func(t *rapid.T) {
				key, value := []byte(rapid.SampledFrom([]string{"LastVoteTerm", "LastVoteCand"}).Draw(t, "key")), rapid.Uint64().Draw(t, "value")
				_, err := e.Get([]byte("nothing"))
				require.EqualError(t, err, "not found")
				require.NoError(t, e.SetUint64(key, value))
				got, err := e.GetUint64(key)
				require.NoError(t, err)
				require.Equal(t, value, got)
			},
		})
		require.NoError(t, s.Close())
		s, e = open()
		compare(t)
		now, err := e.GetUint64(termKey)
		require.NoError(t, err)
		require.EqualValues(t, 9, now)
		require.NoError(t, s.Close())
	})
}

// A member that was ended when it had a snapshot of its leader, and still the entries before, goes on with the snapshot: with those that are not
// in it, or not in the history at all, nothing can be done.
func TestEndedWithinASnapshotOfTheLeader(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2)
	g.every = 50
	g.start(0, 1)
	leader, term := g.lead()
	away := 1 - leader
	_, err := write(term, 20)
	require.NoError(t, err)
	g.agree(term.State())
	for i := range g.live {
		g.stop(i)
	}
	aside := filepath.Join(t.TempDir(), "aside")
	require.NoError(t, os.Rename(g.dirs[away], aside))
	g.start(0, 1)
	_, term = g.lead()
	_, err = write(term, 200)
	require.NoError(t, err)
	g.agree(term.State())
	require.Eventually(t, func() bool {
		images, err := g.live[leader].folder.snapshots.List()
		return err == nil && len(images) > 0 && images[0].Index > 100
	}, patience, 10*time.Millisecond)
	for i := range g.live {
		g.stop(i)
	}
	require.NoError(t, os.RemoveAll(g.dirs[away]))
	require.NoError(t, os.Rename(aside, g.dirs[away]))
	require.NoError(t, os.CopyFS(filepath.Join(g.dirs[away], "snapshots"), os.DirFS(filepath.Join(g.dirs[leader], "snapshots"))))
	g.start(0, 1)
	_, again := g.lead()
	require.Equal(t, form(t, term.State()), form(t, again.State()))
	_, err = write(again, 5)
	require.NoError(t, err)
	g.agree(again.State())
}

// A member whose newest snapshot cannot be read does not go on with the one before, as if it had never had more.
func TestTheNewestSnapshotCannotBeRead(t *testing.T) {
	t.Parallel()
	g, dir := alone(t, 60, true)
	newest := func(dir string) string {
		images, err := raft.NewFileSnapshotStore(dir, keptImages, io.Discard)
		require.NoError(t, err)
		found, err := images.List()
		require.NoError(t, err)
		require.Len(t, found, 2)
		return filepath.Join(dir, "snapshots", found[0].ID)
	}
	_, err := known(t, g, dir, func(dir string) {
		changeFile(t, filepath.Join(newest(dir), "state.bin"), func(b []byte) []byte { return b[:len(b)/2] })
	})
	require.ErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, "the newest of the snapshots")
	require.ErrorContains(t, err, "gets all from the others")

	_, err = known(t, g, dir, func(dir string) {
		changeFile(t, filepath.Join(newest(dir), "meta.json"), func(b []byte) []byte { return b[:len(b)/2] })
	})
	require.ErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, "not all of the 2 snapshots")

	_, err = known(t, g, dir, func(dir string) {
		state := filepath.Join(newest(dir), "state.bin")
		require.NoError(t, os.Remove(state))
		require.NoError(t, os.Symlink(state, state))
	})
	require.ErrorIs(t, err, syscall.ELOOP)
	require.NotErrorIs(t, err, store.ErrDamaged, "what the machine does not give is no damage")

	_, err = known(t, g, dir, func(dir string) {
		state := filepath.Join(newest(dir), "state.bin")
		changeFile(t, state, func(b []byte) []byte { return append([]byte{formatVersion + 1}, b[1:]...) })
		b, err := os.ReadFile(state)
		require.NoError(t, err)
		sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc64.Checksum(b, crc64.MakeTable(crc64.ECMA))))
		changeFile(t, filepath.Join(newest(dir), "meta.json"), func(b []byte) []byte {
			return regexp.MustCompile(`"CRC":"[^"]*"`).ReplaceAll(b, []byte(`"CRC":"`+sum+`"`))
		})
	})
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, "of a newer version, which this one has to be, too")
	require.NotContains(t, err.Error(), "gets all from the others", "it would get the same again")

	g.dirs[0] = dir
	m, _, err := g.open(0)
	require.NoError(t, err)
	seen, err := m.folder.snapshots.List()
	require.NoError(t, err)
	require.Len(t, seen, 1, "raft would take the other one")
	require.NoError(t, m.Close())
}

// What a crash leaves of a snapshot that was being written takes no room for ever.
func TestEndedWithinASnapshot(t *testing.T) {
	t.Parallel()
	g, dir := alone(t, 30, true)
	_, err := known(t, g, dir, func(dir string) {
		unfinished := filepath.Join(dir, "snapshots", "2-9-1000.tmp")
		require.NoError(t, os.Mkdir(unfinished, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(unfinished, "state.bin"), make([]byte, 1000), 0o600))
	})
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(g.dirs[0], "snapshots", "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Entries go on with a snapshot if they have the entry that it is as of; else they are no part of the history.
func TestEntriesThatFollowASnapshot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		index, term uint64
		left        [2]uint64
	}{
		"within":                           {6, 2, [2]uint64{5, 8}},
		"with the end":                     {8, 2, [2]uint64{5, 8}},
		"before":                           {4, 1, [2]uint64{5, 8}},
		"later":                            {9, 2, [2]uint64{}},
		"of a history that is another one": {7, 3, [2]uint64{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.TempDir(), kind, store.Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			e, err := openEntries(s, nil, nil)
			require.NoError(t, err)
			require.NoError(t, e.SetUint64(termKey, 3))
			for i := uint64(5); i <= 8; i++ {
				require.NoError(t, e.StoreLog(&raft.Log{Index: i, Term: 2, Type: raft.LogNoop}))
			}
			require.NoError(t, e.follow(c.index, c.term))
			require.Equal(t, c.left, [2]uint64{e.first, e.last})
		})
	}
}

// What would leave a gap is refused, and one that is there is damage.
func TestGapsInTheLog(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.TempDir(), kind, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var failed, stopped error
	e, err := openEntries(s, func(err error) { failed = err }, func(err error) { stopped = err })
	require.NoError(t, err)
	require.NoError(t, e.SetUint64(termKey, 1))
	noop := func(index uint64) *raft.Log { return &raft.Log{Index: index, Term: 1, Type: raft.LogNoop} }
	require.NoError(t, e.StoreLogs([]*raft.Log{noop(5), noop(6), noop(7), noop(8)}))
	require.ErrorContains(t, e.StoreLog(noop(10)), "entry 10 cannot follow entry 8")
	require.Error(t, failed)
	require.ErrorContains(t, e.DeleteRange(6, 7), "in the middle")
	require.NoError(t, s.Update(func(txn *badger.Txn) error { return txn.Delete(logKey(6)) }))
	_, err = openEntries(s, nil, nil)
	require.ErrorIs(t, err, store.ErrDamaged)
	require.ErrorContains(t, err, "entry 7 follows entry 5")
	require.NoError(t, stopped)
	s.Reserve.Store(math.MaxUint64)
	require.ErrorIs(t, e.Set([]byte("LastVoteCand"), []byte("n1")), syscall.ENOSPC)
	require.ErrorIs(t, stopped, syscall.ENOSPC, "raft ends the process for it")
}
