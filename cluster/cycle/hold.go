package cycle

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// space is what a host has left, or is going to have: amounts, and thousandths of each device.
type space struct {
	amounts cluster.Resources // as if nobody there were revocable
	over    cluster.Resources // what revocable tasks hold beyond the slack; negative where they hold less
	gpus    []int32
}

// left returns the amounts that are left.
func (s *space) left() cluster.Resources {
	if s.over.IsZero() {
		return s.amounts
	}
	return s.amounts.Sub(s.over.Positive())
}

// promise returns what the host will have left when all who were asked to leave it are gone and all who have
// room held there have come. Complexity: the units of the host.
func (h *host) promise() space {
	s := h.prospect()
	for _, u := range h.units {
		if u.victim {
			s.add(u, 1)
		}
	}
	for _, n := range h.nominated {
		s.take(n.spec, n.devices.GPUs, -1)
	}
	return s
}

// promised is promise, kept as long as nothing changes on the host. The caller must not change it.
func (d *displacer) promised(h *host) space {
	if now := d.p.hosts.stamps[h.index]; h.promised != now {
		h.promised, h.promises = now, h.promise()
	}
	return h.promises
}

// prospect is promise without what this plan displaces.
func (h *host) prospect() space {
	s := space{h.rec.Capacity.Sub(h.rec.Allocated), h.rec.Lent.Sub(h.rec.Lendable()), slices.Clone(h.rec.GPUFree)}
	for _, u := range h.units {
		if u.state.Vacating() {
			s.add(u, 1)
		}
	}
	for _, u := range h.holds {
		s.take(u.spec, u.hold.GPUs, -1)
	}
	return s
}

// become makes the space equal to another one. They share nothing that changes.
func (s *space) become(o space) {
	s.amounts, s.over, s.gpus = o.amounts, o.over, append(s.gpus[:0], o.gpus...)
}

// add gives back what a unit has on the host, or takes it again.
func (s *space) add(u *unit, sign int32) {
	switch {
	case !u.job.Revocable:
		s.take(u.spec, u.devices.GPUs, sign)
	case sign > 0:
		s.over = s.over.Sub(u.spec.Resources)
	default:
		s.over = s.over.Add(u.spec.Resources)
	}
}

func (s *space) take(spec *cluster.TaskSpec, devices []uint16, sign int32) {
	if sign > 0 {
		s.amounts = s.amounts.Add(spec.Resources)
	} else {
		s.amounts = s.amounts.Sub(spec.Resources)
	}
	for _, i := range devices {
		if int(i) < len(s.gpus) {
			s.gpus[i] += sign * spec.GPU.Takes()
		}
	}
}

// takes reports whether one task of the spec fits.
func (s *space) takes(h *host, spec *cluster.TaskSpec) bool {
	return spec.Resources.Fits(s.left()) && spec.GPU.Fit(h.rec.GPUs, s.gpus, 1) > 0
}

// count returns how many tasks of the spec fit, at most limit.
func (s *space) count(h *host, spec *cluster.TaskSpec, limit int64) int64 {
	n := spec.Resources.Count(s.left(), limit)
	return min(n, spec.GPU.Fit(h.rec.GPUs, s.gpus, n))
}

// short reports whether the space is overdrawn in something that the unit has on the host.
func (s *space) short(u *unit) bool {
	left := s.left()
	for d, v := range u.spec.Resources.Fixed {
		if v > 0 && left.Fixed[d] < 0 {
			return true
		}
	}
	for _, a := range u.spec.Resources.Named {
		if left.Amount(a.Name) < 0 {
			return true
		}
	}
	return slices.ContainsFunc(u.devices.GPUs, func(i uint16) bool { return int(i) < len(s.gpus) && s.gpus[i] < 0 })
}

// leaves reports whether the unit has been asked to leave its host, or is asked by this plan.
func (u *unit) leaves() bool { return u.victim || u.state.Vacating() }

// withhold brings what the host keeps from others in line with its promise: that is what is free now and
// promised to somebody. Placements are carried out first, so none counts on a displacement of the same plan.
func (p *Planner) withhold(h *host) {
	rec := *h.rec
	promise, prospect := h.promise(), h.prospect()
	rec.Withheld = rec.Free().Sub(promise.left()).Positive()
	rec.Withheld = rec.Withheld.Add(rec.Free().Sub(prospect.left()).Sub(rec.Withheld).Positive())
	rec.GPUWithheld = nil
	for i, left := range promise.gpus {
		promise.gpus[i] = max(0, rec.GPUFree[i]-min(left, prospect.gpus[i]))
	}
	if slices.Max(append(promise.gpus, 0)) > 0 {
		rec.GPUWithheld = promise.gpus
	}
	rec.PortsWithheld = nil
	for _, u := range h.holds {
		rec.PortsWithheld = append(rec.PortsWithheld, u.hold.Ports...)
	}
	for _, n := range h.nominated {
		rec.PortsWithheld = append(rec.PortsWithheld, n.devices.Ports...)
	}
	slices.Sort(rec.PortsWithheld)
	p.alter(h, &rec)
}

// alter changes a host as this plan has it. The next one compares it with what has come of that.
func (p *Planner) alter(h *host, rec *cluster.Host) {
	p.planned.Hosts = append(p.planned.Hosts, h.id)
	p.hosts.set(h, rec)
}

// settle starts the tasks whose room has become free, and a gang when room is free for all of it. It ends
// holds that nothing can come of.
func (p *Planner) settle(now cluster.Time, out *Output) {
	clear(p.scattered)
	clear(p.arrived)
	var waiting []*unit
	for _, u := range p.held { // sorted below
		if u.state == cluster.TaskReserved {
			waiting = append(waiting, u)
		}
	}
	slices.SortFunc(waiting, func(a, b *unit) int { return cmp.Compare(a.task, b.task) })
	for len(waiting) > 0 {
		n := 1
		if g := &waiting[0].group.key; g.gang {
			for n < len(waiting) && waiting[n].group.key.gang && waiting[n].task.Job() == g.job {
				n++
			}
		}
		p.settleTogether(now, waiting[:n], out)
		waiting = waiting[n:]
	}
}

func (p *Planner) settleTogether(now cluster.Time, units []*unit, out *Output) {
	leaves, hopeless := p.others(units[0])
	free := !leaves && p.mayArrive(units)
	there := map[*host]*cluster.Host{} // with those who arrive before the next one
	units, come := p.inTurn(units)
	for i, u := range units {
		h := p.hosts.byID[u.hold.Host]
		switch {
		case h == nil || h.rec.State() != cluster.HostUp || now >= u.hold.Until:
			hopeless = true
		case u.row.needs&^h.rec.Capabilities != 0, come >= 0 && i >= come, come < 0 && !p.allows(u, h):
			hopeless, free = hopeless || u.hold.Until != cluster.Forever, false // who may go nowhere else goes on waiting
		case u.rests:
			free = false
		case free:
			rec := cmp.Or(there[h], h.rec)
			devices, fits := u.land(rec)
			if free = fits; fits && len(units) > 1 {
				there[h] = u.spec.Bind(rec, devices)
			}
		}
	}
	for _, u := range units {
		switch {
		case hopeless:
			out.Ended = append(out.Ended, u.task)
			p.planned.Tasks = append(p.planned.Tasks, u.task)
			p.release(u)
			p.dirty = true
			for _, l := range p.limitsOn(u.group) {
				l.ended = l.ended.Add(u.spec.Resources)
			}
			p.scattered[u.task.Job()] = true
		case free:
			p.arrive(u, out)
		}
	}
}

// expire has the planner called again when the time of a hold is over. Complexity: holds.
func (p *Planner) expire() {
	for _, u := range p.held { // the earliest: the order does not matter
		if u.expires() {
			p.alarm(u.hold.Until)
		}
	}
}

// expires reports whether the unit still waits for the room that is held for it, and that is not held for
// ever.
func (u *unit) expires() bool {
	return u.state == cluster.TaskReserved && !u.settled && u.hold.Until != cluster.Forever
}

// others tells about the other members of the unit's core, if it is in one. leave: some are leaving or back
// off, so those with room wait for them. wait: some wait without room, so room is sought for all of them.
func (p *Planner) others(u *unit) (leave, wait bool) {
	if !u.group.key.gang {
		return false, false
	}
	for i := range u.job.Gang.Minimum {
		k := cluster.MakeTaskKey(u.task.Job(), i)
		if _, waits := p.waiting[k]; waits {
			return false, true
		}
		other := p.units.Get(uint64(k))
		leave = leave || other != nil && (other.leaves() || other.rests)
	}
	return leave, false
}

// allows reports whether the rules of the unit allow it on the host now, whoever came meanwhile. Room is held
// for it, there or elsewhere.
func (p *Planner) allows(u *unit, h *host) bool {
	r := p.rows.get(u.row, u.spec, u.wishes)
	defer p.rows.release(r)
	if r.rule == nil {
		return h.rec.Admits()
	}
	mark := len(p.labels.plan)
	p.labels.planned(u.set, p.hosts.byID[u.hold.Host], gone) // it counts as held there itself
	defer func() { p.labels.takeBack(mark) }()
	return r.lets(h)
}

// lets reports whether the rule of the row lets a unit that has room held on the host come there.
func (r *row) lets(h *host) bool {
	return startIn(r.firsts(), []*host{h}, func([]*host) bool { // where nobody else has room held it begins there
		return r.rule.holds(h.rec, 0) && r.rule.admitted(h.rec)
	})
}

// inTurn puts members of a gang into an order in which they may come to their hosts one after the other. It
// returns how many of them may. That is for rules that bound how much more one domain has than another. For
// others, and where a host is gone, it returns −1.
func (p *Planner) inTurn(units []*unit) (order []*unit, come int) {
	r := p.rows.get(units[0].row, units[0].spec, units[0].wishes)
	defer p.rows.release(r)
	at := func(u *unit) *host { return p.hosts.byID[u.hold.Host] }
	if !units[0].group.key.gang || !r.rule.balances() || slices.ContainsFunc(units, func(u *unit) bool { return at(u) == nil }) {
		return units, -1
	}
	mark := len(p.labels.plan)
	defer func() { p.labels.takeBack(mark) }()
	for _, u := range units {
		p.labels.planned(u.set, at(u), gone)
	}
	order = slices.Clone(units)
	for before := -1; come != before; { // again where places open as others fill
		before = come
		for i := come; i < len(order); i++ {
			if u := order[i]; r.lets(at(u)) {
				p.labels.planned(u.set, at(u), comes)
				order[i], order[come] = order[come], u
				come++
			}
		}
	}
	return order, come
}

// land picks the devices that a held task gets on its host. They are those that are held for it. If these are
// not free, or would not do on the machine as it is now, it gets others that are held for nobody.
func (u *unit) land(rec *cluster.Host) (cluster.Devices, bool) {
	if !u.spec.Resources.Fits(rec.Free()) {
		return cluster.Devices{}, false
	}
	bare := *rec // what is held for it is not kept from it
	bare.Withheld = cluster.Resources{}
	if own := (cluster.PortRequest{Numbers: u.hold.Ports}); !own.IsZero() {
		if bare.PortsWithheld = nil; own.Fit(&bare, 1) == 0 {
			return cluster.Devices{}, false
		}
	}
	bare.GPUWithheld = slices.Clone(rec.GPUWithheld)
	own := u.couldHave(rec)
	for _, i := range u.hold.GPUs {
		if int(i) < len(bare.GPUWithheld) {
			bare.GPUWithheld[i] = 0
		}
		own = own && rec.GPUFree[i] >= u.spec.GPU.Takes()
	}
	devices, ok := u.spec.Pick(&bare)
	if own {
		devices.GPUs = u.hold.GPUs
	}
	if len(u.hold.Ports) > 0 {
		devices.Ports = u.hold.Ports
	}
	return devices, ok
}

// couldHave reports whether the devices that are held for the unit would do if they were free.
func (u *unit) couldHave(rec *cluster.Host) bool {
	one := cluster.GPURequest{Count: 1, Models: u.spec.GPU.Models}
	return !slices.ContainsFunc(u.hold.GPUs, func(i uint16) bool {
		return int(i) >= len(rec.GPUs) || one.Fit(rec.GPUs[i:i+1], []int32{cluster.WholeGPU}, 1) == 0
	})
}

// arrive places a held task on its host.
func (p *Planner) arrive(u *unit, out *Output) {
	h := p.hosts.byID[u.hold.Host]
	if devices, ok := u.land(h.rec); ok { // otherwise ports went meanwhile: the next cycle sees
		p.startHeld(u, h, devices, out)
	}
}

// rehouse looks at tasks for which a host is kept until others end there, while nobody is leaving it. It
// starts them on other hosts that have room for them by now. It reports whether some start and others do not:
// what was kept for the former may then do for the latter in the next plan. Complexity: the holds, and the
// open hosts of such tasks.
func (p *Planner) rehouse(out *Output) bool {
	p.yielded = false
	kept := p.keptFor()
	started := 0
	for _, u := range kept {
		if !p.mayArrive([]*unit{u}) {
			continue
		}
		if to, _ := p.otherRoom(u, p.hosts.byID[u.hold.Host], func(_ *rule, h *host) bool { return p.allows(u, h) && !p.yields(u, h) }); to != nil {
			p.startHeld(u, to.host, to.devices, out)
			started++
		}
	}
	return 0 < started && started < len(kept)
}

// keptFor returns the units for which a host is kept until others end there, and which may start elsewhere.
// The most urgent come first. Complexity: holds.
func (p *Planner) keptFor() (kept []*unit) {
	for _, u := range p.held { // sorted below
		k := &u.group.key
		if !u.expires() || u.rests || k.gang || k.revocable ||
			k.jobType == cluster.Stateful || k.jobType == cluster.Daemon {
			continue
		}
		if h := p.hosts.byID[u.hold.Host]; !slices.ContainsFunc(h.units, (*unit).leaves) {
			kept = append(kept, u)
		}
	}
	slices.SortFunc(kept, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(b.group.key.priority, a.group.key.priority), cmp.Compare(a.task, b.task))
	})
	return kept
}

// yields reports whether the unit leaves the host to somebody more urgent who waits. The host has room for
// it. When the other one waits no longer, there may be room for both.
func (p *Planner) yields(u *unit, h *host) bool {
	yields := slices.ContainsFunc(p.order, func(c *class) bool {
		return c.group.key.priority > u.group.key.priority && c.waiting() > 0 && c.row.judge(h) == open
	})
	p.yielded = p.yielded || yields
	return yields
}

// startHeld starts a held task on a host. That need not be the one that is kept for it.
func (p *Planner) startHeld(u *unit, h *host, devices cluster.Devices, out *Output) {
	var gang cluster.JobUID
	if u.group.key.gang {
		gang = u.task.Job()
	}
	run := p.snap.Job(u.task.Job()).NextRun(p.snap.Task(u.task))
	out.Placements = append(out.Placements, Placement{Task: u.task, Run: run, Host: h.id, Devices: devices, Gang: gang})
	p.planned.Tasks = append(p.planned.Tasks, u.task)
	p.note(h, u.task, u.group)
	p.use(u.group, 1)
	p.arrived[u.task.Job()]++
	p.noteStart(u.group)
	p.welcome(h, u.row.work, 1)
	p.alter(h, u.spec.Bind(h.rec, devices))
	p.labels.planned(u.set, h, comes)
	p.release(u)
}

// release ends what is held for the unit. If that is not carried out, the next cycle finds the unit as it
// was.
func (p *Planner) release(u *unit) {
	u.settled = true
	if h := p.hosts.byID[u.hold.Host]; h != nil {
		p.labels.planned(u.set, h, gone)
		h.holds = without(h.holds, u)
		p.withhold(h)
	}
}
