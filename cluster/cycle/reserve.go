package cycle

import (
	"container/heap"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// reserve keeps a host for the head of each class that has waited long with a claim and found no room. Else
// smaller tasks would take it away piece by piece. Where tasks start together, it keeps hosts for all that is
// left. It keeps the host that lacks least, until others may be asked to leave for the task. Of tasks that
// ask for the same, one has its host kept at a time: what is kept for all who wait is closed to those who
// would fit there now.
func (d *displacer) reserve() {
	type alike struct {
		group *group
		asks  rowKey
	}
	p, kept := d.p, map[alike]bool{}
	for _, u := range p.held { // in any order
		if u.expires() {
			kept[alike{u.group, u.row}] = true
		}
	}
	for _, c := range p.order {
		head, ok := c.queue.Min()
		if c.claims() == 0 || c.row.nowhere() || !ok || kept[alike{c.group, c.row.key.rowKey}] {
			continue
		}
		if at := head.queued.Add(p.options.ReserveAfter); d.now < at {
			p.alarm(at)
			continue
		}
		count := int64(1)
		if c.together() {
			count = c.seeks()
		}
		if !p.ledger.Stays(c.group.unit(count)) || !p.mayHave(c.group, count) {
			continue // its pool has to give something back first
		}
		c.nominees = 0 // they have left the queue
		due, asks := d.roomAt(c, count)
		if asks && due <= d.now {
			continue // the next plan may ask as many as this one, which somebody leaves after
		}
		chosen := d.roomiest(c, count)
		if int64(len(chosen)) < count {
			continue
		}
		step := Displacement{}
		c.take(count)
		c.group.pledged += count
		p.ledger.Add(c.group.unit(count))
		p.gain(c.group)
		for _, n := range chosen {
			n.due = due
			d.write(n, &step)
		}
		d.out.Displacements = append(d.out.Displacements, step)
	}
}

// roomAt returns when others may be asked to leave for that many units of a class. The pools allow it, but
// nobody could be asked: those who would leave were asked a moment ago, or the claim waits for what ends by
// itself, or the plan asks as many as one may. It returns 0 and false if there are no such others.
// Complexity: as serve, where anything of this is so.
func (d *displacer) roomAt(c *class, count int64) (at cluster.Time, asks bool) {
	p, patience := d.p, d.patience(c)
	if !d.rests && patience <= d.now && p.churn.all == 0 {
		return 0, false
	}
	later := displacer{p: p, now: d.now, later: true, forming: d.forming, fruitless: newFruitless(), listed: -1}
	planned := p.churn
	p.churn = churn{}
	for _, moves := range []bool{false, true} {
		if len(later.done) == 0 {
			later.serve(c, moves, count)
		}
	}
	at = patience
	for len(later.done) > 0 {
		for _, u := range later.done[len(later.done)-1].victims {
			at, asks = max(at, u.rested(p.options.Hysteresis)), true
		}
		later.revert()
	}
	p.churn = planned
	if asks = asks && (at > d.now || planned.all > 0); !asks {
		return 0, false
	}
	return at, true
}

// maxReservation bounds how long hosts are kept for tasks that wait for others to end. At most so many
// HoldFor lie between the moments at which this ends: so a host is kept for at most twice that.
const maxReservation = 16

// reservedUntil returns how long a host is kept for a task that counts on others to end. It is as long as the
// task has waited, in powers of two of HoldFor, to the next multiple of that. So what is kept for many ends
// at the same time, and one plan looks for hosts for all of them anew.
func (p *Planner) reservedUntil(now, queued cluster.Time) cluster.Time {
	keep, waited := max(p.options.HoldFor, time.Second), now.Sub(queued)
	for 2*keep <= min(waited, maxReservation*p.options.HoldFor) {
		keep *= 2
	}
	n := cluster.Time(keep)
	return (now + 2*n - 1) / n * n
}

// roomiest holds room for the first count tasks that wait in a class. Each gets the host where it would fit
// if others ended by themselves, and which lacks least of what it asks for by then. If there are too few such
// hosts, it holds none. Hosts that are kept for somebody already are left out, unless the tasks start
// together. Complexity: hosts, and the logarithm of that for each; where rules count tasks, hosts for each.
func (d *displacer) roomiest(c *class, count int64) (chosen []*displacement) {
	d.p.inCheapest(c, count, func(h *host) (flowgraph.Cost, int64) {
		lack, places, _ := d.lack(c, h, count)
		return flowgraph.Cost(lack), places
	}, func(hosts []*host) bool {
		if hosts == nil {
			hosts = d.p.hosts.byIndex
		}
		if chosen = d.roomiestOf(c, hosts, count); int64(len(chosen)) == count {
			return true
		}
		for _, n := range chosen {
			d.withdraw(n.host, n.nominee)
		}
		chosen = nil
		return false
	})
	return chosen
}

// roomiestOf is roomiest for some of the hosts. If there are too few, it may hold room for fewer.
func (d *displacer) roomiestOf(c *class, of []*host, count int64) (chosen []*displacement) {
	task := c.row.task
	hosts, places := d.emptying(c, of, count)
	if c.row.rule == nil && places < count { // rules may let in more as others come
		return nil
	}
	for heap.Init(hosts); hosts.Len() > 0; {
		w, ok := c.queue.GetAt(len(chosen))
		if !ok {
			break
		}
		h := heap.Pop(hosts).(option).host
		empty := h.emptied()
		ports, ok := task.Ports.Pick(h.rec)
		if !ok || !empty.takes(h, task) {
			continue
		}
		gpus, _ := task.GPU.Pick(h.rec.GPUs, empty.gpus) // there are some
		n := c.displacementOn(h, w, cluster.Devices{GPUs: gpus, Ports: ports})
		d.nominate(h, n.nominee)
		d.precede(n)
		if chosen = append(chosen, n); int64(len(chosen)) == count {
			break
		}
		if c.row.rule != nil { // it may count who is elsewhere
			hosts, _ = d.emptying(c, of, count)
			heap.Init(hosts)
		} else if lack, _, ok := d.lack(c, h, count); ok {
			heap.Push(hosts, option{host: h, price: flowgraph.Cost(lack)})
		}
	}
	d.wait()
	return chosen
}

// emptying lists those of the hosts that a class could have if others ended, by what they lack. It counts the
// places there.
func (d *displacer) emptying(c *class, of []*host, limit int64) (hosts *options, places int64) {
	hosts = &options{}
	for _, h := range of {
		if lack, n, ok := d.lack(c, h, limit); ok {
			*hosts, places = append(*hosts, option{host: h, price: flowgraph.Cost(lack)}), places+n
		}
	}
	return hosts, places
}

// lack returns what the host lacks of what a task of the class asks for, in millionths of what it has in the
// dimension where that is most. It also returns for how many of them it would have room if it were emptied,
// at most limit. False if for none, or if the host is kept for others.
func (d *displacer) lack(c *class, h *host, limit int64) (lack, places int64, ok bool) {
	if h == nil || len(h.holds)+len(h.nominated) > 0 && !c.together() || !couldTake(c.row.judge(h)) {
		return 0, 0, false
	}
	if places = 1; c.together() {
		empty := h.emptied()
		places = empty.count(h, c.row.task, limit)
	}
	if places = c.row.task.Ports.Fit(h.rec, places); places == 0 { // these are not waited for
		return 0, 0, false
	}
	promise := d.promised(h)
	return dominant(shortage(c.row.task.Resources, promise.left()), h.rec.Capacity), places, true
}

// emptied returns what the host would have left if all were gone but two kinds: those for whom room is held,
// and services that nobody may ask to leave. Those services do not end by themselves.
func (h *host) emptied() space {
	s := space{amounts: h.rec.Capacity, gpus: slices.Repeat([]int32{cluster.WholeGPU}, len(h.rec.GPUs))}
	for _, u := range h.units {
		if u.job.Type.Service() && !u.group.displaceable() && !u.leaves() {
			s.take(u.spec, u.devices.GPUs, -1)
		}
	}
	for _, u := range h.holds {
		s.take(u.spec, u.hold.GPUs, -1)
	}
	for _, n := range h.nominated {
		s.take(n.spec, n.devices.GPUs, -1)
	}
	return s
}
