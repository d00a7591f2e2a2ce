package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// crowdedWorld is a cluster with hosts of all sorts and states, two pools of which one is limited, and about a thousand
// tasks that wait for all sorts of reasons.
func crowdedWorld(t *testing.T, seed uint64, hosts, jobs int) *shared {
	s := &shared{world: newWorldWith(t, sluice.Model{})}
	random := rand.New(rand.NewPCG(seed, seed))
	s.pool("root/a", 0)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Limit: 40_000, Share: 1},
	}}})
	for i := range hosts {
		m := cluster.Machine{
			Rack: fmt.Sprint("r", i%4), Capacity: vector(1000*(1+random.Int64N(8)), (1+random.Int64N(8))<<30),
			Attributes: []cluster.KeyValue{{Key: "disk", Value: []string{"ssd", "hdd"}[i%2]}},
		}
		if i%8 == 3 {
			m.GPUs = []cluster.GPUDevice{{Model: "A"}, {Model: "A"}}
			m.Capacity.Fixed[cluster.GPU] = 2 * cluster.WholeGPU
		}
		if i%10 < 2 {
			m.Capabilities, m.Ports = cluster.CanPorts, []cluster.PortRange{{First: 100, Last: 103}}
		}
		if i%16 == 5 {
			m.Attributes = append(m.Attributes, cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"})
		}
		id := s.machine(i, m)
		switch i % 13 {
		case 11:
			s.emit(&cluster.HostDrain{ID: id, Drain: true})
		case 12:
			s.emit(&cluster.HostUnreached{ID: id})
		}
	}
	for i := range jobs {
		pool := []cluster.PoolPath{"root/a", "root/b"}[random.IntN(2)]
		s.job(pool, 1+random.Uint32N(20), 500*(1+random.Int64N(12)), func(j *cluster.JobSpec) {
			j.Priority, j.Preemptible = random.Int32N(3), true
			j.Task.Resources.Fixed[cluster.Memory] = (1 + random.Int64N(4)) << 29
			switch i % 7 {
			case 0:
				j.Task.GPU = cluster.GPURequest{Count: 1}
				j.Task.Resources.Fixed[cluster.GPU] = cluster.WholeGPU
			case 1:
				must(host("disk", "ssd"))(j)
			case 2:
				labeled("app", fmt.Sprint("x", i%3))(j)
				j.Priority, j.Instances, j.Task.Resources = 3, 10, vector(100, 1<<20)
			case 3:
				must(tasks(fmt.Sprint("x", i%3), cluster.Less, 1, "host"))(j)
			case 4:
				must(tasks(fmt.Sprint("x", i%3), cluster.Greater, 0, "rack"))(j)
			case 5:
				j.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r1"), Soft: cluster.Soft{Penalty: time.Second}}}
			}
		})
	}
	s.job("root/a", 2, 1000, must(host("disk", "tape")))
	for i := range 4 {
		pool := []cluster.PoolPath{"root/a", "root/b"}[i%2]
		s.job(pool, 30, 2000, core(30))
		s.job(pool, 30, 100, core(30), atMost(2, []string{"host", "rack"}[i/2]))
		s.job(pool, 9, 500, gpus(0, 700))
		s.job(pool, 6, 500, gpus(2, 0))
		s.job(pool, 3, 500, gpus(0, 400), core(3))
		s.job(pool, 9, 100, ports(0, 100))
		s.job(pool, 9, 100, ports(2))
		s.job(pool, 6, 100, ports(1, 103), core(6))
		s.job(pool, 6, 100, ports(1), core(6))
		s.job(pool, 90, 4000, labeled("app", fmt.Sprint("y", i)), must(tasks(fmt.Sprint("y", i), cluster.Greater, 0, "rack")))
	}
	s.step()
	s.step()
	return s
}

func gpus(count, milli int32) func(*cluster.JobSpec) {
	return func(j *cluster.JobSpec) {
		j.Task.GPU = cluster.GPURequest{Count: count, Milli: milli}
		j.Task.Resources.Fixed[cluster.GPU] = j.Task.GPU.Amount()
	}
}

func ports(dynamic uint16, numbers ...uint16) func(*cluster.JobSpec) {
	return func(j *cluster.JobSpec) { j.Task.Ports = cluster.PortRequest{Numbers: numbers, Dynamic: dynamic} }
}

// For every task that waits: each host is counted once, the terms add up, and when what would unblock it happens, it is
// placed in the next cycle: the first and the last of each job. Who may not be beside others of which some wait or leave their hosts is left out: where those
// may come to the same host nothing can be promised.
func TestWhatUnblocksATaskUnblocksIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes with the race detector, and there is one goroutine")
	}
	for _, test := range []struct {
		seed        uint64
		hosts, jobs int
	}{{7, 40, 118}, {8, 38, 118}, {11, 40, 118}, {19, 40, 118}} {
		t.Run(fmt.Sprint(test.seed), func(t *testing.T) { unblockAll(t, crowdedWorld(t, test.seed, test.hosts, test.jobs)) })
	}
}

func unblockAll(t *testing.T, s *shared) {
	waiting := s.in(cluster.TaskPending)
	require.GreaterOrEqual(t, len(waiting), 1000)
	kinds, tried := map[cycle.UnblockKind]int{}, 0
	come := append(append(s.in(cluster.TaskPreempting), s.in(cluster.TaskKilling)...), waiting...)
	mayCome := func(l cluster.KeyValue) bool {
		return slices.ContainsFunc(come, func(k cluster.TaskKey) bool { return slices.Contains(s.state.Job(k.Job()).Spec.Labels, l) })
	}
	for i, k := range waiting {
		why, known := s.planner.WhyWaiting(k)
		require.True(t, known)
		sum := 0
		for _, c := range why.Tally {
			sum += c.Hosts
		}
		require.Equal(t, s.state.NumHosts(), sum)
		require.Equal(t, sum, why.Hosts)
		require.NotEmpty(t, why.Unblockers, "%v", k)
		if b := why.Blocked; b != nil {
			require.EqualValues(t, b.Price, total(b.Place))
		}
		for _, u := range why.Unblockers {
			kinds[u.Kind]++
		}
		if i == 0 || i == len(waiting)-1 || waiting[i-1].Job() != k.Job() || waiting[i+1].Job() != k.Job() {
			if c := s.state.Job(k.Job()).Spec.Constraint; c != nil && c.Op == cluster.TaskLabel && c.Comparison == cluster.Less && mayCome(c.Label) {
				continue
			}
			tried++
			s.unblocked(t, k, why)
		}
	}
	for _, kind := range []cycle.UnblockKind{
		cycle.MoreRoom, cycle.RaisePool, cycle.OtherHost, cycle.ResumeHost, cycle.ReconnectHost, cycle.MoreGPUs, cycle.MorePorts,
	} {
		require.Positive(t, kinds[kind], "%v: %v", kind, kinds)
	}
	require.Greater(t, tried, 200)
	t.Logf("%d tasks wait, %d of them were unblocked: %v", len(waiting), tried, kinds)
}

// What is said in short of many tasks is what an explanation says of each, in whatever parts it is asked for.
func TestInShortTasksWaitForTheSame(t *testing.T) {
	s := crowdedWorld(t, 9, 30, 40)
	s.job("root/a", 4, 2000, core(4))
	s.settle()
	waiting := append(s.in(cluster.TaskPending), cluster.MakeTaskKey(9999, 0), s.in(cluster.TaskRunning)[0])
	together, bound := 0, 0
	for _, looks := range []int{0, 50, 1 << 20} {
		rest, parts := waiting, 0
		for ; len(rest) > 0; parts++ {
			said := s.planner.WhyTheyWait(rest, looks)
			require.NotEmpty(t, said)
			for i, got := range said {
				want, known := s.planner.WhyWaiting(rest[i])
				require.Equal(t, known, got.Tasks > 0)
				want.Position, want.Queue, want.Blocked, want.Unblockers = 0, 0, nil, nil
				require.Equal(t, want, got)
				together += got.Together
				if got.Binding.Rule != pool.RuleNone {
					bound++
				}
			}
			rest = rest[len(said):]
		}
		require.Equal(t, looks < 1<<20, parts > 1)
	}
	require.Positive(t, together)
	require.Positive(t, bound)
}

// TestACoreWithAPortNeedsAHostForEach: of two that start together and ask for the same port, one has a host.
func TestACoreWithAPortNeedsAHostForEach(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := newShared(t)
		m := cluster.Machine{Capacity: vector(4, 0), Capabilities: cluster.CanPorts, Ports: []cluster.PortRange{{First: 100, Last: 102}}}
		s.machine(0, m)
		if full {
			s.machine(1, m)
			m.Capacity = vector(1, 0)
			s.machine(2, m)
			s.job(cluster.RootPool, 1, 4, func(j *cluster.JobSpec) { j.Preemptible = false })
			s.settle()
		}
		core := cluster.MakeTaskKey(s.job(cluster.RootPool, 2, 2, ports(0, 100), core(2)), 0)
		s.settle()
		why, waits := s.planner.WhyWaiting(core)
		require.True(t, waits)
		require.Equal(t, []int{1, 2}, []int{why.Fit, why.Together})
		require.Len(t, why.Unblockers, 1)
		if full {
			require.Equal(t, cycle.MoreRoom, why.Unblockers[0].Kind)
		} else {
			require.Equal(t, cycle.OtherHost, why.Unblockers[0].Kind)
			require.Equal(t, vector(2, 0), why.Unblockers[0].Room)
		}
		s.unblocked(t, core, why)
	}
}

// raisedAndBack is what helps who lacks a host that is away and, by the rule, so much of the CPUs of root/b, if any.
func raisedAndBack(rule pool.Rule, more int64, away cluster.HostID) (want []cycle.Unblocker) {
	if more > 0 {
		want = append(want, cycle.Unblocker{Kind: cycle.RaisePool, Rule: string(rule), Pool: "root/b", Dimension: cluster.CPU.String(), Amount: more})
	}
	return append(want, cycle.Unblocker{Kind: cycle.ReconnectHost, Host: away})
}

// Who was let in only since those that go before it have no host needs a higher limit, too, if what opens is a host for them as well.
func TestALimitBindsWhenThoseBeforeHaveAHost(t *testing.T) {
	for _, test := range []struct {
		name, first          string // the disk that the first asks for
		started, limit, more int64  // started is what the pool gets in the same cycle
	}{
		{"both below the limit", "ssd", 0, 2000, 0},
		{"one below the limit", "ssd", 0, 1500, 500},
		{"one below the limit, beside what starts", "ssd", 500, 2000, 500},
		{"the first has no host then either", "tape", 0, 1500, 0},
	} {
		s := newShared(t)
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: test.limit, Share: 1},
		}}})
		s.host(0, vector(8000, 0))
		away := s.host(1, vector(8000, 0), cluster.KeyValue{Key: "disk", Value: "ssd"})
		s.emit(&cluster.HostUnreached{ID: away})
		s.job("root/b", 1, 1000, urgent(2), must(host("disk", test.first)))
		k := cluster.MakeTaskKey(s.job("root/b", 1, 1000, urgent(1), must(host("disk", "ssd"))), 0)
		if test.started > 0 {
			s.job("root/b", 1, test.started, urgent(3))
		}
		require.Equal(t, test.started > 0, len(s.step().Placements) > 0, test.name)
		why, _ := s.planner.WhyWaiting(k)
		require.Equal(t, pool.RuleNone, why.Binding.Rule, test.name)
		require.Equal(t, raisedAndBack(pool.RuleLimit, test.more, away), why.Unblockers, test.name)
		s.unblocked(t, k, why)
	}
}

// A host that is away and has room needs no more, even if the cluster has too little without it.
func TestAHostThatIsAwayNeedsNoMoreRoom(t *testing.T) {
	s := newShared(t)
	s.limited("root/b", 3000)
	s.host(0, vector(4000, 0))
	away := s.host(1, vector(8000, 0), cluster.KeyValue{Key: "disk", Value: "ssd"})
	s.emit(&cluster.HostUnreached{ID: away})
	s.job("root/b", 1, 2000, urgent(1))
	k := cluster.MakeTaskKey(s.job("root/b", 1, 1500, must(host("disk", "ssd"))), 0)
	require.NotEmpty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(k)
	require.Equal(t, raisedAndBack(pool.RuleLimit, 500, away), why.Unblockers)
	s.unblocked(t, k, why)
}

// A task that may not be beside another waits until that is gone. (Whether the crowded world has such tasks depends on which
// of its best plans is found.)
func TestFewerTasksUnblockATask(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	s.host(0, vector(4000, 4<<30))
	s.job("root/a", 1, 100, labeled("app", "z"))
	s.settle()
	k := cluster.MakeTaskKey(s.job("root/a", 1, 100, must(tasks("z", cluster.Less, 1, "host"))), 0)
	require.Empty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(k)
	require.Len(t, why.Unblockers, 1)
	require.Equal(t, cycle.FewerTasks, why.Unblockers[0].Kind)
	require.EqualValues(t, 1, why.Unblockers[0].Count)
	s.unblocked(t, k, why)
}

func total(p cycle.Place) (sum int64) {
	for _, t := range p.Terms {
		sum += int64(t.Price)
	}
	return sum
}

// unblocked lets happen in another world what would unblock the task, and sees it placed.
func (s *shared) unblocked(t *testing.T, k cluster.TaskKey, why cycle.Waiting) {
	other := &shared{world: &world{t: t, state: s.state.Fork(), now: s.now}, named: s.named}
	other.planner = cycle.New(sluice.Model{}, func() solver.Solver { return netsimplex.New() })
	for _, u := range why.Unblockers {
		other.let(u, k)
	}
	snapshot, _ := other.state.Snapshot()
	out := other.planner.Run(cycle.Input{Snapshot: snapshot, Rescan: true, Now: s.now.Add(time.Second)})
	for _, p := range out.Placements {
		if p.Task == k {
			return
		}
	}
	require.Fail(t, "it waits on", "%v: %+v\n%+v", k, why, s.state.Job(k.Job()).Spec)
}

func (s *shared) let(u cycle.Unblocker, k cluster.TaskKey) {
	h := s.state.Host(u.Host)
	switch u.Kind {
	case cycle.ResumeHost:
		s.emit(&cluster.HostDrain{ID: u.Host})
	case cycle.ReconnectHost:
		s.emit(&cluster.HostReported{ID: u.Host, Machine: *h.Machine})
	case cycle.MoreRoom:
		s.emit(&cluster.HostReported{ID: u.Host, Machine: larger(*h.Machine, u.Room)})
	case cycle.RaisePool:
		raised := *s.state.Pool(u.Pool)
		raised.Resources = append([]cluster.PoolResource{}, raised.Resources...)
		if !slices.ContainsFunc(raised.Resources, func(r cluster.PoolResource) bool { return r.Dimension == u.Dimension }) {
			raised.Resources = append(raised.Resources, cluster.PoolResource{Dimension: u.Dimension, Limit: cluster.NoLimit, Share: 1})
			slices.SortFunc(raised.Resources, func(a, b cluster.PoolResource) int { return strings.Compare(a.Dimension, b.Dimension) })
		}
		for i := range raised.Resources {
			if raised.Resources[i].Dimension == u.Dimension {
				if u.Rule == string(pool.RuleReservation) {
					raised.Resources[i].Reservation += u.Amount
				} else {
					raised.Resources[i].Limit += u.Amount
				}
			}
		}
		s.emit(&cluster.PoolPut{Pool: raised})
	case cycle.FewerTasks:
		for _, other := range append([]cluster.TaskKey{}, h.Tasks...) { // the domain is the host
			if task := s.state.Task(other); len(s.state.Job(other.Job()).Spec.Labels) > 0 && !task.State.Terminal() {
				s.emit(&cluster.TaskStatus{Task: other, Run: task.Run, State: cluster.TaskSucceeded})
			}
		}
	case cycle.MoreTasks:
		s.emit(&cluster.HostReported{ID: u.Host, Machine: larger(*h.Machine, vector(10, 10))})
		uid := s.job("root/a", uint32(u.Count), 1, func(j *cluster.JobSpec) {
			j.Labels = []cluster.KeyValue{s.state.Job(k.Job()).Spec.Constraint.Label}
		})
		for i := range u.Count {
			s.emit(&cluster.Placed{Task: cluster.MakeTaskKey(uid, uint32(i)), Run: 1, Host: u.Host})
		}
	case cycle.MoreGPUs:
		each := cluster.WholeGPU / u.Milli
		more := (u.GPUs + each - 1) / each
		s.emit(&cluster.HostReported{ID: u.Host, Machine: larger(*h.Machine, cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.GPU: more * cluster.WholeGPU}})})
	case cycle.MorePorts:
		for _, other := range append([]cluster.TaskKey{}, h.Tasks...) {
			if task := s.state.Task(other); slices.ContainsFunc(task.Ports, func(p uint16) bool { return slices.Contains(u.Ports, p) }) {
				u.FreePorts += len(u.Ports) - len(task.Ports)
				s.emit(&cluster.TaskStatus{Task: other, Run: task.Run, State: cluster.TaskSucceeded})
			}
		}
		s.emit(&cluster.HostReported{ID: u.Host, Machine: withPorts(*s.state.Host(u.Host).Machine, u.FreePorts)})
	case cycle.OtherHost:
		for i := range u.Hosts {
			m := cluster.Machine{
				Rack: fmt.Sprint("new", i), Attributes: []cluster.KeyValue{{Key: "disk", Value: "tape"}}, Capabilities: cluster.CanPorts,
			}
			for _, p := range u.Ports {
				m.Ports = append(m.Ports, cluster.PortRange{First: p, Last: p})
			}
			id := s.machine(9000+i, withPorts(larger(m, u.Room), u.FreePorts))
			if u.Slack {
				s.emit(&cluster.SlackMeasured{Host: id, Slack: u.Room})
			}
		}
	}
}

// withPorts returns the machine with so many more ports, above all others.
func withPorts(m cluster.Machine, n int) cluster.Machine {
	if n > 0 {
		first := uint16(1000)
		if len(m.Ports) > 0 {
			first = m.Ports[len(m.Ports)-1].Last + 10
		}
		m.Ports = append(slices.Clone(m.Ports), cluster.PortRange{First: first, Last: first + uint16(n) - 1})
	}
	return m
}

// Who goes first needs no room for those that go after it in its pool.
func TestTheFirstNeedsRoomForItselfOnly(t *testing.T) {
	for more, placed := range map[int64]int{999: 0, 1000: 1} {
		s := newShared(t)
		s.pool("root/a", 0)
		s.host(0, vector(4000, 0))
		s.host(1, vector(4000, 0))
		s.job("root/a", 8, 1000, func(j *cluster.JobSpec) { j.Preemptible = false })
		s.settle()
		s.job("root/a", 300, 1000)
		k := cluster.MakeTaskKey(s.job("root/a", 1, 1000, urgent(5)), 0)
		require.Empty(t, s.step().Placements)
		why, _ := s.planner.WhyWaiting(k)
		require.Equal(t, 1, why.Position)
		require.Equal(t, []cycle.Unblocker{{Kind: cycle.MoreRoom, Host: why.Blocked.Host, Room: vector(1000, 0)}}, why.Unblockers)
		m := *s.state.Host(why.Blocked.Host).Machine
		m.Capacity = vector(4000+more, 0)
		s.emit(&cluster.HostReported{ID: why.Blocked.Host, Machine: m})
		out := s.step()
		require.Len(t, out.Placements, placed)
		for _, p := range out.Placements {
			require.Equal(t, k, p.Task)
		}
	}
}

// What keeps a task back is said exactly, and it is placed as soon as it is so.
func TestUnblockersAreExact(t *testing.T) {
	machine := func(cpu int64, devices int, free ...cluster.PortRange) cluster.Machine {
		m := cluster.Machine{Capacity: vector(cpu, 0), Ports: free, Capabilities: cluster.CanPorts}
		m.Capacity.Fixed[cluster.GPU] = int64(devices) * cluster.WholeGPU
		for range devices {
			m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: "A"})
		}
		return m
	}
	times := func(n int, m cluster.Machine) (all []cluster.Machine) { return slices.Repeat([]cluster.Machine{m}, n) }
	type change = func(*cluster.JobSpec)
	for _, tt := range []struct {
		name     string
		machines []cluster.Machine
		busy     uint32 // tasks that run
		runs     []change
		n        uint32 // tasks that wait
		cpu      int64
		waits    []change
		fit      int
		want     cycle.Unblocker
	}{
		{"a gang", times(4, machine(2000, 0)), 0, nil, 10, 1500, []change{core(10)}, 4, cycle.Unblocker{
			Kind: cycle.MoreRoom, Room: vector(7*1500-2000, 0), Together: 7,
		}},
		{"a gang beside others", times(3, machine(4000, 0)), 3, nil, 9, 3000, []change{core(9)}, 3, cycle.Unblocker{
			Kind: cycle.MoreRoom, Room: vector(7*3000-3000, 0), Together: 7,
		}},
		{"a gang that keeps apart", times(3, machine(4000, 0)), 0, nil, 5, 1000, []change{core(5), atMost(1, "host")}, 3, cycle.Unblocker{
			Kind: cycle.OtherHost, Hosts: 2, Room: vector(1000, 0), Together: 1,
		}},
		{"a gang that no host can take", times(3, machine(1000, 0)), 0, nil, 3, 2000, []change{core(3)}, 0, cycle.Unblocker{
			Kind: cycle.OtherHost, Hosts: 1, Room: vector(6000, 0), Together: 3,
		}},
		{"a gang for devices", times(2, machine(4000, 2)), 1, []change{gpus(0, 300)}, 4, 100, []change{core(4), gpus(1, 0)}, 3, cycle.Unblocker{
			Kind: cycle.MoreGPUs, GPUs: 1, Milli: 1000, Together: 3,
		}},
		{"a port that others wait for", times(1, machine(4000, 0, cluster.PortRange{First: 100, Last: 109})), 1, []change{ports(0, 100)}, 3, 100, []change{ports(0, 100)}, 0, cycle.Unblocker{
			Kind: cycle.OtherHost, Hosts: 3, Room: vector(100, 0), Ports: []uint16{100},
		}},
		{"a part", times(1, machine(4000, 2)), 2, []change{gpus(0, 600)}, 1, 100, []change{gpus(0, 700)}, 0, cycle.Unblocker{
			Kind: cycle.MoreGPUs, GPUs: 1, Milli: 700,
		}},
		{"a whole device", times(1, machine(4000, 3)), 3, []change{gpus(0, 501)}, 1, 100, []change{gpus(1, 0)}, 0, cycle.Unblocker{
			Kind: cycle.MoreGPUs, GPUs: 1, Milli: 1000,
		}},
		{"two devices of which there is one", times(1, machine(4000, 3)), 2, []change{gpus(0, 501)}, 1, 100, []change{gpus(2, 0)}, 0, cycle.Unblocker{
			Kind: cycle.MoreGPUs, GPUs: 1, Milli: 1000,
		}},
		{"a port", times(1, machine(4000, 0, cluster.PortRange{First: 100, Last: 101})), 1, []change{ports(0, 100)}, 1, 100, []change{ports(0, 100)}, 0, cycle.Unblocker{
			Kind: cycle.MorePorts, Ports: []uint16{100},
		}},
		{"some ports", times(1, machine(4000, 0, cluster.PortRange{First: 100, Last: 102})), 1, []change{ports(1)}, 1, 100, []change{ports(3)}, 0, cycle.Unblocker{
			Kind: cycle.MorePorts, FreePorts: 1,
		}},
		{"a port that the host has not", times(1, machine(4000, 0, cluster.PortRange{First: 100, Last: 102})), 0, nil, 1, 100, []change{ports(1, 99)}, 0, cycle.Unblocker{
			Kind: cycle.OtherHost, Hosts: 1, Room: vector(100, 0), Ports: []uint16{99}, FreePorts: 1,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &shared{world: newWorldWith(t, sluice.Model{})}
			s.pool("root/a", 0)
			for i, m := range tt.machines {
				s.machine(i, m)
			}
			for range tt.busy {
				s.job("root/a", 1, 1000, append(tt.runs, func(j *cluster.JobSpec) { j.Preemptible = false })...)
				s.step()
			}
			require.Len(t, s.in(cluster.TaskRunning), int(tt.busy))
			uid := s.job("root/a", tt.n, tt.cpu, tt.waits...)
			s.step()
			s.step()
			k := cluster.MakeTaskKey(uid, tt.n-1)
			why, waits := s.planner.WhyWaiting(k)
			require.True(t, waits)
			require.Len(t, why.Unblockers, 1)
			got := why.Unblockers[0]
			tt.want.Host = got.Host
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.fit, why.Fit)
			s.unblocked(t, k, why)
		})
	}
}

// A task that may not be preempted waits for the reservation of its pool.
func TestRaisedReservationUnblocks(t *testing.T) {
	s := &shared{world: newWorldWith(t, sluice.Model{})}
	s.pool("root/a", 2000)
	s.host(0, vector(8000, 0))
	uid := s.job("root/a", 4, 1000, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.step()
	s.step()
	require.Equal(t, 2, s.running(uid))
	for i := range uint32(2) {
		k := cluster.MakeTaskKey(uid, 2+i)
		why, waits := s.planner.WhyWaiting(k)
		require.True(t, waits)
		require.Equal(t, []cycle.Unblocker{{
			Kind: cycle.RaisePool, Rule: string(pool.RuleReservation), Pool: "root/a", Dimension: "cpu_milli", Amount: 2000,
		}}, why.Unblockers)
		s.unblocked(t, k, why)
	}
}

// What may not be preempted needs a reservation of all that anybody reserves, within the limit of the pool and within what those above
// reserve.
func TestARaisedReservationIsAllowedAndEnough(t *testing.T) {
	s := newShared(t)
	put := func(path cluster.PoolPath, cpu, limit, memory int64) {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: cpu, Limit: limit, Share: 1},
			{Dimension: cluster.Memory.String(), Reservation: memory, Limit: cluster.NoLimit, Share: 1},
		}}})
	}
	put("root/a", 3, cluster.NoLimit, 0)
	put("root/a/x", 1, 2, 0)
	put("root/a/y", 1, cluster.NoLimit, 0)
	put("root/b", 0, cluster.NoLimit, 5)
	s.host(0, vector(8, 8))
	k := cluster.MakeTaskKey(s.job("root/a/x", 3, 1, func(j *cluster.JobSpec) {
		j.Preemptible, j.Task.Resources = false, vector(1, 1)
	}), 0)
	require.Empty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(k)
	raise := func(rule pool.Rule, path cluster.PoolPath, d cluster.Dimension, amount int64) cycle.Unblocker {
		return cycle.Unblocker{Kind: cycle.RaisePool, Rule: string(rule), Pool: path, Dimension: d.String(), Amount: amount}
	}
	require.Equal(t, []cycle.Unblocker{
		raise(pool.RuleReservation, "root/a/x", cluster.CPU, 2),
		raise(pool.RuleLimit, "root/a/x", cluster.CPU, 1),
		raise(pool.RuleReservation, "root/a/x", cluster.Memory, 3),
		raise(pool.RuleReservation, "root/a", cluster.CPU, 1),
		raise(pool.RuleReservation, "root/a", cluster.Memory, 3),
	}, why.Unblockers)
	s.unblocked(t, k, why)
}

// Where a leaf is fair, or waiting raises priorities, who is less urgent may go first: what would help is enough for them, too.
func TestWhoIsLessUrgentMayGoFirst(t *testing.T) {
	for _, tt := range []struct {
		name            string
		pool            cluster.Pool
		ahead, position int
	}{
		{"by priority", cluster.Pool{}, 0, 1},
		{"between users", cluster.Pool{Order: cluster.FairUsers}, 3, 1},
		{"between jobs", cluster.Pool{Order: cluster.FairJobs}, 3, 1},
		{"raised by age", cluster.Pool{Ageing: time.Minute}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShared(t)
			tt.pool.Path = "root/a"
			s.emit(&cluster.PoolPut{Pool: tt.pool})
			h := s.host(0, vector(4, 0))
			s.job("root/a", 4, 1, func(j *cluster.JobSpec) { j.Preemptible, j.Priority = false, 9 })
			s.settle()
			s.job("root/a", 3, 1, ownedBy("ann"))
			s.now = s.now.Add(10 * time.Minute)
			k := cluster.MakeTaskKey(s.job("root/a", 1, 1, urgent(1), ownedBy("bob")), 0)
			require.Empty(t, s.step().Placements)
			why, _ := s.planner.WhyWaiting(k)
			require.Equal(t, []int{tt.position, 4}, []int{why.Position, why.Queue})
			require.Equal(t, []cycle.Unblocker{{
				Kind: cycle.MoreRoom, Host: h, Room: vector(int64(1+tt.ahead), 0), Ahead: tt.ahead,
			}}, why.Unblockers)
			s.unblocked(t, k, why)
		})
	}
}

// A task that would make one rack too full beside others waits for a task to leave that rack, or for room in the others.
func TestUnevenDomainsAreExplained(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	for i, cpus := range []int64{4, 4, 1} {
		s.rack(i, fmt.Sprint("r", i), cpus)
	}
	uid := s.job("root/p", 6, 1000, evenly(1, "rack"))
	require.Len(t, s.step().Placements, 5)
	s.step()
	why, known := s.planner.WhyWaiting(s.in(cluster.TaskPending)[0])
	require.True(t, known)
	const rule = "at most 1 more of the job in one rack than in another"
	require.Equal(t, []cycle.Tally{{Reason: cycle.HostUneven, Detail: rule, Hosts: 2}, {Reason: cycle.HostFull, Detail: "cpu_milli", Hosts: 1}}, why.Tally)
	require.Equal(t, cycle.HostUneven, why.Blocked.Reason)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.FewerTasks, Host: why.Blocked.Host, Rule: rule, Count: 1}}, why.Unblockers)
	s.report(s.state.Host(why.Blocked.Host).Tasks[0], cluster.TaskSucceeded)
	require.Equal(t, why.Blocked.Host, s.step().Placements[0].Host)
	require.Equal(t, 5, s.running(uid))
}

// larger returns the machine with so much more, in GPUs of model A.
func larger(m cluster.Machine, by cluster.Resources) cluster.Machine {
	m.Capacity = m.Capacity.Add(by)
	m.GPUs = append([]cluster.GPUDevice{}, m.GPUs...)
	for int64(len(m.GPUs))*cluster.WholeGPU < m.Capacity.Fixed[cluster.GPU] {
		m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: "A"})
	}
	m.Capacity.Fixed[cluster.GPU] = int64(len(m.GPUs)) * cluster.WholeGPU
	return m
}

// A task for which another host is kept until others end there starts where there is room before, save where somebody more urgent waits.
func TestThoseForWhomHostsAreKeptMayGoFirst(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	s.rack(0, "r0", 10)
	h := s.rack(1, "r1", 10)
	s.rack(2, "r2", 4)
	stays := func(j *cluster.JobSpec) { j.Preemptible = false }
	s.job("root/a", 1, 6000, stays, must(host("rack", "r0")))
	s.job("root/a", 1, 8000, stays, must(host("rack", "r1")))
	s.settle()
	kept := cluster.MakeTaskKey(s.job("root/a", 1, 5000), 0)
	s.step()
	s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
	s.step()
	require.Equal(t, cluster.HostID("s/h00000"), s.state.Task(kept).Hold.Host, "that lacks least")
	for priority, want := range map[int32]cycle.Unblocker{
		0: {Kind: cycle.MoreRoom, Host: h, Room: vector(6000, 0), Ahead: 1},
		1: {Kind: cycle.MoreRoom, Host: h, Room: vector(1000, 0)},
	} {
		k := cluster.MakeTaskKey(s.job("root/a", 1, 3000, urgent(priority), must(host("rack", "r1"))), 0)
		require.Empty(t, s.step().Placements)
		why, _ := s.planner.WhyWaiting(k)
		require.Equal(t, []cycle.Unblocker{want}, why.Unblockers)
		s.unblocked(t, k, why)
		s.emit(&cluster.JobStopping{Job: k.Job()})
	}
}

// Where a limit on running work and one of its pool keep a task out, that of the pool is to be raised for those who wait for it, too.
func TestALimitIsRaisedForThoseWhoWaitForItToo(t *testing.T) {
	s := newShared(t)
	s.limited("root/a", 8)
	s.pool("root/a/x", 0)
	s.pool("root/a/y", 0)
	s.host(0, vector(20, 0))
	uid := s.job("root/a/x", 2, 4, func(j *cluster.JobSpec) { j.Preemptible, j.Limits.MaxRunning = false, 1 })
	s.job("root/a/x", 1, 4, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	s.job("root/a/x", 1, 3, urgent(1))
	s.job("root/a/y", 1, 2)
	require.Empty(t, s.step().Placements)
	k := cluster.MakeTaskKey(uid, 1)
	why, _ := s.planner.WhyWaiting(k)
	require.Equal(t, []cycle.Unblocker{
		{Kind: cycle.LiftLimit, Rule: string(pool.RuleMaxRunning), Pool: "root/a/x", Count: 1, Amount: 1},
		{Kind: cycle.RaisePool, Rule: string(pool.RuleLimit), Pool: "root/a", Dimension: cluster.CPU.String(), Amount: 9},
	}, why.Unblockers)
	spec := *s.state.Job(uid).Spec
	spec.Limits.MaxRunning = 2
	s.emit(&cluster.JobUpdated{Job: uid, Spec: &spec, Update: &cluster.Update{From: 1}})
	s.limited("root/a", 17)
	s.settle()
	require.Equal(t, 2, s.running(uid))
}

// Where a task is costs the sum of the terms, and no other place that is open costs less than the next best.
func TestWhyATaskIsWhereItIs(t *testing.T) {
	s := &shared{world: newWorldWith(t, sluice.Model{})}
	s.pool("root/p", 0)
	for i := range 6 {
		s.rack(i, fmt.Sprint("r", i%2), 2+int64(i))
	}
	s.job("root/p", 1, 1000, func(j *cluster.JobSpec) {
		j.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r1"), Soft: cluster.Soft{Penalty: time.Minute}}}
		j.Inputs = []cluster.Input{{Name: "in", Bytes: 1 << 30, Hosts: []cluster.HostID{"s/h00002"}}}
	})
	out := s.step()
	s.step()
	why, placed := s.planner.WhyPlaced(out.Placements[0].Task)
	require.True(t, placed)
	require.Equal(t, out.Placements[0].Host, why.Host)
	require.Equal(t, out.Placements[0].Price, why.Price, "nothing has changed since")
	require.Len(t, why.Next, 3)
	for i, next := range append([]cycle.Place{why.Place}, why.Next...) {
		require.EqualValues(t, next.Price, total(next))
		if i > 0 {
			require.NotEqual(t, why.Host, next.Host)
			require.GreaterOrEqual(t, next.Price, append([]cycle.Place{why.Place}, why.Next...)[i-1].Price)
		}
	}
	require.Contains(t, fmt.Sprint(why), "data")
}

// Who is too large for a host, and for one that is as much larger as it helps a small task, takes nothing of what would help that.
func TestWhoIsTooLargeTakesNothing(t *testing.T) {
	for large, ahead := range map[int64]int{4000: 1, 5000: 0} {
		s := newShared(t)
		s.rack(0, "r", 4)
		s.job(cluster.RootPool, 1, 4000, func(j *cluster.JobSpec) { j.Preemptible = false })
		require.Len(t, s.step().Placements, 1)
		s.job(cluster.RootPool, 1, large, urgent(1))
		small := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 100), 0)
		require.Empty(t, s.step().Placements)
		why, _ := s.planner.WhyWaiting(small)
		require.Len(t, why.Unblockers, 1)
		u := why.Unblockers[0]
		require.Equal(t, []any{ahead, vector(100+int64(ahead)*large, 0)}, []any{u.Ahead, u.Room}, "%v", u)
		s.unblocked(t, small, why)
	}
}

// asking asks for what hosts use whenever a start is priced, and learned tells nothing.
type asking struct{ costmodels.Model }

func (m asking) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	_, _ = r.Known.Used(h.ID)
	return m.Model.Start(r, q, h)
}

type learned struct{ costmodels.Knowledge }

func (*learned) Used(cluster.HostID) (cluster.Resources, bool) { return cluster.Resources{}, false }

// Prices that only those want to know who ask why are no reason to plan anew when something is learned.
func TestToAskWhyNeedsNoLesson(t *testing.T) {
	w := newWorldWith(t, asking{trivial.Model{}})
	learn := func() cycle.Output {
		w.known = &learned{}
		return w.cycle()
	}
	w.host(0, vector(1000, 1<<30))
	runs := cluster.MakeTaskKey(w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(1000, 1)}}), 0)
	waits := cluster.MakeTaskKey(w.submit(cluster.JobSpec{Instances: 1, Task: cluster.TaskSpec{Resources: vector(2000, 1)}}), 0)
	require.Len(t, learn().Placements, 1)
	w.cycle()
	require.Positive(t, learn().Stats.Rounds, "the plan before has asked")
	require.Zero(t, learn().Stats.Rounds)
	_, placed := w.planner.WhyPlaced(runs)
	require.True(t, placed)
	_, waiting := w.planner.WhyWaiting(waits)
	require.True(t, waiting)
	require.Zero(t, learn().Stats.Rounds)
}

// Who asks why a task is where it is has nobody counted by its rules thereafter: those may change places as if nobody had asked.
func TestToAskWhyLeavesNoTrace(t *testing.T) {
	s := newShared(t)
	s.rack(0, "r", 1)
	counting := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000, must(tasks("x", cluster.Less, 9, "host"))), 0)
	require.Len(t, s.step().Placements, 1)
	s.planner = cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() })
	s.rack(1, "r", 4)
	s.rack(2, "r", 2)
	require.Empty(t, s.step().Placements)
	_, placed := s.planner.WhyPlaced(counting)
	require.True(t, placed)
	s.job(cluster.RootPool, 2, 1000, labeled("app", "x"))
	s.job(cluster.RootPool, 1, 4000)
	require.Len(t, s.step().Placements, 3, "the large one fits on one host, if both small ones go to the other")
}

// A host that reports fewer devices than are taken has none to give, though those that it reports are free.
func TestADeviceThatIsGoneIsTaken(t *testing.T) {
	s := newShared(t)
	gpu := func(n int64) cluster.Resources {
		return cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.GPU: n * cluster.WholeGPU}}
	}
	m := cluster.Machine{Rack: "r", Capacity: vector(8000, 1<<30)}
	id := s.machine(0, larger(m, gpu(2)))
	s.job(cluster.RootPool, 2, 1000, gpus(1, 0))
	require.Len(t, s.step().Placements, 2)
	for _, k := range s.state.Host(id).Tasks {
		if task := s.state.Task(k); task.GPUs[0] == 0 {
			s.report(k, cluster.TaskSucceeded)
		}
	}
	s.machine(0, larger(m, gpu(1)))
	waits := cluster.MakeTaskKey(s.job(cluster.RootPool, 1, 1000, gpus(1, 0)), 0)
	require.Empty(t, s.step().Placements)
	why, known := s.planner.WhyWaiting(waits)
	require.True(t, known)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.MoreRoom, Host: id, Room: gpu(1)}}, why.Unblockers)
}

// Where a limit on running work keeps a task back, that is named and nothing else, and it helps to raise it.
func TestLimitsOnRunningWorkAreNamed(t *testing.T) {
	one, two := uint32(1), uint32(2)
	half, all := uint32(50), uint32(100)
	for _, tt := range []struct {
		rule          pool.Rule
		limit, raised cluster.PoolLimits
	}{
		{pool.RuleRunningJobs, cluster.PoolLimits{RunningJobs: &one}, cluster.PoolLimits{RunningJobs: &two}},
		{pool.RuleRunningUser, cluster.PoolLimits{RunningJobsPerUser: &one}, cluster.PoolLimits{RunningJobsPerUser: &two}},
		{pool.RuleController, cluster.PoolLimits{ControllerPercent: &half}, cluster.PoolLimits{ControllerPercent: &all}},
	} {
		t.Run(string(tt.rule), func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(4, 0))
			put := func(l cluster.PoolLimits) {
				s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: l, Resources: []cluster.PoolResource{
					{Dimension: cluster.CPU.String(), Reservation: 2, Limit: cluster.NoLimit, Share: 1},
				}}})
			}
			put(tt.limit)
			controller := func(j *cluster.JobSpec) { j.Controller = true }
			s.job("root/a", 1, 1, controller)
			kept := s.job("root/a", 1, 1, controller)
			s.settle()
			require.Zero(t, s.running(kept))
			why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(kept, 0))
			require.True(t, known)
			require.Len(t, why.Unblockers, 1)
			require.Equal(t, cycle.LiftLimit, why.Unblockers[0].Kind)
			require.Equal(t, string(tt.rule), why.Unblockers[0].Rule)
			require.Equal(t, cluster.PoolPath("root/a"), why.Unblockers[0].Pool)
			put(tt.raised)
			s.step()
			require.Equal(t, 1, s.running(kept))
		})
	}
}

// Where a limit on running work lets nobody in, it helps only to raise it, whoever ends.
func TestALimitThatLetsNobodyInIsOnlyRaised(t *testing.T) {
	none, half := uint32(0), uint32(50)
	for rule, limits := range map[pool.Rule]cluster.PoolLimits{
		pool.RuleRunningJobs:  {RunningJobs: &none},
		pool.RuleRunningUser:  {RunningJobsPerUser: &none},
		pool.RuleRunningGroup: {RunningJobsPerGroup: &none},
		pool.RuleController:   {ControllerPercent: &half},
	} {
		s := newShared(t)
		s.host(0, vector(4, 0))
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: limits, Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Reservation: 3, Limit: cluster.NoLimit, Share: 1},
		}}})
		uid := s.job("root/a", 1, 2, func(j *cluster.JobSpec) { j.Controller, j.Owner, j.Groups = true, "ann", []string{"staff"} })
		s.job("root/a", 1, 2, func(j *cluster.JobSpec) { j.Controller, j.Owner, j.Groups = true, "ann", []string{"staff"} })
		require.Empty(t, s.step().Placements)
		why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(uid, 0))
		want := cycle.Unblocker{Kind: cycle.LiftLimit, Rule: string(rule), Pool: "root/a", Amount: 1}
		if rule == pool.RuleController {
			want.Dimension = cluster.CPU.String()
		}
		require.Equal(t, []cycle.Unblocker{want}, why.Unblockers)
	}
}

// A revocable task that is larger than all hosts needs one whose tasks leave enough unused: an empty one is of no use to it.
func TestARevocableTaskNeedsAHostWithSlack(t *testing.T) {
	s := newShared(t)
	s.pool("root/a", 0)
	s.host(0, vector(4000, 0))
	k := cluster.MakeTaskKey(s.job("root/a", 1, 5000, func(j *cluster.JobSpec) { j.Revocable = true }), 0)
	require.Empty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(k)
	require.Equal(t, cycle.OtherHost, why.Unblockers[len(why.Unblockers)-1].Kind)
	s.unblocked(t, k, why)
}

// What waits for a limit is told how many have to end: as many as are let in before it, and one more.
func TestALimitIsToHaveRoomForThoseThatGoFirst(t *testing.T) {
	one, three := uint32(1), uint32(3)
	s := newShared(t)
	s.host(0, vector(9, 0))
	limits := func(l cluster.PoolLimits) { s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: l}}) }
	limits(cluster.PoolLimits{RunningJobs: &one})
	first := s.job("root/a", 6, 1, func(j *cluster.JobSpec) {
		j.Limits.MaxRunning = 2
		j.Overrides = []cluster.InstanceOverride{{First: 3, Last: 3, Task: &cluster.TaskSpec{Resources: vector(2, 0)}}}
	})
	s.job("root/a", 2, 1)
	last := s.job("root/a", 1, 1)
	s.settle()
	require.Equal(t, 2, s.running(first))
	count := func(uid cluster.JobUID, instance uint32) int64 {
		why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(uid, instance))
		require.True(t, known)
		require.Len(t, why.Unblockers, 1)
		require.Equal(t, cycle.LiftLimit, why.Unblockers[0].Kind)
		return why.Unblockers[0].Count
	}
	require.EqualValues(t, 1, count(first, 2))
	require.EqualValues(t, 4, count(first, 5))
	require.EqualValues(t, 2, count(last, 0))
	limits(cluster.PoolLimits{RunningJobs: &three})
	s.step()
	require.Equal(t, 1, s.running(last))
}

// Only those count as let in before it whom the same limit would let in: jobs of the same user, of one of its groups, or controllers.
func TestWhoCountsForALimit(t *testing.T) {
	one, half := uint32(1), uint32(50)
	by := func(owner string, groups ...string) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) { j.Owner, j.Groups = owner, groups }
	}
	for name, c := range map[string]struct {
		limit      cluster.PoolLimits
		own, other func(*cluster.JobSpec)
	}{
		"user":       {cluster.PoolLimits{RunningJobsPerUser: &one}, by("ann", "x"), by("bob", "x")},
		"group":      {cluster.PoolLimits{RunningJobsPerGroup: &one}, by("ann", "x", "y"), by("ann", "z")},
		"controller": {cluster.PoolLimits{ControllerPercent: &half}, func(j *cluster.JobSpec) { j.Controller = true }, func(j *cluster.JobSpec) { j.Task.Resources = vector(1000, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(9, 0))
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: c.limit, Resources: []cluster.PoolResource{
				{Dimension: cluster.CPU.String(), Reservation: 2, Limit: cluster.NoLimit, Share: 1},
			}}})
			s.job("root/a", 1, 1, c.own)
			s.job("root/a", 1, 1, c.other)
			s.job("root/a", 1, 1, c.other)
			s.job("root/a", 1, 1, c.own)
			last := s.job("root/a", 1, 1, c.own)
			s.settle()
			why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(last, 0))
			require.True(t, known)
			require.Len(t, why.Unblockers, 1)
			require.Equal(t, cycle.LiftLimit, why.Unblockers[0].Kind)
			require.EqualValues(t, 2, why.Unblockers[0].Count, "%+v", why)
		})
	}
}

// Tasks that a rule of their job keeps apart need a host for each, or one that may take all of them, also where they start one by one.
func TestThoseThatKeepApartNeedAHostForEach(t *testing.T) {
	none := must(tasks("x", cluster.Equal, 0, "host"))
	for name, tt := range map[string]struct {
		rule  func(*cluster.JobSpec)
		last  uint32
		hosts int   // to come; 0: a host needs more room
		cpu   int64 // of each task
	}{
		"the first on a host":          {atMost(1, "host"), 1, 0, 1000},
		"the others on hosts":          {atMost(1, "host"), 3, 3, 1000},
		"as many as may be on a host":  {atMost(3, "host"), 3, 0, 1000},
		"one more than may be there":   {atMost(2, "host"), 3, 3, 1000},
		"in racks":                     {atMost(1, "rack"), 2, 2, 1000},
		"evenly":                       {evenly(1, "host"), 3, 3, 1000},
		"none of its kind":             {none, 2, 2, 1000},
		"all on a host that comes":     {atMost(3, "host"), 3, 1, 2000},
		"on hosts that come":           {atMost(2, "host"), 3, 3, 2000},
		"what is kept from is another": {must(tasks("y", cluster.Less, 1, "host")), 3, 0, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.rack(0, "r0", 1)
			s.rack(1, "r1", 1)
			s.job(cluster.RootPool, 2, 1000, func(j *cluster.JobSpec) { j.Preemptible = false })
			s.settle()
			uid := s.job(cluster.RootPool, tt.last, tt.cpu, labeled("app", "x"), tt.rule)
			require.Empty(t, s.step().Placements)
			k := cluster.MakeTaskKey(uid, tt.last-1)
			why, known := s.planner.WhyWaiting(k)
			require.True(t, known)
			require.Len(t, why.Unblockers, 1)
			if u := why.Unblockers[0]; tt.hosts == 0 {
				require.Equal(t, cycle.MoreRoom, u.Kind)
			} else {
				each := tt.cpu
				if tt.hosts == 1 {
					each *= int64(tt.last)
				}
				require.Equal(t, []any{cycle.OtherHost, tt.hosts, vector(each, 0)}, []any{u.Kind, u.Hosts, u.Room})
			}
			s.unblocked(t, k, why)
		})
	}
}

// Who is kept out by the pool is told of the limit of its job as well, if that would keep it out next.
func TestTheLimitOfAJobIsNamedBesideThatOfItsPool(t *testing.T) {
	s := newShared(t)
	put := func(limit int64) {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: []cluster.PoolResource{
			{Dimension: cluster.CPU.String(), Limit: limit, Share: 1},
		}}})
	}
	put(1)
	s.host(0, vector(9, 0))
	uid := s.job("root/a", 4, 1, func(j *cluster.JobSpec) { j.Limits.MaxRunning = 2 })
	s.settle()
	require.Equal(t, 1, s.running(uid))
	for instance, count := range map[uint32]int64{1: 0, 2: 1, 3: 2} {
		why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(uid, instance))
		require.True(t, known)
		require.Equal(t, pool.RuleLimit, why.Binding.Rule)
		want := []cycle.Unblocker{{Kind: cycle.RaisePool, Rule: string(pool.RuleLimit), Pool: "root/a", Dimension: cluster.CPU.String(), Amount: 3}}
		if count > 0 {
			want = append(want, cycle.Unblocker{Kind: cycle.LiftLimit, Rule: string(pool.RuleMaxRunning), Pool: "root/a", Count: count, Amount: count})
		}
		require.Equal(t, want, why.Unblockers, instance)
	}
	put(4)
	s.settle()
	require.Equal(t, 2, s.running(uid))
}

// Who may not be preempted and was let in only since those that go before it have no host needs a larger reservation, too, if what opens
// is a host for them as well.
func TestAReservationBindsWhenThoseBeforeHaveAHost(t *testing.T) {
	for _, test := range []struct {
		name, first string // the disk that the first asks for
		reserved    int64
		more        int64
	}{
		{"both inside the reservation", "ssd", 3000, 0},
		{"one inside the reservation", "ssd", 2000, 1000},
		{"the first has no host then either", "tape", 2000, 0},
		{"its own claim went to the next", "ssd", 2000, 1000},
	} {
		s := newShared(t)
		s.pool("root/b", test.reserved)
		s.host(0, vector(8000, 0))
		away := s.host(1, vector(8000, 0), cluster.KeyValue{Key: "disk", Value: "ssd"})
		s.job("root/b", 1, 1000, must(host("disk", "ssd")), urgent(1), func(j *cluster.JobSpec) { j.Preemptible = false })
		s.job("root/b", 1, 1000) // may be stopped for the others
		s.settle()
		s.emit(&cluster.HostUnreached{ID: away})
		s.job("root/b", 1, 1000, urgent(2), must(host("disk", test.first)))
		k := cluster.MakeTaskKey(s.job("root/b", 1, 1000, urgent(1), must(host("disk", "ssd")), func(j *cluster.JobSpec) { j.Preemptible = false }), 0)
		if strings.HasPrefix(test.name, "its own") {
			s.job("root/b", 1, 1000, must(host("disk", "none")), func(j *cluster.JobSpec) { j.Preemptible = false })
		}
		require.Empty(t, s.step().Placements, test.name)
		why, _ := s.planner.WhyWaiting(k)
		require.Equal(t, pool.RuleNone, why.Binding.Rule, test.name)
		if strings.HasPrefix(test.name, "its own") {
			require.Equal(t, string(pool.RuleReservation), why.Unblockers[0].Rule)
		} else {
			require.Equal(t, raisedAndBack(pool.RuleReservation, test.more, away), why.Unblockers, test.name)
		}
		s.unblocked(t, k, why)
	}
}

// Who waits for a limit on running work needs room, and what its pool may have, for those as well that the limit lets in before it.
func TestWhoIsLetInByALimitNeedsRoomToo(t *testing.T) {
	one := uint32(1)
	for _, tt := range []struct {
		name      string
		free      int64
		resources []cluster.PoolResource
		more      []cycle.Unblocker
	}{
		{"room for all", 4, nil, nil},
		{"room for one", 3, nil, []cycle.Unblocker{{Kind: cycle.MoreRoom, Host: "s/h00000", Room: vector(1, 0), Ahead: 1}}},
		{
			"room beyond the limit of the pool", 4,
			[]cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: 4, Share: 1}},
			[]cycle.Unblocker{{Kind: cycle.RaisePool, Rule: string(pool.RuleLimit), Pool: "root/a", Dimension: cluster.CPU.String(), Amount: 1}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShared(t)
			s.host(0, vector(1+tt.free, 0))
			put := func(l cluster.PoolLimits) {
				s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: l, Resources: tt.resources}})
			}
			put(cluster.PoolLimits{RunningJobs: &one})
			s.job("root/a", 1, 1)
			s.settle()
			s.job("root/a", 1, 2)
			last := s.job("root/a", 1, 2)
			s.job("root/a", 5, 2)
			s.settle()
			why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(last, 0))
			require.True(t, known)
			require.Equal(t, append([]cycle.Unblocker{{Kind: cycle.LiftLimit, Rule: string(pool.RuleRunningJobs), Pool: "root/a", Count: 2, Amount: 2}}, tt.more...), why.Unblockers)
		})
	}
}

// Every limit on running work that keeps a task out is named at once, that of each pool of the path and of each kind, with what helps if it
// was lowered below what runs: when all are raised by so much, the task starts.
func TestAllLimitsOnRunningWorkAreNamedAtOnce(t *testing.T) {
	limit := func(n uint32) *uint32 { return &n }
	cpu := func(reservation int64) []cluster.PoolResource {
		return []cluster.PoolResource{{Dimension: cluster.CPU.String(), Reservation: reservation, Limit: cluster.NoLimit, Share: 1}}
	}
	s := newShared(t)
	s.host(0, vector(90, 0))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Resources: cpu(40)}})
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/x", Resources: cpu(20)}})
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/y"}})
	by := func(owner string, cpu int64) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) {
			j.Owner, j.Groups, j.Controller, j.Task.Resources = owner, []string{"staff", owner}, true, vector(cpu, 0)
		}
	}
	for i := range 4 {
		s.job([]cluster.PoolPath{"root/a/x", "root/a/y"}[i%2], 1, 1, by([]string{"ann", "bob"}[i/2], int64(1+i)))
	}
	s.settle()
	put := func(path cluster.PoolPath, reservation int64, l cluster.PoolLimits) {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path, Limits: l, Resources: cpu(reservation)}})
	}
	put("root/a/x", 20, cluster.PoolLimits{RunningJobs: limit(1), RunningJobsPerUser: limit(1), ControllerPercent: limit(25)})
	put("root/a", 40, cluster.PoolLimits{RunningJobs: limit(2), RunningJobsPerGroup: limit(3), ControllerPercent: limit(25)})
	first := s.job("root/a/x", 1, 1, by("ann", 1))
	k := cluster.MakeTaskKey(s.job("root/a/x", 2, 1, by("ann", 6), func(j *cluster.JobSpec) { j.Limits.MaxRunning = 2 }), 0)
	require.Empty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(k)
	type lift struct {
		rule          pool.Rule
		pool          cluster.PoolPath
		dimension     string
		count, amount int64
	}
	var said []lift
	for _, u := range why.Unblockers {
		require.Equal(t, cycle.LiftLimit, u.Kind)
		said = append(said, lift{pool.Rule(u.Rule), u.Pool, u.Dimension, u.Count, u.Amount})
	}
	require.Equal(t, []lift{
		{pool.RuleRunningJobs, "root/a/x", "", 3, 3},
		{pool.RuleRunningUser, "root/a/x", "", 2, 2},
		{pool.RuleController, "root/a/x", "cpu_milli", 0, 6}, // it asks for more than all may have
		{pool.RuleRunningJobs, "root/a", "", 4, 4},
		{pool.RuleRunningGroup, "root/a", "", 3, 3},
		{pool.RuleController, "root/a", "cpu_milli", 4, 7}, // of 1, 1, 2, 3 and 4
	}, said)
	put("root/a/x", 20, cluster.PoolLimits{RunningJobs: limit(4), RunningJobsPerUser: limit(3), ControllerPercent: limit(55)})
	put("root/a", 40, cluster.PoolLimits{RunningJobs: limit(6), RunningJobsPerGroup: limit(6), ControllerPercent: limit(43)})
	s.settle()
	require.Equal(t, 1, s.running(first))
	require.Equal(t, 2, s.running(k.Job()))
}

// Who waits for the core of his gang is helped by what helps the core.
func TestWhoWaitsForACoreIsHelpedByWhatHelpsIt(t *testing.T) {
	one := uint32(1)
	s := newShared(t)
	s.host(0, vector(9, 0))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: &one}}})
	s.job("root/a", 1, 1)
	s.settle()
	uid := s.job("root/a", 3, 1, core(2))
	require.Empty(t, s.step().Placements)
	elastic := cluster.MakeTaskKey(uid, 2)
	why, known := s.planner.WhyWaiting(elastic)
	require.True(t, known)
	require.Equal(t, pool.RuleGang, why.Binding.Rule)
	require.Equal(t, []cycle.Unblocker{{Kind: cycle.LiftLimit, Rule: string(pool.RuleRunningJobs), Pool: "root/a", Count: 1, Amount: 1}}, why.Unblockers)
}

// Who is below the limit of his job and finds no host is not told of the limit; who is beyond it needs both.
func TestALimitThatIsNotReachedIsNotNamed(t *testing.T) {
	s := newShared(t)
	h := s.host(0, vector(10, 0))
	s.job(cluster.RootPool, 1, 10, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	s.job(cluster.RootPool, 1, 1, urgent(1))
	uid := s.job(cluster.RootPool, 5, 2, func(j *cluster.JobSpec) { j.Limits.MaxRunning = 2 })
	s.settle()
	for i := range uint32(3) {
		why, known := s.planner.WhyWaiting(cluster.MakeTaskKey(uid, i))
		require.True(t, known)
		require.Equal(t, pool.RuleNone, why.Binding.Rule)
		want := []cycle.Unblocker{{Kind: cycle.MoreRoom, Host: h, Room: vector(1+2*(1+int64(i)), 0), Ahead: 1 + int(i)}}
		if i == 2 {
			want = append([]cycle.Unblocker{{Kind: cycle.LiftLimit, Rule: string(pool.RuleMaxRunning), Pool: cluster.RootPool, Count: 1, Amount: 1}}, want...)
		}
		require.Equal(t, want, why.Unblockers)
	}
}

// A limit for each owner that is raised lets in more of others, too: there is to be room for those that may go first.
func TestAHigherLimitForOwnersLetsInOthers(t *testing.T) {
	one := uint32(1)
	by := func(owner string) func(*cluster.JobSpec) { return func(j *cluster.JobSpec) { j.Owner = owner } }
	s := newShared(t)
	h := s.host(0, vector(5, 0))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobsPerUser: &one}}})
	s.job("root/a", 1, 1, by("ann"))
	s.job("root/a", 1, 1, by("bob"))
	s.settle()
	s.job("root/a", 1, 2, by("bob"))
	last := s.job("root/a", 1, 2, by("ann"))
	s.job("root/a", 1, 2, by("bob"), func(j *cluster.JobSpec) { j.Priority = -1 })
	require.Empty(t, s.step().Placements)
	why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(last, 0))
	require.Equal(t, []cycle.Unblocker{
		{Kind: cycle.LiftLimit, Rule: string(pool.RuleRunningUser), Pool: "root/a", Count: 1, Amount: 1},
		{Kind: cycle.MoreRoom, Host: h, Room: vector(1, 0), Ahead: 1},
	}, why.Unblockers)
}

// Those that a rule keeps apart are as many whether they read the same data or not.
func TestThoseThatKeepApartAreCountedWhateverTheyRead(t *testing.T) {
	s := &shared{world: newWorldWith(t, sluice.Model{})}
	h := s.rack(0, "r0", 1)
	s.job(cluster.RootPool, 1, 1000, func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	uid := s.job(cluster.RootPool, 3, 1000, labeled("app", "x"), atMost(2, "host"), func(j *cluster.JobSpec) {
		for i := range j.Instances {
			j.Inputs = append(j.Inputs, cluster.Input{Name: "in", Bytes: 1<<20 + int64(i), First: i, Last: i, Hosts: []cluster.HostID{h}})
		}
	})
	require.Empty(t, s.step().Placements)
	for i := range uint32(3) {
		k := cluster.MakeTaskKey(uid, i)
		why, known := s.planner.WhyWaiting(k)
		require.True(t, known)
		require.Equal(t, 1, why.Tasks)
		require.Len(t, why.Unblockers, 1)
		if u := why.Unblockers[0]; i < 2 {
			require.Equal(t, cycle.MoreRoom, u.Kind)
		} else {
			require.Equal(t, []any{cycle.OtherHost, 3}, []any{u.Kind, u.Hosts})
		}
		s.unblocked(t, k, why)
	}
}
