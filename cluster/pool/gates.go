package pool

import (
	"cmp"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// gates keep back jobs and controller tasks that exceed the limits of a pool. A limit holds for the pool and
// all below it. So waiting jobs are let in by their ranks across leaves.
type gates struct {
	limited []int32           // pools with such a limit
	above   map[int32][]int32 // by leaf: the limited pools from itself upwards; leaves without any are not in it
	count   map[int32]*tally
}

// tally counts what runs in a limited pool and below it.
type tally struct {
	jobs          uint32
	users, groups map[string]uint32
	controllers   []int64 // room that is left for controller tasks
	all           []int64 // room for them where none runs
}

// init finds the limited pools of a tree.
func (s *gates) init(t *tree) {
	s.limited, s.above = nil, map[int32][]int32{}
	for i := range t.nodes {
		l := &t.nodes[i].pool.Limits
		if l.BoundsRunning() || l.ControllerPercent != nil {
			s.limited = append(s.limited, int32(i))
		}
	}
	for i := range t.nodes {
		if len(t.nodes[i].children) > 0 {
			continue
		}
		for p := int32(i); p >= 0; p = t.nodes[p].parent {
			if slices.Contains(s.limited, p) {
				s.above[int32(i)] = append(s.above[int32(i)], p)
			}
		}
	}
}

// openQueues sets how many waiting tasks of each group are let in by the limits on jobs, and the cores of
// gangs. It does so for queues that are to be admitted again. Complexity: their groups, with a logarithmic
// factor.
func (a *Admission) openQueues() {
	for _, q := range a.queues {
		if !q.anew {
			continue
		}
		q.valid = false
		n := len(q.groups)
		q.open, q.shut = slices.Grow(q.open[:0], n)[:n], slices.Grow(q.shut[:0], n)[:n]
		clear(q.open)
		clear(q.shut)
		if _, limited := a.gates.above[q.node]; !limited {
			for i := range q.groups {
				q.open[i] = q.groups[i].Waiting
			}
			a.boundJobs(q)
		}
	}
	if len(a.gates.limited) > 0 {
		a.openLimited()
	}
	for _, q := range a.queues {
		for i := range q.groups {
			if q.anew && q.groups[i].Behind {
				q.open[i], q.shut[i] = 0, Binding{Rule: RuleGang, Pool: a.tree.nodes[q.node].pool.Path}
			}
		}
	}
}

// inVain reports whether no waiting task of the group could start, whoever ended in its pool. Either no host
// is fit for it; or it asks for more than a limit, all slack, or all that controllers may have; or it may not
// be preempted and asks for more than the reservation. Where limits count what runs, such a group comes last:
// it would keep the others out for nothing. Complexity: the pools above.
func (a *Admission) inVain(q *queue, g *Group) bool {
	if g.Passed || g.NoHost {
		return true
	}
	unit := a.tree.vector(g.Request, nil)
	for d := range unit {
		unit[d] = times(unit[d], max(1, g.Core))
	}
	tree := a.tree
	if g.Revocable {
		if tree = a.lending; lacking(unit, tree.nodes[0].entitled) >= 0 {
			return true
		}
	}
	for i := q.node; i >= 0; i = tree.nodes[i].parent {
		if lacking(unit, tree.nodes[i].limit) >= 0 {
			return true
		}
	}
	if lacking(unit, tree.nodes[0].ceiling) >= 0 { // more than there is, where that is divided and not lent
		return true
	}
	for _, p := range a.gates.above[q.node] {
		if all := a.gates.count[p].all; g.Controller && all != nil && lacking(unit, all) >= 0 {
			return true
		}
	}
	leaf := &tree.nodes[q.node]
	if g.Preemptible || g.Revocable || leaf.parent < 0 {
		return false
	}
	for d, kept := range tree.kept {
		if kept && unit[d] > leaf.reservation[d] {
			return true
		}
	}
	return false
}

// vainCores returns the jobs with core tasks that wait in vain: none of their other tasks starts before
// these.
func (a *Admission) vainCores(q *queue) map[cluster.JobUID]bool {
	jobs := map[cluster.JobUID]bool{}
	for i := range q.groups {
		if g := &q.groups[i]; g.Core > 0 && a.inVain(q, g) {
			jobs[g.Job] = true
		}
	}
	return jobs
}

// boundJobs applies the jobs' own limits on running tasks. Cores go first, then groups by rank, last those
// let in in vain.
func (a *Admission) boundJobs(q *queue) {
	var left, beside map[cluster.JobUID]int64 // beside the core, where the job has one
	type bounded struct {
		rank
		vain, core bool
	}
	var order []bounded
	for i := range q.groups {
		g := &q.groups[i]
		if g.MaxRunning == 0 {
			continue
		}
		if left == nil {
			left, beside = map[cluster.JobUID]int64{}, map[cluster.JobUID]int64{}
		}
		if _, seen := left[g.Job]; !seen {
			left[g.Job] = g.MaxRunning
		}
		n := g.Running + g.Leaving
		left[g.Job] -= n
		if g.ForCore > 0 {
			if _, seen := beside[g.Job]; !seen {
				beside[g.Job] = g.MaxRunning - g.ForCore
			}
			beside[g.Job] -= n
		}
		order = append(order, bounded{a.rank(q, i), g.Leaving == 0 && a.inVain(q, g), g.Core > 0})
	}
	slices.SortFunc(order, func(a, b bounded) int {
		return cmp.Or(cmp.Compare(one(a.vain), one(b.vain)), cmp.Compare(one(b.core), one(a.core)), a.compare(&b.rank))
	})
	for _, b := range order {
		i, g := b.index, &q.groups[b.index]
		counted := min(q.open[i], g.Leaving) // they have their part already
		n := min(q.open[i]-counted, max(0, left[g.Job]))
		if g.ForCore > 0 {
			n = min(n, max(0, beside[g.Job]))
			beside[g.Job] -= n
		}
		if counted+n < q.open[i] {
			q.shut[i] = Binding{Rule: RuleMaxRunning, Pool: a.tree.nodes[q.node].pool.Path}
		}
		q.open[i] = counted + n
		left[g.Job] -= n
	}
}

// candidate is a group with waiting tasks below a limited pool.
type candidate struct {
	rank
	q    *queue
	i    int
	vain bool
}

// openLimited lets in groups below limited pools: first jobs that run already, then by rank, last what could
// not start.
func (a *Admission) openLimited() {
	a.gates.count = map[int32]*tally{}
	for _, p := range a.gates.limited {
		a.gates.count[p] = a.newTally(p)
	}
	decided := map[cluster.JobUID]Binding{} // none where the job is let in
	var waiting []candidate
	for _, q := range a.queues {
		if a.gates.above[q.node] == nil {
			continue
		}
		cores := a.vainCores(q)
		for i := range q.groups {
			g := &q.groups[i]
			if _, seen := decided[g.Job]; g.Job != 0 && g.Running+g.Leaving > 0 && !seen {
				decided[g.Job] = Binding{}
				a.tallyJob(q, g)
			}
			a.tallyControllers(q, g, g.Running)
			if g.Waiting > 0 {
				waiting = append(waiting, candidate{a.rank(q, i), q, i, cores[g.Job] || a.inVain(q, g)})
			}
		}
	}
	slices.SortFunc(waiting, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(one(a.vain), one(b.vain)), a.compare(&b.rank))
	})
	for _, c := range waiting {
		g := &c.q.groups[c.i]
		why, seen := decided[g.Job]
		if g.Job != 0 && !seen {
			if why = a.jobBinding(c.q, g); why.Rule == RuleNone {
				a.tallyJob(c.q, g)
			}
			decided[g.Job] = why
		}
		if c.q.shut[c.i] = why; why.Rule == RuleNone {
			c.q.open[c.i], c.q.shut[c.i] = a.openControllers(c.q, g)
		}
	}
	for _, q := range a.queues {
		if a.gates.above[q.node] != nil {
			a.boundJobs(q)
		}
	}
}

func (a *Admission) newTally(p int32) *tally {
	t := &tally{users: map[string]uint32{}, groups: map[string]uint32{}}
	n := &a.tree.nodes[p]
	if percent := n.pool.Limits.ControllerPercent; percent != nil {
		t.controllers = make([]int64, len(a.tree.dims))
		reserves := slices.Max(n.reservation) > 0
		for d, amount := range n.reservation {
			t.controllers[d] = PercentOf(amount, *percent)
			if reserves && amount == 0 { // who reserves CPU alone does not mean that controllers have no memory
				t.controllers[d] = unlimited
			}
		}
		t.all = slices.Clone(t.controllers)
	}
	return t
}

func (a *Admission) tallyJob(q *queue, g *Group) {
	for _, p := range a.gates.above[q.node] {
		t := a.gates.count[p]
		t.jobs++
		t.users[g.User]++
		for _, name := range g.Groups {
			t.groups[name]++
		}
	}
}

// jobBinding returns what keeps one more job out of a leaf, the lowest pool first, or none.
func (a *Admission) jobBinding(q *queue, g *Group) Binding {
	for _, p := range a.gates.above[q.node] {
		limits, t := &a.tree.nodes[p].pool.Limits, a.gates.count[p]
		path := a.tree.nodes[p].pool.Path
		switch {
		case limits.RunningJobs != nil && t.jobs >= *limits.RunningJobs:
			return Binding{Rule: RuleRunningJobs, Pool: path}
		case limits.RunningJobsPerUser != nil && t.users[g.User] >= *limits.RunningJobsPerUser:
			return Binding{Rule: RuleRunningUser, Pool: path}
		case limits.RunningJobsPerGroup != nil && slices.ContainsFunc(g.Groups, func(name string) bool {
			return t.groups[name] >= *limits.RunningJobsPerGroup
		}):
			return Binding{Rule: RuleRunningGroup, Pool: path}
		}
	}
	return Binding{}
}

// tallyControllers takes the room of n controller tasks of a group.
func (a *Admission) tallyControllers(q *queue, g *Group, n int64) {
	if !g.Controller {
		return
	}
	v := a.tree.vector(g.Request, nil)
	for _, p := range a.gates.above[q.node] {
		if room := a.gates.count[p].controllers; room != nil {
			subTimes(room, v, n)
		}
	}
}

// openControllers returns how many waiting tasks of a group the limits on controller tasks let in, and takes their room.
func (a *Admission) openControllers(q *queue, g *Group) (n int64, why Binding) {
	n = g.Waiting
	if !g.Controller {
		return n, why
	}
	v := a.tree.vector(g.Request, nil)
	for _, p := range a.gates.above[q.node] {
		room := a.gates.count[p].controllers
		if room == nil {
			continue
		}
		if fits := count(v, room, n); fits < n {
			rest := slices.Clone(room)
			subTimes(rest, v, fits)
			n, why = fits, Binding{Rule: RuleController, Pool: a.tree.nodes[p].pool.Path, Dimension: a.tree.dims[lacking(v, rest)]}
		}
	}
	a.tallyControllers(q, g, n)
	return n, why
}
