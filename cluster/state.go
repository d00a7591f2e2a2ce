package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/btree"
)

// ErrIllegal is wrapped by every error of State.Apply: the event contradicts the State. The State is as it was.
var ErrIllegal = errors.New("cluster: event contradicts the state")

// State is all that the scheduler knows and must not forget. It is changed by Apply alone and is not safe for
// concurrent use; readers take a Snapshot.
type State struct {
	tables
	changes Changes
	fetched uint64 // by ReadAhead, which no compiler then takes away
}

// NewState returns the state before any event: no cluster id, and only the root pool.
func NewState() *State {
	s := &State{tables: newTables()}
	s.pools.Set(RootPool, &Pool{Path: RootPool, Version: 1})
	return s
}

// Changes names the records that changed between two snapshots. Keys may repeat and may name records that are gone.
// The receiver of a Changes owns it.
type Changes struct {
	Tasks []TaskKey
	Hosts []HostID
	Jobs  []JobUID
	Pools []PoolPath
}

// Empty reports whether nothing changed.
func (c *Changes) Empty() bool {
	return len(c.Tasks) == 0 && len(c.Hosts) == 0 && len(c.Jobs) == 0 && len(c.Pools) == 0
}

// Merge adds what d names to c.
func (c *Changes) Merge(d Changes) {
	c.Tasks = append(c.Tasks, d.Tasks...)
	c.Hosts = append(c.Hosts, d.Hosts...)
	c.Jobs = append(c.Jobs, d.Jobs...)
	c.Pools = append(c.Pools, d.Pools...)
}

// Changed names what changed since the last snapshot. The caller must not modify it.
func (s *State) Changed() *Changes { return &s.changes }

// Snapshot returns an immutable view of the state as it is now and what changed since the last call. O(1).
func (s *State) Snapshot() (*Snapshot, Changes) {
	changes := s.changes
	s.changes = Changes{}
	return &Snapshot{s.copy()}, changes
}

// Apply changes the state by one record. Records come in the order of Seq without gaps, save that a Restored header
// may set it. On error the state is unchanged.
func (s *State) Apply(r Record) error {
	if restored, ok := r.Event.(*Restored); ok {
		return s.restore(restored)
	}
	if r.Seq != s.seq+1 {
		return fmt.Errorf("%w: record %d follows record %d", ErrIllegal, r.Seq, s.seq)
	}
	if err := s.apply(r.At, r.Event); err != nil {
		return fmt.Errorf("%w: record %d, %T: %w", ErrIllegal, r.Seq, r.Event, err)
	}
	s.seq = r.Seq
	return nil
}

func (s *State) apply(at Time, e Event) error {
	switch e := e.(type) {
	case *ClusterCreated:
		if s.clusterID != "" {
			return errors.New("the cluster exists already")
		}
		s.clusterID = e.ID
		return nil
	case *PoolPut:
		return s.putPool(at, e.Pool)
	case *PoolDeleted:
		return s.deletePool(e.Path)
	case *QueueMappingSet:
		s.setMapping(e.Rules)
		return nil
	case *CostModelSet:
		s.setCostModel(e)
		return nil
	case *JobsSubmitted:
		return s.submitJobs(at, e.Jobs)
	case *JobUpdated:
		return s.updateJob(at, e)
	case *UpdateAdvanced:
		return s.advanceUpdate(at, e)
	case *TaskUpdated:
		return s.updateTask(at, e)
	case *JobStopping:
		return s.stopJob(at, e)
	case *JobReleased:
		return s.releaseJob(at, e.Job)
	case *JobDeleted:
		return s.deleteJob(e.Job)
	case *Placed:
		return s.placeTask(at, e)
	case *TaskStatus:
		return s.reportTask(at, e)
	case *InstanceAdded:
		return s.addInstance(at, e)
	case *InstanceRemoved:
		return s.removeInstance(at, e.Task)
	case *CopyAdded:
		return s.addCopy(at, e)
	case *CopyWon:
		return s.winCopy(at, e.Task)
	case *HomeForgotten:
		return s.forgetHome(at, e.Task)
	case *TaskReleased:
		return s.releaseTask(at, e.Task)
	case *TaskHealth:
		return s.reportHealth(at, e)
	case *TaskStopping:
		return s.stopTask(at, e)
	case *TaskRequeued:
		return s.requeueTask(at, e)
	case *TaskHeld:
		return s.reserveTask(at, e)
	case *TaskPreempted:
		return s.preemptTask(at, e)
	case *HostReported:
		return s.reportHost(at, e)
	case *HostDrain:
		return s.changeHost(e.ID, func(h *Host) {
			h.Draining, h.DrainReason, h.Clearing, h.ClearBy = e.Drain, e.Reason, e.Drain && e.Move, 0
			if e.Drain {
				h.ClearBy = e.Deadline
			}
			h.trust() // somebody looks after it
			if !h.Unreachable {
				h.Since = at
			}
		})
	case *HostUnreached:
		return s.unreachHost(at, e)
	case *HostRemoved:
		return s.removeHost(at, e.ID)
	case *ShardServed:
		return s.serveShard(e.By)
	case *RoleGranted:
		return s.grantRole(e.Binding)
	case *RoleRevoked:
		return s.revokeRole(e.Binding)
	case *TokenCreated:
		return s.createToken(e.Token)
	case *TokenRevoked:
		return s.revokeToken(e.ID)
	case *SecretsResealed:
		return s.resealSecrets(e)
	case *ModeSet:
		s.mode, s.modeSince = e.Mode, at
		return nil
	case *NumbersForgotten:
		return s.forgetNumbers(at)
	case *RequestAnswered:
		return s.keepReceipt(at, e.Receipt)
	case *SlackMeasured:
		return s.measureSlack(e)
	default:
		return errors.New("unknown event")
	}
}

// forgetNumbers has runs and jobs numbered from beyond those that may have been forgotten. Complexity: the tasks.
func (s *State) forgetNumbers(at Time) error {
	jobs := slices.Collect(s.Jobs(0))
	for _, j := range jobs {
		if j.Forgotten > math.MaxUint32-Forgettable {
			return errors.New("there are no numbers left for runs")
		}
	}
	if s.nextJob > math.MaxUint32-Forgettable {
		return errors.New("there are no numbers left for jobs")
	}
	s.nextJob += Forgettable
	for _, j := range jobs {
		own := *j
		own.Forgotten += Forgettable
		s.setJob(at, &own)
		for t := range s.TasksOf(j.UID, 0) {
			if t.State.Waits() { // its next run has another number
				s.changes.Tasks = append(s.changes.Tasks, t.Key)
			}
		}
	}
	return nil
}

func (s *State) putPool(at Time, p Pool) error {
	old := s.Pool(p.Path)
	if parent := p.Path.Parent(); parent != "" && s.Pool(parent) == nil {
		return fmt.Errorf("pool %q has no parent", p.Path)
	}
	p.Created, p.Version = at, 1
	if old != nil {
		p.Created, p.Version = old.Created, old.Version+1
		if !slices.EqualFunc(old.Access, p.Access, AccessRule.equal) {
			s.changeAccess()
		}
	}
	s.pools.Set(p.Path, &p)
	s.count(&p)
	s.changes.Pools = append(s.changes.Pools, p.Path)
	return nil
}

func (s *State) deletePool(path PoolPath) error {
	if path == RootPool || !s.IsLeaf(path) {
		return fmt.Errorf("pool %q is the root, has children or does not exist", path)
	}
	for j := range s.Jobs(0) {
		if j.Spec.Pool == path {
			return fmt.Errorf("pool %q has jobs", path)
		}
	}
	s.pools.Delete(path)
	s.used.Delete(path)
	s.changes.Pools = append(s.changes.Pools, path)
	return nil
}

func (s *State) reportHost(at Time, e *HostReported) error {
	h := Host{ID: e.ID, Since: at}
	moved := false
	if old := s.Host(e.ID); old != nil {
		h, moved = *old, old.Address != e.Machine.Address
		if h.Unreachable {
			h.Unreachable, h.Gone, h.Reason, h.Since = false, false, "", at
			h.trust() // it may have been mended
		}
	}
	h.Machine = &e.Machine
	h.GPUFree = s.freeGPUs(&h)
	s.withhold(&h)
	s.setHost(&h)
	s.judgeAll(at, &h, moved)
	return nil
}

func (s *State) unreachHost(at Time, e *HostUnreached) error {
	err := s.changeHost(e.ID, func(h *Host) { h.Unreachable, h.Gone, h.Reason, h.Since = true, e.Gone, e.Reason, at })
	if err == nil {
		s.judgeAll(at, s.Host(e.ID), false)
	}
	return err
}

// freeGPUs recounts what the tasks on the host leave of its devices.
func (s *State) freeGPUs(h *Host) []int32 {
	if len(h.GPUs) == 0 {
		return nil
	}
	free := slices.Repeat([]int32{WholeGPU}, len(h.GPUs))
	for _, k := range h.Tasks {
		request := &s.spec(k).GPU
		free = request.allocate(free, s.Task(k).GPUs, false)
	}
	return free
}

// spec returns what a task runs.
func (s *State) spec(k TaskKey) *TaskSpec { return s.Job(k.Job()).TaskFor(s.Task(k)) }

func (s *State) changeHost(id HostID, change func(*Host)) error {
	old := s.Host(id)
	if old == nil {
		return fmt.Errorf("no host %q", id)
	}
	h := *old
	change(&h)
	s.setHost(&h)
	return nil
}

// noteLaunch takes into account that the run of the task began on its host, or was given back. One that was placed before
// the last of these was known tells nothing new: a host without room gives all back that is under way. Where the last run began and
// failed at once, that one more begins tells nothing either.
func (s *State) noteLaunch(at Time, t *Task, began bool) {
	switch old := s.Host(t.Host); {
	case old == nil || began && old.Fizzled != 0 || !began && old.misfiredSince(t, at):
	case began:
		s.trustHost(t.Host)
	default:
		s.misfire(at, old, 0)
	}
}

// noteFailedLaunch takes into account that the run of the task could not be started. What fails everywhere tells of the job and not of
// hosts: until one of its present spec begins, only the first few count, and make no host more than suspect.
func (s *State) noteFailedLaunch(at Time, t *Task, j *Job) {
	const most = 4
	switch old := s.Host(t.Host); {
	case old == nil || old.misfiredSince(t, at):
	case t.Version != j.Version || j.Misfires >= most || j.Misfires > 0 && old.Misfires >= Suspect:
	default:
		j.Misfires++
		s.misfire(at, old, 0)
	}
}

// misfiredSince reports whether a launch has come to nothing since the task was placed. One at a time to come did so before the clock was
// set back.
func (h *Host) misfiredSince(t *Task, now Time) bool {
	return t.Placed < h.MisfiredAt && h.MisfiredAt <= now
}

// misfire counts one more launch on a host that came to nothing.
func (s *State) misfire(at Time, old *Host, fizzled TaskKey) {
	h := *old
	h.Misfires, h.MisfiredAt, h.Fizzled = h.Misfires+1, at, fizzled
	s.setHost(&h)
}

// noteEnd takes into account how a run ended that had begun. One that succeeded, or went on for a while, shows that the host is sound.
// One that failed at once tells that it may not be, after one of another job, or if others of its job do well elsewhere. A job that always
// fails tells that of each host once, and two such jobs make a host suspect and no more than that.
func (s *State) noteEnd(at Time, t *Task, j *Job) {
	old := s.Host(t.Host)
	begun := max(t.Placed, t.Started)
	switch {
	case old == nil:
	case t.State == TaskSucceeded && !j.Spec.Type.Service() || t.Started != 0 && at.Sub(t.Started) >= steady:
		s.trustHost(t.Host)
	case t.State != TaskFailed || t.Reason != ReasonExited && t.Reason != ReasonSignaled || at.Sub(begun) >= steady:
	case old.misfiredSince(t, at) || t.Key == old.Fizzled || old.Misfires >= Suspect:
	case t.Key.Job() == old.Fizzled.Job() && !s.doesWell(at, t, j):
	default:
		s.misfire(at, old, t.Key)
	}
}

// doesWell reports whether others of the task's job and version have succeeded, or go on for a while elsewhere. Only the first few are looked at, so
// that a job of which none does costs no more than others.
func (s *State) doesWell(at Time, t *Task, j *Job) bool {
	succeeds := !j.Spec.Type.Service()
	if j.Counts[TaskSucceeded] > 0 && succeeds && j.Update == nil {
		return true
	}
	left := 32
	for o := range s.TasksOf(j.UID, 0) {
		goesOn := o.State == TaskRunning && o.Host != t.Host && at.Sub(o.Started) >= steady
		if o.Version == t.Version && (goesOn || o.State == TaskSucceeded && succeeds) {
			return true
		}
		if left--; left == 0 {
			break
		}
	}
	return false
}

// trustHost forgets the launches that came to nothing on a host.
func (s *State) trustHost(id HostID) {
	if old := s.Host(id); old != nil && old.Misfires > 0 {
		h := *old
		h.trust()
		s.setHost(&h)
	}
}

// trust forgets the launches that came to nothing.
func (h *Host) trust() { h.Misfires, h.MisfiredAt, h.Fizzled = 0, 0, 0 }

func (s *State) removeHost(at Time, id HostID) error {
	h := s.Host(id)
	if h == nil || len(h.Tasks) > 0 {
		return fmt.Errorf("host %q does not exist or has tasks", id)
	}
	for _, k := range slices.Clone(h.Held) {
		s.endHold(at, k)
	}
	s.removeHomes(at, id)
	s.removeImages(id)
	s.hosts.remove(id)
	if !s.HasHosts(id.Shard()) {
		s.folders.Delete(id.Shard())
	}
	s.noteClearing(id, false)
	s.changes.Hosts = append(s.changes.Hosts, id)
	return nil
}

func (s *State) setHost(h *Host) {
	s.hosts.set(h)
	s.noteClearing(h.ID, h.Clears())
	s.changes.Hosts = append(s.changes.Hosts, h.ID)
}

// bind adds the task of the job to its host's allocation, or takes it away; where that has been done, it does nothing.
func (s *State) bind(t *Task, j *Job, bound bool) {
	old, place := s.hosts.find(t.Host)
	if old == nil {
		return // a bound task keeps its host from being removed, so only a status of an older run comes here
	}
	if _, found := slices.BinarySearch(old.Tasks, t.Key); bound == found {
		return
	}
	h := *old
	h.Tasks = withMember(old.Tasks, t.Key, bound)
	spec := j.TaskFor(t)
	h.allocate(spec, j.Spec.Revocable, !bound)
	s.use(j, spec.Resources, !bound)
	h.GPUFree = spec.GPU.allocate(h.GPUFree, t.GPUs, !bound)
	h.PortsTaken = allocatePorts(h.PortsTaken, t.Ports, !bound)
	s.withhold(&h) // who leaves frees more or less when what is lent, or the slack, is another
	s.hosts.places.Set(uint64(place), &h)
	s.changes.Hosts = append(s.changes.Hosts, h.ID)
}

// setJob stores a changed job with a new revision.
func (s *State) setJob(at Time, j *Job) {
	s.revision++
	j.Revision = s.revision
	switch terminal := j.State().Terminal(); {
	case terminal && j.Finished == 0:
		j.Finished = at
	case !terminal:
		j.Finished = 0
	}
	s.lending += lends(j) - lends(s.jobs.Set(uint64(j.UID), j))
	s.setDaemon(j)
	s.setUnstarted(j)
	s.changes.Jobs = append(s.changes.Jobs, j.UID)
}

// setUnstarted keeps the index of jobs that wait in step with a job.
func (s *State) setUnstarted(j *Job) {
	if is := j.State(); is == JobInitialized || is == JobPending {
		s.unstarted.Set(j.UID, struct{}{})
	} else {
		s.unstarted.Delete(j.UID)
	}
}

// setTask stores a changed task and keeps the job's counts and the host's allocation in step. from is the task as it
// was, nil for a new one.
func (s *State) setTask(at Time, from, to *Task, job *Job) {
	if from != nil {
		job.Counts[from.State]--
		if from.State.Bound() && (!to.State.Bound() || from.Host != to.Host || from.Version != to.Version) {
			s.bind(from, job, false)
		}
	}
	job.Counts[to.State]++
	if job.Spec.Controller && to.Key.Instance() == 0 {
		job.Head = to.State
	}
	s.judge(at, from, to, job)
	if to.State.Bound() {
		s.bind(to, job, true)
	}
	if from == nil || from.State != to.State && !(from.State.Waits() && to.State.Waits()) {
		to.Since = at
	}
	s.tasks.Set(uint64(to.Key), to)
	if from == nil {
		s.setHome(to.Key, "", to.Home)
	} else {
		s.setHome(to.Key, from.Home, to.Home)
		if from.Next != 0 || to.Next != 0 {
			s.setLater(to)
		}
		if from.Hold != to.Hold || from.Version != to.Version { // another spec asks for another amount
			s.setHold(to.Key, from.Hold, to.Hold)
		}
		s.vacate(from, to)
	}
	s.changes.Tasks = append(s.changes.Tasks, to.Key)
}

// vacate recounts what a host withholds when one of its tasks begins to leave, or has left.
func (s *State) vacate(from, to *Task) {
	if from.State.Vacating() == to.State.Vacating() {
		return
	}
	if old := s.Host(from.Host); old != nil && len(old.Held) > 0 {
		h := *old
		s.withhold(&h)
		s.setHost(&h)
	}
}

func (s *State) restore(r *Restored) error {
	if h := r.Header; h != nil {
		if s.seq != 0 {
			return fmt.Errorf("%w: a checkpoint is loaded into a state that is not empty", ErrIllegal)
		}
		s.seq, s.clusterID, s.nextJob, s.revision = h.Seq, h.ClusterID, h.NextJob, h.Revision
		s.mapping, s.costs = h.Mapping, h.Costs
		s.roles, s.access, s.turnover = h.Roles, h.Access, h.Turnover
		s.mode, s.modeSince, s.keptFrom = h.Mode, h.ModeSince, h.KeptFrom
	}
	load(s.pools, r.Pools, func(p *Pool) PoolPath { return p.Path })
	for _, p := range r.Pools {
		s.count(p)
	}
	load(s.works, r.Works, func(w *Work) string { return w.Name })
	load(s.images, r.Images, func(x *ImageHosts) string { return x.Name })
	load(s.accounts, r.Accounts, (*Account).key)
	load(s.tokens, r.Tokens, func(t *Token) string { return t.ID })
	load(s.folders, r.Folders, func(f *ShardFolder) ShardID { return f.Shard })
	for _, h := range r.Hosts {
		s.hosts.set(h)
		s.noteClearing(h.ID, h.Clears())
	}
	for _, r := range r.Receipts {
		s.receipts.set(r)
	}
	for _, j := range r.Jobs {
		if key := j.IdempotencyKey; key != "" {
			own := *j
			own.IdempotencyKey = ""
			j = &own
			s.adoptKey(j, key)
		}
		j = adoptSecrets(j)
		s.jobs.Set(uint64(j.UID), j)
		s.names.Set(j.Spec.Name, j.UID)
		s.setWaiting(j, j.Waiting)
		s.lending += lends(j)
		s.setDaemon(j)
		s.setUnstarted(j)
	}
	for _, t := range r.Tasks {
		s.tasks.Set(uint64(t.Key), t)
		s.setHome(t.Key, "", t.Home)
		if t.Next != 0 {
			s.setLater(t)
		}
	}
	s.adopt(r.Tasks)
	for _, t := range r.Tasks {
		if t.State.Bound() {
			s.use(s.Job(t.Key.Job()), s.spec(t.Key).Resources, false)
		}
	}
	return nil
}

func load[K key, V any](m *btree.Map[K, V], records []V, by func(V) K) {
	for _, r := range records {
		m.Set(by(r), r)
	}
}
