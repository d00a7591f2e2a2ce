package cluster

import "slices"

// WholeGPU is one device in thousandths.
const WholeGPU = 1000

// GPUDevice is one device of a host. Its index in Machine.GPUs names it.
type GPUDevice struct {
	Model string // "" where the host does not say
}

// GPURequest asks for whole devices or for a part of one device, never both. The zero value asks for none. The amount is
// in the request's Resources as well, where it bounds sums; this says how it must be cut.
type GPURequest struct {
	Count  int32    // whole devices
	Milli  int32    // thousandths of one device, 1..999, all from the same
	Models []string `cbor:",omitempty"` // acceptable models, sorted; empty: any
}

// IsZero reports whether nothing is asked for.
func (r *GPURequest) IsZero() bool { return r.Count == 0 && r.Milli == 0 }

// Amount returns the sum asked for, in thousandths of a device.
func (r *GPURequest) Amount() int64 { return int64(r.Count)*WholeGPU + int64(r.Milli) }

func (r *GPURequest) equal(o *GPURequest) bool {
	return r.Count == o.Count && r.Milli == o.Milli && slices.Equal(r.Models, o.Models)
}

func (r *GPURequest) accepts(g GPUDevice) bool {
	return len(r.Models) == 0 || slices.Contains(r.Models, g.Model)
}

// Fit returns how many such requests the devices can serve together, at most limit. free holds the thousandths left of
// each device.
func (r *GPURequest) Fit(devices []GPUDevice, free []int32, limit int64) int64 {
	if r.IsZero() {
		return limit
	}
	var n int64
	for i, g := range devices {
		switch {
		case !r.accepts(g):
		case r.Count > 0 && free[i] == WholeGPU:
			n++
		case r.Count == 0:
			n += int64(max(0, free[i]) / r.Milli)
		}
	}
	if r.Count > 0 {
		n /= int64(r.Count)
	}
	return min(n, limit)
}

// Pick chooses devices for one request: for a part the device with the least room that suffices, so that whole devices
// stay whole, else the first free ones. It returns false if there are none.
func (r *GPURequest) Pick(devices []GPUDevice, free []int32) ([]uint16, bool) {
	var picked []uint16
	best := -1
	for i, g := range devices {
		switch {
		case !r.accepts(g):
		case r.Count > 0:
			if free[i] == WholeGPU && len(picked) < int(r.Count) {
				picked = append(picked, uint16(i))
			}
		case r.Milli > 0 && free[i] >= r.Milli && (best < 0 || free[i] < free[best]):
			best = i
		}
	}
	if best >= 0 {
		picked = []uint16{uint16(best)}
	}
	return picked, len(picked) == r.needs()
}

// needs returns on how many devices a run is.
func (r *GPURequest) needs() int {
	if r.Milli > 0 {
		return 1
	}
	return int(r.Count)
}

// Takes returns the thousandths that a run takes of each of its devices.
func (r *GPURequest) Takes() int32 {
	if r.Milli > 0 {
		return r.Milli
	}
	return WholeGPU
}

// valid reports whether the chosen devices serve the request.
func (r *GPURequest) valid(devices []GPUDevice, free []int32, picked []uint16) bool {
	if len(picked) != r.needs() {
		return false
	}
	for n, i := range picked {
		if int(i) >= len(devices) || !r.accepts(devices[i]) || free[i] < r.Takes() || slices.Contains(picked[:n], i) {
			return false
		}
	}
	return true
}

// allocate returns free without what a run of the request takes of the devices, or with it again.
func (r *GPURequest) allocate(free []int32, picked []uint16, back bool) []int32 {
	if len(picked) == 0 {
		return free
	}
	free = slices.Clone(free)
	for _, i := range picked {
		switch {
		case int(i) >= len(free): // the device is gone
		case back:
			free[i] += r.Takes()
		default:
			free[i] -= r.Takes()
		}
	}
	return free
}
