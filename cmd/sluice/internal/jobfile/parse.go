package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"google.golang.org/protobuf/proto"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Limits of a file.
const (
	// MaxBytes is the largest file that is read: the size of the largest request that a server takes.
	MaxBytes = 4 << 20
	// MaxDepth bounds how deep mappings and lists may lie in each other.
	MaxDepth = 100
	// maxProblems bounds how many problems one error lists.
	maxProblems = 20
	// maxQuoted bounds how many characters of a text one error quotes.
	maxQuoted = 80
)

// Problem is one thing that is wrong in a file. Line and Column count from 1; 0 means the file as a whole.
type Problem struct {
	File         string
	Line, Column int
	Message      string
}

// Error returns "file:line:column: message".
func (p *Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Jobs reads the job specs of a file, one of each document, at least one. name is used in errors, which join one
// [Problem] for each thing that is wrong.
func Jobs(name string, data []byte) ([]*sluicev1.JobSpec, error) {
	return documents(name, data, func() *sluicev1.JobSpec { return new(sluicev1.JobSpec) })
}

// Pools reads the pool specs of a file in the same way.
func Pools(name string, data []byte) ([]*sluicev1.PoolSpec, error) {
	return documents(name, data, func() *sluicev1.PoolSpec { return new(sluicev1.PoolSpec) })
}

// Mappings reads queue mappings in the same way.
func Mappings(name string, data []byte) ([]*sluicev1.QueueMapping, error) {
	return documents(name, data, func() *sluicev1.QueueMapping { return new(sluicev1.QueueMapping) })
}

func documents[M proto.Message](name string, data []byte, blank func() M) ([]M, error) {
	d := &decoder{file: name}
	if len(data) > MaxBytes {
		return nil, d.whole("has more than %d bytes", MaxBytes)
	}
	if err := d.encoding(data); err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // of some editors; YAML allows it
	if deep(data) {
		return nil, d.whole("has more than %d brackets open at once", MaxDepth)
	}
	file, err := parse(data)
	if err != nil {
		return nil, d.syntax(err)
	}
	var all []M
	for _, doc := range filled(file) {
		m := blank()
		d.message(m.ProtoReflect(), nameOf(m.ProtoReflect().Descriptor()), doc.Body, 0)
		all = append(all, m)
	}
	if err := errors.Join(d.problems...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, d.whole("is empty")
	}
	return all, nil
}

// parse reads YAML. Documents in which there is nothing, or only comments, are left out before: the parser would take nothing of what
// follows one.
func parse(data []byte) (*ast.File, error) {
	var tokens token.Tokens
	for _, t := range lexer.Tokenize(string(data)) {
		last := len(tokens) - 1
		begun := last >= 0 && tokens[last].Type == token.DocumentHeaderType
		switch {
		case t.Type == token.CommentType:
		case begun && t.Type == token.DocumentHeaderType:
			tokens[last] = t
		case begun && t.Type == token.DocumentEndType:
			tokens = tokens[:last]
		default:
			tokens = append(tokens, t)
		}
	}
	return parser.Parse(tokens, 0)
}

// Documents counts the documents in YAML in which there is something, 0 where it is malformed.
func Documents(data []byte) int {
	file, err := parse(data)
	if err != nil {
		return 0
	}
	return len(filled(file))
}

// filled returns the documents in which there is something: not what stands between two separators, only comments, or a directive such as
// the version of YAML, which stands before the first.
func filled(file *ast.File) []*ast.DocumentNode {
	return slices.DeleteFunc(file.Docs, func(doc *ast.DocumentNode) bool {
		return doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.DirectiveType
	})
}

// deep reports whether flow brackets nest so deep that parsing them would need an absurd stack. It overestimates where
// strings hold brackets that do not close.
func deep(data []byte) bool {
	open := 0
	for _, c := range data {
		switch c {
		case '[', '{':
			if open++; open > MaxDepth {
				return true
			}
		case ']', '}':
			open = max(0, open-1)
		}
	}
	return false
}

// encoding refuses what is not UTF-8, of which the parser would make other texts without a word.
func (d *decoder) encoding(data []byte) error {
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return &Problem{File: d.file, Line: line, Column: column, Message: fmt.Sprintf("the byte 0x%02x is not UTF-8: save the file in this encoding", data[0])}
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[size:]
	}
	return nil
}

func (d *decoder) whole(format string, args ...any) error {
	return &Problem{File: d.file, Message: fmt.Sprintf(format, args...)}
}

// syntax gives an error of the YAML parser our form.
func (d *decoder) syntax(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return d.whole("%s", strings.TrimSpace(err.Error()))
	}
	at := y.GetToken().Position
	return &Problem{File: d.file, Line: at.Line, Column: at.Column, Message: y.GetMessage()}
}
