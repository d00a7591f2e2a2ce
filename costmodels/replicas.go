package costmodels

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Data is where a class's inputs are: how many of their bytes have a replica on each host, in each rack, its hosts' replicas
// included, and in the zone of that, if zones are named, the former included. Hosts are sorted by id, racks by name. A zone
// is the racks and hosts in it.
type Data struct {
	Total int64
	Hosts []HostData
	Racks []RackData
}

// HostData is what one host holds, what its rack does, which is no less, and its zone.
type HostData struct {
	Host                  cluster.HostID
	Bytes, InRack, InZone int64
}

// RackData is what the hosts of one rack hold together, and its zone, which is no less.
type RackData struct {
	Rack          string
	Bytes, InZone int64
}

// sums counts bytes by place, saturating at cluster.MaxAmount.
type sums[K ~string] map[K]int64

// add counts the bytes once for each of the places, which it sorts.
func (s sums[K]) add(places []K, bytes int64) {
	slices.Sort(places)
	for _, p := range slices.Compact(places) {
		s[p] = min(s[p]+bytes, cluster.MaxAmount)
	}
}

// Replicas sums the inputs up, saturating at cluster.MaxAmount. Complexity: O(places · log places), where a zone is as many as
// it has racks, and hosts that are in none.
func Replicas(r *Round, inputs []cluster.Input) Data {
	var data Data
	onHost, ofZone := sums[cluster.HostID]{}, sums[cluster.HostID]{} // the latter: for hosts without a rack that is all in the zone
	inRack, inZone := sums[string]{}, sums[string]{}
	for _, in := range inputs {
		data.Total = min(data.Total+in.Bytes, cluster.MaxAmount)
		racks := slices.Clone(in.Racks)
		for _, h := range in.Hosts {
			if rack := r.RackOf(h); rack != "" {
				racks = append(racks, rack)
			}
		}
		near, loose := slices.Clone(racks), slices.Clone(in.Hosts)
		for _, z := range in.Zones {
			racks, hosts := r.Zone(z)
			near, loose = append(near, racks...), append(loose, hosts...)
		}
		onHost.add(slices.Clone(in.Hosts), in.Bytes)
		inRack.add(racks, in.Bytes)
		inZone.add(near, in.Bytes)
		ofZone.add(loose, in.Bytes)
	}
	for _, rack := range slices.Sorted(maps.Keys(inZone)) {
		data.Racks = append(data.Racks, RackData{rack, min(inRack[rack], data.Total), min(inZone[rack], data.Total)})
	}
	for _, h := range slices.Sorted(maps.Keys(ofZone)) {
		rack := r.RackOf(h)
		here := min(onHost[h], data.Total)
		near := max(here, min(inRack[rack], data.Total))
		data.Hosts = append(data.Hosts, HostData{h, here, near, max(near, min(ofZone[h], data.Total), min(inZone[rack], data.Total))})
	}
	return data
}
