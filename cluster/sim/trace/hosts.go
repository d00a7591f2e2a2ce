package trace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// defaultHostsPerRack is the size of racks where neither a trace nor an option says it.
const defaultHostsPerRack = 40

const (
	mib = 1 << 20
	gib = 1 << 30

	maxHosts = 1_000_000
	maxGPUs  = 1024 // of one host
)

// Fleet describes hosts that are all alike.
type Fleet struct {
	Hosts        int
	HostsPerRack int

	CPUMilli    int64  // thousandths of a core
	MemoryBytes int64  // of each host
	DiskBytes   int64  // of each host
	Bandwidth   int64  // of the interface of each host, in bytes per second; 0: not stated
	GPUs        int    // devices of each host; −1: none, where a default has some
	GPUModel    string // of all of them

	Named []cluster.Amount // other resources of each host, sorted by name
}

// or fills in from d what f does not say.
func (f Fleet) or(d Fleet) Fleet {
	if len(f.Named) == 0 {
		f.Named = d.Named
	}
	return Fleet{
		Hosts:        cmp.Or(f.Hosts, d.Hosts),
		HostsPerRack: cmp.Or(f.HostsPerRack, d.HostsPerRack, defaultHostsPerRack),
		CPUMilli:     cmp.Or(f.CPUMilli, d.CPUMilli, 32_000),
		MemoryBytes:  cmp.Or(f.MemoryBytes, d.MemoryBytes, 128*gib),
		DiskBytes:    cmp.Or(f.DiskBytes, d.DiskBytes, 1024*gib),
		Bandwidth:    cmp.Or(f.Bandwidth, d.Bandwidth),
		GPUs:         cmp.Or(f.GPUs, d.GPUs),
		GPUModel:     cmp.Or(f.GPUModel, d.GPUModel),
		Named:        f.Named,
	}
}

// isZero reports whether nothing is said.
func (f Fleet) isZero() bool {
	return f.Hosts == 0 && f.HostsPerRack == 0 && f.CPUMilli == 0 && f.MemoryBytes == 0 && f.DiskBytes == 0 &&
		f.Bandwidth == 0 && f.GPUs == 0 && f.GPUModel == "" && len(f.Named) == 0
}

// build makes the hosts, named host-00000, host-00001, … in racks named rack-0000, ….
func (f Fleet) build() ([]Host, error) {
	f = f.or(Fleet{})
	switch {
	case f.GPUs < -1:
		return nil, fmt.Errorf("trace: a host has %d gpus: 0 to %d, or -1 for none where a default has some", f.GPUs, maxGPUs)
	case f.Hosts < 1 || f.Hosts > maxHosts:
		return nil, fmt.Errorf("trace: hosts is %d: 1 to %d", f.Hosts, maxHosts)
	case f.HostsPerRack < 1:
		return nil, fmt.Errorf("trace: hosts per rack is %d: 1 or more", f.HostsPerRack)
	case min(f.CPUMilli, f.MemoryBytes, f.DiskBytes, f.Bandwidth) < 0 || max(f.CPUMilli, f.MemoryBytes, f.DiskBytes, f.Bandwidth) > maxAmount:
		return nil, fmt.Errorf("trace: cpu, memory, disk and bandwidth of a host are 0 to %d", int64(maxAmount))
	case f.GPUs > maxGPUs:
		return nil, fmt.Errorf("trace: a host has %d gpus: at most %d", f.GPUs, maxGPUs)
	}
	hosts := make([]Host, f.Hosts)
	for i := range hosts {
		hosts[i].Name = fmt.Sprintf("host-%05d", i)
		hosts[i].Machine = machine(f.CPUMilli, f.MemoryBytes, f.DiskBytes, max(0, f.GPUs), f.GPUModel)
		hosts[i].Capacity.Fixed[cluster.Network], hosts[i].Capacity.Named = f.Bandwidth, f.Named
		hosts[i].Rack = rackName(i / f.HostsPerRack)
	}
	return finishHosts("", hosts)
}

func rackName(i int) string { return fmt.Sprintf("rack-%04d", i) }

// inRacks puts hosts whose trace knows no racks into racks of defaultHostsPerRack, in their order.
func inRacks(hosts []Host) []Host {
	for i := range hosts {
		hosts[i].Rack = rackName(i / defaultHostsPerRack)
	}
	return hosts
}

// finishHosts sorts hosts by name and refuses lists without hosts or with one of them twice.
func finishHosts(file string, hosts []Host) ([]Host, error) {
	if len(hosts) == 0 {
		return nil, fmt.Errorf("trace: %s: no hosts", file)
	}
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	for i := range hosts[1:] {
		if hosts[i].Name == hosts[i+1].Name {
			return nil, fmt.Errorf("trace: %s: host %q is there twice", file, hosts[i].Name)
		}
	}
	return hosts, nil
}

// readHosts collects the hosts of a machine list, one a row.
func readHosts(rs rows, parse func(*row) Host) ([]Host, error) {
	lines := make(map[string]int)
	var hosts []Host
	err := each(rs, func(r *row) error {
		h := parse(r)
		if r.err != nil {
			return r.err
		}
		if first, taken := lines[h.Name]; taken {
			return r.errorf("host %q is in line %d already", h.Name, first)
		}
		if len(hosts) == maxHosts {
			return r.errorf("more than %d hosts", maxHosts)
		}
		lines[h.Name] = r.line
		hosts = append(hosts, h)
		return nil
	})
	return hosts, err
}

// reports collects the hosts of a list that has a row for each report of a machine, of which the latest one counts.
type reports struct {
	hosts []Host
	at    []int64 // by host: when
	index map[string]int
}

// add takes the report of a row.
func (l *reports) add(r *row, h Host, at int64) error {
	i, known := l.index[h.Name]
	switch {
	case r.err != nil:
	case known && at >= l.at[i]:
		l.hosts[i], l.at[i] = h, at
	case known:
	case len(l.hosts) == maxHosts:
		return r.errorf("more than %d hosts", maxHosts)
	default:
		if l.index == nil {
			l.index = make(map[string]int)
		}
		l.index[h.Name], l.hosts, l.at = len(l.hosts), append(l.hosts, h), append(l.at, at)
	}
	return r.err
}

// each calls f with all rows, until one of them fails.
func each(rs rows, f func(*row) error) error {
	for {
		r, err := rs.next()
		if r == nil || err != nil {
			return endOf(err)
		}
		if err := f(r); err != nil {
			return err
		}
	}
}
