package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// A job that waits for another says for which, cannot be run before by hand, and keeps the other from being deleted. It ends
// with a reason when it would wait for ever, and with the other where that is stopped with all that depends on it.
func TestJobsThatWaitForOthers(t *testing.T) {
	a := newAPITest(t)
	after := func(name, on string) *sluicev1.JobSpec {
		s := sleepJob(name)
		s.DependsOn = []*sluicev1.Dependency{{Job: on}}
		return s
	}
	_, err := a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{
		after("c", "b"), after("b", "a"), sleepJob("a"), sleepJob("other"),
	}})
	require.NoError(t, err)
	b := a.job(t, "b")
	require.Equal(t, sluicev1.JobState_JOB_STATE_INITIALIZED, b.State)
	require.Equal(t, "DEPENDENCIES", b.Reason)
	why, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "b"})
	require.NoError(t, err)
	require.Equal(t, "a", why.GetWaiting().BlockingJob)
	_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "b"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))

	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "a"})
	require.NoError(t, err)
	for _, name := range []string{"b", "c"} {
		j := a.job(t, name)
		require.Equal(t, sluicev1.JobState_JOB_STATE_KILLED, j.State)
		require.Equal(t, "NEVER_RELEASED", j.Reason)
		require.Contains(t, j.Message, "to have SUCCEEDED, which has KILLED")
	}
	a.submit(t, after("d", "other"))
	a.submit(t, after("e", "d"))
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "other", Cascade: true})
	require.NoError(t, err)
	require.Equal(t, "JOB_STOPPED", a.job(t, "e").Reason)
}

// A job that another waits for is not deleted, also where it has ended.
func TestAwaitedJobsStay(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("ended"))
	a.submit(t, sleepJob("open"))
	waits := sleepJob("waits")
	waits.DependsOn = []*sluicev1.Dependency{{Job: "ended", Condition: sluicev1.Dependency_ENDED}, {Job: "open", Condition: sluicev1.Dependency_ENDED}}
	a.submit(t, waits)
	_, err := a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "ended"})
	require.NoError(t, err)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "ended"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, `"waits" waits for it`)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "open"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.JobState_JOB_STATE_PENDING, a.job(t, "waits").State)
	_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "ended"})
	require.NoError(t, err)
}
