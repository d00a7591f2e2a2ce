package cluster

// Devices are the numbered things of a host that one run has to itself, or a part of.
type Devices struct {
	GPUs  []uint16 `cbor:",omitempty"` // indices into Machine.GPUs, as the request needs them
	Ports []uint16 `cbor:",omitempty"` // in the order of the request
}

// CountOn returns how many tasks of this size the host takes together for which it keeps no room, at most limit.
func (s *TaskSpec) CountOn(h *Host, limit int64) int64 {
	if s.Needs()&^h.Capabilities != 0 {
		return 0
	}
	return s.Ports.Fit(h, s.GPU.Fit(h.GPUs, h.GPURoom(), s.Resources.Count(h.Room(), limit)))
}

// Pick chooses devices of the host for one task, out of what is kept for nobody. It returns false if there are none.
func (s *TaskSpec) Pick(h *Host) (Devices, bool) {
	gpus, ok := s.GPU.Pick(h.GPUs, h.GPURoom())
	if !ok {
		return Devices{}, false
	}
	ports, ok := s.Ports.Pick(h)
	return Devices{GPUs: gpus, Ports: ports}, ok
}

// Bind returns the host with one more task of this size on it, on the given devices. The list of tasks is left as it is.
func (s *TaskSpec) Bind(h *Host, on Devices) *Host {
	return s.book(h, h.Allocated.Add(s.Resources), on, false)
}

// Unbind returns the host with one task of this size less, on the given devices. The list of tasks is left as it is.
func (s *TaskSpec) Unbind(h *Host, on Devices) *Host {
	return s.book(h, h.Allocated.Sub(s.Resources), on, true)
}

func (s *TaskSpec) book(h *Host, allocated Resources, on Devices, back bool) *Host {
	next := *h
	next.Allocated = allocated
	next.GPUFree = s.GPU.allocate(h.GPUFree, on.GPUs, back)
	next.PortsTaken = allocatePorts(h.PortsTaken, on.Ports, back)
	return &next
}
