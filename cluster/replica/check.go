package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/raft"
	raftbolt "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// termKey is where raft keeps the term.
var termKey = []byte("CurrentTerm")

// checkLog reads all of a log that there is, as what is damaged is not found out later: bbolt has no checksums, and panics in a goroutine of
// its own, or reads beyond the end of the file, while it opens one that is to be written.
func checkLog(path string) (err error) {
	if info, err := os.Stat(path); errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	s, err := raftbolt.New(raftbolt.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: lockPatience, ReadOnly: true}})
	if err != nil {
		return openError(path, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	term := uint64(0)
	for i := max(1, first); i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return fmt.Errorf("%w: %s: entry %d: %w", ErrDamaged, path, i, err)
		}
		if l.Index != i || l.Term < term {
			return fmt.Errorf("%w: %s: entry %d of term %d says that it is %d of term %d", ErrDamaged, path, i, term, l.Index, l.Term)
		}
		if term, err = l.Term, checkEntry(&l); err != nil {
			return fmt.Errorf("%s: entry %d: %w", path, i, err)
		}
	}
	if now, err := s.GetUint64(termKey); last > 0 && (err != nil || now < term) {
		return fmt.Errorf("%w: %s: entries of term %d, in term %d", ErrDamaged, path, term, now)
	}
	return nil
}

// checkEntry looks whether an entry of raft's log can be read. That the configuration of the group cannot be raft tells by a panic.
func checkEntry(l *raft.Log) error {
	switch l.Type {
	case raft.LogCommand:
		e, err := decodeEntry(l.Data)
		if err == nil && e.term > l.Term {
			err = fmt.Errorf("%w: made in term %d, appended in term %d", ErrDamaged, e.term, l.Term)
		}
		return err
	case raft.LogConfiguration:
		raft.DecodeConfiguration(l.Data)
		return nil
	case raft.LogNoop, raft.LogBarrier:
		if len(l.Data) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: it is of type %d", ErrDamaged, l.Type)
}

// checkWhole makes sure that no part of what a member has said to have is missing: raft takes what it can read, and would go on as one that
// has promised nothing.
func (s *folder) checkWhole(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	written := 0
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), ".tmp") {
			written++
		}
	}
	images, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if len(images) < min(written, keptImages) {
		return fmt.Errorf("%w: not all of the %d snapshots in %s can be read", ErrDamaged, written, dir)
	}
	if _, err := s.stable.GetUint64(termKey); len(images) > 0 && images[0].Index > 1 && err != nil {
		return fmt.Errorf("%w: there is a snapshot, and nothing in %s: %w", ErrDamaged, filepath.Join(dir, logName), err)
	}
	return nil
}

// reading calls read, and makes its panics over what is stored errors, also those over a file that is shorter than it should be.
func reading(path string, read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v", ErrDamaged, path, p)
		}
	}()
	return read()
}
