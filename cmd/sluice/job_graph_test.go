package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What a tree costs is what it prints: not all jobs once more for each of them.
func TestTheTreeOfManyJobs(t *testing.T) {
	const n = 2000
	g := jobGraph{"load": {Name: "load", Spec: &sluicev1.JobSpec{Name: "load"}}}
	for i := range n {
		name := fmt.Sprintf("j%04d", i)
		g[name] = &sluicev1.Job{Name: name, Spec: &sluicev1.JobSpec{DependsOn: []*sluicev1.Dependency{{Job: "load"}}}}
	}
	var out strings.Builder
	g.tree(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, n+1)
	require.True(t, strings.HasPrefix(lines[0], "load  ") && strings.Contains(lines[n], ": j1999  "), "%s, %s", lines[0], lines[n])
	require.Less(t, testing.AllocsPerRun(1, func() { g.tree(io.Discard) }), float64(12*n))
}
