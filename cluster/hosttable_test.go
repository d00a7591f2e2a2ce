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

// crowded returns ids of which some have one home and some the one after it.
func crowded(t *testing.T) []HostID {
	at := map[uint32]HostID{}
	for i := 0; i < 1<<18; i++ {
		id := HostID(fmt.Sprint("s/", i))
		home := hostTable{}.home(id)
		first, shared := at[home]
		next, neighbour := at[home+1]
		if at[home] = id; shared && neighbour {
			return []HostID{first, id, next, "s/elsewhere"}
		}
	}
	require.Fail(t, "no two ids have one home")
	return nil
}
