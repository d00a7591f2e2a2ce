package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// enrich gives a spec of three instances everything that a task can have.
func enrich(s *sluicev1.JobSpec) {
	task := s.Task
	task.Labels = map[string]string{"tier": "web"}
	task.Resources.DiskBytes = 1 << 20
	task.Resources.NetworkBytesPerSecond = 1000
	task.Resources.Ports = &sluicev1.PortRequest{Numbers: []uint32{8080, 443}, Dynamic: 2, DynamicNames: []string{"http", "admin"}}
	task.Volumes = []*sluicev1.VolumeMount{
		{Source: &sluicev1.VolumeMount_Volume{Volume: "data-{instance}"}, MountPath: "data"},
		{Source: &sluicev1.VolumeMount_HostPath{HostPath: "/etc/ssl"}, MountPath: "/ssl", ReadOnly: true},
		{Source: &sluicev1.VolumeMount_ScratchBytes{ScratchBytes: 1 << 20}, MountPath: "scratch/deep"},
	}
	task.Init = []*sluicev1.ProcessSpec{{Name: "prepare", Command: &sluicev1.ProcessSpec_Shell{Shell: "mkdir x"}}}
	web := task.Processes[0]
	web.Name, web.Main, web.User = "web", true, "nobody"
	web.Environment["ADDRESS"] = "${SLUICE_HOST_ADDRESS}:${SLUICE_PORT_HTTP}"
	web.Container = &sluicev1.ContainerSpec{
		Runtime: sluicev1.ContainerSpec_DOCKER, Image: "web:3", ImageBytes: 7, ForcePull: true,
		Parameters: map[string]string{"network": "host"},
	}
	web.Fetch = []*sluicev1.FetchItem{{Uri: "https://files.example/site.tar.gz?v=2", Path: "site.tgz", Executable: true, Extract: true}}
	every := func(c *sluicev1.HealthCheck) *sluicev1.HealthCheck {
		c.InitialDelay, c.Interval, c.Timeout = durationpb.New(time.Second), durationpb.New(2*time.Second), durationpb.New(3*time.Second)
		c.FailureThreshold, c.SuccessThreshold = proto.Uint32(4), proto.Uint32(5)
		return c
	}
	web.HealthChecks = []*sluicev1.HealthCheck{
		every(&sluicev1.HealthCheck{Effect: sluicev1.HealthCheck_READINESS, Check: &sluicev1.HealthCheck_Http{Http: &sluicev1.HttpCheck{
			Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Name{Name: "http"}}, Path: "/ready", Scheme: "https",
			Headers: map[string]string{"X-Check": "1"},
		}}}),
		every(&sluicev1.HealthCheck{Effect: sluicev1.HealthCheck_LIVENESS, Check: &sluicev1.HealthCheck_Tcp{Tcp: &sluicev1.TcpCheck{
			Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_DynamicIndex{DynamicIndex: 1}},
		}}}),
		every(&sluicev1.HealthCheck{Effect: sluicev1.HealthCheck_LIVENESS_AND_READINESS, Check: &sluicev1.HealthCheck_Command{
			Command: &sluicev1.Argv{Args: []string{"probe", "${SLUICE_PORT_0}"}},
		}}),
	}
	task.Processes = append(task.Processes, &sluicev1.ProcessSpec{
		Name: "sidecar", Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"log", "--run=${SLUICE_RUN_ID}"}}},
	})
	s.Overrides = []*sluicev1.InstanceOverride{
		{
			Instances: &sluicev1.InstanceRange{First: 0, Last: 1}, Environment: map[string]string{"ROLE": "first"},
			Task: &sluicev1.TaskSpec{Labels: map[string]string{"tier": "front"}, LogLimitBytes: proto.Int64(8192)},
		},
		{Instances: &sluicev1.InstanceRange{First: 2, Last: 2}, Task: &sluicev1.TaskSpec{
			Processes: []*sluicev1.ProcessSpec{
				own("a", 100, 1<<20), own("b", 200, 2<<20),
			},
			Volumes: []*sluicev1.VolumeMount{
				{Source: &sluicev1.VolumeMount_HostPath{HostPath: "/srv"}, MountPath: "/srv"},
			},
		}},
	}
}

// own is a process that states by itself what it asks for.
func own(name string, cpu, memory int64) *sluicev1.ProcessSpec {
	return &sluicev1.ProcessSpec{
		Name: name, Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: []string{"work"}}},
		Resources: &sluicev1.ResourceRequest{CpuMilli: cpu, MemoryBytes: memory},
	}
}

func TestOverridesApply(t *testing.T) {
	spec := sleepJob("job")
	spec.Instances = proto.Uint32(3)
	spec.Task.Processes[0].Environment = map[string]string{}
	enrich(spec)
	var v violations
	job := jobSpecFrom(spec, "spec", &v)
	require.NoError(t, v.Err())
	zero, two := job.TaskOf(0), job.TaskOf(2)
	require.Equal(t, []cluster.KeyValue{{Key: "tier", Value: "front"}}, zero.Labels)
	require.EqualValues(t, 8192, zero.LogLimitBytes)
	require.Contains(t, zero.Processes[1].Env, cluster.KeyValue{Key: "ROLE", Value: "first"})
	require.Equal(t, job.Task.Request(), zero.Request())
	require.EqualValues(t, 300, two.Resources.Fixed[cluster.CPU])
	require.EqualValues(t, 3<<20, two.Resources.Fixed[cluster.Memory])
	require.True(t, two.Ports.IsZero(), "what processes ask for replaces what the task asked for as a whole")
	require.Empty(t, job.Task.Processes[1].Env, "the default is as it was")
}

// badTasks are further rows of badSpecs.
var badTasks = []struct {
	name   string
	change func(*sluicev1.JobSpec)
	field  string
	text   string
}{
	{"second process without a name", func(s *sluicev1.JobSpec) { s.Task.Processes = append(s.Task.Processes, own("b", 1, 1)) }, "spec.task.processes[0].name", "is required where a task has several"},
	{"bad process name", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Name = "A b" }, "spec.task.processes[0].name", `is "A b": 1 to`},
	{"twice the name", func(s *sluicev1.JobSpec) {
		s.Task.Init = []*sluicev1.ProcessSpec{{Name: "a", Command: &sluicev1.ProcessSpec_Shell{Shell: "x"}}}
		s.Task.Processes[0].Name = "a"
	}, "spec.task.processes[0].name", "names are unique"},
	{"main init step", func(s *sluicev1.JobSpec) {
		s.Task.Init = []*sluicev1.ProcessSpec{{Name: "a", Main: true, Command: &sluicev1.ProcessSpec_Shell{Shell: "x"}}}
	}, "spec.task.init[0].main", "only one of the processes"},
	{"init step with resources", func(s *sluicev1.JobSpec) { s.Task.Init = []*sluicev1.ProcessSpec{own("a", 1, 1)} }, "spec.task.init[0].resources", "runs with what the processes ask for"},
	{"many processes", func(s *sluicev1.JobSpec) { s.Task.Processes = make([]*sluicev1.ProcessSpec, 33) }, "spec.task.processes", "has 33 entries"},
	{"resources twice", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Resources = s.Task.Resources }, "spec.task.resources", "give either"},
	{"resources for one of two", func(s *sluicev1.JobSpec) {
		s.Task.Resources = nil
		s.Task.Processes[0].Name = "a"
		s.Task.Processes = append(s.Task.Processes, own("b", 1, 1))
	}, "spec.task.processes[0].resources", "is required, as other processes"},
	{"gpus for two", func(s *sluicev1.JobSpec) {
		s.Task.Resources = nil
		s.Task.Processes = []*sluicev1.ProcessSpec{own("a", 1, 1), own("b", 1, 1)}
		for _, p := range s.Task.Processes {
			p.Resources.Gpu = &sluicev1.GpuRequest{Count: 1}
		}
	}, "spec.task.processes[1].resources.gpu", "one process of a task may ask"},
	{"the same port for two", func(s *sluicev1.JobSpec) {
		s.Task.Resources = nil
		s.Task.Processes = []*sluicev1.ProcessSpec{own("a", 1, 1), own("b", 1, 1)}
		for _, p := range s.Task.Processes {
			p.Resources.Ports = &sluicev1.PortRequest{Numbers: []uint32{80}}
		}
	}, "spec.task.processes[1].resources.ports.numbers[1]", "is 80 a second time"},
	{"user with a colon", func(s *sluicev1.JobSpec) { s.Task.Processes[0].User = "a:b" }, "spec.task.processes[0].user", "is not the name or number of a user"},
	{"undefined variable", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Environment = map[string]string{"A": "x${SLUICE_PORT_0}"}
	}, `spec.task.processes[0].environment["A"]`, `refers to "${SLUICE_PORT_0}", which this task does not have`},
	{"undefined variable in an argument", func(s *sluicev1.JobSpec) { s.Task.Processes[0].GetArgv().Args[1] = "${SLUICE_JBO}" }, "spec.task.processes[0].argv.args[1]", `refers to "${SLUICE_JBO}"`},

	{"port 0", func(s *sluicev1.JobSpec) { s.Task.Resources.Ports = &sluicev1.PortRequest{Numbers: []uint32{0}} }, "spec.task.resources.ports.numbers[0]", "is 0: 1 to 65535"},
	{"port 65536", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Numbers: []uint32{65536}}
	}, "spec.task.resources.ports.numbers[0]", "is 65536"},
	{"port twice", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Numbers: []uint32{80, 80}}
	}, "spec.task.resources.ports.numbers[1]", "a second time"},
	{"many ports", func(s *sluicev1.JobSpec) { s.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1001} }, "spec.task.resources.ports.dynamic", "is 1001: 0 to 1000"},
	{"names for other ports", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 2, DynamicNames: []string{"a"}}
	}, "spec.task.resources.ports.dynamic_names", "has 1 entries for 2"},
	{"port names alike", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 2, DynamicNames: []string{"a-b", "A_b"}}
	}, "spec.task.resources.ports.dynamic_names[1]", "SLUICE_PORT_A_B is that of another"},
	{"port name that is a number", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1, DynamicNames: []string{"0"}}
	}, "spec.task.resources.ports.dynamic_names[0]", "beginning with a letter"},
	{"negative bandwidth", func(s *sluicev1.JobSpec) { s.Task.Resources.NetworkBytesPerSecond = -1 }, "spec.task.resources.network_bytes_per_second", "is -1"},

	{"no image", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Container = &sluicev1.ContainerSpec{} }, "spec.task.processes[0].container.image", "is required"},
	{"negative image", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Container = &sluicev1.ContainerSpec{Image: "x", ImageBytes: -1}
	}, "spec.task.processes[0].container.image_bytes", "is -1"},
	{"fetch of nothing", func(s *sluicev1.JobSpec) { s.Task.Processes[0].Fetch = []*sluicev1.FetchItem{{}} }, "spec.task.processes[0].fetch[0].uri", "a URI with its scheme"},
	{"fetch to elsewhere", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Fetch = []*sluicev1.FetchItem{{Uri: "file:///x", Path: "../y"}}
	}, "spec.task.processes[0].fetch[0].path", "inside the task's own folder"},
	{"fetch without a name", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Fetch = []*sluicev1.FetchItem{{Uri: "https://host/"}}
	}, "spec.task.processes[0].fetch[0].path", "inside the task's own folder"},
	{"fetch to a name with a NUL", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Fetch = []*sluicev1.FetchItem{{Uri: "file:///x", Path: "a\x00b"}}
	}, "spec.task.processes[0].fetch[0].path", "inside the task's own folder"},
	{"fetch to a long path", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].Fetch = []*sluicev1.FetchItem{{Uri: "file:///x", Path: strings.Repeat("a/", 2049)}}
	}, "spec.task.processes[0].fetch[0].path", "inside the task's own folder"},

	{"check of nothing", func(s *sluicev1.JobSpec) { s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{{}} }, "spec.task.processes[0].health_checks[0]", "command, http or tcp"},
	{"check of no port", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{{Check: &sluicev1.HealthCheck_Tcp{Tcp: &sluicev1.TcpCheck{}}}}
	}, "spec.task.processes[0].health_checks[0].tcp.port", "a number, a name or a dynamic_index"},
	{"check of a port that is not asked for", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{tcpCheck("http")}
	}, "spec.task.processes[0].health_checks[0].tcp.port", `is "http", which the task does not ask for`},
	{"hasty check", func(s *sluicev1.JobSpec) {
		c := tcpCheck("http")
		c.Interval = durationpb.New(time.Millisecond)
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{c}
	}, "spec.task.processes[0].health_checks[0].interval", "is 1ms: 100ms to 24h0m0s"},
	{"threshold of 0", func(s *sluicev1.JobSpec) {
		c := tcpCheck("http")
		c.FailureThreshold = proto.Uint32(0)
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{c}
	}, "spec.task.processes[0].health_checks[0].failure_threshold", "is 0: 1 to 1000"},
	{"check of a bad path", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{{Check: &sluicev1.HealthCheck_Http{Http: &sluicev1.HttpCheck{
			Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: 80}}, Path: "x",
		}}}}
	}, "spec.task.processes[0].health_checks[0].http.path", "begins with /"},
	{"check over ftp", func(s *sluicev1.JobSpec) {
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{{Check: &sluicev1.HealthCheck_Http{Http: &sluicev1.HttpCheck{
			Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: 80}}, Scheme: "ftp",
		}}}}
	}, "spec.task.processes[0].health_checks[0].http.scheme", "http or https"},

	{"volume from nowhere", func(s *sluicev1.JobSpec) { s.Task.Volumes = []*sluicev1.VolumeMount{{MountPath: "x"}} }, "spec.task.volumes[0]", "volume, host_path or scratch_bytes"},
	{"volume with a bad name", func(s *sluicev1.JobSpec) {
		s.Task.Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_Volume{Volume: "../x"}, MountPath: "x"}}
	}, "spec.task.volumes[0].volume", `is "../x"`},
	{"volume to nowhere", func(s *sluicev1.JobSpec) {
		s.Task.Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_Volume{Volume: "x"}}}
	}, "spec.task.volumes[0].mount_path", "is required"},
	{"volume to elsewhere", func(s *sluicev1.JobSpec) {
		s.Task.Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_Volume{Volume: "x"}, MountPath: "a/../../b"}}
	}, "spec.task.volumes[0].mount_path", "inside the task's own folder"},
	{"relative host path", func(s *sluicev1.JobSpec) {
		s.Task.Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_HostPath{HostPath: "etc"}, MountPath: "x"}}
	}, "spec.task.volumes[0].host_path", "an absolute path"},
	{"scratch without disk", func(s *sluicev1.JobSpec) {
		s.Task.Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_ScratchBytes{ScratchBytes: 10}, MountPath: "x"}}
	}, "spec.task.volumes", "may hold 10 bytes of scratch, and resources.disk_bytes is 0"},

	{"override of nothing", func(s *sluicev1.JobSpec) {
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: &sluicev1.InstanceRange{}}}
	}, "spec.overrides[0]", "changes nothing"},
	{"override for nobody", func(s *sluicev1.JobSpec) {
		s.Overrides = []*sluicev1.InstanceOverride{{Environment: map[string]string{"A": "1"}}}
	}, "spec.overrides[0].instances", "is required"},
	{"override beyond the last", func(s *sluicev1.JobSpec) {
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: &sluicev1.InstanceRange{Last: 1}, Environment: map[string]string{"A": "1"}}}
	}, "spec.overrides[0].instances.last", "is 1: the last instance is 0"},
	{"override backwards", func(s *sluicev1.JobSpec) {
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: &sluicev1.InstanceRange{First: 1}, Environment: map[string]string{"A": "1"}}}
	}, "spec.overrides[0].instances", "are 1 to 0"},
	{"override that takes a port away", func(s *sluicev1.JobSpec) {
		s.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1, DynamicNames: []string{"http"}}
		s.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{tcpCheck("http")}
		s.Overrides = []*sluicev1.InstanceOverride{{
			Instances: &sluicev1.InstanceRange{}, Task: &sluicev1.TaskSpec{Resources: &sluicev1.ResourceRequest{CpuMilli: 1, MemoryBytes: 1}},
		}}
	}, "spec.overrides[0].task.processes[0].health_checks[0].tcp.port", `is "http", which the task does not ask for`},
	{"many overrides of an instance", func(s *sluicev1.JobSpec) {
		for range maxCovering + 1 {
			s.Overrides = append(s.Overrides, &sluicev1.InstanceOverride{Instances: &sluicev1.InstanceRange{}, Environment: map[string]string{"A": "1"}})
		}
	}, "spec.overrides[32].instances", "instance 0 has 32 overrides before this: at most 32"},
	{"overrides of many variables", func(s *sluicev1.JobSpec) {
		s.Instances = proto.Uint32(40)
		s.Task.Processes[0].Environment = map[string]string{}
		for i := range 30_000 {
			s.Task.Processes[0].Environment[fmt.Sprint("V", i)] = ""
		}
		for i := range uint32(40) {
			s.Overrides = append(s.Overrides, &sluicev1.InstanceOverride{
				Instances: &sluicev1.InstanceRange{First: i, Last: i}, Environment: map[string]string{"A": "1"},
			})
		}
	}, "spec.overrides", "take more than 1000000 variables to merge"},
	{"an override that makes the task too large to launch", func(s *sluicev1.JobSpec) {
		first := s.Task.Processes[0]
		s.Task.Processes = nil
		for i := range maxProcesses {
			s.Task.Processes = append(s.Task.Processes, &sluicev1.ProcessSpec{Name: fmt.Sprint("p", i), Command: first.Command})
		}
		s.Overrides = []*sluicev1.InstanceOverride{{Instances: &sluicev1.InstanceRange{}, Environment: map[string]string{}}}
		for i := range 3 {
			s.Overrides[0].Environment[fmt.Sprint("V", i)] = strings.Repeat("x", 100_000)
		}
	}, "spec.overrides[0]", "by which instance 0 gives its processes 9601344 bytes of variables together: at most 1048576"},
	{"override of a bad task", func(s *sluicev1.JobSpec) {
		s.Overrides = []*sluicev1.InstanceOverride{{
			Instances: &sluicev1.InstanceRange{}, Task: &sluicev1.TaskSpec{Resources: &sluicev1.ResourceRequest{MemoryBytes: 1}},
		}}
	}, "spec.overrides[0].task.resources.cpu_milli", "is 0: 1 to"},
}

func tcpCheck(port string) *sluicev1.HealthCheck {
	return &sluicev1.HealthCheck{Check: &sluicev1.HealthCheck_Tcp{Tcp: &sluicev1.TcpCheck{
		Port: &sluicev1.PortRef{Kind: &sluicev1.PortRef_Name{Name: port}},
	}}}
}

func TestBadTasks(t *testing.T) {
	a := newAPITest(t)
	for _, c := range badTasks {
		t.Run(c.name, func(t *testing.T) {
			spec := sleepJob("job")
			c.change(spec)
			_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
			requireViolation(t, err, codes.InvalidArgument, c.field, c.text)
			require.Zero(t, a.Snapshot().NumJobs())
		})
	}
}

// Of a port that is refused it is not said too that the task does not ask for it.
func TestAPortIsRefusedOnce(t *testing.T) {
	for name, port := range map[string]*sluicev1.PortRef{
		"no kind": {}, "nothing": nil,
		"number 0":      {Kind: &sluicev1.PortRef_Number{}},
		"number 65,536": {Kind: &sluicev1.PortRef_Number{Number: 65536}},
		"no name":       {Kind: &sluicev1.PortRef_Name{}},
		"index 1,000":   {Kind: &sluicev1.PortRef_DynamicIndex{DynamicIndex: maxPorts}},
	} {
		spec := sleepJob("job")
		spec.Type, spec.Restart = sluicev1.JobType_JOB_TYPE_STATELESS, nil
		spec.Task.Processes[0].HealthChecks = []*sluicev1.HealthCheck{{Check: &sluicev1.HealthCheck_Http{Http: &sluicev1.HttpCheck{Port: port}}}}
		var check, endpoint violations
		jobSpecFrom(spec, "spec", &check)
		require.Len(t, check.list, 1, "%s: %v", name, check.list)
		spec.Task.Processes[0].HealthChecks = nil
		spec.Discovery = &sluicev1.DiscoveryPolicy{Endpoints: []*sluicev1.DiscoveryEndpoint{{Name: "web", Port: port}}}
		jobSpecFrom(spec, "spec", &endpoint)
		require.Len(t, endpoint.list, 1, "%s: %v", name, endpoint.list)
	}
}

// TestCapabilities: a job that no host manager of the cluster can run is refused by field; where there are no hosts
// nobody can know, and it waits.
func TestCapabilities(t *testing.T) {
	a := newAPITest(t)
	spec := sleepJob("job")
	spec.Task.Processes[0].Container = &sluicev1.ContainerSpec{Image: "x", Runtime: sluicev1.ContainerSpec_DOCKER}
	a.submit(t, spec)

	host := func(name string, can cluster.Capabilities) {
		require.NoError(t, a.Do(t.Context(), func(tx *Tx) error {
			return tx.Emit(&cluster.HostReported{ID: cluster.HostID("s/" + name), Machine: cluster.Machine{
				Capacity: cluster.NewResources([cluster.NumDimensions]int64{8000, 1 << 40}), Capabilities: can,
			}})
		}))
	}
	host("plain", cluster.CanPorts)
	spec.Name = "again"
	spec.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1}
	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	requireViolation(t, err, codes.Unimplemented, "spec.task.processes[0]", "cannot do: docker")
	host("docker", cluster.CanDocker)
	_, err = a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
	requireViolation(t, err, codes.Unimplemented, "spec.task", "needs docker, ports together")
	host("both", cluster.CanDocker|cluster.CanPorts)
	a.submit(t, spec)
}

// Hosts are looked through once for all that a request asks for, not once for each override of each job.
func TestHostsAreLookedThroughOnce(t *testing.T) {
	a := newAPITest(t)
	for i := range 100 {
		can := cluster.CanPorts
		if i == 50 {
			can |= cluster.CanUsers
		}
		a.emit(t, &cluster.HostReported{ID: cluster.HostID(fmt.Sprintf("s/h%02d", i)), Machine: cluster.Machine{Capabilities: can}})
	}
	k := kinds{snapshot: a.Snapshot()}
	require.True(t, k.has(cluster.CanPorts))
	require.Len(t, k.met, 1)
	require.True(t, k.has(cluster.CanUsers))
	require.False(t, k.has(cluster.CanDocker))
	require.Len(t, k.met, 2)
	k.snapshot = nil
	require.True(t, k.has(cluster.CanPorts|cluster.CanUsers))
	require.False(t, k.has(cluster.CanUsers|cluster.CanDocker))
}
