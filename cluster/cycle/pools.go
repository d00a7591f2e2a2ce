package cycle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// queue is the order in which a leaf's groups were handed to admission. By it, grants find back to their
// classes.
type queue struct {
	groups  []pool.Group
	classes []*class // nil where the entry is no class
	listed  int      // so many of them, while they are listed anew
	changed bool     // since admission was told of them
}

// admit asks the pools how much of what waits may be placed, and in which tier. Complexity: groups and classes.
func (p *Planner) admit(now cluster.Time) {
	for _, g := range p.groupOrder {
		g.placed, g.pledged, g.stopped = 0, 0, 0
	}
	p.churn = churn{}
	for _, u := range p.victims { // so far, those that were revoked
		u.group.stopped++
	}
	for _, c := range p.order {
		c.skipped, c.bides = false, 0
		c.hostless = (c.key.group.gated || len(p.limitsOn(c.group)) > 0) && p.isHostless(c)
		if c.vain {
			c.vain = !p.hasHost(c)
		}
		// A core waits for those of its own who still leave, or have a hold that ends: they come together.
		c.passed = c.vain || c.group.key.gang && (c.group.leaving > 0 || p.scattered[c.group.key.job])
	}
	p.queue()
	p.admission.SetCapacity(p.hosts.capacity())
	p.admission.SetSlack(p.hosts.slack())
	p.admission.Run(now)
	p.ledger = p.admission.Ledger()
	p.grant()
	p.status = p.admission.Status()
	p.moved = false
}

// letsIn admits anew where nobody waits for room, since pools have less or more now. It reports whether some
// class gets a new claim, for which others may be asked to leave, or whether one that has a host gets more
// than the last plan left of it.
func (p *Planner) letsIn(in *Input) bool {
	type admitted struct{ open, claims int64 }
	count := func(c *class) admitted {
		return admitted{c.open(), c.allClaims()}
	}
	before := make([]admitted, len(p.order))
	for i, c := range p.order {
		if before[i] = count(c); c.passed || in.KeepAll { // there is no host for what it claims
			before[i].claims = math.MaxInt64
		}
	}
	p.admit(in.Now)
	for i, c := range p.order {
		now := count(c)
		if now.claims > before[i].claims {
			return true
		}
		if now.open <= before[i].open {
			continue
		}
		if p.hasHost(c) {
			return true
		}
	}
	return false
}

// queue hands admission what runs and waits in every leaf where that has changed, as this plan has it so far.
// It uses lists again: admission reads none before it has all.
func (p *Planner) queue() {
	for _, path := range p.leaves {
		p.queues[path].listed = 0
	}
	for _, g := range p.groupOrder {
		q := g.queue
		if n := g.running + g.placed + g.pledged - g.stopped; n > 0 {
			entry := p.entry(g)
			entry.Running, entry.RunningUntil = n, g.until()
			q.add(&entry, nil)
		}
		if n := g.leaving + g.stopped; n+g.ending > 0 { // they will wait, and keep their claim meanwhile, or end
			entry := p.entry(g)
			entry.Waiting, entry.Leaving, entry.Ahead = n, n+g.ending, true
			q.add(&entry, nil)
		}
	}
	unbegun := p.unbegun()
	for _, c := range p.order {
		head, ok := c.queue.Min()
		if c.behind = ok && !c.group.key.gang && unbegun[c.group.key.job]; !ok {
			continue
		}
		entry := p.entry(c.group)
		entry.Waiting, entry.Queued, entry.Ahead, entry.Passed = c.waiting(), head.queued, head.ahead, c.passed
		entry.NoHost = c.hostless
		entry.Worth, entry.Head = int64(c.price), head.task
		if entry.Behind = c.behind; c.group.key.gang {
			entry.Core = c.waiting()
		}
		c.group.queue.add(&entry, c)
	}
	for _, path := range p.leaves {
		if q := p.queues[path]; q.end() {
			p.admission.SetQueue(path, q.groups)
		}
	}
}

// unbegun returns the gangs of whose core nobody has begun, but some wait or have room held. Only gangs count
// of which others wait, too.
func (p *Planner) unbegun() (jobs map[cluster.JobUID]bool) {
	for _, c := range p.order {
		if k := &c.key.group; !k.gang && k.job != 0 {
			if jobs == nil {
				jobs = map[cluster.JobUID]bool{}
			}
			jobs[k.job] = false
		}
	}
	if jobs == nil {
		return nil
	}
	note := func(g *group, n int64) {
		if !g.key.gang || n == 0 || g.placed > 0 || p.cores[g.key.job] != nil {
			return
		}
		if _, others := jobs[g.key.job]; others {
			jobs[g.key.job] = true
		}
	}
	for _, c := range p.order {
		note(c.group, c.waiting())
	}
	for _, g := range p.groupOrder {
		note(g, g.running+g.pledged)
	}
	return jobs
}

// grant takes in what was granted.
func (p *Planner) grant() {
	for _, path := range p.leaves {
		p.queues[path].take(p.admission.Grants(path))
	}
	p.bind()
}

// entry returns what admission sees of a group. How many tasks of a job may run, and which groups the job
// counts for, is what its present spec says. Tasks are counted together whichever version they run by.
func (p *Planner) entry(g *group) pool.Group {
	k, most, core := &g.key, int64(0), int64(0)
	var groups []string
	if k.gated {
		job := p.snap.Job(k.job)
		groups = job.Spec.Groups
		if most = int64(job.Spec.Limits.MaxRunning); most > 0 && !k.gang {
			core = p.coreOf(job)
		}
	}
	return pool.Group{
		Job: k.job, User: k.owner, Groups: groups, Priority: k.priority, Request: g.request,
		Preemptible: k.preemptible, Revocable: k.revocable, Controller: k.controller,
		MaxRunning: most, ForCore: core, MaxRunTime: k.maxRunTime,
	}
}

// coreOf returns how many tasks of the job's core, if it is a gang, have not ended.
func (p *Planner) coreOf(job *cluster.Job) (n int64) {
	if job.Spec.Gang == nil {
		return 0
	}
	for i := range job.Spec.Gang.Minimum {
		if t := p.snap.Task(cluster.MakeTaskKey(job.UID, i)); t != nil && !t.State.Terminal() {
			n++
		}
	}
	return n
}

// add lists one more entry. q is nil if the pool is no leaf: nobody is admitted there.
func (q *queue) add(entry *pool.Group, c *class) {
	if q == nil {
		return
	}
	switch i := q.listed; {
	case i == len(q.groups):
		q.groups, q.classes, q.changed = append(q.groups, *entry), append(q.classes, c), true
	case q.groups[i].Same(entry):
		q.classes[i] = c
	default:
		q.groups[i], q.classes[i], q.changed = *entry, c, true
	}
	q.listed++
}

// end ends the list. It reports whether the list differs from the last one.
func (q *queue) end() (changed bool) {
	if q.listed < len(q.groups) {
		q.groups, q.classes, q.changed = q.groups[:q.listed], q.classes[:q.listed], true
	}
	changed, q.changed = q.changed, false
	return changed
}

// take hands the grants back to the classes that they are for.
func (q *queue) take(grants []pool.Grant) {
	for i := range grants {
		if c := q.classes[i]; c != nil {
			c.left, c.refused, c.why = grants[i].Waiting, grants[i].Refused, grants[i].Why
			c.over = [cluster.NumTiers]int64{}
		}
	}
}

// passOn passes over classes that have no host, so that those next in their pools get what was granted to
// these. That is about claims that could not be met, slack that revocable tasks have no host for, and places
// where limits count who runs. It is also about what only borrows, where a limit keeps others out who have a
// host, or who may claim room.
//
// Classes that have room after all, since starts were made anew, are passed over no more. If a pool has a
// static reservation and somebody borrows in this plan, they have to wait for the next plan: together that
// may be more than others leave of the reservation.
//
// After half of the passes, all those are passed over together for whom no room can be made either. In the
// last pass, all are who have no host, so that those are reached who have one. If this plan gets no further,
// those for whom no room could be made are passed over from the beginning in the next plan. What a pool is
// entitled to is the same throughout a plan.
//
// It reports whether that changes anything; in the last pass, whether it does for those who have a host.
func (p *Planner) passOn(in *Input, out *Output, pass int) bool {
	many, last := pass >= maxPasses/2, pass == maxPasses-1
	passed, behind, back := false, false, false
	lent := p.admission.Static() && slices.ContainsFunc(out.Placements, func(s Placement) bool { return s.Tier == cluster.TierBorrowed })
	failed := map[kin]int32{} // the most urgent of those for whom no room could be made; for look-up
	for _, c := range p.order {
		if c.hostless && c.refused > 0 { // unless what it has to be beside starts in this plan
			if h, _ := p.best(c); h != nil && !lent {
				c.hostless, back = false, true
			}
		}
		if c.passed && c.refused > 0 && !c.group.key.gang {
			if h, _ := p.best(c); h != nil && !lent {
				c.passed, back = false, true
				continue
			}
			if c.row.anyOpen() { // since starts were made anew, and it rather waits
				p.wake(c)
			}
		}
		if (c.allClaims() > 0 || c.open() > 0 && (c.key.group.gated || c.key.group.revocable) || c.slackless()) && p.homeless(c) && !p.mayRecede(c, in, out) {
			if top, known := failed[c.kin()]; many && c.allClaims() > 0 && !c.group.key.gang && (!known || top < c.key.group.priority) {
				failed[c.kin()] = c.key.group.priority
			}
			c.passed, passed = true, true
			c.vain = c.bides == 0
		}
	}
	for _, c := range p.order {
		if top, known := failed[c.kin()]; known && c.key.group.priority <= top && c.refused > 0 && !c.group.key.gang && p.homeless(c) {
			c.passed, c.vain = true, true
		}
		behind = behind || !c.passed && c.refused+c.left[cluster.TierBorrowed] > 0
	}
	p.unfinished = p.unfinished || last && passed && behind
	if slices.ContainsFunc(p.order, p.keptOut) {
		for _, c := range p.order {
			if (c.open()+c.overall() > 0 || last && c.refused > 0) && p.homeless(c) {
				c.passed, back = true, true
			}
		}
	}
	for _, c := range p.vainlyFirst() {
		c.passed, back = true, true
	}
	if !back && !(passed && behind) {
		return false
	}
	p.queue()
	p.admission.Regrant()
	p.grant()
	return back || !last
}

// vainlyFirst returns classes without a claim to which limits keep room in vain. No host has room for them,
// nor would if what runs below those limits ended. Others ask for the room with whom their leaf stays within
// what it is entitled to. Complexity: classes below such limits times hosts, and all units.
func (p *Planner) vainlyFirst() (all []*class) {
	short := map[*limit][]space{} // what hosts would have left, by index; nil where nobody has asked
	for _, c := range p.order {
		if p.shutOut(c) {
			for _, l := range p.limitsOn(c.group) {
				short[l] = nil
			}
		}
	}
	if len(short) == 0 {
		return nil
	}
	for _, c := range p.order {
		first := c.open()+c.overall() > 0 || c.refused > 0 && c.why.Rule == pool.RuleLimit && !p.shutOut(c)
		if !first || c.allClaims() > 0 || !p.homeless(c) {
			continue
		}
		for _, l := range p.limitsOn(c.group) {
			spaces, is := short[l]
			if is && spaces == nil {
				spaces = p.without(l)
				short[l] = spaces
			}
			if is && !p.couldHouse(c, spaces) {
				all = append(all, c)
				break
			}
		}
	}
	return all
}

// without returns what hosts would have left if all that runs below the limit ended, by index.
func (p *Planner) without(l *limit) []space {
	spaces := make([]space, len(p.hosts.byIndex))
	for i, h := range p.hosts.byIndex {
		if h == nil {
			continue
		}
		spaces[i] = h.promise()
		for _, u := range h.units {
			if !u.leaves() && !u.job.Revocable && l.path.Covers(u.group.key.pool) {
				spaces[i].add(u, 1)
			}
		}
	}
	return spaces
}

// couldHouse reports whether a task of the class would have room in the spaces of hosts; all of a gang's
// tasks together.
func (p *Planner) couldHouse(c *class, spaces []space) bool {
	n := int64(1)
	if c.key.group.gang {
		n = c.waiting()
	}
	for i, h := range p.hosts.byIndex {
		if h != nil && couldTake(c.row.judge(h)) {
			n -= spaces[i].count(h, c.row.task, n)
		}
		if n <= 0 {
			return true
		}
	}
	return false
}

// kin are the classes of a pool that ask for the same. If nobody may be asked to leave for one of them,
// nobody may for one that is no more urgent.
type kin struct {
	pool        cluster.PoolPath
	row         *row
	preemptible bool
}

func (c *class) kin() kin { return kin{c.key.group.pool, c.row, c.key.group.preemptible} }

// slackless reports whether a limit counts who runs of the class, and the class finds no slack.
func (c *class) slackless() bool {
	return c.key.group.gated && (c.why.Rule == pool.RuleSlack || c.why.Rule == pool.RuleRevocable)
}

// homeless reports whether the class has no host for what was let in of it, and was not passed over yet.
func (p *Planner) homeless(c *class) bool {
	return !c.passed && (c.skipped || !p.hasHost(c))
}

// hasHost reports whether a host has room for a task of the class. If its tasks come together, hosts must
// have room for all of them.
func (p *Planner) hasHost(c *class) bool {
	h, _ := p.best(c)
	return h != nil && (!c.together() || p.placesAtOnce(c, nil) >= c.waiting())
}

// isHostless reports whether tasks of the class could start on no host, whoever were asked to leave it. As
// things are, the class cannot claim anything. Complexity: hosts, where that is so.
func (p *Planner) isHostless(c *class) bool {
	p.rows.refresh(c.row)
	if c.row.anyOpen() || c.row.rule.unbegun() {
		return false
	}
	return !slices.ContainsFunc(p.hosts.byIndex, func(h *host) bool { return couldTake(c.row.judge(h)) })
}

// keptOut reports whether no task of the class is let in although there is a host for one. Revocable tasks
// are left to slack.
func (p *Planner) keptOut(c *class) bool {
	if c.refused == 0 || c.open() > 0 || c.passed || c.skipped || c.key.group.revocable {
		return false
	}
	return p.hasHost(c)
}

// shutOut reports whether a limit keeps tasks of the class out with which its leaf would stay within what it
// is entitled to.
func (p *Planner) shutOut(c *class) bool {
	if c.refused == 0 || c.passed || c.skipped || len(p.limitsOn(c.group)) == 0 || c.why.Rule != pool.RuleLimit && c.why.Rule != pool.RuleHead {
		return false
	}
	n := c.allClaims() + 1
	if c.key.group.gang {
		n = c.waiting()
	}
	return p.ledger.Beyond(c.group.unit(n)) != c.key.group.pool
}

// seePools reads the tree of pools.
func (p *Planner) seePools(snap *cluster.Snapshot) {
	var all []*cluster.Pool
	p.leaves, p.queues, p.calm = nil, map[cluster.PoolPath]*queue{}, map[cluster.PoolPath]uint32{}
	for q := range snap.Pools() {
		all = append(all, q)
		if most := q.Limits.PreemptedPerCycle; most != nil {
			p.calm[q.Path] = *most
		}
		if snap.IsLeaf(q.Path) {
			p.leaves = append(p.leaves, q.Path)
			p.queues[q.Path] = &queue{}
		}
	}
	p.seeLimits(all)
	p.admission = pool.NewAdmission(all, p.hosts.capacity())
	p.status = p.admission.Status()
}

// trade shares out the tiers that the pools granted to tasks of one leaf, priority and request. Admission can
// only tell these apart by age; trade gives the tiers to those whose waiting costs most by the model. What
// each tier takes of the pool stays the same.
func (p *Planner) trade() {
	m := &p.markets
	clear(m.of)
	m.all = m.all[:0]
	var last peers
	at := -1 // the market of the last one, as it is mostly that of the next
	for _, c := range p.order {
		k := &c.key.group
		if c.open() == 0 && c.refused == 0 || k.gang || k.job != 0 || k.owner != "" || c.passed {
			continue
		}
		who := peers{k.pool, k.priority, k.fixed, k.named, [4]bool{c.key.ahead, k.preemptible, k.revocable, k.controller}, k.maxRunTime}
		if at < 0 || who != last {
			last, at = who, m.at(who)
		}
		m.all[at] = append(m.all[at], c)
	}
	for _, classes := range m.all {
		if len(classes) > 1 {
			deal(classes)
		}
	}
}

// peers are the classes that admission cannot tell apart but by age.
type peers struct {
	pool     cluster.PoolPath
	priority int32
	fixed    [cluster.NumDimensions]int64
	named    string
	traits   [4]bool
	within   time.Duration // what ends in time may go where others may not
}

// markets are the peers of one trade, in the order of their first classes. It is scratch that is used again.
type markets struct {
	of  map[peers]int32
	all [][]*class
}

// at returns the index of a market.
func (m *markets) at(who peers) int {
	if m.of == nil {
		m.of = map[peers]int32{}
	}
	i, known := m.of[who]
	if !known {
		i = int32(len(m.all))
		m.of[who] = i
		m.all = slices.Grow(m.all, 1)[:i+1]
		m.all[i] = m.all[i][:0]
	}
	return int(i)
}

// deal gives what the classes have of each tier together to the dearest classes first.
func deal(classes []*class) {
	var total [cluster.NumTiers]int64
	for _, c := range classes {
		for t, left := range c.left {
			total[t] += left
		}
	}
	if total == [cluster.NumTiers]int64{} {
		return
	}
	type bidder struct {
		class  *class
		price  flowgraph.Cost
		queued cluster.Time
		task   cluster.TaskKey
	}
	bidders := make([]bidder, len(classes))
	for i, c := range classes {
		head, _ := c.queue.Min()
		bidders[i] = bidder{c, c.price, head.queued, head.task}
		c.refused += c.open()
	}
	slices.SortFunc(bidders, func(a, b bidder) int {
		return cmp.Or(cmp.Compare(b.price, a.price), cmp.Compare(a.queued, b.queued), cmp.Compare(a.task, b.task))
	})
	for i := range bidders {
		c := bidders[i].class
		for t := range c.left {
			n := min(c.refused, total[t])
			c.left[t] = n
			c.refused -= n
			total[t] -= n
		}
	}
}
