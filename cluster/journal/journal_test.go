package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/journal/journaltest"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

func TestMemory(t *testing.T) {
	journaltest.Run(t, journaltest.Harness{
		Open:   func(testing.TB) journal.Journal { return journal.NewMemory() },
		Reopen: func(_ testing.TB, j journal.Journal) journal.Journal { return j },
	})
}

func TestOnDisk(t *testing.T) {
	dirs := map[journal.Journal]string{}
	open := func(t testing.TB, dir string) journal.Journal {
		j, err := journal.Open(dir, store.Options{Warn: func(m string) { t.Error(m) }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, j.Close()) })
		dirs[j] = dir
		return j
	}
	journaltest.Run(t, journaltest.Harness{
		Open: func(t testing.TB) journal.Journal { return open(t, t.TempDir()) },
		Reopen: func(t testing.TB, j journal.Journal) journal.Journal {
			require.NoError(t, j.Close())
			return open(t, dirs[j])
		},
	})
}
