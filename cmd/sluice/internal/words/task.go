package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// TaskTable lists tasks, with their versions where a job has had an update, and with their health where it is checked.
func TaskTable(tasks []*sluicev1.Task) Table {
	heading := "TASK STATE HOST RUN"
	versions := slices.ContainsFunc(tasks, func(t *sluicev1.Task) bool { return t.GetJobVersion() > 1 })
	if versions {
		heading += " VERSION"
	}
	health := slices.ContainsFunc(tasks, func(t *sluicev1.Task) bool { return Health(t.GetHealth()) != "" })
	if health {
		heading += " HEALTH"
	}
	var rows [][]string
	for _, t := range tasks {
		row := []string{Task(t), TaskState(t.GetState()), t.GetHost(), strconv.Itoa(int(t.GetRun()))}
		if versions {
			row = append(row, version(t))
		}
		if health {
			row = append(row, Health(t.GetHealth()))
		}
		rows = append(rows, append(row, strconv.Itoa(int(t.GetFailures())), Span(t.GetStartTime(), t.GetEndTime()), why(t)))
	}
	return Table{heading + " FAILURES RAN REASON", rows}
}

// TaskProperties shows a task.
func TaskProperties(t *sluicev1.Task) []Property {
	copied := ""
	if c := t.GetCopy(); c != nil {
		if copied = strings.ToLower(TaskState(c.GetState())); c.GetHost() != "" {
			copied += " on " + c.GetHost()
		}
	}
	return []Property{
		{"task", Task(t)},
		{"state", TaskState(t.GetState())},
		{"reason", End(t)},
		{"waits", Waiting(t)},
		{"host", t.GetHost()},
		{"bound to", t.GetHomeHost()},
		{"run", strconv.Itoa(int(t.GetRun()))},
		{"version", version(t)},
		{"failures", strconv.Itoa(int(t.GetFailures()))},
		{"allocated", Resources(t.GetAllocated())},
		{"used", Resources(t.GetUsed())},
		{"ports", strings.Trim(fmt.Sprint(t.GetPorts()), "[]")},
		{"health", Health(t.GetHealth())},
		{"progress", Progress(t.Progress)},
		{"queued", Time(t.GetQueueTime())},
		{"started", Time(t.GetStartTime())},
		{"ended", Time(t.GetEndTime())},
		{"ran for", Span(t.GetStartTime(), t.GetEndTime())},
		{"not before", Time(t.GetNotBefore())},
		{"copy", copied},
		{"sandbox", t.GetSandbox()},
	}
}

// EventTable lists what happened to a task.
func EventTable(events []*sluicev1.TaskEvent) Table {
	var rows [][]string
	for _, e := range events {
		rows = append(rows, []string{
			Moment(e.GetTime()), strconv.Itoa(int(e.GetRun())), TaskState(e.GetState()), e.GetHost(),
			strings.TrimSpace(e.GetReason() + " " + e.GetMessage()),
		})
	}
	return Table{"TIME RUN STATE HOST REASON", rows}
}

// Task names a task as JOB/INSTANCE.
func Task(t *sluicev1.Task) string { return fmt.Sprintf("%s/%d", t.GetJob(), t.GetInstance()) }

// End says how a run ended, "" where it has not.
func End(t *sluicev1.Task) string {
	var parts []string
	if r := t.GetResult(); r != nil {
		if r.ExitCode != nil {
			parts = append(parts, fmt.Sprintf("exit code %d", r.GetExitCode()))
		}
		if r.GetSignal() != 0 {
			parts = append(parts, fmt.Sprintf("signal %d", r.GetSignal()))
		}
	}
	if t.GetReason() != "" {
		parts = append(parts, t.GetReason())
	}
	if t.GetMessage() != "" {
		parts = append(parts, Visible(t.GetMessage(), ""))
	}
	return strings.Join(parts, ", ")
}

// why says how the last run of a task ended, and why there is no other yet.
func why(t *sluicev1.Task) string {
	parts := []string{End(t), Waiting(t)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// version is the version of the job that a run goes by, "" where there is no run.
func version(t *sluicev1.Task) string {
	if t.GetJobVersion() == 0 {
		return ""
	}
	return strconv.FormatUint(t.GetJobVersion(), 10)
}

// Progress writes a part of 1 in percent, "" where there is none.
func Progress(part *float64) string {
	if part == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100**part)
}

// Health writes what is known of the health of a task, "" where that is nothing.
func Health(h sluicev1.Health) string {
	if h == sluicev1.Health_HEALTH_UNSPECIFIED {
		return ""
	}
	return State(h, "HEALTH_")
}
