package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/bench"
)

func runBench(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), append([]string{"bench", "solver"}, args...), strings.NewReader(""), &out, &errOut)
	return out.String() + errOut.String(), code
}

func TestBenchSolver(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "tiny.yaml")
	require.NoError(t, os.WriteFile(file, []byte("hosts: 20\nslots: 3\ncycles: 9\nsweep: {churn: [0.1, 0.2]}\n"), 0o600))
	page, plots, networks := filepath.Join(folder, "p.html"), filepath.Join(folder, "svg"), filepath.Join(folder, "dimacs")
	out, code := runBench(t, file, "--cycles", "4", "--algorithms", "netsimplex,ssp", "--verify", "-o", "json",
		"--clock", "cpu", "--samples", "2", "--html", page, "--svg", plots, "--export", networks,
		"--report", filepath.Join(folder, "r.md"), "--report", filepath.Join(folder, "r.csv"))
	require.Zero(t, code, out)
	var report bench.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Runs, 2)
	require.Equal(t, 20, report.Runs[0].Workload.Hosts, "of the file")
	require.Equal(t, 4, report.Runs[0].Workload.Cycles, "of the flag")
	require.Equal(t, 0.2, report.Runs[1].Workload.Churn, "of the sweep")
	require.Len(t, report.Runs[1].Algorithms, 2)
	for folder, count := range map[string]int{plots: 2, networks: 4} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, entries, count, folder)
	}
	require.FileExists(t, page)
	table, err := os.ReadFile(filepath.Join(folder, "r.md"))
	require.NoError(t, err)
	require.Contains(t, string(table), "| tiny-churn-0.2 |")

	out, code = runBench(t, file, "--churn", "0.3", "-o", "json")
	require.Zero(t, code, out)
	report = bench.Report{}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Runs, 1, "the flag replaces the sweep")
	require.Equal(t, 0.3, report.Runs[0].Workload.Churn)

	exported, err := filepath.Glob(filepath.Join(networks, "*-4.min"))
	require.NoError(t, err)
	require.Len(t, exported, 2)
	var solved bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"solve", "--verify", exported[0]}, nil, &solved, &solved), solved.String())
	require.Contains(t, solved.String(), "verified")
}

// Workloads of one name are told apart, and no network or plot is kept in place of another.
func TestBenchSolverTellsApart(t *testing.T) {
	folder := t.TempDir()
	var files []string
	for _, hosts := range []string{"20", "30"} {
		file := filepath.Join(t.TempDir(), "tiny.yaml")
		require.NoError(t, os.WriteFile(file, []byte("hosts: "+hosts+"\nslots: 3\ncycles: 2\nsamples: 1\n"), 0o600))
		files = append(files, file)
	}
	out, code := runBench(t, append(files, "--export", folder, "--svg", folder, "-o", "csv")...)
	require.Zero(t, code, out)
	for _, name := range []string{"tiny-2.min", "tiny-2-2.min", "tiny-cycles.svg", "tiny-2-cycles.svg"} {
		require.FileExists(t, filepath.Join(folder, name))
	}
	require.Contains(t, out, "\ntiny-2,auto,")
}

// A workload that flags made another one says so, and wants no ratio any more.
func TestBenchSolverSaysWhatFlagsChange(t *testing.T) {
	for _, c := range []struct {
		about string
		floor float64
		args  []string
	}{
		{"1,000 hosts at 90 %, 1 % churn", 57, []string{"--hosts", "1000", "--cycles", "1", "--warm-up", "1", "--samples", "1", "--seed", "7"}},
		{"1,000 hosts at 90 %, 1 % churn, but --churn=0.5 --hosts=20", 0, []string{"--cycles", "1", "--hosts", "20", "--churn", "0.5"}},
	} {
		out, code := runBench(t, append([]string{"1k-90", "-o", "json"}, c.args...)...)
		require.Zero(t, code, out)
		var report bench.Report
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		require.Equal(t, c.about, report.Runs[0].Workload.About)
		require.InDelta(t, c.floor, report.Runs[0].Workload.Floor, 0)
	}
}

func TestBenchSolverRefuses(t *testing.T) {
	for _, c := range []struct {
		message string
		args    []string
	}{
		{"no-such", []string{"no-such"}},
		{"--suite \"long\"", []string{"--suite", "long"}},
		{"--output \"xml\"", []string{"-o", "xml"}},
		{"must end in .json", []string{"1k-90", "--report", "r.pdf"}},
		{`--report "r.md": another one goes to that file`, []string{"1k-90", "--report", "r.md", "--report", "r.md"}},
		{`--report "./r.md": another one goes to that file`, []string{"1k-90", "--html", "r.md", "--report", "./r.md"}},
		{"hosts: -1", []string{"1k-90", "--hosts", "-1"}},
		{"--peer \"cplex\"", []string{"1k-90", "--peer", "cplex"}},
		{"--algorithms \"magic\"", []string{"1k-90", "--algorithms", "magic"}},
		{"--algorithms: ssp is there twice", []string{"1k-90", "--algorithms", "ssp,auto,ssp"}},
		{"--algorithms: give", []string{"1k-90", "--algorithms", ""}},
		{"--lemon \"magic\"", []string{"1k-90", "--lemon", "magic"}},
		{"--clock \"sun\"", []string{"1k-90", "--clock", "sun"}},
		{"--limit: -1s", []string{"1k-90", "--limit", "-1s"}},
		{"samples: 0", []string{"cold-12k-50", "--samples", "0"}},
		{"--peer and --export get sampled cycles", []string{"1k-90", "--samples", "0", "--export", "networks"}},
		{"1k-90 has none with --samples 5 and --cycles 0", []string{"1k-90", "--cycles", "0", "--peer", "lemon"}},
		{"--html: open", []string{"1k-90", "--html", "no/such/page.html"}},
		{"--report: open", []string{"1k-90", "--report", "no/such/report.md"}},
		{"--svg: mkdir", []string{"1k-90", "--svg", "/dev/null/plots"}},
		{"--export: mkdir", []string{"1k-90", "--export", "/dev/null/networks"}},
	} {
		out, code := runBench(t, c.args...)
		require.Equal(t, exitUsage, code, out)
		require.Contains(t, out, c.message)
		require.Equal(t, 1, strings.Count(out, "sluice: "), "one message")
	}
}

func TestBenchInstances(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "deep"), 0o755))
	problem := "p min 3 3\nn 1 2\nn 3 -2\na 1 2 0 2 1\na 2 3 0 1 1\na 1 3 0 2 5\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "deep", "one.min"), []byte(problem), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README"), []byte("no problem"), 0o600))
	var out bytes.Buffer
	bench := func(args ...string) int {
		out.Reset()
		return run(t.Context(), append([]string{"bench", "instances"}, args...), nil, &out, &out)
	}
	require.Zero(t, bench(folder, "--min-arcs", "3", "--algorithms", "ssp", "--verify"), out.String())
	require.Regexp(t, `deep-one +3 +3`, out.String())
	require.Zero(t, bench(folder), out.String())
	require.NotContains(t, out.String(), "deep-one", "too small")
	require.Contains(t, out.String(), "left out 1 of 1 problems: they have fewer than 1000 arcs")
	require.Zero(t, bench(folder, "-o", "json"), out.String())
	require.Contains(t, out.String(), `"runs": []`)

	// Problems of one name are told apart, and none is kept in place of another.
	other, kept := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "deep-one.min"), []byte(problem), 0o600))
	require.Zero(t, bench(folder, other, "--min-arcs", "3", "--repeats", "3", "--export", kept), out.String())
	require.Regexp(t, `deep-one-2 +3 +3`, out.String())
	require.FileExists(t, filepath.Join(kept, "deep-one-0.min"))
	require.FileExists(t, filepath.Join(kept, "deep-one-2-0.min"))
	files, err := os.ReadDir(kept)
	require.NoError(t, err)
	require.Len(t, files, 2, "each once, however often it is solved")
	require.Equal(t, exitUsage, bench(filepath.Join(folder, "absent")))
	require.Equal(t, exitUsage, bench(folder, t.TempDir()), "not dropped without a word")
	require.Contains(t, out.String(), "no file in it ends in .min or .min.gz")
	require.Equal(t, exitUsage, bench(folder, "--repeats", "0"))
	require.Equal(t, exitFailure, bench(filepath.Join(folder, "README")))
	require.Contains(t, out.String(), "malformed")
	infeasible := filepath.Join(t.TempDir(), "infeasible.min")
	require.NoError(t, os.WriteFile(infeasible, []byte("p min 2 0\nn 1 1\nn 2 -1\n"), 0o600))
	require.Equal(t, exitFailure, bench(infeasible, "--min-arcs", "0"))
	require.Contains(t, out.String(), `infeasible: auto says "infeasible": only`)

	// What cannot be measured is named, and the others are measured all the same.
	require.Equal(t, exitFailure, bench(infeasible, filepath.Join(folder, "README"), folder, "--min-arcs", "0"))
	require.Contains(t, out.String(), `infeasible: auto says "infeasible": only`)
	require.Contains(t, out.String(), "malformed")
	require.Regexp(t, `deep-one +3 +3`, out.String())
	require.Contains(t, out.String(), "sluice: 2 of 3 problems could not be measured")
	require.Zero(t, bench(folder, "--min-arcs", "3", "--repeats", "1000000000", "--limit", "1ms"), out.String())
	require.Equal(t, exitUsage, bench(), "nothing to solve")
	require.Equal(t, exitUsage, bench("--families", "magic"))

	// What is exported does not go over what is read.
	require.NoError(t, os.WriteFile(filepath.Join(other, "deep-one-0.min"), []byte("p min 1 0\n"), 0o600))
	require.Equal(t, exitUsage, bench(other, "--export", other+"/."))
	require.Contains(t, out.String(), "--export")
	left, err := os.ReadFile(filepath.Join(other, "deep-one-0.min"))
	require.NoError(t, err)
	require.Equal(t, "p min 1 0\n", string(left))
	require.Zero(t, bench("--families", "one-path", "--repeats", "1", "--export", folder), out.String())
	require.Regexp(t, `one-path +5000`, out.String())
	require.FileExists(t, filepath.Join(folder, "one-path-0.min"))
}
