package serve

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// TestTheLastPlanIsVerified: the plan of a live cycle holds; the same plan with something wrong in it does not.
func TestTheLastPlanIsVerified(t *testing.T) {
	a := newAPITest(t)
	verify := func() *sluicev1.VerifyPlanResponse {
		t.Helper()
		answer, err := a.cluster.VerifyPlan(t.Context(), &sluicev1.VerifyPlanRequest{})
		require.NoError(t, err)
		return answer
	}
	a.addHost(t, "s/h1", 1)
	a.submit(t, sleepJob("one"))
	require.Eventually(t, func() bool { made := a.lastPlan(); return !made.idle() }, 10*time.Second, time.Millisecond)
	made := a.lastPlan()
	a.addHost(t, "s/h2", 1)
	require.Eventually(t, func() bool { last, _ := a.LastCycle(); return last.Number > made.cycle.Number }, 10*time.Second, time.Millisecond)
	answer := verify()
	require.Equal(t, made.cycle.Number, answer.Cycle, "a cycle with nothing to do does not hide the plan")
	require.Equal(t, uint32(1), answer.Placements)
	require.Empty(t, answer.Violations)

	for _, c := range []struct {
		name  string
		spoil func(*cycle.Output)
		want  string
	}{
		{"twice", func(out *cycle.Output) { out.Placements = append(out.Placements, out.Placements[0]) }, "in the plan as a placement and as a placement"},
		{"no such host", func(out *cycle.Output) { out.Placements[0].Host = "s/none" }, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := *made.out
			out.Placements = slices.Clone(out.Placements)
			c.spoil(&out)
			a.cycles.mu.Lock()
			a.cycles.plan = madePlan{made.cycle, made.snapshot, &out}
			a.cycles.mu.Unlock()
			wrong := verify()
			require.NotEmpty(t, wrong.Violations)
			require.Contains(t, wrong.Violations[0], c.want)
			require.Equal(t, uint64(len(wrong.Violations)), wrong.ViolationsTotal)
		})
	}
	moves := *made.out
	moves.Displacements = []cycle.Displacement{{Victims: []cycle.Victim{{Task: moves.Placements[0].Task, Hold: &cluster.Hold{Host: "s/h2"}}}}}
	moves.Stats.Migrations = 1
	a.cycles.mu.Lock()
	a.cycles.plan.out = &moves
	a.cycles.mu.Unlock()
	answer = verify()
	require.Equal(t, []uint32{0, 1}, []uint32{answer.Preemptions, answer.Migrations}, "who moves is not preempted")
	broken := madePlan{cycle: made.cycle, out: made.out}
	require.Contains(t, broken.judge()[0], "the plan cannot be judged: ")
}

func TestWithoutACycleThereIsNoPlan(t *testing.T) {
	a := &clusterService{api: &api{s: &Scheduler{}}}
	_, err := a.VerifyPlan(t.Context(), &sluicev1.VerifyPlanRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "no cycle has run yet")
}
