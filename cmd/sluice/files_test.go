//go:build linux

package main

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is printed as a file is taken as one, and changes nothing.
func TestFilesOfWhatIsThere(t *testing.T) {
	noSettings(t)
	t.Setenv("KEYS", "k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	t.Setenv("SLUICE_SCHEDULER_SECRET_KEY_FILE", "env:KEYS")
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	file := func(args ...string) string {
		a := try(t, "", args...)
		require.Zero(t, a.code, a.err)
		return a.out
	}
	for _, name := range []string{"service", "sleep", "toolarge"} {
		example, err := os.ReadFile(filepath.Join("..", "..", "examples", name+".yaml"))
		require.NoError(t, err)
		job, _, _ := strings.Cut(strings.TrimPrefix(string(example[strings.Index(string(example), "name: "):]), "name: "), "\n")
		require.Zero(t, try(t, string(example), "job", "submit", "-").code)
		text := file("job", "file", job)
		require.Contains(t, text, "# job "+job+", version 1\nname: "+job+"\n")
		require.Equal(t, answer{0, "nothing would change\n", ""}, try(t, text, "job", "diff", "-"))
	}

	sealed := "name: sealed\ntype: stateless\nsecrets: [{name: db, path: db, value: one}]\n" +
		"task: {processes: [{shell: sleep 60}], resources: {cpu: 1m, memory: 1Mi}}\n"
	require.Zero(t, try(t, sealed, "job", "submit", "-").code)
	require.Equal(t, "nothing would change\n", try(t, sealed, "job", "diff", "-").out)
	require.Equal(t, "~ secrets[0].value: the value that is kept -> the value that is given\n",
		try(t, strings.Replace(sealed, "one", "two", 1), "job", "diff", "-").out)

	first := file("job", "file", "sleep")
	require.Zero(t, try(t, first+"progress: {interval: 90s}\n", "job", "update", "-").code)
	require.Contains(t, file("job", "file", "sleep"), "# job sleep, version 2\nname: sleep\n")
	require.Contains(t, file("job", "file", "sleep"), "progress:\n  interval: 1m30s\n")
	require.Equal(t, strings.Replace(first, "version 1", "version 1 of 2", 1), file("job", "file", "sleep", "--version", "1"))
	require.Equal(t, answer{exitNotFound, "", "sluice: version 3 of job sleep is not kept: `sluice job history sleep` lists those that are\n"},
		try(t, "", "job", "file", "sleep", "--version", "3"))
	require.Contains(t, try(t, "", "job", "file", "sleep", "--version", "0").err, "version 0 of job sleep is not kept")
	require.Contains(t, try(t, first, "job", "update", "-", "--expected-version", "0").err, "--expected-version: is required")
	require.Contains(t, file("job", "file", "sleep"), "# job sleep, version 2\n")
	require.Equal(t, exitUsage, try(t, "", "job", "file", "sleep", "-o", "json").code)

	pool := "path: root/a\nresources:\n- dimension: cpu_milli\n  reservation: 500\n  limit: 4000\n"
	require.Zero(t, try(t, pool, "pool", "create", "--file", "-").code)
	several := "path: root/b\n---\npath: root/b/c\n---\npath: root/none/d\n---\npath: root/e\n"
	refused := try(t, several, "pool", "create", "--file", "-")
	require.Equal(t, exitConflict, refused.code)
	require.Contains(t, refused.err, `root/none`)
	require.Equal(t, "pool root/b created\npool root/b/c created\n", refused.out)
	updated := try(t, "path: root/b\n---\npath: root/b/c\n", "pool", "update", "--file", "-")
	require.Equal(t, answer{0, "pool root/b updated to version 2\npool root/b/c updated to version 2\n", ""}, updated)
	rules := "rules:\n- {user: eve, reject: true}\n- {user: ann, pool: root/nine}\n- {group: x, pool: \"root/{user}\"}\n- {group: y, pool: root/b}\n- {pool: root/default}\n"
	require.Equal(t, answer{
		0, "queue mapping set: version 1, 5 rules\n",
		"sluice: rules[1].pool: there is no pool root/nine yet: jobs that it finds are refused\n" +
			"sluice: rules[3].pool: root/b has pools below it: jobs that it finds are refused\n",
	}, try(t, rules, "pool", "mapping", "set", "--file", "-"))
	require.Contains(t, try(t, pool, "pool", "update", "--file", "-", "--expected-version", "0").err, "--expected-version: is required")
	refused = try(t, strings.Replace(pool, "root/a", "root/b", 1)+"---\n"+strings.Replace(pool, "500", "5000", 1), "pool", "update", "--file", "-")
	require.Equal(t, "sluice: pool \"root/a\": spec.resources[0].reservation: is 5000: the limit is 4000\n", refused.err)
	text := file("pool", "file", "root/a")
	require.Contains(t, text, "# pool root/a, version 1\npath: root/a\n")
	require.Contains(t, text, "- dimension: cpu\n  reservation: 500m\n  limit: 4\n")
	require.Zero(t, try(t, text, "pool", "update", "--file", "-").code)
	require.Equal(t, strings.Replace(text, "version 1", "version 2", 1), file("pool", "file", "root/a"))
	require.Zero(t, finish())
}

// Who no longer waits for a job has not ended it, and is told so.
func TestWaitIsInterrupted(t *testing.T) {
	noSettings(t)
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	ctx, interrupt := context.WithCancel(t.Context())
	var said output
	ended := make(chan int, 1)
	go func() {
		job := "name: a\ntask: {processes: [{shell: sleep 60}], resources: {cpu: 1m, memory: 1Mi}}\n"
		ended <- run(ctx, []string{"job", "submit", "--wait", "-"}, strings.NewReader(job), &said, &said)
	}()
	for !strings.Contains(said.String(), "job a submitted\n") || !strings.Contains(try(t, "", "job", "list").out, "a     running") {
		time.Sleep(10 * time.Millisecond)
	}
	interrupt()
	require.Equal(t, exitInterrupted, <-ended)
	require.Contains(t, said.String(), "sluice: interrupted: what was submitted goes on; `sluice job stop a` ends it\n")
	require.Contains(t, try(t, "", "job", "list").out, "a     running")
	require.Zero(t, finish())
}

// Commands that take several names do what they can, and say what they could not.
func TestSeveralNames(t *testing.T) {
	noSettings(t)
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	jobs := ""
	for _, name := range []string{"a", "b", "c"} {
		jobs += "---\nname: " + name + "\ntask: {processes: [{shell: sleep 60}], resources: {cpu: 1m, memory: 1Mi}}\n"
	}
	require.Zero(t, try(t, jobs, "job", "submit", "-").code)
	for _, form := range []string{"table", "json", "yaml"} {
		require.Equal(t, "sluice: the first one is shown; see --limit\n", try(t, "", "job", "list", "--limit", "1", "-o", form).err, form)
		require.Equal(t, "sluice: the first 2 are shown; see --limit\n", try(t, "", "task", "list", "--limit", "2", "-o", form).err, form)
	}
	a := try(t, "", "job", "stop", "--wait", "a", "none", "b", "a", "nor")
	require.Equal(t, exitNotFound, a.code)
	require.Equal(t, "job a is killed\njob b is killed\n", a.out)
	require.Contains(t, a.err, "sluice: job \"none\": there is no such job\nsluice: job \"nor\": there is no such job\n")
	require.Regexp(t, "c +(pending|running)", try(t, "", "job", "list").out)
	a = try(t, "", "job", "delete", "a", "c", "b")
	require.Equal(t, answer{exitConflict, "job a deleted\njob b deleted\n", "sluice: job \"c\": it has not ended: stop it first\n"}, a)
	require.Contains(t, try(t, "", "job", "stop", "c", "d", "--expected-version", "1").err, "--expected-version is about one job")

	require.Equal(t, "host local/h1 is drained, tasks on it: 0\nhost local/h2 is drained, tasks on it: 0\n",
		try(t, "", "host", "drain", "local/h1", "local/h2").out)
	out := strings.Split(try(t, "", "host", "resume", "local/h1", "local/h2", "-o", "json").out, "\n")
	require.Len(t, out, 3, "a line for each")
	require.Contains(t, out[1], `"name":"local/h2"`)
	require.Zero(t, finish())
}

// Whoever looks at a job is told what its update waits for.
func TestGetSaysWhatAnUpdateWaitsFor(t *testing.T) {
	noSettings(t)
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	job := `name: web
type: stateless
restart: {backoff_initial: 1m}
update: {min_healthy_time: 1m}
task: {processes: [{shell: sleep 60}], resources: {cpu: 1m, memory: 1Mi}}
`
	require.Zero(t, try(t, job, "job", "submit", "-").code)
	shows(t, "1 running, 1 ready", "job", "get", "web")
	require.NotContains(t, try(t, "", "job", "get", "web").out, "update waits")
	require.Zero(t, try(t, strings.Replace(job, "sleep 60", "exit 7", 1), "job", "update", "-").code)
	shows(t, `update waits: +instance 0 has had 1 failed run \(update.max_attempts: 3\), run 2 on local/h\d ended with exit code 7, and starts again at 2`,
		"job", "get", "web")
	require.Zero(t, finish())
}
