//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// states counts the tasks of a job by state.
func (s *site) states(job string) map[string]int {
	count := map[string]int{}
	for _, t := range get[taskList](s, "task", "list", job).Tasks {
		count[t.State]++
	}
	return count
}

func (s *site) pool(path string, cpu int) {
	s.must("pool", "create", "--file", s.file("pool.yaml", fmt.Sprintf(`
path: %s
resources: [{dimension: cpu_milli, reservation: %d}]
`, path, cpu)))
}

func (s *site) submit(name, spec string) {
	s.must("job", "submit", s.file(name+".yaml", "name: "+name+"\n"+spec))
}

// Demand inside a reservation gets its room when those who borrowed it have had their grace: they save their work first, are
// told why, and wait again; and nobody starts before they are gone.
func TestAReservationIsTakenBackWithGrace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	s.pool("root/a", 2000)
	s.pool("root/b", 2000)
	begun := filepath.Join(s.dir, "begun")
	s.submit("lender", fmt.Sprintf(`
pool: root/b
instances: 4
preemption:
  grace: 60s
  on_preempt: [sh, -c, 'echo "$SLUICE_STOP_REASON" > %[1]s/saved-$SLUICE_INSTANCE']
task:
  processes:
    - shell: trap 'while [ ! -e %[1]s/go ]; do sleep 0.05; done; exit 0' TERM; while :; do sleep 0.05; done
  resources: {cpu: 1, memory: 16Mi}
`, s.dir))
	eventually(t, func() bool { return s.states("lender")["TASK_STATE_RUNNING"] == 4 }, "four borrow")
	s.submit("owner", fmt.Sprintf(`
pool: root/a
instances: 2
task:
  processes: [{shell: 'echo started >> %s; sleep 1000'}]
  resources: {cpu: 1, memory: 16Mi}
`, begun))
	saved := func() []string {
		files, err := filepath.Glob(filepath.Join(s.dir, "saved-*"))
		require.NoError(t, err)
		return files
	}
	eventually(t, func() bool { return len(saved()) == 2 }, "two save their work")
	require.Equal(t, map[string]int{"TASK_STATE_RUNNING": 2, "TASK_STATE_PREEMPTING": 2}, s.states("lender"))
	require.Equal(t, map[string]int{"TASK_STATE_RESERVED": 2}, s.states("owner"))
	time.Sleep(300 * time.Millisecond)
	require.Empty(t, lines(t, begun), "their room is not free before they are gone")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	eventually(t, func() bool { return len(lines(t, begun)) == 2 }, "the owner has his room")
	require.Equal(t, map[string]int{"TASK_STATE_RUNNING": 2, "TASK_STATE_PENDING": 2}, s.states("lender"))
	for _, f := range saved() {
		require.Equal(t, []string{"PREEMPTED"}, lines(t, f))
	}
	dev.finish()
}

// One pool asks for far more than there is; what another has reserved is its own within one cycle all the same.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	s.pool("root/a", 1000)
	s.pool("root/b", 0)
	const job = `
pool: %s
instances: %d
task:
  processes: [{argv: [sleep, "1000"]}]
  resources: {cpu: 0.1, memory: 1Mi}
`
	s.submit("flood", fmt.Sprintf(job, "root/b", 100_000))
	eventually(t, func() bool { return s.states("flood")["TASK_STATE_RUNNING"] >= 30 }, "the flood has the host")
	s.submit("owner", fmt.Sprintf(job, "root/a", 10))
	var first map[string]int // as they are when they do not all wait any more
	eventually(t, func() bool { first = s.states("owner"); return first["TASK_STATE_PENDING"] < 10 }, "room is made")
	require.Zero(t, first["TASK_STATE_PENDING"], "%v: one cycle decides about all ten", first)
	eventually(t, func() bool { return s.states("owner")["TASK_STATE_RUNNING"] == 10 }, "the ten run")
	require.Positive(t, s.states("flood")["TASK_STATE_RUNNING"])
	dev.finish()
}

// A revocable task starts on what another one leaves unused of the only CPU, and goes when that one uses it.
func TestRevocableTasksRunOnWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	settings := s.file("settings.yaml", `
local: {usage_interval: 200ms}
scheduler: {slack_window: 2s}
`)
	dev := s.dev("--config", settings, "--hosts", "1", "--host-cpu", "1", "--host-memory", "256Mi")
	s.submit("regular", fmt.Sprintf(`
task:
  processes: [{shell: 'while [ ! -e %s/burn ]; do sleep 0.2; done; while :; do :; done'}]
  resources: {cpu: 1, memory: 224Mi}
`, s.dir))
	eventually(t, func() bool { return s.states("regular")["TASK_STATE_RUNNING"] == 1 }, "it runs")
	s.submit("spare", `
revocable: true
task:
  processes: [{shell: sleep 1000}]
  resources: {cpu: 800m, memory: 32Mi}
`)
	eventually(t, func() bool { return s.states("spare")["TASK_STATE_RUNNING"] == 1 }, "it is found out that the other one idles")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "burn"), nil, 0o600))
	eventually(t, func() bool { return s.states("spare")["TASK_STATE_PENDING"] == 1 }, "it leaves")
	require.Equal(t, map[string]int{"TASK_STATE_RUNNING": 1}, s.states("regular"))
	require.Equal(t, 1, get[taskList](s, "task", "list", "spare").Tasks[0].Run)
	dev.finish()
}

// With the window at 0 nothing is lent, and who asks for it is told.
func TestNothingIsLentWhereThatIsOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--config", s.file("settings.yaml", "scheduler: {slack_window: 0s}\n"), "--hosts", "1")
	a := s.try("job", "submit", s.file("job.yaml", `
name: spare
revocable: true
task: {processes: [{argv: ["true"]}], resources: {cpu: 100m, memory: 1Mi}}
`))
	require.NotZero(t, a.code)
	require.Contains(t, a.err, "scheduler.slack_window is 0")
	dev.finish()
}

// Jobs that name no pool go where the first rule that fits leads them, or nowhere; without rules to the default pool.
func TestTheQueueMappingLeadsJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	s.pool("root/gpu", 0)
	job := func(name, labels string) string {
		return s.file(name+".yaml", fmt.Sprintf(
			"name: %s\nlabels: {%s}\ntask: {processes: [{argv: [\"true\"]}], resources: {cpu: 100m, memory: 1Mi}}\n", name, labels))
	}
	in := func(name string) string {
		return get[struct{ Spec struct{ Pool string } }](s, "job", "get", name).Spec.Pool
	}
	s.must("job", "submit", job("before", `kind: gpu`))
	require.Equal(t, "root/default", in("before"))
	s.must("pool", "mapping", "set", "--file", s.file("rules.yaml", `
rules:
- {labels: {kind: none}, reject: true}
- {labels: {kind: gpu}, pool: root/gpu}
- {pool: root/default}
`))
	s.must("job", "submit", job("mapped", `kind: gpu`))
	require.Equal(t, "root/gpu", in("mapped"))
	s.must("job", "submit", job("other", `kind: cpu`))
	require.Equal(t, "root/default", in("other"))
	require.NotZero(t, s.try("job", "submit", job("refused", `kind: none`)).code)
	dev.finish()
}

// Above the limit on running jobs a job waits, above that on pending ones it is refused.
func TestLimitsOnJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.dev("--hosts", "1")
	s.must("pool", "create", "--file", s.file("pool.yaml", `
path: root/small
limits: {max_running_jobs: 1, max_pending_jobs_per_user: 1}
`))
	job := func(name string) string {
		return s.file(name+".yaml", fmt.Sprintf(
			"name: %s\nowner: ann\npool: root/small\ntask: {processes: [{argv: [sleep, \"1000\"]}], resources: {cpu: 100m, memory: 1Mi}}\n", name))
	}
	s.must("job", "submit", job("first"))
	eventually(t, func() bool { return s.states("first")["TASK_STATE_RUNNING"] == 1 }, "the first runs")
	s.must("job", "submit", job("second"))
	a := s.try("job", "submit", job("third"))
	require.NotZero(t, a.code)
	require.Contains(t, a.err, "root/small")
	require.Equal(t, map[string]int{"TASK_STATE_PENDING": 1}, s.states("second"))
	s.must("job", "delete", "first", "--stop")
	eventually(t, func() bool { return s.states("second")["TASK_STATE_RUNNING"] == 1 }, "the second follows")
	dev.finish()
}

// Controllers of a pool get no more than their part of its reservation, so that they leave it room for what they start: one
// more waits, and is told why, while other jobs of the pool run. Without the limit it runs at once.
func TestControllersLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, percent := range []int{50, 100} {
		s := newSite(t)
		dev := s.dev("--hosts", "1", "--host-cpu", "1")
		s.must("pool", "create", "--file", s.file("pool.yaml", fmt.Sprintf(`
path: root/flows
resources: [{dimension: cpu_milli, reservation: 800}]
limits: {controller_percent: %d}
`, percent)))
		job := func(name, more string) {
			s.submit(name, more+"pool: root/flows\ntask: {processes: [{argv: [sleep, \"1000\"]}], resources: {cpu: 200m, memory: 16Mi}}\n")
		}
		runs := func(name string) func() bool {
			return func() bool { return s.states(name)["TASK_STATE_RUNNING"] == 1 }
		}
		for _, name := range []string{"first", "second"} {
			job(name, "controller: {}\n")
			eventually(t, runs(name), "%s has its part", name)
		}
		job("third", "controller: {}\n")
		job("worker", "")
		eventually(t, runs("worker"), "what is no controller is not bounded")
		if percent == 100 {
			eventually(t, runs("third"), "nothing keeps it")
		} else {
			require.Equal(t, map[string]int{"TASK_STATE_PENDING": 1}, s.states("third"))
			said := s.must("task", "explain", "third/0")
			require.Contains(t, said, "pool root/flows lets no more in: controller limit of cpu_milli")
			require.Contains(t, said, "would help: another controller of pool root/flows ends, or controllers of pool root/flows may have 200 more of its cpu_milli (limits.controller_percent)\n")
			s.must("job", "delete", "first", "--stop")
			eventually(t, runs("third"), "it has the part of the one that ended")
		}
		dev.finish()
	}
}
