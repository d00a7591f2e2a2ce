package quality_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/bench/quality"
	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

func newSolver() solver.Solver { return netsimplex.New() }

// small is a workload of hosts with two or four GPUs, and pods of all sizes.
func small() *quality.Workload {
	w := &quality.Workload{}
	for i := range 24 {
		h := &cluster.Host{ID: cluster.MakeHostID("s", fmt.Sprintf("h%02d", i)), Machine: &cluster.Machine{}}
		h.Capacity.Fixed = [cluster.NumDimensions]int64{cluster.CPU: 32_000, cluster.Memory: 128 << 30}
		for range 2 + 2*(i%2) {
			h.GPUs = append(h.GPUs, cluster.GPUDevice{Model: "A"})
			h.GPUFree = append(h.GPUFree, cluster.WholeGPU)
			h.Capacity.Fixed[cluster.GPU] += cluster.WholeGPU
		}
		w.Hosts = append(w.Hosts, h)
	}
	for i := range 60 {
		pod := &cluster.TaskSpec{}
		pod.Resources.Fixed = [cluster.NumDimensions]int64{cluster.CPU: 1000 + 1000*int64(i%5), cluster.Memory: 4 << 30}
		switch i % 6 {
		case 0:
			pod.GPU.Count = 2
		case 1, 2:
			pod.GPU.Count = 1
		case 3, 4:
			pod.GPU.Milli = 200 + 100*int32(i%4)
		}
		pod.Resources.Fixed[cluster.GPU] = pod.GPU.Amount()
		w.Pods = append(w.Pods, pod)
	}
	return w
}

func policies() []quality.Policy {
	var all []quality.Policy
	for _, r := range quality.Rules() {
		all = append(all, r)
	}
	return append(all,
		quality.Planned{Model: loadspread.Model{}, NewSolver: newSolver},
		quality.Planned{Model: sluice.Model{}, NewSolver: newSolver},
		quality.Planned{Model: sluice.Model{}, NewSolver: newSolver, Batch: true},
	)
}

func TestScores(t *testing.T) {
	run := func() map[string]quality.Score {
		scores, err := quality.Run(t.Context(), small(), policies(), quality.Options{Demand: 1.3, Seeds: 5})
		require.NoError(t, err)
		byName := map[string]quality.Score{}
		for i, s := range scores {
			require.Len(t, s.Runs, 5)
			if i > 0 {
				require.GreaterOrEqual(t, scores[i-1].Mean, s.Mean)
			}
			byName[s.Policy] = s
		}
		return byName
	}
	first := run()
	require.Equal(t, first, run(), "the same seeds give the same scores")
	require.Less(t, first["random"].Mean, first["fgd"].Mean)
	require.Less(t, first["sluice: loadspread"].Mean, first["fgd"].Mean)
	require.GreaterOrEqual(t, first["sluice: sluice"].Mean, first["fgd"].Mean-0.5)
	require.Greater(t, first["sluice: sluice, one batch"].Mean, first["sluice: sluice"].Mean)
}

// What was cut off is no score.
func TestInterruptedBatchIsNoScore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batch := []quality.Policy{quality.Planned{Model: sluice.Model{}, NewSolver: newSolver, Batch: true}}
	_, err := quality.Run(ctx, small(), batch, quality.Options{Demand: 1.3, Seeds: 1, Progress: func(string, int, int) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutGPUsThereIsNoScore(t *testing.T) {
	w := small()
	w.Pods = []*cluster.TaskSpec{{}}
	_, err := quality.Run(t.Context(), w, policies(), quality.Options{Demand: 1.3, Seeds: 1})
	require.ErrorContains(t, err, "quality: no host has a GPU, or no pod asks for one")
}

// Pods that hardly ask for GPUs would have to be drawn for ever.
func TestTooManyPods(t *testing.T) {
	w := small()
	w.Pods = append(make([]*cluster.TaskSpec, 200_000), w.Pods[3])
	for i := range 200_000 {
		w.Pods[i] = &cluster.TaskSpec{}
	}
	_, err := quality.Run(t.Context(), w, nil, quality.Options{Demand: 1.3, Seeds: 1})
	require.ErrorContains(t, err, "pods would have to be drawn, more than 10000000: lower the demand")
}

// TestPublishedOrder packs the recorded pods.
func TestPublishedOrder(t *testing.T) {
	data := os.Getenv("SLUICE_DATA")
	if data == "" {
		t.Skip("set SLUICE_DATA to the folder with the recorded traces")
	}
	if testing.Short() {
		t.Skip("takes seconds, and minutes under the race detector")
	}
	dir := filepath.Join(data, "traces", "alibaba-gpu-2023")
	w, err := quality.Read(filepath.Join(dir, "openb_pod_list_multigpu50.csv.gz"), filepath.Join(dir, "openb_node_list_all_node.csv"))
	require.NoError(t, err)
	require.Len(t, w.Hosts, 1523)
	require.Len(t, w.Pods, 9061)
	ours := quality.Planned{Model: sluice.Model{}, NewSolver: newSolver, Batch: true}
	var all []quality.Policy
	for _, r := range quality.Rules() {
		all = append(all, r)
	}
	scores, err := quality.Run(t.Context(), w, append(all, ours), quality.Options{Demand: 1.3, Seeds: 1})
	require.NoError(t, err)
	require.Equal(t, ours.Name(), scores[0].Policy, "%+v", scores)
	require.Equal(t, "fgd", scores[1].Policy, "%+v", scores)
	require.Equal(t, "random", scores[len(scores)-1].Policy, "%+v", scores)
}
