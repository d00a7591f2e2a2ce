package mesostest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// offer is resources of one agent, offered to one framework for one role.
type offer struct {
	id      string
	serial  int
	f       *framework
	a       *agent
	role    string
	has     bag
	since   time.Time
	timeout timer
}

// filterKey is where a refusal holds.
type filterKey struct{ agent, role string }

// filter refuses what is contained in the resources, until its time.
type filter struct {
	until   time.Time
	refused bag
}

// defaultRefuse holds where no filters are given, or bad ones.
const defaultRefuse = 5 * time.Second

func refuseFor(f *mesos.Filters) time.Duration {
	if f == nil || f.RefuseSeconds == nil || *f.RefuseSeconds < 0 {
		return defaultRefuse
	}
	return time.Duration(min(*f.RefuseSeconds, 365*24*3600) * float64(time.Second))
}

// sorted returns offers in the order in which they were made.
func (m *master) sorted(which func(*offer) bool) []*offer {
	var out []*offer
	for _, o := range m.offers {
		if which(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(x, y *offer) int { return x.serial - y.serial })
	return out
}

// takeOffersBack makes offers invalid and their resources free. With rescind, their frameworks are told.
func (m *master) takeOffersBack(which func(*offer) bool, rescind bool) {
	for _, o := range m.sorted(which) {
		m.drop(o)
		if rescind {
			o.f.send(&scheduler.Event{
				Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: o.id}},
			})
		}
	}
}

// drop makes one offer invalid and its resources free.
func (m *master) drop(o *offer) {
	o.timeout.cancel()
	delete(m.offers, o.id)
	o.a.give(o.has)
}

func (m *master) allocateAndRepeat() {
	m.allocate()
	m.c.after(&m.tick, m.c.config.AllocationInterval, m.allocateAndRepeat)
}

// allocate offers what is free: each agent to the role with the smallest dominant share that wants it, of several such roles to the one
// that was served most seldom, and then to the first by name; so first among the roles at the top, and then below. All offers to one
// framework come in one event. Dominant resource fairness is after Ghodsi et al. (NSDI 2011). Complexity: O(agents with
// something free × roles of frameworks).
func (m *master) allocate() {
	if slices.ContainsFunc(m.c.agents, (*agent).hasOffers) { // else nobody has to be asked what he wants, as in most rounds
		m.offer()
	}
	m.offerInverse()
}

// hasOffers tells whether the agent has something to offer.
func (a *agent) hasOffers() bool { return a.offerable() && a.free.worthOffering() }

func (m *master) offer() {
	shares := m.shares()
	made := make(map[*framework][]mesos.Offer)
	for _, a := range slices.Backward(m.c.agents) { // a real one takes them in random order
		for a.hasOffers() {
			o := m.choose(a, shares)
			if o == nil {
				break
			}
			made[o.f] = append(made[o.f], o.message())
		}
	}
	if len(made) == 0 {
		return
	}
	for _, f := range m.sortedFrameworks() {
		if offers := made[f]; len(offers) > 0 {
			f.send(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: offers}})
		}
	}
}

func (m *master) sortedFrameworks() []*framework {
	ids := slices.Sorted(maps.Keys(m.frameworks))
	out := make([]*framework, len(ids))
	for i, id := range ids {
		out[i] = m.frameworks[id]
	}
	return out
}

// claim is a role of a framework that wants offers.
type claim struct {
	f    *framework
	role string
	line []*node // from the top to the role
}

// node is a role with all that are below it, in all frameworks; or a role without those, which is called "ROLE/.".
type node struct {
	name   string
	share  float64 // the dominant one
	served int     // offers made
}

// lineOf returns the names of the nodes of a role, from the top.
func lineOf(role string) (names []string) {
	for i, c := range role {
		if c == '/' {
			names = append(names, role[:i])
		}
	}
	return append(names, role, role+"/.")
}

// compare orders claims: who is served first.
func (c *claim) compare(other *claim) int {
	for i, x := range c.line {
		if y := other.line[i]; x != y { // a line ends with a node that is in no other line of another role
			return cmp.Or(cmp.Compare(x.share, y.share), cmp.Compare(x.served, y.served), cmp.Compare(x.name, y.name))
		}
	}
	return cmp.Compare(c.f.served[c.role], other.f.served[other.role])
}

// shares returns the claims of the connected frameworks, and what each role has.
func (m *master) shares() []claim {
	var claims []claim
	nodes := make(map[string]*node)
	for _, f := range m.sortedFrameworks() {
		if f.stream == nil {
			continue
		}
		for _, role := range f.roles() {
			var line []*node
			for _, name := range lineOf(role) {
				if nodes[name] == nil {
					nodes[name] = &node{name: name}
				}
				nodes[name].served += f.served[role]
				line = append(line, nodes[name])
			}
			if !f.suppressed[role] {
				claims = append(claims, claim{f, role, line})
			}
		}
	}
	if len(claims) < 2 {
		return claims // nobody to be fair to
	}
	total := make(map[string]int64)
	used := make(map[string]map[string]int64) // node → resource → milli
	for _, a := range m.c.agents {
		if a.registered {
			for _, p := range a.total {
				total[p.kind.Name] += p.milli
			}
		}
	}
	count := func(role string, b bag) {
		for _, name := range lineOf(role) {
			if used[name] == nil {
				used[name] = make(map[string]int64)
			}
			for _, p := range b {
				used[name][p.kind.Name] += p.milli
			}
		}
	}
	for _, f := range m.frameworks {
		for _, t := range f.tasks {
			if !t.released {
				count(t.role, t.has)
			}
		}
	}
	for _, o := range m.offers {
		count(o.role, o.has)
	}
	for name, x := range nodes {
		for resource, n := range used[name] {
			x.share = max(x.share, float64(n)/float64(max(1, total[resource])))
		}
	}
	return claims
}

// choose makes the next offer of an agent, or returns nil.
func (m *master) choose(a *agent, claims []claim) *offer {
	slices.SortStableFunc(claims, func(x, y claim) int { return x.compare(&y) })
	for _, want := range claims {
		has := a.offerTo(want.f, want.role)
		if !has.worthOffering() || want.f.refuses(a, want.role, has) || !want.f.constraints.admit(want.role, a) {
			continue
		}
		o := &offer{id: m.nextOfferID(), serial: m.offerSerial, f: want.f, a: a, role: want.role, has: has, since: m.c.clock.Now()}
		m.offers[o.id] = o
		want.f.served[want.role]++
		part := 0.0
		if cpus := a.total.scalar("cpus"); cpus > 0 { // near enough for the next choice
			part = float64(has.scalar("cpus")) / float64(cpus) / float64(max(1, len(m.c.agents)))
		}
		for _, x := range want.line {
			x.share += part
			x.served++
		}
		a.take(has)
		if limit := m.c.config.OfferTimeout; limit > 0 {
			m.c.after(&o.timeout, limit, func() { m.takeOffersBack(func(x *offer) bool { return x == o }, true) })
		}
		return o
	}
	return nil
}

func (m *master) nextOfferID() string {
	id := fmt.Sprintf("%s-O%d", m.id, m.offerSerial)
	m.offerSerial++
	return id
}

func (o *offer) message() mesos.Offer {
	role := o.role
	message := mesos.Offer{
		ID:             mesos.OfferID{Value: o.id},
		FrameworkID:    mesos.FrameworkID{Value: o.f.id},
		AgentID:        mesos.AgentID{Value: o.a.id},
		Hostname:       o.a.spec.Hostname,
		URL:            o.a.url(),
		Resources:      o.has.write(role, !o.f.can[mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT]),
		Attributes:     o.a.spec.attributes(),
		Unavailability: o.a.unavailability(),
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.a.executors), runKey.compare) {
		if key.framework == o.f.id {
			message.ExecutorIDs = append(message.ExecutorIDs, mesos.ExecutorID{Value: key.id})
		}
	}
	if !o.f.can[mesos.FrameworkInfo_Capability_MULTI_ROLE] { // it knows nothing of allocation to roles
		message.AllocationInfo = nil
		for i := range message.Resources {
			message.Resources[i].AllocationInfo = nil
		}
	}
	return message
}

// refuses tells whether a filter of the framework holds back the offer, and forgets filters that are over.
func (f *framework) refuses(a *agent, role string, has bag) bool {
	key := filterKey{a.id, role}
	now := f.m.c.clock.Now()
	live := slices.DeleteFunc(f.filters[key], func(x filter) bool { return !now.Before(x.until) })
	if len(live) == 0 {
		delete(f.filters, key)
		return false
	}
	f.filters[key] = live
	return slices.ContainsFunc(live, func(x filter) bool { return x.refused.contains(has) })
}

// giveBack ends an offer of which nothing, or only a part, was used; rest is what the framework does not want now.
func (f *framework) giveBack(a *agent, role string, rest bag, filters *mesos.Filters) {
	a.give(rest)
	if d := refuseFor(filters); d > 0 && len(rest) > 0 {
		key := filterKey{a.id, role}
		f.filters[key] = append(f.filters[key], filter{f.m.c.clock.Now().Add(d), rest})
	}
}

// decline is the call of this name. Unknown offers are ignored.
func (m *master) decline(f *framework, call *scheduler.Call_Decline) {
	for _, id := range call.OfferIDs {
		o := m.offers[id.Value]
		if o == nil || o.f != f {
			continue
		}
		o.timeout.cancel()
		delete(m.offers, o.id)
		f.giveBack(o.a, o.role, o.has, call.Filters)
	}
}

// suppress is the call of this name; no roles are all roles, and with a foreign one it is ignored.
func (m *master) suppress(f *framework, roles []string) {
	for _, role := range f.mine(roles) {
		f.suppressed[role] = true
	}
}

// revive is the call of this name: it clears the filters too, those of inverse offers for all roles, and offers come at once.
func (m *master) revive(f *framework, roles []string) {
	all := f.mine(roles)
	f.unfilter(func(role string) bool { return slices.Contains(all, role) })
	for _, role := range all {
		delete(f.suppressed, role)
	}
	m.allocate()
}

// unfilter clears the filters of offers for some roles, and those of inverse offers.
func (f *framework) unfilter(which func(role string) bool) {
	for id, said := range f.answers {
		said.until = time.Time{}
		f.answers[id] = said
	}
	maps.DeleteFunc(f.filters, func(k filterKey, _ []filter) bool { return which(k.role) })
}

// mine returns the roles that are meant, nil if one is foreign.
func (f *framework) mine(roles []string) []string {
	if len(roles) == 0 {
		return f.roles()
	}
	if slices.ContainsFunc(roles, func(r string) bool { return !slices.Contains(f.roles(), r) }) {
		return nil
	}
	return roles
}

// offerTo returns what of an agent's free resources may be offered to a role of a framework.
func (a *agent) offerTo(f *framework, role string) bag {
	if a.total.scalar("gpus") > 0 && !f.can[mesos.FrameworkInfo_Capability_GPU_RESOURCES] {
		return nil
	}
	var out bag
	for _, p := range a.free {
		reserved := p.reservedFor()
		switch {
		case p.kind.Revocable != nil && !f.can[mesos.FrameworkInfo_Capability_REVOCABLE_RESOURCES]:
		case p.kind.Shared != nil && !f.can[mesos.FrameworkInfo_Capability_SHARED_RESOURCES]:
		case len(p.kind.Reservations) > 1 && !f.can[mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT]:
		case reserved == "", reserved == role, strings.HasPrefix(role, reserved+"/"):
			out = append(out, p)
		}
	}
	return out
}
