package costmodels

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Data is where a class's inputs are: how many of their bytes have a replica on each host and in each rack, its hosts'
// replicas included. Hosts are sorted by id, racks by name.
type Data struct {
	Total int64
	Hosts []HostData
	Racks []RackData
}

// HostData is what one host holds, and what its rack does, "" and 0 where the rack is not known.
type HostData struct {
	Host          cluster.HostID
	Bytes, InRack int64
}

// RackData is what the hosts of one rack hold together.
type RackData struct {
	Rack  string
	Bytes int64
}

// Replicas sums the inputs up, saturating at cluster.MaxAmount. Complexity: O(replicas · log replicas).
func Replicas(r *Round, inputs []cluster.Input) Data {
	var data Data
	onHost, inRack := map[cluster.HostID]int64{}, map[string]int64{}
	for _, in := range inputs {
		data.Total = min(data.Total+in.Bytes, cluster.MaxAmount)
		hosts, racks := slices.Clone(in.Hosts), slices.Clone(in.Racks)
		slices.Sort(hosts)
		for _, h := range slices.Compact(hosts) {
			onHost[h] = min(onHost[h]+in.Bytes, cluster.MaxAmount)
			if rack := r.RackOf(h); rack != "" {
				racks = append(racks, rack)
			}
		}
		slices.Sort(racks)
		for _, rack := range slices.Compact(racks) {
			inRack[rack] = min(inRack[rack]+in.Bytes, cluster.MaxAmount)
		}
	}
	for _, rack := range slices.Sorted(maps.Keys(inRack)) {
		data.Racks = append(data.Racks, RackData{rack, min(inRack[rack], data.Total)})
	}
	for _, h := range slices.Sorted(maps.Keys(onHost)) {
		here := min(onHost[h], data.Total)
		data.Hosts = append(data.Hosts, HostData{h, here, max(here, min(inRack[r.RackOf(h)], data.Total))})
	}
	return data
}
