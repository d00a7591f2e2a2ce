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

// changeLog is a window on the sequence of touched ids. Within one epoch, the
// time between two reads by anyone, an id is logged once: whoever has not read
// the first entry will find the state as it is when he does.
//
// When the array of entries is full, the later half of them remains: it has been copied,
// step by step, to a second array, which takes its place. To drop entries, or to make room
// for more of a network that grows, is no pause then.
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
	// logStep is how many entries are copied at once.
	logStep = 1 << 10
)

// Changes returns which nodes and arcs were touched since the given position,
// and the position to ask from next time. An id may appear more than once if
// others have read in between. If complete is false the window no longer
// reaches back so far, and every id up to the bounds must be compared.
//
// Only the present state can be read from the network: an id that was removed
// and given out again appears as one change. The slice is the network's own,
// valid until the next verb that changes it. O(1), no allocation; readers may
// call it concurrently.
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

// AddedSince tells whether the arc that a names was added after the given position was
// read. Of one that was added more than 2³¹ changes ago it may say so too. O(1).
func (n *Network) AddedSince(a ArcID, since Seq) bool {
	return int32(n.arcs[a].born-uint32(since)) >= 0
}

func (n *Network) touchNode(v NodeID) {
	if r := &n.nodes[v]; n.firstTouch(&r.stamp) {
		n.appendChange(^Change(v))
	}
}

func (n *Network) touchArc(a ArcID, r *arcRecord) {
	if n.firstTouch(&r.stamp) {
		n.appendChange(Change(a))
	}
}

// firstTouch tells whether what has the stamp is not yet logged in this epoch, and stamps it.
func (n *Network) firstTouch(stamp *uint32) bool {
	l := &n.log
	if l.read.Load() || l.epoch == 0 {
		l.read.Store(false)
		l.epoch++
	}
	first := *stamp != l.epoch
	*stamp = l.epoch
	return first
}

func (n *Network) appendChange(c Change) {
	l := &n.log
	if len(l.entries) >= l.limit {
		n.makeRoom()
	}
	l.entries = append(l.entries, c)
}

// makeRoom keeps half as many entries as there are ids: to compare all of them in order is
// the cheaper way then. While the network grows it may be fewer.
func (n *Network) makeRoom() {
	l := &n.log
	if l.entries == nil {
		l.entries, l.later = make([]Change, 0, 2*minWindow), make([]Change, 0, 2*minWindow)
	}
	half := cap(l.entries) / 2
	if done := half + len(l.later); len(l.entries) > done {
		l.later = append(l.later, l.entries[done:]...)
	}
	if len(l.entries) == cap(l.entries) {
		l.entries, l.later = l.later, l.entries[:0]
		l.first += Seq(half)
		if ids := len(n.nodes) + len(n.arcs); cap(l.later) < ids {
			l.later = make([]Change, 0, ids+ids/2)
		}
	}
	l.limit = min(len(l.entries)+logStep, cap(l.entries))
}
