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

var _ costmodels.Batcher = Model{}

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
	var price [1]flowgraph.Cost
	m.Starts(r, []*costmodels.Request{q}, h, price[:])
	return price[0]
}

// Starts returns Start of each request: what the host is to typical tasks before is worked out once for all of them.
func (m Model) Starts(r *costmodels.Round, requests []*costmodels.Request, h *cluster.Host, prices []flowgraph.Cost) {
	if len(h.GPUs) == 0 {
		clear(prices)
		return
	}
	var few [64]prospect // as many as a Census gives
	kinds := few[:]
	if len(r.Mix.Shares) > len(few) {
		kinds = make([]prospect, len(r.Mix.Shares))
	}
	o := look(&r.Mix, h, kinds[:len(r.Mix.Shares)])
	for i, q := range requests {
		lost, stranded := o.lost(q.Task)
		prices[i] = min(cmp.Or(m.Rate, Rate)*flowgraph.Cost(lost+stranded/2), costmodels.Step/2)
	}
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

// outlook is what a host is to typical tasks as it is.
type outlook struct {
	host    *cluster.Host
	mix     *costmodels.Mix
	room    cluster.Resources
	free    []int32    // thousandths of each device
	kinds   []prospect // by share of the mix
	total   int64      // thousandths that are free of all devices
	useless int64      // of them, times the weight of the kinds that cannot use them
	served  int64      // of them, with the room that there is
}

// prospect is what the free devices of a host are to one kind of tasks.
type prospect struct {
	usable int32 // devices of which as much is free as it needs
	every  bool  // it accepts all of the host's devices
	fits   bool  // there is what it needs besides devices
	small  int64 // thousandths that are free of devices that it cannot use
}

// look returns what the host is to tasks of the mix, and uses as many kinds, which it fills in. Complexity: the mix times the devices
// of the host.
func look(mix *costmodels.Mix, h *cluster.Host, kinds []prospect) outlook {
	o := outlook{host: h, mix: mix, room: h.Room(), free: h.GPURoom(), kinds: kinds}
	for _, f := range o.free {
		o.total += int64(max(0, f))
	}
	for i := range kinds {
		share, k := &mix.Shares[i], &kinds[i]
		models, part := share.Task.GPU.Models, share.Part
		*k = prospect{every: true}
		for j, f := range o.free {
			accepted := len(models) == 0 || slices.Contains(models, h.GPUs[j].Model)
			k.every = k.every && accepted
			if accepted && f >= part {
				k.usable++
			} else {
				k.small += int64(max(0, f))
			}
		}
		if k.fits = fitsInto(share, &o.room); k.fits && k.usable >= share.Devices {
			o.useless += share.Weight * k.small
		} else {
			o.useless += share.Weight * o.total
		}
	}
	o.served = served(&mix.Typical, &o.room, o.total)
	return o
}

// lost returns how many thousandths of the host's devices the task takes and makes useless for typical tasks, 0 or more, and
// how many fewer could be served with what the host has of the scarcest of the other resources. The host has room for the task.
func (o *outlook) lost(task *cluster.TaskSpec) (lost, stranded int64) {
	picked, ok := task.GPU.Pick(o.host.GPUs, o.free)
	if !ok {
		picked = nil
	}
	before, after := int32(0), int32(0) // what is free of each device that was picked: of all the same
	if len(picked) > 0 {
		before = o.free[picked[0]]
		after = before - task.GPU.Takes()
	}
	total := o.total - int64(len(picked))*int64(before-after)
	room := o.room.Sub(task.Resources)
	useless := int64(0)
	for i := range o.kinds {
		share, k, n := &o.mix.Shares[i], &o.kinds[i], int32(len(picked))
		usable, small := k.usable, k.small
		if !k.every {
			n = 0
			for _, j := range picked {
				if slices.Contains(share.Task.GPU.Models, o.host.GPUs[j].Model) {
					n++
				}
			}
			small -= int64(int32(len(picked))-n) * int64(before-after)
		}
		switch {
		case after >= share.Part: // as before
		case before >= share.Part:
			usable -= n
			small += int64(n) * int64(after)
		default:
			small -= int64(n) * int64(before-after)
		}
		if usable < share.Devices || !k.fits || !fitsInto(share, &room) {
			small = total
		}
		useless += share.Weight * small
	}
	return max(0, (useless-o.useless)/1_000_000+task.GPU.Amount()), max(0, o.served-served(&o.mix.Typical, &room, total))
}

// fitsInto reports whether the room is enough for one of the kind, devices aside.
func fitsInto(s *costmodels.Share, room *cluster.Resources) bool {
	return s.Needs.Fits(&room.Fixed) && s.Task.Resources.FitsNamed(room)
}

// served returns how many thousandths of the free ones can be served with the room, if each takes what is typical.
func served(typical, room *cluster.Resources, n int64) int64 {
	for d, v := range &typical.Fixed {
		if cluster.Dimension(d) != cluster.GPU && v > 0 {
			n = costmodels.Scale(max(0, room.Fixed[d]), typical.Fixed[cluster.GPU], v, n)
		}
	}
	return n
}
