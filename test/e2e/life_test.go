//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// jobState is what `job get` answers.
type jobState struct {
	State   string
	Reason  string
	Message string
}

func (s *site) tasks(job string) (all map[int]string, hosts map[int]string) {
	s.t.Helper()
	all, hosts = map[int]string{}, map[int]string{}
	for _, task := range get[taskList](s, "task", "list", job).Tasks {
		all[task.Instance], hosts[task.Instance] = task.State, task.Host
	}
	return all, hosts
}

// A graph of jobs runs in its order though the scheduler is killed while each of its levels runs, and what waits for a job
// that fails ends with the reason.
func TestAGraphRunsInOrderOverCrashes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	order := s.path("order")
	job := func(name, depends, command string) string {
		return fmt.Sprintf(`
name: %s
depends_on: [%s]
task:
  processes: [{shell: "%s; echo %s >> %s"}]
  resources: {cpu: 10m, memory: 1Mi}
`, name, depends, command, name, order)
	}
	file := s.file("graph.yaml", job("last", "{job: left}, {job: right}", "true")+"---"+
		job("left", "{job: first}", "sleep 2")+"---"+job("right", "{job: first, condition: ended}", "sleep 2")+"---"+
		job("first", "", "sleep 2")+"---"+job("never", "{job: fails}", "true")+"---"+
		job("rescue", "{job: fails, condition: failed}", "true")+"---"+job("fails", "", "exit 1"))
	dev := s.dev()
	s.must("job", "submit", file)
	for _, runs := range []string{"first", "left"} {
		eventually(t, func() bool { return get[jobState](s, "job", "get", runs).State == "JOB_STATE_RUNNING" }, "%s runs", runs)
		require.Equal(t, "JOB_STATE_INITIALIZED", get[jobState](s, "job", "get", "last").State)
		dev.kill()
		dev = s.dev()
	}
	s.must("job", "wait", "last")
	s.must("job", "wait", "rescue")
	done := lines(t, order)
	at := map[string]int{}
	for i, name := range done {
		at[name] = i + 1
	}
	require.Len(t, done, 5, done)
	require.True(t, at["first"] < at["left"] && at["first"] < at["right"] && at["last"] > at["left"] && at["last"] > at["right"], done)
	never := get[jobState](s, "job", "get", "never")
	require.Equal(t, "JOB_STATE_KILLED", never.State)
	require.Equal(t, "NEVER_RELEASED", never.Reason)
	dev.finish()
}

// A stateful task comes back to its host and finds its file there, over a restart by hand and a crash of the scheduler,
// also while others want its place; a daemon is on every host, and stays on one that is drained until the others have left.
func TestStatefulTasksAndDaemons(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "3")
	s.must("job", "submit", s.file("jobs.yaml", `
name: agent
type: daemon
task: {processes: [{argv: [sleep, "1000"]}], resources: {cpu: 100m, memory: 1Mi}}
---
name: db
type: stateful
task:
  processes: [{shell: "echo $SLUICE_RUN >> data/runs; exec sleep 1000"}]
  resources: {cpu: 3, memory: 1Mi}
  volumes: [{volume: "db-{instance}", mount_path: data}]
`))
	running := func(job string, n int) {
		t.Helper()
		eventually(t, func() bool {
			states, _ := s.tasks(job)
			up := 0
			for _, state := range states {
				if state == "TASK_STATE_RUNNING" {
					up++
				}
			}
			return up == n && len(states) == n
		}, "%d tasks of %s run", n, job)
	}
	running("agent", 3)
	running("db", 1)
	_, on := s.tasks("agent")
	require.ElementsMatch(t, []string{"local/h0", "local/h1", "local/h2"}, []string{on[0], on[1], on[2]})
	_, home := s.tasks("db")

	// Two batch tasks fill the other hosts, and a third wants the place of the database.
	s.must("job", "submit", s.file("batch.yaml", `
name: batch
instances: 3
task: {processes: [{argv: [sleep, "1000"]}], resources: {cpu: 3, memory: 1Mi}}
`))
	eventually(t, func() bool {
		states, _ := s.tasks("batch")
		up := 0
		for _, state := range states {
			if state == "TASK_STATE_RUNNING" {
				up++
			}
		}
		return up == 2
	}, "two batch tasks run")
	s.must("task", "restart", "db/0")
	dev.kill()
	dev = s.dev("--hosts", "3")
	eventually(t, func() bool {
		task := get[taskList](s, "task", "list", "db").Tasks[0]
		return task.Run == 2 && task.State == "TASK_STATE_RUNNING"
	}, "the database runs again")
	_, now := s.tasks("db")
	require.Equal(t, home, now)
	volumes := s.must("task", "get", "db/0")
	require.Contains(t, volumes, "bound to")
	require.Equal(t, 7, s.try("task", "forget-data", "db/0").code)

	host := on[0]
	if host == home[0] {
		host = on[1]
	}
	s.must("host", "drain", host)
	states, _ := s.tasks("agent")
	for _, state := range states {
		require.Equal(t, "TASK_STATE_RUNNING", state)
	}
	s.must("job", "stop", "batch", "--wait")
	eventually(t, func() bool {
		states, hosts := s.tasks("agent")
		for i, h := range hosts {
			if h == host {
				return states[i] == "TASK_STATE_PENDING"
			}
		}
		return false
	}, "the daemon is last off")
	s.must("host", "resume", host)
	running("agent", 3)

	s.start("hostmgr", "local", "--shard", "late", "--hosts", "2", "--state-dir", s.path("late"))
	running("agent", 5)
	_, on = s.tasks("agent")
	require.ElementsMatch(t, []string{"late/h0", "late/h1"}, []string{on[3], on[4]})
	dev.finish()
}
