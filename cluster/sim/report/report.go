// Package report shows results of simulations to people: as a table, and as a page with plots that needs nothing else.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-scheduler/sluice/cluster/sim"
)

// phases are the keys of Cycles.Latency in the order of a cycle.
var phases = []string{"ingest", "pools", "price", "graph", "solve", "fit", "commit", "total", "idle"}

// row is a line of the table: a name, and what each result has for it.
type row struct {
	name  string
	value func(*sim.Result) string
}

// section is a part of the table.
type section struct {
	title string
	rows  []row
}

// WriteTable writes the results side by side, one column each.
func WriteTable(w io.Writer, results []*sim.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range sections(results) {
		if s.title != "" {
			fmt.Fprintf(t, "\n%s\n", s.title)
		}
		for _, r := range s.rows {
			fmt.Fprintf(t, "%s", r.name)
			for _, result := range results {
				fmt.Fprintf(t, "\t%s", r.value(result))
			}
			fmt.Fprintln(t)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for i, v := range r.Violations {
			if i == shownViolations {
				fmt.Fprintf(w, "… and %d more\n", r.ViolationCount-i)
				break
			}
			if _, err := fmt.Fprintf(w, "VIOLATION (%s) %v\n", label(results, r), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownViolations is how many violations the table shows; JSON has more.
const shownViolations = 10

func sections(results []*sim.Result) []section {
	all := []section{
		{"", []row{
			{"cost model", func(r *sim.Result) string { return r.Model }},
			{"planner", func(r *sim.Result) string { return r.Planner }},
			{"virtual time", func(r *sim.Result) string { return duration(r.VirtualSeconds) }},
			{"wall time", func(r *sim.Result) string { return duration(r.WallSeconds) }},
			{"hosts", func(r *sim.Result) string { return fmt.Sprint(r.Hosts) }},
			{"jobs", func(r *sim.Result) string { return fmt.Sprint(r.Jobs) }},
			{"tasks: submitted / placed", func(r *sim.Result) string { return fmt.Sprintf("%d / %d", r.Tasks.Submitted, r.Tasks.Placed) }},
			{"tasks: finished / failed / running / waiting", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d / %d / %d", r.Tasks.Finished, r.Tasks.Failed, r.Tasks.Running, r.Tasks.Waiting)
			}},
			{"placements / preemptions / migrations", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d / %d", r.Placements, r.Preemptions, r.Migrations)
			}},
			{"seconds that batch jobs took: p50 / p99 / max", func(r *sim.Result) string { return three(r.Turnaround, "%.1f") }},
			{"copies: started / won", func(r *sim.Result) string { return fmt.Sprintf("%d / %d", r.Copies.Started, r.Copies.Won) }},
			{"rules broken", func(r *sim.Result) string { return fmt.Sprint(r.ViolationCount) }},
			{"history", func(r *sim.Result) string { return fmt.Sprintf("%.16s (%d records)", r.Hash, r.Records) }},
		}},
		utilisation(results), waiting(results), wasted(results),
		{"cycles", []row{
			{"all / planned / solves", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d / %d", r.Cycles.Count, r.Cycles.Solved, r.Cycles.Solves)
			}},
			{"placements inserted / refused, solves cut short", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d, %d", r.Cycles.Inserted, r.Cycles.Refused, r.Cycles.Limited)
			}},
			{"price of a placement / cost of a task, placed or waiting, ms", func(r *sim.Result) string {
				return fmt.Sprintf("%.1f / %.1f", r.Cycles.MeanPrice, r.Cycles.CostPerTask)
			}},
			{"arcs touched p50 / p99 / max", func(r *sim.Result) string { return three(r.Cycles.ArcsTouched, "%.0f") }},
			{"nodes touched p50 / p99 / max", func(r *sim.Result) string { return three(r.Cycles.NodesTouched, "%.0f") }},
		}},
		latency(),
		{"stress", []row{
			{"most waiting / running tasks", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d", r.Stress.PeakWaiting, r.Stress.PeakRunning)
			}},
			{"most full hosts, vector conflicts", func(r *sim.Result) string {
				return fmt.Sprintf("%d, %d", r.Stress.PeakFullHosts, r.Stress.VectorConflicts)
			}},
			{"moments asked whether something waits that fits", func(r *sim.Result) string { return fmt.Sprint(r.QuietChecks) }},
		}},
	}
	if slices.ContainsFunc(results, func(r *sim.Result) bool { return r.Read != sim.BytesRead{} }) {
		all = append(all, locality())
	}
	if i := slices.IndexFunc(results, func(r *sim.Result) bool { return r.Oversubscription != nil }); i >= 0 {
		all = append(all, lent(slices.Sorted(maps.Keys(results[i].Oversubscription.Lent))))
	}
	if slices.ContainsFunc(results, func(r *sim.Result) bool { return r.Faults != sim.FaultCounts{} }) {
		all = append(all, section{"faults", []row{
			{"injected, scheduler restarts, failed starts", func(r *sim.Result) string {
				return fmt.Sprintf("%d, %d, %d", r.Faults.Injected, r.Faults.Restarts, r.Faults.Launches)
			}},
			{"statuses that told nothing new / of old runs", func(r *sim.Result) string {
				return fmt.Sprintf("%d / %d", r.Faults.Known, r.Faults.Stale)
			}},
			{"ends of runs", func(r *sim.Result) string { return counts(r.RunEnds) }},
		}})
	}
	if results[0].Compression != nil { // all are of one workload
		all[0].rows = append(all[0].rows, row{"arrivals: compressed to / copies of the trace / load", func(r *sim.Result) string {
			c := r.Compression
			return fmt.Sprintf("%.6g / %d / %.4g", c.Factor, c.Copies, c.Load)
		}})
	}
	return all
}

func utilisation(results []*sim.Result) section {
	s := section{title: "allocated part of the capacity: mean / peak / at the end"}
	for _, d := range slices.Sorted(maps.Keys(results[0].Utilisation)) {
		s.rows = append(s.rows, row{d, func(r *sim.Result) string {
			u := r.Utilisation[d]
			return fmt.Sprintf("%.1f %% / %.1f %% / %.1f %%", 100*u.Mean, 100*u.Peak, 100*u.Final)
		}})
	}
	return s
}

func waiting(results []*sim.Result) section {
	s := section{title: "waiting time, seconds: p50 / p90 / p99 / max", rows: []row{{"mean of all", func(r *sim.Result) string {
		var sum float64
		var n int64
		for _, w := range r.Waiting {
			sum += w.Seconds.Mean * float64(w.Seconds.Count)
			n += w.Seconds.Count
		}
		return fmt.Sprintf("%.4g", sum/float64(max(1, n)))
	}}}}
	var groups []string
	for _, r := range results {
		for _, w := range r.Waiting {
			if g := group(w); !slices.Contains(groups, g) {
				groups = append(groups, g)
			}
		}
	}
	for _, g := range groups {
		s.rows = append(s.rows, row{g, func(r *sim.Result) string {
			for _, w := range r.Waiting {
				if group(w) == g {
					q := w.Seconds
					return fmt.Sprintf("%.4g / %.4g / %.4g / %.4g", q.P50, q.P90, q.P99, q.Max)
				}
			}
			return "-"
		}})
	}
	return s
}

// wasted shows work that has to be done again, and how far the pools had what they were entitled to.
func wasted(results []*sim.Result) section {
	s := section{title: "work of runs that have ended: left for others / failed or lost"}
	for _, d := range slices.Sorted(maps.Keys(results[0].Work)) {
		s.rows = append(s.rows, row{d, func(r *sim.Result) string {
			w := r.Work[d]
			all := max(1, w.Useful+w.Preempted+w.Lost)
			return fmt.Sprintf("%.2f %% / %.2f %%", 100*w.Preempted/all, 100*w.Lost/all)
		}})
	}
	if slices.ContainsFunc(results, func(r *sim.Result) bool { return r.Fairness.Contended > 0 }) {
		s.rows = append(s.rows, row{"fairness: Jain's index, over how long pools wanted more", func(r *sim.Result) string {
			return fmt.Sprintf("%.4f (%.4f in amounts), %s", r.Fairness.Jain, r.Fairness.JainAmounts, duration(r.Fairness.Contended))
		}})
	}
	return s
}

func group(w sim.WaitingTime) string { return w.Pool + " " + w.Type }

func latency() section {
	s := section{title: "latency of a cycle, wall milliseconds: p50 / p99 / max"}
	for _, p := range phases {
		s.rows = append(s.rows, row{p, func(r *sim.Result) string { return three(r.Cycles.Latency[p], "%.3f") }})
	}
	return s
}

func locality() section {
	part := func(v func(sim.BytesRead) int64) func(*sim.Result) string {
		return func(r *sim.Result) string {
			sum := r.Read.Local + r.Read.InRack + r.Read.Remote
			return fmt.Sprintf("%.1f GB (%.1f %%)", float64(v(r.Read))/1e9, 100*float64(v(r.Read))/float64(max(1, sum)))
		}
	}
	return section{"bytes read", []row{
		{"on the host", part(func(b sim.BytesRead) int64 { return b.Local })},
		{"in the rack", part(func(b sim.BytesRead) int64 { return b.InRack })},
		{"remote", part(func(b sim.BytesRead) int64 { return b.Remote })},
	}}
}

// lent shows what revocable tasks had of what others leave unused, and how often that went wrong.
func lent(dimensions []string) section {
	of := func(v func(*sim.Oversubscription) string) func(*sim.Result) string {
		return func(r *sim.Result) string {
			if r.Oversubscription == nil {
				return "-"
			}
			return v(r.Oversubscription)
		}
	}
	s := section{title: "mean part of the capacity that was lent to revocable tasks"}
	for _, d := range dimensions {
		s.rows = append(s.rows, row{d, of(func(o *sim.Oversubscription) string { return fmt.Sprintf("%.1f %%", 100*o.Lent[d]) })})
	}
	s.rows = append(s.rows,
		row{"their placements / those asked to leave", of(func(o *sim.Oversubscription) string { return fmt.Sprintf("%d / %d", o.Placements, o.Revoked) })},
		row{"looks at hosts / those that found too much used", of(func(o *sim.Oversubscription) string { return fmt.Sprintf("%d / %d", o.Reports, o.Overloads) })})
	return s
}

func three(q sim.Quantiles, format string) string {
	return fmt.Sprintf(format+" / "+format+" / "+format, q.P50, q.P99, q.Max)
}

func counts(m map[string]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

func duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond).String()
}
