package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluice-scheduler/sluice/bench/peer"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// Peer is another program that solves the same networks.
type Peer interface {
	Name() string
	// Solve solves n, which is also in the DIMACS file.
	Solve(ctx context.Context, n *flowgraph.Network, file string) ([]peer.Answer, error)
}

// Options are what a run needs besides the workload.
type Options struct {
	Algorithms []string // of the registry; the first leads
	Verify     bool     // certify every answer
	Clock      string   // [Wall] or [CPU]
	Peers      []Peer
	Export     string // folder for the networks of the sampled cycles, or none
	// Limit ends a run early, after the cycle in which it is reached; zero does not.
	Limit time.Duration
	// Progress is told how far the run is; it may be nil.
	Progress func(done, total int)
}

// ErrDisagree is wrapped by the error of a run in which two solvers found
// different optima, or one failed its certificate.
var ErrDisagree = errors.New("bench: solvers disagree")

// run is a workload under way.
type run struct {
	Options
	w       Workload
	now     clock
	cluster *Cluster
	net     *flowgraph.Network
	racers  []*racer
	result  *Result
	folder  string // of exported networks
	begin   time.Time
}

// racer is one solver with its reading of the flow.
type racer struct {
	solver solver.Solver
	reader Reader
	out    *Algorithm
}

// Run plays w and returns what it measured. It stops at the first answer that
// is not optimal or not the others'. When ctx ends, it returns what it has measured
// so far besides the error.
func Run(ctx context.Context, w Workload, o Options) (*Result, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return measure(ctx, w, o, func(r *run) error {
		body := r.warm
		if w.Mode == Cold {
			body = r.cold
		}
		err := body(ctx)
		if r.cluster != nil {
			r.result.Counts = r.cluster.Counts()
		}
		return err
	})
}

// measure prepares a run, lets body do it and sums it up.
func measure(ctx context.Context, w Workload, o Options, body func(*run) error) (*Result, error) {
	now, err := newClock(o.Clock)
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, w: w, now: now, result: &Result{Workload: w}}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if r.folder != r.Export {
		defer func() { _ = os.RemoveAll(r.folder) }()
	}
	r.begin = time.Now()
	if err = body(r); err != nil {
		if err = fmt.Errorf("bench: %s: %w", w.Name, err); ctx.Err() == nil {
			return nil, err
		}
		r.result.Limited = true
	}
	for _, x := range r.racers {
		x.out.summarize()
		r.result.Algorithms = append(r.result.Algorithms, x.out)
	}
	for _, p := range r.result.Peers {
		p.Times = Summarize(p.samples)
	}
	r.result.compare()
	r.result.PeakMB = peakMB()
	r.result.Seconds = time.Since(r.begin).Seconds()
	return r.result, err
}

func (r *run) prepare() error {
	if len(r.Algorithms) == 0 {
		return errors.New("bench: no algorithm is given")
	}
	for _, name := range r.Algorithms {
		s, err := registry.New(name)
		if err != nil {
			return err
		}
		r.racers = append(r.racers, &racer{solver: s, out: &Algorithm{Name: name}})
	}
	r.folder = r.Export
	if r.Export != "" {
		if err := os.MkdirAll(r.Export, 0o755); err != nil {
			return fmt.Errorf("bench: export: %w", err)
		}
	} else if len(r.Peers) > 0 {
		folder, err := os.MkdirTemp("", "sluice-bench-")
		if err != nil {
			return fmt.Errorf("bench: networks for peers: %w", err)
		}
		r.folder = folder
	}
	return nil
}

// cold solves one network of each seed.
func (r *run) cold(ctx context.Context) error {
	for i := range r.w.Samples {
		r.progress(i, r.w.Samples)
		if err := ctx.Err(); err != nil {
			return err
		}
		w := r.w
		w.Seed += uint64(i)
		var err error
		if r.cluster, err = NewCluster(w); err != nil {
			return err
		}
		r.build()
		for _, x := range r.racers {
			if x.solver, err = registry.New(x.out.Name); err != nil {
				return err
			}
			x.reader = Reader{}
		}
		if err := r.first(i); err != nil {
			return err
		}
		if err := r.sample(ctx, i, false); err != nil {
			return err
		}
		if r.over() {
			break
		}
	}
	r.progress(r.w.Samples, r.w.Samples)
	return nil
}

// warm follows one network through its cycles.
func (r *run) warm(ctx context.Context) error {
	var err error
	if r.cluster, err = NewCluster(r.w); err != nil {
		return err
	}
	r.build()
	if err := r.first(0); err != nil {
		return err
	}
	r.absorb()
	// The first placements become running arcs all at once: a change of
	// everything, which belongs to no cycle.
	if err := r.cycle(Cycle{}); err != nil {
		return err
	}
	if err := r.pass(ctx, r.w.WarmUp, 0); err != nil {
		return err
	}
	samples := r.sampled()
	for i := 1; i <= r.w.Cycles; i++ {
		r.progress(i-1, r.w.Cycles)
		if err := ctx.Err(); err != nil {
			return err
		}
		r.absorb()
		r.cluster.Plan()
		counted := r.cluster.Counted()
		if err := r.cycle(Cycle{Index: i, Counted: counted}); err != nil {
			return err
		}
		over := r.over()
		lacks := len(samples) > 0 && len(r.result.Peers) == 0 // a run that ends early has one sample even so
		if samples[i] || over && counted && lacks {
			if err := r.sample(ctx, i, true); err != nil {
				return err
			}
			lacks = false
		}
		if over && !lacks {
			break
		}
		if samples[i] {
			if err := r.settle(ctx, i); err != nil {
				return err
			}
		}
	}
	r.progress(r.w.Cycles, r.w.Cycles)
	return nil
}

// settling is how many cycles follow a sample before the next one that is counted.
const settling = 2

// settle plays a few cycles that are not counted: peers, and a cold solve beside the
// warm one, have had the caches. Where only some cycles count, others come first anyway.
func (r *run) settle(ctx context.Context, index int) error {
	if r.w.Huge.Tasks > 0 || len(r.Peers) == 0 {
		return nil
	}
	return r.pass(ctx, settling, index)
}

// pass plays cycles that are not counted.
func (r *run) pass(ctx context.Context, cycles, index int) error {
	for range cycles {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.absorb()
		r.cluster.Plan()
		if err := r.cycle(Cycle{Index: index}); err != nil {
			return err
		}
	}
	return nil
}

// cycle applies what was planned and lets everybody solve it.
func (r *run) cycle(c Cycle) error {
	c.Apply = milliseconds(r.now.timed(r.cluster.Apply))
	for _, x := range r.racers {
		x.reader.Forget(r.cluster.Removed())
	}
	for k := range r.racers {
		// The order rotates: nobody always finds the caches warm.
		if err := r.step(r.racers[(k+c.Index)%len(r.racers)], c); err != nil {
			return err
		}
	}
	return r.agree()
}

func (r *run) build() {
	before := heap()
	r.cluster.Build()
	r.net = r.cluster.Network()
	r.result.NetworkMB = heap() - before
}

// over tells that the limit is reached, and notes it.
func (r *run) over() bool {
	r.result.Limited = r.Limit > 0 && time.Since(r.begin) > r.Limit
	return r.result.Limited
}

// first solves a network that is new to all, and notes what memory each holds.
func (r *run) first(index int) error {
	for _, x := range r.racers {
		before := heap()
		if err := r.step(x, Cycle{Index: index, Cold: true}); err != nil {
			return err
		}
		x.out.MemoryMB = heap() - before
	}
	return r.agree()
}

// step solves and reads once.
func (r *run) step(x *racer, cycle Cycle) error {
	n := r.net
	var answer solver.Result
	var err error
	allocs := mallocs()
	cycle.Solve = milliseconds(r.now.timed(func() { answer, err = x.solver.Solve(n, solver.Budget{}) }))
	cycle.Allocs = mallocs() - allocs
	if err != nil {
		return fmt.Errorf("cycle %d: %s: %w", cycle.Index, x.out.Name, err)
	}
	if answer.Status != solver.Optimal && r.w.Instance {
		return fmt.Errorf("%s says %q: only problems that it finds an optimum of can be measured", x.out.Name, answer.Status)
	}
	if answer.Status != solver.Optimal {
		return fmt.Errorf("cycle %d: %s says %q of a network that has an optimum: %w", cycle.Index, x.out.Name, answer.Status, ErrDisagree)
	}
	cycle.Read = milliseconds(r.now.timed(func() { x.reader.Read(n, answer.Solution) }))
	cycle.Work, cycle.Moves, cycle.Objective = answer.Work, len(x.reader.moves), answer.Objective
	x.out.Cycles = append(x.out.Cycles, cycle)
	if r.Verify {
		if err := solver.Verify(n, answer); err != nil {
			return fmt.Errorf("cycle %d: %s: %w: %w", cycle.Index, x.out.Name, ErrDisagree, err)
		}
		x.out.Verified++
	}
	return nil
}

func (r *run) absorb() {
	leader := r.racers[0]
	r.cluster.Absorb(leader.reader.moves, &leader.reader)
}

func (r *run) last() Cycle {
	c := r.racers[0].out.Cycles
	return c[len(c)-1]
}

func (r *run) agree() error {
	want := r.last()
	for _, x := range r.racers[1:] {
		if got := x.out.Cycles[len(x.out.Cycles)-1]; got.Objective != want.Objective {
			return fmt.Errorf("cycle %d: %s finds %d, %s finds %d: %w", want.Index, r.racers[0].out.Name, want.Objective, x.out.Name, got.Objective, ErrDisagree)
		}
	}
	return nil
}

// sampled spreads the samples evenly over the cycles that count.
func (r *run) sampled() map[int]bool {
	chosen := map[int]bool{}
	if r.folder == "" || r.w.Samples == 0 {
		return chosen
	}
	every := 1
	if r.w.Huge.Tasks > 0 {
		every = r.w.Huge.Every
	}
	counted := r.w.Cycles / every
	for i := 1; i <= min(r.w.Samples, counted); i++ {
		chosen[counted*i/min(r.w.Samples, counted)*every] = true
	}
	return chosen
}

// sample gives the present network to the peers, alternating with fresh solvers
// of our own if again is set.
func (r *run) sample(ctx context.Context, index int, again bool) error {
	if r.folder == "" {
		return nil
	}
	number := index
	if r.w.Instance { // every sample is of the same network
		number = 0
	}
	file := filepath.Join(r.folder, fmt.Sprintf("%s-%d.min", r.w.Name, number))
	if err := export(file, r.net); err != nil {
		return err
	}
	want := r.last().Objective
	for _, x := range r.racers {
		if !again {
			break
		}
		if err := r.fresh(x, index); err != nil {
			return err
		}
	}
	for _, p := range r.Peers {
		if err := r.ask(ctx, p, index, file, want); err != nil {
			return err
		}
	}
	// The rubbish of all this is not for the next cycle to clear.
	runtime.GC()
	if r.Export == "" {
		return os.Remove(file)
	}
	return nil
}

// fresh solves the present network cold, beside the warm solver of x. It does so twice,
// and the second counts: it finds the memory that the first has left, as peers have
// theirs before their clock starts.
func (r *run) fresh(x *racer, index int) error {
	want := r.last().Objective
	var probe *racer
	for range 2 {
		s, err := registry.New(x.out.Name)
		if err != nil {
			return err
		}
		probe = &racer{solver: s, out: &Algorithm{Name: x.out.Name}}
		runtime.GC()
		if err := r.step(probe, Cycle{Index: index, Cold: true}); err != nil {
			return err
		}
	}
	got := probe.out.Cycles[0]
	if got.Objective != want {
		return fmt.Errorf("cycle %d: %s cold finds %d, before %d: %w", index, x.out.Name, got.Objective, want, ErrDisagree)
	}
	x.out.Cycles = append(x.out.Cycles, got)
	x.out.Verified += probe.out.Verified
	return nil
}

func (r *run) ask(ctx context.Context, p Peer, index int, file string, want int64) error {
	answers, err := p.Solve(ctx, r.net, file)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if !a.Optimal || a.Objective != want {
			return fmt.Errorf("cycle %d: %s %s finds %d, we find %d: %w", index, p.Name(), a.Algorithm, a.Objective, want, ErrDisagree)
		}
		t := r.peerTimes(p.Name() + " " + a.Algorithm)
		ms := a.WallMS
		if r.Clock == CPU {
			ms = a.CPUMS
		}
		t.samples, t.cycles = append(t.samples, ms), append(t.cycles, index)
		t.Agreed++
	}
	return nil
}

func (r *run) peerTimes(name string) *PeerTimes {
	for _, p := range r.result.Peers {
		if p.Name == name {
			return p
		}
	}
	r.result.Peers = append(r.result.Peers, &PeerTimes{Name: name})
	return r.result.Peers[len(r.result.Peers)-1]
}

func (r *run) progress(done, total int) {
	if r.Progress != nil {
		r.Progress(done, total)
	}
}

func export(file string, n *flowgraph.Network) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("bench: export: %w", err)
	}
	if err := errors.Join(dimacs.Write(f, n), f.Close()); err != nil {
		return fmt.Errorf("bench: export: %w", err)
	}
	return nil
}
