// Package quality measures how well policies pack tasks onto hosts when one comes after the other and none leaves.
//
//	pods ─► drawn until they ask for Demand × all GPUs, by seed ─► one by one ─► policy ─► GPUs allocated / GPUs there are
//
// It is the experiment of Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 6: what does not fit is turned
// away, and the part of the GPUs that is allocated in the end is the measure. [Rule] holds the usual heuristics and FGD,
// greedy and written for this harness alone; [Planned] runs the production planner with a cost model, pod by pod or with
// all pods in one cycle.
package quality

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Workload is what is packed.
type Workload struct {
	Hosts []*cluster.Host     // empty
	Pods  []*cluster.TaskSpec // what is drawn from
}

// capacity returns the thousandths of devices of all hosts.
func (w *Workload) capacity() int64 {
	sum := int64(0)
	for _, h := range w.Hosts {
		sum += h.Capacity.Fixed[cluster.GPU]
	}
	return sum
}

// draw returns pods in random order that together ask for demand times the GPUs there are: every pod once, over and over
// while there are too few, cut off where there are too many.
func (w *Workload) draw(demand float64, seed uint64) []*cluster.TaskSpec {
	random := rand.New(rand.NewPCG(seed, 0))
	want := int64(demand * float64(w.capacity()))
	var drawn []*cluster.TaskSpec
	for want > 0 {
		for _, i := range random.Perm(len(w.Pods)) {
			if want <= 0 {
				break
			}
			drawn = append(drawn, w.Pods[i])
			want -= w.Pods[i].Resources.Fixed[cluster.GPU]
		}
	}
	return drawn
}

// maxDrawn is the most pods that are drawn.
const maxDrawn = 10_000_000

// Policy packs pods.
type Policy interface {
	Name() string
	// Pack places the pods in order on the empty hosts of the workload and returns the hosts as they are in the end. The
	// seed is for what the policy leaves to chance. done is told how many pods have been looked at; it may be nil.
	Pack(ctx context.Context, w *Workload, pods []*cluster.TaskSpec, seed uint64, done func(int)) ([]*cluster.Host, error)
}

// Options are what a run needs besides workload and policies.
type Options struct {
	Demand float64 // of all GPUs
	Seeds  int     // runs of each policy
	// Progress is told what runs and how far it is; it may be nil.
	Progress func(what string, done, total int)
}

// Score is what a policy reached: the part of the GPUs that was allocated, in per cent.
type Score struct {
	Policy string    `json:"policy"`
	Runs   []float64 `json:"runs"` // by seed, from 1
	Mean   float64   `json:"mean"`
	Spread float64   `json:"spread"` // standard deviation over the seeds
}

// Run lets every policy pack the same draws, and returns the scores, the best mean first.
func Run(ctx context.Context, w *Workload, policies []Policy, o Options) ([]Score, error) {
	capacity, asked := w.capacity(), int64(0)
	for _, t := range w.Pods {
		asked += t.Resources.Fixed[cluster.GPU]
	}
	if capacity == 0 || asked == 0 {
		return nil, fmt.Errorf("quality: no host has a GPU, or no pod asks for one")
	}
	if n := o.Demand * float64(capacity) / float64(asked) * float64(len(w.Pods)); n > maxDrawn {
		return nil, fmt.Errorf("quality: %.0f pods would have to be drawn, more than %d: lower the demand, or give pods that ask for more GPUs", n, maxDrawn)
	}
	scores := make([]Score, len(policies))
	for seed := 1; seed <= o.Seeds; seed++ {
		pods := w.draw(o.Demand, uint64(seed))
		for i, p := range policies {
			scores[i].Policy = p.Name()
			what := fmt.Sprintf("%s, seed %d of %d", p.Name(), seed, o.Seeds)
			hosts, err := p.Pack(ctx, w, pods, uint64(seed), func(n int) {
				if o.Progress != nil {
					o.Progress(what, n, len(pods))
				}
			})
			if err != nil {
				return nil, err
			}
			allocated, err := allocated(hosts)
			if err != nil {
				return nil, fmt.Errorf("quality: %s: %w", what, err)
			}
			scores[i].Runs = append(scores[i].Runs, 100*float64(allocated)/float64(capacity))
		}
	}
	for i := range scores {
		scores[i].sum()
	}
	slices.SortStableFunc(scores, func(a, b Score) int { return cmp.Compare(b.Mean, a.Mean) })
	return scores, nil
}

func (s *Score) sum() {
	n := float64(len(s.Runs))
	for _, x := range s.Runs {
		s.Mean += x / n
	}
	for _, x := range s.Runs {
		s.Spread += (x - s.Mean) * (x - s.Mean) / max(1, n-1)
	}
	s.Spread = math.Sqrt(s.Spread)
}

// allocated sums up what is taken of the devices, and refuses hosts that carry more than they can.
func allocated(hosts []*cluster.Host) (int64, error) {
	sum := int64(0)
	for _, h := range hosts {
		if !h.Allocated.Fits(h.Capacity) {
			return 0, fmt.Errorf("host %s carries %v and has %v", h.ID, h.Allocated, h.Capacity)
		}
		taken := int64(0)
		for _, f := range h.GPUFree {
			if f < 0 || f > cluster.WholeGPU {
				return 0, fmt.Errorf("host %s has a device with %d thousandths free", h.ID, f)
			}
			taken += int64(cluster.WholeGPU - f)
		}
		if taken != h.Allocated.Fixed[cluster.GPU] {
			return 0, fmt.Errorf("host %s: the devices carry %d, the host %d", h.ID, taken, h.Allocated.Fixed[cluster.GPU])
		}
		sum += taken
	}
	return sum, nil
}
