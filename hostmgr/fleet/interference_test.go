package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// TestCompany: a run goes on at the pace that its company allows, and ends just when its work is done. It begins to run two seconds
// after it is launched.
func TestCompany(t *testing.T) {
	for _, c := range []struct {
		name   string
		others []string // "WORK HOST AT LASTS", in the order in which they are launched; the host of the first is h0
		faults func(*world)
		want   string // when the first run, of 60 seconds, ends
	}{
		{name: "alone", want: "1m2s"},
		{name: "one comes and goes", others: []string{"sort h0 10s 20s"}, want: "1m12s"},
		{name: "one comes and stays", others: []string{"sort h0 10s 10h"}, want: "1m52s"},
		{name: "one was there and goes", others: []string{"sort h0 0s 20s"}, want: "1m12s"},
		{name: "two, one after the other", others: []string{"sort h0 10s 10s", "sort h0 30s 10s"}, want: "1m12s"},
		{name: "two at once for a while", others: []string{"sort h0 10s 22s", "sort h0 20s 22s"}, want: "1m20s"}, // a half of 10 s, a third of 12 s, a half of 10 s
		{name: "others do not mind, and nobody minds them", others: []string{"train h0 10s 20s", "web h0 10s 20s", "sort h1 10s 20s"}, want: "1m2s"},
		{name: "one that slows a little", others: []string{"scan h0 10s 10h"}, want: "1m14.5s"},
		{
			name: "one is killed", others: []string{"sort h0 10s 10h"}, want: "1m12s",
			faults: func(w *world) {
				w.clock.Advance(30 * time.Second)
				require.NoError(w, w.driver.Kill(w.Context(), run(1), time.Minute)) // it takes two seconds
			},
		},
		{
			name: "seen or not", others: []string{"sort h0 10s 20s"}, want: "1m40s",
			faults: func(w *world) {
				w.clock.Advance(20 * time.Second)
				require.NoError(w, w.CutOff("h0"))
				w.clock.Advance(80 * time.Second)
				require.NoError(w, w.Heal("h0"))
			},
		},
		{
			name: "its host crashes", others: []string{"sort h0 10s 20s"}, want: "20s",
			faults: func(w *world) {
				w.clock.Advance(20 * time.Second)
				require.NoError(w, w.Crash("h0"))
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			works := []string{"train"}
			for _, o := range c.others {
				works = append(works, strings.Fields(o)[0])
			}
			w := newWorld(t, fleet.Faults{}, func(config *fleet.Config) {
				config.Interference = fleet.Interference{{Work: "train", Beside: "sort"}: 1000, {Work: "train", Beside: "scan"}: 250}
				plan := config.Plan
				config.Plan = func(l hostmgr.Launch) fleet.Plan {
					p := plan(l)
					p.Work = works[l.Run.Task.Instance()]
					return p
				}
			})
			require.NoError(t, w.launch(0, "h0", "60s"))
			for i, o := range c.others {
				f := strings.Fields(o)
				at, err := time.ParseDuration(f[2])
				require.NoError(t, err)
				w.clock.AfterFunc(at, func() { require.NoError(w, w.launch(i+1, f[1], f[3])) })
			}
			if c.faults != nil {
				c.faults(w)
			}
			w.clock.Advance(time.Hour)
			var ends []string
			for _, line := range w.lines {
				at, what, _ := strings.Cut(line, " ")
				if strings.HasPrefix(what, run(0).String()+" ") && (strings.Contains(what, "SUCCEEDED") || strings.Contains(what, "LOST")) {
					ends = append(ends, at)
				}
			}
			require.Equal(t, []string{c.want}, ends, "%v", w.lines)
		})
	}
}

// TestUsageKnowsThePace: what a run uses may follow how fast it works.
func TestUsageKnowsThePace(t *testing.T) {
	w := newWorld(t, fleet.Faults{}, func(config *fleet.Config) {
		config.UsageInterval = 20 * time.Second
		config.Interference = fleet.Interference{{Work: "sort", Beside: "sort"}: 1000}
		config.Plan = func(hostmgr.Launch) fleet.Plan {
			return fleet.Plan{Duration: 25 * time.Second, Work: "sort", Usage: func(_ time.Duration, pace float64) (r cluster.Resources) {
				r.Fixed[cluster.CPU] = int64(1000 * pace)
				return r
			}}
		}
	})
	require.NoError(t, w.launch(0, "h0", "-"))
	w.clock.AfterFunc(10*time.Second, func() { require.NoError(w, w.launch(1, "h0", "-")) }) // they part at 40s
	w.clock.AfterFunc(30*time.Second, func() { require.NoError(w, w.launch(2, "h1", "-")) })
	w.clock.Advance(41 * time.Second)
	var uses []string
	for _, line := range w.lines {
		if strings.Contains(line, " uses ") {
			uses = append(uses, line)
		}
	}
	require.Equal(t, []string{"20s 1.0.1 uses 500 0", "20s 1.1.1 uses 500 0", "40s 1.1.1 uses 1000 0", "40s 1.2.1 uses 1000 0"}, uses)
}
