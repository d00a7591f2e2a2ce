package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// WriteJSON writes the report without its single cycles.
func (r *Report) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	if err := out.Encode(r); err != nil {
		return fmt.Errorf("bench: write: %w", err)
	}
	return nil
}

// WriteCSV writes one row for each solve. Times are in milliseconds.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	// A csv.Writer keeps its first error.
	_ = out.Write([]string{
		"workload", "algorithm", "cycle", "kind", "apply_ms", "solve_ms", "read_ms", "total_ms",
		"units", "steps", "touched", "moved", "allocs", "objective",
	})
	ms := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
	number := func(x int64) string { return strconv.FormatInt(x, 10) }
	for _, run := range r.Runs {
		for _, a := range run.Algorithms {
			for _, c := range a.Cycles {
				kind := "warm"
				switch {
				case c.Cold:
					kind = "cold"
				case !c.Counted:
					kind = "between"
				}
				_ = out.Write([]string{
					run.Workload.Name, a.Name, number(int64(c.Index)), kind, ms(c.Apply), ms(c.Solve), ms(c.Read), ms(c.Total()),
					number(c.Work.Units), number(c.Work.Steps), number(c.Work.Touched), number(int64(c.Moves)),
					strconv.FormatUint(c.Allocs, 10), number(c.Objective),
				})
			}
		}
		for _, p := range run.Peers {
			for i, t := range p.samples {
				_ = out.Write([]string{run.Workload.Name, p.Name, number(int64(p.cycles[i])), "cold", "", ms(t), "", ms(t), "", "", "", "", "", ""})
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("bench: write: %w", err)
	}
	return nil
}

// WriteTable writes the report for people. Times are in milliseconds.
func (r *Report) WriteTable(w io.Writer) error {
	out := &failing{w: w}
	_, _ = fmt.Fprintf(out, "%s, %d cores, %s, %s; commit %s; %s time in ms\n", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Commit, r.Clock)
	for _, run := range r.Runs {
		if !run.Workload.Instance {
			run.writeTable(out)
		}
	}
	r.writeInstances(out)
	if out.err != nil {
		return fmt.Errorf("bench: write: %w", out.err)
	}
	return nil
}

func (r *Result) writeTable(w io.Writer) {
	n := r.Counts
	_, _ = fmt.Fprintf(w, "\n%s: %s\n", r.Workload.Name, r.Workload.About)
	_, _ = fmt.Fprintf(w, "%d tasks in %d groups, %d running arcs; %d nodes, %d arcs; network %.0f MB, process at most %.0f MB\n",
		n.Tasks, n.Groups, n.Running, n.Nodes, n.Arcs, r.NetworkMB, r.PeakMB)
	if len(r.Algorithms) > 0 {
		a := r.Algorithms[0]
		stopped := ""
		if r.Limited {
			stopped = ", ended early"
		}
		_, _ = fmt.Fprintf(w, "%d cold solves, %d cycles%s; %.0f s\n", a.Cold.Count, a.Total.Count, stopped, r.Seconds)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(t, "%s\t", c)
		}
		_, _ = fmt.Fprintln(t)
	}
	row("", "cold", "min", "median", "p99", "max", "apply", "solve", "read", "arcs seen", "steps", "allocs", "MB", "ratio")
	for _, a := range r.Algorithms {
		row(
			a.Name, short(a.Cold.Median), short(a.Total.Min), short(a.Total.Median), short(a.Total.P99), short(a.Total.Max),
			short(a.Apply.Median), short(a.Solve.Median), short(a.Read.Median),
			short(a.Units.Median), short(a.Steps.Median), short(a.Allocs.Median), short(a.MemoryMB), ratio(a.Ratio),
		)
	}
	for _, p := range r.Peers {
		row(p.Name, short(p.Times.Median), "", "", "", "", "", "", "", "", "", "", "", "")
	}
	_ = t.Flush()
	for _, p := range r.Peers {
		_, _ = fmt.Fprintf(w, "%s: same objective on all %d networks\n", p.Name, p.Agreed)
	}
	if best := r.best(); best != nil && r.Workload.Floor > 0 {
		_, _ = fmt.Fprintf(w, "%s: %s %s, wanted %v, hoped for %v: %s\n", r.Peers[0].Name, best.Name, ratio(best.Ratio), r.Workload.Floor, r.Workload.Target, r.verdict(best))
	}
}

// best returns the algorithm of the highest ratio, or nil without a peer.
func (r *Result) best() *Algorithm {
	var best *Algorithm
	for _, a := range r.Algorithms {
		if a.Ratio > 0 && (best == nil || a.Ratio > best.Ratio) {
			best = a
		}
	}
	return best
}

func (r *Result) verdict(a *Algorithm) string {
	switch {
	case a.Ratio >= r.Workload.Target:
		return "target reached"
	case a.Ratio >= r.Workload.Floor:
		return "floor reached"
	}
	return "MISSED"
}

func ratio(x float64) string {
	if x == 0 {
		return ""
	}
	return short(x) + "×"
}

// short writes a number with three digits, or all of them before the point.
func short(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 1e7:
		return strconv.FormatFloat(x/1e6, 'f', 0, 64) + "M"
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case x >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// failing keeps the first error of a writer and writes nothing after it.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.w.Write(p)
	f.err = err
	return n, err
}
