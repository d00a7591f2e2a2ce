package serve

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// resourcesFrom converts what a task asks for. Some CPU and some memory are required: a task that asks for nothing would
// fit on a full host without end.
func resourcesFrom(p *sluicev1.ResourceRequest, path string, v *violations) cluster.Resources {
	checkRange(p.CpuMilli, 1, cluster.MaxAmount, "thousandths of a core", child(path, "cpu_milli"), v)
	checkRange(p.MemoryBytes, 1, cluster.MaxAmount, "bytes", child(path, "memory_bytes"), v)
	checkRange(p.NetworkBytesPerSecond, 0, cluster.MaxAmount, "bytes per second", child(path, "network_bytes_per_second"), v)
	checkRange(p.DiskBytes, 0, cluster.MaxAmount, "bytes", child(path, "disk_bytes"), v)
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.CpuMilli
	fixed[cluster.Memory] = p.MemoryBytes
	fixed[cluster.Disk] = p.DiskBytes
	fixed[cluster.Network] = p.NetworkBytesPerSecond
	return cluster.NewResources(fixed, namedFrom(p.Named, child(path, "named"), v)...)
}

func namedFrom(m map[string]int64, path string, v *violations) []cluster.Amount {
	if len(m) > maxLabels {
		v.Invalid(path, "has %d entries: at most %d", len(m), maxLabels)
		return nil
	}
	var named []cluster.Amount
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := entry(path, name)
		wrong := resourceNameWrong(name)
		if cluster.DimensionMeant(name) != "" {
			wrong = ownField
		}
		if wrong != "" {
			v.Invalid(at, "%s", wrong)
		}
		checkRange(m[name], 0, cluster.MaxAmount, "whole units", at, v)
		named = append(named, cluster.Amount{Name: name, Value: m[name]})
	}
	return named
}

// ownField is what is wrong with a named resource that is a fixed dimension, or is called so.
const ownField = "has a field of its own: give it there"

// resourceNameWrong says what is wrong with the name of a named resource, of a job or of a host: "" if nothing is.
func resourceNameWrong(name string) string {
	switch {
	case !cluster.IsKey(name):
		return "has a bad name: " + keyRule
	case cluster.IsDimension(name):
		return ownField
	default:
		return ""
	}
}

// requestFrom converts what a task, or one of its processes, asks for.
func requestFrom(p *sluicev1.ResourceRequest, path string, v *violations) cluster.Request {
	r := cluster.Request{
		Resources: resourcesFrom(p, path, v),
		GPU:       gpuFrom(p.GetGpu(), child(path, "gpu"), v),
		Ports:     portRequestFrom(p.GetPorts(), child(path, "ports"), v),
	}
	r.Resources.Fixed[cluster.GPU] = r.GPU.Amount()
	return r
}

// statesOwn reports whether a process states what it asks for by itself.
func statesOwn(list []*sluicev1.ProcessSpec) bool {
	return slices.ContainsFunc(list, func(p *sluicev1.ProcessSpec) bool { return p.GetResources() != nil })
}

// wholeRequest returns what the task asks for: what it states, or the sum of what its processes state.
func wholeRequest(p *sluicev1.TaskSpec, task *cluster.TaskSpec, path string, v *violations) cluster.Request {
	at := child(path, "resources")
	switch {
	case !statesOwn(p.Processes) && p.Resources == nil:
		return cluster.Request{}
	case !statesOwn(p.Processes):
		return requestFrom(p.Resources, at, v)
	case p.Resources != nil:
		v.Invalid(at, "is given beside those of processes: give either")
	}
	var sum cluster.Request
	for i := range task.Processes {
		of := task.Processes[i].Request
		at := child(item(child(path, "processes"), i), "resources")
		if of == nil {
			v.Invalid(at, "is required, as other processes state theirs")
			continue
		}
		if !of.GPU.IsZero() && !sum.GPU.IsZero() {
			v.Invalid(child(at, "gpu"), "is given by another process too: one process of a task may ask for devices")
		}
		if !of.GPU.IsZero() {
			sum.GPU = of.GPU
		}
		sum.Resources = sum.Resources.Add(of.Resources)
		sum.Ports.Numbers = append(sum.Ports.Numbers, of.Ports.Numbers...)
		sum.Ports.Names = append(sum.Ports.Names, of.Ports.Names...)
		sum.Ports.Dynamic += of.Ports.Dynamic
		checkPorts(&sum.Ports, child(at, "ports"), v)
	}
	for d, amount := range sum.Resources.Fixed {
		checkRange(amount, 0, cluster.MaxAmount, "all processes together", child(at, cluster.Dimension(d).String()), v)
	}
	return sum
}

func portRequestFrom(p *sluicev1.PortRequest, path string, v *violations) cluster.PortRequest {
	var r cluster.PortRequest
	if len(p.GetNumbers()) > maxPorts {
		v.Invalid(child(path, "numbers"), "has %d entries: at most %d", len(p.Numbers), maxPorts)
		return r
	}
	for i, n := range p.GetNumbers() {
		checkRange(int64(n), 1, 65535, "", item(child(path, "numbers"), i), v)
		r.Numbers = append(r.Numbers, uint16(n))
	}
	checkRange(int64(p.GetDynamic()), 0, maxPorts, "", child(path, "dynamic"), v)
	r.Dynamic = uint16(min(p.GetDynamic(), maxPorts))
	r.Names = slices.Clone(p.GetDynamicNames())
	for i, name := range r.Names {
		if !cluster.IsKey(name) || '0' <= name[0] && name[0] <= '9' {
			v.Invalid(item(child(path, "dynamic_names"), i), "is %s: %s, beginning with a letter", quote(name), keyRule)
		}
	}
	checkPorts(&r, path, v)
	return r
}

// checkPorts reports what makes ports ambiguous.
func checkPorts(r *cluster.PortRequest, path string, v *violations) {
	if len(r.Names) > 0 && len(r.Names) != int(r.Dynamic) {
		v.Invalid(child(path, "dynamic_names"), "has %d entries for %d dynamic ports: as many, or none", len(r.Names), r.Dynamic)
	}
	seen := map[uint16]bool{}
	for i, n := range r.Numbers {
		if seen[n] {
			v.Invalid(item(child(path, "numbers"), i), "is %d a second time", n)
		}
		seen[n] = true
	}
	variables := map[string]bool{}
	for i, name := range r.Names {
		if variable := cluster.PortVariable(name); variables[variable] {
			v.Invalid(item(child(path, "dynamic_names"), i), "is %s, and its variable %s is that of another", quote(name), variable)
		} else {
			variables[variable] = true
		}
	}
}

// gpuFrom converts what a task asks of GPUs: whole devices, or a part of one.
func gpuFrom(p *sluicev1.GpuRequest, path string, v *violations) cluster.GPURequest {
	checkRange(p.GetCount(), 0, maxDevices, "whole devices", child(path, "count"), v)
	checkRange(p.GetMilli(), 0, cluster.WholeGPU-1, "thousandths of one device", child(path, "milli"), v)
	if p.GetCount() > 0 && p.GetMilli() > 0 {
		v.Invalid(child(path, "milli"), "is given beside count: ask for whole devices or for a part of one")
	}
	models := slices.Clone(p.GetModels())
	slices.Sort(models)
	models = slices.Compact(models)
	at := child(path, "models")
	if len(models) > maxLabels {
		v.Invalid(at, "has %d entries: at most %d", len(models), maxLabels)
		return cluster.GPURequest{}
	}
	for i, m := range models {
		checkText(m, item(at, i), maxLabelValue, v)
	}
	if len(models) > 0 && p.GetCount() == 0 && p.GetMilli() == 0 {
		v.Invalid(at, "is given, but no device is asked for: set count or milli")
	}
	return cluster.GPURequest{Count: int32(p.GetCount()), Milli: int32(p.GetMilli()), Models: models}
}

// vectorTo converts an amount in every dimension.
func vectorTo(r cluster.Resources) *sluicev1.ResourceVector {
	return &sluicev1.ResourceVector{
		CpuMilli:    r.Fixed[cluster.CPU],
		MemoryBytes: r.Fixed[cluster.Memory],
		DiskBytes:   r.Fixed[cluster.Disk],
		GpuMilli:    r.Fixed[cluster.GPU],
		Named:       namedTo(r.Named),

		NetworkBytesPerSecond: r.Fixed[cluster.Network],
	}
}

func namedTo(named []cluster.Amount) map[string]int64 {
	if len(named) == 0 {
		return nil
	}
	m := make(map[string]int64, len(named))
	for _, a := range named {
		m[a.Name] = a.Value
	}
	return m
}
