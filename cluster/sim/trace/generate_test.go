package trace

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func ExampleGenerate() {
	mix, _ := ParseMix("service=0.5,batch=0.5")
	w, err := Generate(Synthetic{Fleet: Fleet{Hosts: 20}, Load: 0.7, Horizon: 10 * time.Minute, Mix: mix, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	j, _ := w.Jobs.Next()
	fmt.Println(len(w.Hosts), "hosts; first job:", j.Spec.Name, "of", j.Spec.Type)
	// Output: 20 hosts; first job: service-1 of STATELESS
}

func generated(t *testing.T, s Synthetic) ([]Host, []*Job) {
	w, err := Generate(s)
	require.NoError(t, err)
	jobs, err := collect(w.Jobs)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return w.Hosts, jobs
}

func TestGenerateKeepsThePromises(t *testing.T) {
	mix, err := ParseMix("service=1,batch=1,short=1,data=1,training=1")
	require.NoError(t, err)
	s := Synthetic{Fleet: Fleet{Hosts: 50, HostsPerRack: 10, GPUs: 4}, Horizon: 20 * time.Minute, Mix: mix, Seed: 3}
	hosts, jobs := generated(t, s)
	require.Len(t, hosts, 50)
	require.Len(t, rackNames(hosts), 5)
	v := validator{hosts: hosts}
	seen := make(map[cluster.PoolPath]int)
	var gangs, constrained, reading, atOnce, early int
	for _, j := range jobs {
		require.NoError(t, v.check(j))
		require.LessOrEqual(t, j.Submit, s.Horizon)
		seen[j.Spec.Pool]++
		if j.Spec.Type.Service() {
			require.Zero(t, j.Submit)
			atOnce++
		} else if j.Submit < s.Horizon/2 {
			early++
		}
		if j.Spec.Gang != nil {
			gangs++
		}
		if j.Spec.Constraint != nil {
			constrained++
		}
		if len(j.Spec.Inputs) > 0 {
			reading++
		}
	}
	require.Len(t, seen, 5)
	require.InDelta(t, float64(len(jobs)-atOnce)/2, float64(early), float64(len(jobs))/10, "they arrive evenly")
	require.Positive(t, gangs)
	require.Positive(t, reading)
	require.InDelta(t, float64(len(jobs))/16, float64(constrained), float64(len(jobs))/32)
	_, again := generated(t, s)
	require.Equal(t, jobs, again, "not deterministic")
	s.Seed++
	_, other := generated(t, s)
	require.NotEqual(t, jobs, other)
}

// TestGenerateLoad: each kind holds about its part of the capacity, in the mean over the horizon.
func TestGenerateLoad(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			const load = 0.6
			s := Synthetic{
				Fleet: Fleet{Hosts: 100, GPUs: 8}, Load: load, Horizon: time.Hour, Mix: []Share{{kind, 1}}, Seed: 11,
			}
			if kind == "training" { // few jobs of very different lengths: the mean needs time
				s.Horizon = 2000 * time.Hour
			}
			hosts, jobs := generated(t, s)
			capacity, held := capacityOf(hosts), 0.0
			for _, j := range jobs {
				one := sharesOf(j.Spec.Task.Resources, capacity)
				for i := range j.Spec.Instances {
					if d := j.Duration(i); d > 0 {
						held += one.dominant() * d.Seconds() / s.Horizon.Seconds()
					} else {
						held += one.dominant()
					}
				}
			}
			require.InDelta(t, load, held, load/5)
		})
	}
}

// TestGenerateHardlyAnything: jobs that would come in centuries do not come, where the mean time between them is no time any more.
func TestGenerateHardlyAnything(t *testing.T) {
	for _, s := range []Synthetic{
		{Load: 1e-9, Mix: []Share{{"batch", 1}}},
		{Load: 1e-300, Mix: []Share{{"batch", 1}}},
		{Fleet: Fleet{MemoryBytes: 1}, Mix: []Share{{"batch", 1}}},
		{Load: 1e-12, Horizon: math.MaxInt64, Mix: []Share{{"batch", 1}}},
	} {
		_, jobs := generated(t, s)
		require.Less(t, len(jobs), 50_000)
	}
}

func TestMix(t *testing.T) {
	mix, err := ParseMix("service=1,batch=3")
	require.NoError(t, err)
	require.Equal(t, []Share{{"service", 0.25}, {"batch", 0.75}}, mix)
	_, err = ParseMix(DefaultMix)
	require.NoError(t, err)
	for bad, want := range map[string]string{
		"":                  `kind "" is not known: one of service, batch, short, data, training`,
		"batch=1,":          `kind "" is not known`,
		"web=1":             `kind "web" is not known`,
		"batch":             `the part of batch is "": want a positive number`,
		"batch=0":           `the part of batch is "0"`,
		"batch=NaN":         `the part of batch is "NaN"`,
		"batch=Inf":         `the part of batch is "Inf"`,
		"batch=1,batch=2":   `batch is there twice`,
		"service=1;batch=1": `the part of service is "1;batch=1"`,
	} {
		_, err := ParseMix(bad)
		require.ErrorContains(t, err, want, bad)
	}
}

func TestGenerateErrors(t *testing.T) {
	for want, s := range map[string]Synthetic{
		"hosts is -1: 1 to 1000000":                   {Fleet: Fleet{Hosts: -1}},
		"hosts per rack is -2: 1 or more":             {Fleet: Fleet{HostsPerRack: -2}},
		"cpu, memory, disk and bandwidth of a host":   {Fleet: Fleet{CPUMilli: -5}},
		"a host has 2000 gpus: at most 1024":          {Fleet: Fleet{GPUs: 2000}},
		"load is -0.1: want a part of the capacity":   {Load: -0.1},
		"the horizon is negative":                     {Horizon: -time.Second},
		"job mix: training needs hosts with gpus":     {Mix: []Share{{"training", 1}}},
		"job mix: magic=1: want a known kind":         {Mix: []Share{{"magic", 1}}},
		"job mix: batch=-1: want a known kind and a ": {Mix: []Share{{"batch", -1}}},
	} {
		_, err := Generate(s)
		require.ErrorContains(t, err, want)
	}
}

func TestBlocks(t *testing.T) {
	for _, fleet := range []Fleet{
		{Hosts: 1}, {Hosts: 2}, {Hosts: 3, HostsPerRack: 1}, {Hosts: 3}, {Hosts: 5, HostsPerRack: 2}, {Hosts: 100, HostsPerRack: 10},
	} {
		hosts, err := fleet.build()
		require.NoError(t, err)
		m := newBlockMap(hosts, 1)
		used := make(map[cluster.HostID]int)
		blocks := m.inputs("/data/x", 2000, 1)
		require.Equal(t, blocks, newBlockMap(hosts, 1).inputs("/data/x", 2000, 1), "not a function of seed, path and index")
		require.Equal(t, blocks[:3], m.inputs("/data/x", 3, 1))
		for i := range blocks {
			at, racks := blocks[i].Hosts, blocks[i].Racks
			switch {
			case fleet.Hosts == 100: // three hosts in two racks
				require.Len(t, at, 3)
				require.Len(t, racks, 2)
			case fleet.HostsPerRack == 0: // as many as there are
				require.Len(t, at, min(3, fleet.Hosts))
			}
			for _, h := range at {
				used[h]++
			}
		}
		require.Len(t, used, fleet.Hosts, "some hosts never hold a block")
		for h, n := range used {
			require.GreaterOrEqual(t, n, 2000/fleet.Hosts, h) // 3 in the mean where there are 3 replicas
		}
		if fleet.Hosts == 100 {
			require.NotEqual(t, blocks, newBlockMap(hosts, 2).inputs("/data/x", 2000, 1), "the seed does not matter")
		}
	}
}

// TestNoRackIsNoneToReadIn: hosts that are in no rack are not in one together.
func TestNoRackIsNoneToReadIn(t *testing.T) {
	hosts := testFleet(t)
	for i := range hosts {
		hosts[i].Rack = ""
	}
	for _, in := range newBlockMap(hosts, 1).inputs("/data/x", 20, 1) {
		require.Len(t, in.Hosts, 3)
		require.Empty(t, in.Racks)
	}
	_, err := openCoflow("coflows", strings.NewReader("1 0\n"), jobOptions{hosts: hosts})
	require.ErrorContains(t, err, "coflows:1:1: field 1 is 1: the hosts have only 0 racks to be its ports")
}

func TestPathsAreSkewed(t *testing.T) {
	mix, err := ParseMix("data=1")
	require.NoError(t, err)
	_, jobs := generated(t, Synthetic{Fleet: Fleet{Hosts: 40}, Mix: mix})
	reads := make(map[string]int)
	for _, j := range jobs {
		reads[j.Spec.Inputs[0].Name]++
	}
	hottest := 0
	for _, n := range reads {
		hottest = max(hottest, n)
	}
	require.Greater(t, hottest, len(jobs)/50, "no file is hot")
	require.Greater(t, len(reads), len(jobs)/4, "few files are cold")
	require.False(t, strings.Contains(fmt.Sprint(reads), "file-0:"))
}
