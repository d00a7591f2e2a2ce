package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/raft"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// entries is the log of raft and what it must not forget beside, in a store. Each value begins with a checksum of its key and all that
// follows. The keys are
//
//	l INDEX  an entry of the log, which follow each other without gaps; 8 bytes, big endian
//	s NAME   what raft calls stable: the term, and whom this member has voted for in it
//	w        how many writes there have been, which LAST in the folder has, too: so none is missing unnoticed
type entries struct {
	store  *store.Store
	failed func(error) // told when nothing can be written any more
	stop   func(error) // and before raft ends the process for it, as a member that forgets could vote twice

	mu          sync.Mutex // guards what follows, and the order of writes
	first, last uint64     // index of an entry; 0 where there is none
	writes      uint64
}

var (
	_ raft.LogStore          = (*entries)(nil)
	_ raft.MonotonicLogStore = (*entries)(nil)
	_ raft.StableStore       = (*entries)(nil)
)

const (
	entryKey  = 'l'
	stableKey = 's'
)

var (
	writesKey   = []byte{'w'}
	termKey     = []byte("CurrentTerm") // raft's name
	errNotFound = errors.New("not found")
)

// openEntries reads all that there is, as what is damaged has to be found out before raft believes it. failed has to end the member's
// part: raft would go on to stand by, and to be elected again and again, since no other member has more.
func openEntries(s *store.Store, failed, stop func(error)) (*entries, error) {
	e := &entries{store: s, failed: failed, stop: stop}
	term := uint64(0)
	err := s.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{entryKey}, PrefetchValues: true, PrefetchSize: 8})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			index := binary.BigEndian.Uint64(it.Item().Key()[1:])
			var l raft.Log
			err := readLog(it.Item(), &l)
			switch {
			case err != nil:
			case e.last != 0 && index != e.last+1:
				err = fmt.Errorf("%w: entry %d follows entry %d", store.ErrDamaged, index, e.last)
			case l.Term < term:
				err = fmt.Errorf("%w: it is of term %d, the one before of term %d", store.ErrDamaged, l.Term, term)
			default:
				err = checkEntry(&l)
			}
			if err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
			if e.first == 0 {
				e.first = index
			}
			e.last, term = index, l.Term
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.writes, err = e.number(writesKey); err != nil && !errors.Is(err, errNotFound) {
		return nil, err
	}
	if err := s.CheckLast(e.writes, "write"); err != nil {
		return nil, err
	}
	if now, err := e.GetUint64(termKey); e.last > 0 && (err != nil || now < term) {
		return nil, fmt.Errorf("%w: entries of term %d, in term %d", store.ErrDamaged, term, now)
	}
	return e, nil
}

// checkEntry looks whether an entry of raft's log can be read.
func checkEntry(l *raft.Log) error {
	switch l.Type {
	case raft.LogCommand:
		e, err := decodeEntry(l.Data)
		if err == nil && e.term > l.Term {
			err = fmt.Errorf("%w: made in term %d, appended in term %d", store.ErrDamaged, e.term, l.Term)
		}
		return err
	case raft.LogConfiguration:
		return checkConfiguration(l.Data)
	case raft.LogNoop, raft.LogBarrier:
		if len(l.Data) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: it is of type %d", store.ErrDamaged, l.Type)
}

// IsMonotonic says that there are no gaps in the log: after a snapshot of the leader nothing of it is left.
func (e *entries) IsMonotonic() bool { return true }

// FirstIndex returns the index of the oldest entry, 0 if there is none.
func (e *entries) FirstIndex() (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first, nil
}

// LastIndex returns the index of the newest entry, 0 if there is none.
func (e *entries) LastIndex() (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last, nil
}

// GetLog reads an entry; raft.ErrLogNotFound if there is none.
func (e *entries) GetLog(index uint64, l *raft.Log) error {
	err := e.store.View(func(txn *badger.Txn) error {
		item, err := txn.Get(logKey(index))
		if err != nil {
			return err
		}
		return readLog(item, l)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return raft.ErrLogNotFound
	}
	return err
}

// StoreLog appends one entry, durably.
func (e *entries) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries, durably. After a crash the first of them may be there without the others.
func (e *entries) StoreLogs(logs []*raft.Log) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.last
	err := e.write(func(w *badger.WriteBatch) error {
		for _, l := range logs {
			if before != 0 && l.Index != before+1 {
				return fmt.Errorf("entry %d cannot follow entry %d", l.Index, before)
			}
			before = l.Index
			if err := set(w, logKey(l.Index), logValue(l)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(logs) > 0 {
		if e.first == 0 {
			e.first = logs[0].Index
		}
		e.last = before
	}
	return err
}

// DeleteRange removes entries from the first or to the last one on. What a crash leaves of them has no gap.
func (e *entries) DeleteRange(from, to uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	from, to = max(from, e.first), min(to, e.last)
	switch {
	case e.first == 0 || from > to:
		return nil
	case to == e.last:
		return e.removeLast(from)
	case from == e.first:
		e.first = to + 1
		e.mu.Unlock()
		defer e.mu.Lock()
		return e.removeFirst(from, to)
	}
	return fmt.Errorf("replica: entries %d to %d are in the middle of %d to %d", from, to, e.first, e.last)
}

// follow removes all entries if they do not go on with a snapshot that holds the state as of an entry: a member that gets one from its leader has
// it on its disk before it removes the entries that the snapshot takes the place of (section 7 of the paper), and may be ended in between.
func (e *entries) follow(index, term uint64) error {
	if e.first == 0 || e.first > index {
		return nil
	}
	var l raft.Log
	err := e.GetLog(index, &l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) || err == nil && l.Term == term {
		return err
	}
	return e.DeleteRange(e.first, e.last)
}

// removeLast removes the entries from an index on. The caller holds mu.
func (e *entries) removeLast(from uint64) error {
	err := e.write(func(w *badger.WriteBatch) error {
		for i := e.last; i >= from; i-- {
			if err := w.Delete(logKey(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if e.last = from - 1; e.last < e.first {
		e.first, e.last = 0, 0
	}
	return nil
}

// removeFirst removes entries that a snapshot has taken the place of. Others may be appended meanwhile, and what a crash leaves of these
// does no harm.
func (e *entries) removeFirst(from, to uint64) error {
	w := e.store.NewWriteBatch()
	defer w.Cancel()
	for i := from; i <= to; i++ {
		if err := w.Delete(logKey(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// write makes durable what fill does, in that order, and then that it was done. The caller holds mu.
func (e *entries) write(fill func(w *badger.WriteBatch) error) error {
	err := e.store.CheckFree()
	if err == nil {
		w := e.store.NewWriteBatch()
		defer w.Cancel()
		if err = fill(w); err == nil {
			err = set(w, writesKey, binary.BigEndian.AppendUint64(nil, e.writes+1))
		}
		if err == nil {
			err = w.Flush()
		}
	}
	if err != nil {
		err = fmt.Errorf("replica: %w", err)
		e.failed(err)
		return err
	}
	e.writes++
	e.store.Note(e.writes)
	return nil
}

// Set keeps something that raft must not forget, durably.
func (e *entries) Set(key, value []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.write(func(w *badger.WriteBatch) error { return set(w, append([]byte{stableKey}, key...), value) })
	if err != nil {
		e.stop(err)
	}
	return err
}

// Get returns what Set has kept.
func (e *entries) Get(key []byte) ([]byte, error) { return e.get(append([]byte{stableKey}, key...)) }

// SetUint64 is Set for a number.
func (e *entries) SetUint64(key []byte, value uint64) error {
	return e.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns what SetUint64 has kept.
func (e *entries) GetUint64(key []byte) (uint64, error) {
	return e.number(append([]byte{stableKey}, key...))
}

func (e *entries) number(key []byte) (uint64, error) {
	value, err := e.get(key)
	if err == nil && len(value) != 8 {
		err = fmt.Errorf("%w: %q is a number of %d bytes", store.ErrDamaged, key, len(value))
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

func (e *entries) get(key []byte) (value []byte, err error) {
	err = e.store.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		value, err = checked(item)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, errNotFound // as raft's own stores say
	}
	return value, err
}

// set writes a value with a checksum.
func set(w *badger.WriteBatch, key, value []byte) error { return w.Set(key, store.Seal(key, value)) }

// checked returns a copy of the value that set was given.
func checked(item *badger.Item) ([]byte, error) {
	sealed, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	value, whole := store.Unseal(item.Key(), sealed)
	if !whole {
		return nil, fmt.Errorf("%w: %q has a wrong checksum", store.ErrDamaged, item.Key())
	}
	return value, nil
}

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{entryKey}, index) }

// logHeader is the length of what is before the rest of an entry:
//
//	term        8 bytes
//	type        1 byte
//	appended    8 bytes, nanoseconds since 1970; 0: not known
//	extensions  4 bytes, their length; they come before the data
//
// with all numbers big endian.
const logHeader = 8 + 1 + 8 + 4

func logValue(l *raft.Log) []byte {
	v := make([]byte, 0, logHeader+len(l.Extensions)+len(l.Data))
	v = binary.BigEndian.AppendUint64(v, l.Term)
	v = append(v, byte(l.Type))
	appended := int64(0)
	if !l.AppendedAt.IsZero() {
		appended = l.AppendedAt.UnixNano()
	}
	v = binary.BigEndian.AppendUint64(v, uint64(appended))
	v = binary.BigEndian.AppendUint32(v, uint32(len(l.Extensions)))
	v = append(v, l.Extensions...)
	return append(v, l.Data...)
}

func readLog(item *badger.Item, l *raft.Log) error {
	v, err := checked(item)
	if err != nil {
		return err
	}
	if len(v) < logHeader || len(v)-logHeader < int(binary.BigEndian.Uint32(v[17:])) {
		return fmt.Errorf("%w: %q has %d bytes", store.ErrDamaged, item.Key(), len(v))
	}
	*l = raft.Log{Index: binary.BigEndian.Uint64(item.Key()[1:]), Term: binary.BigEndian.Uint64(v), Type: raft.LogType(v[8])}
	if appended := int64(binary.BigEndian.Uint64(v[9:])); appended != 0 {
		l.AppendedAt = time.Unix(0, appended)
	}
	extensions := logHeader + int(binary.BigEndian.Uint32(v[17:]))
	l.Extensions, l.Data = v[logHeader:extensions:extensions], v[extensions:]
	return nil
}
