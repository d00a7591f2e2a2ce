package hostmgr

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

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
	return &sluicev1.RunRef{JobUid: uint32(r.Task.Job()), Instance: r.Task.Number(), Run: r.Run}
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

// hostTo converts a host of a driver that can do so much.
func hostTo(h Host, can cluster.Capabilities) *sluicev1.HostInfo {
	p := &sluicev1.HostInfo{
		Name: text(h.Name), Rack: text(h.Rack), Zone: text(h.Zone), Address: text(h.Address),
		Capacity: &sluicev1.Capacity{Total: vectorTo(h.Capacity.Add(h.Revocable))},
	}
	p.Capacity.Total.Ports = int64(cluster.CountPorts(h.Ports))
	if !h.Revocable.IsZero() {
		p.Capacity.Revocable = vectorTo(h.Revocable)
	}
	for _, a := range h.Attributes {
		p.Attributes = append(p.Attributes, &sluicev1.Attribute{Key: text(a.Key), Value: text(a.Value)})
	}
	for _, g := range h.GPUs {
		p.Capacity.Gpus = append(p.Capacity.Gpus, &sluicev1.GpuDevice{Model: text(g.Model)})
	}
	for _, r := range h.Ports {
		p.Capacity.PortRanges = append(p.Capacity.PortRanges, &sluicev1.PortRange{First: uint32(r.First), Last: uint32(r.Last)})
	}
	for _, n := range h.Notes {
		p.Notes = append(p.Notes, text(n))
	}
	if h.Capabilities != 0 {
		p.Lacks = (can &^ h.Capabilities).Names()
	}
	for _, v := range h.Volumes {
		p.Volumes = append(p.Volumes, &sluicev1.VolumeInfo{Name: text(v.Name), Bytes: v.Bytes, Present: true})
	}
	return p
}

func vectorTo(r cluster.Resources) *sluicev1.ResourceVector {
	p := &sluicev1.ResourceVector{
		CpuMilli:    r.Fixed[cluster.CPU],
		MemoryBytes: r.Fixed[cluster.Memory],
		DiskBytes:   r.Fixed[cluster.Disk],
		GpuMilli:    r.Fixed[cluster.GPU],

		NetworkBytesPerSecond: r.Fixed[cluster.Network],
	}
	if len(r.Named) > 0 {
		p.Named = map[string]int64{}
		for _, a := range r.Named {
			p.Named[text(a.Name)] = a.Value
		}
	}
	return p
}

func hostReports(hosts []Host, can cluster.Capabilities) []*sluicev1.ShardUp {
	infos := make([]*sluicev1.HostInfo, len(hosts))
	for i, h := range hosts {
		infos[i] = hostTo(h, can)
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

// launchFrom converts a launch. What the driver or this version of the shard cannot do is an error that names it:
// nothing is left out silently.
func launchFrom(p *sluicev1.Launch, can cluster.Capabilities) (Launch, error) {
	run, err := runFrom(p.GetRun())
	if err != nil {
		return Launch{}, err
	}
	payload := p.GetTask()
	l := Launch{Run: run, Job: cluster.JobID(p.GetRun().GetJob()), Owner: payload.GetOwner(), Host: p.GetHost()}
	if l.Task, err = taskFrom(payload); err != nil {
		return l, err
	}
	if l.Ports, err = portsFrom(payload.GetPorts()); err != nil {
		return l, err
	}
	for _, d := range payload.GetGpuDevices() {
		if d > math.MaxUint16 {
			return l, fmt.Errorf("hostmgr: there is no GPU device %d", d)
		}
		l.GPUs = append(l.GPUs, uint16(d))
	}
	for _, s := range payload.GetSecrets() {
		l.Secrets = append(l.Secrets, SecretFile{Path: s.GetPath(), Value: s.GetValue()})
	}
	l.Env, l.Told = envFrom(payload.GetEnvironment()), envFrom(payload.GetVariables())
	l.Progress = max(0, payload.GetProgressInterval().AsDuration())
	l.PreemptionGrace = max(0, payload.GetPreemptionGrace().AsDuration())
	l.MaxRunTime, l.Revocable = time.Duration(max(0, payload.GetMaxRunTimeNs())), payload.GetRevocable()
	return l, l.refuse(payload, can)
}

// refuse joins all that a launch asks for and that there is no way to do.
func (l *Launch) refuse(p *sluicev1.TaskPayload, can cluster.Capabilities) error {
	var problems []error
	refuse := func(there bool, what string) {
		if there {
			problems = append(problems, fmt.Errorf("hostmgr: this host manager does not support %s", what))
		}
	}
	needs := l.Task.Needs()
	if len(l.Secrets) > 0 {
		needs |= cluster.CanSecrets
	}
	for _, name := range (needs &^ can).Names() {
		refuse(true, name)
	}
	refuse(p.GetService(), "services")
	if want := l.Task.Ports.Count(); len(l.Ports) != want {
		problems = append(problems, fmt.Errorf("hostmgr: the task asks for %d ports and the scheduler chose %d", want, len(l.Ports)))
	}
	return errors.Join(problems...)
}
