// Package hostmgr defines the contract between the scheduler and what runs tasks.
//
//   - A [Driver] owns the hosts of one resource provider: this machine (local), one Mesos cluster (mesos), or a simulated
//     fleet (fleet). Its promise is that a run starts at most once, whatever crashes and whatever is repeated.
//   - A [Sink] takes what the driver reports: hosts, and the status, health and usage of runs.
//   - A [Shard] connects one driver to the scheduler, for ever: it passes the reports on and carries out the commands.
//
// The other interfaces here are optional: a driver implements those that its provider needs. The conformance suite in
// drivertest holds every driver to this contract.
package hostmgr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Errors that drivers wrap.
var (
	// ErrUnknownHost: a launch names a host that the driver does not have (any more).
	ErrUnknownHost = errors.New("hostmgr: no such host")
	// ErrUnknownRun: the driver has never seen the run, or has released it.
	ErrUnknownRun = errors.New("hostmgr: no such run")
	// ErrRefused: the provider has no room for the run any more, or no means to start it. It was not recorded, and may be placed
	// again at once.
	ErrRefused = errors.New("hostmgr: the launch is given back")
	// ErrUnknownProcess: the run has no process of that name.
	ErrUnknownProcess = errors.New("hostmgr: no such process")
	// ErrConflict: a run was launched before with another payload.
	ErrConflict = errors.New("hostmgr: the run was launched before with another payload")
)

// Host is a host as its driver reports it. Name is unique within the driver. Capabilities are those of the driver that the host has; 0: all
// of them.
type Host struct {
	Name string
	cluster.Machine
}

// Launch is all that a driver needs to start one run. It is immutable.
type Launch struct {
	Run   cluster.RunID
	Job   cluster.JobID
	Owner string             // of the job, for people
	Host  string             // the driver's name of the host
	Task  cluster.TaskSpec   // of this instance, with its overrides applied and the labels of the job added
	Env   []cluster.KeyValue // of every process, beside the driver's base environment and the SLUICE_* variables; a process's own wins

	GPUs    []uint16     // indices into the host's Machine.GPUs that the run gets
	Ports   []uint16     // that the run gets, in the order of Task.Ports
	Secrets []SecretFile // never logged

	// Told is what only the scheduler knows: variables of every process beside those that the driver gives it. They may be
	// others when a launch is repeated, and are no part of its Fingerprint; what the run was first told holds.
	Told []cluster.KeyValue `json:",omitempty"`

	// MaxRunTime is after how long from RUNNING the scheduler ends the run, with its grace; 0: never. A driver whose provider
	// can do the same may have it do so some time later, for the case that the scheduler is away then.
	MaxRunTime time.Duration `json:",omitempty"` // as fingerprints were made before it was here
	// PreemptionGrace is that of a Kill for another's sake; 0: Task.KillGrace. A driver needs it only if its provider does not take the
	// grace of the Kill.
	PreemptionGrace time.Duration `json:",omitempty"`
	// Progress is how often a driver that can do so reads how far the run says it is; 0: it does not say.
	Progress time.Duration `json:",omitempty"`
	// Revocable says that the run is for what the host has in [cluster.Machine.Revocable], where it has that.
	Revocable bool `json:",omitempty"`
}

// ProcessName returns the name of the process that is meant by a name in a LogRequest: "" is the main process, or the
// first where none is marked.
func (l *Launch) ProcessName(name string) (string, error) {
	processes := l.Task.Processes
	if name == "" {
		for i := range processes {
			if processes[i].Main {
				return processes[i].Name, nil
			}
		}
		return processes[0].Name, nil
	}
	var names []string
	for _, p := range slices.Concat(processes, l.Task.Init) {
		if p.Name == name {
			return name, nil
		}
		if p.Name != "" {
			names = append(names, fmt.Sprintf("%q", p.Name))
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%w: the only one of run %v has no name, so none is named %q", ErrUnknownProcess, l.Run, name)
	}
	return "", fmt.Errorf("%w: run %v has %s, and none named %q", ErrUnknownProcess, l.Run, strings.Join(names, ", "), name)
}

// SecretFile is a secret as a task sees it: a file that only it can read.
type SecretFile struct {
	Path  string
	Value []byte `json:"-" cbor:"-"` // in no record: it is on its way to the task, and nowhere else
}

// LogValue implements slog.LogValuer: the value of a secret is nobody's business.
func (s SecretFile) LogValue() slog.Value { return slog.StringValue(s.Path) }

// String implements fmt.Stringer, for the same reason.
func (s SecretFile) String() string { return s.Path }

// GoString implements fmt.GoStringer, for the same reason.
func (s SecretFile) GoString() string { return s.Path }

// Status is what a driver knows of a run. States that drivers report: LAUNCHING (the launch is recorded and survives a
// crash of the driver), STARTING, RUNNING, and the terminal ones. A terminal status is final.
type Status struct {
	Run      cluster.RunID
	Host     string // "" where damage has made the driver forget it
	State    cluster.TaskState
	ExitCode int32 // −1 where there is none
	Signal   int32 // 0 where there is none
	Reason   cluster.Reason
	Message  string
	At       cluster.Time
}

// Usage is what a run uses, as measured.
type Usage struct {
	Run cluster.RunID
	// Used is its CPU and network, averaged since the last report, and its memory and disk now. What the driver cannot
	// measure is 0.
	Used cluster.Resources
	// Progress is how far the run says it is, from 0 to 1; nil where it has not said.
	Progress *float64
}

// Health is what the checks of a run say, as a driver found out.
type Health struct {
	Run     cluster.RunID
	Health  cluster.Health
	Message string // what the last check that changed it said, "" where all is well
	At      cluster.Time
}

// Sink takes a driver's reports. Its methods do not block for long and may be called from any goroutine; reports of
// one run come in order.
type Sink interface {
	// ReportHosts replaces the whole list of hosts.
	ReportHosts(hosts []Host)
	// ReportStatus tells a change of a run's state. The driver keeps a terminal status in its inventory until Release.
	ReportStatus(s Status)
	// ReportHealth tells a change of the health of a run that runs.
	ReportHealth(h Health)
	// ReportUsage replaces the usage of the runs named; it may be dropped under pressure.
	ReportUsage(usage []Usage)
}

// Driver runs tasks on one resource provider. All methods are safe for concurrent use.
//
// The promise that everything else rests on: a RunID starts at most once, whatever crashes and whatever is repeated.
// If a driver cannot tell whether a recorded run was started, it must not start it (again) and reports it LOST.
type Driver interface {
	// Start recovers what earlier incarnations left, adopts what still runs, begins to report to sink, and returns when
	// the first ReportHosts has been made and Inventory is complete. Call it once, before anything else.
	Start(ctx context.Context, sink Sink) error
	// Launch records a run durably and starts it, soon but not necessarily before returning. Launching a known run
	// again changes nothing and returns nil. An error means that the run will never start, not now and not later.
	Launch(ctx context.Context, l Launch) error
	// Kill asks a run to end: SIGTERM to all its processes, and SIGKILL after grace. It returns at once; the end is
	// reported as a status. A run that was recorded but not started ends as KILLED without starting. Repeating a Kill
	// with a shorter grace shortens it. Killing a run that has ended changes nothing.
	Kill(ctx context.Context, run cluster.RunID, grace time.Duration) error
	// Inventory lists every run that the driver knows, ended ones too until they are released, sorted by run.
	Inventory() []Status
	// Release tells that the terminal status of a run is durable with the scheduler: the driver may forget the run and
	// remove its files when its retention says so. Releasing an unknown run changes nothing.
	Release(run cluster.RunID)
	// OpenLog returns the output of a run from the given byte offset on. With follow it ends when the run has ended
	// and all has been read, else at the present end. Where output may be lost to rotation, the result is an Offsetter.
	OpenLog(ctx context.Context, req LogRequest) (io.ReadCloser, error)
	// Close stops reporting and releases resources. Tasks keep running if the provider can keep them.
	Close() error
}

// Acknowledger is a driver whose provider repeats a status until it is told that somebody has made it durable, or that begins a run
// that an earlier incarnation recorded only when the scheduler is known to want it yet: LAUNCHING of another one is not acknowledged.
type Acknowledger interface {
	// Durable tells that the status was reported and is durable with the scheduler. Where a run's reports overtook each
	// other it is told of the latest only. It does not block for long.
	Durable(s Status)
}

// Wide is a driver of which more commands may be carried out side by side than of others, since they wait and do not work.
type Wide interface {
	// Width returns how many. It does not change.
	Width() int
}

// Ender is a driver that may come to an end which trying again does not change, as when its provider has removed it.
type Ender interface {
	// Ended receives the reason, once.
	Ended() <-chan error
}

// VolumeKeeper is a driver whose hosts keep persistent volumes, which it reports as a part of each [Host].
type VolumeKeeper interface {
	// DeleteVolume destroys a volume with its data, and frees its room. It returns when that is done for good; the next
	// report of the host is without it. Deleting one that the host does not have changes nothing. One that a run uses is not
	// deleted, and none of a host that the driver does not have.
	DeleteVolume(ctx context.Context, host, name string) error
}

// Capable is a driver that can do more than run one plain process in a task. What a driver does not list here never
// reaches it.
type Capable interface {
	// Capabilities is the same at all times.
	Capabilities() cluster.Capabilities
}

// capabilitiesOf returns what a driver says that it can do.
func capabilitiesOf(d Driver) cluster.Capabilities {
	if c, ok := d.(Capable); ok {
		return c.Capabilities()
	}
	return 0
}

// Warner is a driver that can run a command beside a run before it asks it to end.
type Warner interface {
	// KillAfter is Kill with a command, which is run as the task's main process is, with SLUICE_STOP_REASON in its
	// environment beside. The grace begins with it; the run is asked to end when the command has, and forced to when the
	// grace is over, whatever the command does. A run that has been asked already, or has not begun, does without.
	KillAfter(ctx context.Context, run cluster.RunID, grace time.Duration, command []string, reason string) error
}

// Offsetter tells where in a log a reader is.
type Offsetter interface {
	// Offset returns the offset of the byte after the last one read. It grows by more than was read where rotation
	// dropped what came between.
	Offset() int64
}

// LogStream selects one of a run's outputs.
type LogStream uint8

// The streams.
const (
	Stdout LogStream = iota
	Stderr
)

// LogRequest selects a part of a run's output.
type LogRequest struct {
	Run     cluster.RunID
	Process string // by name, init steps too; "": the main process, or the first
	Stream  LogStream
	Offset  int64 // bytes from the beginning; where rotation dropped them, reading begins at what is left
	Follow  bool
}
