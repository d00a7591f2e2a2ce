package cycle

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/guard"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// idleRows is how many rows without a class are kept, since the next job often asks for what an earlier one did.
const idleRows = 64

// rows is the table of all rows.
type rows struct {
	model *guard.Guard
	round *costmodels.Round
	hosts *hosts
	byKey map[pricedKey]*row
	idle  []*row // without a class, longest idle first
}

// pricedKey names a row: the same request has another price by another route of the model.
type pricedKey struct {
	rowKey
	route int
}

// row knows for one request and constraint which hosts can take one more task, and at which price.
type row struct {
	key        pricedKey
	task       *cluster.TaskSpec // what is asked for
	request    costmodels.Request
	constraint *cluster.Constraint
	users      int // classes

	open    []slot    // hosts that can, by price
	entry   []slot    // by host index: the slot in open, where verdict is open
	verdict []verdict // by host index
	tally   map[verdict]int
	read    int // position in the log of host changes
}

// slot packs a price and a host index, so that slots sort by price, then by index. Prices are below 2^31.
type slot uint64

func makeSlot(price flowgraph.Cost, index int32) slot { return slot(price)<<32 | slot(uint32(index)) }

func (s slot) price() flowgraph.Cost { return flowgraph.Cost(s >> 32) }
func (s slot) index() int32          { return int32(uint32(s)) }

// get returns the row of the key for one more class.
func (t *rows) get(asks rowKey, task *cluster.TaskSpec, job *cluster.JobSpec) *row {
	key := pricedKey{asks, t.model.Route(job.Pool, job.Type)}
	r := t.byKey[key]
	if r == nil {
		r = &row{
			key: key, task: task, constraint: job.Constraint,
			request: costmodels.Request{Task: task, Work: asks.work, Route: key.route},
			tally:   map[verdict]int{}, read: -1,
		}
		t.byKey[key] = r
	}
	if i := slices.Index(t.idle, r); i >= 0 {
		t.idle = slices.Delete(t.idle, i, i+1)
	}
	r.users++
	return r
}

// release gives a row back for one class.
func (t *rows) release(r *row) {
	if r.users--; r.users > 0 {
		return
	}
	t.idle = append(t.idle, r)
	if len(t.idle) > idleRows {
		delete(t.byKey, t.idle[0].key)
		t.idle = slices.Delete(t.idle, 0, 1)
	}
}

// refresh brings a row in line with the hosts. Complexity: the changes of hosts since the last refresh, each at the price
// of moving a part of the list; all hosts for a new row or after many changes.
func (t *rows) refresh(r *row) {
	changed, ok := t.hosts.since(r.read)
	r.read = t.hosts.position()
	if len(r.verdict) < len(t.hosts.byIndex) {
		grow := len(t.hosts.byIndex) - len(r.verdict)
		r.verdict = append(r.verdict, make([]verdict, grow)...)
		r.entry = append(r.entry, make([]slot, grow)...)
	}
	if !ok || len(changed) > len(t.hosts.byIndex)/8+8 {
		t.rebuild(r)
		return
	}
	for _, i := range changed {
		t.update(r, i)
	}
}

func (t *rows) rebuild(r *row) {
	r.open = r.open[:0]
	clear(r.tally)
	for i := range t.hosts.byIndex {
		t.judge(r, int32(i))
		if r.verdict[i] == open {
			r.open = append(r.open, r.entry[i])
		}
	}
	slices.Sort(r.open)
}

func (t *rows) update(r *row, i int32) {
	was, before := r.verdict[i], r.entry[i]
	if r.tally[was]--; r.tally[was] <= 0 {
		delete(r.tally, was)
	}
	t.judge(r, i)
	now, after := r.verdict[i], r.entry[i]
	if was == open && now == open && before == after {
		return
	}
	if was == open {
		at, _ := slices.BinarySearch(r.open, before)
		r.open = slices.Delete(r.open, at, at+1)
	}
	if now == open {
		at, _ := slices.BinarySearch(r.open, after)
		r.open = slices.Insert(r.open, at, after)
	}
}

// judge decides whether the host can take one task of the row, and prices it.
func (t *rows) judge(r *row, i int32) {
	h := t.hosts.byIndex[i]
	v := judgeHost(r, h)
	r.verdict[i] = v
	if v == absent {
		return
	}
	r.tally[v]++
	if v == open {
		r.entry[i] = makeSlot(clamp(t.model.Start(t.round, &r.request, h.rec)), i)
	}
}

// clamp keeps a price inside the range that the network is exact for, whatever a model returns.
func clamp(c flowgraph.Cost) flowgraph.Cost { return min(max(c, 0), costmodels.MaxPrice) }
