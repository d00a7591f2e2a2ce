package cycle

import (
	"github.com/sluice-scheduler/sluice/cluster"
)

// Steps returns the plan as events, in the order in which they are to be carried out. The events of one step
// belong together: a gang starts whole, and nobody leaves unless the room is held for somebody.
func (o *Output) Steps() [][]cluster.Event {
	steps := make([][]cluster.Event, 0, len(o.Ended)+len(o.Placements)+len(o.Displacements))
	for _, k := range o.Ended {
		steps = append(steps, []cluster.Event{&cluster.TaskRequeued{Task: k, Reason: cluster.ReasonHoldEnded}})
	}
	gangs := map[cluster.JobUID]int{} // steps of gangs, plus one
	placements, alone := make([]cluster.Placed, len(o.Placements)), make([]cluster.Event, len(o.Placements))
	for i := range o.Placements {
		p, placed := &o.Placements[i], &placements[i]
		*placed = cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs, Ports: p.Ports}
		if at := gangs[p.Gang]; p.Gang != 0 && at > 0 {
			steps[at-1] = append(steps[at-1], placed)
			continue
		}
		alone[i] = placed
		steps = append(steps, alone[i:i+1:i+1])
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
