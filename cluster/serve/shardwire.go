package serve

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func rejectDown(reason string, retry bool) *sluicev1.ShardDown {
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Reject{Reject: &sluicev1.Reject{Reason: reason, Retry: retry}}}
}

func ackDown(st *sluicev1.RunStatus) *sluicev1.ShardDown {
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Ack{Ack: &sluicev1.Ack{UpdateId: st.GetUpdateId()}}}
}

func releaseDown(run *sluicev1.RunRef) *sluicev1.ShardDown {
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Release{Release: &sluicev1.Release{Run: run}}}
}

func killDown(run *sluicev1.RunRef, grace time.Duration, command []string, why cluster.Reason) *sluicev1.ShardDown {
	kill := &sluicev1.Kill{Run: run, Grace: durationpb.New(grace), Reason: string(why)}
	if len(command) > 0 {
		kill.OnKill = &sluicev1.Argv{Args: command}
	}
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Kill{Kill: kill}}
}

func launchDown(t *cluster.Task, j *cluster.Job) *sluicev1.ShardDown {
	instance := t.Key.Instance()
	job := j.SpecFor(t)
	spec := *job.TaskOf(instance)
	spec.Labels = job.LabelsOf(instance)
	request := spec.Request()
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Launch{Launch: &sluicev1.Launch{
		Run:  runRef(t.RunID(), j.Spec.Name),
		Host: t.Host.Name(),
		Task: &sluicev1.TaskPayload{
			Spec:      taskSpecTo(&spec),
			Resources: requestTo(&request),
			KillGrace: durationpb.New(spec.KillGrace),
			Owner:     job.Owner,

			GpuDevices: numbersTo(t.GPUs),
			Ports:      numbersTo(t.Ports),

			MaxRunTimeNs: int64(job.Limits.MaxRunTime),
			Revocable:    j.Spec.Revocable,

			ProgressInterval: durationTo(job.Progress),
			PreemptionGrace:  durationTo(job.Preemption.Grace),
		},
	}}}
}

// runRef names a run; the job's name is for people only.
func runRef(run cluster.RunID, job cluster.JobID) *sluicev1.RunRef {
	return &sluicev1.RunRef{
		JobUid: uint32(run.Task.Job()), Instance: run.Task.Number(), Run: run.Run, Job: string(job),
	}
}

func runFrom(r *sluicev1.RunRef) cluster.RunID {
	return cluster.RunID{Task: cluster.MakeTaskKey(cluster.JobUID(r.GetJobUid()), r.GetInstance()), Run: r.GetRun()}
}

var runStates = map[sluicev1.RunState]cluster.TaskState{
	sluicev1.RunState_RUN_STATE_LAUNCHING: cluster.TaskLaunching,
	sluicev1.RunState_RUN_STATE_STARTING:  cluster.TaskStarting,
	sluicev1.RunState_RUN_STATE_RUNNING:   cluster.TaskRunning,
	sluicev1.RunState_RUN_STATE_SUCCEEDED: cluster.TaskSucceeded,
	sluicev1.RunState_RUN_STATE_FAILED:    cluster.TaskFailed,
	sluicev1.RunState_RUN_STATE_KILLED:    cluster.TaskKilled,
	sluicev1.RunState_RUN_STATE_LOST:      cluster.TaskLost,

	sluicev1.RunState_RUN_STATE_UNREACHABLE: noNews,
}

// noNews is the state of a run that its shard knows, and of which it says nothing that changes the task.
const noNews = cluster.TaskPending

func healthFrom(h *sluicev1.RunHealth) cluster.Health {
	switch {
	case !h.GetHealthy():
		return cluster.Unhealthy
	case h.GetReady():
		return cluster.HealthReady
	default:
		return cluster.HealthUnready
	}
}

// maxMessage bounds the text that a host manager may add to a status.
const maxMessage = 1024

// statusFrom converts a status. With the error for a state that is not known it returns one without news.
func statusFrom(st *sluicev1.RunStatus) (*cluster.TaskStatus, error) {
	state, ok := runStates[st.GetState()]
	run := runFrom(st.GetRun())
	switch {
	case run.Run == 0 || run.Task.Job() == 0:
		return nil, fmt.Errorf("serve: a status names no run: %v", run)
	case !ok:
		return &cluster.TaskStatus{Task: run.Task, Run: run.Run, State: noNews},
			fmt.Errorf("serve: run %v has the state %v, which this release does not handle", run, st.GetState())
	}
	e := &cluster.TaskStatus{
		Task: run.Task, Run: run.Run, State: state, ExitCode: -1,
		Signal:  st.GetResult().GetSignal(),
		Reason:  cluster.Reason(shorten(st.GetReason(), 64)),
		Message: shorten(strings.ToValidUTF8(st.GetMessage(), "�"), maxMessage),
	}
	if r := st.GetResult(); r != nil && r.ExitCode != nil {
		e.ExitCode = r.GetExitCode()
	}
	switch {
	case e.Reason == cluster.ReasonTaskStopped, e.Reason == cluster.ReasonPreempted && state != cluster.TaskKilled:
		e.Reason = cluster.ReasonNone // it is known here whether that is so, and instances of a service of which it is stay ended
	case e.Reason == cluster.ReasonLaunchRefused && state != cluster.TaskFailed:
		e.Reason = cluster.ReasonNone // what has begun is not given back
	}
	return e, nil
}

func machineFrom(h *sluicev1.HostInfo, can cluster.Capabilities) (cluster.Machine, error) {
	size := proto.Size(h)
	for _, v := range h.GetVolumes() { // which are in lists of their own, and bounded by heldFrom
		size -= proto.Size(v)
	}
	if size > maxSpecBytes {
		return cluster.Machine{}, fmt.Errorf("serve: it is %d bytes long without its volumes, at most %d are handled", size, maxSpecBytes)
	}
	m := cluster.Machine{
		Rack: h.GetRack(), Zone: h.GetZone(), Address: h.GetAddress(), Notes: h.GetNotes(),
		Capabilities: can &^ cluster.ParseCapabilities(h.GetLacks()),
	}
	total, err := amountsFrom(h.GetCapacity().GetTotal())
	if err != nil {
		return m, err
	}
	if m.Revocable, err = amountsFrom(h.GetCapacity().GetRevocable()); err != nil {
		return m, fmt.Errorf("%w, in the revocable part", err)
	}
	if lacks := m.Revocable.Lacking(total); len(lacks) > 0 {
		return m, fmt.Errorf("serve: the revocable part is more than the total of %s", strings.Join(lacks, ", "))
	}
	m.Capacity = total.Sub(m.Revocable) // no amount is negative
	if name := h.GetName(); name == "" || len(name) > 255 || strings.Contains(name, "/") || !isText(name) {
		return m, fmt.Errorf("serve: the name must have 1..255 characters, no slash and no control characters")
	}
	for _, g := range h.GetCapacity().GetGpus() {
		m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: g.GetModel()})
	}
	devices := &m.Capacity.Fixed[cluster.GPU]
	for int64(len(m.GPUs)) < min(*devices/cluster.WholeGPU, maxDevices) { // a sum without a list: devices of no known model
		m.GPUs = append(m.GPUs, cluster.GPUDevice{})
	}
	if len(m.GPUs) > maxDevices {
		return m, fmt.Errorf("serve: it has %d GPU devices, at most %d are handled", len(m.GPUs), maxDevices)
	}
	*devices = int64(len(m.GPUs)) * cluster.WholeGPU
	for _, a := range h.GetAttributes() {
		m.Attributes = append(m.Attributes, cluster.KeyValue{Key: a.GetKey(), Value: a.GetValue()})
	}
	slices.SortFunc(m.Attributes, cluster.KeyValue.Compare)
	if m.Volumes, err = heldFrom(h.GetVolumes()); err != nil {
		return m, err
	}
	m.Ports, err = portRangesFrom(h.GetCapacity().GetPortRanges())
	return m, err
}

// maxHeld bounds the persistent volumes of one host.
const maxHeld = 10_000

func heldFrom(list []*sluicev1.VolumeInfo) ([]cluster.HeldVolume, error) {
	if len(list) > maxHeld {
		return nil, fmt.Errorf("serve: it has %d volumes, at most %d are handled", len(list), maxHeld)
	}
	var all []cluster.HeldVolume
	for _, v := range list {
		if v.GetName() == "" || len(v.GetName()) > 255 || v.GetBytes() < 0 || v.GetBytes() > cluster.MaxAmount {
			return nil, fmt.Errorf("serve: volume %q of %d bytes: the name must have 1..255 characters, the size must be 0..%d",
				v.GetName(), v.GetBytes(), int64(cluster.MaxAmount))
		}
		all = append(all, cluster.HeldVolume{Name: v.GetName(), Bytes: v.GetBytes()})
	}
	slices.SortFunc(all, func(a, b cluster.HeldVolume) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			return nil, fmt.Errorf("serve: volume %q is there twice", all[i].Name)
		}
	}
	return all, nil
}

// amountsFrom converts amounts of a host, all within bounds. Ports are told by their ranges.
func amountsFrom(p *sluicev1.ResourceVector) (cluster.Resources, error) {
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.GetCpuMilli()
	fixed[cluster.Memory] = p.GetMemoryBytes()
	fixed[cluster.Disk] = p.GetDiskBytes()
	fixed[cluster.GPU] = p.GetGpuMilli()
	fixed[cluster.Network] = p.GetNetworkBytesPerSecond()
	for d, v := range fixed {
		if v < 0 || v > cluster.MaxAmount {
			return cluster.Resources{}, fmt.Errorf("serve: %v is %d, it must be 0..%d", cluster.Dimension(d), v, int64(cluster.MaxAmount))
		}
	}
	var named []cluster.Amount
	for _, name := range slices.Sorted(maps.Keys(p.GetNamed())) {
		v := p.GetNamed()[name]
		switch wrong := resourceNameWrong(name); {
		case wrong != "":
			return cluster.Resources{}, fmt.Errorf("serve: named resource %s %s", quote(name), wrong)
		case v < 0 || v > cluster.MaxAmount:
			return cluster.Resources{}, fmt.Errorf("serve: resource %q is %d, it must be 0..%d", name, v, int64(cluster.MaxAmount))
		}
		named = append(named, cluster.Amount{Name: name, Value: v})
	}
	return cluster.NewResources(fixed, named...), nil
}

// portRangesFrom sorts the ranges and joins those that follow each other.
func portRangesFrom(list []*sluicev1.PortRange) ([]cluster.PortRange, error) {
	var ranges []cluster.PortRange
	sorted := slices.SortedFunc(slices.Values(list), func(a, b *sluicev1.PortRange) int { return cmp.Compare(a.GetFirst(), b.GetFirst()) })
	for _, r := range sorted {
		if r.GetFirst() == 0 || r.GetFirst() > r.GetLast() || r.GetLast() > math.MaxUint16 {
			return nil, fmt.Errorf("serve: port range %d to %d is not within 1..65535", r.GetFirst(), r.GetLast())
		}
		next := cluster.PortRange{First: uint16(r.First), Last: uint16(r.Last)}
		last := len(ranges) - 1
		switch {
		case last >= 0 && next.First <= ranges[last].Last:
			return nil, fmt.Errorf("serve: port ranges overlap at %d", next.First)
		case last >= 0 && next.First == ranges[last].Last+1:
			ranges[last].Last = next.Last
		default:
			ranges = append(ranges, next)
		}
	}
	return ranges, nil
}

// maxDevices bounds the GPU devices of one host.
const maxDevices = 1024
