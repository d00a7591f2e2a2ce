package trace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// TestKept: a job is the same again after it was kept, and nothing that two jobs may differ in is shared.
func TestKept(t *testing.T) {
	for _, s := range samples {
		if s.hosts {
			continue
		}
		w, err := Open(Options{Format: s.format, Jobs: testdata(s.file), Fleet: Fleet{Hosts: 8, HostsPerRack: 2}})
		require.NoError(t, err, s.file)
		jobs, err := collect(w.Jobs)
		require.NoError(t, err, s.file)
		require.NoError(t, w.Close())
		for i, k := range keepCopies(jobs) {
			require.Equal(t, jobs[i], k.job(), s.file)
			if k.rest.Constraint != nil || k.rest.Inputs != nil {
				continue
			}
			rest, none := *k.rest, newJob("", 0, 0, cluster.TaskSpec{}).Spec
			rest.Type, rest.Pool, rest.Owner, rest.Priority, rest.Preemptible = none.Type, none.Pool, "", 0, none.Preemptible
			rest.Task.GPU = cluster.GPURequest{}
			require.Equal(t, none, rest, "%s: restOf does not know of a field", s.file)
		}
	}
}
