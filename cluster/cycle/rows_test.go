package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
)

// Rows that several goroutines bring in line, and that list a part of their hosts, are what they would be if one priced every
// host anew, and so are the plans.
func TestRowsStayTrueHoweverManyPriceThem(t *testing.T) {
	const hosts, classes, churn = 1200, 24, 720
	run := func(goroutines int) (plans [][]cycle.Placement) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(goroutines))
		rng := rand.New(rand.NewPCG(1, 2))
		w := newWorldWith(t, loadspread.Model{})
		for i := range hosts {
			w.host(i, vector(12_000, 48_000), cluster.KeyValue{Key: "disk", Value: []string{"ssd", "hdd"}[i%2]})
		}
		var running []cluster.TaskKey
		submit := func(each uint32) {
			for i := range int64(classes) {
				job := cluster.JobSpec{Instances: each, Task: cluster.TaskSpec{Resources: vector(2000+100*i, 2000+i%7*500)}}
				if i%4 == 3 { // several goroutines never ask the same rule
					job.Preferences = []cluster.SoftConstraint{{Constraint: host("disk", "ssd"), Soft: cluster.Soft{Penalty: time.Second}}}
				}
				w.submit(job)
			}
			out := w.cycle()
			plans = append(plans, out.Placements)
			for _, p := range out.Placements {
				running = append(running, p.Task)
			}
		}
		submit(140)
		for range 2 {
			for range churn {
				i := rng.IntN(len(running))
				w.end(running[i])
				running[i] = running[len(running)-1]
				running = running[:len(running)-1]
			}
			submit(churn / classes)
			require.Empty(t, w.cycle().Placements)
			require.Zero(t, w.planner.Unpriced(), "rows that wait for the next plan with what this one changed")
			rows, prices := w.planner.CheckRows(t)
			require.Equal(t, classes, rows)
			require.Greater(t, prices, cycle.Part, "too few for a second goroutine")
		}
		return plans
	}
	require.Equal(t, run(1), run(4))
}

// Rows that list no more than the first of thousands of open hosts list more, many together, when more is asked of them, and are true
// then.
func TestRowsThatRunOutStayTrue(t *testing.T) {
	const hosts, classes, each = 3000, 48, 50
	w := newWorldWith(t, loadspread.Model{})
	for i := range hosts {
		w.host(i, vector(4000, 48_000))
	}
	for i := range int64(classes) {
		w.submit(cluster.JobSpec{Instances: each, Task: cluster.TaskSpec{Resources: vector(2100+10*i, 2000+i%7*500)}}) // one fits on a host
	}
	require.Len(t, w.cycle().Placements, classes*each)
	ranOut, together := w.planner.RanOut()
	require.Greater(t, ranOut, 8)
	require.Greater(t, together, ranOut, "one by one")
	rows, _ := w.planner.CheckRows(t)
	require.Equal(t, classes, rows)
}

// What starts cost is asked once for hosts that have the same, of which the same is taken, whatever else tells them apart: rows are true
// none the less.
func TestRowsOfHostsThatHaveTheSameStayTrue(t *testing.T) {
	for _, ruled := range []bool{false, true} {
		t.Run(fmt.Sprintf("ruled=%v", ruled), func(t *testing.T) { rowsOfHostsThatHaveTheSame(t, ruled) })
	}
}

func rowsOfHostsThatHaveTheSame(t *testing.T, ruled bool) {
	const hosts, classes, devices = 400, 30, 4
	w := newWorldWith(t, sluice.Model{})
	for i := range hosts {
		capacity := vector(int64(16_000+i%2*8000), 64_000)
		capacity.Fixed[cluster.GPU] = devices * cluster.WholeGPU
		id := w.machine(i, cluster.Machine{
			Capacity: capacity, Attributes: []cluster.KeyValue{{Key: "disk", Value: []string{"ssd", "hdd"}[i/7%2]}},
			Ports: []cluster.PortRange{{First: 100, Last: 103}}, GPUs: []cluster.GPUDevice{{Model: "A"}, {Model: "A"}, {Model: "B"}, {Model: "B"}},
		})
		if i%11 == 0 {
			w.emit(&cluster.HostDrain{ID: id, Drain: true})
		}
	}
	for range 3 {
		for i := range classes {
			job := cluster.JobSpec{Instances: 5, Task: cluster.TaskSpec{Resources: vector(5000, 2000), GPU: cluster.GPURequest{Count: int32(1 + i%2)}}}
			job.Task.Resources.Fixed[cluster.GPU] = job.Task.GPU.Amount()
			if i%3 > 0 {
				job.Task.GPU.Models = []string{[]string{"A", "B"}[i%3-1]}
			}
			switch kind := i / 6 % 5; {
			case kind == 1 && ruled:
				job.Task.Ports.Numbers, job.Instances = []uint16{uint16(100 + i%4)}, 40
			case kind == 2 && ruled:
				ssd := host("disk", "ssd")
				job.Constraint = &ssd
			default:
				job.Task.Resources.Fixed[cluster.CPU] += int64(1000 * kind)
			}
			w.submit(job)
		}
		require.NotEmpty(t, w.cycle().Placements)
		w.planner.CheckRows(t)
	}
}
