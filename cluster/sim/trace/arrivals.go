package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Mode says when jobs arrive. The zero value leaves everything as recorded.
type Mode struct {
	// OfferedLoad, if not 0, compresses the arrivals until the offered load reaches this part of the capacity (0.9 is
	// 90 %); durations are kept. See offeredLoad for what that is.
	OfferedLoad float64

	// Demand, if not 0, ignores the recorded times: jobs arrive one by one, Gap apart, until together they ask for this
	// part of the capacity (1.3 is 130 %) in the dimension where that is most. They are drawn at random with
	// replacement if their arrivals were recorded, and else come in the order of the file, over and over.
	Demand float64
	Gap    time.Duration // of Demand

	// NoDepartures makes every job run for ever.
	NoDepartures bool
}

func (m Mode) validate() error {
	switch {
	case m.OfferedLoad != 0 && m.Demand != 0:
		return errors.New("trace: offered load and demand exclude each other: give one of them")
	case !(m.OfferedLoad >= 0 && m.OfferedLoad <= maxLoad):
		return fmt.Errorf("trace: the offered load is %v: want a part of the capacity, 0 to %d", m.OfferedLoad, maxLoad)
	case !(m.Demand >= 0 && m.Demand <= maxLoad):
		return fmt.Errorf("trace: the demand is %v: want a part of the capacity, 0 to %d", m.Demand, maxLoad)
	case m.Gap < 0:
		return fmt.Errorf("trace: the gap between arrivals is %v: want 0 or more", m.Gap)
	case m.OfferedLoad > 0 && m.NoDepartures:
		return errors.New("trace: offered load needs departures: use demand")
	}
	return nil
}

const maxLoad = 1000

// maxMade is how many jobs a mode makes of those of a trace.
const maxMade = 10_000_000

var errIdle = errors.New("trace: no job asks for anything that the hosts have")

func (m Mode) apply(w *Workload, seed uint64) error {
	switch {
	case m.OfferedLoad > 0 && !(w.Arrivals && w.Departures):
		return errors.New("trace: offered load needs recorded arrivals and durations: use demand")
	case m.OfferedLoad > 0:
		jobs, err := collectForCopies(w.Jobs)
		if err != nil || len(jobs) == 0 {
			w.Jobs = fromList(nil)
			return err
		}
		if w.Jobs, w.Compression, err = compress(w.Hosts, jobs, m.OfferedLoad); err == nil {
			w.until = w.Jobs.(*listed).last
		}
		return err
	case m.Demand > 0:
		jobs, err := collectForCopies(w.Jobs)
		if err != nil || len(jobs) == 0 {
			w.Jobs = fromList(nil)
			return err
		}
		next := inOrder(jobs)
		if w.Arrivals {
			next = withReplacement(jobs, seed)
		}
		if w.Jobs, err = untilDemand(w.Hosts, jobs, next, m); err != nil {
			return err
		}
		w.Arrivals, w.until, w.size = true, 0, 0
	}
	if m.NoDepartures {
		from := w.Jobs
		w.Departures = false
		w.Jobs = sourceFunc(func() (*Job, error) {
			j, err := from.Next()
			if err == nil {
				j.Durations = forEver
			}
			return j, err
		})
	}
	return nil
}

// shares is a vector of amounts by fixed dimension, as parts of what all hosts have; 0 where they have nothing.
type shares [cluster.NumDimensions]float64

func capacityOf(hosts []Host) cluster.Resources {
	var c cluster.Resources
	for i := range hosts {
		c = c.Add(hosts[i].Capacity)
	}
	return c
}

func sharesOf(r, capacity cluster.Resources) shares {
	var s shares
	for d, v := range capacity.Fixed {
		if v > 0 {
			s[d] = float64(r.Fixed[d]) / float64(v)
		}
	}
	return s
}

func (s *shares) add(t shares, times float64) {
	for d := range s {
		s[d] += t[d] * times
	}
}

// dominant returns the largest share.
func (s *shares) dominant() float64 { return slices.Max(s[:]) }

// Compression says how the arrivals of a workload were compressed.
type Compression struct {
	Factor float64       `json:"factor"`       // what recorded times were multiplied by; more than 1 where arrivals had to be stretched
	Copies int           `json:"copies"`       // how many times the trace is there, one after the other
	Load   float64       `json:"offered_load"` // that was reached
	Span   time.Duration `json:"-"`            // from the first to the last arrival
}

// interval is what instances of one job with one duration would take.
type interval struct {
	submit   time.Duration
	duration time.Duration // 0: for ever
	share    shares
}

func intervalsOf(capacity cluster.Resources, jobs []*kept) []interval {
	var out []interval
	for _, j := range jobs {
		one := sharesOf(j.resources, capacity)
		each := float64(j.instances) / float64(len(j.durations))
		for _, d := range j.durations {
			v := interval{submit: j.submit, duration: d}
			v.share.add(one, each)
			out = append(out, v)
		}
	}
	return out
}

// offeredLoad returns the offered load if all submission times were multiplied by factor: the largest part of the capacity,
// in any dimension and at any time, that would be in use if every instance started when its job is submitted. Formally,
//
//	max over t, d of  Σ { request_d(i) : factor·submit(i) ≤ t < factor·submit(i) + duration(i) } / capacity_d .
//
// It never falls as the factor falls. Complexity: n log n for n intervals.
func offeredLoad(intervals []interval, factor float64) float64 {
	type end struct {
		at    time.Duration
		share *shares
	}
	ends := make([]end, 0, len(intervals))
	for i := range intervals {
		if v := &intervals[i]; v.duration > 0 {
			ends = append(ends, end{scale(v.submit, factor) + v.duration, &v.share})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	var running shares
	peak := 0.0
	for i := range intervals {
		v := &intervals[i]
		for at := scale(v.submit, factor); len(ends) > 0 && ends[0].at <= at; ends = ends[1:] {
			running.add(*ends[0].share, -1)
		}
		running.add(v.share, 1)
		peak = max(peak, running.dominant())
	}
	return peak
}

func scale(t time.Duration, factor float64) time.Duration {
	return time.Duration(math.Round(float64(t) * factor))
}

// headroom is how much more than the offered load all jobs together must ask for, so that arrivals are spread over a
// while instead of coming all at once.
const headroom = 2

// maxStretch bounds how far apart arrivals are moved. Jobs that overlap even then come at once, or never end.
const maxStretch = 1 << 14

// maxSpan bounds when jobs arrive, so that times with all that is added to them stay in their range: 73 years.
const maxSpan = math.MaxInt64 / 4

// compress finds the slowest arrivals with which the offered load reaches the wanted one. Where all jobs together do not
// ask for headroom times that, the trace is repeated, each copy beginning where the one before ended.
func compress(hosts []Host, jobs []*kept, load float64) (Source, *Compression, error) {
	capacity := capacityOf(hosts)
	all := offeredLoad(intervalsOf(capacity, jobs), 0)
	if all == 0 {
		return nil, nil, errIdle
	}
	copies := max(1, math.Ceil(headroom*load/all))
	if copies*float64(len(jobs)) > maxMade {
		return nil, nil, fmt.Errorf("trace: an offered load of %v needs %.0f copies of the trace: choose fewer hosts", load, copies)
	}
	c := &Compression{Copies: int(copies)}
	jobs, shrunk := repeat(jobs, c.Copies)
	intervals := intervalsOf(capacity, jobs)
	low, high := 0.0, 1.0 // the load at low is large enough, that at high is not
	for offeredLoad(intervals, high) >= load {
		if low, high = high, high*2; high > maxStretch || high*float64(jobs[len(jobs)-1].submit) > maxSpan {
			return nil, nil, fmt.Errorf("trace: the offered load is %.3g at least, however far apart jobs arrive: "+
				"ask for more than that, or for more hosts", offeredLoad(intervals, low))
		}
	}
	for range 40 {
		middle := (low + high) / 2
		if low == 0 {
			middle = high / 16
		}
		if offeredLoad(intervals, middle) >= load {
			low = middle
		} else {
			high = middle
		}
		if high-low < high*1e-4 {
			break
		}
	}
	c.Factor, c.Load = low*shrunk, offeredLoad(intervals, low)
	for _, j := range jobs {
		j.submit = scale(j.submit, low)
	}
	c.Span = jobs[len(jobs)-1].submit - jobs[0].submit
	return fromList(jobs), c, nil
}

// repeat returns the jobs n times, one copy after the other, a mean gap between arrivals apart. Where they would come later than is
// bearable, all of their times are shrunk first, by the factor that it returns, too.
func repeat(jobs []*kept, n int) ([]*kept, float64) {
	first, last := jobs[0].submit, jobs[len(jobs)-1].submit
	period := last - first + max(time.Second, (last-first)/time.Duration(len(jobs)))
	shrunk := min(1, maxSpan/(float64(first)+float64(n)*float64(period)))
	if shrunk < 1 {
		for _, j := range jobs {
			j.submit = scale(j.submit, shrunk)
		}
		period = scale(period, shrunk)
	}
	out := slices.Clone(jobs)
	for k := 1; k < n; k++ {
		for _, j := range jobs {
			again := *j
			again.submit += time.Duration(k) * period
			again.name = copyName(j.name, k)
			out = append(out, &again)
		}
	}
	return out, shrunk
}

// copyName names the k-th copy of a job.
func copyName(name cluster.JobID, k int) cluster.JobID {
	return cluster.JobID(fmt.Sprintf("%s%s%d", name, copyMark, k))
}

const copyMark = "-copy-"

// collectForCopies reads all jobs, of which copies may be made later: no name may look like that of a copy.
func collectForCopies(s Source) ([]*kept, error) {
	jobs, err := keepAll(s)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if strings.Contains(string(j.name), copyMark) {
			return nil, fmt.Errorf("trace: job %q: names with %q are for copies", j.name, copyMark)
		}
	}
	return jobs, nil
}

func inOrder(jobs []*kept) func() int {
	i := -1
	return func() int {
		i = (i + 1) % len(jobs)
		return i
	}
}

func withReplacement(jobs []*kept, seed uint64) func() int {
	random := rand.New(rand.NewPCG(seed, 1))
	return func() int { return random.IntN(len(jobs)) }
}

// untilDemand yields jobs, chosen by next, until together they ask for the wanted part of the capacity; the one with
// which they do is the last.
func untilDemand(hosts []Host, jobs []*kept, next func() int, m Mode) (Source, error) {
	capacity := capacityOf(hosts)
	asks := func(j *kept) (s shares) {
		s.add(sharesOf(j.resources, capacity), float64(j.instances))
		return s
	}
	var all shares
	for _, j := range jobs {
		all.add(asks(j), 1)
	}
	if all.dominant() == 0 {
		return nil, errIdle
	}
	if rounds := m.Demand / all.dominant(); rounds*float64(len(jobs)) > maxMade {
		return nil, fmt.Errorf("trace: a demand of %v is not reached with %d jobs: choose fewer hosts", m.Demand, maxMade)
	}
	var demand shares
	copies := make([]int, len(jobs))
	arrived := 0
	return sourceFunc(func() (*Job, error) {
		if demand.dominant() >= m.Demand {
			return nil, io.EOF
		}
		if m.Gap > 0 && arrived > int(maxSpan/m.Gap) {
			return nil, fmt.Errorf("trace: jobs that arrive %v apart take more than 73 years to ask for a demand of %v: choose a smaller gap", m.Gap, m.Demand)
		}
		i := next()
		j := *jobs[i]
		if k := copies[i]; k > 0 {
			j.name = copyName(j.name, k)
		}
		copies[i]++
		demand.add(asks(&j), 1)
		j.submit = time.Duration(arrived) * m.Gap
		arrived++
		return j.job(), nil
	}), nil
}
