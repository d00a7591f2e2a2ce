package mesos

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// mounts returns the disks of the persistent volumes of a run, and what makes those that the agent does not have yet. A
// volume is disk that is reserved to the role, so a role other than "*" is needed. It stays when the run ends. One that the
// agent has and that is not offered is waited for: it is in use, or in an offer for another role.
func (b *batch) mounts(l *hostmgr.Launch) (disks []api.Resource, prepare []api.Offer_Operation, err error) {
	for i, v := range l.Task.Volumes {
		if v.Name == "" {
			continue
		}
		id := v.NameFor(l.Run.Task.Instance())
		disk, there := b.supply.takeVolume(id)
		user := b.userOf(id)
		switch {
		case user != nil && user.record.Run != l.Run:
			return nil, nil, fmt.Errorf("mesos: volume %q: run %v uses it", id, user.record.Run)
		case !there && b.agent.keeps(id):
			return nil, nil, otherRole{error: fmt.Errorf("mesos: the host has volume %q, and Mesos does not offer it to --roles %s", id, strings.Join(b.d.config.Roles, ","))}
		case !there:
			var operations []api.Offer_Operation
			if disk, operations, err = b.create(id); err != nil {
				return nil, nil, err
			}
			prepare = append(prepare, operations...)
		}
		mounted := *disk.Disk
		mounted.Volume = &api.Volume{ContainerPath: v.MountPath, Mode: mode(v.ReadOnly)}
		if throughSandbox(l, &v) {
			mounted.Volume = &api.Volume{ContainerPath: sharedPath(i), Mode: mode(false)}
		}
		disk.Disk = &mounted
		disks = append(disks, disk)
	}
	return disks, prepare, nil
}

// userOf returns a run that has got a volume of the agent, which may not be known yet as one that it has; nil if none has.
func (b *batch) userOf(id string) *run {
	for _, r := range b.agent.runs {
		if (r.placed || slices.Contains(b.runs, r)) && slices.Contains(r.record.Volumes, id) {
			return r
		}
	}
	return nil
}

// create makes a volume out of free disk: RESERVE where it is not reserved to the role yet, and CREATE. On disk that is reserved to a role
// above, the volume would be offered to all roles below that.
func (b *batch) create(id string) (disk api.Resource, operations []api.Offer_Operation, err error) {
	if b.role == "*" {
		err := fmt.Errorf("volume %q: persistent volumes need a role other than \"*\", to which their disk is reserved", id)
		if len(b.d.config.volumeRoles()) == 0 {
			return disk, nil, fmt.Errorf("%w: %w", errNeverFits, err)
		}
		return disk, nil, otherRole{error: err}
	}
	if role := b.agent.unseen(&b.d.config); role != "" {
		err := fmt.Errorf("mesos: whether the host has volume %q for role %q is not known before something of it is offered for that", id, role)
		return disk, nil, otherRole{err, true}
	}
	if disk, err = b.supply.takeAlike(nameDisk, megabytesOf(b.d.config.VolumeBytes)); err != nil {
		return disk, nil, fmt.Errorf("volume %q: %w", id, err)
	}
	if n := len(disk.Reservations); n == 0 || disk.Reservations[n-1].GetRole() != b.role {
		reservation := api.Resource_ReservationInfo{
			Type: api.Resource_ReservationInfo_DYNAMIC.Enum(), Role: text(b.role), Labels: &api.Labels{Labels: []api.Label{{Key: oursLabel}}},
		}
		if b.d.config.Principal != "" {
			reservation.Principal = text(b.d.config.Principal)
		}
		disk.Reservations = append(slices.Clip(disk.Reservations), reservation)
		operations = append(operations, api.Offer_Operation{
			Type: api.Offer_Operation_RESERVE, Reserve: &api.Offer_Operation_Reserve{Resources: []api.Resource{disk}},
		})
	}
	persistence := &api.Resource_DiskInfo_Persistence{ID: id}
	if b.d.config.Principal != "" {
		persistence.Principal = text(b.d.config.Principal)
	}
	disk.Disk = &api.Resource_DiskInfo{Persistence: persistence, Volume: &api.Volume{ContainerPath: "volume", Mode: mode(false)}}
	operations = append(operations, api.Offer_Operation{
		Type: api.Offer_Operation_CREATE, Create: &api.Offer_Operation_Create{Volumes: []api.Resource{disk}},
	})
	return disk, operations, nil
}

// maxPasses is after how many offers that were passed on for a role, without one for it, that role counts as one for which nothing of the agent is
// ever offered, as where all of it is reserved to others.
const maxPasses = 5

// unseen returns a role for which the agent, of which we may know from its first offer only, may have volumes that we have not seen; "" if
// there is none.
func (a *agent) unseen(c *Config) string {
	for _, role := range c.volumeRoles() {
		if !a.offeredFor[role] && a.passes < maxPasses {
			return role
		}
	}
	return ""
}

// prepared returns who learns how an operation for a run went, with the mutex held. A volume is the agent's from then on, whatever becomes
// of the run. Of a refusal the run's end tells, which says no more than that what it needs is not there; of those that follow from it not.
func (d *driver) prepared(a *agent, r *run, op *api.Offer_Operation) func(error) {
	return func(err error) {
		switch {
		case errors.Is(err, errUnanswered):
		case errors.Is(err, errMute):
			a.mute, r.again = true, true
		case err != nil:
			r.unprepared = cmp.Or(r.unprepared, fmt.Sprintf("%v: %s", op.Type, strings.TrimPrefix(err.Error(), "mesos: ")))
		case op.Create != nil && d.agents[a.ID] == a:
			disk := &op.Create.Volumes[0]
			d.keepAndWrite(a, cluster.HeldVolume{Name: disk.Disk.Persistence.ID, Bytes: bytesOf(toMilli(disk.Scalar.Value))})
		}
	}
}

// oursLabel marks the reservations that were made for a volume: they end with it. Those that others made for the role stay.
const oursLabel = "sluice.volume"

func isOurs(r *api.Resource_ReservationInfo) bool {
	return slices.ContainsFunc(r.GetLabels().GetLabels(), func(l api.Label) bool { return l.Key == oursLabel })
}

// keeps reports whether the agent has a volume, as far as is known.
func (a *agent) keeps(id string) bool {
	return slices.ContainsFunc(a.Machine.Volumes, func(v cluster.HeldVolume) bool { return v.Name == id })
}

// keep takes in volumes that the agent has, and reports whether any is new or has another size, as after an operator's GROW_VOLUME.
func (a *agent) keep(volumes ...cluster.HeldVolume) bool {
	all := slices.Concat(volumes, a.Machine.Volumes) // of each name the first stays
	slices.SortStableFunc(all, func(x, y cluster.HeldVolume) int { return strings.Compare(x.Name, y.Name) })
	all = slices.CompactFunc(all, func(x, y cluster.HeldVolume) bool { return x.Name == y.Name })
	changed := !slices.Equal(all, a.Machine.Volumes)
	a.Machine.Volumes = all
	return changed
}

// keepAndWrite is keep, and writes what is new.
func (d *driver) keepAndWrite(a *agent, volumes ...cluster.HeldVolume) {
	if a.keep(volumes...) {
		d.writeAgent(a)
		d.touch(a)
	}
}

// dropVolume takes in that the agent does not have a volume any more.
func (d *driver) dropVolume(a *agent, name string) {
	a.Machine.Volumes = slices.DeleteFunc(slices.Clone(a.Machine.Volumes), func(v cluster.HeldVolume) bool { return v.Name == name })
	d.writeAgent(a)
	d.touch(a)
}

// volumesIn lists the persistent volumes of an offer.
func volumesIn(all []*piece) (volumes []cluster.HeldVolume) {
	for _, p := range all {
		if p.volume() != "" && p.Shared == nil && p.Name == nameDisk {
			volumes = append(volumes, cluster.HeldVolume{Name: p.volume(), Bytes: bytesOf(p.scalar)})
		}
	}
	return volumes
}

// volumePoll is how often it is looked whether a volume has been offered.
const volumePoll = 100 * time.Millisecond

// DeleteVolume implements [hostmgr.VolumeKeeper]: DESTROY, and UNRESERVE of what was reserved for it, on an offer that has the
// volume.
func (d *driver) DeleteVolume(ctx context.Context, host, name string) error {
	begun := time.Now()
	patience := begun.Add(d.config.OfferWait)
	without := map[string]bool{}
	for {
		result, err := d.destroy(host, name, begun, time.Now().After(patience), without)
		if err != nil || result == nil {
			if errors.Is(err, errNotOffered) && pauseFor(ctx, volumePoll) == nil {
				continue
			}
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		select {
		case err := <-result:
			if errors.Is(err, errMute) {
				patience = time.Now().Add(d.config.OfferWait)
				continue
			}
			return err
		case <-ctx.Done():
			return fmt.Errorf("mesos: volume %q: the master has not said whether it is destroyed: %w", name, ctx.Err())
		}
	}
}

// errNotOffered: a volume is there, and not in an offer yet.
var errNotOffered = errors.New("mesos: the volume is not offered")

// destroy sends the operations, and returns where their result comes; nil if there is no such volume. With late it gives up
// what is not offered: if Mesos still has it, it will be offered at some time, and is known again then. That nothing of its agent
// is offered, as after a change of master until the agent is back, or while all of it is used, says nothing about the volume, and neither
// does what is offered for a role that may not have it. The roles for which the agent was offered without the volume are added to without:
// with several roles since it was begun to look for it, as an older offer for one may keep what has come free since from being offered for it.
func (d *driver) destroy(host, name string, begun time.Time, late bool, without map[string]bool) (<-chan error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.byName[host]
	switch {
	case d.sink == nil:
		return nil, errClosed
	case a == nil: // what its disks hold nobody knows
		return nil, fmt.Errorf("mesos: volume %q: %w: %q; try again when it is back", name, hostmgr.ErrUnknownHost, host)
	case !a.keeps(name):
		return nil, nil
	case a.lost:
		return nil, fmt.Errorf("mesos: volume %q: its agent is out of reach", name)
	}
	for _, r := range a.runs {
		if slices.Contains(r.record.Volumes, name) {
			return nil, fmt.Errorf("mesos: volume %q: run %v uses it", name, r.record.Run)
		}
	}
	s := d.session
	var old, others []*offer
	for _, o := range a.offers { // there are none without a session
		if disk, there := newSupply(o.pieces).takeVolume(name); there {
			return d.sendDestroy(s, a, o, disk), nil
		}
		if several := len(d.config.Roles) > 1; several && !o.since.After(begun) {
			old = append(old, o)
		} else {
			without[o.role], others = true, append(others, o)
		}
	}
	roles := d.config.volumeRoles()
	if len(roles) == 0 {
		roles = d.config.Roles
	}
	open := slices.IndexFunc(roles, func(role string) bool { return !without[role] })
	switch {
	case !late:
		if s != nil {
			if open >= 0 {
				d.passOn(s, a, old, 0)
				d.passOn(s, a, others, d.config.OfferWait)
			}
			d.demandFor(s, a)
		}
		return nil, errNotOffered
	case s == nil:
		return nil, fmt.Errorf("mesos: volume %q: there is no connection to a master; try again when there is one", name)
	case open >= 0:
		return nil, fmt.Errorf("mesos: volume %q: the master offers nothing of its agent for role %q, as while all of it is used, or before the agent has found a new master; try again later", name, roles[open])
	}
	d.dropVolume(a, name)
	return nil, fmt.Errorf("mesos: volume %q: Mesos does not offer it: another framework uses it, or it is of a role that --roles does not name, or it has been destroyed; it is listed again if it is offered", name)
}

// sendDestroy destroys a volume that an offer has. The rest of the offer comes back in another one.
func (d *driver) sendDestroy(s *session, a *agent, o *offer, disk api.Resource) <-chan error {
	id := "volume-" + rand.Text() // updates for operations of an earlier incarnation may still come
	name := disk.Disk.Persistence.ID
	free := disk
	free.Disk = nil
	operations := []api.Offer_Operation{{
		Type: api.Offer_Operation_DESTROY, Destroy: &api.Offer_Operation_Destroy{Volumes: []api.Resource{disk}},
	}}
	feedback := s.feedback && !a.mute
	if feedback {
		operations[0].ID = &api.OperationID{Value: id}
	}
	if n := len(disk.Reservations); n > 0 && isOurs(&disk.Reservations[n-1]) {
		operations = append(operations, api.Offer_Operation{
			Type: api.Offer_Operation_UNRESERVE, Unreserve: &api.Offer_Operation_Unreserve{Resources: []api.Resource{free}},
		})
	}
	result := make(chan error, 1)
	s.operations[id] = func(err error) { // with the mutex held
		if err == nil {
			d.dropVolume(a, name)
		}
		a.mute = a.mute || errors.Is(err, errMute)
		result <- err
	}
	d.operate(s, o, operations, func(err error) {
		if err != nil || !feedback { // a volume that is there all the same is known again when it is offered
			d.mu.Lock()
			defer d.mu.Unlock()
			s.operated(id, err)
		}
	})
	return result
}

// operate accepts an offer for operations only. All that it has comes back in another one.
func (d *driver) operate(s *session, o *offer, operations []api.Offer_Operation, done func(error)) {
	d.dropOffer(o)
	o.agent.rest(o.role, o.total, time.Now(), d.config.OfferWait)
	d.touch(o.agent)
	s.accept(o.agent, []api.OfferID{{Value: o.id}}, operations, done)
}

// tidyEvery is the least pause between two attempts to give up what is left over on an agent: we may not be allowed to.
const tidyEvery = 10 * time.Minute

// tidy gives up disk that was reserved for a volume, and is none: the volume was refused after its disk had been reserved, or is
// destroyed and the reservation stayed. No other role would ever get it.
func (d *driver) tidy(s *session, o *offer, now time.Time) {
	var left []api.Resource
	for _, p := range o.pieces {
		if n := len(p.Reservations); n > 0 && isOurs(&p.Reservations[n-1]) && p.plain() {
			left = append(left, p.Resource)
		}
	}
	if len(left) == 0 || now.Sub(o.agent.tidied) < tidyEvery {
		return
	}
	o.agent.tidied = now
	d.operate(s, o, []api.Offer_Operation{{
		Type: api.Offer_Operation_UNRESERVE, Unreserve: &api.Offer_Operation_Unreserve{Resources: left},
	}}, func(error) {})
}

// errUnanswered: the subscription has ended, and nobody says any more how an operation went.
var errUnanswered = errors.New("mesos: the subscription ended before the master said how it went; look whether it is still there")

// errMute: the agent is older than its master, or lacks a feature, and cannot say how operations go. The master refuses those that have
// an id.
var errMute = errors.New("mesos: the agent cannot say how operations go")

// operated tells who waits for an operation how it went.
func (s *session) operated(id string, err error) {
	if done := s.operations[id]; done != nil {
		delete(s.operations, id)
		done(err)
	}
}

// operationUpdate takes in how an operation went, and acknowledges it.
func (d *driver) operationUpdate(s *session, u *api.OperationStatus) {
	id := u.GetOperationID().GetValue()
	if uuid := u.GetUUID().GetValue(); len(uuid) > 0 {
		s.send(laneOf(u.GetAgentID().GetValue()), &scheduler.Call{
			Type: scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS, AcknowledgeOperationStatus: &scheduler.Call_AcknowledgeOperationStatus{
				AgentID: u.AgentID, ResourceProviderID: u.ResourceProviderID, UUID: uuid, OperationID: api.OperationID{Value: id},
			},
		}, nil)
	}
	switch u.State {
	case api.OPERATION_PENDING, api.OPERATION_UNREACHABLE, api.OPERATION_RECOVERING:
	case api.OPERATION_FINISHED:
		s.operated(id, nil)
	default:
		err := fmt.Errorf("mesos: %v: %s", u.State, u.GetMessage())
		if strings.Contains(u.GetMessage(), "requested feedback, but agent") {
			err = fmt.Errorf("%w: %w", errMute, err)
		}
		s.operated(id, err)
	}
}
