package hostmgr

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// taskFrom converts what a run consists of. The scheduler has checked it; here only what would be misread is an error.
func taskFrom(p *sluicev1.TaskPayload) (cluster.TaskSpec, error) {
	spec := p.GetSpec()
	task := cluster.TaskSpec{
		Labels:        envFrom(spec.GetLabels()),
		KillGrace:     p.GetKillGrace().AsDuration(),
		LogLimitBytes: spec.GetLogLimitBytes(),
	}
	request, err := requestFrom(p.GetResources())
	if err != nil {
		return task, err
	}
	task.Resources, task.GPU, task.Ports = request.Resources, request.GPU, request.Ports
	if len(spec.GetProcesses()) == 0 {
		return task, errors.New("hostmgr: a launch without a process")
	}
	if task.Init, err = processesFrom(spec.GetInit()); err != nil {
		return task, err
	}
	if task.Processes, err = processesFrom(spec.GetProcesses()); err != nil {
		return task, err
	}
	for i, m := range spec.GetVolumes() {
		v := cluster.Volume{
			Name: m.GetVolume(), HostPath: m.GetHostPath(), ScratchBytes: m.GetScratchBytes(),
			MountPath: m.GetMountPath(), ReadOnly: m.GetReadOnly(),
		}
		if m.GetSource() == nil {
			return task, fmt.Errorf("hostmgr: volume %d has no source", i)
		}
		task.Volumes = append(task.Volumes, v)
	}
	return task, nil
}

func processesFrom(list []*sluicev1.ProcessSpec) ([]cluster.Process, error) {
	var all []cluster.Process
	for _, p := range list {
		process, err := processFrom(p)
		if err != nil {
			return nil, err
		}
		all = append(all, process)
	}
	return all, nil
}

func processFrom(p *sluicev1.ProcessSpec) (out cluster.Process, err error) {
	out = cluster.Process{
		Name: p.GetName(), Command: p.GetArgv().GetArgs(), Shell: p.GetShell(), Env: envFrom(p.GetEnvironment()),
		WorkDir: p.GetWorkingDirectory(), User: p.GetUser(), Main: p.GetMain(),
	}
	if len(out.Argv()) == 0 {
		return out, fmt.Errorf("hostmgr: process %q of a launch has no command", p.GetName())
	}
	if c := p.GetContainer(); c != nil {
		runtime, ok := runtimes[c.GetRuntime()]
		if !ok {
			return out, fmt.Errorf("hostmgr: process %q needs container runtime %v, which this release does not know", p.GetName(), c.GetRuntime())
		}
		out.Container = &cluster.Container{
			Runtime: runtime, Image: c.GetImage(), ImageBytes: c.GetImageBytes(),
			ForcePull: c.GetForcePull(), Parameters: envFrom(c.GetParameters()),
		}
	}
	if r := p.GetResources(); r != nil {
		request, err := requestFrom(r)
		if err != nil {
			return out, err
		}
		out.Request = &request
	}
	for _, f := range p.GetFetch() {
		out.Fetch = append(out.Fetch, cluster.Fetch{URI: f.GetUri(), Path: f.GetPath(), Executable: f.GetExecutable(), Extract: f.GetExtract()})
	}
	for _, c := range p.GetHealthChecks() {
		check, err := checkFrom(c)
		if err != nil {
			return out, fmt.Errorf("hostmgr: process %q: %w", p.GetName(), err)
		}
		out.Checks = append(out.Checks, check)
	}
	return out, nil
}

var runtimes = map[sluicev1.ContainerSpec_Runtime]cluster.ContainerRuntime{
	sluicev1.ContainerSpec_RUNTIME_UNSPECIFIED: cluster.DefaultRuntime,
	sluicev1.ContainerSpec_MESOS:               cluster.MesosRuntime,
	sluicev1.ContainerSpec_DOCKER:              cluster.DockerRuntime,
}

var effects = map[sluicev1.HealthCheck_Effect]cluster.HealthEffect{
	sluicev1.HealthCheck_EFFECT_UNSPECIFIED:     cluster.LivenessAndReadiness,
	sluicev1.HealthCheck_LIVENESS_AND_READINESS: cluster.LivenessAndReadiness,
	sluicev1.HealthCheck_LIVENESS:               cluster.Liveness,
	sluicev1.HealthCheck_READINESS:              cluster.Readiness,
}

func checkFrom(p *sluicev1.HealthCheck) (cluster.HealthCheck, error) {
	effect, ok := effects[p.GetEffect()]
	c := cluster.HealthCheck{
		Effect: effect, Delay: p.GetInitialDelay().AsDuration(),
		Interval: p.GetInterval().AsDuration(), Timeout: p.GetTimeout().AsDuration(),
		Failures: p.GetFailureThreshold(), Successes: p.GetSuccessThreshold(),
	}
	if !ok || c.Interval < time.Millisecond || c.Timeout < time.Millisecond || c.Failures == 0 || c.Successes == 0 {
		return c, errors.New("a health check lacks its interval, timeout or thresholds, or has an unknown effect")
	}
	switch k := p.GetCheck().(type) {
	case *sluicev1.HealthCheck_Command:
		c.Command = k.Command.GetArgs()
	case *sluicev1.HealthCheck_Tcp:
		port, err := portRefFrom(k.Tcp.GetPort())
		c.TCP = &port
		return c, err
	case *sluicev1.HealthCheck_Http:
		port, err := portRefFrom(k.Http.GetPort())
		c.HTTP = &cluster.HTTPCheck{
			Port: port, Path: k.Http.GetPath(), Scheme: k.Http.GetScheme(), Headers: envFrom(k.Http.GetHeaders()),
		}
		return c, err
	}
	if len(c.Command) == 0 {
		return c, errors.New("a health check checks nothing that this release knows")
	}
	return c, nil
}

func portRefFrom(p *sluicev1.PortRef) (cluster.PortRef, error) {
	switch k := p.GetKind().(type) {
	case *sluicev1.PortRef_Number:
		n, err := portFrom(k.Number)
		return cluster.PortRef{Number: n}, err
	case *sluicev1.PortRef_Name:
		return cluster.PortRef{Name: k.Name}, nil
	case *sluicev1.PortRef_DynamicIndex:
		if k.DynamicIndex > math.MaxUint16 {
			return cluster.PortRef{}, fmt.Errorf("hostmgr: there is no dynamic port %d", k.DynamicIndex)
		}
		return cluster.PortRef{Index: uint16(k.DynamicIndex)}, nil
	default:
		return cluster.PortRef{}, errors.New("hostmgr: a reference to no port")
	}
}

func portFrom(n uint32) (uint16, error) {
	if n == 0 || n > math.MaxUint16 {
		return 0, fmt.Errorf("hostmgr: there is no port %d", n)
	}
	return uint16(n), nil
}

func portsFrom(list []uint32) ([]uint16, error) {
	var ports []uint16
	for _, n := range list {
		port, err := portFrom(n)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func requestFrom(p *sluicev1.ResourceRequest) (cluster.Request, error) {
	var r cluster.Request
	numbers, err := portsFrom(p.GetPorts().GetNumbers())
	if err != nil {
		return r, err
	}
	if p.GetPorts().GetDynamic() > math.MaxUint16 || p.GetGpu().GetCount() > math.MaxInt32 || p.GetGpu().GetMilli() > cluster.WholeGPU {
		return r, errors.New("hostmgr: a request for more ports or devices than there can be")
	}
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.GetCpuMilli()
	fixed[cluster.Memory] = p.GetMemoryBytes()
	fixed[cluster.Disk] = p.GetDiskBytes()
	fixed[cluster.Network] = p.GetNetworkBytesPerSecond()
	r.GPU = cluster.GPURequest{
		Count: int32(p.GetGpu().GetCount()), Milli: int32(p.GetGpu().GetMilli()), Models: slices.Clone(p.GetGpu().GetModels()),
	}
	fixed[cluster.GPU] = r.GPU.Amount()
	var named []cluster.Amount
	for name, v := range p.GetNamed() {
		named = append(named, cluster.Amount{Name: name, Value: v})
	}
	r.Resources = cluster.NewResources(fixed, named...) // which sorts
	r.Ports = cluster.PortRequest{Numbers: numbers, Dynamic: uint16(p.GetPorts().GetDynamic()), Names: p.GetPorts().GetDynamicNames()}
	return r, nil
}

// envFrom returns the pairs of a map, sorted; nil if it is empty.
func envFrom(variables map[string]string) []cluster.KeyValue {
	var env []cluster.KeyValue
	for k, v := range variables {
		env = append(env, cluster.KeyValue{Key: k, Value: v})
	}
	slices.SortFunc(env, func(a, b cluster.KeyValue) int { return strings.Compare(a.Key, b.Key) })
	return env
}
