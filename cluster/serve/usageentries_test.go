package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// used returns a snapshot in which ann and bob have each had a task of one core for an hour on each of three days, in two pools, the last of
// which goes on.
func used(t *testing.T, begun time.Time) *cluster.Snapshot {
	s := cluster.NewState()
	emit := func(at time.Time, events ...cluster.Event) {
		for _, e := range events {
			require.NoError(t, s.Apply(cluster.Record{Seq: s.Seq() + 1, At: cluster.Time(at.UnixNano()), Event: e}))
		}
	}
	var r cluster.Resources
	r.Fixed[cluster.CPU], r.Fixed[cluster.Memory] = 1000, 2<<30
	emit(begun,
		&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a", Version: 1}}, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/b", Version: 1}},
		&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: r.Add(r).Add(r).Add(r)}})
	uid := cluster.JobUID(0)
	for d := range 3 {
		for _, who := range []struct {
			owner string
			pool  cluster.PoolPath
		}{{"ann", "root/a"}, {"bob", "root/b"}} {
			uid++
			at := begun.AddDate(0, 0, d)
			k := cluster.MakeTaskKey(uid, 0)
			emit(at, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: &cluster.JobSpec{
				Name: cluster.JobID(fmt.Sprintf("j%d", uid)), Pool: who.pool, Owner: who.owner, Instances: 1, Task: cluster.TaskSpec{Resources: r},
			}}}},
				&cluster.Placed{Task: k, Run: 1, Host: "s/h"}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning})
			if d < 2 {
				emit(at.Add(time.Hour), &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskFailed, Reason: cluster.ReasonExited})
			}
		}
	}
	snapshot, _ := s.Snapshot()
	return snapshot
}

func TestUsageIsSummedUp(t *testing.T) {
	begun := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	s := used(t, begun)
	now := cluster.Time(begun.AddDate(0, 0, 2).Add(30 * time.Minute).UnixNano())
	sum := func(u *usageSums, r *sluicev1.ListUsageRequest, who *access.Caller) map[string]string {
		u.entries = map[string]*usageSum{}
		shown := usageSight(s, who, r)
		for a := range s.Accounts(u.from) {
			if shown(a.Pool, a.Owner) {
				u.add(a)
			}
		}
		u.addRunning(s, now, shown)
		all := map[string]string{}
		for _, e := range u.entries {
			m := e.message()
			require.InDelta(t, 2*m.Used.CpuSeconds, m.Used.MemoryGibSeconds, 1e-6)
			require.InDelta(t, m.Used.RunSeconds, m.Used.CpuSeconds, 1e-6)
			all[m.Day+" "+m.Pool+" "+m.Owner] = fmt.Sprint(m.Used.CpuSeconds/3600, " ", m.Lost.CpuSeconds/3600, " ", m.RunsFailed)
		}
		return all
	}
	free, all := &access.Caller{Free: true}, &sluicev1.ListUsageRequest{}
	require.Equal(t, map[string]string{"  ": "5 4 4"}, sum(&usageSums{to: lastDay}, all, free))
	require.Equal(t, map[string]string{" root/a ann": "2.5 2 2", " root/b bob": "2.5 2 2"}, sum(&usageSums{to: lastDay, byPool: true, byOwner: true}, all, free))
	require.Equal(t, map[string]string{"2026-03-01  ": "2 2 2", "2026-03-02  ": "2 2 2", "2026-03-03  ": "1 0 0"}, sum(&usageSums{to: lastDay, byDay: true}, all, free))
	second := cluster.DayOf(cluster.Time(begun.UnixNano())) + 1
	require.Equal(t, map[string]string{"  ": "2 2 2"}, sum(&usageSums{from: second, to: second}, all, free))
	require.Equal(t, map[string]string{"  ": "1 0 0"}, sum(&usageSums{from: second + 1, to: lastDay}, all, free), "what goes on")
	require.Equal(t, map[string]string{"  ": "2.5 2 2"}, sum(&usageSums{to: lastDay}, &sluicev1.ListUsageRequest{Pool: "root/b"}, free))
	require.Equal(t, map[string]string{"  ": "2.5 2 2"}, sum(&usageSums{to: lastDay}, &sluicev1.ListUsageRequest{Pool: "root", Owner: "ann"}, free))

	// What goes on counts for the days that are kept, as when it ends; and without end if nobody says until when.
	far := now.Add((cluster.KeptDays + 10) * 24 * time.Hour)
	long := usageSums{to: lastDay, byDay: true, entries: map[string]*usageSum{}}
	long.addRunning(s, far, usageSight(s, free, all))
	require.Len(t, long.entries, cluster.KeptDays+1)
	short := usageSums{from: second + 100, to: second + 101, entries: map[string]*usageSum{}}
	short.addRunning(s, far, usageSight(s, free, all))
	require.Equal(t, (4 * 24 * time.Hour).Milliseconds(), short.entries["\x00\x00"].used.Time)

	// Who may not view a pool sees what is his own there, and a controller's token nothing.
	require.Equal(t, map[string]string{"  bob": "2.5 2 2"}, sum(&usageSums{to: lastDay, byOwner: true}, all, &access.Caller{User: "bob"}))
	require.Empty(t, sum(&usageSums{to: lastDay}, all, &access.Caller{User: "bob", Job: 2}))
	require.Empty(t, sum(&usageSums{to: lastDay}, all, &access.Caller{User: "carl"}))
}

func TestListUsage(t *testing.T) {
	a, ann, bob, _ := withHidden(t)
	for name, r := range map[string]*sluicev1.ListUsageRequest{
		"from_day": {FromDay: "yesterday"},
		"is \"1944-10-10\": a day such as 2026-01-31, from 1970-01-01 to 2200-12-31": {FromDay: "1944-10-10"},
		"is 1970-01-01, before from_day, which is 1970-01-02":                        {FromDay: "1970-01-02", ToDay: "1970-01-01"},
		"to_day":    {FromDay: "2026-01-02", ToDay: "2026-01-01"},
		"pool":      {Pool: "a"},
		"page_size": {PageSize: proto.Uint32(0)},
	} {
		_, err := a.pools.ListUsage(ann, r)
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
		require.ErrorContains(t, err, name)
	}
	for _, pool := range []string{"root/secret", "root/none"} {
		_, err := a.pools.ListUsage(bob, &sluicev1.ListUsageRequest{Pool: pool})
		require.Equal(t, codes.NotFound, status.Code(err), pool)
	}
	var k cluster.TaskKey
	for j := range a.Snapshot().Jobs(0) {
		k = cluster.MakeTaskKey(j.UID, 0)
	}
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		for _, e := range []cluster.Event{
			&cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capacity: a.Snapshot().Job(k.Job()).Spec.Task.Resources}},
			&cluster.Placed{Task: k, Run: 1, Host: "s/h"},
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
			&cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskSucceeded, Reason: cluster.ReasonExited},
		} {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	}))
	by := &sluicev1.ListUsageRequest{GroupBy: []sluicev1.ListUsageRequest_Group{sluicev1.ListUsageRequest_GROUP_POOL, sluicev1.ListUsageRequest_GROUP_OWNER}}
	answer, err := a.pools.ListUsage(ann, by)
	require.NoError(t, err)
	require.Len(t, answer.Entries, 1)
	require.Equal(t, []any{"", "root/secret", "ann", uint64(1)}, []any{answer.Entries[0].Day, answer.Entries[0].Pool, answer.Entries[0].Owner, answer.Entries[0].RunsSucceeded})
	// The accounts outlive the jobs and the pool: who finds them in the list may ask for them by its path.
	require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
		for _, e := range []cluster.Event{&cluster.JobDeleted{Job: k.Job()}, &cluster.PoolDeleted{Path: "root/secret"}} {
			if err := tx.Emit(e); err != nil {
				return err
			}
		}
		return nil
	}))
	answer, err = a.pools.ListUsage(ann, &sluicev1.ListUsageRequest{Pool: "root/secret"})
	require.NoError(t, err)
	require.Len(t, answer.Entries, 1)
	_, err = a.pools.ListUsage(bob, &sluicev1.ListUsageRequest{Pool: "root/secret"})
	require.Equal(t, codes.NotFound, status.Code(err))
	answer, err = a.pools.ListUsage(bob, by)
	require.NoError(t, err)
	require.Empty(t, answer.Entries)
	answer, err = a.pools.ListUsage(ann, &sluicev1.ListUsageRequest{GroupBy: []sluicev1.ListUsageRequest_Group{sluicev1.ListUsageRequest_GROUP_DAY}})
	require.NoError(t, err)
	require.Len(t, answer.Entries, 1)
	require.NotEmpty(t, answer.Entries[0].Day)
	require.Empty(t, answer.Entries[0].Pool+answer.Entries[0].Owner)
}
