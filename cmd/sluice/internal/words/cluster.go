package words

import (
	"fmt"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// StatusProperties shows the scheduler as a whole.
func StatusProperties(s *sluicev1.GetStatusResponse) []Property {
	last := ""
	if s.GetLastCycle() != nil {
		last = Cycle(s.GetLastCycle())
	}
	return []Property{
		{"cluster", s.GetClusterId()},
		{"version", s.GetVersion()},
		{"running for", Span(s.GetStartTime(), nil)},
		{"mode", Mode(s.GetMode())},
		{"restored", awaited(s.GetAwaitedShards())},
		{"cost model", s.GetCostModel()},
		{"solver", s.GetSolver()},
		{"jobs", states(s.GetJobCounts(), "JOB_STATE_")},
		{"tasks", states(s.GetTaskCounts(), "TASK_STATE_")},
		{"hosts", states(s.GetHostCounts(), "HOST_STATE_")},
		{"capacity", Resources(s.GetCapacity())},
		{"allocated", Resources(s.GetAllocated())},
		{"used", Resources(s.GetUsed())},
		{"last cycle", last},
	}
}

// awaited says that nothing is placed yet since a restore, and for whom that waits; "" where it waits for nobody.
func awaited(shards []string) string {
	if len(shards) == 0 {
		return ""
	}
	return "nothing is placed until it is known what runs on " + strings.Join(shards, ", ")
}

// ShardTable lists host managers.
func ShardTable(shards []*sluicev1.ShardStatus) Table {
	var rows [][]string
	for _, x := range shards {
		state := "cut off"
		if x.GetConnected() {
			state = "connected"
		}
		rows = append(rows, []string{
			x.GetName(), x.GetDriver(), state, Span(x.GetSince(), nil), fmt.Sprint(x.GetHosts()), fmt.Sprint(x.GetTasks()),
			fmt.Sprint(x.GetCommandsPending()),
		})
	}
	return Table{"SHARD DRIVER STATE FOR HOSTS TASKS PENDING", rows}
}

// MemberTable lists schedulers that stand by for each other. Behind is how many records a copy lacks of what the leader has.
func MemberTable(members []*sluicev1.Member) Table {
	roles := map[sluicev1.Member_Role]string{
		sluicev1.Member_ROLE_LEADER: "leads", sluicev1.Member_ROLE_STANDBY: "stands by", sluicev1.Member_ROLE_NEW: "has no vote yet",
		sluicev1.Member_ROLE_WAITING: "looks for the others",
	}
	var last uint64
	for _, m := range members {
		last = max(last, m.GetRecord())
	}
	var rows [][]string
	for _, m := range members {
		role, known := roles[m.GetRole()]
		if !known {
			rows = append(rows, []string{m.GetName(), "does not answer", "", "", m.GetPeerAddress(), ""})
			continue
		}
		rows = append(rows, []string{
			m.GetName(), role, fmt.Sprint(m.GetRecord()), fmt.Sprint(last - m.GetRecord()), m.GetPeerAddress(), m.GetApiAddress(),
		})
	}
	return Table{"MEMBER ROLE RECORD BEHIND PEER-ADDRESS API-ADDRESS", rows}
}

// Mode says what the cluster does not do now, "" where it does everything.
func Mode(m *sluicev1.ClusterMode) string {
	var parts []string
	for _, x := range []struct {
		on   bool
		word string
	}{
		{m.GetReadOnly(), "read-only"},
		{m.GetSchedulingStopped(), "scheduling stopped"},
		{m.GetKillingStopped(), "killing stopped"},
	} {
		if x.on {
			parts = append(parts, x.word)
		}
	}
	return strings.Join(parts, ", ")
}

// Cycle sums a cycle up.
func Cycle(c *sluicev1.CycleSummary) string {
	line := fmt.Sprintf("%d: %d placed, %d waiting in %d classes, %d arcs (%d touched), solver work %d, %d us",
		c.GetNumber(), c.GetPlacements(), c.GetWaiting(), c.GetClasses(), c.GetArcs(), c.GetArcsTouched(), c.GetSolverWork(), c.GetTotalUs())
	if n := c.GetPreemptions(); n > 0 {
		line += fmt.Sprintf(", %d preempted", n)
	}
	if n := c.GetMigrations(); n > 0 {
		line += fmt.Sprintf(", %d moved", n)
	}
	if c.GetLimitedBy() != "" {
		line += ", limited by " + c.GetLimitedBy()
	}
	return line
}
