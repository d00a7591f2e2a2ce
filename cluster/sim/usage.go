package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// Usage says what simulated tasks use of what they ask for, and how revocable ones get what is left. What they use is
// known to the cost model. The zero value has all tasks use all that they ask for, and nothing measured.
type Usage struct {
	// Mean is the part of its request that a task uses on average over tasks, above 0 to 1. A task's own part is uniform
	// between half of that and half as much again, at most 1. Its memory grows to that in the first minute. In one of
	// eight periods of ten minutes, by chance, it uses all of its CPU. Input that is not on its host comes over the network
	// besides, evenly over its run time.
	Mean     float64
	Interval time.Duration // between two reports, 10ms or more; default 10s
	Window   time.Duration // see knowledge.Slack; default 5min, as in production; NoTime lends nothing
	Margin   int           // in percent; default 20, as in production
}

func (u *Usage) fill() error {
	if !(u.Mean >= 0 && u.Mean <= 1) {
		return fmt.Errorf("sim: tasks use %v of what they ask for: want a part above 0, and at most 1", u.Mean)
	}
	if u.Mean == 0 {
		if *u != (Usage{}) {
			return errors.New("sim: what is measured of tasks needs the part of their requests that they use")
		}
		return nil
	}
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&u.Interval, 10*time.Second)
	set(&u.Window, 5*time.Minute)
	if u.Margin == 0 {
		u.Margin = 20
	}
	if u.Interval < leastInterval {
		return fmt.Errorf("sim: the interval between reports of usage is %v: want %v or more", u.Interval, leastInterval)
	}
	if u.Margin < 0 {
		return fmt.Errorf("sim: the margin of what tasks use is %d percent: want more than 0", u.Margin)
	}
	return nil
}

const (
	leastInterval = 10 * time.Millisecond // between two reports of all that runs
	usagePeriod   = 10 * time.Minute      // in which a task uses all of its CPU, or its own part
	usageGrowth   = time.Minute           // until memory has grown
)

// usage returns what a run uses after some time. Of the network that is its part of what it asks for, and the input that is
// not on its host, evenly over its work.
func (s *simulation) usage(l hostmgr.Launch, host cluster.HostID, runs time.Duration) func(time.Duration, float64) cluster.Resources {
	k, asked := l.Run.Task, l.Task.Resources.Fixed
	chance := func(of uint64) float64 { return float64(stir(s.config.Seed^stir(uint64(k)^stir(of)))>>11) / (1 << 53) }
	part := min(1, s.config.Usage.Mean*(0.5+chance(0)))
	reading := float64(s.measure.fetched(k, host)) / runs.Seconds()
	return func(elapsed time.Duration, pace float64) (used cluster.Resources) {
		busy := part
		if chance(1+uint64(elapsed/usagePeriod)) < 1.0/8 {
			busy = 1
		}
		grown := min(1, float64(elapsed)/float64(usageGrowth))
		used.Fixed[cluster.CPU] = int64(busy * float64(asked[cluster.CPU]))
		used.Fixed[cluster.Memory] = int64(grown * part * float64(asked[cluster.Memory]))
		used.Fixed[cluster.Network] = int64(min(part*float64(asked[cluster.Network])+float64(reading*pace), cluster.MaxAmount))
		return used
	}
}

// stir is the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014, doi:10.1145/2660193.2660195).
func stir(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// ReportUsage implements hostmgr.Sink.
func (l *link) ReportUsage(report []hostmgr.Usage) {
	p := l.s.scheduler
	if !l.connected || p.dead {
		return
	}
	l.s.measure.used(report, p.snapshot)
	samples := make([]knowledge.Sample, 0, len(report))
	for _, u := range report {
		samples = append(samples, knowledge.Sample(u))
	}
	p.uses = p.uses.Next(p.snapshot, samples)
	if l.s.config.Usage.Window < 0 {
		return
	}
	changes := p.slack.Measured(p.snapshot, l.shard, l.s.clock.Now(), samples)
	if len(changes) == 0 {
		return
	}
	p.send(func(tx *rules.Tx) error {
		for _, c := range changes {
			if e := c.Event(tx.State()); e != nil {
				if err := tx.Emit(e); err != nil {
					return err
				}
			}
		}
		return nil
	}, l.s.failOn)
}

// Oversubscription says what revocable tasks had.
type Oversubscription struct {
	Placements int64 `json:"placements"`
	Revoked    int64 `json:"revoked"` // runs that were asked to leave because others used what they had
	// Lent is the mean over time of what revocable tasks had, as a part of the capacity.
	Lent map[string]float64 `json:"lent"`
	// Reports is how often a host was looked at; in Overloads of them its tasks used more than it has.
	Reports   int64 `json:"reports"`
	Overloads int64 `json:"overloads"`
}

// loanMeasure sums up what revocable tasks have.
type loanMeasure struct {
	Oversubscription
	lent     amounts
	integral [cluster.NumDimensions]float64 // amount × seconds
	last     time.Duration
}

func (m *loanMeasure) load(takes *amounts, sign int64, now time.Duration) {
	m.until(now)
	m.lent.add(takes, sign)
	if sign > 0 {
		m.Placements++
	}
}

func (m *loanMeasure) until(now time.Duration) {
	for d, v := range m.lent {
		m.integral[d] += float64(v) * (now - m.last).Seconds()
	}
	m.last = now
}

// result returns what was measured, nil if nobody ever had anything on loan and nothing was measured.
func (m *loanMeasure) result(now time.Duration, capacity map[string]int64) *Oversubscription {
	if m.Reports == 0 && m.Placements == 0 {
		return nil
	}
	m.until(now)
	out := m.Oversubscription
	out.Lent = map[string]float64{}
	for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} {
		if c := capacity[d.String()]; c > 0 && now > 0 {
			out.Lent[d.String()] = m.integral[d] / float64(c) / now.Seconds()
		}
	}
	return &out
}

// used takes in what all runs use, of which the scheduler knows only what is reported.
func (m *measure) used(report []hostmgr.Usage, snapshot *cluster.Snapshot) {
	sums := map[cluster.HostID]cluster.Resources{}
	for _, u := range report {
		if t := snapshot.Task(u.Run.Task); t != nil && t.State.Bound() && t.Run == u.Run.Run {
			sum := sums[t.Host]
			for _, d := range []cluster.Dimension{cluster.CPU, cluster.Memory} { // others use more than they ask for
				sum.Fixed[d] += u.Used.Fixed[d]
			}
			sums[t.Host] = sum
		}
	}
	for id, sum := range sums { // counts: the order does not matter
		h := m.hosts[id]
		if h == nil {
			continue // it is gone, which is not durable yet
		}
		m.loans.Reports++
		if !sum.Fits(h.capacity) {
			m.loans.Overloads++
		}
	}
}
