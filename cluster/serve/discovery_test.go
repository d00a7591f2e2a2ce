package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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

func TestPagesOfEndpoints(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	sh := r.connect("s", 1)
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		spec := &cluster.JobSpec{
			Name: "web", Pool: cluster.DefaultPool, Type: cluster.Stateless, Instances: 3,
			Discovery: &cluster.Discovery{Endpoints: []cluster.Endpoint{{Name: "b", Port: cluster.PortRef{Number: 1}}, {Name: "a", Port: cluster.PortRef{Number: 2}}}},
		}
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: spec}}})
	}))
	var runs []*sluicev1.RunStatus
	for range 3 {
		runs = append(runs, runStatus(sh.down().GetLaunch().GetRun(), sluicev1.RunState_RUN_STATE_RUNNING))
	}
	for _, run := range runs {
		sh.status(run)
	}
	for i := range uint32(3) {
		r.eventually(cluster.MakeTaskKey(1, i), func(task *cluster.Task) bool { return task.Ready != 0 })
	}
	discovery := sluicev1.NewDiscoveryServiceClient(r.conn)
	for size := range uint32(8) {
		request := &sluicev1.ListEndpointsRequest{Job: "web"}
		if size > 0 {
			request.PageSize = &size
		}
		all := pages(t, func(token string) (*sluicev1.ListEndpointsResponse, error) {
			request.PageToken = token
			return discovery.ListEndpoints(t.Context(), request)
		}, (*sluicev1.ListEndpointsResponse).GetEndpoints)
		var got []string
		for _, e := range all {
			got = append(got, fmt.Sprint(e.Instance, e.Name))
		}
		require.Equal(t, []string{"0b", "0a", "1b", "1a", "2b", "2a"}, got)
	}
	watch, err := discovery.WatchEndpoints(t.Context(), &sluicev1.ListEndpointsRequest{Job: "web", PageSize: proto.Uint32(1)})
	require.NoError(t, err)
	_, err = watch.Recv()
	requireViolation(t, err, codes.InvalidArgument, "page_size", "a watch has the whole list")
}

// sent keeps what is sent to a watcher.
type sent struct {
	grpc.ServerStreamingServer[sluicev1.ListEndpointsResponse]
	all []*sluicev1.ListEndpointsResponse
}

func (s *sent) Send(m *sluicev1.ListEndpointsResponse) error {
	s.all = append(s.all, m)
	return nil
}

// However many endpoints a job has, no message is longer than clients take.
func TestALongListOfEndpointsIsSentInParts(t *testing.T) {
	var stream sent
	require.NoError(t, sendEndpoints(&stream, nil, 7))
	require.Len(t, stream.all, 1)
	require.False(t, stream.all[0].More)

	endpoint := &sluicev1.Endpoint{Name: "http", Address: strings.Repeat("host", 20), Port: 8080}
	stream = sent{}
	require.NoError(t, sendEndpoints(&stream, slices.Repeat([]*sluicev1.Endpoint{endpoint}, 50_000), 7))
	n := 0
	for i, m := range stream.all {
		n += len(m.Endpoints)
		require.Less(t, proto.Size(m), 2<<20)
		require.Equal(t, i+1 < len(stream.all), m.More)
	}
	require.Equal(t, 50_000, n)
}
