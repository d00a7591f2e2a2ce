package cycle

import (
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// emit writes the displacements into the output. Those that share a host or a gang are written together. With
// them go those of earlier passes whose victims they let stay.
func (d *displacer) emit() {
	d.p.hit, d.p.done = append(d.p.hit, d.hit...), append(d.p.done, d.done...)
	d.join()
	steps := map[int]*Displacement{}
	var order []*Displacement
	for _, n := range d.done {
		step := steps[n.step]
		if step == nil {
			step = &Displacement{}
			steps[n.step] = step
			order = append(order, step)
		}
		d.write(n, step)
	}
	if len(d.freed) > 0 {
		order = []*Displacement{d.rejoin(order)}
	}
	for _, step := range order {
		d.out.Displacements = append(d.out.Displacements, *step)
	}
}

// rejoin takes the displacements that were freed out of the output, and returns them as one with those given.
func (d *displacer) rejoin(others []*Displacement) *Displacement {
	all, kept := &Displacement{}, d.out.Displacements[:0]
	add := func(step *Displacement) {
		all.Holds, all.Victims = append(all.Holds, step.Holds...), append(all.Victims, step.Victims...)
	}
	for i, step := range d.out.Displacements {
		if slices.Contains(d.freed, i) {
			add(&step)
		} else {
			kept = append(kept, step)
		}
	}
	d.out.Displacements = kept
	for _, step := range others {
		add(step)
	}
	return all
}

// join gives displacements that share a host the same step, the first of theirs. Complexity: nearly linear in
// the displacements.
func (d *displacer) join() {
	first, of := map[*host]int{}, make([]int, d.step+1) // of a step: one that it is the same as, not after it
	for s := range of {
		of[s] = s
	}
	root := func(s int) int {
		for of[s] != s {
			of[s] = of[of[s]]
			s = of[s]
		}
		return s
	}
	for _, n := range d.done {
		there, known := first[n.host]
		if !known {
			first[n.host] = n.step
			continue
		}
		a, b := root(there), root(n.step)
		of[max(a, b)] = min(a, b)
	}
	for _, n := range d.done {
		n.step = root(n.step)
	}
}

// write gives the head of the class the room that the displacement makes.
func (d *displacer) write(n *displacement, step *Displacement) {
	p := d.p
	w, _ := n.class.queue.PopMin()
	delete(p.waiting, w.task)
	p.planned.Tasks = append(p.planned.Tasks, w.task)
	n.class.placed = append(n.class.placed, w.task)
	until := d.now.Add(p.options.HoldFor + grace(n.victims))
	if len(step.Victims)+len(n.victims) == 0 {
		until = p.reservedUntil(d.now, w.queued)
	}
	if n.due != 0 {
		until = min(until, n.due)
	}
	p.alarm(until)
	step.Holds = append(step.Holds, Held{Task: w.task, Hold: n.nominee.hold(n.host, until)})
	n.host.decided = true
	for _, u := range n.victims {
		if !u.victim || u.written {
			continue
		}
		u.written, u.host.decided = true, true
		v := Victim{Task: u.task, Run: u.run, Preemption: cluster.Preemption{
			For: w.task, ForPool: n.class.key.group.pool, Price: int64(u.price),
		}}
		for i, o := range n.next {
			if i == 0 {
				v.Preemption.NextHost, v.Preemption.Next = o.host.id, int64(o.price)
				continue
			}
			v.Preemption.Further = append(v.Preemption.Further, cluster.OtherRoom{Host: o.host.id, Price: int64(o.price)})
		}
		if u.move != nil {
			hold := u.move.hold(u.move.host, until)
			v.Hold = &hold
			d.out.Stats.Migrations++
		} else {
			d.out.Stats.Preemptions++
		}
		step.Victims = append(step.Victims, v)
		p.planned.Tasks = append(p.planned.Tasks, u.task)
	}
}

// grace returns the longest time that any of the victims has to leave.
func grace(victims []*unit) time.Duration {
	var most time.Duration
	for _, u := range victims {
		most = max(most, u.job.Quiet()+u.job.PreemptionGrace())
	}
	return most
}
