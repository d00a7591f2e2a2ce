package serve

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func toPool(p string) *sluicev1.QueueMappingRule {
	return &sluicev1.QueueMappingRule{Target: &sluicev1.QueueMappingRule_Pool{Pool: p}}
}

func (a *apiTest) setMapping(t *testing.T, version uint64, rules ...*sluicev1.QueueMappingRule) (*sluicev1.QueueMapping, error) {
	t.Helper()
	answer, err := a.pools.SetQueueMapping(t.Context(), &sluicev1.SetQueueMappingRequest{
		Mapping: &sluicev1.QueueMapping{Rules: rules, Version: version},
	})
	return answer.GetMapping(), err
}

func TestQueueMapping(t *testing.T) {
	a := newAPITest(t)
	for _, p := range []string{"root/users", "root/users/ann", "root/ml", "root/shut"} {
		a.createPool(t, &sluicev1.PoolSpec{Path: p})
	}
	unset, err := a.pools.GetQueueMapping(t.Context(), &sluicev1.GetQueueMappingRequest{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&sluicev1.QueueMapping{}, unset.Mapping))

	reject := &sluicev1.QueueMappingRule{User: "eve", Target: &sluicev1.QueueMappingRule_Reject{Reject: true}}
	ml := toPool("root/{group}")
	ml.Group, ml.Labels = "ml", map[string]string{"gpu": "yes"}
	inner := toPool("root")
	inner.User = "root"
	users := toPool("root/users/{user}")
	users.Group = "people"
	rules := []*sluicev1.QueueMappingRule{reject, ml, inner, users}
	set, err := a.setMapping(t, 0, rules...)
	require.NoError(t, err)
	require.True(t, proto.Equal(&sluicev1.QueueMapping{Rules: rules, Version: 1}, set))
	got, err := a.pools.GetQueueMapping(t.Context(), &sluicev1.GetQueueMappingRequest{})
	require.NoError(t, err)
	require.True(t, proto.Equal(set, got.Mapping))
	_, err = a.setMapping(t, 0)
	requireViolation(t, err, codes.Aborted, "mapping.version", "the mapping has version 1")

	tests := []struct {
		name, owner string
		groups      []string
		labels      map[string]string
		named       string
		pool, wrong string
	}{
		{"by group and label", "ann", []string{"ml", "people"}, map[string]string{"gpu": "yes"}, "", "root/ml", ""},
		{"by user", "ann", []string{"people"}, nil, "", "root/users/ann", ""},
		{"a pool that is named is not mapped", "eve", nil, nil, "root/ml", "root/ml", ""},
		{"refused", "eve", []string{"people"}, nil, "", "", "rule 0 of the queue mapping refuses the job"},
		{"no rule", "ann", nil, nil, "", "", "no rule of the queue mapping matches the job"},
		{"no such pool", "bob", []string{"people"}, nil, "", "", `is "root/users/bob" by the queue mapping: there is no such pool`},
		{"an inner pool", "root", nil, nil, "", "", `it has pools below it`},
		{"nobody", "", []string{"people"}, nil, "", "", `leads to "root/users/{user}", and the job has no such name`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := sleepJob("job")
			spec.Owner, spec.Groups, spec.Labels, spec.Pool = tt.owner, tt.groups, tt.labels, tt.named
			_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
			if tt.wrong != "" {
				requireViolation(t, err, codes.InvalidArgument, "spec.pool", tt.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.pool, a.job(t, "job").Spec.Pool)
			_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "job"})
			require.NoError(t, err)
			_, err = a.jobs.DeleteJob(t.Context(), &sluicev1.DeleteJobRequest{Name: "job"})
			require.NoError(t, err)
		})
	}

	// Switched off, the default pool is back.
	_, err = a.setMapping(t, 1)
	require.NoError(t, err)
	a.submit(t, sleepJob("plain"))
	require.Equal(t, "root/default", a.job(t, "plain").Spec.Pool)
	_, err = a.jobs.StopJob(t.Context(), &sluicev1.StopJobRequest{Name: "plain"})
	require.NoError(t, err)
	a.createPool(t, &sluicev1.PoolSpec{Path: "root/default/x"})
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("job")})
	requireViolation(t, err, codes.InvalidArgument, "spec.pool", `is required: pool "root/default", to go to without, has pools below it`)
}

func TestBadMappings(t *testing.T) {
	a := newAPITest(t)
	tests := []struct {
		rule        *sluicev1.QueueMappingRule
		field, text string
	}{
		{&sluicev1.QueueMappingRule{User: "x"}, "mapping.rules[0]", "leads nowhere"},
		{&sluicev1.QueueMappingRule{Target: &sluicev1.QueueMappingRule_Reject{}}, "mapping.rules[0].reject", "is false"},
		{toPool(""), "mapping.rules[0].pool", "is required"},
		{toPool("users/{user}"), "mapping.rules[0].pool", `paths begin with "root"`},
		{toPool("root/{users}"), "mapping.rules[0].pool", `has a part "{users}"`},
		{&sluicev1.QueueMappingRule{User: "a\nb", Target: toPool("root").Target}, "mapping.rules[0].user", "control characters"},
	}
	for _, tt := range tests {
		_, err := a.setMapping(t, 0, tt.rule)
		requireViolation(t, err, codes.InvalidArgument, tt.field, tt.text)
	}
	_, err := a.pools.SetQueueMapping(t.Context(), &sluicev1.SetQueueMappingRequest{})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Nil(t, a.Snapshot().Mapping())
}

// A job that is there stays in its pool: the same spec again is the same job, and a new one is planned for it, wherever jobs without a
// pool go by now.
func TestWhatIsThereIsMappedNoMore(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.emit(t, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/other"}})
	a.grant(t, cluster.Submitter, "ann", "root/default")
	a.grant(t, cluster.Submitter, "adam", "root")
	for user, ctx := range map[string]context.Context{"ann": a.as(t, "ann"), "adam": a.as(t, "adam")} {
		a.emit(t, &cluster.QueueMappingSet{})
		spec := sleepJob(user + "s")
		_, err := a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: spec})
		require.NoError(t, err)
		for what, e := range map[string]cluster.Event{
			"to a pool":  &cluster.QueueMappingSet{Rules: []cluster.QueueRule{{Pool: "root/other"}}},
			"nowhere":    &cluster.QueueMappingSet{Rules: []cluster.QueueRule{{Reject: true}}},
			"to no pool": &cluster.QueueMappingSet{Rules: []cluster.QueueRule{{Pool: "root/none"}}},
		} {
			a.emit(t, e)
			again, err := a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: spec})
			require.NoError(t, err, "%s, %s", user, what)
			require.False(t, again.Created)
			wider := sleepJob(user + "s")
			wider.Instances = new(uint32(2))
			_, err = a.jobs.PlanJobs(ctx, &sluicev1.PlanJobsRequest{Specs: []*sluicev1.JobSpec{wider}})
			require.NoError(t, err, "%s, %s", user, what)
			_, err = a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: wider})
			requireViolation(t, err, codes.AlreadyExists, "spec.name", "another spec")
		}
	}
	a.emit(t, &cluster.QueueMappingSet{}, &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.DefaultPool, Draining: true}})
	again, err := a.jobs.SubmitJob(a.as(t, "ann"), &sluicev1.SubmitJobRequest{Spec: sleepJob("anns")})
	require.NoError(t, err, "it is no new job")
	require.False(t, again.Created)
}
