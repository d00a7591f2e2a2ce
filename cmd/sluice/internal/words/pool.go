package words

import (
	"fmt"
	"strconv"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// PoolTable lists pools.
func PoolTable(pools []*sluicev1.Pool) Table {
	var rows [][]string
	for _, p := range pools {
		rows = append(rows, []string{
			p.GetSpec().GetPath(), PoolState(p.GetState()), strconv.FormatUint(p.GetActiveJobs(), 10),
			strconv.FormatUint(p.GetWaitingTasks(), 10), strconv.FormatUint(p.GetRunningTasks(), 10), p.GetSpec().GetDescription(),
		})
	}
	return Table{"PATH STATE JOBS WAITING RUNNING DESCRIPTION", rows}
}

// PoolProperties shows a pool, without its dimensions.
func PoolProperties(p *sluicev1.Pool) []Property {
	return []Property{
		{"path", p.GetSpec().GetPath()},
		{"state", PoolState(p.GetState())},
		{"description", p.GetSpec().GetDescription()},
		{"leaf", strconv.FormatBool(p.GetLeaf())},
		{"version", strconv.FormatUint(p.GetVersion(), 10)},
		{"active jobs", strconv.FormatUint(p.GetActiveJobs(), 10)},
		{"waiting tasks", strconv.FormatUint(p.GetWaitingTasks(), 10)},
		{"running tasks", strconv.FormatUint(p.GetRunningTasks(), 10)},
		{"created", Time(p.GetCreateTime())},
	}
}

// PoolAmounts says what a pool has of each dimension, in its unit, and what binds.
func PoolAmounts(dimensions []*sluicev1.PoolDimensionStatus) Table {
	var rows [][]string
	for _, d := range dimensions {
		rows = append(rows, []string{
			d.GetDimension(), fmt.Sprint(d.GetReservation()), limit(d.GetLimit()), fmt.Sprint(d.GetShare()),
			fmt.Sprint(d.GetDemand()), fmt.Sprint(d.GetAllocation()), fmt.Sprint(d.GetEntitlement()), d.GetBoundBy(),
		})
	}
	return Table{"DIMENSION RESERVATION LIMIT SHARE DEMAND ALLOCATION ENTITLEMENT BOUND-BY", rows}
}

// PoolTasksCaption says what PoolTasks counts.
const PoolTasksCaption = "tasks that run or wait, by the tier that they are admitted in"

// PoolTasks counts the tasks of a pool in each dimension.
func PoolTasks(dimensions []*sluicev1.PoolDimensionStatus) Table {
	var rows [][]string
	for _, d := range dimensions {
		rows = append(rows, []string{
			d.GetDimension(), fmt.Sprint(d.GetReservedTasks()), fmt.Sprint(d.GetEntitledTasks()), fmt.Sprint(d.GetBorrowedTasks()), fmt.Sprint(d.GetRefusedTasks()),
		})
	}
	return Table{"DIMENSION RESERVED ENTITLED BORROWED REFUSED", rows}
}

// Bounds says what each pool up to the one that binds is entitled to, of what it holds and asks for.
func Bounds(chain []*sluicev1.PoolBound) string {
	words := make([]string, len(chain))
	for i, b := range chain {
		words[i] = fmt.Sprintf("%s is entitled to %d of %d", b.GetPool(), b.GetEntitlement(), b.GetWanted())
	}
	return strings.Join(words, "; ")
}

// limit shows a limit; below 0 is none, "".
func limit(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
