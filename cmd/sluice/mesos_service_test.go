//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestMesosHostIsCleared: a drain with --move takes the instances of a service to other agents, no more of them at a time than it
// bears, and the maintenance that Mesos plans there is agreed to when the last one has gone.
func TestMesosHostIsCleared(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 3, mesostest.Config{})
	finish := startDev(t, t.TempDir(), "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	defer func() { require.Zero(t, finish()) }()
	ok := func(in string, args ...string) string {
		t.Helper()
		a := try(t, in, args...)
		require.Zero(t, a.code, a.err)
		return a.out
	}
	const instances = 9
	ok(`name: web
type: stateless
instances: 9
limits: {max_unavailable_instances: 2}
kill_grace: 10s
task: {processes: [{argv: [linger]}], resources: {cpu: 500m, memory: 64Mi}}
`, "job", "submit", "-")
	shows(t, `9: 9 running`, "job", "list")
	require.NotEmpty(t, world.living("h1"))
	world.Maintain(time.Now().Add(time.Hour), time.Hour, "h1")
	shows(t, `maintenance is planned`, "host", "get", "mesos/h1")

	ok("", "host", "drain", "mesos/h1", "--move", "--reason", "new disks")
	shows(t, `(?m)^mesos/h1 +drained`, "host", "list")
	shows(t, `9: 9 running`, "job", "list")
	require.Empty(t, world.living("h1"))
	require.Len(t, world.living(""), instances)
	require.Eventually(t, func() bool { return slices.Equal(world.answers(t), []string{"ACCEPT"}) }, time.Minute, 20*time.Millisecond)
	require.GreaterOrEqual(t, fewest(world.Runs(), instances), instances-2)

	ok("", "host", "resume", "mesos/h1")
	world.Maintain(time.Time{}, 0)
	shows(t, `(?m)^mesos/h1 +up`, "host", "list")
}

// fewest returns how many of the runs lived at once, at the least, from the moment on when so many did first.
func fewest(runs []mesostest.Run, from int) int {
	type change struct {
		at    time.Time
		delta int
	}
	var changes []change
	for _, r := range runs {
		changes = append(changes, change{r.Started, 1})
		if !r.Ended.IsZero() {
			changes = append(changes, change{r.Ended, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	lives, least, reached := 0, from, false
	for _, c := range changes {
		lives += c.delta
		if reached = reached || lives >= from; reached {
			least = min(least, lives)
		}
	}
	return least
}

// TestMesosSecrets: what is submitted by value reaches the task in a volume of type VALUE, in its first run and after a change in
// later ones, and is found nowhere else: in no answer, log, snapshot, nor file that the scheduler or the host manager writes.
func TestMesosSecrets(t *testing.T) {
	noSettings(t)
	const canary, second = "canary-tweets-at-dawn", "canary-sings-at-noon"
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	t.Setenv("TEST_SECRET_KEY", "k1:"+base64.StdEncoding.EncodeToString(key))
	t.Setenv("SLUICE_SCHEDULER_SECRET_KEY_FILE", "env:TEST_SECRET_KEY")
	world := newMasters(t, 1, 1, mesostest.Config{})
	journal, state := t.TempDir(), t.TempDir()
	scheduler := start(t, "scheduler", "--insecure", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", journal, "--log-level", "debug")
	t.Setenv("SLUICE_SERVER", scheduler.says(t, `API on (\S+),`))
	manager := start(t, "hostmgr", "mesos", "--master", world.addresses[0], "--state-dir", state, "--framework-user", "nobody", "--log-level", "debug")
	shows(t, `(?m)^mesos/h1 +up`, "host", "list")

	var said bytes.Buffer
	ok := func(in string, args ...string) {
		t.Helper()
		a := try(t, in, args...)
		require.Zero(t, a.code, a.err)
		said.WriteString(a.out + a.err)
	}
	job := func(value string) string {
		return "name: store\ntype: stateless\nsecrets: [{name: db, path: db/password, value: " + value + "}]\n" +
			"task: {processes: [{argv: [serve]}], resources: {cpu: 1, memory: 64Mi}}\n"
	}
	ok(job(canary), "job", "submit", "-")
	shows(t, `1: 1 running`, "job", "list")
	require.Equal(t, []string{canary}, values(world.begun()))
	ok(job(second), "job", "update", "-")
	ok("", "task", "restart", "store/0")
	require.Eventually(t, func() bool { return slices.Equal(values(world.begun()), []string{canary, second}) }, time.Minute, 20*time.Millisecond)
	shows(t, `1: 1 running`, "job", "list")

	for _, args := range [][]string{
		{"job", "get", "store", "-o", "json"},
		{"job", "history", "store", "-o", "json"},
		{"job", "list", "-o", "json"},
		{"task", "get", "store/0", "-o", "json"},
		{"task", "explain", "store/0", "-o", "json"},
		{"task", "events", "store/0", "-o", "json"},
		{"host", "get", "mesos/h1", "-o", "json"},
		{"cluster", "snapshot", filepath.Join(journal, "snapshot")},
	} {
		ok("", args...)
	}
	ok("", "job", "stop", "store", "--wait")
	manager.stop(t)
	scheduler.stop(t)
	said.WriteString(scheduler.out.String() + manager.out.String())
	require.Contains(t, said.String(), "db/password", "what was looked through speaks of the secret")
	files := 0
	for _, dir := range []string{journal, state} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			data, err := os.ReadFile(path)
			said.Write(data)
			return err
		}))
	}
	require.Greater(t, files, 3)
	for _, value := range []string{canary, second} {
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
			require.Equal(t, -1, strings.Index(said.String(), form), "%s is told", form)
		}
	}
}

// values returns the secrets that tasks were given, in the order of their starts.
func values(infos []api.TaskInfo) (all []string) {
	for _, info := range infos {
		for _, v := range info.GetContainer().GetVolumes() {
			if v.GetSource().GetType() == api.Volume_Source_SECRET && v.ContainerPath == "db/password" && v.GetMode() == api.RO {
				all = append(all, string(v.Source.Secret.GetValue().GetData()))
			}
		}
	}
	return all
}

// TestMesosGang: the members of a gang find their rank, its size and each other in their environment.
func TestMesosGang(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 2, mesostest.Config{})
	finish := startDev(t, t.TempDir(), "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	defer func() { require.Zero(t, finish()) }()
	a := try(t, `name: ring
instances: 3
gang: {minimum: 3}
task: {processes: [{argv: [serve, "${SLUICE_GANG_RANK}"]}], resources: {cpu: 1, memory: 64Mi, ports: {dynamic: 1}}}
`, "job", "submit", "-")
	require.Zero(t, a.code, a.err)
	shows(t, `3: 3 running`, "job", "list")
	require.Regexp(t, `sandbox of task \d+\.0\.1 on agent \S+ \(h\d\)`, try(t, "", "task", "logs", "ring/0").err)
	var all []string
	for _, info := range world.begun() {
		value := map[string]string{}
		for _, v := range info.GetCommand().GetEnvironment().GetVariables() {
			value[v.Name] = v.GetValue()
		}
		rank, err := strconv.Atoi(value["SLUICE_GANG_RANK"])
		require.NoError(t, err)
		require.Equal(t, []string{"serve", value["SLUICE_INSTANCE"]}, info.Command.Arguments)
		require.Equal(t, value["SLUICE_INSTANCE"], value["SLUICE_GANG_RANK"])
		require.Equal(t, "3", value["SLUICE_GANG_SIZE"])
		peers := strings.Split(value["SLUICE_GANG_PEERS"], ",")
		require.Len(t, peers, 3)
		require.Equal(t, value["SLUICE_HOST_ADDRESS"]+":"+value["SLUICE_PORT_0"], peers[rank])
		all = append(all, value["SLUICE_GANG_PEERS"])
	}
	require.Len(t, all, 3)
	require.Len(t, slices.Compact(all), 1, "all think the same")
}
