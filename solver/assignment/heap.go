package assignment

// item is a node with the key by which it was pushed. Items of one key come in no particular order. Any rule,
// such as by number or by age, would send units of equal cost one after the other into the same places, and
// later searches would go farther.
type item struct {
	key  int64
	node int32
}

// push adds to the heap.
func (s *Solver) push(key int64, v int32) {
	x := item{key, v}
	q := append(s.queue, x)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if x.key >= q[up].key {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = x
	s.queue = q
}

// pop takes the least from the heap.
func (s *Solver) pop() item {
	q := s.queue
	top := q[0]
	last := len(q) - 1
	x := q[last]
	q = q[:last]
	s.queue = q
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			if last > 0 {
				q[i] = x
			}
			return top
		}
		if down+1 < last && q[down+1].key < q[down].key {
			down++
		}
		if q[down].key >= x.key {
			q[i] = x
			return top
		}
		q[i] = q[down]
		i = down
	}
}
