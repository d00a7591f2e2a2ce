package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
)

// log feeds a checker.
type log struct {
	*check.Checker
	seq uint64
}

func (l *log) add(events ...cluster.Event) {
	for _, e := range events {
		l.seq++
		l.Record(cluster.Record{Seq: l.seq, At: cluster.Time(l.seq), Event: e})
	}
}

func machine() cluster.Machine {
	return cluster.Machine{
		Rack:       "r1",
		Attributes: []cluster.KeyValue{{Key: "disk", Value: "ssd"}},
		Capacity: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 1000, cluster.Memory: 100, cluster.GPU: 2000},
			cluster.Amount{Name: "ports", Value: 3}),
		GPUs:         []cluster.GPUDevice{{Model: "A"}, {Model: "B"}},
		Ports:        []cluster.PortRange{{First: 80, Last: 82}},
		Capabilities: cluster.CanPorts,
	}
}

const (
	a, b = cluster.HostID("s/a"), cluster.HostID("s/b")
	uid  = cluster.JobUID(1)
)

func key(i uint32) cluster.TaskKey { return cluster.MakeTaskKey(uid, i) }

func spec(change func(*cluster.JobSpec)) *cluster.JobSpec {
	s := &cluster.JobSpec{Name: "j", Instances: 4, Task: cluster.TaskSpec{
		Resources: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 400, cluster.Memory: 10}),
	}}
	if change != nil {
		change(s)
	}
	return s
}

// begun returns a log with hosts a and b and a job.
func begun(change func(*cluster.JobSpec)) *log {
	l := &log{Checker: check.New(map[cluster.HostID]cluster.Machine{a: machine(), b: machine()})}
	l.add(&cluster.ClusterCreated{ID: "c"},
		&cluster.HostReported{ID: a, Machine: machine()}, &cluster.HostReported{ID: b, Machine: machine()},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec(change)}}})
	return l
}

func placed(i, run uint32, h cluster.HostID, devices ...uint16) *cluster.Placed {
	return &cluster.Placed{Task: key(i), Run: run, Host: h, GPUs: devices}
}

func status(i, run uint32, s cluster.TaskState) *cluster.TaskStatus {
	return &cluster.TaskStatus{Task: key(i), Run: run, State: s}
}

func TestAGoodLifeBreaksNoRule(t *testing.T) {
	l := begun(nil)
	l.add(placed(0, 1, a), status(0, 1, cluster.TaskLaunching), status(0, 1, cluster.TaskRunning), status(0, 1, cluster.TaskFailed),
		&cluster.TaskRequeued{Task: key(0)}, placed(0, 2, b), status(0, 2, cluster.TaskRunning), status(0, 2, cluster.TaskSucceeded),
		placed(1, 1, a), placed(2, 1, a), placed(3, 1, b), // a is full with 800
		status(1, 1, cluster.TaskRunning), status(2, 1, cluster.TaskRunning), status(3, 1, cluster.TaskRunning))
	l.Started(cluster.RunID{Task: key(1), Run: 1})
	l.Quiet()
	l.Settled()
	l.Compare(0, 3)
	l.add(&cluster.JobStopping{Job: uid}, status(1, 1, cluster.TaskKilled), status(2, 1, cluster.TaskKilled),
		status(3, 1, cluster.TaskKilled), &cluster.JobDeleted{Job: uid},
		&cluster.HostDrain{ID: a, Drain: true}, &cluster.HostUnreached{ID: b}, &cluster.HostRemoved{ID: b})
	require.Zero(t, l.Count(), "%v", l.Violations())
}

func gpu(r cluster.GPURequest) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Task.GPU, s.Task.Resources.Fixed[cluster.GPU] = r, r.Amount() }
}

func ports(numbers []uint16, dynamic uint16) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Task.Ports = cluster.PortRequest{Numbers: numbers, Dynamic: dynamic} }
}

func withPorts(i uint32, h cluster.HostID, ports ...uint16) *cluster.Placed {
	return &cluster.Placed{Task: key(i), Run: 1, Host: h, Ports: ports}
}

func constrained(c cluster.Constraint) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Constraint = &c }
}

func label(k, v string, c cluster.Comparison, n uint32) cluster.Constraint {
	return cluster.Constraint{Label: cluster.KeyValue{Key: k, Value: v}, Comparison: c, Count: n}
}

// asking updates the job to tasks that ask for so much.
func asking(cpu int64) *cluster.JobUpdated {
	return &cluster.JobUpdated{Job: uid, Update: &cluster.Update{From: 1}, Spec: spec(func(s *cluster.JobSpec) { s.Task.Resources.Fixed[cluster.CPU] = cpu })}
}

// grown updates the job to that many of those tasks.
func grown(cpu int64, instances uint32) *cluster.JobUpdated {
	e := asking(cpu)
	e.Spec.Instances, e.Update = instances, nil
	return e
}

// updating updates the job of one task to tasks that ask for 700, by that policy.
func updating(p cluster.UpdatePolicy) *cluster.JobUpdated {
	e := grown(700, 1)
	e.Update = &cluster.Update{From: 1, Policy: p}
	return e
}

func single(s *cluster.JobSpec) { s.Instances = 1 }

func copies(s *cluster.JobSpec) { s.Speculation = &cluster.Speculation{} }

// lagging has task 0 run on a, and adds a copy of it.
func (l *log) lagging(more ...cluster.Event) {
	l.add(append([]cluster.Event{placed(0, 1, a), status(0, 1, cluster.TaskRunning), &cluster.CopyAdded{Task: key(0), Run: 1}}, more...)...)
}

func copyPlaced(h cluster.HostID) *cluster.Placed {
	return &cluster.Placed{Task: key(0).Copy(), Run: 1, Host: h}
}

func copyEnds() *cluster.TaskStatus {
	return &cluster.TaskStatus{Task: key(0).Copy(), Run: 1, State: cluster.TaskSucceeded}
}

func TestRevocableTasksStayOnWhatTheMachineHasForThemAlone(t *testing.T) {
	m := machine()
	m.Revocable, m.Capacity.Fixed[cluster.CPU] = spec(nil).Task.Resources, 300
	l := &log{Checker: check.New(nil)}
	l.add(&cluster.ClusterCreated{ID: "c"}, &cluster.HostReported{ID: a, Machine: m},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec(func(s *cluster.JobSpec) { s.Revocable = true })}}}, placed(0, 1, a))
	l.Quiet()
	require.Zero(t, l.Count(), "%v", l.Violations())
}

// TestEachRule breaks one rule at a time.
func TestEachRule(t *testing.T) {
	for _, c := range []struct {
		name string
		rule check.Rule // "" for none
		spec func(*cluster.JobSpec)
		do   func(l *log)
	}{
		{"a gap", check.Sequence, nil, func(l *log) { l.seq++; l.add(placed(0, 1, a)) }},
		{"a step back in time", check.Sequence, nil, func(l *log) {
			l.Record(cluster.Record{Seq: l.seq + 1, At: 1, Event: placed(0, 1, a)})
		}},
		{"an update", "", nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), placed(1, 1, a), status(1, 1, cluster.TaskRunning), asking(1000),
				&cluster.TaskUpdated{Task: key(0), Version: 2}, status(0, 1, cluster.TaskKilled), &cluster.TaskRequeued{Task: key(0)},
				&cluster.TaskUpdated{Task: key(2), Version: 2}, placed(0, 2, b))
		}},
		{"a run by the spec before", check.Capacity, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), asking(600), placed(1, 1, a), placed(2, 1, a))
		}},
		{"one more while canaries wait", "", single, func(l *log) {
			l.add(placed(0, 1, a), updating(cluster.UpdatePolicy{Canaries: 1}), grown(700, 2), placed(1, 1, a))
		}},
		{"one more that begins anew while canaries wait", "", single, func(l *log) {
			l.add(placed(0, 1, a), grown(400, 2), grown(400, 1), updating(cluster.UpdatePolicy{Canaries: 1}), grown(700, 2), placed(1, 1, a))
		}},
		{"one more in the stead of another while canaries wait", check.Capacity, single, func(l *log) {
			by := updating(cluster.UpdatePolicy{Canaries: 1})
			l.add(placed(0, 1, a), by, &cluster.UpdateAdvanced{Job: uid, Update: *by.Update, Surge: 1}, placed(1, 1, a))
		}},
		{"one more when the canaries are promoted", check.Capacity, single, func(l *log) {
			by := updating(cluster.UpdatePolicy{Canaries: 1})
			next := *by.Update
			next.To, next.Promoted = 2, true
			l.add(placed(0, 1, a), by, &cluster.UpdateAdvanced{Job: uid, Update: next}, grown(700, 2), placed(1, 1, a))
		}},
		{"one more while an update is paused", "", single, func(l *log) {
			l.add(placed(0, 1, a), updating(cluster.UpdatePolicy{StartPaused: true}), grown(700, 2), placed(1, 1, a))
		}},
		{"one more while a restart is paused", check.Capacity, single, func(l *log) {
			again := cluster.Update{From: 1, To: 1, Policy: cluster.UpdatePolicy{StartPaused: true}}
			l.add(placed(0, 1, a), &cluster.UpdateAdvanced{Job: uid, Update: again, Begins: true}, grown(700, 2), placed(1, 1, a))
		}},
		{"a task grows in place", check.Capacity, nil, func(l *log) {
			l.add(placed(0, 1, a), placed(1, 1, a), asking(700), &cluster.TaskUpdated{Task: key(0), Version: 2, InPlace: true})
		}},
		{"a task changes in place where revocable ones have too much", "", nil, func(l *log) {
			low := cluster.MakeTaskKey(2, 0)
			l.add(placed(0, 1, a), placed(1, 1, a), &cluster.SlackMeasured{Host: a, Slack: spec(nil).Task.Resources},
				&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: spec(func(s *cluster.JobSpec) { s.Revocable = true })}}},
				&cluster.Placed{Task: low, Run: 1, Host: a}, &cluster.SlackMeasured{Host: a},
				asking(400), &cluster.TaskUpdated{Task: key(0), Version: 2, InPlace: true})
		}},
		{"a version that there is not", check.Life, nil, func(l *log) { l.add(&cluster.TaskUpdated{Task: key(0), Version: 2}) }},
		{"more of a service is away than it bears", check.Availability, func(s *cluster.JobSpec) { s.Type, s.Preemptible = cluster.Stateless, true }, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), &cluster.TaskPreempted{Task: key(0), Run: 1})
		}},
		{"the host of a daemon goes", "", func(s *cluster.JobSpec) { s.Type, s.Instances = cluster.Daemon, 0 }, func(l *log) {
			l.add(&cluster.InstanceAdded{Task: key(0), Host: a}, &cluster.HostRemoved{ID: a}, &cluster.HostReported{ID: a, Machine: machine()},
				&cluster.InstanceAdded{Task: key(0), Host: a})
		}},
		{"a daemon comes to a host while canaries wait", "", func(s *cluster.JobSpec) { s.Type, s.Instances = cluster.Daemon, 0 }, func(l *log) {
			by := updating(cluster.UpdatePolicy{Canaries: 1})
			by.Spec.Type, by.Spec.Instances, by.Spec.Task.Resources.Fixed[cluster.CPU] = cluster.Daemon, 0, 5000
			l.add(by, &cluster.InstanceAdded{Task: key(0), Host: a, Version: 1}, placed(0, 1, a))
		}},
		{
			"a daemon comes to a host by a version before, though nothing is held back", check.Life,
			func(s *cluster.JobSpec) { s.Type, s.Instances = cluster.Daemon, 0 }, func(l *log) {
				l.add(asking(500), &cluster.InstanceAdded{Task: key(0), Host: a, Version: 1})
			},
		},
		{"placed twice", check.Once, nil, func(l *log) { l.add(placed(0, 1, a), placed(0, 2, b)) }},
		{"a run number again", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskLost), &cluster.TaskRequeued{Task: key(0)}, placed(0, 1, b))
		}},
		{"waits again while it runs", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), &cluster.TaskRequeued{Task: key(0)})
		}},
		{"a success is not enough", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a), &cluster.TaskStopping{Task: key(0), Reason: cluster.ReasonHostLost, Restart: true},
				status(0, 1, cluster.TaskSucceeded), &cluster.TaskRequeued{Task: key(0)})
		}},
		{"a success is not enough for the user", "", nil, func(l *log) {
			l.add(placed(0, 1, a), &cluster.TaskStopping{Task: key(0), Reason: cluster.ReasonTaskRestarted, Restart: true},
				status(0, 1, cluster.TaskSucceeded), &cluster.TaskRequeued{Task: key(0)}, placed(0, 2, b))
		}},
		{"a process twice", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a))
			l.Started(cluster.RunID{Task: key(0), Run: 1})
			l.Started(cluster.RunID{Task: key(0), Run: 1})
		}},
		{"a process after the end", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskKilled))
			l.Started(cluster.RunID{Task: key(0), Run: 1})
		}},
		{"a process nobody asked for", check.Life, nil, func(l *log) { l.Started(cluster.RunID{Task: key(0), Run: 1}) }},
		{"placed after its end", check.Life, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskSucceeded), placed(0, 2, a))
		}},
		{"a status of an old run", check.Life, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskSucceeded), status(0, 1, cluster.TaskFailed))
		}},
		{"a copy that nobody allowed", check.Once, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), &cluster.CopyAdded{Task: key(0), Run: 1})
		}},
		{"two copies", check.Once, copies, func(l *log) { l.lagging(&cluster.CopyAdded{Task: key(0), Run: 1}) }},
		{"a copy of what does not run", check.Life, copies, func(l *log) { l.add(&cluster.CopyAdded{Task: key(1), Run: 0}) }},
		{"a copy beside its task", check.Once, copies, func(l *log) { l.lagging(copyPlaced(a)) }},
		{"a copy that wins too early", check.Life, copies, func(l *log) { l.lagging(copyPlaced(b), &cluster.CopyWon{Task: key(0).Copy()}) }},
		{"two wins", check.Once, copies, func(l *log) {
			l.lagging(copyPlaced(b), status(0, 1, cluster.TaskSucceeded), copyEnds(), &cluster.CopyWon{Task: key(0).Copy()})
		}},
		{"again after its copy won", check.Once, copies, func(l *log) {
			l.lagging(copyPlaced(b), copyEnds(), &cluster.CopyWon{Task: key(0).Copy()}, status(0, 1, cluster.TaskKilled), &cluster.TaskRequeued{Task: key(0)})
		}},
		{"a copy that wins", "", copies, func(l *log) {
			l.lagging(copyPlaced(b), copyEnds(), &cluster.CopyWon{Task: key(0).Copy()}, status(0, 1, cluster.TaskKilled),
				placed(1, 1, b), status(1, 1, cluster.TaskRunning), &cluster.CopyAdded{Task: key(1), Run: 1}, &cluster.InstanceRemoved{Task: key(1).Copy()})
			l.Compare(2, 1)
		}},
		{"no such task", check.Life, nil, func(l *log) { l.add(placed(9, 1, a)) }},
		{"deleted alive", check.Life, nil, func(l *log) { l.add(&cluster.JobDeleted{Job: uid}) }},
		{"removed with tasks", check.Life, nil, func(l *log) { l.add(placed(0, 1, a), &cluster.HostRemoved{ID: a}) }},
		{"a host that is not there", check.Life, nil, func(l *log) { l.add(&cluster.HostReported{ID: "s/c"}) }},
		{"a state that lost a task", check.Life, nil, func(l *log) { l.Compare(3, 0) }},
		{"on an unknown host", check.TakesWork, nil, func(l *log) { l.add(placed(0, 1, "s/z")) }},
		{"on a draining host", check.TakesWork, nil, func(l *log) { l.add(&cluster.HostDrain{ID: a, Drain: true}, placed(0, 1, a)) }},
		{"on a lost host", check.TakesWork, nil, func(l *log) { l.add(&cluster.HostUnreached{ID: a}, placed(0, 1, a)) }},
		{"on a host that is back", "", nil, func(l *log) {
			l.add(&cluster.HostUnreached{ID: a}, &cluster.HostReported{ID: a, Machine: machine()}, placed(0, 1, a))
		}},
		{"cpu", check.Capacity, nil, func(l *log) { l.add(placed(0, 1, a), placed(1, 1, a), placed(2, 1, a)) }},
		{"memory", check.Capacity, func(s *cluster.JobSpec) { s.Task.Resources.Fixed[cluster.Memory] = 60 }, func(l *log) {
			l.add(placed(0, 1, a), placed(1, 1, a))
		}},
		{"a named resource", check.Capacity, func(s *cluster.JobSpec) {
			s.Task.Resources.Named = []cluster.Amount{{Name: "ports", Value: 2}}
		}, func(l *log) { l.add(placed(0, 1, a), placed(1, 1, a)) }},
		{"a lie about the machine", check.Capacity, func(s *cluster.JobSpec) { s.Task.Resources.Fixed[cluster.CPU] = 1500 }, func(l *log) {
			m := machine()
			m.Capacity.Fixed[cluster.CPU] = 2000
			l.add(&cluster.HostReported{ID: a, Machine: m}, placed(0, 1, a))
		}},
		{"no device", check.Devices, gpu(cluster.GPURequest{Count: 1}), func(l *log) { l.add(placed(0, 1, a)) }},
		{"a device too many", check.Devices, nil, func(l *log) { l.add(placed(0, 1, a, 0)) }},
		{"a device that is not there", check.Devices, gpu(cluster.GPURequest{Count: 1}), func(l *log) { l.add(placed(0, 1, a, 2)) }},
		{"one device twice", check.Devices, gpu(cluster.GPURequest{Count: 2}), func(l *log) { l.add(placed(0, 1, a, 1, 1)) }},
		{"another model", check.Devices, gpu(cluster.GPURequest{Count: 1, Models: []string{"A"}}), func(l *log) { l.add(placed(0, 1, a, 1)) }},
		{"a device of two", check.Devices, gpu(cluster.GPURequest{Milli: 600}), func(l *log) { l.add(placed(0, 1, a, 0), placed(1, 1, a, 0)) }},
		{"no port", check.Ports, ports(nil, 1), func(l *log) { l.add(placed(0, 1, a)) }},
		{"another port", check.Ports, ports([]uint16{80}, 0), func(l *log) { l.add(withPorts(0, a, 81)) }},
		{"a port that is not there", check.Ports, ports(nil, 1), func(l *log) { l.add(withPorts(0, a, 83)) }},
		{"a port twice", check.Ports, ports(nil, 2), func(l *log) { l.add(withPorts(0, a, 80, 80)) }},
		{"a port of another", check.Ports, ports(nil, 1), func(l *log) { l.add(withPorts(0, a, 80), withPorts(1, a, 80)) }},
		{"a port of one that has ended", "", ports(nil, 1), func(l *log) {
			l.add(withPorts(0, a, 80), status(0, 1, cluster.TaskSucceeded), withPorts(1, a, 80))
		}},
		{"the port of another host", "", ports([]uint16{80}, 1), func(l *log) { l.add(withPorts(0, a, 80, 82), withPorts(1, b, 80, 81)) }},
		{"what cannot be done there", check.Capability, func(s *cluster.JobSpec) {
			s.Task.Processes = []cluster.Process{{Container: &cluster.Container{Image: "x"}}}
		}, func(l *log) { l.add(placed(0, 1, a)) }},
		{"waits beside a port", check.Idle, ports([]uint16{80}, 1), func(l *log) { l.add(withPorts(0, a, 80, 81)); l.Quiet() }},
		{"waits for a port", "", ports([]uint16{80}, 1), func(l *log) {
			l.add(withPorts(0, a, 80, 81), withPorts(1, b, 80, 81))
			l.Quiet()
		}},
		{"an override that fits nowhere", "", func(s *cluster.JobSpec) {
			big := s.Task
			big.Resources.Fixed[cluster.CPU] = 5000
			s.Overrides = []cluster.InstanceOverride{{First: 0, Last: 3, Task: &big}}
		}, func(l *log) { l.Quiet() }},
		{"an override that does not fit", check.Capacity, func(s *cluster.JobSpec) {
			big := s.Task
			big.Resources.Fixed[cluster.CPU] = 5000
			s.Overrides = []cluster.InstanceOverride{{First: 1, Last: 1, Task: &big}}
		}, func(l *log) { l.add(placed(0, 1, a), placed(1, 1, b)) }},
		{"shares of a device", "", gpu(cluster.GPURequest{Milli: 500}), func(l *log) { l.add(placed(0, 1, a, 0), placed(1, 1, a, 0)) }},
		{"a label", check.Constraint, constrained(label("disk", "ssd", cluster.Less, 1)), func(l *log) { l.add(placed(0, 1, a)) }},
		{"the host's name", check.Constraint, constrained(label("hostname", "b", cluster.Greater, 0)), func(l *log) { l.add(placed(0, 1, a)) }},
		{"the rack", "", constrained(label("rack", "r1", cluster.Equal, 1)), func(l *log) { l.add(placed(0, 1, a)) }},
		{"one of two", "", constrained(cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{
			label("disk", "hdd", cluster.Greater, 0), label("rack", "r1", cluster.Greater, 0),
		}}), func(l *log) { l.add(placed(0, 1, a)) }},
		{"both of two", check.Constraint, constrained(cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{
			label("disk", "hdd", cluster.Greater, 0), label("rack", "r1", cluster.Greater, 0),
		}}), func(l *log) { l.add(placed(0, 1, a)) }},
		{"waits beside room", check.Idle, nil, func(l *log) { l.Quiet() }},
		{"waits for a device", "", gpu(cluster.GPURequest{Count: 2}), func(l *log) {
			l.add(placed(0, 1, a, 0, 1), placed(1, 1, b, 0, 1))
			l.Quiet()
		}},
		{"waits beside half a device", check.Idle, gpu(cluster.GPURequest{Milli: 500, Models: []string{"B"}}), func(l *log) {
			l.add(placed(0, 1, a, 1), placed(1, 1, a, 1), placed(2, 1, b, 1))
			l.Quiet()
		}},
		{"waits for what drains", "", nil, func(l *log) {
			l.add(&cluster.HostDrain{ID: a, Drain: true}, &cluster.HostUnreached{ID: b})
			l.Quiet()
		}},
		{"waits for a host that warns", "", func(s *cluster.JobSpec) { s.Preemption.Command = []string{"save"} }, func(l *log) { l.Quiet() }},
		{"is not warned", check.Capability, func(s *cluster.JobSpec) { s.Preemption.Command = []string{"save"} }, func(l *log) { l.add(placed(0, 1, a)) }},
		{"neither here nor there", check.Stuck, nil, func(l *log) { l.add(placed(0, 1, a)); l.Settled() }},
		{"killed and never ended", check.Stuck, nil, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), &cluster.TaskStopping{Task: key(0)})
			l.Settled()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := begun(c.spec)
			c.do(l)
			if c.rule == "" {
				require.Zero(t, l.Count(), "%v", l.Violations())
				return
			}
			require.NotEmpty(t, l.Violations())
			for _, v := range l.Violations() {
				require.Equal(t, c.rule, v.Rule, v.String())
			}
		})
	}
}

func TestViolationsAreCountedAndKeptInBounds(t *testing.T) {
	l := begun(nil)
	for range 1000 {
		l.Compare(9, 9)
	}
	require.Equal(t, 1000, l.Count())
	require.Len(t, l.Violations(), 100)
	require.Contains(t, l.Violations()[0].String(), "LIFE at record 4: the state has 9")
}

func held(h cluster.HostID, devices ...uint16) *cluster.Hold {
	return &cluster.Hold{Host: h, GPUs: devices, Until: 1000}
}

func preempted(i uint32, hold *cluster.Hold) *cluster.TaskPreempted {
	return &cluster.TaskPreempted{Task: key(i), Run: 1, Preemption: cluster.Preemption{For: key(3)}, Hold: hold}
}

// TestHolds breaks what is said of room that is kept, and of gangs, one rule at a time.
func TestHolds(t *testing.T) {
	preemptible := func(s *cluster.JobSpec) { s.Preemptible = true }
	gang := func(n uint32) func(*cluster.JobSpec) {
		return func(s *cluster.JobSpec) { s.Preemptible, s.Gang = true, &cluster.Gang{Minimum: n} }
	}
	for _, c := range []struct {
		name string
		rule check.Rule // "" for none
		spec func(*cluster.JobSpec)
		do   func(l *log)
	}{
		{"into held room", check.Reservation, nil, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, a), placed(2, 1, a))
		}},
		{"beside held room", "", nil, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, a), placed(0, 1, a), placed(2, 1, b))
		}},
		{"a held device", check.Reservation, gpu(cluster.GPURequest{Count: 1}), func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a, 1)}, placed(1, 1, a, 1))
		}},
		{"a device beside a held one", "", gpu(cluster.GPURequest{Count: 1}), func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a, 1)}, placed(1, 1, a, 0), placed(0, 1, a, 1))
		}},
		{"a held port", check.Reservation, ports(nil, 1), func(l *log) {
			hold := held(a)
			hold.Ports = []uint16{80}
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *hold}, withPorts(1, a, 80))
		}},
		{"held named resources", check.Reservation, func(s *cluster.JobSpec) {
			s.Task.Resources = cluster.NewResources([cluster.NumDimensions]int64{}, cluster.Amount{Name: "ports", Value: 2})
		}, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, a))
		}},
		{"a hold for what runs", check.Life, nil, func(l *log) {
			l.add(placed(0, 1, a), &cluster.TaskHeld{Task: key(0), Hold: *held(a)})
		}},
		{"a hold nowhere", check.TakesWork, nil, func(l *log) { l.add(&cluster.TaskHeld{Task: key(0), Hold: *held("s/c")}) }},
		{"a move that ends by itself keeps nothing", "", preemptible, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), preempted(0, held(b)), status(0, 1, cluster.TaskSucceeded),
				placed(1, 1, b), placed(2, 1, b))
		}},
		{"a move keeps its room", check.Reservation, preemptible, func(l *log) {
			l.add(placed(0, 1, a), status(0, 1, cluster.TaskRunning), preempted(0, held(b)), status(0, 1, cluster.TaskKilled),
				&cluster.TaskRequeued{Task: key(0)}, placed(1, 1, b), placed(2, 1, b))
		}},
		{"who must not leave", check.Reservation, nil, func(l *log) { l.add(placed(0, 1, a), preempted(0, nil)) }},
		{"leaves twice", check.Life, preemptible, func(l *log) { l.add(placed(0, 1, a), preempted(0, nil), preempted(0, nil)) }},
		{"half a gang", check.Gang, gang(2), func(l *log) { l.add(placed(0, 1, a), &cluster.HostDrain{ID: b}) }},
		{"a gang", "", gang(2), func(l *log) { l.add(placed(0, 1, a), placed(1, 1, b), &cluster.HostDrain{ID: b}) }},
		{"half a gang leaves", check.Gang, gang(2), func(l *log) {
			l.add(placed(0, 1, a), placed(1, 1, b), preempted(0, nil), &cluster.HostDrain{ID: b})
		}},
		{"a gang that fits waits", check.Idle, gang(4), func(l *log) { l.Quiet() }},
		{"the rest of a gang waits while its core holds room", "", gang(2), func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, &cluster.TaskHeld{Task: key(1), Hold: *held(a)})
			l.Quiet()
		}},
		{"a gang that does not fit waits", "", gang(4), func(l *log) { l.add(&cluster.HostDrain{ID: b, Drain: true}); l.Quiet() }},
		{"waits beside held room", check.Idle, nil, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, b), placed(2, 1, b))
			l.Quiet()
		}},
		{"waits for held room", "", nil, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, b), placed(2, 1, b), &cluster.HostDrain{ID: b, Drain: true},
				status(1, 1, cluster.TaskLost), &cluster.TaskRequeued{Task: key(1)}, placed(1, 2, a))
			l.Quiet()
		}},
		{"a limit that held room reaches", "", func(s *cluster.JobSpec) { s.Limits.MaxRunning = 2 }, func(l *log) {
			l.add(&cluster.TaskHeld{Task: key(0), Hold: *held(a)}, placed(1, 1, a))
			l.Quiet()
		}},
		{"what somebody else found", check.Plan, nil, func(l *log) { l.Plan([]string{"too much"}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := begun(c.spec)
			c.do(l)
			if c.rule == "" {
				require.Zero(t, l.Count(), "%v", l.Violations())
				return
			}
			require.NotEmpty(t, l.Violations())
			for _, v := range l.Violations() {
				require.Equal(t, c.rule, v.Rule, v.String())
			}
		})
	}
}

// TestWhatPoolsKeepBackMayWait: a limit, a reservation for what may not be preempted, and a static one of others are reasons to wait beside room.
func TestWhatPoolsKeepBackMayWait(t *testing.T) {
	cpu := func(reservation, limit int64) *cluster.PoolPut {
		return &cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: reservation, Limit: limit},
		}}}
	}
	static := func(p cluster.PoolPath, reservation int64) *cluster.PoolPut {
		return &cluster.PoolPut{Pool: cluster.Pool{Path: p, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: reservation, Limit: cluster.NoLimit, Static: true},
		}}}
	}
	waits := &cluster.TaskHeld{Task: key(0), Hold: *held(a)}
	for _, c := range []struct {
		name        string
		pool        *cluster.PoolPut
		preemptible bool
		first       cluster.Event
		idle        int
	}{
		{"no settings", cpu(0, cluster.NoLimit), false, placed(0, 1, a), 1},
		{"a limit that leaves room", cpu(0, 800), false, placed(0, 1, a), 1},
		{"a limit that is reached", cpu(0, 799), false, placed(0, 1, a), 0},
		{"a reservation that is used", cpu(799, cluster.NoLimit), false, placed(0, 1, a), 0},
		{"a reservation that room is held for", cpu(799, cluster.NoLimit), false, waits, 0},
		{"a reservation that held room leaves a part of", cpu(800, cluster.NoLimit), false, waits, 1},
		{"a reservation of all that there is", cpu(2000, cluster.NoLimit), false, placed(0, 1, a), 1},
		{"a reservation of more than there is", cpu(2001, cluster.NoLimit), false, placed(0, 1, a), 0},
		{"a reservation of what is away", cpu(2000, cluster.NoLimit), false, &cluster.HostUnreached{ID: b}, 0},
		{"a reservation does not bind what may be preempted", cpu(799, cluster.NoLimit), true, placed(0, 1, a), 1},
		{"a static reservation of others", static("root/b", 1201), true, placed(0, 1, a), 0},
		{"a static reservation of others that leaves room", static("root/b", 1200), true, placed(0, 1, a), 1},
		{"a static reservation of its own", static("root/a", 1201), true, placed(0, 1, a), 1},
	} {
		l := begun(func(s *cluster.JobSpec) {
			s.Pool, s.Preemptible, s.Instances = "root/a", c.preemptible, 2
			s.Task.Resources.Fixed = [cluster.NumDimensions]int64{cluster.CPU: 400}
		})
		l.add(c.pool, c.first)
		l.Quiet()
		require.Equal(t, c.idle, l.Count(), "%s: %v", c.name, l.Violations())
	}
}

// TestOthersMayGoFirst: below a limit a job may wait for others that wait, too: more urgent or older ones, of a fair leaf any, and
// those of another leaf.
func TestOthersMayGoFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		order    cluster.PoolOrder
		ageing   time.Duration
		priority int32
		pool     cluster.PoolPath
		idle     int
	}{
		{"a younger one", cluster.PriorityFIFO, 0, 0, "root/a/x", 1},
		{"a more urgent one", cluster.PriorityFIFO, 0, 1, "root/a/x", 0},
		{"a less urgent one, by its share", cluster.FairJobs, 0, -1, "root/a/x", 0},
		{"a less urgent one, since it has waited long", cluster.PriorityFIFO, time.Minute, -1, "root/a/x", 0},
		{"one of another leaf", cluster.PriorityFIFO, 0, -1, "root/a/y", 0},
		{"one elsewhere", cluster.PriorityFIFO, 0, 1, "root/b", 1},
	} {
		l := begun(func(s *cluster.JobSpec) { s.Pool, s.Instances, s.Preemptible = "root/a/x", 1, true })
		l.add(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 900}}}},
			&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/x", Order: c.order, Ageing: c.ageing}},
			&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: spec(func(s *cluster.JobSpec) {
				s.Pool, s.Instances, s.Priority = c.pool, 1, c.priority
				s.Task.Resources.Fixed[cluster.CPU] = 2000 // no host has that
			})}}})
		l.Quiet()
		require.Equal(t, c.idle, l.Count(), "%s: %v", c.name, l.Violations())
	}
}

// TestCopiesMayGoFirst: a copy that waits goes before what is less urgent than its task, too.
func TestCopiesMayGoFirst(t *testing.T) {
	for _, c := range []struct {
		priority int32
		idle     int
	}{{0, 0}, {2, 1}} {
		l := begun(func(s *cluster.JobSpec) {
			s.Pool, s.Instances, s.Preemptible, s.Priority, s.Speculation = "root/a", 1, true, 1, &cluster.Speculation{}
		})
		l.add(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 900}}}})
		l.lagging(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 2, Spec: spec(func(s *cluster.JobSpec) {
			s.Pool, s.Instances, s.Preemptible, s.Priority = "root/a", 1, true, c.priority
		})}}})
		l.Quiet()
		require.Equal(t, c.idle, l.Count(), "%v", l.Violations())
	}
}

// TestStartsBeyondALimit: what leaves counts until it is gone, and what grows; what ran before a limit was lowered does not matter by
// itself.
func TestStartsBeyondALimit(t *testing.T) {
	limit := func(n int64) *cluster.PoolPut {
		return &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.RootPool, Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: n}}}}
	}
	leaves := &cluster.TaskStopping{Task: cluster.MakeTaskKey(1, 0)}
	gone := &cluster.TaskStatus{Task: cluster.MakeTaskKey(1, 0), Run: 1, State: cluster.TaskKilled}
	asks := func(cpu int64) func(s *cluster.JobSpec) {
		return func(s *cluster.JobSpec) {
			s.Pool, s.Instances = "root/a", 2
			s.Task.Resources.Fixed = [cluster.NumDimensions]int64{cluster.CPU: cpu}
		}
	}
	updated := &cluster.JobUpdated{Job: 1, Update: &cluster.Update{From: 1}, Spec: spec(asks(500))}
	grows := &cluster.TaskUpdated{Task: cluster.MakeTaskKey(1, 0), Version: 2, InPlace: true}
	for _, c := range []struct {
		name   string
		events []cluster.Event
		broken int
	}{
		{"within it", []cluster.Event{limit(800), placed(0, 1, a), placed(1, 1, a)}, 0},
		{"beyond it", []cluster.Event{limit(799), placed(0, 1, a), placed(1, 1, a)}, 1},
		{"beside one that leaves", []cluster.Event{limit(400), placed(0, 1, a), leaves, placed(1, 1, a)}, 1},
		{"after it has left", []cluster.Event{limit(400), placed(0, 1, a), leaves, gone, placed(1, 1, a)}, 0},
		{"lowered", []cluster.Event{placed(0, 1, a), placed(1, 1, a), limit(400)}, 0},
		{"grown within it", []cluster.Event{limit(900), placed(0, 1, a), placed(1, 1, a), updated, grows}, 0},
		{"grown beyond it", []cluster.Event{limit(899), placed(0, 1, a), placed(1, 1, a), updated, grows}, 1},
	} {
		l := begun(asks(400))
		l.add(c.events...)
		require.Equal(t, c.broken, l.Count(), "%s: %v", c.name, l.Violations())
		for _, v := range l.Violations() {
			require.Equal(t, check.Limit, v.Rule)
		}
	}
}

// TestQuietCountsWhatItLooksAt: many jobs that are alike are one request, and each is looked at all the same.
func TestQuietCountsWhatItLooksAt(t *testing.T) {
	l := begun(func(s *cluster.JobSpec) { s.Task.Resources.Fixed[cluster.CPU] = 2000 }) // no host has that
	one := l.Quiet()
	for i := range 100 {
		l.add(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid + 1 + cluster.JobUID(i), Spec: spec(func(s *cluster.JobSpec) {
			s.Task.Resources.Fixed[cluster.CPU] = 2000
		})}}})
	}
	require.Equal(t, one+100, l.Quiet())
}
