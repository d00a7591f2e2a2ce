package mesos

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// TestOffersOfAnAcceptThatFailed: whether it arrived or not, no offer stays out for ever, the launch is given back if it
// did not arrive, and nothing runs twice.
func TestOffersOfAnAcceptThatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		faults mesostest.Faults
		state  cluster.TaskState
		starts int
	}{
		"refused":          {mesostest.Faults{RefuseCalls: 1, Accepting: true}, cluster.TaskFailed, 0},
		"lost on its way":  {mesostest.Faults{LoseCalls: 1, Accepting: true}, cluster.TaskFailed, 0},
		"its answer lost":  {mesostest.Faults{LoseAnswers: 1, Accepting: true}, cluster.TaskRunning, 1},
		"offers rescinded": {mesostest.Faults{RescindAccepts: 1}, cluster.TaskFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{}, 1)
				d, _ := w.drive(t, nil)
				before := w.Offers()
				require.Len(t, before, 1)
				w.SetFaults(c.faults)
				require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
				time.Sleep(time.Minute)
				got := d.Inventory()[0]
				require.Equal(t, c.state, got.State, got.Message)
				if c.state == cluster.TaskFailed {
					require.Equal(t, cluster.ReasonLaunchRefused, got.Reason)
				}
				require.Equal(t, c.starts, w.starts(runID(0)))
				after := w.Offers()
				require.Len(t, after, 1)
				require.NotEqual(t, before[0].ID, after[0].ID)
			})
		})
	}
}

// withRevocable adds resources that may be taken back to an agent.
func withRevocable(spec mesostest.AgentSpec) mesostest.AgentSpec {
	for name, amount := range map[string]float64{"cpus": 2, "mem": 1024, "disk": 1000} {
		r := mesostest.Scalar(name, amount)
		r.Revocable = new(api.Resource_RevocableInfo)
		spec.Resources = append(spec.Resources, r)
	}
	return spec
}

// TestSeveralProcesses start, whatever disk they ask for, though a master takes no executor without some.
func TestSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		w.AddAgent(withRevocable(agentSpec(0)))
		d, recorder := w.drive(t, func(c *Config) { c.Revocable = true })
		before := hosted(t, recorder)
		for n, disk := range []int64{0, 1 << 20, 100 << 20, 0, 100 << 20} {
			l := launchOf(n, "h0", "serve")
			l.Task.Processes = append(l.Task.Processes, l.Task.Processes[0])
			l.Task.Processes[0].Name, l.Task.Processes[1].Name = "a", "b"
			l.Task.Resources.Fixed[cluster.Disk], l.Revocable = disk, n >= 3
			if disk > 0 {
				asked := cluster.Request{Resources: cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 10, cluster.Memory: 1 << 20, cluster.Disk: disk})}
				l.Task.Processes[1].Request = &asked
			}
			require.NoError(t, d.Launch(t.Context(), l))
			time.Sleep(time.Second)
			require.Equal(t, cluster.TaskRunning, d.Inventory()[n].State, d.Inventory()[n].Message)
		}
		require.Equal(t, before.Capacity, hosted(t, recorder).Capacity)
		require.Equal(t, before.Revocable, hosted(t, recorder).Revocable)
		require.NoError(t, d.Close())
		_, recorder = w.drive(t, func(c *Config) { c.Revocable = true })
		time.Sleep(time.Minute)
		require.Equal(t, before.Capacity, hosted(t, recorder).Capacity, "found again")
	})
}

// TestSeveralProcessesWithoutDisk for their executor are given back with the reason, which nobody sees in what they ask for. Agents that
// never had so much get none.
func TestSeveralProcessesWithoutDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		w.AddAgent(agentWithDisk(0, 31))
		w.AddAgent(agentWithDisk(1, 32))
		d, recorder := w.drive(t, nil)
		hosts := recorder.Hosts()
		require.Len(t, hosts, 2)
		require.Zero(t, hosts[0].Capabilities&cluster.CanGroups)
		require.NotZero(t, hosts[1].Capabilities&cluster.CanGroups)
		l := launchOf(0, "h0")
		l.Task.Processes = []cluster.Process{{Name: "a", Command: []string{"serve"}}, {Name: "b", Command: []string{"serve"}}}
		err := d.Launch(t.Context(), l)
		require.ErrorIs(t, err, hostmgr.ErrRefused)
		require.ErrorContains(t, err, "hold no 32 MiB of disk beside what it asks for, which the executor of several processes takes")
	})
}

// TestWhereTheOutputOfAProcessIs: in the sandbox of a Mesos task that there is.
func TestWhereTheOutputOfAProcessIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, nil)
		l := launchOf(1, "h0", "serve")
		l.Task.Processes = append(l.Task.Processes, l.Task.Processes[0])
		l.Task.Processes[0].Name, l.Task.Processes[1].Name, l.Task.Processes[1].Main = "a", "b", true
		require.NoError(t, d.Launch(t.Context(), l))
		require.NoError(t, d.Launch(t.Context(), launchOf(2, "h0", "serve")))
		becomes(t, d, l.Run, cluster.TaskRunning)
		becomes(t, d, runID(2), cluster.TaskRunning)
		ids := map[string]bool{}
		for _, r := range w.Runs() {
			ids[r.TaskID] = true
		}
		for task, of := range map[string]hostmgr.LogRequest{
			"7.1.1_0": {Run: l.Run, Process: "a"}, "7.1.1_1": {Run: l.Run}, "7.2.1": {Run: runID(2)},
		} {
			_, err := d.OpenLog(t.Context(), of)
			require.ErrorContains(t, err, "in the sandbox of task "+task+" on agent")
			require.True(t, ids[task], "Mesos has such a task")
		}
		_, err := d.OpenLog(t.Context(), hostmgr.LogRequest{Run: l.Run, Process: "c"})
		require.ErrorIs(t, err, hostmgr.ErrUnknownProcess)
	})
}

// TestTheOthersEndWithTheMainProcess, also where the first KILL for them gets nowhere, and where another driver has to repeat it.
func TestTheOthersEndWithTheMainProcess(t *testing.T) {
	for name, restart := range map[string]bool{"one driver": false, "another driver": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{}, 1)
				d, _ := w.drive(t, nil)
				l := launchOf(0, "h0")
				l.Task.Processes = []cluster.Process{
					{Name: "main", Main: true, Command: []string{"second"}}, {Name: "side", Command: []string{"serve"}},
				}
				require.NoError(t, d.Launch(t.Context(), l))
				becomes(t, d, runID(0), cluster.TaskRunning)
				w.SetFaults(mesostest.Faults{LoseCalls: 1 << 20})
				time.Sleep(10 * time.Second)
				if restart {
					require.NoError(t, d.Close())
				}
				w.SetFaults(mesostest.Faults{})
				if restart {
					d, _ = w.drive(t, nil)
				}
				time.Sleep(time.Minute)
				got := d.Inventory()[0]
				require.Equal(t, cluster.TaskSucceeded, got.State, got.Message)
			})
		})
	}
}

// TestWhichOfSeveralHasFailed is told, be it by a signal as those that end after it.
func TestWhichOfSeveralHasFailed(t *testing.T) {
	for command, want := range map[string]ending{"fail": {ExitCode: 3}, "crash": {ExitCode: -1, Signal: 9}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 1)
			d, _ := w.drive(t, nil)
			l := launchOf(0, "h0")
			l.Task.Processes = []cluster.Process{{Name: "a", Main: true, Command: []string{"serve"}}, {Name: "b", Command: []string{command}}}
			require.NoError(t, d.Launch(t.Context(), l))
			end := becomes(t, d, l.Run, cluster.TaskFailed)
			require.Equal(t, want, ending{ExitCode: end.ExitCode, Signal: end.Signal}, "%+v", end)
			require.Regexp(t, `^process "b": TASK_FAILED `, end.Message)
		})
	}
}

// TestWhichOfSeveralIsUnhealthy is told: the executor calls all of them so that end after it.
func TestWhichOfSeveralIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Behave: func(info api.TaskInfo) mesostest.Behaviour {
			b := mesostest.Behaviour{Runs: mesostest.Forever, TermTakes: time.Second}
			if info.Command.GetValue() == "sick" {
				b.Checks = []mesostest.CheckResult{{After: time.Second, Healthy: new(bool), Kill: true}}
			}
			return b
		}}, 1)
		d, _ := w.drive(t, nil)
		l := launchOf(0, "h0")
		l.Task.Processes = []cluster.Process{{Name: "main", Main: true, Command: []string{"serve"}}, {Name: "side", Command: []string{"sick"}}}
		require.NoError(t, d.Launch(t.Context(), l))
		end := becomes(t, d, l.Run, cluster.TaskFailed)
		require.Equal(t, cluster.ReasonUnhealthy, end.Reason, "%+v", end)
		require.Regexp(t, `^process "side": TASK_KILLED `, end.Message)
	})
}

// TestOneOfSeveralThatCannotBeStarted has failed to start: its executor has said that it is starting, and does not say why it is not.
func TestOneOfSeveralThatCannotBeStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, nil)
		l := launchOf(0, "h0")
		l.Task.Processes = []cluster.Process{{Name: "a", Command: []string{"serve"}}, {Name: "b", Command: []string{"missing"}}}
		require.NoError(t, d.Launch(t.Context(), l))
		end := becomes(t, d, l.Run, cluster.TaskFailed)
		require.Equal(t, cluster.ReasonLaunchFailed, end.Reason, "%+v", end)
	})
}

// TestAFailureGoesBeforeALaunchThatIsGivenBack: of two processes one may fail before the agent has begun with the other, and tell of it later.
func TestAFailureGoesBeforeALaunchThatIsGivenBack(t *testing.T) {
	given, failed := ending{State: cluster.TaskFailed, ExitCode: -1, Reason: cluster.ReasonLaunchRefused}, ending{Member: 1, State: cluster.TaskFailed, ExitCode: 3, Reason: cluster.ReasonExited}
	require.Equal(t, failed, combined([]ending{given, failed}, nil, false))
	stopped := ending{Member: 1, State: cluster.TaskFailed, ExitCode: -1, Signal: 15, Reason: cluster.ReasonSignaled, Told: true}
	require.Equal(t, given, combined([]ending{given, stopped}, nil, false))
}

// TestTheProgramOfATask, or of a check, may be told by variables, as its arguments. Docker's executor adds those to it.
func TestTheProgramOfATask(t *testing.T) {
	for runtime, arguments := range map[cluster.ContainerRuntime][]string{
		cluster.MesosRuntime: {"/opt/h0/run", "--of", "job"}, cluster.DockerRuntime: {"--of", "job"},
	} {
		l := launchOf(0, "h0", "/opt/${SLUICE_HOST}/run", "--of", "${SLUICE_JOB}")
		l.Task.Processes[0].Container = &cluster.Container{Runtime: runtime, Image: "i"}
		c := command(&l, &l.Task.Processes[0], "10.0.0.7")
		require.Equal(t, "/opt/h0/run", c.GetValue())
		require.Equal(t, arguments, c.Arguments)
		check := &cluster.HealthCheck{Command: l.Task.Processes[0].Command}
		c = liveness(&l, &l.Task.Processes[0], check, "10.0.0.7").Command
		require.Equal(t, "/opt/h0/run", c.GetValue())
		require.Equal(t, arguments, c.Arguments, "of a check")
	}
}

// TestTheGraceOfATask is no shorter than that of its preemption where the executor would pass over that.
func TestTheGraceOfATask(t *testing.T) {
	of := func(runtime cluster.ContainerRuntime, processes int, preemption time.Duration) time.Duration {
		l := launchOf(0, "h0")
		l.Task.KillGrace, l.PreemptionGrace = 10*time.Second, preemption
		l.Task.Processes = make([]cluster.Process, processes)
		l.Task.Processes[0].Container = &cluster.Container{Runtime: runtime, Image: "i"}
		return grace(&l)
	}
	require.Equal(t, 10*time.Second, of(cluster.MesosRuntime, 1, 0))
	require.Equal(t, 10*time.Second, of(cluster.MesosRuntime, 1, time.Second))
	require.Equal(t, time.Minute, of(cluster.MesosRuntime, 1, time.Minute))
	require.Equal(t, 10*time.Second, of(cluster.MesosRuntime, 2, time.Minute), "of several processes")
	require.Equal(t, 10*time.Second, of(cluster.DockerRuntime, 1, time.Minute), "with Docker")
}

// TestATaskThatOutlivesItsGrace is ended with its executor: that goes by another one.
func TestATaskThatOutlivesItsGrace(t *testing.T) {
	for _, processes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 1)
			d, _ := w.drive(t, nil)
			l := launchOf(0, "h0")
			l.Task.KillGrace = time.Hour
			l.Task.Processes = make([]cluster.Process, processes)
			for i := range l.Task.Processes {
				l.Task.Processes[i] = cluster.Process{Name: fmt.Sprint(i), Command: []string{"stubborn"}}
			}
			require.NoError(t, d.Launch(t.Context(), l))
			becomes(t, d, l.Run, cluster.TaskRunning)
			require.NoError(t, d.Kill(t.Context(), l.Run, 10*time.Minute))
			time.Sleep(9 * time.Minute)
			require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
			require.NoError(t, d.Kill(t.Context(), l.Run, 5*time.Minute), "from now on")
			endsAfter(t, d, 5*time.Minute)
		})
	}
}

// TestATaskThatIsToldLateToEnd is so as soon as its agent is back, and has its grace from then on.
func TestATaskThatIsToldLateToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
		d, _ := w.drive(t, nil)
		l := launchOf(0, "h0", "stubborn")
		l.Task.KillGrace = 10 * time.Minute
		require.NoError(t, d.Launch(t.Context(), l))
		becomes(t, d, l.Run, cluster.TaskRunning)
		w.CutAgent("h0")
		require.NoError(t, d.Kill(t.Context(), l.Run, l.Task.KillGrace))
		time.Sleep(15 * time.Minute)
		w.ReturnAgent("h0")
		endsAfter(t, d, 10*time.Minute)
	})
}

// endsAfter waits for the driver's only run, which is killed after a time, to a minute.
func endsAfter(t *testing.T, d hostmgr.Driver, took time.Duration) {
	t.Helper()
	time.Sleep(took - time.Minute)
	require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
	time.Sleep(2 * time.Minute)
	require.Equal(t, cluster.TaskKilled, d.Inventory()[0].State, d.Inventory()[0].Message)
}

// TestATaskWhoseFirstProcessHasEnded runs as soon as the others do, also for a driver that did not see the first one.
func TestATaskWhoseFirstProcessHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Behave: func(info api.TaskInfo) mesostest.Behaviour {
			b := behave(info)
			if info.Command.GetValue() == "serve" {
				b.Startup = time.Minute
			}
			return b
		}}, 1)
		d, _ := w.drive(t, nil)
		l := launchOf(0, "h0")
		l.Task.Processes = []cluster.Process{{Name: "first", Command: []string{"second"}}, {Name: "other", Command: []string{"serve"}}}
		require.NoError(t, d.Launch(t.Context(), l))
		time.Sleep(30 * time.Second)
		require.NoError(t, d.Close())
		d, _ = w.drive(t, nil)
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
	})
}

// TestTheEndOfOneOfSeveral is on disk before Mesos is told that it may forget it: another driver would ask in vain, and give the run up.
func TestTheEndOfOneOfSeveral(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	d, _ := w.drive(t, nil)
	l := launchOf(0, "h0")
	l.Task.Processes = []cluster.Process{{Name: "first", Command: []string{"serve"}}, {Name: "other", Command: []string{"serve"}}}
	require.NoError(t, d.Launch(t.Context(), l))
	becomes(t, d, runID(0), cluster.TaskRunning)
	d.comesTo(t, func() bool { return d.runs[runID(0)].durable && len(d.toWrite) == 0 })
	state := api.TASK_FINISHED
	d.mu.Lock() // so that nothing is written
	d.update(d.session, &api.TaskStatus{
		TaskID: api.TaskID{Value: taskID(runID(0), 0, 2)}, AgentID: &api.AgentID{Value: w.AgentID("h0")},
		State: &state, UUID: []byte("0123456789abcdef"),
	}, time.Now())
	waits := slices.Clone(d.toWrite)
	d.mu.Unlock()
	require.Len(t, waits, 2)
	require.Len(t, waits[0].run.Ended, 1)
	require.Len(t, waits[1].then, 1)
}

// TestVolumesOfRevocableTasks start, of one process and of several, whose executor has disk that is not taken back.
func TestVolumesOfRevocableTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		w.AddAgent(withRevocable(agentSpec(0)))
		d, _ := w.drive(t, func(c *Config) { withRole(c); c.Revocable = true })
		for n := range 2 {
			l := storing(n, "v-{instance}", "serve")
			l.Revocable = true
			if n == 1 {
				l.Task.Processes = append(l.Task.Processes, l.Task.Processes[0])
				l.Task.Processes[0].Name, l.Task.Processes[1].Name = "a", "b"
			}
			require.NoError(t, d.Launch(t.Context(), l))
			time.Sleep(time.Second)
			require.Equal(t, cluster.TaskRunning, d.Inventory()[n].State, d.Inventory()[n].Message)
			l.Run.Run++
			l.Task.Resources.Fixed[cluster.Disk] = 1 << 20
			require.ErrorContains(t, d.Launch(t.Context(), l), "ask for no disk")
		}
	})
}

// TestAVolumeAtTwoPaths is refused before it is made twice, which a master does not do.
func TestAVolumeAtTwoPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, withRole)
		l := storing(3, "v-{instance}", "serve")
		l.Task.Volumes = append(l.Task.Volumes, cluster.Volume{Name: "w", MountPath: "more"})
		require.NoError(t, d.Launch(t.Context(), l))
		time.Sleep(time.Second)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State, d.Inventory()[0].Message)
		l.Run.Run++
		l.Task.Volumes[1].Name = "v-3"
		require.ErrorContains(t, d.Launch(t.Context(), l), "each volume once")
	})
}

// TestFoldersOfATask: agents make containers with all kinds of them, in the sandbox and outside, of one process and of several.
func TestFoldersOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, withRole)
		for n := range 2 {
			l := launchOf(n, "h0", "serve")
			l.Task.Volumes = []cluster.Volume{
				{ScratchBytes: 1 << 20, MountPath: "tmp/of/mine"},
				{ScratchBytes: 1 << 20, MountPath: "/tmp/of/mine"},
				{Name: "a-{instance}", MountPath: "a"},
				{Name: "b-{instance}", MountPath: "/var/lib/b"},
				{HostPath: "/etc/ssl", MountPath: "ssl", ReadOnly: true},
			}
			if n == 1 {
				l.Task.Processes = []cluster.Process{{Name: "a", Command: []string{"serve"}}, {Name: "b", Command: []string{"serve"}}}
			}
			require.NoError(t, d.Launch(t.Context(), l))
			time.Sleep(time.Second)
			require.Equal(t, n+1, w.starts(runID(n)), d.Inventory()[n].Message)
		}
	})
}

// TestASlowMaster: calls that take seconds, and those that take too long to wait for, delay launches and lose or double
// none.
func TestASlowMaster(t *testing.T) {
	for name, slow := range map[string]time.Duration{"slow": 3 * time.Second, "too slow": callTimeout + time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 40
				w := newWorld(t, mesostest.Config{}, n/8)
				d, _ := w.drive(t, nil)
				w.SetFaults(mesostest.Faults{SlowCalls: slow})
				for i := range n {
					require.NoError(t, d.Launch(t.Context(), launchOf(i, fmt.Sprint("h", i%(n/8)), "serve")))
				}
				time.Sleep(2 * time.Minute)
				w.SetFaults(mesostest.Faults{})
				time.Sleep(5 * time.Minute)
				for _, st := range d.Inventory() {
					starts := w.starts(st.Run)
					switch st.State {
					case cluster.TaskRunning:
						require.Equal(t, 1, starts)
					case cluster.TaskFailed:
						require.Equal(t, cluster.ReasonLaunchRefused, st.Reason)
						require.Zero(t, starts)
					default:
						require.Fail(t, "a run hangs", "%+v", st)
					}
					if slow < callTimeout {
						require.Equal(t, cluster.TaskRunning, st.State)
					}
				}
				require.Len(t, d.Inventory(), n)
			})
		})
	}
}

// TestWhatGoesWhileALaunchIsRecorded: what the launch counted on goes away before its record is on disk. It has been
// launching, and is given back.
func TestWhatGoesWhileALaunchIsRecorded(t *testing.T) {
	for name, event := range map[string]func(d *driver, a *agent, now time.Time){
		"the offer": func(d *driver, a *agent, _ time.Time) {
			for id := range a.offers {
				d.rescinded(id)
			}
		},
		"the agent": func(d *driver, a *agent, _ time.Time) { d.loseAgent(a) },
		"the agent, and it is back": func(d *driver, a *agent, _ time.Time) {
			d.loseAgent(a)
			d.foundAgent(a)
		},
		"the agent, for another one": func(d *driver, a *agent, _ time.Time) { d.succeeded(a) },
		"the time until maintenance": func(d *driver, a *agent, now time.Time) {
			d.inverseOffered(d.session, &api.InverseOffer{
				OfferID: api.OfferID{Value: "i-1"}, AgentID: &api.AgentID{Value: a.ID}, Unavailability: api.Unavailability{Start: api.TimeInfo{Nanoseconds: now.UnixNano()}},
			}, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 1)
			d, recorder := w.drive(t, nil)
			l := launchOf(0, "h0", "serve")
			fingerprint := l.Fingerprint()
			r, promise, err := d.reserve(&l, fingerprint[:])
			require.NoError(t, err)
			d.mu.Lock()
			event(d.driver, r.agent, time.Now())
			d.mu.Unlock()
			require.Empty(t, d.Inventory())
			require.NoError(t, d.recorded(r, d.folder.putRun(promise.run, promise.agent)))
			got := d.Inventory()[0]
			require.Equal(t, runID(0), got.Run)
			require.Equal(t, "h0", got.Host)
			require.Equal(t, cluster.TaskFailed, got.State)
			require.Equal(t, cluster.ReasonLaunchRefused, got.Reason)
			require.Len(t, recorder.Statuses(runID(0)), 2)
			require.Zero(t, w.starts(runID(0)))
		})
	}
}

// TestAnUpdateWhileALaunchIsRecorded waits until it is told again: whoever launched that task, it was not this launch.
func TestAnUpdateWhileALaunchIsRecorded(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	d, _ := w.drive(t, nil)
	l := launchOf(0, "h0", "serve")
	fingerprint := l.Fingerprint()
	r, promise, err := d.reserve(&l, fingerprint[:])
	require.NoError(t, err)
	d.mu.Lock()
	for _, state := range []api.TaskState{api.TASK_RUNNING, api.TASK_FAILED} {
		d.update(d.session, &api.TaskStatus{TaskID: api.TaskID{Value: runID(0).String()}, AgentID: &api.AgentID{Value: r.agent.ID}, State: &state}, time.Now())
	}
	d.mu.Unlock()
	require.Empty(t, d.Inventory())
	require.NoError(t, d.recorded(r, d.folder.putRun(promise.run, promise.agent)))
	becomes(t, d, runID(0), cluster.TaskRunning)
	require.Equal(t, 1, w.starts(runID(0)))
}

// On a disk that is nearly full a launch is given back, before anything of it is written, and the driver goes on: it is carried out when
// there is room.
func TestANearlyFullDisk(t *testing.T) {
	w := newWorld(t, mesostest.Config{}, 1)
	d, _ := w.drive(t, nil)
	d.folder.Reserve.Store(math.MaxUint64)
	err := d.Launch(t.Context(), launchOf(0, "h0", "serve"))
	require.ErrorIs(t, err, hostmgr.ErrRefused)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Empty(t, d.Inventory())
	d.folder.Reserve.Store(store.DefaultReserve)
	require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
	becomes(t, d, runID(0), cluster.TaskRunning)
	require.Equal(t, 1, w.starts(runID(0)))
}
