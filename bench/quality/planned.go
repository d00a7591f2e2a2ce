package quality

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/solver"
)

// Planned is the production planner with a cost model.
type Planned struct {
	Model     costmodels.Model
	NewSolver func() solver.Solver
	Policy    string // names the model with its settings; "": its name alone
	// Batch submits all pods at once and plans until nothing more fits; else each pod has its own cycle, and is withdrawn
	// if it does not fit.
	Batch bool
}

// Name implements Policy.
func (p Planned) Name() string {
	name := "sluice: " + cmp.Or(p.Policy, p.Model.Name())
	if p.Batch {
		name += ", one batch"
	}
	return name
}

// stage is the state that a planner plans on.
type stage struct {
	state   *cluster.State
	planner *cycle.Supervisor
	now     cluster.Time
	placed  int
}

// Pack implements Policy.
func (p Planned) Pack(ctx context.Context, w *Workload, pods []*cluster.TaskSpec, _ uint64, done func(int)) ([]*cluster.Host, error) {
	s := &stage{state: cluster.NewState(), planner: cycle.New(p.Model, p.NewSolver), now: cluster.Time(time.Hour)}
	for _, h := range w.Hosts {
		if err := s.emit(&cluster.HostReported{ID: h.ID, Machine: *h.Machine}); err != nil {
			return nil, err
		}
	}
	pack := s.oneByOne
	if p.Batch {
		pack = s.together
	}
	if err := pack(ctx, pods, done); err != nil {
		return nil, err
	}
	var hosts []*cluster.Host
	for h := range s.state.Hosts("") {
		hosts = append(hosts, h)
	}
	return hosts, nil
}

func (s *stage) oneByOne(ctx context.Context, pods []*cluster.TaskSpec, done func(int)) error {
	for i, pod := range pods {
		if err := ctx.Err(); err != nil {
			return err
		}
		uid, err := s.submit(pod)
		if err != nil {
			return err
		}
		placed, err := s.cycle()
		if err != nil {
			return err
		}
		if placed == 0 {
			if err := s.emit(&cluster.JobStopping{Job: uid}); err != nil {
				return err
			}
		}
		if done != nil {
			done(i + 1)
		}
	}
	return nil
}

func (s *stage) together(ctx context.Context, pods []*cluster.TaskSpec, done func(int)) error {
	for _, pod := range pods {
		if _, err := s.submit(pod); err != nil {
			return err
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		placed, err := s.cycle()
		if err != nil || placed == 0 {
			return err
		}
		if done != nil {
			done(s.placed)
		}
	}
}

func (s *stage) emit(e cluster.Event) error {
	return s.state.Apply(cluster.Record{Seq: s.state.Seq() + 1, At: s.now, Event: e})
}

func (s *stage) submit(pod *cluster.TaskSpec) (cluster.JobUID, error) {
	uid := s.state.NextJob()
	spec := &cluster.JobSpec{Name: cluster.JobID(fmt.Sprint("pod-", uid)), Pool: cluster.RootPool, Instances: 1, Task: *pod}
	return uid, s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
}

// cycle plans, carries the plan out, and returns how many pods were placed.
func (s *stage) cycle() (int, error) {
	s.now = s.now.Add(time.Millisecond)
	snapshot, changes := s.state.Snapshot()
	out := s.planner.Run(cycle.Input{Snapshot: snapshot, Changes: changes, Now: s.now})
	for i := range out.Placements {
		if err := s.emit(event(&out.Placements[i])); err != nil {
			return 0, err
		}
	}
	s.placed += len(out.Placements)
	return len(out.Placements), nil
}
