package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// MANIFEST is Badger's list of its tables: eight bytes of magic, then sets of changes, each with its length and its checksum before it, of four
// bytes.
const (
	manifestMagic  = 8
	manifestHeader = 4 + 4
)

// undoChanges removes from MANIFEST what Badger wrote there and did not do. Where it cannot make a set of changes durable it removes the tables
// that the set adds, and goes on with those that the set takes away. But the set stays in the file: after the next start the former would be
// missing, and the latter would be removed. What else could be the reason that a table is missing is damage, which is found out by what is
// missing then of what the store holds, or leaves MANIFEST as it is.
func undoChanges(dir string, o badger.Options) error {
	path := filepath.Join(dir, badger.ManifestFilename)
	tables, err := listedTables(path, o)
	if err != nil {
		return nil // there are no tables yet, or Badger says why it cannot be read
	}
	there := func(id uint64) bool {
		_, err := os.Stat(tablePath(dir, id))
		return !errors.Is(err, os.ErrNotExist)
	}
	missing := slices.DeleteFunc(slices.Clone(tables), there)
	if len(missing) == 0 {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kept := content[:manifestMagic:manifestMagic]
	for rest := content[manifestMagic:]; len(rest) >= manifestHeader; {
		n := manifestHeader + int(binary.BigEndian.Uint32(rest))
		if n > len(rest) {
			break // the torn end of a crash
		}
		var set pb.ManifestChangeSet
		if err := proto.Unmarshal(rest[manifestHeader:n], &set); err != nil {
			return err
		}
		if !slices.ContainsFunc(set.Changes, func(c *pb.ManifestChange) bool {
			return c.Op == pb.ManifestChange_CREATE && slices.Contains(missing, c.Id)
		}) {
			kept = append(kept, rest[:n]...)
		}
		rest = rest[n:]
	}
	repaired := path + "-REPAIRED"
	if err := writeSynced(repaired, kept); err != nil {
		return err
	}
	after, err := listedTables(repaired, o)
	wrong := func(id uint64) bool { return there(id) != slices.Contains(after, id) }
	if err != nil || slices.ContainsFunc(slices.Concat(tables, after), wrong) {
		return os.Remove(repaired)
	}
	return errors.Join(os.Rename(repaired, path), syncDir(dir))
}

// listedTables returns the numbers of the tables that a MANIFEST lists.
func listedTables(path string, o badger.Options) (ids []uint64, err error) {
	manifest, err := readManifest(path, o)
	for id := range manifest.Tables {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, err
}

func readManifest(path string, o badger.Options) (badger.Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return badger.Manifest{}, err
	}
	defer func() { _ = f.Close() }()
	manifest, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	return manifest, err
}

// writeSynced writes a file, durably but for its name.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func tablePath(dir string, id uint64) string { return filepath.Join(dir, fmt.Sprintf("%06d.sst", id)) }
