package mesos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// storing returns a launch with a persistent volume.
func storing(n int, volume string, command ...string) hostmgr.Launch {
	l := launchOf(n, "h0", command...)
	l.Task.Volumes = []cluster.Volume{{Name: volume, MountPath: "data"}}
	return l
}

// withRole lets a driver make volumes of 256 MiB.
func withRole(c *Config) { c.Roles, c.VolumeBytes, c.Principal = []string{"eng"}, 256<<20, "sluice" }

// TestAVolumeIsKept: it is made for the first run, found by the next one over a restart of the driver, not made twice, and
// destroyed when it is asked for and nobody uses it. All the disk is free again then.
func TestAVolumeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, withRole)
		disk := func() int64 { return hosted(t, recorder).Capacity.Fixed[cluster.Disk] >> 20 }
		require.EqualValues(t, 10000, disk())
		require.NoError(t, d.Launch(t.Context(), storing(0, "data-{instance}", "second")))
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State, d.Inventory()[0].Message)
		kept := []cluster.HeldVolume{{Name: "data-0", Bytes: 256 << 20}}
		require.Equal(t, kept, hosted(t, recorder).Volumes)
		require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "data-0"), "run 7.0.1 uses it")
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskSucceeded, d.Inventory()[0].State)
		require.EqualValues(t, 10000-256, disk(), "its disk is nobody else's")

		require.NoError(t, d.Close())
		again, recorder2 := w.drive(t, withRole)
		d, recorder = again, recorder2
		require.Equal(t, kept, hosted(t, recorder).Volumes)
		next := storing(0, "data-{instance}", "serve")
		next.Run.Run = 2
		require.NoError(t, d.Launch(t.Context(), next))
		time.Sleep(time.Second)
		require.Equal(t, kept, hosted(t, recorder).Volumes, "it is the same")
		require.NoError(t, d.Launch(t.Context(), storing(5, "data-0", "serve")))
		time.Sleep(time.Minute)
		refused := d.Inventory()[2]
		require.Equal(t, cluster.ReasonLaunchRefused, refused.Reason)
		require.Contains(t, refused.Message, `volume "data-0": run 7.0.2 uses it`)

		require.NoError(t, d.Kill(t.Context(), next.Run, time.Second))
		time.Sleep(time.Minute)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "data-0"))
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "data-0"), "again")
		time.Sleep(10 * time.Second)
		require.Empty(t, hosted(t, recorder).Volumes)
		require.EqualValues(t, 10000, disk(), "and not reserved any more")
		require.NoError(t, d.Close())
		_, recorder = w.drive(t, func(c *Config) { withRole(c); c.Roles, c.Dir = []string{"other"}, t.TempDir() })
		require.EqualValues(t, 10000, disk(), "another role may have it")
	})
}

// TestAVolumeHasItsSize, though the disk that is reserved already, and comes first, is less than that.
func TestAVolumeHasItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		spec := agentSpec(0)
		spec.Resources = append(spec.Resources, reservedDisk(api.Resource_ReservationInfo_STATIC, 10))
		w.AddAgent(spec)
		d, recorder := w.drive(t, withRole)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskSucceeded, d.Inventory()[0].State, d.Inventory()[0].Message)
		require.EqualValues(t, 10010-256, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 10010, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20)
	})
}

// TestAVolumeThatHasNoRoom: a launch is given back at once where there is no disk of which its volume could be made, also when others that
// wait have it; one whose volume is there needs none.
func TestAVolumeThatHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		w.AddAgent(agentWithDisk(0, 500))
		d, _ := w.drive(t, withRole)
		first := storing(0, "v", "second")
		first.Task.Resources.Fixed[cluster.Disk] = 200 << 20
		require.NoError(t, d.Launch(t.Context(), first))
		for _, seconds := range []time.Duration{0, 5} { // while the first waits, runs, and has ended
			time.Sleep(seconds * time.Second)
			err := d.Launch(t.Context(), storing(1, "w", "second"))
			require.ErrorIs(t, err, hostmgr.ErrRefused)
			require.ErrorContains(t, err, "hold no 256 MiB of disk beside what it asks for, of which its volumes could be made")
		}
		require.NoError(t, d.Launch(t.Context(), storing(2, "v", "second")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskSucceeded, d.Inventory()[1].State, d.Inventory()[1].Message)
	})
}

// TestAVolumeOnDiskOfARoleAbove is the role's own: other roles below are not offered it, and are offered its disk when it is deleted.
func TestAVolumeOnDiskOfARoleAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		spec := agentSpec(0)
		spec.Resources = []api.Resource{
			mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096), reservedDisk(api.Resource_ReservationInfo_STATIC, 1000),
		}
		w.AddAgent(spec)
		below := func(role, dir string) (*settled, *drivertest.Recorder) {
			return w.drive(t, func(c *Config) { withRole(c); c.Roles, c.Dir = []string{"eng/" + role}, dir })
		}
		ours, others := t.TempDir(), t.TempDir()
		d, recorder := below("a", ours)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskSucceeded, d.Inventory()[0].State, d.Inventory()[0].Message)
		require.Len(t, hosted(t, recorder).Volumes, 1)
		require.NoError(t, d.Close())

		d, recorder = below("b", others)
		require.Empty(t, hosted(t, recorder).Volumes)
		require.EqualValues(t, 1000-256, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20)
		require.NoError(t, d.Close())

		d, _ = below("a", ours)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		require.NoError(t, d.Close())
		_, recorder = below("b", others)
		require.EqualValues(t, 1000, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20)
	})
}

// TestAVolumeOnDiskThatIsReserved leaves it reserved when it is deleted: who reserved it wants it for the role.
func TestAVolumeOnDiskThatIsReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		spec := agentSpec(0)
		spec.Resources = append(spec.Resources, reservedDisk(api.Resource_ReservationInfo_DYNAMIC, 1000))
		w.AddAgent(spec)
		d, recorder := w.drive(t, withRole)
		disk := func() int64 { return hosted(t, recorder).Capacity.Fixed[cluster.Disk] >> 20 }
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(time.Minute)
		require.EqualValues(t, 11000-256, disk())
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 11000, disk())
		require.NoError(t, d.Close())
		_, recorder = w.drive(t, func(c *Config) { withRole(c); c.Roles, c.Dir = []string{"other"}, t.TempDir() })
		require.EqualValues(t, 10000, disk(), "another role has what is not reserved")
	})
}

// reservedDisk returns disk that is reserved to withRole's role.
func reservedDisk(how api.Resource_ReservationInfo_Type, megabytes float64) api.Resource {
	disk := mesostest.Scalar("disk", megabytes)
	disk.Reservations = []api.Resource_ReservationInfo{{Type: how.Enum(), Role: text("eng")}}
	return disk
}

// TestVolumesThatAreNotOffered: one that was declined is asked for; what goes wrong on the way is told, and changes nothing.
func TestVolumesThatAreNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, func(c *Config) { withRole(c); c.OfferHold = time.Minute })
		for i, name := range []string{"a", "b", "c"} {
			require.NoError(t, d.Launch(t.Context(), storing(i, name, "second")))
			time.Sleep(5 * time.Second)
		}
		require.Len(t, hosted(t, recorder).Volumes, 3)
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.Offers())
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "a"))

		time.Sleep(5 * time.Second)
		w.SetFaults(mesostest.Faults{RescindAccepts: 1}) // the offer goes before the call comes
		require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "b"), "no longer valid")
		time.Sleep(5 * time.Second)
		require.Len(t, hosted(t, recorder).Volumes, 2, "it is still there")
		w.SetFaults(mesostest.Faults{LoseCalls: 1, Accepting: true})
		require.Error(t, d.DeleteVolume(t.Context(), "h0", "b"))
		require.Len(t, hosted(t, recorder).Volumes, 2)
		time.Sleep(5 * time.Second)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "b"), "what was not accepted is offered again")
		time.Sleep(5 * time.Second)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.CutAgent("h0")
		require.Error(t, d.DeleteVolume(ctx, "h0", "c"))
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "nobody's"))
		require.ErrorIs(t, d.DeleteVolume(t.Context(), "nowhere", "c"), hostmgr.ErrUnknownHost)
	})
}

// TestAVolumeOfAnotherRole is used and destroyed where it is, though masters offer all that is free of its agent for the first role that
// is due, and is not made again for that one. When somebody else has destroyed it, that is found out for its own role.
func TestAVolumeOfAnotherRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		ours, theirs := w.dir, t.TempDir()
		drive := func(dir string, roles ...string) (*settled, *drivertest.Recorder) {
			d, recorder := newSettled(newDriver(t, func() Config { c := w.config(); withRole(&c); c.Dir, c.Roles = dir, roles; return c }())), drivertest.NewRecorder()
			require.NoError(t, d.Start(t.Context(), recorder))
			return d, recorder
		}
		first, _ := drive(ours, "z")
		for i, name := range []string{"v", "w"} {
			require.NoError(t, first.Launch(t.Context(), storing(i, name, "second")))
			time.Sleep(time.Minute)
		}
		require.NoError(t, first.Close())
		d, recorder := drive(ours, "a", "z")
		run := storing(2, "v", "serve")
		require.NoError(t, d.Launch(t.Context(), run))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[2].State, d.Inventory()[2].Message)
		require.Len(t, hosted(t, recorder).Volumes, 2)
		require.NoError(t, d.Kill(t.Context(), run.Run, time.Second))
		time.Sleep(10 * time.Minute)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		require.NoError(t, d.Close())

		first, _ = drive(theirs, "z")
		time.Sleep(time.Second)
		require.NoError(t, first.DeleteVolume(t.Context(), "h0", "w"))
		require.NoError(t, first.Close())
		d, recorder = drive(ours, "a", "z")
		require.Len(t, hosted(t, recorder).Volumes, 1)
		require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "w"), "Mesos does not offer it")
		time.Sleep(time.Minute)
		require.Empty(t, hosted(t, recorder).Volumes)
		require.EqualValues(t, 10000, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20)
		require.NoError(t, d.Close())
	})
}

// TestAVolumeOfARoleOfBefore is not made again for another role, and who waits for it is told why, before it is forgotten.
func TestAVolumeOfARoleOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		launch := func(d *settled, n int) hostmgr.Status {
			require.NoError(t, d.Launch(t.Context(), storing(n, "v", "second")))
			time.Sleep(time.Minute)
			return d.Inventory()[n]
		}
		d, _ := w.drive(t, withRole)
		require.Equal(t, cluster.TaskSucceeded, launch(d, 0).State)
		require.NoError(t, d.Close())
		d, recorder := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"sales"} })
		refused := launch(d, 1)
		require.Equal(t, cluster.ReasonLaunchRefused, refused.Reason)
		require.Contains(t, refused.Message, `the host has volume "v", and Mesos does not offer it to --roles sales`)
		require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "v"), "of a role that --roles does not name")
		require.Empty(t, hosted(t, recorder).Volumes)
		require.Equal(t, cluster.TaskSucceeded, launch(d, 2).State)
		require.NoError(t, d.Close())
		_, recorder = w.drive(t, func(c *Config) { withRole(c); c.Dir = t.TempDir() })
		require.Len(t, hosted(t, recorder).Volumes, 1, "it is there for its role")
	})
}

// TestAVolumeOfAnAgentThatWasAway is not made again for the role for which its agent is offered first when it is back.
func TestAVolumeOfAnAgentThatWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
		d, _ := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"a"} })
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(time.Minute)
		require.NoError(t, d.Close())

		d, recorder := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"a", "z"} })
		time.Sleep(time.Minute)
		w.CutAgent("h0")
		time.Sleep(3 * time.Minute)
		require.Empty(t, recorder.Hosts())
		w.ReturnAgent("h0")
		for len(recorder.Hosts()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, d.Launch(t.Context(), storing(1, "v", "second")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskSucceeded, d.Inventory()[1].State, d.Inventory()[1].Message)
		require.Len(t, hosted(t, recorder).Volumes, 1)
		require.NoError(t, d.Close())
		_, recorder = w.drive(t, func(c *Config) { withRole(c); c.Roles, c.Dir = []string{"other"}, t.TempDir() })
		require.EqualValues(t, 10000-256, hosted(t, recorder).Capacity.Fixed[cluster.Disk]>>20, "there is one")
	})
}

// TestTheVolumesOfAnAgentThatIsGone are forgotten with it when an operator marks it as gone: at once where it ran something, and where
// nothing tells when the master is asked.
func TestTheVolumesOfAnAgentThatIsGone(t *testing.T) {
	for _, command := range []string{"serve", "second"} {
		t.Run(command, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{AgentTimeout: time.Minute}, 1)
				d, recorder := w.drive(t, withRole)
				require.NoError(t, d.Launch(t.Context(), storing(0, "v", command)))
				time.Sleep(time.Minute)
				w.CutAgent("h0")
				time.Sleep(20 * time.Minute)
				require.Empty(t, recorder.Hosts())
				d.mu.Lock()
				require.Len(t, d.agents, 1, "it may come back")
				d.mu.Unlock()
				w.MarkAgentGone("h0")
				time.Sleep(11 * time.Minute)
				require.NoError(t, d.Close())
				s, err := openFolder(w.dir, func(string) {})
				require.NoError(t, err)
				agents, _, err := s.load()
				require.NoError(t, err)
				require.Empty(t, agents)
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestAVolumeThatWasThereBefore a host manager knew its agent is found for whichever role it is, and not made again, empty, for the one for
// which the agent is offered first: with a new state folder, and where a new agent has the disk of the one before.
func TestAVolumeThatWasThereBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		drive := func(dir string, roles ...string) (*settled, *drivertest.Recorder) {
			return w.drive(t, func(c *Config) { withRole(c); c.Dir, c.Roles = dir, roles })
		}
		ours := t.TempDir()
		run := func(d *settled, n int) {
			require.NoError(t, d.Launch(t.Context(), storing(n, "v", "second")))
			time.Sleep(time.Minute)
			last := d.Inventory()[len(d.Inventory())-1]
			require.Equal(t, cluster.TaskSucceeded, last.State, last.Message)
		}
		d, _ := drive(t.TempDir(), "z")
		run(d, 0)
		require.NoError(t, d.Close())

		d, recorder := drive(ours, "a", "z")
		run(d, 1)
		require.Len(t, hosted(t, recorder).Volumes, 1)
		require.Len(t, w.Volumes("h0"), 1)
		w.CrashHost("h0")
		w.RenewAgent("h0")
		time.Sleep(10 * time.Second)
		run(d, 2)
		require.Equal(t, []mesostest.Volume{{Role: "z", ID: "v", Made: 1}}, w.Volumes("h0"))
		require.NoError(t, d.Close())
	})
}

// TestAVolumeThatOthersUse: that its offers were passed on for a volume that is known, and in use, says nothing of what there is for a role
// for which nothing was offered yet.
func TestAVolumeThatOthersUse(t *testing.T) {
	k := newTalk(t, func(c *Config) { c.Roles = []string{"x", "z"} })
	k.d.mu.Lock()
	k.d.byName["h0"].keep(cluster.HeldVolume{Name: "v", Bytes: 1 << 30})
	k.d.mu.Unlock()
	offered := 0
	offer := func() {
		offered++
		k.say <- strings.ReplaceAll(strings.Replace(fmt.Sprintf(factOffer, fmt.Sprint("x-", offered), 4.0), `"resources":[`,
			`"resources":[{"name":"disk","type":"SCALAR","scalar":{"value":9000.0},"allocation_info":{"role":"x"}},`, 1), `"*"`, `"x"`)
		k.awaits(t, "DECLINE")
	}
	require.NoError(t, k.d.Launch(t.Context(), storing(0, "v", "serve")))
	k.awaits(t, "DECLINE") // of the offer that it began with
	for range maxPasses {
		offer()
	}
	require.NoError(t, k.d.Kill(t.Context(), runID(0), 0))
	require.NoError(t, k.d.Launch(t.Context(), storing(1, "w", "serve")))
	offer()
	k.none("ACCEPT")
	require.NoError(t, k.d.Kill(t.Context(), runID(1), 0))
}

// TestAVolumeWhereOneRoleHasAll: where nothing of an agent is ever offered for a role, nothing is waited for.
func TestAVolumeWhereOneRoleHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 0)
		spec := agentSpec(0)
		for i := range spec.Resources {
			spec.Resources[i].Reservations = reservedDisk(api.Resource_ReservationInfo_STATIC, 1).Reservations
		}
		w.AddAgent(spec)
		d, recorder := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"a", "eng"} })
		begun := time.Now()
		for n := 0; len(hosted(t, recorder).Volumes) == 0; n++ {
			require.Less(t, time.Since(begun), 2*time.Minute)
			require.NoError(t, d.Launch(t.Context(), storing(n, "v", "second")))
			time.Sleep(5 * time.Second)
		}
		require.NoError(t, d.Close())
	})
}

// TestAVolumeThatSomebodyElseDestroyed, or uses: it is given up, and known again if it is offered.
func TestAVolumeThatSomebodyElseDestroyed(t *testing.T) {
	const with = `{"type":"OFFERS","offers":{"offers":[{"id":{"value":"o-v"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-1"},
"hostname":"h0","allocation_info":{"role":"*"},"resources":[{"name":"disk","type":"SCALAR","scalar":{"value":64.0},"allocation_info":{"role":"*"},
"reservations":[{"type":"DYNAMIC","role":"eng"}],"disk":{"persistence":{"id":"v"},"volume":{"container_path":"x","mode":"RW"}}}]}]}}`
	k := newTalk(t, func(c *Config) { c.OfferWait = 10 * time.Millisecond })
	volumes := func() int {
		if hosts := k.recorder.Hosts(); len(hosts) == 1 {
			return len(hosts[0].Volumes)
		}
		return -1
	}
	for _, size := range []int64{64, 96} { // it may have been destroyed and made again
		k.say <- strings.Replace(with, "64.0", fmt.Sprint(size), 1)
		require.Eventually(t, func() bool { return volumes() == 1 && k.recorder.Hosts()[0].Volumes[0].Bytes == size<<20 }, 30*time.Second, time.Millisecond)
		k.say <- strings.NewReplacer("64.0", fmt.Sprint(2*size), `"o-v"`, `"o-w"`).Replace(with) // an operator lets it grow
		require.Eventually(t, func() bool { return volumes() == 1 && k.recorder.Hosts()[0].Volumes[0].Bytes == 2*size<<20 }, 30*time.Second, time.Millisecond)
		k.say <- `{"type":"RESCIND","rescind":{"offer_id":{"value":"o-w"}}}`
		k.say <- `{"type":"RESCIND","rescind":{"offer_id":{"value":"o-v"}}}`
		k.d.comesTo(t, func() bool { return k.d.offers["o-v"] == nil })
		require.ErrorContains(t, k.d.DeleteVolume(t.Context(), "h0", "v"), "Mesos does not offer it")
		require.Eventually(t, func() bool { return volumes() == 0 }, 30*time.Second, time.Millisecond)
	}
}

// TestAnOfferOfTheMomentInWhichAVolumeIsLookedFor may be from before the last call that gave the volume back, and says nothing about it.
func TestAnOfferOfTheMomentInWhichAVolumeIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, _ := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"a", "z"} })
		d.mu.Lock()
		a, begun := d.byName["h0"], time.Time{}
		a.keep(cluster.HeldVolume{Name: "v"})
		for _, o := range a.offers {
			begun = o.since
		}
		d.mu.Unlock()
		require.False(t, begun.IsZero())
		without := map[string]bool{}
		_, err := d.destroy("h0", "v", begun, false, without)
		require.ErrorIs(t, err, errNotOffered)
		require.Empty(t, without)
		require.NoError(t, d.Close())
	})
}

// TestWhoGetsAVolume: of two runs that come at once with one volume the first; and with several roles one that can have volumes.
func TestWhoGetsAVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, func(c *Config) { withRole(c); c.Roles = []string{"*", "eng"} })
		require.NotZero(t, hosted(t, recorder).Capabilities&cluster.CanVolumes)
		for n := range 2 {
			require.NoError(t, d.Launch(t.Context(), storing(n, "v", "serve")))
		}
		time.Sleep(10 * time.Minute)
		require.Len(t, hosted(t, recorder).Volumes, 1)
		running, refused := d.Inventory()[0], d.Inventory()[1]
		require.Equal(t, cluster.TaskRunning, running.State, running.Message)
		require.Equal(t, cluster.ReasonLaunchRefused, refused.Reason, refused.Message)
		require.Contains(t, refused.Message, "run 7.0.1 uses it")
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, nil)
		require.Zero(t, d.Capabilities()&cluster.CanVolumes, "none is placed there")
		require.Equal(t, d.Capabilities(), hosted(t, recorder).Capabilities)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "serve")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.ReasonLaunchFailed, d.Inventory()[0].Reason)
		require.Contains(t, d.Inventory()[0].Message, "need a role other than")
	})
}

// TestAVolumeWithoutAMaster, or whose agent a new master does not know yet, is not forgotten: it is there, and deleting it again is
// no success.
func TestAVolumeWithoutAMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, withRole)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(20 * time.Second)
		w.SetRecovering(true)
		w.BreakStreams(false)
		time.Sleep(time.Second)
		for range 2 {
			require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "v"), "no connection to a master")
		}
		require.Len(t, hosted(t, recorder).Volumes, 1)
		w.SetRecovering(false)
		time.Sleep(time.Minute)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		time.Sleep(time.Second)
		require.Empty(t, hosted(t, recorder).Volumes)
	})
	const with = `{"type":"OFFERS","offers":{"offers":[{"id":{"value":"o-v"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-v"},
"hostname":"h1","allocation_info":{"role":"*"},"resources":[{"name":"disk","type":"SCALAR","scalar":{"value":64.0},"allocation_info":{"role":"*"},
"reservations":[{"type":"DYNAMIC","role":"eng"}],"disk":{"persistence":{"id":"v"},"volume":{"container_path":"x","mode":"RW"}}}]}]}}`
	k := newTalk(t, func(c *Config) { c.OfferWait = 10 * time.Millisecond })
	k.say <- with
	require.Eventually(t, func() bool { return len(k.recorder.Hosts()) == 2 }, 30*time.Second, time.Millisecond)
	k.say <- "" // the end of the stream: the next one has offers of the other agent only
	k.d.comesTo(t, func() bool { return k.d.offers["o-2"] != nil })
	for range 2 {
		require.ErrorContains(t, k.d.DeleteVolume(t.Context(), "h1", "v"), "offers nothing of its agent")
	}
}

// TestAVolumeOfAFullHost is not offered, since masters offer nothing of an agent that has neither cores nor memory left. It is not
// forgotten, and deleted when there is room.
func TestAVolumeOfAFullHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		d, recorder := w.drive(t, withRole)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "second")))
		time.Sleep(20 * time.Second)
		full := launchOf(1, "h0", "serve")
		full.Task.Resources.Fixed[cluster.CPU], full.Task.Resources.Fixed[cluster.Memory] = 4000, 4096<<20
		require.NoError(t, d.Launch(t.Context(), full))
		time.Sleep(20 * time.Second)
		for range 2 {
			require.ErrorContains(t, d.DeleteVolume(t.Context(), "h0", "v"), "offers nothing of its agent")
		}
		require.Len(t, hosted(t, recorder).Volumes, 1)
		require.NoError(t, d.Kill(t.Context(), full.Run, time.Second))
		time.Sleep(20 * time.Second)
		require.NoError(t, d.DeleteVolume(t.Context(), "h0", "v"))
		time.Sleep(time.Second)
		require.Empty(t, hosted(t, recorder).Volumes)
	})
}

// TestAnOperationOfAnEarlierDriver: how it went is told to the next driver, as long as nobody has acknowledged it, and is no answer to
// what that one asked for.
func TestAnOperationOfAnEarlierDriver(t *testing.T) {
	const with = `{"type":"OFFERS","offers":{"offers":[{"id":{"value":"o-v"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-1"},
"hostname":"h0","allocation_info":{"role":"*"},"resources":[{"name":"disk","type":"SCALAR","scalar":{"value":64.0},"allocation_info":{"role":"*"},
"reservations":[{"type":"DYNAMIC","role":"eng"}],"disk":{"persistence":{"id":"v"},"volume":{"container_path":"x","mode":"RW"}}}]}]}}`
	earlier := ""
	for range 2 {
		k := newTalk(t)
		k.say <- with
		require.Eventually(t, func() bool { return len(k.recorder.Hosts()[0].Volumes) == 1 }, 30*time.Second, time.Millisecond)
		result := make(chan error, 1)
		go func() { result <- k.d.DeleteVolume(t.Context(), "h0", "v") }()
		var call struct {
			Accept struct {
				Operations []struct{ ID struct{ Value string } }
			}
		}
		require.NoError(t, json.Unmarshal(k.awaits(t, "ACCEPT"), &call))
		id := call.Accept.Operations[0].ID.Value
		tell := func(id, state string) {
			k.say <- fmt.Sprintf(`{"type":"UPDATE_OPERATION_STATUS","update_operation_status":{"status":{"operation_id":{"value":%q},"state":%q}}}`, id, state)
		}
		tell(cmp.Or(earlier, id), "OPERATION_FINISHED")
		tell(id, "OPERATION_FAILED")
		if err := <-result; earlier == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "OPERATION_FAILED")
		}
		earlier = id
	}
}

// TestAVolumeOfATaskThatNeverStarted is known at once, and not made again for the next one, which waits until it is offered.
func TestAVolumeOfATaskThatNeverStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{Behave: func(t api.TaskInfo) mesostest.Behaviour {
			b := behave(t)
			b.Startup = 100 * time.Millisecond // what is left of the offer is in another one by then
			return b
		}}, 1)
		d, recorder := w.drive(t, withRole)
		require.NoError(t, d.Launch(t.Context(), storing(0, "v", "missing")))
		becomes(t, d, runID(0), cluster.TaskFailed)
		require.NoError(t, d.Launch(t.Context(), storing(1, "v", "serve")))
		time.Sleep(time.Minute)
		require.Equal(t, cluster.TaskRunning, d.Inventory()[1].State, d.Inventory()[1].Message)
		require.Len(t, hosted(t, recorder).Volumes, 1)
	})
}

// TestAVolumeThatMayNotBeMade: the task has failed, and says why the master did not reserve the disk, not only that it is not there.
func TestAVolumeThatMayNotBeMade(t *testing.T) {
	k := newTalk(t, func(c *Config) { withRole(c); c.Roles = []string{"*", "eng"} })
	k.say <- strings.Replace(fmt.Sprintf(factOffer, "o-d", 1.0), `"role":"*"}}]}]`,
		`"role":"eng"}},{"name":"disk","type":"SCALAR","scalar":{"value":1000.0},"allocation_info":{"role":"eng"}}],"allocation_info":{"role":"eng"}}]`, 1)
	require.Eventually(t, func() bool {
		hosts := k.recorder.Hosts()
		return len(hosts) == 1 && hosts[0].Capacity.Fixed[cluster.Disk] > 0
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, k.d.Launch(t.Context(), storing(0, "v", "serve")))
	var call struct {
		Accept struct {
			Operations []struct {
				Type string
				ID   struct{ Value string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(k.awaits(t, "ACCEPT"), &call))
	for i, why := range []string{"Principal 'sluice' no authorized to reserve", "it does not contain disk"} {
		k.say <- fmt.Sprintf(`{"type":"UPDATE_OPERATION_STATUS","update_operation_status":{"status":{"operation_id":{"value":%q},"state":"OPERATION_ERROR","message":%q}}}`,
			call.Accept.Operations[i].ID.Value, why)
	}
	k.say <- `{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.0.1"},"state":"TASK_ERROR","source":"SOURCE_MASTER","reason":"REASON_TASK_INVALID",
"message":"Total resources are more than available","agent_id":{"value":"a-1"}}}}`
	end := becomes(t, k.d, runID(0), cluster.TaskFailed)
	require.Equal(t, cluster.ReasonLaunchFailed, end.Reason)
	require.Contains(t, end.Message, "RESERVE: OPERATION_ERROR: Principal 'sluice' no authorized to reserve")
	require.NotContains(t, end.Message, "does not contain")
}

// TestDiskThatIsLeftOver: what was reserved for a volume that was refused is given up when it is offered, for others to have; what
// others reserved, and volumes, are not. If that is refused, too, it is not tried with each offer.
func TestDiskThatIsLeftOver(t *testing.T) {
	k := newTalk(t, func(c *Config) { withRole(c); c.Roles = []string{"*", "eng"} })
	offer := func(id, labels, disk string) {
		k.say <- strings.Replace(fmt.Sprintf(factOffer, id, 1.0), `"role":"*"}}]}]`,
			`"role":"eng"}},{"name":"disk","type":"SCALAR","scalar":{"value":256.0},"allocation_info":{"role":"eng"},"reservations":[
{"type":"DYNAMIC","role":"eng","principal":"sluice"`+labels+`}]`+disk+`}],"allocation_info":{"role":"eng"}}]`, 1)
	}
	const ours = `,"labels":{"labels":[{"key":"sluice.volume"}]}`
	offer("o-theirs", "", "")
	offer("o-volume", ours, `,"disk":{"persistence":{"id":"w"},"volume":{"container_path":"x","mode":"RW"}}`)
	k.d.comesTo(t, func() bool { return k.d.byName["h0"].keeps("w") })
	k.none("ACCEPT")
	offer("o-left", ours, "")
	call := string(k.awaits(t, "ACCEPT"))
	require.Contains(t, call, `"offer_ids":[{"value":"o-left"}]`)
	require.Equal(t, 1, strings.Count(call, `"type":"UNRESERVE"`), call)
	require.Contains(t, call, `"scalar":{"value":256}`)
	offer("o-again", ours, "")
	k.d.comesTo(t, func() bool { return k.d.offers["o-again"] != nil })
	k.none("ACCEPT")
}

// TestVolumesOfAnOldMaster: it carries out no operation that has an id, and says of none how it went.
func TestVolumesOfAnOldMaster(t *testing.T) {
	for version, tells := range map[string]bool{
		"1.4.0": false, "1.8.1": false, "1.9.0": true, "1.11.0-rc1": true, "2.0.0": true, "": true, "x": true,
	} {
		require.Equal(t, tells, givesFeedback(version), version)
	}
	k := newTalk(t, func(c *Config) { withRole(c); c.Roles = []string{"*", "eng"} })
	k.d.mu.Lock()
	k.d.session.feedback = false
	k.d.mu.Unlock()
	disk := func(more string) string {
		return strings.Replace(fmt.Sprintf(factOffer, "o-d"+more[:min(1, len(more))], 1.0), `"role":"*"}}]}]`,
			`"role":"eng"}},{"name":"disk","type":"SCALAR","scalar":{"value":1000.0},"allocation_info":{"role":"eng"}`+more+
				`}],"allocation_info":{"role":"eng"}}]`, 1)
	}
	k.say <- disk("")
	require.Eventually(t, func() bool {
		hosts := k.recorder.Hosts()
		return len(hosts) == 1 && hosts[0].Capacity.Fixed[cluster.Disk] > 0
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, k.d.Launch(t.Context(), storing(0, "v", "serve")))
	require.NotContains(t, string(k.awaits(t, "ACCEPT")), `"id":{`)
	k.say <- disk(`,"reservations":[{"type":"DYNAMIC","role":"eng"}],
"disk":{"persistence":{"id":"w"},"volume":{"container_path":"x","mode":"RW"}}`)
	k.d.comesTo(t, func() bool { return k.d.byName["h0"].keeps("w") })
	require.NoError(t, k.d.DeleteVolume(t.Context(), "h0", "w"))
	require.NotContains(t, string(k.awaits(t, "ACCEPT")), `"id":{`)
	k.d.comesTo(t, func() bool { return !k.d.byName["h0"].keeps("w") })
}

// TestVolumesOfAnOldAgent: a master that could say how operations went refuses those that are to be told of on an agent that is older.
func TestVolumesOfAnOldAgent(t *testing.T) {
	k := newTalk(t, func(c *Config) { withRole(c); c.Roles = []string{"*", "eng"} })
	says := func(id, more string) {
		k.say <- strings.Replace(fmt.Sprintf(factOffer, id, 1.0), `"role":"*"}}]}]`,
			`"role":"eng"}},{"name":"disk","type":"SCALAR","scalar":{"value":1000.0},"allocation_info":{"role":"eng"}`+more+
				`}],"allocation_info":{"role":"eng"}}]`, 1)
	}
	offer := func(id, more string) {
		says(id, more)
		k.d.comesTo(t, func() bool { return k.d.offers[id] != nil })
	}
	refused := func(call []byte) {
		var accept struct {
			Accept struct {
				Operations []struct{ ID struct{ Value string } }
			}
		}
		require.NoError(t, json.Unmarshal(call, &accept))
		for _, op := range accept.Accept.Operations {
			if op.ID.Value != "" {
				k.say <- fmt.Sprintf(`{"type":"UPDATE_OPERATION_STATUS","update_operation_status":{"status":{"operation_id":{"value":%q},
"state":"OPERATION_ERROR","message":"Operation on agent default resources requested feedback, but agent a-1 does not have the required capabilities"}}}`, op.ID.Value)
			}
		}
	}
	const volume = `,"reservations":[{"type":"DYNAMIC","role":"eng"}],"disk":{"persistence":{"id":"w"},"volume":{"container_path":"x","mode":"RW"}}`
	offer("o-1", "")
	require.NoError(t, k.d.Launch(t.Context(), storing(0, "v", "serve")))
	refused(k.awaits(t, "ACCEPT"))
	k.tell(0, "TASK_ERROR", `,"reason":"REASON_TASK_INVALID","message":"Total resources are more than available"`)
	require.Equal(t, cluster.ReasonLaunchRefused, becomes(t, k.d, runID(0), cluster.TaskFailed).Reason)
	offer("o-2", "")
	require.NoError(t, k.d.Launch(t.Context(), storing(1, "v", "serve")))
	require.NotContains(t, string(k.awaits(t, "ACCEPT")), `"id":{`)

	k.d.mu.Lock()
	k.d.byName["h0"].mute = false
	k.d.mu.Unlock()
	offer("o-3", volume)
	deleted := make(chan error, 1)
	go func() { deleted <- k.d.DeleteVolume(t.Context(), "h0", "w") }()
	refused(k.awaits(t, "ACCEPT"))
	k.d.comesTo(t, func() bool { return k.d.byName["h0"].mute })
	says("o-4", volume) // which is used at once
	require.NotContains(t, string(k.awaits(t, "ACCEPT")), `"id":{`)
	require.NoError(t, <-deleted)
}
