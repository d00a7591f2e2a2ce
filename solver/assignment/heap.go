package assignment

// item is a node with the key it was pushed by.
type item struct {
	key  int64
	node int32
}

func (a item) before(b item) bool { return a.key < b.key || a.key == b.key && a.node < b.node }

// push adds to the heap.
func (s *Solver) push(key int64, v int32) {
	x := item{key, v}
	q := append(s.queue, x)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(q[up]) {
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
		if down+1 < last && q[down+1].before(q[down]) {
			down++
		}
		if !q[down].before(x) {
			q[i] = x
			return top
		}
		q[i] = q[down]
		i = down
	}
}
