package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// A file with a snapshot has the parts of a checkpoint as JSON, one on a line, in their order, and last a line with their
// number and a digest of all that comes before, without which the file is not whole.

// snapshotEnd is the last line of a file with a snapshot.
type snapshotEnd struct {
	Parts  int
	SHA256 string // of all lines before
}

// errNotWhole: a file ends before its last line, or has another content than it was written with.
var errNotWhole = errors.New("serve: the snapshot is not whole")

// maxSnapshotLine bounds one part: a thousand jobs of the largest size.
const maxSnapshotLine = 2 << 30

// writeSnapshot writes a file with a snapshot.
func writeSnapshot(w io.Writer, s *cluster.Snapshot) error {
	digest := sha256.New()
	end := snapshotEnd{}
	encoder := json.NewEncoder(io.MultiWriter(w, digest))
	encoder.SetEscapeHTML(false)
	for part := range s.Parts() {
		if err := encoder.Encode(part); err != nil {
			return err
		}
		end.Parts++
	}
	end.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return json.NewEncoder(w).Encode(end)
}

// ReadSnapshot reads what writeSnapshot wrote, to go on from there. The cluster of which it is went on too, and gave out
// numbers that nobody knows here: see [cluster.Restored.Forget]. The revision is taken from the present time in microseconds,
// since a cluster does not give out a million revisions a second for long.
func ReadSnapshot(r io.Reader, now cluster.Time) (*cluster.State, error) {
	state, digest, parts := cluster.NewState(), sha256.New(), 0
	var revision uint64
	var unread error // a line that is not known here, as of another version, unless the file turns out not to be whole
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<20), maxSnapshotLine)
	for lines.Scan() {
		line := lines.Bytes()
		if end, ok := endOf(line); ok {
			return state, cmp.Or(closeSnapshot(lines, end, parts, digest), unread)
		}
		_, _ = digest.Write(line) // never fails
		_, _ = digest.Write([]byte{'\n'})
		parts++
		if unread != nil {
			continue
		}
		part := new(cluster.Restored)
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(part); err != nil {
			unread = fmt.Errorf("serve: line %d of the snapshot is not one of this version: restore it with the version that wrote it: %w", parts, err)
			continue
		}
		if (part.Header != nil) != (parts == 1) {
			return nil, fmt.Errorf("%w: line %d is not in its place", errNotWhole, parts)
		}
		if h := part.Header; h != nil {
			revision = max(h.Revision+1, uint64(now)/uint64(time.Microsecond))
		}
		part.Forget(revision)
		if err := state.Apply(cluster.Record{Event: part}); err != nil {
			return nil, fmt.Errorf("serve: line %d of the snapshot: %w", parts, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: it ends after line %d", errNotWhole, parts)
}

// endOf reads a last line.
func endOf(line []byte) (end snapshotEnd, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return end, decoder.Decode(&end) == nil && end.SHA256 != ""
}

func closeSnapshot(lines *bufio.Scanner, end snapshotEnd, parts int, digest hash.Hash) error {
	switch {
	case parts == 0 || end.Parts != parts || end.SHA256 != hex.EncodeToString(digest.Sum(nil)):
		return fmt.Errorf("%w: it was changed after it was written", errNotWhole)
	case lines.Scan():
		return fmt.Errorf("%w: there is more after its last line", errNotWhole)
	}
	return lines.Err()
}
