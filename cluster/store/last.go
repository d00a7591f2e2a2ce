package store

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lastName is the file that says how far the store was durable. Badger takes damage in the middle of its log for the torn end
// of a crash and drops all that comes after, or tables when its list of them is damaged; what is missing at the end is not missed
// otherwise. The file is written after what it tells of is durable and is not synced, since a number that is too low does no harm: a
// process that is killed leaves the right one, and a machine that loses power one of some seconds before.
const lastName = "LAST"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lastLine is what the file holds: the number and its checksum, always equally long, so that each takes the place of the one before.
func lastLine(last uint64) string {
	digits := fmt.Sprintf("%020d", last)
	return fmt.Sprintf("%s %08x\n", digits, crc32.Checksum([]byte(digits), castagnoli))
}

// openLast opens the file, and returns the number in it, 0 where there is none that can be read: a damaged one is not to condemn a
// store that is sound. Earlier versions wrote no checksum.
func openLast(dir string) (*os.File, uint64, error) {
	f, err := os.OpenFile(filepath.Join(dir, lastName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	content := make([]byte, len(lastLine(0)))
	n, _ := f.ReadAt(content, 0)
	digits, sum, _ := strings.Cut(strings.TrimSpace(string(content[:n])), " ")
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || sum != "" && string(content[:n]) != lastLine(seq) {
		return f, 0, nil
	}
	return f, seq, nil
}

// Note says how far the store is durable now, by a number that grows: of the last record, or of the last write. One call at a time.
func (s *Store) Note(last uint64) {
	_, _ = s.lastFile.WriteAt([]byte(lastLine(last)), 0) // too low a number does no harm
}

// CheckLast compares how far what there is goes with how far it was durable when it was last noted; what names that which is counted.
func (s *Store) CheckLast(last uint64, what string) error {
	if last >= s.last {
		return nil
	}
	return fmt.Errorf("%w: it ends with %s %d, and %s %d was durable", ErrDamaged, what, last, what, s.last)
}
