package bench

import (
	"math"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// plan is what the next Apply brings into the network.
type plan struct {
	newJobs, newGroups   []int32
	deadJobs, deadGroups []int32
	removed              []flowgraph.ArcID // arcs whose ids may come back as other arcs
	groups               []int32           // with another count
	grown                []int32           // groups with another price of waiting
	stays                []pair
	hosts                []int32

	// The verbs, and what they need.
	repriced  []flowgraph.ArcID // arcs to get a price, and the prices
	prices    []flowgraph.Cost
	cut       []flowgraph.ArcID // arcs to be removed by themselves
	deadNodes []flowgraph.NodeID
	bounds    []bound
	supplies  []supply
	nodes     []newNode
	arcs      []flowgraph.Arc // of new nodes, one node after the other
	toNew     []toNew
	stayArcs  []flowgraph.Arc // arcs of stays, and the stays
	newStays  []pair

	// What the verbs return: nodes, and their arcs, and those of stays.
	added        []flowgraph.NodeID
	ids, stayIDs []flowgraph.ArcID
}

type bound struct {
	arc   flowgraph.ArcID
	upper int64
}

type supply struct {
	node   flowgraph.NodeID
	supply int64
}

// newNode is a node to be added with so many arcs out.
type newNode struct {
	meaning
	supply int64
	arcs   int32
}

// toNew tells that an arc, by its position, leads to a new node, by its.
type toNew struct {
	arc  int32
	node flowgraph.NodeID
}

func (p *plan) bound(a flowgraph.ArcID, upper int64) { p.bounds = append(p.bounds, bound{a, upper}) }

func (p *plan) reprice(a flowgraph.ArcID, price flowgraph.Cost) {
	p.repriced, p.prices = append(p.repriced, a), append(p.prices, price)
}

func (p *plan) reset() {
	*p = plan{
		newJobs: p.newJobs[:0], newGroups: p.newGroups[:0], deadJobs: p.deadJobs[:0], deadGroups: p.deadGroups[:0],
		removed: p.removed[:0], groups: p.groups[:0], grown: p.grown[:0], stays: p.stays[:0], hosts: p.hosts[:0],
		repriced: p.repriced[:0], prices: p.prices[:0], cut: p.cut[:0], deadNodes: p.deadNodes[:0], bounds: p.bounds[:0],
		supplies: p.supplies[:0], nodes: p.nodes[:0], arcs: p.arcs[:0], toNew: p.toNew[:0], stayArcs: p.stayArcs[:0],
		newStays: p.newStays[:0], added: p.added[:0], ids: p.ids[:0], stayIDs: p.stayIDs[:0],
	}
}

// Plan decides what happens before the next solve. Placements were planned by
// Absorb.
func (c *Cluster) Plan() {
	c.cycle++
	churn := c.amount(c.w.Churn * float64(c.w.Tasks()))
	finished := c.finish(churn)
	if c.w.Growth > 0 {
		for _, g := range c.waiting.list {
			c.groups[g].growth += flowgraph.Cost(c.w.Growth)
			c.plan.grown = append(c.plan.grown, g)
		}
	}
	c.failHosts()
	if every := c.w.Huge.Every; c.w.Huge.Tasks > 0 {
		switch c.cycle % every {
		case 0:
			c.hugeJob = c.newJob(true)
			c.addTasks(c.hugeJob, c.w.Huge.Tasks)
		case every / 2:
			c.withdraw()
		}
	}
	c.arrive(finished)
	c.prepare()
}

// Counted tells whether the cycle planned last belongs into summaries.
func (c *Cluster) Counted() bool {
	return c.w.Huge.Tasks == 0 || c.cycle%c.w.Huge.Every == 0
}

// amount rounds up or down at random, so that the mean is x.
func (c *Cluster) amount(x float64) int { return int(math.Floor(x + c.rng.Float64())) }

// arrive adds tasks: to new jobs while some are missing, else to jobs that recur.
func (c *Cluster) arrive(tasks int) {
	wanted := (c.w.Tasks() + c.w.TasksPerJob - 1) / c.w.TasksPerJob
	for tasks > 0 {
		k := min(tasks, c.w.TasksPerJob)
		tasks -= k
		if c.liveJobs < wanted {
			c.addTasks(c.newJob(false), k)
			continue
		}
		j := int32(c.rng.IntN(len(c.jobs)))
		for c.jobs[j].tasks == 0 || c.jobs[j].huge {
			j = (j + 1) % int32(len(c.jobs))
		}
		c.addTasks(j, k)
	}
}

func (c *Cluster) newJob(huge bool) int32 {
	var j int32
	if k := len(c.freeJobs); k > 0 {
		j = c.freeJobs[k-1]
		c.freeJobs = c.freeJobs[:k-1]
	} else {
		j = int32(len(c.jobs))
		c.jobs = append(c.jobs, job{})
	}
	r := job{node: flowgraph.NoNode, wait: c.draw(waitBand), huge: huge}
	if c.w.Shape == Patterns {
		for range c.w.PatternsPerJob {
			r.patterns = append(r.patterns, c.newPattern())
		}
	}
	c.jobs[j] = r
	if !huge {
		c.liveJobs++
	}
	c.plan.newJobs = append(c.plan.newJobs, j)
	return j
}

func (c *Cluster) addTasks(j int32, tasks int) {
	r := &c.jobs[j]
	r.tasks += int32(tasks)
	c.total += int64(tasks)
	for i := range tasks {
		p := &pattern{}
		if c.w.Shape == Patterns {
			p = r.patterns[i%len(r.patterns)]
		} else {
			p = c.newPattern()
		}
		g := p.class
		if !c.w.Merge || g < 0 {
			g = c.newGroup(j, p)
		}
		c.groups[g].count++
		if !r.huge {
			c.tasks = append(c.tasks, g)
		}
	}
	if c.w.Merge {
		for _, p := range r.patterns {
			if p.class >= 0 && c.groups[p.class].node != flowgraph.NoNode {
				c.plan.groups = append(c.plan.groups, p.class)
			}
		}
	}
}

func (c *Cluster) newGroup(j int32, p *pattern) int32 {
	var g int32
	if k := len(c.freeGroups); k > 0 {
		g = c.freeGroups[k-1]
		c.freeGroups = c.freeGroups[:k-1]
	} else {
		g = int32(len(c.groups))
		c.groups = append(c.groups, group{})
	}
	r := &c.groups[g]
	*r = group{node: flowgraph.NoNode, job: j, pattern: p, ways: r.ways[:0], waits: r.waits[:0], stays: r.stays[:0]}
	if c.w.Merge {
		p.class = g
	}
	c.plan.newGroups = append(c.plan.newGroups, g)
	return g
}

// finish ends running tasks drawn at random and returns how many.
func (c *Cluster) finish(tasks int) int {
	const tries = 20
	done := 0
	for range tasks * tries {
		if done == tasks || len(c.tasks) == 0 {
			break
		}
		i := c.rng.IntN(len(c.tasks))
		g := c.tasks[i]
		if !c.finishOne(g) {
			continue
		}
		c.tasks[i] = c.tasks[len(c.tasks)-1]
		c.tasks = c.tasks[:len(c.tasks)-1]
		c.remove(g, 1)
		done++
	}
	return done
}

// finishOne frees the place of one running task of g, if there is one.
func (c *Cluster) finishOne(g int32) bool {
	r := &c.groups[g]
	if c.w.Hysteresis == 0 {
		return r.count > r.waiting
	}
	units := int32(0)
	for _, s := range r.stays {
		units += s.units
	}
	if units == 0 {
		return false
	}
	k := int32(c.rng.IntN(int(units)))
	for i := range r.stays {
		if s := &r.stays[i]; k < s.units {
			s.units--
			c.plan.stays = append(c.plan.stays, pair{g, s.host})
			break
		} else {
			k -= s.units
		}
	}
	return true
}

// remove takes tasks out of g, and g and its job away when they are empty.
func (c *Cluster) remove(g, tasks int32) {
	r := &c.groups[g]
	r.count -= tasks
	c.total -= int64(tasks)
	j := &c.jobs[r.job]
	j.tasks -= tasks
	if r.count > 0 {
		c.plan.groups = append(c.plan.groups, g)
		return
	}
	c.plan.deadGroups = append(c.plan.deadGroups, g)
	c.plan.deadNodes = append(c.plan.deadNodes, r.node)
	for i, a := range r.ways {
		c.plan.removed = append(c.plan.removed, a)
		if r.pattern.ways[i].place >= int32(len(c.hosts)) {
			c.loose.put(int32(a), false)
		}
	}
	c.plan.removed = append(c.plan.removed, r.waits...)
	for _, s := range r.stays {
		if s.own && s.arc != flowgraph.NoArc {
			c.plan.removed = append(c.plan.removed, s.arc)
		}
	}
	r.waiting = 0
	c.waiting.put(g, false)
	r.pattern.class = -1
	if j.tasks == 0 {
		c.plan.deadJobs = append(c.plan.deadJobs, r.job)
		if !j.huge {
			c.liveJobs--
		}
	}
}

// withdraw removes the huge job with all its tasks.
func (c *Cluster) withdraw() {
	if c.hugeJob < 0 {
		return
	}
	for g := range c.groups {
		if r := &c.groups[g]; r.count > 0 && r.job == c.hugeJob {
			c.remove(int32(g), r.count)
		}
	}
	c.hugeJob = -1
}

// failHosts lets hosts return after a while and others fail. A host that is gone
// keeps its node; its way to the sink is closed.
func (c *Cluster) failHosts() {
	for len(c.downs) > 0 && c.downs[0].since+downFor <= c.cycle {
		h := c.downs[0].host
		c.downs = c.downs[1:]
		c.hosts[h].down = false
		c.plan.hosts = append(c.plan.hosts, h)
	}
	for range c.amount(c.w.Failures * float64(len(c.hosts)) / 2) {
		h := int32(c.rng.IntN(len(c.hosts)))
		if !c.hosts[h].down {
			c.hosts[h].down = true
			c.downs = append(c.downs, outage{h, c.cycle})
			c.plan.hosts = append(c.plan.hosts, h)
		}
	}
}

// settle gives running tasks their places before the first solve: each task
// with the same chance, half of them on a preferred host that has room.
func (c *Cluster) settle() {
	free := make([]int32, len(c.hosts))
	slots := make([]int32, 0, len(c.hosts)*c.w.Slots)
	for h := range free {
		free[h] = int32(c.w.Slots)
		for range c.w.Slots {
			slots = append(slots, int32(h))
		}
	}
	c.rng.Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
	chance := min(1, float64(len(slots))/float64(len(c.tasks)))
	for _, g := range c.tasks {
		if c.rng.Float64() >= chance {
			continue
		}
		ways := c.groups[g].pattern.ways
		h := int32(-1)
		if c.w.Preferences > 0 && c.rng.IntN(2) == 0 {
			h = ways[c.rng.IntN(c.w.Preferences)].place
		}
		for h < 0 || free[h] == 0 {
			if len(slots) == 0 {
				return
			}
			h = slots[len(slots)-1]
			slots = slots[:len(slots)-1]
		}
		free[h]--
		c.setStay(g, h, c.stayUnits(g, h)+1)
	}
}
