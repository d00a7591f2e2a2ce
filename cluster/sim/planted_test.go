package sim

import (
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
	{"constraints are ignored", check.Constraint, func(c *Config) {
		c.wrap = func(p Planner) Planner {
			return plannerFunc(func(in cycle.Input) cycle.Output {
				out := p.Run(in)
				for i, x := range out.Placements { // to the neighbour, which has the other kind of disk
					if j := in.Snapshot.Job(x.Task.Job()); j.Spec.Constraint != nil {
						for h := range in.Snapshot.Hosts(x.Host + "\x00") {
							out.Placements[i].Host = h.ID
							break
						}
					}
				}
				return out
			})
		}
	}},
	{"some tasks are forgotten", check.Idle, func(c *Config) {
		c.wrap = func(p Planner) Planner {
			return plannerFunc(func(in cycle.Input) cycle.Output {
				out := p.Run(in)
				out.Placements = slices.DeleteFunc(out.Placements, func(x cycle.Placement) bool { return x.Task.Instance() == 3 })
				return out
			})
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
		c.rewrite = func(e cluster.Event) {
			if p, ok := e.(*cluster.Placed); ok {
				p.Host, p.GPUs = cluster.MakeHostID(trace.Shard, "h000"), nil
			}
		}
	}},
	{"a run is placed again while it is under way", check.Once, func(c *Config) {
		c.rewrite = func(e cluster.Event) {
			if p, ok := e.(*cluster.Placed); ok && p.Task.Instance() > 0 {
				p.Task--
			}
		}
	}},
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

// TestPlantedBugsAreFound proves that the checker can fail, and that each rule catches what it is for.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			c := config(mixed(11, 10, 60, time.Second))
			c.Horizon = 5 * time.Minute
			bug.plant(&c)
			r := run(t, c)
			require.Positive(t, r.ViolationCount)
			found := slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Rule == bug.rule })
			require.True(t, found, "%s was not found: %v", bug.rule, r.Violations)
		})
	}
}
