package trace

import (
	"io"
)

// readPAIMachines reads pai_machine_spec: cores, GB of memory and devices of each machine.
func readPAIMachines(name string, r io.Reader) ([]Host, error) {
	t, err := openColumns(name, r, ',', []string{"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"})
	if err != nil {
		return nil, err
	}
	hosts, err := readHosts(t, func(r *row) Host {
		gpus, model := int(r.integer(4, 0, maxGPUs)), r.text(1)
		if gpus == 0 {
			model = ""
		}
		return Host{
			Name:    r.hostName(0),
			Machine: machine(r.integer(2, 0, 1<<20)*1000, r.integer(3, 0, maxAmount/gib)*gib, 0, gpus, model),
		}
	})
	return inRacks(hosts), err
}
