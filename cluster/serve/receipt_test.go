package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func requireSame(t *testing.T, want, got proto.Message) {
	t.Helper()
	require.True(t, proto.Equal(want, got), "%v\n%v", want, got)
}

// remove stops jobs and deletes them.
func (a *apiTest) remove(t *testing.T, names ...cluster.JobID) {
	t.Helper()
	for _, name := range names {
		uid := a.Snapshot().JobByName(name).UID
		a.emit(t, &cluster.JobStopping{Job: uid}, &cluster.JobDeleted{Job: uid})
	}
}

// A request that is repeated when its jobs, or some of them, have gone gets the same answer, and nothing is submitted. That
// holds too where what it names has gone with them: it was checked when it came first. And it holds after a restart.
func TestRepeatedRequestsWhoseJobsHaveGone(t *testing.T) {
	store := journal.NewMemory()
	a := newAPITestWith(t, func(c *Config) { c.Journal = store })
	a.emit(t, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/brief"}})
	a.submit(t, sleepJob("there"))
	a.submit(t, sleepJob("before"))
	one := &sluicev1.SubmitJobRequest{Spec: sleepJob("one"), IdempotencyKey: "once"}
	one.Spec.Pool = "root/brief"
	graph := &sluicev1.SubmitJobsRequest{Specs: []*sluicev1.JobSpec{sleepJob("ga"), sleepJob("there"), sleepJob("gb")}, IdempotencyKey: "graph"}
	graph.Specs[0].DependsOn = []*sluicev1.Dependency{{Job: "before", Condition: sluicev1.Dependency_ENDED}}
	no := &sluicev1.SubmitJobRequest{Spec: sleepJob("there"), IdempotencyKey: "no news"}
	first, err := a.jobs.SubmitJob(t.Context(), one)
	require.NoError(t, err)
	all, err := a.jobs.SubmitJobs(t.Context(), graph)
	require.NoError(t, err)
	nothing, err := a.jobs.SubmitJob(t.Context(), no)
	require.NoError(t, err)
	require.False(t, nothing.Created)

	a.remove(t, "one", "ga", "there", "before")
	a.emit(t, &cluster.PoolDeleted{Path: "root/brief"})
	loaded, err := journal.Load(store)
	require.NoError(t, err)
	restarted := newAPITestWith(t, func(c *Config) { c.Journal, c.State = store, loaded })
	for _, a := range []*apiTest{a, restarted} {
		seq := a.Snapshot().Seq()
		again, err := a.jobs.SubmitJob(t.Context(), one)
		require.NoError(t, err)
		requireSame(t, first, again)
		allAgain, err := a.jobs.SubmitJobs(t.Context(), graph)
		require.NoError(t, err)
		requireSame(t, all, allAgain)
		again, err = a.jobs.SubmitJob(t.Context(), no)
		require.NoError(t, err)
		requireSame(t, nothing, again)
		require.Equal(t, seq, a.Snapshot().Seq(), "nothing happened")
	}
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("one"), IdempotencyKey: "once"})
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
}

// A request that comes under the same key each night is carried out each night, also where nothing else came meanwhile.
func TestAKeyIsFreeAfterADay(t *testing.T) {
	nightly := &sluicev1.SubmitJobRequest{Spec: sleepJob("nightly"), IdempotencyKey: "nightly"}
	for name, tt := range map[string]struct {
		ago     time.Duration
		created bool
	}{"within a day": {23 * time.Hour, false}, "after it": {25 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			var c call
			c.who = &access.Caller{Free: true}
			require.NoError(t, c.note(nightly))
			store, state := journal.NewMemory(), cluster.NewState()
			tx := rules.Begin(state, cluster.Time(time.Now().Add(-tt.ago).UnixNano()))
			for _, e := range []cluster.Event{
				&cluster.ClusterCreated{ID: "c"}, &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.DefaultPool}},
				&cluster.RequestAnswered{Receipt: cluster.Receipt{
					For: c.keyed.key, Digest: (*Keyring)(nil).digest("", c.keyed.content), Jobs: []cluster.JobAnswer{{UID: 7, Version: 1}},
				}},
			} {
				require.NoError(t, tx.Emit(e))
			}
			require.NoError(t, store.Append(tx.Records()))
			a := newAPITestWith(t, func(c *Config) { c.Journal, c.State = store, state })
			answer, err := a.jobs.SubmitJob(t.Context(), nightly)
			require.NoError(t, err)
			require.Equal(t, tt.created, answer.Created)
			require.Equal(t, tt.created, a.Snapshot().JobByName("nightly") != nil)
			again, err := a.jobs.SubmitJob(t.Context(), nightly)
			require.NoError(t, err)
			requireSame(t, answer, again)
		})
	}
}

func TestIdempotencyKeysOfUpdates(t *testing.T) {
	a := newAPITest(t)
	a.submit(t, sleepJob("job"))
	update := func(key string, priority int32, version uint64) *sluicev1.UpdateJobRequest {
		r := &sluicev1.UpdateJobRequest{Spec: sleepJob("job"), ExpectedVersion: version, IdempotencyKey: key}
		r.Spec.Priority = priority
		return r
	}
	try := update("k", 1, 1)
	try.DryRun = true
	_, err := a.jobs.UpdateJob(t.Context(), try)
	require.NoError(t, err)
	first, err := a.jobs.UpdateJob(t.Context(), update("k", 1, 1))
	require.NoError(t, err, "a dry run needs no key and takes none")
	require.Equal(t, uint64(2), first.Job.Version)
	same, err := a.jobs.UpdateJob(t.Context(), update("same", 1, 2))
	require.NoError(t, err)
	require.Equal(t, uint64(2), same.Job.Version, "nothing to change")
	_, err = a.jobs.UpdateJob(t.Context(), update("", 2, 2))
	require.NoError(t, err)
	for _, r := range []*sluicev1.UpdateJobRequest{update("k", 1, 1), update("same", 1, 2)} {
		again, err := a.jobs.UpdateJob(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, uint64(3), again.Job.Version, "the job as it is now")
	}
	_, err = a.jobs.UpdateJob(t.Context(), update("k", 7, 3))
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("job"), IdempotencyKey: "k"})
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")

	a.remove(t, "job")
	a.submit(t, sleepJob("job"))
	again, err := a.jobs.UpdateJob(t.Context(), update("k", 1, 1))
	require.NoError(t, err)
	require.Equal(t, first.Job.Uid, again.Job.Uid, "not the job that has the name now")
	require.Equal(t, first.Job.Version, again.Job.Version)
	require.Equal(t, uint64(1), a.job(t, "job").Version)
}

// A request with another secret is another request, and what is kept of it does not tell the secret: without the key nothing
// can be compared.
func TestIdempotencyKeysOfSecrets(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "old") })
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: withSecret("job", "one"), IdempotencyKey: "s"})
	require.NoError(t, err)
	update := func(a *apiTest, value string) error {
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: withSecret("job", value), ExpectedVersion: 1, IdempotencyKey: "k"})
		return err
	}
	require.NoError(t, update(a, "two"))
	require.NoError(t, update(a, "two"))
	requireViolation(t, update(a, "three"), codes.AlreadyExists, "idempotency_key", "another request")
	requireViolation(t, update(a, ""), codes.AlreadyExists, "idempotency_key", "another request")
	r := a.Snapshot().Receipt(cluster.RequestKey{Key: "k"}, 0)
	require.Equal(t, "old", r.Keyring)

	restart := func(a *apiTest, keys ...string) *apiTest {
		store := journal.NewMemory()
		require.NoError(t, store.Restore(t.Context(), a.Snapshot()))
		loaded, err := journal.Load(store)
		require.NoError(t, err)
		return newAPITestWith(t, func(c *Config) { c.Journal, c.State, c.Secrets = store, loaded, newKeyring(t, keys...) })
	}
	rotating := restart(a, "new", "old")
	require.NoError(t, update(rotating, "two"), "the keys behind the first compare as well")
	requireViolation(t, update(rotating, "three"), codes.AlreadyExists, "idempotency_key", "another request")
	_, err = rotating.cluster.RotateKey(t.Context(), &sluicev1.RotateKeyRequest{})
	require.NoError(t, err)
	requireViolation(t, update(restart(rotating, "new"), "two"), codes.AlreadyExists, "idempotency_key", `cannot be compared without the key "old"`)
}

// The keys of one caller are nothing to another, and it does not matter to whom a caller belongs in the meantime.
func TestIdempotencyKeysBelongToCallers(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	a.grant(t, cluster.Submitter, "bob", "root")
	submit := func(name string, user string, groups ...string) (*sluicev1.SubmitJobResponse, error) {
		return a.jobs.SubmitJob(a.as(t, user, groups...), &sluicev1.SubmitJobRequest{Spec: sleepJob(name), IdempotencyKey: "nightly"})
	}
	ann, err := submit("a", "ann", "red")
	require.NoError(t, err)
	bob, err := submit("b", "bob")
	require.NoError(t, err)
	require.NotEqual(t, ann.Uid, bob.Uid)
	again, err := submit("a", "ann", "blue")
	require.NoError(t, err)
	requireSame(t, ann, again)
	_, err = submit("b", "ann")
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
}

// A key from before there were receipts is known by its jobs.
func TestIdempotencyKeysFromBeforeReceipts(t *testing.T) {
	a := newAPITest(t)
	for uid, name := range []string{"a", "b"} {
		spec := jobSpecFrom(sleepJob(name), "spec", new(violations))
		spec.Pool = cluster.DefaultPool
		a.emit(t, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: cluster.JobUID(uid + 1), IdempotencyKey: "key " + name, Spec: spec}}})
	}
	submit := func(key, name string) (*sluicev1.SubmitJobResponse, error) {
		return a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob(name), IdempotencyKey: key})
	}
	_, err := submit("key a", "b")
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
	for range 2 {
		again, err := submit("key a", "a")
		require.NoError(t, err)
		require.Equal(t, uint32(1), again.Uid)
		require.True(t, again.Created)
	}
	a.remove(t, "a", "b")
	again, err := submit("key a", "a")
	require.NoError(t, err, "it has its digest now")
	require.Equal(t, uint32(1), again.Uid)
	_, err = submit("key b", "b")
	requireViolation(t, err, codes.AlreadyExists, "idempotency_key", "another request")
}

// Whoever did not hear the answer to his request gets it when he asks again, whatever he may do by then and wherever jobs go. Of a
// job that he may not see any more he is told no more than was said then.
func TestRepeatedRequestsOfWhoMayNotAskForThatAnyMore(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	ann, operator := a.as(t, "ann"), a.as(t, "olga", "ops")
	submit := &sluicev1.SubmitJobRequest{Spec: sleepJob("job"), IdempotencyKey: "submit"}
	submitted, err := a.jobs.SubmitJob(ann, submit)
	require.NoError(t, err)
	update := &sluicev1.UpdateJobRequest{Spec: sleepJob("job"), ExpectedVersion: 1, IdempotencyKey: "update"}
	update.Spec.Priority = 1
	updated, err := a.jobs.UpdateJob(ann, update)
	require.NoError(t, err)

	given := sleepJob("job")
	given.Owner, given.Priority = "bob", 7
	_, err = a.jobs.UpdateJob(operator, &sluicev1.UpdateJobRequest{Spec: given, ExpectedVersion: 2})
	require.NoError(t, err)
	for what, e := range map[string]cluster.Event{
		"the role is gone":         &cluster.RoleRevoked{Binding: cluster.RoleBinding{Role: cluster.Submitter, User: "ann", Pool: "root"}},
		"jobs are mapped nowhere":  &cluster.QueueMappingSet{Rules: []cluster.QueueRule{{Reject: true}}},
		"the cluster is read-only": &cluster.ModeSet{Mode: cluster.Mode{ReadOnly: true}},
	} {
		a.emit(t, e)
		seq := a.Snapshot().Seq()
		again, err := a.jobs.SubmitJob(ann, submit)
		require.NoError(t, err, what)
		requireSame(t, submitted, again)
		job, err := a.jobs.UpdateJob(ann, update)
		require.NoError(t, err, what)
		require.Equal(t, updated.Job.Version, job.Job.Version)
		require.Equal(t, int32(1), job.Job.Spec.Priority)
		require.Empty(t, job.Job.Spec.Owner, what)
		require.Equal(t, seq, a.Snapshot().Seq(), "nothing happened")
	}
	_, err = a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: sleepJob("job"), IdempotencyKey: "new"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "nothing else is let through: %v", err)
}

// A caller who does not wait for the answer shares nothing with the change that he asked for: the race detector says so.
func TestWhoDoesNotWaitForTheAnswer(t *testing.T) {
	a := newAPITest(t)
	for range 50 {
		wait, cancel := context.WithCancel(t.Context())
		ctx := context.WithValue(wait, callKey{}, &call{who: &access.Caller{Free: true}})
		busy, answered := make(chan struct{}), make(chan struct{})
		go func() { _ = a.Do(t.Context(), func(*Tx) error { close(busy); <-wait.Done(); return nil }) }()
		<-busy
		go func() {
			defer close(answered)
			jobs, again, err := (&api{s: a.Scheduler}).once(ctx, func(*Tx) ([]cluster.JobAnswer, error) { return make([]cluster.JobAnswer, 1), nil })
			if err != nil {
				assert.Empty(t, jobs)
				assert.False(t, again)
				assert.Equal(t, codes.Canceled, status.Code(err))
			}
		}()
		require.Eventually(t, func() bool { return len(a.queue) > 0 }, time.Minute, time.Millisecond)
		cancel()
		<-answered
	}
}
