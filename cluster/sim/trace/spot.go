package trace

import (
	"io"
)

// spotMemoryPerCore is what a core of the spot-GPU trace's nodes brings: their list does not say.
const spotMemoryPerCore = 8 * gib

// readSpotNodes reads node_info_df of the spot-GPU trace.
func readSpotNodes(name string, r io.Reader) ([]Host, error) {
	t, err := openTable(name, r, ',', []string{"gpu_model", "gpu_capacity_num", "cpu_num", "node_name"})
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		cores := r.integer(2, 0, 1<<16)
		return Host{
			Name:    "node-" + r.hostName(3),
			Machine: machine(cores*1000, cores*spotMemoryPerCore, 0, int(r.integer(1, 1, maxGPUs)), r.text(0)),
		}
	})
	return inRacks(hosts), err
}
