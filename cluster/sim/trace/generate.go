package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Synthetic describes a workload that is made up. Zero fields mean their defaults.
//
// Each kind of jobs in Mix takes its part of Load: services come at the beginning until they ask for it and stay; jobs of
// the other kinds arrive as a Poisson process for Horizon, at the rate at which, in the long run, they hold that part of
// the capacity (in the dimension of which a job takes most). Every fourth host has the attribute disk=ssd, and one job in
// sixteen needs it.
type Synthetic struct {
	Fleet   Fleet         // 100 hosts of 32 cores, 128 GiB, 1 TiB in racks of 40
	Load    float64       // part of the capacity that is in use in the long run; 0.8
	Horizon time.Duration // how long jobs arrive; one hour
	Mix     []Share       // DefaultMix
	Seed    uint64
	// Labels has jobs say their kind with the label cluster.WorkLabel.
	Labels bool
}

// Share is the part that jobs of a kind have of the load.
type Share struct {
	Kind string // one of Kinds
	Part float64
}

// DefaultMix is the mix of jobs of a Synthetic without one.
const DefaultMix = "service=0.4,batch=0.45,short=0.05,data=0.1"

// ParseMix reads kinds with their parts of the load, such as "service=0.5,batch=0.5". The parts are made to add up to 1.
func ParseMix(s string) ([]Share, error) {
	var mix []Share
	sum := 0.0
	for item := range strings.SplitSeq(s, ",") {
		kind, part, _ := strings.Cut(item, "=")
		v, err := strconv.ParseFloat(part, 64)
		switch {
		case !slices.Contains(Kinds(), kind):
			return nil, fmt.Errorf("trace: job mix: kind %q is not known: one of %s", kind, strings.Join(Kinds(), ", "))
		case err != nil || !(v > 0 && v <= 1e6):
			return nil, fmt.Errorf("trace: job mix: the part of %s is %q: want a positive number", kind, part)
		case slices.ContainsFunc(mix, func(o Share) bool { return o.Kind == kind }):
			return nil, fmt.Errorf("trace: job mix: %s is there twice", kind)
		}
		mix = append(mix, Share{kind, v})
		sum += v
	}
	for i := range mix {
		mix[i].Part /= sum
	}
	return mix, nil
}

// kind draws jobs of one kind. Sizes and widths are uniform in steps on a logarithmic scale; run times are log-normal.
type kind struct {
	name        string
	jobType     cluster.JobType
	priority    int32
	preemptible bool
	revocable   bool // on what others leave unused of what they hold

	width     []uint32 // instances
	cpuMilli  []int64
	mibPerCPU []int64 // memory, for each core
	gang      bool
	gpu       bool // each instance takes a device

	median time.Duration // of run times; 0: for ever
	sigma  float64       // of the logarithm of run times, over jobs; half of it again over the instances of a job
	blocks []int         // of the input, one instance each
}

var kinds = []kind{
	{
		name: "service", jobType: cluster.Stateless, priority: 500,
		width: []uint32{1, 2, 3, 5, 10, 20, 40}, cpuMilli: []int64{250, 500, 1000, 2000, 4000, 8000}, mibPerCPU: []int64{2048, 4096},
	},
	{
		name: "batch", priority: 200, preemptible: true,
		width: []uint32{1, 2, 5, 10, 20, 50, 100, 200}, cpuMilli: []int64{250, 500, 1000, 2000}, mibPerCPU: []int64{1024, 2048, 4096},
		median: 2 * time.Minute, sigma: 1.2,
	},
	{
		name: "short", priority: 300, preemptible: true,
		width: []uint32{1, 2, 4, 8}, cpuMilli: []int64{250, 500, 1000}, mibPerCPU: []int64{1024},
		median: 10 * time.Second, sigma: 0.6,
	},
	{
		name: "data", priority: 200, preemptible: true,
		cpuMilli: []int64{1000}, mibPerCPU: []int64{2048},
		median: 20 * time.Second, sigma: 0.6, blocks: []int{1, 2, 4, 8, 16, 32, 64, 128},
	},
	{
		name: "training", priority: 400, preemptible: true, gang: true, gpu: true,
		width: []uint32{1, 1, 1, 2, 4, 8}, cpuMilli: []int64{4000}, mibPerCPU: []int64{8192},
		median: 20 * time.Minute, sigma: 1.5,
	},
	{
		name: "revocable", priority: 100, preemptible: true, revocable: true,
		width: []uint32{1, 5, 20, 50}, cpuMilli: []int64{250, 500, 1000}, mibPerCPU: []int64{512, 1024},
		median: 2 * time.Minute, sigma: 1,
	},
}

// Kinds lists the kinds of jobs that can be generated.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].name
	}
	return names
}

func (s Synthetic) withDefaults() (Synthetic, error) {
	s.Fleet = s.Fleet.or(Fleet{Hosts: 100})
	s.Load = cmp.Or(s.Load, 0.8)
	s.Horizon = cmp.Or(s.Horizon, time.Hour)
	if s.Mix == nil {
		s.Mix, _ = ParseMix(DefaultMix) // a constant
	}
	switch {
	case !(s.Load > 0 && s.Load <= maxLoad):
		return s, fmt.Errorf("trace: load is %v: want a part of the capacity, above 0 and up to %d", s.Load, maxLoad)
	case s.Horizon < 0:
		return s, errors.New("trace: the horizon is negative")
	}
	for _, m := range s.Mix {
		i := slices.Index(Kinds(), m.Kind)
		if i < 0 || !(m.Part >= 0) {
			return s, fmt.Errorf("trace: job mix: %s=%v: want a known kind and a part of 0 or more", m.Kind, m.Part)
		}
		if kinds[i].gpu && s.Fleet.GPUs <= 0 {
			return s, fmt.Errorf("trace: job mix: %s needs hosts with gpus", m.Kind)
		}
	}
	return s, nil
}

// Generate makes up a workload. Jobs are made when they are asked for; memory does not grow with their number.
func Generate(s Synthetic) (*Workload, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	hosts, err := s.Fleet.build()
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		if i%4 == 0 {
			hosts[i].Attributes = []cluster.KeyValue{{Key: "disk", Value: "ssd"}}
		}
	}
	capacity := capacityOf(hosts)
	blocks := newBlockMap(hosts, s.Seed)
	g := &generator{horizon: s.Horizon}
	for _, m := range s.Mix {
		k := &kinds[slices.Index(Kinds(), m.Kind)]
		st := &stream{kind: k, labelled: s.Labels, blocks: blocks, random: rand.New(rand.NewPCG(s.Seed, uint64(slices.Index(Kinds(), m.Kind))+2))}
		st.calibrate(capacity, m.Part*s.Load)
		g.streams = append(g.streams, st)
	}
	return &Workload{Hosts: hosts, Jobs: g, Arrivals: true, Departures: true, until: s.Horizon}, nil
}

// generator merges the jobs of several kinds by their time of arrival.
type generator struct {
	streams []*stream
	horizon time.Duration
}

// Next implements Source.
func (g *generator) Next() (*Job, error) {
	var first *stream
	for _, s := range g.streams {
		if !s.done && s.next <= g.horizon && (first == nil || s.next < first.next) {
			first = s
		}
	}
	if first == nil {
		return nil, io.EOF
	}
	return first.take(), nil
}

// stream yields the jobs of one kind.
type stream struct {
	*kind
	labelled bool
	random   *rand.Rand
	blocks   *blockMap
	capacity cluster.Resources

	count int
	next  time.Duration // when the next job arrives
	gap   time.Duration // mean time between arrivals; 0 for services, which come at once
	want  float64       // the part of the capacity that services still are to take
	done  bool
}

// calibrate sets the rate of arrivals from the mean of what jobs of the kind hold: a sample of them, drawn apart.
func (s *stream) calibrate(capacity cluster.Resources, part float64) {
	s.capacity, s.want, s.done = capacity, part, part == 0
	if s.median == 0 || s.done {
		return
	}
	const sample = 2000
	apart := *s
	apart.random = rand.New(rand.NewPCG(3, 7))
	held := 0.0 // part of the capacity × seconds
	for range sample {
		j := apart.draw()
		one := sharesOf(j.Spec.Task.Resources, capacity)
		for i := range j.Spec.Instances {
			held += one.dominant() * j.Duration(i).Seconds()
		}
	}
	s.gap = toDuration(held / sample / part)
	s.wait()
}

// wait draws the time until the next arrival, if one is to come at all.
func (s *stream) wait() {
	if gap := s.random.ExpFloat64() * float64(s.gap); gap < float64(math.MaxInt64-s.next) {
		s.next += max(1, time.Duration(gap))
	} else {
		s.done = true
	}
}

// take returns the job that is due.
func (s *stream) take() *Job {
	j := s.draw()
	s.count++
	j.Spec.Name = numbered(s.name, s.count)
	j.Submit = s.next
	if s.median > 0 {
		s.wait()
		return j
	}
	one := sharesOf(j.Spec.Task.Resources, s.capacity)
	s.want -= one.dominant() * float64(j.Spec.Instances)
	s.done = s.want <= 0
	return j
}

// draw makes a job without name and time of arrival.
func (s *stream) draw() *Job {
	cpu := pick(s.random, s.cpuMilli)
	var gpu cluster.GPURequest
	if s.gpu {
		gpu.Count = 1
	}
	j := newJob("", 0, 1, task(cpu, cpu*pick(s.random, s.mibPerCPU)*mib/1000, 0, gpu))
	j.Spec.Type, j.Spec.Priority, j.Spec.Preemptible = s.jobType, s.priority, s.preemptible
	j.Spec.Revocable = s.revocable
	j.Spec.Pool = cluster.RootPool + cluster.PoolPath("/"+s.name)
	if s.labelled {
		j.Spec.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: s.name}}
	}
	if len(s.blocks.hosts) >= 4 && s.random.IntN(16) == 0 {
		j.Spec.Constraint = allOf([]cluster.KeyValue{{Key: "disk", Value: "ssd"}})
	}
	var bytes int64
	if s.kind.blocks != nil {
		n := pick(s.random, s.kind.blocks)
		j.Spec.Instances, bytes = uint32(n), DefaultBlockBytes
		j.Spec.Inputs = s.blocks.inputs(s.path(), int64(n)*DefaultBlockBytes, DefaultBlockBytes)
	} else {
		j.Spec.Instances = pick(s.random, s.width)
	}
	if s.gang {
		j.Spec.Gang = gangOf(j.Spec.Instances)
	}
	if s.median > 0 {
		j.Durations = s.durations(int(j.Spec.Instances), readTime(bytes)-taskStartup)
	}
	return j
}

// durations draws the run times of n instances, to the millisecond. What they read comes on top.
func (s *stream) durations(n int, reading time.Duration) []time.Duration {
	typical := float64(s.median) * math.Exp(s.sigma*s.random.NormFloat64())
	ds := make([]time.Duration, n)
	for i := range ds {
		own := typical * math.Exp(s.sigma/2*s.random.NormFloat64())
		ds[i] = max(time.Millisecond, time.Duration(own).Round(time.Millisecond)) + reading
	}
	return ds
}

// path draws the name of an input file: few are read often, many seldom.
func (s *stream) path() string {
	return "file-" + strconv.Itoa(int(math.Pow(1e5, s.random.Float64())))
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
