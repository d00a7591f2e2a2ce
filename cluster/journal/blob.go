package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/sluice-scheduler/sluice/cluster/store"
)

// A blob is a byte string of any length that the store keeps under an id in chunks. A chunk's key is the id and the
// index of the chunk; its value is
//
//	checksum  4 bytes, CRC-32C of the key and of all that follows
//	chunks    4 bytes, how many chunks the blob has
//	payload   up to chunkSize bytes
//
// with all numbers big endian. The last chunk is written in a transaction of its own after the others are durable, so
// a blob whose last chunk is there is complete.

// blobKind is the first byte of a key. Kinds are stored in this order.
type blobKind byte

const (
	baseBlob  blobKind = 'b' // part of a checkpoint: seq is the snapshot's, part counts from 0
	batchBlob blobKind = 'l' // records of one Append: seq is the first record's, part is 0
	headBlob  blobKind = 'm' // which base is valid: one blob, seq and part are 0
)

// blobID names a blob. Ids of one kind are stored in the order of seq, then part.
type blobID struct {
	kind blobKind
	seq  uint64
	part uint32
}

const (
	idSize    = 1 + 8 + 4
	keySize   = idSize + 4
	countSize = 4
	chunkSize = 256 << 10
)

func (id blobID) prefix() []byte {
	key := append(make([]byte, 0, keySize), byte(id.kind))
	key = binary.BigEndian.AppendUint64(key, id.seq)
	return binary.BigEndian.AppendUint32(key, id.part)
}

func (id blobID) key(chunk uint32) []byte { return binary.BigEndian.AppendUint32(id.prefix(), chunk) }

// parseKey takes a key apart; its length must be keySize.
func parseKey(key []byte) (blobID, uint32) {
	return blobID{
		kind: blobKind(key[0]),
		seq:  binary.BigEndian.Uint64(key[1:]),
		part: binary.BigEndian.Uint32(key[9:]),
	}, binary.BigEndian.Uint32(key[idSize:])
}

func (id blobID) String() string {
	switch id.kind {
	case baseBlob:
		return fmt.Sprintf("part %d of the checkpoint at %d", id.part, id.seq)
	case batchBlob:
		return fmt.Sprintf("the batch from record %d on", id.seq)
	default:
		return "the pointer to the checkpoint"
	}
}

// chunkCount returns how many chunks a blob of that length has, at least one.
func chunkCount(length int) uint32 { return uint32(max(1, (length+chunkSize-1)/chunkSize)) }

// chunkValue returns the value of one chunk of a blob.
func chunkValue(id blobID, chunk uint32, blob []byte) []byte {
	payload := blob[min(len(blob), int(chunk)*chunkSize):min(len(blob), int(chunk+1)*chunkSize)]
	value := binary.BigEndian.AppendUint32(make([]byte, 0, countSize+len(payload)), chunkCount(len(blob)))
	return store.Seal(id.key(chunk), append(value, payload...))
}

// parseChunk checks a value and returns the number of chunks of its blob and its payload, a part of value.
func parseChunk(key, value []byte) (uint32, []byte, error) {
	id, chunk := parseKey(key)
	counted, whole := store.Unseal(key, value)
	if !whole || len(counted) < countSize {
		return 0, nil, fmt.Errorf("%w: %v: chunk %d has a wrong checksum", store.ErrDamaged, id, chunk)
	}
	total := binary.BigEndian.Uint32(counted)
	if chunk >= total {
		return 0, nil, fmt.Errorf("%w: %v: chunk %d of %d", store.ErrDamaged, id, chunk, total)
	}
	return total, counted[countSize:], nil
}

// putBlob makes a blob durable. On error it may or may not be there; if it is not, chunks of it may be.
func putBlob(db *badger.DB, id blobID, blob []byte) error {
	last := chunkCount(len(blob)) - 1
	if last > 0 {
		w := db.NewWriteBatch()
		defer w.Cancel()
		for c := range last {
			if err := w.Set(id.key(c), chunkValue(id, c, blob)); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return db.Update(func(txn *badger.Txn) error { return txn.Set(id.key(last), chunkValue(id, last, blob)) })
}

// getBlob returns a blob, nil if there is none.
func getBlob(txn *badger.Txn, id blobID) ([]byte, error) {
	var found []byte
	err := scanBlobs(txn, id.prefix(), id.prefix(), func(_ blobID, blob []byte) error {
		found = blob
		return nil
	})
	return found, err
}

// scanBlobs calls fn for each blob whose key begins with prefix, from a key on, in the order of their keys. fn may keep the blob.
func scanBlobs(txn *badger.Txn, prefix, from []byte, fn func(blobID, []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, PrefetchValues: true, PrefetchSize: 8})
	defer it.Close()
	for it.Seek(from); it.Valid(); {
		id, blob, err := readBlob(it)
		if err != nil {
			return err
		}
		if err := fn(id, blob); err != nil {
			return err
		}
	}
	return nil
}

// readBlob reads the blob at which the iterator stands and leaves the iterator behind it.
func readBlob(it *badger.Iterator) (blobID, []byte, error) {
	id, _ := parseKey(it.Item().Key())
	blob := []byte{}
	for c, total := uint32(0), uint32(1); c < total; c++ {
		if !it.Valid() || string(it.Item().Key()) != string(id.key(c)) {
			return id, nil, fmt.Errorf("%w: %v: chunk %d is missing", store.ErrDamaged, id, c)
		}
		err := it.Item().Value(func(value []byte) error {
			n, payload, err := parseChunk(it.Item().Key(), value)
			total, blob = n, append(blob, payload...)
			return err
		})
		switch {
		case errors.Is(err, store.ErrDamaged):
			return id, nil, err
		case err != nil:
			return id, nil, fmt.Errorf("%w: %v: %w", store.ErrDamaged, id, err)
		}
		it.Next()
	}
	return id, blob, nil
}

// scanIDs calls fn with every chunk's key that begins with prefix, in order.
func scanIDs(txn *badger.Txn, prefix []byte, fn func(id blobID, chunk uint32) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		id, chunk := parseKey(it.Item().Key())
		if err := fn(id, chunk); err != nil {
			return err
		}
	}
	return nil
}
