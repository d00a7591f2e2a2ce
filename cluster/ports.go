package cluster

import "slices"

// PortRange holds the ports First..Last, both included.
type PortRange struct{ First, Last uint16 }

// PortRequest asks for TCP and UDP ports of a host. The zero value asks for none. A run's ports are listed in the order
// of the request: Numbers, then the dynamic ones.
type PortRequest struct {
	Numbers []uint16 `cbor:",omitempty"` // exactly these; none twice
	Dynamic uint16   `cbor:",omitempty"` // how many more, whichever the host has free
	Names   []string `cbor:",omitempty"` // of the dynamic ones in order; empty, or as many
}

// IsZero reports whether nothing is asked for.
func (r *PortRequest) IsZero() bool { return r.Dynamic == 0 && len(r.Numbers) == 0 }

// Count returns how many ports are asked for.
func (r *PortRequest) Count() int { return len(r.Numbers) + int(r.Dynamic) }

func (r *PortRequest) equal(o *PortRequest) bool {
	return r.Dynamic == o.Dynamic && slices.Equal(r.Numbers, o.Numbers) && slices.Equal(r.Names, o.Names)
}

// PortRef names a port of a task: by number if Number is not 0, by the name of a dynamic port if Name is not "", and
// else by the position among the dynamic ports, from 0.
type PortRef struct {
	Number uint16 `cbor:",omitempty"`
	Name   string `cbor:",omitempty"`
	Index  uint16 `cbor:",omitempty"`
}

// Resolve returns the port that is meant by p in a run that has these ports, false if the request has no such port. A
// number need not be one that was asked for: a task may listen where no port is reserved.
func (r *PortRequest) Resolve(p PortRef, ports []uint16) (uint16, bool) {
	i := int(p.Index)
	switch {
	case p.Number != 0:
		return p.Number, true
	case p.Name != "":
		if i = slices.Index(r.Names, p.Name); i < 0 {
			return 0, false
		}
	case i >= int(r.Dynamic):
		return 0, false
	}
	if i += len(r.Numbers); i >= len(ports) {
		return 0, false
	}
	return ports[i], true
}

// Refers reports whether the request has the port that p means.
func (r *PortRequest) Refers(p PortRef) bool {
	return p.Number != 0 || p.Name != "" && slices.Contains(r.Names, p.Name) || p.Name == "" && p.Index < r.Dynamic
}

// CountPorts returns how many ports the ranges hold. Ranges are sorted and do not overlap.
func CountPorts(ranges []PortRange) int {
	n := 0
	for _, r := range ranges {
		n += int(r.Last) - int(r.First) + 1
	}
	return n
}

func inRanges(ranges []PortRange, port uint16) bool {
	return slices.ContainsFunc(ranges, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// PortsFree returns how many ports of the host nobody has and are kept for nobody. Complexity: ranges × taken ports.
func (h *Host) PortsFree() int {
	n := CountPorts(h.Ports)
	for _, p := range h.PortsTaken {
		if inRanges(h.Ports, p) { // else the machine offers it no longer
			n--
		}
	}
	for _, p := range h.PortsWithheld {
		if h.portFreed(p) && inRanges(h.Ports, p) {
			n--
		}
	}
	return n
}

// portFreed reports whether no task has the port.
func (h *Host) portFreed(port uint16) bool {
	_, taken := slices.BinarySearch(h.PortsTaken, port)
	return !taken
}

func (h *Host) portFree(port uint16) bool {
	_, kept := slices.BinarySearch(h.PortsWithheld, port)
	return !kept && h.portFreed(port) && inRanges(h.Ports, port)
}

// SamePorts reports whether the same ports are free on both.
func (h *Host) SamePorts(o *Host) bool {
	return slices.Equal(h.Ports, o.Ports) && slices.Equal(h.PortsTaken, o.PortsTaken) && slices.Equal(h.PortsWithheld, o.PortsWithheld)
}

// GainedPorts reports whether a port may be free now that was not in the record before.
func (h *Host) GainedPorts(before *Host) bool {
	if !slices.Equal(h.Ports, before.Ports) {
		return true
	}
	for _, old := range [][]uint16{before.PortsTaken, before.PortsWithheld} {
		if slices.ContainsFunc(old, h.portFree) {
			return true
		}
	}
	return false
}

// Fit returns how many such requests the free ports of the host serve together, at most limit.
func (r *PortRequest) Fit(h *Host, limit int64) int64 {
	if r.IsZero() || limit <= 0 {
		return limit
	}
	free := h.PortsFree()
	if len(r.Numbers) == 0 {
		return min(limit, int64(free/int(r.Dynamic)))
	}
	for _, p := range r.Numbers {
		if !h.portFree(p) {
			return 0
		}
	}
	if free < r.Count() {
		return 0
	}
	return 1
}

// Pick chooses ports for one request: its numbers, and for the dynamic ones the highest that are free, since exact
// numbers are asked for at the low end. It returns false if there are not enough.
func (r *PortRequest) Pick(h *Host) ([]uint16, bool) {
	if r.IsZero() {
		return nil, true
	}
	picked := make([]uint16, 0, r.Count())
	for _, p := range r.Numbers {
		if !h.portFree(p) {
			return nil, false
		}
		picked = append(picked, p)
	}
	for _, g := range slices.Backward(h.Ports) {
		for p := int(g.Last); p >= int(g.First) && len(picked) < r.Count(); p-- {
			if h.portFree(uint16(p)) && !slices.Contains(r.Numbers, uint16(p)) {
				picked = append(picked, uint16(p))
			}
		}
	}
	if len(picked) < r.Count() {
		return nil, false
	}
	return picked, true
}

// valid reports whether the chosen ports serve the request.
func (r *PortRequest) valid(h *Host, picked []uint16) bool {
	if len(picked) != r.Count() || !slices.Equal(picked[:len(r.Numbers)], r.Numbers) {
		return false
	}
	for i, p := range picked {
		if !h.portFree(p) || slices.Contains(picked[:i], p) {
			return false
		}
	}
	return true
}

// allocatePorts returns the sorted list with the picked ports in it, or without them.
func allocatePorts(taken, picked []uint16, back bool) []uint16 {
	for _, p := range picked {
		taken = withMember(taken, p, !back)
	}
	return taken
}
