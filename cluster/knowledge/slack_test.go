package knowledge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
)

// meter is a host of 32 CPUs with a task of 16, and an estimate of what that leaves.
type meter struct {
	t     *testing.T
	state *cluster.State
	slack knowledge.Slack
	now   cluster.Time
}

const window = 100 * time.Second

func newMeter(t *testing.T) *meter {
	m := &meter{t: t, state: cluster.NewState(), slack: knowledge.Slack{Window: window, Margin: 25}, now: cluster.Time(time.Hour)}
	spec := func(name cluster.JobID, cpu int64, revocable bool) *cluster.JobSpec {
		s := &cluster.JobSpec{Name: name, Pool: cluster.RootPool, Instances: 1, Revocable: revocable}
		s.Task.Resources.Fixed[cluster.CPU] = cpu
		return s
	}
	machine := cluster.Machine{}
	machine.Capacity.Fixed[cluster.CPU] = 32_000
	k := cluster.MakeTaskKey(1, 0)
	for _, e := range []cluster.Event{
		&cluster.HostReported{ID: "s/h", Machine: machine},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec("a", 16_000, false)}, {UID: 2, Spec: spec("b", 1000, true)}}},
		&cluster.Placed{Task: k, Run: 1, Host: "s/h"},
		&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
	} {
		m.emit(e)
	}
	return m
}

func (m *meter) emit(e cluster.Event) {
	require.NoError(m.t, m.state.Apply(cluster.Record{Seq: m.state.Seq() + 1, At: m.now, Event: e}))
}

// report measures the task after some time, and returns the slack of the host then.
func (m *meter) report(after time.Duration, cpu int64) int64 {
	m.now = m.now.Add(after)
	var used cluster.Resources
	used.Fixed[cluster.CPU] = cpu
	snapshot, _ := m.state.Snapshot()
	run := cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: 1}
	m.take(m.slack.Measured(snapshot, "s", m.now, []knowledge.Sample{{Run: run, Used: used}}))
	return m.state.Host("s/h").Slack.Fixed[cluster.CPU]
}

// silent takes back the slack of hosts without reports, and returns that of the host then.
func (m *meter) silent() int64 {
	snapshot, _ := m.state.Snapshot()
	m.take(m.slack.Silent(snapshot, m.now))
	return m.state.Host("s/h").Slack.Fixed[cluster.CPU]
}

func (m *meter) take(changes []knowledge.SlackChange) {
	for _, c := range changes {
		if e := c.Event(m.state); e != nil {
			m.emit(e)
		}
	}
}

func TestBeliefFadesToWhatIsUsed(t *testing.T) {
	m := newMeter(t)
	require.Zero(t, m.report(time.Second, 4000), "a task is believed to use what it asks for")
	// 16,000 − 12,000/2 = 10,000, and a quarter of that beside: 3,500 are left, in steps of 1,000.
	require.EqualValues(t, 3000, m.report(window/2, 4000))
	// 10,000 − 6,000/2 = 7,000: 7,250 are left, but more was told half a window ago.
	require.EqualValues(t, 3000, m.report(window/2, 4000))
	require.EqualValues(t, 11_000, m.report(window, 4000), "all but 4,000 and a quarter")
	require.EqualValues(t, 6000, m.report(time.Second, 8000), "a peak counts at once")
	require.EqualValues(t, 6000, m.report(window/2, 4000), "and for a while")
	for range 100 {
		seq := m.state.Seq()
		if m.report(window/20, 3900); m.now.Sub(0) > time.Hour+8*window {
			require.Equal(t, seq, m.state.Seq(), "what goes on as before is not told")
		}
	}
	require.EqualValues(t, 11_000, m.report(time.Second, 3900))
	require.Zero(t, m.report(time.Second, 20_000), "one that uses more than it may leaves nothing")
}

// A clock that is set back takes what it has said along: nothing is believed of a task because of it, and what is told next not held up.
func TestTheClockIsSetBack(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 4000)
	require.EqualValues(t, 3000, m.report(window/2, 4000))
	m.now = m.now.Add(-30 * time.Minute)
	require.EqualValues(t, 3000, m.report(0, 4000))
	require.EqualValues(t, 3000, m.report(window/2, 4000))
	require.Greater(t, m.report(window/2, 4000), int64(3000))
}

func TestNobodyAsksForSlack(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	require.EqualValues(t, 16_000, m.report(window, 0))
	m.emit(&cluster.JobStopping{Job: 2})
	require.Zero(t, m.report(time.Second, 0))
}

// A report tells of the hosts of its shard, by the runs that they have now.
func TestOfWhatAReportTells(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	require.EqualValues(t, 16_000, m.report(window, 0))
	snapshot, _ := m.state.Snapshot()
	require.Empty(t, m.slack.Measured(snapshot, "another", m.now, nil))
	before := cluster.RunID{Task: cluster.MakeTaskKey(1, 0)}
	m.take(m.slack.Measured(snapshot, "s", m.now, []knowledge.Sample{{Run: before}, {Run: cluster.RunID{Task: cluster.MakeTaskKey(9, 0), Run: 1}}}))
	require.Zero(t, m.state.Host("s/h").Slack)
}

func TestSilenceEndsLending(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	require.EqualValues(t, 16_000, m.report(window, 0))
	m.now = m.now.Add(window)
	require.EqualValues(t, 16_000, m.silent())
	m.now = m.now.Add(1)
	require.Zero(t, m.silent())
}

// A look at who is silent, which a new scheduler may take before the first report, makes nobody's window shorter.
func TestALookAtSilenceChangesNothingElse(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 4000)
	require.EqualValues(t, 7000, m.report(window*3/4, 4000))
	m.silent()
	require.EqualValues(t, 7000, m.report(window/2, 4000), "more was told half a window ago")
	m.slack = knowledge.Slack{Window: window, Margin: 25}
	require.EqualValues(t, 7000, m.silent())
}

// A restart takes nothing away, and gives nothing for a while.
func TestRestartKeepsWhatWasLent(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 4000)
	require.EqualValues(t, 11_000, m.report(3*window, 4000))
	m.slack = knowledge.Slack{Window: window, Margin: 25}
	require.EqualValues(t, 11_000, m.report(time.Second, 2000))
	require.EqualValues(t, 6000, m.report(time.Second, 8000))
	require.EqualValues(t, 6000, m.report(window/2, 2000))
}

// What was measured before tasks came or went cannot raise the slack any more.
func TestChangesOvertakenByTasks(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	m.now = m.now.Add(window)
	snapshot, _ := m.state.Snapshot()
	run := cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: 1}
	changes := m.slack.Measured(snapshot, "s", m.now, []knowledge.Sample{{Run: run}})
	require.Len(t, changes, 1)
	m.emit(&cluster.TaskStatus{Task: run.Task, Run: 1, State: cluster.TaskSucceeded})
	require.Nil(t, changes[0].Event(m.state), "it had none")
	require.Zero(t, m.state.Host("s/h").Slack)
	m.emit(&cluster.HostRemoved{ID: "s/h"})
	require.Nil(t, changes[0].Event(m.state))
}

// What a run leaves unused is of what it was placed with, while an update of its job asks for more.
func TestAnUpdateLendsNothingMore(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 4000)
	spec := *m.state.Job(1).Spec
	spec.Task.Resources.Fixed[cluster.CPU] = 30_000
	m.emit(&cluster.JobUpdated{Job: 1, Spec: &spec, Update: &cluster.Update{From: 1}})
	require.EqualValues(t, 11_000, m.report(window, 4000), "16,000 less 4,000 and a quarter")
}

// Revocable tasks run on what others leave, and leave nothing themselves. Nor does a run that has ended.
func TestWhoLeavesNothing(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	require.EqualValues(t, 16_000, m.report(window, 0))
	lent, own := cluster.RunID{Task: cluster.MakeTaskKey(2, 0), Run: 1}, cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: 1}
	m.emit(&cluster.Placed{Task: lent.Task, Run: 1, Host: "s/h"})
	measure := func() int64 {
		m.now = m.now.Add(2 * window)
		snapshot, _ := m.state.Snapshot()
		m.take(m.slack.Measured(snapshot, "s", m.now, []knowledge.Sample{{Run: lent}, {Run: own}}))
		return m.state.Host("s/h").Slack.Fixed[cluster.CPU]
	}
	measure()
	require.EqualValues(t, 16_000, measure())
	m.emit(&cluster.TaskStatus{Task: own.Task, Run: 1, State: cluster.TaskSucceeded})
	require.Zero(t, measure())
}

// What one run of a task did not use says nothing of the next.
func TestANewRunIsBelievedToUseAll(t *testing.T) {
	m := newMeter(t)
	m.report(time.Second, 0)
	require.EqualValues(t, 16_000, m.report(window, 0))
	k := cluster.MakeTaskKey(1, 0)
	m.emit(&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskLost})
	m.emit(&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonRetry})
	m.emit(&cluster.Placed{Task: k, Run: 2, Host: "s/h"})
	snapshot, _ := m.state.Snapshot()
	m.take(m.slack.Measured(snapshot, "s", m.now.Add(2*window), []knowledge.Sample{{Run: cluster.RunID{Task: k, Run: 2}}}))
	require.Zero(t, m.state.Host("s/h").Slack)
}

// Only tasks that ran before the scheduler began are believed by their first measurement, and only in its first window.
func TestWhoIsBelievedAtOnce(t *testing.T) {
	m := newMeter(t)
	m.silent()
	require.Zero(t, m.report(2*window, 4000), "a host that was out of reach for long")

	m = newMeter(t)
	k := cluster.MakeTaskKey(3, 0)
	spec := &cluster.JobSpec{Name: "c", Pool: cluster.RootPool, Instances: 1}
	spec.Task.Resources.Fixed[cluster.CPU] = 16_000
	m.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: spec}}})
	m.emit(&cluster.Placed{Task: k, Run: 1, Host: "s/h"}) // and does not run yet
	snapshot, _ := m.state.Snapshot()
	m.take(m.slack.Measured(snapshot, "s", m.now.Add(time.Second), []knowledge.Sample{{Run: cluster.RunID{Task: k, Run: 1}}}))
	require.Zero(t, m.state.Host("s/h").Slack)
}

// Host managers come and go under new names: what was measured of one goes with its hosts.
func TestShardsThatAreGoneAreForgotten(t *testing.T) {
	m := newMeter(t)
	for _, e := range []cluster.Event{
		&cluster.HostReported{ID: "other/h"}, &cluster.HostRemoved{ID: "other/h"},
	} {
		m.emit(e)
		snapshot, _ := m.state.Snapshot()
		m.take(m.slack.Measured(snapshot, "other", m.now, nil))
	}
	m.report(time.Second, 1000)
	require.Equal(t, 2, m.slack.Shards())
	m.silent()
	require.Equal(t, 1, m.slack.Shards())
}
