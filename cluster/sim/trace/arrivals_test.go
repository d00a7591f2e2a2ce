package trace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

// drawJobs makes jobs in the order of submission.
func drawJobs(t *rapid.T) []*Job {
	n := rapid.IntRange(1, 40).Draw(t, "jobs")
	var jobs []*Job
	var at time.Duration
	for i := range n {
		at += time.Duration(rapid.Int64Range(0, 100).Draw(t, "gap")) * time.Second
		spec := task(rapid.Int64Range(1000, 9000).Draw(t, "cpu"), rapid.Int64Range(0, 20*gib).Draw(t, "memory"), 0, cluster.GPURequest{})
		j := newJob(numbered("job", i), at, uint32(rapid.IntRange(1, 5).Draw(t, "instances")), spec)
		j.Durations = []time.Duration{time.Duration(rapid.Int64Range(1, 200).Draw(t, "duration")) * time.Second}
		jobs = append(jobs, j)
	}
	return jobs
}

func loadOf(hosts []Host, jobs []*Job, factor float64) float64 {
	return offeredLoad(intervalsOf(capacityOf(hosts), keepCopies(jobs)), factor)
}

// concurrentPeak is the offered load by its definition: at every arrival, add up everything that runs.
func concurrentPeak(hosts []Host, jobs []*Job, factor float64) float64 {
	capacity, peak := capacityOf(hosts), 0.0
	for _, now := range jobs {
		at := scale(now.Submit, factor)
		var running shares
		for _, j := range jobs {
			start := scale(j.Submit, factor)
			for i := range j.Spec.Instances {
				if d := j.Duration(i); start <= at && (d == 0 || at < start+d) {
					running.add(sharesOf(j.Spec.Task.Resources, capacity), 1)
				}
			}
		}
		peak = max(peak, running.dominant())
	}
	return peak
}

func TestOfferedLoadIsThePeak(t *testing.T) {
	hosts := testFleet(t)
	rapid.Check(t, func(t *rapid.T) {
		jobs := drawJobs(t)
		last := -1.0
		for _, factor := range []float64{2, 1, 0.5, 0.01, 0} {
			got := loadOf(hosts, jobs, factor)
			require.InDelta(t, concurrentPeak(hosts, jobs, factor), got, 1e-9)
			require.GreaterOrEqual(t, got, last-1e-9, "faster arrivals, lower load")
			last = got
		}
	})
}

func TestCompress(t *testing.T) {
	hosts := testFleet(t)
	rapid.Check(t, func(t *rapid.T) {
		recorded := drawJobs(t)
		load := rapid.Float64Range(0.05, 1.5).Draw(t, "load")
		w := &Workload{Hosts: hosts, Jobs: fromSlice(recorded), Arrivals: true, Departures: true}
		if err := (Mode{OfferedLoad: load}).apply(w, 1); err != nil {
			require.ErrorContains(t, err, "however far apart")
			require.GreaterOrEqual(t, loadOf(hosts, recorded, maxStretch), load)
			return
		}
		jobs, err := collect(w.Jobs)
		require.NoError(t, err)
		c := w.Compression
		require.Len(t, jobs, c.Copies*len(recorded))
		require.InDelta(t, c.Load, loadOf(hosts, jobs, 1), 1e-6)
		require.GreaterOrEqual(t, c.Load, load)
		if c.Factor > 1e-6 { // slower arrivals would not do
			slower, _ := repeat(keepCopies(recorded), c.Copies)
			require.Less(t, offeredLoad(intervalsOf(capacityOf(hosts), slower), c.Factor*1.001), load)
		}
		v := validator{hosts: hosts}
		for i, j := range jobs {
			require.NoError(t, v.check(j))
			require.Equal(t, recorded[i%len(recorded)].Durations, j.Durations)
			require.Equal(t, recorded[i%len(recorded)].Spec.Task, j.Spec.Task)
		}
	})
}

// TestCompressManyCopies: copies of a long trace, one after the other, would come later than a time can be.
func TestCompressManyCopies(t *testing.T) {
	hosts, err := Fleet{Hosts: 100, CPUMilli: 32_000}.build()
	require.NoError(t, err)
	const month = 30 * 24 * time.Hour
	var recorded []*Job
	for i := range 3 {
		j := newJob(numbered("job", i), time.Duration(i)*month, 1, task(100, 0, 0, cluster.GPURequest{}))
		j.Durations = []time.Duration{time.Hour}
		recorded = append(recorded, j)
	}
	w := &Workload{Hosts: hosts, Jobs: fromSlice(recorded), Arrivals: true, Departures: true}
	require.NoError(t, Mode{OfferedLoad: 0.9}.apply(w, 1))
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.Len(t, jobs, 3*19200)
	v := validator{hosts: hosts}
	for _, j := range jobs {
		require.NoError(t, v.check(j))
	}
	require.InDelta(t, 0.9, w.Compression.Load, 0.001)
	require.InDelta(t, 0.9, loadOf(hosts, jobs, 1), 0.001)
	require.InDelta(t, float64(w.Compression.Span), w.Compression.Factor*19200*80*24*float64(time.Hour), 0.01*float64(w.Compression.Span))

	recorded[0].Durations, recorded[2].Submit = forEver, maxSeconds*time.Second
	w = &Workload{Hosts: hosts[:1], Jobs: fromSlice(recorded), Arrivals: true, Departures: true}
	require.ErrorContains(t, Mode{OfferedLoad: 0.003}.apply(w, 1), "the offered load is 0.00625 at least")
	recorded[0].Spec.Task = task(1, 0, 0, cluster.GPURequest{})
	for i := range hosts {
		hosts[i].Capacity.Fixed[cluster.CPU] = maxAmount
	}
	w = &Workload{Hosts: hosts, Jobs: fromSlice(recorded[:1]), Arrivals: true, Departures: true}
	require.ErrorContains(t, Mode{OfferedLoad: 1000}.apply(w, 1), "choose fewer hosts")
}

func clone(jobs []*Job) []*Job {
	out := make([]*Job, len(jobs))
	for i, j := range jobs {
		c := *j
		out[i] = &c
	}
	return out
}

func TestDemand(t *testing.T) {
	hosts := testFleet(t)
	rapid.Check(t, func(t *rapid.T) {
		recorded, m := drawJobs(t), Mode{Demand: rapid.Float64Range(0.05, 1.5).Draw(t, "demand"), Gap: time.Second, NoDepartures: true}
		timed := rapid.Bool().Draw(t, "timed")
		draw := func(seed uint64) []*Job {
			w := &Workload{Hosts: hosts, Jobs: fromSlice(recorded), Arrivals: timed, Departures: true}
			require.NoError(t, m.apply(w, seed))
			require.False(t, w.Departures)
			jobs, err := collect(w.Jobs)
			require.NoError(t, err)
			return jobs
		}
		jobs := draw(1)
		require.Equal(t, jobs, draw(1), "not deterministic")
		v := validator{hosts: hosts}
		for i, j := range jobs {
			require.NoError(t, v.check(j))
			require.Equal(t, time.Duration(i)*time.Second, j.Submit)
			require.Equal(t, forEver, j.Durations)
			original, _, _ := strings.Cut(string(j.Spec.Name), copyMark)
			if !timed {
				require.EqualValues(t, numbered("job", i%len(recorded)), original)
			}
		}
		// All run for ever: the offered load of all is their demand, and without the last one it is too small.
		require.GreaterOrEqual(t, loadOf(hosts, jobs, 1), m.Demand-1e-9)
		require.Less(t, loadOf(hosts, jobs[:len(jobs)-1], 1), m.Demand+1e-9)
	})
}

// TestDemandIsDrawn: with recorded times, jobs are drawn with replacement, differently for every seed.
func TestDemandIsDrawn(t *testing.T) {
	draw := func(seed uint64) string {
		w := &Workload{Hosts: testFleet(t), Arrivals: true, Departures: true}
		var recorded []*Job
		for i := range 20 {
			recorded = append(recorded, newJob(numbered("job", i), time.Hour, 1, task(1000, gib, 0, cluster.GPURequest{})))
		}
		w.Jobs = fromSlice(recorded)
		require.NoError(t, Mode{Demand: 39.5 / (9 * 32)}.apply(w, seed))
		jobs, err := collect(w.Jobs)
		require.NoError(t, err)
		require.Len(t, jobs, 40)
		var names []string
		copies := 0
		for _, j := range jobs {
			names = append(names, string(j.Spec.Name))
			copies += strings.Count(string(j.Spec.Name), copyMark)
		}
		require.Greater(t, copies, 20, "all 20 jobs came: that is not a sample with replacement")
		return strings.Join(names, " ")
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}

func TestModeErrors(t *testing.T) {
	free := newJob("free", 0, 1, cluster.TaskSpec{})
	copied := newJob("a-copy-1", 0, 1, task(1, 1, 0, cluster.GPURequest{}))
	nan := 0.0
	nan /= nan
	for _, c := range []struct {
		mode                 Mode
		jobs                 []*Job
		arrivals, departures bool
		want                 string
	}{
		{Mode{OfferedLoad: 1, Demand: 1}, nil, true, true, "exclude each other"},
		{Mode{OfferedLoad: -1}, nil, true, true, "the offered load is -1: want a part of the capacity, 0 to 1000"},
		{Mode{OfferedLoad: nan}, nil, true, true, "the offered load is NaN: want"},
		{Mode{Demand: 1001}, nil, true, true, "the demand is 1001: want a part of the capacity, 0 to 1000"},
		{Mode{Gap: -1}, nil, true, true, "the gap between arrivals is -1ns: want 0 or more"},
		{Mode{OfferedLoad: 1, NoDepartures: true}, nil, true, true, "needs departures"},
		{Mode{OfferedLoad: 1}, nil, true, false, "needs recorded arrivals and durations"},
		{Mode{OfferedLoad: 1}, nil, false, true, "needs recorded arrivals and durations"},
		{Mode{OfferedLoad: 1}, []*Job{free}, true, true, "no job asks for anything"},
		{Mode{Demand: 1}, []*Job{free}, true, true, "no job asks for anything"},
		{Mode{Demand: 1}, []*Job{copied}, true, true, `job "a-copy-1": names with "-copy-" are for copies`},
		{Mode{OfferedLoad: 1000}, []*Job{newJob("tiny", 0, 1, task(1, 1, 0, cluster.GPURequest{}))}, true, true, "choose fewer hosts"},
		{Mode{Demand: 1000}, []*Job{newJob("tiny", 0, 1, task(1, 1, 0, cluster.GPURequest{}))}, true, true, "choose fewer hosts"},
	} {
		t.Run(fmt.Sprintf("%+v", c.mode), func(t *testing.T) {
			w := &Workload{Hosts: testFleet(t), Jobs: fromSlice(c.jobs), Arrivals: c.arrivals, Departures: c.departures}
			err := c.mode.validate()
			if err == nil {
				err = c.mode.apply(w, 1)
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestDemandTakesTooLong: jobs that come too far apart are refused when it is too late for them.
func TestDemandTakesTooLong(t *testing.T) {
	w := &Workload{Hosts: testFleet(t), Jobs: fromSlice([]*Job{newJob("tiny", 0, 1, task(1, 1, 0, cluster.GPURequest{}))})}
	require.NoError(t, Mode{Demand: 1, Gap: 2000 * time.Hour}.apply(w, 1))
	jobs, err := collect(w.Jobs)
	require.ErrorContains(t, err, "choose a smaller gap")
	require.Less(t, jobs[len(jobs)-1].Submit, 74*366*24*time.Hour)
}

func TestThin(t *testing.T) {
	for _, c := range []struct {
		every, limit int
		want         string
	}{
		{0, 0, "0 1 2 3 4 5 6 "},
		{1, 3, "0 1 2 "},
		{3, 0, "0 3 6 "},
		{3, 2, "0 3 "},
		{9, 0, "0 "},
		{2, 99, "0 2 4 6 "},
	} {
		var jobs []*Job
		for i := range 7 {
			jobs = append(jobs, newJob(numbered("", i), 0, 1, cluster.TaskSpec{}))
		}
		got := ""
		s := &thinned{Source: fromSlice(jobs), every: c.every, limit: c.limit}
		for {
			j, err := s.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			got += string(j.Spec.Name[1:]) + " "
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// TestArrived: a file that is read as it goes tells by its bytes, jobs in memory by the time of the last one.
func TestArrived(t *testing.T) {
	w, err := Generate(Synthetic{Fleet: Fleet{Hosts: 4}, Load: 0.5, Horizon: time.Hour, Seed: 1})
	require.NoError(t, err)
	part, known := w.Arrived(15 * time.Minute)
	require.True(t, known)
	require.InDelta(t, 0.25, part, 1e-9)
	part, _ = w.Arrived(2 * time.Hour)
	require.InDelta(t, 1, part, 1e-9)

	_, known = (&Workload{}).Arrived(time.Hour)
	require.False(t, known)

	// A table says when time begins: its first job may come late.
	path := filepath.Join(t.TempDir(), "jobs")
	require.NoError(t, os.WriteFile(path, []byte("job,submit_s,duration_s,cpu_milli\na,1000,10,1000\nb,1010,10,1000\n"), 0o600))
	w, err = Open(Options{Format: "csv", Jobs: path, Fleet: Fleet{Hosts: 1, CPUMilli: 2000}, Mode: Mode{OfferedLoad: 0.9}})
	require.NoError(t, err)
	j, err := w.Jobs.Next()
	require.NoError(t, err)
	part, _ = w.Arrived(j.Submit)
	require.Less(t, part, 1.0, "all are said to have arrived, and the first one has")
	require.NoError(t, w.Close())

	// A short one is read at once, and a long one piece by piece.
	w, err = Open(Options{Format: "csv", Jobs: path, Fleet: Fleet{Hosts: 1, CPUMilli: 2000}})
	require.NoError(t, err)
	j, err = w.Jobs.Next()
	require.NoError(t, err)
	_, known = w.Arrived(j.Submit)
	require.False(t, known, "all are said to have arrived, and the first one has")
	require.NoError(t, w.Close())

	long := []byte("job,submit_s\n")
	for i := range 100_000 {
		long = fmt.Appendf(long, "j%d,%d\n", i, i)
	}
	require.NoError(t, os.WriteFile(path, long, 0o600))
	w, err = Open(Options{Format: "csv", Jobs: path, Fleet: Fleet{Hosts: 1, CPUMilli: 2000}})
	require.NoError(t, err)
	for range 50_000 {
		j, err = w.Jobs.Next()
		require.NoError(t, err)
	}
	part, known = w.Arrived(j.Submit)
	require.True(t, known)
	require.InDelta(t, 0.5, part, 0.1)
	require.NoError(t, w.Close())

	// Of so many jobs, the part that has come.
	w, err = Open(Options{Format: "csv", Jobs: path, Limit: 2, Fleet: Fleet{Hosts: 1, CPUMilli: 2000}})
	require.NoError(t, err)
	j, err = w.Jobs.Next()
	require.NoError(t, err)
	part, known = w.Arrived(j.Submit)
	require.True(t, known)
	require.InDelta(t, 0.5, part, 1e-9)
	_, err = w.Jobs.Next()
	require.NoError(t, err)
	_, known = w.Arrived(j.Submit)
	require.False(t, known, "the last one waits in memory")
	require.NoError(t, w.Close())
}
