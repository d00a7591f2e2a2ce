package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/bench/families"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

func solve(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := newSolveCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetArgs(append([]string{"-"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSolveStatuses(t *testing.T) {
	for _, c := range []struct{ name, input, status string }{
		{"malformed", "p min 2 1\na 1 2 0 x 1\n", "malformed"},
		{"infeasible", "p min 2 1\nn 1 2\nn 2 -2\na 1 2 0 1 1\n", "infeasible"},
		{"unbalanced", "p min 2 1\nn 1 2\na 1 2 0 2 1\n", "unbalanced"},
		{"unbounded", "p min 2 2\na 1 2 0 -1 -5\na 2 1 0 -1 1\n", "unbounded"},
		{"overflow in the cost", "p min 2 1\nn 1 1\nn 2 -1\na 1 2 0 1 9223372036854775807\n", "cost range"},
		{"overflow in the sum", "p min 2 1\nn 1 1000000000000\nn 2 -1000000000000\na 1 2 0 -1 1000000000000\n", "cost range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, algorithm := range []string{"ssp", "netsimplex"} {
				out, err := solve(t, c.input, "-o", "json", "--algorithm", algorithm)
				var exit exitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, 1, exit.code)
				require.NoError(t, exit.err, "already printed")
				require.Equal(t, 1, strings.Count(out, "\n"), "one line")
				var answer solveAnswer
				require.NoError(t, json.Unmarshal([]byte(out), &answer))
				require.Equal(t, c.status, answer.Status)
				require.Nil(t, answer.Objective)
				require.Equal(t, c.status != "infeasible" && c.status != "unbounded", answer.Error != "", "the numbers are wrong: it says which")

				text, err := solve(t, c.input, "--algorithm", algorithm)
				require.Error(t, err)
				require.True(t, strings.HasPrefix(text, c.status), text)
				require.Equal(t, 1, strings.Count(text, "\n"))
			}
		})
	}
}

// TestSolveWideBounds: bounds that stand for none add up where flow may run for what it gains; no algorithm takes them.
func TestSolveWideBounds(t *testing.T) {
	const wide = "p min 2 3\na 1 2 0 1 -1\na 2 1 0 %s 0\na 2 1 0 %[1]s 0\n"
	out, err := solve(t, fmt.Sprintf(wide, "4000000000000000000"))
	require.Error(t, err)
	require.Contains(t, out, "cost range: amounts")
	require.Contains(t, out, "write -1 for an upper bound that stands for none\n")
	out, err = solve(t, fmt.Sprintf(wide, "-1"))
	require.NoError(t, err)
	require.Contains(t, out, "optimal -1 ")
}

func TestSolveOptimal(t *testing.T) {
	input := "p min 3 3\nn 1 2\nn 3 -2\na 1 2 0 2 1\na 2 3 0 1 1\na 1 3 0 2 5\n"
	out, err := solve(t, input, "-o", "json", "--verify")
	require.NoError(t, err)
	var answer map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, "optimal", answer["status"])
	require.Equal(t, 7.0, answer["objective"])
	require.Equal(t, 3.0, answer["nodes"])
	require.Equal(t, 3.0, answer["arcs"])
	require.Contains(t, answer, "solve_ms")
	require.Contains(t, answer, "algorithm")

	require.Equal(t, 3.0, answer["changed"])

	out, err = solve(t, input, "-o", "dimacs", "--verify")
	require.NoError(t, err)
	require.Regexp(t, `^c optimal 7 .*verified.*\n`, out)
	require.Contains(t, out, "\ns 7\nf 1 2 1\nf 2 3 1\nf 1 3 1\nc EOI\n")
}

// TestSolveStream gives every algorithm a problem with batches of changes, one of
// them infeasible in between.
func TestSolveStream(t *testing.T) {
	problem := "p min 3 3\nn 1 2\nn 3 -2\na 1 2 0 2 1\na 2 3 0 1 1\na 1 3 0 2 5\n"
	first := "x 1 3 0 2 4\nc EOI\nx 1 3 0 0 4\nc EOI\nx 2 3 0 2 1\n"
	second := filepath.Join(t.TempDir(), "more")
	require.NoError(t, os.WriteFile(second, []byte("d 1 0 1\na 0 2 0 1 7\nx 2 3 0 3 1\nc EOI\nr 4\n"), 0o600))
	for _, algorithm := range registry.Names() {
		out, err := solve(t, problem+"c EOI\n"+first, "-o", "json", "--verify", "--algorithm", algorithm, "--changes", second)
		var exit exitError
		require.ErrorAs(t, err, &exit)
		require.NoError(t, exit.err, "the batches say what there is to say")
		var got []any
		lines := json.NewDecoder(strings.NewReader(out))
		for batch := 0; lines.More(); batch++ {
			var answer solveAnswer
			require.NoError(t, lines.Decode(&answer))
			require.Equal(t, batch, answer.Batch)
			if answer.Objective == nil {
				got = append(got, answer.Status)
			} else {
				got = append(got, *answer.Objective)
			}
		}
		require.Equal(t, []any{int64(7), int64(6), "infeasible", int64(4), int64(12), int64(4)}, got, algorithm)
	}
	out, err := solve(t, problem+"c EOI\nx 1 9 0 1 1\nc EOI\n", "-o", "dimacs")
	require.Error(t, err)
	require.Contains(t, out, "c EOI\nc malformed: ", "what came before is answered")
}

// TestSolveFlow: a problem alone has a line for every arc, so that parallel ones are told apart, and one with changes for those with flow.
func TestSolveFlow(t *testing.T) {
	const problem = "p min 2 4\nn 1 3\nn 2 -3\na 1 2 0 1 2\na 2 1 0 9 1\na 1 2 0 9 3\na 1 2 0 1 1\n"
	none := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(none, []byte("c EOI\n"), 0o600))
	every, some := "s 6\nf 1 2 1\nf 2 1 0\nf 1 2 1\nf 1 2 1\nc EOI\n", "s 6\nf 1 2 1\nf 1 2 1\nf 1 2 1\nc EOI\n"
	for _, c := range []struct {
		input, answer string
		args          []string
	}{
		{problem, every, nil},
		{problem + "c EOI\n", some, nil},
		{problem, some, []string{"--changes", none}},
	} {
		out, err := solve(t, c.input, append(c.args, "-o", "dimacs")...)
		require.NoError(t, err)
		_, flow, _ := strings.Cut(out, "\n")
		require.True(t, strings.HasPrefix(flow, c.answer), out)
	}
}

// TestSolveBudget gives every algorithm too little for the first answer and enough to
// go on with the next ones.
// TestSolveNamesTheFile: of several files, the one is named whose line is malformed.
func TestSolveNamesTheFile(t *testing.T) {
	const problem = "p min 2 1\nn 1 1\nn 2 -1\na 1 2 0 1 1\n"
	good, bad := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(good, []byte("c\nx 1 2 0 1 3\n"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("c\nx 1 2 0 1\n"), 0o600))
	out, err := solve(t, problem, "--changes", good, "--changes", bad)
	require.Error(t, err)
	require.Contains(t, out, "malformed: "+bad+": dimacs: malformed input: line 2: ")
	require.Equal(t, 3, strings.Count(out, "\n"), "the answers before it stand")
}

func TestSolveBudget(t *testing.T) {
	var problem strings.Builder
	require.NoError(t, dimacs.Write(&problem, families.All[0].Draw(1, 200)))
	for _, algorithm := range registry.Names() {
		out, err := solve(t, problem.String()+strings.Repeat("c EOI\n", 300), "--budget", "8000", "--verify", "-o", "dimacs", "--algorithm", algorithm)
		require.Error(t, err, algorithm)
		answers := strings.Split(out, dimacs.EndOfBatch)
		require.Regexp(t, `^c budget spent \([^\n]*\n$`, answers[0], "no flow")
		require.Regexp(t, `^c optimal [^)]*,(\nc)? verified\)\ns `, answers[299], algorithm)
		for line := range strings.Lines(out) {
			require.Less(t, len(line), 100, "programs read no longer lines")
		}
	}
}

func TestSolveInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := newSolveCommand()
	in, w := io.Pipe()
	defer func() { require.NoError(t, w.Close()) }()
	cmd.SetIn(in)
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"-"})
	cancel()
	var exit exitError
	require.ErrorAs(t, cmd.ExecuteContext(ctx), &exit, "though the input goes on")
	require.Equal(t, exitInterrupted, exit.code)
}

func TestSolveMisuse(t *testing.T) {
	for _, args := range [][]string{{"--algorithm", "magic"}, {"-o", "xml"}, {"--budget", "-1"}, {"another"}, {"--changes", "absent"}, {"--changes", t.TempDir()}} {
		_, err := solve(t, "p min 0 0\n", args...)
		var exit exitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.code)
		require.Error(t, exit.err)
	}
	cmd := newSolveCommand()
	cmd.SetArgs([]string{filepath.Join(t.TempDir(), "absent.min")})
	require.True(t, errors.Is(cmd.ExecuteContext(t.Context()), os.ErrNotExist))
}
