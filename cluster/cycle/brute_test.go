package cycle_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/trivial"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// With one beneficiary on a small cluster, those who leave for it lose as little as any set of tasks that could leave one
// host for it without taking from their pool what it is entitled to, or from a job more than it lets one cycle ask.
func TestVictimsAreTheCheapest(t *testing.T) {
	preempting := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 66))
		bounded := seed >= 200                                // many ask for the same then
		s := &shared{world: newWorldWith(t, trivial.Model{})} // all hosts cost the same
		hosts := 1 + r.IntN(4)
		for i := range hosts {
			s.host(i, vector(int64(4+r.IntN(5)), int64(4+r.IntN(5))))
		}
		s.pool("root/a", 8)
		s.pool("root/b", 0)
		for range 3 + r.IntN(6) {
			cpu, memory := int64(1+r.IntN(3)), r.Int64N(4)
			if bounded {
				cpu, memory = min(cpu, 2), memory/3
			}
			s.job("root/b", uint32(1+r.IntN(3)), cpu, func(j *cluster.JobSpec) {
				j.Task.Resources = vector(cpu, memory)
				if bounded {
					j.Limits.MaxPreempted = uint32(r.IntN(2))
				}
			})
			s.now = s.now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
			s.step()
		}
		s.settle()
		s.leave() // who was to move
		s.settle()
		if len(s.in(cluster.TaskPreempting, cluster.TaskReserved)) > 0 {
			continue
		}
		wanted := vector(int64(2+r.IntN(5)), r.Int64N(5))
		a := s.job("root/a", 1, 1, func(j *cluster.JobSpec) { j.Task.Resources = wanted })
		own, entitled, held := s.entitlements("root/a"), s.entitlements("root/b"), s.held("root/b")
		if own[cluster.CPU.String()] < wanted.Fixed[cluster.CPU] || own[cluster.Memory.String()] < wanted.Fixed[cluster.Memory] {
			continue // it may not have so much
		}
		best := s.cheapestSet(wanted, entitled, held)
		out := s.step()
		if out.Stats.Preemptions == 0 {
			require.True(t, best < 0 || s.running(a) == 1 || out.Stats.Migrations > 0, "seed %d: nobody leaves, and %d would do", seed, best)
			continue
		}
		if out.Stats.Migrations > 0 {
			continue // some of those in the way had another place
		}
		preempting++
		var price int64
		for _, v := range out.Displacements[0].Victims {
			price += v.Preemption.Price
		}
		require.Equal(t, best, price, "seed %d", seed)
	}
	require.Greater(t, preempting, 100)
}

// planAfresh plans without a history.
func planAfresh(snapshot *cluster.Snapshot, now cluster.Time) cycle.Output {
	p := cycle.New(trivial.Model{}, func() solver.Solver { return netsimplex.New() })
	return p.Run(cycle.Input{Snapshot: snapshot, Rescan: true, Now: now})
}

// entitlements returns what a pool is entitled to when everything that waits is counted, by a cycle that is not carried out.
func (s *shared) entitlements(pool cluster.PoolPath) map[string]int64 {
	snapshot, _ := s.state.Fork().Snapshot()
	entitled := map[string]int64{}
	for _, p := range planAfresh(snapshot, s.now).Pools {
		for _, d := range p.Dimensions {
			if p.Path == pool {
				entitled[d.Dimension] = d.Entitlement
			}
		}
	}
	return entitled
}

func (s *shared) held(pool cluster.PoolPath) (sum cluster.Resources) {
	for task := range s.state.Tasks(0) {
		if j := s.state.Job(task.Key.Job()); task.State.Bound() && j.Spec.Pool == pool {
			sum = sum.Add(j.Spec.Task.Resources)
		}
	}
	return sum
}

// cheapestSet tries all sets of tasks of every host; −1 if none will do. Who leaves must leave the pool its entitlement in a
// dimension that the host is short of, one after the other in some order: since taking only lowers what is held, all of a set
// may go if and only if each could go last.
func (s *shared) cheapestSet(wanted cluster.Resources, entitled map[string]int64, held cluster.Resources) int64 {
	best := int64(-1)
	for h := range s.state.Hosts("") {
		for set := uint(1); set < 1<<len(h.Tasks); set++ {
			if bits.OnesCount(set) > 6 {
				continue
			}
			price, freed, free := int64(0), cluster.Resources{}, true
			leave := map[cluster.JobUID]uint32{}
			for i, k := range h.Tasks {
				if set&(1<<i) != 0 {
					task, spec := s.state.Task(k), s.state.Job(k.Job()).Spec
					leave[k.Job()]++
					free = free && task.Preempted == nil && // they have been asked a moment ago
						(spec.Limits.MaxPreempted == 0 || leave[k.Job()] <= spec.Limits.MaxPreempted)
					price += (1 + int64(s.now.Add(1e9).Sub(task.Started).Milliseconds())) * int64(spec.Priority+1)
					freed = freed.Add(spec.Task.Resources)
				}
			}
			if free && wanted.Fits(h.Free().Add(freed)) && s.allowed(h, set, wanted, entitled, held) && (best < 0 || price < best) {
				best = price
			}
		}
	}
	return best
}

// allowed looks for an order in which the tasks of the set may leave.
func (s *shared) allowed(h *cluster.Host, set uint, wanted cluster.Resources, entitled map[string]int64, held cluster.Resources) bool {
	if set == 0 {
		return true
	}
	for i, k := range h.Tasks {
		if set&(1<<i) == 0 {
			continue
		}
		gives := s.state.Job(k.Job()).Spec.Task.Resources
		for d, n := range wanted.Fixed {
			name := cluster.Dimension(d).String()
			short := n > h.Free().Fixed[d]
			if short && gives.Fixed[d] > 0 && held.Fixed[d]-gives.Fixed[d] >= entitled[name] && s.allowed(h, set&^(1<<i), wanted, entitled, held.Sub(gives)) {
				return true
			}
		}
	}
	return false
}

// Where a planner with a history has nothing to do, and no time that it waits for, a new one has nothing to do either.
func TestWhatMayBeDoneIsNotLeft(t *testing.T) {
	seeds := []uint64{2105, 2404} // a host is drained, and a placement gives others a claim
	last := uint64(100)
	switch {
	case os.Getenv("SLUICE_LONG") != "":
		last = 1900
	case testing.Short():
		last = 20
	}
	for seed := uint64(1); seed <= last; seed++ {
		seeds = append(seeds, seed)
	}
	rests := 0
	for _, seed := range seeds {
		l := newLife(t, seed, seed%2 == 0)
		if l.moving { // what a model would move depends on the flow that it finds
			continue
		}
		harsh := rand.New(rand.NewPCG(seed, 8))
		for range 6 {
			l.harsh = harsh
			for range 6 {
				l.disrupt()
				l.live()
			}
			l.harsh = nil
			if !l.rest(30 * time.Minute) {
				continue
			}
			rests++
			snapshot, _ := l.state.Fork().Snapshot()
			fresh := cycle.New(loadspread.Model{}, func() solver.Solver { return netsimplex.New() })
			out := fresh.Run(cycle.Input{Snapshot: snapshot, Rescan: true, Now: l.now.Add(time.Second)})
			require.Empty(t, out.Steps(), "seed %d", seed)
		}
	}
	require.Greater(t, rests, len(seeds))
}

// rest plans when something changed, or when the last plan said, until nothing is planned any more and no time is waited for; false where
// that takes longer than the horizon.
func (l *life) rest(horizon time.Duration) bool {
	for end := l.now.Add(horizon); l.now < end; {
		for _, k := range l.in(cluster.TaskPreempting, cluster.TaskKilling) {
			l.report(k, cluster.TaskKilled)
		}
		l.now = l.now.Add(-time.Second + time.Millisecond) // cycle adds a second
		out := l.cycle()
		switch {
		case len(out.Steps()) > 0:
		case out.WakeAt == 0:
			return true
		default:
			l.now = out.WakeAt
		}
	}
	return false
}

// Once a cluster has come to rest it stays so: a thousand cycles later, with time going on, nothing has moved.
func TestNothingOscillates(t *testing.T) {
	for seed := range uint64(3) {
		l := newLife(t, 1000+seed, false)
		for range 40 {
			l.live()
		}
		l.calm()
		before := fmt.Sprint(l.in(cluster.TaskRunning, cluster.TaskPlaced))
		for range 1000 {
			l.now = l.now.Add(time.Duration(1+l.r.IntN(60)) * time.Second)
			out := l.cycle()
			require.Empty(t, out.Placements, "seed %d", seed)
			require.Zero(t, out.Stats.Preemptions+out.Stats.Migrations, "seed %d", seed)
		}
		require.Equal(t, before, fmt.Sprint(l.in(cluster.TaskRunning, cluster.TaskPlaced)))
	}
}
