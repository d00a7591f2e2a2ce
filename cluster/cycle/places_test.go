package cycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/costmodels/loadspread"
	"github.com/sluice-scheduler/sluice/costmodels/sluice"
	"github.com/sluice-scheduler/sluice/solver"
	"github.com/sluice-scheduler/sluice/solver/netsimplex"
)

// rack reports a host in a rack with room for so many tasks of one CPU.
func (s *shared) rack(i int, rack string, cpus int64, attributes ...cluster.KeyValue) cluster.HostID {
	return s.machine(i, cluster.Machine{Rack: rack, Capacity: vector(1000*cpus, 1<<30), Attributes: attributes})
}

func labeled(key, value string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Labels = append(s.Labels, cluster.KeyValue{Key: key, Value: value}) }
}

func must(c cluster.Constraint) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Constraint = &c }
}

// tasks is a constraint on how many tasks with app=value there are.
func tasks(value string, compare cluster.Comparison, n uint32, domain string) cluster.Constraint {
	return cluster.Constraint{
		Op: cluster.TaskLabel, Label: cluster.KeyValue{Key: "app", Value: value}, Comparison: compare, Count: n, Domain: domain,
	}
}

func atMost(n uint32, domain string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Spread = append(s.Spread, cluster.Spread{Domain: domain, Max: n}) }
}

func evenly(skew uint32, domain string) func(*cluster.JobSpec) {
	return func(s *cluster.JobSpec) { s.Spread = append(s.Spread, cluster.Spread{Domain: domain, MaxSkew: skew}) }
}

// where counts the placements of the plan by rack.
func (s *shared) where(out cycle.Output) map[string]int {
	racks := map[string]int{}
	for _, p := range out.Placements {
		racks[s.state.Host(p.Host).Rack]++
	}
	return racks
}

func TestRulesAboutPlaces(t *testing.T) {
	const pool = cluster.PoolPath("root/p")
	for _, c := range []struct {
		name string
		jobs func(s *shared)
		want map[string]int // placements by rack, of two hosts with four places each in r0 and r1, and one in r2
	}{
		{"at most one per host", func(s *shared) { s.job(pool, 9, 1000, atMost(1, "host")) }, map[string]int{"r0": 2, "r1": 2, "r2": 1}},
		{"at most three per rack", func(s *shared) { s.job(pool, 9, 1000, atMost(3, "rack")) }, map[string]int{"r0": 3, "r1": 3, "r2": 3}},
		{"per rack and per host", func(s *shared) {
			s.job(pool, 9, 1000, atMost(3, "rack"), atMost(2, "host"))
		}, map[string]int{"r0": 3, "r1": 3, "r2": 2}},
		{"per selection over jobs", func(s *shared) {
			for range 3 {
				s.job(pool, 3, 1000, labeled("app", "web"), func(j *cluster.JobSpec) {
					j.Spread = []cluster.Spread{{Domain: "rack", Max: 2, Selector: j.Labels}}
				})
			}
		}, map[string]int{"r0": 2, "r1": 2, "r2": 2}},
		{"by labels of tasks", func(s *shared) {
			s.job(pool, 9, 1000, labeled("app", "web"), must(tasks("web", cluster.Less, 2, "rack")))
		}, map[string]int{"r0": 2, "r1": 2, "r2": 2}},
		{"just so many", func(s *shared) { // the first needs none there, and then there is one
			s.job(pool, 9, 1000, labeled("app", "web"), must(tasks("web", cluster.Equal, 0, "rack")))
		}, map[string]int{"r0": 1, "r1": 1, "r2": 1}},
		{"evenly over racks", func(s *shared) { s.job(pool, 20, 1000, evenly(1, "rack")) }, map[string]int{"r0": 5, "r1": 5, "r2": 4}},
		{"two more in a rack", func(s *shared) { s.job(pool, 20, 1000, evenly(2, "rack")) }, map[string]int{"r0": 6, "r1": 6, "r2": 4}},
		{"evenly over hosts", func(s *shared) { s.job(pool, 7, 1000, evenly(1, "host")) }, map[string]int{"r0": 4, "r1": 2, "r2": 1}},
		{"evenly over the racks that are allowed", func(s *shared) {
			s.job(pool, 20, 1000, evenly(1, "rack"), must(cluster.Constraint{Label: cluster.KeyValue{Key: "rack", Value: "r2"}, Comparison: cluster.Less, Count: 1}))
		}, map[string]int{"r0": 8, "r1": 8}},
		{"evenly over the racks that take work", func(s *shared) {
			s.emit(&cluster.HostDrain{ID: "s/h00004", Drain: true})
			s.job(pool, 20, 1000, evenly(1, "rack"))
		}, map[string]int{"r0": 8, "r1": 8}},
		{"evenly beside others", func(s *shared) { // of which there are two in r0
			s.job(pool, 2, 1000, labeled("app", "web"), must(host("rack", "r0")))
			s.job(pool, 20, 1000, func(j *cluster.JobSpec) {
				j.Spread = []cluster.Spread{{Domain: "rack", MaxSkew: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "web"}}}}
			})
		}, map[string]int{"r0": 2, "r1": 8, "r2": 4}},
		{"a gang evenly", func(s *shared) { s.job(pool, 13, 1000, core(13), evenly(1, "rack")) }, map[string]int{"r0": 5, "r1": 4, "r2": 4}},
		{"a gang that cannot be even", func(s *shared) { s.job(pool, 15, 1000, core(15), evenly(1, "rack")) }, map[string]int{}},
		{"a domain that a host lacks", func(s *shared) { s.job(pool, 9, 1000, atMost(1, "row")) }, map[string]int{}},
		{"together in one rack", func(s *shared) {
			s.job(pool, 7, 1000, labeled("app", "web"), must(tasks("web", cluster.Greater, 0, "rack")))
		}, map[string]int{"r0": 7}},
		{"together and too many", func(s *shared) {
			s.job(pool, 9, 1000, labeled("app", "web"), must(tasks("web", cluster.Greater, 0, "rack")))
		}, map[string]int{}},
		{"a gang kept apart", func(s *shared) { s.job(pool, 5, 1000, core(5), atMost(1, "host")) }, map[string]int{"r0": 2, "r1": 2, "r2": 1}},
		{"a gang that cannot be kept apart", func(s *shared) { s.job(pool, 6, 1000, core(6), atMost(1, "host")) }, map[string]int{}},
		{"a gang in one rack", func(s *shared) {
			s.job(pool, 5, 1000, core(5), labeled("app", "web"), must(tasks("web", cluster.Greater, 0, "rack")))
		}, map[string]int{"r0": 5}},
		{"two gangs, one of which does not fit as it has to", func(s *shared) {
			s.job(pool, 3, 1000, core(3), atMost(1, "rack"))
			s.job(pool, 4, 1000, core(4), atMost(1, "rack"))
		}, map[string]int{"r0": 1, "r1": 1, "r2": 1}},
		{"next to others", func(s *shared) {
			s.job(pool, 1, 4000, labeled("app", "db"), must(host("rack", "r1")))
			s.job(pool, 9, 1000, must(tasks("db", cluster.Greater, 0, "rack")))
		}, map[string]int{"r1": 5}},
		{"away from others", func(s *shared) {
			s.job(pool, 1, 1000, labeled("app", "db"), must(host("rack", "r1")))
			s.job(pool, 30, 1000, must(tasks("db", cluster.Less, 1, "rack")))
		}, map[string]int{"r0": 8, "r1": 1, "r2": 4}},
		{"away from any", func(s *shared) {
			s.job(pool, 1, 1000, labeled("app", "db"), must(host("rack", "r1")))
			any := tasks("", cluster.Less, 1, "rack")
			any.AnyValue = true
			s.job(pool, 30, 1000, must(any))
		}, map[string]int{"r0": 8, "r1": 1, "r2": 4}},
		{"either a rack or few", func(s *shared) {
			s.job(pool, 30, 1000, labeled("app", "web"), must(cluster.Constraint{
				Op: cluster.Or, Terms: []cluster.Constraint{host("rack", "r2"), tasks("web", cluster.Less, 1, "rack")},
			}))
		}, map[string]int{"r0": 1, "r1": 1, "r2": 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t)
			s.pool(pool, 0)
			for i, rack := range []string{"r0", "r0", "r1", "r1", "r2"} {
				s.rack(i, rack, 4)
			}
			c.jobs(s)
			first := s.where(s.step())
			for rack, n := range s.where(s.step()) { // those that others had to make room for by being there
				first[rack] += n
			}
			require.Equal(t, c.want, first)
			require.Empty(t, s.step().Placements)
		})
	}
}

func host(key, value string) cluster.Constraint {
	return cluster.Constraint{Label: cluster.KeyValue{Key: key, Value: value}, Comparison: cluster.Greater}
}

// TestWhoWouldRatherBeTogetherDoesNotWait: tasks that would rather be where others like them are, and are too many for one rack, start
// none the less; of a planner without a flow, too, and where hosts are kept for them, these are in more than one rack.
func TestWhoWouldRatherBeTogetherDoesNotWait(t *testing.T) {
	for name, newSolver := range map[string]func() solver.Solver{
		"flow": func() solver.Solver { return netsimplex.New() }, "greedy": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.planner = cycle.New(loadspread.Model{}, newSolver)
			s.pool("root/p", 6000)
			s.pool("root/q", 6000)
			for i := range 4 {
				s.rack(i, fmt.Sprint("r", i), 3)
			}
			rather := func(j *cluster.JobSpec) {
				near(j)
				j.Preferences = []cluster.SoftConstraint{{Constraint: *j.Constraint, Soft: cluster.Soft{Penalty: time.Minute}}}
				j.Constraint = nil
			}
			first := s.job("root/q", 6, 1000, rather)
			require.Len(t, s.step().Placements, 6)
			for i := range uint32(6) {
				s.report(cluster.MakeTaskKey(first, i), cluster.TaskSucceeded)
			}
			s.job("root/p", 4, 1000, atMost(1, "host"), func(j *cluster.JobSpec) { j.Preemptible = false })
			s.settle()
			s.job("root/q", 2, 3000, rather, core(2))
			s.step()
			s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
			s.step()
			require.Len(t, s.in(cluster.TaskReserved), 2)
		})
	}
}

func TestExclusiveHostsAreForThoseWhoNameThem(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	kept := cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"}
	s.rack(0, "r0", 4, kept)
	s.rack(1, "r1", 4)
	s.job("root/p", 6, 1000)
	require.Equal(t, map[string]int{"r1": 4}, s.where(s.step()))
	s.job("root/p", 6, 1000, must(host(kept.Key, kept.Value)))
	require.Equal(t, map[string]int{"r0": 4}, s.where(s.step()))
	why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(1, 5))
	require.Contains(t, why.Tally, cycle.Tally{Reason: cycle.HostExclusive, Hosts: 1})
}

// A pool keeps its tasks, and those of the pools below it, on hosts with its labels. That opens hosts that are kept for who
// names them, and holds for what waits as soon as the pool says so.
func TestPoolsOfHosts(t *testing.T) {
	kept := cluster.KeyValue{Key: cluster.AttributeExclusive, Value: "lab"}
	s := newShared(t)
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/lab", Hosts: []cluster.KeyValue{kept}}})
	s.pool("root/lab/x", 0)
	s.pool("root/p", 0)
	s.rack(0, "r0", 4, kept)
	s.rack(1, "r1", 4, cluster.KeyValue{Key: "hosts", Value: "p"})
	s.rack(2, "r2", 4)
	inside := s.job("root/lab/x", 5, 1000)
	require.Equal(t, map[string]int{"r0": 4}, s.where(s.step()))
	why, _ := s.planner.WhyWaiting(cluster.MakeTaskKey(inside, 4))
	require.Contains(t, why.Tally, cycle.Tally{Reason: cycle.HostOutside, Hosts: 2})
	require.Contains(t, why.Tally, cycle.Tally{Reason: cycle.HostFull, Detail: "cpu_milli", Hosts: 1})
	s.job("root/p", 9, 1000)
	require.Equal(t, map[string]int{"r1": 4, "r2": 4}, s.where(s.step()), "hosts that nobody keeps are everybody's")
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/p", Hosts: []cluster.KeyValue{{Key: "hosts", Value: "p"}}}})
	s.rack(3, "r3", 4)
	require.Empty(t, s.step().Placements, "not what waits in either pool")
	s.emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/p"}})
	require.Equal(t, map[string]int{"r3": 1}, s.where(s.step()))
}

// A copy goes neither to the host of its task nor to one on which runs took too long, whatever else is full.
func TestCopiesGoToOtherHosts(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	own, slow, fast := s.rack(0, "r0", 4), s.rack(1, "r1", 4), s.rack(2, "r2", 4)
	for _, on := range []string{"r2", "r2", "r2", "r1"} {
		uid := s.job("root/p", 1, 1000, labeled(cluster.WorkLabel, "w"), must(host("rack", on)))
		s.step()
		s.now = s.now.Add(map[string]time.Duration{"r1": time.Minute, "r2": time.Second}[on])
		s.report(cluster.MakeTaskKey(uid, 0), cluster.TaskSucceeded)
	}
	require.Greater(t, s.state.Host(slow).Pace, int32(1500))
	k := cluster.MakeTaskKey(s.job("root/p", 1, 4000, func(j *cluster.JobSpec) { j.Speculation = &cluster.Speculation{} }), 0)
	s.emit(&cluster.Placed{Task: k, Run: 1, Host: own})
	s.report(k, cluster.TaskRunning)
	full := s.job("root/p", 1, 1000, must(host("rack", "r2")))
	s.step()
	copies := func(pace int32) cycle.Output {
		s.emit(&cluster.CopyAdded{Task: k, Run: 1, Pace: pace})
		return s.step()
	}
	require.Empty(t, copies(1500).Placements, "only the slow host has room")
	s.report(cluster.MakeTaskKey(full, 0), cluster.TaskSucceeded)
	out := s.step()
	require.Len(t, out.Placements, 1)
	require.Equal(t, fast, out.Placements[0].Host)
	require.Equal(t, k.Copy(), out.Placements[0].Task)
	s.report(k.Copy(), cluster.TaskKilled)
	s.emit(&cluster.InstanceRemoved{Task: k.Copy()})
	s.job("root/p", 1, 1000, must(host("rack", "r2")))
	s.step()
	out = copies(0)
	require.Len(t, out.Placements, 1)
	require.Equal(t, slow, out.Placements[0].Host, "where that does not matter")
}

// A host that was slow may be fast when it has gone and come back, and takes copies at once.
func TestACopyGoesToAHostThatCameBack(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	own, slow := s.rack(0, "r0", 4), s.rack(1, "r1", 4)
	for _, on := range []string{"r0", "r0", "r0", "r1"} {
		uid := s.job("root/p", 1, 1000, labeled(cluster.WorkLabel, "w"), must(host("rack", on)))
		s.step()
		s.now = s.now.Add(map[string]time.Duration{"r1": time.Minute, "r0": time.Second}[on])
		s.report(cluster.MakeTaskKey(uid, 0), cluster.TaskSucceeded)
	}
	k := cluster.MakeTaskKey(s.job("root/p", 1, 4000, func(j *cluster.JobSpec) { j.Speculation = &cluster.Speculation{} }), 0)
	s.emit(&cluster.Placed{Task: k, Run: 1, Host: own})
	s.report(k, cluster.TaskRunning)
	s.emit(&cluster.CopyAdded{Task: k, Run: 1, Pace: 1500})
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.HostUnreached{ID: slow, Gone: true})
	s.emit(&cluster.HostRemoved{ID: slow})
	s.rack(1, "r1", 4)
	require.Len(t, s.step().Placements, 1)
}

// Two that start together may be in one rack when the other one takes no work any more, though as many are in each as before.
func TestAGangStartsWhenARackCountsNoMore(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 4)
	other := s.rack(1, "r1", 4)
	s.job("root/p", 1, 4000, must(host("rack", "r1")))
	s.settle()
	s.job("root/p", 2, 1000, evenly(1, "rack"), core(2))
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.HostUnreached{ID: other})
	require.Len(t, s.step().Placements, 2)
}

// That a host is slow is seen at once, though nothing else about it has changed: a copy has won, and its task is still there.
func TestNoCopyGoesToWhereOneHasJustWon(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	own, other, third := s.rack(0, "r0", 8), s.rack(1, "r1", 8), s.rack(2, "r2", 1)
	place := func(k cluster.TaskKey, on cluster.HostID) {
		s.emit(&cluster.Placed{Task: k, Run: 1, Host: on})
		s.report(k, cluster.TaskRunning)
	}
	run := func(n uint32, on cluster.HostID) cluster.TaskKey {
		uid := s.job("root/p", n, 1000, func(j *cluster.JobSpec) {
			j.Speculation, j.Limits.MaxRunning = &cluster.Speculation{}, n+1
		})
		for i := range n {
			place(cluster.MakeTaskKey(uid, i), on)
		}
		return cluster.MakeTaskKey(uid, 0)
	}
	lags, first := run(1, other), run(2, own)
	second := cluster.MakeTaskKey(first.Job(), 1)
	s.step()
	s.now = s.now.Add(time.Minute)
	for _, k := range []cluster.TaskKey{lags, first, second} {
		s.emit(&cluster.CopyAdded{Task: k, Run: 1, Pace: 1500})
	}
	place(lags.Copy(), own)
	place(first.Copy(), third)
	require.Empty(t, s.step().Placements, "no more of the job may run")
	s.now = s.now.Add(time.Second)
	s.report(lags.Copy(), cluster.TaskSucceeded)
	require.Empty(t, s.step().Placements)
	s.emit(&cluster.CopyWon{Task: lags.Copy()})
	require.Greater(t, s.state.Host(other).Pace, int32(1500))
	s.report(first.Copy(), cluster.TaskFailed)
	require.NotContains(t, s.where(s.step()), "r1")
}

func TestPreferencesCostAndThenGiveWay(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 4)
	s.rack(1, "r1", 40)
	prefer := func(timeout time.Duration) func(*cluster.JobSpec) {
		return func(j *cluster.JobSpec) {
			j.Preferences = []cluster.SoftConstraint{{Constraint: host("rack", "r0"), Soft: cluster.Soft{Timeout: timeout, Penalty: time.Minute}}}
		}
	}
	s.job("root/p", 3, 1000, prefer(0))
	require.Equal(t, map[string]int{"r0": 3}, s.where(s.step()), "the full host is dearer, but not by a minute")
	s.job("root/p", 3, 1000, prefer(time.Minute))
	out := s.step()
	require.Equal(t, map[string]int{"r0": 1}, s.where(out), "the others wait")
	require.Equal(t, s.now.Add(time.Minute), out.WakeAt.Add(time.Second), "a step is a second")
	s.now = s.now.Add(time.Minute)
	require.Equal(t, map[string]int{"r1": 2}, s.where(s.step()))
}

// Two of three per rack: the third costs, and goes where it costs least.
func TestSoftSpread(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	for i := range 4 {
		s.rack(i, fmt.Sprint("r", i/2), 10)
	}
	s.job("root/p", 10, 1000, func(j *cluster.JobSpec) {
		j.Spread = []cluster.Spread{{Domain: "host", Max: 2, Soft: &cluster.Soft{Penalty: time.Minute}}}
	})
	out := s.step()
	require.Len(t, out.Placements, 10)
	per := map[cluster.HostID]int{}
	for _, p := range out.Placements {
		per[p.Host]++
	}
	require.Len(t, per, 4, "at most two each, and two more wherever")
	for _, n := range per {
		require.GreaterOrEqual(t, n, 2)
	}
}

// Who wants others like it around begins where there are none. One that is on its way elsewhere is one.
func TestNobodyIsFirstBesideOneThatMoves(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 1)
	s.rack(1, "r1", 1)
	s.rack(2, "r2", 1)
	k := cluster.MakeTaskKey(s.job("root/p", 1, 1000, labeled("app", "y"), must(host("rack", "r0"))), 0)
	s.step()
	s.emit(&cluster.TaskPreempted{Task: k, Run: 1, Hold: &cluster.Hold{Host: cluster.MakeHostID("s", "h00001"), Until: s.now.Add(time.Hour)}})
	s.job("root/p", 1, 1000, labeled("app", "y"), must(tasks("y", cluster.Greater, 0, "rack")))
	require.Empty(t, s.step().Placements)
}

// The members of a gang that is spread evenly count for each other as if they had come. To who moves for them, and may only be where
// one of them is, they only wait.
func TestNobodyMovesToWhoOnlyWaits(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 2)
	s.rack(1, "r1", 1)
	s.job("root/p", 1, 1000, must(cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{tasks("y", cluster.Greater, 0, "host"), host("rack", "r1")}}))
	s.step()
	require.Len(t, s.in(cluster.TaskRunning), 1)
	s.job("root/p", 2, 1000, labeled("app", "y"), evenly(1, "host"), core(2))
	require.Empty(t, s.step().Displacements)
}

// Whatever jobs ask of places, and whatever comes and goes, no plan breaks a rule: of 1,000 random clusters.
func TestNoPlanBreaksARule(t *testing.T) {
	cycle.Checks(t, 1000)
	rapid.Check(t, func(t *rapid.T) {
		s := newShared(t)
		s.pool("root/a", 4000)
		s.pool("root/b", 0)
		hosts := rapid.IntRange(1, 8).Draw(t, "hosts")
		for i := range hosts {
			var attributes []cluster.KeyValue
			if rapid.IntRange(0, 5).Draw(t, "kept") == 0 {
				attributes = []cluster.KeyValue{{Key: cluster.AttributeExclusive, Value: "x"}}
			}
			s.rack(i, fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "rack")), rapid.Int64Range(1, 5).Draw(t, "size"), attributes...)
		}
		for range rapid.IntRange(2, 8).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "jobs") {
				drawJob(t, s)
			}
			if rapid.Bool().Draw(t, "end") {
				s.endSome(rapid.IntRange(1, 4).Draw(t, "every"))
			}
			if i := rapid.IntRange(0, 3*hosts).Draw(t, "moved"); i < hosts {
				s.rack(i, fmt.Sprint("r", rapid.IntRange(0, 2).Draw(t, "rack")), 5)
			}
			s.step()
			if rapid.Bool().Draw(t, "leave") {
				s.leave()
			}
		}
	})
}

func drawJob(t *rapid.T, s *shared) {
	app := func() string { return rapid.SampledFrom([]string{"x", "y"}).Draw(t, "app") }
	domain := func() string { return rapid.SampledFrom([]string{"host", "rack"}).Draw(t, "domain") }
	soft := func() *cluster.Soft {
		return &cluster.Soft{Penalty: time.Second, Timeout: time.Duration(rapid.IntRange(0, 3).Draw(t, "timeout")) * time.Second}
	}
	expression := func() cluster.Constraint {
		c := tasks(app(), cluster.Comparison(rapid.IntRange(0, 2).Draw(t, "compare")), rapid.Uint32Range(0, 2).Draw(t, "number"), domain())
		switch rapid.IntRange(0, 4).Draw(t, "shape") {
		case 0:
			return cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{c, host("rack", "r1")}}
		case 1:
			return cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{c, tasks(app(), cluster.Less, 2, domain())}}
		case 2:
			return cluster.Constraint{Op: cluster.Or, Terms: []cluster.Constraint{c, host(cluster.AttributeExclusive, "x")}}
		}
		return c
	}
	pool := rapid.SampledFrom([]cluster.PoolPath{"root/a", "root/b"}).Draw(t, "pool")
	s.job(pool, rapid.Uint32Range(1, 6).Draw(t, "instances"), 1000*rapid.Int64Range(1, 2).Draw(t, "cpu"), func(j *cluster.JobSpec) {
		j.Priority = rapid.Int32Range(0, 2).Draw(t, "priority")
		if rapid.Bool().Draw(t, "labeled") {
			labeled("app", app())(j)
		}
		if rapid.Bool().Draw(t, "constrained") {
			must(expression())(j)
		}
		if rapid.IntRange(0, 2).Draw(t, "prefers") == 0 {
			j.Preferences = []cluster.SoftConstraint{{Constraint: expression(), Soft: *soft()}}
		}
		if rapid.IntRange(0, 2).Draw(t, "spread") == 0 {
			sp := cluster.Spread{Domain: domain(), Max: rapid.Uint32Range(1, 2).Draw(t, "max")}
			if rapid.IntRange(0, 2).Draw(t, "even") == 0 {
				sp.Max, sp.MaxSkew = 0, sp.Max
			}
			if rapid.Bool().Draw(t, "selects") {
				sp.Selector = []cluster.KeyValue{{Key: "app", Value: app()}}
			}
			if rapid.Bool().Draw(t, "soft") {
				sp.Soft = soft()
			}
			j.Spread = []cluster.Spread{sp}
		}
		if j.Instances > 1 && rapid.IntRange(0, 4).Draw(t, "gang") == 0 {
			core(j.Instances)(j)
		}
	})
}

// endSome ends every n-th running task.
func (s *shared) endSome(n int) {
	for i, k := range s.in(cluster.TaskRunning) {
		if i%n == 0 {
			s.report(k, cluster.TaskSucceeded)
		}
	}
}

// TestHostsWhereNothingBeginsAreTriedLast: a host whose launches come to nothing is the emptiest, and would draw all that is tried
// again. It gets work where others are full.
func TestHostsWhereNothingBeginsAreTriedLast(t *testing.T) {
	w := newWorldWith(t, sluice.Model{})
	broken, good := w.host(0, vector(8000, 8<<30)), w.host(1, vector(8000, 8<<30))
	job := w.submit(cluster.JobSpec{Instances: 9, Task: cluster.TaskSpec{Resources: vector(1000, 1<<30)}})
	tries, waits := 0, true
	for i := 0; i < 10 && waits; i++ {
		waits = false
		w.cycle()
		for k := range uint32(9) {
			switch t := w.state.Task(cluster.MakeTaskKey(job, k)); {
			case t.State == cluster.TaskPlaced && t.Host == broken:
				tries++
				w.emit(&cluster.TaskRequeued{Task: t.Key, Reason: cluster.ReasonLaunchRefused})
				waits = waits || len(w.state.Host(good).Tasks) < 8
			case t.State == cluster.TaskPlaced:
				w.emit(&cluster.TaskStatus{Task: t.Key, Run: t.Run, State: cluster.TaskRunning})
			}
		}
	}
	require.False(t, waits, "work waits for the host where nothing begins")
	require.Less(t, tries, 14)
	require.Len(t, w.state.Host(good).Tasks, 8)
	out := w.cycle() // for the last one there is no other host
	require.Len(t, out.Placements, 1)
	require.Equal(t, broken, out.Placements[0].Host)
	w.cycle()
	placed, ok := w.planner.WhyPlaced(out.Placements[0].Task)
	require.True(t, ok)
	require.Contains(t, fmt.Sprint(placed), "launches that failed")
}

// TestOthersLeaveForAGangThatIsSpread: for a gang of which each rack is to have as many, others are asked to leave in all of them, also where
// it needs more than one place in a rack, and no more than it needs.
func TestOthersLeaveForAGangThatIsSpread(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     uint32
		skew  uint32
		there int // others that the rule counts, all in r0
		want  map[string]int
	}{
		{"as many in each", 6, 1, 0, map[string]int{"r0": 2, "r1": 2, "r2": 2}},
		{"one more in one", 7, 1, 0, map[string]int{"r0": 2, "r1": 3, "r2": 2}},
		{"where some are already", 7, 1, 2, map[string]int{"r0": 1, "r1": 3, "r2": 3}},
		{"too many for the smallest", 12, 1, 0, map[string]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 0)
			for i, rack := range []string{"r0", "r0", "r1", "r1", "r2"} {
				s.rack(i, rack, 3)
			}
			there := s.job("root/p", uint32(c.there), 1000, labeled("app", "web"), must(host("rack", "r0")), func(j *cluster.JobSpec) { j.Preemptible = false })
			s.settle()
			s.job("root/p", uint32(15-c.there), 1000)
			s.settle()
			gang := s.job("root/p", c.n, 1000, core(c.n), labeled("app", "web"), urgent(5), func(j *cluster.JobSpec) {
				j.Spread = []cluster.Spread{{Domain: "rack", MaxSkew: c.skew, Selector: j.Labels}}
			})
			out := s.step()
			asked := 0
			if len(c.want) > 0 {
				asked = int(c.n)
			}
			require.Equal(t, asked, out.Stats.Preemptions)
			require.Equal(t, asked, s.leave())
			out = s.step()
			require.Equal(t, c.want, s.where(out))
			require.Equal(t, asked, s.running(gang))
			require.Equal(t, c.there, s.running(there))
			require.Zero(t, s.step().Stats.Preemptions)
		})
	}
}

// TestHostsAreKeptForAGangThatIsSpread: also where more than one in a rack is to be kept for it.
func TestHostsAreKeptForAGangThatIsSpread(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 8000)
	s.pool("root/q", 12000)
	for i := range 4 {
		s.rack(i, fmt.Sprint("r", i/2), 5)
	}
	s.job("root/p", 8, 1000, atMost(2, "host"), func(j *cluster.JobSpec) { j.Preemptible = false })
	s.settle()
	gang := s.job("root/q", 3, 4000, core(3), evenly(1, "rack"))
	s.step()
	s.now = s.now.Add(cycle.DefaultOptions().ReserveAfter)
	require.Zero(t, s.step().Stats.Preemptions)
	require.Len(t, s.in(cluster.TaskReserved), 3)
	s.endSome(1)
	require.Len(t, s.where(s.step()), 2)
	require.Equal(t, 3, s.running(gang))
}

// TestAGangThatIsSpreadComesInTurn: whatever the hosts are on which room is held for its tasks, they come in an order in which no rack has
// too many more than another at any time.
func TestAGangThatIsSpreadComesInTurn(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	hosts := []cluster.HostID{s.rack(0, "r0", 3), s.rack(1, "r1", 3)}
	gang := s.job("root/p", 6, 1000, core(6), evenly(1, "rack"))
	for i := range 6 {
		s.emit(&cluster.TaskHeld{Task: cluster.MakeTaskKey(gang, uint32(i)), Hold: cluster.Hold{Host: hosts[i/3], Until: s.now.Add(time.Hour)}})
	}
	require.Equal(t, map[string]int{"r0": 3, "r1": 3}, s.where(s.step()))
}

// TestOthersLeaveForThoseWhoBelongBesideThem: those whom a task has to be near may leave for it, as long as enough of them stay.
func TestOthersLeaveForThoseWhoBelongBesideThem(t *testing.T) {
	for _, c := range []struct {
		name   string
		number uint32 // of them more have to be there
		domain string
		gang   func(*cluster.JobSpec)
		n      uint32
		want   int // that come, in two racks of two full hosts with three places each
	}{
		{"all but one of a rack", 0, "rack", func(*cluster.JobSpec) {}, 7, 5},
		{"all but one of each host", 0, "host", func(*cluster.JobSpec) {}, 7, 4},
		{"all but three", 2, "rack", func(*cluster.JobSpec) {}, 7, 3},
		{"too few", 5, "rack", func(*cluster.JobSpec) {}, 7, 0},
		{"for a gang", 0, "rack", core(5), 5, 5},
		{"not for a gang that is too large", 0, "rack", core(6), 6, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 0)
			for i := range 4 {
				s.rack(i, fmt.Sprint("r", i/2), 3)
			}
			s.job("root/p", 6, 1000, must(host("rack", "r1")))
			old := s.job("root/p", 6, 1000, must(host("rack", "r0")), labeled("app", "old"))
			s.settle()
			young := s.job("root/p", c.n, 1000, urgent(5), c.gang, must(tasks("old", cluster.Greater, c.number, c.domain)))
			s.step()
			require.Equal(t, c.want, s.leave())
			s.step()
			require.Equal(t, []int{6 - c.want, c.want}, []int{s.running(old), s.running(young)})
			require.Zero(t, s.step().Stats.Preemptions)
		})
	}
}

// TestTheCheapestLeaveForThoseWhoBelongBesideOthers: of those who lose least only as many leave as are not to stay.
func TestTheCheapestLeaveForThoseWhoBelongBesideOthers(t *testing.T) {
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 6)
	other := s.job("root/p", 3, 1000)
	s.settle()
	s.now = s.now.Add(time.Minute)
	old := s.job("root/p", 3, 1000, labeled("app", "old"))
	s.settle()
	s.job("root/p", 1, 4000, urgent(5), must(tasks("old", cluster.Greater, 0, "host")))
	require.Equal(t, 4, s.step().Stats.Preemptions)
	require.Equal(t, []int{1, 1}, []int{s.running(old), s.running(other)})
	s.leave()
	require.Len(t, s.step().Placements, 1)
}

// TestCompanyStaysForWhomRoomIsHeld: nobody is asked to leave whom another one has to be near who has room held there, in the same plan
// or in a later one: it would have had others leave in vain.
func TestCompanyStaysForWhomRoomIsHeld(t *testing.T) {
	for name, later := range map[string]bool{"in one plan": false, "in a later one": true} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 0)
			s.rack(0, "r0", 4)
			old := s.job("root/p", 2, 1000, labeled("app", "old"))
			s.settle()
			other := s.job("root/p", 2, 1000)
			s.settle()
			young := s.job("root/p", 2, 1000, urgent(5), must(tasks("old", cluster.Greater, 0, "rack")))
			if later {
				require.Equal(t, 2, s.step().Stats.Preemptions)
			}
			third := s.job("root/p", 2, 1000, urgent(4))
			s.step()
			require.Equal(t, []int{1, 0}, []int{s.running(old), s.running(other)})
			require.Equal(t, 3, s.leave())
			out := s.step()
			require.Equal(t, []int{2, 1}, []int{s.running(young), s.running(third)})
			require.Equal(t, 1, out.Stats.Preemptions, "since they have come it may go")
		})
	}
}

// TestWhoWouldRatherBeNearOthersHasThemLeave: those whom a task would only rather be near may leave for it, if none of them stays either;
// where it costs less others do.
func TestWhoWouldRatherBeNearOthersHasThemLeave(t *testing.T) {
	for name, rather := range map[string]func(*cluster.JobSpec){
		"near": func(j *cluster.JobSpec) {
			j.Preferences = []cluster.SoftConstraint{{Constraint: tasks("old", cluster.Greater, 0, "host"), Soft: cluster.Soft{Penalty: time.Minute}}}
		},
		"evenly": func(j *cluster.JobSpec) {
			j.Spread = []cluster.Spread{{Domain: "host", MaxSkew: 1, Selector: []cluster.KeyValue{{Key: "app", Value: "old"}}, Soft: &cluster.Soft{Penalty: time.Minute}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			s.pool("root/p", 0)
			for i := range 2 {
				s.rack(i, "r0", 2)
			}
			s.job("root/p", 2, 2000, labeled("app", "old"))
			s.settle()
			s.job("root/p", 1, 1000, urgent(5), rather)
			require.Equal(t, 1, s.step().Stats.Preemptions)
			s.leave()
			require.Len(t, s.step().Placements, 1)
		})
	}
	s := newShared(t)
	s.pool("root/p", 0)
	s.rack(0, "r0", 2)
	s.rack(1, "r0", 3)
	other := s.job("root/p", 1, 2000, must(host("hostname", "h00001")))
	s.settle()
	s.now = s.now.Add(time.Second)
	s.job("root/p", 2, 1000, labeled("app", "old"), atMost(1, "host"))
	s.settle()
	require.Len(t, s.in(cluster.TaskRunning), 3)
	s.job("root/p", 1, 2000, urgent(5), func(j *cluster.JobSpec) {
		j.Preferences = []cluster.SoftConstraint{{Constraint: tasks("old", cluster.Greater, 0, "host"), Soft: cluster.Soft{Penalty: time.Minute}}}
	})
	s.step()
	require.Zero(t, s.running(other), "the old one that has run for less is company")
}

// What is counted for the rules of jobs goes with them: the jobs of a cluster are without end.
func TestNothingIsCountedForJobsThatAreGone(t *testing.T) {
	w := newWorld(t)
	w.planner.Shorten()
	w.host(0, vector(1000, 10))
	for i := range 100 {
		label := cluster.KeyValue{Key: fmt.Sprint("app-", i), Value: "web"}
		uid := w.submit(cluster.JobSpec{
			Instances: 1, Labels: []cluster.KeyValue{label}, Spread: []cluster.Spread{{Domain: cluster.DomainHost, Max: 1}},
			Constraint: &cluster.Constraint{Op: cluster.TaskLabel, Domain: cluster.DomainHost, Label: label, Comparison: cluster.Less, Count: 2},
			Task:       cluster.TaskSpec{Resources: vector(100, 1)},
		})
		require.Len(t, w.cycle().Placements, 1)
		w.end(cluster.MakeTaskKey(uid, 0))
		w.emit(&cluster.JobDeleted{Job: uid})
	}
	w.cycle()
	require.LessOrEqual(t, w.planner.Listed(), 10, "of the rules of five rows")
}

// TestClaimsAreOfferedHostsBeforeWhatBorrows: the first flow has all claims of an empty cluster, also where a class that has one waits in
// great numbers beyond that.
func TestClaimsAreOfferedHostsBeforeWhatBorrows(t *testing.T) {
	const hosts, few = 40, 2
	s := newShared(t)
	for i := range hosts {
		s.host(i, vector(100, 0))
	}
	s.pool("root/many", few*60)
	s.pool("root/own", hosts*100-few*60)
	s.job("root/many", 3*hosts, 60)
	for i := range hosts - few {
		s.job("root/own", 1, int64(61+i))
	}
	out := s.plan()
	require.Len(t, out.Placements, hosts)
	require.Equal(t, 1, out.Stats.Solves)
}
