package journal

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

// formatVersion grows when older versions of Sluice could misread or lose what is written. Version 3 added roles, tokens,
// modes and sealed secrets; all that version 2 holds means the same in it.
const (
	formatVersion = 3
	oldestVersion = 2 // that is read, and upgraded in place
)

const (
	formatName  = "FORMAT"
	formatMagic = "sluice-journal"
)

// formatRemedy is what can be done about a file that does not say the version.
var formatRemedy = fmt.Sprintf("in a store of this version it has the line %q: write that into it", fmt.Sprintf("%s %d", formatMagic, formatVersion))

// openFormat makes sure that the folder is a store of this format, or becomes one, and locks it until the file that it
// returns is closed. It looks before it touches anything, and Badger has not been there yet.
func openFormat(dir string) (*os.File, error) {
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	path := filepath.Join(dir, formatName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := mustBeEmpty(dir); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err = lock(f); err == nil {
		err = readFormat(f, dir)
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
			return fmt.Errorf("journal: lock %s: %w", f.Name(), err)
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
func mustBeEmpty(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, lastName)); err == nil {
		return fmt.Errorf("%w: its version, %s, is missing or empty; %s", ErrDamaged, filepath.Join(dir, formatName), formatRemedy)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
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
func readFormat(f *os.File, dir string) error {
	content, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if len(content) == 0 {
		if err := mustBeEmpty(dir); err != nil {
			return err
		}
		_, err := fmt.Fprintf(f, "%s %d\n", formatMagic, formatVersion)
		if err = errors.Join(err, f.Sync(), syncDir(dir)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		return nil
	}
	word, number, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	version, err := strconv.ParseUint(number, 10, 32)
	switch {
	case word != formatMagic || err != nil || version == 0:
		return fmt.Errorf("%w: %s says %q; %s", ErrNotStore, f.Name(), content, formatRemedy)
	case version < oldestVersion:
		return fmt.Errorf("%w: %s has format %d of an unreleased version, this one reads %d to %d; begin with a new folder",
			ErrNotStore, dir, version, oldestVersion, formatVersion)
	case version > formatVersion:
		return fmt.Errorf("%w: %s has format %d, this version reads up to %d; use a newer one",
			ErrNewer, dir, version, formatVersion)
	}
	return nil
}

// upgradeFormat makes a store of an older format, which has been found readable, one of this format. The text has the same
// length in both and is far shorter than a sector: a crash leaves the old or the new one.
func upgradeFormat(f *os.File) error {
	_, err := f.WriteAt(fmt.Appendf(nil, "%s %d\n", formatMagic, formatVersion), 0)
	if err = errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("journal: upgrade %s: %w", f.Name(), err)
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
