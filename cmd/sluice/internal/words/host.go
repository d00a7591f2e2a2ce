package words

import (
	"slices"
	"strconv"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// HostTable lists hosts, with their GPUs and why they take no work, where there are such.
func HostTable(hosts []*sluicev1.Host) Table {
	heading := "NAME STATE RACK ZONE TASKS CPU MEMORY"
	gpus := slices.ContainsFunc(hosts, func(h *sluicev1.Host) bool { return h.GetCapacity().GetTotal().GetGpuMilli() > 0 })
	if gpus {
		heading += " GPU"
	}
	reasons := slices.ContainsFunc(hosts, func(h *sluicev1.Host) bool { return h.GetReason() != "" })
	if reasons {
		heading += " REASON"
	}
	var rows [][]string
	for _, h := range hosts {
		total, allocated := h.GetCapacity().GetTotal(), h.GetAllocated()
		row := []string{
			h.GetName(), HostState(h.GetState()), h.GetRack(), h.GetZone(), strconv.Itoa(int(h.GetTasks())),
			Milli(allocated.GetCpuMilli()) + "/" + Milli(total.GetCpuMilli()),
			Bytes(allocated.GetMemoryBytes()) + "/" + Bytes(total.GetMemoryBytes()),
		}
		if gpus {
			row = append(row, Milli(allocated.GetGpuMilli())+"/"+Milli(total.GetGpuMilli()))
		}
		if reasons {
			row = append(row, h.GetReason())
		}
		rows = append(rows, row)
	}
	return Table{heading, rows}
}

// VolumeTable lists persistent volumes, with the tasks that use them.
func VolumeTable(volumes []*sluicev1.Volume) Table {
	var rows [][]string
	for _, v := range volumes {
		user := ""
		if v.GetUsedByJob() != "" {
			user = v.GetUsedByJob() + "/" + strconv.Itoa(int(v.GetUsedByInstance()))
		}
		rows = append(rows, []string{v.GetSpec().GetName(), v.GetHost(), Bytes(v.GetSpec().GetBytes()), user})
	}
	return Table{"NAME HOST SIZE USER", rows}
}

// HostProperties shows a host, without its notes.
func HostProperties(h *sluicev1.Host) []Property {
	var attributes []string
	for _, x := range h.GetAttributes() {
		attributes = append(attributes, x.GetKey()+"="+x.GetValue())
	}
	drain := h.GetDrain().GetReason()
	if drain == h.GetReason() { // it is not unreachable, too
		drain = ""
	}
	return []Property{
		{"name", h.GetName()},
		{"state", HostState(h.GetState())},
		{"since", Time(h.GetStateTime())},
		{"reason", h.GetReason()},
		{"drain", drain},
		{"shard", h.GetShard()},
		{"rack", h.GetRack()},
		{"zone", h.GetZone()},
		{"attributes", strings.Join(attributes, ",")},
		{"capacity", Resources(h.GetCapacity().GetTotal())},
		{"of it revocable", Resources(h.GetCapacity().GetRevocable())},
		{"allocated", Resources(h.GetAllocated())},
		{"left unused of it", Resources(h.GetSlack())},
		{"lent to revocable tasks", Resources(h.GetLent())},
		{"used", Resources(h.GetUsed())},
		{"tasks", strconv.Itoa(int(h.GetTasks()))},
	}
}
