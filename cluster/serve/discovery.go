package serve

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type discoveryService struct {
	sluicev1.UnimplementedDiscoveryServiceServer
	*api
}

// ListEndpoints implements sluicev1.DiscoveryServiceServer. Complexity: the tasks of the job from the beginning of the page on that it
// takes to fill it.
func (a *discoveryService) ListEndpoints(_ context.Context, r *sluicev1.ListEndpointsRequest) (*sluicev1.ListEndpointsResponse, error) {
	s := a.s.Snapshot()
	j, err := findOffer(s, r)
	if err != nil {
		return nil, err
	}
	page, err := openLong(r)
	if err != nil {
		return nil, err
	}
	from, last := offered{}, offered{}
	if page.after != "" {
		if _, err := fmt.Sscan(page.after, &from.instance, &from.item); err != nil {
			return nil, fieldError(codes.InvalidArgument, "page_token", "is not of this list")
		}
		from.item++
	}
	answer := &sluicev1.ListEndpointsResponse{Revision: j.Revision}
	for at, e := range endpoints(s, j, r.Endpoint, from) {
		if !page.Add(e) {
			answer.NextPageToken = page.Token(fmt.Sprint(last.instance, last.item))
			break
		}
		answer.Endpoints, last = append(answer.Endpoints, e), at
	}
	return answer, nil
}

// WatchEndpoints implements sluicev1.DiscoveryServiceServer. What changed and back again between two messages is not shown.
func (a *discoveryService) WatchEndpoints(r *sluicev1.ListEndpointsRequest, stream grpc.ServerStreamingServer[sluicev1.ListEndpointsResponse]) error {
	if r.PageSize != nil || r.PageToken != "" {
		return fieldError(codes.InvalidArgument, "page_size", "is for ListEndpoints: a watch has the whole list")
	}
	w := a.s.Watch()
	defer w.Close()
	var uid cluster.JobUID
	var last []*sluicev1.Endpoint
	for first := true; ; {
		if err := a.s.await(stream.Context(), w.C); err != nil {
			return err
		}
		snapshot, changes, all := w.Take()
		if !first && !all && !slices.Contains(changes.Jobs, uid) {
			continue
		}
		j, err := findOffer(snapshot, r)
		if err != nil {
			return err // the job is gone
		}
		uid = j.UID
		var now []*sluicev1.Endpoint
		for _, e := range endpoints(snapshot, j, r.Endpoint, offered{}) {
			now = append(now, e)
		}
		if !first && slices.EqualFunc(now, last, func(a, b *sluicev1.Endpoint) bool { return proto.Equal(a, b) }) {
			continue
		}
		first, last = false, now
		if err := sendEndpoints(stream, now, j.Revision); err != nil {
			return err
		}
	}
}

// sendEndpoints sends a list in as many messages as it takes.
func sendEndpoints(stream grpc.ServerStreamingServer[sluicev1.ListEndpointsResponse], all []*sluicev1.Endpoint, revision uint64) error {
	for {
		part := &sluicev1.ListEndpointsResponse{Revision: revision}
		room := page{left: math.MaxInt}
		for len(all) > 0 && room.Add(all[0]) {
			part.Endpoints, all = append(part.Endpoints, all[0]), all[1:]
		}
		part.More = len(all) > 0
		if err := stream.Send(part); err != nil || !part.More {
			return err
		}
	}
}

// findOffer returns the job of a request, if it offers, or ever offered, such an endpoint.
func findOffer(s *cluster.Snapshot, r *sluicev1.ListEndpointsRequest) (*cluster.Job, error) {
	j, err := findJob(s, r.Job)
	if err != nil {
		return nil, err
	}
	known := r.Endpoint == ""
	for _, v := range j.Versions() {
		known = known || v.Spec.Discovery != nil && slices.ContainsFunc(v.Spec.Discovery.Endpoints, func(e cluster.Endpoint) bool { return e.Name == r.Endpoint })
	}
	if !known {
		return nil, fieldError(codes.NotFound, "endpoint", "is %s: the job offers no such endpoint", quote(r.Endpoint))
	}
	return j, nil
}

// offered is an endpoint's place in the list: the instance, and which of those that its job says it is.
type offered struct {
	instance uint32
	item     int
}

// endpoints yields where the ready instances of a job are, of one endpoint or, where the name is empty, of all, from a place on. An
// instance that was chosen to end is not ready any more, long before it is told so. Complexity: the tasks of the job from there on.
func endpoints(s *cluster.Snapshot, j *cluster.Job, name string, from offered) iter.Seq2[offered, *sluicev1.Endpoint] {
	return func(yield func(offered, *sluicev1.Endpoint) bool) {
		for t := range s.TasksOf(j.UID, from.instance) {
			spec, i := j.SpecFor(t), t.Key.Instance()
			if t.Ready == 0 || spec.Discovery == nil {
				continue
			}
			h, request := s.Host(t.Host), spec.TaskOf(i).Ports
			for n, e := range spec.Discovery.Endpoints {
				port, ok := request.Resolve(e.Port, t.Ports)
				if !ok || name != "" && name != e.Name || i == from.instance && n < from.item {
					continue
				}
				address := h.Address
				if address == "" {
					address = h.ID.Name()
				}
				if !yield(offered{i, n}, &sluicev1.Endpoint{Name: e.Name, Instance: i, Address: address, Port: uint32(port), Protocol: e.Protocol}) {
					return
				}
			}
		}
	}
}
