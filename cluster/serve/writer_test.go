package serve

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
)

var errBroken = errors.New("the disk is gone")

// brokenLog fails from a certain append on.
type brokenLog struct {
	journal.Journal
	left int
}

func (b *brokenLog) Append(records []cluster.Record) error {
	if b.left--; b.left < 0 {
		return errBroken
	}
	return b.Journal.Append(records)
}

// What could not be made durable is neither acknowledged nor shown, and the scheduler stops.
func TestNothingIsShownBeforeItIsDurable(t *testing.T) {
	memory := journal.NewMemory()
	r := newRig(t, &brokenLog{memory, 2}) // the creation of the cluster, and one change
	pool := func(path cluster.PoolPath) error {
		return r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}}) })
	}
	require.NoError(t, pool("root/a"))
	require.ErrorIs(t, pool("root/b"), errBroken)
	require.NotNil(t, r.s.Snapshot().Pool("root/a"))
	require.Nil(t, r.s.Snapshot().Pool("root/b"))
	require.Error(t, pool("root/c"))

	state, err := journal.Load(memory)
	require.NoError(t, err)
	require.NotNil(t, state.Pool("root/a"))
	require.Nil(t, state.Pool("root/b"))
}

func TestARefusedCommandLeavesNoTrace(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	seq := r.s.Snapshot().Seq()
	err := r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a/b"}}) })
	require.ErrorIs(t, err, cluster.ErrIllegal)
	require.Equal(t, seq, r.s.Snapshot().Seq())
}

func TestWatchersMissNothing(t *testing.T) {
	r := newRig(t, journal.NewMemory())
	w := r.s.Watch()
	defer w.Close()
	<-w.C
	_, changes, all := w.Take()
	require.True(t, changes.Empty())
	require.False(t, all)
	for _, path := range []cluster.PoolPath{"root/a", "root/b"} {
		require.NoError(t, r.s.Do(t.Context(), func(tx *Tx) error { return tx.Emit(&cluster.PoolPut{Pool: cluster.Pool{Path: path}}) }))
	}
	<-w.C
	snapshot, changes, _ := w.Take()
	require.Equal(t, []cluster.PoolPath{"root/a", "root/b"}, changes.Pools)
	require.NotNil(t, snapshot.Pool("root/b"))
}
