package cycle

import (
	"fmt"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/flowgraph"
)

// host is a host as the plan sees it.
type host struct {
	index int32
	id    cluster.HostID
	rec   *cluster.Host // with what is planned on it; nil once it is gone
	alike signature
	room  cluster.Resources // of rec, for anybody
	// content numbers what it has and how much of that is taken. Hosts with equal numbers are equal in that;
	// see contents.
	content int

	lending *cluster.Host // rec as revocable tasks see it; nil where nobody has asked yet

	node    flowgraph.NodeID  // in the network only while it is a candidate
	unit    cluster.Resources // the Round.Unit that its crowd prices came from
	crowd   []flowgraph.ArcID // parallel arcs to the sink, cheapest first; see segment
	answers int64             // starts that the model answers for, see places; MaxInstances as long as that is not known
	links   []*link           // arcs from classes
	units   []*unit           // bound tasks, in the order they were seen
	holds   []*unit           // tasks that have room held here, in the order they were seen
	loose   int               // how many of units leave, or might be asked to
	tenants []tenants         // units by group

	joined []costmodels.Resident // tasks that this plan placed here

	movable []movable // as of that solve
	counted int
	slots   []*slotNode // in the network
	// What this cycle plans beside rec.
	nominated []*nomination
	arrivals  []arrival // whom it starts here
	decided   bool      // displacements here stand in the output already
	recalls   bool      // what was lent here is asked back: no revocable task starts here
	promises  space     // see displacer.promised
	promised  int       // hosts.stamps of it then
	lodgers   []lodger  // see displacer.lodgers
	listed    int       // hosts.stamps of it then
	stale     bool      // stands in graph.stale
	changed   bool      // and its links are out of date, too
}

// tenants are the units of a group on a host.
type tenants struct {
	group *group
	n     int64
}

// count counts n more units of the group on the host. Complexity: the groups there.
func (h *host) count(g *group, n int64) {
	i := slices.IndexFunc(h.tenants, func(t tenants) bool { return t.group == g })
	if i < 0 {
		h.tenants = append(h.tenants, tenants{g, n})
	} else if h.tenants[i].n += n; h.tenants[i].n == 0 {
		h.tenants = slices.Delete(h.tenants, i, i+1)
	}
}

// ahead is how many hosts or tasks are read at once: few enough to stay in the cache.
const ahead = 32

// readAhead reads what prices and placements need of hosts, of which there are at most ahead. It goes step by
// step for all of them at once. They lie here and there in memory, and reads that do not wait for each other
// take hardly longer than one. The sum is to be kept: else a compiler would leave out reads that nobody uses.
func readAhead(hosts []*host) (sum int64) {
	var recs [ahead]*cluster.Host
	var machines [ahead]*cluster.Machine
	for k, h := range hosts {
		recs[k] = h.rec
	}
	for k, rec := range recs[:len(hosts)] {
		machines[k] = rec.Machine
		sum += rec.Allocated.Fixed[0] + rec.Lent.Fixed[0] + int64(len(rec.GPUFree))
	}
	for _, m := range machines[:len(hosts)] {
		sum += m.Capacity.Fixed[0] + int64(len(m.Capacity.Named)+len(m.GPUs))
	}
	return sum
}

// is reports whether the host has that id. No host is nil, and its id is "".
func (h *host) is(id cluster.HostID) bool { return h == nil && id == "" || h != nil && h.id == id }

// hosts numbers the hosts densely and remembers the order in which they changed.
type hosts struct {
	byID    map[cluster.HostID]*host
	byIndex []*host                        // nil where an index is free
	rooms   [][cluster.NumDimensions]int64 // by index, the fixed part of the room
	fits    [][cluster.NumDimensions]int64 // the same for one task: its GPUs are whole ones, or a part of one
	free    []int32
	version int              // grows when hosts come, go, or change rack or zone, or when it is known anew where images are
	log     []int32          // indices in the order in which what they have room for changed
	start   int              // position of log[0]
	last    []int            // by index: position of the last change
	clock   int              // counts these changes, and those in who is there, has room held or is to leave
	stamps  []int            // by index: the clock when anything of the host changed last
	racks   map[string]int32 // their numbers, by name
	byRack  []rack           // by number
	rackOf  []int32          // numbers by index
	unused  []int32          // numbers of racks that are gone
	zones   zones
	touched func(*host)
	social  bool // prices depend on who is on a host, and not only on how much they hold

	contents contents

	signatures map[string]signature
	machines   []*cluster.Host // by signature given in this era: the first host that got it, as it was then
	era        int             // grows when signatures are given anew

	sums, summed int // versions of the terms of total, and of total
	total        cluster.Resources
	largest      cluster.Resources // in each dimension, of one host that takes work
	lendable     cluster.Resources // slack of the hosts that take work, and what is lent beside it
	overlent     bool              // revocable tasks hold more than the slack of one of them
}

// rack is the hosts of one rack; "" is a name, too. A rack without hosts is gone.
type rack struct {
	name    string
	hosts   []int32 // indices, in the order of arrival
	changed int     // position behind the last change of one of them
}

func newHosts(touched func(*host)) *hosts {
	return &hosts{byID: map[cluster.HostID]*host{}, signatures: map[string]signature{}, racks: map[string]int32{}, touched: touched}
}

func (t *hosts) add(id cluster.HostID) *host {
	h := &host{id: id, node: flowgraph.NoNode}
	if n := len(t.free); n > 0 {
		h.index, t.free = t.free[n-1], t.free[:n-1]
		t.byIndex[h.index] = h
	} else {
		h.index = int32(len(t.byIndex))
		t.byIndex = append(t.byIndex, h)
		t.last = append(t.last, -1)
		t.stamps = append(t.stamps, 0)
		t.rackOf = append(t.rackOf, 0)
		t.rooms = append(t.rooms, [cluster.NumDimensions]int64{})
		t.fits = append(t.fits, [cluster.NumDimensions]int64{})
	}
	t.byID[id] = h
	return h
}

// sameToPlace reports whether placement can see no difference between the two records of a host. Who is there
// may differ; see mingle.
func sameToPlace(old, rec *cluster.Host) bool {
	return old.State() == rec.State() && old.Allocated.Equal(rec.Allocated) && old.Pace == rec.Pace && old.Misfires == rec.Misfires &&
		old.Lent.Equal(rec.Lent) && old.Lendable().Equal(rec.Lendable()) &&
		slices.Equal(old.GPUFree, rec.GPUFree) && old.SamePorts(rec) && old.Withheld.Equal(rec.Withheld) && slices.Equal(old.GPUWithheld, rec.GPUWithheld) && sameMachine(old, rec)
}

// set replaces what is known of the host. rec differs from that.
func (t *hosts) set(h *host, rec *cluster.Host) {
	if h.rec == nil || h.rec.Rack != rec.Rack || h.rec.Zone != rec.Zone {
		t.leaveRack(h)
		t.joinRack(h, rec.Rack)
		t.version++
	}
	if h.rec == nil || h.rec.State() != rec.State() || rec.State() != cluster.HostUp || !h.rec.Capacity.Equal(rec.Capacity) ||
		!h.rec.Lendable().Equal(rec.Lendable()) || !h.rec.Excess().Equal(rec.Excess()) {
		t.sums++
	}
	if h.rec == nil || h.rec.State() != rec.State() || !sameMachine(h.rec, rec) {
		h.alike = t.sign(rec)
	}
	h.rec, h.room, h.lending, h.content = rec, rec.Room(), nil, t.contents.number(rec)
	t.rooms[h.index], t.fits[h.index] = h.room.Fixed, h.room.Fixed
	if gpus := &t.fits[h.index][cluster.GPU]; *gpus > 0 {
		*gpus = min(*gpus, largestGPU(rec.GPURoom()))
	}
	t.disturb(h)
}

// largestGPU returns the largest amount of GPUs that one task may have. free is by GPU, in thousandths. The
// task may also have less: a part of a whole one, or fewer.
func largestGPU(free []int32) int64 {
	var whole, part int64
	for _, left := range free {
		if left == cluster.WholeGPU {
			whole += cluster.WholeGPU
		}
		part = max(part, int64(left))
	}
	return max(whole, part)
}

// recall opens a host to revocable tasks, or closes it.
func (t *hosts) recall(h *host, yes bool) {
	if h.recalls == yes {
		return
	}
	h.recalls, h.lending = yes, nil
	t.disturb(h)
}

// signature numbers what decides about a task on a host whatever the load is. Hosts with equal signatures are
// alike but for their names and ports.
type signature int32

// sign returns the signature of a host. Machines that change again and again leave signatures behind that
// nobody has. When these are the most, all hosts get new ones.
func (t *hosts) sign(rec *cluster.Host) signature {
	if len(t.machines) > 2*len(t.byID)+64 {
		clear(t.signatures)
		t.machines = nil
		t.era++
		for _, h := range t.byIndex {
			if h != nil && h.rec != nil {
				h.alike = t.signatureOf(h.rec)
			}
		}
	}
	return t.signatureOf(rec)
}

func (t *hosts) signatureOf(rec *cluster.Host) signature {
	key := fmt.Sprintf("%d %q %q %q %v %q %d", rec.State(), rec.Rack, rec.Zone, rec.Attributes, rec.Capacity, rec.GPUs, rec.Capabilities)
	s, ok := t.signatures[key]
	if !ok {
		s = signature(len(t.machines))
		t.signatures[key], t.machines = s, append(t.machines, rec)
	}
	return s
}

// contentsKept is how many hosts are compared with one that changed: many machines are alike, and many have
// nothing on them.
const contentsKept = 8

// contents numbers what hosts have and how much of that is taken. To a costmodels.Batcher a host is no more
// than that.
type contents struct {
	last [contentsKept]*cluster.Host // of the last that differed, by the remainder of the number
	next int
}

// number returns equal numbers mostly for hosts with equal contents, and never for others. Complexity:
// contentsKept.
func (c *contents) number(rec *cluster.Host) int {
	for n := c.next - 1; n >= max(0, c.next-contentsKept); n-- {
		if sameContent(c.last[n%contentsKept], rec) {
			return n
		}
	}
	c.last[c.next%contentsKept] = rec
	c.next++
	return c.next - 1
}

func sameContent(a, b *cluster.Host) bool {
	return a.Allocated.Equal(b.Allocated) && slices.Equal(a.GPUFree, b.GPUFree) &&
		a.Withheld.Equal(b.Withheld) && slices.Equal(a.GPUWithheld, b.GPUWithheld) && a.Lent.Equal(b.Lent) && a.Slack.Equal(b.Slack) &&
		(a.Machine == b.Machine || a.Capacity.Equal(b.Capacity) && a.Revocable.Equal(b.Revocable) && slices.Equal(a.GPUs, b.GPUs))
}

func (t *hosts) leaveRack(h *host) {
	if h.rec == nil {
		return
	}
	k := t.rackOf[h.index]
	r := &t.byRack[k]
	r.hosts, r.changed = without(r.hosts, h.index), t.position()+1
	if len(r.hosts) == 0 {
		delete(t.racks, r.name)
		r.name, t.unused = "", append(t.unused, k)
	}
}

func (t *hosts) joinRack(h *host, name string) {
	k, ok := t.racks[name]
	if !ok {
		if n := len(t.unused); n > 0 {
			k, t.unused = t.unused[n-1], t.unused[:n-1]
		} else {
			k = int32(len(t.byRack))
			t.byRack = append(t.byRack, rack{})
		}
		t.racks[name], t.byRack[k].name = k, name
	}
	t.rackOf[h.index] = k
	t.byRack[k].hosts = append(t.byRack[k].hosts, h.index)
}

func sameMachine(a, b *cluster.Host) bool {
	return a.Machine == b.Machine || a.Rack == b.Rack && a.Zone == b.Zone && a.Capacity.Equal(b.Capacity) &&
		slices.Equal(a.Attributes, b.Attributes) && slices.Equal(a.GPUs, b.GPUs) && a.Capabilities == b.Capabilities
}

func (t *hosts) remove(h *host) {
	t.leaveRack(h)
	t.version++
	t.sums++
	h.rec = nil
	t.rooms[h.index], t.fits[h.index] = [cluster.NumDimensions]int64{}, [cluster.NumDimensions]int64{}
	delete(t.byID, h.id)
	t.byIndex[h.index] = nil
	t.free = append(t.free, h.index)
	t.note(h.index)
}

// disturb has everything that depends on the host look at it again.
func (t *hosts) disturb(h *host) {
	t.tick(h)
	t.note(h.index)
	t.touched(h)
}

// mingle notes that somebody came to the host, was asked to leave it, or does other work than before. Where
// prices depend on company, everything has to look at the host again, even if it has room for the same as
// before.
func (t *hosts) mingle(h *host) {
	if t.social {
		t.disturb(h)
	}
}

// tick notes a change in who is on the host, has room held there, or is to leave it. It does nothing if h is
// nil.
func (t *hosts) tick(h *host) {
	if h != nil {
		t.clock++
		t.stamps[h.index] = t.clock
	}
}

func (t *hosts) note(i int32) {
	if len(t.log) > 4*len(t.byIndex)+1024 {
		drop := len(t.log) / 2
		t.log = slices.Delete(t.log, 0, drop)
		t.start += drop
	}
	t.last[i] = t.position()
	t.log = append(t.log, i)
	t.byRack[t.rackOf[i]].changed = t.position()
}

// capacity returns what there is to divide: all that hosts have that take work, and what is allocated on the
// others. Complexity: hosts, when one of them changed.
func (t *hosts) capacity() cluster.Resources {
	t.sum()
	return t.total
}

// isLarge reports whether two of the request fit on no host.
func (t *hosts) isLarge(request cluster.Resources) bool {
	t.sum()
	return !request.Times(2).Fits(t.largest)
}

func (t *hosts) sum() {
	if t.summed == t.sums {
		return
	}
	t.total, t.lendable, t.largest, t.overlent = cluster.Resources{}, cluster.Resources{}, cluster.Resources{}, false
	for _, h := range t.byIndex {
		switch {
		case h == nil:
		case h.rec.State() == cluster.HostUp:
			t.total = t.total.Add(h.rec.Capacity)
			t.largest = t.largest.Add(h.rec.Capacity.Sub(t.largest).Positive())
			excess := h.rec.Excess()
			t.lendable = t.lendable.Add(h.rec.Lendable()).Add(excess)
			t.overlent = t.overlent || !excess.IsZero()
		default:
			t.total = t.total.Add(h.rec.Allocated)
			t.lendable = t.lendable.Add(h.rec.Lent)
		}
	}
	t.summed = t.sums
}

// position is where the log ends now.
func (t *hosts) position() int { return t.start + len(t.log) }

// lookup returns what is known of a host, nil if it is not known.
func (t *hosts) lookup(id cluster.HostID) *cluster.Host {
	if h := t.byID[id]; h != nil {
		return h.rec
	}
	return nil
}
