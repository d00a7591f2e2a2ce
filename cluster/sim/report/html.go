package report

import (
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster/sim"
)

const style = `body{font-family:sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;line-height:1.4}
pre{overflow-x:auto;background:#f6f6f6;padding:1rem}svg{max-width:100%;height:auto;margin:.5rem 0}
.bad{color:#a00;font-weight:bold}.good{color:#3a7d44;font-weight:bold}
td,th{padding:.1rem .6rem;text-align:left;white-space:nowrap}.bar{display:inline-block;height:.8rem;background:#1b6ca8}.tail{background:#c8553d}`

// WriteHTML writes a page that needs nothing else: what was run, the plots, and the table.
func WriteHTML(w io.Writer, command string, results []*sim.Result) error {
	var text strings.Builder
	if err := WriteTable(&text, results); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sluice simulation</title>\n<style>%s</style></head>\n<body><h1>Simulation</h1>\n", style)
	fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(command))
	for _, r := range results {
		verdict := `<span class="good">no rule was broken</span>`
		if r.ViolationCount > 0 {
			verdict = fmt.Sprintf(`<span class="bad">%d rules were broken</span>`, r.ViolationCount)
		}
		fmt.Fprintf(&b, "<p><b>%s</b>: %d tasks of %d jobs on %d hosts in %s of virtual time; %d finished, %d wait at the end. %s.</p>\n",
			html.EscapeString(label(results, r)), r.Tasks.Submitted, r.Jobs, r.Hosts, duration(r.VirtualSeconds), r.Tasks.Finished, r.Tasks.Waiting, verdict)
	}
	for _, p := range plots(results) {
		b.WriteString(p.svg())
	}
	for _, r := range results {
		bars(&b, label(results, r), r)
	}
	fmt.Fprintf(&b, "<h2>Numbers</h2><pre>%s</pre></body></html>\n", html.EscapeString(text.String()))
	_, err := io.WriteString(w, b.String())
	return err
}

// label tells a result from the others: its cost model, and its planner where there are several.
func label(results []*sim.Result, r *sim.Result) string {
	if slices.ContainsFunc(results, func(o *sim.Result) bool { return o.Planner != r.Planner }) {
		return r.Model + " " + r.Planner
	}
	return r.Model
}

// plots draws how the clusters went over time, and the distributions of waiting.
func plots(results []*sim.Result) []plot {
	unit, divisor := timeUnit(results)
	part := plot{title: "Allocated part of the capacity", xLabel: unit, yLabel: "part", yMax: 1}
	tasks := plot{title: "Tasks", xLabel: unit, yLabel: "tasks"}
	hosts := plot{title: "Hosts that the scheduler knows", xLabel: unit, yLabel: "hosts"}
	waits := plot{title: "Waiting time until placement", xLabel: "seconds", yLabel: "part of the placements", logX: true, yMax: 1}
	for i, r := range results {
		prefix := ""
		if len(results) > 1 {
			prefix = label(results, r) + " "
		}
		add := func(p *plot, key, name string) {
			l := line{name: prefix + name, y: r.Series.Values[key], dashed: i%2 == 1}
			for k := range l.y {
				l.x = append(l.x, (float64(k)+0.5)*r.Series.IntervalSeconds/divisor)
			}
			p.lines = append(p.lines, l)
		}
		for _, d := range slices.Sorted(maps.Keys(r.Utilisation)) {
			add(&part, d, strings.TrimSuffix(strings.TrimSuffix(d, "_milli"), "_bytes"))
		}
		add(&tasks, "running_tasks", "running")
		add(&tasks, "waiting_tasks", "waiting")
		add(&hosts, "hosts", "hosts")
		for _, w := range r.Waiting {
			l := line{name: prefix + group(w), dashed: i%2 == 1}
			for _, point := range w.CDF {
				l.x, l.y = append(l.x, max(point[0], 1e-3)), append(l.y, point[1])
			}
			waits.lines = append(waits.lines, l)
		}
	}
	return []plot{part, tasks, hosts, waits}
}

// timeUnit chooses the unit of the time axis.
func timeUnit(results []*sim.Result) (string, float64) {
	longest := 0.0
	for _, r := range results {
		longest = max(longest, r.VirtualSeconds)
	}
	switch {
	case longest > 5*86400:
		return "days", 86400
	case longest > 5*3600:
		return "hours", 3600
	case longest > 300:
		return "minutes", 60
	default:
		return "seconds", 1
	}
}

// bars shows where the time of a cycle goes.
func bars(b *strings.Builder, name string, r *sim.Result) {
	longest := max(r.Cycles.Latency["total"].P99, 1e-9)
	fmt.Fprintf(b, "<h3>Latency of a cycle by phase, %s: p50 and p99, wall milliseconds</h3>\n<table>\n", html.EscapeString(name))
	for _, p := range phases {
		q := r.Cycles.Latency[p]
		bar := func(class string, v float64) string {
			return fmt.Sprintf(`<span class="bar %s" style="width:%.2frem"></span> %.3f`, class, 30*min(1, v/longest), v)
		}
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s<br>%s</td></tr>\n", p, bar("", q.P50), bar("tail", q.P99))
	}
	b.WriteString("</table>\n")
}
