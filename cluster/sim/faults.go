package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/sim/trace"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// FaultKind is what can break, for a while.
type FaultKind string

// The kinds.
const (
	HostCrash     FaultKind = "host"       // a host stops with all that it runs, and returns empty
	RackCut       FaultKind = "rack"       // a rack is cut off; its runs go on
	HostDrain     FaultKind = "drain"      // the operator drains a host, and resumes it
	LinkCut       FaultKind = "link"       // a shard loses its connection with the scheduler
	Crash         FaultKind = "scheduler"  // the scheduler dies; another one replays the journal
	SchedulingOff FaultKind = "scheduling" // the operator switches scheduling off, and on again
	KillingOff    FaultKind = "killing"    // the same of killing
)

// kinds lists them in the order in which rates are drawn.
var kinds = []FaultKind{HostCrash, RackCut, HostDrain, LinkCut, Crash, SchedulingOff, KillingOff}

// kindNames lists them for people.
func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Fault is one scripted fault.
type Fault struct {
	At     time.Duration // since the beginning of the trace
	Kind   FaultKind
	Target string        // the host's or rack's name; "" for the others
	For    time.Duration // until it is mended
}

// Rate is how often something of a kind breaks, and for how long, both as means of exponential times.
type Rate struct {
	Every time.Duration // between two faults of the kind in the whole cluster; 0 is never
	For   time.Duration
}

// latest bounds times, so that what is added to them stays in their range: 73 years. What comes later never does.
const latest = time.Duration(math.MaxInt64 / 4)

// Faults says what goes wrong: by rate, by probability, and by script. The zero value is a perfect world.
type Faults struct {
	Rates  map[FaultKind]Rate
	Script []Fault

	LaunchRefused    float64       // probability that a launch is given back
	LaunchFails      float64       // probability that a run that was recorded cannot be started
	StatusDelay      time.Duration // each status is late by a time between 0 and this
	StatusDuplicated float64       // probability that a status comes twice
	StatusReordered  float64       // probability that a status overtakes those before it

	// Steps ends the faults of Rates after so many; 0 is no limit.
	Steps int64
}

func (f *Faults) validate() error {
	var problems []error
	for kind, r := range f.Rates {
		if !slices.Contains(kinds, kind) {
			problems = append(problems, fmt.Errorf("sim: no fault %q; there are: %s", kind, kindNames()))
		}
		if r.Every < 0 || r.For < 0 || r.Every > 0 && r.For == 0 {
			problems = append(problems, fmt.Errorf("sim: fault %s: every %v for %v; both must be above zero", kind, r.Every, r.For))
		}
	}
	for i, x := range f.Script {
		if !slices.Contains(kinds, x.Kind) || x.At < 0 || x.For <= 0 {
			problems = append(problems, fmt.Errorf("sim: fault %d of the script: %q at %v for %v; want one of %s, a time, and how long", i+1, x.Kind, x.At, x.For, kindNames()))
		}
		if max(x.At, x.For) > latest {
			problems = append(problems, fmt.Errorf("sim: fault %d of the script: %q at %v for %v: at most %v each", i+1, x.Kind, x.At, x.For, latest))
		}
	}
	if f.StatusDelay < 0 || f.StatusDelay > longest {
		problems = append(problems, fmt.Errorf("sim: statuses are late by up to %v; a time cannot be below zero, nor above %v here", f.StatusDelay, longest))
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// ofReports are the faults that the fleet draws.
func (f *Faults) ofReports(seed uint64) fleet.Faults {
	return fleet.Faults{
		Seed: seed, LaunchRefused: f.LaunchRefused, LaunchFails: f.LaunchFails,
		StatusDelay: f.StatusDelay, StatusDuplicated: f.StatusDuplicated, StatusReordered: f.StatusReordered,
	}
}

// ParseFaults reads "host=10m/2m,launch-fails=0.01,status-delay=2s,…": for each kind how often and for how long, as
// means; for launches and statuses a probability or a time. "" is none.
func ParseFaults(text string) (Faults, error) {
	f := Faults{Rates: map[FaultKind]Rate{}}
	if text == "" {
		return f, nil
	}
	var keys []string
	for _, item := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if slices.Contains(keys, key) {
			return Faults{}, fmt.Errorf("sim: faults: %q: %s is there twice; give it once", item, key)
		}
		keys = append(keys, key)
		if err := f.set(key, value); err != nil {
			return Faults{}, fmt.Errorf("sim: faults: %q: %w", item, err)
		}
	}
	return f, f.validate()
}

func (f *Faults) set(key, value string) (err error) {
	switch key {
	case "launch-refused":
		f.LaunchRefused, err = parseProbability(value)
	case "launch-fails":
		f.LaunchFails, err = parseProbability(value)
	case "status-delay":
		f.StatusDelay, err = time.ParseDuration(value)
	case "status-duplicated":
		f.StatusDuplicated, err = parseProbability(value)
	case "status-reordered":
		f.StatusReordered, err = parseProbability(value)
	default:
		if !slices.Contains(kinds, FaultKind(key)) {
			return fmt.Errorf("no such fault; there are %s, launch-refused, launch-fails, status-delay, status-duplicated and status-reordered", kindNames())
		}
		every, down, both := strings.Cut(value, "/")
		if !both {
			return fmt.Errorf("say how often and for how long, as in %s=1h/5m", key)
		}
		var r Rate
		if r.Every, err = time.ParseDuration(every); err == nil {
			r.For, err = time.ParseDuration(down)
		}
		if err != nil {
			return fmt.Errorf("say how often and for how long, as in %s=1h/5m: %w", key, err)
		}
		if r.Every <= 0 || r.For <= 0 {
			return fmt.Errorf("every %v for %v; both must be above zero, or leave it out", r.Every, r.For)
		}
		if min(r.Every, r.For) < time.Millisecond {
			return fmt.Errorf("every %v for %v; both must be at least 1ms", r.Every, r.For)
		}
		f.Rates[FaultKind(key)] = r
	}
	return err
}

func parseProbability(text string) (float64, error) {
	p, err := strconv.ParseFloat(text, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return 0, fmt.Errorf("%q is not a probability; give a number from 0 to 1", text)
	}
	return p, nil
}

// ParseFault reads one fault of a script, "10m:rack:r3:30s" or "10m:scheduler::5s".
func ParseFault(text string) (Fault, error) {
	parts := strings.Split(text, ":")
	last := len(parts) - 1
	if last < 3 {
		return Fault{}, fmt.Errorf("sim: fault %q is not TIME:KIND:TARGET:DURATION", text)
	}
	at, err1 := time.ParseDuration(parts[0])
	down, err2 := time.ParseDuration(parts[last])
	if err := cmp.Or(err1, err2); err != nil {
		return Fault{}, fmt.Errorf("sim: fault %q: %w", text, err)
	}
	f := Fault{At: at, Kind: FaultKind(parts[1]), Target: strings.Join(parts[2:last], ":"), For: down} // names may have a colon
	return f, (&Faults{Script: []Fault{f}}).validate()
}

// injector makes faults happen, and mends them.
type injector struct {
	s        *simulation
	random   *rand.Rand
	racks    []string
	broken   map[Fault]bool // by kind and target, without times
	steps    int64
	scripted int // faults of the script that have come
	stopped  bool
	mends    []func() // of what is broken now, in the order of breaking; nil where mended
}

func newInjector(s *simulation) *injector {
	in := &injector{s: s, random: rand.New(rand.NewPCG(s.config.Seed, 0x6661756c7473)), broken: map[Fault]bool{}}
	for _, h := range s.config.Workload.Hosts {
		if h.Rack != "" {
			in.racks = append(in.racks, h.Rack)
		}
	}
	slices.Sort(in.racks)
	in.racks = slices.Compact(in.racks)
	return in
}

// start schedules the script and the first fault of every rate.
func (in *injector) start() {
	script := slices.Clone(in.s.config.Faults.Script)
	slices.SortStableFunc(script, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	in.play(script)
	for _, kind := range kinds {
		if r := in.s.config.Faults.Rates[kind]; r.Every > 0 {
			in.schedule(kind, r)
		}
	}
}

// play schedules the first fault of the script, and then the next: what is mended at its time is mended before it.
func (in *injector) play(script []Fault) {
	if len(script) == 0 {
		return
	}
	in.s.clock.AfterFunc(script[0].At-in.s.now(), func() {
		in.scripted++
		if err := in.strike(script[0]); err != nil {
			in.s.fail(err)
		}
		in.play(script[1:])
	})
}

func (in *injector) schedule(kind FaultKind, r Rate) {
	in.s.clock.AfterFunc(in.exponential(r.Every), func() {
		if in.stopped {
			return
		}
		if !in.s.busy() || in.s.config.Faults.Steps > 0 && in.steps >= in.s.config.Faults.Steps {
			in.stop()
			return
		}
		x := Fault{Kind: kind, Target: in.target(kind), For: max(time.Millisecond, in.exponential(r.For))}
		if err := in.strike(x); err != nil {
			in.s.fail(err)
		}
		in.schedule(kind, r)
	})
}

func (in *injector) exponential(mean time.Duration) time.Duration {
	return time.Duration(min(in.random.ExpFloat64()*float64(mean), float64(latest)))
}

func (in *injector) target(kind FaultKind) string {
	switch kind {
	case HostCrash, HostDrain:
		hosts := in.s.config.Workload.Hosts
		return targetOf(hosts[in.random.IntN(len(hosts))].ID())
	case RackCut:
		return in.racks[in.random.IntN(len(in.racks))]
	case LinkCut:
		if n := len(in.s.links); n > 1 {
			return string(in.s.links[in.random.IntN(n)].shard)
		}
		return ""
	default:
		return ""
	}
}

// targetOf names a host in a fault: by its own name, or by its id if the shard is not that of all workloads.
func targetOf(id cluster.HostID) string {
	if id.Shard() == trace.Shard {
		return id.Name()
	}
	return string(id)
}

// hostOf returns the host that a fault names.
func (s *simulation) hostOf(target string) cluster.HostID {
	hosts := s.config.Workload.Hosts
	return hosts[slices.IndexFunc(hosts, func(h trace.Host) bool { return targetOf(h.ID()) == target })].ID()
}

// onRack does something with the hosts of a rack, which may be those of several shards.
func (s *simulation) onRack(rack string, do func(*fleet.Fleet, string) error) (wrong error) {
	for _, l := range s.links {
		if err := do(l.fleet, rack); !errors.Is(err, hostmgr.ErrUnknownHost) {
			wrong = errors.Join(wrong, err)
		}
	}
	return wrong
}

// strike breaks something and schedules when it is mended. What is broken already is left as it is.
func (in *injector) strike(x Fault) error {
	what := Fault{Kind: x.Kind, Target: x.Target}
	if in.broken[what] || in.s.scheduler.dead && x.Kind == LinkCut || in.s.cutOff() && x.Kind == Crash {
		return nil
	}
	in.steps++
	mend, err := in.brk(x)
	if err != nil {
		return fmt.Errorf("fault %s %q: %w", x.Kind, x.Target, err)
	}
	in.broken[what] = true
	n := len(in.mends)
	in.mends = append(in.mends, func() {
		in.mends[n] = nil
		delete(in.broken, what)
		in.s.failOn(mend())
	})
	in.s.clock.AfterFunc(x.For, func() {
		if fn := in.mends[n]; fn != nil {
			fn()
		}
	})
	return nil
}

// brk breaks something and returns what mends it.
func (in *injector) brk(x Fault) (mend func() error, err error) {
	s := in.s
	switch x.Kind {
	case HostCrash:
		id := s.hostOf(x.Target)
		world := s.linkOf(id.Shard()).fleet
		return func() error { return world.Return(id.Name()) }, world.Crash(id.Name())
	case RackCut:
		return func() error { return s.onRack(x.Target, (*fleet.Fleet).HealRack) }, s.onRack(x.Target, (*fleet.Fleet).CutOffRack)
	case HostDrain:
		id := s.hostOf(x.Target)
		s.drain(id, true)
		return func() error { s.drain(id, false); return nil }, nil
	case LinkCut:
		l := s.links[0]
		if x.Target != "" {
			l = s.linkOf(cluster.ShardID(x.Target))
		}
		l.cut()
		return func() error { l.connect(); return nil }, nil
	case SchedulingOff, KillingOff:
		s.switchOff(x.Kind, true)
		return func() error { s.switchOff(x.Kind, false); return nil }, nil
	default:
		s.scheduler.crash()
		for _, l := range s.links {
			l.cut()
		}
		return s.restart, nil
	}
}

// stop ends all faults for good: nothing breaks any more, and what is broken is mended.
func (in *injector) stop() {
	in.stopped = true
	for _, mend := range in.mends {
		if mend != nil {
			mend()
		}
	}
}

// idle reports whether nothing is broken and nothing of the script is to come.
func (in *injector) idle() bool {
	return len(in.broken) == 0 && in.scripted == len(in.s.config.Faults.Script)
}

// drain has the operator drain or resume a host, unless there is nobody to tell or the host is not known.
func (s *simulation) drain(id cluster.HostID, drain bool) {
	if s.scheduler.dead {
		return
	}
	s.scheduler.send(func(tx *rules.Tx) error {
		if h := tx.State().Host(id); h == nil || h.Draining == drain {
			return nil
		}
		return tx.Emit(&cluster.HostDrain{ID: id, Drain: drain, Reason: "the operator wants it so"})
	}, s.failOn)
}

// switchOff has the operator switch scheduling or killing off, or on again, unless there is nobody to tell.
func (s *simulation) switchOff(what FaultKind, off bool) {
	if s.scheduler.dead {
		return
	}
	s.scheduler.send(func(tx *rules.Tx) error {
		mode := tx.State().Mode()
		if what == SchedulingOff {
			mode.SchedulingStopped = off
		} else {
			mode.KillingStopped = off
		}
		if mode == tx.State().Mode() {
			return nil
		}
		return tx.Emit(&cluster.ModeSet{Mode: mode})
	}, s.failOn)
}

// restart begins the next life of the scheduler.
func (s *simulation) restart() error {
	if err := s.startScheduler(); err != nil {
		return err
	}
	s.measure.restarts++
	for _, l := range s.links {
		l.connect()
	}
	if len(s.unheard) > 0 {
		s.submit(slices.Clone(s.unheard))
	}
	for _, what := range []FaultKind{SchedulingOff, KillingOff} { // what the operator asked for while nobody answered
		s.switchOff(what, s.faults.broken[Fault{Kind: what}])
	}
	for h := range s.scheduler.snapshot.Hosts("") {
		if want := s.faults.broken[Fault{Kind: HostDrain, Target: targetOf(h.ID)}]; want != h.Draining {
			s.drain(h.ID, want)
		}
	}
	return nil
}

// busy reports whether faults still have something to disturb: jobs are to come, or a task that will end is under way.
func (s *simulation) busy() bool { return s.next != nil || s.measure.ending > 0 }
