package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-scheduler/sluice/cluster"
)

// BenchmarkChurn measures one cycle of a busy cluster in which one task in a hundred ends and as many arrive: the plan
// alone, without journal and launch.
func BenchmarkChurn(b *testing.B) {
	for _, c := range []struct {
		hosts, classes int
		load           float64
	}{{1000, 50, 0.9}, {12_500, 50, 0.9}, {12_500, 500, 0.9}, {12_500, 500, 1.1}} {
		b.Run(fmt.Sprintf("hosts=%d/classes=%d/load=%.1f", c.hosts, c.classes, c.load), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			w := newWorld(b)
			for i := range c.hosts {
				w.host(i, vector(12_000, 48_000))
			}
			shape := func() cluster.JobSpec {
				i := int64(rng.IntN(c.classes))
				return cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(500+i*1000/int64(c.classes), 2000+i%7*500)}}
			}
			total := int(float64(12*c.hosts) * c.load)
			for range total / 100 {
				spec := shape()
				spec.Instances = 100
				w.submit(spec)
			}
			running := map[int]cluster.TaskKey{}
			settle := func() {
				for _, p := range w.cycle().Placements {
					running[len(running)] = p.Task
				}
			}
			settle()
			var touched, solves, placed int64
			for b.Loop() {
				b.StopTimer()
				for range total / 100 {
					i := rng.IntN(len(running))
					w.end(running[i])
					running[i] = running[len(running)-1]
					delete(running, len(running)-1)
					w.submit(shape())
				}
				b.StartTimer()
				out := w.plan()
				b.StopTimer()
				for _, p := range out.Placements {
					w.emit(&cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs})
					running[len(running)] = p.Task
				}
				touched += out.Stats.ArcsTouched
				solves += int64(out.Stats.Solves)
				placed += int64(len(out.Placements))
				b.StartTimer()
			}
			b.ReportMetric(float64(touched)/float64(b.N), "arcs/op")
			b.ReportMetric(float64(solves)/float64(b.N), "solves/op")
			b.ReportMetric(float64(placed)/float64(b.N), "placed/op")
		})
	}
}
