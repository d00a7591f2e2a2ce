package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

func receipt(user, key string, jobs ...cluster.JobUID) *cluster.RequestAnswered {
	r := cluster.Receipt{For: cluster.RequestKey{User: user, Key: key}, Digest: []byte{1}}
	for _, uid := range jobs {
		r.Jobs = append(r.Jobs, cluster.JobAnswer{UID: uid, Version: 1, Created: true})
	}
	return &cluster.RequestAnswered{Receipt: r}
}

// restored returns a state that was loaded from a checkpoint of s.
func restored(t *testing.T, s *cluster.State) *cluster.State {
	t.Helper()
	snapshot, _ := s.Snapshot()
	copied := cluster.NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, copied.Apply(cluster.Record{Seq: snapshot.Seq(), Event: part}))
	}
	again, _ := copied.Snapshot()
	require.Equal(t, contents(snapshot), contents(again))
	return copied
}

func TestReceiptsOutliveTheirJobs(t *testing.T) {
	h := oneJob(t, 1)
	h.emit(receipt("ann", "k", 1), receipt("bob", "k", 7))
	h.emit(&cluster.JobStopping{Job: 1}, &cluster.JobDeleted{Job: 1})
	require.ErrorIs(t, h.try(receipt("ann", "k", 2)), cluster.ErrIllegal, "there is one")
	for _, s := range []*cluster.State{h.state, restored(t, h.state)} {
		ann, bob := s.Receipt(cluster.RequestKey{User: "ann", Key: "k"}, 0), s.Receipt(cluster.RequestKey{User: "bob", Key: "k"}, 0)
		require.Equal(t, cluster.JobUID(1), ann.Jobs[0].UID)
		require.Equal(t, cluster.JobUID(7), bob.Jobs[0].UID)
		require.Equal(t, cluster.Time(3), ann.At)
		require.Nil(t, s.Receipt(cluster.RequestKey{User: "ann", Job: 1, Key: "k"}, 0), "a token for one job is another caller")
	}
}

// A receipt goes with the first one that comes a day after it, and no sooner; one that was loaded from a checkpoint too.
func TestReceiptsAreKeptForADay(t *testing.T) {
	h := newHistory(t)
	h.emit(receipt("ann", "first", 1), receipt("ann", "second", 2))
	day := cluster.Time(cluster.ReceiptLife)
	for _, s := range []*cluster.State{h.state, restored(t, h.state)} {
		for i, at := range []cluster.Time{day, 1 + day} {
			key := fmt.Sprint("later-", i)
			require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: at, Event: receipt("bob", key, 3)}))
			require.Equal(t, at < 1+day, s.Receipt(cluster.RequestKey{User: "ann", Key: "first"}, 0) != nil)
			require.NotNil(t, s.Receipt(cluster.RequestKey{User: "ann", Key: "second"}, 0))
			require.NotNil(t, s.Receipt(cluster.RequestKey{User: "bob", Key: key}, 0))
		}
	}
	require.Equal(t, 24*time.Hour, cluster.ReceiptLife, "the API promises it")

	// Nor does it count any longer where none comes: a key may be used anew then.
	h = newHistory(t)
	h.emit(receipt("ann", "nightly", 1))
	key := cluster.RequestKey{User: "ann", Key: "nightly"}
	require.NotNil(t, h.state.Receipt(key, day))
	require.Nil(t, h.state.Receipt(key, 1+day))
	require.NoError(t, h.state.Apply(cluster.Record{Seq: h.state.Seq() + 1, At: 1 + day, Event: receipt("ann", "nightly", 2)}))
	require.Equal(t, cluster.JobUID(2), h.state.Receipt(key, 1+day).Jobs[0].UID)
}

// There are never more than the bounds say, of receipts and of jobs in them, and the oldest go.
func TestReceiptsAreBounded(t *testing.T) {
	many := make([]cluster.JobUID, 1000)
	for name, test := range map[string]struct {
		jobs []cluster.JobUID
		most int
	}{
		"receipts": {[]cluster.JobUID{1}, cluster.MaxReceipts},
		"jobs":     {many, cluster.MaxReceiptJobs / len(many)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t)
			for i := range test.most + 3 {
				h.emit(receipt("ann", fmt.Sprint(i), test.jobs...))
			}
			for i := range 6 {
				require.Equal(t, i >= 3, h.state.Receipt(cluster.RequestKey{User: "ann", Key: fmt.Sprint(i)}, 0) != nil, "%d", i)
			}
		})
	}
}

// What jobs had as keys before there were receipts, in events and in checkpoints, becomes receipts of their owners.
func TestKeysFromBeforeReceipts(t *testing.T) {
	var jobs []cluster.NewJob
	for uid := range cluster.JobUID(2) {
		jobs = append(jobs, cluster.NewJob{UID: uid + 1, IdempotencyKey: "key", Spec: &cluster.JobSpec{
			Name: cluster.JobID(fmt.Sprint("job-", uid)), Pool: cluster.RootPool, Instances: 1, Owner: "ann",
		}})
	}
	h := newHistory(t)
	h.emit(&cluster.JobsSubmitted{Jobs: jobs})

	old := cluster.NewState()
	require.NoError(t, old.Apply(cluster.Record{Event: &cluster.Restored{Header: &cluster.RestoredHeader{Seq: 1, NextJob: 3, Revision: 2}}}))
	for j := range h.state.Jobs(0) {
		was := *j
		was.IdempotencyKey = "key"
		require.NoError(t, old.Apply(cluster.Record{Event: &cluster.Restored{Jobs: []*cluster.Job{&was}}}))
	}
	for _, s := range []*cluster.State{h.state, old, restored(t, h.state), restored(t, old)} {
		r := s.Receipt(cluster.RequestKey{User: "ann", Key: "key"}, 0)
		require.Equal(t, []cluster.JobAnswer{{UID: 1, Version: 1, Revision: 1, Created: true}, {UID: 2, Version: 1, Revision: 2, Created: true}}, r.Jobs)
		require.Nil(t, r.Digest)
		require.Empty(t, s.Job(1).IdempotencyKey)
		require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, Event: receipt("ann", "key", 1, 2)}), "a repetition brings its digest")
		require.NotNil(t, s.Receipt(cluster.RequestKey{User: "ann", Key: "key"}, 0).Digest)
	}
}
