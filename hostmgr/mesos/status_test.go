package mesos

import (
	"testing"
	"testing/synctest"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestEveryStateIsMapped: what each state of Mesos means here, when we asked for the end and when not, before the task ran and
// after.
func TestEveryStateIsMapped(t *testing.T) {
	type meaning struct {
		state  cluster.TaskState
		reason cluster.Reason
		signal int32
		code   int32
	}
	var (
		ran, fresh, asked = circumstances{started: true, running: true}, circumstances{}, circumstances{started: true, running: true, killed: true}
		starting          = circumstances{started: true}
		killed            = meaning{state: cluster.TaskKilled, code: -1}
		lost              = meaning{cluster.TaskLost, cluster.ReasonHostLost, 0, -1}
		refused           = meaning{cluster.TaskFailed, cluster.ReasonLaunchRefused, 0, -1}
		orphaned          = meaning{cluster.TaskLost, cluster.ReasonSupervisorLost, 0, -1}
		unlaunched        = meaning{cluster.TaskFailed, cluster.ReasonLaunchFailed, 0, -1}
	)
	no := false
	for _, c := range []struct {
		state   api.TaskState
		reason  api.TaskStatus_Reason
		message string
		healthy *bool
		c       circumstances
		want    meaning
	}{
		{api.TASK_FINISHED, -1, "Command exited with status 0", nil, ran, meaning{cluster.TaskSucceeded, cluster.ReasonExited, 0, 0}},
		{api.TASK_FINISHED, -1, "", nil, asked, meaning{cluster.TaskSucceeded, cluster.ReasonExited, 0, 0}},
		{api.TASK_FAILED, api.REASON_COMMAND_EXECUTOR_FAILED, "Command exited with status 3", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonExited, 0, 3}},
		{api.TASK_FAILED, -1, "Command terminated with signal Segmentation fault (core dumped)", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 11, -1}},
		{api.TASK_FAILED, -1, "Command terminated with signal I/O possible", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 29, -1}},
		{api.TASK_FAILED, -1, "Command terminated with signal Real-time signal 3", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 37, -1}},
		{api.TASK_FAILED, -1, "Command terminated with signal Unknown signal 77", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 0, -1}},
		{api.TASK_FAILED, -1, "Command exited with status 0", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSupervisorLost, 0, -1}},
		{api.TASK_FAILED, api.REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container", nil, fresh, unlaunched},
		{api.TASK_FAILED, api.REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container: Failed to run 'docker pull nosuch': exited with status 1; stderr='not found'", nil, fresh, unlaunched},
		{api.TASK_FAILED, api.REASON_CONTAINER_LAUNCH_FAILED, "Failed to launch container: Failed to run 'docker pull big': terminated with signal Killed", nil, fresh, unlaunched},
		{api.TASK_FAILED, api.REASON_EXECUTOR_REGISTRATION_TIMEOUT, "", nil, ran, unlaunched},
		{api.TASK_FAILED, -1, "Failed to fetch all URIs for container 'c': exited with status 1", nil, starting, unlaunched},
		{api.TASK_FAILED, -1, "Container exited with status 2", nil, starting, meaning{cluster.TaskFailed, cluster.ReasonExited, 0, 2}},
		{api.TASK_FAILED, -1, "Unable to retrieve command's termination information", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 0, -1}},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Executor terminated", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSupervisorLost, 0, -1}},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Abnormal executor termination: unknown container", nil, ran, orphaned},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Abnormal executor termination: unknown container", nil, asked, killed},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Abnormal executor termination: unknown container", nil, fresh, unlaunched},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Command terminated with signal Aborted", nil, circumstances{killed: true}, killed},
		{api.TASK_FAILED, api.REASON_EXECUTOR_TERMINATED, "Executor terminated", nil, asked, killed},
		{api.TASK_FAILED, api.REASON_EXECUTOR_REREGISTRATION_TIMEOUT, "", nil, ran, orphaned},
		{api.TASK_FAILED, api.REASON_RECONCILIATION, "Reconciliation: Latest task state", nil, fresh, meaning{cluster.TaskFailed, cluster.ReasonSupervisorLost, 0, -1}},
		{api.TASK_FAILED, api.REASON_CONTAINER_LIMITATION_MEMORY, "Command terminated with signal Killed: Memory limit exceeded: Requested: 32MB\n", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 9, -1}},
		{api.TASK_FAILED, api.REASON_IO_SWITCHBOARD_EXITED, "'IOSwitchboard' exited with status 1", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSupervisorLost, 0, -1}},
		{api.TASK_FAILED, -1, "Command terminated with signal Aborted (core dumped): a helper exited with status 1", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 6, -1}},
		{api.TASK_FAILED, api.REASON_CONTAINER_LIMITATION_MEMORY, "Memory limit exceeded", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 0, -1}},
		{api.TASK_FAILED, api.REASON_MAX_COMPLETION_TIME_REACHED, "Command terminated with signal Killed", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonRunTime, 9, -1}},
		{api.TASK_ERROR, api.REASON_TASK_INVALID, "", nil, fresh, unlaunched},
		{api.TASK_ERROR, api.REASON_TASK_GROUP_INVALID, "", nil, fresh, unlaunched},
		{api.TASK_KILLED, -1, "Command terminated with signal Terminated", nil, asked, meaning{cluster.TaskKilled, "", 15, -1}},
		{api.TASK_KILLED, -1, "Command terminated with signal Killed", nil, ran, meaning{cluster.TaskFailed, cluster.ReasonSignaled, 9, -1}},
		{api.TASK_KILLED, -1, "Command terminated with signal Killed", &no, ran, meaning{cluster.TaskFailed, cluster.ReasonUnhealthy, 9, -1}},
		{api.TASK_KILLED, api.REASON_AGENT_DRAINING, "Command terminated with signal Terminated", nil, ran, lost},
		{api.TASK_KILLED, api.REASON_AGENT_DRAINING, "Killed before delivery to the executor", nil, fresh, refused},
		{api.TASK_KILLED, api.REASON_AGENT_DRAINING, "Killed before delivery to the executor", nil, asked, killed},
		{api.TASK_KILLED, api.REASON_TASK_KILLED_DURING_LAUNCH, "Killed before delivery to the executor", nil, fresh, refused},
		{api.TASK_KILLED, api.REASON_TASK_KILLED_DURING_LAUNCH, "Killed before delivery to the executor", nil, asked, killed},
		{api.TASK_DROPPED, api.REASON_INVALID_OFFERS, "", nil, fresh, refused},
		{api.TASK_DROPPED, api.REASON_AGENT_DISCONNECTED, "", nil, fresh, refused},
		{api.TASK_DROPPED, api.REASON_AGENT_REMOVED, "", nil, ran, lost},
		{api.TASK_DROPPED, -1, "", nil, asked, killed},
		{api.TASK_LOST, api.REASON_INVALID_OFFERS, "", nil, fresh, refused},
		{api.TASK_LOST, api.REASON_RESOURCES_UNKNOWN, "", nil, fresh, refused},
		{api.TASK_LOST, api.REASON_AGENT_RESTARTED, "", nil, fresh, refused},
		{api.TASK_LOST, api.REASON_GC_ERROR, "", nil, fresh, refused},
		{api.TASK_LOST, api.REASON_EXECUTOR_TERMINATED, "", nil, fresh, refused},
		{api.TASK_LOST, api.REASON_GC_ERROR, "", nil, ran, lost},
		{api.TASK_LOST, api.REASON_AGENT_REMOVED, "", nil, ran, lost},
		{api.TASK_LOST, api.REASON_AGENT_REMOVED, "", nil, asked, killed},
		{api.TASK_GONE, api.REASON_RECONCILIATION, "", nil, ran, lost},
		{api.TASK_GONE, api.REASON_RECONCILIATION, "", nil, asked, killed},
		{api.TASK_GONE, api.REASON_CONTAINER_PREEMPTED, "Container preempted by QoS correction", nil, ran, meaning{cluster.TaskKilled, cluster.ReasonPreempted, 0, -1}},
		{api.TASK_LOST, api.REASON_CONTAINER_PREEMPTED, "Container preempted by QoS correction", nil, ran, meaning{cluster.TaskKilled, cluster.ReasonPreempted, 0, -1}},
		{api.TASK_GONE, api.REASON_CONTAINER_PREEMPTED, "Container preempted by QoS correction", nil, asked, killed},
		{api.TASK_GONE, api.REASON_CONTAINER_UPDATE_FAILED, "", nil, ran, orphaned},
		{api.TASK_GONE_BY_OPERATOR, api.REASON_RECONCILIATION, "", nil, ran, lost},
		{api.TASK_GONE_BY_OPERATOR, -1, "", nil, asked, killed},
		{api.TASK_GONE_BY_OPERATOR, api.REASON_AGENT_DRAINING, "Command terminated with signal Terminated", nil, ran, lost},
		{api.TASK_GONE_BY_OPERATOR, api.REASON_AGENT_DRAINING, "Killed before delivery to the executor", nil, fresh, refused},
		{api.TASK_GONE_BY_OPERATOR, api.REASON_AGENT_DRAINING, "Command terminated with signal Terminated", nil, asked, meaning{cluster.TaskKilled, "", 15, -1}},
		{api.TASK_UNKNOWN, api.REASON_RECONCILIATION, "", nil, ran, meaning{cluster.TaskLost, cluster.ReasonUnknownToHost, 0, -1}},
		{api.TASK_UNKNOWN, api.REASON_RECONCILIATION, "", nil, asked, killed},
	} {
		s := &api.TaskStatus{State: &c.state, Message: &c.message, Healthy: c.healthy, Source: api.SOURCE_AGENT.Enum()}
		if c.reason >= 0 {
			s.Reason = &c.reason
		}
		e, over := endOf(s, c.c)
		require.True(t, over)
		require.Equal(t, c.want, meaning{e.State, e.Reason, e.Signal, e.ExitCode}, "%v %v %+v", c.state, c.reason, c.c)
		require.Contains(t, e.Message, c.state.String()+" ")
		require.Contains(t, e.Message, "from agent")
		if c.reason >= 0 {
			require.Contains(t, e.Message, c.reason.String())
		}
		require.Contains(t, e.Message, c.message)
	}
	e, _ := endOf(&api.TaskStatus{
		State: api.TASK_KILLED.Enum(), Reason: api.REASON_AGENT_DRAINING.Enum(), Source: api.SOURCE_EXECUTOR.Enum(),
	}, fresh)
	require.Equal(t, cluster.TaskLost, e.State, "the executor had it")
	living := map[api.TaskState]cluster.TaskState{
		api.TASK_STAGING: cluster.TaskLaunching, api.TASK_STARTING: cluster.TaskStarting, api.TASK_RUNNING: cluster.TaskRunning,
		api.TASK_KILLING: 0, api.TASK_UNREACHABLE: 0, // which change nothing by themselves
	}
	for state, want := range living {
		_, over := endOf(&api.TaskStatus{State: &state}, ran)
		require.False(t, over, "%v", state)
		got, lives := progressOf(state)
		require.Equal(t, want, got, "%v", state)
		require.Equal(t, want != 0, lives, "%v", state)
	}
	for number, name := range api.TaskState_name { // none is forgotten
		state := api.TaskState(number)
		_, over := endOf(&api.TaskStatus{State: &state}, ran)
		_, lives := living[state]
		require.True(t, over != lives, name)
	}
}

// TestWhenAnAgentIsGone: not when what it calls gone was killed since it is drained, whoever tells of that.
func TestWhenAnAgentIsGone(t *testing.T) {
	for message, gone := range map[string]bool{"Agent has been marked gone": true, "Reconciliation: Task is gone": true, "Reconciliation: Latest task state": false} {
		require.Equal(t, gone, goneAgent(&api.TaskStatus{State: api.TASK_GONE_BY_OPERATOR.Enum(), Message: &message}), message)
	}
	require.False(t, goneAgent(&api.TaskStatus{State: api.TASK_GONE_BY_OPERATOR.Enum(), Reason: api.REASON_AGENT_DRAINING.Enum()}))
	require.False(t, goneAgent(&api.TaskStatus{State: api.TASK_GONE.Enum()}))
}

func TestTheTimeOfAStatus(t *testing.T) {
	at := func(seconds float64) cluster.Time { return timeOf(&api.TaskStatus{Timestamp: &seconds}) }
	require.InDelta(t, 1_700_000_000_250_000_000, int64(at(1_700_000_000.25)), 1000, "a double has microseconds")
	for _, nonsense := range []float64{0, -1, 1e300} {
		require.Zero(t, at(nonsense))
	}
	require.Zero(t, timeOf(new(api.TaskStatus)))
}

func TestHealthOfAStatus(t *testing.T) {
	flags := func(b bool) *bool { return &b }
	code := func(n int32) *api.CheckStatusInfo {
		return &api.CheckStatusInfo{Command: &api.CheckStatusInfo_Command{ExitCode: &n}}
	}
	web := func(n uint32) *api.CheckStatusInfo {
		return &api.CheckStatusInfo{HTTP: &api.CheckStatusInfo_Http{StatusCode: &n}}
	}
	tcp := func(b bool) *api.CheckStatusInfo {
		return &api.CheckStatusInfo{TCP: &api.CheckStatusInfo_Tcp{Succeeded: &b}}
	}
	for name, c := range map[string]struct {
		s    api.TaskStatus
		want cluster.Health
	}{
		"nothing":            {api.TaskStatus{}, cluster.HealthUnknown},
		"healthy":            {api.TaskStatus{Healthy: flags(true)}, cluster.HealthReady},
		"one failure":        {api.TaskStatus{Healthy: flags(false)}, cluster.HealthUnknown},
		"and yet ready":      {api.TaskStatus{Healthy: flags(false), CheckStatus: code(0)}, cluster.HealthUnknown},
		"and not ready":      {api.TaskStatus{Healthy: flags(false), CheckStatus: code(1)}, cluster.HealthUnready},
		"not checked yet":    {api.TaskStatus{Healthy: flags(true), CheckStatus: &api.CheckStatusInfo{Command: &api.CheckStatusInfo_Command{}}}, cluster.HealthUnknown},
		"a command succeeds": {api.TaskStatus{CheckStatus: code(0)}, cluster.HealthReady},
		"a command fails":    {api.TaskStatus{Healthy: flags(true), CheckStatus: code(1)}, cluster.HealthUnready},
		"HTTP 204":           {api.TaskStatus{CheckStatus: web(204)}, cluster.HealthReady},
		"HTTP 302":           {api.TaskStatus{CheckStatus: web(302)}, cluster.HealthReady},
		"HTTP 500":           {api.TaskStatus{CheckStatus: web(500)}, cluster.HealthUnready},
		"a connection":       {api.TaskStatus{CheckStatus: tcp(true)}, cluster.HealthReady},
		"no answer any more": {api.TaskStatus{
			Healthy: flags(true), CheckStatus: &api.CheckStatusInfo{HTTP: new(api.CheckStatusInfo_Http)}, Reason: api.REASON_TASK_CHECK_STATUS_UPDATED.Enum(),
		}, cluster.HealthUnready},
		"no connection": {api.TaskStatus{CheckStatus: tcp(false)}, cluster.HealthUnready},
	} {
		got, why := healthOf(&c.s)
		require.Equal(t, c.want, got, name)
		require.Equal(t, got == cluster.HealthUnready, why != "", name)
	}
}

// TestATaskThatFailsOutOfReach: when its agent is back, the master says that it has failed, and the agent how.
func TestATaskThatFailsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Behave: func(api.TaskInfo) mesostest.Behaviour {
			return mesostest.Behaviour{Startup: time.Millisecond, Runs: 2 * time.Minute, ExitCode: 3}
		}}, 1)
		d, _ := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(30 * time.Second)
		w.CutAgent("h0")
		time.Sleep(3 * time.Minute)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		w.ReturnAgent("h0")
		time.Sleep(time.Minute)
		end := d.Inventory()[0]
		require.Equal(t, cluster.TaskFailed, end.State, end.Message)
		require.Equal(t, cluster.ReasonExited, end.Reason, end.Message)
		require.EqualValues(t, 3, end.ExitCode, end.Message)
	})
}
