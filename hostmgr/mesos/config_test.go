package mesos

import (
	"os/user"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoles(t *testing.T) {
	for role, why := range map[string]string{
		"*": "", "eng": "", "eng/web-1/.x": "", `a\b`: "", "a*": "",
		"":        "it is empty; leave out the comma beside it",
		"a b":     `"a b" has blanks; leave them out`,
		"a/b\x7f": `"b\x7f" has blanks; leave them out`,
		"a//b":    "it has a slash without a name on both sides; leave that out",
		"/a":      "it has a slash without a name on both sides; leave that out",
		"a/":      "it has a slash without a name on both sides; leave that out",
		".":       `"." is no name for a part of it; take another one`,
		"a/../b":  `".." is no name for a part of it; take another one`,
		"a/*":     `"*" is no name for a part of it; take another one`,
		"-x":      `"-x" begins with a dash; leave that out`,
		"a/-x":    `"-x" begins with a dash; leave that out`,
	} {
		err := (&Config{Dir: "d", Masters: "m", Roles: []string{"first", role}}).Validate()
		if why == "" {
			require.NoError(t, err, "%q", role)
		} else {
			require.ErrorContains(t, err, "mesos: roles: ")
			require.ErrorContains(t, err, "is not a role: "+why, "%q", role)
		}
	}
}

// TestAUserWithoutAName: a master would keep the framework's empty user for ever, and no agent has one of that name.
func TestAUserWithoutAName(t *testing.T) {
	defer func(before func() (*user.User, error)) { currentUser = before }(currentUser)
	currentUser = func() (*user.User, error) { return nil, user.UnknownUserIdError(65432) }
	c := Config{Dir: t.TempDir(), Masters: "m"}
	_, err := New(c)
	require.ErrorContains(t, err, "mesos: user: who runs this process has no name that tasks could run as; name a user of the agents with --framework-user")
	c.User = "www"
	_, err = New(c)
	require.NoError(t, err)
}
