package serve

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// What is exported makes a store that has the same state, bit by bit but for the revisions, and that goes on from there.
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
	j, err := journal.Open(dir, journal.Options{})
	require.NoError(t, err)
	restored, _ := state.Snapshot()
	require.NoError(t, j.Restore(t.Context(), restored))
	require.ErrorIs(t, j.Restore(t.Context(), restored), journal.ErrSequence, "a store that has something is not replaced")
	next := []cluster.Record{{Seq: restored.Seq() + 1, Event: &cluster.ModeSet{}}}
	require.NoError(t, j.Append(next))
	require.NoError(t, j.Close())

	j, err = journal.Open(dir, journal.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	again, err := journal.Load(j)
	require.NoError(t, err)
	require.Equal(t, cluster.Mode{}, again.Mode())
	require.NoError(t, a.config.Secrets.check(again))
	encode := func(s *cluster.Snapshot) (parts []byte) {
		for p := range s.Parts() {
			if p.Header != nil {
				p.Header.Revision = 0
			}
			for i, j := range p.Jobs {
				same := *j
				same.Revision = 0
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
}
