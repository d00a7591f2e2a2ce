package serve

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// gpuMilli is how much one whole GPU counts.
const gpuMilli = 1000

// resourcesFrom converts what a task asks for. Some CPU and some memory are required: a task that asks for nothing would
// fit on a full host without end.
func resourcesFrom(p *sluicev1.ResourceRequest, path string, v *violations) cluster.Resources {
	if p == nil {
		v.Invalid(path, "is required: what one task asks for, at least cpu_milli and memory_bytes")
		return cluster.Resources{}
	}
	checkRange(p.CpuMilli, 1, cluster.MaxAmount, "thousandths of a core", child(path, "cpu_milli"), v)
	checkRange(p.MemoryBytes, 1, cluster.MaxAmount, "bytes", child(path, "memory_bytes"), v)
	checkRange(p.DiskBytes, 0, cluster.MaxAmount, "bytes", child(path, "disk_bytes"), v)
	gpus := p.GetGpu().GetCount()
	checkRange(gpus, 0, cluster.MaxAmount/gpuMilli, "whole devices", child(path, "gpu.count"), v)
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.CpuMilli
	fixed[cluster.Memory] = p.MemoryBytes
	fixed[cluster.Disk] = p.DiskBytes
	fixed[cluster.GPU] = gpus * gpuMilli
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
		switch {
		case !isKey(name):
			v.Invalid(at, "has a bad name: %s", keyRule)
		case isDimension(name):
			v.Invalid(at, "has a field of its own: give it there")
		}
		checkRange(m[name], 0, cluster.MaxAmount, "whole units", at, v)
		named = append(named, cluster.Amount{Name: name, Value: m[name]})
	}
	return named
}

func isDimension(name string) bool {
	for d := range cluster.NumDimensions {
		if d.String() == name {
			return true
		}
	}
	return false
}

// resourcesTo converts what a task asks for back. The amount of GPU is whole devices, for nothing else gets in.
func resourcesTo(r cluster.Resources) *sluicev1.ResourceRequest {
	p := &sluicev1.ResourceRequest{
		CpuMilli:    r.Fixed[cluster.CPU],
		MemoryBytes: r.Fixed[cluster.Memory],
		DiskBytes:   r.Fixed[cluster.Disk],
		Named:       namedTo(r.Named),
	}
	if n := r.Fixed[cluster.GPU]; n > 0 {
		p.Gpu = &sluicev1.GpuRequest{Count: n / gpuMilli}
	}
	return p
}

// vectorTo converts an amount in every dimension.
func vectorTo(r cluster.Resources) *sluicev1.ResourceVector {
	return &sluicev1.ResourceVector{
		CpuMilli:    r.Fixed[cluster.CPU],
		MemoryBytes: r.Fixed[cluster.Memory],
		DiskBytes:   r.Fixed[cluster.Disk],
		GpuMilli:    r.Fixed[cluster.GPU],
		Named:       namedTo(r.Named),
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
