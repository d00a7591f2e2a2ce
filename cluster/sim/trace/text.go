package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Limits of what is read. They keep what a damaged file can cost bounded, and sums of amounts and times exact.
const (
	maxLineBytes = 4 << 20 // a job of cluster.MaxInstances tasks, with a run time for each, is in one
	maxRows      = 20_000_000
	maxSeconds   = 1e9 // about 31 years
)

// mark is the byte-order mark.
const mark = "\ufeff"

// decompress returns the text behind r, which may be gzipped: the content decides, not the name. A byte-order mark at
// the beginning of the text is dropped.
func decompress(name string, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if head, err := in.Peek(2); err == nil && bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("trace: %s: %w", name, badGzip(err))
		}
		z.Multistream(false)
		in = bufio.NewReaderSize(&unzipped{z, in}, 64<<10)
	}
	if head, err := in.Peek(len(mark)); err == nil && string(head) == mark {
		_, _ = in.Discard(len(mark))
	}
	head, _ := in.Peek(262) // less of a short file
	for _, f := range foreign {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return nil, fmt.Errorf("trace: %s: is %s: want text, plain or gzipped once", name, f.what)
		}
	}
	return in, nil
}

// unzipped is what a gzipped file holds: its members, one after the other. Zeros after a member, as tar and copies of whole blocks leave
// them, are passed over: each member says that it is whole. Errors say that the file is not.
type unzipped struct {
	*gzip.Reader
	in *bufio.Reader
}

func (u *unzipped) Read(p []byte) (int, error) {
	for {
		n, err := u.Reader.Read(p)
		switch {
		case err == nil, n > 0:
			return n, nil
		case err != io.EOF:
			return 0, badGzip(err)
		}
		if err := u.next(); err != nil {
			return 0, err
		}
	}
}

// next goes on to the next member.
func (u *unzipped) next() error {
	b, err := u.in.ReadByte()
	for err == nil && b == 0 {
		b, err = u.in.ReadByte()
	}
	if err != nil {
		return err
	}
	if b != 0x1f {
		return errors.New("what follows a gzipped part is not gzipped: gzip all of the parts, or none")
	}
	if err := errors.Join(u.in.UnreadByte(), u.Reset(u.in)); err != nil {
		return badGzip(err)
	}
	u.Multistream(false)
	return nil
}

func badGzip(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the gzipped file is cut off, get the whole of it: %w", err)
	}
	return fmt.Errorf("the gzipped file is damaged, get it again: %w", err)
}

// foreign are the beginnings of what is no text, though there may be a trace inside.
var foreign = []struct {
	at          int
	magic, what string
}{
	{0, "\x1f\x8b", "gzipped twice"},
	{0, "\x28\xb5\x2f\xfd", "compressed by zstd"},
	{0, "\xfd7zXZ\x00", "compressed by xz"},
	{0, "BZh", "compressed by bzip2"},
	{0, "\x1f\x9d", "compressed by compress"},
	{0, "\x04\x22\x4d\x18", "compressed by lz4"},
	{0, "PK\x03\x04", "a zip archive"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
	{257, "ustar", "a tar archive"},
	{0, "\xff\xfe", "encoded in UTF-16"},
	{0, "\xfe\xff", "encoded in UTF-16"},
	{0, "PAR1", "a Parquet file"},
	{0, "version https://git-lfs.github.com/", "the pointer of Git LFS to a file that `git lfs pull` gets"},
}

// row is one line of a file, split into fields.
type row struct {
	file   string
	line   int      // from 1
	fields []string // valid until the next row is read; clone what is kept
	cols   []int    // column of the first byte of each field, from 1
	names  []string // what the fields mean
	err    error    // the first complaint

	leftOut int // rows so far that record no job to replay
}

// fail keeps the first complaint about field i.
func (r *row) fail(i int, format string, args ...any) {
	if r.err != nil {
		return
	}
	name := "field " + strconv.Itoa(i+1)
	if i < len(r.names) && r.names[i] != "" {
		name = r.names[i]
	}
	r.err = fmt.Errorf("trace: %s:%d:%d: %s %s", r.file, r.line, r.cols[i], name, fmt.Sprintf(format, args...))
}

// errorf describes what is wrong with the row as a whole.
func (r *row) errorf(format string, args ...any) error {
	return fmt.Errorf("trace: %s:%d:1: %s", r.file, r.line, fmt.Sprintf(format, args...))
}

// integer returns field i, a whole number from lo to hi.
func (r *row) integer(i int, lo, hi int64) int64 { return r.asInteger(i, r.fields[i], lo, hi) }

// whole returns field i, a whole number from lo to hi that may end with ".0", as who takes all numbers for fractions writes it.
func (r *row) whole(i int, lo, hi int64) int64 {
	return r.asInteger(i, strings.TrimSuffix(r.fields[i], ".0"), lo, hi)
}

func (r *row) asInteger(i int, digits string, lo, hi int64) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < lo || n > hi {
		r.fail(i, "is %s: want a whole number from %d to %d", quote(r.fields[i]), lo, hi)
		return lo
	}
	return n
}

// number returns field i, a finite number from lo to hi.
func (r *row) number(i int, lo, hi float64) float64 {
	v, err := strconv.ParseFloat(r.fields[i], 64)
	if err != nil || math.IsNaN(v) || v < lo || v > hi || strings.ContainsAny(r.fields[i], "_xX") { // of Go's own notation
		r.fail(i, "is %s: want a number from %v to %v", quote(r.fields[i]), lo, hi)
		return lo
	}
	return v
}

// stated returns field i, a number from lo to hi, or 0 where it is empty.
func (r *row) stated(i int, lo, hi float64) float64 {
	if r.fields[i] == "" {
		return 0
	}
	return r.number(i, lo, hi)
}

// ifStated returns field i, a whole number from 0 to hi, or 0 where it is empty.
func (r *row) ifStated(i int, hi int64) int64 {
	if r.fields[i] == "" {
		return 0
	}
	return r.integer(i, 0, hi)
}

// seconds returns field i, a time or a duration of 0 or more seconds.
func (r *row) seconds(i int) time.Duration { return toDuration(r.number(i, 0, maxSeconds)) }

// localTime returns field i, a date and a time of day, read as if it were UTC. Where the field is empty it is not known.
func (r *row) localTime(i int) (at time.Duration, known bool) {
	s := r.fields[i]
	if s == "" {
		return 0, false
	}
	t, err := time.Parse(time.DateTime, s)
	if err != nil || t.Year() < 2000 || t.Year() > 2100 {
		r.fail(i, "is %s: want year-month-day hour:minute:second", quote(s))
	}
	return time.Duration(t.Unix()) * time.Second, true
}

// text returns a copy of field i, which must not be empty.
func (r *row) text(i int) string {
	s := r.fields[i]
	if s == "" {
		r.fail(i, "is empty")
	}
	return strings.Clone(s)
}

// hostName returns a copy of field i, which must be fit to name a host.
func (r *row) hostName(i int) string {
	s := r.text(i)
	if r.err == nil && !isHostName(s) {
		r.fail(i, "is %s: want at most %d characters of letters, digits, '-', '_', '.' and ':'", quote(s), maxName)
	}
	return s
}

// jobName returns field i after the prefix, in lower case; it must be fit to name a job.
func (r *row) jobName(prefix string, i int) cluster.JobID {
	s := prefix + strings.ToLower(r.text(i))
	if r.err == nil && !isJobName(s) {
		r.fail(i, "is %s: want at most %d characters of letters, digits, '-', '_' and '.', beginning and ending with a letter or a digit",
			quote(r.fields[i]), maxName-len(prefix))
	}
	return cluster.JobID(s)
}

// poolNamed returns the pool below the root that field i names.
func (r *row) poolNamed(i int, name string) cluster.PoolPath {
	if !isPoolName(name) {
		r.fail(i, "is %s: want lower-case letters and digits", quote(r.fields[i]))
	}
	return cluster.RootPool + cluster.PoolPath("/"+name)
}

// maxName bounds names of jobs and hosts; the API allows jobs 100, of which a copy of a job needs some.
const maxName = 80

func isHostName(s string) bool {
	return s != "" && len(s) <= maxName && consists(strings.ToLower(s), "-_.:")
}

func isJobName(s string) bool {
	return s != "" && len(s) <= maxName && consists(s, "-_.") && isAlnum(s[0]) && isAlnum(s[len(s)-1])
}

// isPoolName reports whether s may be one part of the path of a pool.
func isPoolName(s string) bool { return s != "" && len(s) <= 63 && consists(s, "-_") && isAlnum(s[0]) }

func consists(s, others string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// quote shows a field in an error, shortened.
func quote(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "…"
	}
	return strconv.Quote(s)
}

// toDuration rounds seconds to the nearest nanosecond, and what is more than nothing to one at least: 0 may mean for ever.
func toDuration(seconds float64) time.Duration {
	if seconds*1e9 >= math.MaxInt64 {
		return math.MaxInt64
	}
	d := time.Duration(math.Round(seconds * 1e9))
	if seconds > 0 {
		d = max(d, time.Nanosecond)
	}
	return d
}

// rowNumbers are those in the first column of a table. They rise by one, from where the first row begins: the file may be a later part.
type rowNumbers struct {
	begun bool
	next  int64
}

func (n *rowNumbers) check(r *row) {
	number := r.integer(0, 0, math.MaxInt64-maxRows)
	if n.begun && number != n.next {
		r.fail(0, "is %s: want %d, rows are numbered", quote(r.fields[0]), n.next)
	}
	n.begun, n.next = true, number+1
}

// rows yields the lines of a file. The row is reused by the next call; io.EOF ends it.
type rows interface{ next() (*row, error) }

// table reads separated values: RFC 4180 quoting, and the same number of fields in every row.
type table struct {
	row     row
	r       *csv.Reader
	rows    int
	columns [][]string // of a file that need not have a header, see openColumns
	head    []string   // the header, where there is one
	order   []int      // where in the file each column of the row is; nil: in its order
}

// openTable reads name from r. Without headers the number of columns is that of the first row, and the names of fields
// are numbers until someone sets them; with headers the first row must be one of them.
func openTable(name string, r io.Reader, comma rune, headers ...[]string) (*table, error) {
	text, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	t := &table{row: row{file: name}, r: csv.NewReader(&lineGuard{r: text})}
	t.r.Comma, t.r.ReuseRecord = comma, true
	if len(headers) == 0 {
		return t, nil
	}
	return t, t.header(headers...)
}

// header reads the first row, which must be one of the headers. The file may have its columns in another order.
func (t *table) header(headers ...[]string) error {
	want := headers[0]
	got, err := t.next()
	if err == io.EOF {
		return fmt.Errorf("trace: %s:1:1: the file is empty: want the header %s", t.row.file, strings.Join(want, string(t.r.Comma)))
	}
	if err != nil {
		return err
	}
	for _, h := range headers {
		if order := arrange(got.fields, h); order != nil {
			t.row.names, t.head, t.order = h, slices.Clone(got.fields), order
			return nil
		}
		if len(h) == len(got.fields) && (len(h) != len(want) || h[0] == got.fields[0]) { // the one that is probably meant
			want = h
		}
	}
	return got.badHeader(want)
}

// arrange returns where each of the columns is in a header that has just these, else nil.
func arrange(header, columns []string) []int {
	order := make([]int, len(columns))
	for i, c := range columns {
		order[i] = slices.Index(header, c)
	}
	if len(header) != len(columns) || slices.Contains(order, -1) {
		return nil
	}
	return order
}

// openColumns is openTable for a table that is published without a header, though copies of it may have one. Its rows have the columns
// of one of some lists: the first row tells of which.
func openColumns(name string, r io.Reader, comma rune, columns ...[]string) (*table, error) {
	t, err := openTable(name, r, comma)
	if err == nil {
		t.columns = columns
	}
	return t, err
}

// choose finds out what the columns of the first row are.
func (t *table) choose(fields []string) error {
	var counts []string
	line, _ := t.r.FieldPos(0)
	for _, c := range t.columns {
		if len(c) == len(fields) {
			t.row.names = c
			return nil
		}
		counts = append(counts, strconv.Itoa(len(c)))
	}
	return fmt.Errorf("trace: %s:%d:1: %d fields: want %s", t.row.file, line, len(fields), strings.Join(counts, " or "))
}

// isHeader tells whether a row has the names of columns, if there are any. A part may begin with a byte-order mark.
func isHeader(fields, names []string) bool {
	return len(names) > 0 && len(fields) == len(names) && strings.TrimPrefix(fields[0], mark) == names[0] && slices.Equal(fields[1:], names[1:])
}

// isHeader tells whether a row is the header: parts that have one each became one file, or a table has one that needs none.
func (t *table) isHeader(fields []string) bool {
	return isHeader(fields, t.head) || slices.ContainsFunc(t.columns, func(names []string) bool { return isHeader(fields, names) })
}

// badHeader says where the header r differs from the wanted one.
func (r *row) badHeader(want []string) error {
	for i, name := range want {
		if i >= len(r.fields) {
			return fmt.Errorf("trace: %s:%d:%d: the header ends here: want column %q next", r.file, r.line, r.cols[i-1], name)
		}
		if r.fields[i] != name {
			return fmt.Errorf("trace: %s:%d:%d: column %d of the header is %s: want %q",
				r.file, r.line, r.cols[i], i+1, quote(r.fields[i]), name)
		}
	}
	return fmt.Errorf("trace: %s:%d:%d: the header goes on with %s: want %d columns",
		r.file, r.line, r.cols[len(want)], quote(r.fields[len(want)]), len(want))
}

// next implements rows.
func (t *table) next() (*row, error) {
	fields, err := t.r.Read()
	for err == nil && t.isHeader(fields) {
		fields, err = t.r.Read()
	}
	if err == io.EOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, t.explain(fields, err)
	}
	if t.rows++; t.rows > maxRows {
		return nil, t.row.errorf("more than %d rows", maxRows)
	}
	if t.columns != nil && t.rows == 1 {
		if err := t.choose(fields); err != nil {
			return nil, err
		}
	}
	t.row.line, _ = t.r.FieldPos(0)
	t.row.fields, t.row.cols, t.row.err = t.row.fields[:0], t.row.cols[:0], nil
	for i := range fields {
		if t.order != nil {
			i = t.order[i]
		}
		_, col := t.r.FieldPos(i)
		t.row.fields, t.row.cols = append(t.row.fields, fields[i]), append(t.row.cols, col)
	}
	return &t.row, nil
}

func (t *table) explain(fields []string, err error) error {
	var p *csv.ParseError
	switch {
	case !errors.As(err, &p):
		return fmt.Errorf("trace: %s:%d:1: %w", t.row.file, t.row.line+1, err)
	case errors.Is(p.Err, csv.ErrFieldCount):
		return fmt.Errorf("trace: %s:%d:1: %d fields: want %d", t.row.file, p.StartLine, len(fields), t.r.FieldsPerRecord)
	default:
		return fmt.Errorf("trace: %s:%d:%d: %w", t.row.file, p.Line, p.Column, p.Err)
	}
}

// lineGuard fails when a line is too long to be one, before it is all in memory.
type lineGuard struct {
	r    io.Reader
	line int
}

func (g *lineGuard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p[:min(len(p), maxLineBytes)])
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		g.line = n - i - 1
	} else {
		g.line += n
	}
	if g.line > maxLineBytes {
		return 0, errLongLine
	}
	return n, err
}

var errLongLine = fmt.Errorf("a line is longer than %d bytes", maxLineBytes)

// blanks reads fields separated by spaces and tabs. Empty lines and lines that begin with the comment character, if
// there is one, are skipped.
type blanks struct {
	row     row
	r       *bufio.Reader
	comment byte
	buf     []byte
}

func newBlanks(name string, r io.Reader, comment byte, names ...string) (*blanks, error) {
	text, err := decompress(name, r)
	if err != nil {
		return nil, err
	}
	return &blanks{row: row{file: name, names: names}, r: text, comment: comment}, nil
}

// next implements rows.
func (b *blanks) next() (*row, error) {
	for {
		line, err := b.readLine()
		if err != nil {
			return nil, err
		}
		b.split(string(line))
		if len(b.row.fields) == 0 || b.comment != 0 && b.row.fields[0][0] == b.comment {
			continue
		}
		return &b.row, nil
	}
}

func (b *blanks) readLine() ([]byte, error) {
	b.buf = b.buf[:0]
	b.row.line++
	for {
		part, err := b.r.ReadSlice('\n')
		b.buf = append(b.buf, part...)
		switch {
		case len(b.buf) > maxLineBytes:
			return nil, b.row.errorf("%v", errLongLine)
		case b.row.line > maxRows:
			return nil, b.row.errorf("more than %d rows", maxRows)
		case err == nil, err == io.EOF && len(b.buf) > 0:
			return b.buf, nil
		case err == io.EOF:
			return nil, io.EOF
		case err != bufio.ErrBufferFull:
			return nil, fmt.Errorf("trace: %s:%d:%d: %w", b.row.file, b.row.line, len(b.buf)+1, err)
		}
	}
}

func (b *blanks) split(line string) {
	r := &b.row
	r.fields, r.cols, r.err = r.fields[:0], r.cols[:0], nil
	for i := 0; i < len(line); {
		if isBlank(line[i]) {
			i++
			continue
		}
		end := i
		for end < len(line) && !isBlank(line[end]) {
			end++
		}
		r.fields, r.cols = append(r.fields, line[i:end]), append(r.cols, i+1)
		i = end
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
