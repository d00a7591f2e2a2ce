package mesos

import (
	"bytes"
	"encoding/json"
	stdflag "flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

var update = stdflag.Bool("update", false, "rewrite the golden files")

// canary is the value of a secret.
const canary = "canary-5Jq1"

// goldenOffers are two offers of one agent: what is free, and what may be taken back.
const goldenOffers = `{"type":"OFFERS","offers":{"offers":[
{"id":{"value":"o-1"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-1"},"hostname":"h0","allocation_info":{"role":"eng"},
"url":{"scheme":"http","address":{"hostname":"h0","ip":"10.0.0.7","port":5051},"path":"/slave(1)"},"resources":[
{"name":"cpus","type":"SCALAR","scalar":{"value":1.5},"allocation_info":{"role":"eng"},"reservations":[{"type":"STATIC","role":"eng"}]},
{"name":"cpus","type":"SCALAR","scalar":{"value":6.0},"allocation_info":{"role":"eng"}},
{"name":"mem","type":"SCALAR","scalar":{"value":8192.0},"allocation_info":{"role":"eng"}},
{"name":"disk","type":"SCALAR","scalar":{"value":8192.0},"allocation_info":{"role":"eng"}},
{"name":"gpus","type":"SCALAR","scalar":{"value":2.0},"allocation_info":{"role":"eng"}},
{"name":"licences","type":"SET","set":{"item":["x","y","z"]},"allocation_info":{"role":"eng"}},
{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":80,"end":80},{"begin":31000,"end":31099}]},"allocation_info":{"role":"eng"}}]},
{"id":{"value":"o-2"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-1"},"hostname":"h0","allocation_info":{"role":"eng"},
"url":{"scheme":"http","address":{"hostname":"h0","ip":"10.0.0.7","port":5051},"path":"/slave(1)"},"resources":[
{"name":"cpus","type":"SCALAR","scalar":{"value":4.0},"allocation_info":{"role":"eng"},"revocable":{}},
{"name":"mem","type":"SCALAR","scalar":{"value":2048.0},"allocation_info":{"role":"eng"},"revocable":{}}]}]}}`

func pairs(list ...string) (out []cluster.KeyValue) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, cluster.KeyValue{Key: list[i], Value: list[i+1]})
	}
	return out
}

// goldenLaunches are launches that have every field of a task between them.
func goldenLaunches() map[string]hostmgr.Launch {
	launch := func(task cluster.TaskSpec) hostmgr.Launch {
		if task.Resources.IsZero() {
			task.Resources = cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 2000, cluster.Memory: 512 << 20, cluster.Disk: 100 << 20})
		}
		return hostmgr.Launch{Run: runID(3), Job: "web", Owner: "alice", Host: "h0", Task: task}
	}
	one := func(p cluster.Process) cluster.TaskSpec { return cluster.TaskSpec{Processes: []cluster.Process{p}} }
	argv := []string{"serve", "--host", "${SLUICE_HOST_ADDRESS}", "--port", "${SLUICE_PORT_HTTP}", "${HOME}"}
	check := func(c cluster.HealthCheck) cluster.HealthCheck {
		c.Delay, c.Interval, c.Timeout, c.Failures, c.Successes = 15*time.Second, 2500*time.Millisecond, time.Second, 4, 1
		return c
	}

	command := launch(one(cluster.Process{
		Command: argv, Env: pairs("A", "mine", "B", "${SLUICE_TASK_ID} ${UNKNOWN}"), User: "www",
		Fetch: []cluster.Fetch{
			{URI: "http://files/tool", Path: "bin/tool", Executable: true},
			{URI: "http://files/data.tar.gz?version=7", Extract: true},
		},
	}))
	command.Env = pairs("A", "theirs", "C", "all")
	command.Task.Labels = pairs("app", "web", "tier", "front")
	command.Task.KillGrace, command.MaxRunTime = 7*time.Second, time.Hour
	command.Task.Ports = cluster.PortRequest{Numbers: []uint16{80}, Dynamic: 2, Names: []string{"http"}}
	command.Ports = []uint16{80, 31000, 31005}
	command.Task.Resources = cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 2000, cluster.Memory: 1<<30 + 1<<19, cluster.GPU: 1000},
		cluster.Amount{Name: "licences", Value: 2})
	command.Task.GPU.Count = 1

	shell := launch(cluster.TaskSpec{
		Init: []cluster.Process{
			{Command: []string{"prepare", "it's ${SLUICE_INSTANCE}"}, Env: pairs("STEP", "1"), WorkDir: "in"},
			{Shell: "echo $HOME"},
		},
		Processes: []cluster.Process{{Shell: "exec serve $PORT0", WorkDir: "/srv"}},
	})

	storage := launch(one(cluster.Process{Command: []string{"serve"}, Container: &cluster.Container{Runtime: cluster.MesosRuntime, Image: "web:7"}}))
	storage.Task.Volumes = []cluster.Volume{
		{HostPath: "/etc/ssl", MountPath: "/etc/ssl", ReadOnly: true},
		{ScratchBytes: 64 << 20, MountPath: "tmp"},
		{Name: "data-{instance}", MountPath: "data"},
		{ScratchBytes: 64 << 20, MountPath: "/scratch"},
		{Name: "db", MountPath: "/var/lib/db", ReadOnly: true},
	}
	storage.Secrets = []hostmgr.SecretFile{{Path: "secrets/token", Value: []byte(canary)}}

	docker := launch(one(cluster.Process{Command: argv[:3], User: "web", Container: &cluster.Container{
		Runtime: cluster.DockerRuntime, Image: "registry/web:7", ForcePull: true, Parameters: pairs("hostname", "web", "read-only", "true"),
	}}))
	docker.Task.Volumes = []cluster.Volume{
		{HostPath: "/srv/data", MountPath: "/data"}, {Name: "db", MountPath: "/var/lib/db", ReadOnly: true}, {Name: "log", MountPath: "log"},
	}

	http := launch(one(cluster.Process{Command: argv[:1], Checks: []cluster.HealthCheck{
		check(cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Port: cluster.PortRef{Name: "http"}, Path: "/live", Scheme: "https"}}),
		check(cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Port: cluster.PortRef{Number: 80}}, Effect: cluster.Readiness}),
	}}))
	http.Task.Ports, http.Ports = cluster.PortRequest{Dynamic: 1, Names: []string{"http"}}, []uint16{31001}
	tcp := launch(one(cluster.Process{Command: argv[:1], Checks: []cluster.HealthCheck{
		check(cluster.HealthCheck{TCP: &cluster.PortRef{Index: 0}, Effect: cluster.Liveness}),
		check(cluster.HealthCheck{TCP: &cluster.PortRef{Number: 9}, Effect: cluster.Readiness}),
	}}))
	tcp.Task.Ports, tcp.Ports = cluster.PortRequest{Dynamic: 1}, []uint16{31002}
	exec := launch(one(cluster.Process{Command: argv[:1], Checks: []cluster.HealthCheck{
		check(cluster.HealthCheck{Command: []string{"alive", "-v", "${SLUICE_TASK_ID}"}}),
		check(cluster.HealthCheck{Command: []string{"ready"}, Effect: cluster.Readiness}),
	}}))

	group := launch(cluster.TaskSpec{
		Processes: []cluster.Process{
			{Name: "server", Command: []string{"serve"}, Main: true, Container: &cluster.Container{Runtime: cluster.MesosRuntime, Image: "web:7"}},
			{Name: "logs", Shell: "ship", User: "logs", Request: &cluster.Request{
				Resources: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 250, cluster.Memory: 64 << 20}),
			}},
			{Name: "idle", Command: []string{"idle"}},
		},
		Ports: cluster.PortRequest{Dynamic: 1}, KillGrace: 2 * time.Second,
	})
	group.Task.Volumes = []cluster.Volume{
		{Name: "logs", MountPath: "/var/log/web"}, {ScratchBytes: 1 << 20, MountPath: "tmp"}, {HostPath: "/etc/ssl", MountPath: "ssl", ReadOnly: true},
	}
	group.Secrets = []hostmgr.SecretFile{{Path: "token", Value: []byte(canary)}}
	group.Ports, group.MaxRunTime = []uint16{31003}, time.Minute

	revocable := launch(one(cluster.Process{Command: []string{"crunch"}}))
	revocable.Task.Resources = cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 3000, cluster.Memory: 1 << 30})
	revocable.Task.Ports, revocable.Ports = cluster.PortRequest{Dynamic: 1}, []uint16{31004}
	revocable.Revocable = true
	return map[string]hostmgr.Launch{
		"command": command, "shell": shell, "storage": storage, "docker": docker, "checks-http": http, "checks-tcp": tcp,
		"checks-command": exec, "group": group, "revocable": revocable,
	}
}

// TestWhatALaunchSays: the ACCEPT for a launch, as it goes over the wire, word for word. The value of a secret is in it, and
// neither in the log nor in the state folder.
func TestWhatALaunchSays(t *testing.T) {
	for name, l := range goldenLaunches() {
		t.Run(name, func(t *testing.T) {
			m := newScripted(t, func(_ int, w *records) {
				w.subscribedFor(15)
				w.event(goldenOffers)
				w.beat(time.Minute)
			})
			c := m.config(t)
			c.OfferWait = time.Minute
			log := new(lines)
			c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c.Roles, c.Principal, c.Secret, c.GPUs, c.Revocable, c.VolumeBytes = []string{"eng"}, "sluice", "hush", true, true, 256<<20
			d := newDriver(t, c)
			require.NoError(t, <-startOf(t, d))
			require.NoError(t, d.Launch(t.Context(), l))
			sent := m.awaits(t, "ACCEPT")
			var pretty bytes.Buffer
			require.NoError(t, json.Indent(&pretty, sent, "", "  "))
			pretty.WriteByte('\n')
			golden(t, filepath.Join("testdata", "accept", name+".json"), pretty.Bytes())

			require.NoError(t, d.Close())
			for _, word := range []string{canary, "hush"} {
				require.Empty(t, log.with(word), "it is logged")
				files, err := filepath.Glob(filepath.Join(c.Dir, "*"))
				require.NoError(t, err)
				require.NotEmpty(t, files)
				for _, f := range files {
					data, err := os.ReadFile(f)
					require.NoError(t, err)
					require.NotContains(t, string(data), word, f)
				}
			}
		})
	}
}

// awaits returns the body of the next call of a kind.
func (s *scripted) awaits(t *testing.T, kind string) []byte {
	t.Helper()
	for {
		select {
		case r := <-s.calls:
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, http.MethodPost, r.Method)
			if strings.Contains(string(body), `"type":"`+kind+`"`) {
				return body
			}
		case <-time.After(30 * time.Second):
			require.FailNow(t, "no call", kind)
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update to write it")
	require.Equal(t, string(want), string(got))
}

// TestLaunchesThatAreRefused: what the API of Mesos cannot do is said, and nothing is recorded.
func TestLaunchesThatAreRefused(t *testing.T) {
	d := newDriver(t, Config{Dir: t.TempDir(), Masters: "m", User: "nobody"})
	checks := func(l *hostmgr.Launch, c ...cluster.HealthCheck) { l.Task.Processes[0].Checks = c }
	second := func(l *hostmgr.Launch) {
		l.Task.Processes = append(l.Task.Processes, cluster.Process{Name: "b", Command: []string{"x"}})
	}
	for want, change := range map[string]func(l *hostmgr.Launch){
		"a launch without a command":  func(l *hostmgr.Launch) { l.Task.Processes[0].Command = nil },
		"Mesos gives whole devices":   func(l *hostmgr.Launch) { l.Task.Resources.Fixed[cluster.GPU] = 500 },
		"init steps before several":   func(l *hostmgr.Launch) { second(l); l.Task.Init = []cluster.Process{{Shell: "x"}} },
		"leave nothing for the first": func(l *hostmgr.Launch) { second(l); l.Task.Resources.Fixed[cluster.CPU] = 110 },
		"of the Docker runtime run alone": func(l *hostmgr.Launch) {
			second(l)
			l.Task.Processes[0].Container = &cluster.Container{Runtime: cluster.DockerRuntime}
		},
		"get no secrets": func(l *hostmgr.Launch) {
			l.Task.Processes[0].Container = &cluster.Container{Runtime: cluster.DockerRuntime}
			l.Secrets = []hostmgr.SecretFile{{Path: "s"}}
		},
		"no scratch folders": func(l *hostmgr.Launch) {
			l.Task.Processes[0].Container = &cluster.Container{Runtime: cluster.DockerRuntime}
			l.Task.Volumes = []cluster.Volume{{ScratchBytes: 1}}
		},
		"at \"var/lib\"": func(l *hostmgr.Launch) {
			l.Task.Volumes = []cluster.Volume{{Name: "v", MountPath: "var/lib"}}
		},
		"inside of another volume": func(l *hostmgr.Launch) {
			l.Task.Volumes = []cluster.Volume{{Name: "v", MountPath: "data"}, {ScratchBytes: 1, MountPath: "data/tmp"}}
		},
		"cannot have its own container": func(l *hostmgr.Launch) { l.Task.Init = []cluster.Process{{Shell: "x", User: "other"}} },
		"one check of liveness": func(l *hostmgr.Launch) {
			checks(l, cluster.HealthCheck{Effect: cluster.Liveness}, cluster.HealthCheck{})
		},
		"have no readiness checks on Mesos": func(l *hostmgr.Launch) {
			l.Task.Processes[0].Container = &cluster.Container{Runtime: cluster.DockerRuntime}
			checks(l, cluster.HealthCheck{Command: []string{"x"}, Effect: cluster.Readiness})
		},
		"leave headers out": func(l *hostmgr.Launch) {
			checks(l, cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Headers: pairs("Host", "x")}})
		},
		"speaks plain HTTP": func(l *hostmgr.Launch) {
			checks(l, cluster.HealthCheck{HTTP: &cluster.HTTPCheck{Scheme: "https"}, Effect: cluster.Readiness})
		},
		"leave success_threshold out": func(l *hostmgr.Launch) { checks(l, cluster.HealthCheck{Command: []string{"x"}, Successes: 2}) },
		"ask for no disk": func(l *hostmgr.Launch) {
			l.Task.Volumes, l.Revocable = []cluster.Volume{{Name: "v", MountPath: "data"}}, true
			l.Task.Resources.Fixed[cluster.Disk] = 1
		},
		"has no name": func(l *hostmgr.Launch) { l.Task.Volumes = []cluster.Volume{{Name: cluster.InstanceMark}} },
	} {
		l := launchOf(0, "h0", "serve")
		change(&l)
		require.ErrorContains(t, d.Launch(t.Context(), l), want)
	}
	require.Empty(t, d.Inventory())
}
