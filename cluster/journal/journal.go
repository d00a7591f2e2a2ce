// Package journal keeps the history of a cluster: a log of records and, from time to time, a checkpoint that takes the
// place of the records before it. [Open] keeps it in a folder, [NewMemory] in memory.
//
// # Format
//
// Both encode alike. A batch, which is what one Append stores, is a CBOR sequence (RFC 8742) in core deterministic
// encoding (RFC 8949, section 4.2.1): the sequence number of its first record, the number of records, and for each
// record its time, the number of its kind ([cluster.EventKinds]) and the event as a map from field names to values.
// A part of a checkpoint is a batch of one record, a [cluster.Restored]. Renaming a field, changing what a number
// means, or using a kind's number again changes the format, and then formatVersion must grow; the golden test notices.
//
// In the folder a batch is cut into values that each carry a checksum and how many there are (see blob.go), so that it is
// there as a whole or not at all, however long it is.
package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// Errors that the errors of this package wrap, beside those of package store.
var (
	// ErrSequence: records that do not follow the last one, or a snapshot that is not of this history.
	ErrSequence = errors.New("journal: out of sequence")
	// ErrFailed: an earlier Append failed in a way that leaves open what is durable. Only opening the store again,
	// which looks at what there is, can tell.
	ErrFailed = errors.New("journal: a write failed; open the store again")
	// ErrClosed: the journal has been closed.
	ErrClosed = errors.New("journal: closed")
)

// Journal is a durable history. Its methods are safe for concurrent use; the order of concurrent Appends is open, so
// there is one writer.
type Journal interface {
	// Append makes records durable before it returns, all of them or none, whatever happens in between. Their Seq goes
	// on from the last record without gaps, from 1 in an empty journal. Records that cannot be stored are refused and
	// change nothing; after any other error every later Append fails with ErrFailed. It keeps no reference to records.
	Append(records []cluster.Record) error
	// Checkpoint makes the snapshot the new base and drops the records up to snapshot.Seq(). It may run while Append
	// does. A crash, an error or the end of ctx before it is done leaves the old base and all records.
	Checkpoint(ctx context.Context, snapshot *cluster.Snapshot) error
	// Restore makes the snapshot the base of a journal that has nothing yet; else it is ErrSequence. It is there as a
	// whole or not at all.
	Restore(ctx context.Context, snapshot *cluster.Snapshot) error
	// Replay calls fn for each part of the base as a record with a *cluster.Restored event and the base's sequence
	// number, then for every record after the base in order. It ends with the first error, which it returns. What it
	// passes is fresh: fn may keep it.
	Replay(fn func(cluster.Record) error) error
	// Close waits for what is in progress and releases the store. Closing again returns nil.
	Close() error
}

// Load builds the State that a journal leads to.
func Load(j Journal) (*cluster.State, error) {
	s := cluster.NewState()
	if err := j.Replay(s.Apply); err != nil {
		return nil, err
	}
	return s, nil
}

// checkAppend holds records to the sequence after last.
func checkAppend(last uint64, records []cluster.Record) error {
	for i, r := range records {
		if want := last + 1 + uint64(i); r.Seq != want {
			return fmt.Errorf("%w: record %d cannot be appended, the next one is %d", ErrSequence, r.Seq, want)
		}
		if _, ok := r.Event.(*cluster.Restored); ok {
			return fmt.Errorf("%w: record %d is a part of a checkpoint", ErrSequence, r.Seq)
		}
	}
	return nil
}

// checkCheckpoint holds a new base to the history between the old base and the last record.
func checkCheckpoint(base, last, snapshot uint64) error {
	if snapshot < base || snapshot > last {
		return fmt.Errorf("%w: a checkpoint at %d is not between the base %d and the last record %d",
			ErrSequence, snapshot, base, last)
	}
	return nil
}

// checkRestore lets a snapshot begin the history of an empty journal only.
func checkRestore(base, last, snapshot uint64) error {
	if base != 0 || last != 0 || snapshot == 0 {
		return fmt.Errorf("%w: a snapshot at %d is restored into an empty journal only, and this one has %d records", ErrSequence, snapshot, max(base, last))
	}
	return nil
}

// replayer passes batches on and holds them together: each must follow the one before.
type replayer struct {
	next uint64 // sequence number of the record that must come next
	fn   func(cluster.Record) error
}

// base passes a part of the base at the given sequence number.
func (r *replayer) base(seq uint64, blob []byte) error {
	records, err := decodeBatch(blob)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if restored, ok := rec.Event.(*cluster.Restored); !ok || rec.Seq != seq ||
			restored.Header != nil && restored.Header.Seq != seq {
			return fmt.Errorf("%w: record %d, %T, in the checkpoint at %d", store.ErrDamaged, rec.Seq, rec.Event, seq)
		}
		if err := r.fn(rec); err != nil {
			return err
		}
	}
	return nil
}

// batch passes those records of a batch that are after the base.
func (r *replayer) batch(blob []byte) error {
	records, err := decodeBatch(blob)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if rec.Seq < r.next {
			continue
		}
		if rec.Seq > r.next {
			return fmt.Errorf("%w: record %d is missing, %d is the next one there is", store.ErrDamaged, r.next, rec.Seq)
		}
		if err := r.fn(rec); err != nil {
			return err
		}
		r.next++
	}
	return nil
}
