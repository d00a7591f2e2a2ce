package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// jsonText reads JSON value by value and knows where it is in the file. It holds no more of the text than the decoder does.
type jsonText struct {
	file string
	d    *json.Decoder

	r         io.Reader
	limit     int    // bytes of one value
	err       error  // of r, or of a value that is too long
	ahead     []byte // text from where the last value ended, as far as it is read
	begin     int64  // offset of ahead
	line, col int    // of ahead, from 1
	begun     bool   // the list, see more
}

func newJSON(name string, r io.Reader, limit int) *jsonText {
	t := &jsonText{file: name, r: r, limit: limit, line: 1, col: 1}
	t.d = json.NewDecoder(t)
	t.d.DisallowUnknownFields()
	return t
}

// Read implements io.Reader for the decoder, which asks for more only where a value goes on.
func (t *jsonText) Read(p []byte) (int, error) {
	if len(t.ahead) > t.limit {
		t.err = fmt.Errorf("a value is longer than %d bytes", t.limit)
		return 0, t.err
	}
	n, err := t.r.Read(p)
	if err != nil && err != io.EOF {
		t.err = err
	}
	t.ahead = append(t.ahead, p[:n]...)
	return n, err
}

// mark has what is wrong from here on be where the next value begins.
func (t *jsonText) mark() { t.pass(int(t.d.InputOffset() - t.begin)) }

func (t *jsonText) pass(n int) {
	passed := t.ahead[:n]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		t.line, t.col = t.line+bytes.Count(passed, []byte("\n")), n-last
	} else {
		t.col += n
	}
	t.ahead, t.begin = t.ahead[n:], t.begin+int64(n)
}

// place moves to the beginning of the next value and returns where that is.
func (t *jsonText) place() (line, col int) {
	t.pass(len(t.ahead) - len(bytes.TrimLeft(t.ahead, ", \t\r\n:")))
	return t.line, t.col
}

// errorf describes what is wrong with the value after the mark, unless it could not be read at all.
func (t *jsonText) errorf(format string, args ...any) error {
	err := t.err
	if err == nil {
		err = fmt.Errorf(format, args...)
	}
	line, col := t.place()
	return fmt.Errorf("trace: %s:%d:%d: %w", t.file, line, col, err)
}

// want reads a token that must be the given one.
func (t *jsonText) want(token json.Token) error {
	t.mark()
	got, err := t.d.Token()
	switch {
	case err == io.EOF:
		return t.errorf("the file ends: want %v", token)
	case err != nil:
		return t.errorf("%w", err)
	case got != token:
		return t.errorf("%v: want %v", got, token)
	}
	return nil
}

// decode reads a value of the list of that name.
func (t *jsonText) decode(list string, v any) error {
	t.mark()
	err := t.d.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return t.errorf("%s: %s is of the kind %s: want %s", list, wrong.Field, wrong.Value, kindOf(wrong.Type))
	case errors.As(err, &wrong):
		return t.errorf("%s: an element is of the kind %s: want %s", list, wrong.Value, kindOf(wrong.Type))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return t.errorf("%s: the file ends here, get the whole of it", list)
	}
	return t.errorf("%s: %s", list, strings.TrimPrefix(err.Error(), "json: "))
}

// kindOf says in JSON's words what is read into values of a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.String:
		return "string"
	}
	return "number"
}

// jsonRows reads the objects of a list, or of JSON lines: each is a row, whose fields whoever reads it fills in from the value.
type jsonRows[T any] struct {
	*jsonText
	what  string // a value is
	list  bool
	row   row
	value T // of the row
}

func newJSONRows[T any](name string, text *bufio.Reader, what string, names ...string) *jsonRows[T] {
	return &jsonRows[T]{
		jsonText: newJSON(name, text, maxLineBytes), what: what, list: firstByte(text) == '[', row: row{file: name, names: names},
	}
}

// openJSONRows is newJSONRows for a format that has no other form.
func openJSONRows[T any](name string, r io.Reader, what string, names ...string) (*jsonRows[T], error) {
	text, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	if first := firstByte(text); first != 0 && first != '{' && first != '[' {
		return nil, fmt.Errorf("trace: %s:1:1: no JSON: want an object a line", name)
	}
	return newJSONRows[T](name, text, what, names...), nil
}

// next implements rows.
func (l *jsonRows[T]) next() (*row, error) {
	more, err := l.more(l.list)
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, io.EOF
	}
	var empty T
	l.value = empty
	if err := l.decode(l.what, &l.value); err != nil {
		return nil, err
	}
	line, col := l.place()
	l.row.line, l.row.cols, l.row.err = line, slices.Repeat([]int{col}, len(l.row.names)), nil
	return &l.row, nil
}

// scalar is a number, also one in a string, as BigQuery writes whole ones, or a string; null is empty.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '"':
		return json.Unmarshal(text, (*string)(s))
	case 'n':
		return nil
	case '[', '{', 't', 'f':
		return fmt.Errorf("%s: want a number or a string", quote(string(text)))
	}
	*s = scalar(text)
	return nil
}

// more tells whether another value follows, in a list or one after the other, as in JSON lines.
func (t *jsonText) more(list bool) (bool, error) {
	if list && !t.begun {
		t.begun = true
		if err := t.want(json.Delim('[')); err != nil {
			return false, err
		}
	}
	if t.d.More() {
		return true, nil
	}
	if list {
		if err := t.want(json.Delim(']')); err != nil {
			return false, err
		}
	}
	return false, t.end()
}

// firstByte returns the first byte of a text that is no blank, 0 for none.
func firstByte(text *bufio.Reader) byte {
	head, _ := text.Peek(4096) // less of a short file
	if head = bytes.TrimLeft(head, " \t\r\n"); len(head) > 0 {
		return head[0]
	}
	return 0
}

// end wants nothing more.
func (t *jsonText) end() error {
	t.mark()
	if _, err := t.d.Token(); err != io.EOF {
		return t.errorf("text after the end")
	}
	return nil
}
