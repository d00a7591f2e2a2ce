package costscaling

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/solver"
)

const (
	// phaseBits is by how many bits ε shrinks from phase to phase.
	phaseBits = 4
	// firstBits is by how many bits the first ε is below the largest cost: the prices of
	// a larger one are farther from those wanted than none.
	firstBits = 8
	// maxPath is how many arcs excess moves along before it is left to others;
	// measured best by Király and Kovács.
	maxPath = 4
	// deadEnds is after how many of them, at most, prices are updated.
	deadEnds = 64
)

// violation is the exponent of the least ε for which the flow is ε-optimal: a
// smaller one would send what arcs too cheap by far now carry on long ways.
func (s *refiner[N]) violation(w *solver.Work) uint {
	w.Units += int64(len(s.residuals))
	least := int64(0)
	for v := range s.supply {
		pi := s.pi[v]
		for i := s.first[v]; i < s.first[v+1]; i++ {
			if r := &s.residuals[i]; r.room > 0 {
				least = min(least, int64(r.cost)*s.unit+pi-s.pi[r.head])
			}
		}
	}
	if least >= -1 {
		return 0
	}
	return uint(bits.Len64(uint64(-least - 1)))
}

// begin makes the flow ε-optimal by filling arcs of lower reduced cost, and
// collects the nodes with excess.
func (s *refiner[N]) begin(w *solver.Work) {
	w.Units += int64(len(s.residuals))
	for v := range s.supply {
		pi := s.pi[v]
		for i := s.first[v]; i < s.first[v+1]; i++ {
			if r := &s.residuals[i]; both(int64(r.cost)*s.unit+pi-s.pi[r.head], -int64(r.room)) {
				s.push(int32(v), i, int64(r.room))
			}
		}
		s.next[v] = s.first[v]
	}
	s.queue.clear()
	for v, x := range s.excess {
		if x > 0 {
			s.queue.push(int32(v))
		}
	}
	s.relabels, s.updates = 0, 0
}

// push moves flow along one residual.
func (s *refiner[N]) push(tail, i int32, amount int64) {
	r := &s.residuals[i]
	r.room -= N(amount)
	s.residuals[s.back[i]].room += N(amount)
	s.excess[tail] -= amount
	s.excess[r.head] += amount
}

// refine moves all excess to where it lacks, keeping the flow ε-optimal.
func (s *refiner[N]) refine(budget solver.Budget, w *solver.Work) solver.Status {
	for s.queue.len > 0 {
		if s.relabels >= s.patience() || s.updates == 0 {
			if !s.updatePrices(w) {
				return solver.Infeasible
			}
		}
		v := s.queue.pop()
		if s.excess[v] > 0 {
			s.discharge(v, w)
		}
		if s.failed {
			return solver.CostRange
		}
		if budget.Spent(w.Units) {
			if s.excess[v] > 0 {
				s.queue.push(v)
			}
			return solver.BudgetSpent
		}
	}
	return solver.Optimal
}

// patience is the number of relabels after which prices are updated.
func (s *refiner[N]) patience() int { return len(s.supply) }

// discharge moves the excess of v along admissible paths, relabelling at dead
// ends (partial augment-relabel).
func (s *refiner[N]) discharge(v int32, w *solver.Work) {
	for s.excess[v] > 0 && !s.failed {
		s.findPath(v, w)
		tail := v
		for _, i := range s.path {
			r := &s.residuals[i]
			amount := min(s.excess[tail], int64(r.room))
			was := s.excess[r.head]
			s.push(tail, i, amount)
			w.Steps++
			if was <= 0 && was+amount > 0 {
				s.queue.push(r.head)
			}
			tail = r.head
		}
		if s.relabels >= s.patience() {
			if s.excess[v] > 0 {
				s.queue.push(v)
			}
			return
		}
	}
}

// findPath follows admissible arcs from v to a node that lacks flow, or as far as
// maxPath.
func (s *refiner[N]) findPath(v int32, w *solver.Work) {
	s.path = s.path[:0]
	tip := v
	for len(s.path) < maxPath && (s.excess[tip] >= 0) {
		if i := s.admissible(tip, w); i != none {
			s.path = append(s.path, i)
			tip = s.residuals[i].head
			continue
		}
		s.relabel(tip, w)
		if s.failed {
			s.path = s.path[:0]
			return
		}
		if k := len(s.path); k > 0 {
			tip = s.residuals[s.back[s.path[k-1]]].head
			s.path = s.path[:k-1]
		}
		if s.relabels >= s.patience() {
			return
		}
	}
}

// admissible returns the next residual of v with room and a negative reduced
// cost. Those passed stay inadmissible until v is relabelled.
func (s *refiner[N]) admissible(v int32, w *solver.Work) int32 {
	from, to := s.next[v], s.first[v+1]
	i := firstAdmissible(s.residuals[from:to], s.pi, s.pi[v], s.unit)
	s.next[v] = from + i
	if from+i == to {
		w.Units += int64(i)
		return none
	}
	w.Units += int64(i + 1)
	return from + i
}

// firstAdmissible returns the index of the first residual with room and a
// negative reduced cost at a node of potential own, or the length of the list.
//
//go:noinline
func firstAdmissible[N number](list []residual[N], pi []int64, own, unit int64) int32 {
	for i := range list {
		if r := &list[i]; both(int64(r.cost)*unit+own-pi[uint32(r.head)], -int64(r.room)) {
			return int32(i)
		}
	}
	return int32(len(list))
}

// both tells whether a and b are negative. Of residuals in one direction about half
// have no room, and just they tend to have a negative reduced cost: two branches would be
// foreseen wrongly half of the time, this one hardly ever is.
func both(a, b int64) bool { return a&b < 0 }

const far = int64(1) << 62 // above every reduced cost

// relabel lowers the potential of v until its best residual has reduced cost −ε.
func (s *refiner[N]) relabel(v int32, w *solver.Work) {
	list := s.residuals[s.first[v]:s.first[v+1]]
	least := leastReduced(list, s.pi, v, s.unit)
	w.Units += int64(len(list))
	s.relabels++
	s.next[v] = s.first[v]
	if least == far {
		// A dead end: the next update of prices puts it right, or finds that there is no way.
		// Many of them at the same node would leave 64 bits, so it comes soon.
		least = int64(len(s.supply)) << s.epsilon
		s.relabels += s.patience() / deadEnds
	} else {
		least += s.pi[v]
	}
	s.lower(v, least+1<<s.epsilon)
}

// leastReduced returns the least cost − π(head) of what has room, or far. A loop
// would hold the potential of v up for nothing: it moves with it.
//
//go:noinline
func leastReduced[N number](list []residual[N], pi []int64, v int32, unit int64) int64 {
	least := far
	for i := range list {
		r := &list[i]
		full := (int64(r.room) - 1) >> 63 // all ones, or zero if there is room
		x := (int64(r.cost)*unit-pi[uint32(r.head)])&^full | far&full
		if r.head != v {
			least = min(least, x)
		}
	}
	return least
}

// lower takes an amount off a potential.
func (s *refiner[N]) lower(v int32, by int64) {
	if s.pi[v] -= by; s.pi[v] < lowest {
		s.failed = true
	}
}

// ring is a queue of nodes, each in it at most once.
type ring struct {
	list      []int32
	in        []bool
	head, len int
}

func (q *ring) grow(n int) {
	if n > len(q.list) {
		q.list = make([]int32, n)
		q.in = make([]bool, n)
		q.head, q.len = 0, 0
	}
}

func (q *ring) clear() {
	q.head, q.len = 0, 0
	clear(q.in)
}

func (q *ring) push(v int32) {
	if q.in[v] {
		return
	}
	q.in[v] = true
	i := q.head + q.len
	if i >= len(q.list) {
		i -= len(q.list)
	}
	q.list[i] = v
	q.len++
}

func (q *ring) pop() int32 {
	v := q.list[q.head]
	if q.head++; q.head == len(q.list) {
		q.head = 0
	}
	q.len--
	q.in[v] = false
	return v
}
