package journal

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// checkTables looks at the ends of the tables that Badger is about to read: where one has been cut off, it takes whatever bytes are
// there for lengths, and panics in a goroutine of its own. All else it finds out by itself and says so.
func checkTables(dir string, o badger.Options) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil // there are no tables yet, or Badger says why it cannot be read
	}
	defer func() { _ = f.Close() }()
	manifest, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return nil
	}
	for id := range manifest.Tables { // the first that is found is as good as another
		if err := checkTable(filepath.Join(dir, fmt.Sprintf("%06d.sst", id))); err != nil {
			return err
		}
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
