package journal

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// Limits of what is encoded and decoded. They are far above what the API accepts; an event beyond them is refused when
// it is appended rather than found unreadable at the next start.
const (
	maxNesting  = 1000
	maxElements = 1 << 24
)

var (
	encoding = must(func() (cbor.UserBufferEncMode, error) { return cbor.CoreDetEncOptions().UserBufferEncMode() }())
	decoding = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		UTF8:              cbor.UTF8DecodeInvalid, // a Go string may hold any bytes, and each must come back as it was
		MaxNestedLevels:   maxNesting,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       maxElements,
	}.DecMode())

	kindTypes, kindNumbers = kinds()
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

// kinds returns the type of event for each kind's number, nil for none, and the number for each type.
func kinds() ([]reflect.Type, map[reflect.Type]uint64) {
	var types []reflect.Type
	numbers := map[reflect.Type]uint64{}
	for i, e := range cluster.EventKinds() {
		types = append(types, nil)
		if e != nil {
			types[i] = reflect.TypeOf(e).Elem()
			numbers[types[i]] = uint64(i)
		}
	}
	return types, numbers
}

// Encode returns the stored form of records with consecutive numbers: what one Append stores. Equal records have equal
// forms, so that a digest of them names a history.
func Encode(records []cluster.Record) ([]byte, error) {
	if len(records) == 0 {
		return nil, nil
	}
	return encodeBatch(records)
}

// Decode reads what Encode wrote; there is at least one record. It fails with store.ErrDamaged or store.ErrNewer. The records are fresh: the caller
// may keep them.
func Decode(blob []byte) ([]cluster.Record, error) { return decodeBatch(blob) }

// encodeBatch returns the stored form of records with consecutive numbers; there is at least one.
func encodeBatch(records []cluster.Record) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(64 * len(records)) // about what each takes
	err := errors.Join(encoding.MarshalToBuffer(records[0].Seq, &b), encoding.MarshalToBuffer(uint64(len(records)), &b))
	var at []byte // that of most records is the same
	for i := 0; i < len(records) && err == nil; i++ {
		r := &records[i]
		if i == 0 || r.At != records[i-1].At {
			if at, err = encoding.Marshal(int64(r.At)); err != nil {
				return nil, fmt.Errorf("journal: record %d: %w", r.Seq, err)
			}
		}
		b.Write(at)
		err = encodeEvent(&b, r)
	}
	return b.Bytes(), err
}

// encodeEvent appends the number of the event's kind and the event.
func encodeEvent(b *bytes.Buffer, r *cluster.Record) error {
	v := reflect.ValueOf(r.Event)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("journal: record %d has no event", r.Seq)
	}
	kind, ok := kindNumbers[v.Type().Elem()]
	if !ok {
		return fmt.Errorf("journal: record %d: %T is not a kind of event that is stored", r.Seq, r.Event)
	}
	if err := encoding.MarshalToBuffer(kind, b); err != nil {
		return fmt.Errorf("journal: record %d: %w", r.Seq, err)
	}
	start := b.Len()
	if err := encoding.MarshalToBuffer(r.Event, b); err != nil {
		return fmt.Errorf("journal: record %d, %T: %w", r.Seq, r.Event, err)
	}
	event := b.Bytes()[start:]
	if len(event) <= maxNesting {
		return nil // a level of nesting and an element take a byte each at least: it is within the limits
	}
	if err := decoding.Wellformed(event); err != nil {
		return fmt.Errorf("journal: record %d, %T, could not be read back: %w", r.Seq, r.Event, err)
	}
	return nil
}

// decodeBatch reads what encodeBatch wrote.
func decodeBatch(blob []byte) ([]cluster.Record, error) {
	first, count, rest, err := decodeHeader(blob)
	if err != nil {
		return nil, err
	}
	records := make([]cluster.Record, count)
	for i := range records {
		records[i].Seq = first + uint64(i)
		if rest, err = decodeRecord(rest, &records[i]); err != nil {
			return nil, fmt.Errorf("record %d: %w", records[i].Seq, err)
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after record %d", store.ErrDamaged, len(rest), records[count-1].Seq)
	}
	return records, nil
}

func decodeRecord(data []byte, r *cluster.Record) ([]byte, error) {
	var at int64
	var kind uint64
	data, err := decodeTwo(data, &at, &kind)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	if kind >= uint64(len(kindTypes)) {
		return nil, fmt.Errorf("%w: it holds events of kind %d", store.ErrNewer, kind)
	}
	if kindTypes[kind] == nil {
		return nil, fmt.Errorf("%w: there are no events of kind %d", store.ErrDamaged, kind)
	}
	event := reflect.New(kindTypes[kind])
	data, err = decoding.UnmarshalFirst(data, event.Interface())
	var unknown *cbor.UnknownFieldError
	switch {
	case errors.As(err, &unknown):
		return nil, fmt.Errorf("%w: it holds a %v with a field that is not known here", store.ErrNewer, kindTypes[kind])
	case err != nil:
		return nil, fmt.Errorf("%w: %v: %w", store.ErrDamaged, kindTypes[kind], err)
	}
	r.At, r.Event = cluster.Time(at), event.Interface().(cluster.Event)
	return data, nil
}

// decodeHeader returns the number of a batch's first record, how many there are, and the rest, which holds them.
func decodeHeader(blob []byte) (first, count uint64, rest []byte, err error) {
	rest, err = decodeTwo(blob, &first, &count)
	if err == nil && (count == 0 || count > uint64(len(rest)) || first+count < first) {
		err = fmt.Errorf("%d records from %d on in %d bytes", count, first, len(rest))
	}
	if err != nil {
		return 0, 0, nil, fmt.Errorf("%w: a batch without a header: %w", store.ErrDamaged, err)
	}
	return first, count, rest, nil
}

func decodeTwo(data []byte, a, b any) ([]byte, error) {
	data, err := decoding.UnmarshalFirst(data, a)
	if err != nil {
		return nil, err
	}
	return decoding.UnmarshalFirst(data, b)
}

// batchEnd returns the sequence number of the last record of a batch.
func batchEnd(blob []byte) (uint64, error) {
	first, count, _, err := decodeHeader(blob)
	return first + count - 1, err
}
