package cluster

// Pool is a node of the tree of pools. Jobs are submitted to leaves.
//
// Reservations, limits and shares per dimension, and the entitlement that follows from them, are decided by
// cluster/pool; until a pool carries them, every leaf may use whatever is free.
type Pool struct {
	Path    PoolPath
	Version uint64 // 1 when created, one more with every change
	Created Time
	Labels  []KeyValue `cbor:",omitempty"`
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
