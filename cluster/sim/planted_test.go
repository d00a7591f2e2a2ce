package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// plannerFunc is a planner with a bug in it.
type plannerFunc func(cycle.Input) cycle.Output

func (f plannerFunc) Run(in cycle.Input) cycle.Output { return f(in) }

// bugs are planted one at a time; each must be found as what it is.
var bugs = []struct {
	name  string
	rule  check.Rule
	plant func(c *Config)
}{
	{"constraints are ignored", check.Constraint, func(c *Config) { // no plan can: it would be refused
		c.rewrite = func(r *cluster.Record) {
			if e, ok := r.Event.(*cluster.JobsSubmitted); ok {
				jobs := slices.Clone(e.Jobs)
				for i := range jobs {
					if k := jobs[i].Spec.Constraint; k != nil { // which asked for the other kind of disk
						spec, other := *jobs[i].Spec, *k
						other.Comparison, other.Count = cluster.Equal, 0
						spec.Constraint, jobs[i].Spec = &other, &spec
					}
				}
				r.Event = &cluster.JobsSubmitted{Jobs: jobs}
			}
		}
	}},
	{"a plan takes devices that are taken", check.Plan, replan(func(_ cycle.Input, out *cycle.Output) {
		for i := range out.Placements {
			if p := &out.Placements[i]; len(p.GPUs) == 1 {
				p.GPUs = []uint16{p.GPUs[0] ^ 2} // of the other model
			}
		}
	})},
	{"some tasks are forgotten", check.Idle, replan(func(in cycle.Input, out *cycle.Output) {
		out.Placements = slices.DeleteFunc(out.Placements, func(x cycle.Placement) bool {
			return x.Task.Instance() == 3 && in.Snapshot.Job(x.Task.Job()).Spec.Gang == nil
		})
	})},
	{"gangs are forgotten", check.Idle, replan(func(_ cycle.Input, out *cycle.Output) {
		out.Placements = slices.DeleteFunc(out.Placements, func(x cycle.Placement) bool { return x.Gang != 0 })
	})},
	{"gangs start without their last member", check.Gang, func(c *Config) { // no plan can: it would be refused
		last := map[cluster.TaskKey]bool{}
		c.rewrite = func(r *cluster.Record) {
			switch e := r.Event.(type) {
			case *cluster.JobsSubmitted:
				for _, n := range e.Jobs {
					if n.Spec.Gang != nil {
						last[cluster.MakeTaskKey(n.UID, n.Spec.Gang.Minimum-1)] = true
					}
				}
			case *cluster.Placed:
				if last[e.Task] {
					r.Event = &cluster.TaskHealth{Task: e.Task}
				}
			}
		}
	}},
	{"what may not be preempted is preempted", check.Reservation, func(c *Config) {
		once := false
		replan(func(in cycle.Input, out *cycle.Output) {
			for t := range in.Snapshot.Tasks(0) {
				if !once && t.State == cluster.TaskRunning && !in.Snapshot.Job(t.Key.Job()).Spec.Preemptible {
					out.Displacements = append(out.Displacements, cycle.Displacement{Victims: []cycle.Victim{{Task: t.Key, Run: t.Run}}})
					once = true
				}
			}
		})(c)
	}},
	{"room that is held for others is used", check.Reservation, func(c *Config) {
		held := cluster.HostID("") // a moment ago
		c.rewrite = func(r *cluster.Record) {
			switch e := r.Event.(type) {
			case *cluster.TaskHeld:
				held = e.Hold.Host
			case *cluster.Placed:
				if held != "" {
					other := *e
					other.Host, other.GPUs, other.Ports = held, nil, nil
					r.Event, held = &other, ""
				}
			}
		}
	}},
	{"a capability is misread", check.Capability, func(c *Config) {
		for i := range c.Workload.Hosts {
			c.Workload.Hosts[i].Capabilities = 0
		}
		misreport(func(m *cluster.Machine) { m.Capabilities = cluster.CanPorts })(c)
	}},
	{"revocable tasks get more than others leave", check.Slack, lending(func(c *Config) {
		c.rewrite = func(r *cluster.Record) {
			if e, ok := r.Event.(*cluster.SlackMeasured); ok {
				other := *e
				other.Slack.Fixed[cluster.CPU] /= 4
				r.Event = &other
			}
		}
	})},
	{"revocable tasks stay when others use what they have", check.Slack, lending(func(c *Config) {
		c.wrap = func(p Planner) Planner {
			return plannerFunc(func(in cycle.Input) cycle.Output {
				out := p.Run(in)
				out.Displacements = slices.DeleteFunc(out.Displacements, func(d cycle.Displacement) bool { return len(d.Holds) == 0 })
				return out
			})
		}
	})},
	{"plans that do nothing are made again at once", check.Plan, replan(func(in cycle.Input, out *cycle.Output) {
		if len(out.Steps()) == 0 {
			out.WakeAt = in.Now
		}
	})},
	{"records are lost", check.Sequence, func(c *Config) { c.rewrite = func(r *cluster.Record) { r.Seq += r.Seq / 100 } }},
	{"time goes back", check.Sequence, func(c *Config) {
		c.rewrite = func(r *cluster.Record) {
			if r.Seq%100 == 0 {
				r.At = 1
			}
		}
	}},
	{"a task that does not exist is placed", check.Life, func(c *Config) {
		c.rewrite = func(r *cluster.Record) {
			if p, ok := r.Event.(*cluster.Placed); ok {
				other := *p
				other.Task += 1000
				r.Event = &other
			}
		}
	}},
	{"a task never comes to run", check.Stuck, func(c *Config) {
		c.Horizon = 0
		c.Workload.Jobs = &jobs{n: 1, make: func(int) *trace.Job { // it runs for ever
			j := mixedJob(rand.New(rand.NewPCG(1, 1)), 1, 0)
			j.Durations = []time.Duration{0}
			return j
		}}
		c.rewrite = func(r *cluster.Record) {
			if e, ok := r.Event.(*cluster.TaskStatus); ok && e.State == cluster.TaskRunning {
				other := *e
				other.State = cluster.TaskStarting
				r.Event = &other
			}
		}
	}},
	{"memory is misread", check.Capacity, misreport(func(m *cluster.Machine) { m.Capacity.Fixed[cluster.Memory] *= 2 })},
	{"a named resource is misread", check.Capacity, misreport(func(m *cluster.Machine) {
		m.Capacity = m.Capacity.Add(cluster.Resources{Named: []cluster.Amount{{Name: "ports", Value: 30}}})
	})},
	{"models of devices are misread", check.Devices, misreport(func(m *cluster.Machine) {
		m.GPUs = slices.Clone(m.GPUs)
		slices.Reverse(m.GPUs)
	})},
	{"a device is counted twice", check.Devices, misreport(func(m *cluster.Machine) {
		if len(m.GPUs) > 0 {
			m.GPUs = append(slices.Clone(m.GPUs), m.GPUs[0])
			m.Capacity.Fixed[cluster.GPU] += cluster.WholeGPU
		}
	})},
	{"ports are misread", check.Ports, misreport(func(m *cluster.Machine) {
		m.Ports = []cluster.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 9000}}
	})},
	{"a draining host is used", check.TakesWork, func(c *Config) {
		c.Faults.Script = []Fault{{At: time.Second, Kind: HostDrain, Target: "h000", For: time.Hour}}
		c.rewrite = func(r *cluster.Record) {
			if p, ok := r.Event.(*cluster.Placed); ok {
				p.Host, p.GPUs = cluster.MakeHostID(trace.Shard, "h000"), nil
			}
		}
	}},
	{"work is placed and stopped while that is switched off", check.Mode, func(c *Config) {
		c.Faults.Script = []Fault{{At: time.Second, Kind: SchedulingOff, For: time.Second}, {At: 5 * time.Second, Kind: KillingOff, For: time.Second}}
		c.rewrite = func(r *cluster.Record) {
			if e, is := r.Event.(*cluster.ModeSet); is && e.Mode == (cluster.Mode{}) { // as if it were not switched on again
				r.Event = &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true, KillingStopped: true}}
			}
		}
	}},
	{"a run is placed again while it is under way", check.Once, func(c *Config) {
		c.rewrite = func(r *cluster.Record) {
			if p, ok := r.Event.(*cluster.Placed); ok && p.Task.Instance() > 0 {
				p.Task--
			}
		}
	}},
}

// lending plants a bug in a cluster with revocable tasks.
func lending(plant func(c *Config)) func(c *Config) {
	return func(c *Config) {
		c.Workload, c.Usage, c.Horizon = lent(), tight, 20*time.Minute
		plant(c)
	}
}

// replan changes the first plans before they are carried out.
func replan(change func(cycle.Input, *cycle.Output)) func(c *Config) {
	return func(c *Config) {
		cycles := 0
		c.wrap = func(p Planner) Planner {
			return plannerFunc(func(in cycle.Input) cycle.Output {
				out := p.Run(in)
				if cycles++; cycles <= 300 { // a plan that is refused again and again would have no end
					change(in, &out)
				}
				return out
			})
		}
	}
}

// misreport lets the scheduler see machines that are not what they are.
func misreport(change func(*cluster.Machine)) func(c *Config) {
	return func(c *Config) {
		c.report = func(h hostmgr.Host) hostmgr.Host {
			change(&h.Machine)
			return h
		}
	}
}

// TestPlantedBugsAreFound proves that the checker can fail, and that each rule catches what it is for: in one of a few
// workloads at least, as not each has an occasion for every bug.
func TestPlantedBugsAreFound(t *testing.T) {
	oneGoroutine(t)
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			var r *Result
			found := false
			for seed := uint64(11); seed < 15 && !found; seed++ {
				c := config(crowded(seed, 10, 60, time.Second))
				c.Horizon, c.StopAfter = 2*time.Minute, 20
				c.Verify = bug.rule == check.Plan
				bug.plant(&c)
				r = run(t, c)
				found = slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Rule == bug.rule })
			}
			require.True(t, found, "%s was not found: %v", bug.rule, r.Violations)
		})
	}
}
