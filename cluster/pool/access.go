package pool

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Principal is who asks.
type Principal struct {
	User   string
	Groups []string
}

// Pools is what is needed of a State or a Snapshot to look up access lists.
type Pools interface {
	// Pool returns a pool, nil if there is none of that path.
	Pool(cluster.PoolPath) *cluster.Pool
}

// Allows reports whether the access lists let somebody do something in a pool. A rule holds for its pool and all below it:
// lists further down add to those above and take nothing away. What no list on the way to the root speaks of is open to
// everybody, so that a cluster without lists is open, and one list for a permission closes it for all others.
//
// Nothing enforces the lists until callers have identities. Complexity: the rules on the way to the root.
func Allows(in Pools, p cluster.PoolPath, who Principal, may cluster.Permission) bool {
	open := true
	for ; p != ""; p = p.Parent() {
		pool := in.Pool(p)
		if pool == nil {
			continue // what is above decides about what does not exist
		}
		for _, r := range pool.Access {
			if r.Permission != may {
				continue
			}
			if open = false; names(&r, who) {
				return true
			}
		}
	}
	return open
}

func names(r *cluster.AccessRule, who Principal) bool {
	return who.User != "" && slices.Contains(r.Users, who.User) ||
		slices.ContainsFunc(who.Groups, func(g string) bool { return slices.Contains(r.Groups, g) })
}

// AllowsChange reports whether somebody may create, change or delete a pool: its settings are bounds that the pool above
// sets, so whoever administers only the pool itself may not move them. The root's own settings are for those who
// administer the root.
func AllowsChange(in Pools, p cluster.PoolPath, who Principal) bool {
	if p != cluster.RootPool {
		p = p.Parent()
	}
	return Allows(in, p, who, cluster.MayAdminister)
}
