// Package store keeps what must not be lost in a folder, by Badger, and notices when it is not what was written.
//
// The file FORMAT names what the folder holds and the version of that, and carries the lock; LAST says how far it was durable, so that
// nothing is missing at the end unnoticed; all else belongs to Badger, or to whom the store belongs.
package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

// Errors that the errors of this package wrap, and those of packages that keep something in a store.
var (
	// ErrLocked: another process, or another Store of this one, has the folder open.
	ErrLocked = errors.New("the store is in use")
	// ErrNewer: a newer version of Sluice wrote the store.
	ErrNewer = errors.New("the store was written by a newer version")
	// ErrDamaged: what is stored is not what was written.
	ErrDamaged = errors.New("the store is damaged")
	// ErrNotStore: the folder holds something else.
	ErrNotStore = errors.New("not a store of this kind")
)

// valueSize is how many bytes a value may have.
const valueSize = 257 << 10

// Kind says what a folder is a store of.
type Kind struct {
	Magic string // the first word of FORMAT
	// Version grows when older versions of Sluice could misread or lose what is written; Oldest is the first that is read.
	Version, Oldest uint64
	Remedy          string // what can be done where the store is damaged
}

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

// Store is an open folder. Its methods are safe for concurrent use, but for those that say otherwise.
type Store struct {
	*badger.DB
	Reserve atomic.Uint64 // bytes of the disk that are left free

	dir      string
	kind     Kind
	format   *os.File // carries the lock
	lastFile *os.File
	last     uint64 // as of when it was opened
}

// Open opens the store in a folder, and creates both if they are not there. It fails with ErrLocked, ErrNewer, ErrNotStore (in these
// cases the folder is as it was), ErrDamaged, or ENOSPC where the disk is nearly full. A transaction that was being committed when the
// process died is there or not, as a whole.
func Open(dir string, kind Kind, o Options) (*Store, error) {
	s := &Store{dir: dir, kind: kind}
	if o.Reserve == 0 {
		o.Reserve = DefaultReserve
	}
	s.Reserve.Store(o.Reserve)
	var err error
	if s.format, err = kind.openFormat(dir); err != nil {
		return nil, err
	}
	if err := s.CheckFree(); err != nil {
		return nil, errors.Join(err, s.format.Close())
	}
	if err := removeUnbegun(dir); err != nil {
		return nil, errors.Join(s.openError(err), s.format.Close())
	}
	options := badgerOptions(dir, o)
	if err := undoChanges(dir, options); err != nil {
		return nil, errors.Join(s.openError(err), s.format.Close())
	}
	if err := checkTables(dir, options); err != nil {
		return nil, errors.Join(s.Told(err), s.format.Close())
	}
	if s.lastFile, s.last, err = openLast(dir); err != nil {
		return nil, errors.Join(err, s.format.Close())
	}
	if s.DB, err = badger.Open(options); err != nil {
		return nil, errors.Join(s.openError(err), s.closeFiles())
	}
	return s, nil
}

const memTableSize = 2 << 20

// badgerOptions bounds what Badger keeps in memory and on disk to some ten megabytes besides the data. A commit that fills a
// memory table waits until the next one is there, zeroed and with its file: small ones make that short. They have to be so large
// that a value is less than 15 % of one. Values stay below the threshold for Badger's value log, so that everything lives in the LSM
// tree: compaction frees what is deleted, and there is no value log to collect.
func badgerOptions(dir string, o Options) badger.Options {
	opts := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one writer, no reads in writing transactions
		WithMetricsEnabled(false).
		WithMemTableSize(memTableSize).
		WithNumMemtables(8).
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(32).
		WithNumCompactors(2).
		WithBlockCacheSize(8 << 20).
		WithValueThreshold(valueSize).
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

// CheckFree refuses to go on, with ENOSPC, when fewer bytes are free on the store's disk than are to be left. Whoever writes asks before.
func (s *Store) CheckFree() error { return checkFree(s.dir, s.Reserve.Load()) }

// checkFree is what the method of a Store does, for any folder and number of bytes.
func checkFree(dir string, reserve uint64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look how much is free in %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < reserve {
		return fmt.Errorf("%w: %d MiB are free in %s, and the store needs %d to work with: make room and start again",
			syscall.ENOSPC, free>>20, dir, reserve>>20)
	}
	return nil
}

// checkWrite reports why no table can be written to the folder.
func checkWrite(dir string) error {
	f, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return err
	}
	err = f.Truncate(memTableSize) // as Badger does before it writes
	if err == nil {
		_, err = f.Write(make([]byte, memTableSize))
	}
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
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
func (s *Store) openError(err error) error {
	if strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return fmt.Errorf("%w: another process works in %s", ErrLocked, s.dir)
	}
	for _, lack := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOMEM, syscall.EFBIG, syscall.EIO,
	} {
		if strings.Contains(err.Error(), lack.Error()) {
			return fmt.Errorf("open the store in %s: %w", s.dir, err)
		}
	}
	return s.Told(fmt.Errorf("%w: %w", ErrDamaged, err))
}

// Told adds the folder to an error, and to damage what can be done about it.
func (s *Store) Told(err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w (in %s: %s)", err, s.dir, s.kind.Remedy)
	}
	return fmt.Errorf("%w (in %s)", err, s.dir)
}

// Close releases the folder. It is called once.
func (s *Store) Close() error {
	if checkFree(s.dir, s.Reserve.Load()/2) != nil || checkWrite(s.dir) != nil {
		// Badger would make tables of its memory. On a full disk it would be ended by a signal before anybody has read why nothing
		// was written; where it can write none, as on a disk that fails or has become read-only, it would try for ever.
		// What is durable is in its log, as after a crash; its lock ends with the process.
		return s.closeFiles()
	}
	return errors.Join(s.DB.Close(), s.closeFiles())
}

// closeFiles closes what is open beside Badger.
func (s *Store) closeFiles() error { return errors.Join(s.lastFile.Close(), s.format.Close()) }
