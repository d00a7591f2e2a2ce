package costscaling

import (
	"math/bits"

	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/residual"
)

const (
	// phaseBits is by how many bits ε shrinks from phase to phase.
	phaseBits = 4
	// firstBits is by how many bits the first ε is below the largest cost. With a larger ε, prices would be
	// farther from those wanted than no prices are.
	firstBits = 8
	// maxPath is how many arcs excess moves along before it is left to others;
	// measured best by Király and Kovács.
	maxPath = 4
	// deadEnds is after how many dead ends, at most, prices are updated.
	deadEnds = 64
)

// violation is the exponent of the least ε for which the flow is ε-optimal. With a smaller one, arcs that are
// far too cheap now would be filled, and what they carry would be sent on long ways.
func (s *refiner[N]) violation(w *solver.Work) uint {
	w.Units += int64(len(s.List))
	least := int64(0)
	for v := range s.Excess {
		pi := s.pi[v]
		for i := s.First[v]; i < s.First[v+1]; i++ {
			if r := &s.List[i]; r.Room > 0 {
				least = min(least, int64(r.Cost)*s.unit+pi-s.pi[r.Head])
			}
		}
	}
	if least >= -1 {
		return 0
	}
	return uint(bits.Len64(uint64(-least - 1)))
}

// begin makes the flow ε-optimal by filling arcs of lower reduced cost. It collects the nodes with excess.
func (s *refiner[N]) begin(w *solver.Work) {
	w.Units += int64(len(s.List))
	for v := range s.Excess {
		pi := s.pi[v]
		for i := s.First[v]; i < s.First[v+1]; i++ {
			if r := &s.List[i]; both(int64(r.Cost)*s.unit+pi-s.pi[r.Head], -int64(r.Room)) {
				s.push(int32(v), i, int64(r.Room))
			}
		}
		s.next[v] = s.First[v]
	}
	s.queue.Clear()
	for v, x := range s.Excess {
		if x > 0 {
			s.queue.Push(int32(v))
		}
	}
	s.relabels, s.updates = 0, 0
}

// push moves flow along one residual.
func (s *refiner[N]) push(tail, i int32, amount int64) { s.Arcs.Push(&s.Graph, tail, i, amount) }

// refine moves all excess to where it lacks, keeping the flow ε-optimal.
func (s *refiner[N]) refine(budget solver.Budget, w *solver.Work) solver.Status {
	for s.queue.Len() > 0 {
		if s.relabels >= s.patience() || s.updates == 0 {
			if !s.updatePrices(w) {
				return solver.Infeasible
			}
		}
		v := s.queue.Pop()
		if s.Excess[v] > 0 {
			s.discharge(v, w)
		}
		if s.Failed {
			return solver.CostRange
		}
		if budget.Spent(w.Units) {
			if s.Excess[v] > 0 {
				s.queue.Push(v)
			}
			return solver.BudgetSpent
		}
	}
	return solver.Optimal
}

// patience is the number of relabels after which prices are updated.
func (s *refiner[N]) patience() int { return len(s.Excess) }

// discharge moves the excess of v along admissible paths. It relabels at dead ends (partial augment-relabel).
func (s *refiner[N]) discharge(v int32, w *solver.Work) {
	for s.Excess[v] > 0 && !s.Failed {
		s.findPath(v, w)
		tail := v
		for _, i := range s.path {
			r := &s.List[i]
			amount := min(s.Excess[tail], int64(r.Room))
			was := s.Excess[r.Head]
			s.push(tail, i, amount)
			w.Steps++
			if was <= 0 && was+amount > 0 {
				s.queue.Push(r.Head)
			}
			tail = r.Head
		}
		if s.relabels >= s.patience() {
			if s.Excess[v] > 0 {
				s.queue.Push(v)
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
	for len(s.path) < maxPath && (s.Excess[tip] >= 0) {
		if i := s.admissible(tip, w); i != none {
			s.path = append(s.path, i)
			tip = s.List[i].Head
			continue
		}
		s.relabel(tip, w)
		if s.Failed {
			s.path = s.path[:0]
			return
		}
		if k := len(s.path); k > 0 {
			tip = s.List[s.Back[s.path[k-1]]].Head
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
	from, to := s.next[v], s.First[v+1]
	i := firstAdmissible(s.List[from:to], s.pi, s.pi[v], s.unit)
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
func firstAdmissible[N residual.Number](list []residual.Arc[N], pi []int64, own, unit int64) int32 {
	for i := range list {
		if r := &list[i]; both(int64(r.Cost)*unit+own-pi[uint32(r.Head)], -int64(r.Room)) {
			return int32(i)
		}
	}
	return int32(len(list))
}

// both tells whether a and b are negative. About half of the residuals in one direction have no room, and
// mostly these have a negative reduced cost. Two branches would be foreseen wrongly half of the time; this
// one hardly ever is.
func both(a, b int64) bool { return a&b < 0 }

const far = int64(1) << 62 // above every reduced cost

// relabel lowers the potential of v until its best residual has reduced cost −ε.
func (s *refiner[N]) relabel(v int32, w *solver.Work) {
	list := s.List[s.First[v]:s.First[v+1]]
	least := leastReduced(list, s.pi, v, s.unit)
	w.Units += int64(len(list))
	s.relabels++
	s.next[v] = s.First[v]
	if least == far {
		// A dead end: the next update of prices puts it right, or finds that there is no way. Many dead ends
		// at the same node would leave 64 bits, so the update comes soon.
		least = int64(len(s.Excess)) << s.epsilon
		s.relabels += s.patience() / deadEnds
	} else {
		least += s.pi[v]
	}
	s.lower(v, least+1<<s.epsilon)
}

// leastReduced returns the least cost − π(head) of what has room, or far. An arc from v to itself does not
// count: it would hold the potential of v up for nothing, as it moves with it.
//
//go:noinline
func leastReduced[N residual.Number](list []residual.Arc[N], pi []int64, v int32, unit int64) int64 {
	least := far
	for i := range list {
		r := &list[i]
		full := (int64(r.Room) - 1) >> 63 // all ones, or zero if there is room
		x := (int64(r.Cost)*unit-pi[uint32(r.Head)])&^full | far&full
		if r.Head != v {
			least = min(least, x)
		}
	}
	return least
}

// lower takes an amount off a potential.
func (s *refiner[N]) lower(v int32, by int64) {
	if s.pi[v] -= by; s.pi[v] < lowest {
		s.Failed = true
	}
}
