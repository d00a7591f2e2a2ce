package cluster

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/sluice-scheduler/sluice/cluster/radix"
)

// degree keeps the nodes of the B-trees small: a change after a snapshot copies one node per level.
const degree = 32

// tables are the records of a cluster, shared by State, which changes them, and Snapshot, which does not.
type tables struct {
	clusterID string
	seq       uint64
	revision  uint64
	access    uint64 // see AccessRevision
	nextJob   JobUID
	mapping   *QueueMapping
	costs     *CostPolicy
	pools     *btree.Map[PoolPath, *Pool]
	used      *btree.Map[PoolPath, Resources] // see Used; of the pools with limits
	hosts     hostTable
	folders   *btree.Map[ShardID, *ShardFolder] // see FolderOf
	jobs      radix.Map[Job]                    // by uid
	names     *btree.Map[JobID, JobUID]
	homes     *btree.Map[HostID, []TaskKey] // the tasks that may run on the host of that id only
	daemons   *btree.Map[JobUID, struct{}]  // that have not ended
	later     *btree.Map[TaskKey, struct{}] // see Later
	unstarted *btree.Map[JobUID, struct{}]  // see Unstarted
	waits     *btree.Map[JobID, []JobUID]   // the jobs that wait for the one of that name
	tasks     radix.Map[Task]               // by key
	works     *btree.Map[string, *Work]     // by name
	images    *btree.Map[string, *ImageHosts]
	tokens    *btree.Map[string, *Token]
	accounts  *btree.Map[string, *Account] // by accountKey
	keptFrom  Day                          // see KeptFrom
	receipts  receiptTable
	roles     []RoleBinding // sorted; replaced, never changed
	mode      Mode
	modeSince Time
	turnover  Turnover
	lessons   uint64   // see Lessons
	lending   int      // see Lending
	clearing  []HostID // hosts that what may be moved has to leave, sorted; never modified in place
}

func newTables() tables {
	return tables{
		nextJob: 1,
		pools:   btree.NewMap[PoolPath, *Pool](degree),
		used:    btree.NewMap[PoolPath, Resources](degree),
		hosts:   newHostTable(),
		folders: btree.NewMap[ShardID, *ShardFolder](degree),
		names:   btree.NewMap[JobID, JobUID](degree),
		homes:   btree.NewMap[HostID, []TaskKey](degree),
		daemons: btree.NewMap[JobUID, struct{}](degree),
		later:   btree.NewMap[TaskKey, struct{}](degree),
		waits:   btree.NewMap[JobID, []JobUID](degree),
		works:   btree.NewMap[string, *Work](degree),
		images:  btree.NewMap[string, *ImageHosts](degree),
		tokens:  btree.NewMap[string, *Token](degree),

		accounts:  btree.NewMap[string, *Account](degree),
		unstarted: btree.NewMap[JobUID, struct{}](degree),
		receipts:  newReceiptTable(),
	}
}

func (t *tables) copy() tables {
	c := *t
	c.pools, c.hosts, c.jobs = t.pools.Copy(), t.hosts.copy(), t.jobs.Copy()
	c.waits, c.homes, c.daemons, c.later = t.waits.Copy(), t.homes.Copy(), t.daemons.Copy(), t.later.Copy()
	c.names, c.tasks, c.receipts, c.unstarted = t.names.Copy(), t.tasks.Copy(), t.receipts.copy(), t.unstarted.Copy()
	c.works, c.images, c.tokens, c.used = t.works.Copy(), t.images.Copy(), t.tokens.Copy(), t.used.Copy()
	c.accounts, c.folders = t.accounts.Copy(), t.folders.Copy()
	return c
}

// ClusterID returns the random id given at creation, "" before.
func (t *tables) ClusterID() string { return t.clusterID }

// Seq returns the sequence number of the last event applied.
func (t *tables) Seq() uint64 { return t.seq }

// Turnover returns what has come free by itself.
func (t *tables) Turnover() Turnover { return t.turnover }

// Revision returns the last revision given to a job, or to a change of access. See Job.Revision.
func (t *tables) Revision() uint64 { return t.revision }

// NextJob returns the uid that the next submitted job gets.
func (t *tables) NextJob() JobUID { return t.nextJob }

// Pool returns a pool, nil if there is none of that path.
func (t *tables) Pool(p PoolPath) *Pool { return find(t.pools, p) }

// HostsOf returns what a pool and those above it ask of the hosts of their tasks, nil if nothing. It says nothing about other
// tasks. Complexity: the labels that they ask for.
func (t *tables) HostsOf(p PoolPath) *Constraint {
	var labels []Constraint
	for ; p != ""; p = p.Parent() {
		if q := t.Pool(p); q != nil {
			for _, l := range q.Hosts {
				labels = append(labels, Constraint{Op: HostLabel, Label: l, Comparison: Greater})
			}
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return &Constraint{Op: And, Terms: labels}
}

// Host returns a host, nil if there is none of that id.
func (t *tables) Host(id HostID) *Host { return t.hosts.get(id) }

// Job returns a job, nil if there is none of that uid.
func (t *tables) Job(uid JobUID) *Job { return t.jobs.Get(uint64(uid)) }

// Task returns a task, nil if there is none of that key.
func (t *tables) Task(k TaskKey) *Task { return t.tasks.Get(uint64(k)) }

// JobByName returns the existing job of that name, nil if there is none.
func (t *tables) JobByName(name JobID) *Job { return t.Job(find(t.names, name)) }

// Clearing returns the hosts that what may be moved has to leave, or all at some time, by id. The caller must not modify it.
func (t *tables) Clearing() []HostID { return t.clearing }

func (t *tables) noteClearing(id HostID, clearing bool) {
	t.clearing = withMember(t.clearing, id, clearing)
}

// withMember returns the sorted list with v in it, or without v: a copy, where that is another one.
func withMember[T cmp.Ordered](list []T, v T, in bool) []T {
	i, found := slices.BinarySearch(list, v)
	switch {
	case in && !found:
		return slices.Concat(list[:i], []T{v}, list[i:])
	case !in && found:
		return slices.Concat(list[:i], list[i+1:])
	}
	return list
}

// NumTasks returns how many tasks there are, of all states.
func (t *tables) NumTasks() int { return t.tasks.Len() }

// NumHosts returns how many hosts there are, of all states.
func (t *tables) NumHosts() int { return t.hosts.ids.Len() }

// NumJobs returns how many jobs there are, of all states.
func (t *tables) NumJobs() int { return t.jobs.Len() }

// Pools yields all pools by path, parents before their children.
func (t *tables) Pools() iter.Seq[*Pool] { return ascend(t.pools, "") }

// Hosts yields the hosts with ids from the given one on, by id.
func (t *tables) Hosts(from HostID) iter.Seq[*Host] { return t.hosts.from(from) }

// ShardHosts yields the hosts of a shard, by id.
func (t *tables) ShardHosts(shard ShardID) iter.Seq[*Host] {
	return func(yield func(*Host) bool) {
		for h := range t.hosts.from(MakeHostID(shard, "")) {
			if h.ID.Shard() != shard || !yield(h) {
				return
			}
		}
	}
}

// Jobs yields the jobs with uids from the given one on, in the order of submission.
func (t *tables) Jobs(from JobUID) iter.Seq[*Job] { return records(&t.jobs, uint64(from)) }

// Unstarted yields the jobs of which no task has been placed yet and that have not ended, in the order of submission.
func (t *tables) Unstarted() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		t.unstarted.Scan(func(uid JobUID, _ struct{}) bool { return yield(t.Job(uid)) })
	}
}

// JobNames yields the jobs with names from the given one on, by name.
func (t *tables) JobNames(from JobID) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		t.names.Ascend(from, func(_ JobID, uid JobUID) bool { return yield(t.Job(uid)) })
	}
}

// Tasks yields the tasks with keys from the given one on, by key.
func (t *tables) Tasks(from TaskKey) iter.Seq[*Task] { return records(&t.tasks, uint64(from)) }

// TasksOf yields the tasks of a job with instances from the given one on, by instance.
func (t *tables) TasksOf(job JobUID, from uint32) iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for k, task := range t.tasks.From(uint64(MakeTaskKey(job, from))) {
			if TaskKey(k).Job() != job || !yield(task) {
				return
			}
		}
	}
}

// Works yields all that was learned, by name.
func (t *tables) Works() iter.Seq[*Work] { return ascend(t.works, "") }

// Lessons counts what was learned since the state was made or loaded, of runs and of where images are: as long as it stays, so
// does what Works and Images yield.
func (t *tables) Lessons() uint64 { return t.lessons }

// IsLeaf reports whether a pool exists and has no children. Complexity: O(log pools).
func (t *tables) IsLeaf(p PoolPath) bool {
	if t.Pool(p) == nil {
		return false
	}
	leaf := true
	t.pools.Ascend(p+"/", func(q PoolPath, _ *Pool) bool {
		leaf = !strings.HasPrefix(string(q), string(p)+"/")
		return false
	})
	return leaf
}

// key is what a table finds its records by.
type key interface{ ~string | ~uint32 | ~uint64 }

func find[K key, V any](m *btree.Map[K, V], k K) V {
	v, _ := m.Get(k)
	return v
}

func ascend[K key, V any](m *btree.Map[K, V], from K) iter.Seq[V] {
	return func(yield func(V) bool) {
		m.Ascend(from, func(_ K, v V) bool { return yield(v) })
	}
}

// forgetOldest makes place for one more in a table of most at most: what has not been seen for longest goes, of equals the first by name.
func forgetOldest[V any](m *btree.Map[string, V], most int, seen func(V) Time) {
	if m.Len() < most {
		return
	}
	var oldest string
	at := Time(math.MaxInt64)
	for name, v := range m.Scan {
		if seen(v) < at {
			oldest, at = name, seen(v)
		}
	}
	m.Delete(oldest)
}

func records[V any](m *radix.Map[V], from uint64) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for _, v := range m.From(from) {
			if !yield(v) {
				return
			}
		}
	}
}

// Snapshot is an immutable view of a State at one moment. It may be read from any number of goroutines.
type Snapshot struct{ tables }

// Fork returns a state of its own that is equal to s, so that a change can be tried. O(1).
func (s *State) Fork() *State { return &State{tables: s.copy()} }

// CheckpointDue reports whether a checkpoint is worth writing after the one at record last. It is after so many records, or, as a
// checkpoint writes all there is, where the state is large after a quarter as many as that: writing it costs each record a constant, and
// replaying them a start some more of what loading it does.
func (t *tables) CheckpointDue(last, every uint64) bool {
	content := uint64(t.NumTasks() + t.NumJobs() + t.NumHosts())
	return t.seq-last >= max(every, content/4)
}

// partSize bounds the number of records in one part of a checkpoint, and with it the memory of encoding one.
const partSize = 1000

// Parts yields the whole content as events that rebuild an equal State when applied, in this order, to a new one.
func (s *Snapshot) Parts() iter.Seq[*Restored] {
	return func(yield func(*Restored) bool) {
		header := &RestoredHeader{
			Seq: s.seq, ClusterID: s.clusterID, NextJob: s.nextJob, Revision: s.revision, Mapping: s.mapping, Costs: s.costs,
			Roles: s.roles, Access: s.access, Mode: s.mode, ModeSince: s.modeSince, Turnover: s.turnover, KeptFrom: s.keptFrom,
		}
		_ = yield(&Restored{Header: header}) &&
			chunks(s.Pools(), func(c []*Pool) bool { return yield(&Restored{Pools: c}) }) &&
			chunks(s.Hosts(""), func(c []*Host) bool { return yield(&Restored{Hosts: c}) }) &&
			chunks(ascend(s.folders, ""), func(c []*ShardFolder) bool { return yield(&Restored{Folders: c}) }) &&
			chunks(s.Jobs(0), func(c []*Job) bool { return yield(&Restored{Jobs: c}) }) &&
			chunks(s.Tasks(0), func(c []*Task) bool { return yield(&Restored{Tasks: c}) }) &&
			chunks(s.Works(), func(c []*Work) bool { return yield(&Restored{Works: c}) }) &&
			chunks(s.Images(), func(c []*ImageHosts) bool { return yield(&Restored{Images: c}) }) &&
			chunks(s.Accounts(0), func(c []*Account) bool { return yield(&Restored{Accounts: c}) }) &&
			chunks(slices.Values(s.Tokens()), func(c []*Token) bool { return yield(&Restored{Tokens: c}) }) &&
			chunks(ascend(s.receipts.byAge, ""), func(c []*Receipt) bool { return yield(&Restored{Receipts: c}) })
	}
}

func chunks[V any](all iter.Seq[V], yield func([]V) bool) bool {
	var chunk []V
	for v := range all {
		chunk = append(chunk, v)
		if len(chunk) == partSize {
			if !yield(chunk) {
				return false
			}
			chunk = nil
		}
	}
	return len(chunk) == 0 || yield(chunk)
}
