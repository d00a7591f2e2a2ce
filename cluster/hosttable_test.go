package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostTable keeps ids whose homes are the same or next to each other, in all orders of coming and going.
func TestHostTable(t *testing.T) {
	ids := crowded(t)
	for seed := range 50 {
		table, want := newHostTable(), map[HostID]*Host{}
		check := func() {
			t.Helper()
			for _, id := range ids {
				require.Same(t, want[id], table.get(id), "%s", id)
			}
			var sorted []HostID
			for h := range table.from("") {
				sorted = append(sorted, h.ID)
			}
			require.Len(t, sorted, len(want))
			require.True(t, slices.IsSorted(sorted))
		}
		for step := range 40 {
			id := ids[(seed*step*step+step*7+seed)%len(ids)]
			before := table.copy()
			old := want[id]
			if old != nil && (seed+step)%3 > 0 {
				table.remove(id)
				delete(want, id)
			} else {
				want[id] = &Host{ID: id}
				table.set(want[id])
			}
			check()
			require.Same(t, old, before.get(id), "a copy changed")
			before.remove(id)
		}
		table.remove("s/nobody")
		check()
	}
}

// crowded returns ids of which some have one home, the last there is, and some the first one, which comes after it.
func crowded(t *testing.T) (ids []HostID) {
	table, last, first := newHostTable(), 2, 2
	for i := 0; last+first > 0; i++ {
		id := HostID(fmt.Sprint("s/", i))
		switch home := table.home(id); {
		case home == table.mask && last > 0:
			last--
		case home == 0 && first > 0:
			first--
		default:
			continue
		}
		ids = append(ids, id)
	}
	return append(ids, "s/elsewhere")
}

func TestHostTableGrows(t *testing.T) {
	table := newHostTable()
	id := func(i int) HostID { return HostID(fmt.Sprintf("s/%04d", i)) }
	for i := range 1000 {
		before := table.copy()
		table.set(&Host{ID: id(i)})
		require.Nil(t, before.get(id(i)))
		require.Equal(t, i, before.ids.Len())
	}
	for i := range 1000 {
		require.Equal(t, id(i), table.get(id(i)).ID)
		if i%3 == 0 {
			table.remove(id(i))
		}
	}
	for i := range 1000 {
		require.Equal(t, i%3 == 0, table.get(id(i)) == nil)
	}
	require.Nil(t, table.get("s/nobody"))
}

func TestFindHostsFindsWhatHostDoes(t *testing.T) {
	s := NewState()
	var ids []HostID
	for i := range 500 {
		ids = append(ids, HostID(fmt.Sprint("s/", i)))
		if i%3 > 0 {
			require.NoError(t, s.Apply(Record{Seq: s.Seq() + 1, At: 1, Event: &HostReported{ID: ids[i]}}))
		}
	}
	found := make([]*Host, len(ids))
	s.FindHosts(ids, found)
	for i, id := range ids {
		require.Equal(t, i%3 > 0, found[i] != nil)
		require.Same(t, s.Host(id), found[i])
	}
}
