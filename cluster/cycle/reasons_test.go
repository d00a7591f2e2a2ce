package cycle

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Whoever looks a reason up finds it.
func TestHostReasonsAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs.md")
	require.NoError(t, err)
	for _, reason := range verdictReasons[open:] {
		require.Contains(t, string(page), "`"+string(reason)+"`")
	}
}

// What a row knows of hosts that were alike it forgets when others get their signature.
func TestARowForgetsSignaturesOfBefore(t *testing.T) {
	hosts := newHosts(func(*host) {})
	set := func(h *host, disk string) {
		hosts.set(h, &cluster.Host{ID: h.id, Machine: &cluster.Machine{Attributes: []cluster.KeyValue{{Key: "disk", Value: disk}}}})
	}
	small, large := hosts.add("s/small"), hosts.add("s/large")
	set(small, "0")
	set(large, "1")
	r := &row{table: &rows{hosts: hosts}, task: &cluster.TaskSpec{}}
	for i := range 200 {
		drains := *small.rec
		drains.Draining = i%3 == 0
		hosts.set(small, &drains)
		set(large, fmt.Sprint(i))
		require.Equal(t, drains.Draining, r.judge(small) == draining, "after %d other machines", i)
		require.Equal(t, open, r.judge(large))
	}
	require.Positive(t, hosts.era)
}
