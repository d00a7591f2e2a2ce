package cluster

import (
	"iter"
	"math/bits"

	"github.com/tidwall/btree"

	"github.com/sluice-scheduler/sluice/cluster/radix"
)

// hostTable holds the hosts. Every event about a run looks some up and replaces one, and the strings of ids lie anywhere in
// memory: so hosts are found by a number that is made of the id, and ids are compared once they are found. It is a hash table
// with linear probing (D. E. Knuth, The Art of Computer Programming 3, section 6.4, algorithms L and R) that is at most half
// full.
type hostTable struct {
	ids    *btree.Map[HostID, struct{}]
	places radix.Map[Host] // by home of the id, or where others have that, by the first number after it that is free
	mask   uint32          // of the numbers
}

func newHostTable() hostTable {
	return hostTable{ids: btree.NewMap[HostID, struct{}](degree), mask: 63}
}

func (t *hostTable) copy() hostTable { return hostTable{t.ids.Copy(), t.places.Copy(), t.mask} }

// home returns the number at which a host of that id is looked for first. Four letters at a time are multiplied in, and both
// halves of the product folded, as in the hash functions of Wang Yi (wyhash, 2019).
func (t *hostTable) home(id HostID) uint32 {
	n := uint64(len(id))
	fold := func(letters uint64) {
		hi, lo := bits.Mul64(n^letters^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
		n = hi ^ lo
	}
	for ; len(id) >= 4; id = id[4:] {
		fold(uint64(id[0]) | uint64(id[1])<<8 | uint64(id[2])<<16 | uint64(id[3])<<24)
	}
	for i := range len(id) {
		fold(uint64(id[i]))
	}
	return uint32(n) & t.mask
}

func (t *hostTable) at(place uint32) *Host { return t.places.Get(uint64(place)) }

// find returns the host of that id and its place; where there is none, nil and the place that it would get.
func (t *hostTable) find(id HostID) (*Host, uint32) {
	for place := t.home(id); ; place = (place + 1) & t.mask {
		if h := t.at(place); h == nil || h.ID == id {
			return h, place
		}
	}
}

// guess returns the host that stands where one of that id is looked for first. It reads no record, and so waits for none.
func (t *hostTable) guess(id HostID) *Host { return t.at(t.home(id)) }

func (t *hostTable) get(id HostID) *Host {
	h, _ := t.find(id)
	return h
}

// set adds a host, or replaces the one of its id. Complexity: the hosts, where there are twice as many as the last time that
// it was.
func (t *hostTable) set(h *Host) {
	old, place := t.find(h.ID)
	t.places.Set(uint64(place), h)
	if old != nil {
		return
	}
	t.ids.Set(h.ID, struct{}{})
	if uint32(t.places.Len()) > t.mask/2 {
		larger := hostTable{mask: 2*t.mask + 1}
		for _, h := range t.places.From(0) {
			_, place := larger.find(h.ID)
			larger.places.Set(uint64(place), h)
		}
		t.places, t.mask = larger.places, larger.mask
	}
}

// remove takes a host away. Those behind it move up, so that no gap keeps them from being found.
func (t *hostTable) remove(id HostID) {
	h, place := t.find(id)
	if h == nil {
		return
	}
	t.ids.Delete(id)
	t.places.Delete(uint64(place))
	for {
		place = (place + 1) & t.mask
		h = t.places.Delete(uint64(place))
		if h == nil {
			return
		}
		_, place := t.find(h.ID)
		t.places.Set(uint64(place), h)
	}
}

// from yields the hosts with ids from the given one on, by id.
func (t *hostTable) from(first HostID) iter.Seq[*Host] {
	return func(yield func(*Host) bool) {
		t.ids.Ascend(first, func(id HostID, _ struct{}) bool { return yield(t.get(id)) })
	}
}
