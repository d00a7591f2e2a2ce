package journal

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

func labelled(seq uint64) cluster.Record {
	labels := []cluster.KeyValue{{Key: "seq", Value: fmt.Sprint(seq)}}
	return cluster.Record{Seq: seq, Event: &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Labels: labels}}}
}

// filled makes a store with some batches, and closes it.
func filled(t *testing.T, batches int) string {
	dir := filepath.Join(t.TempDir(), "new", "state")
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	for i := range uint64(batches) {
		require.NoError(t, j.Append([]cluster.Record{labelled(2*i + 1), labelled(2*i + 2)}))
	}
	require.NoError(t, j.Close())
	return dir
}

// tamper changes what Badger holds.
func tamper(t *testing.T, dir string, change func(txn *badger.Txn) error) {
	s, err := store.Open(dir, kind, store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Update(change))
	require.NoError(t, s.Close())
}

func files(t *testing.T, dir string) map[string]string {
	content := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		content[e.Name()] = string(data)
	}
	return content
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, dir string)
		want error
		text string
	}{
		"newer format": {
			func(t *testing.T, dir string) { write(t, dir, "FORMAT", "sluice-journal 4\n") },
			store.ErrNewer, "has format 4, this version reads up to 3",
		},
		"unreleased format": {
			func(t *testing.T, dir string) { write(t, dir, "FORMAT", "sluice-journal 1\n") },
			store.ErrNotStore, "has format 1 of an unreleased version, this one reads 2 to 3; begin with a new folder",
		},
		"other format": {
			func(t *testing.T, dir string) { write(t, dir, "FORMAT", "something else\n") },
			store.ErrNotStore, `FORMAT says "something else\n"; in a store of this version it has the line "sluice-journal 3": write that into it`,
		},
		"other files": {
			func(t *testing.T, dir string) { write(t, dir, "thesis.tex", "\\begin") },
			store.ErrNotStore, "holds other files, such as thesis.tex; name an empty or a new folder",
		},
		"other files and an empty FORMAT": {
			func(t *testing.T, dir string) { write(t, dir, "FORMAT", ""); write(t, dir, "a", "") },
			store.ErrNotStore, "holds other files, such as a",
		},
		"a store whose FORMAT is empty": {
			func(t *testing.T, dir string) { write(t, dir, "FORMAT", ""); write(t, dir, "LAST", "1") },
			store.ErrDamaged, `FORMAT, is missing or empty; in a store of this version it has the line "sluice-journal 3": write that into it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test.make(t, dir)
			before := files(t, dir)
			_, err := Open(dir, store.Options{})
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			require.ErrorContains(t, err, dir)
			require.Equal(t, before, files(t, dir), "the folder is as it was")
		})
	}
	t.Run("a file", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "file", "")
		_, err := Open(filepath.Join(dir, "file"), store.Options{})
		require.ErrorContains(t, err, "not a directory")
	})
}

// The store in testdata was written by the last version with format 2: a checkpoint, and records after it.
func TestUpgradeInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	unpack(t, filepath.Join("testdata", "format2.tar.gz"), dir)
	require.Equal(t, "sluice-journal 2\n", files(t, dir)["FORMAT"])
	for seq := uint64(6); seq < 8; seq++ { // again after the upgrade
		j, err := Open(dir, store.Options{})
		require.NoError(t, err)
		require.Equal(t, "sluice-journal 3\n", files(t, dir)["FORMAT"])
		s, err := Load(j)
		require.NoError(t, err)
		require.Equal(t, "0123456789abcdef0123456789abcdef", s.ClusterID())
		require.Equal(t, seq, s.Seq())
		require.Equal(t, "ann", s.JobByName("first").Spec.Owner)
		require.Equal(t, cluster.JobUID(1), s.Receipt(cluster.RequestKey{User: "ann", Key: "k"}, 0).Jobs[0].UID)
		require.Equal(t, uint32(2), s.JobByName("second").Spec.Instances)
		require.Equal(t, cluster.HostID("s/h"), s.Task(cluster.MakeTaskKey(1, 0)).Host)
		require.NoError(t, j.Append([]cluster.Record{{Seq: seq + 1, Event: &cluster.ModeSet{Mode: cluster.Mode{ReadOnly: true}}}}))
		require.NoError(t, j.Close())
	}
}

// unpack makes a folder of an archive.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	for in := tar.NewReader(zip); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(in)
		require.NoError(t, err)
		write(t, dir, filepath.Base(header.Name), string(content))
	}
}

func write(t *testing.T, dir, name, content string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func TestOpenAfterACrashAtCreation(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "FORMAT", "")
	for range 2 {
		j, err := Open(dir, store.Options{})
		require.NoError(t, err)
		require.NoError(t, j.Close())
	}
}

// Badger creates its files before it gives them a size; every one may be found empty after a crash in between.
func TestOpenAfterACrashBetweenCreationAndSize(t *testing.T) {
	for _, name := range []string{"00000.mem", "00099.mem", "000099.vlog", "000099.sst", "DISCARD", "MANIFEST-REWRITE", "KEYREGISTRY-REWRITE"} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 3)
			write(t, dir, name, "")
			j, err := Open(dir, store.Options{})
			require.NoError(t, err)
			var last uint64
			require.NoError(t, j.Replay(func(r cluster.Record) error { last = r.Seq; return nil }))
			require.EqualValues(t, 6, last)
			require.NoError(t, j.Append([]cluster.Record{labelled(7)}))
			require.NoError(t, j.Close())
		})
	}
}

func TestLocked(t *testing.T) {
	dir := filled(t, 1)
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	_, err = Open(dir, store.Options{})
	require.ErrorIs(t, err, store.ErrLocked)
	require.ErrorContains(t, err, dir)
	require.NoError(t, j.Append([]cluster.Record{labelled(3)}), "the first one is not disturbed")
	require.NoError(t, j.Close())
	j, err = Open(dir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// TestLockedByATool: a tool for Badger stores knows nothing of our lock.
func TestLockedByATool(t *testing.T) {
	dir := filled(t, 1)
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	require.NoError(t, err)
	_, err = Open(dir, store.Options{})
	require.ErrorIs(t, err, store.ErrLocked)
	require.NoError(t, db.Close())
}

func TestDamage(t *testing.T) {
	second := blobID{kind: batchBlob, seq: 3}
	head := blobID{kind: headBlob}
	base := blobID{kind: baseBlob, seq: 4}
	set := func(id blobID, blob []byte) func(*badger.Txn) error {
		return func(txn *badger.Txn) error { return txn.Set(id.key(0), chunkValue(id, 0, blob)) }
	}
	for name, test := range map[string]struct {
		change func(txn *badger.Txn) error
		want   error
		text   string
	}{
		"flipped bit": {func(txn *badger.Txn) error {
			item, err := txn.Get(second.key(0))
			if err != nil {
				return err
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			value[len(value)-3] ^= 4
			return txn.SetEntry(badger.NewEntry(second.key(0), value))
		}, store.ErrDamaged, "the batch from record 3 on: chunk 0 has a wrong checksum"},
		"value at another key": {func(txn *badger.Txn) error {
			return txn.Set(second.key(0), chunkValue(blobID{kind: batchBlob, seq: 1}, 0, []byte("x")))
		}, store.ErrDamaged, "wrong checksum"},
		"short value": {
			func(txn *badger.Txn) error { return txn.Set(second.key(0), []byte{1, 2}) },
			store.ErrDamaged, "wrong checksum",
		},
		"lost batch": {
			func(txn *badger.Txn) error { return txn.Delete(second.key(0)) },
			store.ErrDamaged, "record 3 is missing, 5 is the next one there is",
		},
		"lost chunk": {func(txn *badger.Txn) error {
			return txn.Set(second.key(0), chunkValue(second, 0, make([]byte, 2*chunkSize)))
		}, store.ErrDamaged, "the batch from record 3 on: chunk 1 is missing"},
		"no records": {set(second, []byte{3, 0}), store.ErrDamaged, "a batch without a header"},
		"nothing":    {set(second, nil), store.ErrDamaged, "a batch without a header"},
		"lost base": {
			set(head, []byte{0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 2}),
			store.ErrDamaged, "part 0 of the checkpoint at 4 is missing",
		},
		"base of something else": {func(txn *badger.Txn) error {
			blob, err := encodeBatch([]cluster.Record{labelled(4)})
			if err != nil {
				return err
			}
			if err := set(base, blob)(txn); err != nil {
				return err
			}
			return set(head, []byte{0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1})(txn)
		}, store.ErrDamaged, "record 4, *cluster.PoolPut, in the checkpoint at 4"},
		"short head": {set(head, []byte{1}), store.ErrDamaged, "the pointer to the checkpoint has 1 bytes"},
		"newer event": {
			set(second, append([]byte{3, 1, 0, 25, 255, 255}, 0xa0)),
			store.ErrNewer, "record 3: the store was written by a newer version: it holds events of kind 65535",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 3)
			tamper(t, dir, test.change)
			j, err := Open(dir, store.Options{})
			if err == nil {
				_, err = Load(j)
				require.NoError(t, j.Close())
			}
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			require.ErrorContains(t, err, dir)
			if test.want == store.ErrDamaged {
				require.ErrorContains(t, err, "from a snapshot: sluice cluster restore")
			}
		})
	}
	t.Run("manifest", func(t *testing.T) {
		dir := filled(t, 3)
		write(t, dir, "MANIFEST", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
		_, err := Open(dir, store.Options{})
		require.ErrorIs(t, err, store.ErrDamaged)
		require.ErrorContains(t, err, dir)
	})
}

// TestDamagedTable: a table that was cut off anywhere, whose end is nothing but zeros, or of which a bit is another, is damage and no
// panic of Badger's.
func TestDamagedTable(t *testing.T) {
	dir := filled(t, 40)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	whole, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	for i := range 24 {
		left := len(whole) * i / 24
		for _, content := range []string{string(whole[:left]), string(whole[:left]) + strings.Repeat("\x00", len(whole)-left)} {
			write(t, dir, filepath.Base(tables[0]), content)
			_, err := Open(dir, store.Options{})
			require.ErrorIs(t, err, store.ErrDamaged, "%d of %d bytes are left", left, len(whole))
			require.ErrorContains(t, err, "from a snapshot: sluice cluster restore")
		}
	}
	for at := 0; at < len(whole); at += max(1, len(whole)/150) {
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		write(t, dir, filepath.Base(tables[0]), string(flipped))
		_, err := Open(dir, store.Options{})
		require.ErrorIs(t, err, store.ErrDamaged, "byte %d of %d", at, len(whole))
	}
	write(t, dir, filepath.Base(tables[0]), string(whole))
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// TestDamagedLog: Badger takes damage in the middle of the log that it had not yet made tables of for a torn end, and drops what
// comes after; a store whose last records have gone is refused, and one from before the file LAST is not.
func TestDamagedLog(t *testing.T) {
	killed := func(t *testing.T) string { // as a process that was killed leaves it
		dir := t.TempDir()
		j, err := Open(dir, store.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		for i := range uint64(3) {
			require.NoError(t, j.Append([]cluster.Record{labelled(2*i + 1), labelled(2*i + 2)}))
		}
		left := t.TempDir()
		for name, content := range files(t, dir) {
			write(t, left, name, content)
		}
		return left
	}
	log := func(t *testing.T, dir string) (name, content string) {
		logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
		require.NoError(t, err)
		require.Len(t, logs, 1)
		name = filepath.Base(logs[0])
		return name, files(t, dir)[name]
	}
	second := string(blobID{kind: batchBlob, seq: 3}.prefix())
	for name, damage := range map[string]func(t *testing.T, dir string){
		"flipped bit": func(t *testing.T, dir string) {
			name, content := log(t, dir)
			at := strings.Index(content, second)
			write(t, dir, name, content[:at+40]+string(content[at+40]^4)+content[at+41:])
		},
		"cut off": func(t *testing.T, dir string) {
			name, content := log(t, dir)
			write(t, dir, name, content[:strings.Index(content, second)])
		},
		"removed": func(t *testing.T, dir string) {
			name, _ := log(t, dir)
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t)
			damage(t, dir)
			for range 2 {
				_, err := Open(dir, store.Options{})
				require.ErrorIs(t, err, store.ErrDamaged)
				require.ErrorContains(t, err, "and record 6 was durable")
				require.ErrorContains(t, err, "from a snapshot: sluice cluster restore")
			}
		})
	}
	for name, content := range map[string]string{
		"none": "", "older": "00000000000000000002\n", "of a power failure": "\x00\x00\x00", "flipped bit": "00000000000000000016" + strings.TrimPrefix(files(t, killed(t))["LAST"], "00000000000000000006"),
	} {
		t.Run("number: "+name, func(t *testing.T) {
			dir := killed(t)
			write(t, dir, "LAST", content)
			j, err := Open(dir, store.Options{})
			require.NoError(t, err)
			state, err := Load(j)
			require.NoError(t, err)
			require.EqualValues(t, 6, state.Seq())
			require.NoError(t, j.Close())
		})
	}
}

// TestTornBatch: a batch whose last chunk did not get to the disk was never acknowledged, and goes.
func TestTornBatch(t *testing.T) {
	dir := filled(t, 2)
	long := make([]byte, 3*chunkSize)
	id := blobID{kind: batchBlob, seq: 5}
	tamper(t, dir, func(txn *badger.Txn) error { return txn.Set(id.key(0), chunkValue(id, 0, long)) })
	tamper(t, dir, func(txn *badger.Txn) error { return txn.Set(id.key(1), chunkValue(id, 1, long)) })
	for range 2 {
		j, err := Open(dir, store.Options{})
		require.NoError(t, err)
		var got []cluster.Record
		require.NoError(t, j.Replay(func(r cluster.Record) error { got = append(got, r); return nil }))
		require.Equal(t, []cluster.Record{labelled(1), labelled(2), labelled(3), labelled(4)}, got)
		require.NoError(t, j.Close())
	}
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Append([]cluster.Record{labelled(5)}))
	require.NoError(t, j.Close())
	j, err = Open(dir, store.Options{})
	require.NoError(t, err)
	require.ErrorIs(t, j.Append([]cluster.Record{labelled(5)}), ErrSequence)
	require.NoError(t, j.Close())
}

// TestTornDrop: a crash while a checkpoint removes what it replaced leaves parts of long batches, which nobody needs.
func TestTornDrop(t *testing.T) {
	dir := filled(t, 3)
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	state, err := Load(j)
	require.NoError(t, err)
	snapshot, _ := state.Snapshot()
	require.NoError(t, j.Checkpoint(t.Context(), snapshot))
	require.NoError(t, j.Append([]cluster.Record{labelled(7)}))
	require.NoError(t, j.Close())
	long := make([]byte, 3*chunkSize)
	id := blobID{kind: batchBlob, seq: 1}
	tamper(t, dir, func(txn *badger.Txn) error { return txn.Set(id.key(2), chunkValue(id, 2, long)) })

	j, err = Open(dir, store.Options{})
	require.NoError(t, err)
	state, err = Load(j)
	require.NoError(t, err)
	require.Equal(t, uint64(7), state.Seq())
	snapshot, _ = state.Snapshot()
	require.NoError(t, j.Checkpoint(t.Context(), snapshot))
	require.NoError(t, j.Close())
}

// TestFailedWrite: after a write that may or may not be durable nothing more is accepted.
func TestFailedWrite(t *testing.T) {
	j, err := Open(t.TempDir(), store.Options{})
	require.NoError(t, err)
	require.NoError(t, j.(*onDisk).store.DB.Close()) // as good as a disk that went away
	require.Error(t, j.Append([]cluster.Record{labelled(1)}))
	require.ErrorIs(t, j.Append([]cluster.Record{labelled(1)}), ErrFailed)
	snapshot, _ := cluster.NewState().Snapshot()
	require.ErrorIs(t, j.Checkpoint(t.Context(), snapshot), ErrFailed)
	require.NoError(t, j.Close())
}

// TestBounded: what checkpoints replace is given back.
func TestBounded(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	s := cluster.NewState()
	for seq := uint64(1); seq <= 400; {
		batch := make([]cluster.Record, 4)
		for i := range batch {
			labels := make([]cluster.KeyValue, 500)
			for l := range labels { // hardly compressible
				labels[l] = cluster.KeyValue{Key: string(rune('a' + l%26)), Value: string(rune(0x4e00 + (int(seq)*7919+l*104729)%20000))}
			}
			batch[i] = cluster.Record{Seq: seq, Event: &cluster.PoolPut{Pool: cluster.Pool{Path: "root", Labels: labels}}}
			require.NoError(t, s.Apply(batch[i]))
			seq++
		}
		require.NoError(t, j.Append(batch))
		snapshot, _ := s.Snapshot()
		require.NoError(t, j.Checkpoint(t.Context(), snapshot))
	}
	keys := 0
	require.NoError(t, j.(*onDisk).store.View(func(txn *badger.Txn) error {
		return scanIDs(txn, nil, func(blobID, uint32) error { keys++; return nil })
	}))
	require.Less(t, keys, 10, "one checkpoint, one batch, one pointer")
	require.NoError(t, j.Close())
}

// What the machine lacks is no damage: nobody is to throw a store away for it.
func TestWhatTheMachineLacksIsNoDamage(t *testing.T) {
	dir := filled(t, 3)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 1 << 20 // less than a memory table
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	_, err := Open(dir, store.Options{})
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.ErrorContains(t, err, syscall.EFBIG.Error())
	require.NotErrorIs(t, err, store.ErrDamaged)

	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// A disk that is nearly full is found out before Badger writes to it, which would be the end of the process: what does not find
// room is refused and nothing of it is there, and what is there stays readable once there is room again. Nor does Close write.
func TestNearlyFullDisk(t *testing.T) {
	dir := filled(t, 3)
	_, err := Open(dir, store.Options{Reserve: math.MaxUint64})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, dir)
	require.NotErrorIs(t, err, store.ErrDamaged)

	j, err := Open(dir, store.Options{})
	require.NoError(t, err)
	state, err := Load(j)
	require.NoError(t, err)
	next := []cluster.Record{{Seq: state.Seq() + 1, Event: &cluster.ModeSet{}}}
	j.(*onDisk).store.Reserve.Store(math.MaxUint64)
	require.ErrorIs(t, j.Append(next), syscall.ENOSPC)
	snapshot, _ := state.Snapshot()
	require.ErrorIs(t, j.Checkpoint(t.Context(), snapshot), syscall.ENOSPC)
	j.(*onDisk).store.Reserve.Store(store.DefaultReserve)
	again, err := Load(j)
	require.NoError(t, err)
	require.Equal(t, state.Seq(), again.Seq())
	require.NoError(t, j.Append(next))
	require.NoError(t, j.Checkpoint(t.Context(), snapshot))

	j.(*onDisk).store.Reserve.Store(math.MaxUint64)
	require.NoError(t, j.Close())
	require.False(t, j.(*onDisk).store.IsClosed(), "it would write")
	require.NoError(t, j.(*onDisk).store.DB.Close())
}

// Close ends also where nothing can be written any more, as on a disk that has become read-only or fails, or when the process is out of
// files, and what was durable is there afterwards.
func TestCloseWhereNothingCanBeWritten(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	for name, c := range map[string]struct {
		resource int
		limit    uint64
		before   int  // how many records are appended before
		append   bool // and then until it fails
	}{
		"no file can be created":               {syscall.RLIMIT_NOFILE, 0, 1, false},
		"no table can be written":              {syscall.RLIMIT_FSIZE, 1 << 20, 7, false},
		"no memory table, and an append fails": {syscall.RLIMIT_FSIZE, 1 << 20, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j, err := Open(dir, store.Options{})
			require.NoError(t, err)
			durable, random := uint64(0), rand.NewChaCha8([32]byte{})
			appends := func() error {
				noise := make([]byte, 150<<10)
				_, _ = random.Read(noise)
				r := labelled(durable + 1)
				r.Event.(*cluster.PoolPut).Pool.Labels[0].Value = base64.StdEncoding.EncodeToString(noise)
				err := j.Append([]cluster.Record{r})
				if err == nil {
					durable++
				}
				return err
			}
			for range c.before {
				require.NoError(t, appends())
			}
			var limit syscall.Rlimit
			require.NoError(t, syscall.Getrlimit(c.resource, &limit))
			none := limit
			none.Cur = c.limit
			require.NoError(t, syscall.Setrlimit(c.resource, &none))
			var failed error
			for c.append && failed == nil && durable < 100 {
				failed = appends()
			}
			closed := make(chan error, 1)
			go func() { closed <- j.Close() }()
			select {
			case err = <-closed:
			case <-time.After(20 * time.Second):
				err = errors.New("it goes on and on")
			}
			require.NoError(t, syscall.Setrlimit(c.resource, &limit))
			require.NoError(t, err)
			if c.append {
				require.ErrorContains(t, failed, "start again when its disk can be written")
			}
			require.NoError(t, j.(*onDisk).store.DB.Close()) // for its lock, which otherwise ends with the process

			j, err = Open(dir, store.Options{})
			require.NoError(t, err)
			state, err := Load(j)
			require.NoError(t, err)
			require.Equal(t, durable, state.Seq())
			require.NoError(t, j.Close())
		})
	}
}
