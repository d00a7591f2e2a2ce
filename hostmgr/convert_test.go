package hostmgr

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func fullLaunch() *sluicev1.Launch {
	return &sluicev1.Launch{
		Run:  &sluicev1.RunRef{JobUid: 3, Instance: 4, Run: 5, Job: "work"},
		Host: "h1",
		Task: &sluicev1.TaskPayload{
			Spec: &sluicev1.TaskSpec{
				Processes: []*sluicev1.ProcessSpec{{
					Command:          &sluicev1.ProcessSpec_Shell{Shell: "echo $A"},
					Environment:      map[string]string{"A": "mine", "C": "3"},
					WorkingDirectory: "/srv",
				}},
				LogLimitBytes: proto.Int64(1 << 20),
			},
			Resources: &sluicev1.ResourceRequest{
				CpuMilli: 1, MemoryBytes: 2, DiskBytes: 3, Gpu: &sluicev1.GpuRequest{Count: 2},
				Named: map[string]int64{"z": 1, "a": 2, "none": 0},
			},
			Environment: map[string]string{"A": "given", "B": "2"},
			GpuDevices:  []uint32{1, 3},

			MaxRunTimeNs: int64(time.Hour), Revocable: true, ProgressInterval: durationpb.New(time.Minute),
			PreemptionGrace: durationpb.New(time.Second),
		},
	}
}

func TestLaunchFrom(t *testing.T) {
	got, err := launchFrom(fullLaunch(), 0)
	require.NoError(t, err)
	require.Equal(t, Launch{
		Run: cluster.RunID{Task: cluster.MakeTaskKey(3, 4), Run: 5}, Job: "work", Host: "h1",
		Task: cluster.TaskSpec{
			Resources: cluster.Resources{
				Fixed: [cluster.NumDimensions]int64{cluster.CPU: 1, cluster.Memory: 2, cluster.Disk: 3, cluster.GPU: 2000},
				Named: []cluster.Amount{{Name: "a", Value: 2}, {Name: "z", Value: 1}},
			},
			GPU: cluster.GPURequest{Count: 2},
			Processes: []cluster.Process{{
				Shell: "echo $A", WorkDir: "/srv", Env: []cluster.KeyValue{{Key: "A", Value: "mine"}, {Key: "C", Value: "3"}},
			}},
			LogLimitBytes: 1 << 20,
		},
		GPUs: []uint16{1, 3},
		Env:  []cluster.KeyValue{{Key: "A", Value: "given"}, {Key: "B", Value: "2"}},

		MaxRunTime: time.Hour, Revocable: true, Progress: time.Minute, PreemptionGrace: time.Second,
	}, got)
}

func TestLaunchFromRefuses(t *testing.T) {
	spec := func(l *sluicev1.Launch) *sluicev1.TaskSpec { return l.Task.Spec }
	process := func(l *sluicev1.Launch) *sluicev1.ProcessSpec { return l.Task.Spec.Processes[0] }
	for want, change := range map[string]func(l *sluicev1.Launch){
		"names no run":           func(l *sluicev1.Launch) { l.Run.Run = 0 },
		"support groups":         func(l *sluicev1.Launch) { spec(l).Init = []*sluicev1.ProcessSpec{process(l)} },
		"not support groups":     func(l *sluicev1.Launch) { spec(l).Processes = append(spec(l).Processes, process(l)) },
		"without a process":      func(l *sluicev1.Launch) { l.Task = nil },
		"has no command":         func(l *sluicev1.Launch) { process(l).Command = nil },
		`process "" of a launch`: func(l *sluicev1.Launch) { process(l).Command = &sluicev1.ProcessSpec_Argv{} },
		"volume 0 has no source": func(l *sluicev1.Launch) { spec(l).Volumes = []*sluicev1.VolumeMount{{}} },
		"support host-paths": func(l *sluicev1.Launch) {
			spec(l).Volumes = []*sluicev1.VolumeMount{{Source: &sluicev1.VolumeMount_HostPath{HostPath: "/a"}}}
		},
		"support ports": func(l *sluicev1.Launch) {
			l.Task.Resources.Ports, l.Task.Ports = &sluicev1.PortRequest{Dynamic: 1}, []uint32{80}
		},
		"asks for 1 ports and the scheduler chose 0": func(l *sluicev1.Launch) { l.Task.Resources.Ports = &sluicev1.PortRequest{Dynamic: 1} },
		"asks for 0 ports and the scheduler chose 1": func(l *sluicev1.Launch) { l.Task.Ports = []uint32{80} },
		"there is no port 70000":                     func(l *sluicev1.Launch) { l.Task.Ports = []uint32{70_000} },
		"no GPU device 70000":                        func(l *sluicev1.Launch) { l.Task.GpuDevices[1] = 70_000 },
		"secrets":                                    func(l *sluicev1.Launch) { l.Task.Secrets = []*sluicev1.SecretFile{{}} },
		"services":                                   func(l *sluicev1.Launch) { l.Task.Service = true },
		"support containers":                         func(l *sluicev1.Launch) { process(l).Container = &sluicev1.ContainerSpec{} },
		"support docker": func(l *sluicev1.Launch) {
			process(l).Container = &sluicev1.ContainerSpec{Runtime: sluicev1.ContainerSpec_DOCKER}
		},
		"does not know":  func(l *sluicev1.Launch) { process(l).Container = &sluicev1.ContainerSpec{Runtime: 9} },
		"users":          func(l *sluicev1.Launch) { process(l).User = "root" },
		"fetch":          func(l *sluicev1.Launch) { process(l).Fetch = []*sluicev1.FetchItem{{}} },
		"checks nothing": func(l *sluicev1.Launch) { process(l).HealthChecks = []*sluicev1.HealthCheck{check()} },
		"lacks its interval": func(l *sluicev1.Launch) {
			process(l).HealthChecks = []*sluicev1.HealthCheck{check()}
			process(l).HealthChecks[0].Interval = nil
		},
		"a reference to no port": func(l *sluicev1.Launch) {
			process(l).HealthChecks = []*sluicev1.HealthCheck{check()}
			process(l).HealthChecks[0].Check = &sluicev1.HealthCheck_Tcp{Tcp: &sluicev1.TcpCheck{}}
		},
		"support health-checks": func(l *sluicev1.Launch) {
			process(l).HealthChecks = []*sluicev1.HealthCheck{check()}
			process(l).HealthChecks[0].Check = &sluicev1.HealthCheck_Command{Command: &sluicev1.Argv{Args: []string{"true"}}}
		},
	} {
		l := fullLaunch()
		change(l)
		_, err := launchFrom(l, 0)
		require.ErrorContains(t, err, want)
	}
}

func check() *sluicev1.HealthCheck {
	return &sluicev1.HealthCheck{
		Interval: durationpb.New(time.Second), Timeout: durationpb.New(time.Second),
		FailureThreshold: proto.Uint32(1), SuccessThreshold: proto.Uint32(1),
	}
}

func TestText(t *testing.T) {
	require.Equal(t, "as it is", text("as it is"))
	require.Equal(t, "a�b", text("a\xffb"))
	long := text(strings.Repeat("ä", maxMessage))
	require.LessOrEqual(t, len(long), maxMessage+4)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "…"))
}

// TestWhatAHostLacks of what its driver can do; one that says nothing has it all.
func TestWhatAHostLacks(t *testing.T) {
	const can = cluster.CanGroups | cluster.CanVolumes
	host := func(c cluster.Capabilities) Host { return Host{Name: "h", Machine: cluster.Machine{Capabilities: c}} }
	require.Empty(t, hostTo(host(0), can).GetLacks())
	require.Empty(t, hostTo(host(can|cluster.CanPorts), can).GetLacks())
	require.Equal(t, []string{"volumes"}, hostTo(host(cluster.CanGroups), can).GetLacks())
}
