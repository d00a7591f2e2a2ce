package cluster

import (
	"slices"
	"strings"
)

// QueueMapping finds the pool of a job that names none. Immutable; State replaces it.
type QueueMapping struct {
	Version uint64 // 1 when first set, one more with every change
	Rules   []QueueRule
}

// QueueRule matches jobs of which all its conditions hold; an empty one always does.
type QueueRule struct {
	User   string     `cbor:",omitempty"` // owner of the job
	Group  string     `cbor:",omitempty"` // one of the owner's
	Labels []KeyValue `cbor:",omitempty"` // labels that the job has to have, sorted
	// Pool is where a matching job goes: a path in which {user} and {group} stand for the owner and the group that matched,
	// or the owner's first where the rule names none.
	Pool   string `cbor:",omitempty"`
	Reject bool   `cbor:",omitempty"` // a matching job is refused; Pool is empty
}

// Pool returns the path that the first matching rule gives, and its index; −1 if no rule matches. The path is "" if the rule
// refuses the job, or if it needs a name that the job does not have. Complexity: the rules.
func (m *QueueMapping) Pool(spec *JobSpec) (PoolPath, int) {
	for i := range m.Rules {
		if r := &m.Rules[i]; r.matches(spec) {
			return r.expand(spec), i
		}
	}
	return "", -1
}

func (r *QueueRule) matches(spec *JobSpec) bool {
	return (r.User == "" || r.User == spec.Owner) && (r.Group == "" || slices.Contains(spec.Groups, r.Group)) && HasPairs(spec.Labels, r.Labels)
}

func (r *QueueRule) expand(spec *JobSpec) PoolPath {
	group := r.Group
	if group == "" && len(spec.Groups) > 0 {
		group = spec.Groups[0]
	}
	if r.Reject || spec.Owner == "" && strings.Contains(r.Pool, "{user}") || group == "" && strings.Contains(r.Pool, "{group}") {
		return ""
	}
	return PoolPath(strings.NewReplacer("{user}", spec.Owner, "{group}", group).Replace(r.Pool))
}

// Mapping returns the queue mapping, nil if none has been set.
func (t *tables) Mapping() *QueueMapping { return t.mapping }

func (s *State) setMapping(rules []QueueRule) {
	m := &QueueMapping{Version: 1, Rules: rules}
	if s.mapping != nil {
		m.Version = s.mapping.Version + 1
	}
	s.mapping = m
}
