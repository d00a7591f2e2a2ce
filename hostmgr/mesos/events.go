package mesos

import (
	"cmp"
	"maps"
	"slices"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// connected makes s the session. The master has forgotten whom we asked it to kill, and which offers were declined or suppressed, unless
// it did not hear the end of the subscription before; so it is told to. It offers what is free, as soon as its agents have found it, and
// that is not suppressed at once.
func (d *driver) connected(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.session, d.quiet, d.launched = s, false, now
	s.begun = now
	s.rounds.begin(now, d.config.ReconcileEvery)
	for _, r := range d.runs {
		if r.closing() && !r.ended() {
			r.killAt = now
		}
	}
	d.awaitOffers(now.Add(agentReturns))
	d.revived = time.Time{}
	d.demand(s)
	d.overdue = true
	d.wakeKeeper()
}

// awaitOffers gives the master time to offer what is resting.
func (d *driver) awaitOffers(until time.Time) {
	for _, a := range d.agents {
		if len(a.resting) > 0 && a.restUntil.Before(until) {
			a.restUntil = until
		}
	}
}

// soon is when a master has offered what it knows to be free.
func (d *driver) soon(now time.Time) time.Time { return now.Add(2 * d.config.OfferWait) }

// disconnected drops what was true in the session only. The offers are gone without being rescinded; what was free counts as if it still
// were until a master has its agent back: else others would have to leave for what has room.
func (d *driver) disconnected(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != s {
		return
	}
	d.session = nil
	for _, id := range slices.Sorted(maps.Keys(s.operations)) {
		s.operated(id, errUnanswered)
	}
	now := time.Now()
	for _, a := range d.agents {
		for _, o := range a.offers {
			a.rest(o.role, o.total, now, agentReturns)
		}
		clear(a.offers)
		clear(a.inverse)
		a.busyTold = false
		d.touch(a)
	}
	clear(d.offers)
	d.awaitOffers(now.Add(agentReturns))
}

// handle takes in an event of a session.
func (d *driver) handle(s *session, e *scheduler.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != s {
		return
	}
	now := time.Now()
	switch e.Type {
	case scheduler.Event_OFFERS:
		d.offered(s, e.GetOffers().GetOffers(), now)
	case scheduler.Event_RESCIND:
		d.rescinded(e.GetRescind().GetOfferID().Value)
	case scheduler.Event_UPDATE:
		if u := e.GetUpdate(); u != nil {
			d.update(s, &u.Status, now)
		}
	case scheduler.Event_FAILURE:
		// With an executor it is an executor's end, good or bad, which the tasks' updates tell better.
		if f := e.GetFailure(); f.GetAgentID() != nil && f.GetExecutorID() == nil {
			if a := d.agents[f.AgentID.Value]; a != nil {
				d.loseAgent(a)
			}
		}
	case scheduler.Event_INVERSE_OFFERS:
		for i := range e.GetInverseOffers().GetInverseOffers() {
			d.inverseOffered(s, &e.InverseOffers.InverseOffers[i], now)
		}
	case scheduler.Event_RESCIND_INVERSE_OFFER:
		d.inverseRescinded(e.GetRescindInverseOffer().GetInverseOfferID().Value)
	case scheduler.Event_UPDATE_OPERATION_STATUS:
		if u := e.GetUpdateOperationStatus(); u != nil {
			d.operationUpdate(s, &u.Status)
		}
	case scheduler.Event_HEARTBEAT, scheduler.Event_MESSAGE:
	default:
		d.complain("the master sent an event that this release does not know", "type", int32(e.Type))
	}
}

// offered takes in offers.
func (d *driver) offered(s *session, offers []api.Offer, now time.Time) {
	var useless []api.OfferID
	for i := range offers {
		o := &offers[i]
		if o.AgentID.Value == "" || o.ID.Value == "" || o.AllocationInfo.GetRole() == "" && len(d.config.Roles) > 1 {
			d.complain("an offer names no agent or no role, and is declined", "offer", o.ID.Value)
			if o.ID.Value != "" {
				useless = append(useless, o.ID)
			}
			continue
		}
		a := d.agents[o.AgentID.Value]
		if a == nil {
			a = d.newAgent(agentRecord{ID: o.AgentID.Value})
		}
		named := a.Name != ""
		if !named {
			d.name(a, d.hostName(o))
		}
		all := pieces(o.Resources)
		changed, tooMany := a.describe(o, &d.config)
		if tooMany > 0 {
			d.complain("an agent has more attributes than are taken in, and the last are left out", "agent", a.ID, "attributes", tooMany)
		}
		if a.keep(volumesIn(all)...) || changed || !named || !a.recorded {
			d.writeAgent(a)
		}
		d.foundAgent(a)
		role := cmp.Or(o.AllocationInfo.GetRole(), d.config.Roles[0])
		held := &offer{id: o.ID.Value, role: role, agent: a, pieces: all, total: total(all), since: now}
		a.offers[held.id], d.offers[held.id] = held, held
		a.offeredFor[role] = true
		a.rouse(held.role, held.total)
		a.mostDisk = max(a.mostDisk, a.disk())
		d.touch(a)
		if a.closing(now, d.config.MaintenanceLead) {
			d.refuseAll(a, nearMaintenance)
		}
		if len(a.queue) > 0 {
			d.flushSoon(a)
		} else {
			d.tidy(s, held, now)
		}
	}
	if len(useless) > 0 {
		s.send(0, decline(useless, d.config.DeclineFor), nil)
	}
}

// rescinded drops an offer that the master took back. Launches that counted on it are given back at once. What it held is expected in
// another one, though: masters take back all that is out whenever maintenance is planned, and what is out for long if they are told to.
func (d *driver) rescinded(id string) {
	o := d.offers[id]
	if o == nil {
		return
	}
	d.dropOffer(o)
	d.refuseExcess(o.agent, "an offer was rescinded")
	o.agent.rest(o.role, o.total, time.Now(), d.config.OfferWait)
	d.touch(o.agent)
}

func (d *driver) dropOffer(o *offer) {
	delete(d.offers, o.id)
	delete(o.agent.offers, o.id)
}

// refuseExcess gives launches back for which there are no resources in sight any more, the latest first.
func (d *driver) refuseExcess(a *agent, why string) {
	for len(a.queue) > 0 && !a.fits(&d.config) {
		d.refuse(a.queue[len(a.queue)-1], why)
	}
}

// loseAgent takes in that the master has lost contact with an agent. Its tasks may run on.
func (d *driver) loseAgent(a *agent) {
	for _, o := range a.offers {
		d.dropOffer(o)
	}
	a.resting = nil
	for len(a.queue) > 0 {
		d.refuse(a.queue[0], "its agent is gone")
	}
	if !a.lost {
		a.lost = true
		d.touch(a)
	}
	if a.forgettable() {
		d.forget(a)
	}
}

// forgettable reports whether nothing that is known of an agent that is lost will be asked for: no run of it has an end to come, and no
// task comes back to it by its name, for its volumes.
func (a *agent) forgettable() bool { return len(a.runs) == 0 && len(a.Machine.Volumes) == 0 }

// foundAgent takes in that the master has contact with an agent.
func (d *driver) foundAgent(a *agent) {
	if a.seen != d.session {
		a.seen = d.session
		if soon := d.soon(time.Now()); a.restUntil.After(soon) {
			a.restUntil = soon
		}
	}
	if a.lost {
		a.lost = false
		d.touch(a)
		for _, r := range a.runs {
			if r.closing() && r.dying.IsZero() {
				r.killAt = time.Now() // it has heard of no KILL
			}
		}
		if d.session != nil && len(a.runs) > 0 {
			d.session.rounds.anew(time.Now()) // which of them does it still have?
		}
	}
}

// inverseOffered takes in that an operator wants an agent back. It is agreed to when none of our tasks is there. As long as
// some are, it is declined once, which the operator sees, and when it is asked again that is kept, to be agreed to when the
// last one has ended: from then on nobody would ask.
func (d *driver) inverseOffered(s *session, o *api.InverseOffer, now time.Time) {
	a := d.agents[o.GetAgentID().GetValue()]
	if a == nil {
		s.send(0, agree(o.OfferID), nil)
		return
	}
	a.maintenance = windowOf(&o.Unavailability)
	if a.closing(now, d.config.MaintenanceLead) {
		d.refuseAll(a, nearMaintenance)
	}
	d.touch(a)
	switch {
	case len(a.runs) == 0:
		s.send(laneOf(a.ID), agree(o.OfferID), nil)
	case a.busyTold:
		a.inverse[o.OfferID.Value] = true
	default:
		a.busyTold = true
		s.send(laneOf(a.ID), &scheduler.Call{Type: scheduler.Call_DECLINE_INVERSE_OFFERS, DeclineInverseOffers: &scheduler.Call_DeclineInverseOffers{
			InverseOfferIDs: []api.OfferID{o.OfferID}, Filters: filter(busyFilter),
		}}, nil)
	}
}

// leave agrees to the inverse offers of an agent that were kept until no task of ours is there.
func (d *driver) leave(a *agent) {
	if len(a.runs) > 0 {
		return
	}
	a.busyTold = false
	if len(a.inverse) == 0 || d.session == nil {
		return
	}
	var ids []api.OfferID
	for _, id := range slices.Sorted(maps.Keys(a.inverse)) {
		ids = append(ids, api.OfferID{Value: id})
	}
	clear(a.inverse)
	d.session.send(laneOf(a.ID), agree(ids...), nil)
}

func agree(ids ...api.OfferID) *scheduler.Call {
	return &scheduler.Call{Type: scheduler.Call_ACCEPT_INVERSE_OFFERS, AcceptInverseOffers: &scheduler.Call_AcceptInverseOffers{
		InverseOfferIDs: ids, Filters: filter(inverseFilter),
	}}
}

// After how long the master asks again whether an agent is ready for maintenance: soon after it was not, as the answer to that
// is kept back.
const (
	inverseFilter = 30 * time.Second
	busyFilter    = time.Second
)

// closedFilter is for how long what an agent near its maintenance has is declined. That the maintenance is put off or cancelled only the
// next offer says.
const closedFilter = 30 * time.Second

// inverseRescinded drops an inverse offer that the master took back. If it was out for too long, it comes again.
func (d *driver) inverseRescinded(id string) {
	for _, a := range d.agents {
		if a.inverse[id] {
			delete(a.inverse, id)
			a.busyTold = false
		}
	}
}

// nearMaintenance is why a launch is given back on an agent that gets no more work.
const nearMaintenance = "maintenance of its agent is near"

func (d *driver) refuseAll(a *agent, why string) {
	for len(a.queue) > 0 {
		d.refuse(a.queue[0], why)
	}
}

func filter(d time.Duration) *api.Filters {
	s := d.Seconds()
	return &api.Filters{RefuseSeconds: &s}
}

func decline(ids []api.OfferID, d time.Duration) *scheduler.Call {
	return &scheduler.Call{Type: scheduler.Call_DECLINE, Decline: &scheduler.Call_Decline{OfferIDs: ids, Filters: filter(d)}}
}
