package serve

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// kinds has what hosts can do together, for one request: there are many hosts, and few kinds of them.
type kinds struct {
	snapshot *cluster.Snapshot
	met      []cluster.Capabilities // of the hosts that were looked at, each once
	all      bool                   // every host was
}

// has reports whether there is a host that can do all of that. Complexity: the hosts, for as many calls as there are kinds; then the kinds.
func (k *kinds) has(needs cluster.Capabilities) bool {
	can := func(c cluster.Capabilities) bool { return needs&^c == 0 }
	if known := slices.ContainsFunc(k.met, can); known || k.all {
		return known
	}
	for h := range k.snapshot.Hosts("") {
		if !slices.Contains(k.met, h.Capabilities) {
			k.met = append(k.met, h.Capabilities)
		}
		if can(h.Capabilities) {
			return true
		}
	}
	k.all = true
	return false
}

// checkCapabilities reports what a job needs and no host of the cluster can do. In a cluster without hosts that is not
// known, and the job waits.
func checkCapabilities(hosts *kinds, job *cluster.JobSpec, path string, v *violations) {
	check := func(task *cluster.TaskSpec, at string) {
		needs := job.NeedsFor(task)
		if needs == 0 || hosts.snapshot.NumHosts() == 0 || hosts.has(needs) {
			return
		}
		var anywhere cluster.Capabilities
		for _, c := range hosts.met {
			anywhere |= c
		}
		missing := needs &^ anywhere
		if missing == 0 {
			v.Unsupported(at, "needs %v together, and no host of this cluster can do all of that", needs)
			return
		}
		for ; missing != 0; missing &^= missing.First() {
			one := missing.First()
			field := fieldOf(task, one, at)
			if one == cluster.CanWarn {
				field = child(path, "preemption.on_preempt")
			}
			v.Unsupported(field, "needs what the host managers of this cluster cannot do: %v", one)
		}
	}
	check(&job.Task, child(path, "task"))
	for i := range job.Overrides {
		o := &job.Overrides[i]
		if o.Task != nil {
			check(job.TaskOf(o.First), child(item(child(path, "overrides"), i), "task"))
		}
	}
}

// fieldOf returns the path of the first field of the task for which it needs the capability.
func fieldOf(task *cluster.TaskSpec, need cluster.Capabilities, path string) string {
	for i := range task.Volumes {
		if task.VolumeNeeds(i)&need != 0 {
			return item(child(path, "volumes"), i)
		}
	}
	for i := range task.Init {
		if task.Init[i].Needs()&need != 0 {
			return item(child(path, "init"), i)
		}
	}
	for i := range task.Processes {
		if task.Processes[i].Needs()&need != 0 {
			return item(child(path, "processes"), i)
		}
	}
	if need == cluster.CanPorts {
		return child(path, "resources.ports")
	}
	return child(path, "processes")
}
