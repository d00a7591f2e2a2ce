package serve

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/cycle/netview"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

var graphFormats = map[sluicev1.ExportGraphRequest_Format]netview.Format{
	sluicev1.ExportGraphRequest_DOT:     netview.DOT,
	sluicev1.ExportGraphRequest_MERMAID: netview.Mermaid,
	sluicev1.ExportGraphRequest_DIMACS:  netview.DIMACS,
	sluicev1.ExportGraphRequest_JSON:    netview.JSON,
}

func checkExport(r *sluicev1.ExportGraphRequest, v *violations) {
	if r.Format == sluicev1.ExportGraphRequest_FORMAT_UNSPECIFIED {
		v.Invalid("format", "is required: DOT, MERMAID, DIMACS or JSON")
	}
	switch {
	case r.Job != "":
		checkName(r.Job, "job", v)
	case r.Instance != 0:
		v.Invalid("instance", "is %d of no job: give the job too, or neither for the whole network", r.Instance)
	}
}

// ExportGraph implements sluicev1.ClusterServiceServer: the network as the last solve left it. It is copied between two
// cycles and written beside them. Complexity: nodes and arcs.
func (a *clusterService) ExportGraph(r *sluicev1.ExportGraphRequest, stream grpc.ServerStreamingServer[sluicev1.ExportGraphResponse]) error {
	var around *cluster.TaskKey
	if r.Job != "" {
		t, _, err := findTask(a.s.Snapshot(), r.Job, r.Instance)
		if err != nil {
			return err
		}
		around = &t.Key
	}
	var network *cycle.Network
	var failed error
	if err := a.s.consult(stream.Context(), func(p *cycle.Supervisor) { network, failed = p.Network(around) }); err != nil {
		return statusOf(err)
	}
	switch {
	case errors.Is(failed, cycle.ErrNotInNetwork):
		return resourceError(codes.FailedPrecondition, "task", fmt.Sprintf("%s/%d", r.Job, r.Instance),
			"it has no part in the network of the last solve: only tasks that wait, or that the last solve placed, have")
	case failed != nil:
		return status.Error(codes.FailedPrecondition, failed.Error())
	}
	out := &chunker{send: func(data []byte) error { return stream.Send(&sluicev1.ExportGraphResponse{Data: data}) }}
	if err := netview.Write(out, network, graphFormats[r.Format]); err != nil {
		return exportStatus(err)
	}
	return exportStatus(out.Flush())
}
