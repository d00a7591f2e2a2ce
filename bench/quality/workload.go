package quality

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
)

// event is the fact that the placement is.
func event(p *cycle.Placement) cluster.Event {
	return &cluster.Placed{Task: p.Task, Run: p.Run, Host: p.Host, GPUs: p.GPUs, Ports: p.Ports}
}

// Read reads a list of pods and one of machines in the form of Alibaba's cluster-trace-gpu-v2023.
func Read(pods, machines string) (w *Workload, err error) {
	from, err := trace.Open(trace.Options{Format: "openb", Jobs: pods, Hosts: machines, Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("quality: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	w = &Workload{}
	for i := range from.Hosts {
		h := &from.Hosts[i]
		w.Hosts = append(w.Hosts, &cluster.Host{
			ID: h.ID(), Machine: &h.Machine, GPUFree: slices.Repeat([]int32{cluster.WholeGPU}, len(h.GPUs)),
		})
	}
	for {
		j, err := from.Jobs.Next()
		if errors.Is(err, io.EOF) {
			return w, nil
		}
		if err != nil {
			return nil, fmt.Errorf("quality: %w", err)
		}
		w.Pods = append(w.Pods, &j.Spec.Task)
	}
}

// keyOf names what a pod asks for.
func keyOf(t *cluster.TaskSpec) string {
	return fmt.Sprint(t.Resources.Fixed, t.Resources.Named, t.GPU.Milli, t.GPU.Models)
}
