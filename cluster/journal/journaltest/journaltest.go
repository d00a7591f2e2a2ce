// Package journaltest is the conformance suite of [journal.Journal].
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
)

// Harness makes journals of one implementation.
type Harness struct {
	// Open returns an empty journal. The suite closes it.
	Open func(t testing.TB) journal.Journal
	// Reopen returns a journal with the same history, as a new process would find it; it may be the same one. After
	// the call only the result is used.
	Reopen func(t testing.TB, j journal.Journal) journal.Journal
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Run("Empty", h.empty)
	t.Run("AppendReplay", h.appendReplay)
	t.Run("Sequence", h.sequence)
	t.Run("Refused", h.refused)
	t.Run("LongBatch", h.longBatch)
	t.Run("NothingShared", h.nothingShared)
	t.Run("Checkpoint", h.checkpoint)
	t.Run("CheckpointInsideBatch", h.checkpointInsideBatch)
	t.Run("CheckpointOutOfHistory", h.checkpointOutOfHistory)
	t.Run("CheckpointCancelled", h.checkpointCancelled)
	t.Run("CheckpointBesideAppend", h.checkpointBesideAppend)
	t.Run("ReplayStops", h.replayStops)
	t.Run("Closed", h.closed)
	t.Run("CloseWaits", h.closeWaits)
	t.Run("AnyHistory", h.anyHistory)
}

// Label returns a record that any State accepts and that differs from every other number's.
func Label(seq uint64) cluster.Record {
	return cluster.Record{Seq: seq, At: cluster.Time(1000 * seq), Event: &cluster.PoolPut{Pool: cluster.Pool{
		Path:   cluster.RootPool + cluster.PoolPath(fmt.Sprintf("/p%d", seq%7)),
		Labels: []cluster.KeyValue{{Key: "seq", Value: fmt.Sprint(seq)}},
	}}}
}

// Labels returns n of them.
func Labels(from uint64, n int) []cluster.Record {
	records := make([]cluster.Record, n)
	for i := range records {
		records[i] = Label(from + uint64(i))
	}
	return records
}

// Replayed returns all that Replay passes.
func Replayed(t testing.TB, j journal.Journal) []cluster.Record {
	var out []cluster.Record
	require.NoError(t, j.Replay(func(r cluster.Record) error {
		out = append(out, r)
		return nil
	}))
	return out
}

// StateOf applies records to a new State.
func StateOf(t require.TestingT, records []cluster.Record) *cluster.State {
	s := cluster.NewState()
	for _, r := range records {
		require.NoError(t, s.Apply(r))
	}
	return s
}

// RequireEqual holds two States to the same content.
func RequireEqual(t require.TestingT, want, got *cluster.State) {
	w, _ := want.Snapshot()
	g, _ := got.Snapshot()
	require.Equal(t, slices.Collect(w.Parts()), slices.Collect(g.Parts()))
}

func snapshotOf(t testing.TB, records []cluster.Record) *cluster.Snapshot {
	s, _ := StateOf(t, records).Snapshot()
	return s
}

func (h Harness) empty(t *testing.T) {
	j := h.Open(t)
	require.Empty(t, Replayed(t, j))
	require.NoError(t, j.Append(nil))
	j = h.Reopen(t, j)
	s, err := journal.Load(j)
	require.NoError(t, err)
	require.Zero(t, s.Seq())
	require.NotNil(t, s.Pool(cluster.RootPool))
	require.NoError(t, j.Close())
}

func (h Harness) appendReplay(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 60)
	require.NoError(t, j.Append(all[:1]))
	require.NoError(t, j.Append(all[1:10]))
	require.Equal(t, all[:10], Replayed(t, j))
	j = h.Reopen(t, j)
	require.Equal(t, all[:10], Replayed(t, j))
	require.NoError(t, j.Append(all[10:]))
	require.Equal(t, all, Replayed(t, h.Reopen(t, j)))
}

func (h Harness) sequence(t *testing.T) {
	j := h.Open(t)
	for _, bad := range [][]cluster.Record{
		Labels(0, 1), Labels(2, 1),
		{Label(1), Label(3)},
		{Label(1), Label(1)},
		{{Seq: 1, Event: &cluster.Restored{}}},
	} {
		require.ErrorIs(t, j.Append(bad), journal.ErrSequence)
	}
	require.NoError(t, j.Append(Labels(1, 3)))
	require.ErrorIs(t, j.Append(Labels(3, 1)), journal.ErrSequence)
	require.ErrorIs(t, j.Append(Labels(5, 1)), journal.ErrSequence)
	j = h.Reopen(t, j)
	require.ErrorContains(t, j.Append(Labels(3, 1)), "the next one is 4")
	require.NoError(t, j.Append(Labels(4, 1)))
	require.Equal(t, Labels(1, 4), Replayed(t, j))
	require.NoError(t, j.Close())
}

// deep returns a constraint of that many levels.
func deep(levels int) *cluster.Constraint {
	c := cluster.Constraint{Op: cluster.HostLabel}
	for range levels {
		c = cluster.Constraint{Op: cluster.And, Terms: []cluster.Constraint{c}}
	}
	return &c
}

func (h Harness) refused(t *testing.T) {
	j := h.Open(t)
	for name, bad := range map[string]cluster.Event{
		"no event":       nil,
		"nil event":      (*cluster.PoolPut)(nil),
		"too deep":       &cluster.JobUpdated{Spec: &cluster.JobSpec{Constraint: deep(2000)}},
		"not an own one": struct{ cluster.Event }{},
	} {
		err := j.Append([]cluster.Record{Label(1), {Seq: 2, Event: bad}})
		require.ErrorContains(t, err, "record 2", name)
		require.NotErrorIs(t, err, journal.ErrFailed, name)
	}
	require.Empty(t, Replayed(t, j))
	odd := cluster.Record{Seq: 1, Event: &cluster.HostUnreached{ID: "a/b", Reason: "\xff\xfe not UTF-8 \x00"}}
	nested := cluster.Record{Seq: 2, Event: &cluster.JobUpdated{Spec: &cluster.JobSpec{Constraint: deep(200)}}}
	require.NoError(t, j.Append([]cluster.Record{odd, nested}))
	require.Equal(t, []cluster.Record{odd, nested}, Replayed(t, h.Reopen(t, j)))
}

func (h Harness) longBatch(t *testing.T) {
	j := h.Open(t)
	require.NoError(t, j.Append(Labels(1, 2)))
	require.NoError(t, j.Append(Labels(3, 30_000)))
	large := cluster.Record{Seq: 30_003, Event: &cluster.HostUnreached{ID: "a/b", Reason: strings.Repeat("long ", 1<<20)}}
	require.NoError(t, j.Append([]cluster.Record{large}))
	require.NoError(t, j.Append(Labels(30_004, 1)))
	j = h.Reopen(t, j)
	want := append(Labels(1, 30_002), large, Label(30_004))
	require.True(t, slices.EqualFunc(want, Replayed(t, j), func(a, b cluster.Record) bool {
		return a.Seq == b.Seq && a.At == b.At && fmt.Sprintf("%+v", a.Event) == fmt.Sprintf("%+v", b.Event)
	}))
	require.NoError(t, j.Close())
}

func (h Harness) nothingShared(t *testing.T) {
	j := h.Open(t)
	r := Label(1)
	require.NoError(t, j.Append([]cluster.Record{r}))
	r.Event.(*cluster.PoolPut).Pool.Labels[0].Value = "changed"
	first := Replayed(t, j)
	require.Equal(t, Labels(1, 1), first)
	first[0].Event.(*cluster.PoolPut).Pool.Labels[0].Value = "changed"
	require.Equal(t, Labels(1, 1), Replayed(t, j))
	require.NoError(t, j.Close())
}

func (h Harness) checkpoint(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 50)
	for i := 0; i < 40; i += 10 {
		require.NoError(t, j.Append(all[i:i+10]))
	}
	for _, at := range []int{10, 30, 30, 40} {
		require.NoError(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:at])))
		j = h.Reopen(t, j)
		got := Replayed(t, j)
		s := StateOf(t, got)
		RequireEqual(t, StateOf(t, all[:40]), s)
		parts := 0
		for _, r := range got {
			if _, ok := r.Event.(*cluster.Restored); ok {
				require.Equal(t, uint64(at), r.Seq)
				parts++
			}
		}
		require.Equal(t, all[at:40], got[parts:], "the records after the base, and no others")
	}
	require.NoError(t, j.Append(all[40:]))
	s, err := journal.Load(h.Reopen(t, j))
	require.NoError(t, err)
	RequireEqual(t, StateOf(t, all), s)
}

func (h Harness) checkpointInsideBatch(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 20)
	require.NoError(t, j.Append(all[:10]))
	require.NoError(t, j.Append(all[10:]))
	for _, at := range []int{4, 9, 11, 19} {
		require.NoError(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:at])))
		j = h.Reopen(t, j)
		s, err := journal.Load(j)
		require.NoError(t, err)
		RequireEqual(t, StateOf(t, all), s)
	}
	require.NoError(t, j.Close())
}

func (h Harness) checkpointOutOfHistory(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 9)
	require.NoError(t, j.Append(all[:6]))
	require.ErrorIs(t, j.Checkpoint(t.Context(), snapshotOf(t, all)), journal.ErrSequence, "not appended yet")
	require.NoError(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:5])))
	require.ErrorIs(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:4])), journal.ErrSequence, "before the base")
	RequireEqual(t, StateOf(t, all[:6]), StateOf(t, Replayed(t, j)))
	require.NoError(t, j.Close())
}

func (h Harness) checkpointCancelled(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 9)
	require.NoError(t, j.Append(all))
	require.NoError(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:3])))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, j.Checkpoint(ctx, snapshotOf(t, all[:6])), context.Canceled)
	j = h.Reopen(t, j)
	require.Equal(t, all[3:], slices.DeleteFunc(Replayed(t, j), func(r cluster.Record) bool {
		_, ok := r.Event.(*cluster.Restored)
		return ok
	}))
	require.NoError(t, j.Checkpoint(t.Context(), snapshotOf(t, all[:6])))
	RequireEqual(t, StateOf(t, all), StateOf(t, Replayed(t, j)))
	require.NoError(t, j.Close())
}

func (h Harness) checkpointBesideAppend(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 300)
	state := cluster.NewState()
	var wg sync.WaitGroup
	for i := 0; i < len(all); i += 3 {
		require.NoError(t, j.Append(all[i:i+3]))
		for _, r := range all[i : i+3] {
			require.NoError(t, state.Apply(r))
		}
		if i%60 == 0 {
			snapshot, _ := state.Snapshot()
			wg.Go(func() {
				// One that was overtaken by a later one is refused.
				if err := j.Checkpoint(t.Context(), snapshot); !errors.Is(err, journal.ErrSequence) {
					assert.NoError(t, err)
				}
			})
		}
	}
	wg.Wait()
	j = h.Reopen(t, j)
	s, err := journal.Load(j)
	require.NoError(t, err)
	RequireEqual(t, StateOf(t, all), s)
	require.NoError(t, j.Close())
}

func (h Harness) replayStops(t *testing.T) {
	j := h.Open(t)
	require.NoError(t, j.Append(Labels(1, 9)))
	stop, n := errors.New("enough"), 0
	require.ErrorIs(t, j.Replay(func(cluster.Record) error {
		if n++; n == 4 {
			return stop
		}
		return nil
	}), stop)
	require.Equal(t, 4, n)
	require.NoError(t, j.Close())
}

func (h Harness) closed(t *testing.T) {
	j := h.Open(t)
	require.NoError(t, j.Append(Labels(1, 1)))
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Append(Labels(2, 1)), journal.ErrClosed)
	require.ErrorIs(t, j.Checkpoint(t.Context(), snapshotOf(t, Labels(1, 1))), journal.ErrClosed)
	require.ErrorIs(t, j.Replay(func(cluster.Record) error { return nil }), journal.ErrClosed)
}

// closeWaits closes a journal that is being read: the reader gets everything all the same.
func (h Harness) closeWaits(t *testing.T) {
	j := h.Open(t)
	all := Labels(1, 200)
	for i := range all {
		require.NoError(t, j.Append(all[i:i+1]))
	}
	closed := make(chan error, 1)
	var got []cluster.Record
	require.NoError(t, j.Replay(func(r cluster.Record) error {
		if r.Seq == 2 {
			go func() { closed <- j.Close() }()
		}
		got = append(got, r)
		return nil
	}))
	require.Equal(t, all, got)
	require.NoError(t, <-closed)
}

// anyHistory appends, checkpoints and reopens in any order; what is loaded is always what was appended.
func (h Harness) anyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := h.Open(t)
		var all []cluster.Record
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "append", "checkpoint", "reopen"}).Draw(rt, "step") {
			case "append":
				batch := Labels(uint64(len(all)+1), rapid.IntRange(0, 20).Draw(rt, "records"))
				require.NoError(rt, j.Append(batch))
				all = append(all, batch...)
			case "checkpoint":
				if at := rapid.IntRange(0, len(all)).Draw(rt, "at"); at > 0 {
					err := j.Checkpoint(t.Context(), snapshotOf(t, all[:at]))
					if !errors.Is(err, journal.ErrSequence) {
						require.NoError(rt, err)
					}
				}
			case "reopen":
				j = h.Reopen(t, j)
			}
			s, err := journal.Load(j)
			require.NoError(rt, err)
			RequireEqual(rt, StateOf(rt, all), s)
		}
		require.NoError(rt, j.Close())
	})
}
