package cluster

import (
	"cmp"
	"fmt"
	"slices"
)

// Role is what somebody may do in a pool and in all below it. Two roles speak of no pool and are held at the root only.
type Role uint8

// The roles.
const (
	Viewer      Role = iota // sees jobs and their tasks
	Submitter               // submits jobs, which are then his own
	PoolAdmin               // sees, submits and changes jobs of everybody, and the pools below
	Operator                // everything; at the root only
	HostManager             // speaks for the hosts of the shard that has the user's name; at the root only
	NumRoles
)

var roleNames = [NumRoles]string{"viewer", "submitter", "pool-admin", "operator", "host-manager"}

// String returns the role's name.
func (r Role) String() string { return roleNames[r] }

// RoleBinding gives a role to a user or to a group: exactly one of them is set.
type RoleBinding struct {
	Role  Role
	User  string `cbor:",omitempty"`
	Group string `cbor:",omitempty"`
	Pool  PoolPath
}

// Compare orders bindings by role, user, group and pool.
func (b RoleBinding) Compare(o RoleBinding) int {
	return cmp.Or(cmp.Compare(b.Role, o.Role), cmp.Compare(b.User, o.User), cmp.Compare(b.Group, o.Group), cmp.Compare(b.Pool, o.Pool))
}

// Token lets whoever shows its secret act as a user. Only a hash of the secret is kept. Immutable.
type Token struct {
	ID      string
	Hash    [32]byte // SHA-256 of the secret, which is random, so that nothing slower is needed
	User    string
	Groups  []string `cbor:",omitempty"` // sorted
	Job     JobUID   `cbor:",omitempty"` // all that it is good for; 0: no such bound
	Created Time
	Expires Time
	Note    string `cbor:",omitempty"` // for people
}

// Mode is what an operator has switched off, and what waits since the cluster was restored from a snapshot.
type Mode struct {
	ReadOnly          bool `cbor:",omitempty"` // calls that change something are refused
	SchedulingStopped bool `cbor:",omitempty"` // nothing is placed
	KillingStopped    bool `cbor:",omitempty"` // nothing is killed, preempted or moved
	// Restored: nothing is placed, until host managers have told what they run that the snapshot does not know, and that has ended.
	Restored bool `cbor:",omitempty"`
}

// PlacesNothing reports whether nothing is placed, whatever the reason.
func (m Mode) PlacesNothing() bool { return m.SchedulingStopped || m.Restored }

// MaxTokens and MaxRoleBindings bound what is kept of each.
const (
	MaxTokens       = 10_000
	MaxRoleBindings = 10_000
)

// RoleBindings returns all bindings, sorted. The caller does not change them.
func (t *tables) RoleBindings() []RoleBinding { return t.roles }

// Token returns a token, nil if there is none of that id.
func (t *tables) Token(id string) *Token { return find(t.tokens, id) }

// Tokens returns all tokens by id.
func (t *tables) Tokens() []*Token { return t.tokens.Values() }

// Mode returns what is switched off.
func (t *tables) Mode() Mode { return t.mode }

// ModeSince returns since when the mode is what it is and a scheduler has been there: who waited before may have had no chance. 0: from
// the beginning.
func (t *tables) ModeSince() Time { return t.modeSince }

// AccessRevision returns the revision at which it last changed, by roles or by the access lists of pools, who may see which
// jobs; 0: it never did.
func (t *tables) AccessRevision() uint64 { return t.access }

func (s *State) changeAccess() {
	s.revision++
	s.access = s.revision
}

func (s *State) grantRole(b RoleBinding) error {
	i, held := slices.BinarySearchFunc(s.roles, b, RoleBinding.Compare)
	if held || b.Role >= NumRoles || len(s.roles) >= MaxRoleBindings {
		return fmt.Errorf("%v is bound already, is unknown or is one too many", b)
	}
	s.roles = slices.Concat(s.roles[:i], []RoleBinding{b}, s.roles[i:])
	s.changeAccess()
	return nil
}

func (s *State) revokeRole(b RoleBinding) error {
	i, held := slices.BinarySearchFunc(s.roles, b, RoleBinding.Compare)
	if !held {
		return fmt.Errorf("%v is not bound", b)
	}
	s.roles = slices.Concat(s.roles[:i], s.roles[i+1:])
	s.changeAccess()
	return nil
}

func (s *State) createToken(t Token) error {
	if t.ID == "" || s.Token(t.ID) != nil || s.tokens.Len() >= MaxTokens {
		return fmt.Errorf("token %q exists or is one too many", t.ID)
	}
	s.tokens.Set(t.ID, &t)
	return nil
}

func (s *State) revokeToken(id string) error {
	if s.Token(id) == nil {
		return fmt.Errorf("no token %q", id)
	}
	s.tokens.Delete(id)
	return nil
}

// revokeTokensOf forgets the tokens that are good for a job only.
func (s *State) revokeTokensOf(job JobUID) {
	for _, t := range s.Tokens() {
		if t.Job == job {
			s.tokens.Delete(t.ID)
		}
	}
}
