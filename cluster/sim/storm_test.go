package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/rules/rulestest"
	"github.com/sluice-scheduler/sluice/cluster/sim/check"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/costmodels"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/flowgraph"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// TestStorms draws whole simulations: a small cluster, pools, jobs of all kinds, faults of all kinds, models that are swapped, and
// people who stop, change and restart what runs. No rule is broken, what can end ends, the journal gives the state again, and the
// same seed the same history, whether or not somebody asks why.
func TestStorms(t *testing.T) {
	seen := map[string]int{}
	lacking := func() []string { // of what may happen in storms
		return slices.DeleteFunc([]string{
			"preemptions", "migrations", "copies won", "restarts", "updates", "succeeded updates", "in place", "stopped by hand", "gangs", "lent", "quiet", "anew", "health", "explained", "networks", "broken",
		}, func(what string) bool { return seen[what] > 0 })
	}
	for range 8 { // a hundred storms may be too few to have seen everything
		rapid.Check(t, func(t *rapid.T) {
			s := newStorm(t)
			one := s.play(seen)
			if s.oneOf(8) {
				s.curious = !s.curious
				require.Equal(t, one, s.play(map[string]int{}), "the same seed gives another history, or to ask why changes it")
			}
		})
		if testing.Short() || len(lacking()) == 0 {
			break
		}
	}
	t.Logf("%v", seen)
	if !testing.Short() {
		require.Empty(t, lacking())
	}
}

// storm is a simulation that was drawn, and can be played any number of times.
type storm struct {
	*rapid.T
	hosts    []trace.Host
	others   map[string]cluster.Machine // what hosts of a name are now and then
	pools    []cluster.Pool
	free     bool // pools keep nothing back: then nothing waits that fits
	leaves   []cluster.PoolPath
	jobs     []trace.Job
	byHand   []byHand
	policies []*cycle.Policy
	flawed   []*flawed // models that break
	every    int       // cycles between two policies
	config   Config
	bad      map[cluster.JobID]int // runs of an instance that fail, by job
	stubborn map[cluster.JobID]bool
	curious  bool                              // ask why tasks wait, and why they are where they are
	findings map[cluster.JobID][]fleet.Finding // of runs that have checks, by job
}

func (s *storm) int(n int) int     { return rapid.IntRange(0, n-1).Draw(s.T, "") }
func (s *storm) oneOf(n int) bool  { return s.int(n) == n-1 } // shrinks to false
func (s *storm) upTo(n int) uint32 { return uint32(1 + s.int(n)) }
func (s *storm) seconds(n int) time.Duration {
	return time.Duration(s.int(n*10)) * 100 * time.Millisecond
}

func pick[T any](s *storm, from ...T) T { return from[s.int(len(from))] }

func (s *storm) hostID() cluster.HostID { return s.hosts[s.int(len(s.hosts))].ID() }

// later is a pool that comes with its first job, or as somebody makes it.
const later cluster.PoolPath = "root/e"

// dimensions are what pools are bounded in.
var dimensions = []string{cluster.CPU.String(), cluster.GPU.String(), "tape"}

// works are the kinds of work that there are: one of them disturbs all others by its name.
var works = []string{"sort", "scan", "devil"}

// span is how long jobs arrive and people interfere; then they let things come to their end.
const span = 3 * time.Minute

func newStorm(t *rapid.T) *storm {
	s := &storm{T: t, bad: map[cluster.JobID]int{}, stubborn: map[cluster.JobID]bool{}, findings: map[cluster.JobID][]fleet.Finding{}, others: map[string]cluster.Machine{}}
	for i := range 1 + s.int(7) {
		s.hosts = append(s.hosts, trace.Host{Name: fmt.Sprintf("h%d", i), Machine: s.machine(i)})
	}
	if s.oneOf(3) { // another shard, with hosts that have the names of others
		for i := range 1 + s.int(3) {
			s.hosts = append(s.hosts, trace.Host{Shard: pick[cluster.ShardID](s, "sim-b", "a"), Name: fmt.Sprintf("h%d", i), Machine: s.machine(i)})
		}
	}
	for i := range s.hosts {
		if s.oneOf(4) {
			s.others[s.hosts[i].Name] = s.machine(s.int(8))
		}
	}
	s.free = !s.oneOf(2)
	s.leaves = []cluster.PoolPath{"root/a", "root/b/c", "root/b/d", later}
	for _, path := range []cluster.PoolPath{"root", "root/a", "root/b", "root/b/c", "root/b/d"} {
		if p := s.pool(path); path != "root" || s.oneOf(2) {
			s.pools = append(s.pools, p)
		}
	}
	reserveFor(s.pools)
	at := time.Duration(0)
	for i := range 1 + s.int(14) {
		if !s.oneOf(3) {
			at += s.seconds(20)
		}
		s.jobs = append(s.jobs, s.job(i, at))
	}
	for range s.int(12) {
		s.byHand = append(s.byHand, byHand{s.seconds(int(span.Seconds())), s.interfere()})
	}
	s.settings()
	s.curious = s.oneOf(2)
	return s
}

func (s *storm) machine(i int) cluster.Machine {
	m := cluster.Machine{
		Rack: fmt.Sprint("r", i/2), Zone: fmt.Sprint("z", i/4), Attributes: []cluster.KeyValue{{Key: "disk", Value: pick(s, "ssd", "hdd")}},
		Capacity: cluster.NewResources([cluster.NumDimensions]int64{
			cluster.CPU: int64(1000 * s.upTo(8)), cluster.Memory: int64(4*s.upTo(4)) << 30, cluster.Network: 1_000_000_000,
		}, cluster.Amount{Name: "tape", Value: int64(s.int(3))}),
		Ports: []cluster.PortRange{{First: 80, Last: 80 + uint16(s.int(4))}}, Capabilities: cluster.CanPorts | cluster.CanContainers | cluster.CanHealthChecks | cluster.CanSecrets | cluster.CanWarn,
	}
	switch s.int(12) { // some are in no domain
	case 11:
		if i > 0 { // or there is none in which all hosts fail together
			m.Rack = ""
		}
	case 10:
		m.Zone = ""
	case 9:
		m.Attributes = nil
	}
	if s.oneOf(8) {
		m.Attributes = append(m.Attributes, cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"})
	}
	if s.oneOf(6) {
		m.Capabilities &^= pick(s, cluster.CanPorts, cluster.CanContainers, cluster.CanHealthChecks, cluster.CanSecrets, cluster.CanWarn)
	}
	if s.oneOf(6) {
		m.Revocable.Fixed[cluster.CPU], m.Revocable.Fixed[cluster.Memory] = int64(500*s.int(8)), int64(s.int(8))<<30
	}
	if s.oneOf(2) {
		for range s.upTo(4) {
			m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: pick(s, "A", "B")})
		}
		m.Capacity.Fixed[cluster.GPU] = int64(len(m.GPUs)) * cluster.WholeGPU
	}
	return m
}

// reserveFor has each pool below the root reserve what those below it do, at least, as the server demands.
func reserveFor(pools []cluster.Pool) {
	for i := range slices.Backward(pools) {
		for _, below := range pools {
			for _, r := range below.Resources {
				if above := &pools[i]; below.Path.Parent() == above.Path && above.Path != cluster.RootPool && r.Reservation > 0 {
					reserve(above, r.Dimension, r.Reservation)
				}
			}
		}
	}
}

// reserve has a pool reserve so much beside its own.
func reserve(p *cluster.Pool, dimension string, more int64) {
	p.Resources = slices.Clone(p.Resources)
	for i := range p.Resources {
		if r := &p.Resources[i]; r.Dimension == dimension {
			r.Reservation += more
			return
		}
	}
	p.Resources = append(p.Resources, cluster.PoolResource{Dimension: dimension, Reservation: more, Limit: cluster.NoLimit, Share: 1})
	slices.SortFunc(p.Resources, func(a, b cluster.PoolResource) int { return strings.Compare(a.Dimension, b.Dimension) })
}

// bears reports whether the pool may be as it is to be, beside the others.
func bears(state *cluster.State, p *cluster.Pool) bool {
	reserved := func(p *cluster.Pool, dimension string) int64 {
		i := slices.IndexFunc(p.Resources, func(r cluster.PoolResource) bool { return r.Dimension == dimension })
		if i < 0 {
			return 0
		}
		return p.Resources[i].Reservation
	}
	for _, d := range dimensions {
		below, beside := int64(0), reserved(p, d)
		for q := range state.Pools() {
			if q.Path.Parent() == p.Path {
				below += reserved(q, d)
			}
			if q.Path.Parent() == p.Path.Parent() && q.Path != p.Path {
				beside += reserved(q, d)
			}
		}
		above := p.Path.Parent()
		if p.Path != cluster.RootPool && below > reserved(p, d) {
			return false
		}
		if above != "" && above != cluster.RootPool && beside > reserved(state.Pool(above), d) {
			return false
		}
	}
	return true
}

func (s *storm) pool(path cluster.PoolPath) cluster.Pool {
	if s.free {
		return cluster.Pool{Path: path}
	}
	p := cluster.Pool{
		Path: path, Order: pick(s, cluster.PriorityFIFO, cluster.FairJobs, cluster.FairUsers), Division: pick(s, cluster.MaxMin, cluster.DominantResource),
		Preemption: pick(s, "", "default", "conservative", "none"), Ageing: pick(s, 0, 10*time.Second),
	}
	for _, d := range dimensions { // by name
		r, unit := cluster.PoolResource{Dimension: d, Limit: cluster.NoLimit, Share: uint32(s.int(4))}, int64(1000)
		if d == "tape" {
			unit = 1
		}
		if path != cluster.RootPool && s.oneOf(2) {
			r.Reservation, r.Static = unit*int64(s.int(8)), s.oneOf(4)
		}
		if s.oneOf(3) && path != "root" && path != "root/b" {
			r.Limit = r.Reservation + unit*int64(s.int(8))
		}
		if s.oneOf(2) {
			p.Resources = append(p.Resources, r)
		}
	}
	for range 1 + s.int(2) {
		switch n := uint32(s.int(3)); s.int(12) {
		case 11:
			p.Limits.PreemptedPerCycle = &n
		case 10:
			n++
			p.Limits.RunningJobs = &n
		case 9:
			n++
			if s.oneOf(2) {
				p.Limits.RunningJobsPerUser = &n
			} else {
				p.Limits.RunningJobsPerGroup = &n
			}
		case 8:
			p.Hosts = []cluster.KeyValue{{Key: "disk", Value: "ssd"}}
		case 7:
			p.Hosts = []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "lab"}}
		case 6:
			percent := 30 * n
			p.Limits.ControllerPercent, p.Limits.RevocablePercent = &percent, &percent
		}
	}
	return p
}

func (s *storm) job(i int, at time.Duration) trace.Job {
	j := trace.Job{Submit: at, Durations: []time.Duration{time.Second + s.seconds(60)}, Spec: cluster.JobSpec{
		Name: s.name(i), Pool: pick(s, s.leaves...), Owner: fmt.Sprint("user", s.int(2)), Instances: s.upTo(8),
		MaxFailures: 3, Priority: int32(s.int(3)), Preemptible: !s.oneOf(3),
		Labels: []cluster.KeyValue{{Key: "app", Value: pick(s, "x", "y")}, {Key: cluster.WorkLabel, Value: pick(s, works...)}},
	}}
	spec := &j.Spec
	if s.oneOf(2) {
		spec.Groups = []string{fmt.Sprint("group", s.int(2))}
	}
	spec.Task = s.task()
	switch s.int(12) {
	case 11:
		spec.Type = cluster.Daemon
		spec.Instances, spec.Preemptible = 0, false
	case 10:
		spec.Type, spec.Preemptible = cluster.Stateful, false
	case 9, 8:
		spec.Type = cluster.Stateless
		spec.Limits.MaxUnavailable = uint32(s.int(3))
	case 7:
		spec.Revocable, spec.Task.GPU, spec.Task.Resources.Named = true, cluster.GPURequest{}, nil
		spec.Task.Resources.Fixed[cluster.GPU] = 0
	case 6, 5:
		if spec.Instances > 1 {
			spec.Gang = &cluster.Gang{Minimum: 2 + uint32(s.int(int(spec.Instances-1))), LaunchTimeout: pick(s, 0, 10*time.Second)}
		}
	case 4:
		spec.Controller = true
	case 3, 2:
		idempotent(spec)
	}
	if spec.Type.Service() {
		spec.MaxFailures, j.Durations = 0, []time.Duration{0}
		if spec.Type != cluster.Daemon {
			spec.Update = s.updatePolicy()
		}
	}
	if spec.Gang == nil && spec.Task.GPU.IsZero() && s.oneOf(5) { // in between they ask for something else
		first, other := s.upTo(4)-1, s.task().Resources
		other.Fixed[cluster.GPU] = 0
		spec.Overrides = []cluster.InstanceOverride{{First: first, Last: first + uint32(s.int(3)), Task: &cluster.TaskSpec{Resources: other}}}
		switch o := &spec.Overrides[0]; s.int(4) {
		case 3:
			o.Task.Labels = []cluster.KeyValue{{Key: "app", Value: pick(s, "x", "y")}}
		case 2:
			o.Task, o.Env = nil, []cluster.KeyValue{{Key: "K", Value: "v"}}
		}
	}
	s.place(spec)
	s.limit(spec, at)
	if s.oneOf(4) {
		s.bad[spec.Name] = s.int(3)
	}
	s.stubborn[spec.Name] = s.oneOf(6)
	at = 0
	for range s.int(4) {
		at += s.seconds(15)
		s.findings[spec.Name] = append(s.findings[spec.Name], fleet.Finding{After: at, Health: pick(s, cluster.HealthReady, cluster.HealthUnready, cluster.Unhealthy)})
	}
	return j
}

// name draws the name of a job: now and then that of an earlier one, which it gets if that is gone by then.
func (s *storm) name(i int) cluster.JobID {
	if i > 0 && s.oneOf(8) {
		i = s.int(i)
	}
	return cluster.JobID(fmt.Sprint("j", i))
}

func (s *storm) task() cluster.TaskSpec {
	task := cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"true"}}}, KillGrace: s.seconds(5)}
	task.Resources.Fixed[cluster.CPU], task.Resources.Fixed[cluster.Memory] = int64(500*s.upTo(4)), int64(s.int(5))<<30
	if s.oneOf(3) {
		task.Processes[0].Container = &cluster.Container{Image: pick(s, "p", "q"), ImageBytes: int64(s.int(3)) << 30}
	}
	switch s.int(10) {
	case 9:
		task.GPU = cluster.GPURequest{Count: int32(s.upTo(2))}
	case 8:
		task.GPU = cluster.GPURequest{Milli: 300 * int32(s.upTo(3)), Models: []string{pick(s, "A", "B")}}
	case 7:
		task.Ports = cluster.PortRequest{Numbers: []uint16{80 + uint16(s.int(2))}, Dynamic: uint16(s.int(2))}
	case 6:
		task.Ports = cluster.PortRequest{Dynamic: uint16(s.upTo(2))}
	case 5:
		task.Resources.Named = []cluster.Amount{{Name: "tape", Value: 1}}
	}
	task.Resources.Fixed[cluster.GPU] = task.GPU.Amount()
	if s.oneOf(3) {
		task.Processes[0].Checks = []cluster.HealthCheck{{
			Command: []string{"true"}, Effect: pick(s, cluster.LivenessAndReadiness, cluster.Liveness, cluster.Readiness),
			Interval: time.Second, Timeout: time.Second, Failures: 1, Successes: 1,
		}}
	}
	return task
}

// place draws where tasks of the job may run and like to.
func (s *storm) place(spec *cluster.JobSpec) {
	ssd, soft := is("disk", "ssd"), cluster.Soft{Timeout: s.seconds(30), Penalty: time.Minute}
	and := func(c cluster.Constraint) {
		if spec.Type == cluster.Daemon && c.CountsTasks() {
			c = ssd
		}
		if spec.Constraint != nil {
			c = cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{*spec.Constraint, c}}
		}
		spec.Constraint = &c
	}
	for range 1 + s.int(4)/3 {
		domain := pick(s, cluster.DomainHost, "rack", "zone", "disk", "")
		switch s.int(14) {
		case 13:
			c := is(pick(s, cluster.LabelHostname, cluster.LabelRack), pick(s, "h0", "r0"))
			c.Comparison, c.Count = cluster.Less, 1
			and(c)
		case 12:
			spec.Preferences = append(spec.Preferences, cluster.SoftConstraint{Constraint: is(cluster.LabelRack, "r1"), Soft: soft})
		case 11:
			and(ssd)
		case 10:
			c := near(pick(s, "x", "y"), domain, pick(s, cluster.Less, cluster.Equal, cluster.Greater), uint32(s.int(3)))
			if s.oneOf(4) {
				c.Label.Value, c.AnyValue = "", true
			}
			and(*c)
		case 9:
			spec.Spread = append(spec.Spread, cluster.Spread{Domain: domain, Max: s.upTo(3)})
		case 8:
			spec.Spread = append(spec.Spread, cluster.Spread{Domain: domain, MaxSkew: s.upTo(2)})
		case 7:
			spec.Spread = append(spec.Spread, cluster.Spread{Domain: domain, Max: s.upTo(2), Selector: []cluster.KeyValue{{Key: "app", Value: "x"}}, Soft: &soft})
		case 6:
			spec.Preferences = append(spec.Preferences, cluster.SoftConstraint{Constraint: ssd, Soft: soft})
		case 5:
			and(cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{is(cluster.AttributeExclusive, "lab"), ssd}})
		}
	}
	if spec.Type == cluster.Batch && s.oneOf(3) {
		for i := range spec.Instances {
			spec.Inputs = append(spec.Inputs, cluster.Input{Bytes: int64(s.int(8)) << 30, First: i, Last: i, Hosts: []cluster.HostID{s.hostID()}})
			if in := &spec.Inputs[i]; s.oneOf(4) {
				in.Hosts, in.Racks, in.Zones = nil, []string{pick(s, "r0", "r1")}, []string{"z1"}
			}
		}
		if s.oneOf(2) {
			wait := s.seconds(20)
			spec.HostWait, spec.RackWait = &wait, &wait
		}
	}
}

// limit draws what bounds the job, and how it begins and leaves.
func (s *storm) limit(spec *cluster.JobSpec, at time.Duration) {
	if s.oneOf(3) {
		spec.TTL = 100*time.Millisecond + s.seconds(30)
	}
	if s.oneOf(4) {
		spec.Backoff = cluster.Backoff{Initial: time.Second, Max: 4 * time.Second}
	}
	spec.Preemption = cluster.PreemptionPolicy{Kill: s.oneOf(6), Grace: s.seconds(3)}
	if s.oneOf(6) {
		spec.Preemption.Command = []string{"true"}
	}
	switch s.int(12) {
	case 11:
		spec.Limits.Deadline = begin.Add(at + time.Second + s.seconds(60))
	case 10:
		if spec.Type == cluster.Batch { // a service would go on for ever
			spec.Limits.MaxRunTime = time.Second + s.seconds(60)
		}
	case 9:
		if spec.Type != cluster.Daemon {
			spec.Limits.MaxRunning = s.upTo(4)
		}
		if spec.Gang != nil {
			spec.Limits.MaxRunning = max(spec.Limits.MaxRunning, spec.Gang.Minimum)
		}
	case 8:
		spec.Limits.MaxPreempted = s.upTo(2)
	case 7, 6:
		if n := len(s.jobs); n > 0 && spec.Type == cluster.Batch {
			d := cluster.Dependency{Job: s.jobs[s.int(n)].Spec.Name, On: pick(s, cluster.OnSuccess, cluster.OnFailure, cluster.OnEnd)}
			if d.Job != spec.Name {
				spec.DependsOn = []cluster.Dependency{d}
			}
		}
	case 5:
		spec.Estimate = s.seconds(60)
	}
}

// another draws a change of nearly all that a job may have.
func (s *storm) another() func(*cluster.JobSpec) {
	drawn := cluster.JobSpec{Instances: 8, Task: s.task()}
	s.place(&drawn)
	s.limit(&drawn, span/2)
	preemptible, changes, priority, scales, instances := s.oneOf(2), s.oneOf(2), int32(s.int(4)), s.oneOf(4), s.upTo(8)
	labels := []cluster.KeyValue{{Key: "app", Value: pick(s, "x", "y", "z")}}
	if s.oneOf(3) {
		drawn.Task.Labels = labels
	}
	return func(spec *cluster.JobSpec) {
		next := drawn
		next.Name, next.Type, next.Pool, next.Owner, next.Groups, next.Labels = spec.Name, spec.Type, spec.Pool, spec.Owner, spec.Groups, spec.Labels
		next.Priority, next.Preemptible, next.Revocable, next.Gang = spec.Priority, spec.Preemptible, spec.Revocable, spec.Gang
		next.Controller, next.Instances, next.MaxFailures, next.DependsOn = spec.Controller, spec.Instances, spec.MaxFailures, spec.DependsOn
		next.Secrets, next.Speculation, next.Update, next.Limits.MaxUnavailable = spec.Secrets, spec.Speculation, spec.Update, spec.Limits.MaxUnavailable
		if changes {
			next.Priority = priority
			switch spec.Type {
			case cluster.Batch:
				next.MaxFailures, next.Speculation = uint32(priority), nil
			case cluster.Stateless:
				next.Preemptible, next.Limits.MaxUnavailable = preemptible, uint32(priority)
			}
		}
		if scales && spec.Type != cluster.Daemon {
			next.Instances = instances
		}
		if spec.Type == cluster.Batch {
			next.Preemptible = preemptible
			next.Inputs = slices.DeleteFunc(slices.Clone(next.Inputs), func(in cluster.Input) bool { return in.First >= next.Instances })
		} else {
			next.Inputs, next.HostWait, next.RackWait, next.Limits.MaxRunTime = nil, nil, nil, 0
		}
		if spec.Type == cluster.Daemon {
			next.Limits.MaxRunning = 0
			if next.Constraint.CountsTasks() {
				next.Constraint = nil
			}
		}
		if spec.Revocable {
			next.Task.GPU, next.Task.Resources.Named = cluster.GPURequest{}, nil
			next.Task.Resources.Fixed[cluster.GPU] = 0
		}
		if g := spec.Gang; g != nil {
			next.Task, next.Constraint, next.Preferences, next.Spread, next.Overrides = spec.Task, spec.Constraint, spec.Preferences, spec.Spread, spec.Overrides
			if next.Limits.MaxRunning > 0 {
				next.Limits.MaxRunning = max(next.Limits.MaxRunning, g.Minimum)
			}
		}
		*spec = next
	}
}

func (s *storm) updatePolicy() *cluster.UpdatePolicy {
	p := &cluster.UpdatePolicy{
		BatchSize: uint32(s.int(3)), StartFirst: s.oneOf(3), InPlace: s.oneOf(2), Rollback: s.oneOf(3), StartPaused: s.oneOf(8),
		MinHealthy: s.seconds(5), Deadline: 10*time.Second + s.seconds(20),
	}
	p.MaxFailed, p.MaxAttempts = uint32(s.int(3)), uint32(s.int(3))
	if s.oneOf(3) {
		p.Unplaced = 5*time.Second + s.seconds(20)
	}
	if s.oneOf(4) {
		p.Canaries = 1
	}
	return p
}

// interfere draws what somebody asks for. It picks among what there is then, and what makes no sense then is refused.
func (s *storm) interfere() func(*rules.Tx) error {
	which, task, instances, cpu := s.int(100), s.int(100), uint32(1+s.int(8)), int64(500*s.upTo(4))
	host, move, version := s.hostID(), s.oneOf(2), uint64(s.upTo(3))
	label, policy, pool := pick(s, "x", "y", "z"), s.updatePolicy(), s.pool(pick(s, append(s.leaves, "root", "root/b")...))
	what, machine, another, work := s.int(22), s.machine(s.int(8)), s.another(), pick(s, works...)
	if pool.Path == cluster.RootPool {
		pool.Hosts = nil
	}
	onJob := func(do func(*rules.Tx, *cluster.Job) error) func(*rules.Tx) error {
		return func(tx *rules.Tx) error {
			var all []*cluster.Job
			for j := range tx.State().Jobs(0) {
				if !j.Stopping && (!j.State().Terminal() || j.Spec.Type.Service()) {
					all = append(all, j)
				}
			}
			if len(all) == 0 {
				return nil
			}
			return do(tx, all[which%len(all)])
		}
	}
	onTask := func(do func(*rules.Tx, *cluster.Task, *cluster.Job) error) func(*rules.Tx) error {
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			all := slices.Collect(tx.State().TasksOf(j.UID, 0))
			if len(all) == 0 {
				return nil
			}
			return do(tx, all[task%len(all)], j)
		})
	}
	change := func(scales bool, change func(*cluster.JobSpec)) func(*rules.Tx) error {
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			spec := *j.Spec
			if change(&spec); spec.Gang != nil && (spec.Instances < spec.Gang.Minimum || spec.ChangeOf(j.Spec, 0) != cluster.NoChange) {
				return errors.New("a gang stays whole")
			}
			e := &cluster.JobUpdated{Job: j.UID, Spec: &spec}
			if !scales {
				e.Update = &cluster.Update{From: j.Version, Policy: *policy}
				if last := j.Update; last != nil && last.State != cluster.UpdateSucceeded && !last.Restarts() && !last.Back() && j.SpecOf(last.From) != nil {
					e.Update.From = last.From
				}
				if spec.Type == cluster.Daemon {
					e.Update.Policy.StartFirst = false
				}
			}
			return tx.Emit(e)
		})
	}
	update := func(to func(*cluster.JobSpec)) func(*rules.Tx) error { return change(false, to) }
	steer := func(change func(*cluster.Update)) func(*rules.Tx) error {
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			if !j.Update.Live() {
				return errors.New("there is no update")
			}
			u := *j.Update
			change(&u)
			return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge})
		})
	}
	switch what {
	case 0:
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			err := tx.Emit(&cluster.JobStopping{Job: j.UID})
			if j = tx.State().Job(j.UID); move && j.State().Terminal() && len(tx.State().WaitingFor(j.Spec.Name)) == 0 {
				err = errors.Join(err, tx.Emit(&cluster.JobDeleted{Job: j.UID}))
			}
			return err
		})
	case 1:
		return onTask(func(tx *rules.Tx, t *cluster.Task, _ *cluster.Job) error {
			return tx.Emit(&cluster.TaskStopping{Task: t.Key.Original(), Reason: cluster.ReasonTaskStopped})
		})
	case 2:
		return onTask(func(tx *rules.Tx, t *cluster.Task, _ *cluster.Job) error {
			return tx.Emit(&cluster.TaskStopping{Task: t.Key.Original(), Reason: cluster.ReasonTaskRestarted, Restart: true})
		})
	case 3:
		return change(true, func(spec *cluster.JobSpec) {
			if spec.Type != cluster.Daemon {
				spec.Instances = instances
			}
		})
	case 4, 5, 6:
		return update(func(spec *cluster.JobSpec) {
			spec.Task.Resources.Fixed[cluster.CPU] = cpu
			if move {
				spec.Task.Processes = []cluster.Process{{Command: []string{label}}}
				spec.Secrets, spec.Task.Secrets = []cluster.Secret{{Name: label, Path: label, Key: "k", Sealed: []byte{byte(which)}}}, true
			}
		})
	case 7:
		return update(func(spec *cluster.JobSpec) {
			spec.Labels = []cluster.KeyValue{{Key: "app", Value: label}, {Key: cluster.WorkLabel, Value: work}}
			spec.Priority = int32(cpu / 1000)
			if move {
				spec.Owner, spec.Groups = fmt.Sprint("user", instances%2), []string{fmt.Sprint("group", cpu/500%2)}
			}
		})
	case 8:
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			if j.SpecOf(version) == nil || version == j.Version || j.Spec.Gang != nil {
				return errors.New("it is not kept, or the present one")
			}
			return rules.Rollback(tx, j, version, cluster.ReasonRequested, "")
		})
	case 9:
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			if j.Update.Live() {
				return errors.New("an update is under way")
			}
			u := cluster.Update{From: j.Version, To: j.Version, Policy: *policy}
			u.Policy.Canaries, u.Policy.StartPaused = 0, false
			if move {
				u.Only = []cluster.InstanceRange{{First: instances - 1, Last: max(instances-1, j.Spec.Instances-1)}}
			}
			return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge, Begins: true})
		})
	case 10:
		return steer(func(u *cluster.Update) { u.State, u.Resume = cluster.UpdatePaused, u.State })
	case 11:
		return steer(resume)
	case 12:
		return func(tx *rules.Tx) (err error) {
			for h := range slices.Values(slices.Collect(tx.State().Hosts(""))) {
				if h.ID == host || instances > 4 && h.Rack == machine.Rack {
					err = errors.Join(err, tx.Emit(&cluster.HostDrain{ID: h.ID, Drain: task%3 > 0, Move: move && task%3 > 0}))
				}
			}
			return err
		}
	case 13:
		return func(tx *rules.Tx) error {
			if h := tx.State().Host(host); h == nil || h.Unreachable {
				return errors.New("nobody sees it")
			}
			return tx.Emit(&cluster.HostReported{ID: host, Machine: machine})
		}
	case 14:
		return update(func(spec *cluster.JobSpec) {
			if spec.Limits.MaxRunning > 0 && spec.Gang == nil {
				spec.Limits.MaxRunning = instances
			}
		})
	case 15:
		return update(another)
	case 16:
		return onTask(func(tx *rules.Tx, t *cluster.Task, j *cluster.Job) error {
			if j.Spec.Type != cluster.Stateful || t.State.Bound() {
				return errors.New("it has no data, or runs on it")
			}
			return tx.Emit(&cluster.HomeForgotten{Task: t.Key})
		})
	case 17:
		return func(tx *rules.Tx) error { return tx.Emit(&cluster.PoolDeleted{Path: pool.Path}) }
	case 18:
		return onJob(func(tx *rules.Tx, j *cluster.Job) error {
			if !j.Update.Live() {
				return errors.New("there is no update")
			}
			u := *j.Update
			u.End(tx.Now(), cluster.UpdateAborted, cluster.ReasonRequested)
			return tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge})
		})
	case 19:
		return onTask(func(tx *rules.Tx, t *cluster.Task, j *cluster.Job) error { // while a host of the job's takes no work
			if !t.State.Bound() {
				return errors.New("it is on no host")
			}
			return errors.Join(tx.Emit(&cluster.HostDrain{ID: t.Host, Drain: true, Move: move}), update(another)(tx))
		})
	case 20:
		return func(tx *rules.Tx) error { return tx.Emit(&cluster.NumbersForgotten{}) }
	default:
		return func(tx *rules.Tx) error {
			if !bears(tx.State(), &pool) {
				return errors.New("pools reserve more together than that above them")
			}
			return tx.Emit(&cluster.PoolPut{Pool: pool})
		}
	}
}

// resume goes on with an update that is paused, or that waits for somebody to say that its canaries are good.
func resume(u *cluster.Update) {
	if u.State == cluster.UpdatePaused {
		u.State, u.Resume = u.Resume, cluster.UpdateInitialized
	}
	u.Promoted = true
}

// settings draws how the scheduler runs, and what goes wrong.
func (s *storm) settings() {
	var all []costmodels.Model
	for _, name := range append(models.Names(), "loadspread + quincy(theta=20)", "sluice; root/b = binpack; stateless = loadspread") {
		m, err := models.New(name)
		require.NoError(s, err)
		all = append(all, m)
	}
	for range s.upTo(3) {
		p := &cycle.Policy{Model: pick(s, all...)}
		if s.oneOf(4) {
			p.Shadow, p.ShadowEvery = pick(s, all...), int(s.upTo(3))
		}
		s.policies = append(s.policies, p)
	}
	if s.oneOf(8) {
		m := &flawed{Model: pick(s, all...), sound: s.int(300)}
		s.policies[len(s.policies)-1].Model, s.flawed = m, append(s.flawed, m)
	}
	s.every = pick(s, 1000, 20, 3, 1)
	newSolver, err := registry.Maker(pick(s, registry.Default, "repair", "netsimplex"))
	require.NoError(s, err)
	c := &s.config
	*c = Config{
		Model: s.policies[0].Model, NewSolver: newSolver, Verify: true, Seed: uint64(s.int(1 << 16)), Pools: s.pools,
		LostAfter: 5*time.Second + s.seconds(20), UnreachableAfter: time.Second + s.seconds(5), LearnEvery: 5 * time.Second, CheckpointEvery: uint64(50 * s.upTo(20)),
		PlanTime: pick(s, NoTime, 50*time.Millisecond, 300*time.Millisecond), SyncTime: pick(s, NoTime, 50*time.Millisecond, 300*time.Millisecond),
		BatchWindow: pick(s, 0, NoTime, time.Second),
	}
	if s.oneOf(5) {
		c.NewSolver = nil
	}
	if s.oneOf(8) {
		c.SolveBudget.Work = int64(s.int(200))
	}
	if s.oneOf(2) {
		c.Usage = Usage{Mean: 0.5, Interval: 5 * time.Second, Window: 10 * time.Second, Margin: 1 + s.int(30)}
	}
	if s.oneOf(2) {
		c.Stragglers = Stragglers{Hosts: 0.2, Runs: 0.1, Slowdown: 5}
		c.Speculation = knowledge.Speculation{Interval: time.Second, After: 5 * time.Second, SlowTaskPercent: 25, MaxSlowdown: 200, MaxCopiesPercent: 50}
	}
	if s.oneOf(4) {
		c.Interference = fleet.Interference{{Work: "sort", Beside: "scan"}: 500, {Work: "sort", Beside: "sort"}: 1000}
	}
	c.Faults.Rates, c.Faults.Steps = map[FaultKind]Rate{}, int64(1+s.int(40))
	for _, kind := range kinds {
		if s.oneOf(2) {
			c.Faults.Rates[kind] = Rate{Every: 2*time.Second + s.seconds(40), For: time.Second + s.seconds(20)}
		}
	}
	if s.oneOf(2) {
		f := &c.Faults
		f.LaunchRefused, f.LaunchFails = float64(s.int(3))/20, float64(s.int(3))/20
		f.StatusDelay, f.StatusDuplicated, f.StatusReordered = s.seconds(5), float64(s.int(3))/10, float64(s.int(3))/10
	}
}

// life has the first runs of some jobs fail, some take long to begin, some take no notice when they are to end, and checks say now this,
// now that, but in the end that later runs are fit to serve.
func (s *storm) life(l hostmgr.Launch, p *fleet.Plan) {
	p.Startup = time.Duration(l.Run.Task.Instance()%3) * 400 * time.Millisecond
	if int(l.Run.Run) <= s.bad[l.Job] {
		p.ExitCode, p.Duration = 1, min(p.Duration, 3*time.Second)
	}
	if checks := l.Task.Processes[0].Checks; len(checks) > 0 {
		for _, x := range s.findings[l.Job] {
			if x.Health != cluster.Unhealthy || l.Run.Run <= 2 && checks[0].Effect != cluster.Readiness {
				p.Findings = append(p.Findings, x)
			}
		}
		if l.Run.Run > 3 {
			p.Findings = append(p.Findings, fleet.Finding{After: time.Minute, Health: cluster.HealthReady})
		}
	}
	if s.stubborn[l.Job] {
		p.Stop = fleet.Forever
	}
}

// flawed is a model that breaks while a plan is made.
type flawed struct {
	costmodels.Model
	sound int // starts that it prices before
	left  int
	tried bool
}

func (m *flawed) Start(r *costmodels.Round, q *costmodels.Request, h *cluster.Host) flowgraph.Cost {
	if m.tried {
		if m.left--; m.left < 0 {
			return -1
		}
	}
	return m.Model.Start(r, q, h)
}

// Run is the planner's, by the policy of the time. Where nothing is to be done, a planner that begins anew finds nothing to place.
type storming struct {
	Planner
	s      *storm
	seen   map[string]int
	cycles int
	now    cluster.Time
	atOnce int    // cycles at that time
	acted  uint64 // one more than the Seq of what the last plan was made of, if it was to do anything
}

func (p *storming) Run(in cycle.Input) cycle.Output {
	in.Policy = p.s.policies[p.cycles/p.s.every%len(p.s.policies)]
	p.cycles++
	if in.Now != p.now {
		p.now, p.atOnce = in.Now, 0
	}
	p.atOnce++
	require.Less(p.s, p.atOnce, 1000, "cycles at %v", in.Now.Sub(begin))
	require.NotEqual(p.s, p.acted, in.Snapshot.Seq()+1, "all of a plan was refused by the state that it was made of, at %v", in.Now.Sub(begin))
	p.acted = 0
	for _, m := range p.s.flawed {
		m.tried = true
	}
	out := p.Planner.Run(in)
	broken := false
	for _, m := range p.s.flawed {
		m.tried, broken = false, broken || m.left < 0
	}
	if len(out.Steps()) > 0 {
		p.acted = in.Snapshot.Seq() + 1
	}
	if out.Stats.Fault != "" {
		p.seen["broken"]++
		require.True(p.s, broken, out.Stats.Fault)
	}
	if p.cycles%10 == 0 {
		p.s.restored(in.Snapshot)
	}
	if p.s.curious && len(out.Steps()) == 0 {
		p.ask(in.Snapshot)
	}
	unfinished := out.WakeAt != 0 && out.WakeAt <= in.Now.Add(time.Second) // the next plan comes to those who were not reached
	if len(out.Steps()) == 0 && !out.Patient && !unfinished && out.Stats.Waiting > 0 && p.s.free {
		p.seen["anew"]++
		again := cycle.New(in.Policy.Model, p.s.config.NewSolver).Run(cycle.Input{
			Snapshot: in.Snapshot, Rescan: true, KeepAll: in.KeepAll, Now: in.Now, Budget: in.Budget, Knowledge: in.Knowledge,
		})
		require.Empty(p.s, again.Placements, "a planner that begins anew at %v", in.Now.Sub(begin))
	}
	return out
}

// ask has the planner say of all tasks why they wait, or are where they are.
func (p *storming) ask(in *cluster.Snapshot) {
	planner, hosts := p.Planner.(*cycle.Supervisor), in.NumHosts()
	if n, err := planner.Network(nil); err == nil && n.Solved {
		p.seen["networks"]++
		cost := int64(0)
		for a := range n.Arcs {
			cost += n.Arcs[a].Flow * int64(n.Graph.Cost(flowgraph.ArcID(a)))
		}
		require.Equal(p.s, n.Objective, cost)
	}
	adds := func(place cycle.Place) {
		for _, t := range place.Terms {
			place.Price -= t.Price
		}
		require.Zero(p.s, place.Price, "%v", place)
	}
	for t := range in.Tasks(0) {
		if why, known := planner.WhyPlaced(t.Key); known {
			require.Equal(p.s, t.Host, why.Host)
			adds(why.Place)
			for _, place := range why.Next {
				adds(place)
			}
		} else {
			require.False(p.s, t.State == cluster.TaskRunning && in.Host(t.Host) != nil, "%v", t)
		}
		if _, err := planner.Network(&t.Key); err != nil && p.s.config.NewSolver != nil && p.cycles > 1 {
			require.ErrorIs(p.s, err, cycle.ErrNotInNetwork)
		}
		why, known := planner.WhyWaiting(t.Key)
		if !known {
			require.False(p.s, t.State == cluster.TaskPending && t.NotBefore == 0 && t.Home == "", "%v", t)
			continue
		}
		p.seen["explained"]++
		for _, c := range why.Tally {
			why.Hosts -= c.Hosts
			hosts -= c.Hosts
		}
		require.Zero(p.s, why.Hosts)
		require.Zero(p.s, hosts, "%+v", why)
		hosts = in.NumHosts()
		require.True(p.s, 1 <= why.Position && why.Position <= why.Queue, "%+v", why)
		require.NotEmpty(p.s, why.Unblockers, "%v: %+v", t, why)
		if why.Blocked != nil {
			adds(why.Blocked.Place)
		}
	}
}

// restored returns the state that begins with a checkpoint, which knows the same as the one before.
func (s *storm) restored(snapshot *cluster.Snapshot) *cluster.State {
	state := cluster.NewState()
	for part := range snapshot.Parts() {
		require.NoError(s, state.Apply(cluster.Record{Seq: snapshot.Seq(), Event: part}))
	}
	again, _ := state.Snapshot()
	index := func(in *cluster.Snapshot) (all []any) {
		all = append(all, in.Lending(), in.Clearing(), in.Daemons())
		for j := range in.Unstarted() {
			all = append(all, j.UID)
		}
		for pool := range in.Pools() {
			all = append(all, in.Used(pool.Path))
		}
		for h := range in.Hosts("") {
			all = append(all, h.ID, in.HomeTo(h.ID), h.Spare())
		}
		for j := range in.Jobs(0) {
			all = append(all, j.Spec.Name, in.WaitingFor(j.Spec.Name), in.Later(j.UID))
		}
		return all
	}
	require.Equal(s, fmt.Sprint(index(snapshot)), fmt.Sprint(index(again)))
	return state
}

// play simulates the storm to its end, and returns the digest of its history.
func (s *storm) play(seen map[string]int) string {
	c := s.config
	c.Workload = &trace.Workload{Hosts: s.hosts, Arrivals: true, Departures: true, Jobs: &jobs{n: len(s.jobs), make: func(i int) *trace.Job {
		j := s.jobs[i]
		return &j
	}}}
	c.life, c.byHand = s.life, slices.Clone(s.byHand)
	for _, m := range s.flawed {
		m.left = m.sound
	}
	reports := map[string]int{}
	c.report = func(h hostmgr.Host) hostmgr.Host { // one that comes back has other devices, or less of everything
		reports[h.Name]++
		if other, changes := s.others[h.Name]; changes && reports[h.Name]/4%2 == 1 {
			h.Machine = other
		}
		return h
	}
	cycles := &storming{s: s, seen: seen}
	c.wrap = func(p Planner) Planner { cycles.Planner, cycles.acted = p, 0; return cycles }
	for i := range 20 { // again and again: nobody may listen
		c.byHand = append(c.byHand, byHand{span + time.Duration(i)*20*time.Second, letGo})
	}
	c.rewrite = func(r *cluster.Record) {
		note(seen, r.Event)
		if os.Getenv("STORM") != "" {
			blob, _ := json.Marshal(r.Event)
			s.Logf("%d %v %T %s", r.Seq, r.At.Sub(begin), r.Event, blob)
		}
	}
	require.NoError(s, c.fill())
	w, err := newSimulation(c)
	require.NoError(s, err)
	w.checker = check.New(nil)               // what hosts report is changed by hand
	w.clock.AfterFunc(24*time.Hour, func() { // who waits for room in vain keeps others out for ten minutes at a time
		if !w.over() {
			w.fail(errors.New("it does not come to rest"))
		}
	})
	require.NoError(s, w.loop(s.Context()))
	w.finish()
	r, err := w.result()
	require.NoError(s, err)
	require.Empty(s, slices.DeleteFunc(r.Violations, func(v check.Violation) bool { return v.Rule == check.Idle && !s.free }))
	seen["restarts"] += int(r.Faults.Restarts)
	seen["preemptions"] += int(r.Preemptions)
	seen["migrations"] += int(r.Migrations)
	seen["copies won"] += int(r.Copies.Won)
	seen["quiet"] += int(r.QuietChecks)
	seen["records"] += int(r.Records)
	if r.Oversubscription != nil {
		seen["lent"] += int(r.Oversubscription.Placements)
	}
	s.linger(w)
	s.came(w)
	return r.Hash
}

// letGo has everybody who was in the way let things go on.
func letGo(tx *rules.Tx) error {
	for h := range tx.State().Hosts("") {
		if h.Draining {
			if err := tx.Emit(&cluster.HostDrain{ID: h.ID}); err != nil {
				return err
			}
		}
	}
	for j := range tx.State().Jobs(0) {
		if j.Update.Live() && !j.Stopping {
			u := *j.Update
			if resume(&u); u.State != j.Update.State || u.Promoted != j.Update.Promoted {
				if err := tx.Emit(&cluster.UpdateAdvanced{Job: j.UID, Update: u, Surge: j.Surge}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// linger goes on while a host that came back at the end still has to be told that its runs count as lost, or stops them.
func (s *storm) linger(w *simulation) {
	strays := func() bool {
		for id := range s.running(w) {
			if t := w.scheduler.state.Task(id.Task); t == nil || !t.State.Bound() || t.RunID() != id {
				return true
			}
		}
		return false
	}
	for end := w.clock.Now().Add(10 * time.Minute); strays() && w.clock.Now() < end; {
		w.clock.Advance(time.Second)
	}
	require.NoError(s, w.err)
}

// running returns what runs, and where.
func (s *storm) running(w *simulation) map[cluster.RunID]cluster.HostID {
	running := map[cluster.RunID]cluster.HostID{}
	for _, l := range w.links {
		for _, r := range l.driver.Inventory() {
			if !r.State.Terminal() {
				require.Empty(s, running[r.Run], "%v runs twice", r.Run)
				running[r.Run] = cluster.MakeHostID(l.shard, r.Host)
			}
		}
	}
	return running
}

// came checks where everything has come to: the journal gives the same state, what is said to run does, nothing else, and what runs
// never ends.
func (s *storm) came(w *simulation) {
	text := func(state *cluster.State) string { // in which no list is the same as an empty one, as in the journal
		snapshot, _ := state.Snapshot()
		blob, err := json.MarshalIndent(slices.Collect(snapshot.Parts()), "", " ")
		require.NoError(s, err)
		return strings.ReplaceAll(string(blob), "null", "[]")
	}
	again, err := journal.Load(w.journal)
	require.NoError(s, err)
	asOf := w.scheduler.state
	require.Equal(s, text(asOf), text(again))

	snapshot, _ := again.Snapshot()
	s.restored(snapshot)
	rulestest.Settled(s, snapshot, w.clock.Now())

	running := s.running(w)
	for j := range asOf.Jobs(0) {
		overdue := j.Spec.TTL > 0 && j.State().Terminal() && w.clock.Now() > j.Finished.Add(j.Spec.TTL+time.Second)
		require.False(s, overdue && len(asOf.WaitingFor(j.Spec.Name)) == 0, "job %s is still there", j.Spec.Name)
	}
	for t := range asOf.Tasks(0) {
		j := asOf.Job(t.Key.Job())
		if !t.State.Bound() {
			require.True(s, t.State.Terminal() || !j.Stopping, "%v of a job that was stopped is %v", t.Key, t.State)
			continue
		}
		require.Equal(s, t.Host, running[t.RunID()], "%v is %v", t.RunID(), t.State)
		require.Equal(s, cluster.TaskRunning, t.State, "%v", t.Key)
		require.True(s, j.Spec.Type.Service(), "%v of job %s runs for ever", t.Key, j.Spec.Name)
		delete(running, t.RunID())
	}
	for run, id := range running {
		if h := asOf.Host(id); h == nil || h.Unreachable {
			delete(running, run) // it is stopped when its host is seen again
		}
	}
	require.Empty(s, running, "nobody knows of them")
}

// note counts what happens.
func note(seen map[string]int, e cluster.Event) {
	switch e := e.(type) {
	case *cluster.TaskUpdated:
		if e.InPlace {
			seen["in place"]++
		} else {
			seen["updated"]++
		}
	case *cluster.TaskHealth:
		seen["health"]++
	case *cluster.UpdateAdvanced:
		if e.Update.State == cluster.UpdateInitialized || e.Update.State == cluster.RollingForward && e.Update.Begun == 0 {
			seen["updates"]++
		}
		if e.Update.State == cluster.UpdateSucceeded {
			seen["succeeded updates"]++
		}
	case *cluster.JobStopping, *cluster.TaskStopping:
		seen["stopped by hand"]++
	case *cluster.JobsSubmitted:
		for _, n := range e.Jobs {
			if n.Spec.Gang != nil {
				seen["gangs"]++
			}
		}
	}
}
