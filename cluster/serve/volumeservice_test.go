package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// keep reports one host of the shard with volumes of a byte each, and waits until that is known.
func (sh *scripted) keep(r *rig, shard string, volumes ...string) {
	info := &sluicev1.HostInfo{Name: "h0", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000, MemoryBytes: 1 << 30}}}
	for _, name := range volumes {
		info.Volumes = append(info.Volumes, &sluicev1.VolumeInfo{Name: name, Bytes: 1, Present: true})
	}
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{info}}}})
	w := r.s.Watch()
	defer w.Close()
	for range w.C {
		s, _, _ := w.Take()
		if h := s.Host(cluster.MakeHostID(cluster.ShardID(shard), "h0")); h != nil && len(h.Volumes) == len(volumes) {
			return
		}
	}
}

// TestVolumes: they are what hosts report, and go when the host manager says that they are gone.
func TestVolumes(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	volumes := sluicev1.NewVolumeServiceClient(r.conn)
	east, west := r.connect("east", 1), r.connect("west", 1)
	east.keep(r, "east", "db-1", "only", "db-0")
	west.keep(r, "west", "db-0")

	size := uint32(3)
	first, err := volumes.ListVolumes(t.Context(), &sluicev1.ListVolumesRequest{PageSize: &size})
	require.NoError(t, err)
	rest, err := volumes.ListVolumes(t.Context(), &sluicev1.ListVolumesRequest{PageSize: &size, PageToken: first.NextPageToken})
	require.NoError(t, err)
	var all []string
	for _, v := range append(first.Volumes, rest.Volumes...) {
		all = append(all, v.Host+" "+v.Spec.Name)
		require.EqualValues(t, 1, v.Spec.Bytes)
		require.Equal(t, sluicev1.VolumeState_VOLUME_STATE_READY, v.State)
	}
	require.Equal(t, []string{"east/h0 db-0", "east/h0 db-1", "east/h0 only", "west/h0 db-0"}, all)
	some, err := volumes.ListVolumes(t.Context(), &sluicev1.ListVolumesRequest{Host: "west/h0"})
	require.NoError(t, err)
	require.Len(t, some.Volumes, 1)
	_, err = volumes.ListVolumes(t.Context(), &sluicev1.ListVolumesRequest{Host: "west/h7"})
	require.Equal(t, codes.NotFound, status.Code(err))

	for _, c := range []struct {
		name, host string
		code       codes.Code
		says       string
	}{
		{"", "", codes.InvalidArgument, "is required"},
		{"none", "", codes.NotFound, "no host has such a volume"},
		{"only", "west/h0", codes.NotFound, `host "west/h0" has no such volume`},
		{"db-0", "", codes.FailedPrecondition, "hosts east/h0, west/h0 have one of this name"},
	} {
		_, err := volumes.GetVolume(t.Context(), &sluicev1.GetVolumeRequest{Name: c.name, Host: c.host})
		require.Equal(t, c.code, status.Code(err))
		require.ErrorContains(t, err, c.says)
		_, err = volumes.DeleteVolume(t.Context(), &sluicev1.DeleteVolumeRequest{Name: c.name, Host: c.host})
		require.ErrorContains(t, err, c.says)
	}

	deleted := make(chan error, 1)
	remove := func(host string) {
		_, err := volumes.DeleteVolume(t.Context(), &sluicev1.DeleteVolumeRequest{Name: "db-0", Host: host})
		deleted <- err
	}
	answer := func(sh *scripted, present bool, message string) {
		command := sh.down().GetVolume()
		require.Equal(t, []any{"db-0", "h0", true}, []any{command.GetName(), command.GetHost(), command.GetDestroy()})
		sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Volumes{Volumes: &sluicev1.VolumeReport{Volumes: []*sluicev1.VolumeInfo{
			{Name: "somebody else's"}, {Name: "db-0", Host: "h0", Present: present, Message: message},
		}}}})
	}
	go remove("east/h0")
	answer(east, true, "run 1.0.1 uses it")
	require.ErrorContains(t, <-deleted, "run 1.0.1 uses it")
	go remove("east/h0")
	answer(east, false, "")
	select {
	case err := <-deleted:
		require.Fail(t, "the state does not know it yet", err)
	default:
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err = r.s.awaitNoVolume(soon, place{"east/h0", "db-0"})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.ErrorContains(t, err, "has destroyed it, and has not reported")
	east.keep(r, "east", "db-1", "only")
	require.NoError(t, <-deleted)
	_, err = volumes.GetVolume(t.Context(), &sluicev1.GetVolumeRequest{Name: "db-0", Host: "east/h0"})
	require.Equal(t, codes.NotFound, status.Code(err))
	go remove("west/h0")
	require.True(t, west.down().GetVolume().GetDestroy())
	west.cancel()
	err = <-deleted
	require.Equal(t, codes.Unavailable, status.Code(err), "and not after a minute")
	require.ErrorContains(t, err, "its host manager is gone")
	require.Eventually(t, func() bool { // the server notices
		_, away := r.s.shards.away("west", time.Now())
		return away
	}, time.Minute, time.Millisecond)
	go remove("west/h0")
	err = <-deleted
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "its host manager is not connected")
}

// Whatever a volume is asked for with, the answer says how there comes to be one.
func TestVolumesAreNotMadeByThemselves(t *testing.T) {
	a := newAPITest(t)
	for _, spec := range []*sluicev1.VolumeSpec{nil, {}, {Name: "db", Bytes: 1, Owner: "ann"}} {
		_, err := sluicev1.NewVolumeServiceClient(a.conn).CreateVolume(t.Context(), &sluicev1.CreateVolumeRequest{Spec: spec})
		requireViolation(t, err, codes.Unimplemented, "spec", "the first task that mounts a volume on a host makes it there")
	}
}

// TestAVolumeThatIsUsed is not deleted.
func TestAVolumeThatIsUsed(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	volumes := sluicev1.NewVolumeServiceClient(r.conn)
	east := r.connect("east", 1)
	east.keep(r, "east", "db-0")
	h := r.s.Snapshot().Host("east/h0")
	require.Nil(t, userOf(r.s.Snapshot(), h, "db-0"))
	require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
		uid, able := tx.State().NextJob(), *h.Machine
		spec := &cluster.JobSpec{Name: "work", Pool: cluster.DefaultPool, Instances: 1}
		spec.Task.Volumes = []cluster.Volume{{Name: "db-{instance}", MountPath: "data"}}
		able.Capabilities |= spec.Task.Needs()
		return errors.Join(
			tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}}),
			tx.Emit(&cluster.HostReported{ID: h.ID, Machine: able}),
			tx.Emit(&cluster.Placed{Task: cluster.MakeTaskKey(uid, 0), Run: 1, Host: h.ID}),
		)
	}))
	_, err := volumes.DeleteVolume(t.Context(), &sluicev1.DeleteVolumeRequest{Name: "db-0"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "work/0 uses it")
	got, err := volumes.GetVolume(t.Context(), &sluicev1.GetVolumeRequest{Name: "db-0"})
	require.NoError(t, err)
	require.Equal(t, "work", got.Volume.UsedByJob)
	s := r.s.Snapshot()
	hidden := heldTo(s, s.Host(h.ID), cluster.HeldVolume{Name: "db-0"}, func(*cluster.Job) bool { return false })
	require.Empty(t, hidden.UsedByJob, "the caller may not see it")
}

// Nor is one to which an instance of a stateful job comes back, though it does not run now.
func TestAVolumeThatIsWaitedFor(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	volumes := sluicev1.NewVolumeServiceClient(r.conn)
	east := r.connect("east", 1)
	east.keep(r, "east", "db-0")
	k := cluster.MakeTaskKey(1, 0)
	emit := func(events ...cluster.Event) {
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error {
			for _, e := range events {
				if err := tx.Emit(e); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	spec := &cluster.JobSpec{Name: "db", Pool: cluster.DefaultPool, Type: cluster.Stateful, Instances: 1}
	spec.Task.Volumes = []cluster.Volume{{Name: "db-{instance}", MountPath: "data"}}
	able := *r.s.Snapshot().Host("east/h0").Machine
	able.Capabilities |= spec.Task.Needs()
	emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: spec}}}, &cluster.HostReported{ID: "east/h0", Machine: able},
		&cluster.Placed{Task: k, Run: 1, Host: "east/h0"}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskRunning},
		&cluster.TaskStopping{Task: k, Reason: cluster.ReasonTaskStopped}, &cluster.TaskStatus{Task: k, Run: 1, State: cluster.TaskKilled})

	_, err := volumes.DeleteVolume(t.Context(), &sluicev1.DeleteVolumeRequest{Name: "db-0"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "db/0 comes back to it")
	got, err := volumes.GetVolume(t.Context(), &sluicev1.GetVolumeRequest{Name: "db-0"})
	require.NoError(t, err)
	require.Equal(t, "db", got.Volume.UsedByJob)

	emit(&cluster.HomeForgotten{Task: k})
	s := r.s.Snapshot()
	require.Nil(t, userOf(s, s.Host("east/h0"), "db-0"))
}

func TestVolumesThatMakeNoSense(t *testing.T) {
	for says, list := range map[string][]*sluicev1.VolumeInfo{
		"must have 1..255 characters": {{Name: ""}},
		"the size must be 0..":        {{Name: "a", Bytes: -1}},
		"is there twice":              {{Name: "a"}, {Name: "b"}, {Name: "a"}},
		"at most 10000 are handled":   make([]*sluicev1.VolumeInfo, maxHeld+1),
	} {
		_, err := heldFrom(list)
		require.ErrorContains(t, err, says)
	}
	got, err := heldFrom([]*sluicev1.VolumeInfo{{Name: "b", Bytes: 2}, {Name: "a"}})
	require.NoError(t, err)
	require.Equal(t, []cluster.HeldVolume{{Name: "a"}, {Name: "b", Bytes: 2}}, got)
}
