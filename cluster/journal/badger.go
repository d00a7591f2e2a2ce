package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Options of Open. The zero value is right for most.
type Options struct {
	// Reserve is how many bytes of the disk are left free: nothing is written when there are fewer; 0 is DefaultReserve.
	Reserve uint64
	// Warn gets what Badger warns of, such as a torn end of its log after a crash; nil drops it.
	Warn func(message string)
}

// DefaultReserve is more than Badger takes between two looks at how much is free: its memory tables, and the tables that a
// compaction writes anew. It maps its files into memory, and where the disk is full it is a signal that ends the process.
const DefaultReserve = 64 << 20

// onDisk is the journal in a folder.
//
// Values stay below Badger's threshold for its value log, so that everything lives in the LSM tree: compaction frees
// what checkpoints drop, and there is no value log to collect.
type onDisk struct {
	dir    string
	format *os.File // carries the lock
	db     *badger.DB

	lastFile *os.File // see lastName

	reserve uint64 // bytes of the disk that are left free

	inUse         sync.RWMutex // held for reading by Checkpoint and Replay, for writing by Close; before the others
	checkpointing sync.Mutex   // held by Checkpoint, before mu

	mu      sync.Mutex // guards what follows, and the order of Appends
	closed  bool
	failed  error  // what the first failed write failed with
	baseSeq uint64 // of the valid base, 0 = none
	last    uint64 // sequence number of the last durable record
}

var _ Journal = (*onDisk)(nil)

// Open opens the journal in a folder, and creates both if they are not there. It fails with ErrLocked, ErrNewer,
// ErrNotStore (in these cases the folder is as it was), ErrDamaged, or ENOSPC where the disk is nearly full. A store of the format before is upgraded in place. A record that Append was writing when the process
// died is there or not, but with its whole batch.
func Open(dir string, o Options) (Journal, error) {
	format, err := openFormat(dir)
	if err != nil {
		return nil, err
	}
	if o.Reserve == 0 {
		o.Reserve = DefaultReserve
	}
	if err := CheckFree(dir, o.Reserve); err != nil {
		return nil, errors.Join(err, format.Close())
	}
	if err := removeUnbegun(dir); err != nil {
		return nil, errors.Join(openError(dir, err), format.Close())
	}
	options := badgerOptions(dir, o)
	if err := checkTables(dir, options); err != nil {
		return nil, errors.Join(damaged(dir, err), format.Close())
	}
	lastFile, was, err := openLast(dir)
	if err != nil {
		return nil, errors.Join(err, format.Close())
	}
	j := &onDisk{dir: dir, format: format, lastFile: lastFile, reserve: o.Reserve}
	if j.db, err = badger.Open(options); err != nil {
		return nil, errors.Join(openError(dir, err), j.closeFiles())
	}
	if err = j.recover(); err == nil {
		err = j.checkLast(was)
	}
	if err != nil {
		err = damaged(dir, err)
	} else {
		err = upgradeFormat(format)
	}
	if err != nil {
		return nil, errors.Join(err, j.db.Close(), j.closeFiles())
	}
	return j, nil
}

// badgerOptions bounds what Badger keeps in memory and on disk to some ten megabytes besides the data. An Append that fills a
// memory table waits until the next one is there, zeroed and with its file: small ones make that short. They have to be so large
// that a chunk is less than 15 % of one.
func badgerOptions(dir string, o Options) badger.Options {
	opts := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one writer, no reads in writing transactions
		WithMetricsEnabled(false).
		WithMemTableSize(2 << 20).
		WithNumMemtables(8).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(32).
		WithNumCompactors(2).
		WithBlockCacheSize(8 << 20).
		WithValueThreshold(chunkSize + 1024).
		WithValueLogFileSize(1 << 20).
		WithLogger(nil)
	if o.Warn != nil {
		opts = opts.WithLogger(warnings(o.Warn))
	}
	return opts
}

// warnings passes on what Badger logs as a warning or an error, but for its advice.
type warnings func(string)

func (w warnings) Errorf(format string, args ...any) {
	w(strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (w warnings) Warningf(format string, args ...any) {
	if said := strings.TrimSpace(fmt.Sprintf(format, args...)); !advice.MatchString(said) {
		w(said)
	}
}

func (w warnings) Infof(string, ...any)  {}
func (w warnings) Debugf(string, ...any) {}

// advice is what Badger says of a cache that is seldom asked twice for the same block. What a journal holds is read once.
var advice = regexp.MustCompile(`^(Block|Index) cache might be too small|^Cache life expectancy`)

// CheckFree refuses to go on, with ENOSPC, when fewer bytes are free on the folder's disk than are to be left.
func CheckFree(dir string, reserve uint64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("journal: look how much is free in %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < reserve {
		return fmt.Errorf("journal: %w: %d MiB are free in %s, and the store needs %d to work with: make room and start again",
			syscall.ENOSPC, free>>20, dir, reserve>>20)
	}
	return nil
}

// checkCreate reports why no file can be created in the folder.
func checkCreate(dir string) error {
	f, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// removeUnbegun removes the memory tables and value logs that a crash left between their creation and their first byte.
// Badger gives them their size in a second step, and takes an empty one for damage.
func removeUnbegun(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".mem" && ext != ".vlog" {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Size() == 0 {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openError tells damage from what the machine lacks and from Badger's own lock, which only other tools take alone.
// Badger passes most causes on as text only.
func openError(dir string, err error) error {
	if strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return fmt.Errorf("%w: another process works in %s", ErrLocked, dir)
	}
	for _, lack := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.EFBIG, syscall.EIO,
	} {
		if strings.Contains(err.Error(), lack.Error()) {
			return fmt.Errorf("journal: open the store in %s: %w", dir, err)
		}
	}
	return damaged(dir, fmt.Errorf("%w: %w", ErrDamaged, err))
}

// damaged adds the folder, and to damage what can be done about it.
func damaged(dir string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w (in %s: move the folder away, and start anew or from a snapshot: sluice cluster restore)", err, dir)
	}
	return fmt.Errorf("%w (in %s)", err, dir)
}

// recover finds the base and the last record, and removes what a crash left of a batch that was never acknowledged.
func (j *onDisk) recover() error {
	last, complete, err := j.lastBatch()
	if err != nil {
		return err
	}
	if !complete {
		if err := j.drop(last.prefix(), func(blobID) bool { return true }); err != nil {
			return err
		}
		return j.recover()
	}
	return j.db.View(func(txn *badger.Txn) error {
		seq, _, err := readHead(txn)
		if err != nil {
			return err
		}
		j.baseSeq, j.last = seq, seq
		if last == (blobID{}) {
			return nil
		}
		blob, err := getBlob(txn, last)
		if err != nil {
			return err
		}
		end, err := batchEnd(blob)
		j.last = max(seq, end)
		return err
	})
}

// lastBatch returns the id of the newest batch and whether its last chunk is there; the zero id if there is no batch.
func (j *onDisk) lastBatch() (id blobID, complete bool, err error) {
	err = j.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Reverse: true})
		defer it.Close()
		it.Seek([]byte{byte(batchBlob) + 1})
		if !it.Valid() || it.Item().Key()[0] != byte(batchBlob) {
			complete = true
			return nil
		}
		return it.Item().Value(func(value []byte) error {
			var chunk uint32
			id, chunk = parseKey(it.Item().Key())
			total, _, err := parseChunk(it.Item().Key(), value)
			complete = chunk+1 == total
			return err
		})
	})
	return id, complete, err
}

// readHead returns the sequence number and the number of parts of the valid base, 0 and 0 if there is none.
func readHead(txn *badger.Txn) (seq uint64, parts uint32, err error) {
	head, err := getBlob(txn, blobID{kind: headBlob})
	switch {
	case err != nil || head == nil:
		return 0, 0, err
	case len(head) != 12:
		return 0, 0, fmt.Errorf("%w: %v has %d bytes", ErrDamaged, blobID{kind: headBlob}, len(head))
	}
	return binary.BigEndian.Uint64(head), binary.BigEndian.Uint32(head[8:]), nil
}

// usable returns why nothing can be written any more; the caller holds mu.
func (j *onDisk) usable() error {
	switch {
	case j.closed:
		return ErrClosed
	case j.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, j.failed)
	}
	return nil
}

func (j *onDisk) Append(records []cluster.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	if err := checkAppend(j.last, records); err != nil || len(records) == 0 {
		return err
	}
	blob, err := encodeBatch(records)
	if err != nil {
		return err
	}
	if err := CheckFree(j.dir, j.reserve); err != nil {
		return err
	}
	if err := putBlob(j.db, blobID{kind: batchBlob, seq: records[0].Seq}, blob); err != nil {
		j.failed = err
		return fmt.Errorf("journal: write to %s: %w", j.dir, err)
	}
	j.note(j.last + uint64(len(records)))
	return nil
}

func (j *onDisk) Checkpoint(ctx context.Context, snapshot *cluster.Snapshot) error {
	j.inUse.RLock()
	defer j.inUse.RUnlock()
	j.checkpointing.Lock()
	defer j.checkpointing.Unlock()
	j.mu.Lock()
	err, base, last := j.usable(), j.baseSeq, j.last
	j.mu.Unlock()
	if err != nil {
		return err
	}
	seq := snapshot.Seq()
	if err := checkCheckpoint(base, last, seq); err != nil || seq == base {
		return err
	}
	if err := j.writeBase(ctx, snapshot); err != nil {
		return fmt.Errorf("journal: checkpoint in %s: %w", j.dir, err)
	}
	j.mu.Lock()
	j.baseSeq = seq
	j.mu.Unlock()
	if err := j.dropBefore(seq); err != nil {
		return fmt.Errorf("journal: remove what the checkpoint replaced in %s: %w", j.dir, err)
	}
	return nil
}

func (j *onDisk) Restore(ctx context.Context, snapshot *cluster.Snapshot) error {
	j.inUse.RLock()
	defer j.inUse.RUnlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	if err := checkRestore(j.baseSeq, j.last, snapshot.Seq()); err != nil {
		return fmt.Errorf("%w (in %s)", err, j.dir)
	}
	if err := j.writeBase(ctx, snapshot); err != nil {
		return fmt.Errorf("journal: restore in %s: %w", j.dir, err)
	}
	j.baseSeq = snapshot.Seq()
	j.note(snapshot.Seq())
	return nil
}

// writeBase writes the parts of a base and, when all are durable, makes it the valid one.
func (j *onDisk) writeBase(ctx context.Context, snapshot *cluster.Snapshot) error {
	w := j.db.NewWriteBatch()
	defer w.Cancel()
	id := blobID{kind: baseBlob, seq: snapshot.Seq()}
	for part := range snapshot.Parts() {
		blob, err := encodeBatch([]cluster.Record{{Seq: id.seq, Event: part}})
		if err != nil {
			return err
		}
		if err := CheckFree(j.dir, j.reserve); err != nil {
			return err
		}
		for c := range chunkCount(len(blob)) {
			if err := errors.Join(ctx.Err(), w.Set(id.key(c), chunkValue(id, c, blob))); err != nil {
				return err
			}
		}
		id.part++
	}
	if err := w.Flush(); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, id.seq), id.part)
	return putBlob(j.db, blobID{kind: headBlob}, head)
}

// dropBefore deletes all bases but the one at seq, and the batches that it covers. The newest batch stays, whatever it
// holds: Append may be writing the next one.
func (j *onDisk) dropBefore(seq uint64) error {
	if err := j.drop([]byte{byte(baseBlob)}, func(id blobID) bool { return id.seq != seq }); err != nil {
		return err
	}
	var keep blobID
	err := j.db.View(func(txn *badger.Txn) (err error) {
		keep, err = firstAfter(txn, seq)
		return err
	})
	if err != nil {
		return err
	}
	return j.drop([]byte{byte(batchBlob)}, func(id blobID) bool { return id.seq < keep.seq })
}

// firstAfter returns the first batch with a record after seq, or the newest; the zero id if there is no batch. Of those before it a
// crash may have left parts, which a base at seq covers.
func firstAfter(txn *badger.Txn, seq uint64) (first blobID, err error) {
	err = scanIDs(txn, []byte{byte(batchBlob)}, func(id blobID, _ uint32) error {
		if first.kind == 0 || id.seq <= seq+1 {
			first = id
		}
		return nil
	})
	return first, err
}

// drop deletes the blobs that begin with prefix and that which picks.
func (j *onDisk) drop(prefix []byte, which func(blobID) bool) error {
	w := j.db.NewWriteBatch()
	defer w.Cancel()
	err := j.db.View(func(txn *badger.Txn) error {
		return scanIDs(txn, prefix, func(id blobID, chunk uint32) error {
			if !which(id) {
				return nil
			}
			return w.Delete(id.key(chunk))
		})
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

func (j *onDisk) Replay(fn func(cluster.Record) error) error {
	j.inUse.RLock()
	defer j.inUse.RUnlock()
	j.mu.Lock()
	closed := j.closed
	j.mu.Unlock()
	if closed {
		return ErrClosed
	}
	err := j.db.View(func(txn *badger.Txn) error {
		seq, parts, err := readHead(txn)
		if err != nil {
			return err
		}
		r := replayer{next: seq + 1, fn: fn}
		for p := range parts {
			id := blobID{kind: baseBlob, seq: seq, part: p}
			blob, err := getBlob(txn, id)
			switch {
			case err != nil:
				return err
			case blob == nil:
				return fmt.Errorf("%w: %v is missing", ErrDamaged, id)
			}
			if err := r.base(seq, blob); err != nil {
				return err
			}
		}
		first, err := firstAfter(txn, seq)
		if err != nil || first == (blobID{}) {
			return err
		}
		return scanBlobs(txn, []byte{byte(batchBlob)}, first.prefix(), func(_ blobID, blob []byte) error { return r.batch(blob) })
	})
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewer) {
		return damaged(j.dir, err)
	}
	return err
}

func (j *onDisk) Close() error {
	j.inUse.Lock()
	defer j.inUse.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if CheckFree(j.dir, j.reserve/2) != nil || checkCreate(j.dir) != nil {
		// Badger would make tables of its memory. On a full disk it would be ended by a signal before anybody has read why nothing
		// was written; where it can create no file, as on a disk that has become read-only, it would try for ever.
		// What is durable is in its log, as after a crash; its lock ends with the process.
		return j.closeFiles()
	}
	return errors.Join(j.db.Close(), j.closeFiles())
}
