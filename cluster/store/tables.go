package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
)

// checkTables reads the tables that Badger is about to open. Badger itself takes what is damaged in one for lengths and places, and
// panics in a goroutine of its own, or leaves out what it cannot read when it makes a new table of it.
func checkTables(dir string, o badger.Options) error {
	manifest, err := readManifest(filepath.Join(dir, badger.ManifestFilename), o)
	if err != nil {
		return nil // there are no tables yet, or Badger says why it cannot be read
	}
	for id, t := range manifest.Tables { // the first that is found is as good as another
		path := tablePath(dir, id)
		if err := checkTable(path); err != nil {
			return err
		}
		if err := checkBlocks(path, id, t.Compression); err != nil {
			return err
		}
	}
	return nil
}

// checkBlocks compares all of a table with its checksums. The lengths at its end have been checked: with wrong ones Badger would end
// the process.
func checkBlocks(path string, id uint64, compression options.CompressionType) (err error) {
	content, err := os.ReadFile(path) // of a few megabytes
	if errors.Is(err, os.ErrNotExist) {
		return nil // Badger misses it
	}
	if err != nil {
		return err
	}
	defer func() {
		if problem := recover(); problem != nil { // numbers in it that are read before they are checked
			err = fmt.Errorf("%w: %s cannot be read", ErrDamaged, filepath.Base(path))
		}
	}()
	t, err := table.OpenInMemoryTable(content, id, &table.Options{Compression: compression, ChkMode: options.OnBlockRead})
	if err == nil {
		err = t.VerifyChecksum()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, filepath.Base(path), err)
	}
	return nil
}

// checkTable looks at the end of a table: an index, its length, a checksum and its length, of four bytes each, which is how a
// table of Badger's ends. One that is not there is Badger's to miss.
func checkTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var length [4]byte
	for range 2 {
		if _, err := f.ReadAt(length[:], end-4); err != nil {
			return fmt.Errorf("%w: %s is cut off", ErrDamaged, filepath.Base(path))
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		if end -= 4 + n; n == 0 || end < 0 {
			return fmt.Errorf("%w: %s is cut off", ErrDamaged, filepath.Base(path))
		}
	}
	return nil
}
