package mesos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Launch implements [hostmgr.Driver]. A run for which there are no resources at its host, or none that are expected to be
// offered soon, is refused at once. Others are recorded, and accepted on the host's offers a moment later, together with
// what else comes for that host.
func (d *driver) Launch(_ context.Context, l hostmgr.Launch) error {
	if err := check(&l, &d.config); err != nil {
		return err
	}
	fingerprint := l.Fingerprint()
	l.SecretsIn(secretsIn(&l))
	r, promise, err := d.reserve(&l, fingerprint[:])
	if err != nil || promise == nil {
		return err
	}
	return d.recorded(r, d.folder.putRun(promise.run, promise.agent))
}

// recorded goes on with a run whose record is on disk, or could not be put there.
func (d *driver) recorded(r *run, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(r.done)
	if err != nil {
		r.failed = fmt.Errorf("mesos: record the launch: %w", err)
		delete(d.runs, r.record.Run)
		d.detach(r)
		return r.failed
	}
	d.report(r, hostmgr.Status{Run: r.record.Run, Host: r.record.Host, State: cluster.TaskLaunching, ExitCode: -1, At: r.record.At})
	switch {
	case r.record.Killed:
		d.finish(r, ending{State: cluster.TaskKilled, ExitCode: -1, Message: "killed before it was launched"})
	case r.early != nil:
		d.finish(r, *r.early)
	default:
		d.flushSoon(r.agent)
	}
	return nil
}

// reserve makes a run for a launch that is new and can be carried out, and what is to be written first: its record, with that
// of its agent if that is not in the store yet. There is nothing to be written for a run that is known.
func (d *driver) reserve(l *hostmgr.Launch, fingerprint []byte) (*run, *write, error) {
	d.mu.Lock()
	if r := d.runs[l.Run]; r != nil {
		d.mu.Unlock()
		<-r.done // it may be recorded by another call at this moment
		switch {
		case r.failed != nil:
			return nil, nil, r.failed
		case len(r.record.Fingerprint) > 0 && !slices.Equal(r.record.Fingerprint, fingerprint):
			return nil, nil, fmt.Errorf("%w: %v", hostmgr.ErrConflict, l.Run)
		}
		return r, nil, nil
	}
	defer d.mu.Unlock()
	a := d.byName[l.Host]
	switch {
	case d.sink == nil:
		return nil, nil, errClosed
	case a == nil || a.lost:
		return nil, nil, fmt.Errorf("%w: %q", hostmgr.ErrUnknownHost, l.Host)
	case a.closing(time.Now(), d.config.MaintenanceLead):
		return nil, nil, fmt.Errorf("%w: maintenance of %s is near", hostmgr.ErrRefused, l.Host)
	}
	volumes := volumesOf(l)
	disks := a.disksFor(volumes, &d.config)
	switch {
	case !a.fits(&d.config, need(l)):
		if len(l.Task.Processes) > 1 && a.fits(&d.config, needOfRun(l.Task.Resources, l.Revocable, l.Ports, 1)) {
			return nil, nil, fmt.Errorf("%w: the offers of %s hold no %d MiB of disk beside what it asks for, which the executor of several processes takes",
				hostmgr.ErrRefused, l.Host, executorDisk>>20)
		}
		return nil, nil, fmt.Errorf("%w: the offers of %s hold no room for it any more", hostmgr.ErrRefused, l.Host)
	case !a.fits(&d.config, need(l).plus(disks)):
		return nil, nil, fmt.Errorf("%w: the offers of %s hold no %d MiB of disk beside what it asks for, of which its volumes could be made",
			hostmgr.ErrRefused, l.Host, disks.amount.Fixed[cluster.Disk]>>20)
	}
	now := time.Now()
	record := &runRecord{
		Run: l.Run, Host: l.Host, Agent: a.ID, Fingerprint: fingerprint, Resources: l.Task.Resources, Revocable: l.Revocable, Ports: l.Ports,
		At: cluster.Time(now.UnixNano()), Grace: l.Task.KillGrace, Volumes: volumes,
	}
	if len(l.Task.Processes) > 1 {
		for _, p := range l.Task.Processes {
			record.Members, record.Main = append(record.Members, p.Name), append(record.Main, p.Main)
			serves := slices.ContainsFunc(p.Checks, func(c cluster.HealthCheck) bool { return c.Effect != cluster.Liveness })
			record.Checked = append(record.Checked, serves)
		}
	}
	r := newRun(record)
	r.launch, r.agent, r.deadline = l, a, now.Add(d.config.OfferWait)
	d.runs[l.Run], a.runs[l.Run] = r, r
	a.queue = append(a.queue, r)
	d.launched = now
	promise := &write{run: record.copy()}
	if !a.written {
		promise.agent = a.copy()
	}
	return r, promise, nil
}

// volumesOf returns the names of the persistent volumes of a launch.
func volumesOf(l *hostmgr.Launch) (names []string) {
	for i := range l.Task.Volumes {
		if v := &l.Task.Volumes[i]; v.Name != "" {
			names = append(names, v.NameFor(l.Run.Task.Instance()))
		}
	}
	return names
}

// flushSoon accepts offers for what waits at an agent, after a moment in which more may come.
func (d *driver) flushSoon(a *agent) {
	if a.flushing {
		return
	}
	a.flushing = true
	time.AfterFunc(d.config.LaunchWindow, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		a.flushing = false
		if d.sink != nil && d.session != nil {
			d.flush(d.session, a)
		}
	})
}

// flush accepts offers of an agent, one ACCEPT for each role, for as many of the runs that wait as the offers hold.
func (d *driver) flush(s *session, a *agent) {
	byRole := map[string][]*offer{}
	for _, o := range a.offers {
		byRole[o.role] = append(byRole[o.role], o)
	}
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		if len(a.queue) > 0 {
			d.accept(s, a, role, byRole[role])
		}
	}
	if len(a.queue) > 0 {
		d.demandFor(s, a)
	}
}

// accept launches on the offers of an agent for one role.
func (d *driver) accept(s *session, a *agent, role string, offers []*offer) {
	slices.SortFunc(offers, func(x, y *offer) int { return cmp.Compare(x.id, y.id) })
	var all []*piece
	ids := make([]api.OfferID, len(offers))
	for i, o := range offers {
		all = append(all, o.pieces...)
		ids[i] = api.OfferID{Value: o.id}
	}
	b := &batch{d: d, agent: a, role: role, supply: newSupply(all), framework: s.framework, feedback: s.feedback && !a.mute}
	wrongRole, unseen := false, false
	for _, r := range slices.Clone(a.queue) {
		if r.status.At == 0 {
			continue // its record is not on disk yet
		}
		switch err := b.add(r); {
		case err == nil:
		case !errors.Is(err, errNeverFits):
			r.lacks = err.Error()
			var other otherRole
			wrongRole = errors.As(err, &other) || wrongRole
			unseen = unseen || other.unseen
		default:
			d.finish(r, ending{State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchFailed, Message: err.Error()})
		}
	}
	if len(b.runs) == 0 {
		if wrongRole {
			if unseen {
				a.passes++
			}
			d.passOn(s, a, offers, d.config.OfferWait)
		}
		return
	}
	for _, o := range offers {
		d.dropOffer(o)
	}
	for _, r := range b.runs {
		r.placed, r.accepting, r.launch, r.record.Role = true, true, nil, role
		a.unqueue(r)
	}
	a.rest(role, total(b.supply.left), time.Now(), d.config.OfferWait)
	d.touch(a)
	for i, r := range b.whose {
		s.operations[b.prepare[i].ID.Value] = d.prepared(a, r, &b.prepare[i])
	}
	runs := b.runs
	s.accept(a, ids, b.operations(), func(err error) { d.accepted(s, runs, err) })
}

// accept accepts offers of an agent. done learns how that went.
func (s *session) accept(a *agent, offers []api.OfferID, operations []api.Offer_Operation, done func(error)) {
	s.send(laneOf(a.ID), &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{
		OfferIDs: offers, Operations: operations, Filters: filter(0),
	}}, func(err error) {
		if err != nil { // else the master keeps them for us for ever; those that it does not know any more it passes over
			s.send(laneOf(a.ID), decline(offers, 0), nil)
		}
		done(err)
	})
}

// accepted learns how an ACCEPT went. Where it is certain that it had no effect the runs are given back; where it is not
// Mesos is asked.
func (d *driver) accepted(s *session, runs []*run, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range runs {
		r.accepting = false
	}
	if err == nil || d.sink == nil {
		return // after the driver's end, the next one asks Mesos
	}
	certain := errors.Is(err, errNeverSent) || errors.Is(err, errRefused) || errors.Is(err, errNotSubscribed)
	for _, r := range runs {
		switch {
		case r.ended() || r.status.State > cluster.TaskLaunching:
		case certain:
			d.refuse(r, "the offers could not be accepted: "+err.Error())
		default:
			r.uncertain, r.heard = true, nil
			s.rounds.anew(time.Now()) // what others are asked for may be due in minutes
			d.wakeKeeper()
		}
	}
}

// demand asks for offers of all that was declined or suppressed. What was suppressed is looked at for as long as what is not offered
// counts.
func (d *driver) demand(s *session) {
	now := time.Now()
	if now.Sub(d.revived) < minRevive {
		return
	}
	if d.quiet {
		d.awaitOffers(d.soon(now)) // nothing was offered while it might have been
		d.lookUntil = d.soon(now).Add(keepEvery)
	}
	d.revived, d.quiet = now, false
	s.send(0, &scheduler.Call{Type: scheduler.Call_REVIVE}, nil)
}

// demandFor is demand for an agent, unless its offers were passed on just now: they would come back for the same role.
func (d *driver) demandFor(s *session, a *agent) {
	if time.Since(a.passed) >= d.config.OfferWait {
		d.demand(s)
	}
}

// passOn declines offers of an agent that are for the wrong role, for the master to offer what they have for another one, and for so long
// not for theirs, unless there is more of it. Masters offer all that is free of an agent for one role, and a volume only together with some
// of that. With one role there is no other.
func (d *driver) passOn(s *session, a *agent, offers []*offer, filter time.Duration) {
	if len(d.config.Roles) == 1 || len(offers) == 0 {
		return
	}
	d.demand(s) // it may have been declined for the others; in this lane, before the DECLINE
	now := time.Now()
	var ids []api.OfferID
	for _, o := range offers {
		d.dropOffer(o)
		a.rest(o.role, o.total, now, d.config.OfferWait)
		ids = append(ids, api.OfferID{Value: o.id})
	}
	a.passed = now
	d.touch(a)
	s.declineAll(ids, filter)
}

// minRevive is the least pause between two calls of REVIVE, each of which makes the master offer everything.
const minRevive = time.Second

// errNeverFits: a launch cannot be carried out with any offers.
var errNeverFits = errors.New("mesos: cannot be launched")

// otherRole is why a launch cannot be carried out with offers for one role, and perhaps with those for another.
type otherRole struct {
	error
	unseen bool // since nothing was offered yet for that one
}

// batch is what one ACCEPT launches.
type batch struct {
	d         *driver
	agent     *agent
	role      string
	framework *api.FrameworkID
	feedback  bool
	supply    *supply
	runs      []*run
	prepare   []api.Offer_Operation // reservations and volumes
	whose     []*run                // for which each of them is, if it is told how they go
	tasks     []api.TaskInfo
	groups    []api.Offer_Operation
}

// add takes the resources of a run, all or none.
func (b *batch) add(r *run) error {
	l := r.launch
	before := newSupply(b.supply.left)
	mounts, prepare, err := b.mounts(l)
	if err == nil {
		err = b.fill(l, mounts)
	}
	if err != nil {
		b.supply = before
		return err
	}
	for i, op := range prepare {
		if b.feedback {
			op.ID = &api.OperationID{Value: fmt.Sprintf("%v-%d", l.Run, i)} // once, as the launch
			b.whose = append(b.whose, r)
		}
		b.prepare = append(b.prepare, op)
	}
	b.runs = append(b.runs, r)
	return nil
}

// fill makes the Mesos tasks of a run, and their executor where there are several.
func (b *batch) fill(l *hostmgr.Launch, mounts []api.Resource) error {
	parts, err := shares(l, &b.d.config)
	if err != nil {
		return fmt.Errorf("%w: %w", errNeverFits, err)
	}
	taken := make([][]api.Resource, len(parts))
	for i, q := range parts {
		if taken[i], err = b.supply.take(q); err != nil {
			return err
		}
	}
	info := func(member int) api.TaskInfo {
		t := taskInfo(l, member, b.agent.ID, b.agent.Machine.Address)
		if t.Command.User == nil && b.d.config.User != "" { // else that with which the framework was first registered, for ever
			t.Command.User = text(b.d.config.User)
		}
		return t
	}
	if len(parts) == 1 {
		t := info(0)
		t.Resources = append(taken[0], mounts...)
		b.tasks = append(b.tasks, t)
		return nil
	}
	group := api.TaskGroupInfo{}
	for i := range l.Task.Processes {
		t := info(i)
		t.Resources = taken[i+1]
		group.Tasks = append(group.Tasks, t)
	}
	b.groups = append(b.groups, api.Offer_Operation{Type: api.Offer_Operation_LAUNCH_GROUP, LaunchGroup: &api.Offer_Operation_LaunchGroup{
		Executor: api.ExecutorInfo{
			Type: api.ExecutorInfo_DEFAULT, ExecutorID: api.ExecutorID{Value: l.Run.String()},
			FrameworkID: b.framework, Resources: append(taken[0], mounts...),
		},
		TaskGroup: group,
	}})
	return nil
}

// operations lists what the ACCEPT does, in the order in which Mesos does it.
func (b *batch) operations() []api.Offer_Operation {
	all := b.prepare
	if len(b.tasks) > 0 {
		all = append(all, api.Offer_Operation{Type: api.Offer_Operation_LAUNCH, Launch: &api.Offer_Operation_Launch{TaskInfos: b.tasks}})
	}
	return append(all, b.groups...)
}
