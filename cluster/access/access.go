// Package access decides who may do what: by the roles that users and groups hold, by the access lists of the pools, and
// by who owns a job. It is pure; who somebody is has been found out before.
package access

import (
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Caller is who asks.
type Caller struct {
	User   string
	Groups []string
	// Token is the id of the token that was shown; "" where something else was.
	Token string
	// Job is the only thing that the caller may see and change; 0: no such bound.
	Job cluster.JobUID
	// Roles are held everywhere, beside those that the state binds.
	Roles []cluster.Role
	// Free lets everything pass: the server asks nobody who he is.
	Free bool
}

// View is what is needed of a State or a Snapshot.
type View interface {
	// Pool returns a pool, nil if there is none of that path.
	Pool(cluster.PoolPath) *cluster.Pool
	// RoleBindings returns all bindings of roles.
	RoleBindings() []cluster.RoleBinding
}

// Holds reports whether the caller holds a role in a pool: by a binding there or above. Complexity: the bindings.
func (c *Caller) Holds(in View, role cluster.Role, p cluster.PoolPath) bool {
	switch {
	case c.Free:
		return true
	case c.Job != 0:
		return false
	case slices.Contains(c.Roles, role):
		return true
	}
	return slices.ContainsFunc(in.RoleBindings(), func(b cluster.RoleBinding) bool {
		return b.Role == role && c.Is(b) && b.Pool.Covers(p)
	})
}

// HoldsAny reports whether the caller holds any role anywhere.
func (c *Caller) HoldsAny(in View) bool {
	return c.Free || c.Job == 0 && (len(c.Roles) > 0 ||
		slices.ContainsFunc(in.RoleBindings(), c.Is))
}

// IsOperator reports whether the caller may do everything.
func (c *Caller) IsOperator(in View) bool { return c.Holds(in, cluster.Operator, cluster.RootPool) }

// Is reports whether a binding is for the caller.
func (c *Caller) Is(b cluster.RoleBinding) bool { return c.is(b.User, b.Group) }

func (c *Caller) is(user, group string) bool {
	return user != "" && user == c.User || group != "" && slices.Contains(c.Groups, group)
}

// May reports whether the caller may do something in a pool, which need not exist yet.
//
// Operators and the pool's administrators may do everything in it; an administrator holds the role there or above, or an
// access list there or above names him for it. Who is named for a permission has it. Where no list on the way to the root
// speaks of the permission, those have it who hold the role: viewers to view, submitters to submit. A list closes the pool
// for everybody else. Lists further down add to those above and take nothing away. Complexity: the bindings, and the rules
// on the way to the root.
func (c *Caller) May(in View, may cluster.Permission, p cluster.PoolPath) bool {
	switch {
	case c.Free:
		return true
	case c.Job != 0:
		return false
	case c.IsOperator(in), c.Holds(in, cluster.PoolAdmin, p):
		return true
	}
	if admin, _ := c.named(in, cluster.MayAdminister, p); admin {
		return true
	}
	named, open := c.named(in, may, p)
	return named || open && may != cluster.MayAdminister && c.Holds(in, roleFor[may], p)
}

// roleFor is the role that gives a permission where no list speaks of it.
var roleFor = map[cluster.Permission]cluster.Role{cluster.MayView: cluster.Viewer, cluster.MaySubmit: cluster.Submitter}

// named reports whether a list names the caller for a permission, and whether no list speaks of it.
func (c *Caller) named(in View, may cluster.Permission, p cluster.PoolPath) (named, open bool) {
	open = true
	for ; p != ""; p = p.Parent() {
		pool := in.Pool(p)
		if pool == nil {
			continue // what is above decides about what does not exist
		}
		for _, r := range pool.Access {
			if r.Permission != may {
				continue
			}
			open = false
			if slices.ContainsFunc(r.Users, func(u string) bool { return c.is(u, "") }) ||
				slices.ContainsFunc(r.Groups, func(g string) bool { return c.is("", g) }) {
				return true, false
			}
		}
	}
	return false, open
}

// MayConfigure reports whether the caller may create, change or delete a pool: its settings are bounds that the pool above
// sets, so whoever administers only the pool itself may not move them. The root's own settings are for those who
// administer the root.
func (c *Caller) MayConfigure(in View, p cluster.PoolPath) bool {
	if p != cluster.RootPool {
		p = p.Parent()
	}
	return c.May(in, cluster.MayAdminister, p)
}

// MayKnow reports whether the caller may see that a pool is there, and what is in it in numbers: who may do anything in
// it.
func (c *Caller) MayKnow(in View, p cluster.PoolPath) bool {
	return c.May(in, cluster.MayView, p) || c.May(in, cluster.MaySubmit, p)
}

// Sight returns which jobs the caller may see, for lists: each pool is decided on once.
func (c *Caller) Sight(in View) func(*cluster.Job) bool {
	pools, user := map[cluster.PoolPath]bool{}, c.unbound()
	return func(j *cluster.Job) bool {
		switch {
		case !c.reaches(j):
			return false
		case c.owns(j):
			return true
		}
		sees, known := pools[j.Spec.Pool]
		if !known {
			sees = user.May(in, cluster.MayView, j.Spec.Pool)
			pools[j.Spec.Pool] = sees
		}
		return sees
	}
}

// MaySee reports whether the caller may see a job and its tasks: its owner, and who may view its pool.
func (c *Caller) MaySee(in View, j *cluster.Job) bool {
	return c.mayWith(in, cluster.MayView, j)
}

// MayChange reports whether the caller may change a job: its owner, and who administers its pool.
func (c *Caller) MayChange(in View, j *cluster.Job) bool {
	return c.mayWith(in, cluster.MayAdminister, j)
}

// mayWith reports whether the caller owns a job or has a permission in its pool, and his credential is good for it.
func (c *Caller) mayWith(in View, may cluster.Permission, j *cluster.Job) bool {
	return c.reaches(j) && (c.owns(j) || c.unbound().May(in, may, j.Spec.Pool))
}

// owns reports whether the job is the caller's. One without an owner is its own controller's.
func (c *Caller) owns(j *cluster.Job) bool {
	return (c.User != "" || c.Job != 0) && c.User == j.Spec.Owner
}

// reaches reports whether the caller's credential is good for the job, if he himself is.
func (c *Caller) reaches(j *cluster.Job) bool { return c.Job == 0 || c.Job == j.UID }

// unbound returns the caller as he is without a token for one job: what that lets him do ends with what he may.
func (c *Caller) unbound() *Caller {
	user := *c
	user.Job = 0
	return &user
}
