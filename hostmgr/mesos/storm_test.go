package mesos_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// storm is the whole system in one bubble of virtual time: a scheduler with its journal, and two Mesos clusters with a
// host manager each, in which everything goes wrong that can, several things at a time.
type storm struct {
	*testing.T
	random *rand.Rand

	history       journal.Journal
	listener      atomic.Pointer[bufconn.Listener]
	scheduler     *serve.Scheduler
	killScheduler func(crash bool)
	sites         []*site

	jobs     []kind // by uid, from 1
	volumes  bool   // there are roles beside "*", and tasks with volumes
	services []cluster.JobUID
	going    []*strike
	coming   []*strike       // whose outages go on
	held     map[string]bool // what the strikes that go on have hold of
	outages  []*outage
	mutes    []*outage
	wiped    []*outage              // in which a disk was lost
	shot     map[cluster.RunID]bool // whose executors were killed
	struck   map[string]int         // how often each kind of strike happened
	done     []string               // what was done, for a failure's message
}

const (
	siteHosts = 6
	lostAfter = 3 * time.Minute
	agentTime = 75 * time.Second
	offerHold = 5 * time.Minute
	nServices = 20
	nKeepers  = 6
	maxFails  = 2               // of the tasks that always fail
	portion   = 5 * time.Minute // after each of which more jobs come
	perMinute = 36              // batch tasks for each minute of the storm
)

// kind is what a job is for; its tasks run the command of this name.
type kind string

const (
	batchJob   kind = "batch"    // tasks that end well after a while; some fail in their first runs, some cannot be launched at first
	groupJob   kind = "group"    // the same, of two processes
	serviceJob kind = "services" // tasks that run for ever
	keeperJob  kind = "keepers"  // the same, each with a volume
	pairJob    kind = "pairs"    // the same, each of two processes
	doomedJob  kind = "doomed"   // tasks that always fail
	briefJob   kind = "brief"    // tasks that run for ever, of a job that is stopped while they come up
)

// stays reports whether its tasks run until the storm is over, and keeps whether they come back to their volumes.
func (k kind) stays() bool { return k == serviceJob || k.keeps() }
func (k kind) keeps() bool { return k == keeperJob || k == pairJob }

// TestStorm: with all that can go wrong going wrong, tasks run as their policies say, none runs twice at once but for a
// replacement after its timeout, and nothing is left over. What is checked is what the agents really ran. SLUICE_LONG
// makes it an hour of each of several storms; SLUICE_SEED takes one seed. Even ones have volumes.
func TestStorm(t *testing.T) {
	seeds, lasts := []uint64{1, 2}, 10*time.Minute
	switch {
	case os.Getenv("SLUICE_LONG") != "":
		seeds, lasts = []uint64{1, 2, 3, 4, 5, 6, 7, 8}, time.Hour
	case testing.Short():
		seeds, lasts = []uint64{2}, 5*time.Minute
	}
	if seed, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { runStorm(t, seed, lasts, dir) })
		})
	}
}

// stormBehaviour is what a task does, from its id.
func stormBehaviour(info api.TaskInfo) mesostest.Behaviour {
	run, err := runOf(info.TaskID.Value)
	if err != nil {
		panic(err)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(info.TaskID.Value))
	n := h.Sum32()
	b := mesostest.Behaviour{
		Startup: time.Duration(50+n%500) * time.Millisecond, Runs: time.Duration(5+n%240) * time.Second,
		TermTakes: time.Duration(n%3000) * time.Millisecond, IgnoresTerm: n%11 == 0,
	}
	switch job := kind(info.Command.GetValue()); {
	case job.stays(), job == briefJob:
		b.Runs = mesostest.Forever
	case job == doomedJob:
		b.Runs, b.ExitCode = b.Runs/4, 3
	default:
		if run.Run <= 2 && n%5 == 0 {
			b.ExitCode = 1
		}
		b.LaunchFails = run.Run == 1 && n%29 == 0
	}
	return b
}

// runOf reads the id of a Mesos task: that of a run, with the number of the process where there are several.
func runOf(task string) (cluster.RunID, error) {
	name, _, _ := strings.Cut(task, "_")
	return cluster.ParseRunID(name)
}

func runStorm(t *testing.T, seed uint64, lasts time.Duration, dir string) {
	s := &storm{
		T: t, random: rand.New(rand.NewPCG(seed, 0)), history: journal.NewMemory(),
		held: make(map[string]bool), struck: make(map[string]int), shot: make(map[cluster.RunID]bool), volumes: seed%2 == 0,
	}
	s.startScheduler()
	defer func() { s.killScheduler(false) }() // the one that lives then
	for i, name := range []string{"east", "west"} {
		at := newSite(s, name, dir, 2*seed+uint64(i))
		s.sites = append(s.sites, at)
		defer at.close()
	}
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/work"}})
	s.services = append(s.services, s.submit(serviceJob, nServices))
	if s.volumes {
		s.services = append(s.services, s.submit(keeperJob, nKeepers), s.submit(pairJob, nKeepers))
	}
	s.submit(doomedJob, 8)
	s.blow(lasts)
	s.endsWell(time.Now())
	s.judge()
}

// blow lets it storm for a while.
func (s *storm) blow(lasts time.Duration) {
	begun := time.Now()
	next, jobs := begun, begun
	for time.Since(begun) < lasts {
		now := time.Now()
		s.endStrikes(now)
		if !now.Before(jobs) {
			s.submit(batchJob, perMinute*uint32(portion.Minutes()))
			s.submit(groupJob, 10)
			jobs = now.Add(portion)
		}
		if !now.Before(next) {
			s.strike(now)
			s.noLeakedOffer()
			s.noSecondVolume()
			next = now.Add(time.Duration(s.random.IntN(12_000)) * time.Millisecond)
		}
		time.Sleep(min(next.Sub(now), time.Second) + time.Millisecond)
	}
	for len(s.going)+len(s.coming) > 0 {
		time.Sleep(time.Second)
		s.endStrikes(time.Now())
	}
	s.note("calm")
	for _, at := range s.sites {
		at.mesos.SetFaults(mesostest.Faults{})
	}
}

func (s *storm) emit(event cluster.Event) {
	s.Helper()
	require.NoError(s, s.scheduler.Do(s.Context(), func(tx *serve.Tx) error { return tx.Emit(event) }))
}

// submit submits a job of a kind, and returns its uid. While the scheduler is away it waits.
func (s *storm) submit(job kind, instances uint32) cluster.JobUID {
	s.Helper()
	s.awaitScheduler()
	s.jobs = append(s.jobs, job)
	uid := cluster.JobUID(len(s.jobs))
	work := []string{string(job)}
	spec := &cluster.JobSpec{
		Name: cluster.JobID(fmt.Sprint(job, uid)), Pool: "root/work", Instances: instances, MaxFailures: cluster.MaxMaxFailures,
		Task: cluster.TaskSpec{
			Processes: []cluster.Process{{Command: work}}, KillGrace: 2 * time.Second,
			Resources: cluster.NewResources([cluster.NumDimensions]int64{500, 1 << 30, 0, 0}),
		},
	}
	switch job {
	case groupJob, pairJob:
		spec.Task.Processes = []cluster.Process{{Name: "a", Command: work}, {Name: "b", Command: work}}
	case doomedJob:
		spec.MaxFailures = maxFails
	}
	if job.keeps() {
		spec.Type = cluster.Stateful
	}
	if job.keeps() || s.volumes && job == briefJob {
		spec.Task.Volumes = []cluster.Volume{{Name: string(job) + "-" + cluster.InstanceMark, MountPath: "data"}}
	}
	s.emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: uid, Spec: spec}}})
	return uid
}

// awaitScheduler waits until there is one.
func (s *storm) awaitScheduler() {
	for s.held["scheduler"] {
		time.Sleep(time.Second)
		s.endStrikes(time.Now())
	}
}

// note remembers what was done, and when.
func (s *storm) note(what string) {
	s.done = append(s.done, time.Now().Format("2 15:04:05.000 ")+what)
}

// story is what was done, for a failure's message.
func (s *storm) story() string { return strings.Join(s.done, "\n") }

// noLeakedOffer: no offer stays out for longer than the driver holds offers, and a call may be lost and repeated.
func (s *storm) noLeakedOffer() {
	for _, at := range s.sites {
		for _, o := range at.mesos.Offers() {
			require.Less(s, time.Since(o.Since), offerHold+8*time.Minute, "offer %s on %s/%s\n%s", o.ID, at.name, o.Hostname, s.story())
		}
	}
}

// noSecondVolume: no agent has two volumes of one name, of which a task would find now the one and now the other.
func (s *storm) noSecondVolume() {
	for _, at := range s.sites {
		for i := range siteHosts {
			of := make(map[string]mesostest.Volume)
			for _, v := range at.mesos.Volumes(fmt.Sprint("h", i)) {
				require.Zero(s, of[v.ID], "and %v on %s/h%d\n%s", v, at.name, i, s.story())
				of[v.ID] = v
			}
		}
	}
}
