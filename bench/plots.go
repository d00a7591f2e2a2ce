package bench

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Plots draws the report: latency over the cycles of each warm run, all runs
// side by side, all runs by size, and every sweep.
func (r *Report) Plots() []*Plot {
	var plots []*Plot
	for _, run := range r.Runs {
		if run.Workload.Mode == Warm && run.Workload.Point.Setting == "" && run.Workload.Cycles > 0 {
			plots = append(plots, run.overCycles(r.Clock))
		}
	}
	if len(r.Runs) > 1 {
		plots = append(plots, r.bySize())
	}
	return append(plots, r.sweeps()...)
}

func (r *Result) overCycles(clock string) *Plot {
	p := &Plot{
		Name: r.Workload.Name + "-cycles", Title: r.Workload.Name + ": latency over cycles",
		XLabel: "cycle", YLabel: "apply + solve + read, " + clock + " ms",
	}
	for _, a := range r.Algorithms {
		c := Curve{Name: a.Name}
		for _, cycle := range a.Cycles {
			if cycle.Counted {
				c.X, c.Y = append(c.X, float64(cycle.Index)), append(c.Y, cycle.Total())
			}
		}
		p.Curves = append(p.Curves, c)
	}
	for _, t := range r.Peers {
		p.Curves = append(p.Curves, Curve{
			Name: t.Name + " cold", Dashed: true,
			X: []float64{1, float64(r.Workload.Cycles)}, Y: []float64{t.Times.Median, t.Times.Median},
		})
	}
	return p
}

// headline is what a run is judged by: p99 warm or median cold.
func (r *Result) headline(a *Algorithm) float64 {
	if r.Workload.Mode == Cold {
		return a.Cold.Median
	}
	return a.Total.P99
}

// curves collects one curve per algorithm and peer.
type curves struct {
	order []string
	byKey map[string]*Curve
}

func (c *curves) add(name string, dashed bool, x, y float64) {
	if c.byKey == nil {
		c.byKey = map[string]*Curve{}
	}
	k, ok := c.byKey[name]
	if !ok {
		k = &Curve{Name: name, Points: true, Dashed: dashed}
		c.byKey[name] = k
		c.order = append(c.order, name)
	}
	k.X, k.Y = append(k.X, x), append(k.Y, y)
}

// list returns the curves with their points in ascending order of X.
func (c *curves) list() []Curve {
	var all []Curve
	for _, name := range c.order {
		k := c.byKey[name]
		for i := range k.X {
			for j := i; j > 0 && k.X[j] < k.X[j-1]; j-- {
				k.X[j], k.X[j-1] = k.X[j-1], k.X[j]
				k.Y[j], k.Y[j-1] = k.Y[j-1], k.Y[j]
			}
		}
		all = append(all, *k)
	}
	return all
}

func (c *curves) addRun(r *Result, x float64) {
	for _, a := range r.Algorithms {
		if r.Workload.Mode == Warm {
			c.add(a.Name+" p99", false, x, a.Total.P99)
		}
		c.add(a.Name+" cold", true, x, a.Cold.Median)
	}
	for _, p := range r.Peers {
		c.add(p.Name+" cold", true, x, p.Times.Median)
	}
}

func (r *Report) bySize() *Plot {
	var c curves
	for _, run := range r.Runs {
		c.addRun(run, float64(run.Counts.Arcs))
	}
	points := c.list()
	for i := range points {
		points[i].Loose = true // they are of different workloads
	}
	return &Plot{
		Name: "size", Title: "All workloads by size", LogX: true,
		XLabel: "arcs", YLabel: r.Clock + " ms", Curves: points,
	}
}

func (r *Report) sweeps() []*Plot {
	var plots []*Plot
	bases := map[string]*curves{}
	for _, run := range r.Runs {
		at := run.Workload.Point
		if at.Setting == "" {
			continue
		}
		key := at.Workload + " by " + at.Setting
		if bases[key] == nil {
			bases[key] = &curves{}
			plots = append(plots, &Plot{
				Name: "sweep-" + at.Workload + "-" + at.Setting, Title: key, LogX: true,
				XLabel: at.Setting, YLabel: r.Clock + " ms",
			})
		}
		bases[key].addRun(run, at.Value)
	}
	for _, p := range plots {
		p.Curves = bases[p.Title].list()
	}
	return plots
}

// WriteHTML writes a page that needs nothing else: the tables and the plots.
func (r *Report) WriteHTML(w io.Writer) error {
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil {
		return err
	}
	out := &failing{w: w}
	_, _ = fmt.Fprintf(out, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sluice solver benchmark</title>
<style>body{font-family:sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}
pre{overflow-x:auto;background:#f6f6f6;padding:1rem}svg{max-width:100%%;height:auto;margin:1rem 0}
.bar{height:1rem;background:#1b6ca8;display:inline-block}.peer{background:#999}td{padding:.1rem .6rem;white-space:nowrap}</style></head>
<body><h1>Solver benchmark</h1><p>%s · %d cores · %s · %s · commit %s · %s time</p>
`, html.EscapeString(r.Machine.CPU), r.Machine.Cores, r.Machine.OS, r.Machine.Go, html.EscapeString(r.Commit), r.Clock)
	for _, run := range r.Runs {
		if !run.Workload.Instance {
			run.writeBars(out)
		}
	}
	for _, p := range r.Plots() {
		_, _ = io.WriteString(out, p.svg())
	}
	_, _ = fmt.Fprintf(out, "<h2>Numbers</h2><pre>%s</pre></body></html>\n", html.EscapeString(text.String()))
	if out.err != nil {
		return fmt.Errorf("bench: write: %w", out.err)
	}
	return nil
}

// writeBars shows the algorithms and peers of one run side by side.
func (r *Result) writeBars(w io.Writer) {
	type bar struct {
		name, class string
		ms          float64
	}
	var bars []bar
	longest := 0.0
	for _, a := range r.Algorithms {
		bars = append(bars, bar{a.Name, "bar", r.headline(a)})
	}
	for _, p := range r.Peers {
		bars = append(bars, bar{p.Name + " cold", "bar peer", p.Times.Median})
	}
	for _, b := range bars {
		longest = max(longest, b.ms)
	}
	what := "p99 of a cycle"
	if r.Workload.Mode == Cold {
		what = "median cold solve"
	}
	_, _ = fmt.Fprintf(w, "<h2>%s</h2><p>%s; %s, ms</p><table>\n", html.EscapeString(r.Workload.Name), html.EscapeString(r.Workload.About), what)
	for _, b := range bars {
		_, _ = fmt.Fprintf(w, `<tr><td>%s</td><td>%s</td><td><span class="%s" style="width:%.2frem"></span></td></tr>`+"\n",
			html.EscapeString(b.name), short(b.ms), b.class, 30*b.ms/max(longest, 1e-9))
	}
	_, _ = io.WriteString(w, "</table>\n")
}
