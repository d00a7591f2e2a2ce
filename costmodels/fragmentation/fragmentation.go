// Package fragmentation keeps GPUs usable for those who typically come.
//
// Intent: a third of a GPU that is left over, or a free GPU on a host without a core to spare, is of no use to anybody; so
// a task goes where it makes the least of what is free useless to typical tasks.
//
//	f(h, m)     = all that is free of h's GPUs, where h has no room for a task of the kind m;
//	              else what is free of devices that are too full, or of the wrong model, for m
//	F(h)        = Σ over the kinds m in Round.Mix of weight(m) · f(h, m)
//	lost(c, h)  = F(h with a task of c) − F(h) + gpu(c)                  in thousandths of a device
//	S(h)        = what is free of h's GPUs, at most as much as h's free cores, memory, … serve of the mix
//	start(c, h) = Rate · (lost(c, h) + (S(h) − S(h with a task of c)) / 2)
//	crowd(h, k) = 0 for k = 0, else MaxPrice where h has GPUs
//	wait(c)     = costmodels.Preference(c, Eager · Rate · rank(c))
//	rank(c)     = 2/3 of a device where c takes a part above 1/3, else gpu(c)
//
//	            ┌────┐ ┌────┐            ┌────┐ ┌────┐
//	   0.3 here │▓▓▓▓│ │    │    or here │▓▓░░│ │    │   the second: the first breaks
//	            │▓▓▓▓│ │░░  │            │▓▓░ │ │    │   a device that was whole
//	            └────┘ └────┘            └────┘ └────┘
//
// Unit: milliseconds of expected delay, Rate for each thousandth of a device that typical tasks cannot use any more. What
// the task takes itself counts as well: no task can make useless less than minus that, so no price is negative, and the
// hosts keep their order, since it is the same everywhere. F sees a shortage of cores only once a kind finds none; S sees it
// coming, so that a task with few cores for its GPU goes beside those with many. F and S are not convex in the starts on a
// host: the price is the margin as the host is now, one start at a time.
//
// Of those that came together the large go first, while there are places for them: what they ask for counts as waiting, and
// more than it costs. Large parts of a device count alike, so that they go by turns: which of them leave the least over
// depends on who goes beside them. The small parts come last and fill up.
//
// Source: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
// USENIX ATC 2023, sections 3 and 4. Kinds without GPUs, for which everything free is a fragment, add the same to every
// host and are left out. We differ in that the device is chosen by cluster.TaskSpec.Pick, the fullest that suffices, and by S.
//
// Configuration: cost_model: fragmentation(rate=16)
package fragmentation

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Rate is the price of a thousandth of a device, in milliseconds.
const Rate = 16

// Eager is how much more than its devices a task pays for waiting.
const Eager = 3

// Model is the policy. The zero value is ready for use.
type Model struct {
	Rate flowgraph.Cost // 0: the constant
}

var _ costmodels.Model = Model{}

// Validate says what is wrong with the settings.
func (m Model) Validate() error {
	if m.Rate < 0 || m.Rate > 40 { // so that eight devices stay below a step of priority
		return errors.New("rate must be 1 to 40")
	}
	return nil
}

// Name returns "fragmentation".
func (Model) Name() string { return "fragmentation" }

// Wait returns the price of one more cycle without a place.
func (m Model) Wait(_ *costmodels.Round, c *costmodels.Class) flowgraph.Cost {
	return costmodels.Preference(c, min(Eager*cmp.Or(m.Rate, Rate)*flowgraph.Cost(rank(c.Task)), costmodels.Step))
}

// Start returns the price of what the task takes and makes useless. Complexity: the mix times the devices of the host.
func (m Model) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	if len(h.GPUs) == 0 {
		return 0
	}
	lost, stranded := Lost(r, q.Task, h)
	return min(cmp.Or(m.Rate, Rate)*flowgraph.Cost(lost+stranded/2), costmodels.Step/2)
}

// Crowd lets one task start on a host with GPUs before its price is asked for again.
func (Model) Crowd(_ *costmodels.Round, h *cluster.Host, k int64) flowgraph.Cost {
	if k > 0 && len(h.GPUs) > 0 {
		return costmodels.MaxPrice
	}
	return 0
}

// rank returns as how many thousandths of a device a task counts among those that came together. Of parts of a device only
// those go last that fill up what others leave.
func rank(task *cluster.TaskSpec) int64 {
	if 3*task.GPU.Milli > cluster.WholeGPU {
		return cluster.WholeGPU * 2 / 3
	}
	return task.GPU.Amount()
}

// Lost returns how many thousandths of the host's devices the task takes and makes useless for typical tasks, 0 or more, and
// how many fewer could be served with what the host has of the scarcest of the other resources. The host has room for the task.
func Lost(r *costmodels.Round, task *cluster.TaskSpec, h *cluster.Host) (lost, stranded int64) {
	devices, _ := task.Pick(h)
	with := task.Bind(h, devices)
	before, after := h.Room(), with.Room()
	free, left := h.GPURoom(), with.GPURoom()
	var typical cluster.Resources // of a thousand tasks
	for i := range r.Mix {
		m := &r.Mix[i]
		lost += m.Weight * (useless(m.Task, h, &after, left) - useless(m.Task, h, &before, free))
		for d, v := range &m.Task.Resources.Fixed {
			typical.Fixed[d] += costmodels.Scale(m.Weight, v, 1000, math.MaxInt64)
		}
	}
	return max(0, lost/1_000_000+task.GPU.Amount()), max(0, served(&typical, &before, free)-served(&typical, &after, left))
}

// served returns how many thousandths of the free devices can be served with the room, if each takes what is typical.
func served(typical, room *cluster.Resources, free []int32) (n int64) {
	for _, f := range free {
		n += int64(max(0, f))
	}
	for d, v := range &typical.Fixed {
		if cluster.Dimension(d) != cluster.GPU && v > 0 {
			n = costmodels.Scale(max(0, room.Fixed[d]), typical.Fixed[cluster.GPU], v, n)
		}
	}
	return n
}

// useless returns how many thousandths of the free devices a task of the kind cannot use.
func useless(kind *cluster.TaskSpec, h *cluster.Host, room *cluster.Resources, free []int32) int64 {
	need := int32(cluster.WholeGPU)
	if kind.GPU.Milli > 0 {
		need = kind.GPU.Milli
	}
	total, small, usable := int64(0), int64(0), int32(0)
	for i, f := range free {
		f = max(0, f)
		total += int64(f)
		if f < need || !accepts(kind.GPU.Models, h.GPUs[i]) {
			small += int64(f)
		} else {
			usable++
		}
	}
	if usable < max(1, kind.GPU.Count) || !kind.Resources.Fits(*room) {
		return total
	}
	return small
}

func accepts(models []string, g cluster.GPUDevice) bool {
	return len(models) == 0 || slices.Contains(models, g.Model)
}
