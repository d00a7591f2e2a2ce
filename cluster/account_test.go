package cluster_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// timeline is a history whose clock is set by hand.
type timeline struct {
	*history
	now cluster.Time
}

func (l *timeline) at(now time.Time, events ...cluster.Event) {
	l.now = cluster.Time(now.UnixNano())
	for _, e := range events {
		require.NoError(l.t, l.state.Apply(cluster.Record{Seq: l.state.Seq() + 1, At: l.now, Event: e}))
	}
}

// run lets an instance of a job run from one time to another.
func (l *timeline) run(job cluster.JobUID, i uint32, from, to time.Time, end cluster.TaskState) {
	k := cluster.MakeTaskKey(job, i)
	run := l.state.Task(k).Run + 1
	l.at(from.Add(-time.Minute), &cluster.Placed{Task: k, Run: run, Host: host}) // its way there counts for nobody
	l.at(from, &cluster.TaskStatus{Task: k, Run: run, State: cluster.TaskRunning})
	l.at(to, &cluster.TaskStatus{Task: k, Run: run, State: end, Reason: cluster.ReasonExited})
}

func accounts(s *cluster.State) map[string]cluster.Account {
	all := map[string]cluster.Account{}
	for a := range s.Accounts(0) {
		all[fmt.Sprintf("%v %s %s", a.Day, a.Pool, a.Owner)] = *a
	}
	return all
}

func TestRunsAreCharged(t *testing.T) {
	l := &timeline{history: newHistory(t)}
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	spec := func(name, owner string, kind cluster.JobType) *cluster.JobSpec {
		r := vector(500, 3<<20+1)
		r.Fixed[cluster.GPU] = 250
		return &cluster.JobSpec{Name: cluster.JobID(name), Pool: cluster.RootPool, Owner: owner, Type: kind, Instances: 3, MaxFailures: 1, Task: cluster.TaskSpec{Resources: r}}
	}
	machine := vector(10_000, 1<<40)
	machine.Fixed[cluster.GPU] = 10_000
	l.at(day, &cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: machine}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{
			{UID: 1, Spec: spec("batch", "ann", cluster.Batch)}, {UID: 2, Spec: spec("service", "bob", cluster.Stateless)},
		}})
	used := func(d time.Duration) cluster.Usage {
		ms := d.Milliseconds()
		return cluster.Usage{Time: ms, CPU: 500 * ms, Memory: 3 * ms, GPU: 250 * ms}
	}

	// Over midnight: the day of each part, and the run on the day of its end.
	l.run(1, 0, day.Add(23*time.Hour), day.Add(25*time.Hour), cluster.TaskSucceeded)
	require.Equal(t, map[string]cluster.Account{
		"2026-01-31 root ann": {Day: 20484, Pool: "root", Owner: "ann", Used: used(time.Hour)},
		"2026-02-01 root ann": {Day: 20485, Pool: "root", Owner: "ann", Used: used(time.Hour), Runs: cluster.RunCounts{Succeeded: 1}},
	}, accounts(l.state))

	// What failed and was lost was in vain, unless it is a service that served until then.
	later := day.Add(30 * time.Hour)
	l.run(1, 1, later, later.Add(time.Minute), cluster.TaskFailed)
	l.run(1, 2, later, later.Add(2*time.Minute), cluster.TaskLost)
	l.run(2, 0, later, later.Add(4*time.Minute), cluster.TaskFailed)
	got := accounts(l.state)
	require.Equal(t, cluster.Account{
		Day: 20485, Pool: "root", Owner: "ann", Used: used(time.Hour + 3*time.Minute), Lost: used(3 * time.Minute),
		Runs: cluster.RunCounts{Succeeded: 1, Failed: 1, Lost: 1},
	}, got["2026-02-01 root ann"])
	require.Equal(t, cluster.Account{
		Day: 20485, Pool: "root", Owner: "bob", Used: used(4 * time.Minute), Runs: cluster.RunCounts{Failed: 1},
	}, got["2026-02-01 root bob"])

	// Who has to leave loses what he has done, and has not if he was done when he was told. A run that was over before it was seen running
	// took no time, and has ended all the same.
	left := later.Add(time.Hour)
	l.at(left, &cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, 1), Reason: cluster.ReasonRetry}, &cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, 2), Reason: cluster.ReasonRetry})
	for i, end := range []cluster.TaskState{cluster.TaskKilled, cluster.TaskSucceeded} {
		k := cluster.MakeTaskKey(1, uint32(i)+1)
		l.at(left, &cluster.Placed{Task: k, Run: 2, Host: host}, &cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskRunning})
		l.at(left.Add(time.Hour), &cluster.TaskPreempted{Task: k, Run: 2}, &cluster.TaskStatus{Task: k, Run: 2, State: end})
		left = left.Add(2 * time.Hour)
	}
	never := cluster.MakeTaskKey(2, 1)
	l.at(left, &cluster.Placed{Task: never, Run: 1, Host: host}, &cluster.TaskStatus{Task: never, Run: 1, State: cluster.TaskFailed, Reason: cluster.ReasonLaunchFailed})
	got = accounts(l.state)
	require.Equal(t, used(time.Hour+3*time.Minute), got["2026-02-01 root ann"].Lost)
	require.Equal(t, used(3*time.Hour+3*time.Minute), got["2026-02-01 root ann"].Used)
	require.Equal(t, cluster.RunCounts{Succeeded: 2, Failed: 1, Lost: 1, Killed: 1}, got["2026-02-01 root ann"].Runs)
	require.Equal(t, cluster.RunCounts{Failed: 2}, got["2026-02-01 root bob"].Runs)
	require.Equal(t, used(4*time.Minute), got["2026-02-01 root bob"].Used)

	// A copy of the state has it all.
	again := cluster.NewState()
	snapshot, _ := l.state.Snapshot()
	for part := range snapshot.Parts() {
		require.NoError(t, again.Apply(cluster.Record{Event: part}))
	}
	require.Equal(t, got, accounts(again))
}

// Of a task and its copy one has succeeded at most; the other was in vain, however it ended.
func TestOneOfTwoCopiesIsLost(t *testing.T) {
	for _, won := range []bool{false, true} {
		l := &timeline{history: newHistory(t)}
		day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
		l.at(day, &cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 1<<40)}},
			&cluster.HostReported{ID: "shard/other", Machine: cluster.Machine{Capacity: vector(10_000, 1<<40)}},
			&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
				Name: "job", Pool: cluster.RootPool, Instances: 1, Speculation: &cluster.Speculation{}, Task: cluster.TaskSpec{Resources: vector(1000, 1<<20)},
			}}}})
		task := cluster.MakeTaskKey(1, 0)
		l.at(day, &cluster.Placed{Task: task, Run: 1, Host: host}, &cluster.TaskStatus{Task: task, Run: 1, State: cluster.TaskRunning},
			&cluster.CopyAdded{Task: task, Run: 1}, &cluster.Placed{Task: task.Copy(), Run: 1, Host: "shard/other"},
			&cluster.TaskStatus{Task: task.Copy(), Run: 1, State: cluster.TaskRunning})
		end := day.Add(time.Hour)
		if won {
			l.at(end, &cluster.TaskStatus{Task: task.Copy(), Run: 1, State: cluster.TaskSucceeded}, &cluster.CopyWon{Task: task.Copy()},
				&cluster.TaskStatus{Task: task, Run: 1, State: cluster.TaskKilled})
		} else {
			l.at(end, &cluster.TaskPreempted{Task: task.Copy(), Run: 1}, &cluster.TaskStatus{Task: task.Copy(), Run: 1, State: cluster.TaskKilled},
				&cluster.TaskStatus{Task: task, Run: 1, State: cluster.TaskSucceeded})
		}
		got := accounts(l.state)["2026-01-31 root "]
		require.Equal(t, cluster.RunCounts{Succeeded: 1, Killed: 1}, got.Runs)
		require.Equal(t, 2*time.Hour.Milliseconds(), got.Used.Time)
		require.Equal(t, time.Hour.Milliseconds(), got.Lost.Time)
	}
}

// Of a task and its copy what the slower one used is lost, whichever that is and however it ends.
func TestWhatIsOvertakenIsLost(t *testing.T) {
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, end := range []cluster.TaskState{cluster.TaskKilled, cluster.TaskSucceeded} {
		for _, copyWins := range []bool{false, true} {
			l := &timeline{history: newHistory(t)}
			machine, k := cluster.Machine{Capacity: vector(1000, 1000)}, cluster.MakeTaskKey(1, 0)
			l.at(day, &cluster.HostReported{ID: host, Machine: machine}, &cluster.HostReported{ID: "s/other", Machine: machine},
				&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
					Name: "job", Pool: cluster.RootPool, Instances: 1, Speculation: &cluster.Speculation{}, Task: cluster.TaskSpec{Resources: vector(1, 1)},
				}}}},
				&cluster.Placed{Task: k, Run: 1, Host: host}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
				&cluster.CopyAdded{Task: k, Run: 1}, &cluster.Placed{Task: k.Copy(), Run: 1, Host: "s/other"},
				&cluster.TaskStatus{Task: k.Copy(), Run: 1, State: cluster.TaskRunning})
			first, last, won := k, k.Copy(), cluster.Event(&cluster.InstanceRemoved{Task: k.Copy()})
			if copyWins {
				first, last, won = k.Copy(), k, &cluster.CopyWon{Task: k.Copy()}
			}
			l.at(day.Add(time.Hour), &cluster.TaskStatus{Task: first, Run: 1, State: cluster.TaskSucceeded}, won)
			l.at(day.Add(3*time.Hour), &cluster.TaskStatus{Task: last, Run: 1, State: end})
			got := accounts(l.state)["2026-01-31 root "]
			require.EqualValues(t, 4*time.Hour.Milliseconds(), got.Used.Time)
			require.EqualValues(t, 3*time.Hour.Milliseconds(), got.Lost.Time)
			if end == cluster.TaskKilled {
				require.Equal(t, cluster.RunCounts{Succeeded: 1, Killed: 1}, got.Runs)
			}
		}
	}
}

// There are no more accounts than may be: the oldest go.
func TestAccountsAreBounded(t *testing.T) {
	l := &timeline{history: newHistory(t)}
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	var full cluster.Restored
	for i := range cluster.MaxAccounts {
		full.Accounts = append(full.Accounts, &cluster.Account{Day: cluster.DayOf(cluster.Time(day.UnixNano())), Pool: cluster.RootPool, Owner: fmt.Sprintf("%06d", i)})
	}
	full.Accounts[len(full.Accounts)-1].Day--
	require.NoError(t, l.state.Apply(cluster.Record{Event: &full}))
	l.at(day, &cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10, 10)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{Name: "job", Pool: cluster.RootPool, Owner: "ann", Instances: 1}}}})
	l.run(1, 0, day, day.Add(time.Second), cluster.TaskSucceeded)
	all := accounts(l.state)
	require.Len(t, all, cluster.MaxAccounts)
	require.Contains(t, all, "2026-01-31 root ann")
	require.NotContains(t, all, fmt.Sprintf("2026-01-30 root %06d", cluster.MaxAccounts-1))
}

func TestAccountsAreForgotten(t *testing.T) {
	l := &timeline{history: newHistory(t)}
	day := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	l.at(day, &cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 10_000)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Instances: 3, Task: cluster.TaskSpec{Resources: vector(1, 1)},
		}}}})
	l.run(1, 0, day, day.Add(time.Second), cluster.TaskSucceeded)
	l.run(1, 1, day.AddDate(0, 0, cluster.KeptDays), day.AddDate(0, 0, cluster.KeptDays).Add(time.Second), cluster.TaskSucceeded)
	require.Len(t, accounts(l.state), 2)
	// It began before what is kept, and each day since then has its part.
	l.run(1, 2, day, day.AddDate(0, 0, cluster.KeptDays+10), cluster.TaskSucceeded)
	all := slices.Collect(l.state.Accounts(0))
	require.Len(t, all, cluster.KeptDays+1)
	require.Equal(t, cluster.DayOf(cluster.Time(day.UnixNano()))+10, all[0].Day)
	for _, a := range all[:cluster.KeptDays] {
		require.GreaterOrEqual(t, a.Used.Time, (24 * time.Hour).Milliseconds(), a.Day)
	}
	require.Equal(t, all[5:], slices.Collect(l.state.Accounts(all[5].Day)))
}

// Days are kept as a whole or not at all, so that no sum of one lacks a part.
func TestDaysAreForgottenAsAWhole(t *testing.T) {
	state := cluster.NewState()
	day := cluster.Day(20_000)
	restored := &cluster.Restored{Header: &cluster.RestoredHeader{NextJob: 1}}
	for i := range cluster.MaxAccounts {
		restored.Accounts = append(restored.Accounts, &cluster.Account{Day: day + cluster.Day(2*i/cluster.MaxAccounts), Pool: "root", Owner: fmt.Sprintf("u%06d", i)})
	}
	require.NoError(t, state.Apply(cluster.Record{Event: restored}))
	l := &timeline{history: &history{t: t, state: state}}
	begin := (day + 1).Begin().Go()
	l.at(begin, &cluster.HostReported{ID: host, Machine: cluster.Machine{Capacity: vector(10_000, 10_000)}},
		&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{
			Name: "job", Pool: cluster.RootPool, Owner: "ann", Instances: 2, Task: cluster.TaskSpec{Resources: vector(1, 1)},
		}}}})
	l.run(1, 0, begin.Add(-2*time.Hour), begin.Add(time.Hour), cluster.TaskSucceeded)
	require.Equal(t, day+1, state.KeptFrom())
	all := accounts(state)
	require.Len(t, all, cluster.MaxAccounts/2+1, "what began on a day that is gone is charged since then only")
	require.Equal(t, time.Hour.Milliseconds(), all[fmt.Sprintf("%v root ann", day+1)].Used.Time)

	// Today's accounts do not make room for each other.
	full := &cluster.Restored{}
	for i := range cluster.MaxAccounts {
		full.Accounts = append(full.Accounts, &cluster.Account{Day: day + 1, Pool: "root", Owner: fmt.Sprintf("v%06d", i)})
	}
	snapshot, _ := state.Snapshot()
	again := cluster.NewState()
	for part := range snapshot.Parts() {
		if part.Accounts = nil; part.Header != nil {
			part.Accounts = full.Accounts
		}
		require.NoError(t, again.Apply(cluster.Record{Event: part}))
	}
	require.Equal(t, day+1, again.KeptFrom())
	l.state = again
	l.run(1, 1, begin.Add(2*time.Hour), begin.Add(3*time.Hour), cluster.TaskSucceeded)
	require.Len(t, accounts(again), cluster.MaxAccounts)
	require.Contains(t, accounts(again), fmt.Sprintf("%v root v000000", day+1))
}

func TestUsageIsBounded(t *testing.T) {
	require.Zero(t, cluster.DayOf(0))
	require.Equal(t, "1970-01-01", cluster.Day(0).String())
	huge := vector(cluster.MaxAmount, cluster.MaxAmount)
	u := cluster.UsageOf(&huge, 1<<62)
	require.Equal(t, int64(math.MaxInt64), u.CPU)
	require.Equal(t, int64(math.MaxInt64), u.Memory)
	require.Equal(t, cluster.Usage{Time: 2 * u.Time, CPU: math.MaxInt64, Memory: math.MaxInt64}, u.Add(u))
	require.Zero(t, cluster.UsageOf(&huge, -time.Hour))
	for range cluster.Days(5, 5) {
		require.Fail(t, "nothing lies between a time and itself")
	}
}
