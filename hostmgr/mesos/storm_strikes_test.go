package mesos_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// strike is something bad that happens, and may go on for a while.
type strike struct {
	kind       string
	holds      string // what nothing else may happen to until it ends; "" for what happens in a moment
	lasts      time.Duration
	begin, end func()
	where      string // which hosts are out of reach meanwhile: a host, a site, or "" where tasks do not notice

	until time.Time
	mute  *outage // in which nobody may have heard how something ended; nil where out says more
	out   *outage
	back  func() bool // ends the outage, some time after the strike; nil: at once
}

// outage is a time in which nobody could know what runs somewhere.
type outage struct {
	where    string // a host as SITE/NAME, or a site, or "all"
	from, to time.Time
}

// strike lets one bad thing happen, unless something of its kind goes on.
func (s *storm) strike(now time.Time) {
	at := s.sites[s.random.IntN(len(s.sites))]
	kinds := [...]func(*site) *strike{
		hostStrike, hostStrike, hostStrike, masterStrike, callStrike, callStrike, restartStrike, momentStrike,
	}
	x := kinds[s.random.IntN(len(kinds))](at)
	if x.holds != "" && s.held[x.holds] {
		return
	}
	s.struck[x.kind]++
	s.note(at.name + " " + x.holds + ": " + x.kind)
	switch {
	case x.where != "":
		x.out = &outage{where: x.where, from: now}
		s.outages = append(s.outages, x.out)
	case x.lasts > 0:
		x.mute = &outage{where: at.name, from: now, to: now.Add(x.lasts)}
		s.mutes = append(s.mutes, x.mute)
	}
	s.soon(x.kind, x.begin)
	if x.holds != "" {
		s.held[x.holds], x.until = true, now.Add(x.lasts)
		s.going = append(s.going, x)
	}
}

// endStrikes ends what has lasted long enough.
func (s *storm) endStrikes(now time.Time) {
	for _, x := range slices.Clone(s.going) {
		if now.Before(x.until) || !slices.Contains(s.going, x) { // ending one that waits for the scheduler ends others
			continue
		}
		s.going = slices.DeleteFunc(s.going, func(y *strike) bool { return x == y })
		s.soon("the end of "+x.kind, x.end)
		delete(s.held, x.holds)
		s.note("end of " + x.holds + ": " + x.kind)
		if x.mute != nil {
			x.mute.to = time.Now()
		}
		if x.out != nil {
			x.out.to = time.Now()
			s.coming = append(s.coming, x)
		}
	}
	s.coming = slices.DeleteFunc(s.coming, func(x *strike) bool {
		x.out.to = now
		return x.back == nil || x.back()
	})
}

// soon does something that takes no more of the virtual time than an outage of the scheduler may: who hung would take the
// clock past everybody's timeouts, and the blame would fall on others.
func (s *storm) soon(what string, do func()) {
	s.Helper()
	begun := time.Now()
	do()
	require.Less(s, time.Since(begun), 10*time.Minute, "%s\n%s", what, s.story())
}

// upTo returns a random time.
func (s *storm) upTo(longest time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(longest)))
}

// hostStrike happens to a host.
func hostStrike(at *site) *strike {
	m := at.mesos
	host := fmt.Sprint("h", at.random.IntN(siteHosts))
	x := &strike{holds: at.name + "/" + host, where: at.name + "/" + host, lasts: at.upTo(2 * time.Minute), back: at.serves}
	anew := func() {
		if at.volumes && at.random.IntN(3) > 0 {
			m.RenewAgent(host)
			return
		}
		m.RebootHost(host)
		at.wiped = append(at.wiped, x.out)
	}
	switch at.random.IntN(9) {
	case 0:
		x.kind = "the agent's process dies"
		x.begin = func() { m.StopAgent(host) }
		x.end = func() { m.ReturnAgent(host) }
	case 1:
		x.kind = "cut off"
		x.begin = func() { m.CutAgent(host) }
		x.end = func() { m.ReturnAgent(host) }
	case 2:
		x.kind = "cut off for long"
		x.lasts += agentTime + lostAfter
		x.begin = func() { m.CutAgent(host) }
		x.end = func() { m.ReturnAgent(host) }
	case 3:
		x.kind = "crash"
		x.begin = func() { m.CrashHost(host) }
		x.end = anew
	case 4:
		x.kind = "unregisters"
		x.begin = func() { m.UnregisterAgent(host) }
		x.end = anew
	case 5:
		x.kind = "gone, says the operator"
		x.begin = func() { m.MarkAgentGone(host) }
		x.end = anew
	case 6:
		x.kind = "crash, and gone, says the operator"
		x.begin = func() { m.CrashHost(host); m.MarkAgentGone(host) }
		x.end = anew
	case 7:
		x.kind = "drained"
		x.begin = func() { m.DrainAgent(host, 5*time.Second) }
		x.end = func() { m.ReactivateAgent(host) }
	case 8:
		x.kind = "due for maintenance"
		x.begin = func() { m.Maintain(time.Now().Add(x.lasts), time.Minute, host) }
		x.end = func() { m.Maintain(time.Time{}, 0) }
	}
	return x
}

// masterStrike happens to the masters of a cluster.
func masterStrike(at *site) *strike {
	m, next, down := at.mesos, stormMasters[at.random.IntN(3)], stormMasters[at.random.IntN(3)]
	x := &strike{holds: at.name + " masters", lasts: at.upTo(30 * time.Second)}
	switch at.random.IntN(4) {
	case 0:
		x.kind = "a new leader"
		x.lasts = 0
		x.begin = func() { m.Elect(next) }
		x.end = func() {}
	case 1, 2:
		x.kind = "no leader"
		if at.random.IntN(3) == 0 {
			x.kind, x.lasts = "no leader for long", x.lasts+3*time.Minute
		}
		x.begin = func() { m.Elect(""); m.SetMasterDown(down, true) }
		x.end = func() { m.SetMasterDown(down, false); m.Elect(next) }
	case 3:
		x.kind = "a new leader reads its log"
		x.begin = func() { m.Elect(next); m.SetRecovering(true) }
		x.end = func() { m.SetRecovering(false) }
	}
	return x
}

// callStrike happens to what a host manager and the masters say to each other.
func callStrike(at *site) *strike {
	m := at.mesos
	x := &strike{holds: at.name + " calls", lasts: at.upTo(2 * time.Minute)}
	few := func(n int) int { return at.random.IntN(n) }
	faults := func(f mesostest.Faults) {
		x.begin = func() { m.SetFaults(f) }
		x.end = func() { m.SetFaults(mesostest.Faults{}) }
	}
	switch at.random.IntN(7) {
	case 0:
		x.kind = "calls go wrong"
		faults(mesostest.Faults{RefuseCalls: few(8), LoseCalls: few(8), LoseAnswers: few(8)})
	case 1:
		x.kind = "launches go wrong"
		faults(mesostest.Faults{RefuseCalls: few(4), LoseCalls: few(4), LoseAnswers: few(4), Accepting: true})
	case 2:
		x.kind = "updates come twice and late"
		faults(mesostest.Faults{Duplicate: few(60), HoldBack: few(60)})
	case 3:
		x.kind = "offers go between plan and launch"
		faults(mesostest.Faults{RescindAccepts: few(12)})
	case 4:
		x.kind = "streams crawl"
		x.begin = func() { m.SetFaults(mesostest.Faults{Slow: 20 * time.Millisecond}); m.BreakStreams(false) }
		x.end = func() { m.SetFaults(mesostest.Faults{}); m.BreakStreams(false) }
	case 5:
		x.kind = "calls crawl"
		faults(mesostest.Faults{SlowCalls: time.Duration(1+few(20)) * 500 * time.Millisecond})
	case 6:
		x.kind = "silence"
		x.begin = func() { at.net.SetSilent(true) }
		x.end = func() { at.net.SetSilent(false) }
	}
	return x
}

// restartStrike happens to the scheduler or a host manager.
func restartStrike(at *site) *strike {
	s := at.storm
	x := &strike{holds: at.name + " manager", where: at.name, lasts: at.upTo(20 * time.Second), back: at.serves}
	crash := at.random.IntN(2) == 0
	if at.random.IntN(4) == 0 {
		x.lasts += lostAfter
	}
	switch at.random.IntN(4) {
	case 0:
		x.kind, x.holds, x.where = "the scheduler ends", "scheduler", "all"
		x.back = func() bool { return s.sites[0].serves() && s.sites[1].serves() }
		if crash {
			x.kind = "the scheduler crashes"
		}
		x.begin = func() { s.killScheduler(crash) }
		x.end = s.startScheduler
	case 1, 2:
		x.kind = "the host manager ends"
		if crash {
			x.kind = "the host manager crashes"
		}
		x.begin = func() { at.stop(crash) }
		x.end = at.start
	case 3:
		x.kind = "cut off from the scheduler"
		x.begin = func() { at.up.setCut(true) }
		x.end = func() { at.up.setCut(false) }
	}
	return x
}

// momentStrike happens in a moment.
func momentStrike(at *site) *strike {
	s, kinds := at.storm, 5
	if s.volumes {
		kinds++
	}
	switch at.random.IntN(kinds) {
	case 0:
		return &strike{kind: "streams break", begin: func() { at.mesos.BreakStreams(false) }}
	case 1:
		return &strike{kind: "a record is torn", begin: func() { at.mesos.BreakStreams(true) }}
	case 2:
		return &strike{kind: "offers are rescinded", begin: at.mesos.RescindOffers}
	case 3:
		return &strike{kind: "an executor is killed", begin: func() {
			runs := at.mesos.Runs()
			for range min(20, len(runs)) {
				task := runs[s.random.IntN(len(runs))].TaskID
				if at.mesos.KillExecutor(task) {
					id, err := runOf(task)
					require.NoError(s, err)
					s.shot[id] = true
					return
				}
			}
		}}
	case 5:
		return &strike{kind: "a volume is deleted", begin: func() {
			host := fmt.Sprint("h", s.random.IntN(siteHosts))
			for _, v := range at.mesos.Volumes(host) {
				if strings.HasPrefix(v.ID, string(briefJob)) {
					_ = at.driver.(hostmgr.VolumeKeeper).DeleteVolume(s.Context(), host, v.ID) // it may be in use
					return
				}
			}
		}}
	}
	var job cluster.JobUID
	return &strike{
		kind: "a job is submitted and stopped", holds: "brief", lasts: s.upTo(20 * time.Second),
		begin: func() { job = s.submit(briefJob, 10) },
		end:   func() { s.stopJob(job) },
	}
}
