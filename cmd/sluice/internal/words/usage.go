package words

import (
	"strconv"
	"strings"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// UsageTable lists what jobs used, in hours, and last the sum where there are several lines.
func UsageTable(entries []*sluicev1.UsageEntry, byDay, byPool, byOwner bool) Table {
	var keys []string
	var values []func(*sluicev1.UsageEntry) string
	for _, k := range []struct {
		shown bool
		name  string
		value func(*sluicev1.UsageEntry) string
	}{
		{byDay, "DAY", (*sluicev1.UsageEntry).GetDay}, {byPool, "POOL", (*sluicev1.UsageEntry).GetPool}, {byOwner, "OWNER", (*sluicev1.UsageEntry).GetOwner},
	} {
		if k.shown {
			keys, values = append(keys, k.name), append(values, k.value)
		}
	}
	var rows [][]string
	sum := &sluicev1.UsageEntry{Used: &sluicev1.Usage{}, Lost: &sluicev1.Usage{}}
	line := func(e *sluicev1.UsageEntry) {
		u := e.GetUsed()
		var row []string
		for _, value := range values {
			row = append(row, value(e))
		}
		rows = append(rows, append(row,
			hours(u.GetRunSeconds()), hours(u.GetCpuSeconds()), hours(e.GetLost().GetCpuSeconds()), hours(u.GetMemoryGibSeconds()), hours(u.GetGpuSeconds()),
			strconv.FormatUint(e.GetRunsSucceeded(), 10), strconv.FormatUint(e.GetRunsFailed(), 10),
			strconv.FormatUint(e.GetRunsLost(), 10), strconv.FormatUint(e.GetRunsKilled(), 10)))
	}
	for _, e := range entries {
		line(e)
		for _, x := range []struct{ to, from *sluicev1.Usage }{{sum.Used, e.GetUsed()}, {sum.Lost, e.GetLost()}} {
			x.to.RunSeconds += x.from.GetRunSeconds()
			x.to.CpuSeconds += x.from.GetCpuSeconds()
			x.to.MemoryGibSeconds += x.from.GetMemoryGibSeconds()
			x.to.GpuSeconds += x.from.GetGpuSeconds()
		}
		sum.RunsSucceeded += e.GetRunsSucceeded()
		sum.RunsFailed += e.GetRunsFailed()
		sum.RunsLost += e.GetRunsLost()
		sum.RunsKilled += e.GetRunsKilled()
	}
	if len(entries) > 1 {
		line(sum)
		rows[len(rows)-1][0] = "(all)"
	}
	return Table{strings.Join(append(keys, "RUN-HOURS CPU-HOURS LOST GIB-HOURS GPU-HOURS SUCCEEDED FAILED LOST-RUNS KILLED"), " "), rows}
}

// hours gives seconds as hours.
func hours(seconds float64) string { return strconv.FormatFloat(seconds/3600, 'f', 3, 64) }
