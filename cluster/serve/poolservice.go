package serve

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type poolService struct {
	sluicev1.UnimplementedPoolServiceServer
	*api
}

// CreatePool implements sluicev1.PoolServiceServer.
func (a *poolService) CreatePool(ctx context.Context, r *sluicev1.CreatePoolRequest) (*sluicev1.CreatePoolResponse, error) {
	path := cluster.PoolPath(r.Spec.GetPath())
	var made *sluicev1.Pool
	err := a.do(ctx, func(tx *Tx) error {
		parent := path.Parent()
		switch {
		case tx.State().Pool(path) != nil:
			return fieldError(codes.AlreadyExists, "spec.path", "is %s: the pool exists already", quote(string(path)))
		case tx.State().Pool(parent) == nil:
			return fieldError(codes.FailedPrecondition, "spec.path", "is %s: there is no pool %s above it: create that first",
				quote(string(path)), quote(string(parent)))
		}
		if j := activeJob(tx.State(), parent); j != nil {
			return fieldError(codes.FailedPrecondition, "spec.path",
				"is %s: jobs go to the lowest pools only, and job %s in %s has not ended", quote(string(path)), quote(string(j.Spec.Name)), quote(string(parent)))
		}
		return putPool(tx, r.Spec, &made)
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.CreatePoolResponse{Pool: made}, nil
}

// UpdatePool implements sluicev1.PoolServiceServer.
func (a *poolService) UpdatePool(ctx context.Context, r *sluicev1.UpdatePoolRequest) (*sluicev1.UpdatePoolResponse, error) {
	var made *sluicev1.Pool
	err := a.do(ctx, func(tx *Tx) error {
		if _, err := findPool(tx.State(), r.Spec.GetPath(), &r.ExpectedVersion); err != nil {
			return err
		}
		return putPool(tx, r.Spec, &made)
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.UpdatePoolResponse{Pool: made}, nil
}

func putPool(tx *Tx, spec *sluicev1.PoolSpec, made **sluicev1.Pool) error {
	p := poolFrom(spec, "spec", new(violations))
	if old := tx.State().Pool(p.Path); old != nil {
		p.Draining = old.Draining
	}
	var v violations
	if checkTree(tx.State(), p, &v); !v.Empty() {
		return v.status(codes.FailedPrecondition)
	}
	if err := tx.Emit(&cluster.PoolPut{Pool: *p}); err != nil {
		return err
	}
	*made = poolNow(tx.State(), p.Path)
	return nil
}

// DrainPool implements sluicev1.PoolServiceServer. What has been submitted runs to its end.
func (a *poolService) DrainPool(ctx context.Context, r *sluicev1.DrainPoolRequest) (*sluicev1.DrainPoolResponse, error) {
	var made *sluicev1.Pool
	err := a.do(ctx, func(tx *Tx) error {
		old, err := findPool(tx.State(), r.Path, nil)
		if err != nil {
			return err
		}
		if old.Draining == r.Resume {
			p := *old
			p.Draining = !r.Resume
			if err := tx.Emit(&cluster.PoolPut{Pool: p}); err != nil {
				return err
			}
		}
		made = poolNow(tx.State(), old.Path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.DrainPoolResponse{Pool: made}, nil
}

// poolNow describes a pool without what is in it.
func poolNow(in *cluster.State, path cluster.PoolPath) *sluicev1.Pool {
	out := poolTo(in.Pool(path), in.IsLeaf(path))
	out.State = poolStateTo(in, path, activeBelow(in, path))
	return out
}

func poolStateTo(in poolTable, path cluster.PoolPath, active bool) sluicev1.PoolState {
	switch {
	case draining(in, path) == nil:
		return sluicev1.PoolState_POOL_STATE_OPEN
	case active:
		return sluicev1.PoolState_POOL_STATE_DRAINING
	default:
		return sluicev1.PoolState_POOL_STATE_DRAINED
	}
}

// activeBelow reports whether a job in the pool or below it has not ended.
func activeBelow(s *cluster.State, p cluster.PoolPath) bool {
	for j := range s.Jobs(0) {
		if p.Covers(j.Spec.Pool) && !j.State().Terminal() {
			return true
		}
	}
	return false
}

// DeletePool implements sluicev1.PoolServiceServer. The roles and the cost models that are bound in the pool go with it.
func (a *poolService) DeletePool(ctx context.Context, r *sluicev1.DeletePoolRequest) (*sluicev1.DeletePoolResponse, error) {
	var revision uint64
	err := a.do(ctx, func(tx *Tx) error {
		p, err := findPool(tx.State(), r.Path, r.ExpectedVersion)
		switch {
		case err != nil:
			return err
		case p.Path == cluster.RootPool:
			return resourceError(codes.FailedPrecondition, "pool", r.Path, "the root stays")
		case !tx.State().IsLeaf(p.Path):
			return resourceError(codes.FailedPrecondition, "pool", r.Path, "it has pools below it: delete those first")
		}
		for j := range tx.State().Jobs(0) {
			if j.Spec.Pool == p.Path {
				return resourceError(codes.FailedPrecondition, "pool", r.Path, "it has jobs, such as %s: delete those first",
					quote(string(j.Spec.Name)))
			}
		}
		// Else they would hold in another pool of that name.
		for _, b := range tx.State().RoleBindings() {
			if b.Pool == p.Path {
				if err := tx.Emit(&cluster.RoleRevoked{Binding: b}); err != nil {
					return err
				}
			}
		}
		for _, b := range costBindings(tx.State(), p.Path) {
			if err := tx.Emit(&cluster.CostModelSet{Binding: cluster.CostBinding{Pool: b.Pool, Type: b.Type}}); err != nil {
				return err
			}
		}
		revision = tx.State().Revision()
		return tx.Emit(&cluster.PoolDeleted{Path: p.Path})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.DeletePoolResponse{Revision: revision}, nil
}

// GetPool implements sluicev1.PoolServiceServer.
func (a *poolService) GetPool(ctx context.Context, r *sluicev1.GetPoolRequest) (*sluicev1.GetPoolResponse, error) {
	s := a.s.Snapshot()
	p, err := findPool(s, r.Path, nil)
	if err != nil {
		return nil, err
	}
	answer := poolTotals(s).describe(s, p, a.s.poolStatus(p.Path))
	for _, d := range answer.Dimensions {
		d.BoundChain = a.s.boundChain(s, callOf(ctx).who, p.Path, d)
	}
	return &sluicev1.GetPoolResponse{Pool: answer}, nil
}

// ListPools implements sluicev1.PoolServiceServer. Complexity: the jobs and the pools.
func (a *poolService) ListPools(ctx context.Context, r *sluicev1.ListPoolsRequest) (*sluicev1.ListPoolsResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	s, c := a.s.Snapshot(), callOf(ctx)
	if r.Path != "" && !c.knowsPool(s, cluster.PoolPath(r.Path)) {
		return nil, noPool(r.Path)
	}
	totals := poolTotals(s)
	answer := &sluicev1.ListPoolsResponse{}
	last := ""
	for p := range s.Pools() {
		if string(p.Path) <= page.after || r.Path != "" && !cluster.PoolPath(r.Path).Covers(p.Path) || !c.who.MayKnow(s, p.Path) {
			continue
		}
		record := totals.describe(s, p, a.s.poolStatus(p.Path))
		if !page.Add(record) {
			answer.NextPageToken = page.Token(last)
			break
		}
		answer.Pools = append(answer.Pools, record)
		last = string(p.Path)
	}
	return answer, nil
}

func findPool(in poolTable, path string, version *uint64) (*cluster.Pool, error) {
	p := in.Pool(cluster.PoolPath(path))
	switch {
	case p == nil:
		return nil, noPool(path)
	case version != nil && *version != p.Version:
		return nil, resourceError(codes.Aborted, "pool", path, "its version is %d, not %d: get it and decide anew", p.Version, *version)
	}
	return p, nil
}

func noPool(path string) error {
	return resourceError(codes.NotFound, "pool", path, "there is no such pool")
}

// activeJob returns a job in the pool that has not ended, nil if there is none.
func activeJob(s *cluster.State, in cluster.PoolPath) *cluster.Job {
	for j := range s.Jobs(0) {
		if j.Spec.Pool == in && !j.State().Terminal() {
			return j
		}
	}
	return nil
}
