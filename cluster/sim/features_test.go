package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/binpack"
	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/costmodels/network"
	"github.com/sluice-scheduler/sluice/costmodels/quincy"
	"github.com/sluice-scheduler/sluice/costmodels/sjf"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// occupancy is one run of a task as the list of placements tells it, in seconds; end is negative where it runs for ever.
type occupancy struct {
	job, host  string
	start, end float64
}

// story is a small run: hosts h0 to h5 of four cores, two to a rack, three to a zone; even ones have disk=hdd, odd ones disk=ssd.
type story struct {
	model costmodels.Model
	hosts func(hosts []trace.Host)
	pools []cluster.Pool
	jobs  []trace.Job

	faults     Faults
	usage      Usage
	stragglers Stragglers
	greedy     bool

	interference fleet.Interference
	learnEvery   time.Duration
	lostAfter    time.Duration

	result *Result // of the last time that it was told
}

// tell plays the story and returns the runs. No rule is broken in it, by the checker and by verify.
func (s *story) tell(t *testing.T) []occupancy {
	t.Helper()
	w := &trace.Workload{Arrivals: true, Departures: true}
	for i := range 6 {
		w.Hosts = append(w.Hosts, trace.Host{Name: fmt.Sprintf("h%d", i), Machine: cluster.Machine{
			Rack: fmt.Sprintf("r%d", i/2), Zone: fmt.Sprintf("z%d", i/3), Attributes: []cluster.KeyValue{{Key: "disk", Value: []string{"hdd", "ssd"}[i%2]}},
			Capacity: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 4000, cluster.Memory: 16 << 30}),
		}})
	}
	if s.hosts != nil {
		s.hosts(w.Hosts)
	}
	w.Jobs = &jobs{n: len(s.jobs), make: func(i int) *trace.Job { j := s.jobs[i]; return &j }}
	c := config(w)
	if s.model != nil {
		c.Model = s.model
	}
	c.Pools, c.Faults, c.Usage, c.Stragglers = s.pools, s.faults, s.usage, s.stragglers
	c.Interference, c.LearnEvery, c.LostAfter = s.interference, s.learnEvery, s.lostAfter
	if s.greedy {
		c.NewSolver = nil
	}
	var list bytes.Buffer
	c.Placements = &list
	s.result = run(t, c)
	clean(t, s.result)
	rows, err := csv.NewReader(&list).ReadAll()
	require.NoError(t, err)
	var all []occupancy
	for _, row := range rows[1:] {
		o := occupancy{job: row[0], host: row[3], end: -1}
		o.start, err = strconv.ParseFloat(row[5], 64)
		require.NoError(t, err)
		if row[6] != "" {
			o.end, err = strconv.ParseFloat(row[6], 64)
			require.NoError(t, err)
		}
		all = append(all, o)
	}
	return all
}

// work is a job of one-core tasks that run for a minute.
func work(name string, at time.Duration, instances uint32, change func(*cluster.JobSpec)) trace.Job {
	j := trace.Job{Submit: at, Durations: []time.Duration{time.Minute}, Spec: cluster.JobSpec{
		Name: cluster.JobID(name), Pool: "root/a", Instances: instances, MaxFailures: 3,
		Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}},
	}}
	j.Spec.Task.Resources = cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 1000, cluster.Memory: 1 << 30})
	if change != nil {
		change(&j.Spec)
	}
	return j
}

func is(key, value string) cluster.Constraint {
	return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: cluster.Greater}
}

func near(app, domain string, how cluster.Comparison, n uint32) *cluster.Constraint {
	return &cluster.Constraint{
		Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: app}, Domain: domain, Comparison: how, Count: n,
	}
}

func app(name string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Labels = []cluster.KeyValue{{Key: "app", Value: name}} }
}

func asks(c *cluster.Constraint) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Constraint = c }
}

func spread(domain string, most uint32) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Spread = []cluster.Spread{{Domain: domain, Max: most}} }
}

func evenly(domain string, skew uint32) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Spread = []cluster.Spread{{Domain: domain, MaxSkew: skew}} }
}

// rackOf and zoneOf tell where the hosts of a story are.
func rackOf(host string) string { return "r" + strconv.Itoa(int(host[1]-'0')/2) }
func zoneOf(host string) string { return "z" + strconv.Itoa(int(host[1]-'0')/3) }

// only reports whether all runs of the job are on hosts of which ok holds.
func only(runs []occupancy, job string, ok func(host string) bool) bool {
	for _, o := range runs {
		if o.job == job && !ok(o.host) {
			return false
		}
	}
	return true
}

// most returns the largest number of runs of the job in one domain. They run at the same time.
func most(runs []occupancy, job string, domain func(string) string) int {
	in, n := map[string]int{}, 0
	for _, o := range runs {
		if o.job == job {
			in[domain(o.host)]++
			n = max(n, in[domain(o.host)])
		}
	}
	return n
}

// domainsOf returns the domains in which the job ran.
func domainsOf(runs []occupancy, job string, domain func(string) string) map[string]bool {
	in := map[string]bool{}
	for _, o := range runs {
		if o.job == job {
			in[domain(o.host)] = true
		}
	}
	return in
}

func itself(host string) string { return host }

// TestFeatures: what a job asks of its place holds in a whole run, and does not hold in the same run without the feature, so
// that each test fails if its feature does nothing.
func TestFeatures(t *testing.T) {
	odd := func(host string) bool { return (host[1]-'0')%2 == 1 }
	ssd, h3, r2 := is("disk", "ssd"), is(cluster.LabelHostname, "h3"), is(cluster.LabelRack, "r2")
	notSSD := ssd
	notSSD.Comparison, notSSD.Count = cluster.Less, 1
	none := func(*cluster.JobSpec) {}
	for _, c := range []struct {
		name      string
		model     costmodels.Model
		feature   func(*cluster.JobSpec) // of the job "it"
		otherwise func(*cluster.JobSpec) // the job without the feature, where it has something else
		before    []trace.Job
		tasks     uint32
		hosts     func([]trace.Host) // the feature where it is one of hosts,
		pools     []cluster.Pool     // or of pools
		expected  func(runs []occupancy) bool
	}{
		{name: "host label", feature: asks(&ssd), tasks: 6, expected: func(runs []occupancy) bool { return only(runs, "it", odd) }},
		{name: "host label, not", feature: asks(&notSSD), tasks: 6, expected: func(runs []occupancy) bool {
			return only(runs, "it", func(h string) bool { return !odd(h) })
		}},
		{name: "hostname", feature: asks(&h3), tasks: 3, expected: func(runs []occupancy) bool {
			return only(runs, "it", func(h string) bool { return h == "h3" })
		}},
		{name: "or", feature: asks(&cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{h3, r2}}), tasks: 6, expected: func(runs []occupancy) bool {
			return only(runs, "it", func(h string) bool { return h == "h3" || rackOf(h) == "r2" })
		}},
		{name: "and", feature: asks(&cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{ssd, r2}}), tasks: 3, expected: func(runs []occupancy) bool {
			return only(runs, "it", func(h string) bool { return h == "h5" })
		}},
		{
			name: "away from other tasks", model: binpack.Model{}, feature: asks(near("x", "host", cluster.Less, 1)), tasks: 2,
			before: []trace.Job{work("x", 0, 2, app("x"))}, expected: func(runs []occupancy) bool {
				there := domainsOf(runs, "x", itself)
				return only(runs, "it", func(h string) bool { return !there[h] })
			},
		},
		{
			name: "near other tasks", feature: asks(near("x", "host", cluster.Greater, 0)), tasks: 2,
			before: []trace.Job{work("x", 0, 2, app("x"))}, expected: func(runs []occupancy) bool {
				there := domainsOf(runs, "x", itself)
				return only(runs, "it", func(h string) bool { return there[h] })
			},
		},
		{
			name: "in the rack of other tasks", feature: asks(near("x", "rack", cluster.Greater, 0)), tasks: 3,
			before: []trace.Job{work("x", 0, 1, app("x"))}, expected: func(runs []occupancy) bool {
				there := domainsOf(runs, "x", rackOf)
				return only(runs, "it", func(h string) bool { return there[rackOf(h)] })
			},
		},
		{
			name: "in a zone with two of them", feature: asks(near("x", "zone", cluster.Equal, 2)), tasks: 3,
			before: []trace.Job{work("x", 0, 3, app("x"))}, expected: func(runs []occupancy) bool {
				in := map[string]int{}
				for _, o := range runs {
					if o.job == "x" {
						in[zoneOf(o.host)]++
					}
				}
				return only(runs, "it", func(h string) bool { return in[zoneOf(h)] == 2 })
			},
		},
		{name: "at most one on a host", model: binpack.Model{}, feature: spread("host", 1), tasks: 6, expected: func(runs []occupancy) bool {
			return most(runs, "it", itself) == 1
		}},
		{name: "at most two on a host", model: binpack.Model{}, feature: spread("host", 2), tasks: 6, expected: func(runs []occupancy) bool {
			return most(runs, "it", itself) == 2
		}},
		{name: "at most two in a rack", model: binpack.Model{}, feature: spread("rack", 2), tasks: 6, expected: func(runs []occupancy) bool {
			return most(runs, "it", rackOf) == 2
		}},
		{name: "at most two in a zone", model: binpack.Model{}, feature: spread("zone", 2), tasks: 4, expected: func(runs []occupancy) bool {
			return most(runs, "it", zoneOf) == 2
		}},
		{name: "as many in each zone", model: binpack.Model{}, feature: evenly("zone", 1), tasks: 6, expected: func(runs []occupancy) bool {
			return most(runs, "it", zoneOf) == 3
		}},
		{name: "at most two more in a rack", model: binpack.Model{}, feature: evenly("rack", 2), tasks: 8, expected: func(runs []occupancy) bool {
			return most(runs, "it", rackOf) <= 4 && len(domainsOf(runs, "it", rackOf)) == 3
		}},
		{
			name: "as many in each rack, for half a minute", tasks: 16, // then those that found no place go where there is room
			feature: func(s *cluster.JobSpec) {
				s.Spread = []cluster.Spread{{Domain: "rack", MaxSkew: 1, Soft: &cluster.Soft{Timeout: 30 * time.Second, Penalty: time.Minute}}}
			},
			before: []trace.Job{work("full", 0, 8, asks(&r2))}, expected: func(runs []occupancy) bool {
				early, late := map[string]int{}, 0
				for _, o := range runs {
					switch {
					case o.job == "it" && o.start < 31:
						early[rackOf(o.host)]++
					case o.job == "it" && o.start < 40:
						late++
					}
				}
				return early["r0"] == 1 && early["r1"] == 1 && early["r2"] == 0 && late == 14
			},
		},
		{name: "a rule of its own hosts", tasks: 6, hosts: func(hosts []trace.Host) {
			hosts[0].Attributes = append(hosts[0].Attributes, cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"})
		}, expected: func(runs []occupancy) bool { return only(runs, "it", func(h string) bool { return h != "h0" }) }},
		{
			name: "hosts of a pool", tasks: 6, pools: []cluster.Pool{{Path: "root/a", Hosts: []cluster.KeyValue{{Key: "disk", Value: "ssd"}}}},
			expected: func(runs []occupancy) bool { return only(runs, "it", odd) },
		},
		{
			name: "where the data is", model: quincy.Model{}, tasks: 3,
			feature: func(s *cluster.JobSpec) {
				s.Inputs = []cluster.Input{{Bytes: 8 << 30, Hosts: []cluster.HostID{cluster.MakeHostID(trace.Shard, "h4")}, Last: 2}}
			},
			expected: func(runs []occupancy) bool { return only(runs, "it", func(h string) bool { return h == "h4" }) },
		},
		{
			name: "in the rack where the data is", model: quincy.Model{}, tasks: 6,
			feature: func(s *cluster.JobSpec) {
				s.Inputs = []cluster.Input{{Bytes: 8 << 30, Hosts: []cluster.HostID{cluster.MakeHostID(trace.Shard, "h4")}, Last: 5}}
			},
			expected: func(runs []occupancy) bool { return only(runs, "it", func(h string) bool { return rackOf(h) == "r2" }) },
		},
		{
			name: "in the zone where the data is", model: quincy.Model{}, tasks: 6,
			feature: func(s *cluster.JobSpec) {
				s.Inputs = []cluster.Input{{Bytes: 8 << 30, Zones: []string{"z1"}, Last: 5}}
			},
			expected: func(runs []occupancy) bool { return only(runs, "it", func(h string) bool { return zoneOf(h) == "z1" }) },
		},
		{
			name: "no patience for data", model: delay.Model{}, tasks: 3, // the host with it is full for a minute
			feature: func(s *cluster.JobSpec) {
				none := time.Duration(0)
				s.HostWait, s.RackWait = &none, &none
				s.Inputs = []cluster.Input{{Bytes: 8 << 30, Hosts: []cluster.HostID{cluster.MakeHostID(trace.Shard, "h3")}, Last: 2}}
			},
			otherwise: func(s *cluster.JobSpec) {
				s.Inputs = []cluster.Input{{Bytes: 8 << 30, Hosts: []cluster.HostID{cluster.MakeHostID(trace.Shard, "h3")}, Last: 2}}
			},
			before: []trace.Job{work("full", 0, 4, asks(&h3))}, expected: func(runs []occupancy) bool {
				for _, o := range runs {
					if o.job == "it" && o.start > 2 {
						return false
					}
				}
				return true
			},
		},
		{
			name: "a preference that gives way", tasks: 3, // all with an ssd are full for a minute
			feature: func(s *cluster.JobSpec) {
				s.Preferences = []cluster.SoftConstraint{{Constraint: ssd, Soft: cluster.Soft{Timeout: 30 * time.Second, Penalty: time.Minute}}}
			},
			before: []trace.Job{work("full", 0, 12, asks(&ssd))}, expected: func(runs []occupancy) bool {
				for _, o := range runs {
					if o.job == "it" && (odd(o.host) || o.start < 31 || o.start > 40) {
						return false
					}
				}
				return true
			},
		},
		{
			name: "a gang starts whole", tasks: 20, // four of 24 cores are free at first
			feature: func(s *cluster.JobSpec) { s.Gang = &cluster.Gang{Minimum: 20} },
			before:  []trace.Job{work("full", 0, 20, nil)}, expected: func(runs []occupancy) bool {
				starts := map[float64]bool{}
				for _, o := range runs {
					if o.job == "it" {
						starts[o.start] = true
					}
				}
				return len(starts) == 1
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			feature := c.feature
			if feature == nil {
				feature = none
			}
			otherwise := c.otherwise
			if otherwise == nil {
				otherwise = none
			}
			with := story{model: c.model, hosts: c.hosts, pools: c.pools, jobs: append(c.before[:len(c.before):len(c.before)], work("it", time.Second, c.tasks, feature))}
			runs := with.tell(t)
			count := 0
			for _, o := range runs {
				if o.job == "it" {
					count++
				}
			}
			require.Equal(t, int(c.tasks), count)
			require.True(t, c.expected(runs), "%v", runs)
			without := story{model: c.model, jobs: append(c.before[:len(c.before):len(c.before)], work("it", time.Second, c.tasks, otherwise))}
			require.False(t, c.expected(without.tell(t)), "without the feature nothing else would see to it")
		})
	}
}

// swapping gives the planner another model in each cycle, or a shadow.
type swapping struct {
	Planner
	policies []*cycle.Policy
	cycles   int
	compared int
	used     map[string]bool // models that gave the prices of a plan of their own policy
	faults   []string
}

func (s *swapping) Run(in cycle.Input) cycle.Output {
	in.Policy = s.policies[s.cycles%len(s.policies)]
	s.cycles++
	out := s.Planner.Run(in)
	if s.used != nil && out.Stats.Rounds > 0 && out.Stats.Model == in.Policy.Model.Name() {
		s.used[out.Stats.Model] = true
	}
	if out.Stats.Fault != "" {
		s.faults = append(s.faults, out.Stats.Fault)
	}
	if out.Shadow != nil {
		s.compared += out.Shadow.Same + out.Shadow.Elsewhere + out.Shadow.Later + out.Shadow.Earlier
	}
	return out
}

// TestModelsSwappedInEveryCycle: a run in which every cycle has another model breaks no rule and runs to its end.
func TestModelsSwappedInEveryCycle(t *testing.T) {
	c := config(crowded(21, 15, 60, time.Second))
	s := &swapping{used: map[string]bool{}}
	for _, name := range models.Names() {
		m, err := models.New(name)
		require.NoError(t, err)
		s.policies = append(s.policies, &cycle.Policy{Model: m})
	}
	c.wrap = func(p Planner) Planner { s.Planner = p; return s }
	r := run(t, c)
	clean(t, r)
	require.Equal(t, r.Tasks.Submitted, r.Tasks.Finished, "%+v", r.Tasks)
	require.Greater(t, s.cycles, 100)
	require.Empty(t, s.faults)
	require.Len(t, s.used, len(models.Names()), "not all of them planned")
}

// hanging is a model that does not return before it is released.
type hanging struct {
	trivial.Model
	release chan struct{}
}

func (hanging) Name() string { return "hanging" }

func (h hanging) Start(r *costmodels.Round, q *costmodels.Request, on *cluster.Host) flowgraph.Cost {
	<-h.release
	return h.Model.Start(r, q, on)
}

// TestAnEndlessModel: the run is that of the model that stands in for it, and says so.
func TestAnEndlessModel(t *testing.T) {
	c := config(crowded(23, 15, 40, time.Second))
	c.Model = trivial.Model{}
	want := run(t, c)
	require.Empty(t, want.Fault)
	synctest.Test(t, func(t *testing.T) {
		model := hanging{release: make(chan struct{})}
		c := config(crowded(23, 15, 40, time.Second))
		c.Model = model
		c.Watch = func() (<-chan time.Time, func()) {
			t := time.NewTicker(time.Second) // of the bubble's time
			return t.C, t.Stop
		}
		r := run(t, c)
		clean(t, r)
		require.Equal(t, "guard: the cost model is broken: hanging: Start does not return", r.Fault)
		require.Equal(t, want.Hash, r.Hash)
		close(model.release)
	})
}

// TestAShadowChangesNothing: with another model in the shadow the history is the same, and the shadow is compared.
func TestAShadowChangesNothing(t *testing.T) {
	hash := func(shadow costmodels.Model) (string, int) {
		c := config(crowded(22, 15, 40, time.Second))
		s := &swapping{policies: []*cycle.Policy{{Model: loadspread.Model{}, Shadow: shadow, ShadowEvery: 2}}}
		c.wrap = func(p Planner) Planner { s.Planner = p; return s }
		r := run(t, c)
		clean(t, r)
		return r.Hash, s.compared
	}
	alone, none := hash(nil)
	watched, compared := hash(binpack.Model{})
	require.Equal(t, alone, watched)
	require.Zero(t, none)
	require.Positive(t, compared)
}

// TestShorterWorkFirstWhenRunTimesAreKnown: what runs taught decides who goes first; without knowledge, age does.
func TestShorterWorkFirstWhenRunTimesAreKnown(t *testing.T) {
	lasting := func(j trace.Job, d time.Duration) trace.Job { j.Durations = []time.Duration{d}; return j }
	first := func(learnt bool) string {
		s := story{model: sjf.Model{}}
		if learnt {
			s.jobs = append(s.jobs, lasting(work("taught-long", 0, 4, does("long")), 10*time.Minute), lasting(work("taught-short", 0, 4, does("short")), 10*time.Second))
		}
		s.jobs = append(s.jobs,
			lasting(work("full", 20*time.Minute, 24, nil), time.Minute),
			lasting(work("long", 20*time.Minute+10*time.Second, 24, does("long")), 10*time.Minute),
			lasting(work("short", 20*time.Minute+11*time.Second, 24, does("short")), 10*time.Second))
		starts := map[string]float64{}
		for _, o := range s.tell(t) {
			if at, seen := starts[o.job]; !seen || o.start < at {
				starts[o.job] = o.start
			}
		}
		if starts["short"] < starts["long"] {
			return "short"
		}
		return "long"
	}
	require.Equal(t, "short", first(true))
	require.Equal(t, "long", first(false))
}

// does has a job do work of a kind.
func does(kind string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Labels = []cluster.KeyValue{{Key: cluster.WorkLabel, Value: kind}} }
}

// TestModelsDoWhatTheyAreFor: what a model is for happens in a whole run under it, and not in the same run under loadspread.
func TestModelsDoWhatTheyAreFor(t *testing.T) {
	within := func(zone string) cluster.Constraint { return is(cluster.LabelZone, zone) }
	for _, c := range []struct {
		name, model string
		hosts       func([]trace.Host)
		jobs        []trace.Job
		expected    func(runs []occupancy) bool
	}{
		{
			name: "where the links are idle, not the cores", model: "network",
			hosts: func(hosts []trace.Host) {
				for i := range hosts {
					hosts[i].Capacity.Fixed[cluster.Network] = 1000
				}
			},
			jobs: []trace.Job{
				work("computes", 0, 9, func(s *cluster.JobSpec) {
					z := within("z0")
					s.Constraint, s.Spread = &z, []cluster.Spread{{Domain: "host", Max: 3}}
				}),
				work("sends", 0, 3, func(s *cluster.JobSpec) {
					z := within("z1")
					s.Constraint, s.Spread = &z, []cluster.Spread{{Domain: "host", Max: 1}}
					s.Task.Resources.Fixed[cluster.Network] = 600
				}),
				work("it", time.Second, 3, func(s *cluster.JobSpec) { s.Task.Resources.Fixed[cluster.Network] = 300 }),
			},
			expected: func(runs []occupancy) bool {
				return only(runs, "it", func(h string) bool { return zoneOf(h) == "z0" })
			},
		},
		{
			name: "parts of GPUs leave whole ones for those who want them", model: "fragmentation", hosts: withGPUs,
			jobs: []trace.Job{
				work("before", 0, 2, gpus(cluster.GPURequest{Count: 2})), // so typical ones want two
				work("part-1", 2*time.Minute, 1, gpus(cluster.GPURequest{Milli: 500})),
				work("part-2", 2*time.Minute+time.Second, 1, gpus(cluster.GPURequest{Milli: 500})),
				work("it", 2*time.Minute+2*time.Second, 1, gpus(cluster.GPURequest{Count: 2})),
			},
			expected: func(runs []occupancy) bool {
				for _, o := range runs {
					if o.job == "it" && o.start > 123 {
						return false
					}
				}
				return true
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			under := func(model string) []occupancy {
				m, err := models.New(model)
				require.NoError(t, err)
				s := story{model: m, hosts: c.hosts, jobs: c.jobs}
				return s.tell(t)
			}
			runs := under(c.model)
			require.True(t, c.expected(runs), "%v", runs)
			require.False(t, c.expected(under("loadspread")))
		})
	}
}

// withGPUs gives the hosts of the first rack two GPUs each.
func withGPUs(hosts []trace.Host) {
	for i := range 2 {
		hosts[i].GPUs = []cluster.GPUDevice{{Model: "A"}, {Model: "A"}}
		hosts[i].Capacity.Fixed[cluster.GPU] = 2 * cluster.WholeGPU
	}
}

func gpus(r cluster.GPURequest) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Task.GPU, s.Task.Resources.Fixed[cluster.GPU] = r, r.Amount() }
}

// TestWorkGoesWhereItRanFast: under whare, what runs taught about kinds of hosts decides where work goes; without that, or under
// another model, some goes to slow hosts.
func TestWorkGoesWhereItRanFast(t *testing.T) {
	slow := Stragglers{Hosts: 0.5} // by chance all but h2, which has room for four
	isSlow := func(host string) bool { return happens(slow.Hosts, 0, "host "+host) }
	onSlow := func(model string, learnt bool) (n int) {
		m, err := models.New(model)
		require.NoError(t, err)
		s := story{model: m, stragglers: slow, hosts: func(hosts []trace.Host) {
			for i := range hosts {
				kind := "new"
				if isSlow(hosts[i].Name) {
					kind = "old"
				}
				hosts[i].Attributes = append(hosts[i].Attributes, cluster.KeyValue{Key: cluster.KindAttribute, Value: kind})
			}
		}}
		for i := range 5 {
			if !learnt {
				break
			}
			s.jobs = append(s.jobs, work(fmt.Sprint("taught-", i), time.Duration(i)*10*time.Minute, 6, func(s *cluster.JobSpec) {
				does("sort")(s)
				spread("host", 1)(s)
			}))
		}
		s.jobs = append(s.jobs, work("it", time.Hour, 4, does("sort")))
		for _, o := range s.tell(t) {
			if o.job == "it" && isSlow(o.host) {
				n++
			}
		}
		return n
	}
	require.Zero(t, onSlow("whare(starts=4)", true))
	require.Positive(t, onSlow("whare(starts=4)", false))
	require.Positive(t, onSlow("loadspread", true))
}

// TestSumsAndBindings: a model that is chosen, added or bound decides where tasks go, and another one puts them elsewhere.
func TestSumsAndBindings(t *testing.T) {
	packed := func(text, pool string) int {
		m, err := models.New(text)
		require.NoError(t, err)
		s := story{model: m, jobs: []trace.Job{work("it", 0, 4, func(s *cluster.JobSpec) { s.Pool = cluster.PoolPath(pool) })}}
		return len(domainsOf(s.tell(t), "it", itself))
	}
	for _, c := range []struct {
		model string
		pool  string
		hosts int // that four tasks of a quarter of a host have
	}{
		{"binpack", "root/a", 1},
		{"loadspread", "root/a", 4},
		{"loadspread + 0.001 binpack", "root/a", 4},
		{"binpack + 0.001 loadspread", "root/a", 1},
		{"loadspread; root/a = binpack", "root/b", 4},
		{"trivial; root/a = loadspread; root/b = binpack", "root/b", 1},
	} {
		t.Run(c.model+" in "+c.pool, func(t *testing.T) { require.Equal(t, c.hosts, packed(c.model, c.pool)) })
	}
}

// TestModelsBoundToTypes: a model that is bound to a type of jobs prices those, one after the other, and no others.
func TestModelsBoundToTypes(t *testing.T) {
	for policy, hosts := range map[string]int{"binpack; batch = loadspread": 4, "binpack; stateless = loadspread": 1} {
		m, err := models.New(policy)
		require.NoError(t, err)
		s := story{model: m}
		for i := range 4 {
			s.jobs = append(s.jobs, work(fmt.Sprint("it-", i), time.Duration(i)*time.Second, 1, nil))
		}
		on := map[string]bool{}
		for _, o := range s.tell(t) {
			on[o.host] = true
		}
		require.Len(t, on, hosts, policy)
	}
}

// TestNothingWaitsBehindAGang: what fits begins while a gang that does not fit waits ahead of it, and the gang begins as a whole
// when it does. Tasks that are no gang, in its place, take the room.
func TestNothingWaitsBehindAGang(t *testing.T) {
	begins := func(gang *cluster.Gang) (behind, last float64) {
		s := story{jobs: []trace.Job{
			work("full", 0, 20, nil),
			work("first", time.Second, 20, func(s *cluster.JobSpec) { s.Gang = gang }),
			work("behind", 2*time.Second, 4, nil),
		}}
		for _, o := range s.tell(t) {
			switch o.job {
			case "first":
				last = max(last, o.start)
			case "behind":
				behind = max(behind, o.start)
			}
		}
		return behind, last
	}
	behind, last := begins(&cluster.Gang{Minimum: 20})
	require.Less(t, behind, 3.0)
	require.Less(t, last, 65.0, "it did not wait for them either")
	behind, _ = begins(nil)
	require.Greater(t, behind, 59.0)
}

// TestAGangLeavesWhole: of a gang that others displace, all leave in one moment, while tasks that are no gang leave as many as are
// needed.
func TestAGangLeavesWhole(t *testing.T) {
	left := func(gang *cluster.Gang) (ends map[float64]int) {
		s := story{jobs: []trace.Job{
			work("core", 0, 24, func(s *cluster.JobSpec) { s.Preemptible, s.Gang = true, gang }),
			work("claim", 10*time.Second, 2, func(s *cluster.JobSpec) { s.Priority = 5 }),
		}}
		ends = map[float64]int{}
		for _, o := range s.tell(t) {
			if o.job == "core" && o.end < 60 { // it did not run its minute
				ends[o.end]++
			}
		}
		return ends
	}
	whole := left(&cluster.Gang{Minimum: 24})
	require.Len(t, whole, 1)
	for _, n := range whole {
		require.Equal(t, 24, n)
	}
	few := 0
	for _, n := range left(nil) {
		few += n
	}
	require.Equal(t, 2, few)
}

// TestAGangIsGivenBackThatDoesNotBegin: where not all of a gang are confirmed to run in time, all are given back, and it begins
// again as a whole; with more time it runs once.
func TestAGangIsGivenBackThatDoesNotBegin(t *testing.T) {
	begun := func(timeout time.Duration) map[float64]int { // how many runs began, by when
		s := story{faults: Faults{StatusDelay: 4 * time.Second}, jobs: []trace.Job{
			work("it", 0, 3, func(s *cluster.JobSpec) { s.Gang = &cluster.Gang{Minimum: 3, LaunchTimeout: timeout} }),
		}}
		starts := map[float64]int{}
		for _, o := range s.tell(t) {
			starts[o.start]++
		}
		return starts
	}
	starts := begun(2 * time.Second)
	require.Greater(t, len(starts), 1, "all of it was confirmed at once")
	for at, n := range starts {
		require.Equal(t, 3, n, "at %v", at)
	}
	require.Len(t, begun(time.Minute), 1)
}

// TestHostsWithGPUsAreKept: by price alone, work that needs no GPU stays off the hosts that have some while others have room,
// and goes there when they have not. The same terms without that price leave the GPUs idle behind full cores.
func TestHostsWithGPUsAreKept(t *testing.T) {
	scarce := func(host string) bool { return rackOf(host) == "r0" }
	onGPUs := func(model string, tasks uint32) (n int) {
		m, err := models.New(model)
		require.NoError(t, err)
		s := story{model: m, jobs: []trace.Job{work("it", 0, tasks, nil)}, hosts: withGPUs}
		for _, o := range s.tell(t) {
			if scarce(o.host) {
				n++
			}
		}
		return n
	}
	require.Zero(t, onGPUs("sluice", 16), "four hosts of four cores have room for all")
	require.Equal(t, 4, onGPUs("sluice", 20))
	require.Positive(t, onGPUs("loadspread + fragmentation + quincy", 16))
}

// watching counts who is asked to leave in quiet cycles: those that the simulation runs, and of planners that begin anew then and
// later, over ten minutes.
type watching struct {
	Planner
	anew        func() Planner
	settles     bool         // who had to leave for somebody may have somebody else leave: quiet is what comes when that has ended
	tasks       int          // that there are
	since       cluster.Time // the last of them arrived, or where it settles the last plan did something
	moves, full int          // victims in quiet cycles, quiet cycles
}

func (w *watching) Run(in cycle.Input) cycle.Output {
	out := w.Planner.Run(in)
	if n := in.Snapshot.NumTasks(); n != w.tasks || w.settles && len(out.Steps()) > 0 {
		w.tasks, w.since = n, in.Now
	}
	if in.Now.Sub(w.since) < cycle.DefaultOptions().Hysteresis+10*time.Second { // then those may leave for who arrived last who were asked to leave before
		return out
	}
	count := func(out *cycle.Output) {
		w.full++
		for i := range out.Displacements {
			w.moves += len(out.Displacements[i].Victims)
		}
	}
	count(&out)
	for i := range 60 {
		again := w.anew().Run(cycle.Input{
			Snapshot: in.Snapshot, Rescan: true, Now: in.Now.Add(time.Duration(i) * 10 * time.Second), Knowledge: in.Knowledge, Policy: in.Policy,
		})
		if len(out.Steps()) == 0 { // else the first of them would do what this one is about to
			count(&again)
		}
	}
	return out
}

// preemptible lets all jobs be asked to leave, for later ones of higher priority, and gives every other job an input that one host
// has, so that others may have to make room for it there.
type preemptible struct {
	trace.Source
	hosts []trace.Host
	jobs  int32
}

func (p *preemptible) Next() (*trace.Job, error) {
	j, err := p.Source.Next()
	if err != nil {
		return nil, err
	}
	j.Spec.Preemptible, j.Spec.Priority = true, p.jobs%4
	if p.jobs%2 == 0 {
		on := cluster.MakeHostID(trace.Shard, p.hosts[int(p.jobs)*7%len(p.hosts)].Name)
		j.Spec.Inputs = []cluster.Input{{Bytes: 2 << 30, Hosts: []cluster.HostID{on}, Last: j.Spec.Instances - 1}}
	}
	p.jobs++
	return j, nil
}

// endless lets all jobs run for ever.
type endless struct{ trace.Source }

func (e *endless) Next() (*trace.Job, error) {
	j, err := e.Source.Next()
	if err == nil {
		j.Durations = []time.Duration{0}
	}
	return j, err
}

// TestNothingMovesWithoutAReason: when no more jobs arrive and what runs never ends, no task is moved or stopped, though many wait.
func TestNothingMovesWithoutAReason(t *testing.T) {
	oneGoroutine(t)
	recorded := func(t *testing.T) *trace.Workload {
		data := os.Getenv("SLUICE_DATA")
		if data == "" {
			t.Skip("set SLUICE_DATA to the folder with the recorded traces")
		}
		w, err := trace.Open(trace.Options{
			Format: "google-2011", Jobs: filepath.Join(data, "traces", "google-2011", "GOOG_subtrace.tr.gz"), Seed: 1,
			Fleet: trace.Fleet{Hosts: 100}, Limit: 1000, Mode: trace.Mode{Demand: 1.3, NoDepartures: true, Gap: time.Second},
		})
		require.NoError(t, err)
		return w
	}
	madeUp := func(*testing.T) *trace.Workload {
		w := crowded(23, 15, 150, 2*time.Second)
		w.Jobs, w.Departures = &endless{w.Jobs}, false
		return w
	}
	for name, open := range map[string]func(*testing.T) *trace.Workload{
		"google-2011": recorded, "google-2011 with data": recorded, "made up": madeUp,
	} {
		for _, model := range []string{"loadspread", models.Default, "quincy(theta=20)"} {
			t.Run(name+", "+model, func(t *testing.T) {
				w := open(t)
				defer func() { require.NoError(t, w.Close()) }()
				asRecorded := name == "google-2011"
				if !asRecorded {
					w.Jobs = &preemptible{Source: w.Jobs, hosts: w.Hosts}
				}
				c := config(w)
				m, err := models.New(model)
				require.NoError(t, err)
				c.Model = m
				seen := &watching{anew: func() Planner { return cycle.New(c.Model, c.NewSolver) }, settles: !asRecorded}
				c.wrap = func(p Planner) Planner { seen.Planner = p; return seen }
				r := run(t, c)
				clean(t, r)
				require.Positive(t, r.Tasks.Waiting)
				if !asRecorded {
					require.Positive(t, r.Preemptions, "nobody ever had to leave, so that this shows nothing")
					require.Positive(t, r.Migrations, "nobody ever moved, so that this shows nothing")
				}
				require.GreaterOrEqual(t, seen.full, 60, "there were no quiet cycles")
				require.Zero(t, seen.moves)
			})
		}
	}
}

// TestQuincysFourPolicies: with and without fair sharing, which is the order of the pool, and preemption, which is the model's
// theta and the policy of the pool above.
func TestQuincysFourPolicies(t *testing.T) {
	long := func(name string, at time.Duration, instances uint32, change func(*cluster.JobSpec)) trace.Job {
		j := work(name, at, instances, change)
		j.Spec.Preemptible, j.Durations[0] = true, 10*time.Minute
		return j
	}
	for _, fair := range []bool{false, true} {
		for _, preempts := range []bool{false, true} {
			t.Run(fmt.Sprintf("fair %v, preemption %v", fair, preempts), func(t *testing.T) {
				root, leaf, model := cluster.Pool{Path: cluster.RootPool}, cluster.Pool{Path: "root/a"}, quincy.Model{}
				if fair {
					leaf.Order = cluster.FairJobs
				}
				if model.Theta = 100; !preempts {
					model.Theta, root.Preemption = 0, "none"
				}
				early := func(jobs ...trace.Job) (n int) { // tasks of b that begin in the first minute
					s := story{model: model, pools: []cluster.Pool{root, leaf}, jobs: jobs}
					for _, o := range s.tell(t) {
						if o.job == "b" && o.start < 60 {
							n++
						}
					}
					return n
				}
				share := func(when bool) int {
					if when {
						return 12
					}
					return 0
				}
				require.Equal(t, share(fair), early(long("a", 0, 24, nil), long("b", 0, 24, nil)))
				require.Equal(t, share(fair && preempts), early(long("a", 0, 24, nil), long("b", 20*time.Second, 24, nil)))

				s := story{model: model, pools: []cluster.Pool{root, leaf}, jobs: []trace.Job{
					long("a", 0, 20, nil), work("b", 5*time.Second, 2, func(s *cluster.JobSpec) {
						s.Inputs = []cluster.Input{{Bytes: 8_000_000_000, Hosts: []cluster.HostID{cluster.MakeHostID("sim", "h0")}, Last: 1}}
					}),
				}}
				require.Equal(t, preempts, only(s.tell(t), "b", func(h string) bool { return h == "h0" }))
			})
		}
	}
}

// TestTheFlowFindsRoomForAll: the tasks of "either" read at h0 as well as at h1, save for a little that is at h0, those of "one" at
// h0 only. With the flow each gets a host of its own; one after the other the more urgent take what the others need.
func TestTheFlowFindsRoomForAll(t *testing.T) {
	h0, h1 := cluster.MakeHostID(trace.Shard, "h0"), cluster.MakeHostID(trace.Shard, "h1")
	reads := func(bytes int64, hosts ...cluster.HostID) cluster.Input {
		return cluster.Input{Bytes: bytes, Hosts: hosts, Last: 3}
	}
	model, err := models.New(models.Default)
	require.NoError(t, err)
	s := story{model: model, jobs: []trace.Job{
		work("either", 0, 4, func(s *cluster.JobSpec) {
			s.Inputs, s.Priority = []cluster.Input{reads(8e9, h0, h1), reads(1e9, h0)}, 1
		}),
		work("one", 0, 4, func(s *cluster.JobSpec) { s.Inputs = []cluster.Input{reads(9e9, h0)} }),
	}}
	on := func(host string) func(string) bool { return func(h string) bool { return h == host } }
	runs := s.tell(t)
	require.True(t, only(runs, "one", on("h0")) && only(runs, "either", on("h1")), "%v", runs)
	require.Equal(t, Flow, s.result.Planner)
	flow := s.result.Cycles
	require.InDelta(t, 1250, flow.MeanPrice, 1, "ms: half of the tasks read 1 GB from a host in the rack")
	require.InDelta(t, flow.MeanPrice, flow.CostPerTask, 0, "nobody waits")

	s.greedy = true
	runs = s.tell(t)
	require.True(t, only(runs, "either", on("h0")) && !only(runs, "one", on("h0")), "%v", runs)
	require.Equal(t, Greedy, s.result.Planner)
	require.Greater(t, s.result.Cycles.MeanPrice, 5*flow.MeanPrice)
}

// TestBusyLinksAreAvoided: nobody asks for bandwidth, but the tasks of "copy" fill four fifths of their links with input. Those who
// come meanwhile go elsewhere; and who does the same work later, when all links are idle, goes where the link is wide.
func TestBusyLinksAreAvoided(t *testing.T) {
	const link, took = 125_000_000, 300 // bytes per second, seconds
	fetching := cluster.KeyValue{Key: cluster.WorkLabel, Value: "fetch"}
	z0 := is(cluster.LabelZone, "z0")
	copying := work("copy", 0, 3, func(s *cluster.JobSpec) {
		s.Constraint, s.Labels, s.Spread = &z0, []cluster.KeyValue{fetching}, []cluster.Spread{{Domain: "host", Max: 1}}
		s.Inputs = []cluster.Input{{Bytes: took * link * 4 / 5, Hosts: []cluster.HostID{cluster.MakeHostID(trace.Shard, "h5")}, Last: 2}}
	})
	copying.Durations[0] = took * time.Second
	story := story{
		model: network.Model{}, usage: Usage{Mean: 0.5},
		hosts: func(hosts []trace.Host) {
			for i := range hosts {
				hosts[i].Capacity.Fixed[cluster.Network] = link
			}
			hosts[3].Capacity.Fixed[cluster.Network] = 10 * link
		},
		jobs: []trace.Job{copying, work("meanwhile", 2*time.Minute, 12, nil), work("later", 10*time.Minute, 4, func(s *cluster.JobSpec) {
			s.Labels = []cluster.KeyValue{fetching}
		})},
	}
	away := func(host string) bool { return zoneOf(host) == "z1" }
	wide := func(host string) bool { return host == "h3" }
	runs := story.tell(t)
	require.True(t, only(runs, "meanwhile", away), "%v", runs)
	require.True(t, only(runs, "later", wide), "%v", runs)

	story.usage = Usage{}
	runs = story.tell(t)
	require.False(t, only(runs, "meanwhile", away), "nothing is observed: all links look idle")
	require.False(t, only(runs, "later", wide), "nothing was observed")
}

// TestImagesAreFetchedOnce: a task goes to the host that ran another one in its image, though all others are emptier, also where
// the scheduler that saw it is no more. Where nobody says how large the image is, it goes elsewhere.
func TestImagesAreFetchedOnce(t *testing.T) {
	in := func(bytes int64) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) {
			s.Task.Processes = []cluster.Process{{Command: []string{"true"}, Container: &cluster.Container{Image: "web", ImageBytes: bytes}}}
		}
	}
	h3 := is(cluster.LabelHostname, "h3")
	crash := Faults{Script: []Fault{{At: 3 * time.Minute, Kind: Crash, For: 10 * time.Second}}}
	for _, name := range []string{"sluice", "quincy", "loadspread + quincy"} {
		m, err := models.New(name)
		require.NoError(t, err)
		there := func(bytes int64, faults Faults) bool {
			first := work("first", 0, 1, func(s *cluster.JobSpec) { in(bytes)(s); s.Constraint = &h3 })
			first.Durations = []time.Duration{10 * time.Minute}
			s := story{model: m, faults: faults, jobs: []trace.Job{first, work("it", 5*time.Minute, 1, in(bytes))}, hosts: func(hosts []trace.Host) {
				for i := range hosts {
					hosts[i].Capabilities |= cluster.CanContainers
				}
			}}
			runs := s.tell(t)
			require.Len(t, runs, 2)
			return only(runs, "it", func(h string) bool { return h == "h3" })
		}
		require.True(t, there(8_000_000_000, Faults{}), name)
		require.True(t, there(8_000_000_000, crash), name)
		require.False(t, there(0, Faults{}), name)
	}
}

// TestACopyThatComesBackIsKilled: a rack is cut off for longer than its tasks are waited for. When it is seen again, what it still runs
// of them is killed, though the shard was connected all the time.
func TestACopyThatComesBackIsKilled(t *testing.T) {
	s := story{jobs: []trace.Job{work("it", 0, 12, nil)}}
	s.jobs[0].Durations[0] = 0
	s.faults.Script = []Fault{{At: 10 * time.Second, Kind: RackCut, Target: "r0", For: time.Minute}}
	s.lostAfter = 20 * time.Second
	s.tell(t)
	require.Positive(t, s.result.RunEnds["LOST/HOST_LOST"])
	require.Equal(t, s.result.RunEnds["LOST/HOST_LOST"], s.result.Faults.Stale, "each ended as it had been told to, and said so")
}

// TestServicesEndWhenTheirTimeIsOver: the workload says how long a service is there; it does not begin anew, whatever breaks.
func TestServicesEndWhenTheirTimeIsOver(t *testing.T) {
	brief := work("brief", 0, 2, func(s *cluster.JobSpec) { s.Type = cluster.Stateless })
	brief.Durations = []time.Duration{time.Minute, 2 * time.Minute}
	s := story{jobs: []trace.Job{brief}}
	runs := s.tell(t)
	require.Len(t, runs, 2)
	for i, o := range runs {
		require.InDelta(t, float64(i+1)*60, o.end-o.start, 0.1)
	}
	require.Equal(t, Tasks{Submitted: 2, Placed: 2, Finished: 2}, s.result.Tasks)
	require.Positive(t, s.result.Work["cpu_milli"].Useful)

	cut := func(kind FaultKind, at time.Duration) Fault { return Fault{At: at, Kind: kind, For: 5 * time.Second} }
	s.faults = Faults{Script: []Fault{cut(Crash, 58*time.Second), cut(LinkCut, 118*time.Second)}, StatusDuplicated: 0.5}
	s.tell(t)
	require.Equal(t, Tasks{Submitted: 2, Placed: 2, Finished: 2}, s.result.Tasks)
}

// TestFirstOnesInADomain: who is on a host that is in no domain is nobody's company, and those who want to be beside their own kind
// begin without him.
func TestFirstOnesInADomain(t *testing.T) {
	wants := func(s *cluster.JobSpec) {
		app("x")(s)
		asks(near("x", "rack", cluster.Greater, 0))(s)
	}
	apart := is("hostname", "h5")
	s := story{hosts: func(hosts []trace.Host) { hosts[5].Rack = "" }, jobs: []trace.Job{
		work("alone", 0, 1, func(s *cluster.JobSpec) { app("x")(s); asks(&apart)(s) }), work("it", time.Second, 3, wants),
	}}
	runs := s.tell(t)
	require.Len(t, runs, 4)
	require.Len(t, domainsOf(runs, "it", rackOf), 1)
	require.True(t, only(runs, "it", func(h string) bool { return h != "h5" }))
}
