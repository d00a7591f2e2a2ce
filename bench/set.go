package bench

// set holds small integers, iterates in an order that depends on its history
// alone and allocates only at a new maximum. The zero value is empty.
type set struct {
	list []int32
	at   []int32 // position in list plus one, indexed by member
}

func (s *set) put(x int32, in bool) {
	for int(x) >= len(s.at) {
		s.at = append(s.at, 0)
	}
	p := s.at[x]
	switch {
	case in && p == 0:
		s.list = append(s.list, x)
		s.at[x] = int32(len(s.list))
	case !in && p > 0:
		last := s.list[len(s.list)-1]
		s.list[p-1] = last
		s.at[last] = p
		s.list = s.list[:len(s.list)-1]
		s.at[x] = 0
	}
}
