package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// lack is what tasks ask for of GPUs, in whatever order they take them. Parts count as large as the largest
// of them.
type lack struct {
	whole int64 // devices of which nobody has a part
	parts int64 // besides; 0 if a task asks for whole ones
	milli int64 // that each part is, in thousandths of a device
}

// lacking returns what a host lacks of the devices that the task accepts, so that all contenders have theirs.
// rec is nil for a host with none free. A part goes where least is left, so it opens a device only if it fits
// on no other.
func lacking(own *class, all []contender, rec *cluster.Host) lack {
	var whole, parts, milli int64
	for _, x := range all {
		gpu := &x.class.row.task.GPU
		if len(gpu.Models) > 0 && len(own.row.task.GPU.Models) > 0 && !slices.ContainsFunc(gpu.Models, func(m string) bool {
			return slices.Contains(own.row.task.GPU.Models, m)
		}) {
			continue
		}
		if whole += x.n * int64(gpu.Count); gpu.Milli > 0 {
			parts += x.n
			milli = max(milli, int64(gpu.Milli))
		}
	}
	each := int64(0) // parts on a device
	if parts > 0 {
		each = cluster.WholeGPU / milli
	}
	if rec != nil {
		request := cluster.GPURequest{Count: 1, Models: own.row.task.GPU.Models}
		room := rec.GPURoom()
		free := request.Fit(rec.GPUs, room, int64(len(room)))
		if parts > 0 {
			request.Count, request.Milli = 0, int32(milli)
			parts = max(0, parts-(request.Fit(rec.GPUs, room, int64(len(room))*each)-free*each))
		}
		if whole == 0 && own.row.task.GPU.Milli > 0 {
			return lack{parts: max(0, parts-free*each), milli: milli}
		}
		whole -= free
	}
	if parts > 0 {
		whole += (parts + each - 1) / each
	}
	return lack{whole: max(0, whole)}
}

// gpus says how many more devices, or parts of one, have to be free on the host.
func (u Unblocker) gpus(own *class, all []contender, rec *cluster.Host) Unblocker {
	lacks := lacking(own, all, rec)
	u.Kind, u.GPUs, u.Milli = MoreGPUs, lacks.whole, cluster.WholeGPU
	if lacks.parts > 0 {
		u.GPUs, u.Milli = lacks.parts, lacks.milli
	}
	return u
}

// ports says which ports have to be free on the host that are not, and how many more.
func (u Unblocker) ports(own *class, all []contender, rec *cluster.Host) Unblocker {
	u.Kind = MorePorts
	for _, n := range own.row.task.Ports.Numbers {
		if one := (cluster.PortRequest{Numbers: []uint16{n}}); one.Fit(rec, 1) == 0 {
			u.Ports = append(u.Ports, n)
		}
	}
	u.FreePorts = max(0, portsOf(all)-rec.PortsFree()-len(u.Ports))
	return u
}

// portsOf returns how many ports the contenders ask for together.
func portsOf(all []contender) (n int) {
	for _, x := range all {
		n += int(x.n) * x.class.row.task.Ports.Count()
	}
	return n
}

// mayTake reports whether tasks with the request r may have a port that o asks for by number.
func mayTake(r, o *cluster.PortRequest) bool {
	return r.Dynamic > 0 || slices.ContainsFunc(r.Numbers, func(n uint16) bool { return slices.Contains(o.Numbers, n) })
}
