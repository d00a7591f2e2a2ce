//go:build linux

package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// driverVariable makes the test binary a process with a driver over a folder, for the tests to kill.
const driverVariable = "SLUICE_LOCAL_TEST_DRIVER"

// crashPlan is what such a process does: launch all, kill some, wait for all ends, write the statuses down.
type crashPlan struct {
	Starts   string // file in which each run notes its start
	Runs     int    // that take a few milliseconds and succeed
	Served   int    // that run until they are killed
	Slow     bool   // the last one that succeeds takes so long that a driver is there when it ends, whenever others died
	Statuses []hostmgr.Status
}

func (p *crashPlan) run(i int) cluster.RunID {
	return cluster.RunID{Task: cluster.MakeTaskKey(7, uint32(i)), Run: 1}
}

// driverProcess repeats the plan from the beginning, whatever an earlier one has done of it.
func driverProcess(dir string) int {
	if err := carryOut(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func carryOut(dir string) error {
	plan, err := readRecord[crashPlan](dir, "plan")
	if err != nil {
		return err
	}
	d, err := New(Config{Dir: filepath.Join(dir, "state"), Hosts: 2})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := d.Start(ctx, drivertest.NewRecorder()); err != nil {
		return err
	}
	for _, s := range d.Inventory() {
		d.(*driver).Durable(s)
	}
	for i := range plan.Runs + plan.Served {
		text := fmt.Sprintf("sleep 0.0%d", 2+i%5)
		switch {
		case i >= plan.Runs:
			text = "sleep 1000"
		case plan.Slow && i == plan.Runs-1:
			text = "sleep 1"
		}
		launch := hostmgr.Launch{Run: plan.run(i), Host: fmt.Sprintf("h%d", i%2), Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: script(plan.Starts, text)}}}}
		if err := d.Launch(ctx, launch); err != nil {
			return err
		}
		if i >= plan.Runs {
			if err := d.Kill(ctx, plan.run(i), 0); err != nil {
				return err
			}
		}
	}
	for waiting := true; waiting; time.Sleep(time.Millisecond) {
		waiting = false
		plan.Statuses = d.Inventory()
		for _, s := range plan.Statuses {
			waiting = waiting || !s.State.Terminal()
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	return writeRecord(dir, "result", plan, unsynced)
}

// crashTest is a folder for driver processes.
type crashTest struct {
	*testing.T
	dir, state string
	plan       crashPlan
}

func newCrashTest(t *testing.T, plan crashPlan) *crashTest {
	dir := t.TempDir()
	c := &crashTest{T: t, dir: dir, state: filepath.Join(dir, "state"), plan: plan}
	c.plan.Starts = filepath.Join(dir, "starts")
	require.NoError(t, writeRecord(dir, "plan", c.plan, unsynced))
	return c
}

// command returns a process with a driver. It is killed at the end of the test if it still exists.
func (c *crashTest) command() *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), driverVariable+"="+c.dir)
	return cmd
}

// process starts a process with a driver.
func (c *crashTest) process() *exec.Cmd {
	cmd := c.command()
	cmd.Stderr = os.Stderr
	require.NoError(c, cmd.Start())
	return cmd
}

// finish lets drivers work until one comes to the end, and returns the statuses by instance.
func (c *crashTest) finish() []hostmgr.Status {
	for range 5 {
		err := c.process().Wait()
		if err == nil {
			break
		}
		require.Contains(c, err.Error(), "killed", "a driver failed instead of being killed")
	}
	result, err := readRecord[crashPlan](c.dir, "result")
	require.NoError(c, err)
	require.NotNil(c, result, "the drivers never came to the end")
	require.Len(c, result.Statuses, c.plan.Runs+c.plan.Served, "a run was lost")
	return result.Statuses
}

// check compares the end of all runs with their starts, and allows so many to be LOST.
func (c *crashTest) check(statuses []hostmgr.Status, lost int) {
	for i, s := range statuses {
		require.Equal(c, c.plan.run(i), s.Run)
		starts := countLines(c.T, c.plan.Starts, s.Run.String())
		switch {
		case s.State == cluster.TaskLost:
			lost--
			require.LessOrEqual(c, starts, 1)
			require.Equal(c, cluster.ReasonSupervisorLost, s.Reason)
		case i < c.plan.Runs:
			require.Equal(c, cluster.TaskSucceeded, s.State, "%+v", s)
			require.Equal(c, 1, starts, "%+v", s)
		default:
			require.Equal(c, cluster.TaskKilled, s.State, "%+v", s)
			require.LessOrEqual(c, starts, 1)
		}
	}
	require.Zero(c, lost, "%+v", statuses)
	// A supervisor that has recorded the end may still be on its way out.
	require.Eventually(c, func() bool { return len(marked(c.T, c.state)) == 0 }, time.Minute, 5*time.Millisecond, "processes are left behind")
}

// marked returns the processes that belong to the runs of a state folder.
func marked(t *testing.T, state string) (pids []int) {
	t.Helper()
	all, err := processes()
	require.NoError(t, err)
	for _, p := range all {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && !p.ended && strings.Contains(string(env), runDirVariable+"="+state) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func TestCrashPoints(t *testing.T) {
	cases := []struct {
		points []string
		served int // one that is killed would come to some of the points in another way
		lost   int
	}{
		{[]string{"driver after mkdir"}, 0, 0},
		{[]string{"driver after launch record"}, 0, 0},
		{[]string{"driver after intent"}, 0, 0},
		{[]string{"driver before report LAUNCHING"}, 0, 0},
		{[]string{"driver after spawn"}, 0, 0},
		{[]string{"driver before report RUNNING"}, 0, 0},
		{[]string{"driver before report SUCCEEDED"}, 0, 0},
		{[]string{"driver after kill record"}, 1, 0},
		{[]string{"driver before report KILLED"}, 1, 0},
		{[]string{"supervisor before start"}, 0, 0},
		{[]string{"supervisor after start"}, 0, 1},
		{[]string{"supervisor after fork"}, 0, 1},
		{[]string{"supervisor after pid record"}, 0, 1},
		{[]string{"supervisor before exit record"}, 0, 1},
		{[]string{"supervisor after exit record"}, 0, 0},
		{[]string{"supervisor after fork", "driver before settle"}, 0, 1},
		{[]string{"supervisor after fork", "driver before settled"}, 0, 1},
		{[]string{"supervisor after fork", "driver before report LOST"}, 0, 1},
		{[]string{"driver after intent", "driver after spawn", "supervisor before start"}, 0, 0},
		{[]string{"driver after spawn", "supervisor after start", "driver before report SUCCEEDED"}, 0, 1},
	}
	tasks := 4
	if testing.Short() {
		tasks = 2
	}
	for _, c := range cases {
		t.Run(strings.Join(c.points, ", "), func(t *testing.T) {
			ct := newCrashTest(t, crashPlan{Runs: tasks, Served: c.served, Slow: slices.Contains(c.points, "driver before report SUCCEEDED")})
			for _, p := range c.points {
				armCrash(t, ct.state, p)
			}
			ct.check(ct.finish(), c.lost)
			for _, p := range c.points {
				require.NoFileExists(t, crashFile(ct.state, p), "the crash did not happen")
			}
		})
	}
}

// TestKillDriver kills drivers at seeded moments. Supervisors are never killed, so nothing may be LOST.
func TestKillDriver(t *testing.T) {
	kills, seed := 20, uint64(1)
	if testing.Short() {
		kills = 5
	}
	c := newCrashTest(t, crashPlan{Runs: 60, Served: 6})
	rng := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for range kills {
		cmd := c.process()
		time.Sleep(time.Duration(5+rng.IntN(120)) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		if cmd.Wait() != nil {
			killed++
		}
	}
	require.Positive(t, killed, "every driver was done before it was killed")
	c.check(c.finish(), 0)
}
