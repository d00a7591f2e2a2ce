package words

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// JobTable lists jobs.
func JobTable(jobs []*sluicev1.Job) Table {
	var rows [][]string
	for _, j := range jobs {
		rows = append(rows, []string{
			j.GetName(), JobState(j.GetState()), j.GetSpec().GetPool(), j.GetSpec().GetOwner(),
			strconv.Itoa(int(j.GetSpec().GetPriority())), Counts(j), Span(j.GetCreateTime(), nil),
		})
	}
	return Table{"NAME STATE POOL OWNER PRIORITY TASKS AGE", rows}
}

// JobProperties shows a job.
func JobProperties(j *sluicev1.Job) []Property {
	s := j.GetSpec()
	return []Property{
		{"name", j.GetName()},
		{"state", JobState(j.GetState())},
		{"reason", strings.TrimSpace(j.GetReason() + " " + j.GetMessage())},
		{"tasks", Counts(j)},
		{"type", State(s.GetType(), "JOB_TYPE_")},
		{"pool", s.GetPool()},
		{"owner", s.GetOwner()},
		{"priority", strconv.Itoa(int(s.GetPriority()))},
		{"labels", Labels(s.GetLabels())},
		{"uid", strconv.FormatUint(uint64(j.GetUid()), 10)},
		{"version", strconv.FormatUint(j.GetVersion(), 10)},
		{"update", Update(j.GetUpdate())},
		{"update waits", strings.Join(j.GetUpdate().GetWaitsFor(), "; ")},
		{"progress", Progress(j.Progress)},
		{"submitted", Time(j.GetCreateTime())},
		{"started", Time(j.GetStartTime())},
		{"ended", Time(j.GetEndTime())},
		{"ran for", Span(j.GetStartTime(), j.GetEndTime())},
	}
}

// EndpointTable lists where instances of a job are reached.
func EndpointTable(endpoints []*sluicev1.Endpoint) Table {
	var rows [][]string
	for _, e := range endpoints {
		rows = append(rows, []string{
			strconv.FormatUint(uint64(e.GetInstance()), 10), e.GetName(), net.JoinHostPort(e.GetAddress(), strconv.FormatUint(uint64(e.GetPort()), 10)),
			e.GetProtocol(),
		})
	}
	return Table{"INSTANCE ENDPOINT ADDRESS PROTOCOL", rows}
}

// Counts says how many of a job's tasks are in which state: "200: 12 running, 188 succeeded"; of services
// also how many are ready.
func Counts(j *sluicev1.Job) string {
	var ready []string
	if j.GetSpec().GetType() > sluicev1.JobType_JOB_TYPE_BATCH {
		ready = append(ready, fmt.Sprintf("%d ready", j.GetReadyCount()))
	}
	return states(j.GetTaskCounts(), "TASK_STATE_", ready...)
}

// Update says how far an update is: "rolling_forward, 3 of 20 done, version 1 to 2".
func Update(u *sluicev1.JobUpdate) string {
	if u == nil {
		return ""
	}
	parts := []string{
		State(u.GetState(), "UPDATE_STATE_"),
		fmt.Sprintf("%d of %d done", u.GetInstancesDone(), u.GetInstancesTotal()),
	}
	if n := u.GetInstancesFailed(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	if u.GetAwaitsPromotion() {
		parts = append(parts, "waits to be promoted")
	}
	if u.GetFromVersion() == u.GetToVersion() {
		parts = append(parts, fmt.Sprintf("restart of version %d", u.GetToVersion()))
	} else {
		parts = append(parts, fmt.Sprintf("version %d to %d", u.GetFromVersion(), u.GetToVersion()))
	}
	return strings.Join(parts, ", ") + After(": ", strings.TrimSpace(u.GetReason()+" "+u.GetMessage()))
}
