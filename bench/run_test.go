package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/bench/peer"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/ssp"
)

// fakePeer solves the file with the oracle, and adds a lie.
type fakePeer struct{ lie int64 }

func (fakePeer) Name() string { return "fake" }

func (p fakePeer) Solve(_ context.Context, _ *flowgraph.Network, file string) ([]peer.Answer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	n, err := dimacs.Read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	r, err := ssp.New().Solve(n, solver.Budget{})
	return []peer.Answer{{Algorithm: "oracle", Optimal: true, Objective: r.Objective + p.lie, WallMS: 5, CPUMS: 7}}, err
}

func TestRun(t *testing.T) {
	for name, w := range small() {
		t.Run(name, func(t *testing.T) {
			folder, calls := t.TempDir(), 0
			r, err := Run(t.Context(), w, Options{
				Algorithms: []string{"netsimplex", "ssp"}, Verify: true, Clock: CPU, Export: folder,
				Peers: []Peer{fakePeer{}}, Progress: func(done, total int) { calls++; require.LessOrEqual(t, done, total) },
			})
			require.NoError(t, err)
			require.Greater(t, calls, w.Cycles)
			require.Len(t, r.Algorithms, 2)
			counted := w.Cycles
			if w.Huge.Tasks > 0 {
				counted /= w.Huge.Every
			}
			files, err := filepath.Glob(filepath.Join(folder, "*.min"))
			require.NoError(t, err)
			require.Len(t, files, w.Samples)
			require.Equal(t, w.Samples, r.Peers[0].Agreed)
			require.Equal(t, 7.0, r.Peers[0].Times.Median, "processor time was asked for")
			for _, a := range r.Algorithms {
				require.Equal(t, counted, a.Total.Count)
				require.Equal(t, 1+w.Samples, a.Cold.Count)
				between := settling * w.Samples
				if w.Huge.Tasks > 0 {
					between = 0
				}
				require.Equal(t, 2+w.WarmUp+w.Cycles+w.Samples+between, a.Verified, "with the first solve and the first running arcs")
				require.InDelta(t, r.Peers[0].Times.Median/a.Total.P99, a.Ratio, 1e-9)
			}
		})
	}
}

// TestRunMemory: the network of no task is small, but not smaller than nothing.
func TestRunMemory(t *testing.T) {
	w := small()["random"]
	w.Utilisation, w.Cycles, w.Samples = 0.001, 1, 0
	r, err := Run(t.Context(), w, Options{Algorithms: []string{"netsimplex"}, Clock: Wall})
	require.NoError(t, err)
	require.Positive(t, r.NetworkMB)
	require.Positive(t, r.Algorithms[0].MemoryMB)
}

func TestRunCold(t *testing.T) {
	w := small()["random"]
	w.Mode = Cold
	r, err := Run(t.Context(), w, Options{Algorithms: []string{"netsimplex"}, Clock: Wall, Peers: []Peer{fakePeer{}}})
	require.NoError(t, err)
	a := r.Algorithms[0]
	require.Equal(t, w.Samples, a.Cold.Count)
	require.Zero(t, a.Total.Count)
	require.NotEqual(t, a.Cycles[0].Objective, a.Cycles[1].Objective, "another seed is another network")
	require.InDelta(t, 5/a.Cold.Median, a.Ratio, 1e-9)
}

func TestRunLimit(t *testing.T) {
	w := small()["random"]
	w.Cycles = 1000
	options := Options{Algorithms: []string{"netsimplex"}, Clock: Wall, Peers: []Peer{fakePeer{}}, Limit: 1}
	r, err := Run(t.Context(), w, options)
	require.NoError(t, err)
	require.True(t, r.Limited)
	require.Equal(t, 1, r.Algorithms[0].Total.Count)
	require.Equal(t, 1, r.Peers[0].Agreed, "one sample is taken even so")
	w.Mode = Cold
	r, err = Run(t.Context(), w, options)
	require.NoError(t, err)
	require.Equal(t, 1, r.Algorithms[0].Cold.Count)
	w = small()["huge"]
	w.Cycles = 1000
	r, err = Run(t.Context(), w, options)
	require.NoError(t, err)
	require.Equal(t, 1, r.Algorithms[0].Total.Count, "it goes on until a cycle counts")
	require.Equal(t, 1, r.Peers[0].Agreed)
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := small()["random"]
	w.Cycles = 1000
	options := Options{Algorithms: []string{"netsimplex"}, Clock: Wall, Progress: func(done, _ int) {
		if done == 3 {
			cancel()
		}
	}}
	r, err := Run(ctx, w, options)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, r.Limited)
	require.Equal(t, 3, r.Algorithms[0].Total.Count, "what was measured so far is not lost")
	require.Positive(t, r.Counts.Arcs)
}

func TestColdRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := small()["random"]
	w.Mode, w.Samples = Cold, 1000
	r, err := Run(ctx, w, Options{Algorithms: []string{"netsimplex"}, Clock: Wall, Progress: func(done, _ int) {
		if done == 3 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, r.Limited)
	require.Equal(t, 3, r.Algorithms[0].Cold.Count)
}

func TestRunRefuses(t *testing.T) {
	w := small()["random"]
	options := Options{Algorithms: []string{"netsimplex"}, Clock: Wall}
	with := func(change func(*Options)) Options {
		o := options
		change(&o)
		return o
	}
	_, err := Run(t.Context(), w, with(func(o *Options) { o.Algorithms = nil }))
	require.ErrorContains(t, err, "no algorithm")
	_, err = Run(t.Context(), w, with(func(o *Options) { o.Algorithms = []string{"magic"} }))
	require.ErrorContains(t, err, "magic")
	_, err = Run(t.Context(), w, with(func(o *Options) { o.Clock = "sun" }))
	require.ErrorContains(t, err, "sun")
	_, err = Run(t.Context(), w, with(func(o *Options) { o.Peers = []Peer{fakePeer{lie: 1}} }))
	require.ErrorIs(t, err, ErrDisagree)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, w, options)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunInstance(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n.min")
	require.NoError(t, os.WriteFile(file, []byte("p min 3 3\nn 1 2\nn 3 -2\na 1 2 0 2 1\na 2 3 0 1 1\na 1 3 0 2 5\n"), 0o600))
	n, err := ReadInstance(file)
	require.NoError(t, err)
	options := Options{Algorithms: []string{"netsimplex", "ssp"}, Clock: Wall, Verify: true}
	r, err := RunInstance(t.Context(), "a/n", n, 3, 4, options)
	require.NoError(t, err)
	require.Equal(t, "a-n", r.Workload.Name)
	require.Equal(t, Counts{Nodes: 3, Arcs: 3}, r.Counts)
	require.Equal(t, 4, r.Algorithms[1].Cold.Count)
	require.Equal(t, 4, r.Algorithms[1].Verified)

	options.Peers = []Peer{fakePeer{}}
	r, err = RunInstance(t.Context(), "n", n, 3, 4, options)
	require.NoError(t, err)
	require.Equal(t, 4, r.Peers[0].Agreed)
	require.Equal(t, 4, r.Algorithms[0].Cold.Count)
	options.Peers[0] = fakePeer{lie: 1}
	_, err = RunInstance(t.Context(), "n", n, 3, 4, options)
	require.ErrorIs(t, err, ErrDisagree)
	_, err = RunInstance(t.Context(), "n", n, 4, 4, options)
	require.ErrorIs(t, err, ErrSmall)
	_, err = ReadInstance(file + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestGeometricMeans(t *testing.T) {
	r := &Report{}
	for _, ratio := range []float64{2, 8} {
		r.Runs = append(r.Runs, &Result{Workload: Workload{Name: short(ratio), Instance: true}, Algorithms: []*Algorithm{{Name: "x", Ratio: ratio}, {Name: "y"}}})
	}
	require.Equal(t, []Mean{{Algorithm: "x", Count: 2, Mean: 4, Worst: 2, WorstName: "2.00"}}, r.GeometricMeans())
	var out bytes.Buffer
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "x: geometric mean of 2 ratios 4.00×, worst 2.00× (2.00)")
}

func TestSummarize(t *testing.T) {
	var values []float64
	for i := 200; i > 0; i-- {
		values = append(values, float64(i))
	}
	require.Equal(t, Summary{Count: 200, Min: 1, Median: 100, P99: 198, Max: 200, Mean: 100.5}, Summarize(values))
	require.Equal(t, 3.0, Summarize([]float64{3, 1, 2}).P99)
	require.Equal(t, Summary{}, Summarize(nil))
}

// report is two runs that have everything to show.
func report(t *testing.T) *Report {
	r := NewReport(Wall, time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC))
	w := small()["random"]
	w.Floor, w.Target = 1, 1e9
	swept := w
	swept.Sweep.Hosts = []int{20, 40}
	for _, w := range append(swept.Expand(), w) {
		run, err := Run(t.Context(), w, Options{Algorithms: []string{"netsimplex", "ssp"}, Clock: Wall, Peers: []Peer{fakePeer{}}})
		require.NoError(t, err)
		r.Runs = append(r.Runs, run)
	}
	return r
}

func TestReport(t *testing.T) {
	r := report(t)
	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	var back Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, r.Runs[0].Algorithms[0].Total, back.Runs[0].Algorithms[0].Total)
	require.NotEmpty(t, back.Machine.CPU)

	out.Reset()
	require.NoError(t, r.WriteCSV(&out))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	w := r.Runs[0].Workload
	require.Len(t, rows, 1+3*(2*(2+w.Cycles+(1+settling)*w.Samples)+w.Samples))

	out.Reset()
	require.NoError(t, r.WriteTable(&out))
	require.Contains(t, out.String(), "fake oracle: same objective on all 3 networks")
	require.Contains(t, out.String(), "wanted 1,")
	require.Error(t, r.WriteTable(brokenWriter{}))
	require.Error(t, r.WriteHTML(brokenWriter{}))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPlots(t *testing.T) {
	r := report(t)
	names := map[string]*Plot{}
	for _, p := range r.Plots() {
		names[p.Name] = p
		var out bytes.Buffer
		require.NoError(t, p.WriteSVG(&out))
		require.NoError(t, wellFormed(&out), p.Name)
	}
	require.Len(t, names, 3)
	require.Len(t, names["random-cycles"].Curves, 3, "two algorithms and a peer")
	require.Equal(t, []float64{20, 40}, names["sweep-random-hosts"].Curves[0].X)
	require.Contains(t, names, "size")

	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	require.Equal(t, 3, strings.Count(page.String(), "<svg"))
	for _, outside := range []string{"src=", "href=", "@import", "url("} {
		require.NotContains(t, page.String(), outside, "the page must need nothing else")
	}
}

// Below the resolution of the clock there is no ratio.
func TestNoRatioToNothing(t *testing.T) {
	r := &Report{Runs: []*Result{{
		Workload: Workload{Name: "tiny", Instance: true}, Algorithms: []*Algorithm{{Name: "auto"}}, Peers: []*PeerTimes{{Name: "fake", Times: Summary{Median: 1}}},
	}}}
	var out bytes.Buffer
	require.NoError(t, r.WriteMarkdown(&out))
	require.Contains(t, out.String(), "| 0 | 1.00 |  |")
}

// A value of 0 has no place on a logarithmic axis: a sweep that has one gets a linear one.
func TestPlotFromZero(t *testing.T) {
	p := Plot{LogX: true, Curves: []Curve{{Name: "auto p99", X: []float64{0, 0.5, 1}, Y: []float64{1, 10, 100}, Points: true}}}
	svg := p.svg()
	require.NotContains(t, svg, "Inf")
	require.Equal(t, 3, strings.Count(svg, "<circle"))
	require.Contains(t, svg, `points="64.0,`)
}

func wellFormed(r io.Reader) error {
	d := xml.NewDecoder(r)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestAxis(t *testing.T) {
	a := newAxis([]float64{0.3, 40}, true, 0, 100)
	require.Equal(t, []float64{0.1, 1, 10, 100}, a.ticks())
	require.InDelta(t, 50, newAxis([]float64{0, 10}, false, 0, 100).at(5), 1e-9)
	require.NotEmpty(t, newAxis(nil, true, 0, 1).ticks())
	require.NotEmpty(t, newAxis([]float64{7}, false, 0, 1).ticks())
}
