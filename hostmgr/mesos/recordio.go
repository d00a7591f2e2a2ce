package mesos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/framing"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// maxRecord bounds one record of the event stream. All offers that a master makes at once are one event: those of 50,000 agents with ten
// attributes each are 50 MB, and 120 in JSON, so there is room for more.
const maxRecord = 512 << 20

// errFraming: the stream cannot be read any further, since nobody knows where the next record begins.
var errFraming = errors.New("mesos: the event stream is broken")

// recordReader cuts a stream into records: the length in decimal digits, a newline, and so many bytes. The reader of the
// client library is not used because a length from 2^63 on makes it panic, and because its bound of 4 MiB is less than
// one event may hold.
//
// Memory grows with what has arrived, not with what a length announces.
type recordReader struct {
	in     *bufio.Reader
	limit  int64
	record bytes.Buffer
}

var _ framing.Reader = (*recordReader)(nil)

func newRecordReader(in io.Reader) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(in, 64<<10), limit: maxRecord}
}

// ReadFrame returns the next record, which is valid until the next call. After the last one it returns io.EOF.
func (r *recordReader) ReadFrame() ([]byte, error) {
	n, err := r.readLength()
	if err != nil {
		return nil, err
	}
	if r.record.Cap() > 1<<20 { // a large event is rare; its memory is not kept
		r.record = bytes.Buffer{}
	}
	r.record.Reset()
	got, err := io.CopyN(&r.record, r.in, n)
	if err != nil {
		return nil, fmt.Errorf("%w: it ended after %d of the %d bytes of a record", errFraming, got, n)
	}
	return r.record.Bytes(), nil
}

// readLength reads the line before a record. Lines that say 0 are skipped: an empty record holds nothing.
func (r *recordReader) readLength() (int64, error) {
	for {
		var digits []byte
		for {
			b, err := r.in.ReadByte()
			switch {
			case err == io.EOF && len(digits) == 0:
				return 0, io.EOF
			case err == io.EOF:
				return 0, fmt.Errorf("%w: it ended in the length of a record", errFraming)
			case err != nil:
				return 0, fmt.Errorf("mesos: read the event stream: %w", err)
			}
			if b == '\n' {
				break
			}
			if digits = append(digits, b); len(digits) > 20 {
				return 0, fmt.Errorf("%w: %q is not the length of a record", errFraming, digits)
			}
		}
		n, err := strconv.ParseUint(string(digits), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange), err == nil && n > uint64(r.limit):
			return 0, fmt.Errorf("%w: a record of %s bytes, more than the %d that are read", errFraming, digits, r.limit)
		case err != nil:
			return 0, fmt.Errorf("%w: %q is not the length of a record", errFraming, digits)
		case n > 0:
			return int64(n), nil
		}
	}
}

// eventReader decodes the events of a stream.
type eventReader struct {
	records *recordReader
	heard   func() // is called when anything has arrived, be it a part of an event only; may be nil
	decode  encoding.Decoder
	json    bool
	last    []byte
}

func newEventReader(codec encoding.Codec, in io.Reader) *eventReader {
	r := &eventReader{json: codec.Type == codecs.MediaTypeJSON}
	r.records = newRecordReader(readerFunc(func(b []byte) (int, error) {
		n, err := in.Read(b)
		if n > 0 && r.heard != nil {
			r.heard()
		}
		return n, err
	}))
	r.decode = codec.NewDecoder(func() framing.Reader {
		return framing.ReaderFunc(func() ([]byte, error) { return r.last, nil })
	})
	return r
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// errRecord: a record is whole but makes no sense, or a part of it. The stream goes on behind it.
var errRecord = errors.New("mesos: an event makes no sense")

// next returns the next event; errRecord for one that cannot be decoded, with what offersIn makes of it; io.EOF at the end of the stream.
func (r *eventReader) next() (*scheduler.Event, error) {
	var err error
	if r.last, err = r.records.ReadFrame(); err != nil {
		return nil, err
	}
	e := new(scheduler.Event)
	err = guarded(func() error { return r.decode.Decode(e) })
	if err != nil && r.json {
		err = guarded(func() error { return decodeLeniently(r.last, e) })
	}
	if err != nil {
		return offersIn(r.last, r.json), fmt.Errorf("%w: %w", errRecord, err)
	}
	return e, nil
}

// guarded turns a panic into an error: the generated decoders index beyond the end of some malformed messages.
func guarded(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	return decode()
}
