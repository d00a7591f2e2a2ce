package bench

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the tables of the documentation: one row for each run and
// algorithm, then one for each instance. Times are in milliseconds.
func (r *Report) WriteMarkdown(w io.Writer) error {
	out := &failing{w: w}
	_, _ = fmt.Fprintf(out, "%s, %d cores, %s, %s; commit %s, %s; %s time, ms.\n",
		r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Commit, r.Time.Format("2006-01-02"), r.Clock)
	first := true
	for _, run := range r.Runs {
		if run.Workload.Instance {
			continue
		}
		if first {
			_, _ = io.WriteString(out, "\n| workload | tasks | groups | arcs | cycles | algorithm | cold | median | p99 | apply | solve | read | solver MB | LEMON cold | ratio | floor / target |\n"+
				"|---|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
			first = false
		}
		for _, a := range run.Algorithms {
			run.writeRow(out, a)
		}
	}
	r.writeInstanceRows(out)
	if out.err != nil {
		return fmt.Errorf("bench: write: %w", out.err)
	}
	return nil
}

func (r *Result) writeRow(w io.Writer, a *Algorithm) {
	warm := func(x float64) string {
		if a.Total.Count == 0 {
			return ""
		}
		return short(x)
	}
	peer, wanted := "", ""
	if len(r.Peers) > 0 {
		peer = short(r.Peers[0].Times.Median)
	}
	if r.Workload.Floor > 0 {
		wanted = fmt.Sprintf("%v / %v", r.Workload.Floor, r.Workload.Target)
	}
	_, _ = fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
		r.Workload.Name, r.Counts.Tasks, r.Counts.Groups, r.Counts.Arcs, a.Total.Count, a.Name, short(a.Cold.Median),
		warm(a.Total.Median), warm(a.Total.P99), warm(a.Apply.Median), warm(a.Solve.Median), warm(a.Read.Median),
		short(a.MemoryMB), peer, ratio(a.Ratio), wanted)
}

func (r *Report) writeInstanceRows(w io.Writer) {
	first := true
	for _, run := range r.Runs {
		if !run.Workload.Instance {
			continue
		}
		if first {
			_, _ = io.WriteString(w, "\n| instance | nodes | arcs | algorithm | cold |")
			for _, p := range run.Peers {
				_, _ = fmt.Fprintf(w, " %s | ratio |", p.Name)
			}
			_, _ = fmt.Fprintf(w, "\n|---|--:|--:|---|--:|%s\n", strings.Repeat("--:|--:|", len(run.Peers)))
			first = false
		}
		for _, a := range run.Algorithms {
			_, _ = fmt.Fprintf(w, "| %s | %d | %d | %s | %s |", run.Workload.Name, run.Counts.Nodes, run.Counts.Arcs, a.Name, short(a.Cold.Median))
			for _, p := range run.Peers {
				times := 0.0
				if a.Cold.Median > 0 {
					times = p.Times.Median / a.Cold.Median
				}
				_, _ = fmt.Fprintf(w, " %s | %s |", short(p.Times.Median), ratio(times))
			}
			_, _ = fmt.Fprintln(w)
		}
	}
	for _, m := range r.GeometricMeans() {
		_, _ = fmt.Fprintf(w, "\n%s: geometric mean of %d ratios %s, worst %s (%s).\n", m.Algorithm, m.Count, ratio(m.Mean), ratio(m.Worst), m.WorstName)
	}
}
