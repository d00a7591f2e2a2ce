package serve

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // registers what clients in other languages may compress with
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// MaxRequestBytes is the size of the largest message that the server takes; a larger one is RESOURCE_EXHAUSTED.
const MaxRequestBytes = 4 << 20

// Bounds of a connection.
const (
	maxHeaderBytes       = 16 << 10
	maxConnectionStreams = 1000 // calls in progress
	handshakeTimeout     = 10 * time.Second
)

// api implements the services for clients. Reads come from the latest snapshot; changes run in the writer.
type api struct {
	s     *Scheduler
	about About
}

// About is what GetStatus says of the software and its configuration.
type About struct {
	Version   string
	CostModel string
	Solver    string
}

// NewServer returns a gRPC server with all services of the scheduler, health and reflection, ready to Serve. Everything
// that a client or a host manager sends passes the gate first; options come on top of the server's own.
func NewServer(s *Scheduler, about About, options ...grpc.ServerOption) *grpc.Server {
	a := &api{s: s, about: about}
	if s.config.Traces != nil {
		options = append(options, s.config.Traces.option())
	}
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConnectionStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.InTapHandle(limitUnary),
		grpc.ForceServerCodecV2(newCodec()),
	}, options...)...)
	at := gated{server, gate{s: s, check: a.check}}
	sluicev1.RegisterJobServiceServer(at, &jobService{api: a})
	sluicev1.RegisterTaskServiceServer(at, &taskService{api: a})
	sluicev1.RegisterPoolServiceServer(at, &poolService{api: a})
	sluicev1.RegisterHostServiceServer(at, &hostService{api: a})
	sluicev1.RegisterClusterServiceServer(at, &clusterService{api: a})
	sluicev1.RegisterAccessServiceServer(at, &accessService{api: a})
	sluicev1.RegisterDiscoveryServiceServer(at, &discoveryService{api: a})
	sluicev1.RegisterHostManagerServiceServer(at, hostManagers{s: s})
	sluicev1.RegisterVolumeServiceServer(at, &volumeService{api: a})
	healthv1.RegisterHealthServer(at, health.NewServer())
	reflection.Register(at)
	return server
}

// do runs a change in the writer, if the caller may make it as things are then, and returns a status.
func (a *api) do(ctx context.Context, change func(*Tx) error) error {
	c := callOf(ctx)
	if a.s.stalled.Load() {
		return errStalled
	}
	return statusOf(a.s.Do(ctx, func(tx *Tx) error {
		if err := c.allow(tx.State(), c.request); err != nil {
			return err
		}
		before := tx.State().Revision()
		err := change(tx)
		if now := tx.State().Revision(); now > before && traced(ctx) {
			a.s.config.Traces.changed(ctx, now)
		}
		return err
	}))
}

// jobTable is what is needed of a State or a Snapshot to find a job and its tasks.
type jobTable interface {
	JobByName(cluster.JobID) *cluster.Job
	Task(cluster.TaskKey) *cluster.Task
}

// findJob returns the job of that name or NOT_FOUND.
func findJob(in jobTable, name string) (*cluster.Job, error) {
	if j := in.JobByName(cluster.JobID(name)); j != nil {
		return j, nil
	}
	return nil, resourceError(codes.NotFound, "job", name, "there is no such job")
}

// instancesWord says which instances a job has.
func instancesWord(j *cluster.Job) string {
	if j.Spec.Type == cluster.Daemon {
		return "it has one for each host that matches"
	}
	return fmt.Sprintf("it has instances 0 to %d", j.Spec.Instances-1)
}

// findTask returns the task and its job or NOT_FOUND.
func findTask(in jobTable, name string, instance uint32) (*cluster.Task, *cluster.Job, error) {
	j, err := findJob(in, name)
	if err != nil {
		return nil, nil, err
	}
	if t := in.Task(cluster.MakeTaskKey(j.UID, instance)); t != nil && !t.Key.IsCopy() {
		return t, j, nil
	}
	return nil, nil, resourceError(codes.NotFound, "job", name, "there is no instance %d: %s", instance, instancesWord(j))
}

// checkMayRun refuses to have tasks of a job run again, by the spec that it has or is to have, that has ended: if its deadline is
// over, at which it would have failed, or if its pool has been given pools below it since: jobs run in the lowest ones only.
func checkMayRun(tx *Tx, j *cluster.Job, spec *cluster.JobSpec) error {
	at := spec.Limits.Deadline
	switch {
	case !tx.State().IsLeaf(j.Spec.Pool):
		return resourceError(codes.FailedPrecondition, "job", string(j.Spec.Name),
			"its pool %s has pools below it by now, and jobs run in the lowest ones only: submit another job there", quote(string(j.Spec.Pool)))
	case at != 0 && at <= tx.Now() && j.State().Terminal():
		return resourceError(codes.FailedPrecondition, "job", string(j.Spec.Name),
			"its deadline, %s, is over, and it would fail at once: submit another job, or give a service another deadline", at.Go().UTC().Format(time.RFC3339))
	}
	return nil
}

// checkJobVersion refuses a change that was made for another version of the job.
func checkJobVersion(j *cluster.Job, expected *uint64) error {
	if expected == nil || *expected == j.Version {
		return nil
	}
	return resourceError(codes.Aborted, "job", string(j.Spec.Name),
		"its version is %d, not %d: get it and decide anew", j.Version, *expected)
}

// await waits for the next of what a stream tells of. An error says why the stream ends before.
func (s *Scheduler) await(ctx context.Context, next <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return statusOf(ctx.Err())
	case <-s.stopped:
		return statusOf(ErrStopped)
	case <-next:
		return nil
	}
}
