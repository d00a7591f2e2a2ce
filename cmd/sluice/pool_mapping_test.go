package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Doubts about rules come after what was done, for one request within its time, and are about drained pools, too.
func TestDoubtsAboutRules(t *testing.T) {
	noSettings(t)
	f := &pooled{}
	t.Setenv("SLUICE_SERVER", serveFake(t, func(s grpc.ServiceRegistrar) { sluicev1.RegisterPoolServiceServer(s, f) }))
	rules := "rules:\n- {user: ann, pool: root/none}\n- {user: bob, pool: root}\n- {user: cai, pool: root/old}\n" +
		"- {user: dee, pool: root/none}\n- {pool: root/new}\n"
	var said strings.Builder
	code := run(t.Context(), []string{"pool", "mapping", "set", "--file", "-"}, strings.NewReader(rules), &said, &said)
	require.Zero(t, code, said.String())
	require.Equal(t, `queue mapping set: version 2, 5 rules
sluice: rules[0].pool: there is no pool root/none yet: jobs that it finds are refused
sluice: rules[1].pool: root has pools below it: jobs that it finds are refused
sluice: rules[2].pool: root/old is draining: jobs that it finds are refused
sluice: rules[3].pool: there is no pool root/none yet: jobs that it finds are refused
`, said.String())
	require.Equal(t, []bool{true}, f.limited)
}

// pooled has a pool that takes jobs, and others that do not.
type pooled struct {
	sluicev1.UnimplementedPoolServiceServer
	limited []bool // for each list that was asked for, whether for a limited time
}

func (f *pooled) GetQueueMapping(context.Context, *sluicev1.GetQueueMappingRequest) (*sluicev1.GetQueueMappingResponse, error) {
	return &sluicev1.GetQueueMappingResponse{Mapping: &sluicev1.QueueMapping{Version: 1}}, nil
}

func (f *pooled) SetQueueMapping(_ context.Context, req *sluicev1.SetQueueMappingRequest) (*sluicev1.SetQueueMappingResponse, error) {
	req.Mapping.Version++
	return &sluicev1.SetQueueMappingResponse{Mapping: req.Mapping}, nil
}

func (f *pooled) ListPools(ctx context.Context, _ *sluicev1.ListPoolsRequest) (*sluicev1.ListPoolsResponse, error) {
	_, limited := ctx.Deadline()
	f.limited = append(f.limited, limited)
	return &sluicev1.ListPoolsResponse{Pools: []*sluicev1.Pool{
		{Spec: &sluicev1.PoolSpec{Path: "root"}, State: sluicev1.PoolState_POOL_STATE_OPEN},
		{Spec: &sluicev1.PoolSpec{Path: "root/new"}, State: sluicev1.PoolState_POOL_STATE_OPEN, Leaf: true},
		{Spec: &sluicev1.PoolSpec{Path: "root/old"}, State: sluicev1.PoolState_POOL_STATE_DRAINING, Leaf: true},
	}}, nil
}
