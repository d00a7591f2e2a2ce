//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What its check finds dead is ended and runs again as its policy says: a service always, batch work as often as it may fail.
func TestTheUnhealthyRunAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	job := func(name, more, sick string) string {
		return fmt.Sprintf(`
name: %s
%s
kill_grace: 1s
task:
  processes:
    - shell: 'if %s; then touch %s/sick-%s; else rm -f %[4]s/sick-%[5]s; fi; exec sleep 1000'
      health_checks: [{command: [sh, -c, 'test ! -e %[4]s/sick-%[5]s'], effect: liveness, interval: 200ms, timeout: 1s, failure_threshold: 2}]
  resources: {cpu: 100m, memory: 1Mi}
`, name, more, sick, s.dir, name)
	}
	s.must("job", "submit", s.file("jobs.yaml",
		job("web", "type: stateless\nrestart: {backoff_initial: 100ms, backoff_max: 200ms}", "[ $SLUICE_RUN = 1 ]")+"---"+
			job("sum", "restart: {max_failures: 1, backoff_initial: 100ms, backoff_max: 200ms}", "true")))
	eventually(t, func() bool {
		task := get[taskList](s, "task", "list", "web").Tasks[0]
		return task.Run == 2 && task.State == "TASK_STATE_RUNNING"
	}, "the service runs again")
	require.Equal(t, 4, s.try("job", "wait", "sum").code)
	task := get[taskList](s, "task", "list", "sum").Tasks[0]
	require.Equal(t, 2, task.Run)
	require.Equal(t, "TASK_STATE_FAILED", task.State)
	require.Contains(t, s.must("task", "explain", "sum/0"), "UNHEALTHY")
	require.Equal(t, 2, get[taskList](s, "task", "list", "web").Tasks[0].Run, "who is well is left alone")
	dev.finish()
}

// Output that is many times what is kept of it can be followed from its first line to its last, in order; afterwards what is
// left of it is the end.
func TestLogsAreFollowedOverRotation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	const last = 4000
	s.must("job", "submit", s.file("job.yaml", fmt.Sprintf(`
name: talk
task:
  processes: [{shell: 'until [ -e %s/go ]; do sleep 0.05; done; i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "$i and so on, for as long as it takes"; [ $((i %% 50)) != 0 ] || sleep 0.05; done'}]
  resources: {cpu: 100m, memory: 1Mi}
  log_limit: 16Ki
`, s.dir, last)))
	eventually(t, func() bool { return s.states("talk")["TASK_STATE_RUNNING"] == 1 }, "it runs")
	follow := s.start("task", "logs", "-f", "talk/0")
	s.file("go", "")
	require.Zero(t, follow.wait(), follow.output())
	numbers := func(text string) (all []int) {
		for line := range strings.Lines(text) {
			n, err := strconv.Atoi(strings.Fields(line)[0])
			require.NoError(t, err, "%q", line)
			all = append(all, n)
		}
		return all
	}
	followed := numbers(follow.output())
	require.Len(t, followed, last, "nothing is lost, and nothing comes twice")
	for i, n := range followed {
		require.Equal(t, i+1, n)
	}
	s.must("job", "wait", "talk")
	left := numbers(s.must("task", "logs", "talk/0"))
	require.Equal(t, last, left[len(left)-1])
	require.Less(t, len(left), last/4, "what is kept is bounded")
	require.Equal(t, left[len(left)-3:], numbers(s.must("task", "logs", "talk/0", "--tail", "3")))
	dev.finish()
}
