package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// slowing has training take twice as long beside each task that sorts, which does not mind.
var slowing = fleet.Interference{{Work: "train", Beside: "sort"}: 1000}

// lostToCompany plays workloads of 150 jobs that sort or train with ten seeds, half of the cores in use, and returns the seconds that
// a run lost to others on its host, in the mean of all runs, and of those in the second half of the time.
func lostToCompany(t *testing.T, model string, learns bool) (all, late float64) {
	oneGoroutine(t)
	m, err := models.New(model)
	require.NoError(t, err)
	var every time.Duration
	if !learns {
		every = 10_000 * time.Hour // then it is told in the beginning only
	}
	runs, lateRuns := 0.0, 0.0
	for seed := range uint64(10) {
		s := story{model: m, learnEvery: every, interference: slowing}
		random := rand.New(rand.NewPCG(seed, 0))
		at := time.Duration(0)
		for i := range 150 {
			at += time.Duration(random.ExpFloat64() * float64(10*time.Second))
			s.jobs = append(s.jobs, work(fmt.Sprint("j", i), at, 1+random.Uint32N(3), does([]string{"sort", "train"}[random.IntN(2)])))
		}
		for _, o := range s.tell(t) {
			lost := o.end - o.start - time.Minute.Seconds()
			all, runs = all+lost, runs+1
			if o.start > at.Seconds()/2 {
				late, lateRuns = late+lost, lateRuns+1
			}
		}
	}
	all, late = all/runs, late/lateRuns
	t.Logf("%s, learns %v: %.2f s lost, %.2f s in the second half", model, learns, all, late)
	return all, late
}

// TestWorkKeepsAwayFromWhatSlowsIt: under whare, nothing but the run times tell who disturbs whom; when some were seen, those who
// suffer go elsewhere. Where the model is never told, and under loadspread, they go on losing time.
func TestWorkKeepsAwayFromWhatSlowsIt(t *testing.T) {
	taught, late := lostToCompany(t, "whare", true)
	untaught, _ := lostToCompany(t, "whare", false)
	spread, _ := lostToCompany(t, "loadspread", true)
	require.Less(t, taught, 0.7*spread)
	require.Less(t, taught, 0.6*untaught)
	require.Less(t, late, 0.5*spread, "more is known later")
}

// TestThoseWhoSufferStayAwayFromDevils: under coco, which learns nothing, the settings tell who disturbs whom.
func TestThoseWhoSufferStayAwayFromDevils(t *testing.T) {
	told, _ := lostToCompany(t, "coco(devils=sort, rabbits=train)", true)
	untold, _ := lostToCompany(t, "coco", true)
	spread, _ := lostToCompany(t, "loadspread", true)
	require.Less(t, told, 0.6*spread)
	require.Less(t, told, 0.6*untold)
}

// TestInterferenceUnderFaults: whatever fails, each task succeeds once, in the same history each time; and interference between
// kinds of work that nobody does changes nothing.
func TestInterferenceUnderFaults(t *testing.T) {
	oneGoroutine(t)
	history := func(interference fleet.Interference) string {
		c := config(crowded(5, 20, 40, 4*time.Second))
		plain, i := c.Workload.Jobs.(*jobs).make, 0
		c.Workload.Jobs.(*jobs).make = func(n int) *trace.Job {
			j := plain(n)
			does([]string{"sort", "train"}[i%2])(&j.Spec)
			i++
			return j
		}
		c.Seed, c.Faults, c.LostAfter, c.CheckpointEvery = 5, faulty(20*time.Second), 15*time.Second, 1000
		c.Idempotent, c.Speculation = true, knowledge.Speculation{Interval: time.Second, After: 10 * time.Second, SlowTaskPercent: 25, MaxSlowdown: 200, MaxCopiesPercent: 50}
		c.Usage, c.Interference = Usage{Mean: 0.5}, interference
		r := run(t, c)
		clean(t, r)
		require.Equal(t, Tasks{Submitted: r.Tasks.Submitted, Placed: r.Tasks.Submitted, Finished: r.Tasks.Submitted}, r.Tasks)
		return r.Hash
	}
	quiet := history(nil)
	require.Equal(t, quiet, history(fleet.Interference{{Work: "web", Beside: "sort"}: 1000, {Work: "train", Beside: "web"}: 1000}))
	require.NotEqual(t, quiet, history(slowing))
	require.Equal(t, history(slowing), history(slowing))
}

func TestInterferenceFromText(t *testing.T) {
	got, err := ParseInterference("sort+scan=1.5, sort+sort=2")
	require.NoError(t, err)
	require.Equal(t, fleet.Interference{{Work: "sort", Beside: "scan"}: 500, {Work: "sort", Beside: "sort"}: 1000}, got)
	for text, want := range map[string]string{
		"sort=2":                    `"sort=2" does not name two kinds of work; give WORK+BESIDE=FACTOR, as in sort+scan=1.5`,
		"a+b+c=2":                   "does not name two kinds of work",
		"sort+scan":                 `"" is not how many times as long sort takes beside scan; give a number from 1 to 1000`,
		"sort+scan=0.5":             `"0.5" is not how many times as long`,
		"sort+scan=NaN":             "a number from 1 to 1000, as in sort+scan=1.5",
		"sort+scan=2,sort+scan=1.5": "sort+scan is there twice",
		"sort+scan=2,":              "does not name two kinds",
	} {
		_, err := ParseInterference(text)
		require.ErrorContains(t, err, want, text)
	}
	c := config(mixed(1, 5, 5, time.Second))
	c.Interference = fleet.Interference{{Work: "sort", Beside: "scan"}: -1}
	_, err = Run(t.Context(), c)
	require.ErrorContains(t, err, `"sort" beside "scan" takes -1`)
}

// TestGeneratedJobsSayTheirKind: where they are asked to.
func TestGeneratedJobsSayTheirKind(t *testing.T) {
	for _, labels := range []bool{false, true} {
		w, err := trace.Generate(trace.Synthetic{Fleet: trace.Fleet{Hosts: 5}, Labels: labels})
		require.NoError(t, err)
		for range 20 {
			j, err := w.Jobs.Next()
			require.NoError(t, err)
			want := ""
			if labels {
				want = strings.TrimPrefix(string(j.Spec.Pool), "root/")
			}
			require.Equal(t, want, cluster.WorkOf(&j.Spec))
		}
	}
}
