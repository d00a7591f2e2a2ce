package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// An instance is offered while it is ready. One that is to end is offered no more first, and asked to end after the delay.
func TestEndpointsAreWatched(t *testing.T) {
	const delay = 200 * time.Millisecond
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	var uid cluster.JobUID
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		uid = tx.State().NextJob()
		spec := &cluster.JobSpec{
			Name: "web", Pool: cluster.DefaultPool, Type: cluster.Stateless, Instances: 1,
			Task: cluster.TaskSpec{Resources: cluster.Resources{Fixed: [cluster.NumDimensions]int64{cluster.CPU: 1000}}},
			Discovery: &cluster.Discovery{
				Endpoints: []cluster.Endpoint{{Name: "http", Port: cluster.PortRef{Number: 8080}, Protocol: "http"}}, Delay: delay,
			},
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	}))
	run := sh.down().GetLaunch().GetRun()
	discovery := sluicev1.NewDiscoveryServiceClient(r.conn)
	watch, err := discovery.WatchEndpoints(t.Context(), &sluicev1.ListEndpointsRequest{Job: "web"})
	require.NoError(t, err)
	address := "h0"
	offered := func() (ports []uint32) {
		m, err := watch.Recv()
		require.NoError(t, err)
		for _, e := range m.Endpoints {
			require.Equal(t, address, e.Address)
			ports = append(ports, e.Port)
		}
		return ports
	}
	require.Empty(t, offered(), "it does not run yet")
	sh.status(runStatus(run, sluicev1.RunState_RUN_STATE_RUNNING))
	require.Equal(t, []uint32{8080}, offered())

	address = "10.0.0.7"
	before := r.s.Snapshot().Revision()
	moved := &sluicev1.HostInfo{Name: "h0", Address: address, Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000}}}
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Hosts: []*sluicev1.HostInfo{moved}}}})
	require.Equal(t, []uint32{8080}, offered(), "its host has another address")
	require.Greater(t, r.s.Snapshot().Job(uid).Revision, before)

	chosen := time.Now()
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.JobStopping{Job: uid}) }))
	require.Empty(t, offered())
	require.Equal(t, runFrom(run), runFrom(sh.down().GetKill().GetRun()))
	require.GreaterOrEqual(t, time.Since(chosen), delay)

	_, err = discovery.ListEndpoints(t.Context(), &sluicev1.ListEndpointsRequest{Job: "web", Endpoint: "grpc"})
	require.Equal(t, codes.NotFound, status.Code(err))
}
