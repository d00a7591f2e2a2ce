package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/flowgraph/dimacs"
)

// ErrSmall is returned by [RunInstance] for a problem below the wanted size.
var ErrSmall = errors.New("bench: the problem is too small")

// RunInstance solves one problem cold, as often as repeats says, with peers in
// turn. Its ratio is of medians.
func RunInstance(ctx context.Context, name string, n *flowgraph.Network, minArcs, repeats int, o Options) (*Result, error) {
	if n.NumArcs() < minArcs {
		return nil, ErrSmall
	}
	w := Workload{Name: InstanceName(name), About: "instance", Mode: Cold, Samples: repeats, Instance: true}
	return measure(ctx, w, o, func(r *run) error {
		r.net = n
		r.result.Counts = Counts{Nodes: n.NumNodes(), Arcs: n.NumArcs()}
		if err := r.first(0); err != nil {
			return err
		}
		for i := range repeats {
			if err := ctx.Err(); err != nil {
				return err
			}
			if i > 0 && r.over() {
				break
			}
			// The first solve counts as one of the repeats.
			if err := r.sample(ctx, i, i > 0); err != nil {
				return err
			}
			if r.folder != "" {
				continue
			}
			for _, x := range r.racers {
				if i > 0 {
					if err := r.fresh(x, i); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// InstanceName returns the name under which an instance is shown and kept: no folder, and no blank.
func InstanceName(name string) string { return strings.NewReplacer("/", "-", " ", "-").Replace(name) }

// ReadInstance reads the problem in a DIMACS file, plain or gzip.
func ReadInstance(file string) (*flowgraph.Network, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("bench: instance: %w", err)
	}
	n, err := dimacs.Read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("bench: instance %s: %w", file, err)
	}
	return n, nil
}

// writeInstances writes one row for each instance, and geometric means of the
// ratios.
func (r *Report) writeInstances(out *failing) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	first := true
	for _, run := range r.Runs {
		if !run.Workload.Instance {
			continue
		}
		if first {
			_, _ = fmt.Fprint(t, "\ninstance\tnodes\tarcs")
			for _, a := range run.Algorithms {
				_, _ = fmt.Fprintf(t, "\t%s\tratio", a.Name)
			}
			for _, p := range run.Peers {
				_, _ = fmt.Fprintf(t, "\t%s", p.Name)
			}
			_, _ = fmt.Fprintln(t)
			first = false
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d", run.Workload.Name, run.Counts.Nodes, run.Counts.Arcs)
		for _, a := range run.Algorithms {
			_, _ = fmt.Fprintf(t, "\t%s\t%s", short(a.Cold.Median), ratio(a.Ratio))
		}
		for _, p := range run.Peers {
			_, _ = fmt.Fprintf(t, "\t%s", short(p.Times.Median))
		}
		_, _ = fmt.Fprintln(t)
	}
	_ = t.Flush()
	for _, m := range r.GeometricMeans() {
		_, _ = fmt.Fprintf(out, "%s: geometric mean of %d ratios %s, worst %s (%s)\n", m.Algorithm, m.Count, ratio(m.Mean), ratio(m.Worst), m.WorstName)
	}
}

// Mean is the geometric mean of an algorithm's ratios over the instances.
type Mean struct {
	Algorithm   string
	Count       int
	Mean, Worst float64
	WorstName   string
}

// GeometricMeans returns one for each algorithm that has ratios on instances.
func (r *Report) GeometricMeans() []Mean {
	var means []Mean
	at := map[string]int{}
	for _, run := range r.Runs {
		for _, a := range run.Algorithms {
			if !run.Workload.Instance || a.Ratio <= 0 {
				continue
			}
			i, ok := at[a.Name]
			if !ok {
				i = len(means)
				at[a.Name] = i
				means = append(means, Mean{Algorithm: a.Name, Worst: math.Inf(1)})
			}
			m := &means[i]
			m.Count++
			m.Mean += math.Log(a.Ratio)
			if a.Ratio < m.Worst {
				m.Worst, m.WorstName = a.Ratio, run.Workload.Name
			}
		}
	}
	for i := range means {
		means[i].Mean = math.Exp(means[i].Mean / float64(means[i].Count))
	}
	return means
}
