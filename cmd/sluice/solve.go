package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// solveAnswer is one line of output of `sluice solve`.
type solveAnswer struct {
	Status    string  `json:"status"`
	Objective *int64  `json:"objective,omitempty"`
	Algorithm string  `json:"algorithm"`
	Nodes     int     `json:"nodes"`
	Arcs      int     `json:"arcs"`
	SolveMS   float64 `json:"solve_ms"`
	Verified  bool    `json:"verified,omitempty"`
	Error     string  `json:"error,omitempty"`
}

type solveOptions struct {
	algorithm, output string
	verify, flow      bool
}

func newSolveCommand() *cobra.Command {
	var o solveOptions
	cmd := &cobra.Command{
		Use:   "solve FILE.min[.gz]",
		Short: "Solve a minimum-cost-flow problem in DIMACS format",
		Long: `Solve a minimum-cost-flow problem in DIMACS format, plain or gzip; "-" reads
standard input. Prints one line: the status and, if it is optimal, the objective.

Statuses: optimal, infeasible, unbalanced, unbounded, cost range (a number is
beyond what the algorithm can compute exactly), malformed. The exit code is 0 for
optimal and 1 for every other.`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSolve(cmd, args[0], o)
		},
	}
	cmd.Flags().StringVar(&o.algorithm, "algorithm", registry.Default, "one of "+strings.Join(registry.Names(), ", "))
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "check the answer against the definition of optimality")
	cmd.Flags().BoolVar(&o.flow, "flow", false, "print the flow in DIMACS format after the answer")
	return cmd
}

func runSolve(cmd *cobra.Command, path string, o solveOptions) error {
	if o.output != "text" && o.output != "json" {
		return exitError{code: 2, err: fmt.Errorf("--output %q: choose text or json", o.output)}
	}
	s, err := registry.New(o.algorithm)
	if err != nil {
		return exitError{code: 2, err: fmt.Errorf("--algorithm: %w", err)}
	}
	in, err := openInput(cmd, path)
	if err != nil {
		return exitError{code: 1, err: err}
	}
	defer func() { _ = in.Close() }()

	answer := solveAnswer{Algorithm: s.Name()}
	n, err := dimacs.Read(in)
	if errors.Is(err, dimacs.ErrFormat) {
		answer.Status, answer.Error = "malformed", err.Error()
		return printAnswer(cmd.OutOrStdout(), o, answer)
	}
	if err != nil {
		return exitError{code: 1, err: fmt.Errorf("%s: %w", path, err)}
	}
	answer.Nodes, answer.Arcs = n.NumNodes(), n.NumArcs()
	r, err := solveTimed(s, n, &answer)
	if err != nil {
		return exitError{code: 1, err: err}
	}
	if r.Status == solver.Optimal && o.verify {
		if err := solver.Verify(n, r); err != nil {
			return exitError{code: 1, err: fmt.Errorf("%s gave a wrong answer, please report it: %w", s.Name(), err)}
		}
		answer.Verified = true
	}
	if err := printAnswer(cmd.OutOrStdout(), o, answer); err != nil {
		return err
	}
	if o.flow {
		return dimacs.WriteFlow(cmd.OutOrStdout(), n, r.Objective, r)
	}
	return nil
}

func openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(path)
}

func solveTimed(s solver.Solver, n *flowgraph.Network, answer *solveAnswer) (solver.Result, error) {
	begin := time.Now()
	r, err := s.Solve(n, solver.Budget{})
	answer.SolveMS = float64(time.Since(begin).Microseconds()) / 1000
	answer.Status = r.Status.String()
	if r.Status == solver.Optimal {
		answer.Objective = &r.Objective
	}
	return r, err
}

// printAnswer prints one line; whatever is not optimal ends with exit code 1.
func printAnswer(w io.Writer, o solveOptions, answer solveAnswer) error {
	if o.output == "json" {
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			return exitError{code: 1, err: err}
		}
	} else if _, err := fmt.Fprintln(w, answer.text()); err != nil {
		return exitError{code: 1, err: err}
	}
	if answer.Status != solver.Optimal.String() {
		return exitError{code: 1}
	}
	return nil
}

func (a solveAnswer) text() string {
	switch {
	case a.Error != "":
		return a.Status + ": " + a.Error
	case a.Objective == nil:
		return fmt.Sprintf("%s (%s, %d nodes, %d arcs, %.3f ms)", a.Status, a.Algorithm, a.Nodes, a.Arcs, a.SolveMS)
	}
	verified := ""
	if a.Verified {
		verified = ", verified"
	}
	return fmt.Sprintf("%s %d (%s, %d nodes, %d arcs, %.3f ms%s)", a.Status, *a.Objective, a.Algorithm, a.Nodes, a.Arcs, a.SolveMS, verified)
}
