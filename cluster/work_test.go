package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestABinIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(10*365*24*time.Hour)).Draw(t, "d"))
		near := middle(binOf(d))
		require.LessOrEqual(t, (near - d.Truncate(time.Millisecond)).Abs(), d/16+time.Millisecond)
		require.LessOrEqual(t, binOf(d), binOf(d+time.Second))
	})
}

func TestRunTimesOfLateRunsCountMore(t *testing.T) {
	w := &Work{}
	for range 300 {
		w = w.after(0, time.Second, Resources{}, "", nil)
	}
	require.InDelta(t, time.Second, w.RunTime(500), float64(time.Second)/15)
	before := w.Runs()
	for range before + 1 {
		w = w.after(0, time.Minute, Resources{}, "", nil)
	}
	require.InDelta(t, time.Minute, w.RunTime(500), float64(time.Minute)/15)
	require.Less(t, w.Runs(), uint32(MemoryRuns))
}

func TestAPeakFadesAndRisesAtOnce(t *testing.T) {
	use := func(cpu int64) (r Resources) {
		r.Fixed[CPU] = cpu
		return r
	}
	w := (&Work{}).after(0, time.Second, use(1000), "", nil)
	require.Equal(t, int64(1000), w.Peak.Fixed[CPU])
	w = w.after(0, time.Second, use(200), "", nil)
	require.Equal(t, int64(950), w.Peak.Fixed[CPU])
	require.Equal(t, int64(2000), w.after(0, time.Second, use(2000), "", nil).Peak.Fixed[CPU])
	for range 200 {
		w = w.after(0, time.Second, use(200), "", nil)
	}
	require.Equal(t, int64(200), w.Peak.Fixed[CPU])
}

// Whatever company the runs had: what hosts and neighbours cost is found out from run times alone.
func TestPairsAreFoundOutFromRunTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone := map[string]int64{
			"old": rapid.Int64Range(10_000, 100_000).Draw(t, "old"), "new": rapid.Int64Range(10_000, 100_000).Draw(t, "new"),
		}
		loss := map[string]int64{"a": rapid.Int64Range(0, 10_000).Draw(t, "a"), "b": rapid.Int64Range(0, 10_000).Draw(t, "b")}
		w := &Work{}
		for i := range uint32(2000) {
			kind, beside := []string{"old", "new"}[i%2], []Company(nil)
			took := alone[kind]
			for j, name := range []string{"a", "b"} {
				if n := i * 7919 >> (3 * j) % 4; n > 0 {
					beside = append(beside, Company{Work: name, Tasks: n})
					took += loss[name] * int64(n)
				}
			}
			w = w.after(Time(i), time.Duration(took)*time.Millisecond, Resources{}, kind, beside)
		}
		for kind, want := range alone {
			require.InDelta(t, want, w.Pair(kind, "").Milli, 1000)
			for name, loss := range loss {
				require.InDelta(t, loss, w.Pair(kind, name).Milli, 500)
			}
		}
	})
}

func TestPairsAreBounded(t *testing.T) {
	w := &Work{}
	for i := range 2 * MaxPairs {
		w = w.after(Time(i), time.Second, Resources{}, string(rune('a'+i)), []Company{{Work: "x", Tasks: 1 << 31}})
	}
	require.Len(t, w.Pairs, MaxPairs)
	require.Nil(t, w.Pair("a", ""), "the oldest went first")
}

func TestWorkIsLearnedAndKept(t *testing.T) {
	s := NewState()
	emit := func(at Time, e Event) {
		t.Helper()
		require.NoError(t, s.Apply(Record{Seq: s.Seq() + 1, At: at, Event: e}))
	}
	m := Machine{Attributes: []KeyValue{{KindAttribute, "new"}}}
	m.Capacity.Fixed[CPU] = 4000
	emit(0, &HostReported{ID: "s/h", Machine: m})
	submit := func(labels ...KeyValue) TaskKey {
		uid := s.NextJob()
		spec := &JobSpec{Name: JobID(uid.String()), Pool: RootPool, Instances: 1, Labels: labels}
		spec.Task.Resources.Fixed[CPU] = 1000
		emit(0, &JobsSubmitted{Jobs: []NewJob{{UID: uid, Spec: spec}}})
		k := MakeTaskKey(uid, 0)
		emit(1, &Placed{Task: k, Run: 1, Host: "s/h"})
		emit(2, &TaskStatus{Task: k, Run: 1, State: TaskRunning})
		return k
	}
	sort, noise, silent := submit(KeyValue{WorkLabel, "sort"}), submit(KeyValue{WorkLabel, "noise"}), submit()
	early := submit(KeyValue{WorkLabel, "early"})
	peak := Resources{}
	peak.Fixed[CPU] = 700
	end := func(k TaskKey, state TaskState) {
		emit(2+Time(time.Minute), &TaskStatus{Task: k, Run: 1, State: state, Peak: &peak})
	}
	end(silent, TaskSucceeded)
	require.Zero(t, s.Lessons())
	end(sort, TaskSucceeded)
	end(noise, TaskFailed)
	require.Equal(t, uint64(1), s.Lessons())
	require.Nil(t, find(s.works, "noise"), "a run that failed says nothing about the work")
	w := find(s.works, "sort")
	require.Equal(t, peak, w.Peak)
	require.Equal(t, int64(60_000), w.Pair("new", "").Milli)

	snapshot, _ := s.Snapshot()
	again := NewState()
	for part := range snapshot.Parts() {
		require.NoError(t, again.Apply(Record{Event: part}))
	}
	require.Equal(t, w, find(again.works, "sort"))
	require.Equal(t, int64(3000), s.Turnover().Within(TurnoverWindow, 2+Time(time.Minute)).Fixed[CPU], "all three made room")
	require.Equal(t, s.Turnover(), again.Turnover())

	emit(1, &TaskStatus{Task: early, Run: 1, State: TaskSucceeded, Peak: &peak})
	require.Nil(t, find(s.works, "early"), "it ended before it started, as when the clock is set back")
}

// A run teaches of the work that it does, and is company of that kind, though its job is to do another by now.
func TestWorkIsThatOfTheRun(t *testing.T) {
	s := NewState()
	emit := func(at Time, events ...Event) {
		t.Helper()
		for _, e := range events {
			require.NoError(t, s.Apply(Record{Seq: s.Seq() + 1, At: at, Event: e}))
		}
	}
	spec := &JobSpec{Name: "job", Pool: RootPool, Instances: 2, Labels: []KeyValue{{WorkLabel, "sort"}}}
	emit(0, &HostReported{ID: "s/h"}, &JobsSubmitted{Jobs: []NewJob{{UID: 1, Spec: spec}}})
	for i := range spec.Instances {
		k := MakeTaskKey(1, i)
		emit(1, &Placed{Task: k, Run: 1, Host: "s/h"}, &TaskStatus{Task: k, Run: 1, State: TaskRunning})
	}
	next := *spec
	next.Labels = []KeyValue{{WorkLabel, "scan"}}
	emit(2, &JobUpdated{Job: 1, Spec: &next, Update: &Update{From: 1}})
	first := MakeTaskKey(1, 0)
	require.Equal(t, []Company{{"sort", 1}}, s.company(s.Host("s/h"), first))
	emit(Time(time.Minute), &TaskStatus{Task: first, Run: 1, State: TaskSucceeded})
	require.NotNil(t, find(s.works, "sort"))
	require.Nil(t, find(s.works, "scan"))
}
