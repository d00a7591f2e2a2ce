package difftest

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/solvertest"
)

// Contender is a solver to be tried, made anew for each script.
type Contender struct {
	Name string
	New  func() solver.Solver
	// MaxBits is the cost range that it claims, as in [solver.Precheck]: only
	// beyond it may it answer CostRange where others do not. Zero claims none.
	MaxBits int
	// MaxArcs is the size up to which it is asked; zero is any.
	MaxArcs int
}

// Failure tells which law a contender broke, at which step.
type Failure struct {
	Solver string
	Law    string // a few words, the same for failures of a kind
	Step   int
	Err    error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("difftest: step %d: %s: %s: %v", f.Step, f.Solver, f.Law, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// The laws that are checked at every solve.
const (
	lawPanic       = "does not panic"
	lawEnds        = "comes to an end"
	lawCertificate = "optimal results are certified"
	lawChanged     = "the list of changes tells all"
	lawAgree       = "all agree on status and objective"
	lawBare        = "only an optimal result has a flow"
	lawWhole       = "the network stays whole"
)

var errBroken = errors.New("broken")

// player is one contender under way.
type player struct {
	Contender
	solver solver.Solver
	flows  solvertest.Flows
	digest uint64
}

// Outcome is what a play came to.
type Outcome struct {
	Solves, Optimal int // how many solves, and how many of them ended well
	// Digests tell for each contender its statuses, flows and work, so that two
	// plays can be compared.
	Digests []uint64
}

// Play lets all contenders follow a script and returns the first failure as a
// [*Failure]. The first contender to answer at a step sets status and objective
// for the others.
func Play(s Script, contenders []Contender) (Outcome, error) {
	players := make([]*player, len(contenders))
	for i, c := range contenders {
		players[i] = &player{Contender: c, solver: c.New()}
	}
	var out Outcome
	w := newWorld()
	for i, op := range s {
		switch op.Verb {
		case Solve:
			out.Solves++
			status, f := solveAll(w.net, players)
			if f != nil {
				f.Step = i
				return out, f
			}
			if status == solver.Optimal {
				out.Optimal++
			}
		case Step:
			for _, p := range players {
				if _, f := p.solve(w.net, op.Args[0]); f != nil {
					f.Step = i
					return out, f
				}
			}
		default:
			w.apply(op)
			for _, p := range players {
				for _, a := range w.gone {
					p.flows.Forget(w.net, a)
				}
			}
		}
	}
	for _, p := range players {
		out.Digests = append(out.Digests, p.digest)
	}
	return out, nil
}

// solveAll returns the status that all agree on.
func solveAll(n *flowgraph.Network, players []*player) (solver.Status, *Failure) {
	var want solver.Result
	if err := n.Check(); err != nil {
		return want.Status, &Failure{Solver: "flowgraph", Law: lawWhole, Err: err}
	}
	var first *player
	for _, p := range players {
		got, f := p.solve(n, 0)
		switch {
		case f != nil:
			return want.Status, f
		case got.Status == solver.Unknown:
			continue // not asked
		case got.Status == solver.CostRange && solver.PotentialBits(n) > p.MaxBits:
			continue
		case first == nil:
			first, want = p, got
		case got.Status != want.Status || got.Objective != want.Objective:
			return want.Status, &Failure{Solver: p.Name, Law: lawAgree, Err: fmt.Errorf("%w: %s with %d, but %s says %s with %d",
				errBroken, got.Status, got.Objective, first.Name, want.Status, want.Objective)}
		}
	}
	return want.Status, nil
}

// enough is a budget that no sound solve of n comes near.
func enough(n *flowgraph.Network) int64 {
	size := int64(n.NumNodes() + n.NumArcs() + 64)
	return 4096*size + 64*size*int64(n.NumNodes())
}

// solve asks for one solve and holds the answer against the laws. Without a
// budget the answer must come.
func (p *player) solve(n *flowgraph.Network, work int64) (r solver.Result, f *Failure) {
	if p.MaxArcs > 0 && n.NumArcs() > p.MaxArcs {
		return r, nil
	}
	defer func() {
		if x := recover(); x != nil {
			f = &Failure{Solver: p.Name, Law: lawPanic, Err: fmt.Errorf("%w: %v", errBroken, x)}
		}
	}()
	fail := func(law, format string, args ...any) *Failure {
		return &Failure{Solver: p.Name, Law: law, Err: fmt.Errorf("%w: "+format, append([]any{errBroken}, args...)...)}
	}
	budget := work
	if work == 0 {
		budget = enough(n)
	}
	r, err := p.solver.Solve(n, solver.Budget{Work: budget})
	switch {
	case err != nil:
		return r, fail(lawEnds, "%v", err)
	case r.Status == solver.BudgetSpent && work == 0:
		return r, fail(lawEnds, "%d units were not enough", budget)
	case r.Status == solver.Optimal:
		if err := solver.Verify(n, r); err != nil {
			return r, fail(lawCertificate, "%v", err)
		}
		if err := p.flows.Follow(n, r); err != nil {
			return r, fail(lawChanged, "%v", err)
		}
	case r.Solution != nil:
		return r, fail(lawBare, "%s comes with one", r.Status)
	}
	p.note(r)
	return r, nil
}

// note adds an answer to the digest.
func (p *player) note(r solver.Result) {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, p.digest, r.Status, r.Objective, r.Work)
	if r.Status == solver.Optimal {
		for _, a := range r.Changed() {
			_, _ = fmt.Fprint(h, a, r.Flow(a), " ")
		}
	}
	p.digest = h.Sum64()
}
