package words

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 64 << 20: "64Mi", -2048: "-2Ki", 5 << 40: "5Ti", 1 << 62: "4096Pi",
	} {
		require.Equal(t, want, Bytes(n))
	}
	require.Equal(t, "0.25", Milli(250))
	require.Equal(t, "cpu=1.5 memory=1Gi licence=2", Resources(&sluicev1.ResourceVector{
		CpuMilli: 1500, MemoryBytes: 1 << 30, Named: map[string]int64{"licence": 2},
	}))
	require.Empty(t, Resources(nil))
	require.Equal(t, "a=1,b=2", Labels(map[string]string{"b": "2", "a": "1"}))
	require.Empty(t, Time(nil))
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Unix(1000, 0).Add(d)) }
	for d, want := range map[time.Duration]string{
		1234 * time.Millisecond: "1.2s", 75*time.Second + 300*time.Millisecond: "1m15s", 150 * time.Minute: "2h30m", 75 * time.Hour: "3d3h", -time.Second: "0s",
	} {
		require.Equal(t, want, Span(at(0), at(d)))
	}
	require.Empty(t, Span(nil, at(0)))
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31m\tb\r\n": `a\x1b[31m` + "\t" + `b\r` + "\n", "rm \u202eevil\u2069": `rm \u202eevil\u2069`, "日本 שלום é": "日本 שלום é", "\x7f\u0085": `\x7f\u0085`,
	} {
		require.Equal(t, want, Visible(text, "\n\t"))
	}
}

func TestEnd(t *testing.T) {
	seven := int32(7)
	require.Equal(t, "exit code 7, EXITED", End(&sluicev1.Task{Reason: "EXITED", Result: &sluicev1.RunResult{ExitCode: &seven}}))
	require.Equal(t, "signal 9, RUN_TIME, ended by SIGKILL",
		End(&sluicev1.Task{Reason: "RUN_TIME", Message: "ended by SIGKILL", Result: &sluicev1.RunResult{Signal: 9}}))
	require.Equal(t, "signal 9, SIGNALED, out of memory", End(&sluicev1.Task{Reason: "SIGNALED", Message: "out of memory", Result: &sluicev1.RunResult{Signal: 9}}))
	require.Empty(t, End(&sluicev1.Task{}))
}

func TestCounts(t *testing.T) {
	counts := []*sluicev1.TaskStateCount{
		{State: sluicev1.TaskState_TASK_STATE_RUNNING, Count: 3},
		{State: sluicev1.TaskState_TASK_STATE_PENDING},
		{State: sluicev1.TaskState_TASK_STATE_KILLING, Count: 1},
	}
	j := &sluicev1.Job{TaskCounts: counts, ReadyCount: 2, Spec: &sluicev1.JobSpec{Type: sluicev1.JobType_JOB_TYPE_STATELESS}}
	require.Equal(t, "4: 3 running, 1 killing, 2 ready", Counts(j))
	j.Spec.Type = sluicev1.JobType_JOB_TYPE_BATCH
	require.Equal(t, "4: 3 running, 1 killing", Counts(j))
}

func TestUsageTable(t *testing.T) {
	entry := func(day, pool string, hours float64, runs uint64) *sluicev1.UsageEntry {
		return &sluicev1.UsageEntry{
			Day: day, Pool: pool, Used: &sluicev1.Usage{RunSeconds: 3600 * hours, CpuSeconds: 7200 * hours, MemoryGibSeconds: 1800 * hours, GpuSeconds: 36},
			Lost: &sluicev1.Usage{CpuSeconds: 360}, RunsSucceeded: runs, RunsFailed: 1, RunsLost: 2, RunsKilled: 3,
		}
	}
	one := []*sluicev1.UsageEntry{entry("2026-01-01", "root/a", 1, 7)}
	two := append(one, entry("2026-01-02", "root/b", 2, 8))
	require.Equal(t, Table{
		"DAY POOL RUN-HOURS CPU-HOURS LOST GIB-HOURS GPU-HOURS SUCCEEDED FAILED LOST-RUNS KILLED", [][]string{
			{"2026-01-01", "root/a", "1.000", "2.000", "0.100", "0.500", "0.010", "7", "1", "2", "3"},
			{"2026-01-02", "root/b", "2.000", "4.000", "0.100", "1.000", "0.010", "8", "1", "2", "3"},
			{"(all)", "", "3.000", "6.000", "0.200", "1.500", "0.020", "15", "2", "4", "6"},
		},
	}, UsageTable(two, true, true, false))
	require.Equal(t, Table{
		"RUN-HOURS CPU-HOURS LOST GIB-HOURS GPU-HOURS SUCCEEDED FAILED LOST-RUNS KILLED",
		[][]string{{"1.000", "2.000", "0.100", "0.500", "0.010", "7", "1", "2", "3"}},
	}, UsageTable(one, false, false, false))
}
