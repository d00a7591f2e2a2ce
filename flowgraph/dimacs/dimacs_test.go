package dimacs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

const sample = `c two ways
p min 4 5
n 1 4
n 4 -4

a 1 2 0 4 2
a 1 3 0 2 2
a 2 3 1 2 -1
a 2 4 0 -1 3
a 3 4 0 5 1
`

func TestRead(t *testing.T) {
	n, err := Read(strings.NewReader(sample))
	require.NoError(t, err)
	require.NoError(t, n.Check())
	require.Equal(t, 4, n.NumNodes())
	require.Equal(t, int64(-4), n.Supply(3))
	require.Equal(t, flowgraph.Arc{Tail: 1, Head: 2, Bounds: flowgraph.Bounds{Lower: 1, Upper: 2}, Cost: -1}, n.Arc(2))
	require.Equal(t, flowgraph.Infinite, n.Upper(3))
}

func TestReadGzipAndCarriageReturns(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := io.WriteString(w, strings.ReplaceAll(sample, "\n", "\r\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	whole := zipped.Bytes()
	n, err := Read(bytes.NewReader(whole))
	require.NoError(t, err)
	require.Equal(t, 5, n.NumArcs())

	// Cut off or changed anywhere, even in the middle of a line.
	for cut := 2; cut < len(whole); cut++ {
		_, err = Read(bytes.NewReader(whole[:cut]))
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, "gzip", "cut at %d", cut)
	}
	changed := append(bytes.Clone(whole[:10]), 7)
	_, err = Read(bytes.NewReader(changed))
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, "damaged gzip")
}

// TestReadByteOrderMark: editors that write UTF-8 with a mark are many, and the mark is no part of the first line.
func TestReadByteOrderMark(t *testing.T) {
	n, err := Read(strings.NewReader("\ufeff" + sample))
	require.NoError(t, err)
	require.Equal(t, 5, n.NumArcs())
	_, err = Read(strings.NewReader("\ufeff\ufeff" + sample))
	require.ErrorContains(t, err, "line 1: unknown line kind")
}

// TestReadPlusSigns: C's scanf and C++'s streams take them, and programs write them before supplies.
func TestReadPlusSigns(t *testing.T) {
	n, err := Read(strings.NewReader("p min 2 1\nn 1 +5\nn 2 -5\na 1 2 +0 +7 +3\n"))
	require.NoError(t, err)
	require.EqualValues(t, 5, n.Supply(0))
	require.Equal(t, flowgraph.Arc{Tail: 0, Head: 1, Bounds: flowgraph.Bounds{Upper: 7}, Cost: 3}, n.Arc(0))
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, input, reason string }{
		{"nothing", "", "the input is empty"},
		{"comments", "c a\nc b\n", "line 2: the input ends without a p line"},
		{"arc before p", "a 1 2 0 1 1", "line 1: \"a\" line before the p line"},
		{"second p", "p min 1 0\np min 1 0", "line 2: second p line"},
		{"maximum", "p max 2 1", "problem \"max\""},
		{"p too short", "p min 2", "has 2 fields, want 3"},
		{"negative size", "p min -2 1", "-2 nodes"},
		{"too many nodes", "p min 2147483647 1", "2147483647 nodes"},
		{"too many arcs", "p min 2 2147483647", "2147483647 arcs"},
		{"absurd nodes", "p min 2000000000 1\na 1 2000000000 0 1 1", "announces 2000000000 nodes"},
		{"absurd arcs", "p min 2 2000000000\na 1 2 0 1 1", "ends after 1 of 2000000000 arcs"},
		{"too few arcs", "p min 2 2\na 1 2 0 1 1\nc end", "line 3: the input ends after 1 of 2 arcs"},
		{"more arcs", "p min 2 1\na 1 2 0 1 1\na 1 2 0 1 1", "line 3: more arcs than the 1"},
		{"id zero", "p min 2 1\na 0 2 0 1 1", "tail 0 is not a node, want 1 to 2"},
		{"id beyond", "p min 2 1\na 1 3 0 1 1", "head 3 is not a node"},
		{"supply beyond", "p min 2 0\nn 3 1", "id 3 is not a node"},
		{"supply twice", "p min 2 0\nn 2 1\nn 1 1\nn 2 0", "line 4: second supply for node 2"},
		{"changes", "p min 1 0\nc EOI\nx 1 1 0 1 1", "line 3: a change, \"x\": one problem alone is read here"},
		{"n after a", "p min 2 1\na 1 2 0 1 1\nn 1 1", "line 3: n line after"},
		{"word", "p min 2 1\na 1 2 0 x 1", "upper \"x\" is not an integer: -1 stands for none"},
		{"fraction", "p min 2 1\na 1 2 0 1 1.5", "cost \"1.5\" is not an integer"},
		{"sign alone", "p min 2 1\na 1 2 0 1 -", "cost \"-\" is not an integer"},
		{"two signs", "p min 2 1\nn 1 +-5", "supply \"+-5\" is not an integer"},
		{"plus alone", "p min 2 1\nn 1 +", "supply \"+\" is not an integer"},
		{"overflow", "p min 2 1\na 1 2 0 9223372036854775808 1", "does not fit in 64 bits: -1 stands for none"},
		{"long overflow", "p min 2 1\nn 1 99999999999999999999999", "does not fit in 64 bits"},
		{"lower above upper", "p min 2 1\na 1 2 3 2 1", "lower 3 is above upper 2"},
		{"negative lower", "p min 2 1\na 1 2 -1 2 1", "lower -1 is negative"},
		{"negative upper", "p min 2 1\na 1 2 0 -7 1", "upper -7 is negative: -1 stands for none"},
		{"extra field", "p min 2 1\na 1 2 0 1 1 9", "has 6 fields, want 5"},
		{"change", "p min 2 0\nr 1", "line 2: a change, \"r\": one problem alone is read here"},
		{"unknown kind", "p min 2 0\nz 1", "unknown line kind \"z\""},
		{"endless line", "p min 2 0\nc " + strings.Repeat("x", maxLine), "line 2: longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.input))
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, c.reason)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestReadExtremes(t *testing.T) {
	n, err := Read(strings.NewReader("p min 2 1\nn 1 -9223372036854775808\na 1 2 0 9223372036854775807 -9223372036854775808"))
	require.NoError(t, err)
	require.Equal(t, flowgraph.Infinite, n.Upper(0))
	require.NoError(t, n.Check())
}

type broken struct{}

var errBroken = errors.New("wire cut")

func (broken) Read([]byte) (int, error)  { return 0, errBroken }
func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestErrorsOfTheMedium(t *testing.T) {
	_, err := Read(broken{})
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, ErrFormat)
	require.ErrorIs(t, Write(broken{}, flowgraph.New()), errBroken)
}

func TestWriteRenumbers(t *testing.T) {
	n, err := Read(strings.NewReader(sample))
	require.NoError(t, err)
	n.RemoveNode(1)
	var out strings.Builder
	require.NoError(t, Write(&out, n))
	require.Equal(t, "p min 3 2\nn 1 4\nn 3 -4\na 1 2 0 2 2\na 2 3 0 5 1\n", out.String())
}

// TestWriteUnbounded: what others can read is written, unless that would change the answer.
func TestWriteUnbounded(t *testing.T) {
	for _, c := range []struct{ name, input, output string }{
		{"supply and lower bounds", "p min 3 2\nn 1 5\nn 3 -5\na 1 2 3 -1 4\na 2 3 0 7 1\n", "a 1 2 3 8 4\na 2 3 0 7 1\n"},
		{"a cycle that pays", "p min 2 2\nn 1 5\nn 2 -5\na 1 2 0 -1 4\na 1 1 0 9 -1\n", "a 1 2 0 14 4\na 1 1 0 9 -1\n"},
		{"nothing flows", "p min 2 1\na 1 2 0 -1 4\n", "a 1 2 0 0 4\n"},
		{"perhaps without end", "p min 2 2\na 1 2 0 -1 4\na 2 1 0 -1 -5\n", "a 1 2 0 -1 4\na 2 1 0 -1 -5\n"},
		{"beyond what is exact", "p min 2 1\nn 1 1000000000000000000\na 1 2 0 -1 4\n", "a 1 2 0 -1 4\n"},
	} {
		n, err := Read(strings.NewReader(c.input))
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, Write(&out, n))
		require.Equal(t, c.output, out.String()[strings.Index(out.String(), "a "):], c.name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("p min 2 1\na 1 2 0 9223372036854775807 1\n"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, input []byte) {
		n, err := Read(bytes.NewReader(input))
		if err != nil {
			require.Nil(t, n)
			return
		}
		require.NoError(t, n.Check())
		var first, second bytes.Buffer
		require.NoError(t, Write(&first, n))
		again, err := Read(bytes.NewReader(first.Bytes()))
		require.NoError(t, err)
		require.NoError(t, Write(&second, again))
		require.Equal(t, first.String(), second.String())
	})
}
