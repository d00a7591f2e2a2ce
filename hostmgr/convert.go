package hostmgr

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What goes up is kept so small that no peer refuses a message for its size.
const (
	maxPart    = 1 << 20 // bytes of the entries in one part of a list
	maxMessage = 1024    // bytes of a status's message
)

var runStates = map[cluster.TaskState]sluicev1.RunState{
	cluster.TaskLaunching: sluicev1.RunState_RUN_STATE_LAUNCHING,
	cluster.TaskStarting:  sluicev1.RunState_RUN_STATE_STARTING,
	cluster.TaskRunning:   sluicev1.RunState_RUN_STATE_RUNNING,
	cluster.TaskSucceeded: sluicev1.RunState_RUN_STATE_SUCCEEDED,
	cluster.TaskFailed:    sluicev1.RunState_RUN_STATE_FAILED,
	cluster.TaskKilled:    sluicev1.RunState_RUN_STATE_KILLED,
	cluster.TaskLost:      sluicev1.RunState_RUN_STATE_LOST,
}

func runTo(r cluster.RunID) *sluicev1.RunRef {
	return &sluicev1.RunRef{JobUid: uint32(r.Task.Job()), Instance: r.Task.Instance(), Run: r.Run}
}

func runFrom(r *sluicev1.RunRef) (cluster.RunID, error) {
	if r.GetJobUid() == 0 || r.GetRun() == 0 {
		return cluster.RunID{}, fmt.Errorf("hostmgr: a command names no run: %v", r)
	}
	return cluster.RunID{Task: cluster.MakeTaskKey(cluster.JobUID(r.GetJobUid()), r.GetInstance()), Run: r.GetRun()}, nil
}

func statusTo(updateID uint64, s Status) *sluicev1.RunStatus {
	p := &sluicev1.RunStatus{
		UpdateId:   updateID,
		Run:        runTo(s.Run),
		State:      runStates[s.State],
		Host:       text(s.Host),
		Reason:     text(string(s.Reason)),
		Message:    text(s.Message),
		TimeUnixNs: int64(s.At),
	}
	if s.State.Terminal() {
		p.Result = &sluicev1.RunResult{Signal: s.Signal}
		if s.ExitCode >= 0 {
			p.Result.ExitCode = &s.ExitCode
		}
	}
	return p
}

// text makes a string fit for a message: protobuf refuses what is not UTF-8, and what a task made fail may be anything.
func text(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

func hostTo(h Host) *sluicev1.HostInfo {
	p := &sluicev1.HostInfo{
		Name: text(h.Name), Rack: text(h.Rack), Zone: text(h.Zone),
		Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{
			CpuMilli:    h.Capacity.Fixed[cluster.CPU],
			MemoryBytes: h.Capacity.Fixed[cluster.Memory],
			DiskBytes:   h.Capacity.Fixed[cluster.Disk],
			GpuMilli:    h.Capacity.Fixed[cluster.GPU],
		}},
	}
	for _, a := range h.Attributes {
		p.Attributes = append(p.Attributes, &sluicev1.Attribute{Key: text(a.Key), Value: text(a.Value)})
	}
	for _, g := range h.GPUs {
		p.Capacity.Gpus = append(p.Capacity.Gpus, &sluicev1.GpuDevice{Model: text(g.Model)})
	}
	for _, n := range h.Notes {
		p.Notes = append(p.Notes, text(n))
	}
	if len(h.Capacity.Named) > 0 {
		p.Capacity.Total.Named = map[string]int64{}
		for _, a := range h.Capacity.Named {
			p.Capacity.Total.Named[text(a.Name)] = a.Value
		}
	}
	return p
}

func hostReports(hosts []Host) []*sluicev1.ShardUp {
	infos := make([]*sluicev1.HostInfo, len(hosts))
	for i, h := range hosts {
		infos[i] = hostTo(h)
	}
	var out []*sluicev1.ShardUp
	for part, last := range parts(infos) {
		report := &sluicev1.HostReport{Full: true, Last: last, Hosts: part}
		out = append(out, &sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: report}})
	}
	return out
}

func inventories(statuses []Status) []*sluicev1.ShardUp {
	runs := make([]*sluicev1.RunStatus, len(statuses))
	for i, s := range statuses {
		runs[i] = statusTo(0, s)
	}
	var out []*sluicev1.ShardUp
	for part, last := range parts(runs) {
		inventory := &sluicev1.Inventory{Last: last, Runs: part}
		out = append(out, &sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: inventory}})
	}
	return out
}

// parts cuts a list into parts of about maxPart bytes at most, and says which is the last. There is at least one.
func parts[M proto.Message](list []M) iter.Seq2[[]M, bool] {
	return func(yield func([]M, bool) bool) {
		size, begin := 0, 0
		for i, m := range list {
			n := proto.Size(m)
			if size += n; size > maxPart && i > begin {
				if !yield(list[begin:i], false) {
					return
				}
				size, begin = n, i
			}
		}
		yield(list[begin:], true)
	}
}

// launchFrom converts a launch. What this version of the shard cannot do is an error that names it: nothing is left out
// silently.
func launchFrom(p *sluicev1.Launch) (Launch, error) {
	run, err := runFrom(p.GetRun())
	if err != nil {
		return Launch{}, err
	}
	l := Launch{Run: run, Job: cluster.JobID(p.GetRun().GetJob()), Host: p.GetHost()}
	payload := p.GetTask()
	if err := supported(payload); err != nil {
		return l, err
	}
	process := payload.GetSpec().GetProcesses()[0]
	if l.Command, err = commandFrom(process); err != nil {
		return l, err
	}
	l.Resources = resourcesFrom(payload.GetResources())
	for _, d := range payload.GetGpuDevices() {
		if d > math.MaxUint16 {
			return l, fmt.Errorf("hostmgr: there is no GPU device %d", d)
		}
		l.GPUs = append(l.GPUs, uint16(d))
	}
	l.Env = envFrom(payload.GetEnvironment(), process.GetEnvironment())
	l.WorkDir = process.GetWorkingDirectory()
	l.LogLimitBytes = payload.GetSpec().GetLogLimitBytes()
	return l, nil
}

// supported joins all that a payload asks for and that there is no way to do.
func supported(p *sluicev1.TaskPayload) error {
	var problems []error
	refuse := func(there bool, what string) {
		if there {
			problems = append(problems, fmt.Errorf("hostmgr: this host manager does not support %s", what))
		}
	}
	spec := p.GetSpec()
	refuse(len(spec.GetInit()) > 0, "init steps")
	refuse(len(spec.GetVolumes()) > 0, "volumes")
	refuse(len(p.GetPorts()) > 0 || p.GetResources().GetPorts() != nil, "ports")
	refuse(p.GetResources().GetNetworkBytesPerSecond() > 0, "network bandwidth")
	refuse(len(p.GetSecrets()) > 0, "secrets")
	refuse(p.GetService(), "services")
	refuse(p.GetMaxRunTimeNs() > 0, "a run-time limit")
	refuse(p.GetProgressInterval() != nil, "progress reports")
	if n := len(spec.GetProcesses()); n != 1 {
		return errors.Join(append(problems, fmt.Errorf("hostmgr: a task of %d processes, this host manager runs one", n))...)
	}
	process := spec.GetProcesses()[0]
	refuse(process.GetContainer() != nil, "containers")
	refuse(process.GetUser() != "", "running as another user")
	refuse(len(process.GetFetch()) > 0, "fetching files")
	refuse(len(process.GetHealthChecks()) > 0, "health checks")
	return errors.Join(problems...)
}

func commandFrom(p *sluicev1.ProcessSpec) ([]string, error) {
	switch c := p.GetCommand().(type) {
	case *sluicev1.ProcessSpec_Argv:
		if len(c.Argv.GetArgs()) > 0 {
			return c.Argv.GetArgs(), nil
		}
	case *sluicev1.ProcessSpec_Shell:
		return []string{"/bin/sh", "-c", c.Shell}, nil
	}
	return nil, errors.New("hostmgr: a launch without a command")
}

func resourcesFrom(p *sluicev1.ResourceRequest) cluster.Resources {
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.GetCpuMilli()
	fixed[cluster.Memory] = p.GetMemoryBytes()
	fixed[cluster.Disk] = p.GetDiskBytes()
	fixed[cluster.GPU] = 1000*p.GetGpu().GetCount() + p.GetGpu().GetMilli()
	var named []cluster.Amount
	for name, v := range p.GetNamed() {
		named = append(named, cluster.Amount{Name: name, Value: v})
	}
	return cluster.NewResources(fixed, named...) // which sorts
}

// envFrom merges environments; later ones win. The result is sorted.
func envFrom(layers ...map[string]string) []cluster.KeyValue {
	merged := map[string]string{}
	for _, layer := range layers {
		for k, v := range layer {
			merged[k] = v
		}
	}
	env := make([]cluster.KeyValue, 0, len(merged))
	for k, v := range merged {
		env = append(env, cluster.KeyValue{Key: k, Value: v})
	}
	slices.SortFunc(env, func(a, b cluster.KeyValue) int { return strings.Compare(a.Key, b.Key) })
	return env
}
