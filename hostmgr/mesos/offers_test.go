package mesos

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// hosted returns the one host that is reported.
func hosted(t *testing.T, r *drivertest.Recorder) hostmgr.Host {
	t.Helper()
	synctest.Wait()
	require.Len(t, r.Hosts(), 1)
	return r.Hosts()[0]
}

// answered returns what the frameworks said of the maintenance of each host that is to be drained.
func (w *world) answered(t *testing.T) (answers []string) {
	t.Helper()
	transport := &http.Transport{DialContext: w.net.DialContext, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Get("http://master:5050/maintenance/status")
	require.NoError(t, err)
	var status struct {
		DrainingMachines []struct{ Statuses []struct{ Status string } } `json:"draining_machines"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&status))
	require.NoError(t, response.Body.Close())
	for _, m := range status.DrainingMachines {
		for _, s := range m.Statuses {
			answers = append(answers, s.Status)
		}
	}
	return answers
}

// TestMaintenance: the operator is told to wait as long as a task is there, no new ones come from the lead on, and he is let go
// on when the last one has ended.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(time.Second)
		w.Maintain(time.Now().Add(time.Hour), time.Hour, "h0")
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"DECLINE"}, w.answered(t))
		require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		require.Contains(t, hosted(t, recorder).Notes[0], "maintenance is planned from")
		require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "second")), "it is far away")
		time.Sleep(31 * time.Minute)
		require.EqualValues(t, 500, hosted(t, recorder).Capacity.Fixed[cluster.CPU], "what its tasks use")
		require.Contains(t, hosted(t, recorder).Notes[0], "no new tasks")
		require.ErrorIs(t, d.Launch(t.Context(), launchOf(2, "h0", "serve")), hostmgr.ErrRefused)
		require.NoError(t, d.Kill(t.Context(), runID(0), time.Second))
		time.Sleep(2 * inverseFilter)
		require.Equal(t, []string{"ACCEPT"}, w.answered(t))
		require.Zero(t, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		w.Maintain(time.Time{}, 0)
		time.Sleep(2 * lookEvery) // nothing was launched for long
		require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		require.Empty(t, hosted(t, recorder).Notes)
	})
}

// TestMaintenanceWhereOffersTimeOut: the inverse offer that is kept is rescinded, too, and comes again. The maintenance is planned all the
// while.
func TestMaintenanceWhereOffersTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{OfferTimeout: 2 * time.Minute, AllocationInterval: time.Second}, 1)
		d, recorder := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(5 * time.Second)
		w.Maintain(time.Now().Add(time.Hour), time.Hour, "h0")
		time.Sleep(5 * time.Second)
		for range 10 * 600 {
			require.Len(t, hosted(t, recorder).Notes, 1)
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, d.Kill(t.Context(), runID(0), time.Second))
		time.Sleep(2 * inverseFilter)
		require.Equal(t, []string{"ACCEPT"}, w.answered(t))
	})
}

// TestMaintenanceThatIsToldWithAnOffer, since nothing of ours was there: what waits for that offer is given back.
func TestMaintenanceThatIsToldWithAnOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, func(c *Config) { c.OfferHold = 10 * time.Second })
		time.Sleep(30 * time.Second)
		require.Empty(t, w.Offers(), "declined")
		w.Maintain(time.Now(), time.Hour, "h0")
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(5 * time.Second)
		require.Equal(t, cluster.ReasonLaunchRefused, d.Inventory()[0].Reason)
		require.Contains(t, d.Inventory()[0].Message, "maintenance")
		require.Zero(t, w.starts(runID(0)))
	})
}

// TestMaintenanceThatIsCancelled, or put off: the host has its room again soon, whether tasks are there or not.
func TestMaintenanceThatIsCancelled(t *testing.T) {
	for _, off := range []func(w *world){
		func(w *world) { w.Maintain(time.Time{}, 0) },
		func(w *world) { w.Maintain(time.Now().Add(24*time.Hour), time.Hour, "h0", "h1") },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 2)
			d, recorder := w.drive(t, nil)
			require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
			time.Sleep(time.Second)
			cores := func() (all []int64) {
				for _, h := range recorder.Hosts() {
					all = append(all, h.Capacity.Fixed[cluster.CPU])
				}
				return all
			}
			w.Maintain(time.Now().Add(20*time.Minute), time.Hour, "h0", "h1")
			time.Sleep(3 * time.Minute)
			require.Equal(t, []int64{500, 0}, cores())
			off(w)
			time.Sleep(closedFilter + 5*time.Second)
			require.Equal(t, []int64{4000, 4000}, cores())
		})
	}
}

// TestOffersAreHeldDeclinedAndSuppressed: for how long, and what the scheduler sees of a host stays the same all the while.
func TestOffersAreHeldDeclinedAndSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, func(c *Config) {
			c.OfferHold, c.DeclineFor, c.IdleAfter, c.OfferWait = time.Minute, 2*time.Minute, 10*time.Minute, 5*time.Second
		})
		begun := time.Now()
		until := func(at time.Duration, offers int, why string) {
			t.Helper()
			time.Sleep(at - time.Since(begun))
			require.Len(t, w.Offers(), offers, why)
			require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU], why)
		}
		until(50*time.Second, 1, "held")
		until(65*time.Second, 0, "declined")
		until(170*time.Second, 0, "filtered")
		until(190*time.Second, 1, "offered again")
		until(260*time.Second, 0, "declined again")
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		until(262*time.Second, 1, "revived for a launch, and what it left is offered")
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		until(15*time.Minute, 0, "suppressed: nothing was launched for ten minutes")
		until(20*time.Minute, 0, "no filter would last that long")
		require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "serve")))
		until(20*time.Minute+2*time.Second, 1, "revived")
		require.Equal(t, cluster.TaskRunning, d.Inventory()[1].State)
		w.RescindOffers()
		until(20*time.Minute+4*time.Second, 1, "rescinded, and offered again")
	})
}

// TestOffersThatTimeOut are made again: until then the host has its room, and no longer if they are not.
func TestOffersThatTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{OfferTimeout: 10 * time.Second, AllocationInterval: time.Second}, 1)
		d, recorder := w.drive(t, func(c *Config) { c.OfferWait = 5 * time.Second })
		for i := range 600 {
			time.Sleep(100 * time.Millisecond)
			require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU], "after %d tenths of a second", i)
		}
		w.DrainAgent("h0", 0)
		time.Sleep(10 * time.Second)
		require.Zero(t, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		w.ReactivateAgent("h0")
		time.Sleep(2 * time.Second)
		w.RescindOffers()
		synctest.Wait()
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")), "they are expected")
		time.Sleep(5 * time.Second)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
	})
}

// TestADrainBeforeATaskHasBegun gives it back.
func TestADrainBeforeATaskHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Behave: func(api.TaskInfo) mesostest.Behaviour {
			return mesostest.Behaviour{Startup: time.Minute, Runs: mesostest.Forever}
		}}, 1)
		d, _ := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		time.Sleep(time.Second)
		w.DrainAgent("h0", 0)
		time.Sleep(time.Second)
		end := d.Inventory()[0]
		require.Equal(t, cluster.TaskFailed, end.State, "%+v", end)
		require.Equal(t, cluster.ReasonLaunchRefused, end.Reason)
	})
}

// TestADrainForGood: an agent is there until the last task has had its grace, though the first ones are told of as gone with it.
func TestADrainForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, nil)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "stubborn")))
		time.Sleep(time.Second)
		w.DrainAgentForGood("h0", time.Minute)
		time.Sleep(30 * time.Second)
		require.Equal(t, cluster.TaskLost, d.Inventory()[0].State)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[1].State)
		hosted(t, recorder)
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskLost, d.Inventory()[1].State)
		require.Empty(t, recorder.Hosts())
	})
}

// TestANewMasterWhileOffersAreSuppressed: what its agents have is offered when they have found it, though nothing is launched, and
// until then a host has what it had.
func TestANewMasterWhileOffersAreSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Masters: []string{"one:5050", "two:5050"}, ReregisterAfter: 5 * time.Second}, 1)
		_, recorder := w.drive(t, func(c *Config) { c.Masters, c.OfferWait = "one,two", 5*time.Second })
		time.Sleep(29 * time.Minute)
		require.Empty(t, w.Offers(), "suppressed, for longer than a filter lasts")
		w.Elect("two:5050")
		for range 60 {
			time.Sleep(time.Second)
			require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		}
		require.Len(t, w.Offers(), 1)
	})
}

// TestFiltersThatOutliveTheirSubscription: a master that did not hear the end of one keeps the filters of what was declined in it.
func TestFiltersThatOutliveTheirSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		_, recorder := w.drive(t, func(c *Config) { c.DeclineFor = 12 * time.Minute })
		time.Sleep(6 * time.Minute)
		require.Empty(t, w.Offers(), "declined")
		w.net.SetSilent(true)
		time.Sleep(time.Minute)
		w.net.SetSilent(false)
		for range 4 * 60 {
			time.Sleep(time.Second)
			require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		}
		require.Len(t, w.Offers(), 1)
	})
}

// TestRoomWhileThereIsNoMaster, and while the next one waits for its agents, is what it was, for as long as that may take: work would be
// asked to leave for what has room. A launch is given back, and changes nothing of that.
func TestRoomWhileThereIsNoMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Masters: []string{"one:5050", "two:5050"}, ReregisterAfter: 30 * time.Second}, 1)
		d, recorder := w.drive(t, func(c *Config) { c.Masters = "one,two" })
		stays := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
			}
		}
		stays(10)
		w.Elect("")
		stays(30)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
		stays(30)
		require.Equal(t, cluster.ReasonLaunchRefused, d.Inventory()[0].Reason)
		require.Equal(t, "there is no connection to a Mesos master", d.Inventory()[0].Message)
		w.Elect("two:5050")
		stays(60)
		require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "serve")))
		stays(10)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[1].State)
		w.Elect("")
		time.Sleep(agentReturns + time.Minute)
		require.EqualValues(t, 500, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
	})
}

// TestOffersThatWereJustDeclined are asked for also where others were asked for just before.
func TestOffersThatWereJustDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 2)
		d, _ := w.drive(t, func(c *Config) { c.OfferHold = 10 * time.Second })
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve"))) // what is left is offered, and declined, half a second later
		time.Sleep(10 * time.Second)
		require.NoError(t, d.Launch(t.Context(), launchOf(1, "h1", "serve")))
		time.Sleep(700 * time.Millisecond)
		require.NoError(t, d.Launch(t.Context(), launchOf(2, "h0", "serve")))
		time.Sleep(10 * time.Second)
		for _, s := range d.Inventory() {
			require.Equal(t, cluster.TaskRunning, s.State, s.Message)
		}
	})
}

// TestWhileOffersAreSuppressed they are looked at every minute, and for seconds only: a new agent is a host soon, and what others take and
// free is seen.
func TestWhileOffersAreSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		_, recorder := w.drive(t, func(c *Config) { c.OfferWait = 5 * time.Second })
		cores := func() (all []int64) {
			for _, h := range recorder.Hosts() {
				all = append(all, h.Capacity.Fixed[cluster.CPU])
			}
			return all
		}
		time.Sleep(20 * time.Minute)
		w.AddAgent(agentSpec(1))
		time.Sleep(2 * lookEvery)
		require.Equal(t, []int64{4000, 4000}, cores())
		other, _ := w.drive(t, func(c *Config) { c.Dir = t.TempDir() })
		time.Sleep(lookEvery) // in which the first one lets go of what it looks at
		l := launchOf(0, "h0", "serve")
		l.Task.Resources.Fixed[cluster.CPU] = 3000
		require.NoError(t, other.Launch(t.Context(), l))
		time.Sleep(20 * time.Minute) // all that it does not use is declined now and then
		require.Equal(t, cluster.TaskRunning, other.Inventory()[0].State)
		require.Equal(t, []int64{1000, 4000}, cores())
		require.NoError(t, other.Kill(t.Context(), l.Run, time.Second))
		time.Sleep(2 * lookEvery)
		require.NoError(t, other.Close())
		time.Sleep(2 * lookEvery)
		require.Equal(t, []int64{4000, 4000}, cores())
		held := 0
		for range 600 {
			time.Sleep(time.Second)
			held += min(1, len(w.Offers()))
			require.Equal(t, []int64{4000, 4000}, cores())
		}
		require.Less(t, held, 120, "seconds of ten minutes in which nobody else was offered anything")
	})
}

// TestAnAgentThatGoesUnseen is no host any more, though nobody tells that it has gone; one that is full is still one.
func TestAnAgentThatGoesUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 4)
		d, recorder := w.drive(t, nil)
		for n, host := range []string{"h1", "h2"} {
			l := launchOf(n, host, "serve")
			l.Task.Resources.Fixed[cluster.CPU], l.Task.Resources.Fixed[cluster.Memory] = 4000, 4<<30
			l.Task.Resources.Fixed[cluster.Disk] = 10_000 << 20
			require.NoError(t, d.Launch(t.Context(), l))
		}
		time.Sleep(time.Second)
		w.net.SetSilent(true)
		w.BreakStreams(false)
		w.UnregisterAgent("h2") // its task is LOST
		w.UnregisterAgent("h3")
		time.Sleep(time.Second)
		w.net.SetSilent(false)
		time.Sleep(4 * time.Minute)
		var names []string
		for _, h := range recorder.Hosts() {
			names = append(names, h.Name)
		}
		require.Equal(t, []string{"h0", "h1"}, names)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		w.RebootHost("h3")
		time.Sleep(2 * time.Second)
		require.Len(t, recorder.Hosts(), 3)
		time.Sleep(time.Hour)
		require.Len(t, recorder.Hosts(), 3)
	})
}

// TestAnAgentThatIsGoneMeanwhile, by an operator's word, is no host as soon as Mesos has answered for its tasks: they would be placed
// there again.
func TestAnAgentThatIsGoneMeanwhile(t *testing.T) {
	for name, restart := range map[string]bool{"disconnected": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{}, 1)
				d, recorder := w.drive(t, nil)
				require.NoError(t, d.Launch(t.Context(), launchOf(0, "h0", "serve")))
				time.Sleep(time.Second)
				require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
				if restart {
					require.NoError(t, d.Close())
					w.MarkAgentGone("h0")
					d, recorder = w.drive(t, nil)
				} else {
					w.net.SetSilent(true)
					w.BreakStreams(false)
					w.MarkAgentGone("h0")
					time.Sleep(time.Second)
					w.net.SetSilent(false)
				}
				lost := func() bool { return d.Inventory()[0].State == cluster.TaskLost }
				for range 1000 {
					if time.Sleep(100 * time.Millisecond); lost() {
						break
					}
				}
				require.True(t, lost())
				time.Sleep(reportRest)
				require.Empty(t, recorder.Hosts())
			})
		})
	}
}

// TestGPUs: hosts with devices are shown to those that ask for them only; devices are given whole.
func TestGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		spec := agentSpec(0)
		spec.Attributes["gpu_model"] = "T4"
		spec.Resources = append(spec.Resources, mesostest.Scalar("gpus", 2))
		w.AddAgent(spec)
		blind, recorder := w.drive(t, nil)
		require.Empty(t, recorder.Hosts())
		require.NoError(t, blind.Close())
		d, recorder := w.drive(t, func(c *Config) { c.GPUs, c.Dir = true, t.TempDir() })
		require.Equal(t, []cluster.GPUDevice{{Model: "T4"}, {Model: "T4"}}, hosted(t, recorder).GPUs)
		l := launchOf(0, "h0", "serve")
		l.Task.Resources.Fixed[cluster.GPU] = 2 * cluster.WholeGPU
		require.NoError(t, d.Launch(t.Context(), l))
		time.Sleep(time.Second)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		require.Len(t, hosted(t, recorder).GPUs, 2)
		l.Run = runID(1)
		require.ErrorIs(t, d.Launch(t.Context(), l), hostmgr.ErrRefused, "both are taken")
	})
}

// lending is an agent that has more, which may be taken back.
func lending(amounts map[string]float64) mesostest.AgentSpec {
	spec := agentSpec(0)
	for name, amount := range amounts {
		r := mesostest.Scalar(name, amount)
		r.Revocable = new(api.Resource_RevocableInfo)
		spec.Resources = append(spec.Resources, r)
	}
	return spec
}

// TestRevocableCoresWithoutMemory: that hardly any task has room there, the host says.
func TestRevocableCoresWithoutMemory(t *testing.T) {
	for notes, amounts := range []map[string]float64{{"cpus": 2, "mem": 512}, {"cpus": 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 0)
			w.AddAgent(lending(amounts))
			_, recorder := w.drive(t, func(c *Config) { c.Revocable = true })
			require.Len(t, hosted(t, recorder).Notes, notes)
		})
	}
}

// TestRevocableResources are reported apart, and given to revocable runs only, which get nothing else.
func TestRevocableResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		w.AddAgent(lending(map[string]float64{"cpus": 2, "mem": 1024}))
		without, recorder := w.drive(t, nil)
		require.True(t, hosted(t, recorder).Revocable.IsZero())
		require.NoError(t, without.Close())
		d, recorder := w.drive(t, func(c *Config) { c.Revocable, c.Dir = true, t.TempDir() })
		same := func() {
			t.Helper()
			require.Equal(t, cluster.NewResources([cluster.NumDimensions]int64{cluster.CPU: 2000, cluster.Memory: 1 << 30}), hosted(t, recorder).Revocable)
			require.EqualValues(t, 4000, hosted(t, recorder).Capacity.Fixed[cluster.CPU])
		}
		same()
		launch := func(n int, cpu int64, revocable bool) error {
			l := launchOf(n, "h0", "serve")
			l.Task.Resources.Fixed[cluster.CPU], l.Revocable = cpu, revocable
			defer time.Sleep(time.Second)
			return d.Launch(t.Context(), l)
		}
		require.NoError(t, launch(0, 1500, true))
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
		same()
		require.ErrorIs(t, launch(1, 1000, true), hostmgr.ErrRefused, "half a core is left of them")
		require.ErrorIs(t, launch(2, 4500, false), hostmgr.ErrRefused, "others have four")
		require.NoError(t, launch(3, 4000, false))
		require.Equal(t, cluster.TaskRunning, d.Inventory()[1].State)
		same()
		require.NoError(t, d.Close())
		again, recorder2 := w.drive(t, func(c *Config) { c.Revocable, c.Dir = true, d.config.Dir })
		recorder, d = recorder2, again
		time.Sleep(time.Minute)
		same()
	})
}
