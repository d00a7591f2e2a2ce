package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const formatName = "FORMAT"

// line is what FORMAT holds.
func (k Kind) line() string { return fmt.Sprintf("%s %d\n", k.Magic, k.Version) }

// remedy is what can be done about a file that does not say the version.
func (k Kind) remedy() string {
	return fmt.Sprintf("in a store of this version it has the line %q: write that into it", strings.TrimSpace(k.line()))
}

// openFormat makes sure that the folder is a store of this format, or becomes one, and locks it until the file that it
// returns is closed. It looks before it touches anything, and Badger has not been there yet.
func (k Kind) openFormat(dir string) (*os.File, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, formatName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := k.mustBeEmpty(dir); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil {
		err = k.readFormat(f, dir)
	}
	if errors.Is(err, ErrLocked) {
		err = fmt.Errorf("%w: another process works in %s", err, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock takes the lock of a file that ends with the file. A process that is being forked shares it until it calls exec, and
// so may outlive a process that was killed by a moment; that is waited for.
func lock(f *os.File) error {
	const attempts, pause = 10, 30 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case attempt == attempts:
			return ErrLocked
		}
		time.Sleep(pause)
	}
}

// makeDir creates a folder and those above it, durably, since what will be acknowledged depends on them.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, 0o700) // jobs' environments are nobody else's business
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// mustBeEmpty refuses a folder with files in it that are not ours, and a store that has lost its version: with another folder in its
// place, what its tasks run would be nobody's.
func (k Kind) mustBeEmpty(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, lastName)); err == nil {
		return fmt.Errorf("%w: its version, %s, is missing or empty; %s", ErrDamaged, filepath.Join(dir, formatName), k.remedy())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != formatName {
			return fmt.Errorf("%w: %s holds other files, such as %s; name an empty or a new folder",
				ErrNotStore, dir, e.Name())
		}
	}
	return nil
}

// readFormat checks the version, and writes it where the file is new.
func (k Kind) readFormat(f *os.File, dir string) error {
	content, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return err
	}
	if len(content) == 0 {
		if err := k.mustBeEmpty(dir); err != nil {
			return err
		}
		_, err := f.WriteString(k.line())
		if err = errors.Join(err, f.Sync(), syncDir(dir)); err != nil {
			return err
		}
		return nil
	}
	word, number, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	version, err := strconv.ParseUint(number, 10, 32)
	switch {
	case word != k.Magic || err != nil || version == 0:
		return fmt.Errorf("%w: %s says %q; %s", ErrNotStore, f.Name(), content, k.remedy())
	case version < k.Oldest:
		return fmt.Errorf("%w: %s has format %d of an unreleased version, this one reads %d to %d; begin with a new folder",
			ErrNotStore, dir, version, k.Oldest, k.Version)
	case version > k.Version:
		return fmt.Errorf("%w: %s has format %d, this version reads up to %d; use a newer one",
			ErrNewer, dir, version, k.Version)
	}
	return nil
}

// Upgrade makes a store of an older version, whose owner has found that it can be read, one of this version. The text has the same
// length in both and is far shorter than a sector: a crash leaves the old or the new one.
func (s *Store) Upgrade() error {
	_, err := s.format.WriteAt([]byte(s.kind.line()), 0)
	if err = errors.Join(err, s.format.Sync()); err != nil {
		return fmt.Errorf("upgrade %s: %w", s.format.Name(), err)
	}
	return nil
}

// syncDir makes the names of the files in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
