package serve

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func taskSpecTo(s *cluster.TaskSpec) *sluicev1.TaskSpec {
	p := &sluicev1.TaskSpec{
		Init:      processesTo(s.Init),
		Processes: processesTo(s.Processes),
		Labels:    pairsTo(s.Labels),
	}
	request := s.Request()
	if !request.IsZero() && !ownRequests(s.Processes) {
		p.Resources = requestTo(&request)
	}
	for i := range s.Volumes {
		p.Volumes = append(p.Volumes, volumeTo(&s.Volumes[i]))
	}
	if s.LogLimitBytes > 0 {
		p.LogLimitBytes = &s.LogLimitBytes
	}
	return p
}

// ownRequests reports whether the processes state what they ask for by themselves.
func ownRequests(list []cluster.Process) bool { return len(list) > 0 && list[0].Request != nil }

func overridesTo(list []cluster.InstanceOverride) []*sluicev1.InstanceOverride {
	var all []*sluicev1.InstanceOverride
	for i := range list {
		o := &list[i]
		p := &sluicev1.InstanceOverride{
			Instances:   &sluicev1.InstanceRange{First: o.First, Last: o.Last},
			Environment: pairsTo(o.Env),
		}
		if o.Task != nil {
			p.Task = taskSpecTo(o.Task)
		}
		all = append(all, p)
	}
	return all
}

func processesTo(list []cluster.Process) []*sluicev1.ProcessSpec {
	var all []*sluicev1.ProcessSpec
	for i := range list {
		all = append(all, processTo(&list[i]))
	}
	return all
}

func processTo(s *cluster.Process) *sluicev1.ProcessSpec {
	p := &sluicev1.ProcessSpec{
		Name:             s.Name,
		Environment:      pairsTo(s.Env),
		WorkingDirectory: s.WorkDir,
		User:             s.User,
		Main:             s.Main,
	}
	if s.Shell != "" {
		p.Command = &sluicev1.ProcessSpec_Shell{Shell: s.Shell}
	} else {
		p.Command = &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: s.Command}}
	}
	if s.Request != nil {
		p.Resources = requestTo(s.Request)
	}
	if c := s.Container; c != nil {
		p.Container = &sluicev1.ContainerSpec{
			Runtime: containerRuntimes.to(c.Runtime),
			Image:   c.Image, ImageBytes: c.ImageBytes, ForcePull: c.ForcePull, Parameters: pairsTo(c.Parameters),
		}
	}
	for _, f := range s.Fetch {
		p.Fetch = append(p.Fetch, &sluicev1.FetchItem{Uri: f.URI, Path: f.Path, Executable: f.Executable, Extract: f.Extract})
	}
	for i := range s.Checks {
		p.HealthChecks = append(p.HealthChecks, checkTo(&s.Checks[i]))
	}
	return p
}

func volumeTo(s *cluster.Volume) *sluicev1.VolumeMount {
	p := &sluicev1.VolumeMount{MountPath: s.MountPath, ReadOnly: s.ReadOnly}
	switch {
	case s.Name != "":
		p.Source = &sluicev1.VolumeMount_Volume{Volume: s.Name}
	case s.HostPath != "":
		p.Source = &sluicev1.VolumeMount_HostPath{HostPath: s.HostPath}
	default:
		p.Source = &sluicev1.VolumeMount_ScratchBytes{ScratchBytes: s.ScratchBytes}
	}
	return p
}

func checkTo(s *cluster.HealthCheck) *sluicev1.HealthCheck {
	p := &sluicev1.HealthCheck{
		Effect:       healthEffects.to(s.Effect),
		InitialDelay: durationpb.New(s.Delay), Interval: durationpb.New(s.Interval), Timeout: durationpb.New(s.Timeout),
		FailureThreshold: &s.Failures, SuccessThreshold: &s.Successes,
	}
	switch {
	case s.HTTP != nil:
		p.Check = &sluicev1.HealthCheck_Http{Http: &sluicev1.HttpCheck{
			Port: portRefTo(s.HTTP.Port), Path: s.HTTP.Path, Scheme: s.HTTP.Scheme, Headers: pairsTo(s.HTTP.Headers),
		}}
	case s.TCP != nil:
		p.Check = &sluicev1.HealthCheck_Tcp{Tcp: &sluicev1.TcpCheck{Port: portRefTo(*s.TCP)}}
	default:
		p.Check = &sluicev1.HealthCheck_Command{Command: &sluicev1.Argv{Args: s.Command}}
	}
	return p
}

func portRefTo(r cluster.PortRef) *sluicev1.PortRef {
	switch {
	case r.Number != 0:
		return &sluicev1.PortRef{Kind: &sluicev1.PortRef_Number{Number: uint32(r.Number)}}
	case r.Name != "":
		return &sluicev1.PortRef{Kind: &sluicev1.PortRef_Name{Name: r.Name}}
	default:
		return &sluicev1.PortRef{Kind: &sluicev1.PortRef_DynamicIndex{DynamicIndex: uint32(r.Index)}}
	}
}

// requestTo converts what a task or a process asks for back.
func requestTo(r *cluster.Request) *sluicev1.ResourceRequest {
	fixed := &r.Resources.Fixed
	p := &sluicev1.ResourceRequest{
		CpuMilli:              fixed[cluster.CPU],
		MemoryBytes:           fixed[cluster.Memory],
		DiskBytes:             fixed[cluster.Disk],
		NetworkBytesPerSecond: fixed[cluster.Network],
		Named:                 namedTo(r.Resources.Named),
	}
	if !r.GPU.IsZero() {
		p.Gpu = &sluicev1.GpuRequest{Count: int64(r.GPU.Count), Milli: int64(r.GPU.Milli), Models: r.GPU.Models}
	}
	if ports := &r.Ports; !ports.IsZero() {
		p.Ports = &sluicev1.PortRequest{Numbers: numbersTo(ports.Numbers), Dynamic: uint32(ports.Dynamic), DynamicNames: ports.Names}
	}
	return p
}

func numbersTo(ports []uint16) []uint32 {
	var out []uint32
	for _, p := range ports {
		out = append(out, uint32(p))
	}
	return out
}

var healths = map[cluster.Health]sluicev1.Health{
	cluster.HealthReady:   sluicev1.Health_HEALTH_HEALTHY,
	cluster.HealthUnready: sluicev1.Health_HEALTH_UNREADY,
	cluster.Unhealthy:     sluicev1.Health_HEALTH_UNHEALTHY,
}
