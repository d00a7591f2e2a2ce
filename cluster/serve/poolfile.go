package serve

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// ParsePools converts specs of pools and holds them to the rules of CreatePool, called for one after the other. The root may
// be among them.
func ParsePools(specs []*sluicev1.PoolSpec) ([]cluster.Pool, error) {
	state := cluster.NewState()
	var pools []cluster.Pool
	for i, spec := range specs {
		var v violations
		p := poolFrom(spec, "spec", &v)
		parent := p.Path.Parent()
		switch {
		case !v.Empty():
		case p.Path != cluster.RootPool && state.Pool(p.Path) != nil:
			v.Invalid("spec.path", "is %s, which is there twice", quote(string(p.Path)))
		case parent != "" && state.Pool(parent) == nil:
			v.Invalid("spec.path", "is %s: there is no pool %s above it: put that first", quote(string(p.Path)), quote(string(parent)))
		default:
			checkTree(state, p, &v)
		}
		if !v.Empty() {
			return nil, fmt.Errorf("serve: pool %d, %q: %s", i+1, p.Path, status.Convert(v.status(codes.InvalidArgument)).Message())
		}
		if err := state.Apply(cluster.Record{Seq: state.Seq() + 1, Event: &cluster.PoolPut{Pool: *p}}); err != nil {
			return nil, fmt.Errorf("serve: pool %d: %w", i+1, err)
		}
		pools = append(pools, *p)
	}
	return pools, nil
}
