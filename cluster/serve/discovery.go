package serve

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type discoveryService struct {
	sluicev1.UnimplementedDiscoveryServiceServer
	*api
}

// ListEndpoints implements sluicev1.DiscoveryServiceServer.
func (a *discoveryService) ListEndpoints(_ context.Context, r *sluicev1.ListEndpointsRequest) (*sluicev1.ListEndpointsResponse, error) {
	return listEndpoints(a.s.Snapshot(), r)
}

// WatchEndpoints implements sluicev1.DiscoveryServiceServer. What changed and back again between two messages is not shown.
func (a *discoveryService) WatchEndpoints(r *sluicev1.ListEndpointsRequest, stream grpc.ServerStreamingServer[sluicev1.ListEndpointsResponse]) error {
	w := a.s.Watch()
	defer w.Close()
	var last *sluicev1.ListEndpointsResponse
	var uid cluster.JobUID
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-a.s.stopped:
			return statusOf(ErrStopped)
		case <-w.C:
		}
		snapshot, changes, all := w.Take()
		if last != nil && !all && !slices.Contains(changes.Jobs, uid) {
			continue
		}
		now, err := listEndpoints(snapshot, r)
		if err != nil {
			return err // the job is gone
		}
		uid = snapshot.JobByName(cluster.JobID(r.Job)).UID
		if last != nil && proto.Equal(&sluicev1.ListEndpointsResponse{Endpoints: now.Endpoints}, &sluicev1.ListEndpointsResponse{Endpoints: last.Endpoints}) {
			continue
		}
		if err := stream.Send(now); err != nil {
			return err
		}
		last = now
	}
}

// listEndpoints returns where the ready instances of a job are. An instance that was chosen to end is not ready any more,
// long before it is told so. Complexity: the tasks of the job.
func listEndpoints(s *cluster.Snapshot, r *sluicev1.ListEndpointsRequest) (*sluicev1.ListEndpointsResponse, error) {
	j, err := findJob(s, r.Job)
	if err != nil {
		return nil, err
	}
	answer := &sluicev1.ListEndpointsResponse{Revision: j.Revision}
	known := r.Endpoint == ""
	for _, v := range j.Versions() {
		known = known || v.Spec.Discovery != nil && slices.ContainsFunc(v.Spec.Discovery.Endpoints, func(e cluster.Endpoint) bool { return e.Name == r.Endpoint })
	}
	if !known {
		return nil, fieldError(codes.NotFound, "endpoint", "is %s: the job offers no such endpoint", quote(r.Endpoint))
	}
	for t := range s.TasksOf(j.UID, 0) {
		spec := j.SpecFor(t)
		if t.Ready == 0 || spec.Discovery == nil {
			continue
		}
		h, request := s.Host(t.Host), spec.TaskOf(t.Key.Instance()).Ports
		for _, e := range spec.Discovery.Endpoints {
			port, ok := request.Resolve(e.Port, t.Ports)
			if !ok || r.Endpoint != "" && r.Endpoint != e.Name {
				continue
			}
			address := h.Address
			if address == "" {
				address = h.ID.Name()
			}
			answer.Endpoints = append(answer.Endpoints, &sluicev1.Endpoint{
				Name: e.Name, Instance: t.Key.Instance(), Address: address, Port: uint32(port), Protocol: e.Protocol,
			})
		}
	}
	return answer, nil
}
