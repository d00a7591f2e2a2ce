package cluster

import (
	"math/bits"
	"strings"
)

// Capabilities is a set of things that not every host manager can do. A task is placed only where all that it needs can
// be done.
type Capabilities uint32

// The capabilities.
const (
	CanGroups       Capabilities = 1 << iota // several processes and init steps
	CanContainers                            // images of the host manager's own runtime, or of Mesos
	CanDocker                                // images of Docker
	CanUsers                                 // running as another user
	CanFetch                                 // fetching files
	CanHealthChecks                          // health checks
	CanVolumes                               // persistent volumes
	CanHostPaths                             // folders of the host
	CanScratch                               // scratch folders
	CanSecrets                               // delivering secrets
	CanPorts                                 // telling processes their ports
	CanMount                                 // volumes at absolute paths, inside volumes that are kept, and such that cannot be written
	CanWarn                                  // a command of the task's own before it is asked to leave
	numCapabilities = iota
)

var capabilityNames = [numCapabilities]string{
	"groups", "containers", "docker", "users", "fetch", "health-checks", "volumes", "host-paths", "scratch", "secrets", "ports", "mounts", "on-preempt",
}

// Names lists the set, in the order of the constants.
func (c Capabilities) Names() []string {
	var names []string
	for i, name := range capabilityNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas.
func (c Capabilities) String() string { return strings.Join(c.Names(), ", ") }

// First returns the set of the first of c only; 0 for none.
func (c Capabilities) First() Capabilities { return c & -c }

// Index returns the position of the first of c among all capabilities; c is not empty.
func (c Capabilities) Index() int { return bits.TrailingZeros32(uint32(c)) }

// ParseCapabilities reads names. Those that are not known are skipped: nobody here asks for them.
func ParseCapabilities(names []string) Capabilities {
	var c Capabilities
	for i, known := range capabilityNames {
		for _, name := range names {
			if name == known {
				c |= 1 << i
			}
		}
	}
	return c
}

// Needs returns what a host manager must be able to do to run the task.
func (s *TaskSpec) Needs() Capabilities {
	var c Capabilities
	if len(s.Processes) > 1 || len(s.Init) > 0 {
		c |= CanGroups
	}
	for _, list := range [][]Process{s.Init, s.Processes} {
		for i := range list {
			c |= list[i].Needs()
		}
	}
	for i := range s.Volumes {
		c |= s.VolumeNeeds(i)
	}
	if !s.Ports.IsZero() {
		c |= CanPorts
	}
	if s.Secrets {
		c |= CanSecrets
	}
	return c
}

// NeedsFor returns what a host manager must be able to do to run one of the job's tasks.
func (s *JobSpec) NeedsFor(task *TaskSpec) Capabilities {
	c := task.Needs()
	if len(s.Preemption.Command) > 0 {
		c |= CanWarn
	}
	return c
}

// Needs returns what a host manager must be able to do to run the process.
func (p *Process) Needs() Capabilities {
	var c Capabilities
	switch {
	case p.Container == nil:
	case p.Container.Runtime == DockerRuntime:
		c |= CanDocker
	default:
		c |= CanContainers
	}
	if p.User != "" {
		c |= CanUsers
	}
	if len(p.Fetch) > 0 {
		c |= CanFetch
	}
	if len(p.Checks) > 0 {
		c |= CanHealthChecks
	}
	return c
}

// VolumeNeeds returns what a host manager must be able to do to provide a volume of the task, which may be inside another:
// without a mount that would leave something in one that others see, or that is there again the next time.
func (s *TaskSpec) VolumeNeeds(i int) Capabilities {
	v := &s.Volumes[i]
	c := v.Needs()
	for k := range s.Volumes {
		if around := &s.Volumes[k]; around.ScratchBytes == 0 && strings.HasPrefix(v.MountPath, around.MountPath+"/") {
			c |= CanMount
		}
	}
	return c
}

// Needs returns what a host manager must be able to do to provide the volume by itself.
func (v *Volume) Needs() Capabilities {
	c := CanScratch
	switch {
	case v.Name != "":
		c = CanVolumes
	case v.HostPath != "":
		c = CanHostPaths
	}
	if v.ReadOnly || strings.HasPrefix(v.MountPath, "/") && v.MountPath != v.HostPath {
		c |= CanMount
	}
	return c
}
