//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startDev runs dev in this process, makes its address the default, and returns what ends it with its exit code.
func startDev(t *testing.T, dir string, args ...string) (finish func() int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	var out output
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{
			"dev", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", dir, "--host-cpu", "2", "--host-memory", "1Gi",
		}, args...), nil, &out, &out)
	}()
	api := regexp.MustCompile(`API: +(\S+)\n`)
	for {
		if m := api.FindStringSubmatch(out.String()); m != nil && strings.Contains(out.String(), "Ctrl-C") {
			t.Setenv("SLUICE_SERVER", m[1])
			break
		}
		select {
		case code := <-ended:
			require.FailNow(t, "dev ended", "exit code %d: %s", code, out.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return func() int {
		interrupt()
		code := <-ended
		t.Log(out.String())
		return code
	}
}

func TestDev(t *testing.T) {
	noSettings(t)
	dir := filepath.Join(t.TempDir(), "state")
	finish := startDev(t, dir)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		require.Equal(t, os.FileMode(0o711), info.Mode().Perm(), "tasks of other users get to their folders")
	}
	spec := "name: hello\ninstances: 5\ntask:\n  processes: [{shell: 'echo out $SLUICE_INSTANCE; echo err >&2'}]\n  resources: {cpu: 500m, memory: 16Mi}\n"
	a := try(t, spec, "job", "submit", "-", "--wait")
	require.Zero(t, a.code, a.err)
	require.Regexp(t, `^job hello succeeded after \S+ \(5: 5 succeeded\)\n$`, a.out)
	require.Contains(t, a.err, "job hello: 5 of 5 tasks succeeded, 0 running, 0 waiting, 0 failed\n")
	for i := range 5 {
		require.Equal(t, answer{0, fmt.Sprintf("out %d\n", i), "err\n"}, try(t, "", "task", "logs", fmt.Sprintf("hello/%d", i)))
	}
	require.Equal(t, answer{0, "job hello was there already, with the same contents, and is succeeded: nothing is started; " +
		"once it is deleted (`sluice job delete hello`) it can be submitted again\n", ""}, try(t, spec, "job", "submit", "-"))
	for _, c := range []struct{ line, want string }{
		{"job list", `hello +succeeded +root\S* .* 5: 5 succeeded`},
		{"job list --state pending", `^NAME .*\n$`},
		{"job get hello", `(?m)^tasks: +5: 5 succeeded$`},
		{"task list hello --limit 2", `hello/1 +succeeded`},
		{"task get hello/4", `(?m)^reason: +exit code 0`},
		{"task explain hello/0", `task hello/0 is succeeded\n.+`},
		{"pool create root/a", `pool root/a created`},
		{"pool list", `(?m)^root/a +open`},
		{"pool get root/a", `(?m)^leaf: +true$`},
		{"pool drain root/a", `pool root/a is drained`},
		{"pool resume root/a", `pool root/a is open`},
		{"pool mapping get", `no rules`},
		{"pool delete root/a", `pool root/a deleted`},
		{"host list", `(?m)^local/h7 +up +r1 +local +0 +0/2 +0/1Gi$`},
		{"host get local/h0", `(?m)^capacity: +cpu=2 memory=1Gi`},
		{"host drain local/h0", `host local/h0 is drain(ing|ed), tasks on it: 0`},
		{"host resume local/h0", `host local/h0 is up`},
		{"cluster status", `(?m)^hosts: +8: 8 up$`},
		{"cluster verify", `^plan of cycle \d+ holds: \d+ placements?, 0 preemptions, 0 migrations\n$`},
		{"job wait hello", `job hello succeeded`},
		{"task logs hello/0 -o json", `"run":1`},
		{"job list -o yaml --label a=b", `^{}\n$|jobs: \[\]`},
		{"job stop hello --wait -o json", `"name": "hello"`},
		{"cluster snapshot " + dir + ".snapshot -o json", `(?s)^{\n  "bytes": \d+,\n  "file": .*}\n$`},
		{"cluster restore " + dir + ".snapshot --state-dir " + dir + ".restored -o yaml", `(?m)^jobs: 1$`},
	} {
		a := try(t, "", strings.Fields(c.line)...)
		require.Zero(t, a.code, "%s: %s", c.line, a.err)
		require.Regexp(t, c.want, a.out, c.line)
	}
	again := try(t, "", "cluster", "restore", dir+".snapshot", "--state-dir", dir+".restored")
	require.Equal(t, exitConflict, again.code)
	require.Contains(t, again.err, ".restored/journal holds the store of a scheduler: move that folder away, or choose another state folder")
	ran := try(t, "", "job", "run", "one", "--attach", "--memory", "16Mi", "--", "sh", "-c", "echo out; echo err >&2")
	require.Equal(t, answer{0, "out\n", ran.err}, ran)
	require.Regexp(t, `^job one submitted\n(err\nsluice|sluice): job one succeeded after \S+ \(1: 1 succeeded\)\n(err\n)?$`, ran.err)
	ran = try(t, "", "job", "run", "three", "--instances", "3", "--attach", "--memory", "16Mi", "--", "sh", "-c", "echo hi; exit $SLUICE_INSTANCE")
	require.Equal(t, 2, ran.code, "the highest of the instances")
	require.Equal(t, 128+9, try(t, "", "job", "run", "felled", "--attach", "--memory", "16Mi", "--", "sh", "-c", "kill -9 $$").code)
	require.ElementsMatch(t, []string{"0: hi", "1: hi", "2: hi"}, strings.Split(strings.TrimSpace(ran.out), "\n"))
	require.Equal(t, answer{0, "0: hi\n1: hi\n2: hi\n", ""}, try(t, "", "job", "logs", "three"))
	ran = try(t, "", "job", "run", "no", "--cpu", "0", "--", "true")
	require.Equal(t, exitRefused, ran.code)
	require.Contains(t, ran.err, "sluice: --cpu: is 0: ")
	require.Equal(t, answer{0, "job hello deleted\n", ""}, try(t, "", "job", "delete", "hello"))
	require.Equal(t, exitNotFound, try(t, "", "job", "get", "hello").code)
	require.Equal(t, exitJobFailed, try(t, strings.Replace(spec, "echo out $SLUICE_INSTANCE", "exit 3", 1), "job", "submit", "-", "--wait").code)
	require.Zero(t, finish())
}

// TestASlackWindowWithoutAMeasurementIsRefused: what is lent would be taken back before the host manager measures again.
func TestASlackWindowWithoutAMeasurementIsRefused(t *testing.T) {
	noSettings(t)
	path := filepath.Join(t.TempDir(), "settings.yaml")
	require.NoError(t, os.WriteFile(path, []byte("scheduler: {slack_window: 2s}\nlocal: {usage_interval: 3s}\n"), 0o600))
	ctx, interrupt := context.WithTimeout(t.Context(), 20*time.Second)
	defer interrupt()
	var out, errOut output
	require.Equal(t, exitUsage, run(ctx, []string{
		"--config", path, "dev", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", filepath.Join(t.TempDir(), "state"),
	}, nil, &out, &errOut), "%s%s", &out, &errOut)
	require.Contains(t, errOut.String(), "scheduler.slack_window is 2s: at least local.usage_interval, which is 3s")
}

// Where a copy of a task has succeeded, what it wrote is shown, and what the task's own run wrote where that run is named.
func TestLogsOfACopy(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SCHEDULER_SPECULATION_INTERVAL", "100ms")
	t.Setenv("SLUICE_SCHEDULER_SPECULATION_AFTER", "200ms")
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	a := try(t, `name: job
instances: 4
speculation: {idempotent: true, max_copies_percent: 100}
kill_grace: 1s
task:
  processes:
    - shell: |
        echo "id $SLUICE_TASK_ID"
        test "$SLUICE_TASK_ID" != 1.3 || exec sleep 60
        sleep 0.5
  resources: {cpu: 10m, memory: 1Mi}
`, "job", "submit", "-", "--wait")
	require.Zero(t, a.code, a)
	require.Contains(t, try(t, "", "task", "get", "job/3").out, "copy:      succeeded on local/h")
	require.Equal(t, answer{out: "id 1.3c\n"}, try(t, "", "task", "logs", "job/3"))
	require.Equal(t, answer{out: "id 1.3\n"}, try(t, "", "task", "logs", "job/3", "--run", "1"))
	require.Equal(t, answer{out: "2: id 1.2\n3: id 1.3c\n"}, try(t, "", "job", "logs", "job", "--instances", "2-3"))
	require.Zero(t, finish())
}
