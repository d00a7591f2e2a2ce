package cluster

import (
	"slices"
	"time"
)

// Pool is a node of the tree of pools. Jobs are submitted to leaves. What it claims per dimension becomes an entitlement
// in cluster/pool. Immutable; State replaces it.
type Pool struct {
	Path        PoolPath
	Version     uint64 // 1 when created, one more with every change
	Created     Time
	Labels      []KeyValue     `cbor:",omitempty"`
	Description string         `cbor:",omitempty"`
	Resources   []PoolResource `cbor:",omitempty"` // by Dimension; without an entry: no reservation, no limit, share 1, elastic
	Order       PoolOrder      `cbor:",omitempty"` // of a leaf
	Division    Division       `cbor:",omitempty"` // of an inner pool
	Preemption  string         `cbor:",omitempty"` // of an inner pool: the policy between its children, and inside leaves among them, by name, "" for the default
	Access      []AccessRule   `cbor:",omitempty"`
	Limits      PoolLimits
	CostModel   string        `cbor:",omitempty"` // never set: see CostBinding
	Ageing      time.Duration `cbor:",omitempty"` // a waiting task gains one step of priority in each such interval; 0: never
	Hosts       []KeyValue    `cbor:",omitempty"` // labels that a host must have to run tasks of the pool or of those below it, sorted
	Draining    bool          `cbor:",omitempty"` // running work finishes, new work is refused
}

// Raised returns the priority of who waits in the pool since queued, raised by ageing.
func (p *Pool) Raised(priority int32, queued, now Time) int64 {
	raised := int64(priority)
	if p.Ageing > 0 && now > queued {
		raised += int64(now.Sub(queued) / p.Ageing)
	}
	return raised
}

// NoLimit is the limit of a pool that may use whatever its parent may.
const NoLimit int64 = -1

// PoolResource is what a pool claims of one dimension, in the dimension's unit.
type PoolResource struct {
	Dimension   string // as Dimension.String spells it, or the name of a named resource
	Reservation int64  // guaranteed
	Limit       int64  // never exceeded; NoLimit for the parent's
	Share       uint32 // weight among siblings of what is left over
	Static      bool   // the reservation is never lent
}

// PoolOrder is the order in which a leaf admits its tasks.
type PoolOrder uint8

// The orders.
const (
	PriorityFIFO PoolOrder = iota // priority, then age
	FairJobs                      // each job has an equal share, and may claim it from jobs of equal priority that have more
	FairUsers                     // the same between users
)

// Division is how an inner pool divides its entitlement among its children.
type Division uint8

// The divisions.
const (
	MaxMin           Division = iota // weighted max-min in each dimension on its own
	DominantResource                 // weighted max-min of dominant shares
)

// Permission is what an access rule allows.
type Permission uint8

// The permissions. Each is given for its own; none includes another.
const (
	MayView Permission = iota
	MaySubmit
	MayAdminister // change jobs of others, and pools below within this pool's bounds
)

// AccessRule lets users and groups do something in a pool and below it.
type AccessRule struct {
	Permission    Permission
	Users, Groups []string `cbor:",omitempty"`
}

func (r AccessRule) equal(o AccessRule) bool {
	return r.Permission == o.Permission && slices.Equal(r.Users, o.Users) && slices.Equal(r.Groups, o.Groups)
}

// PoolLimits bounds what runs in a pool. A nil entry is no limit.
type PoolLimits struct {
	ControllerPercent *uint32 `cbor:",omitempty"` // of the reservation, for controller tasks
	RevocablePercent  *uint32 `cbor:",omitempty"` // of the capacity, for revocable tasks
	PreemptedPerCycle *uint32 `cbor:",omitempty"` // tasks of the pool that one cycle may ask to leave for others
	// Jobs above the running limit wait; a submission above the pending limit is refused.
	RunningJobs, PendingJobs                 *uint32 `cbor:",omitempty"`
	RunningJobsPerUser, PendingJobsPerUser   *uint32 `cbor:",omitempty"`
	RunningJobsPerGroup, PendingJobsPerGroup *uint32 `cbor:",omitempty"`
}

// BoundsRunning reports whether they bound how many jobs may run.
func (l *PoolLimits) BoundsRunning() bool {
	return l.RunningJobs != nil || l.RunningJobsPerUser != nil || l.RunningJobsPerGroup != nil
}

// BoundsPending reports whether they bound how many jobs may wait.
func (l *PoolLimits) BoundsPending() bool {
	return l.PendingJobs != nil || l.PendingJobsPerUser != nil || l.PendingJobsPerGroup != nil
}

// Tier ranks a waiting or running unit by what its pool may claim for it. Lower is stronger.
type Tier uint8

// The tiers, strongest first.
const (
	// TierReserved: within the pool's reservation.
	TierReserved Tier = iota
	// TierEntitled: within what the pool is entitled to in this cycle.
	TierEntitled
	// TierBorrowed: beyond the entitlement, on what nobody claims.
	TierBorrowed
	NumTiers
)

var tierNames = [NumTiers]string{"reserved", "entitled", "borrowed"}

// String returns the tier's name.
func (t Tier) String() string { return tierNames[t] }
