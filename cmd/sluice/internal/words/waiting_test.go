package words

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestWaiting(t *testing.T) {
	tally := func(reason, detail string, hosts uint64) *sluicev1.HostTally {
		return &sluicev1.HostTally{Reason: reason, Detail: detail, Hosts: hosts}
	}
	full, small, other := tally("NO_ROOM", "cpu_milli", 2), tally("TOO_SMALL", "memory_bytes", 3), tally("CONSTRAINT_MISMATCH", "", 4)
	unmet := tally("CONSTRAINT_MISMATCH", "rack=r9 (4), gpu or zone=b (1)", 4)
	for _, tt := range []struct {
		w    *sluicev1.WaitingExplanation
		want string
	}{
		{nil, ""},
		{&sluicev1.WaitingExplanation{Reason: "SCHEDULING_STOPPED"}, "scheduling is switched off"},
		{&sluicev1.WaitingExplanation{Reason: "RESTORED"}, "it is not known yet what runs since the snapshot"},
		{&sluicev1.WaitingExplanation{Reason: "DEPENDENCIES", BlockingJob: "other"}, "waits for job other"},
		{&sluicev1.WaitingExplanation{Reason: "BACK_OFF"}, "it is tried again later"},
		{&sluicev1.WaitingExplanation{Reason: "ROOM_HELD"}, "room is held for it"},
		{&sluicev1.WaitingExplanation{Reason: "ROOM_HELD", BindingPool: "root", BindingDimension: "cpu_milli"}, "room is held for it; pool root: limit (cpu_milli)"},
		{&sluicev1.WaitingExplanation{Reason: "HOST_AWAY", Tally: []*sluicev1.HostTally{tally("DRAINING", "", 1)}}, "its host s/h: draining"},
		{&sluicev1.WaitingExplanation{Reason: "HOST_AWAY", Tally: []*sluicev1.HostTally{tally("CONSTRAINT_MISMATCH", "ssd", 1)}}, "its host s/h: constraints: ssd"},
		{&sluicev1.WaitingExplanation{Reason: "NO_ROOM", Hosts: 9, Tally: []*sluicev1.HostTally{other, small, full}}, "no room: cpu_milli (2 of 9 hosts)"},
		{&sluicev1.WaitingExplanation{Reason: "NO_ROOM", Hosts: 4, Tally: []*sluicev1.HostTally{small, tally("OPEN", "", 1)}}, "room by now (1 of 4 hosts)"},
		{&sluicev1.WaitingExplanation{Reason: "NO_ROOM", Together: 4, TogetherFit: 1}, "no room for all at once: for 1 of 4"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 7, Tally: []*sluicev1.HostTally{other, small}}, "no host fits: constraints (4 of 7 hosts), memory_bytes (3)"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 4, Tally: []*sluicev1.HostTally{unmet}}, "no host fits: constraints (4 of 4 hosts: rack=r9 (4), gpu or zone=b (1))"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 9, Tally: []*sluicev1.HostTally{tally("DRAINING", "", 5), unmet}}, "no host fits: draining (5 of 9 hosts), constraints (4: rack=r9 (4), gpu or zone=b (1))"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 3, Tally: []*sluicev1.HostTally{small}}, "no host fits: memory_bytes (3 of 3 hosts)"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 1, Tally: []*sluicev1.HostTally{tally("TOO_SMALL", "cpu_milli", 1)}}, "no host fits: cpu_milli (1 of 1 host)"},
		{&sluicev1.WaitingExplanation{Reason: "NO_ROOM", Hosts: 1, Tally: []*sluicev1.HostTally{tally("OPEN", "", 1)}}, "room by now (1 of 1 host)"},
		{&sluicev1.WaitingExplanation{Reason: "LIMIT", BindingPool: "root/a", BindingDimension: "cpu_milli"}, "pool root/a: limit (cpu_milli)"},
		{&sluicev1.WaitingExplanation{Reason: "RUNNING_JOBS", BindingPool: "root/a"}, "pool root/a: limit of running jobs"},
		{&sluicev1.WaitingExplanation{Reason: "MAX_RUNNING_INSTANCES", BindingPool: "root/a"}, "its job runs as many at once as it may"},
		{&sluicev1.WaitingExplanation{Reason: "A_NEWER_RULE", BindingPool: "root/a"}, "pool root/a: a newer rule"},
		{&sluicev1.WaitingExplanation{Reason: "NO_HOST_FITS", Hosts: 3, Tally: []*sluicev1.HostTally{tally("A_NEWER_REASON", "", 3)}}, "no host fits: a newer reason (3 of 3 hosts)"},
	} {
		require.Equal(t, tt.want, Waiting(&sluicev1.Task{HomeHost: "s/h", Waiting: tt.w}), "%v", tt.w)
	}
	again := &sluicev1.Task{NotBefore: timestamppb.New(time.Unix(0, 0)), Waiting: &sluicev1.WaitingExplanation{Reason: "BACK_OFF"}}
	require.Equal(t, "again at "+Time(again.NotBefore), Waiting(again))
	require.Equal(t, "PREEMPTED; there are no hosts", why(&sluicev1.Task{Reason: "PREEMPTED", Waiting: &sluicev1.WaitingExplanation{Reason: "NO_HOSTS"}}))
}
