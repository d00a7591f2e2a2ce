package words

import (
	"fmt"
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
		{"all leave at", Time(h.GetDrain().GetDeadline())},
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

// Remaining says what is still on a host that is being drained, and why, in a line for each job and reason.
func Remaining(h *sluicev1.Host) (lines []string) {
	for _, r := range h.GetRemaining() {
		of := "of jobs that you may not see"
		if r.GetJob() != "" {
			of = "of job " + r.GetJob()
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", Number(int(r.GetTasks()), "task"), of, stays[r.GetReason()]))
	}
	return lines
}

var stays = map[sluicev1.StayReason]string{
	sluicev1.StayReason_STAY_REASON_LEAVING:         "leaving",
	sluicev1.StayReason_STAY_REASON_UNREACHABLE:     "the host is unreachable, so nobody can tell it to end",
	sluicev1.StayReason_STAY_REASON_KILLING_STOPPED: "the cluster's mode has nothing killed",
	sluicev1.StayReason_STAY_REASON_LAST_OFF:        "a daemon, which stops when all others have left",
	sluicev1.StayReason_STAY_REASON_NOT_MOVED:       "this drain moves nothing (--move does)",
	sluicev1.StayReason_STAY_REASON_BOUND:           "bound to this host by what it keeps here; it leaves if you stop it",
	sluicev1.StayReason_STAY_REASON_NOT_PREEMPTIBLE: "runs to its end, as its job is not preemptible",
	sluicev1.StayReason_STAY_REASON_AVAILABILITY:    "no more of its job may be unavailable (max_unavailable_instances)",
}
