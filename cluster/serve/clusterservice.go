package serve

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type clusterService struct {
	sluicev1.UnimplementedClusterServiceServer
	*api
}

// GetStatus implements sluicev1.ClusterServiceServer. Complexity: jobs + hosts + runs that are measured.
func (a *clusterService) GetStatus(ctx context.Context, _ *sluicev1.GetStatusRequest) (*sluicev1.GetStatusResponse, error) {
	s := a.s.Snapshot()
	answer := &sluicev1.GetStatusResponse{
		ClusterId: s.ClusterID(),
		Version:   a.about.Version,
		StartTime: timestamppb.New(a.s.Started()),
		Revision:  s.Revision(),
		Jobs:      uint64(s.NumJobs()),
		Hosts:     uint64(s.NumHosts()),
		CostModel: a.costModelText(s, callOf(ctx).who),
		Solver:    a.about.Solver,
		Mode:      modeTo(s.Mode()),
	}
	if s.Mode().Restored {
		for _, name := range a.s.shards.untold(s) {
			answer.AwaitedShards = append(answer.AwaitedShards, string(name))
		}
	}
	if total := poolTotals(s)[cluster.RootPool]; total != nil {
		answer.ActiveJobs, answer.WaitingTasks, answer.RunningTasks = total.activeJobs, total.waiting, total.running
	}
	addStates(s, answer)
	a.addHosts(s, answer)
	if last, _ := a.s.LastCycle(); last.Number > 0 {
		answer.LastCycle = cycleTo(&last, a.about.Solver)
	}
	return answer, nil
}

// addStates counts jobs, tasks and hosts by state. Complexity: jobs + hosts.
func addStates(s *cluster.Snapshot, answer *sluicev1.GetStatusResponse) {
	jobs, tasks, hosts := map[sluicev1.JobState]uint32{}, map[sluicev1.TaskState]uint32{}, map[sluicev1.HostState]uint32{}
	for j := range s.Jobs(0) {
		jobs[jobStates[j.State()]]++
		for state, n := range j.Counts {
			if n > 0 {
				tasks[taskStates[state]] += n
			}
		}
	}
	for h := range s.Hosts("") {
		hosts[hostStateTo(h)]++
	}
	for _, state := range slices.Sorted(maps.Keys(jobs)) {
		answer.JobCounts = append(answer.JobCounts, &sluicev1.JobStateCount{State: state, Count: jobs[state]})
	}
	for _, state := range slices.Sorted(maps.Keys(tasks)) {
		answer.TaskCounts = append(answer.TaskCounts, &sluicev1.TaskStateCount{State: state, Count: tasks[state]})
	}
	for _, state := range slices.Sorted(maps.Keys(hosts)) {
		answer.HostCounts = append(answer.HostCounts, &sluicev1.HostStateCount{State: state, Count: hosts[state]})
	}
}

// addHosts sums up the hosts, in all and by shard.
func (a *clusterService) addHosts(s *cluster.Snapshot, answer *sluicev1.GetStatusResponse) {
	var capacity, allocated cluster.Resources
	shards := map[cluster.ShardID]*sluicev1.ShardStatus{}
	for _, info := range a.s.Shards() {
		sh := &sluicev1.ShardStatus{
			Name:            string(info.Name),
			Driver:          info.Driver,
			Connected:       info.Connected,
			Since:           timestamppb.New(info.Since),
			CommandsPending: uint64(info.Pending),
		}
		shards[info.Name] = sh
		answer.Shards = append(answer.Shards, sh)
	}
	for h := range s.Hosts("") {
		if h.State() == cluster.HostUp {
			answer.HostsUp++
		}
		capacity = capacity.Add(h.Capacity)
		allocated = allocated.Add(h.Allocated)
		if sh := shards[h.ID.Shard()]; sh != nil {
			sh.Hosts++
			sh.Tasks += uint64(len(h.Tasks))
		}
	}
	answer.Capacity, answer.Allocated = vectorTo(capacity), vectorTo(allocated)
	if measured := a.s.hostUsage(s); len(measured) > 0 {
		var used cluster.Resources
		for _, u := range measured { // in any order: a sum
			used = used.Add(u)
		}
		answer.Used = vectorTo(used)
	}
}

// WatchCycles implements sluicev1.ClusterServiceServer.
func (a *clusterService) WatchCycles(_ *sluicev1.WatchCyclesRequest, stream grpc.ServerStreamingServer[sluicev1.WatchCyclesResponse]) error {
	for {
		last, next := a.s.LastCycle()
		if last.Number > 0 {
			if err := stream.Send(&sluicev1.WatchCyclesResponse{Cycle: cycleTo(&last, a.about.Solver)}); err != nil {
				return err
			}
		}
		if err := a.s.await(stream.Context(), next); err != nil {
			return err
		}
	}
}

func cycleTo(c *CycleSummary, solver string) *sluicev1.CycleSummary {
	st := &c.Stats
	p := &sluicev1.CycleSummary{
		Number:       c.Number,
		Time:         timestamppb.New(c.At),
		TotalUs:      c.Total.Microseconds(),
		Placements:   uint32(c.Done.Placements),
		Preemptions:  uint32(c.Done.Preemptions),
		Migrations:   uint32(c.Done.Migrations),
		Waiting:      uint64(st.Waiting),
		Classes:      uint32(st.Classes),
		Nodes:        uint64(st.Nodes),
		Arcs:         uint64(st.Arcs),
		NodesTouched: uint64(st.NodesTouched),
		ArcsTouched:  uint64(st.ArcsTouched),
		Rounds:       uint32(st.Rounds),
		SolverWork:   uint64(st.SolverWork),
		Solver:       solver,
		Objective:    st.Objective,
		LimitedBy:    st.LimitedBy,
		Fault:        st.Fault,
	}
	rest := c.Total
	phase := func(name string, d time.Duration) {
		p.Phases = append(p.Phases, &sluicev1.CyclePhase{Name: name, DurationUs: d.Microseconds()})
		rest -= d
	}
	for i, d := range st.Durations {
		phase(cycle.Phase(i).String(), d)
	}
	phase("commit", c.Commit)
	phase("other", max(0, rest))
	return p
}

// exportChunk is the size of one message of an export.
const exportChunk = 256 << 10

// ExportSnapshot implements sluicev1.ClusterServiceServer: a file that ReadSnapshot reads.
func (a *clusterService) ExportSnapshot(_ *sluicev1.ExportSnapshotRequest, stream grpc.ServerStreamingServer[sluicev1.ExportSnapshotResponse]) error {
	s := a.s.Snapshot()
	revision := s.Revision()
	out := &chunker{send: func(data []byte) error {
		err := stream.Send(&sluicev1.ExportSnapshotResponse{Data: data, Revision: revision})
		revision = 0 // in the first message only
		return err
	}}
	if err := writeSnapshot(out, s); err != nil {
		return exportStatus(err)
	}
	return exportStatus(out.Flush())
}

func exportStatus(err error) error {
	if _, is := status.FromError(err); is { // nil too
		return err
	}
	return status.Errorf(codes.Internal, "exporting: %v", err)
}

// chunker is a writer that sends what is written in chunks.
type chunker struct {
	send   func([]byte) error
	buffer []byte
}

var _ io.Writer = (*chunker)(nil)

// Write implements io.Writer.
func (c *chunker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), exportChunk-len(c.buffer))
		c.buffer = append(c.buffer, rest[:n]...)
		rest = rest[n:]
		if len(c.buffer) == exportChunk {
			if err := c.Flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Flush sends what is left.
func (c *chunker) Flush() error {
	if len(c.buffer) == 0 {
		return nil
	}
	data := c.buffer
	c.buffer = make([]byte, 0, exportChunk) // the message may outlive the call
	return c.send(data)
}

// ListMembers implements sluicev1.ClusterServiceServer. All members are asked at once.
func (a *clusterService) ListMembers(ctx context.Context, _ *sluicev1.ListMembersRequest) (*sluicev1.ListMembersResponse, error) {
	if a.s.config.Members == nil {
		return &sluicev1.ListMembersResponse{}, nil
	}
	return &sluicev1.ListMembersResponse{Members: a.s.config.Members(ctx)}, nil
}
