package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadAheadLeavesTheStateAsItIs(t *testing.T) {
	s := NewState()
	apply := func(e Event) { require.NoError(t, s.Apply(Record{Seq: s.Seq() + 1, At: 1, Event: e})) }
	apply(&HostReported{ID: "s/a", Machine: Machine{Capacity: NewResources([NumDimensions]int64{CPU: 1000})}})
	apply(&JobsSubmitted{Jobs: []NewJob{{UID: 1, Spec: &JobSpec{Name: "j", Pool: RootPool, Instances: 2}}}})
	apply(&Placed{Task: MakeTaskKey(1, 0), Run: 1, Host: "s/a"})
	before, _ := s.Snapshot()
	s.ReadAhead(nil, nil)
	s.ReadAhead([]TaskKey{MakeTaskKey(1, 0), MakeTaskKey(1, 1), MakeTaskKey(1, 2), MakeTaskKey(7, 0)}, []HostID{"s/a", "s/gone"})
	after, changes := s.Snapshot()
	require.True(t, changes.Empty())
	for part := range before.Parts() {
		require.Contains(t, collect(after), part)
	}
}

func collect(s *Snapshot) (parts []*Restored) {
	for p := range s.Parts() {
		parts = append(parts, p)
	}
	return parts
}
