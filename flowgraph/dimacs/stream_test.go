package dimacs

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

const twoTasks = `p min 4 4
n 1 1 1
n 2 1 1
n 4 -2 3
a 1 3 0 1 2
a 2 3 0 1 4 7
a 3 4 0 2 0
a 2 4 0 1 9
c EOI
`

// follow applies all batches and returns the objective after each.
func follow(s *Stream) ([]int64, error) {
	var objectives []int64
	solve := ssp.New()
	for {
		err := s.Next()
		if errors.Is(err, io.EOF) {
			return objectives, nil
		}
		if err == nil {
			err = s.Apply()
		}
		if err != nil {
			return objectives, err
		}
		if err := s.Network().Check(); err != nil {
			return objectives, err
		}
		r, err := solve.Solve(s.Network(), solver.Budget{})
		if err != nil || r.Status != solver.Optimal {
			return objectives, fmt.Errorf("%v: %w", r.Status, err)
		}
		objectives = append(objectives, r.Objective)
	}
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name, changes string
		objectives    []int64
	}{
		{"no changes", "", []int64{6}},
		{"an empty batch is answered", "c EOI\n", []int64{6, 6}},
		{"comments after the last batch are not", "c the end\n", []int64{6}},
		{"change an arc", "x 1 3 0 1 5\nc EOI\nx 2 3 0 1 20 0 4", []int64{6, 9, 14}},
		{"add an arc by x", "x 1 4 0 1 1", []int64{6, 5}},
		{"remove an arc", "x 2 3 0 0 4", []int64{6, 11}},
		{"supply", "n 1 2\nn 4 -3\nx 1 3 0 2 2\nx 3 4 0 3 0 1", []int64{6, 8}},
		{"remove a task, its demand falls", "r 1\n", []int64{6, 4}},
		{"add a task, the demand rises", "d 1 0 2 1\na 0 3 0 1 1\na 0 4 0 1 6 2\n", []int64{6, 12}},
		{"the last task goes, and one comes", "r 1\nr 2\nc EOI\nd 1 0 1\na 0 4 0 1 3\n", []int64{6, 0, 3}},
		{"a new id is above all others", "r 1\nd 1 0 1\na 0 4 0 1 3\nc EOI\nx 5 4 0 1 8\n", []int64{6, 7, 12}},
		{"a node with a demand of its own comes and goes", "d -1 0 1\na 1 0 0 1 1\nc EOI\nr 5\n", []int64{6, 5, 6}},
		{"n adds a task, the demand rises", "n 7 1 1\na 7 3 0 1 1 0\na 7 4 0 1 6 0\n", []int64{6, 12}},
		{"n adds one of an old id", "r 1\nc EOI\nn 1 1 1\na 1 4 0 1 3 0\nc EOI\nr 1\n", []int64{6, 4, 7, 4}},
		{"d goes on above n", "n 9 0\nd 1 0 1\na 0 4 0 1 3\nc EOI\nx 10 4 0 1 8\n", []int64{6, 9, 14}},
		{"an arc without room has another price", "x 2 3 0 0 4 0 4\nc EOI\nx 2 3 0 0 1 0 4\nc EOI\nx 2 3 0 1 1 0 1", []int64{6, 11, 11, 3}},
		{"old cost chooses among parallel arcs", "a 2 3 0 1 1\nx 2 3 0 1 3 0 4\n", []int64{6, 3}},
		{"an old cost where there is no arc", "x 1 4 0 1 1 0 77", []int64{6, 5}},
		{"a parallel arc of the same cost", "a 2 3 0 1 4\nx 2 3 0 0 4 0 4\n", []int64{6, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewStream(strings.NewReader(twoTasks + c.changes))
			require.NoError(t, err)
			got, err := follow(s)
			require.NoError(t, err)
			require.Equal(t, c.objectives, got)
		})
	}
}

func TestStreamRefuses(t *testing.T) {
	for _, c := range []struct{ name, changes, reason string }{
		{"unknown change", "p min 1 1", "line 10: unknown change \"p\""},
		{"long kind", "xx 1 3 0 1 1", "unknown change \"xx\""},
		{"fields missing", "x 1 3 0 1", "\"x\" line has 4 fields, want 5"},
		{"fields too many", "r 1 1", "\"r\" line has 2 fields, want 1"},
		{"type is no number", "x 1 3 0 1 1 a", "type \"a\" is not an integer"},
		{"old cost is no number", "x 1 3 0 1 1 0 a", "old cost \"a\" is not an integer"},
		{"bounds", "x 1 3 2 1 1", "lower 2 is above upper 1"},
		{"no such node", "c\nr 5", "line 11: id 5 is not a node, want 1 to 4"},
		{"after other batches", "n 1 0\nn 4 -1\nc\nc EOI\nx 1 3 0 1 5\nc EOI\nr 5", "line 16: id 5 is not a node"},
		{"at the end of a batch after others", "n 1 0\nn 4 -1\nc EOI\nd 1 0 1\nc EOI", "line 13: d line announces 1 arcs, 0 follow"},
		{"node gone", "r 1\nx 1 3 0 1 1", "line 11: tail 1 is a node that was removed"},
		{"zero without d", "a 0 3 0 1 1", "tail 0 stands for the node of a d line"},
		{"zero in x", "d 0 0 0\nx 0 3 0 1 1", "tail 0 is not a node"},
		{"id below all", "n 0 1", "line 10: id 0 of a new node, want 1 to 65552"},
		{"id above all", "n 5 0\nn 65557 0", "line 11: id 65557 of a new node, want 1 to 65556"},
		{"n without its node", "r 2\na 2 3 0 1 1", "line 11: tail 2 is a node that was removed"},
		{"old cost of none, to remove", "x 1 3 0 0 1 0 77", "line 10: no arc 1→3 has the old cost 77: there is one of cost 2"},
		{"old cost of none, to change", "x 1 3 0 1 1 0 77", "line 10: no arc 1→3 has the old cost 77: there is one of cost 2"},
		{"parallel arcs", "a 1 3 0 1 1\nx 1 3 0 1 9", "2 arcs 1→3: give a type and the old cost"},
		{
			"old cost of parallel arcs of unlike bounds", "a 2 3 0 5 9\nx 2 3 0 1 9 0 4\nx 2 3 0 5 14 0 9\n",
			"line 12: 2 arcs 2→3 have the old cost 9 and unlike bounds",
		},
		{"d without arcs", "d 1 0 2\na 0 3 0 1 1\nr 1", "line 10: d line announces 2 arcs, 1 follow"},
		{"no sink", "n 4 0\nr 1", "0 nodes demand"},
		{"a sink that is a source by now", "r 1\nr 2\nn 4 1\nd 1 0 0", "0 nodes demand"},
		{"a sink that is gone", "r 1\nr 2\nr 4\nd 1 0 0", "0 nodes demand"},
		{"two sinks", "n 3 -1\nd 1 0 0", "2 nodes demand"},
		{"demand overflows", "d 9223372036854775807 0 0\n", "would not fit in 64 bits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewStream(strings.NewReader(twoTasks + c.changes))
			require.NoError(t, err)
			_, err = follow(s)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, c.reason)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	s, err := NewStream(strings.NewReader("c nothing\n"))
	require.NoError(t, err)
	_, err = follow(s)
	require.ErrorContains(t, err, "without a p line")
	s, err = NewStream(strings.NewReader("p min 2 0\nr 1\n"))
	require.NoError(t, err)
	_, err = follow(s)
	require.ErrorContains(t, err, `end the problem with "c EOI" first`)
}

// TestStreamOfManySinks gives and takes back demands, each in constant time; else this takes minutes.
func TestStreamOfManySinks(t *testing.T) {
	const sinks = 200_000
	var text strings.Builder
	fmt.Fprintf(&text, "p min %d 0\n", sinks)
	for _, change := range []string{"n %d -1\n", "n %d -2\n", "n %d 0\n"} {
		for id := range sinks - 1 {
			fmt.Fprintf(&text, change, id+1)
		}
		fmt.Fprintf(&text, "n %d -3\nc EOI\n", sinks)
	}
	text.WriteString("d 5 0 0\n")
	s, err := NewStream(strings.NewReader(text.String()))
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, s.Next())
		require.NoError(t, s.Apply())
	}
	require.EqualValues(t, -8, s.Network().Supply(sinks-1), "the demand of the only sink follows")
}

type constant int64

func (c constant) Flow(flowgraph.ArcID) int64 { return int64(c) }

func TestStreamKeepsIdsInFlow(t *testing.T) {
	s, err := NewStream(strings.NewReader(twoTasks + "r 1\nd 1 0 1\na 0 3 0 1 1\n"))
	require.NoError(t, err)
	_, err = follow(s)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.WriteFlow(&out, 9, constant(1), false))
	require.Equal(t, "s 9\nf 5 3 1\nf 2 3 1\nf 3 4 1\nf 2 4 1\nc EOI\n", out.String())
}

func TestStreamOfFlowlessly(t *testing.T) {
	data := os.Getenv("SLUICE_DATA")
	if data == "" {
		t.Skip("SLUICE_DATA is not set: change files with known optima are not here")
	}
	folder := filepath.Join(data, "mcf-instances", "flowlessly")
	f, err := os.Open(filepath.Join(folder, "changes", "optima-after-change.csv"))
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, errors.Join(err, f.Close()))
	require.Greater(t, len(rows), 5)
	for _, row := range rows[1:] {
		base, err := os.Open(filepath.Join(folder, row[0]))
		require.NoError(t, err)
		s, err := NewStream(base)
		require.NoError(t, err)
		_, err = follow(s)
		require.NoError(t, errors.Join(err, base.Close()))
		changes, err := os.Open(filepath.Join(folder, "changes", row[1]))
		require.NoError(t, err)
		require.NoError(t, s.Continue(changes))
		got, err := follow(s)
		require.NoError(t, errors.Join(err, changes.Close()), row[1])
		require.Len(t, got, 1)
		require.Equal(t, row[4], strconv.FormatInt(got[0], 10), row[1])
	}
}

func FuzzStream(f *testing.F) {
	f.Add(twoTasks + "x 1 3 0 1 5\nc EOI\nr 1\nd 1 0 1\na 0 4 0 1 3\n")
	f.Fuzz(func(t *testing.T, input string) {
		s, err := NewStream(strings.NewReader(input))
		for err == nil {
			if err = s.Next(); err == nil {
				err = s.Apply()
			}
			if s.Network() != nil {
				require.NoError(t, s.Network().Check())
			}
		}
		if !errors.Is(err, io.EOF) {
			require.ErrorIs(t, err, ErrFormat)
		}
	})
}
