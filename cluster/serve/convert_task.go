package serve

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Bounds of a task.
const (
	maxProcesses = 32
	maxChecks    = 16
	maxFetch     = 256
	maxVolumes   = 64
	maxOverrides = 1000
	maxCovering  = 32        // overrides of one instance
	maxMerged    = 1_000_000 // variables, see checkOverlap
	maxPorts     = 1000
	maxThreshold = 1000
	maxPath      = 4096
	maxCheckTime = 24 * time.Hour
)

// The defaults of health checks.
const (
	defaultInterval  = 10 * time.Second
	defaultTimeout   = 5 * time.Second
	defaultFailures  = 3
	defaultSuccesses = 1
)

// taskSpecFrom converts what every instance runs, of a gang or not.
func taskSpecFrom(p *sluicev1.TaskSpec, gang bool, path string, v *violations) cluster.TaskSpec {
	if p == nil {
		v.Invalid(path, "is required: what each instance runs")
		return cluster.TaskSpec{}
	}
	if len(p.Processes) == 0 {
		v.Invalid(child(path, "processes"), "is required: at least one process, with argv or shell")
	}
	if p.Resources == nil && !statesOwn(p.Processes) {
		v.Invalid(child(path, "resources"), "is required: what one task asks for, at least cpu_milli and memory_bytes")
	}
	task := partOfTask(p, path, v)
	checkReferences(&task, gang, path, v)
	return task
}

// partOfTask converts what is set of a task; an override sets a part only.
func partOfTask(p *sluicev1.TaskSpec, path string, v *violations) cluster.TaskSpec {
	task := cluster.TaskSpec{Labels: labelsFrom(p.Labels, child(path, "labels"), v)}
	if len(p.Init)+len(p.Processes) > maxProcesses {
		v.Invalid(child(path, "processes"), "has %d entries with init: at most %d", len(p.Init)+len(p.Processes), maxProcesses)
		return task
	}
	task.Init = processesFrom(p.Init, child(path, "init"), v)
	for i, process := range p.Init {
		checkInit(process, item(child(path, "init"), i), v)
	}
	task.Processes = processesFrom(p.Processes, child(path, "processes"), v)
	checkProcessNames(&task, path, v)
	request := wholeRequest(p, &task, path, v)
	task.Resources, task.GPU, task.Ports = request.Resources, request.GPU, request.Ports
	task.Volumes = volumesFrom(p.Volumes, child(path, "volumes"), v)
	if p.LogLimitBytes != nil {
		checkRange(*p.LogLimitBytes, minLogLimit, maxLogLimit, "bytes", child(path, "log_limit_bytes"), v)
		task.LogLimitBytes = *p.LogLimitBytes
	}
	return task
}

// checkInit reports what an init step cannot have.
func checkInit(p *sluicev1.ProcessSpec, path string, v *violations) {
	if p.GetMain() {
		v.Invalid(child(path, "main"), "is set on an init step: only one of the processes can be the main one")
	}
	if len(p.GetHealthChecks()) > 0 {
		v.Invalid(child(path, "health_checks"), "are given for an init step: its exit code tells whether it went well")
	}
	if p.GetResources() != nil {
		v.Invalid(child(path, "resources"), "are given for an init step: it runs with what the processes ask for")
	}
}

// checkProcessNames requires names that are unique, as soon as there is more than one process.
func checkProcessNames(task *cluster.TaskSpec, path string, v *violations) {
	seen := map[string]bool{}
	several := len(task.Init)+len(task.Processes) > 1
	check := func(list []cluster.Process, at string) {
		for i := range list {
			name := list[i].Name
			switch at := child(item(at, i), "name"); {
			case name == "" && several:
				v.Invalid(at, "is required where a task has several processes: %s", nameRule)
			case name != "" && !isName(name):
				v.Invalid(at, "is %s: %s", quote(name), nameRule)
			case seen[name]:
				v.Invalid(at, "is %s, as that of another process: names are unique", quote(name))
			}
			seen[name] = true
		}
	}
	check(task.Init, child(path, "init"))
	check(task.Processes, child(path, "processes"))
}

func processesFrom(list []*sluicev1.ProcessSpec, path string, v *violations) []cluster.Process {
	var all []cluster.Process
	for i, p := range list {
		all = append(all, processFrom(p, item(path, i), v))
	}
	return all
}

func processFrom(p *sluicev1.ProcessSpec, path string, v *violations) cluster.Process {
	out := cluster.Process{
		Name:      p.GetName(),
		Env:       environmentFrom(p.GetEnvironment(), child(path, "environment"), v),
		WorkDir:   p.GetWorkingDirectory(),
		User:      p.GetUser(),
		Main:      p.GetMain(),
		Container: containerFrom(p.GetContainer(), child(path, "container"), v),
		Fetch:     fetchFrom(p.GetFetch(), child(path, "fetch"), v),
		Checks:    checksFrom(p.GetHealthChecks(), child(path, "health_checks"), v),
	}
	out.Command, out.Shell = commandFrom(p, path, v)
	checkPath(out.WorkDir, child(path, "working_directory"), v)
	if at := child(path, "user"); strings.ContainsAny(out.User, ":/\x00 ") || len(out.User) > maxKeyLength {
		v.Invalid(at, "is not the name or number of a user: %s", quote(out.User))
	}
	if p.GetResources() != nil {
		request := requestFrom(p.GetResources(), child(path, "resources"), v)
		out.Request = &request
	}
	return out
}

// checkPath reports a path that is neither absolute nor inside the task's own folder; "" is that folder.
func checkPath(p, path string, v *violations) {
	switch {
	case strings.IndexByte(p, 0) >= 0 || len(p) > maxPath:
		v.Invalid(path, "is not a path: %s", quote(p))
	case p != "" && !filepath.IsAbs(p) && !filepath.IsLocal(p):
		v.Invalid(path, "is %s: an absolute path, or one inside the task's own folder", quote(p))
	}
}

func commandFrom(p *sluicev1.ProcessSpec, path string, v *violations) (argv []string, shell string) {
	switch c := p.GetCommand().(type) {
	case *sluicev1.ProcessSpec_Argv:
		return argvFrom(c.Argv, child(path, "argv.args"), v), ""
	case *sluicev1.ProcessSpec_Shell:
		at := child(path, "shell")
		if strings.TrimSpace(c.Shell) == "" {
			v.Invalid(at, "is empty: a line for /bin/sh -c")
		}
		checkArgument(c.Shell, at, v)
		return nil, c.Shell
	default:
		v.Invalid(path, "needs a command: argv or shell")
		return nil, ""
	}
}

func argvFrom(p *sluicev1.Argv, path string, v *violations) []string {
	args := p.GetArgs()
	if len(args) == 0 || args[0] == "" {
		v.Invalid(path, "is required: the program and its arguments")
	}
	for i, a := range args {
		checkArgument(a, item(path, i), v)
	}
	return slices.Clone(args)
}

func checkArgument(a, path string, v *violations) {
	switch {
	case len(a) > maxArgument:
		v.Invalid(path, "is %d bytes long: at most %d", len(a), maxArgument)
	case strings.IndexByte(a, 0) >= 0:
		v.Invalid(path, "contains a NUL character, which no argument can")
	}
}

func environmentFrom(m map[string]string, path string, v *violations) []cluster.KeyValue {
	return pairsFrom(m, func(k, value string) {
		at := entry(path, k)
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			v.Invalid(at, "is not a name: not empty, without '=' and NUL")
		case strings.HasPrefix(k, reservedEnvironment):
			v.Invalid(at, "is reserved: names that begin with %s are set for every task", reservedEnvironment)
		case len(k)+1+len(value) > maxArgument: // a process gets it as name=value
			v.Invalid(at, "is %d bytes long with its name: at most %d", len(k)+1+len(value), maxArgument)
		default:
			checkArgument(value, at, v)
		}
	})
}

var containerRuntimes = choice[cluster.ContainerRuntime, sluicev1.ContainerSpec_Runtime]{
	{cluster.DefaultRuntime, sluicev1.ContainerSpec_RUNTIME_UNSPECIFIED},
	{cluster.MesosRuntime, sluicev1.ContainerSpec_MESOS},
	{cluster.DockerRuntime, sluicev1.ContainerSpec_DOCKER},
}

func containerFrom(p *sluicev1.ContainerSpec, path string, v *violations) *cluster.Container {
	if p == nil {
		return nil
	}
	if p.Image == "" {
		v.Invalid(child(path, "image"), "is required: the name of an image")
	}
	checkText(p.Image, child(path, "image"), maxPath, v)
	checkRange(p.ImageBytes, 0, cluster.MaxAmount, "bytes", child(path, "image_bytes"), v)
	return &cluster.Container{
		Runtime: containerRuntimes.from(p.Runtime), Image: p.Image, ImageBytes: p.ImageBytes, ForcePull: p.ForcePull,
		Parameters: pairsFrom(p.Parameters, func(k, value string) {
			if k == "" {
				v.Invalid(entry(child(path, "parameters"), k), "has no name")
			}
			checkArgument(value, entry(child(path, "parameters"), k), v)
		}),
	}
}

func fetchFrom(list []*sluicev1.FetchItem, path string, v *violations) []cluster.Fetch {
	if len(list) > maxFetch {
		v.Invalid(path, "has %d entries: at most %d", len(list), maxFetch)
		return nil
	}
	var all []cluster.Fetch
	for i, p := range list {
		at := item(path, i)
		f := cluster.Fetch{URI: p.GetUri(), Path: p.GetPath(), Executable: p.GetExecutable(), Extract: p.GetExtract()}
		if u, err := url.Parse(f.URI); err != nil || u.Scheme == "" {
			v.Invalid(child(at, "uri"), "is %s: a URI with its scheme, such as https://host/file or file:///folder/file", quote(f.URI))
		} else if target := f.Target(); target == "" || !filepath.IsLocal(target) || strings.IndexByte(target, 0) >= 0 || len(target) > maxPath {
			v.Invalid(child(at, "path"), "is %s: a path inside the task's own folder", quote(target))
		}
		all = append(all, f)
	}
	return all
}

func volumesFrom(list []*sluicev1.VolumeMount, path string, v *violations) []cluster.Volume {
	if len(list) > maxVolumes {
		v.Invalid(path, "has %d entries: at most %d", len(list), maxVolumes)
		return nil
	}
	var all []cluster.Volume
	mounted := map[string]bool{}
	for i, p := range list {
		at := item(path, i)
		m := cluster.Volume{MountPath: filepath.Clean(p.GetMountPath()), ReadOnly: p.GetReadOnly()}
		switch source := p.GetSource().(type) {
		case *sluicev1.VolumeMount_Volume:
			m.Name = source.Volume
			if name := strings.ReplaceAll(m.Name, cluster.InstanceMark, "0"); !isName(name) {
				v.Invalid(child(at, "volume"), "is %s: %s, %s standing for the instance", quote(m.Name), nameRule, cluster.InstanceMark)
			}
		case *sluicev1.VolumeMount_HostPath:
			m.HostPath = filepath.Clean(source.HostPath)
			if !filepath.IsAbs(source.HostPath) || len(source.HostPath) > maxPath || strings.IndexByte(source.HostPath, 0) >= 0 {
				v.Invalid(child(at, "host_path"), "is %s: an absolute path", quote(source.HostPath))
			}
		case *sluicev1.VolumeMount_ScratchBytes:
			m.ScratchBytes = source.ScratchBytes
			checkRange(m.ScratchBytes, 1, cluster.MaxAmount, "bytes", child(at, "scratch_bytes"), v)
			if m.ReadOnly {
				v.Invalid(child(at, "read_only"), "is set for an empty folder, which would stay empty")
			}
		default:
			v.Invalid(at, "needs a source: volume, host_path or scratch_bytes")
		}
		switch at := child(at, "mount_path"); {
		case p.GetMountPath() == "" || m.MountPath == "." || m.MountPath == "/":
			v.Invalid(at, "is required: where processes find it, absolute or inside the task's own folder")
		case mounted[m.MountPath]:
			v.Invalid(at, "is %s, as that of another volume", quote(m.MountPath))
		default:
			checkPath(m.MountPath, at, v)
		}
		mounted[m.MountPath] = true
		all = append(all, m)
	}
	return all
}

// overridesFrom converts what differs between instances of job; each instance has to be sound with
// all overrides that cover it.
func overridesFrom(p *sluicev1.JobSpec, job *cluster.JobSpec, path string, v *violations) []cluster.InstanceOverride {
	if len(p.Overrides) > maxOverrides {
		v.Invalid(path, "has %d entries: at most %d", len(p.Overrides), maxOverrides)
		return nil
	}
	var all []cluster.InstanceOverride
	for i, o := range p.Overrides {
		at := item(path, i)
		out := cluster.InstanceOverride{Env: environmentFrom(o.GetEnvironment(), child(at, "environment"), v)}
		if out.First, out.Last = instancesFrom(o.GetInstances(), child(at, "instances"), v); o.GetInstances() == nil {
			v.Invalid(child(at, "instances"), "is required: the instances that it is for")
		}
		if o.GetTask() == nil && len(out.Env) == 0 {
			v.Invalid(at, "changes nothing: give task or environment")
		}
		if o.GetTask() != nil {
			task := partOfTask(o.Task, child(at, "task"), v)
			out.Task = &task
		}
		all = append(all, out)
	}
	merged := &cluster.JobSpec{Task: job.Task, Overrides: all, Gang: job.Gang}
	if !checkOverlap(merged, path, v) {
		return nil
	}
	if !v.Empty() {
		return all
	}
	checkMerged(merged, path, v)
	checkCore(merged, path, v)
	return all
}

// checkCore refuses overrides by which tasks that start together, and therefore count as one, would ask for different hosts.
func checkCore(job *cluster.JobSpec, path string, v *violations) {
	if job.Gang == nil {
		return
	}
	first := job.TaskOf(0)
	request := first.Request()
	for i, o := range job.Overrides {
		for _, instance := range []uint32{o.First, o.Last + 1} { // nothing changes in between
			task := job.TaskOf(instance)
			if other := task.Request(); job.Core(instance) && (!request.Equal(&other) || task.Needs() != first.Needs()) {
				v.Invalid(child(item(path, i), "task"), "lets task %d ask for something else than task 0: the %d tasks of the gang have to be alike",
					instance, job.Gang.Minimum)
				return
			}
		}
	}
}

// turns returns instances, sorted, from each of which to the next all have the same overrides.
func turns(overrides []cluster.InstanceOverride) []uint32 {
	var all []uint32
	for _, o := range overrides {
		all = append(all, o.First, o.Last+1)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkOverlap bounds what it costs to find out what an instance runs, which is done for each of them again and again, and
// reports whether that is so.
func checkOverlap(job *cluster.JobSpec, path string, v *violations) bool {
	merged := 0
	for _, instance := range turns(job.Overrides) {
		covering := 0
		for i, o := range job.Overrides {
			if o.First > instance || instance > o.Last {
				continue
			}
			if covering++; covering > maxCovering {
				v.Invalid(child(item(path, i), "instances"), "are %d to %d, of which instance %d has %d overrides before this: at most %d may cover an instance",
					o.First, o.Last, instance, maxCovering, maxCovering)
				return false
			}
		}
		if covering == 0 {
			continue
		}
		task := job.TaskOf(instance)
		for _, p := range slices.Concat(task.Init, task.Processes) {
			merged += covering * len(p.Env)
		}
		if merged > maxMerged {
			v.Invalid(path, "take more than %d variables to merge, those of the processes counted for each of the ranges and for each override of it: "+
				"give fewer overrides or variables", maxMerged)
			return false
		}
	}
	return true
}

// checkMerged checks what instances run with all overrides that cover them. What is wrong is said of the last of these.
func checkMerged(job *cluster.JobSpec, path string, v *violations) {
	for _, instance := range turns(job.Overrides) {
		for i, o := range slices.Backward(job.Overrides) {
			if o.First <= instance && instance <= o.Last {
				task := job.TaskOf(instance)
				checkReferences(task, job.Gang != nil, child(item(path, i), "task"), v)
				if n := variableBytes(task); n > maxSpecBytes {
					v.Invalid(item(path, i), "is the last of those by which instance %d gives its processes %d bytes of variables together: at most %d",
						instance, n, maxSpecBytes)
				}
				break
			}
		}
	}
}

// variableBytes is about what the environments of a task's processes take in its launch, which is one message to its host manager. An
// override adds to all of them, so they may take many times what the spec does.
func variableBytes(task *cluster.TaskSpec) (n int) {
	const overhead = 12 // of each, at most
	for _, p := range slices.Concat(task.Init, task.Processes) {
		for _, e := range p.Env {
			n += len(e.Key) + len(e.Value) + overhead
		}
	}
	return n
}

// checkReferences reports ports and variables that are used and not there.
func checkReferences(task *cluster.TaskSpec, gang bool, path string, v *violations) {
	var scratch int64
	for _, m := range task.Volumes {
		scratch += m.ScratchBytes
	}
	if disk := task.Resources.Fixed[cluster.Disk]; scratch > disk {
		v.Invalid(child(path, "volumes"), "may hold %d bytes of scratch, and resources.disk_bytes is %d: ask for as much", scratch, disk)
	}
	var more []string
	if gang {
		more = cluster.GangVariables
	}
	undefined := task.Ports.Undefined(more...)
	for _, group := range []struct {
		name string
		list []cluster.Process
	}{{"init", task.Init}, {"processes", task.Processes}} {
		for i := range group.list {
			checkProcessReferences(task, undefined, &group.list[i], item(child(path, group.name), i), v)
		}
	}
}

func checkProcessReferences(task *cluster.TaskSpec, undefined func(string) string, p *cluster.Process, path string, v *violations) {
	text := func(s string, at func() string) {
		if what := undefined(s); what != "" {
			v.Invalid(at(), "refers to %s, which this task does not have: there are SLUICE_JOB, SLUICE_INSTANCE, SLUICE_HOST and others, SLUICE_PORT_0 and so on for dynamic ports, and SLUICE_GANG_RANK, SLUICE_GANG_SIZE and SLUICE_GANG_PEERS in gangs", quote(what))
		}
	}
	for _, e := range p.Env {
		text(e.Value, func() string { return entry(child(path, "environment"), e.Key) })
	}
	for i, a := range p.Command {
		text(a, func() string { return item(child(path, "argv.args"), i) })
	}
	for i := range p.Checks {
		c, at := &p.Checks[i], item(child(path, "health_checks"), i)
		for k, a := range c.Command {
			text(a, func() string { return item(child(at, "command.args"), k) })
		}
		port := c.TCP
		kind := "tcp.port"
		if c.HTTP != nil {
			port, kind = &c.HTTP.Port, "http.port"
		}
		if port != nil && !task.Ports.Refers(*port) {
			v.Invalid(child(at, kind), "is %s, which the task does not ask for in resources.ports", describePort(*port))
		}
	}
}

func describePort(p cluster.PortRef) string {
	if p.Name != "" {
		return quote(p.Name)
	}
	return fmt.Sprintf("the dynamic port at %d", p.Index)
}
