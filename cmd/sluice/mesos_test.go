//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// masters is a stand-in for a Mesos cluster whose masters listen on loopback.
type masters struct {
	*mesostest.Cluster
	addresses []string

	mu    sync.Mutex
	infos []api.TaskInfo // of all tasks that began, in that order
}

// newMasters makes a cluster with so many masters, of which the first one leads, and agents h1, h2 ... in rack r7.
func newMasters(t *testing.T, n, agents int, c mesostest.Config) *masters {
	m := &masters{}
	var listeners []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners, m.addresses = append(listeners, l), append(m.addresses, l.Addr().String())
	}
	c.Masters, c.AllocationInterval, c.ReregisterAfter = m.addresses, 20*time.Millisecond, 20*time.Millisecond
	c.Behave = func(t api.TaskInfo) mesostest.Behaviour {
		m.mu.Lock()
		m.infos = append(m.infos, t)
		m.mu.Unlock()
		b := mesostest.Behaviour{Startup: time.Millisecond}
		switch t.Command.GetValue() {
		case "serve":
			b.Runs = mesostest.Forever
		case "linger": // until Mesos has asked again whether its agent may go
			b.Runs, b.TermTakes = mesostest.Forever, 1200*time.Millisecond
		case "fail":
			b.ExitCode = 3
		}
		return b
	}
	m.Cluster = mesostest.New(c)
	for i, l := range listeners {
		server := &http.Server{Handler: m.Handler(m.addresses[i])}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	t.Cleanup(m.Close)
	for i := range agents {
		m.AddAgent(mesostest.AgentSpec{
			Hostname: fmt.Sprint("h", i+1), Port: int32(5051 + i), Attributes: map[string]string{"rack": "r7"},
			Resources: []api.Resource{
				mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096), mesostest.Scalar("disk", 10000), mesostest.Ports(31000, 31099),
			},
		})
	}
	return m
}

// begun returns what agents were told of the tasks that began.
func (m *masters) begun() []api.TaskInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.infos)
}

// living returns the ids of the tasks that run on a host, on any if it is "".
func (m *masters) living(host string) (ids []string) {
	for _, r := range m.Runs() {
		if r.Ended.IsZero() && (host == "" || host == r.Hostname) {
			ids = append(ids, r.TaskID)
		}
	}
	return ids
}

// process is a command that runs in this process until it is interrupted.
type process struct {
	out       output
	ended     chan int
	interrupt context.CancelFunc
}

func start(t *testing.T, args ...string) *process {
	ctx, interrupt := context.WithCancel(t.Context())
	p := &process{ended: make(chan int, 1), interrupt: interrupt}
	go func() { p.ended <- run(ctx, args, nil, &p.out, &p.out) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v said: %s", args, p.out.String())
		}
	})
	return p
}

// says waits for a line and returns what its first group matched.
func (p *process) says(t *testing.T, pattern string) string {
	t.Helper()
	line := regexp.MustCompile(pattern)
	for begun := time.Now(); ; {
		require.Less(t, time.Since(begun), time.Minute, "it does not say %q: %s", pattern, p.out.String())
		if m := line.FindStringSubmatch(p.out.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case code := <-p.ended:
			require.FailNow(t, "it ended", "%v: exit code %d: %s", line, code, p.out.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// code waits for the end of the command and returns its exit code.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case code := <-p.ended:
		return code
	case <-time.After(time.Minute):
		require.FailNow(t, "it does not end", p.out.String())
		return 0
	}
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.interrupt()
	require.Zero(t, p.code(t), p.out.String())
}

// shows repeats a command until its output matches.
func shows(t *testing.T, pattern string, args ...string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		a := try(t, "", args...)
		if want.MatchString(a.out) {
			return
		}
		require.Less(t, time.Since(begun), 30*time.Second, "%v does not show %q: %s", args, pattern, a.out+a.err)
	}
}

// TestDevOnMesos runs a job on a stand-in for a Mesos cluster, reached over loopback.
func TestDevOnMesos(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 1, mesostest.Config{})
	dir := t.TempDir()
	finish := startDev(t, dir, "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	a := try(t, "", "job", "submit", "../../examples/hello.yaml", "--wait")
	require.Zero(t, a.code, a.err)
	require.Regexp(t, `(?m)^mesos/h1 +up +r7 `, try(t, "", "host", "list").out)
	require.Regexp(t, `"mesos/h1": .*no such run: \d+\.0\.1; what it wrote is in the sandbox`, try(t, "", "task", "logs", "hello/0").err)
	require.NotEmpty(t, world.Runs())
	const failing = "name: failing\nrestart: {max_failures: 0}\ntask: {processes: [{argv: [fail]}], resources: {cpu: 1, memory: 64Mi}}\n"
	require.NotZero(t, try(t, failing, "job", "submit", "-", "--wait").code)
	require.Regexp(t, `TASK_FAILED from executor: Command exited with status 3`, try(t, "", "task", "explain", "failing/0").out)
	require.Equal(t, 0, finish())
	_, err := os.Stat(filepath.Join(dir, "mesos", "cluster"))
	require.NoError(t, err, "the cluster that the framework belongs to is remembered")
}

const services = `name: services
instances: 4
task:
  processes: [{argv: [serve]}]
  resources: {cpu: 1, memory: 64Mi, ports: {dynamic: 1}}
`

// TestMesosHostManagers has two Mesos clusters and local hosts under one scheduler. Everything restarts; what runs runs on.
func TestMesosHostManagers(t *testing.T) {
	noSettings(t)
	t.Setenv("SLUICE_SCHEDULER_UNREACHABLE_AFTER", "300ms")
	east, west := newMasters(t, 3, 2, mesostest.Config{Credentials: map[string]string{"sluice": "hush"}}), newMasters(t, 1, 1, mesostest.Config{})
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hush\n"), 0o600))
	journal := t.TempDir()
	scheduler := start(t, "scheduler", "--insecure", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--state-dir", journal)
	server := scheduler.says(t, `API on (\S+),`)
	t.Setenv("SLUICE_SERVER", server)
	eastDir := t.TempDir()
	startEast := func() *process {
		return start(t, "hostmgr", "mesos", "--shard", "east", "--master", strings.Join(east.addresses[1:], ","), "--state-dir", eastDir,
			"--framework-user", "nobody", "--roles", "batch", "--principal", "sluice", "--secret-file", secret, "--log-level", "debug")
	}
	eastern := startEast()
	t.Setenv("SLUICE_MESOS_JSON", "true")
	western := start(t, "hostmgr", "mesos", "--shard", "west", "--master", west.addresses[0], "--state-dir", t.TempDir(), "--framework-user", "nobody")
	// Too small for the tasks: a program of that name is on agents only.
	beside := start(t, "hostmgr", "local", "--shard", "here", "--hosts", "1", "--state-dir", t.TempDir(), "--host-cpu", "1", "--host-memory", "32Mi")
	shows(t, `(?s)east/h1 +up +r7 .*east/h2 +up .*here/h0 +up .*west/h1 +up `, "host", "list")

	a := try(t, services, "job", "submit", "-")
	require.Zero(t, a.code, a.err)
	shows(t, `4: 4 running`, "job", "list")
	require.NotEmpty(t, east.living(""))
	all := func() []string { return append(east.living(""), west.living("")...) }
	before := all()

	eastern.stop(t)
	shows(t, `(?m)^east/h1 +unreachable`, "host", "list")
	require.ElementsMatch(t, before, all(), "tasks run on")
	eastern = startEast()
	shows(t, `(?m)^east/h1 +up`, "host", "list")
	scheduler.stop(t)
	scheduler = start(t, "scheduler", "--insecure", "--listen", server, "--http-listen", "127.0.0.1:0", "--state-dir", journal)
	shows(t, `(?s)east/h1 +up .*east/h2 +up .*west/h1 +up `, "host", "list")
	east.Elect(east.addresses[2])
	eastern.says(t, `subscribed.*master=`+east.addresses[2])
	shows(t, `4: 4 running`, "job", "list")
	require.ElementsMatch(t, before, all(), "the same runs still run")

	a = try(t, "", "host", "drain", "east/h1")
	require.Zero(t, a.code, a.err)
	onH1 := len(east.living("h1"))
	a = try(t, strings.Replace(services, "services", "more", 1), "job", "submit", "-")
	require.Zero(t, a.code, a.err)
	shows(t, `(?s)more .*4: 4 running.*services .*4: 4 running`, "job", "list", "--order", "name")
	require.Len(t, east.living("h1"), onH1, "a host that is drained gets no new tasks")
	for _, job := range []string{"services", "more"} {
		a = try(t, "", "job", "stop", job, "--wait")
		require.Zero(t, a.code, a.err)
	}
	require.Empty(t, all())
	shows(t, `(?m)^east/h1 +drained`, "host", "list")
	for _, p := range []*process{beside, western, eastern, scheduler} {
		p.stop(t)
		require.NotContains(t, p.out.String(), "hush", "a secret is not logged")
	}
}

const storing = `name: store
task:
  processes: [{argv: [serve]}]
  resources: {cpu: 1, memory: 64Mi}
  volumes: [{volume: "db-{instance}", mount_path: /var/lib/db}]
`

// TestMesosVolumesAndMaintenance: a volume outlives its task and is deleted by a command; maintenance that is planned in Mesos is
// agreed to when the drained host is empty.
func TestMesosVolumesAndMaintenance(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 2, mesostest.Config{})
	t.Setenv("SLUICE_MESOS_ROLES", "batch")
	t.Setenv("SLUICE_MESOS_VOLUME_SIZE", "64Mi")
	finish := startDev(t, t.TempDir(), "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	defer func() { require.Zero(t, finish()) }()
	ok := func(args ...string) string {
		t.Helper()
		a := try(t, "", args...)
		require.Zero(t, a.code, a.err)
		return a.out
	}
	require.Zero(t, try(t, storing, "job", "submit", "-").code)
	shows(t, `1: 1 running`, "job", "list")
	shows(t, `(?m)^db-0 +mesos/h\d +64Mi +store/0`, "volume", "list")
	where := regexp.MustCompile(`mesos/h\d`).FindString(ok("volume", "get", "db-0"))
	a := try(t, "", "volume", "delete", "db-0")
	require.NotZero(t, a.code)
	require.Contains(t, a.err, "store/0 uses it: stop that first")
	require.Contains(t, try(t, "", "volume", "delete", "db-9").err, "no host has such a volume")
	require.Contains(t, ok("task", "explain", "store/0"), where)

	world.Maintain(time.Now().Add(10*time.Minute), time.Hour, strings.TrimPrefix(where, "mesos/"))
	shows(t, `maintenance is planned`, "host", "get", where)
	ok("host", "drain", where, "--reason", "new disks")
	shows(t, `(?m)^`+where+` +draining`, "host", "list")
	require.Equal(t, []string{"DECLINE"}, world.answers(t))
	ok("task", "restart", "store/0")
	shows(t, `(?m)^`+where+` +drained`, "host", "list")
	shows(t, `1: 1 running`, "job", "list")
	require.NotContains(t, ok("task", "get", "store/0"), where, "it runs elsewhere")
	shows(t, `(?s)db-0 .*db-0 `, "volume", "list")
	require.Contains(t, try(t, "", "volume", "get", "db-0").err, "say which is meant")

	require.Contains(t, ok("volume", "delete", "db-0", "--host", where), "volume db-0 is deleted")
	ok("job", "stop", "store", "--wait")
	require.Contains(t, ok("volume", "delete", "db-0"), "volume db-0 is deleted")
	require.NotContains(t, ok("volume", "list"), "db-0")
}

// TestMesosVolumeWhereThereIsDisk: a task with a volume is placed on the host that has disk for one, though all others have more of what
// the task asks for.
func TestMesosVolumeWhereThereIsDisk(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 0, mesostest.Config{})
	agent := func(i int, cpus, disk float64) {
		world.AddAgent(mesostest.AgentSpec{
			Hostname: fmt.Sprint("h", i), Port: int32(5050 + i),
			Resources: []api.Resource{mesostest.Scalar("cpus", cpus), mesostest.Scalar("mem", 4096), mesostest.Scalar("disk", disk)},
		})
	}
	for i := range 3 {
		agent(i, 8, 10)
	}
	t.Setenv("SLUICE_MESOS_ROLES", "batch")
	t.Setenv("SLUICE_MESOS_VOLUME_SIZE", "64Mi")
	finish := startDev(t, t.TempDir(), "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	defer func() { require.Zero(t, finish()) }()
	require.Contains(t, try(t, storing, "job", "submit", "-").err, "needs what the host managers of this cluster cannot do: volumes")
	agent(4, 2, 10000)
	shows(t, `mesos/h4`, "host", "list")
	require.Zero(t, try(t, storing, "job", "submit", "-").code)
	shows(t, `1: 1 running`, "job", "list")
	require.Len(t, world.living("h4"), 1)
	require.Len(t, world.Runs(), 1)
	require.Regexp(t, `\.1$`, world.Runs()[0].TaskID, "it was given back by nobody")
}

// TestRevocableOnMesos: what Mesos may take back is for revocable jobs only, beside a host that is full.
func TestRevocableOnMesos(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 0, mesostest.Config{})
	spec := mesostest.AgentSpec{Hostname: "h1", Resources: []api.Resource{mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096)}}
	for name, amount := range map[string]float64{"cpus": 2, "mem": 1024} {
		r := mesostest.Scalar(name, amount)
		r.Revocable = new(api.Resource_RevocableInfo)
		spec.Resources = append(spec.Resources, r)
	}
	world.AddAgent(spec)
	t.Setenv("SLUICE_MESOS_REVOCABLE", "true")
	finish := startDev(t, t.TempDir(), "--driver", "mesos", "--master", world.addresses[0], "--framework-user", "nobody")
	defer func() { require.Zero(t, finish()) }()
	const job = "name: %s\ninstances: %d\nrevocable: %v\ntask: {processes: [{argv: [serve]}], resources: {cpu: 1, memory: 64Mi}}\n"
	submit := func(name string, n int, revocable bool) {
		t.Helper()
		a := try(t, fmt.Sprintf(job, name, n, revocable), "job", "submit", "-")
		require.Zero(t, a.code, a.err)
	}
	submit("firm", 5, false)
	shows(t, `firm .*4 running`, "job", "list")
	submit("loose", 3, true)
	shows(t, `loose .*2 running`, "job", "list")
	shows(t, `firm .*4 running`, "job", "list")
	require.Contains(t, try(t, "", "host", "get", "mesos/h1").out, "of it revocable:")
	require.Len(t, world.living("h1"), 6)
}

// answers returns what frameworks said of the maintenance of hosts.
func (m *masters) answers(t *testing.T) (all []string) {
	t.Helper()
	response, err := http.Get("http://" + m.addresses[0] + "/maintenance/status")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	for _, found := range regexp.MustCompile(`"status":"(\w+)"`).FindAllSubmatch(body, -1) {
		all = append(all, string(found[1]))
	}
	return all
}

// TestTheEndOfAMesosFramework: what an operator has to decide ends the host manager with a message that says so.
func TestTheEndOfAMesosFramework(t *testing.T) {
	noSettings(t)
	world := newMasters(t, 1, 1, mesostest.Config{Roles: []string{"*"}})
	finish := startDev(t, t.TempDir())
	defer func() { require.Zero(t, finish()) }()
	dir := t.TempDir()
	manager := func(dir string, more ...string) *process {
		return start(t, append([]string{
			"hostmgr", "mesos", "--master", world.addresses[0], "--state-dir", dir, "--framework-user", "nobody",
		}, more...)...)
	}
	first := manager(dir)
	shows(t, `(?m)^mesos/h1 +up`, "host", "list")
	id := first.says(t, `framework=(\S+)`)
	_, err := http.Post("http://"+world.addresses[0]+"/api/v1", "application/json",
		strings.NewReader(`{"type": "TEARDOWN", "teardown": {"framework_id": {"value": "`+id+`"}}}`))
	require.NoError(t, err)
	require.Equal(t, exitFailure, first.code(t))
	require.Contains(t, first.out.String(), "the master has removed this framework")
	again := manager(dir)
	require.Equal(t, exitFailure, again.code(t))
	require.Contains(t, again.out.String(),
		"go on, in place of "+id+"; sluice hostmgr mesos --state-dir "+dir+" --new-framework does so, with that id\n")
	second := manager(dir, "--new-framework", id)
	second.says(t, `subscribed`)
	second.stop(t)

	copied := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(copied, "framework"), os.DirFS(filepath.Join(dir, "framework"))))
	third := manager(dir)
	third.says(t, `subscribed`)
	fourth := manager(copied, "--shard", "other")
	require.Equal(t, exitFailure, third.code(t))
	require.Contains(t, third.out.String(), "another subscription has taken this framework over")
	require.NotContains(t, third.out.String(), "--shard")
	fourth.stop(t)
	fifth := manager(t.TempDir(), "--roles", "eng")
	require.Equal(t, exitFailure, fifth.code(t))
	require.Contains(t, fifth.out.String(), "Roles { eng } are not present in the master's --roles; what it says of itself is in --roles, ")
}

func TestWrongMesosSettings(t *testing.T) {
	noSettings(t)
	for _, c := range []struct{ line, want string }{
		{"--master zk://h:2181", "has no path; write it as zk://HOST:PORT,HOST:PORT/mesos"},
		{"--master a/b", "is not a list of addresses"},
		{"--master h:65536", "is not an address such as HOST:5050"},
		{"--master h:1:2", "is not an address such as HOST:5050"},
		{"--roles a,,b", `"" is not a role`},
		{"--roles a,a", `"a" is there twice`},
		{"--roles a,b//c", `mesos: roles: "b//c" is not a role: it has a slash without a name on both sides; leave that out`},
		{"--principal p --secret-file missing", "mesos.secret_file"},
		{"--principal a:b --secret-file /dev/null", `mesos: principal: "a:b" has a colon`},
		{"--secret-file /dev/null --tls-cert c", "mesos.tls.cert: a certificate and its key belong together"},
		{"--tls-ca missing", "mesos.tls.ca"},
		{"--failover-timeout -1s", "failover"},
		{"--failover-timeout week", "failover_timeout"},
		{"--shard a/b", "mesos.shard"},
		{"--gpus many", "mesos.gpus"},
		{"more", `unexpected argument "more"`},
	} {
		t.Run(c.line, func(t *testing.T) {
			a := try(t, "", append([]string{"hostmgr", "mesos", "--state-dir", t.TempDir()}, strings.Fields(c.line)...)...)
			require.Equal(t, exitUsage, a.code, a.err)
			require.Contains(t, a.err, c.want)
		})
	}
	t.Setenv("SLUICE_DEV_DRIVER", "kubernetes")
	require.Contains(t, try(t, "", "dev").err, "dev.driver")
}
