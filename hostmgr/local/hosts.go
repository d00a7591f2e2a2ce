//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// divide returns the virtual hosts: this machine, or what the configuration claims it to be, in equal parts.
func divide(c Config, notes []string) ([]hostmgr.Host, error) {
	machine, err := measure(c.Dir)
	if err != nil {
		return nil, err
	}
	capacity := c.Capacity
	for d, v := range capacity.Fixed {
		if v == 0 {
			capacity.Fixed[d] = machine[d] / int64(c.Hosts)
		}
	}
	attributes := append([]cluster.KeyValue{{Key: "arch", Value: runtime.GOARCH}, {Key: "local", Value: "true"}, {Key: "os", Value: runtime.GOOS}}, c.Attributes...)
	hosts := make([]hostmgr.Host, c.Hosts)
	for i := range hosts {
		hosts[i] = hostmgr.Host{
			Name: fmt.Sprintf("h%d", i),
			Machine: cluster.Machine{
				Rack:       fmt.Sprintf("%s%d", c.Rack, i%c.Racks),
				Zone:       c.Zone,
				Attributes: attributes,
				Capacity:   capacity,
				Ports:      portsOf(c, i),
				Address:    c.Address,
				Notes:      notes,
			},
		}
	}
	return hosts, nil
}

// portsOf returns the part of the ports that a host has to give: equal parts, none where there are more hosts than
// ports.
func portsOf(c Config, host int) []cluster.PortRange {
	each := (int(c.Ports.Last) - int(c.Ports.First) + 1) / c.Hosts
	if each == 0 {
		return nil
	}
	first := int(c.Ports.First) + host*each
	return []cluster.PortRange{{First: uint16(first), Last: uint16(first + each - 1)}}
}

// without returns what is left of ranges.
func without(ranges []cluster.PortRange, taken []uint16) []cluster.PortRange {
	for _, port := range taken {
		var left []cluster.PortRange
		for _, r := range ranges {
			if port < r.First || port > r.Last {
				left = append(left, r)
				continue
			}
			if port > r.First {
				left = append(left, cluster.PortRange{First: r.First, Last: port - 1})
			}
			if port < r.Last {
				left = append(left, cluster.PortRange{First: port + 1, Last: r.Last})
			}
		}
		ranges = left
	}
	return ranges
}

// measure returns what this machine has: the processors that this process may use, all memory, and the size of the
// file system with the state folder.
func measure(dir string) (amounts [cluster.NumDimensions]int64, err error) {
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return amounts, err
	}
	var total int64
	for line := range strings.Lines(string(memory)) {
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &total); err == nil {
			break
		}
	}
	if total == 0 {
		return amounts, errors.New("local: /proc/meminfo does not tell the size of the memory")
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return amounts, fmt.Errorf("local: measure the file system of %s: %w", dir, err)
	}
	amounts[cluster.CPU] = int64(runtime.NumCPU()) * 1000
	amounts[cluster.Memory] = total << 10
	amounts[cluster.Disk] = min(int64(disk.Blocks)*disk.Bsize, cluster.MaxAmount)
	return amounts, nil
}
