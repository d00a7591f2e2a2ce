//go:build linux

package local

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// stateFolder is the folder that one driver owns at a time:
//
//	format              its version
//	lock                locked by the driver while it runs
//	tmp/                folders that are being made or removed
//	runs/ID/            the runs that the driver knows
//	released/ID/        kept for their logs
//	volumes.HOST/NAME/  what tasks keep on a host; never removed by the driver
//	volumes/NAME/       volumes of format 2, which all hosts have in common and keep
type stateFolder struct {
	dir  string
	lock *os.File
}

// stateFormat is the version of what is written here. A folder of the one before is taken over.
const stateFormat = 3

type formatRecord struct{ Format int }

// owned holds the state folders of this process: the locks of fcntl do not keep a process from locking twice.
var owned sync.Map

// folderID tells what belongs to one state folder, outside of it, from that of others on the machine.
func folderID(dir string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(filepath.Clean(dir))) // never fails
	return fmt.Sprintf("%08x", h.Sum32())
}

// openState locks a state folder, making it if it does not exist.
func openState(dir string) (s *stateFolder, err error) {
	s = &stateFolder{dir: filepath.Clean(dir)}
	for _, sub := range []string{"runs", "released", "tmp"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("local: make the state folder: %w", err)
		}
	}
	if _, taken := owned.LoadOrStore(s.dir, true); taken {
		return nil, fmt.Errorf("local: state folder %s is in use by another driver of this process; give each its own", s.dir)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	lock := filepath.Join(s.dir, "lock")
	if s.lock, err = tryLock(lock); errors.Is(err, errHeld) {
		pid, _ := lockHolder(lock)
		return s, fmt.Errorf("local: state folder %s is in use by process %d; stop it or choose another folder", s.dir, pid)
	} else if err != nil {
		return s, err
	}
	if err := s.checkFormat(); err != nil {
		return s, err
	}
	return s, nil
}

// checkFormat refuses folders of other versions, and marks a new one.
func (s *stateFolder) checkFormat() error {
	f, err := readRecord[formatRecord](s.dir, "format")
	switch {
	case errors.Is(err, errDamaged):
		return fmt.Errorf("local: %w; remove it, and start again over the same folder, which has all that runs here", err)
	case err != nil:
		return fmt.Errorf("local: state folder: %w", err)
	case f == nil || f.Format == stateFormat-1:
		return writeRecord(s.dir, "format", formatRecord{stateFormat}, synced)
	case f.Format != stateFormat:
		return fmt.Errorf("local: state folder %s has format %d, this version knows %d and %d only", s.dir, f.Format, stateFormat-1, stateFormat)
	}
	return nil
}

// clear removes what was being made or removed when the last driver ended, as far as that can be removed.
func (s *stateFolder) clear() error {
	entries, err := os.ReadDir(s.temp(""))
	for _, e := range entries {
		err = errors.Join(err, removeAll(s.temp(e.Name())))
	}
	return err
}

func (s *stateFolder) close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.lock != nil {
		err = s.lock.Close()
		s.lock = nil
	}
	owned.Delete(s.dir)
	return err
}

func (s *stateFolder) run(name string) string         { return filepath.Join(s.dir, "runs", name) }
func (s *stateFolder) releasedRun(name string) string { return filepath.Join(s.dir, "released", name) }
func (s *stateFolder) temp(name string) string        { return filepath.Join(s.dir, "tmp", name) }

// volume returns the folder of a host's volume, which need not exist.
func (s *stateFolder) volume(host, name string) string {
	own, common := "volumes."+host, "volumes"
	if !exists(filepath.Join(s.dir, own), name) && exists(filepath.Join(s.dir, common), name) {
		return filepath.Join(s.dir, common, name)
	}
	return filepath.Join(s.dir, own, name)
}

// runNames lists the folders of the known runs.
func (s *stateFolder) runNames() ([]string, error) {
	entries, err := os.ReadDir(s.run(""))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// runOf returns the run whose folder it is.
func runOf(dir string) (cluster.RunID, error) {
	id, err := cluster.ParseRunID(filepath.Base(dir))
	if err != nil {
		err = fmt.Errorf("local: %s is not the folder of a run: move it out of there, and start again: %w", dir, err)
	}
	return id, err
}

// kept is a released run whose folder still exists.
type kept struct {
	id    cluster.RunID
	ended cluster.Time
	bytes int64 // −1 = not measured yet
}

// loadReleased lists the folders that are kept.
func (s *stateFolder) loadReleased() (map[cluster.RunID]*kept, error) {
	entries, err := os.ReadDir(s.releasedRun(""))
	if err != nil {
		return nil, err
	}
	all := map[cluster.RunID]*kept{}
	for _, e := range entries {
		id, err := runOf(s.releasedRun(e.Name()))
		if err != nil {
			return nil, err
		}
		k := &kept{id: id, bytes: -1}
		if exit, err := readRecord[exitRecord](s.releasedRun(e.Name()), exitFile); err == nil && exit != nil {
			k.ended = exit.At
		}
		all[id] = k
	}
	return all, nil
}

// surplus returns which of the kept runs have to go, oldest first: one that ended at a time to come did so before the clock was set back,
// and before all others. Complexity: O(n log n).
func (r Retention) surplus(all []*kept, at cluster.Time) []*kept {
	clock := func(k *kept) int { // of two, the one that was set back, and that of now
		if k.ended > at {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b *kept) int {
		return cmp.Or(clock(a)-clock(b), cmp.Compare(a.ended, b.ended), a.id.Compare(b.id))
	})
	var bytes int64
	for i, k := range slices.Backward(all) { // newest first, as long as there is room
		bytes += k.bytes
		if len(all)-i > r.Runs || bytes > r.Bytes || at.Sub(k.ended) > r.Age {
			return all[:i+1]
		}
	}
	return nil
}

// removeAll removes a folder, also where a task has taken its own rights away. One in which a task has left a mount stays: what is
// there is not the folder's own.
func removeAll(dir string) error {
	if at, err := mountIn(dir); err != nil {
		return fmt.Errorf("local: remove %s: %w", dir, err)
	} else if at != "" {
		return fmt.Errorf("local: remove %s: something is mounted at %s; unmount it", dir, at)
	}
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("local: remove %s: %w", dir, err)
	}
	return nil
}

// mountIn returns where something is mounted in a folder, or at it, as /proc/self/mountinfo writes it, "" if nothing is.
func mountIn(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	inside := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(dir) + "/"
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4]+"/", inside) {
			return f[4], nil
		}
	}
	return "", nil
}

// size returns the bytes of all files in a folder, as far as they can be seen.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// janitorInterval is how often the age of kept runs is looked at.
const janitorInterval = time.Minute
