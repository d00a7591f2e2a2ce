package cluster

import "slices"

// Limited reports whether the pool has a limit of its own in some dimension.
func (p *Pool) Limited() bool {
	return slices.ContainsFunc(p.Resources, func(r PoolResource) bool { return r.Limit != NoLimit })
}

// In returns the amount of a dimension, as PoolResource.Dimension names it.
func (r *Resources) In(dimension string) int64 {
	for d := range NumDimensions {
		if d.String() == dimension {
			return r.Fixed[d]
		}
	}
	return r.Amount(dimension)
}

// Used returns what tasks on hosts take of a pool with a limit, and of all below it, those that leave included. Revocable ones take
// nothing of it. Of a pool without a limit it is nothing: that is not counted.
func (t *tables) Used(p PoolPath) Resources { return find(t.used, p) }

// OverLimit returns the lowest pool that would use more than its limit if tasks of the job had so much more, and of what; "" if none
// would. Who has no more of a dimension may go beyond a limit of it. Complexity: the depth of the pool.
func (t *tables) OverLimit(j *Job, more Resources) (PoolPath, string) {
	if t.used.Len() == 0 || j.Spec.Revocable {
		return "", ""
	}
	for p := j.Spec.Pool; p != ""; p = p.Parent() {
		used, limited := t.used.Get(p)
		if !limited {
			continue
		}
		for _, r := range t.Pool(p).Resources {
			if n := more.In(r.Dimension); r.Limit != NoLimit && n > 0 && used.In(r.Dimension)+n > r.Limit {
				return p, r.Dimension
			}
		}
	}
	return "", ""
}

// use counts what a task of the job takes of the pools with limits, with back no more.
func (s *State) use(j *Job, r Resources, back bool) {
	if s.used.Len() == 0 || j.Spec.Revocable {
		return
	}
	for p := j.Spec.Pool; p != ""; p = p.Parent() {
		used, limited := s.used.Get(p)
		switch {
		case !limited:
		case back:
			s.used.Set(p, used.Sub(r))
		default:
			s.used.Set(p, used.Add(r))
		}
	}
}

// count begins to count what is used of a pool that has a limit now, and ends it where it has none any more. Complexity: the tasks
// on hosts, where it begins.
func (s *State) count(p *Pool) {
	if !p.Limited() {
		s.used.Delete(p.Path)
		return
	}
	if _, counted := s.used.Get(p.Path); counted {
		return
	}
	var used Resources
	for h := range s.Hosts("") {
		for _, k := range h.Tasks {
			if j := s.Job(k.Job()); !j.Spec.Revocable && p.Path.Covers(j.Spec.Pool) {
				used = used.Add(s.spec(k).Resources)
			}
		}
	}
	s.used.Set(p.Path, used)
}
