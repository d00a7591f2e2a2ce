package journal

import (
	"context"
	"sync"

	"github.com/sluice-scheduler/sluice/cluster"
)

// memory encodes like the journal on disk, so that nothing that is passed in or out is shared.
type memory struct {
	mu       sync.Mutex
	closed   bool
	baseSeq  uint64
	base     [][]byte // parts
	last     uint64
	batches  [][]byte
	batchEnd []uint64 // last sequence number of each batch
}

var _ Journal = (*memory)(nil)

// NewMemory returns an empty journal that lives as long as the process: for simulations and tests.
func NewMemory() Journal { return &memory{} }

func (m *memory) Append(records []cluster.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := checkAppend(m.last, records); err != nil || len(records) == 0 {
		return err
	}
	blob, err := encodeBatch(records)
	if err != nil {
		return err
	}
	m.last += uint64(len(records))
	m.batches, m.batchEnd = append(m.batches, blob), append(m.batchEnd, m.last)
	return nil
}

func (m *memory) Restore(ctx context.Context, snapshot *cluster.Snapshot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := checkRestore(m.baseSeq, m.last, snapshot.Seq()); err != nil {
		return err
	}
	base, err := encodeBase(ctx, snapshot)
	if err != nil {
		return err
	}
	m.base, m.baseSeq, m.last = base, snapshot.Seq(), snapshot.Seq()
	return nil
}

func (m *memory) Checkpoint(ctx context.Context, snapshot *cluster.Snapshot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	seq := snapshot.Seq()
	if err := checkCheckpoint(m.baseSeq, m.last, seq); err != nil || seq == m.baseSeq {
		return err
	}
	base, err := encodeBase(ctx, snapshot)
	if err != nil {
		return err
	}
	m.baseSeq, m.base = seq, base
	drop := 0
	for drop < len(m.batchEnd) && m.batchEnd[drop] <= seq {
		drop++
	}
	m.batches, m.batchEnd = m.batches[drop:], m.batchEnd[drop:]
	return nil
}

func (m *memory) Replay(fn func(cluster.Record) error) error {
	m.mu.Lock()
	closed, seq, base, batches := m.closed, m.baseSeq, m.base, m.batches
	m.mu.Unlock()
	if closed {
		return ErrClosed
	}
	r := replayer{next: seq + 1, fn: fn}
	for _, blob := range base {
		if err := r.base(seq, blob); err != nil {
			return err
		}
	}
	for _, blob := range batches {
		if err := r.batch(blob); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// encodeBase returns the parts of a base.
func encodeBase(ctx context.Context, snapshot *cluster.Snapshot) (base [][]byte, err error) {
	for part := range snapshot.Parts() {
		blob, err := encodeBatch([]cluster.Record{{Seq: snapshot.Seq(), Event: part}})
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		base = append(base, blob)
	}
	return base, nil
}
