package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
)

func portMachine(ranges ...cluster.PortRange) cluster.Machine {
	return cluster.Machine{Capacity: vector(1<<20, 1<<20), Ports: ranges, Capabilities: cluster.CanPorts}
}

func portJob(uid cluster.JobUID, ports cluster.PortRequest) *cluster.JobsSubmitted {
	return &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
		Name: cluster.JobID(uid.String()), Pool: cluster.RootPool, Instances: 10,
		Task: cluster.TaskSpec{Resources: vector(1, 1), Ports: ports},
	}}}}
}

// As many as are said to fit can be picked one after the other, and then no more; no port is given twice, and all come
// back.
func TestPortsAreGivenExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		first := rapid.Uint16Range(1, 20).Draw(t, "first")
		gap := rapid.Uint16Range(2, 5).Draw(t, "gap")
		size := rapid.Uint16Range(0, 12).Draw(t, "size")
		machine := portMachine(cluster.PortRange{First: first, Last: first + 3}, cluster.PortRange{First: first + 3 + gap, Last: first + 3 + gap + size})
		h.emit(&cluster.HostReported{ID: host, Machine: machine})
		taken := map[uint16]bool{}
		var placed []cluster.TaskKey
		for range rapid.IntRange(1, 5).Draw(t, "jobs") {
			request := cluster.PortRequest{
				Numbers: rapid.SliceOfNDistinct(rapid.Uint16Range(1, 40), 0, 2, rapid.ID[uint16]).Draw(t, "numbers"),
				Dynamic: rapid.Uint16Range(0, 3).Draw(t, "dynamic"),
			}
			uid := h.state.NextJob()
			h.emit(portJob(uid, request))
			task := &h.state.Job(uid).Spec.Task
			fit := task.CountOn(h.state.Host(host), 10)
			for i := range uint32(fit) {
				before := h.state.Host(host)
				on, ok := task.Pick(before)
				require.True(t, ok)
				k := cluster.MakeTaskKey(uid, i)
				h.emit(&cluster.Placed{Task: k, Run: 1, Host: host, Ports: on.Ports})
				require.Equal(t, task.Bind(before, on).PortsTaken, h.state.Host(host).PortsTaken)
				require.Len(t, on.Ports, request.Count())
				for _, p := range on.Ports {
					require.False(t, taken[p], "port %d is given twice", p)
					taken[p] = true
				}
				placed = append(placed, k)
			}
			if fit < 10 {
				on, ok := task.Pick(h.state.Host(host))
				require.False(t, ok)
				require.ErrorIs(t, h.try(&cluster.Placed{Task: cluster.MakeTaskKey(uid, 9), Run: 1, Host: host, Ports: on.Ports}), cluster.ErrIllegal)
			}
		}
		require.Equal(t, cluster.CountPorts(machine.Ports)-len(taken), h.state.Host(host).PortsFree())
		for _, k := range placed {
			before := h.state.Host(host)
			h.emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded})
			require.Equal(t, len(h.state.Task(k).Ports) > 0, h.state.Host(host).GainedPorts(before))
		}
		require.Empty(t, h.state.Host(host).PortsTaken)
	})
}

func TestWrongPortsAreRefused(t *testing.T) {
	h := newHistory(t)
	h.emit(&cluster.HostReported{ID: host, Machine: portMachine(cluster.PortRange{First: 80, Last: 83})},
		portJob(1, cluster.PortRequest{Numbers: []uint16{81}, Dynamic: 1}))
	place := func(i uint32, ports ...uint16) error {
		return h.try(&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: host, Ports: ports})
	}
	for _, ports := range [][]uint16{nil, {81}, {80, 81}, {81, 81}, {81, 84}, {81, 80, 82}} {
		require.ErrorIs(t, place(0, ports...), cluster.ErrIllegal, "%v", ports)
	}
	require.NoError(t, place(0, 81, 83))
	require.ErrorIs(t, place(1, 81, 80), cluster.ErrIllegal, "81 is taken")
}

// TestPortsOfAHold: what is kept for a task is nobody else's, also after those who had it are gone.
func TestPortsOfAHold(t *testing.T) {
	h := newHistory(t)
	h.emit(&cluster.HostReported{ID: host, Machine: portMachine(cluster.PortRange{First: 80, Last: 81})},
		portJob(1, cluster.PortRequest{Numbers: []uint16{80}}), portJob(2, cluster.PortRequest{Dynamic: 1}))
	has, waits, other := cluster.MakeTaskKey(1, 0), cluster.MakeTaskKey(1, 1), cluster.MakeTaskKey(2, 0)
	h.emit(&cluster.Placed{Task: has, Run: 1, Host: host, Ports: []uint16{80}},
		&cluster.TaskHeld{Task: waits, Hold: cluster.Hold{Host: host, Ports: []uint16{80}, Until: 1 << 40}})
	h.emit(&cluster.TaskStatus{Task: has, Run: 1, State: cluster.TaskSucceeded})
	on := h.state.Host(host)
	require.Equal(t, 1, on.PortsFree())
	picked, ok := h.state.Job(2).Spec.Task.Pick(on)
	require.True(t, ok)
	require.Equal(t, []uint16{81}, picked.Ports)
	require.ErrorIs(t, h.try(&cluster.Placed{Task: other, Run: 1, Host: host, Ports: []uint16{80}}), cluster.ErrIllegal)
	h.emit(&cluster.Placed{Task: waits, Run: 1, Host: host, Ports: []uint16{80}})
	require.Empty(t, h.state.Host(host).PortsWithheld)
}

func TestResolve(t *testing.T) {
	r := cluster.PortRequest{Numbers: []uint16{80}, Dynamic: 2, Names: []string{"http", "admin"}}
	ports := []uint16{80, 9001, 9000}
	for _, c := range []struct {
		ref  cluster.PortRef
		want uint16
	}{
		{cluster.PortRef{Number: 443}, 443},
		{cluster.PortRef{Name: "admin"}, 9000},
		{cluster.PortRef{}, 9001},
		{cluster.PortRef{Index: 1}, 9000},
		{cluster.PortRef{Index: 2}, 0},
		{cluster.PortRef{Name: "none"}, 0},
	} {
		got, ok := r.Resolve(c.ref, ports)
		require.Equal(t, c.want, got, "%+v", c.ref)
		require.Equal(t, c.want != 0, ok)
		require.Equal(t, ok, r.Refers(c.ref))
	}
}

func TestCapabilities(t *testing.T) {
	for i, name := range cluster.Capabilities(1<<12 - 1).Names() {
		require.NotEmpty(t, name)
		require.Equal(t, cluster.Capabilities(1<<i), cluster.ParseCapabilities([]string{name, "something newer"}))
	}
	h := newHistory(t)
	machine := portMachine(cluster.PortRange{First: 80, Last: 90})
	machine.Capabilities = 0
	h.emit(&cluster.HostReported{ID: host, Machine: machine}, portJob(1, cluster.PortRequest{Dynamic: 1}))
	require.Zero(t, h.state.Job(1).Spec.Task.CountOn(h.state.Host(host), 10))
	err := h.try(&cluster.Placed{Task: cluster.MakeTaskKey(1, 0), Run: 1, Host: host, Ports: []uint16{80}})
	require.ErrorContains(t, err, "cannot do what task 1.0 needs: ports")
}

// A job may ask more of a host manager than its tasks do: to run what it says beside a task that has to leave.
func TestCapabilitiesForTheJob(t *testing.T) {
	h := newHistory(t)
	submitted := portJob(1, cluster.PortRequest{})
	submitted.Jobs[0].Spec.Preemption.Command = []string{"save"}
	h.emit(&cluster.HostReported{ID: host, Machine: portMachine()}, submitted)
	k := cluster.MakeTaskKey(1, 0)
	const lacks = "cannot do what task 1.0 needs: on-preempt"
	require.ErrorContains(t, h.try(&cluster.Placed{Task: k, Run: 1, Host: host}), lacks)
	require.ErrorContains(t, h.try(&cluster.TaskHeld{Task: k, Hold: cluster.Hold{Host: host, Until: cluster.Forever}}), lacks)
}
