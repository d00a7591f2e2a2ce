package hostmgr

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ClusterStore remembers which cluster a shard serves, as long as its driver remembers runs.
type ClusterStore interface {
	// ClusterID returns the id last set, "" if none was.
	ClusterID() (string, error)
	// SetClusterID makes the id durable.
	SetClusterID(id string) error
}

// errClusterStore: the store failed; without it, runs of two clusters could be mixed.
var errClusterStore = errors.New("hostmgr: remember the cluster")

// ClusterFile is a ClusterStore in a file of that path, whose folder exists.
type ClusterFile string

var _ ClusterStore = ClusterFile("")

// ClusterID implements ClusterStore.
func (f ClusterFile) ClusterID() (string, error) {
	content, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errClusterStore, err)
	}
	id := strings.TrimSpace(string(content))
	if id == "" {
		return "", fmt.Errorf("%w: %s is empty; write the id of the cluster that the runs belong to into it", errClusterStore, string(f))
	}
	return id, nil
}

// SetClusterID implements ClusterStore.
func (f ClusterFile) SetClusterID(id string) error {
	if err := writeDurably(string(f), id+"\n"); err != nil {
		return fmt.Errorf("%w: %w", errClusterStore, err)
	}
	return nil
}

// writeDurably replaces a file: after a crash it has the old or the new content.
func writeDurably(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// inMemory is a ClusterStore that lasts as long as the process.
type inMemory struct{ id string }

func (m *inMemory) ClusterID() (string, error) { return m.id, nil }

func (m *inMemory) SetClusterID(id string) error {
	m.id = id
	return nil
}
