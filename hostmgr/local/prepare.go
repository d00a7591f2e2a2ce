//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// prepare makes the volumes and brings the files that the task wants. It returns early if the run is killed.
func (s *supervisor) prepare() error {
	for i := range s.launch.Volumes {
		if err := s.launch.Volumes[i].attach(s.launch.owners()); err != nil {
			return err
		}
	}
	items := s.launch.fetches()
	if len(items) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	done := false
	go func() {
		problem := fetchAll(ctx, filepath.Join(s.dir, workFolder), items)
		s.post(func() { err, done = problem, true })
	}()
	s.until(func() bool { return done || s.killed })
	if err == nil && !s.killed {
		err = s.giveFetched()
	}
	return err
}

// fetches lists what all processes want.
func (l *launchRecord) fetches() []cluster.Fetch {
	var all []cluster.Fetch
	for _, p := range slices.Concat(l.Launch.Task.Init, l.Launch.Task.Processes) {
		all = append(all, p.Fetch...)
	}
	return all
}

// giveFetched lets the users of the task change what was fetched for them.
func (s *supervisor) giveFetched() error {
	owners := s.launch.owners()
	if len(owners) == 0 {
		return nil
	}
	return filepath.WalkDir(filepath.Join(s.dir, workFolder), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Lchown(path, int(owners[0].UID), int(owners[0].GID))
	})
}

// attach makes the folder of a volume where that is called for, and shows it to the task.
func (v *volumeRecord) attach(owners []credential) error {
	if _, err := os.Stat(v.Source); v.Make && os.IsNotExist(err) {
		if err := os.MkdirAll(v.Source, 0o700); err != nil {
			return fmt.Errorf("local: make volume %s: %w", v.Source, err)
		}
		if len(owners) > 0 {
			if err := os.Chmod(filepath.Dir(v.Source), 0o711); err != nil { // to be passed through
				return fmt.Errorf("local: make volume %s: %w", v.Source, err)
			}
		}
		if err := giveTo(v.Source, owners); err != nil {
			return fmt.Errorf("local: make volume %s: %w", v.Source, err)
		}
	}
	if info, err := os.Stat(v.Source); err != nil || !info.IsDir() {
		return fmt.Errorf("local: volume %s does not exist on this host or is not a folder", v.Source)
	}
	for _, folder := range v.Folders {
		if err := v.makeFolder(folder, owners); err != nil {
			return fmt.Errorf("local: make a folder in volume %s: %w", v.Source, err)
		}
	}
	if v.Link == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(v.Link), 0o755); err != nil {
		return fmt.Errorf("local: mount a volume: %w", err)
	}
	if err := os.Symlink(v.Source, v.Link); err != nil {
		return fmt.Errorf("local: mount a volume: %w", err)
	}
	return nil
}

// makeFolder makes a folder in the volume, with what leads to it, and gives what it has made to the users. What a task of
// before has put there leads to nothing outside.
func (v *volumeRecord) makeFolder(folder string, owners []credential) error {
	root, err := os.OpenRoot(v.Source)
	if err != nil {
		return err
	}
	defer closeRoot(root)
	path := ""
	for part := range strings.SplitSeq(filepath.Clean(folder), string(filepath.Separator)) {
		path = filepath.Join(path, part)
		err := root.Mkdir(path, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil && len(owners) > 0 {
			err = root.Lchown(path, int(owners[0].UID), int(owners[0].GID))
		}
		if err == nil && len(owners) > 1 {
			err = root.Chmod(path, 0o777|os.ModeSticky)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
