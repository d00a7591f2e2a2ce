package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// staleGrace is how long a run that nobody waits for has to end by itself.
const staleGrace = 5 * time.Second

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
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Launch{Launch: &sluicev1.Launch{
		Run:  runRef(t.RunID(), j.Spec.Name),
		Host: t.Host.Name(),
		Task: &sluicev1.TaskPayload{
			Spec:      taskSpecTo(&j.Spec.Task),
			Resources: resourcesTo(&j.Spec.Task),
			KillGrace: durationpb.New(j.Spec.Task.KillGrace),
			Owner:     j.Spec.Owner,

			GpuDevices: devicesTo(t.GPUs),
		},
	}}}
}

// runRef names a run; the job's name is for people only.
func runRef(run cluster.RunID, job cluster.JobID) *sluicev1.RunRef {
	return &sluicev1.RunRef{
		JobUid: uint32(run.Task.Job()), Instance: run.Task.Instance(), Run: run.Run, Job: string(job),
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
}

// maxMessage bounds the text that a host manager may add to a status.
const maxMessage = 1024

func statusFrom(st *sluicev1.RunStatus) (*cluster.TaskStatus, error) {
	state, ok := runStates[st.GetState()]
	run := runFrom(st.GetRun())
	switch {
	case !ok:
		return nil, fmt.Errorf("serve: run %v has the state %v, which this release does not handle", run, st.GetState())
	case run.Run == 0 || run.Task.Job() == 0:
		return nil, fmt.Errorf("serve: a status names no run: %v", run)
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
	return e, nil
}

func machineFrom(h *sluicev1.HostInfo) (cluster.Machine, error) {
	total := h.GetCapacity().GetTotal()
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = total.GetCpuMilli()
	fixed[cluster.Memory] = total.GetMemoryBytes()
	fixed[cluster.Disk] = total.GetDiskBytes()
	fixed[cluster.GPU] = total.GetGpuMilli()
	m := cluster.Machine{Rack: h.GetRack(), Zone: h.GetZone(), Notes: h.GetNotes()}
	for d, v := range fixed {
		if v < 0 || v > cluster.MaxAmount {
			return m, fmt.Errorf("serve: %v is %d, it must be 0..%d", cluster.Dimension(d), v, int64(cluster.MaxAmount))
		}
	}
	var named []cluster.Amount
	for _, name := range sortedKeys(total.GetNamed()) {
		v := total.GetNamed()[name]
		if v < 0 || v > cluster.MaxAmount {
			return m, fmt.Errorf("serve: resource %q is %d, it must be 0..%d", name, v, int64(cluster.MaxAmount))
		}
		named = append(named, cluster.Amount{Name: name, Value: v})
	}
	if name := h.GetName(); name == "" || len(name) > 255 || strings.Contains(name, "/") {
		return m, fmt.Errorf("serve: the name must have 1..255 characters and no slash")
	}
	for _, g := range h.GetCapacity().GetGpus() {
		m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: g.GetModel()})
	}
	for int64(len(m.GPUs)) < min(fixed[cluster.GPU]/cluster.WholeGPU, maxDevices) { // a sum without a list: devices of no known model
		m.GPUs = append(m.GPUs, cluster.GPUDevice{})
	}
	if len(m.GPUs) > maxDevices {
		return m, fmt.Errorf("serve: it has %d GPU devices, at most %d are handled", len(m.GPUs), maxDevices)
	}
	fixed[cluster.GPU] = int64(len(m.GPUs)) * cluster.WholeGPU
	m.Capacity = cluster.NewResources(fixed, named...)
	for _, a := range h.GetAttributes() {
		m.Attributes = append(m.Attributes, cluster.KeyValue{Key: a.GetKey(), Value: a.GetValue()})
	}
	slices.SortFunc(m.Attributes, cluster.KeyValue.Compare)
	return m, nil
}

// maxDevices bounds the GPU devices of one host.
const maxDevices = 1024

func devicesTo(devices []uint16) []uint32 {
	var out []uint32
	for _, d := range devices {
		out = append(out, uint32(d))
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
