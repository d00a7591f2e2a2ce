package quality

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Rule is a greedy policy: every pod goes to the host, and the devices, with the lowest score; the first of equals.
type Rule struct {
	name string
	// score returns what it costs to put the pod on these devices of the host; lower is better.
	score func(g *greedy, pod *cluster.TaskSpec, host int, devices []uint16) float64
	// every tells that every fitting device of a host is tried, and not only the one that cluster.TaskSpec picks.
	every bool
	// lot tells that scores change without the host changing.
	lot bool
}

// Rules returns the baselines: random; best fit, by what is left over of all dimensions; dot product, the alignment of
// request and room of Grandl et al., SIGCOMM 2014; packing, which first uses devices that are shared already, then free
// ones of hosts in use; and FGD.
func Rules() []Rule {
	return []Rule{
		{name: "random", lot: true, score: func(g *greedy, _ *cluster.TaskSpec, _ int, _ []uint16) float64 {
			return g.random.Float64()
		}},
		{name: "best-fit", score: bestFit},
		{name: "dot-product", score: dotProduct},
		{name: "packing", score: packing},
		{name: "fgd", score: fragmentation, every: true},
	}
}

// Name implements Policy.
func (r Rule) Name() string { return r.name }

// greedy is one run of a rule.
type greedy struct {
	rule     Rule
	random   *rand.Rand
	hosts    []*cluster.Host
	versions []int32
	kinds    []kind // of the workload, for FGD
	before   []known
	shapes   map[string]*shape
}

// known is how much of a host is fragments, as of its version.
type known struct {
	version   int32
	fragments float64
}

// shape is what is known of one request.
type shape struct {
	best []choice // by host, as of its version
}

// choice is the best way to put a pod on a host.
type choice struct {
	version int32 // of the host, from 1
	fits    bool
	score   float64
	devices cluster.Devices
}

// Pack implements Policy. Complexity: pods · hosts comparisons, and a score for each shape whenever a host changes.
func (r Rule) Pack(ctx context.Context, w *Workload, pods []*cluster.TaskSpec, seed uint64, done func(int)) ([]*cluster.Host, error) {
	g := &greedy{
		rule: r, random: rand.New(rand.NewPCG(seed, 1)), hosts: slices.Clone(w.Hosts), versions: make([]int32, len(w.Hosts)),
		kinds: kindsOf(w.Pods), before: make([]known, len(w.Hosts)), shapes: map[string]*shape{},
	}
	for i := range g.versions {
		g.versions[i] = 1
	}
	for n, pod := range pods {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i, on := g.choose(pod); i >= 0 {
			g.hosts[i] = pod.Bind(g.hosts[i], on)
			g.versions[i]++
		}
		if done != nil {
			done(n + 1)
		}
	}
	return g.hosts, nil
}

// choose returns the host of the lowest score, −1 if there is none.
func (g *greedy) choose(pod *cluster.TaskSpec) (int, cluster.Devices) {
	key := keyOf(pod)
	s := g.shapes[key]
	if s == nil {
		s = &shape{best: make([]choice, len(g.hosts))}
		g.shapes[key] = s
	}
	best := -1
	for i := range g.hosts {
		c := &s.best[i]
		if c.version != g.versions[i] || g.rule.lot && c.fits {
			*c = g.look(pod, i)
			c.version = g.versions[i]
		}
		if c.fits && (best < 0 || c.score < s.best[best].score) {
			best = i
		}
	}
	if best < 0 {
		return -1, cluster.Devices{}
	}
	return best, s.best[best].devices
}

// look returns the best choice of devices on the host.
func (g *greedy) look(pod *cluster.TaskSpec, i int) choice {
	h := g.hosts[i]
	if pod.CountOn(h, 1) == 0 {
		return choice{}
	}
	picked, _ := pod.Pick(h)
	best := choice{fits: true, score: g.rule.score(g, pod, i, picked.GPUs), devices: picked}
	if !g.rule.every || pod.GPU.Milli == 0 {
		return best
	}
	for d := range h.GPUs {
		if h.GPUFree[d] < pod.GPU.Milli || len(pod.GPU.Models) > 0 && !slices.Contains(pod.GPU.Models, h.GPUs[d].Model) {
			continue
		}
		on := cluster.Devices{GPUs: []uint16{uint16(d)}, Ports: picked.Ports}
		if score := g.rule.score(g, pod, i, on.GPUs); score < best.score {
			best.score, best.devices = score, on
		}
	}
	return best
}

// bestFit is the sum over the dimensions of what is left of the host's capacity.
func bestFit(g *greedy, pod *cluster.TaskSpec, host int, _ []uint16) float64 {
	h := g.hosts[host]
	left := 0.0
	for d, c := range h.Capacity.Fixed {
		if c > 0 {
			left += float64(c-h.Allocated.Fixed[d]-pod.Resources.Fixed[d]) / float64(c)
		}
	}
	return left
}

// dotProduct prefers the host whose room is most in line with the request.
func dotProduct(g *greedy, pod *cluster.TaskSpec, host int, _ []uint16) float64 {
	h := g.hosts[host]
	dot := 0.0
	for d, c := range h.Capacity.Fixed {
		if c > 0 {
			dot += float64(pod.Resources.Fixed[d]) / float64(c) * float64(c-h.Allocated.Fixed[d]) / float64(c)
		}
	}
	return -dot
}

// packing prefers shared devices, then free devices of hosts in use, then free hosts; among equals the fullest device and
// host.
func packing(g *greedy, pod *cluster.TaskSpec, host int, devices []uint16) float64 {
	h := g.hosts[host]
	left := float64(h.Capacity.Fixed[cluster.GPU]-h.Allocated.Fixed[cluster.GPU]) / (1 << 20)
	switch {
	case pod.GPU.Milli > 0 && h.GPUFree[devices[0]] < cluster.WholeGPU:
		return float64(h.GPUFree[devices[0]])/(1<<10) + left
	case !h.Allocated.IsZero():
		return 10 + left
	default:
		return 20 + left
	}
}

// kind is a part of the pods that ask for the same.
type kind struct {
	pod  *cluster.TaskSpec
	part float64
}

func kindsOf(pods []*cluster.TaskSpec) []kind {
	index := map[string]int{}
	var kinds []kind
	for _, pod := range pods {
		if pod.GPU.IsZero() {
			continue // what is free is a fragment for it on every host alike
		}
		i, known := index[keyOf(pod)]
		if !known {
			i = len(kinds)
			index[keyOf(pod)] = i
			kinds = append(kinds, kind{pod: pod})
		}
		kinds[i].part += 1 / float64(len(pods))
	}
	return kinds
}

// fragmentation is the gradient of FGD: how much more of the host's devices is of no use to the pods of the workload once
// the pod is there.
func fragmentation(g *greedy, pod *cluster.TaskSpec, host int, devices []uint16) float64 {
	h := g.hosts[host]
	if len(h.GPUs) == 0 {
		return 0
	}
	before := &g.before[host]
	if before.version != g.versions[host] {
		*before = known{g.versions[host], g.fragments(h)}
	}
	return g.fragments(pod.Bind(h, cluster.Devices{GPUs: devices})) - before.fragments
}

func (g *greedy) fragments(h *cluster.Host) float64 {
	room, total := h.Free(), 0.0
	for _, f := range h.GPUFree {
		total += float64(f)
	}
	sum := 0.0
	for i := range g.kinds {
		k := &g.kinds[i]
		if k.pod.GPU.Fit(h.GPUs, h.GPUFree, 1) == 0 || !k.pod.Resources.Fits(room) {
			sum += k.part * total
			continue
		}
		need := int32(cluster.WholeGPU)
		if k.pod.GPU.Milli > 0 {
			need = k.pod.GPU.Milli
		}
		for d, f := range h.GPUFree {
			if f < need || len(k.pod.GPU.Models) > 0 && !slices.Contains(k.pod.GPU.Models, h.GPUs[d].Model) {
				sum += k.part * float64(f)
			}
		}
	}
	return math.Round(sum*1e6) / 1e6
}
