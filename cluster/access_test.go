package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRolesTokensAndMode(t *testing.T) {
	s := NewState()
	apply := func(e Event) error { return s.Apply(Record{Seq: s.Seq() + 1, At: 1, Event: e}) }
	b := RoleBinding{Role: Viewer, User: "b", Pool: RootPool}
	a := RoleBinding{Role: Viewer, User: "a", Pool: RootPool}
	require.NoError(t, apply(&RoleGranted{Binding: b}))
	before, _ := s.Snapshot()
	require.NoError(t, apply(&RoleGranted{Binding: a}))
	require.ErrorIs(t, apply(&RoleGranted{Binding: a}), ErrIllegal)
	require.ErrorIs(t, apply(&RoleGranted{Binding: RoleBinding{Role: NumRoles, User: "x"}}), ErrIllegal)
	require.Equal(t, []RoleBinding{a, b}, s.RoleBindings())
	require.Equal(t, []RoleBinding{b}, before.RoleBindings(), "a snapshot does not change")
	require.ErrorIs(t, apply(&RoleRevoked{Binding: RoleBinding{User: "c"}}), ErrIllegal)
	require.NoError(t, apply(&RoleRevoked{Binding: b}))

	require.NoError(t, apply(&TokenCreated{Token: Token{ID: "t", User: "u", Job: 1}}))
	require.NoError(t, apply(&TokenCreated{Token: Token{ID: "v", User: "u"}}))
	require.ErrorIs(t, apply(&TokenCreated{Token: Token{ID: "t"}}), ErrIllegal)
	require.ErrorIs(t, apply(&TokenRevoked{ID: "w"}), ErrIllegal)
	require.NoError(t, apply(&ModeSet{Mode: Mode{ReadOnly: true}}))
	require.NoError(t, apply(&ModeSet{Mode: Mode{KillingStopped: true}}))

	snapshot, _ := s.Snapshot()
	copied := NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, copied.Apply(Record{Event: part}))
	}
	require.Equal(t, []RoleBinding{a}, copied.RoleBindings())
	require.Equal(t, s.Tokens(), copied.Tokens())
	require.Equal(t, Mode{KillingStopped: true}, copied.Mode())

	s.revokeTokensOf(1)
	require.Nil(t, s.Token("t"))
	require.NotNil(t, s.Token("v"))
	require.NotNil(t, snapshot.Token("t"))
	require.NoError(t, apply(&TokenRevoked{ID: "v"}))
	require.Empty(t, s.Tokens())
}
