package cluster

import (
	"iter"

	"github.com/tidwall/btree"
)

// hostTable holds the hosts. Every event about a run looks some up and replaces one, and the strings of ids lie anywhere in
// memory: so hosts are found by a number that is made of the id, and ids are compared once they are found.
type hostTable struct {
	ids    *btree.Map[HostID, struct{}]
	places *btree.Map[uint32, *Host] // by home of the id, or where others have that, by the first number after it that is free
}

func newHostTable() hostTable {
	return hostTable{ids: btree.NewMap[HostID, struct{}](degree), places: btree.NewMap[uint32, *Host](degree)}
}

func (t hostTable) copy() hostTable { return hostTable{t.ids.Copy(), t.places.Copy()} }

// home returns the number at which a host of that id is looked for first: FNV-1a folded to 24 bits (G. Fowler, L. C. Noll,
// K.-P. Vo and D. Eastlake, The FNV Non-Cryptographic Hash Algorithm, 2012).
func (t hostTable) home(id HostID) uint32 {
	const offset, prime = 2166136261, 16777619
	n := uint32(offset)
	for i := range len(id) {
		n = (n ^ uint32(id[i])) * prime
	}
	return n>>24 ^ n&0xffffff
}

// find returns the host of that id and its place; where there is none, nil and the place that it would get.
func (t hostTable) find(id HostID) (*Host, uint32) {
	for place := t.home(id); ; place++ {
		if h := find(t.places, place); h == nil || h.ID == id {
			return h, place
		}
	}
}

func (t hostTable) get(id HostID) *Host {
	h, _ := t.find(id)
	return h
}

// set adds a host, or replaces the one of its id.
func (t hostTable) set(h *Host) {
	old, place := t.find(h.ID)
	if old == nil {
		t.ids.Set(h.ID, struct{}{})
	}
	t.places.Set(place, h)
}

// remove takes a host away. Those behind it move up, so that no gap keeps them from being found.
func (t hostTable) remove(id HostID) {
	h, place := t.find(id)
	if h == nil {
		return
	}
	t.ids.Delete(id)
	t.places.Delete(place)
	for {
		place++
		h, _ = t.places.Delete(place)
		if h == nil {
			return
		}
		_, place := t.find(h.ID)
		t.places.Set(place, h)
	}
}

// from yields the hosts with ids from the given one on, by id.
func (t hostTable) from(first HostID) iter.Seq[*Host] {
	return func(yield func(*Host) bool) {
		t.ids.Ascend(first, func(id HostID, _ struct{}) bool { return yield(t.get(id)) })
	}
}
