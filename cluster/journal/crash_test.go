package journal_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/journal/journaltest"
	"github.com/sluice-scheduler/sluice/cluster/store"
)

// writerDir tells this test binary, run again as a child, to append to the journal in that folder for ever.
const writerDir = "JOURNAL_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		if err := appendForEver(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// batchSize makes the bounds of the batches a function of where they begin. Some are longer than a chunk.
func batchSize(first uint64) int {
	r := rand.New(rand.NewPCG(first, 1))
	if r.IntN(20) == 0 {
		return 3_000 + r.IntN(6_000)
	}
	return 1 + r.IntN(20)
}

// appendForEver prints the last sequence number when it is durable, and makes checkpoints at the side.
func appendForEver(dir string) error {
	j, err := journal.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	s, err := journal.Load(j)
	if err != nil {
		return err
	}
	busy := make(chan error, 1)
	busy <- nil
	for {
		batch := journaltest.Labels(s.Seq()+1, batchSize(s.Seq()+1))
		if err := j.Append(batch); err != nil {
			return err
		}
		fmt.Println(s.Seq() + uint64(len(batch)))
		for _, r := range batch {
			if err := s.Apply(r); err != nil {
				return err
			}
		}
		select {
		case err := <-busy:
			if err != nil {
				return err
			}
			snapshot, _ := s.Snapshot()
			go func() { busy <- j.Checkpoint(context.Background(), snapshot) }()
		default:
		}
	}
}

// killedWriter runs a writer, kills it after a while, and returns the last number that it acknowledged.
func killedWriter(t *testing.T, dir string, after time.Duration) (acknowledged uint64) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		if first { // the time counts from where there is something to lose
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		acknowledged, err = strconv.ParseUint(lines.Text(), 10, 64)
		require.NoError(t, err, lines.Text())
	}
	require.ErrorContains(t, cmd.Wait(), "killed")
	return acknowledged
}

// loadWhole loads the journal and holds it to a prefix of the history that ends between two batches.
func loadWhole(t *testing.T, dir string) uint64 {
	j, err := journal.Open(dir, store.Options{})
	require.NoError(t, err)
	s, err := journal.Load(j)
	require.NoError(t, err)
	require.NoError(t, j.Close())
	want := cluster.NewState()
	for want.Seq() < s.Seq() {
		for _, r := range journaltest.Labels(want.Seq()+1, batchSize(want.Seq()+1)) {
			require.NoError(t, want.Apply(r))
		}
	}
	journaltest.RequireEqual(t, want, s)
	return s.Seq()
}

// TestKill kills a process at any moment while it appends and makes checkpoints: every batch that it acknowledged is
// there, the one that it was writing is there or not, and nothing else.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	var before uint64
	for range rounds {
		acknowledged := killedWriter(t, dir, time.Duration(random.IntN(60))*time.Millisecond)
		tornEnds(t, dir, random)
		durable := loadWhole(t, dir)
		require.Greater(t, acknowledged, before)
		require.GreaterOrEqual(t, durable, acknowledged)
		require.LessOrEqual(t, durable, acknowledged+uint64(batchSize(acknowledged+1)))
		before = durable
	}
}

// tornEnds loses more or less of the end of Badger's log in copies of the folder, as a machine without power may lose
// what was not synced, with the number of the last record: what is left is the history up to some batch.
func tornEnds(t *testing.T, dir string, random *rand.Rand) {
	for range 3 {
		torn := t.TempDir()
		require.NoError(t, os.CopyFS(torn, os.DirFS(dir)))
		require.NoError(t, os.Remove(filepath.Join(torn, "LAST")))
		logs, err := fs.Glob(os.DirFS(torn), "*.mem")
		require.NoError(t, err)
		require.NotEmpty(t, logs)
		newest := filepath.Join(torn, logs[len(logs)-1])
		data, err := os.ReadFile(newest)
		require.NoError(t, err)
		end := len(bytes.TrimRight(data, "\x00"))
		const header = 20                                                    // written and synced before the first entry
		clear(data[min(len(data), header+random.IntN(max(1, end-header))):]) // empty if it was just being created
		require.NoError(t, os.WriteFile(newest, data, 0o600))
		loadWhole(t, torn)
	}
}

// TestLockedByAnotherProcess: the message of a second scheduler on the same folder.
func TestLockedByAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir, store.Options{})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	out, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, "error: journal: the store is in use: another process works in "+dir, strings.TrimSpace(string(out)))
	require.NoError(t, j.Close())
}
