package replica

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// formatVersion grows when older versions could misread an entry or a snapshot. All members have to be of a version that reads it
// before one may write it.
const formatVersion = 1

// entryKind says what an entry of the log is.
type entryKind byte

const (
	// batchEntry is a piece of a batch of records, in the encoding of package journal.
	batchEntry entryKind = 1
	// leaderEntry says where whoever leads is reached.
	leaderEntry entryKind = 2
)

// entry is what is appended to the log at once: of a batch that is too long for that, one piece.
//
//	checksum  4 bytes, CRC-32C of all that follows
//	version   1 byte, formatVersion
//	kind      1 byte
//	term      8 bytes, the term in which it was made: in a later one it is void
//	piece     4 bytes, which piece of its batch it is, from 0
//	pieces    4 bytes, how many the batch has
//	payload   the rest
//
// with all numbers big endian.
type entry struct {
	kind          entryKind
	term          uint64
	piece, pieces uint32
	payload       []byte
}

const (
	entryHeader = 4 + 1 + 1 + 8 + 4 + 4
	// pieceSize is short enough that sending one holds up nobody's heartbeat.
	pieceSize = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pieces cuts a batch into entries.
func pieces(term uint64, batch []byte) (all []entry) {
	n := max(1, (len(batch)+pieceSize-1)/pieceSize)
	for i := range n {
		all = append(all, entry{
			kind: batchEntry, term: term, piece: uint32(i), pieces: uint32(n),
			payload: batch[i*pieceSize : min(len(batch), (i+1)*pieceSize)],
		})
	}
	return all
}

func (e entry) encode() []byte {
	b := make([]byte, 4, entryHeader+len(e.payload))
	b = append(b, formatVersion, byte(e.kind))
	b = binary.BigEndian.AppendUint64(b, e.term)
	b = binary.BigEndian.AppendUint32(b, e.piece)
	b = binary.BigEndian.AppendUint32(b, e.pieces)
	b = append(b, e.payload...)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// decodeEntry reads what encode wrote. The payload is a part of b.
func decodeEntry(b []byte) (entry, error) {
	if len(b) < entryHeader || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return entry{}, fmt.Errorf("%w: an entry of the log has a wrong checksum", store.ErrDamaged)
	}
	e := entry{
		kind: entryKind(b[5]), term: binary.BigEndian.Uint64(b[6:]),
		piece: binary.BigEndian.Uint32(b[14:]), pieces: binary.BigEndian.Uint32(b[18:]), payload: b[entryHeader:],
	}
	switch {
	case b[4] > formatVersion || e.kind > leaderEntry:
		return entry{}, fmt.Errorf("%w: an entry of format %d and kind %d", store.ErrNewer, b[4], e.kind)
	case b[4] == 0 || e.kind == 0 || e.piece >= e.pieces:
		return entry{}, fmt.Errorf("%w: an entry of format %d and kind %d, piece %d of %d", store.ErrDamaged, b[4], e.kind, e.piece, e.pieces)
	}
	return e, nil
}
