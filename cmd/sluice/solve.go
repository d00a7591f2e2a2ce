package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// solveAnswer is what `sluice solve` says of one batch.
type solveAnswer struct {
	Status    string  `json:"status"`
	Objective *int64  `json:"objective,omitempty"`
	Algorithm string  `json:"algorithm"`
	Batch     int     `json:"batch"` // 0 is the problem itself
	Nodes     int     `json:"nodes"`
	Arcs      int     `json:"arcs"`
	ApplyMS   float64 `json:"apply_ms"` // bringing the batch into the network
	SolveMS   float64 `json:"solve_ms"`
	ReadMS    float64 `json:"read_ms"` // reading the flow that changed
	Changed   int     `json:"changed"` // arcs with another flow
	Verified  bool    `json:"verified,omitempty"`
	Error     string  `json:"error,omitempty"`
}

const solveHelp = `Solve a minimum-cost-flow problem in DIMACS format, plain or gzip; "-" reads
standard input. Prints one line: the status and, if it is optimal, the objective.

The problem may be followed by batches of changes, each ended by a line "c EOI",
in the same input or in files of --changes. The solver then goes on from its last
state, and each batch is answered as it comes:

  n ID SUPPLY [TYPE]                         give a node another supply, or add it
                                             if no node has the id
  a TAIL HEAD LOWER UPPER COST [TYPE]        add an arc
  x TAIL HEAD LOWER UPPER COST [TYPE [OLD]]  change an arc, add it if there is
                                             none, or remove it by bounds 0 0;
                                             OLD, its cost before, chooses among
                                             parallel arcs, has to be right, and
                                             may not fit several of unlike bounds
  r ID                                       remove a node with its arcs
  d SUPPLY POTENTIAL ARCS [TYPE]             add a node with the a lines after
                                             it, in which 0 stands for it

With -o dimacs each answer is comments, an s line with the objective, lines
"f TAIL HEAD FLOW", and "c EOI". A problem alone has an f line for every arc, in
their order; with changes, or if "c EOI" ends it, only those with flow have one.

Statuses: optimal, infeasible, unbalanced, unbounded, cost range (a number is
beyond what the algorithm can compute exactly), budget spent (--budget did not
suffice: there is no flow, and the next batch goes on from there), malformed. The
exit code is 0 if every batch is optimal, 2 if a file cannot be read, else 1.`

type solveOptions struct {
	algorithm, output string
	changes           []string
	budget            int64
	verify            bool
}

// solving is one call of the command.
type solving struct {
	solveOptions
	cmd    *cobra.Command
	solver solver.Solver
	stream *dimacs.Stream
	flow   []int64 // by ArcID, as last read
	batch  int
	failed bool // some batch was not optimal
}

func newSolveCommand() *cobra.Command {
	var o solveOptions
	cmd := &cobra.Command{
		Use:           "solve FILE.min[.gz]",
		Short:         "Solve a minimum-cost-flow problem in DIMACS format",
		Long:          solveHelp,
		Args:          wants("FILE"),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Neither a solve nor the wait for input ends by itself when interrupted.
			done := make(chan error, 1)
			go func() { done <- runSolve(cmd, args[0], o) }()
			select {
			case err := <-done:
				return err
			case <-cmd.Context().Done():
				return exitError{exitInterrupted, errors.New("interrupted")}
			}
		},
	}
	cmd.Flags().StringVar(&o.algorithm, "algorithm", registry.Default, "one of "+strings.Join(registry.Names(), ", "))
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, json or dimacs (with the flow)")
	cmd.Flags().StringArrayVar(&o.changes, "changes", nil, "file with batches of changes; may be given again")
	cmd.Flags().Int64Var(&o.budget, "budget", 0, "most work for each answer, in arcs examined; 0 is no limit")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "check each answer against the definition of optimality")
	return cmd
}

func runSolve(cmd *cobra.Command, path string, o solveOptions) error {
	if o.output != "text" && o.output != "json" && o.output != "dimacs" {
		return exitError{exitUsage, fmt.Errorf("--output %q: choose text, json or dimacs", o.output)}
	}
	if o.budget < 0 {
		return exitError{exitUsage, fmt.Errorf("--budget: %d is below 0", o.budget)}
	}
	s := solving{solveOptions: o, cmd: cmd}
	var err error
	if s.solver, err = registry.New(o.algorithm); err != nil {
		return exitError{exitUsage, fmt.Errorf("--algorithm: %w", err)}
	}
	for _, p := range append([]string{path}, o.changes...) {
		if err := s.file(p); err != nil {
			return err
		}
	}
	if s.failed {
		return exitError{code: exitFailure}
	}
	return nil
}

// file answers all batches of one input.
func (s *solving) file(path string) error {
	in, err := openInput(s.cmd, path)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer func() { _ = in.Close() }()
	if s.stream == nil {
		s.stream, err = dimacs.NewStream(in)
	} else {
		err = s.stream.Continue(in)
	}
	for err == nil {
		err = s.next()
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, dimacs.ErrFormat):
		s.failed = true
		if len(s.changes) > 0 { // each file has lines of its own
			err = fmt.Errorf("%s: %w", path, err)
		}
		if err := s.print(solveAnswer{Status: "malformed", Error: err.Error()}, nil); err != nil {
			return exitError{exitFailure, err}
		}
		return exitError{code: exitFailure}
	case errors.As(err, new(exitError)):
		return err
	}
	return exitError{exitUsage, fmt.Errorf("%s: %w", path, err)}
}

func openInput(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(path)
}

// next reads, applies, solves and answers one batch.
func (s *solving) next() error {
	if err := s.stream.Next(); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.stream.Apply(); err != nil {
		return err
	}
	n := s.stream.Network()
	answer := solveAnswer{Nodes: n.NumNodes(), Arcs: n.NumArcs(), ApplyMS: since(begin)}
	begin = time.Now()
	r, err := s.solver.Solve(n, solver.Budget{Work: s.budget})
	if err != nil {
		return exitError{exitFailure, err}
	}
	answer.Status, answer.Error, answer.SolveMS = r.Status.String(), reason(n, r.Status), since(begin)
	if r.Status == solver.Optimal {
		answer.Objective = &r.Objective
		begin = time.Now()
		answer.Changed = s.read(r)
		answer.ReadMS = since(begin)
		if s.verify {
			if err := solver.Verify(n, r); err != nil {
				return exitError{exitFailure, fmt.Errorf("%s gave a wrong answer, please report it: %w", s.solver.Name(), err)}
			}
			answer.Verified = true
		}
	}
	s.failed = s.failed || r.Status != solver.Optimal
	if err := s.print(answer, r.Solution); err != nil {
		return exitError{exitFailure, err}
	}
	s.batch++
	return nil
}

// reason says what is wrong with the numbers of n, if that is why there is no answer.
func reason(n *flowgraph.Network, status solver.Status) string {
	switch status {
	case solver.Unbalanced:
		if sum, fits := n.TotalSupply().Int64(); fits {
			return fmt.Sprintf("the supplies sum to %d instead of 0", sum)
		}
		return "the supplies do not sum to 0"
	case solver.CostRange:
		volume, fits := n.Volume()
		if !fits || volume >= 1<<62 {
			return "amounts (supplies, lower bounds and, where a cost is negative, upper bounds) sum to 2^62 or more: " +
				"divide them, or write -1 for an upper bound that stands for none"
		}
		return fmt.Sprintf("%d nodes, costs of %d bits and amounts that sum to %d bits are together too large: "+
			"divide costs or amounts, or try another --algorithm", n.NumNodes(), n.CostBits(), bits.Len64(uint64(volume)))
	}
	return ""
}

// read takes in the flow that changed, as a scheduler would, and returns on how
// many arcs.
func (s *solving) read(r solver.Result) int {
	if short := s.stream.Network().ArcBound() - len(s.flow); short > 0 {
		s.flow = append(s.flow, make([]int64, short)...)
	}
	changed := r.Changed()
	for _, a := range changed {
		s.flow[a] = r.Flow(a)
	}
	return len(changed)
}

func since(begin time.Time) float64 { return float64(time.Since(begin).Microseconds()) / 1000 }

// print prints one line, or with -o dimacs the flow if there is one.
func (s *solving) print(answer solveAnswer, flow dimacs.Flow) error {
	answer.Algorithm, answer.Batch = s.solver.Name(), s.batch
	w := s.cmd.OutOrStdout()
	switch s.output {
	case "json":
		return json.NewEncoder(w).Encode(answer)
	case "text":
		_, err := fmt.Fprintln(w, answer.text())
		return err
	}
	if err := comment(w, answer.text()); err != nil {
		return err
	}
	if answer.Objective == nil {
		_, err := io.WriteString(w, dimacs.EndOfBatch)
		return err
	}
	return s.stream.WriteFlow(w, *answer.Objective, flow, s.stream.Alone() && len(s.changes) == 0)
}

// comment writes comments of less than 100 bytes: what is behind, programs that read DIMACS solutions often take for another line.
func comment(w io.Writer, text string) error {
	line := "c"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) >= 99 && line != "c" {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
			line = "c"
		}
		line += " " + word
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func (a solveAnswer) text() string {
	if a.Error != "" {
		return a.Status + ": " + a.Error
	}
	objective, verified := "", ""
	if a.Objective != nil {
		objective = fmt.Sprintf(" %d", *a.Objective)
	}
	if a.Verified {
		verified = ", verified"
	}
	return fmt.Sprintf("%s%s (%s, %d nodes, %d arcs; apply %.3f, solve %.3f, read %.3f ms%s)",
		a.Status, objective, a.Algorithm, a.Nodes, a.Arcs, a.ApplyMS, a.SolveMS, a.ReadMS, verified)
}
