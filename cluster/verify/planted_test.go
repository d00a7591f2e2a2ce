package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/cluster/verify"
)

const now = cluster.Time(time.Hour)

func cpu(n int64) cluster.Resources {
	return cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: n})
}

// stage is a cluster in which pool b runs six tasks of 1 CPU on two hosts of 4 and 2, and pool a waits with two.
type stage struct {
	t     *testing.T
	state *cluster.State
}

func newStage(t *testing.T, change ...func(b *cluster.JobSpec)) *stage {
	s := &stage{t, cluster.NewState()}
	s.emit(&cluster.HostReported{ID: "s/h0", Machine: cluster.Machine{Capacity: cpu(4)}})
	s.emit(&cluster.HostReported{ID: "s/h1", Machine: cluster.Machine{Capacity: cpu(2)}})
	for _, p := range []cluster.PoolPath{"root/a", "root/b"} {
		s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: p}})
	}
	spec := func(p cluster.PoolPath, n uint32) *cluster.JobSpec {
		return &cluster.JobSpec{
			Name: cluster.JobID("in " + string(p)), Pool: p, Preemptible: true, Instances: n, Task: cluster.TaskSpec{Resources: cpu(1)},
		}
	}
	b := spec("root/b", 6)
	for _, c := range change {
		c(b)
	}
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: b}, {UID: 2, Spec: spec("root/a", 2)}}})
	for i := range uint32(6) {
		if b.Type == cluster.Daemon {
			s.emit(&cluster.InstanceAdded{Task: cluster.MakeTaskKey(1, i), Host: cluster.HostID(fmt.Sprint("s/h", i/4))})
		}
		s.emit(&cluster.Placed{Task: cluster.MakeTaskKey(1, i), Run: 1, Host: cluster.HostID(fmt.Sprint("s/h", i/4))})
		s.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(1, i), Run: 1, State: cluster.TaskRunning})
	}
	return s
}

func (s *stage) emit(e cluster.Event) {
	require.NoError(s.t, s.state.Apply(cluster.Record{Seq: s.state.Seq() + 1, At: 1, Event: e}))
}

// pools is what a true plan says about them: 6 CPUs in equal parts, but a claims only 2.
func pools(a, b int64) []pool.Status {
	one := func(p cluster.PoolPath, has, entitled int64) pool.Status {
		return pool.Status{Path: p, Dimensions: []pool.DimensionStatus{{
			Dimension: cluster.CPU.String(), Limit: cluster.NoLimit, Allocation: has, Entitlement: entitled,
		}}}
	}
	return []pool.Status{one("root", 6, 6), one("root/a", 0, a), one("root/b", 6, b)}
}

func held(task uint32, host cluster.HostID) cycle.Held {
	return cycle.Held{Task: cluster.MakeTaskKey(2, task), Hold: cluster.Hold{Host: host, Until: now.Add(time.Minute)}}
}

func victim(task, beneficiary uint32) cycle.Victim {
	return cycle.Victim{Task: cluster.MakeTaskKey(1, task), Run: 1, Preemption: cluster.Preemption{
		For: cluster.MakeTaskKey(2, beneficiary), ForPool: "root/a",
	}}
}

func limited(p cluster.PoolPath, limit int64) cluster.Event {
	return &cluster.PoolPut{Pool: cluster.Pool{Path: p, Resources: []cluster.PoolResource{{Dimension: cluster.CPU.String(), Limit: limit, Share: 1}}}}
}

func static(reservation int64) cluster.Event {
	return &cluster.PoolPut{Pool: cluster.Pool{Path: "root/c", Resources: []cluster.PoolResource{
		{Dimension: cluster.CPU.String(), Reservation: reservation, Limit: cluster.NoLimit, Share: 1, Static: true},
	}}}
}

// begins starts one task of pool a on a third host, in free room.
func begins(a, b int64) cycle.Output {
	return cycle.Output{Pools: pools(a, b), Placements: []cycle.Placement{{Task: cluster.MakeTaskKey(2, 0), Run: 1, Host: "s/h2"}}}
}

func good() *cycle.Output {
	return &cycle.Output{
		Pools: pools(2, 4),
		Displacements: []cycle.Displacement{
			{Holds: []cycle.Held{held(0, "s/h0")}, Victims: []cycle.Victim{victim(0, 0)}},
			{Holds: []cycle.Held{held(1, "s/h1")}, Victims: []cycle.Victim{victim(4, 1)}},
		},
	}
}

func (s *stage) verify(plan *cycle.Output) []string {
	snap, _ := s.state.Fork().Snapshot()
	return verify.Plan(snap, plan, now, time.Minute)
}

func TestATruePlanIsTrue(t *testing.T) {
	require.Empty(t, newStage(t).verify(good()))
}

// What a pool is entitled to may begin in room that is kept for a static reservation: others have more than their own.
func TestClaimsBeginBesideStaticReservations(t *testing.T) {
	for _, test := range []struct{ kept, entitled int64 }{{1, 0}, {2, 1}} {
		s := newStage(t)
		s.emit(static(test.kept))
		s.emit(&cluster.HostReported{ID: "s/h2", Machine: cluster.Machine{Capacity: cpu(2)}})
		plan := begins(test.entitled, 6)
		require.Empty(t, s.verify(&plan))
	}
}

// In a fair leaf who has too little is let in as if those were gone who have too much, also where these begin something that needs nothing
// of what is reserved.
func TestUsersBeginBesideStaticReservations(t *testing.T) {
	s := newStage(t, func(b *cluster.JobSpec) { b.Owner = "much" })
	s.emit(static(2))
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Version: 2, Order: cluster.FairUsers}})
	s.emit(&cluster.HostReported{ID: "s/h2", Machine: cluster.Machine{Capacity: cluster.NewResources([cluster.NumDimensions]int64{
		cluster.CPU: 2, cluster.Memory: 1,
	})}})
	plan := cycle.Output{Pools: pools(2, 6)}
	for i, w := range []struct {
		user  string
		needs cluster.Resources
	}{
		{"little", cpu(1)},
		{"much", cluster.NewResources([cluster.NumDimensions]int64{cluster.Memory: 1})},
	} {
		uid := cluster.JobUID(3 + i)
		s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID(w.user), Pool: "root/b", Owner: w.user, Preemptible: true, Instances: 1, Task: cluster.TaskSpec{Resources: w.needs},
		}}}})
		plan.Placements = append(plan.Placements, cycle.Placement{Task: cluster.MakeTaskKey(uid, 0), Run: 1, Host: "s/h2"})
	}
	require.Empty(t, s.verify(&plan))
}

// Each law is broken by itself, and found.
func TestBrokenLawsAreFound(t *testing.T) {
	job := func(change func(*cluster.JobSpec)) func(*testing.T) *stage {
		return func(t *testing.T) *stage { return newStage(t, change) }
	}
	with := func(events ...cluster.Event) func(*testing.T) *stage {
		return func(t *testing.T) *stage {
			s := newStage(t)
			for _, e := range events {
				s.emit(e)
			}
			return s
		}
	}
	tests := []struct {
		name  string
		stage func(*testing.T) *stage
		plan  func(*cycle.Output)
		want  string
	}{
		{"one leaves who could stay", nil, func(o *cycle.Output) {
			o.Displacements[0].Victims = append(o.Displacements[0].Victims, victim(1, 0))
		}, "in vain"},
		{"nobody leaves and room is promised", nil, func(o *cycle.Output) {
			o.Displacements[1].Victims = nil
			o.Displacements[1].Holds[0].Hold.Host = "s/h0"
			o.Displacements[0].Holds = append(o.Displacements[0].Holds, o.Displacements[1].Holds[0])
			o.Displacements = o.Displacements[:1]
		}, "are promised"},
		{"the donor keeps less than its entitlement", nil, func(o *cycle.Output) { o.Pools = pools(1, 5) }, "loses task"},
		{"the beneficiary ends beyond its own", nil, func(o *cycle.Output) { o.Pools = pools(1, 4) }, "ends with 2"},
		{"more is divided than there is", nil, func(o *cycle.Output) { o.Pools = pools(3, 4) }, "entitled to 7"},
		{"an allocation is wrong", nil, func(o *cycle.Output) { o.Pools[2].Dimensions[0].Allocation = 5 }, "said to have 5"},
		{"an entitlement is above the limit", nil, func(o *cycle.Output) { o.Pools[2].Dimensions[0].Limit = 3 }, "limited to 3"},
		{"room is promised beyond a limit", with(limited("root/a", 1)), nil, "promised 2 of cpu_milli, 1 more"},
		{"one starts beyond a limit while others leave", with(limited("root", 6), &cluster.HostReported{ID: "s/h2", Machine: cluster.Machine{Capacity: cpu(1)}}), func(o *cycle.Output) {
			o.Pools = pools(2, 4)
			o.Displacements = o.Displacements[:1]
			o.Placements = []cycle.Placement{{Task: cluster.MakeTaskKey(2, 1), Run: 1, Host: "s/h2"}}
		}, "start in pool root, which has 6 and a limit of 6"},
		{
			"a job begins where as many run as may", with(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{RunningJobs: new(uint32)}}}), nil,
			"1 jobs begin to run in pool root/a, where 0 do and 0 may",
		},
		{"a static reservation is borrowed", with(static(2), &cluster.HostReported{ID: "s/h2", Machine: cluster.Machine{Capacity: cpu(2)}}), func(o *cycle.Output) {
			*o = begins(0, 6)
		}, "1 of cpu_milli begin in pool root/a, which has 1 then and is entitled to 0: 1 are free and 2 kept for static reservations"},
		{"not preemptible", job(func(j *cluster.JobSpec) { j.Preemptible = false }), nil, "may not be preempted"},
		{"stateful", job(func(j *cluster.JobSpec) { j.Type = cluster.Stateful }), nil, "may not be preempted"},
		{"daemon", job(func(j *cluster.JobSpec) { j.Type = cluster.Daemon }), nil, "may not be preempted"},
		{"a service loses too many", job(func(j *cluster.JobSpec) { j.Type = cluster.Stateless }), nil, "2 instances away and allows 1"},
		{"half a gang leaves", job(func(j *cluster.JobSpec) { j.Gang = &cluster.Gang{Minimum: 2} }), nil, "1 leave and 1 stay"},
		{"the rest of a gang starts before its core", with(
			&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: &cluster.JobSpec{
				Name: "gang", Pool: "root/a", Preemptible: true, Instances: 3, Gang: &cluster.Gang{Minimum: 2}, Task: cluster.TaskSpec{Resources: cpu(1)},
			}}}},
			&cluster.HostReported{ID: "s/h2", Machine: cluster.Machine{Capacity: cpu(1)}},
		), func(o *cycle.Output) {
			*o = cycle.Output{Pools: pools(3, 4), Placements: []cycle.Placement{{Task: cluster.MakeTaskKey(3, 2), Run: 1, Host: "s/h2"}}}
		}, "starts before the core of its gang"},
		{"it was asked before", with(
			&cluster.TaskPreempted{Task: cluster.MakeTaskKey(1, 4), Run: 1, Preemption: cluster.Preemption{For: cluster.MakeTaskKey(2, 0)}},
		), nil, "is not there"},
		{"the same pool, no more urgent", nil, func(o *cycle.Output) {
			o.Displacements[1].Victims[0].Preemption.For = cluster.MakeTaskKey(1, 0)
		}, "no more urgent"},
		{"a policy that forbids it", with(&cluster.PoolPut{Pool: cluster.Pool{Path: "root", Version: 1, Preemption: "none"}}), nil, "never stops"},
		{"one of its own starts there", with(&cluster.TaskStatus{Task: cluster.MakeTaskKey(1, 3), Run: 1, State: cluster.TaskLost}, &cluster.TaskRequeued{Task: cluster.MakeTaskKey(1, 3)}), func(o *cycle.Output) {
			o.Pools[0].Dimensions[0].Allocation, o.Pools[2].Dimensions[0].Allocation = 5, 5
			o.Placements = []cycle.Placement{{Task: cluster.MakeTaskKey(1, 3), Run: 2, Host: "s/h0"}}
		}, "one of its own"},
		{"a host that is not one of the pool's", with(&cluster.PoolPut{Pool: cluster.Pool{
			Path: "root", Hosts: []cluster.KeyValue{{Key: "hosts", Value: "lab"}},
		}}), nil, "has not the label hosts=lab"},
		{"for somebody who does not exist", nil, func(o *cycle.Output) { o.Displacements[0].Victims[0].Preemption.For = cluster.MakeTaskKey(9, 0) }, "does not exist"},
		{"twice in the plan", nil, func(o *cycle.Output) { o.Displacements[1].Victims[0] = victim(0, 1) }, "as a victim and as a victim"},
		{"a job loses more than it allows", job(func(j *cluster.JobSpec) { j.Limits.MaxPreempted = 1 }), nil, "it allows 1"},
		{"a pool loses more than it allows", with(&cluster.PoolPut{Pool: cluster.Pool{Path: "root", Limits: cluster.PoolLimits{PreemptedPerCycle: new(uint32)}}}), nil, "it allows 0"},
		{"somebody leaves for nobody", nil, func(o *cycle.Output) { o.Displacements[0].Victims[0].Preemption.For = 0 }, "for task 0.0, which does not exist"},
		{"a hold that is over", nil, func(o *cycle.Output) { o.Displacements[0].Holds[0].Hold.Until = now }, "over before it begins"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			if test.stage != nil {
				s = test.stage(t)
			}
			plan := good()
			if test.plan != nil {
				test.plan(plan)
			}
			require.Contains(t, fmt.Sprint(s.verify(plan)), test.want)
		})
	}
}

// In a leaf that is fair between jobs or users, they are held to their shares as pools are to what they are entitled to.
func TestBrokenSharesAreFound(t *testing.T) {
	const leaf cluster.PoolPath = "root/b"
	tests := []struct {
		name         string
		order        cluster.PoolOrder
		policy       string
		owner        string // of the job that waits; user is that of the one that runs
		priority     int32  // of the job that runs
		runs, waits  int64  // shares
		want         string // "": nothing is wrong
		twoInstances bool
	}{
		{"fair", cluster.FairJobs, "", "user", 0, 4, 2, "", true},
		{"fair between users", cluster.FairUsers, "", "a/b", 0, 4, 2, "", true},
		{"not fair", cluster.PriorityFIFO, "", "user", 0, 0, 0, "no more urgent", true},
		{"the same user", cluster.FairUsers, "", "user", 0, 6, 0, "no more urgent", true},
		{"less urgent", cluster.FairJobs, "", "user", 1, 4, 2, "no more urgent", true},
		{"a policy that forbids it", cluster.FairJobs, "conservative", "user", 0, 4, 2, "no more urgent", true},
		{"a policy that forbids everything", cluster.FairJobs, "none", "user", 0, 4, 2, "never stops", true},
		{"the donor keeps less than its share", cluster.FairJobs, "", "user", 0, 5, 1, "job 1 loses task", true},
		{"the beneficiary ends beyond its own", cluster.FairJobs, "", "user", 0, 4, 1, "job 3 gets task 1.0 stopped, ends with 2", true},
		{"within it with one", cluster.FairJobs, "", "user", 0, 4, 1, "", false},
		{"a user who ends beyond his own", cluster.FairUsers, "", "a/b", 0, 4, 1, "user a%2Fb gets task 1.0 stopped, ends with 2", true},
		{"more is shared than there is", cluster.FairJobs, "", "user", 0, 5, 2, "the shares in pool root/b are 7", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, func(b *cluster.JobSpec) { b.Owner, b.Priority = "user", test.priority })
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root", Version: 1, Preemption: test.policy}})
			s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: leaf, Version: 2, Order: test.order}})
			s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: &cluster.JobSpec{
				Name: "waits", Pool: leaf, Owner: test.owner, Preemptible: true, Instances: 2, Task: cluster.TaskSpec{Resources: cpu(1)},
			}}}})
			plan := good()
			plan.Pools = pools(0, 6)
			one, other := pool.Party{Job: 1}, pool.Party{Job: 3}
			if test.order == cluster.FairUsers {
				one, other = pool.Party{User: "user"}, pool.Party{User: test.owner}
			}
			if test.order != cluster.PriorityFIFO {
				plan.Pools[2].Shares = []pool.Share{{Party: one, Amount: cpu(test.runs)}, {Party: other, Amount: cpu(test.waits)}}
			}
			for i := range plan.Displacements {
				d := &plan.Displacements[i]
				d.Holds[0].Task = cluster.MakeTaskKey(3, uint32(i))
				d.Victims[0].Preemption.For, d.Victims[0].Preemption.ForPool = d.Holds[0].Task, leaf
			}
			if !test.twoInstances {
				plan.Displacements = plan.Displacements[:1]
			}
			if wrong := s.verify(plan); test.want == "" {
				require.Empty(t, wrong)
			} else {
				require.Contains(t, fmt.Sprint(wrong), test.want)
			}
		})
	}
}

// A user for whose urgent work others leave has what they give, and may be asked for that by a third.
func TestWhatOneUserGetsAnotherMayTake(t *testing.T) {
	const leaf cluster.PoolPath = "root/b"
	s := newStage(t, func(b *cluster.JobSpec) { b.Owner = "a" })
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: leaf, Version: 1, Order: cluster.FairUsers}})
	job := func(uid cluster.JobUID, owner string, priority int32, n uint32, cpus int64) cluster.NewJob {
		return cluster.NewJob{UID: uid, Spec: &cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprint("job-", uid)), Pool: leaf, Owner: owner, Priority: priority, Preemptible: true, Instances: n,
			Task: cluster.TaskSpec{Resources: cpu(cpus)},
		}}
	}
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{job(3, "b", 0, 3, 1), job(4, "a", 1, 1, 2), job(5, "c", 0, 1, 1)}})
	for i, from := range []uint32{2, 3, 5} { // b has half of it now
		s.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(1, from), Run: 1, State: cluster.TaskSucceeded})
		s.emit(&cluster.Placed{Task: cluster.MakeTaskKey(3, uint32(i)), Run: 1, Host: cluster.HostID(fmt.Sprint("s/h", i/2))})
		s.emit(&cluster.TaskStatus{Task: cluster.MakeTaskKey(3, uint32(i)), Run: 1, State: cluster.TaskRunning})
	}
	hold := func(job cluster.JobUID, host cluster.HostID) []cycle.Held {
		return []cycle.Held{{Task: cluster.MakeTaskKey(job, 0), Hold: cluster.Hold{Host: host, Until: now.Add(time.Minute)}}}
	}
	stop := func(job cluster.JobUID, task uint32, beneficiary cluster.JobUID) cycle.Victim {
		return cycle.Victim{Task: cluster.MakeTaskKey(job, task), Run: 1, Preemption: cluster.Preemption{
			For: cluster.MakeTaskKey(beneficiary, 0), ForPool: leaf,
		}}
	}
	plan := &cycle.Output{
		Pools: pools(0, 6),
		Displacements: []cycle.Displacement{
			{Holds: hold(4, "s/h0"), Victims: []cycle.Victim{stop(1, 0, 4), stop(3, 0, 4)}},
			{Holds: hold(5, "s/h1"), Victims: []cycle.Victim{stop(1, 4, 5)}},
		},
	}
	share := func(a, b int64) {
		plan.Pools[2].Shares = []pool.Share{
			{Party: pool.Party{User: "a"}, Amount: cpu(a)}, {Party: pool.Party{User: "b"}, Amount: cpu(b)}, {Party: pool.Party{User: "c"}, Amount: cpu(1)},
		}
	}
	share(3, 2)
	require.Empty(t, s.verify(plan))
	share(4, 1)
	require.Contains(t, fmt.Sprint(s.verify(plan)), "user a loses task 1.4 and has no more than it is entitled to")
}

// An update changes how urgent a task is, and whether it may be stopped, when it reaches it.
func TestTheLawsAreForTheVersionThatRuns(t *testing.T) {
	for _, test := range []struct {
		name    string
		was, is cluster.JobSpec
		want    string
	}{
		{"more urgent from its next run on", cluster.JobSpec{Preemptible: true}, cluster.JobSpec{Preemptible: true, Priority: 1}, ""},
		{"less urgent from its next run on", cluster.JobSpec{Preemptible: true, Priority: 1}, cluster.JobSpec{Preemptible: true}, "no more urgent"},
		{"to be left alone from its next run on", cluster.JobSpec{Preemptible: true}, cluster.JobSpec{}, ""},
		{"to be stopped from its next run on", cluster.JobSpec{}, cluster.JobSpec{Preemptible: true}, "may not be preempted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var spec cluster.JobSpec
			s := newStage(t, func(b *cluster.JobSpec) {
				b.Type, b.Limits.MaxUnavailable, b.Priority, b.Preemptible = cluster.Stateless, 6, test.was.Priority, test.was.Preemptible
				spec = *b
			})
			spec.Priority, spec.Preemptible = test.is.Priority, test.is.Preemptible
			spec.Labels = []cluster.KeyValue{{Key: "color", Value: "blue"}} // or they would follow at once
			s.emit(&cluster.JobUpdated{Job: 1, Spec: &spec, Update: &cluster.Update{From: 1}})
			s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 3, Spec: &cluster.JobSpec{
				Name: "waits", Pool: "root/b", Priority: 1, Preemptible: true, Instances: 2, Task: cluster.TaskSpec{Resources: cpu(1)},
			}}}})
			plan := good()
			plan.Pools = pools(0, 6)
			for i := range plan.Displacements {
				d := &plan.Displacements[i]
				d.Holds[0].Task = cluster.MakeTaskKey(3, uint32(i))
				d.Victims[0].Preemption.For, d.Victims[0].Preemption.ForPool = d.Holds[0].Task, "root/b"
			}
			if wrong := s.verify(plan); test.want == "" {
				require.Empty(t, wrong)
			} else {
				require.Contains(t, fmt.Sprint(wrong), test.want)
			}
		})
	}
}

// A task that was preempted and runs again is left alone for a while.
func TestHysteresis(t *testing.T) {
	s := newStage(t)
	k := cluster.MakeTaskKey(1, 0)
	for i, e := range []cluster.Event{
		&cluster.TaskPreempted{Task: k, Run: 1, Preemption: cluster.Preemption{For: cluster.MakeTaskKey(2, 0)}},
		&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled},
		&cluster.TaskRequeued{Task: k},
		&cluster.Placed{Task: k, Run: 2, Host: "s/h0"},
		&cluster.TaskStatus{Task: k, Run: 2, State: cluster.TaskRunning},
	} {
		at := now.Add(time.Duration(i-10) * time.Second)
		require.NoError(t, s.state.Apply(cluster.Record{Seq: s.state.Seq() + 1, At: at, Event: e}))
	}
	plan := good()
	plan.Displacements[0].Victims[0].Run = 2
	require.Contains(t, fmt.Sprint(s.verify(plan)), "a moment ago")
	snap, _ := s.state.Fork().Snapshot()
	require.Empty(t, verify.Plan(snap, plan, now, 5*time.Second))
}
