package report_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster/sim"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
	"github.com/sluice-scheduler/sluice/cluster/sim/report"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

func result(model string, violations int) *sim.Result {
	r := &sim.Result{
		Model: model, Hosts: 7, Tasks: sim.Tasks{Submitted: 11, Placed: 10, Waiting: 1}, VirtualSeconds: 40, ViolationCount: violations,
		Utilisation: map[string]sim.Utilisation{"cpu_milli": {Mean: 0.5, Peak: 0.75, Final: 0.25}},
		Waiting: []sim.WaitingTime{{Pool: "root/b", Type: "BATCH", Seconds: sim.Quantiles{Count: 3, Mean: 10}}, {
			Pool: "root/<a>", Type: "BATCH", Seconds: sim.Quantiles{Count: 1, Mean: 1.5, P50: 1, P90: 2, P99: 3, Max: 4},
			CDF: [][2]float64{{0, 0.1}, {4, 1}},
		}},
		Compression: &trace.Compression{Factor: 0.25, Copies: 3, Load: 0.901},
		Read:        sim.BytesRead{Local: 3e9, Remote: 1e9},
		Cycles:      sim.Cycles{Latency: map[string]sim.Quantiles{"solve": {P50: 1.5, P99: 9}, "total": {P50: 2, P99: 10}}},
		Series: sim.Series{IntervalSeconds: 10, Values: map[string][]float64{
			"cpu_milli": {0, 0.5, 0.75, 0.25}, "running_tasks": {1, 2, 3, 2}, "waiting_tasks": {0, 0, 5, 1}, "hosts": {7, 7, 6, 7},
		}},
	}
	for range violations {
		r.Violations = append(r.Violations, check.Violation{Rule: check.Once, Message: "a task ran twice"})
	}
	return r
}

func TestTheTableShowsResultsSideBySide(t *testing.T) {
	var b strings.Builder
	two := result("two", 12)
	two.Oversubscription = &sim.Oversubscription{Placements: 30, Revoked: 4, Lent: map[string]float64{"cpu_milli": 0.125}, Reports: 900, Overloads: 5}
	require.NoError(t, report.WriteTable(&b, []*sim.Result{result("one", 0), two}))
	for _, want := range []string{
		"one ", "two", "50.0 % / 75.0 % / 25.0 %", "1 / 2 / 3 / 4", "mean of all     7.875", "1.500 / 9.000 / 0.000", "3.0 GB (75.0 %)", "0.25 / 3 / 0.901",
		"VIOLATION (two) ONCE at record 0: a task ran twice", "… and 2 more",
		"lent to revocable tasks", "12.5 %\n", "-  30 / 4\n", "900 / 5\n",
	} {
		require.Contains(t, b.String(), want)
	}
}

func TestThePageNeedsNothingElse(t *testing.T) {
	var b strings.Builder
	require.NoError(t, report.WriteHTML(&b, `sluice sim --jobs='<a&b>'`, []*sim.Result{result("one", 0), result("two", 1)}))
	page := b.String()
	require.Equal(t, 4, strings.Count(page, "<svg"))
	require.Contains(t, page, "1 rules were broken")
	require.Contains(t, page, "&lt;a&amp;b&gt;")
	for _, outside := range []string{"src=", "href=", "@import", "url(", "<script"} {
		require.NotContains(t, page, outside)
	}
	require.NotContains(t, page, "NaN")
	require.NotContains(t, page, "Inf")
	for _, svg := range strings.SplitAfter(page, "</svg>") {
		_, svg, found := strings.Cut(svg, "<svg")
		if !found {
			continue
		}
		d := xml.NewDecoder(strings.NewReader("<svg" + svg))
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
	}
}

// TestEveryLineHasItsName: a picture is as high as the names of its lines need, however many pools there are.
func TestEveryLineHasItsName(t *testing.T) {
	r := result("one", 0)
	for i := range 60 {
		r.Waiting = append(r.Waiting, sim.WaitingTime{Pool: fmt.Sprintf("root/org-%d", i), Type: "BATCH", CDF: [][2]float64{{0, 0.1}, {4, 1}}})
	}
	var b strings.Builder
	require.NoError(t, report.WriteHTML(&b, "sluice sim", []*sim.Result{r}))
	view := regexp.MustCompile(`viewBox="0 0 820 (\d+)"`)
	names := regexp.MustCompile(`<text x="666.0" y="([0-9.]+)">`)
	for i, svg := range strings.SplitAfter(b.String(), "</svg>")[:4] {
		high, err := strconv.ParseFloat(view.FindStringSubmatch(svg)[1], 64)
		require.NoError(t, err)
		if i < 3 {
			require.Equal(t, 300.0, high, "as long as there is room")
		}
		for _, name := range names.FindAllStringSubmatch(svg, -1) {
			at, err := strconv.ParseFloat(name[1], 64)
			require.NoError(t, err)
			require.Less(t, at, high-4)
		}
	}
}

// TestPlannersAreToldApart: where one model was planned in two ways, all that is drawn says which.
func TestPlannersAreToldApart(t *testing.T) {
	flow, greedy := result("one", 0), result("one", 1)
	flow.Planner, greedy.Planner = sim.Flow, sim.Greedy
	var b strings.Builder
	require.NoError(t, report.WriteHTML(&b, "sluice sim", []*sim.Result{flow, greedy}))
	for _, want := range []string{"<b>one greedy</b>", ">one flow running<", ">one greedy running<", "by phase, one flow:", "VIOLATION (one greedy)"} {
		require.Contains(t, b.String(), want)
	}
}
