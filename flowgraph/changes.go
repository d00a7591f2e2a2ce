package flowgraph

import "sync/atomic"

// Seq is a position in the sequence of changes of one network. Zero is its
// beginning.
type Seq int64

// Change names a node or an arc that was added, removed or given other values.
type Change int32

// Node returns the node that was touched, if it is one.
func (c Change) Node() (NodeID, bool) { return NodeID(^c), c < 0 }

// Arc returns the arc that was touched, if it is one.
func (c Change) Arc() (ArcID, bool) { return ArcID(c), c >= 0 }

// changeLog is a window on the sequence of touched ids. An epoch is the time between two reads by anyone.
// Within one an id is logged once: a reader that has not read the first entry will then find the state as it
// is.
//
// When the array of entries is nearly full, the later half of them remains. By then it has been copied, step
// by step, to a second array, which takes the place of the first. So there is no pause to drop entries, or to
// make room for more when a network grows.
type changeLog struct {
	entries []Change
	later   []Change // the later half of entries, from the middle of their array on
	first   Seq      // of entries[0]
	limit   int      // of entries, until something has to be done for more
	epoch   uint32
	read    atomic.Bool // someone has read in this epoch
}

const (
	// minWindow keeps small networks from trimming at every turn.
	minWindow = 1 << 12
	// logStep is for how many entries room is made at once.
	logStep = 1 << 10
)

// Changes returns which nodes and arcs were touched since the given position, and the position to ask from
// next time. An id may appear more than once if others have read in between. If complete is false, the window
// no longer reaches back so far: every id up to the bounds must be compared.
//
// Only the present state can be read from the network: an id that was removed and given out again appears as
// one change. The slice is the network's own, valid until the next verb that changes it. O(1), no allocation;
// readers may call it concurrently.
func (n *Network) Changes(since Seq) (touched []Change, next Seq, complete bool) {
	l := &n.log
	next = l.next()
	if next > since {
		l.read.Store(true)
	}
	if since < l.first {
		return nil, next, false
	}
	return l.entries[since-l.first:], next, true
}

func (l *changeLog) next() Seq { return l.first + Seq(len(l.entries)) }

// AddedSince tells whether the arc with id a was added after the given position was read. It may also say so
// of an arc that was added more than 2²⁹ changes ago. O(1).
func (n *Network) AddedSince(a ArcID, since Seq) bool {
	return int32(n.arcs[a].born&^kindMask-uint32(since)<<kindBits) >= 0
}

// begin prepares for a verb that logs up to k ids, logStep at most. If someone has read since the last verb,
// it begins an epoch.
func (n *Network) begin(k int) {
	l := &n.log
	if l.read.Load() {
		l.read.Store(false)
		l.epoch++
	}
	if len(l.entries)+k > l.limit {
		n.makeRoom()
	}
}

// touchNode logs v, unless it was logged in this epoch. stamp is that of v.
func (l *changeLog) touchNode(v NodeID, stamp *uint32) {
	if *stamp != l.epoch {
		*stamp = l.epoch
		l.entries = append(l.entries, ^Change(v))
	}
}

// touchArc is touchNode for arcs.
func (l *changeLog) touchArc(a ArcID, stamp *uint32) {
	if *stamp != l.epoch {
		*stamp = l.epoch
		l.entries = append(l.entries, Change(a))
	}
}

// makeRoom keeps half as many entries as there are ids: beyond that it is cheaper to compare all ids in
// order. While the network grows it may keep fewer.
func (n *Network) makeRoom() {
	l := &n.log
	half := cap(l.entries) / 2
	if done := half + len(l.later); len(l.entries) > done {
		l.later = append(l.later, l.entries[done:]...)
	}
	if len(l.entries)+logStep > cap(l.entries) {
		l.first += Seq(len(l.entries) - len(l.later))
		l.entries, l.later = l.later, l.entries[:0]
		if ids := len(n.nodes) + len(n.arcs); cap(l.later) < ids {
			l.later = make([]Change, 0, ids+ids/2)
		}
	}
	l.limit = len(l.entries) + logStep
}
