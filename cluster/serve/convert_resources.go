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
	if p == nil {
		v.Invalid(path, "is required: what one task asks for, at least cpu_milli and memory_bytes")
		return cluster.Resources{}
	}
	checkRange(p.CpuMilli, 1, cluster.MaxAmount, "thousandths of a core", child(path, "cpu_milli"), v)
	checkRange(p.MemoryBytes, 1, cluster.MaxAmount, "bytes", child(path, "memory_bytes"), v)
	checkRange(p.DiskBytes, 0, cluster.MaxAmount, "bytes", child(path, "disk_bytes"), v)
	var fixed [cluster.NumDimensions]int64
	fixed[cluster.CPU] = p.CpuMilli
	fixed[cluster.Memory] = p.MemoryBytes
	fixed[cluster.Disk] = p.DiskBytes
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

// resourcesTo converts what a task asks for back.
func resourcesTo(s *cluster.TaskSpec) *sluicev1.ResourceRequest {
	r := s.Resources
	p := &sluicev1.ResourceRequest{
		CpuMilli:    r.Fixed[cluster.CPU],
		MemoryBytes: r.Fixed[cluster.Memory],
		DiskBytes:   r.Fixed[cluster.Disk],
		Named:       namedTo(r.Named),
	}
	if !s.GPU.IsZero() {
		p.Gpu = &sluicev1.GpuRequest{Count: int64(s.GPU.Count), Milli: int64(s.GPU.Milli), Models: s.GPU.Models}
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
