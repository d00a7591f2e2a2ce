//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// members are three schedulers that stand by for each other, and the site of their clients, who know all of them.
type members struct {
	*site
	processes [3]*process
}

// memberList is what `cluster members` answers.
type memberList struct {
	Members []struct {
		Name, Role, Record string
	}
}

func newMembers(t *testing.T) *members {
	m := &members{site: newSite(t)}
	peers := fmt.Sprintf("n0=%s,n1=%s,n2=%s", freeAddress(t), freeAddress(t), freeAddress(t))
	var apis []string
	for i := range m.processes {
		api := freeAddress(t)
		apis = append(apis, api)
		m.file(fmt.Sprintf("n%d.yaml", i), fmt.Sprintf(
			"scheduler: {member: n%d, peers: %q, listen: %q, http_listen: %q, state_dir: %s, insecure: true}\n",
			i, peers, api, freeAddress(t), m.path(fmt.Sprintf("n%d", i))))
	}
	m.api = strings.Join(apis, ",")
	return m
}

// run starts a member.
func (m *members) run(i int) {
	m.t.Helper()
	m.processes[i] = m.start("--config", m.path(fmt.Sprintf("n%d.yaml", i)), "scheduler")
}

// leader waits until a member leads and all others stand by with what it has.
func (m *members) leader() int {
	m.t.Helper()
	leader := -1
	eventually(m.t, func() bool {
		a := m.try("cluster", "members", "-o", "json")
		if a.code != 0 {
			return false
		}
		var list memberList
		require.NoError(m.t, json.Unmarshal([]byte(a.out), &list), a.out)
		for i, x := range list.Members {
			switch x.Role {
			case "ROLE_LEADER":
				leader = i
			case "ROLE_STANDBY":
			default:
				return false
			}
		}
		return leader >= 0
	}, "a member leads, and the others stand by")
	return leader
}

// The member that leads is killed again and again while jobs come in and tasks start, run and end. No task may begin twice, and every job
// has to succeed.
func TestLeadersAreKilled(t *testing.T) {
	t.Parallel()
	const kills, tasks = 6, 12
	m := newMembers(t)
	for i := range m.processes {
		m.run(i)
	}
	begun, ended := m.path("begun"), m.path("ended")
	m.leader()
	manager := m.start("hostmgr", "local", "--state-dir", m.path("local"), "--host-cpu", "4", "--host-memory", "4Gi")
	manager.says("connected to the scheduler")
	var clients []*process
	for i := range kills {
		leader := m.leader()
		file := m.file(fmt.Sprintf("job-%d.yaml", i), fmt.Sprintf(`
name: job-%d
instances: %d
task:
  processes:
    - shell: |
        echo "$SLUICE_JOB/$SLUICE_INSTANCE $SLUICE_RUN" >> %s
        sleep 0.%d
        echo "$SLUICE_JOB/$SLUICE_INSTANCE $SLUICE_RUN" >> %s
  resources: {cpu: 10m, memory: 1Mi}
`, i, tasks, begun, 3+i, ended))
		clients = append(clients, m.start("job", "submit", file, "--wait"))
		time.Sleep(time.Duration(100+70*i) * time.Millisecond)
		m.processes[leader].kill()
		if i%2 == 0 { // the others go on without it for a while
			require.Zero(t, m.try("job", "list").code)
		}
		m.run(leader)
	}
	for i, c := range clients {
		require.Zero(t, c.wait(), "client %d: %s", i, c.output())
	}
	m.eachRanOnce(begun, ended, kills*tasks)

	// One that is stopped in order hands over, and the last one alone does nothing.
	leader := m.leader()
	m.processes[leader].signal(syscall.SIGTERM)
	require.Zero(t, m.processes[leader].wait(), m.processes[leader].output())
	eventually(t, func() bool { return m.try("job", "get", "job-0").code == 0 }, "another member leads")
	for i := range m.processes {
		if i != leader {
			m.processes[i].kill()
			break
		}
	}
	eventually(t, func() bool { return m.try("job", "get", "job-0").code == 5 }, "one of three does not lead")
}

// The member that leads stands still without a word, as with its machine. Host managers and commands that follow something go on with
// another one while it does, and it leads nothing when it goes on.
func TestALeaderStandsStill(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	for i := range m.processes {
		m.run(i)
	}
	m.leader()
	manager := m.start("hostmgr", "local", "--state-dir", m.path("local"), "--host-cpu", "4", "--host-memory", "4Gi")
	manager.says("connected to the scheduler")
	// By then a host manager has asked those that stand by, too, whether they are still there.
	time.Sleep(25 * time.Second)
	file := m.file("job.yaml", fmt.Sprintf(`
name: patient
task:
  processes: [{shell: "while ! test -e %s; do sleep 0.1; done"}]
  resources: {cpu: 10m, memory: 1Mi}
`, m.path("go")))
	client := m.start("job", "submit", file, "--wait")
	client.says("1 running")
	leader := m.leader()
	m.processes[leader].signal(syscall.SIGSTOP)
	begun := time.Now()
	m.file("go", "")
	require.Zero(t, client.wait(), client.output())
	require.Less(t, time.Since(begun), 30*time.Second, "a process that says nothing is given up after 15 seconds")
	m.processes[leader].signal(syscall.SIGCONT)
	require.NotEqual(t, leader, m.leader())
}

// A scheduler that was alone becomes one of three with all that it knows, and its folder is not opened alone again.
func TestASchedulerIsJoinedByOthers(t *testing.T) {
	t.Parallel()
	m := newMembers(t)
	alone := m.start("--config", "/dev/null", "scheduler", "--insecure", "--listen", strings.Split(m.api, ",")[1], "--http-listen", m.web, "--state-dir", m.path("n1"))
	eventually(t, func() bool { return m.try("--server", strings.Split(m.api, ",")[1], "cluster", "status").code == 0 }, "it answers")
	file := m.file("job.yaml", "name: kept\ntask:\n  processes: [{shell: 'true'}]\n  resources: {cpu: 10m, memory: 1Mi}\n")
	require.Zero(t, m.try("--server", strings.Split(m.api, ",")[1], "job", "submit", file).code)
	require.Contains(t, m.try("--server", strings.Split(m.api, ",")[1], "cluster", "members").out, "alone")
	alone.finish()

	m.run(0)
	m.run(1)
	m.processes[1].says("the group begins when all of its members answer: nothing is heard of n2")
	m.run(2)
	m.leader()
	require.Contains(t, m.must("job", "list"), "kept")
	for _, p := range m.processes {
		p.finish()
	}
	again := m.start("--config", "/dev/null", "scheduler", "--insecure", "--listen", m.web, "--http-listen", freeAddress(t), "--state-dir", m.path("n1"))
	require.Equal(t, 2, again.wait())
	require.Contains(t, again.output(), "is the state folder of one of several schedulers")
}
