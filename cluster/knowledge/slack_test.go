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
	silent := func() int64 {
		snapshot, _ := m.state.Snapshot()
		m.take(m.slack.Silent(snapshot, m.now))
		return m.state.Host("s/h").Slack.Fixed[cluster.CPU]
	}
	m.now = m.now.Add(window)
	require.EqualValues(t, 16_000, silent())
	m.now = m.now.Add(1)
	require.Zero(t, silent())
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
	m.take(changes)
	require.Zero(t, m.state.Host("s/h").Slack)
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
