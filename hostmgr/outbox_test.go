package hostmgr

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// TestOutbox plays any order of reports, sends, acknowledgements, releases and broken sessions. The scheduler sees each
// run only ever move on, and in the end it has seen the last status of every run.
func TestOutbox(t *testing.T) {
	life := []cluster.TaskState{cluster.TaskLaunching, cluster.TaskStarting, cluster.TaskRunning, cluster.TaskSucceeded}
	rank := map[sluicev1.RunState]int{}
	for i, s := range life {
		rank[runStates[s]] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		o := newOutbox()
		driver := map[cluster.RunID]Status{} // the driver's inventory
		truth := map[cluster.RunID]int{}     // index in life of each run ever
		seen := map[cluster.RunID]int{}      // by the scheduler
		var inFlight []*sluicev1.RunStatus
		see := func(st *sluicev1.RunStatus) {
			run, err := runFrom(st.GetRun())
			require.NoError(t, err)
			got := rank[st.GetState()]
			before, known := seen[run]
			require.True(t, !known || got >= before, "run %v went from %d back to %d", run, before, got)
			require.LessOrEqual(t, got, truth[run])
			seen[run] = got
		}
		send := func() bool {
			messages := o.next()
			for _, m := range messages {
				if st := m.GetStatus(); st != nil {
					see(st)
					inFlight = append(inFlight, st)
				}
			}
			return messages != nil
		}
		ack := func(i int) {
			o.ack(inFlight[i].GetUpdateId())
			inFlight = slices.Delete(inFlight, i, i+1)
		}
		reconnect := func() {
			inFlight = nil
			for _, m := range o.begin(func() []Status { return slices.Collect(maps.Values(driver)) }) {
				for _, st := range m.GetInventory().GetRuns() {
					see(st)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"report": func(t *rapid.T) {
				run := cluster.RunID{Task: cluster.MakeTaskKey(1, rapid.Uint32Range(0, 5).Draw(t, "run")), Run: 1}
				at, known := truth[run]
				if at == len(life)-1 {
					return
				}
				if known {
					at = rapid.IntRange(at+1, len(life)-1).Draw(t, "state")
				}
				truth[run] = at
				driver[run] = Status{Run: run, State: life[at]}
				o.report(driver[run], false)
			},
			"send": func(*rapid.T) { send() },
			"ack": func(t *rapid.T) {
				if len(inFlight) > 0 {
					ack(rapid.IntRange(0, len(inFlight)-1).Draw(t, "which"))
				}
			},
			"release": func(*rapid.T) {
				for _, run := range slices.SortedFunc(maps.Keys(driver), cluster.RunID.Compare) {
					if seen[run] == len(life)-1 {
						delete(driver, run)
						o.release(run)
						return
					}
				}
			},
			"reconnect": func(*rapid.T) { reconnect() },
		})
		reconnect()
		for send() {
		}
		require.Equal(t, truth, seen)
		for len(inFlight) > 0 {
			ack(0)
		}
		reconnect()
		for _, k := range o.runs {
			require.False(t, k.news && k.updateID != 0)
		}
		for run := range driver {
			o.release(run)
		}
		require.Empty(t, o.runs)
		require.Empty(t, o.sent)
	})
}

func TestOutboxBoundsPongs(t *testing.T) {
	o := newOutbox()
	for n := range uint64(100) {
		o.pong(n)
	}
	var got []uint64
	for m := o.next(); m != nil; m = o.next() {
		got = append(got, m[0].GetPong().GetNumber())
	}
	require.Len(t, got, maxPongs)
	require.EqualValues(t, 99, got[len(got)-1])
}

// TestHealthThatComesLate: news of a run that has ended, or was released meanwhile, is not told, and not kept. What is known of a run
// before there is a session is.
func TestHealthThatComesLate(t *testing.T) {
	run := func(n uint32) cluster.RunID { return cluster.RunID{Task: cluster.MakeTaskKey(1, n), Run: 1} }
	o := newOutbox()
	for n := range uint32(3) {
		o.report(Status{Run: run(n), State: cluster.TaskRunning}, false)
		require.NotNil(t, o.next()[0].GetStatus())
	}
	o.reportHealth(Health{Run: run(0), Health: cluster.HealthReady})
	for n := range uint32(2) {
		o.report(Status{Run: run(n), State: cluster.TaskSucceeded}, false)
		require.NotNil(t, o.next()[0].GetStatus())
	}
	o.release(run(1))
	for n := range uint32(4) {
		o.reportHealth(Health{Run: run(n), Health: cluster.HealthReady})
	}
	told := func() (runs []uint32) {
		for m := o.next(); m != nil; m = o.next() {
			if h := m[0].GetHealth(); h != nil {
				runs = append(runs, h.GetRun().GetInstance())
			}
		}
		return runs
	}
	o.begin(func() []Status {
		return []Status{
			{Run: run(0), State: cluster.TaskSucceeded}, {Run: run(2), State: cluster.TaskRunning}, {Run: run(3), State: cluster.TaskRunning},
		}
	})
	require.Equal(t, []uint32{2, 3}, told())
	require.Len(t, o.health.latest, 2)
}

// TestTail compares the search for a tail with what it means, whatever the pieces in which the log comes.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := []byte(rapid.StringMatching(`[a\n]{0,60}`).Draw(t, "log"))
		first := rapid.Int64Range(0, 100).Draw(t, "first")
		want := tail{
			countLines: rapid.Bool().Draw(t, "lines?"),
			bytes:      rapid.Int64Range(0, 70).Draw(t, "bytes"),
			lines:      rapid.IntRange(0, 30).Draw(t, "lines"),
		}
		expected := len(log)
		if want.countLines {
			for lines := 0; expected > 0; expected-- {
				if expected == len(log) || log[expected-1] == '\n' {
					if lines++; lines > want.lines {
						break
					}
				}
			}
		} else {
			expected = max(0, len(log)-int(want.bytes))
		}
		at := first
		for rest := log; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			require.NoError(t, want.add(at, rest[:n]))
			at, rest = at+int64(n), rest[n:]
		}
		if len(log) == 0 {
			first = 0
		}
		require.Equal(t, first+int64(expected), want.offset())
	})
}

func TestTailOfManyLines(t *testing.T) {
	found := tail{countLines: true, lines: 3}
	for i := range int64(10_000) {
		require.NoError(t, found.add(2*i, []byte("x\n")))
	}
	require.EqualValues(t, 2*9_997, found.offset())
	require.Less(t, cap(found.starts), 4096, "what is not needed is forgotten")
}
