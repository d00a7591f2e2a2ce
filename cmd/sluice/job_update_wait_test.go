//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who waits for an update is told how far it is and how it ends, and by the exit code whether it has brought what was asked for.
func TestWaitForAnUpdate(t *testing.T) {
	noSettings(t)
	finish := startDev(t, filepath.Join(t.TempDir(), "state"))
	job := func(command string) string {
		return `name: web
type: stateless
instances: 2
restart: {backoff_initial: 0s}
limits: {max_unavailable_instances: 2}
update: {max_attempts: 1, max_failed_instances: 1, rollback_on_failure: true}
task: {processes: [{argv: [` + command + `]}], resources: {cpu: 1m, memory: 1Mi}}
`
	}
	does := func(code int, out, in string, args ...string) {
		t.Helper()
		a := try(t, in, append([]string{"job"}, args...)...)
		require.Equal(t, code, a.code, a.err)
		require.Regexp(t, out, a.out)
	}
	does(exitOK, "", job("sleep, '60'"), "submit", "-")
	shows(t, "2 running, 2 ready", "job", "get", "web")
	does(exitOK, "^job web: succeeded, 2 of 2 done, version 1 to 2\n$", job("sleep, '61'"), "update", "-", "--wait")
	does(exitJobFailed, "^job web: rolled_back, .* version 3 to 4: TOO_MANY_FAILED .*\n$", job("/none"), "update", "-", "--wait")
	does(exitOK, "^job web: rolled_back, 2 of 2 done, version 4 to 5: REQUESTED back to version 1\n$", "", "rollback", "web", "--to-version", "1", "--wait")
	does(exitOK, "^job web: succeeded, 2 of 2 done, restart of version 5", "", "restart", "web", "--rolling", "--wait")
	does(exitOK, "^job web has version 6, update succeeded", strings.Replace(job("sleep, '60'"), "instances: 2", "instances: 3", 1), "update", "-", "--wait")
	does(exitOK, "start_paused", strings.Replace(job("sleep, '62'"), "max_attempts", "start_paused: true, max_attempts", 1), "update", "-", "-o", "json")
	shows(t, "update: +paused", "job", "get", "web")
	does(exitOK, "^job web: succeeded, 2 of 2 done, version 6 to 7\n$", "", "resume", "web", "--wait")
	require.Zero(t, finish())
}
