package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

// lent is a small cluster full of services, and revocable jobs that ask for more than these leave unused.
func lent() *trace.Workload {
	mix, err := trace.ParseMix("service=0.7,batch=0.1,revocable=0.8")
	if err != nil {
		panic(err)
	}
	w, err := trace.Generate(trace.Synthetic{Fleet: trace.Fleet{Hosts: 6}, Load: 1.6, Horizon: 20 * time.Minute, Mix: mix, Seed: 1})
	if err != nil {
		panic(err)
	}
	return w
}

// tight has usage rise again and again beyond what is expected.
var tight = Usage{Mean: 0.5, Interval: 10 * time.Second, Window: 20 * time.Second, Margin: 1}

func TestRevocableTasksUseWhatOthersLeave(t *testing.T) {
	c := config(lent())
	c.Usage, c.Horizon = tight, 20*time.Minute
	r := run(t, c)
	clean(t, r)
	o := r.Oversubscription
	require.Positive(t, o.Placements)
	require.Positive(t, o.Revoked, "usage rises, and they go")
	require.Greater(t, o.Lent[cluster.CPU.String()], 0.1)
	require.Less(t, o.Overloads, o.Reports/100, "a rise is seen by the next report")
	require.Equal(t, r.Hash, func() string { // usage is made up by the seed alone
		again := config(lent())
		again.Usage, again.Horizon = tight, 20*time.Minute
		return run(t, again).Hash
	}())

	c = config(lent())
	c.Usage, c.Horizon = tight, 20*time.Minute
	c.Usage.Window = NoTime
	r = run(t, c)
	clean(t, r)
	require.Zero(t, r.Oversubscription.Placements, "nothing is lent")
}

// What is lent survives crashes of the scheduler, and lost reports, hosts and links.
func TestLendingUnderFaults(t *testing.T) {
	oneGoroutine(t)
	c := config(lent())
	c.Usage, c.Horizon = tight, 20*time.Minute
	c.Faults = faulty(2 * time.Minute)
	r := run(t, c)
	clean(t, r)
	require.Positive(t, r.Oversubscription.Placements)
	require.Positive(t, r.Faults.Injected)
}

func TestUsageIsChecked(t *testing.T) {
	for _, u := range []Usage{{Mean: 1.1}, {Mean: -1}, {Interval: time.Second}, {Mean: 0.5, Interval: -1}, {Mean: 0.5, Margin: -1}} {
		c := config(lent())
		c.Usage = u
		_, err := Run(t.Context(), c)
		require.Error(t, err, "%+v", u)
	}
}
