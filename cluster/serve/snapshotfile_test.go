package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	"github.com/sluice-scheduler/sluice/cluster/store"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What is exported makes a store that has the same state, bit by bit but for the numbers that may have been given out since and what waits for that, and
// that goes on from there.
func TestSnapshotIsRestored(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "k") })
	a.addHost(t, "s/h", 4)
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}},
		&cluster.RoleGranted{Binding: cluster.RoleBinding{Role: cluster.Viewer, User: "v", Pool: "root"}},
		&cluster.TokenCreated{Token: cluster.Token{ID: "t", Hash: hashSecret("s"), User: "u"}},
		&cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}})
	a.submit(t, withSecret("job", canary))
	stream, err := a.cluster.ExportSnapshot(t.Context(), &sluicev1.ExportSnapshotRequest{})
	require.NoError(t, err)
	var file bytes.Buffer
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		_, _ = file.Write(part.Data)
	}
	require.NotContains(t, file.String(), canary)
	state, err := ReadSnapshot(bytes.NewReader(file.Bytes()), 0)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(dir, store.Options{})
	require.NoError(t, err)
	restored, _ := state.Snapshot()
	require.NoError(t, j.Restore(t.Context(), restored))
	require.ErrorIs(t, j.Restore(t.Context(), restored), journal.ErrSequence, "a store that has something is not replaced")
	next := []cluster.Record{{Seq: restored.Seq() + 1, Event: &cluster.ModeSet{}}}
	require.NoError(t, j.Append(next))
	require.NoError(t, j.Close())

	j, err = journal.Open(dir, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	again, err := journal.Load(j)
	require.NoError(t, err)
	require.Equal(t, cluster.Mode{}, again.Mode())
	require.NoError(t, a.config.Secrets.check(again))
	encode := func(s *cluster.Snapshot) (parts []byte) {
		for p := range s.Parts() {
			if p.Header != nil {
				p.Header.Revision, p.Header.NextJob, p.Header.Mode.Restored = 0, 0, false
			}
			for i, j := range p.Jobs {
				same := *j
				same.Revision, same.Forgotten = 0, 0
				p.Jobs[i] = &same
			}
			blob, err := journal.Encode([]cluster.Record{{Seq: 1, Event: p}})
			require.NoError(t, err)
			parts = append(parts, blob...)
		}
		return parts
	}
	require.Equal(t, encode(a.Snapshot()), encode(restored))

	lines := slices.Collect(strings.Lines(file.String()))
	for name, text := range map[string]string{
		"empty":        "",
		"no end":       strings.Join(lines[:len(lines)-1], ""),
		"cut":          file.String()[:file.Len()/2],
		"a line less":  strings.Join(append(slices.Clone(lines[:2]), lines[3:]...), ""),
		"only the end": lines[len(lines)-1],
		"changed":      strings.Replace(file.String(), `"Owner"`, `"Own"`, 1),
		"edited":       strings.Replace(file.String(), `"User":"v"`, `"User":"w"`, 1),
		"more":         file.String() + lines[0],
		"not JSON":     "hello\n",
	} {
		_, err := ReadSnapshot(strings.NewReader(text), 0)
		require.ErrorIs(t, err, errNotWhole, name)
	}

	// What another version wrote is whole all the same.
	other := strings.Replace(strings.Join(lines[:len(lines)-1], ""), `"Owner"`, `"Master"`, 1)
	end, err := json.Marshal(snapshotEnd{Parts: len(lines) - 1, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(other)))})
	require.NoError(t, err)
	_, err = ReadSnapshot(strings.NewReader(other+string(end)+"\n"), 0)
	require.NotErrorIs(t, err, errNotWhole)
	require.ErrorContains(t, err, "of the snapshot is not one of this version")
	require.ErrorContains(t, err, `unknown field "Master"`)
}

// Of two clusters that were restored from the same snapshot, one after the other, neither gives out the numbers of the other.
func TestASecondRestoreHasOtherNumbers(t *testing.T) {
	a := newAPITest(t)
	job := cluster.JobUID(a.submit(t, sleepJob("job")).Uid)
	var file bytes.Buffer
	require.NoError(t, writeSnapshot(&file, a.Snapshot()))
	const hour = cluster.Time(time.Hour)
	jobs, runs := map[cluster.JobUID]bool{}, map[uint32]bool{}
	for _, now := range []cluster.Time{1e6 * hour, 1e6*hour + cluster.Time(time.Minute), 1e6*hour + 24*hour} {
		state, err := ReadSnapshot(bytes.NewReader(file.Bytes()), now)
		require.NoError(t, err)
		jobs[state.NextJob()/10_000] = true
		runs[state.Job(job).NextRun(state.Task(cluster.MakeTaskKey(job, 0)))/10_000] = true
	}
	require.Len(t, jobs, 3)
	require.Len(t, runs, 3)
}

// Host managers know what the cluster did after a snapshot. What it does once that is restored, also twice, bears no number that
// a job or a run may have had then.
func TestRestoredClusterRepeatsNoNumbers(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 4)
	a.emit(t, &cluster.ModeSet{Mode: cluster.Mode{SchedulingStopped: true}})
	job := a.submit(t, sleepJob("job"))
	before := a.Snapshot()
	for times := range 2 {
		var file bytes.Buffer
		require.NoError(t, writeSnapshot(&file, before))
		state, err := ReadSnapshot(&file, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, state.NextJob(), before.NextJob()+cluster.Forgettable)

		tx := rules.Begin(state, cluster.Time(times+1))
		k := cluster.MakeTaskKey(cluster.JobUID(job.Uid), 0)
		old := state.Task(k)
		require.Error(t, tx.Emit(&cluster.Placed{Task: k, Run: old.Run + 1, Host: "s/h"}), "that run may be another one")
		run := state.Job(k.Job()).NextRun(old)
		require.GreaterOrEqual(t, run, old.Run+cluster.Forgettable)
		require.NoError(t, tx.Emit(&cluster.Placed{Task: k, Run: run, Host: "s/h"}))
		require.Equal(t, run+1, state.Job(k.Job()).NextRun(state.Task(k)), "from there on they count by one")
		_, err = rules.Report(tx, "s", &cluster.TaskStatus{Task: k, Run: run, State: cluster.TaskLost, ExitCode: -1})
		require.NoError(t, err)
		require.Equal(t, cluster.TaskPending, state.Task(k).State)
		before, _ = state.Snapshot()
	}
}
