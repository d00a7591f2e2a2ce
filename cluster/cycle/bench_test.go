package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/auto"
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
			w, begun := newWorld(b), time.Now()
			w.planner = cycle.New(loadspread.Model{}, func() solver.Solver { return auto.New() })
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
			var touched, solves, rounds, placed int64
			var spent [cycle.NumPhases]time.Duration
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
				snapshot, changes := w.state.Snapshot()
				w.now = w.now.Add(time.Second)
				out := w.planner.Run(cycle.Input{
					Snapshot: snapshot, Changes: changes, Now: w.now,
					Stopwatch: func() time.Duration { return time.Since(begun) },
				})
				b.StopTimer()
				for _, p := range out.Placements {
					w.emit(&cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs})
					running[len(running)] = p.Task
				}
				touched += out.Stats.ArcsTouched
				rounds += int64(out.Stats.Rounds)
				for p, d := range out.Stats.Durations {
					spent[p] += d
				}
				solves += int64(out.Stats.Solves)
				placed += int64(len(out.Placements))
				b.StartTimer()
			}
			b.ReportMetric(float64(touched)/float64(b.N), "arcs/op")
			b.ReportMetric(float64(solves)/float64(b.N), "solves/op")
			for p, d := range spent {
				b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), cycle.Phase(p).String()+"-ms/op")
			}
			b.ReportMetric(float64(rounds)/float64(b.N), "rounds/op")
			b.ReportMetric(float64(placed)/float64(b.N), "placed/op")
		})
	}
}

// BenchmarkGangs measures the plans of a cluster that gangs fill while a large urgent one waits: as many as may leave at once do not
// suffice for it, and hosts are kept for it later.
func BenchmarkGangs(b *testing.B) {
	for _, hosts := range []int{500, 2000, 8000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			const slots = 16
			w := newWorld(b)
			for i := range hosts {
				w.host(i, vector(slots, slots))
			}
			gang := func(n int, priority int32) {
				w.submit(cluster.JobSpec{
					Instances: uint32(n), Gang: &cluster.Gang{Minimum: uint32(n)}, Priority: priority, Preemptible: priority == 0,
					Task: cluster.TaskSpec{Resources: vector(1, 1)},
				})
			}
			for range 8 {
				gang(hosts*slots/8, 0)
			}
			w.cycle()
			gang(hosts*slots/4, 9)
			for b.Loop() {
				b.StopTimer()
				gang(2, 0) // so that there is a plan
				b.StartTimer()
				snapshot, changes := w.state.Snapshot()
				w.now = w.now.Add(time.Second)
				w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now})
			}
		})
	}
}

// BenchmarkPreemption measures the plans of a full cluster in which hundreds of tasks are asked to leave at once: for gangs, or for jobs whose
// tasks start one by one.
func BenchmarkPreemption(b *testing.B) {
	for _, gangs := range []bool{false, true} {
		b.Run(fmt.Sprintf("gangs=%v", gangs), func(b *testing.B) {
			const hosts, slots = 2000, 4
			w := newWorld(b)
			for i := range hosts {
				w.host(i, vector(slots, slots))
			}
			job := func(n int, priority int32, gang bool) {
				spec := cluster.JobSpec{
					Instances: uint32(n), Priority: priority, Preemptible: priority == 0, Task: cluster.TaskSpec{Resources: vector(1, 1)},
				}
				if gang {
					spec.Gang = &cluster.Gang{Minimum: uint32(n)}
				}
				w.submit(spec)
			}
			job(hosts*slots, 0, false)
			w.cycle()
			w.now = w.now.Add(time.Hour)
			for range 40 {
				job(8, 9, gangs)
			}
			victims := 0
			for b.Loop() {
				b.StopTimer()
				job(1, 0, false) // so that there is a plan
				b.StartTimer()
				snapshot, changes := w.state.Snapshot()
				w.now = w.now.Add(time.Second)
				out := w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now})
				victims += out.Stats.Preemptions
			}
			b.ReportMetric(float64(victims)/float64(b.N), "victims/op")
		})
	}
}

// BenchmarkGangsWithoutRoom measures plans in which gangs that are alike lack hosts that nobody can leave for all of one: the search for the
// first serves them all.
func BenchmarkGangsWithoutRoom(b *testing.B) {
	for _, gangs := range []int{10, 1000} {
		b.Run(fmt.Sprintf("gangs=%d", gangs), func(b *testing.B) {
			const hosts, free, slots = 2000, 5, 16
			w := newWorld(b)
			for i := range hosts {
				w.host(i, vector(slots, slots))
			}
			w.submit(cluster.JobSpec{Instances: hosts - free, Preemptible: true, Task: cluster.TaskSpec{Resources: vector(slots-1, 1)}})
			w.cycle()
			gang := func() {
				w.submit(cluster.JobSpec{
					Instances: 2 * free, Gang: &cluster.Gang{Minimum: 2 * free}, Preemptible: true,
					Task: cluster.TaskSpec{Resources: vector(slots/2+1, 1)},
				})
			}
			for range gangs {
				gang()
			}
			for b.Loop() {
				b.StopTimer()
				gang() // so that there is a plan
				b.StartTimer()
				snapshot, changes := w.state.Snapshot()
				w.now = w.now.Add(time.Second)
				w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now})
			}
		})
	}
}

// BenchmarkGangsInFullPools measures plans in which gangs of some sizes wait in pools that are full of gangs: few of those are less urgent.
func BenchmarkGangsInFullPools(b *testing.B) {
	const hosts, pools, slots, waiting = 2000, 8, 8, 800
	s := newShared(b)
	for i := range hosts {
		s.host(i, vector(slots, slots))
	}
	leaf := func(i int) cluster.PoolPath { return cluster.PoolPath(fmt.Sprintf("root/p%d", i%pools)) }
	for i := range pools {
		s.pool(leaf(i), hosts*slots/pools)
	}
	for i := range hosts / 2 {
		s.job(leaf(i), 2, slots, core(2), urgent(int32(1-i/pools%16/15)))
	}
	s.settle()
	gang := func(i int) { s.job(leaf(i), 2<<(i/pools%4), slots-int64(i/pools%3), core(2<<(i/pools%4)), urgent(1)) }
	for i := range waiting {
		gang(i)
	}
	s.plan()
	for i := waiting; b.Loop(); i++ {
		b.StopTimer()
		gang(i)
		b.StartTimer()
		snapshot, changes := s.state.Snapshot()
		s.now = s.now.Add(time.Second)
		s.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now})
	}
}

// BenchmarkFirstPlanOfManySizes measures the first plan of an empty cluster of machines with GPUs for which nearly each job that waits asks for
// something else.
func BenchmarkFirstPlanOfManySizes(b *testing.B) {
	const hosts, jobs, devices = 2000, 1500, 8
	w := newWorldWith(b, sluice.Model{})
	capacity := vector(96_000, 512_000)
	capacity.Fixed[cluster.GPU] = devices * cluster.WholeGPU
	for i := range hosts {
		w.machine(i, cluster.Machine{Capacity: capacity, GPUs: make([]cluster.GPUDevice, devices)})
	}
	for i := range jobs {
		n := int64(1) << (i % 4)
		spec := cluster.JobSpec{Instances: uint32(1 + i%5), Task: cluster.TaskSpec{Resources: vector(n*8000-int64(i), n*16_000), GPU: cluster.GPURequest{Count: int32(n)}}}
		spec.Task.Resources.Fixed[cluster.GPU] = spec.Task.GPU.Amount()
		w.submit(spec)
	}
	snapshot, changes := w.state.Snapshot()
	for b.Loop() {
		b.StopTimer()
		w.planner = cycle.New(sluice.Model{}, func() solver.Solver { return auto.New() })
		b.StartTimer()
		w.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: w.now})
	}
}

// BenchmarkFirstPlanOfGangs measures the first plan of an empty cluster of machines with GPUs, see gangsWithGPUs.
func BenchmarkFirstPlanOfGangs(b *testing.B) {
	s := gangsWithGPUs(b)
	snapshot, changes := s.state.Snapshot()
	var out cycle.Output
	for b.Loop() {
		b.StopTimer()
		s.planner = cycle.New(sluice.Model{}, func() solver.Solver { return auto.New() })
		b.StartTimer()
		out = s.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now})
	}
	b.ReportMetric(float64(out.Stats.Solves), "solves/op")
	b.ReportMetric(float64(out.Stats.SolverWork), "work/op")
	b.ReportMetric(float64(len(out.Placements)), "placed/op")
}

// BenchmarkDisplacementsOfGangs measures the plan after that one, in which those with a claim that found no room have others leave.
func BenchmarkDisplacementsOfGangs(b *testing.B) {
	s := gangsWithGPUs(b)
	s.step()
	s.now = s.now.Add(time.Second)
	snapshot, changes := s.state.Snapshot()
	victims := 0
	for b.Loop() {
		b.StopTimer()
		s.planner = cycle.New(sluice.Model{}, func() solver.Solver { return auto.New() })
		in := cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now, KeepAll: true}
		s.planner.Run(in)
		in.Changes, in.KeepAll = cluster.Changes{}, false
		b.StartTimer()
		victims = s.planner.Run(in).Stats.Preemptions
	}
	b.ReportMetric(float64(victims), "victims/op")
}

// gangsWithGPUs returns machines with GPUs for which far more waits than there is room for: jobs of one to sixteen machines and such of a part
// of one, in pools of which some want many times what they are entitled to.
func gangsWithGPUs(b *testing.B) *shared {
	const hosts, jobs, pools, devices = 8000, 12_800, 12, 8
	rng := rand.New(rand.NewPCG(1, 2))
	s := newShared(b)
	s.planner = cycle.New(sluice.Model{}, func() solver.Solver { return auto.New() })
	leaf := func(i int) cluster.PoolPath { return cluster.PoolPath(fmt.Sprintf("root/p%d", i)) }
	for i := range pools {
		const reservation = hosts * devices * 9 / 10 / pools
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: leaf(i), Resources: []cluster.PoolResource{
			{Dimension: cluster.GPU.String(), Reservation: reservation * cluster.WholeGPU, Limit: cluster.NoLimit, Share: 1},
			{Dimension: cluster.CPU.String(), Reservation: reservation * 10_000, Limit: cluster.NoLimit, Share: 1},
		}}})
	}
	capacity := vector(96_000, 512_000)
	capacity.Fixed[cluster.GPU] = devices * cluster.WholeGPU
	for i := range hosts {
		s.machine(i, cluster.Machine{Capacity: capacity, GPUs: make([]cluster.GPUDevice, devices)})
	}
	for range jobs {
		all := []int64{1, 1, 1, 2, 4, 8, 8, 16, 32, 64, 128}[rng.IntN(11)]
		nodes := max(1, all/devices)
		each := all / nodes
		s.job(leaf(min(pools-1, int(3*rng.ExpFloat64()))), uint32(nodes), each*[]int64{6000, 10_000, 11_500}[rng.IntN(3)], func(j *cluster.JobSpec) {
			j.Priority = max(0, int32(rng.IntN(5))-2)
			j.Task.GPU.Count = int32(each)
			j.Task.Resources.Fixed[cluster.Memory], j.Task.Resources.Fixed[cluster.GPU] = each*16_000*(1+rng.Int64N(3)), j.Task.GPU.Amount()
			if nodes > 1 {
				core(uint32(nodes))(j)
			}
		})
	}
	return s
}
