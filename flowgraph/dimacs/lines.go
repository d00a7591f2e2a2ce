package dimacs

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrFormat is wrapped by every error that a malformed input causes; its text
// gives the line and the reason.
var ErrFormat = errors.New("dimacs: malformed input")

// maxLine is the longest line accepted, comments included.
const maxLine = 1 << 20

// lines splits an input, plain or gzip, into lines and fields.
type lines struct {
	scan   *bufio.Scanner
	in     *failing
	number int
	fields [][]byte
}

// failing notes whether reading has failed.
type failing struct {
	io.Reader
	failed bool
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.failed = err != nil && !errors.Is(err, io.EOF)
	return n, err
}

func newLines(r io.Reader) (*lines, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip header: %w", ErrFormat, err)
		}
		buffered = bufio.NewReaderSize(unzip, 1<<16)
	}
	if mark, _ := buffered.Peek(3); string(mark) == "\ufeff" { // of programs that write UTF-8 so
		_, _ = buffered.Discard(len(mark))
	}
	l := &lines{in: &failing{Reader: buffered}}
	l.scan = bufio.NewScanner(l.in)
	l.scan.Buffer(make([]byte, 0, 1<<16), maxLine)
	l.scan.Split(l.line)
	return l, nil
}

// line is [bufio.ScanLines], but what was left of a line when reading failed is none.
func (l *lines) line(data []byte, atEOF bool) (int, []byte, error) {
	return bufio.ScanLines(data, atEOF && !l.in.failed)
}

// next moves to the next line that has fields; false at the end or on an error.
func (l *lines) next() bool {
	for l.scan.Scan() {
		l.number++
		l.split(l.scan.Bytes())
		if len(l.fields) > 0 {
			return true
		}
	}
	return false
}

func (l *lines) split(line []byte) {
	l.fields = l.fields[:0]
	start := -1
	for i, c := range line {
		blank := c == ' ' || c == '\t' || c == '\r'
		if blank && start >= 0 {
			l.fields = append(l.fields, line[start:i])
			start = -1
		} else if !blank && start < 0 {
			start = i
		}
	}
	if start >= 0 {
		l.fields = append(l.fields, line[start:])
	}
}

// err returns the error that ended the input, if any.
func (l *lines) err() error {
	err := l.scan.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: line %d: longer than %d bytes", ErrFormat, l.number+1, maxLine)
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(flate.CorruptInputError)):
		return fmt.Errorf("%w: line %d: damaged gzip: %w", ErrFormat, l.number+1, err)
	}
	return fmt.Errorf("dimacs: line %d: %w", l.number+1, err)
}

func (l *lines) fail(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrFormat, l.number, fmt.Sprintf(format, args...))
}

// want checks that the line has exactly the named fields after its letter.
func (l *lines) want(names ...string) error {
	if len(l.fields)-1 != len(names) {
		return l.fail("%q line has %d fields, want %d: %v", l.fields[0], len(l.fields)-1, len(names), names)
	}
	return nil
}

// integer reads field i as a 64-bit number.
func (l *lines) integer(i int, name string) (int64, error) {
	f := l.fields[i]
	digits := f
	negative := f[0] == '-'
	if negative || f[0] == '+' {
		digits = f[1:]
	}
	if len(digits) == 0 {
		return 0, l.fail("%s %q is not an integer", name, f)
	}
	var x uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, l.fail("%s %q is not an integer", name, f)
		}
		if x > (math.MaxUint64-9)/10 {
			return 0, l.fail("%s %q does not fit in 64 bits", name, f)
		}
		x = x*10 + uint64(c-'0')
	}
	switch {
	case negative && x <= 1<<63:
		return -int64(x), nil
	case !negative && x <= math.MaxInt64:
		return int64(x), nil
	}
	return 0, l.fail("%s %q does not fit in 64 bits", name, f)
}

// integers reads all fields after the letter into the targets.
func (l *lines) integers(names []string, targets ...*int64) error {
	if err := l.want(names...); err != nil {
		return err
	}
	for i, t := range targets {
		x, err := l.integer(i+1, names[i])
		switch {
		case err != nil && names[i] == "upper": // as 1e30 or inf
			return fmt.Errorf("%w: -1 stands for none", err)
		case err != nil:
			return err
		}
		*t = x
	}
	return nil
}
