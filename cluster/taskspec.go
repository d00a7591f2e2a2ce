package cluster

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// TaskSpec is what an instance of a job runs: processes that are placed, started and stopped together on one host.
type TaskSpec struct {
	Resources Resources   // of the whole task; the sum where its processes state their own
	GPU       GPURequest  // its amount is in Resources
	Ports     PortRequest // of the host

	Init      []Process  `cbor:",omitempty"` // run one after the other before Processes; each has to exit with 0
	Processes []Process  `cbor:",omitempty"` // started together; at least one
	Labels    []KeyValue `cbor:",omitempty"` // beside those of the job, over which they win; keys are unique
	Volumes   []Volume   `cbor:",omitempty"`

	KillGrace     time.Duration // between the request to end and the forced end
	Secrets       bool          `cbor:",omitempty"` // the secrets of its job are delivered to it
	LogLimitBytes int64         // of each output stream of the run; 0: the host manager's default
}

// Process is one process or container of a task.
type Process struct {
	Name      string        `cbor:",omitempty"` // unique in the task; may be "" where there is one process only
	Command   []string      `cbor:",omitempty"` // argv; Command[0] is looked up in PATH of the process's environment
	Shell     string        `cbor:",omitempty"` // a line for /bin/sh -c, in the place of Command
	Env       []KeyValue    `cbor:",omitempty"` // keys are unique; values may refer to ${SLUICE_...}
	WorkDir   string        `cbor:",omitempty"` // absolute, or inside the run's own folder, which "" is
	User      string        `cbor:",omitempty"` // to run as; "": the host manager's own
	Container *Container    `cbor:",omitempty"` // nil: a plain process
	Request   *Request      `cbor:",omitempty"` // what it asks for by itself; nil where the task asks for all its processes
	Fetch     []Fetch       `cbor:",omitempty"` // into the run's own folder, before the start
	Checks    []HealthCheck `cbor:",omitempty"`
	Main      bool          `cbor:",omitempty"` // its end is the task's; where no process is main, the task ends when all have ended
}

// Argv returns the program and its arguments, also for a shell line.
func (p *Process) Argv() []string {
	if p.Shell != "" {
		return []string{"/bin/sh", "-c", p.Shell}
	}
	return p.Command
}

// Request is what a task, or one process of it, asks of a host.
type Request struct {
	Resources Resources
	GPU       GPURequest
	Ports     PortRequest
}

// IsZero reports whether nothing is asked for.
func (r *Request) IsZero() bool { return r.Resources.IsZero() && r.GPU.IsZero() && r.Ports.IsZero() }

// Equal reports whether r and o ask for the same.
func (r *Request) Equal(o *Request) bool {
	return r.Resources.Equal(o.Resources) && r.GPU.equal(&o.GPU) && r.Ports.equal(&o.Ports)
}

// Request returns what the whole task asks for.
func (s *TaskSpec) Request() Request { return Request{s.Resources, s.GPU, s.Ports} }

// ContainerRuntime says what runs containers.
type ContainerRuntime uint8

// The container runtimes.
const (
	DefaultRuntime ContainerRuntime = iota // the host manager's
	MesosRuntime
	DockerRuntime
)

// Container is an image in which a process runs.
type Container struct {
	Runtime    ContainerRuntime
	Image      string
	ImageBytes int64      // 0: not known
	ForcePull  bool       // even if the host has the image
	Parameters []KeyValue `cbor:",omitempty"` // as the runtime names them; sorted
}

// Fetch is a file that is brought into the run's own folder before a process starts.
type Fetch struct {
	URI        string
	Path       string // in that folder; "": the last part of the URI
	Executable bool
	Extract    bool // an archive, which is unpacked beside it
}

// Target returns where the file goes in the run's own folder.
func (f *Fetch) Target() string {
	if f.Path != "" {
		return f.Path
	}
	uri, _, _ := strings.Cut(f.URI, "?")
	return uri[strings.LastIndexByte(uri, '/')+1:]
}

// Volume makes storage visible to the processes of a task. Exactly one of Name, HostPath and ScratchBytes is set.
type Volume struct {
	Name         string `cbor:",omitempty"` // a persistent volume; "{instance}" in it stands for the instance number
	HostPath     string `cbor:",omitempty"` // a folder of the host
	ScratchBytes int64  `cbor:",omitempty"` // an empty folder that lives as long as the run, and the most it may hold
	MountPath    string // where processes find it: absolute, or inside the run's own folder
	ReadOnly     bool   `cbor:",omitempty"`
}

// InstanceMark in the name of a volume stands for the instance number.
const InstanceMark = "{instance}"

// NameFor returns the name of the persistent volume that an instance uses.
func (v *Volume) NameFor(instance uint32) string {
	return strings.ReplaceAll(v.Name, InstanceMark, strconv.FormatUint(uint64(instance), 10))
}

// HealthEffect says what the result of a check decides.
type HealthEffect uint8

// The effects of checks.
const (
	LivenessAndReadiness HealthEffect = iota
	Liveness                          // a run that is not alive has failed
	Readiness                         // a task that is not ready is not offered to others
)

// HealthCheck tells whether a running process is fit to serve. Exactly one of Command, HTTP and TCP is set.
type HealthCheck struct {
	Command   []string   `cbor:",omitempty"` // argv; healthy when it exits with 0
	HTTP      *HTTPCheck `cbor:",omitempty"`
	TCP       *PortRef   `cbor:",omitempty"` // healthy when a connection is accepted
	Effect    HealthEffect
	Delay     time.Duration // from the start to the first check
	Interval  time.Duration // between the end of a check and the next; above 0
	Timeout   time.Duration // a check that takes longer has failed; above 0
	Failures  uint32        // in a row that make it unhealthy; at least 1
	Successes uint32        // in a row that make it healthy again; at least 1
}

// HTTPCheck is healthy when a GET is answered with a status from 200 to 399.
type HTTPCheck struct {
	Port    PortRef
	Path    string     // "" is "/"
	Scheme  string     // "http" or "https", of which no certificate is verified; "" is "http"
	Headers []KeyValue `cbor:",omitempty"` // sorted
}

// InstanceOverride replaces parts of the default task for some instances.
type InstanceOverride struct {
	First, Last uint32     // both included
	Task        *TaskSpec  `cbor:",omitempty"` // what is set in it replaces the same of the default as a whole; KillGrace does not
	Env         []KeyValue `cbor:",omitempty"` // added to every process, over whose own it wins; sorted
}

// TaskOf returns what an instance runs: the default, with the overrides that cover the instance applied in their order.
// The result is immutable, and the same one for all instances where there are no overrides. Complexity: overrides.
func (s *JobSpec) TaskOf(instance uint32) *TaskSpec {
	task := &s.Task
	for i := range s.Overrides {
		if o := &s.Overrides[i]; o.First <= instance && instance <= o.Last {
			task = o.apply(task)
		}
	}
	return task
}

func (o *InstanceOverride) apply(task *TaskSpec) *TaskSpec {
	merged := *task
	if t := o.Task; t != nil {
		if r := t.Request(); !r.IsZero() {
			merged.Resources, merged.GPU, merged.Ports = t.Resources, t.GPU, t.Ports
		}
		replace(&merged.Init, t.Init)
		replace(&merged.Processes, t.Processes)
		replace(&merged.Labels, t.Labels)
		replace(&merged.Volumes, t.Volumes)
		if t.LogLimitBytes != 0 {
			merged.LogLimitBytes = t.LogLimitBytes
		}
	}
	if len(o.Env) > 0 {
		merged.Init = withEnv(merged.Init, o.Env)
		merged.Processes = withEnv(merged.Processes, o.Env)
	}
	return &merged
}

func replace[T any](old *[]T, list []T) {
	if len(list) > 0 {
		*old = list
	}
}

func withEnv(processes []Process, env []KeyValue) []Process {
	processes = slices.Clone(processes)
	for i := range processes {
		processes[i].Env = MergePairs(processes[i].Env, env)
	}
	return processes
}

// LabelsOf returns the labels of an instance's task: the job's, over which its own win. Sorted by key, keys are unique.
func (s *JobSpec) LabelsOf(instance uint32) []KeyValue {
	return MergePairs(s.Labels, s.TaskOf(instance).Labels)
}

// MergePairs joins two lists of unique keys, which are sorted; where both have a key, the second wins. The result may
// be one of them.
func MergePairs(a, b []KeyValue) []KeyValue {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	merged := make([]KeyValue, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].Key, b[0].Key); {
		case c < 0:
			merged, a = append(merged, a[0]), a[1:]
		case c > 0:
			merged, b = append(merged, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return append(append(merged, a...), b...)
}
