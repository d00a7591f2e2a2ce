package cycle

import (
	"github.com/sluice-scheduler/sluice/cluster"
)

// Steps returns the plan as events, in the order in which they are to be carried out. The events of one step belong together:
// a gang starts whole, and nobody leaves unless the room is held for somebody.
func (o *Output) Steps() [][]cluster.Event {
	var steps [][]cluster.Event
	for _, k := range o.Ended {
		steps = append(steps, []cluster.Event{&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonHoldEnded}})
	}
	gangs := map[cluster.JobUID]int{} // steps of gangs, plus one
	for i := range o.Placements {
		p := &o.Placements[i]
		placed := &cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs, Ports: p.Ports}
		if at := gangs[p.Gang]; p.Gang != 0 && at > 0 {
			steps[at-1] = append(steps[at-1], placed)
			continue
		}
		steps = append(steps, []cluster.Event{placed})
		gangs[p.Gang] = len(steps)
	}
	for i := range o.Displacements {
		d := &o.Displacements[i]
		var step []cluster.Event
		for _, h := range d.Holds {
			step = append(step, &cluster.TaskHeld{Task: h.Task, Hold: h.Hold})
		}
		for _, v := range d.Victims {
			step = append(step, &cluster.TaskPreempted{Task: v.Task, Run: v.Run, Preemption: v.Preemption, Hold: v.Hold})
		}
		steps = append(steps, step)
	}
	return steps
}
