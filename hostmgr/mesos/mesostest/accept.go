package mesostest

import (
	"cmp"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// accepted is what an ACCEPT works on: the resources of its offers, which its operations change.
type accepted struct {
	m    *master
	f    *framework
	a    *agent
	role string
	has  bag
}

// accept is the call of this name: offers are used up, whatever comes of it.
func (m *master) accept(f *framework, call *scheduler.Call_Accept) {
	if m.c.faults.rescindOne() { // the rescission crosses the call
		for _, id := range call.OfferIDs {
			m.takeOffersBack(func(o *offer) bool { return o.id == id.Value && o.f == f }, true)
		}
	}
	offers, err := m.validateOffers(f, call.OfferIDs)
	for _, o := range offers {
		o.timeout.cancel()
		delete(m.offers, o.id)
	}
	if err != nil {
		for _, o := range offers {
			o.a.give(o.has)
		}
		m.refuseOperations(f, call.Operations, err)
		return
	}
	w := &accepted{m: m, f: f, a: offers[0].a, role: offers[0].role}
	for _, o := range offers {
		w.has = w.has.add(o.has)
	}
	for i := range call.Operations {
		w.do(&call.Operations[i])
	}
	f.giveBack(w.a, w.role, w.has, call.Filters)
}

// validateOffers returns the offers that are valid, and what is wrong with the others, or with all together.
func (m *master) validateOffers(f *framework, ids []mesos.OfferID) (offers []*offer, err error) {
	if len(ids) == 0 {
		return nil, refuse("No offers specified")
	}
	seen := make(map[string]bool)
	for _, id := range ids {
		o := m.offers[id.Value]
		switch {
		case seen[id.Value]:
			err = cmp.Or(err, refuse("Duplicate offer %s in offer list", id.Value))
			continue
		case o == nil:
			err = cmp.Or(err, refuse("Offer %s is no longer valid", id.Value))
			continue
		case o.f != f:
			err = cmp.Or(err, refuse("Offer %s has invalid framework %s while framework %s is expected", o.id, o.f.id, f.id))
			continue
		}
		seen[id.Value] = true
		offers = append(offers, o)
	}
	for _, o := range offers {
		switch first := offers[0]; {
		case err != nil:
		case o.a != first.a:
			err = refuse("Aggregated offers must belong to one single agent. Offer %s uses agent %s and agent %s",
				o.id, o.a.id, first.a.id)
		case o.role != first.role:
			err = refuse("Aggregated offers must be allocated to the same role. Offer %s uses role %s but another is using role %s",
				o.id, o.role, first.role)
		}
	}
	return offers, err
}

// refuseOperations answers for operations on offers that are not valid.
func (m *master) refuseOperations(f *framework, operations []mesos.Offer_Operation, err error) {
	state := mesos.TASK_LOST
	if f.can[mesos.FrameworkInfo_Capability_PARTITION_AWARE] {
		state = mesos.TASK_DROPPED
	}
	for i := range operations {
		op := &operations[i]
		for _, t := range tasksOf(op) {
			m.update(f, m.status(t.TaskID.Value, t.AgentID.Value, state, mesos.REASON_INVALID_OFFERS,
				"Task launched with invalid offers: "+err.Error()))
		}
		if op.ID != nil {
			m.operationStatus(f, &operation{
				id: op.ID.Value, state: mesos.OPERATION_ERROR,
				message: "Operation attempted with invalid offers: " + err.Error(),
			})
		}
	}
}

func tasksOf(op *mesos.Offer_Operation) []mesos.TaskInfo {
	switch {
	case op.Launch != nil:
		return op.Launch.TaskInfos
	case op.LaunchGroup != nil:
		return op.LaunchGroup.TaskGroup.Tasks
	}
	return nil
}

// do carries one operation out. Unknown ones are ignored.
func (w *accepted) do(op *mesos.Offer_Operation) {
	switch op.Type {
	case mesos.Offer_Operation_LAUNCH:
		tasks := op.Launch.GetTaskInfos()
		var err error
		for i := range tasks {
			err = cmp.Or(err, validateForms(tasks[i].Resources))
		}
		for i := range tasks {
			w.launch(&tasks[i], err)
		}
		return
	case mesos.Offer_Operation_LAUNCH_GROUP:
		if op.LaunchGroup != nil {
			w.launchGroup(op.LaunchGroup)
		}
		return
	case mesos.Offer_Operation_RESERVE, mesos.Offer_Operation_UNRESERVE, mesos.Offer_Operation_CREATE, mesos.Offer_Operation_DESTROY:
	default:
		return
	}
	err := w.validateOperation(op)
	if err == nil {
		err = w.apply(op)
	}
	if op.ID == nil {
		return
	}
	done := &operation{id: op.ID.Value, agentID: w.a.id, state: mesos.OPERATION_FINISHED, uuid: w.m.c.uuid()}
	if err != nil {
		done = &operation{id: op.ID.Value, state: mesos.OPERATION_ERROR, message: err.Error()}
	}
	w.m.operationStatus(w.f, done)
}

// apply carries out an operation that is valid by itself.
func (w *accepted) apply(op *mesos.Offer_Operation) error {
	switch op.Type {
	case mesos.Offer_Operation_RESERVE:
		return w.convert(unreserved(bagOf(op.Reserve.Resources)), bagOf(op.Reserve.Resources))
	case mesos.Offer_Operation_UNRESERVE:
		return w.convert(bagOf(op.Unreserve.Resources), unreserved(bagOf(op.Unreserve.Resources)))
	case mesos.Offer_Operation_DESTROY:
		return w.convert(bagOf(op.Destroy.Volumes), withoutVolume(bagOf(op.Destroy.Volumes)))
	}
	volumes := bagOf(op.Create.Volumes)
	if err := w.a.unique(volumes); err != nil {
		return err
	}
	if err := w.convert(withoutVolume(volumes), volumes); err != nil {
		return err
	}
	for _, v := range volumes {
		w.m.c.volumes++
		w.a.made[v.key] = w.m.c.volumes
	}
	return nil
}

// convert changes resources of the agent from one kind into another.
func (w *accepted) convert(from, to bag) error {
	if !w.has.contains(from) {
		return refuse("%s does not contain %s", w.has.text(w.role), from.text(w.role))
	}
	w.has = w.has.sub(from).add(to)
	w.a.total = w.a.total.sub(from).add(to)
	return nil
}

// unique tells why persistent volumes cannot be made: an agent has one of an id for a role.
func (a *agent) unique(volumes bag) error {
	for _, v := range volumes {
		id := v.kind.Disk.GetPersistence().GetID()
		same := func(p piece) bool {
			return p.kind.Disk.GetPersistence().GetID() == id && p.reservedFor() == v.reservedFor()
		}
		if id != "" && slices.ContainsFunc(a.total, same) {
			return refuse("Persistence ID '%s' is not unique", id)
		}
	}
	return nil
}

// unreserved returns resources without their last reservation.
func unreserved(b bag) bag {
	var out bag
	for _, p := range b {
		if n := len(p.kind.Reservations); n > 0 {
			p.kind.Reservations = p.kind.Reservations[: n-1 : n-1]
		}
		p.key = kindKey(&p.kind)
		out = out.add(bag{p})
	}
	return out
}

// withoutVolume returns the disk space of persistent volumes.
func withoutVolume(b bag) bag {
	var out bag
	for _, p := range b {
		p.kind.Disk, p.kind.Shared = nil, nil
		p.key = kindKey(&p.kind)
		out = out.add(bag{p})
	}
	return out
}

// operation is an offer operation whose status is to be acknowledged.
type operation struct {
	id, agentID, message string
	state                mesos.OperationState
	uuid                 []byte // nil: needs no acknowledgement
}

func (m *master) operationStatus(f *framework, op *operation) {
	s := mesos.OperationStatus{OperationID: &mesos.OperationID{Value: op.id}, State: op.state}
	if op.message != "" {
		s.Message = &op.message
	}
	if op.agentID != "" {
		s.AgentID = &mesos.AgentID{Value: op.agentID}
	}
	if op.uuid != nil {
		s.UUID = &mesos.UUID{Value: op.uuid}
		f.operations[op.id] = op
	}
	f.send(&scheduler.Event{
		Type:                  scheduler.Event_UPDATE_OPERATION_STATUS,
		UpdateOperationStatus: &scheduler.Event_UpdateOperationStatus{Status: s},
	})
}

// acknowledgeOperation is the call of this name.
func (m *master) acknowledgeOperation(f *framework, call *scheduler.Call_AcknowledgeOperationStatus) {
	if op := f.operations[call.OperationID.Value]; op != nil && string(op.uuid) == string(call.UUID) {
		delete(f.operations, op.id)
	}
}

// reconcileOperations is the call of this name. What is acknowledged is forgotten.
func (m *master) reconcileOperations(f *framework, call *scheduler.Call_ReconcileOperations) {
	for _, want := range call.Operations {
		answer := &operation{
			id: want.OperationID.Value, agentID: want.AgentID.GetValue(), state: mesos.OPERATION_UNKNOWN,
			message: "Reconciliation: Operation is unknown",
		}
		if known := f.operations[answer.id]; known != nil {
			answer = &operation{id: known.id, agentID: known.agentID, state: known.state, message: "Reconciliation: Latest operation state"}
		}
		m.operationStatus(f, answer)
	}
}

// launch starts one task, or answers TASK_ERROR. There is nothing to start if one of all has resources that are none.
func (w *accepted) launch(info *mesos.TaskInfo, err error) {
	err = cmp.Or(err, w.validateTask(info))
	if err == nil && (info.Command == nil) == (info.Executor == nil) {
		err = refuse("Task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
	}
	has := bagOf(info.Resources)
	whole := has
	if err == nil && info.Executor != nil {
		whole = has.add(bagOf(info.Executor.Resources))
	}
	if err == nil {
		err = w.fits(info.Resources, whole)
	}
	if err != nil {
		w.m.update(w.f, w.m.status(info.TaskID.Value, info.AgentID.Value, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, err.Error()))
		return
	}
	w.run(info, whole, nil)
}

// launchGroup starts the tasks of a group, all or none.
func (w *accepted) launchGroup(group *mesos.Offer_Operation_LaunchGroup) {
	tasks := group.TaskGroup.Tasks
	key := runKey{w.f.id, group.Executor.ExecutorID.Value}
	e := w.a.executors[key]
	var err error
	var whole bag
	seen := make(map[string]bool)
	if len(tasks) == 0 {
		err = refuse("Task group cannot be empty")
	}
	err = cmp.Or(err, w.validateExecutor(group))
	if e == nil {
		whole = bagOf(group.Executor.Resources)
		if whole.scalar("cpus") < 10 || whole.scalar("mem") < 32_000 {
			err = cmp.Or(err, refuse("Executor '%s' uses less CPUs or memory than the minimum required", key.id))
		}
		if whole.scalar("disk") == 0 {
			err = cmp.Or(err, refuse("Executor '%s' uses no disk", key.id))
		}
	}
	for i := range tasks {
		t := &tasks[i]
		err = cmp.Or(err, w.validateTask(t))
		switch {
		case seen[t.TaskID.Value]:
			err = cmp.Or(err, refuse("Task has duplicate ID: %s", t.TaskID.Value))
		case t.Executor != nil:
			err = cmp.Or(err, refuse("'TaskInfo.executor' must not be set"))
		case t.Container != nil && t.Container.GetType() == mesos.ContainerInfo_DOCKER:
			err = cmp.Or(err, refuse("Docker ContainerInfo is not supported on the task"))
		case t.Command == nil:
			err = cmp.Or(err, refuse("Task '%s' has no command", t.TaskID.Value))
		}
		seen[t.TaskID.Value] = true
		whole = whole.add(bagOf(t.Resources))
		err = cmp.Or(err, w.roles(t.Resources))
	}
	if err == nil {
		err = w.fits(nil, whole)
	}
	if err != nil {
		for i := range tasks {
			w.m.update(w.f, w.m.status(tasks[i].TaskID.Value, tasks[i].AgentID.Value, mesos.TASK_ERROR,
				mesos.REASON_TASK_GROUP_INVALID, err.Error()))
		}
		return
	}
	if e == nil {
		e = &executor{framework: key.framework, id: key.id, container: w.m.c.uuidText(), has: bagOf(group.Executor.Resources)}
		w.has = w.has.sub(e.has)
		if w.a.heard() {
			w.a.executors[key] = e
		}
	}
	for i := range tasks {
		e.left++
		w.run(&tasks[i], bagOf(tasks[i].Resources), e)
	}
}

// validateExecutor tells why the master refuses the executor of a group, the amount of its resources aside.
func (w *accepted) validateExecutor(group *mesos.Offer_Operation_LaunchGroup) error {
	x := &group.Executor
	switch {
	case x.Type == mesos.ExecutorInfo_UNKNOWN:
		return refuse("'ExecutorInfo.type' must be set")
	case x.Type == mesos.ExecutorInfo_DEFAULT && x.Command != nil:
		return refuse("'ExecutorInfo.command' must not be set for 'DEFAULT' executor")
	case x.FrameworkID.GetValue() != w.f.id:
		return refuse("ExecutorInfo has an invalid FrameworkID (Actual: %s vs Expected: %s)", x.FrameworkID.GetValue(), w.f.id)
	}
	all := slices.Clone(x.Resources)
	for i := range group.TaskGroup.Tasks {
		all = append(all, group.TaskGroup.Tasks[i].Resources...)
	}
	if err := cmp.Or(validateID(x.ExecutorID.Value), validateResources(x.Resources)); err != nil {
		return refuse("Executor uses invalid resources: %s", err)
	}
	if err := validateUse(all); err != nil {
		return refuse("Task group and executor use resources that do not go together: %s", err)
	}
	return w.roles(x.Resources)
}

// validateTask tells why the master refuses a task, its resources aside.
func (w *accepted) validateTask(info *mesos.TaskInfo) error {
	id := info.TaskID.Value
	if err := validateID(id); err != nil {
		return err
	}
	if w.f.tasks[id] != nil {
		return refuse("Task has duplicate ID: %s", id)
	}
	if info.AgentID.Value != w.a.id {
		return refuse("Task uses invalid agent %s while agent %s is expected", info.AgentID.Value, w.a.id)
	}
	if p := info.KillPolicy; p != nil && p.GracePeriod != nil && p.GracePeriod.Nanoseconds < 0 {
		return refuse("Task's 'kill_policy.grace_period' must be non-negative")
	}
	if len(info.Resources) == 0 {
		return refuse("Task uses no resources")
	}
	if err := validateResources(info.Resources); err != nil {
		return refuse("Task uses invalid resources: %s", err)
	}
	if err := validateUse(info.Resources); err != nil {
		return refuse("Task uses resources that do not go together: %s", err)
	}
	return validateContainer(info)
}

// roles tells whether resources are allocated to another role than the offers. Without a role they get the offers'.
func (w *accepted) roles(resources []mesos.Resource) error {
	for i := range resources {
		if r := resources[i].AllocationInfo; r != nil && r.Role != nil && *r.Role != w.role {
			return refuse("Total resources %s required by task and its executor is more than available %s",
				bagOf(resources).text(*r.Role), w.has.text(w.role))
		}
	}
	return nil
}

func (w *accepted) fits(resources []mesos.Resource, whole bag) error {
	if err := w.roles(resources); err != nil {
		return err
	}
	for _, p := range whole {
		for _, q := range whole {
			if p.kind.Name == q.kind.Name && p.kind.Revocable != nil && q.kind.Revocable == nil {
				return refuse("Task and its executor mix revocable and non-revocable resources: "+
					"Cannot use both revocable and non-revocable '%s' at the same time", p.kind.Name)
			}
		}
	}
	if !w.has.contains(whole) {
		return refuse("Total resources %s required by task and its executor is more than available %s",
			whole.text(w.role), w.has.text(w.role))
	}
	return nil
}

// run hands a valid task to the agent. If the agent does not hear of it, nobody does.
func (w *accepted) run(info *mesos.TaskInfo, has bag, e *executor) {
	id := info.TaskID.Value
	w.has = w.has.sub(has)
	w.f.tasks[id] = &task{a: w.a, info: *info, role: w.role, has: has, state: mesos.TASK_STAGING}
	if !w.a.heard() {
		return
	}
	r := &run{
		a: w.a, framework: w.f.id, id: id, frameworkInfo: w.f.info, info: *info, role: w.role, has: has,
		executor: e, container: w.m.c.uuidText(), does: w.m.c.config.Behave(*info),
	}
	w.a.runs[runKey{w.f.id, id}] = r
	r.start()
}
