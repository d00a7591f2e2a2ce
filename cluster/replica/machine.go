package replica

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// Leader says who leads, since which term, and where its API is reached.
type Leader struct {
	Name string
	API  string
	Term uint64 `json:",omitempty"`
}

// machine is the state machine of a member: the State that the log leads to. It changes by what is in the log and by nothing else, so that
// it is the same on all members. Its methods are safe for concurrent use; raft calls Apply, Snapshot and Restore one at a time.
type machine struct {
	failed func(error) // told once of what cannot be applied; nothing is applied after it
	grown  func()      // told, without waiting, that records have come

	mu     sync.Mutex
	state  *cluster.State
	batch  []byte // pieces of a batch whose last is not there yet
	pieces uint32 // how many
	leader Leader
	broken error
	fresh  int // records applied since changes were last taken from state
}

// maxFresh bounds how many names of changed records a State collects that nobody asks for.
const maxFresh = 4096

func newMachine(failed func(error), grown func()) *machine {
	return &machine{failed: failed, grown: grown, state: cluster.NewState()}
}

// Apply applies one entry. It returns an error for whoever appended it, nil if it is in effect.
func (m *machine) Apply(l *raft.Log) any {
	if l.Type != raft.LogCommand {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	e, err := decodeEntry(l.Data)
	if err != nil {
		return m.breakOffAt(l.Index, err)
	}
	if e.term != l.Term {
		return fmt.Errorf("%w: made in term %d, appended in term %d", ErrLost, e.term, l.Term)
	}
	switch e.kind {
	case leaderEntry:
		var leader Leader
		if err := json.Unmarshal(e.payload, &leader); err != nil {
			return m.breakOffAt(l.Index, fmt.Errorf("%w: %w", store.ErrDamaged, err))
		}
		leader.Term = e.term
		m.leader = leader
		m.batch, m.pieces = nil, 0 // of a leader that is gone
		return nil
	default:
		return m.applyPiece(l.Index, e)
	}
}

// applyPiece adds a piece to its batch, which is applied with the last.
func (m *machine) applyPiece(index uint64, e entry) error {
	if e.piece == 0 {
		m.batch, m.pieces = nil, 0
	}
	if e.piece != m.pieces {
		return fmt.Errorf("%w: piece %d of a batch follows %d pieces", ErrLost, e.piece, m.pieces)
	}
	if m.batch, m.pieces = append(m.batch, e.payload...), m.pieces+1; m.pieces < e.pieces {
		return nil
	}
	blob := m.batch
	m.batch, m.pieces = nil, 0
	records, err := journal.Decode(blob)
	if err != nil {
		return m.breakOffAt(index, err)
	}
	if first, next := records[0].Seq, m.state.Seq()+1; first != next {
		return fmt.Errorf("%w: record %d cannot be appended, the next one is %d", ErrLost, first, next)
	}
	for _, r := range records {
		if err := m.state.Apply(r); err != nil {
			return m.breakOffAt(index, err)
		}
	}
	if m.fresh += len(records); m.fresh > maxFresh {
		m.state.Snapshot()
		m.fresh = 0
	}
	m.grown()
	return nil
}

// breakOffAt is breakOff for an entry.
func (m *machine) breakOffAt(index uint64, err error) error {
	return m.breakOff(fmt.Errorf("entry %d: %w", index, err))
}

// breakOff remembers why what there is cannot be applied: this member knows nothing from there on.
func (m *machine) breakOff(err error) error {
	m.broken = err
	m.failed(m.broken)
	return m.broken
}

// fork returns a State of its own that is equal to that of the machine.
func (m *machine) fork() *cluster.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork()
}

// view returns how things stand: the number of the last record, and who said last that it leads.
func (m *machine) view() (seq uint64, leader Leader) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Seq(), m.leader
}

// due reports whether a snapshot is worth writing after the one at record last.
func (m *machine) due(last, every uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.CheckpointDue(last, every)
}

// Snapshot returns the state as it is now; it is written while the machine goes on.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return nil, m.broken
	}
	snapshot, _ := m.state.Snapshot()
	m.fresh = 0
	return &image{snapshot, m.leader, m.pieces, bytes.Clone(m.batch)}, nil
}

// Restore replaces all that is known by a snapshot.
func (m *machine) Restore(r io.ReadCloser) error {
	state, i, err := readImage(r)
	err = errors.Join(err, r.Close())
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		return m.breakOff(fmt.Errorf("a snapshot: %w", err))
	}
	m.state, m.leader, m.batch, m.pieces, m.fresh = state, i.Leader, i.Batch, i.Pieces, 0
	m.grown()
	return nil
}

// image is a snapshot of a machine. As a stream it is
//
//	version  1 byte, formatVersion
//	header   what imageHeader says, as JSON, with its length before it
//	parts    of a checkpoint, in the encoding of package journal, each with its length before it, to the end
//
// A length is an unsigned varint. The checksum is that of the store of snapshots.
type image struct {
	snapshot *cluster.Snapshot
	leader   Leader
	pieces   uint32
	batch    []byte
}

// imageHeader is what there is beside the State.
type imageHeader struct {
	Seq    uint64
	Leader Leader
	Pieces uint32 // of a batch that is not whole
	Batch  []byte
}

// Persist writes the image to where raft keeps snapshots.
func (i *image) Persist(sink raft.SnapshotSink) error {
	if err := i.write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release has nothing to release.
func (i *image) Release() {}

func (i *image) write(w io.Writer) error {
	header, err := json.Marshal(imageHeader{i.snapshot.Seq(), i.leader, i.pieces, i.batch})
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte{formatVersion}); err != nil {
		return err
	}
	if err := writeBlock(w, header); err != nil {
		return err
	}
	for part := range i.snapshot.Parts() {
		blob, err := journal.Encode([]cluster.Record{{Seq: i.snapshot.Seq(), Event: part}})
		if err != nil {
			return err
		}
		if err := writeBlock(w, blob); err != nil {
			return err
		}
	}
	return nil
}

func writeBlock(w io.Writer, b []byte) error {
	if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// maxBlock bounds a part: a thousand jobs of the largest size.
const maxBlock = 2 << 30

func readBlock(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxBlock {
		return nil, fmt.Errorf("%w: a part of a snapshot of %d bytes", store.ErrDamaged, n)
	}
	var b bytes.Buffer // grows by what there is, not by what the length promises
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, fmt.Errorf("%w: a snapshot ends too early", store.ErrDamaged)
	}
	return b.Bytes(), nil
}

// readImage reads what write wrote.
func readImage(stream io.Reader) (*cluster.State, imageHeader, error) {
	var h imageHeader
	r := bufio.NewReader(stream)
	version, err := r.ReadByte()
	switch {
	case err != nil:
		return nil, h, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	case version > formatVersion:
		return nil, h, fmt.Errorf("%w: a snapshot of format %d", store.ErrNewer, version)
	}
	b, err := readBlock(r)
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		return nil, h, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	state := cluster.NewState()
	for {
		b, err := readBlock(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, h, err
		}
		records, err := journal.Decode(b)
		if err != nil {
			return nil, h, err
		}
		for _, part := range records {
			if err := state.Apply(part); err != nil {
				return nil, h, err
			}
		}
	}
	if state.Seq() != h.Seq {
		return nil, h, fmt.Errorf("%w: a snapshot at record %d leads to record %d", store.ErrDamaged, h.Seq, state.Seq())
	}
	return state, h, nil
}
