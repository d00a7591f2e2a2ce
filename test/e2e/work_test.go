//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTwoHundredTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	s.must("job", "submit", s.file("job.yaml", `
name: many
instances: 200
task:
  processes:
    - shell: echo "out $SLUICE_INSTANCE"; echo "err $SLUICE_INSTANCE" >&2
  resources: {cpu: 1, memory: 16Mi}
`), "--wait")
	list := get[taskList](s, "task", "list", "many")
	require.Len(t, list.Tasks, 200)
	hosts := map[string]int{}
	for i, task := range list.Tasks {
		require.Equal(t, i, task.Instance)
		require.Equal(t, "TASK_STATE_SUCCEEDED", task.State)
		require.Equal(t, 1, task.Run)
		require.NotNil(t, task.Result.ExitCode)
		require.Zero(t, *task.Result.ExitCode)
		hosts[task.Host]++
		logs := s.try("task", "logs", fmt.Sprintf("many/%d", i))
		require.Equal(t, answer{fmt.Sprintf("out %d\n", i), fmt.Sprintf("err %d\n", i), 0}, logs)
	}
	require.Len(t, hosts, 8)
	dev.finish()
}

func TestFailedTaskIsRetriedAsItsPolicySays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	job := func(name string, failures int) string {
		return s.file(name+".yaml", fmt.Sprintf(`
name: %s
restart: {max_failures: %d}
task:
  processes:
    - shell: echo "run $SLUICE_RUN"; test "$SLUICE_RUN" -ge 3 || exit 7
  resources: {cpu: 100m, memory: 16Mi}
`, name, failures))
	}
	s.must("job", "submit", job("enough", 2), "--wait")
	task := get[taskList](s, "task", "list", "enough").Tasks[0]
	require.Equal(t, 3, task.Run)
	require.Equal(t, "TASK_STATE_SUCCEEDED", task.State)
	require.Equal(t, "run 2\n", s.must("task", "logs", "enough/0", "--run", "2"))

	a := s.try("job", "submit", job("short", 1), "--wait")
	require.Equal(t, 4, a.code, a.err)
	require.Contains(t, a.err, "task short/0 failed: exit code 7")
	task = get[taskList](s, "task", "list", "short").Tasks[0]
	require.Equal(t, 2, task.Run)
	require.Equal(t, "TASK_STATE_FAILED", task.State)
	require.Equal(t, 7, *task.Result.ExitCode)
	require.Equal(t, 4, s.try("job", "wait", "short", "enough").code)
	dev.finish()
}

func TestTaskTooLargeSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	s.must("job", "submit", s.file("job.yaml", `
name: giant
task:
  processes: [{argv: ["true"]}]
  resources: {cpu: 4001m, memory: 1Mi}
`))
	var out string
	eventually(t, func() bool {
		out = s.must("task", "explain", "giant/0")
		return strings.Contains(out, "8 have too little cpu_milli, even empty")
	}, "the explanation: %s", out)
	explained := get[struct {
		Waiting struct {
			Reason string
			Tally  []struct{ Hosts string }
		}
	}](s, "task", "explain", "giant/0")
	require.NotEmpty(t, explained.Waiting.Reason)
	require.Equal(t, "8", explained.Waiting.Tally[0].Hosts)
	require.Equal(t, 7, s.try("job", "delete", "giant").code)
	s.must("job", "delete", "giant", "--stop")
	require.Equal(t, 3, s.try("job", "get", "giant").code)
	dev.finish()
}

func TestDemoIsRepeatable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 40 {
		path := filepath.Join(s.path("files"), fmt.Sprint(i%3), fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, make([]byte, i), 0o600))
	}
	for _, others := range [][]string{nil, {"--ca", "/of/another/scheduler.pem"}} {
		dev := s.dev(append(others, "--demo", "--demo-dir", s.path("files"))...)
		dev.says("demo: equal")
		require.Contains(t, dev.output(), "files=40 bytes=780 ")
		dev.finish()
	}
}

func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		path, err := filepath.Abs(f)
		require.NoError(t, err)
		s.must("job", "submit", path)
	}
	s.must("job", "wait", "hello", "retry", "words", "numbers", "rack")
	dev.finish()
}

func TestStandardInputAndRepetition(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev()
	file := s.file("job.yaml", "name: one\ntask:\n  processes: [{argv: [\"true\"]}]\n  resources: {cpu: 100m, memory: 1Mi}\n")
	require.Contains(t, s.must("job", "submit", file, "--idempotency-key", "k"), "job one submitted")
	require.Zero(t, s.try("job", "submit", file, "--idempotency-key", "k").code)
	require.Contains(t, s.must("job", "submit", file), "was there already")
	other := s.file("other.yaml", "name: one\npriority: 5\ntask:\n  processes: [{argv: [\"true\"]}]\n  resources: {cpu: 100m, memory: 1Mi}\n")
	require.Equal(t, 7, s.try("job", "submit", other).code)
	dev.finish()
}

// Of tasks that say how far they are, the one that lags behind gets a copy, which ends both; without speculation it goes on.
func TestACopyOvertakes(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		s := newSite(t)
		settings := s.file("settings.yaml", fmt.Sprintf(`
local: {usage_interval: 100ms}
scheduler: {speculation_interval: %s, speculation_after: 500ms}
`, map[bool]string{true: "200ms", false: "0s"}[on]))
		dev := s.dev("--config", settings, "--hosts", "2", "--host-cpu", "2")
		s.must("job", "submit", s.file("job.yaml", `
name: work
instances: 4
progress: {interval: 100ms}
speculation: {idempotent: true, max_copies_percent: 25}
task:
  processes:
    - shell: |
        case $SLUICE_TASK_ID in
        *.3) echo 0.01 >$SLUICE_PROGRESS_FILE; exec sleep 1000;;
        *.3c) echo copy; exit 0;;
        esac
        echo 0.5 >$SLUICE_PROGRESS_FILE
        sleep 2
  resources: {cpu: 100m, memory: 1Mi}
`))
		progress := func() float64 {
			return get[struct{ Progress float64 }](s, "task", "get", "work/3").Progress
		}
		eventually(t, func() bool { return progress() == 0.01 }, "it says how far it is")
		if on {
			s.must("job", "wait", "work")
			require.Equal(t, map[string]int{"TASK_STATE_SUCCEEDED": 4}, s.states("work"))
			require.Contains(t, s.must("task", "explain", "work/3"), "OUTRUN")
		} else {
			eventually(t, func() bool { return s.states("work")["TASK_STATE_SUCCEEDED"] == 3 }, "the others end")
			require.Equal(t, map[string]int{"TASK_STATE_SUCCEEDED": 3, "TASK_STATE_RUNNING": 1}, s.states("work"))
			require.InDelta(t, (3+0.01)/4, get[struct{ Progress float64 }](s, "job", "get", "work").Progress, 1e-9)
		}
		dev.finish()
	}
}

// A task goes where its data is, in the default cost model, although another host is as good otherwise; without data it goes to
// the first.
func TestATaskGoesToItsData(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "4")
	const job = `
name: %s
%stask: {processes: [{argv: [sleep, "1000"]}], resources: {cpu: 100m, memory: 1Mi}}
`
	s.must("job", "submit", s.file("plain.yaml", fmt.Sprintf(job, "plain", "")))
	s.must("job", "submit", s.file("data.yaml", fmt.Sprintf(job, "data",
		"locality: {inputs: [{name: part, size: 10Gi, replicas: [{host: local/h3}]}]}\n")))
	host := func(job string) string { return get[struct{ Host string }](s, "task", "get", job+"/0").Host }
	eventually(t, func() bool { return host("plain") != "" && host("data") != "" }, "both are placed")
	require.Equal(t, "local/h3", host("data"))
	require.NotEqual(t, "local/h3", host("plain"))
	require.Contains(t, s.must("task", "explain", "data/0"), "data ", "and it says what it would cost elsewhere")
	dev.finish()
}
