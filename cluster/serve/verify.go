package serve

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/verify"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// madePlan is a plan with what it was made from, so that it can be judged afterwards. Nothing in it is modified.
type madePlan struct {
	cycle    CycleSummary
	snapshot *cluster.Snapshot
	out      *cycle.Output
}

// idle reports whether the plan changes nothing.
func (m *madePlan) idle() bool {
	return m.out == nil || len(m.out.Placements)+len(m.out.Displacements)+len(m.out.Ended) == 0
}

// judge returns what is wrong with the plan. Complexity: see verify.Plan.
func (m *madePlan) judge() (wrong []string) {
	defer func() { // a plan may be wrong in a way that verify does not foresee; that must not end the scheduler
		if fault := recover(); fault != nil {
			wrong = []string{fmt.Sprintf("the plan cannot be judged: %v", fault)}
		}
	}()
	return verify.Plan(m.snapshot, m.out, cluster.Time(m.cycle.At.UnixNano()), cycle.DefaultOptions().Hysteresis)
}

// lastPlan returns the latest plan that changes something, else the latest; its cycle has number 0 before the first.
func (s *Scheduler) lastPlan() madePlan {
	s.cycles.mu.Lock()
	defer s.cycles.mu.Unlock()
	return s.cycles.plan
}

// maxPlanViolations bounds the violations in an answer: a plan may be wrong in every task.
const maxPlanViolations = 1000

// VerifyPlan implements sluicev1.ClusterServiceServer. It works beside the cycles and delays none. Complexity: see
// verify.Plan.
func (a *clusterService) VerifyPlan(context.Context, *sluicev1.VerifyPlanRequest) (*sluicev1.VerifyPlanResponse, error) {
	made := a.s.lastPlan()
	if made.cycle.Number == 0 {
		return nil, status.Error(codes.FailedPrecondition, "no cycle has run yet, so that there is no plan: submit a job or add a host first")
	}
	wrong := made.judge()
	return &sluicev1.VerifyPlanResponse{
		Cycle: made.cycle.Number, Time: timestamppb.New(made.cycle.At),
		Placements:      uint32(len(made.out.Placements)),
		Preemptions:     uint32(made.out.Stats.Preemptions),
		Migrations:      uint32(made.out.Stats.Migrations),
		Violations:      wrong[:min(len(wrong), maxPlanViolations)],
		ViolationsTotal: uint64(len(wrong)),
	}, nil
}
