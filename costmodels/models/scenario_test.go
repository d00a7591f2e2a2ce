package models_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

// scenarios hold for each policy what it is for: a workload, and a measure that is better if it is smaller.
var scenarios = []struct {
	policy, against string
	about           string
	play            func(*stage) float64
	most            float64 // the part of the other's mean that the policy's may have
}{
	{"loadspread", "binpack", "the busiest host's share of its cores", busiest, 0.7},
	{"sjf", "loadspread", "mean time from submission to the end of a task", completion, 0.8},
	{"quincy", "loadspread", "bytes read through the core", func(s *stage) float64 { return s.reading().remote }, 0.5},
	{"quincy(theta=20)", "quincy", "bytes not read on the host, beside work without data", crowdedReading, 0.5},
	{"delay", "loadspread", "bytes not read on the host", func(s *stage) float64 { r := s.reading(); return r.remote + r.inRack }, 0.5},
	{"binpack", "loadspread", "hosts in use", hostsInUse, 0.6},
	{"fragmentation", "loadspread", "GPUs not allocated when nothing more fits", idleGPUs, 0.8},
	{"whare", "loadspread", "mean pace of the tasks", pace, 0.8},
	{"coco", "loadspread", "disturbance between tasks on a host", disturbance, 0.7},
	{"sjf", "loadspread", "mean time to completion, run times learned", learnedCompletion, 0.75},
	{"network", "loadspread", "bandwidth asked of links beyond what they have", congestion, 0.3},
	{"sluice", "loadspread", "GPUs not allocated when nothing more fits", idleGPUs, 0.8},
	{"sluice", "loadspread", "bytes read through the core", func(s *stage) float64 { return s.reading().remote }, 0.7},
	{"0.5 quincy + loadspread", "loadspread", "bytes read through the core", func(s *stage) float64 { return s.reading().remote }, 0.7},
	{"trivial; batch = binpack", "loadspread", "hosts in use", hostsInUse, 0.6},
}

func TestEveryModelIsBetterAtWhatItIsFor(t *testing.T) {
	shown := map[string]bool{"trivial": true, "random": true} // which are for nothing
	for _, c := range scenarios {
		shown[c.policy] = true
	}
	for _, name := range models.Names() {
		require.True(t, shown[name], "%s has no scenario", name)
	}
	if testing.Short() {
		t.Skip("a simulation has one goroutine, and these take a minute with the race detector")
	}
	const seeds = 10
	for _, c := range scenarios {
		t.Run(c.policy+": "+c.about, func(t *testing.T) {
			var mine, theirs float64
			for seed := uint64(1); seed <= seeds; seed++ {
				a, b := c.play(newStage(t, c.policy, seed)), c.play(newStage(t, c.against, seed))
				require.LessOrEqual(t, a, b, "seed %d", seed)
				mine += a / seeds
				theirs += b / seeds
			}
			t.Logf("%.4g against %.4g", mine, theirs)
			require.LessOrEqual(t, mine, c.most*theirs)
		})
	}
}

func busiest(s *stage) float64 {
	for i := range 20 {
		s.host(i, nil)
	}
	worst := int64(0)
	for range 10 {
		s.submit(1+s.random.Uint32N(10), 0, func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.CPU] = 1000 + s.random.Int64N(2000) })
		s.plan()
	}
	for h := range s.state.Hosts("") {
		worst = max(worst, h.Allocated.Fixed[cluster.CPU])
	}
	return float64(worst) / 16_000
}

// completion submits twice as much as fits, one task in five a long one. The hosts are too many for plans to be refitted, which
// takes most of the time and is for what one plan loses, not for who goes first.
func completion(s *stage) float64 {
	for i := range 9 {
		s.host(i, func(m *cluster.Machine) { m.Capacity.Fixed[cluster.CPU] = 7000 })
	}
	for range 60 {
		lasts, work := time.Minute+time.Duration(s.random.Int64N(int64(time.Minute))), "short"
		if s.random.IntN(5) == 0 {
			lasts, work = lasts*30, "long"
		}
		s.submit(8, lasts, func(j *cluster.JobSpec) {
			if s.feed != nil {
				does(work)(j)
			} else {
				j.Estimate = lasts
			}
		})
		s.plan()
		s.run(s.now.Add(20 * time.Second))
	}
	s.run(s.now.Add(24 * time.Hour))
	sum, n := 0.0, 0
	for t := range s.state.Tasks(0) {
		require.Equal(s.t, cluster.TaskSucceeded, t.State)
		sum += t.Finished.Sub(t.Queued).Seconds()
		n++
	}
	return sum / float64(n)
}

// bytesRead splits the inputs of the tasks by where they were.
type bytesRead struct{ remote, inRack float64 }

// reading runs short tasks that read blocks with two replicas, on hosts with free slots most of the time.
func (s *stage) reading() bytesRead {
	const hosts = 32
	for i := range hosts {
		s.host(i, func(m *cluster.Machine) { m.Capacity.Fixed[cluster.CPU] = 2000 })
	}
	id := func(i int) cluster.HostID { return cluster.MakeHostID("s", fmt.Sprintf("h%03d", i)) }
	var total bytesRead
	for range 120 {
		replicas := []cluster.HostID{id(s.random.IntN(hosts)), id(s.random.IntN(hosts))}
		bytes := (1 + s.random.Int64N(4)) << 30
		s.submit(2, 20*time.Second, func(j *cluster.JobSpec) {
			j.Inputs = []cluster.Input{{Bytes: bytes, Hosts: replicas, Last: j.Instances - 1}}
		})
		s.plan()
		s.run(s.now.Add(time.Second))
	}
	s.run(s.now.Add(time.Hour))
	for t := range s.state.Tasks(0) {
		require.Equal(s.t, cluster.TaskSucceeded, t.State)
		in, host := s.state.Job(t.Key.Job()).Spec.Inputs[0], s.state.Host(t.Host)
		near := false
		for _, r := range in.Hosts {
			if r == t.Host {
				in.Bytes = 0
			}
			near = near || s.state.Host(r).Rack == host.Rack
		}
		if near {
			total.inRack += float64(in.Bytes)
		} else {
			total.remote += float64(in.Bytes)
		}
	}
	return total
}

// crowdedReading runs tasks with data that few hosts have, which are full of tasks without data that could run anywhere.
func crowdedReading(s *stage) float64 {
	const hosts = 32
	for i := range hosts {
		s.host(i, func(m *cluster.Machine) { m.Capacity.Fixed[cluster.CPU] = 2000 })
	}
	for range 120 {
		if s.random.IntN(3) == 0 {
			s.submit(4, 3*time.Minute, func(j *cluster.JobSpec) { j.Preemptible = true })
		}
		hot := cluster.MakeHostID("s", fmt.Sprintf("h%03d", s.random.IntN(hosts/4)))
		s.submit(1, 10*time.Second, func(j *cluster.JobSpec) { j.Inputs = []cluster.Input{{Bytes: 2 << 30, Hosts: []cluster.HostID{hot}}} })
		s.plan()
		s.run(s.now.Add(5 * time.Second))
	}
	s.run(s.now.Add(time.Hour))
	elsewhere := 0.0
	for t := range s.state.Tasks(0) {
		require.Equal(s.t, cluster.TaskSucceeded, t.State)
		if in := s.state.Job(t.Key.Job()).Spec.Inputs; len(in) > 0 && in[0].Hosts[0] != t.Host {
			elsewhere += float64(in[0].Bytes)
		}
	}
	return elsewhere
}

func hostsInUse(s *stage) float64 {
	for i := range 30 {
		s.host(i, nil)
	}
	for range 8 {
		s.submit(1+s.random.Uint32N(16), 0, func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.CPU] = 1000 << s.random.IntN(3) })
		s.plan()
	}
	used := 0.0
	for h := range s.state.Hosts("") {
		if len(h.Tasks) > 0 {
			used++
		}
	}
	return used
}

// idleGPUs starts tasks with GPUs one by one until a few in a row find no room.
func idleGPUs(s *stage) float64 {
	for i := range 16 {
		s.host(i, func(m *cluster.Machine) {
			for range 4 {
				m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: "A"})
			}
			m.Capacity.Fixed[cluster.GPU] = 4000
		})
	}
	for range 150 {
		uid := s.submit(1, 0, func(j *cluster.JobSpec) {
			g := cluster.GPURequest{Milli: 200 + 100*s.random.Int32N(6)}
			if s.random.IntN(4) == 0 {
				g = cluster.GPURequest{Count: 1 << s.random.IntN(3)}
			}
			j.Task.GPU, j.Task.Resources.Fixed[cluster.GPU] = g, g.Amount()
			j.Task.Resources.Fixed[cluster.CPU] = 500
		})
		if len(s.plan().Placements) == 0 {
			s.emit(&cluster.JobStopping{Job: uid})
		}
	}
	idle := int64(0)
	for h := range s.state.Hosts("") {
		idle += h.Free().Fixed[cluster.GPU]
	}
	return float64(idle) / cluster.WholeGPU
}

// paces is what is known in the scenario of whare: sorting is slow on old hosts, and training beside sorting.
func paces(work, kind, company string) int64 {
	p := int64(1000)
	if work == "sort" && kind == "old" {
		p += 1000
	}
	if work == "train" && company == "sort" {
		p += 400
	}
	return p
}

func pace(s *stage) float64 {
	s.known = &modeltest.Known{Paces: paces}
	for i := range 12 {
		kind := []string{"old", "new"}[i%2]
		s.host(i, func(m *cluster.Machine) { m.Attributes = []cluster.KeyValue{{Key: "platform", Value: kind}} })
	}
	for range 16 {
		s.submit(1+s.random.Uint32N(4), 0, does([]string{"sort", "train"}[s.random.IntN(2)]))
		s.plan()
	}
	sum, n := 0.0, 0.0
	s.guests(func(h *cluster.Host, works []string) {
		kind := h.Kind()
		for i, w := range works {
			alone := paces(w, kind, "")
			p := alone
			for j, x := range works {
				if i != j {
					p += paces(w, kind, x) - alone
				}
			}
			sum += float64(p) / 1000
			n++
		}
	})
	return sum / n
}

// learnedCompletion is completion where nobody says how long the work runs.
func learnedCompletion(s *stage) float64 {
	s.feed = &knowledge.Feed{Interval: time.Minute}
	return completion(s)
}

func disturbance(s *stage) float64 {
	for i := range 12 {
		s.host(i, nil)
	}
	for range 16 {
		s.submit(1+s.random.Uint32N(3), 0, does([]string{"turtle", "sheep", "rabbit", "devil"}[s.random.IntN(4)]))
		s.plan()
	}
	pressure := map[string]float64{"sheep": 1, "rabbit": 2, "devil": 8}
	care := map[string]float64{"sheep": 1, "rabbit": 4, "devil": 1}
	sum := 0.0
	s.guests(func(_ *cluster.Host, works []string) {
		for i, w := range works {
			for j, x := range works {
				if i != j {
					sum += pressure[w] * care[x]
				}
			}
		}
	})
	return sum
}

// congestion has traffic that nobody announced on some hosts.
func congestion(s *stage) float64 {
	const link = 1000
	used := map[cluster.HostID]cluster.Resources{}
	for i := range 20 {
		id := s.host(i, func(m *cluster.Machine) { m.Capacity.Fixed[cluster.Network] = link })
		if s.random.IntN(2) == 0 {
			u := cluster.Resources{}
			u.Fixed[cluster.Network] = link * 3 / 4
			used[id] = u
		}
	}
	for range 10 {
		s.known = &modeltest.Known{UsedOn: used}
		s.submit(2, 0, func(j *cluster.JobSpec) { j.Task.Resources.Fixed[cluster.Network] = 100 + s.random.Int64N(200) })
		for _, p := range s.plan().Placements {
			u := used[p.Host]
			u.Fixed[cluster.Network] += s.state.Job(p.Task.Job()).Spec.Task.Resources.Fixed[cluster.Network]
			used[p.Host] = u
		}
	}
	beyond := 0.0
	for _, u := range used { // a sum of whole numbers
		beyond += float64(max(0, u.Fixed[cluster.Network]-link))
	}
	return beyond
}
