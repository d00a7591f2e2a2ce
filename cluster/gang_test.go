package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func TestGangVariables(t *testing.T) {
	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 100, cluster.Memory: 100}}
	for name, c := range map[string]struct {
		address string
		ports   cluster.PortRequest
		picked  []uint16
		peers   string
	}{
		"by name, no ports":      {"", cluster.PortRequest{}, nil, "h0,,h0"},
		"the first dynamic port": {"10.0.0.7", cluster.PortRequest{Numbers: []uint16{80}, Dynamic: 2}, []uint16{80, 31000, 31001}, "10.0.0.7:31000,,10.0.0.7:31000"},
		"a port by number":       {"h.example", cluster.PortRequest{Numbers: []uint16{80}}, []uint16{80}, "h.example:80,,h.example:80"},
		"IPv6":                   {"fd00::7", cluster.PortRequest{Numbers: []uint16{80}}, []uint16{80}, "[fd00::7]:80,,[fd00::7]:80"},
		"IPv6, no ports":         {"fd00::7", cluster.PortRequest{}, nil, "fd00::7,,fd00::7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster.NewState()
			apply := func(e cluster.Event) {
				t.Helper()
				require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: e}))
			}
			spec := &cluster.JobSpec{
				Name: "ring", Pool: cluster.RootPool, Instances: 4, Gang: &cluster.Gang{Minimum: 3},
				Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}, Ports: c.ports},
			}
			apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
			for _, i := range []uint32{0, 2} { // each on a host of its own address, of which there is one port of a number
				id := cluster.MakeHostID(cluster.ShardID([]string{"a", "", "b"}[i]), "h0")
				apply(&cluster.HostReported{ID: id, Machine: cluster.Machine{
					Capacity: room, Address: c.address, Ports: []cluster.PortRange{{First: 80, Last: 80}, {First: 31000, Last: 31009}},
					Capabilities: cluster.CanPorts,
				}})
				apply(&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: id, Ports: c.picked})
			}
			for instance, rank := range map[uint32]string{0: "0", 1: "1", 3: "3"} {
				require.Equal(t, []cluster.KeyValue{
					{Key: "SLUICE_GANG_RANK", Value: rank}, {Key: "SLUICE_GANG_SIZE", Value: "3"}, {Key: "SLUICE_GANG_PEERS", Value: c.peers},
				}, s.Job(1).GangVariables(s.Task(cluster.MakeTaskKey(1, instance)), s.GangPeers(s.Job(1))))
			}
		})
	}
}

// A list that no process could be started with is left out.
func TestGangPeersFitIntoAVariable(t *testing.T) {
	const host = 200 // bytes of a name
	for _, c := range []struct {
		size int
		want int // bytes
	}{{600, 600*(host+1) - 1}, {612, 0}} {
		s := cluster.NewState()
		apply := func(e cluster.Event) {
			t.Helper()
			require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: e}))
		}
		spec := &cluster.JobSpec{
			Name: "ring", Pool: cluster.RootPool, Instances: uint32(c.size), Gang: &cluster.Gang{Minimum: uint32(c.size)},
			Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"x"}}}},
		}
		apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}})
		apply(&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Address: strings.Repeat("h", host)}})
		for i := range uint32(c.size) {
			apply(&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: "s/h"})
		}
		require.Len(t, s.GangPeers(s.Job(1)), c.want)
	}
}
