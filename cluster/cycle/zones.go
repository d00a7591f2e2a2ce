package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// zones is, by zone, the racks that are wholly in it and the other hosts in it.
type zones struct {
	version int // of hosts, when this was found
	racks   map[string][]string
	hosts   map[string][]cluster.HostID
}

// zone returns the racks whose hosts are all in the zone, and the other hosts of the zone, both sorted.
// Complexity: hosts, where they have changed.
func (t *hosts) zone(name string) (racks []string, hosts []cluster.HostID) {
	if t.zones.version != t.version {
		t.zones = t.findZones()
	}
	return t.zones.racks[name], t.zones.hosts[name]
}

func (t *hosts) findZones() zones {
	z := zones{version: t.version, racks: map[string][]string{}, hosts: map[string][]cluster.HostID{}}
	whole := map[string]bool{} // racks that are in one zone
	for _, r := range t.byRack {
		whole[r.name] = r.name != "" && !slices.ContainsFunc(r.hosts, func(i int32) bool {
			return t.byIndex[i].rec.Zone != t.byIndex[r.hosts[0]].rec.Zone
		})
		if whole[r.name] && len(r.hosts) > 0 {
			in := t.byIndex[r.hosts[0]].rec.Zone
			z.racks[in] = append(z.racks[in], r.name)
		}
	}
	for _, h := range t.byIndex {
		if h != nil && h.rec != nil && !whole[h.rec.Rack] {
			z.hosts[h.rec.Zone] = append(z.hosts[h.rec.Zone], h.id)
		}
	}
	for name := range z.racks { // each by itself
		slices.Sort(z.racks[name])
	}
	for name := range z.hosts {
		slices.Sort(z.hosts[name])
	}
	return z
}
