package serve

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func (a *apiTest) createPool(t *testing.T, spec *sluicev1.PoolSpec) *sluicev1.Pool {
	t.Helper()
	answer, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: spec})
	require.NoError(t, err)
	return answer.Pool
}

func (a *apiTest) pool(t *testing.T, path string) *sluicev1.Pool {
	t.Helper()
	answer, err := a.pools.GetPool(t.Context(), &sluicev1.GetPoolRequest{Path: path})
	require.NoError(t, err)
	return answer.Pool
}

// cpuClaim is a pool that sets one dimension; a limit below 0 is none.
func cpuClaim(path string, reservation, limit int64) *sluicev1.PoolSpec {
	r := &sluicev1.PoolResource{Dimension: "cpu_milli", Reservation: reservation}
	if limit >= 0 {
		r.Limit = &limit
	}
	return &sluicev1.PoolSpec{Path: path, Resources: []*sluicev1.PoolResource{r}}
}

func TestPoolSpecsRoundTrip(t *testing.T) {
	a := newAPITest(t)
	spec := &sluicev1.PoolSpec{
		Path: "root/a", Description: "for tests", Order: sluicev1.PoolSpec_FAIR_USERS, Division: sluicev1.PoolSpec_DOMINANT_RESOURCE,
		PreemptionPolicy: "conservative",
		Resources: []*sluicev1.PoolResource{
			{Dimension: "cpu_milli", Reservation: 5, Limit: proto.Int64(9), Share: proto.Uint32(0), Mode: sluicev1.PoolResource_STATIC},
			{Dimension: "licence", Reservation: 1, Share: proto.Uint32(3)},
		},
		Access: []*sluicev1.AccessRule{{Permission: sluicev1.AccessRule_SUBMIT, Users: []string{"ann", "bob"}, Groups: []string{"red"}}},
		Limits: &sluicev1.PoolLimits{
			MaxRunningJobs: proto.Uint32(1), MaxPendingJobs: proto.Uint32(2), MaxRunningJobsPerUser: proto.Uint32(3),
			MaxPendingJobsPerUser: proto.Uint32(4), MaxRunningJobsPerGroup: proto.Uint32(0), MaxPendingJobsPerGroup: proto.Uint32(6),
		},
		AgeingInterval: durationpb.New(time.Minute),
		Labels:         map[string]string{"a": "b"},
		HostSelector:   map[string]string{"hosts": "lab", "zone": "z1"},
	}
	made := a.createPool(t, spec)
	require.True(t, proto.Equal(spec, made.Spec), "%v", made.Spec)
	require.True(t, proto.Equal(spec, a.pool(t, "root/a").Spec))
	updated, err := a.pools.UpdatePool(t.Context(), &sluicev1.UpdatePoolRequest{Spec: made.Spec, ExpectedVersion: 1})
	require.NoError(t, err)
	require.True(t, proto.Equal(spec, updated.Pool.Spec))
	updated, err = a.pools.UpdatePool(t.Context(), &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a"}, ExpectedVersion: 2})
	require.NoError(t, err)
	require.Empty(t, updated.Pool.Spec.Resources)
	require.Nil(t, updated.Pool.Spec.Limits)
}

// Pools claim nothing for revocable tasks, nor for those whose job waits for others: that is neither demand nor allocation.
func TestPoolsAskForWhatTheyClaim(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.SlackWindow = time.Minute })
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	a.submit(t, sleepJob("first"))
	for name, change := range map[string]func(*sluicev1.JobSpec){
		"plain":     func(*sluicev1.JobSpec) {},
		"revocable": func(s *sluicev1.JobSpec) { s.Revocable = true },
		"after":     func(s *sluicev1.JobSpec) { s.DependsOn = []*sluicev1.Dependency{{Job: "first"}} },
		"later": func(s *sluicev1.JobSpec) {
			s.DependsOn = []*sluicev1.Dependency{{Job: "first"}}
			s.Overrides = []*sluicev1.InstanceOverride{{
				Instances: &sluicev1.InstanceRange{First: 0, Last: 0}, Task: &sluicev1.TaskSpec{Resources: &sluicev1.ResourceRequest{CpuMilli: 500, MemoryBytes: 1}},
			}}
		},
	} {
		spec := sleepJob(name)
		spec.Pool = "root/a"
		change(spec)
		a.submit(t, spec)
	}
	p := a.pool(t, "root/a")
	require.Equal(t, uint64(4), p.WaitingTasks)
	require.Equal(t, int64(1000), p.Dimensions[0].Demand)

	room := cluster.Resources{Fixed: [cluster.NumDimensions]int64{4000, 1 << 40}}
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: room, Revocable: room}})
	require.Eventually(t, func() bool { return a.pool(t, "root/a").RunningTasks == 2 }, 10*time.Second, time.Millisecond)
	p = a.pool(t, "root/a")
	require.Zero(t, p.Dimensions[0].Demand)
	require.Equal(t, int64(1000), p.Dimensions[0].Allocation)
}

// What a pool holds and asks for is what its tasks do, each by its overrides and by the version that it runs.
func TestPoolsCountWhatEachTaskAsksFor(t *testing.T) {
	a := newAPITest(t)
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	spec := sleepJob("job")
	spec.Type, spec.Pool, spec.Instances = sluicev1.JobType_JOB_TYPE_STATELESS, "root/a", proto.Uint32(3)
	spec.Overrides = []*sluicev1.InstanceOverride{{
		Instances: &sluicev1.InstanceRange{First: 1, Last: 1},
		Task:      &sluicev1.TaskSpec{Resources: &sluicev1.ResourceRequest{CpuMilli: 1500, MemoryBytes: 1}},
	}}
	a.submit(t, spec)
	demand := func() int64 { return a.pool(t, "root/a").Dimensions[0].Demand }
	require.Equal(t, int64(3500), demand())
	a.addHost(t, "s/h", 2)
	runs := func() bool { return a.job(t, "job").State == sluicev1.JobState_JOB_STATE_RUNNING }
	require.Eventually(t, runs, 10*time.Second, time.Millisecond)
	total := func() int64 { d := a.pool(t, "root/a").Dimensions[0]; return d.Allocation + d.Demand }
	held := a.Snapshot().Host("s/h").Allocated.In("cpu_milli")
	require.Equal(t, held, a.pool(t, "root/a").Dimensions[0].Allocation)
	require.Equal(t, int64(3500), total())

	spec.Overrides, spec.Task.Resources.CpuMilli = nil, 500 // to be reached one by one
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	require.NoError(t, err)
	require.Greater(t, total(), int64(1500))
}

func TestBadPools(t *testing.T) {
	a := newAPITest(t)
	tests := []struct {
		name        string
		change      func(*sluicev1.PoolSpec)
		field, text string
	}{
		{"no dimension", func(s *sluicev1.PoolSpec) { s.Resources[0].Dimension = "" }, "spec.resources[0].dimension", "is required"},
		{"bad dimension", func(s *sluicev1.PoolSpec) { s.Resources[0].Dimension = "a b" }, "spec.resources[0].dimension", `is "a b"`},
		{"meant", func(s *sluicev1.PoolSpec) { s.Resources[0].Dimension = "cpu" }, "spec.resources[0].dimension", `is "cpu": the dimension is called "cpu_milli"`},
		{"twice", func(s *sluicev1.PoolSpec) { s.Resources = append(s.Resources, s.Resources[0]) }, "spec.resources[1].dimension", "again"},
		{"negative reservation", func(s *sluicev1.PoolSpec) { s.Resources[0].Reservation = -1 }, "spec.resources[0].reservation", "is -1: 0 to"},
		{"negative limit", func(s *sluicev1.PoolSpec) { s.Resources[0].Limit = proto.Int64(-1) }, "spec.resources[0].limit", "is -1: 0 to"},
		{"reservation above the limit", func(s *sluicev1.PoolSpec) { s.Resources[0].Reservation = 6 }, "spec.resources[0].reservation", "is 6: the limit is 5"},
		{"large share", func(s *sluicev1.PoolSpec) { s.Resources[0].Share = proto.Uint32(1_000_001) }, "spec.resources[0].share", "0 to 1000000"},
		{"unknown policy", func(s *sluicev1.PoolSpec) { s.PreemptionPolicy = "x" }, "spec.preemption_policy", "one of conservative, default, none"},
		{"rule for nobody", func(s *sluicev1.PoolSpec) {
			s.Access = []*sluicev1.AccessRule{{Permission: sluicev1.AccessRule_VIEW}}
		}, "spec.access[0]", "lets nobody"},
		{"rule for nothing", func(s *sluicev1.PoolSpec) { s.Access = []*sluicev1.AccessRule{{Users: []string{"x"}}} }, "spec.access[0].permission", "is required"},
		{"user without a name", func(s *sluicev1.PoolSpec) {
			s.Access = []*sluicev1.AccessRule{{Permission: sluicev1.AccessRule_VIEW, Users: []string{""}}}
		}, "spec.access[0].users[0]", "is required"},
		{"longer than an answer", func(s *sluicev1.PoolSpec) {
			users := make([]string, maxPrincipals)
			for i := range users {
				users[i] = fmt.Sprintf("%0255d", i)
			}
			for range 5 {
				s.Access = append(s.Access, &sluicev1.AccessRule{Permission: sluicev1.AccessRule_VIEW, Users: users})
			}
		}, "spec", "bytes long: at most 1048576"},
		{"a host label with a bad key", func(s *sluicev1.PoolSpec) { s.HostSelector = map[string]string{"a b": "x"} }, `spec.host_selector["a b"]`, "has a bad key"},
		{"a host label without a value", func(s *sluicev1.PoolSpec) { s.HostSelector = map[string]string{"hosts": ""} }, `spec.host_selector["hosts"]`, "is empty"},
		{"endless ageing", func(s *sluicev1.PoolSpec) { s.AgeingInterval = durationpb.New(1 << 62) }, "spec.ageing_interval", "0s to"},
		{"long description", func(s *sluicev1.PoolSpec) { s.Description = string(make([]byte, 1001)) }, "spec.description", "1001 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := cpuClaim("root/a", 1, 5)
			tt.change(spec)
			_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: spec})
			requireViolation(t, err, codes.InvalidArgument, tt.field, tt.text)
			require.Nil(t, a.Snapshot().Pool("root/a"))
		})
	}
}

// All rules between parents and children that a change would break are named together.
func TestPoolTreeRules(t *testing.T) {
	a := newAPITest(t)
	a.createPool(t, cpuClaim("root/a", 50, 80))
	a.createPool(t, cpuClaim("root/a/x", 30, 60))
	a.createPool(t, cpuClaim("root/a/y", 20, -1))
	a.createPool(t, cpuClaim("root/b", 1_000_000, -1)) // the root gives what there is
	create := func(spec *sluicev1.PoolSpec) error {
		_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: spec})
		return err
	}
	update := func(spec *sluicev1.PoolSpec) error {
		_, err := a.pools.UpdatePool(t.Context(), &sluicev1.UpdatePoolRequest{Spec: spec, ExpectedVersion: a.pool(t, spec.Path).Version})
		return err
	}
	const reservation, limit = `spec.resources["cpu_milli"].reservation`, `spec.resources["cpu_milli"].limit`
	tests := []struct {
		name   string
		err    error
		fields map[string]string
	}{
		{"above the parent's limit", create(cpuClaim("root/a/z", 0, 81)), map[string]string{limit: `the limit of "root/a" above it is 80`}},
		{"above a limit further up", create(cpuClaim("root/a/z", 0, 99)), map[string]string{limit: `is 99`}},
		{"nothing is left to reserve", create(cpuClaim("root/a/z", 1, 10)), map[string]string{
			reservation: `"root/a" reserves 50, of which its other children have 50`,
		}},
		{"two rules at once", create(cpuClaim("root/a/z", 90, 99)), map[string]string{
			limit: "is 99: the limit", reservation: "is 90: the limit",
		}},
		{"more than the limit above", update(cpuClaim("root/a/y", 81, -1)), map[string]string{reservation: "is 81:"}},
		{"below a child's limit", update(cpuClaim("root/a", 50, 59)), map[string]string{limit: `the limit of "root/a/x" below it is 60`}},
		{"below the children's reservations", update(cpuClaim("root/a", 49, 80)), map[string]string{
			reservation: "is 49: the pools below it reserve 50 together",
		}},
		{"no reservation at all", update(&sluicev1.PoolSpec{Path: "root/a"}), map[string]string{
			reservation: "is 0: the pools below it reserve 50 together",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for field, text := range tt.fields {
				requireViolation(t, tt.err, codes.FailedPrecondition, field, text)
			}
		})
	}
	require.Equal(t, uint64(1), a.pool(t, "root/a").Version)
	require.NoError(t, update(cpuClaim("root/a/x", 20, 80)))
	require.NoError(t, create(cpuClaim("root/a/z", 10, 80)))
}

func TestDrainPool(t *testing.T) {
	a := newAPITest(t)
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a/b"})
	job := func(name string) *sluicev1.JobSpec {
		spec := sleepJob(name)
		spec.Pool = "root/a/b"
		return spec
	}
	a.submit(t, job("before"))
	drain := func(resume bool) *sluicev1.Pool {
		answer, err := a.pools.DrainPool(t.Context(), &sluicev1.DrainPoolRequest{Path: "root/a", Resume: resume})
		require.NoError(t, err)
		return answer.Pool
	}
	require.Equal(t, sluicev1.PoolState_POOL_STATE_DRAINING, drain(false).State)
	version := drain(false).Version
	require.Equal(t, uint64(2), version, "draining twice changes nothing")
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: job("during")})
	requireViolation(t, err, codes.FailedPrecondition, "spec.pool", `"root/a" is draining and takes no new jobs`)
	bad := job("during")
	bad.Instances = proto.Uint32(0)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: bad})
	requireViolation(t, err, codes.InvalidArgument, "spec.pool", `"root/a" is draining and takes no new jobs`)

	// An update of the settings does not open the pool.
	_, err = a.pools.UpdatePool(t.Context(), &sluicev1.UpdatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a", Description: "x"}, ExpectedVersion: version})
	require.NoError(t, err)
	require.Equal(t, sluicev1.PoolState_POOL_STATE_DRAINING, a.pool(t, "root/a/b").State, "with the one above")
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "before"})
	require.NoError(t, err)
	require.Equal(t, sluicev1.PoolState_POOL_STATE_DRAINED, a.pool(t, "root/a").State)

	require.Equal(t, sluicev1.PoolState_POOL_STATE_OPEN, drain(true).State)
	a.submit(t, job("after"))
}

func TestPendingJobs(t *testing.T) {
	tests := []struct {
		name   string
		limits *sluicev1.PoolLimits
		fits   int // of jobs of ann, ann, bob, all in group red
		text   string
	}{
		{"pool", &sluicev1.PoolLimits{MaxPendingJobs: proto.Uint32(2)}, 2, "2 jobs wait in it"},
		{"user", &sluicev1.PoolLimits{MaxPendingJobsPerUser: proto.Uint32(1)}, 1, `1 job of "ann" waits in it`},
		{"group", &sluicev1.PoolLimits{MaxPendingJobsPerGroup: proto.Uint32(2)}, 2, `2 jobs of group "red" wait in it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAPITest(t)
			a.createPool(t, &sluicev1.PoolSpec{Path: "root/a", Limits: tt.limits})
			a.createPool(t, &sluicev1.PoolSpec{Path: "root/a/b"})
			var specs []*sluicev1.JobSpec
			for i, owner := range []string{"ann", "ann", "bob"} {
				spec := sleepJob(fmt.Sprintf("job-%d", i))
				spec.Pool, spec.Owner, spec.Groups = "root/a/b", owner, []string{"red"}
				specs = append(specs, spec)
			}
			_, err := a.jobs.SubmitJobs(t.Context(), &sluicev1.SubmitJobsRequest{Specs: specs[:tt.fits+1]})
			require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
			require.ErrorContains(t, err, tt.text)
			require.Zero(t, a.Snapshot().NumJobs(), "all or none")
			for _, spec := range specs[:tt.fits] {
				a.submit(t, spec)
			}
			a.submit(t, specs[0]) // the same job again is no new one
			_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: specs[tt.fits]})
			require.ErrorContains(t, err, tt.text)
			_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job-0"})
			require.NoError(t, err)
			a.submit(t, specs[tt.fits])
		})
	}
}

// What waits is counted once for all jobs of a request, since nothing else is decided meanwhile.
func TestPendingJobsAreCountedOnce(t *testing.T) {
	const n = 500
	in, path := cluster.NewState(), cluster.PoolPath("root/"+strings.Repeat("a", maxKeyLength))
	jobs := func(first cluster.JobUID) (list []cluster.NewJob) {
		for i := range cluster.JobUID(n) {
			spec := &cluster.JobSpec{Name: cluster.JobID(fmt.Sprint("job-", first+i)), Pool: path + "/b", Owner: "ann", Instances: 1}
			list = append(list, cluster.NewJob{UID: first + i, Spec: spec})
		}
		return list
	}
	for _, e := range []cluster.Event{
		&cluster.PoolPut{Pool: cluster.Pool{
			Path: path, Limits: cluster.PoolLimits{PendingJobs: new(uint32(2 * n)), PendingJobsPerUser: new(uint32(2 * n))},
		}},
		&cluster.PoolPut{Pool: cluster.Pool{Path: path + "/b"}},
		&cluster.JobsSubmitted{Jobs: jobs(1)},
	} {
		require.NoError(t, in.Apply(cluster.Record{Seq: in.Seq() + 1, At: 1, Event: e}))
	}
	fresh := jobs(n + 1)
	require.NoError(t, checkPending(in, fresh))
	require.ErrorContains(t, checkPending(in, append(fresh, fresh[0])), "1000 jobs wait in it")
	require.Less(t, testing.AllocsPerRun(1, func() { _ = checkPending(in, fresh) }), float64(10*n))
}

// What runs, or has ended, is not looked at: jobs are kept for long, and each submission would cost as many.
func TestPendingJobsAreCountedAmongThoseThatWait(t *testing.T) {
	const kept = 100
	in := cluster.NewState()
	apply := func(e cluster.Event) {
		require.NoError(t, in.Apply(cluster.Record{Seq: in.Seq() + 1, At: 1, Event: e}))
	}
	apply(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Limits: cluster.PoolLimits{PendingJobs: new(uint32(2))}}})
	job := func() cluster.NewJob {
		uid := in.NextJob()
		return cluster.NewJob{UID: uid, Spec: &cluster.JobSpec{Name: cluster.JobID(fmt.Sprint("job-", uid)), Pool: "root/a", Instances: 1}}
	}
	for range kept {
		n := job()
		apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{n}})
		apply(&cluster.JobStopping{Job: n.UID})
	}
	apply(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{job()}})
	looked := 0
	for range in.Unstarted() {
		looked++
	}
	require.Equal(t, 1, looked)
	fresh := []cluster.NewJob{job()}
	require.NoError(t, checkPending(in, fresh))
	require.ErrorContains(t, checkPending(in, append(fresh, fresh[0])), "2 jobs wait in it")
}

// A job that has ended does not keep its pool from getting pools below it, and then runs no more: no cycle would look at it.
func TestWhatEndedDoesNotRunAgainInAnInnerPool(t *testing.T) {
	a := newAPITest(t)
	a.setMode(t, &sluicev1.ClusterMode{SchedulingStopped: true})
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a"})
	batch, service := sleepJob("batch"), sleepJob("service")
	batch.Pool, service.Pool, service.Type = "root/a", "root/a", sluicev1.JobType_JOB_TYPE_STATELESS
	for _, spec := range []*sluicev1.JobSpec{batch, service} {
		a.submit(t, spec)
		_, err := a.tasks.StopTask(t.Context(), &sluicev1.StopTaskRequest{Job: spec.Name})
		require.NoError(t, err)
	}
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/a/b"})
	more := proto.CloneOf(service)
	more.Instances = proto.Uint32(2)
	for name, call := range map[string]func() error{
		"restart a task": func() error {
			_, err := a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "batch"})
			return err
		},
		"restart a job": func() error {
			_, err := a.jobs.RestartJob(t.Context(), &sluicev1.RestartJobRequest{Name: "service"})
			return err
		},
		"update": func() error {
			_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
			return err
		},
		"roll back": func() error {
			_, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "service", Action: sluicev1.ControlUpdateRequest_ROLLBACK})
			return err
		},
	} {
		err := call()
		require.Equal(t, codes.FailedPrecondition, status.Code(err), name)
		require.ErrorContains(t, err, `its pool "root/a" has pools below it`, name)
	}
	_, err := a.pools.DeletePool(t.Context(), &sluicev1.DeletePoolRequest{Path: "root/a/b"})
	require.NoError(t, err)
	_, err = a.tasks.RestartTask(t.Context(), &sluicev1.RestartTaskRequest{Job: "batch"})
	require.NoError(t, err)
}

// Whatever field of a pool is set: the server either keeps it, so that it comes back, or refuses it by name.
func TestNothingOfAPoolIsIgnored(t *testing.T) {
	a := newAPITest(t)
	kept := 0
	for i, p := range probes((&sluicev1.PoolSpec{}).ProtoReflect().Descriptor(), 4) {
		spec := &sluicev1.PoolSpec{Path: fmt.Sprintf("root/p%d", i)}
		p.set(spec.ProtoReflect())
		want := p.get(spec.ProtoReflect())
		for _, r := range spec.Resources {
			if r.Dimension == "" {
				r.Dimension = "cpu_milli"
			}
			if r.Reservation > 0 {
				r.Limit = nil
			}
		}
		for _, r := range spec.Access {
			r.Users = append(r.Users, "z") // the last one comes back
			if want == "x7" {
				r.Users = []string{"x7"}
			}
			if r.Permission == 0 {
				r.Permission = sluicev1.AccessRule_VIEW
			}
		}
		_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: spec})
		if err == nil {
			require.Equal(t, want, p.get(a.pool(t, spec.Path).Spec.ProtoReflect()), p.path)
			kept++
			continue
		}
		require.Contains(t, []codes.Code{codes.Unimplemented, codes.InvalidArgument}, status.Code(err), "%s: %v", p.path, err)
		require.Contains(t, err.Error(), p.path[:min(len(p.path), 4)], "%s is not named by %v", p.path, err)
	}
	require.Greater(t, kept, 15)
}

// What the cycle found out about pools comes with them: entitlement, tiers, and what binds.
func TestPoolStatus(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 6)
	a.createPool(t, cpuClaim("root/a", 2000, -1))
	a.createPool(t, cpuClaim("root/b", 0, 3000))
	for _, p := range []string{"root/a", "root/b"} {
		spec := sleepJob("job-" + p[len("root/"):])
		spec.Pool, spec.Instances = p, proto.Uint32(10)
		a.submit(t, spec)
	}
	// 2 are reserved for a, and the other 4 are shared: 4 for a and 2 for b.
	show := func(path string) string {
		for _, d := range a.pool(t, path).Dimensions {
			if d.Dimension == "cpu_milli" {
				return fmt.Sprint(d.Reservation, d.Limit, d.Share, d.Entitlement, d.BoundBy, d.ReservedTasks, d.EntitledTasks)
			}
		}
		return ""
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, fmt.Sprint(2000, -1, 1, 4000, "root", 2, 2), show("root/a"))
		assert.Equal(c, fmt.Sprint(0, 3000, 1, 2000, "root", 0, 2), show("root/b"))
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, int64(6000), a.pool(t, "root").Dimensions[0].Entitlement)
	var chain []string
	for _, b := range a.pool(t, "root/a").Dimensions[0].BoundChain {
		chain = append(chain, fmt.Sprint(b.Pool, b.Entitlement, b.Wanted))
	}
	require.Equal(t, []string{fmt.Sprint("root/a", 4000, 10000), fmt.Sprint("root", 6000, 20000)}, chain)
}

// What is wanted may be more than can be counted.
func TestPoolStatusOfMoreThanCanBeCounted(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 6)
	a.createPool(t, cpuClaim("root/a", 0, 4000))
	for name, instances := range map[string]uint32{"few": 2, "huge": 100_000} {
		spec := sleepJob(name)
		spec.Pool, spec.Instances = "root/a", &instances
		if name == "huge" {
			spec.Task.Resources.CpuMilli = cluster.MaxAmount
		}
		a.submit(t, spec)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, int64(2000), a.pool(t, "root/a").Dimensions[0].Allocation)
		why, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "huge"})
		require.NoError(c, err)
		assert.Contains(c, strings.Join(why.GetWaiting().GetUnblockers(), "\n"), fmt.Sprint(math.MaxInt64-4000, " more cpu_milli for pool root/a"))
		for _, b := range a.pool(t, "root/a").Dimensions[0].BoundChain {
			assert.Equal(c, int64(math.MaxInt64), b.Wanted, b.Pool)
		}
		assert.NotEmpty(c, a.pool(t, "root/a").Dimensions[0].BoundChain)
	}, 10*time.Second, 10*time.Millisecond)
}

// Who had to leave is told for whom, from which pool, at what price, and what the next best choice would have cost.
func TestExplainsAPreemption(t *testing.T) {
	a := newAPITest(t)
	for _, h := range []cluster.HostID{"s/h", "s/i", "s/j", "s/k", "s/l"} {
		a.addHost(t, h, 2)
	}
	a.createPool(t, cpuClaim("root/a", 0, -1))
	spec := sleepJob("patient")
	spec.Pool, spec.Instances = "root/a", proto.Uint32(10)
	a.submit(t, spec)
	placed := func() int {
		n := 0
		for task := range a.Snapshot().Tasks(0) {
			if task.State.Bound() {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return placed() == 10 }, 10*time.Second, 10*time.Millisecond)
	urgent := sleepJob("urgent")
	urgent.Pool, urgent.Priority = "root/a", 7
	a.submit(t, urgent)
	var why *sluicev1.PreemptionExplanation
	require.Eventually(t, func() bool {
		for i := range uint32(10) {
			answer, err := a.tasks.ExplainTask(t.Context(), &sluicev1.ExplainTaskRequest{Job: "patient", Instance: i})
			if err == nil && answer.Preempted != nil {
				why = answer.Preempted
			}
		}
		return why != nil
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "urgent", why.BeneficiaryJob)
	require.Equal(t, "root/a", why.BeneficiaryPool)
	require.Len(t, why.Alternatives, 3)
	seen := map[string]bool{}
	for i, other := range why.Alternatives {
		require.False(t, seen[other.Host], other.Host)
		seen[other.Host] = true
		require.GreaterOrEqual(t, other.CostMs, why.Alternatives[max(0, i-1)].CostMs)
	}
}
