package mesos

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// taskID names the Mesos task of a process: the run's id, so that a launch that is repeated is recognised; with the
// number of the process where there are several.
func taskID(run cluster.RunID, member, members int) string {
	if members <= 1 {
		return run.String()
	}
	return run.String() + "_" + strconv.Itoa(member)
}

// parseTaskID reads what taskID wrote.
func parseTaskID(id string) (run cluster.RunID, member int, err error) {
	name, number, several := strings.Cut(id, "_")
	if several {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return run, 0, fmt.Errorf("mesos: %q is not the id of a task of ours", id)
		}
		member = int(n)
	}
	run, err = cluster.ParseRunID(name)
	return run, member, err
}

// shares divides what a run may use among its processes and, where there are several, their executor. The executor comes
// first in the list then. What a process asks for by itself it gets, the first one the rest.
func shares(l *hostmgr.Launch, c *Config) ([]quantity, error) {
	n := len(l.Task.Processes)
	if n == 1 {
		return []quantity{need(l)}, nil
	}
	var executor cluster.Resources
	executor.Fixed[cluster.CPU] = c.ExecutorCPUMilli
	executor.Fixed[cluster.Memory] = c.ExecutorMemoryBytes
	out := make([]quantity, n+1)
	out[0] = needOf(executor, l.Revocable).plus(executorNeed(l.Task.Resources, l.Revocable))
	rest := l.Task.Resources.Sub(executor)
	for i := 1; i < n; i++ {
		var part cluster.Resources
		if r := l.Task.Processes[i].Request; r != nil {
			part = r.Resources
		} else { // the task asks for all: the others get little, and containers of one executor share it
			part.Fixed[cluster.CPU] = 10
			part.Fixed[cluster.Memory] = 1 << 20
		}
		out[i+1] = needOf(part, l.Revocable)
		rest = rest.Sub(part)
	}
	if rest.Fixed[cluster.CPU] < 10 || rest.Fixed[cluster.Memory] < 1<<20 {
		return nil, fmt.Errorf("mesos: resources: %d processes and the executor, which takes %d thousandths of a core and %d MiB, leave nothing for the first one; ask for more",
			n, c.ExecutorCPUMilli, c.ExecutorMemoryBytes/megabyte)
	}
	out[1] = needOf(rest, l.Revocable).plus(quantity{ports: portRanges(l.Ports)})
	return out, nil
}

// need returns all that a launch may use.
func need(l *hostmgr.Launch) quantity {
	return needOfRun(l.Task.Resources, l.Revocable, l.Ports, len(l.Task.Processes))
}

// needOfRun returns all that a run of so many processes may use.
func needOfRun(r cluster.Resources, revocable bool, ports []uint16, processes int) quantity {
	q := needOf(r, revocable).plus(quantity{ports: portRanges(ports)})
	if processes > 1 {
		q = q.plus(executorNeed(r, revocable))
	}
	return q
}

// executorDisk is the disk of the executor of several processes. A master takes no executor without, and few tasks ask for any that it
// could come out of; so it comes on top.
const executorDisk = 32 << 20

// executorNeed returns the executor's disk, of the kind that the task has, if it has any.
func executorNeed(r cluster.Resources, revocable bool) quantity {
	var disk cluster.Resources
	disk.Fixed[cluster.Disk] = executorDisk
	return needOf(disk, revocable && r.Fixed[cluster.Disk] > 0)
}

// needOf returns amounts, which may be such that can be taken back. Mesos does not let a task have both of one kind.
func needOf(r cluster.Resources, revocable bool) quantity {
	if revocable {
		return quantity{revocable: r}
	}
	return quantity{amount: r}
}

// check says what this driver cannot do of a launch.
func check(l *hostmgr.Launch, c *Config) error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("mesos: "+format, args...)) }
	if len(l.Task.Processes) == 0 {
		bad("a launch without a command")
	}
	if r := l.Task.Resources; r.Fixed[cluster.GPU]%cluster.WholeGPU != 0 {
		bad("gpu: Mesos gives whole devices only, not %d thousandths", r.Fixed[cluster.GPU])
	}
	if len(l.Task.Init) > 0 && len(l.Task.Processes) > 1 {
		bad("init: init steps before several processes cannot be done; run them in a process of their own")
	}
	for i := range l.Task.Processes {
		p := &l.Task.Processes[i]
		if p.Shell == "" && len(p.Command) == 0 {
			bad("process %q: a launch without a command", p.Name)
		}
		if len(l.Task.Processes) > 1 && docker(p) {
			bad("process %q: containers of the Docker runtime run alone, not beside other processes; use the MESOS runtime", p.Name)
		}
		if docker(p) && (len(l.Secrets) > 0 || slices.ContainsFunc(l.Task.Volumes, func(v cluster.Volume) bool { return v.ScratchBytes > 0 })) {
			bad("process %q: containers of the Docker runtime get no secrets and no scratch folders from Mesos; use the MESOS runtime", p.Name)
		}
		checkHealth(p, bad)
	}
	for i := range l.Task.Init {
		p := &l.Task.Init[i]
		if p.Shell == "" && len(p.Command) == 0 {
			bad("init step %q: a launch without a command", p.Name)
		}
		if p.Container != nil || p.User != "" && p.User != l.Task.Processes[0].User || len(p.Fetch) > 0 {
			bad("init step %q: it runs in the container of the process, and cannot have its own container, user or files", p.Name)
		}
	}
	for i, v := range l.Task.Volumes {
		if v.Name == cluster.InstanceMark {
			bad("volume %q: has no name", v.Name)
		}
		same := func(w cluster.Volume) bool {
			return w.NameFor(l.Run.Task.Instance()) == v.NameFor(l.Run.Task.Instance())
		}
		if v.Name != "" && slices.ContainsFunc(l.Task.Volumes[:i], same) {
			bad("volume %q: Mesos gives a task each volume once; mount it at one path", v.Name)
		}
		if v.Name != "" && l.Revocable && l.Task.Resources.Fixed[cluster.Disk] > 0 {
			bad("volume %q: a volume is disk that is not taken back, and Mesos does not give a task that and revocable disk; ask for no disk, or make the job not revocable", v.Name)
		}
		if v.Name != "" && len(l.Task.Processes) == 1 && !path.IsAbs(v.MountPath) && strings.Contains(v.MountPath, "/") {
			bad("volume %q: Mesos mounts no volume of a single process at %q; give an absolute path, or one without slashes", v.Name, v.MountPath)
		}
		if v.ScratchBytes > 0 && len(l.Task.Processes) == 1 && !path.IsAbs(v.MountPath) && l.Task.VolumeNeeds(i)&cluster.CanMount != 0 {
			bad("volumes[%d]: Mesos mounts no scratch folder of a single process at %q, inside of another volume; give an absolute path, or one outside", i, v.MountPath)
		}
	}
	if len(problems) == 0 && len(l.Task.Processes) > 1 {
		_, err := shares(l, c)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func checkHealth(p *cluster.Process, bad func(string, ...any)) {
	var health, ready int
	for _, c := range p.Checks {
		if c.Effect == cluster.Readiness {
			ready++
		} else {
			health++
		}
	}
	if health > 1 || ready > 1 {
		bad("process %q: Mesos has one check of liveness and one of readiness for each process", p.Name)
	}
	if ready > 0 && docker(p) { // its executor aborts
		bad("process %q: containers of the Docker runtime have no readiness checks on Mesos; make it one of liveness and readiness, or use the MESOS runtime", p.Name)
	}
	for _, c := range p.Checks {
		switch {
		case c.HTTP != nil && len(c.HTTP.Headers) > 0:
			bad("process %q: Mesos sends no headers of ours with an HTTP check; leave headers out", p.Name)
		case c.HTTP != nil && c.HTTP.Scheme == "https" && c.Effect == cluster.Readiness:
			bad("process %q: a readiness check of Mesos speaks plain HTTP; make it one of liveness and readiness", p.Name)
		case c.Successes > 1:
			bad("process %q: Mesos takes the first success of a check; leave success_threshold out", p.Name)
		}
	}
}

func docker(p *cluster.Process) bool {
	return p.Container != nil && p.Container.Runtime == cluster.DockerRuntime
}

// runTimeMargin is how long after the scheduler should have ended a run Mesos does, without a grace.
const runTimeMargin = time.Minute

// taskInfo describes one process to Mesos. Its resources are filled in by the caller.
func taskInfo(l *hostmgr.Launch, member int, agentID, address string) api.TaskInfo {
	p := &l.Task.Processes[member]
	t := api.TaskInfo{
		Name:    string(l.Job),
		TaskID:  api.TaskID{Value: taskID(l.Run, member, len(l.Task.Processes))},
		AgentID: api.AgentID{Value: agentID},
		Command: command(l, p, address),
		Labels:  labels(l.Task.Labels),
		// Also where there is no grace: without a policy an executor gives some seconds.
		KillPolicy: &api.KillPolicy{GracePeriod: &api.DurationInfo{Nanoseconds: int64(grace(l))}},
	}
	if p.Name != "" {
		t.Name += "." + p.Name
	}
	if l.MaxRunTime > 0 { // what the scheduler does with its grace is first
		limit := min(l.MaxRunTime, math.MaxInt64-l.Task.KillGrace-runTimeMargin) + l.Task.KillGrace + runTimeMargin
		t.MaxCompletionTime = &api.DurationInfo{Nanoseconds: int64(limit)}
	}
	if member == 0 {
		t.Discovery = discovery(l)
	}
	t.Container = container(l, p)
	for i := range p.Checks {
		if c := &p.Checks[i]; c.Effect == cluster.Readiness {
			t.Check = readiness(l, c, address)
		} else {
			t.HealthCheck = liveness(l, p, c, address)
		}
	}
	return t
}

// grace returns that of a kill that names none. Executors of a single command pass over the one of the KILL, so that nobody there has less
// than was promised, all have the longer one.
func grace(l *hostmgr.Launch) time.Duration {
	if len(l.Task.Processes) == 1 && !docker(&l.Task.Processes[0]) {
		return max(0, l.Task.KillGrace, l.PreemptionGrace)
	}
	return max(0, l.Task.KillGrace)
}

// command returns what a process runs. Init steps run before it, in its shell, which makes the folders that it needs, too.
func command(l *hostmgr.Launch, p *cluster.Process, address string) *api.CommandInfo {
	c := &api.CommandInfo{Environment: environment(l, p, address)}
	variables := l.Variables(address)
	replace := func(s string) string { return cluster.Interpolate(s, variables) }
	switch {
	case len(l.Task.Init) > 0 || p.WorkDir != "" || len(ownFolders(l)) > 0:
		c.Shell, c.Value = flag(true), text(script(l, p, replace))
	case p.Shell != "":
		c.Shell, c.Value = flag(true), text(p.Shell)
	default:
		argv := l.Expand(p.Command, address)
		c.Shell, c.Value = flag(false), text(argv[0])
		c.Arguments = argv // with the program itself
		if docker(p) {     // to which Docker's containerizer adds it, as the image's command
			c.Arguments = argv[1:]
		}
	}
	if p.User != "" {
		c.User = text(p.User)
	}
	for _, f := range p.Fetch {
		c.URIs = append(c.URIs, api.CommandInfo_URI{ // an agent would take what is behind a '?' into the name, and see no archive in it
			Value: f.URI, Executable: flag(f.Executable), Extract: flag(f.Extract), OutputFile: text(f.Target()),
		})
	}
	return c
}

// environment returns all variables of a process, sorted: of those of one name the last one counts.
func environment(l *hostmgr.Launch, p *cluster.Process, address string) *api.Environment {
	values := map[string]string{}
	for _, kv := range l.Environment(p, address) {
		values[kv.Key] = kv.Value
	}
	out := &api.Environment{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable := api.Environment_Variable{Name: name, Type: api.Environment_Variable_VALUE.Enum(), Value: text(values[name])}
		out.Variables = append(out.Variables, variable)
	}
	return out
}

// script returns a line for the shell that makes the scratch folders, runs the init steps one after the other and becomes the process.
func script(l *hostmgr.Launch, p *cluster.Process, replace func(string) string) string {
	var steps []string
	line := func(p *cluster.Process, last bool) {
		quoted := make([]string, 0, len(p.Command)+1)
		for _, kv := range p.Env {
			if !last {
				quoted = append(quoted, quote(kv.Key+"="+replace(kv.Value)))
			}
		}
		if len(quoted) > 0 {
			quoted = append([]string{"env"}, quoted...)
		}
		for _, a := range p.Argv() {
			if p.Shell == "" {
				a = replace(a)
			}
			quoted = append(quoted, quote(a))
		}
		s := strings.Join(quoted, " ")
		if last {
			s = "exec " + s
		}
		if p.WorkDir != "" {
			dir := quote(p.WorkDir)
			s = "mkdir -p " + dir + " && cd " + dir + " && " + s
		}
		if !last {
			s = "( " + s + " )"
		}
		steps = append(steps, s)
	}
	for _, folder := range ownFolders(l) {
		steps = append(steps, `mkdir -p "${MESOS_SANDBOX:-.}"/`+quote(folder)) // an image may have the process begin elsewhere
	}
	for i := range l.Task.Init {
		line(&l.Task.Init[i], false)
	}
	line(p, true)
	return strings.Join(steps, " && ")
}

// quote makes a word of a shell from any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func labels(list []cluster.KeyValue) *api.Labels {
	if len(list) == 0 {
		return nil
	}
	out := &api.Labels{}
	for _, kv := range list {
		out.Labels = append(out.Labels, api.Label{Key: kv.Key, Value: text(kv.Value)})
	}
	return out
}

// discovery tells others where the ports of a run are.
func discovery(l *hostmgr.Launch) *api.DiscoveryInfo {
	if len(l.Ports) == 0 {
		return nil
	}
	ports := &api.Ports{}
	for i, number := range l.Ports {
		p := api.Port{Number: uint32(number), Protocol: text("tcp")}
		if dynamic := i - len(l.Task.Ports.Numbers); dynamic >= 0 && dynamic < len(l.Task.Ports.Names) {
			p.Name = text(l.Task.Ports.Names[dynamic])
		}
		ports.Ports = append(ports.Ports, p)
	}
	return &api.DiscoveryInfo{Visibility: api.CLUSTER, Name: text(string(l.Job)), Ports: ports}
}

// container describes the container of a process, nil for a plain one without volumes and secrets.
func container(l *hostmgr.Launch, p *cluster.Process) *api.ContainerInfo {
	c := &api.ContainerInfo{Type: api.ContainerInfo_MESOS.Enum(), Volumes: volumes(l)}
	switch {
	case docker(p):
		c.Type = api.ContainerInfo_DOCKER.Enum()
		c.Docker = &api.ContainerInfo_DockerInfo{
			Image: p.Container.Image, Network: api.ContainerInfo_DockerInfo_HOST.Enum(), ForcePullImage: flag(p.Container.ForcePull),
		}
		for _, kv := range p.Container.Parameters {
			c.Docker.Parameters = append(c.Docker.Parameters, api.Parameter{Key: kv.Key, Value: kv.Value})
		}
		named := func(kv cluster.KeyValue) bool { return kv.Key == "user" }
		if p.User != "" && !slices.ContainsFunc(p.Container.Parameters, named) { // that of the command is whose the sandbox is
			c.Docker.Parameters = append(c.Docker.Parameters, api.Parameter{Key: "user", Value: p.User})
		}
	case p.Container != nil:
		c.Mesos = &api.ContainerInfo_MesosInfo{Image: &api.Image{
			Type: api.Image_DOCKER.Enum(), Docker: &api.Image_Docker{Name: p.Container.Image}, Cached: flag(!p.Container.ForcePull),
		}}
	case len(c.Volumes) == 0:
		return nil
	}
	return c
}

// volumes returns what is mounted in every process: folders, scratch folders, secrets, and persistent volumes that come through the
// sandbox. The persistent volumes of a single process are part of its resources; those of several are part of their executor's, in
// whose sandbox they find them, and the scratch folders that they share.
func volumes(l *hostmgr.Launch) []api.Volume {
	var out []api.Volume
	several := len(l.Task.Processes) > 1
	sandbox := func(path string) *api.Volume_Source {
		from := api.Volume_Source_SandboxPath_SELF
		if several {
			from = api.Volume_Source_SandboxPath_PARENT
		}
		return &api.Volume_Source{Type: api.Volume_Source_SANDBOX_PATH, SandboxPath: &api.Volume_Source_SandboxPath{Type: from, Path: path}}
	}
	for i, v := range l.Task.Volumes {
		m := api.Volume{ContainerPath: v.MountPath, Mode: mode(v.ReadOnly)}
		switch {
		case v.HostPath != "":
			m.HostPath = text(v.HostPath)
		case v.ScratchBytes > 0 && (several || path.IsAbs(v.MountPath)):
			m.Source = sandbox("scratch-" + strconv.Itoa(i))
		case throughSandbox(l, &v) && docker(&l.Task.Processes[0]):
			m.HostPath = text(sharedPath(i)) // relative: in the sandbox
		case throughSandbox(l, &v):
			m.Source = sandbox(sharedPath(i))
		default:
			continue
		}
		out = append(out, m)
	}
	for _, s := range l.Secrets {
		out = append(out, api.Volume{ContainerPath: path.Join(secretsIn(l), s.Path), Mode: mode(true), Source: &api.Volume_Source{
			Type: api.Volume_Source_SECRET, Secret: &api.Secret{Type: api.Secret_VALUE, Value: &api.Secret_Value{Data: s.Value}},
		}})
	}
	return out
}

// secretsIn returns the folder in which a launch finds its secrets: the sandbox, where a process begins, or where all processes have
// images, which may have them begin elsewhere, a folder of their own.
func secretsIn(l *hostmgr.Launch) string {
	if slices.ContainsFunc(l.Task.Processes, func(p cluster.Process) bool { return p.Container == nil }) {
		return "."
	}
	return "/run/sluice/secrets"
}

// throughSandbox reports whether a persistent volume is mounted in the sandbox, and from there where it is wanted. Agents mount none in
// other places, and say nothing of it.
func throughSandbox(l *hostmgr.Launch, v *cluster.Volume) bool {
	return v.Name != "" && (len(l.Task.Processes) > 1 || path.IsAbs(v.MountPath))
}

// ownFolders lists the scratch folders of a single process in its sandbox, where agents mount no other folder of the sandbox.
func ownFolders(l *hostmgr.Launch) (paths []string) {
	for _, v := range l.Task.Volumes {
		if v.ScratchBytes > 0 && len(l.Task.Processes) == 1 && !path.IsAbs(v.MountPath) {
			paths = append(paths, v.MountPath)
		}
	}
	return paths
}

// sharedPath is where the sandbox has the i-th volume of a task that is mounted through it.
func sharedPath(i int) string { return "volume-" + strconv.Itoa(i) }

func mode(readOnly bool) *api.Volume_Mode {
	if readOnly {
		return api.RO.Enum()
	}
	return api.RW.Enum()
}

// liveness is a check after whose failures Mesos kills the task.
func liveness(l *hostmgr.Launch, p *cluster.Process, c *cluster.HealthCheck, address string) *api.HealthCheck {
	h := &api.HealthCheck{
		DelaySeconds: seconds(c.Delay), IntervalSeconds: seconds(c.Interval), TimeoutSeconds: seconds(c.Timeout),
		ConsecutiveFailures: &c.Failures, GracePeriodSeconds: seconds(0),
	}
	switch {
	case c.HTTP != nil:
		h.Type = api.HealthCheck_HTTP
		h.HTTP = &api.HealthCheck_HTTPCheckInfo{
			Port: port(l, c.HTTP.Port), Path: text(cmp.Or(c.HTTP.Path, "/")), Scheme: text(cmp.Or(c.HTTP.Scheme, "http")),
		}
	case c.TCP != nil:
		h.Type = api.HealthCheck_TCP
		h.TCP = &api.HealthCheck_TCPCheckInfo{Port: port(l, *c.TCP)}
	default:
		h.Type = api.HealthCheck_COMMAND
		h.Command = checkCommand(l, c, address)
		if docker(p) { // whose executor adds them to the program, as it does for the process
			h.Command.Arguments = h.Command.Arguments[1:]
		}
	}
	return h
}

// readiness is a check that only tells.
func readiness(l *hostmgr.Launch, c *cluster.HealthCheck, address string) *api.CheckInfo {
	k := &api.CheckInfo{DelaySeconds: seconds(c.Delay), IntervalSeconds: seconds(c.Interval), TimeoutSeconds: seconds(c.Timeout)}
	switch {
	case c.HTTP != nil:
		k.Type = api.CheckInfo_HTTP
		k.HTTP = &api.CheckInfo_Http{Port: port(l, c.HTTP.Port), Path: text(cmp.Or(c.HTTP.Path, "/"))}
	case c.TCP != nil:
		k.Type = api.CheckInfo_TCP
		k.TCP = &api.CheckInfo_Tcp{Port: port(l, *c.TCP)}
	default:
		k.Type = api.CheckInfo_COMMAND
		k.Command = &api.CheckInfo_Command{Command: *checkCommand(l, c, address)}
	}
	return k
}

func checkCommand(l *hostmgr.Launch, c *cluster.HealthCheck, address string) *api.CommandInfo {
	argv := l.Expand(c.Command, address)
	return &api.CommandInfo{Shell: flag(false), Value: text(argv[0]), Arguments: argv}
}

func port(l *hostmgr.Launch, ref cluster.PortRef) uint32 {
	n, _ := l.Task.Ports.Resolve(ref, l.Ports) // was checked with the job
	return uint32(n)
}

func seconds(d time.Duration) *float64 {
	s := math.Max(0, d.Seconds())
	return &s
}

func text(s string) *string { return &s }

func flag(b bool) *bool { return &b }
