package mesos

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// agent is a Mesos agent, which is a host. What a task may use there at some time is
//
//	held     in offers that we have, or
//	used     by our runs, or
//	resting  not ours now, but free when we last saw it: we declined it, did not use all of what we accepted, or a run
//	         of ours has ended there. It is expected in an offer soon, or when offers are revived.
//
// The sum of the three is the host's capacity; of what is held and resting, only what is so for one role, since a run gets all of
// its resources from one. It is steady as long as no other framework takes or frees anything, and follows the offers where one does.
type agent struct {
	agentRecord
	offers map[string]*offer
	runs   map[cluster.RunID]*run // that have not ended
	queue  []*run                 // that wait for resources

	resting   map[string]quantity // by the role for which it was offered last; none is zero
	restUntil time.Time

	flushing    bool            // a flush of the queue is on its way
	lost        bool            // the master has no contact
	seen        *session        // the last one in which the master had contact
	maintenance *maintenance    // planned
	inverse     map[string]bool // ids of inverse offers that are not answered yet
	busyTold    bool            // one was declined because of the runs
	mute        bool            // it cannot say how operations go, see errMute
	tidied      time.Time       // when it was last tried to give up what is left over of volumes
	passed      time.Time       // when its offers were last passed on to another role
	passes      int             // how often that was for a launch that had to know what is offered for another role
	offeredFor  map[string]bool // roles for which something of it was offered
	mostDisk    int64           // the most that there was, for whichever role
	recorded    bool            // agentRecord is in the store, or on its way there
	written     bool            // agentRecord, as it was at some time, is in the store
	shown       *hostmgr.Host   // as it was last reported, nil if it was not
	touched     bool            // it may be different now
}

// maintenance is when an agent is taken out of service.
type maintenance struct {
	start    time.Time
	duration time.Duration // 0: open end
}

// offer is resources of one agent for one role that are ours until they are taken back.
type offer struct {
	id, role string
	agent    *agent
	pieces   []*piece
	total    quantity
	since    time.Time
}

func (a *agent) used() quantity {
	var q quantity
	for _, r := range a.runs {
		if r.placed {
			q = q.plus(r.need)
		}
	}
	return q
}

// rooms returns what is held and resting for each role.
func (a *agent) rooms() map[string]quantity {
	rooms := make(map[string]quantity, 1)
	maps.Copy(rooms, a.resting)
	for _, o := range a.offers {
		rooms[o.role] = rooms[o.role].plus(o.total)
	}
	return rooms
}

// room returns what is held and resting for the role that has most: the one with the greatest parts of what all roles have
// together, added up over what there is.
func (a *agent) room() quantity {
	rooms := a.rooms()
	roles := slices.Sorted(maps.Keys(rooms))
	var all, room quantity
	for _, role := range roles {
		all = all.plus(rooms[role])
	}
	most := -1.0
	for _, role := range roles {
		parts := 0.0
		for d := range all.amount.Fixed {
			parts += part(rooms[role].amount.Fixed[d], all.amount.Fixed[d]) + part(rooms[role].revocable.Fixed[d], all.revocable.Fixed[d])
		}
		if parts > most {
			most, room = parts, rooms[role]
		}
	}
	return room
}

func part(n, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// fits reports whether there is room for the launches that wait and then for more, if each gets its resources from one role, as flush
// takes them.
func (a *agent) fits(c *Config, more ...quantity) bool {
	wants := make([]quantity, 0, len(a.queue)+len(more))
	for _, r := range a.queue {
		wants = append(wants, r.need.plus(a.disksFor(r.record.Volumes, c)))
	}
	wants = append(wants, more...)
	rooms := a.rooms()
	for _, role := range slices.Sorted(maps.Keys(rooms)) {
		room := rooms[role]
		wants = slices.DeleteFunc(wants, func(want quantity) bool {
			if !room.covers(want) {
				return false
			}
			room = room.minus(want)
			return true
		})
	}
	return len(wants) == 0
}

// disksFor returns the disk of those of the volumes that have to be made, which is none before it is known that the agent does not have them.
func (a *agent) disksFor(volumes []string, c *Config) (q quantity) {
	if a.unseen(c) != "" {
		return q
	}
	for _, name := range volumes {
		if !a.keeps(name) {
			q.amount.Fixed[cluster.Disk] += bytesOf(megabytesOf(c.VolumeBytes))
		}
	}
	return q
}

// rest adds to what is expected in an offer within d, for this role or another.
func (a *agent) rest(role string, q quantity, now time.Time, d time.Duration) {
	if q.isZero() {
		return
	}
	if until := now.Add(d); len(a.resting) == 0 || until.After(a.restUntil) {
		a.restUntil = until
	}
	if a.resting == nil {
		a.resting = map[string]quantity{}
	}
	a.resting[role] = a.resting[role].plus(q)
}

// rouse takes what is offered for a role out of what is resting, of that role first.
func (a *agent) rouse(role string, q quantity) {
	for _, from := range append([]string{role}, slices.Sorted(maps.Keys(a.resting))...) {
		was, there := a.resting[from]
		if !there {
			continue
		}
		q, a.resting[from] = q.minus(was), was.minus(q)
		if a.resting[from].isZero() {
			delete(a.resting, from)
		}
	}
}

// closing reports whether the agent gets no more work because maintenance is near.
func (a *agent) closing(now time.Time, lead time.Duration) bool {
	m := a.maintenance
	if m == nil || m.duration > 0 && now.After(m.start.Add(m.duration)) {
		return false
	}
	return m.start.Sub(now) <= lead
}

// host describes the agent to the scheduler.
func (a *agent) host(now time.Time, c *Config) hostmgr.Host {
	capacity := a.used()
	closing := a.closing(now, c.MaintenanceLead)
	if !closing {
		capacity = capacity.plus(a.room())
	}
	h := hostmgr.Host{Name: a.Name, Machine: a.Machine}
	h.Capacity, h.Ports, h.Revocable = capacity.amount, capacity.ports, capacity.revocable
	for d := range h.Capacity.Fixed { // both together are what is reported
		h.Capacity.Fixed[d] = min(h.Capacity.Fixed[d], cluster.MaxAmount)
		h.Revocable.Fixed[d] = min(h.Revocable.Fixed[d], cluster.MaxAmount-h.Capacity.Fixed[d])
	}
	h.Capacity.Fixed[cluster.GPU] = min(h.Capacity.Fixed[cluster.GPU], maxDevices*cluster.WholeGPU)
	h.Capabilities = c.capabilities()
	if a.diskless(c) {
		h.Capabilities &^= cluster.CanVolumes
	}
	if a.shortOfDisk(executorDisk, c) {
		h.Capabilities &^= cluster.CanGroups
	}
	model := ""
	for _, kv := range a.Machine.Attributes {
		if kv.Key == c.GPUModelAttribute {
			model = kv.Value
		}
	}
	for range h.Capacity.Fixed[cluster.GPU] / cluster.WholeGPU {
		h.GPUs = append(h.GPUs, cluster.GPUDevice{Model: model})
	}
	if h.Revocable.Fixed[cluster.CPU] > 0 && h.Revocable.Fixed[cluster.Memory] == 0 {
		h.Notes = append(h.Notes, "only cores may be taken back, no memory: revocable tasks that ask for memory have no room")
	}
	if m := a.maintenance; m != nil {
		note := "maintenance is planned from " + m.start.UTC().Format(time.RFC3339)
		if m.duration > 0 {
			note += " for " + m.duration.String()
		}
		if closing {
			note += "; no new tasks"
		}
		h.Notes = append(h.Notes, note)
	}
	return h
}

// disk returns how much there is, for whichever role.
func (a *agent) disk() int64 {
	n := a.used().amount.Fixed[cluster.Disk]
	for _, room := range a.rooms() {
		n += room.amount.Fixed[cluster.Disk]
	}
	return n
}

// shortOfDisk reports whether the agent never had so many bytes of disk that is free or that our runs use: other frameworks have it, or it
// is reserved to other roles, or there is none.
func (a *agent) shortOfDisk(bytes int64, c *Config) bool {
	return a.mostDisk < bytes && len(a.offeredFor) > 0 && a.unseen(c) == ""
}

// diskless reports whether the agent has no persistent volume, and never had disk of which one could be made.
func (a *agent) diskless(c *Config) bool {
	if !a.shortOfDisk(bytesOf(megabytesOf(c.VolumeBytes)), c) || len(a.Machine.Volumes) > 0 {
		return false
	}
	for _, r := range a.runs {
		if len(r.record.Volumes) > 0 {
			return false
		}
	}
	return true
}

// maxDevices is how many GPU devices of one host a scheduler takes.
const maxDevices = 1024

// refresh makes what is reported what there is, and reports whether it was not.
func (a *agent) refresh(there bool, now time.Time, c *Config) bool {
	before := a.shown
	a.shown = nil
	if there {
		h := a.host(now, c)
		a.shown = &h
	}
	if a.shown == nil || before == nil {
		return a.shown != before
	}
	return a.shown.Name != before.Name || !a.shown.Equal(before.Machine)
}

// maxAttributes and maxVolumes bound what is taken in of the attributes of an agent, and what is recorded of its volumes, in bytes: a record
// has to fit into the store, and a report of the host into a message.
const maxAttributes, maxVolumes = 96 << 10, 96 << 10

// copy returns the agent's record as it is now. Volumes that it has no room for are known again when they are offered.
func (a *agent) copy() *agentRecord {
	c := a.agentRecord
	size := 0
	for i, v := range c.Machine.Volumes {
		if size += len(v.Name) + recordOverhead; size > maxVolumes {
			c.Machine.Volumes = c.Machine.Volumes[:i]
			break
		}
	}
	return &c
}

// recordOverhead is what an attribute or a volume takes in a record beside its text.
const recordOverhead = 32

// describe takes in what an offer says of its agent, and reports whether anything that is recorded has changed, and how many attributes
// were too many.
func (a *agent) describe(o *api.Offer, c *Config) (changed bool, tooMany int) {
	at := o.GetURL().GetAddress()
	m := cluster.Machine{
		Address:    addressOf(o),
		Attributes: attributes(o.Attributes),
		Zone:       o.GetDomain().GetFaultDomain().GetZone().Name,
		Volumes:    a.Machine.Volumes,
	}
	for _, kv := range m.Attributes {
		switch kv.Key {
		case c.RackAttribute:
			m.Rack = kv.Value
		case c.ZoneAttribute:
			m.Zone = kv.Value
		}
	}
	size := 0
	for i, kv := range m.Attributes {
		if size += len(kv.Key) + len(kv.Value) + recordOverhead; size > maxAttributes {
			m.Attributes, tooMany = m.Attributes[:i:i], len(m.Attributes)-i
			break
		}
	}
	a.maintenance = windowOf(o.Unavailability)
	changed = !a.Machine.Equal(m) || a.Port != at.Port || a.Path != pathOf(o)
	a.Machine, a.Port, a.Path = m, at.Port, pathOf(o)
	return changed, tooMany
}

func windowOf(u *api.Unavailability) *maintenance {
	if u == nil {
		return nil
	}
	return &maintenance{start: time.Unix(0, u.Start.Nanoseconds), duration: time.Duration(u.GetDuration().GetNanoseconds())}
}

// attributes makes pairs of text from attributes of all types: a scalar as a number, each range and each item of a set by
// itself.
func attributes(list []api.Attribute) []cluster.KeyValue {
	var out []cluster.KeyValue
	for _, a := range list {
		add := func(value string) { out = append(out, cluster.KeyValue{Key: a.Name, Value: value}) }
		switch a.Type {
		case api.TEXT:
			add(a.GetText().GetValue())
		case api.SCALAR:
			if v := a.GetScalar().GetValue(); !math.IsNaN(v) && !math.IsInf(v, 0) {
				add(strconv.FormatFloat(v, 'f', -1, 64))
			}
		case api.RANGES:
			for _, r := range a.GetRanges().GetRange() {
				add(strconv.FormatUint(r.Begin, 10) + "-" + strconv.FormatUint(r.End, 10))
			}
		case api.SET:
			for _, item := range a.GetSet().GetItem() {
				add(item)
			}
		}
	}
	slices.SortFunc(out, cluster.KeyValue.Compare)
	return slices.Compact(out)
}

// hostName returns a name for an agent that no other agent has: its hostname, with its port if that is taken, with its address too if
// that is taken as well. Machines may have the same hostname. An agent at the address and port of another one of its hostname is in
// that one's place, and so is one at the port only, where the other is out of reach: a machine may come back with a new address. Those
// of one process, as of mesos-local, differ in their path only.
func (d *driver) hostName(o *api.Offer) string {
	name, address := plainText(cmp.Or(o.Hostname, o.AgentID.Value), 240), addressOf(o)
	port, path := o.GetURL().GetAddress().Port, pathOf(o)
	samePort := func(a *agent) bool {
		return port != 0 && a.Port == port && (a.Path == path || a.Path == "" || path == "")
	}
	withPort := ":" + strconv.Itoa(int(port))
	names := []string{name, name + withPort, plainText(name, 190) + ":" + plainText(address, 48) + withPort}
	for _, try := range names {
		if other := d.byName[try]; other != nil && samePort(other) && other.Machine.Address == address {
			d.succeeded(other)
			return try
		}
	}
	for _, try := range names {
		other := d.byName[try]
		if other != nil && other.lost && (other.forgettable() || samePort(other)) {
			d.succeeded(other)
			other = nil
		}
		if other == nil {
			return try
		}
	}
	return o.AgentID.Value
}

// plainText returns at most n bytes of a text, with what may not be in the name of a host replaced.
func plainText(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), n)]
}

// addressOf returns the address of an offer's agent, by which tasks of other hosts find it.
func addressOf(o *api.Offer) string {
	at := o.GetURL().GetAddress()
	return cmp.Or(at.GetIP(), o.Hostname)
}

// pathOf returns what tells an offer's agent from others of its process: "/slave(1)" where there are none.
func pathOf(o *api.Offer) string {
	path := o.GetURL().GetPath()
	return path[:min(len(path), 48)]
}

// succession is how a run ends whose agent has been succeeded by another.
var succession = ending{
	State: cluster.TaskLost, ExitCode: -1, Reason: cluster.ReasonHostLost, Message: "a new agent has registered at the address of its agent",
}

// succeeded ends what an agent ran when another one has registered at its address: the machine is back with a new id, and
// nobody will ever tell how those runs ended. A master gives such an agent up, too, unless it had done so before; as long as it has
// not, it keeps what it offered of it for us.
func (d *driver) succeeded(a *agent) {
	var ids []api.OfferID
	for _, id := range slices.Sorted(maps.Keys(a.offers)) {
		ids = append(ids, api.OfferID{Value: id})
	}
	if len(ids) > 0 { // so there is a session
		d.session.send(laneOf(a.ID), decline(ids, d.config.DeclineFor), nil)
	}
	a.Machine.Volumes = nil // nobody has them any more
	d.loseAgent(a)
	for _, id := range slices.SortedFunc(maps.Keys(a.runs), cluster.RunID.Compare) {
		r, e := a.runs[id], succession
		if r.record.Killed {
			e.State, e.Reason = cluster.TaskKilled, cluster.ReasonNone
		}
		d.finish(r, e)
	}
}

// forget drops an agent.
func (d *driver) forget(a *agent) {
	delete(d.agents, a.ID)
	if d.byName[a.Name] == a {
		delete(d.byName, a.Name)
	}
	if a.recorded {
		d.writeLater(write{gone: a.ID})
	}
	d.touch(a)
}

// visible lists the hosts for the scheduler, by name.
func (d *driver) visible() []hostmgr.Host {
	hosts := make([]hostmgr.Host, 0, len(d.agents))
	for _, a := range d.agents {
		if a.shown != nil {
			hosts = append(hosts, *a.shown)
		}
	}
	slices.SortFunc(hosts, func(a, b hostmgr.Host) int { return cmp.Compare(a.Name, b.Name) })
	return hosts
}
