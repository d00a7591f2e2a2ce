package cluster

import (
	"cmp"

	"github.com/tidwall/btree"
)

// Alarms says when tasks are to be looked at, the earliest first. A task may have several; one that has gone keeps them until they are
// due. Not safe for concurrent use. Complexity of its methods: O(log alarms).
type Alarms struct{ tree *btree.BTreeG[alarm] }

type alarm struct {
	at   Time
	task TaskKey
}

// NewAlarms returns none.
func NewAlarms() Alarms {
	before := func(a, b alarm) bool { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.task, b.task)) < 0 }
	return Alarms{btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})}
}

// Set has the task looked at at a time; twice for the same time is once.
func (a Alarms) Set(at Time, k TaskKey) { a.tree.Set(alarm{at, k}) }

// Len returns how many there are.
func (a Alarms) Len() int { return a.tree.Len() }

// Next returns when the first one is due, 0 for never.
func (a Alarms) Next() Time {
	first, _ := a.tree.Min()
	return first.at
}

// Pop takes out the first one that is due by now, and returns its task; 0 if none is.
func (a Alarms) Pop(now Time) TaskKey {
	if first, some := a.tree.Min(); !some || first.at > now {
		return 0
	}
	first, _ := a.tree.PopMin()
	return first.task
}
