package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// kind is what the store says it is. Version 3 added roles, tokens, modes and sealed secrets; all that version 2 holds means the same
// in it.
var kind = store.Kind{
	Magic: "sluice-journal", Version: 3, Oldest: 2,
	Remedy: "move the folder away, and start anew or from a snapshot: sluice cluster restore",
}

// onDisk is the journal in a folder.
type onDisk struct {
	dir   string
	store *store.Store

	inUse         sync.RWMutex // held for reading by Checkpoint and Replay, for writing by Close; before the others
	checkpointing sync.Mutex   // held by Checkpoint, before mu

	mu      sync.Mutex // guards what follows, and the order of Appends
	closed  bool
	failed  error  // what the first failed write failed with
	baseSeq uint64 // of the valid base, 0 = none
	last    uint64 // sequence number of the last durable record
}

var _ Journal = (*onDisk)(nil)

// Open opens the journal in a folder, and creates both if they are not there. It fails as store.Open does. A store of the format before is
// upgraded in place. A record that Append was writing when the process died is there or not, but with its whole batch.
func Open(dir string, o store.Options) (Journal, error) {
	s, err := store.Open(dir, kind, o)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &onDisk{dir: dir, store: s}
	if err = j.recover(); err == nil {
		err = s.CheckLast(j.last, "record")
	}
	if err != nil {
		err = s.Told(err)
	} else {
		err = s.Upgrade()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), s.Close())
	}
	return j, nil
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
	return j.store.View(func(txn *badger.Txn) error {
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
	err = j.store.View(func(txn *badger.Txn) error {
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
		return 0, 0, fmt.Errorf("%w: %v has %d bytes", store.ErrDamaged, blobID{kind: headBlob}, len(head))
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
	if err := j.store.CheckFree(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := putBlob(j.store.DB, blobID{kind: batchBlob, seq: records[0].Seq}, blob); err != nil {
		j.failed = err
		return fmt.Errorf("journal: write to %s: %w: start again when its disk can be written", j.dir, err)
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
	w := j.store.NewWriteBatch()
	defer w.Cancel()
	id := blobID{kind: baseBlob, seq: snapshot.Seq()}
	for part := range snapshot.Parts() {
		blob, err := encodeBatch([]cluster.Record{{Seq: id.seq, Event: part}})
		if err != nil {
			return err
		}
		if err := j.store.CheckFree(); err != nil {
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
	return putBlob(j.store.DB, blobID{kind: headBlob}, head)
}

// dropBefore deletes all bases but the one at seq, and the batches that it covers. The newest batch stays, whatever it
// holds: Append may be writing the next one.
func (j *onDisk) dropBefore(seq uint64) error {
	if err := j.drop([]byte{byte(baseBlob)}, func(id blobID) bool { return id.seq != seq }); err != nil {
		return err
	}
	var keep blobID
	err := j.store.View(func(txn *badger.Txn) (err error) {
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
	w := j.store.NewWriteBatch()
	defer w.Cancel()
	err := j.store.View(func(txn *badger.Txn) error {
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
	err := j.store.View(func(txn *badger.Txn) error {
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
				return fmt.Errorf("%w: %v is missing", store.ErrDamaged, id)
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
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNewer) {
		return fmt.Errorf("journal: %w", j.store.Told(err))
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
	return j.store.Close()
}

// note takes in what the last durable record is now; the caller holds mu.
func (j *onDisk) note(last uint64) {
	j.last = last
	j.store.Note(last)
}
