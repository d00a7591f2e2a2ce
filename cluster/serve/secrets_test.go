package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/store"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newKeyring(t *testing.T, ids ...string) *Keyring {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		key := bytes.Repeat([]byte(id[:1]), keyBytes)
		fmt.Fprintf(&text, "%s:%s\n", id, base64.StdEncoding.EncodeToString(key))
	}
	ring, err := ParseKeyring(text.String())
	require.NoError(t, err)
	return ring
}

func TestParseKeyring(t *testing.T) {
	good := "k:" + base64.StdEncoding.EncodeToString(make([]byte, keyBytes))
	ring, err := ParseKeyring("# the key\n\n" + good + "\n")
	require.NoError(t, err)
	require.NotNil(t, ring.find("k"))
	require.Nil(t, ring.find("x"))
	for text, want := range map[string]string{
		"":                   "there is no key",
		"# nothing":          "there is no key",
		"k":                  "line 1",
		"\nk:AAAA":           "line 2",
		"k:???":              "line 1",
		good[1:]:             "line 1",
		good + "\n" + good:   `two keys "k"`,
		good + "\nshort:AAA": "line 2",
	} {
		_, err := ParseKeyring(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "AAAA", "a key is not shown")
	}
}

func TestSealedValuesAreGoodForTheirPlaceOnly(t *testing.T) {
	ring := newKeyring(t, "new", "old")
	s := cluster.Secret{Name: "a"}
	ring.seal(1, &s, []byte("hush"))
	value, err := ring.open(1, &s)
	require.NoError(t, err)
	require.Equal(t, "hush", string(value))
	again := s
	ring.seal(1, &again, []byte("hush"))
	require.NotEqual(t, s.Sealed, again.Sealed, "equal values do not show")

	_, err = ring.open(2, &s)
	require.ErrorContains(t, err, "damaged")
	other := s
	other.Name = "b"
	_, err = ring.open(1, &other)
	require.ErrorContains(t, err, "damaged")
	flipped := s
	flipped.Sealed = bytes.Clone(s.Sealed)
	flipped.Sealed[len(flipped.Sealed)-1] ^= 1
	_, err = ring.open(1, &flipped)
	require.ErrorContains(t, err, "damaged")
	_, err = newKeyring(t, "else").open(1, &s)
	require.ErrorContains(t, err, `key "new", which is not there`)
	_, err = ring.open(1, &cluster.Secret{Name: "a", Key: "new", Sealed: []byte("x")})
	require.ErrorContains(t, err, "damaged")
}

// withSecret is a job with one secret; no value where it is "".
func withSecret(name, value string) *sluicev1.JobSpec {
	spec := sleepJob(name)
	spec.Secrets = []*sluicev1.Secret{{Name: "db", Path: "db/password", Value: []byte(value)}}
	return spec
}

const canary = "canary-5c1f7e0a93d24b6f8e"

// The value of a secret is nowhere but in the launch of its task: not in what the server answers, writes, logs, exports
// or stores.
func TestSecretsDoNotLeak(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	disk, err := journal.Open(dir, store.Options{})
	require.NoError(t, err)
	var out syncBuffer
	a := newAPITestWith(t, func(c *Config) {
		c.Journal, c.Secrets = disk, newKeyring(t, "k")
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Audit = slog.New(slog.NewJSONHandler(&out, nil))
	})
	say := func(m proto.Message, err error) {
		fmt.Fprintln(&out, err)
		if m != nil {
			text, err := protojson.Marshal(m)
			require.NoError(t, err)
			_, _ = out.Write(text)
		}
	}
	ctx := t.Context()
	r := &rig{t: t, s: a.Scheduler, conn: a.conn}
	sh, _ := r.hello(&sluicev1.Hello{Shard: "s", ProtocolVersion: protocolVersion, SessionId: "x", Capabilities: []string{"secrets"}})
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{
		{Name: "h", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000, MemoryBytes: 1 << 30}}},
	}}}})
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Inventory{Inventory: &sluicev1.Inventory{Last: true}}})
	a.submit(t, withSecret("job", canary))
	launch := sh.down().GetLaunch()
	require.Equal(t, "db/password", launch.GetTask().GetSecrets()[0].GetPath())
	require.Equal(t, canary, string(launch.GetTask().GetSecrets()[0].GetValue()))

	got, err := a.jobs.GetJob(ctx, &sluicev1.GetJobRequest{Name: "job"})
	say(got, err)
	require.Equal(t, "db", got.Job.Spec.Secrets[0].Name)
	list, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{})
	say(list, err)
	tasks, err := a.tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{Job: "job"})
	say(tasks, err)
	explained, err := a.tasks.ExplainTask(ctx, &sluicev1.ExplainTaskRequest{Job: "job"})
	say(explained, err)
	watch, err := a.jobs.WatchJobs(ctx, &sluicev1.WatchJobsRequest{IncludeTasks: true})
	require.NoError(t, err)
	first, err := watch.Recv()
	say(first, err)
	// Refusals tell what is wrong with the rest.
	_, err = a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: withSecret("NO", canary)})
	say(nil, err)
	_, err = a.jobs.SubmitJob(ctx, &sluicev1.SubmitJobRequest{Spec: withSecret("job", canary+"2")})
	require.Equal(t, codes.AlreadyExists, status.Code(err), "another value is another job")
	say(nil, err)
	again := a.submit(t, withSecret("job", canary))
	require.False(t, again.Created)
	stream, err := a.cluster.ExportSnapshot(ctx, &sluicev1.ExportSnapshotRequest{})
	require.NoError(t, err)
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		_, _ = out.Write(part.Data)
	}
	require.NoError(t, disk.Checkpoint(ctx, a.Snapshot()))
	require.NoError(t, disk.Replay(func(r cluster.Record) error { return json.NewEncoder(&out).Encode(r) }))
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		_, _ = out.Write(content)
		return err
	}))
	all := out.String()
	require.Contains(t, all, "db/password", "the search would have found it")
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))[:24], fmt.Sprintf("%x", canary), fmt.Sprint([]byte(canary))[1:30]} {
		require.NotContains(t, all, form)
	}
}

func TestSecretsOfUpdates(t *testing.T) {
	ring := newKeyring(t, "new", "old")
	a := newAPITestWith(t, func(c *Config) { c.Secrets = ring })
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
	uid := cluster.JobUID(a.submit(t, withSecret("job", "one")).Uid)
	value := func() string {
		files, err := ring.files(a.Snapshot().Job(uid), a.Snapshot().Job(uid).Spec)
		require.NoError(t, err)
		return string(files[0].Value)
	}
	update := func(spec *sluicev1.JobSpec) error {
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.Snapshot().Job(uid).Version})
		return err
	}
	keeps := withSecret("job", "")
	keeps.Priority = 4
	require.NoError(t, update(keeps))
	require.Equal(t, "one", value())
	changes := withSecret("job", "two")
	changes.Priority = 4
	require.NoError(t, update(changes))
	require.Equal(t, "two", value())
	version := a.Snapshot().Job(uid).Version
	require.NoError(t, update(changes))
	require.Equal(t, version, a.Snapshot().Job(uid).Version, "the same value changes nothing")
	for given, want := range map[string]uint64{"two": version, "three": version + 1} {
		changes.Secrets[0].Value = []byte(given)
		would, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: changes, ExpectedVersion: version, DryRun: true})
		require.NoError(t, err)
		require.Equal(t, want, would.Job.Version, "what a dry run would change shows by the version alone")
	}
	more := withSecret("job", "")
	more.Secrets = append(more.Secrets, &sluicev1.Secret{Name: "other", Path: "x"})
	requireViolation(t, update(more), codes.InvalidArgument, "spec.secrets[1].value", "is required")

	// After a rotation the old key is not needed any more.
	require.Equal(t, "new", a.Snapshot().Job(uid).Spec.Secrets[0].Key)
	a.config.Secrets.keys[0], a.config.Secrets.keys[1] = ring.keys[1], ring.keys[0]
	rotated, err := a.cluster.RotateKey(t.Context(), &sluicev1.RotateKeyRequest{})
	require.NoError(t, err)
	require.Equal(t, uint32(1), rotated.Secrets)
	require.Equal(t, "old", rotated.Key)
	state := a.Snapshot()
	require.Equal(t, "old", state.Job(uid).Spec.Secrets[0].Key)
	require.Equal(t, "two", value())
	rotated, err = a.cluster.RotateKey(t.Context(), &sluicev1.RotateKeyRequest{})
	require.NoError(t, err)
	require.Zero(t, rotated.Secrets)
}

// What an update leaves out is kept for a rollback of it, and gone after the next one: a rollback names what it cannot bring back.
func TestRollbackBringsBackSecretsOrNamesThem(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "k") })
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
	more := func(names ...string) *sluicev1.JobSpec {
		spec := sleepJob("job")
		for _, name := range names {
			spec.Secrets = append(spec.Secrets, &sluicev1.Secret{Name: name, Path: name, Value: []byte("x")})
		}
		return spec
	}
	a.submit(t, more("a", "b", "c"))
	a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that no update goes on by itself
	for i, names := range [][]string{{"b", "c"}, {"c"}, nil} {
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more(names...), ExpectedVersion: uint64(i + 1)})
		require.NoError(t, err)
		a.endUpdate(t, cluster.UpdateSucceeded)
	}
	for _, c := range []struct {
		to   uint64
		says string
	}{
		{3, ""},
		{2, "without secret b, left out before: the values are gone until an update gives them again"},
		{1, "without secrets a, b, left out before: "},
		{4, ""},
	} {
		res, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{
			Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: &c.to,
		})
		require.NoError(t, err)
		if c.says == "" {
			require.Equal(t, fmt.Sprint("back to version ", c.to), res.Job.Update.Message)
		}
		require.Contains(t, res.Job.Update.Message, c.says)
	}
	for priority := range int32(2) {
		spec := more()
		spec.Priority = priority + 1
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: a.job(t, "job").Version})
		require.NoError(t, err)
		a.endUpdate(t, cluster.UpdateSucceeded)
	}
	to := uint64(2)
	res, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: &to})
	require.NoError(t, err)
	require.Contains(t, res.Job.Update.Message, "without secrets b, c, left out before: ")
	require.False(t, a.Snapshot().Job(cluster.JobUID(res.Job.Uid)).Spec.Task.Secrets, "it goes where none can be delivered, too")
}

// Where the secrets are follows the spec of a run, also that of an earlier one, and after a rollback to it; what they are does not.
func TestSecretsAreWhereASpecWantsThem(t *testing.T) {
	ring := newKeyring(t, "k")
	a := newAPITestWith(t, func(c *Config) { c.Secrets = ring })
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
	spec := func(pairs ...string) *sluicev1.JobSpec { // name, path, value
		spec := sleepJob("job")
		for p := range slices.Chunk(pairs, 3) {
			spec.Secrets = append(spec.Secrets, &sluicev1.Secret{Name: p[0], Path: p[1], Value: []byte(p[2])})
		}
		return spec
	}
	uid := cluster.JobUID(a.submit(t, spec("a", "old", "1", "b", "b", "2", "gone", "g", "3")).Uid)
	update := func(to *sluicev1.JobSpec) {
		_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: to, ExpectedVersion: a.Snapshot().Job(uid).Version})
		require.NoError(t, err)
	}
	files := func(version uint64) map[string]string {
		all := map[string]string{}
		j := a.Snapshot().Job(uid)
		list, err := ring.files(j, j.SpecOf(version))
		require.NoError(t, err)
		for _, f := range list {
			all[f.Path] = string(f.Value)
		}
		require.Len(t, all, len(list))
		return all
	}
	rollback := func(to uint64) {
		_, err := a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK, ToVersion: &to})
		require.NoError(t, err)
	}
	changeTo := func(version uint64) cluster.Change {
		j := a.Snapshot().Job(uid)
		return j.SpecOf(1).ChangeOf(j.SpecOf(version), 0)
	}
	first := map[string]string{"old": "4", "b": "2", "g": "3"}
	update(spec("a", "new", "4", "b", "b", "", "c", "c", "5"))
	require.Equal(t, map[string]string{"new": "4", "b": "2", "c": "5"}, files(2))
	require.Equal(t, first, files(1), "a run that starts again during the update")
	require.Equal(t, cluster.NewRun, changeTo(2))
	rollback(1)
	require.Equal(t, first, files(3))
	require.Equal(t, cluster.NoChange, changeTo(3), "who still runs by the earlier spec goes on")
	require.Len(t, a.job(t, "job").Spec.Secrets, 3)
	rollback(2)
	require.Equal(t, map[string]string{"new": "4", "b": "2", "c": "5"}, files(4), "and forward again")
	update(spec("a", "new", "", "d", "old/d", "6"))
	rollback(1)
	require.Equal(t, map[string]string{"old": "4", "b": "2"}, files(6), "no way to the new path is in the way of the old one")
	update(spec("d", "d", ""))
	require.Equal(t, map[string]string{"d": "6"}, files(7))
}

// An update that takes the place of one that is under way, or failed, may leave out what that one brought: runs by its spec that begin again
// meanwhile still find it, and it can be returned to. After the next update it is gone.
func TestSecretsOfAnUpdateThatIsSuperseded(t *testing.T) {
	ring := newKeyring(t, "k")
	for _, ended := range []cluster.UpdateState{0, cluster.UpdateFailed} {
		a := newAPITestWith(t, func(c *Config) { c.Secrets = ring })
		a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
		var uid cluster.JobUID
		spec := func(names ...string) *sluicev1.JobSpec {
			spec := sleepJob("job")
			for _, name := range names {
				spec.Secrets = append(spec.Secrets, &sluicev1.Secret{Name: name, Path: name, Value: []byte(name)})
			}
			return spec
		}
		update := func(names ...string) {
			_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec(names...), ExpectedVersion: a.Snapshot().Job(uid).Version})
			require.NoError(t, err)
		}
		files := func(version uint64) (paths []string) {
			j := a.Snapshot().Job(uid)
			list, err := ring.files(j, j.SpecOf(version))
			require.NoError(t, err)
			for _, f := range list {
				paths = append(paths, f.Path)
			}
			return paths
		}
		uid = cluster.JobUID(a.submit(t, spec("a")).Uid)
		a.setMode(t, &sluicev1.ClusterMode{KillingStopped: true}) // so that no update goes on by itself
		update("a", "b")
		if ended != 0 {
			a.endUpdate(t, ended)
		}
		update("c")
		require.EqualValues(t, 1, a.Snapshot().Job(uid).Update.From)
		require.Equal(t, []string{"a"}, files(1))
		require.Equal(t, []string{"a", "b"}, files(2))
		require.Equal(t, []string{"c"}, files(3))
		update("d")
		require.Equal(t, []string{"a"}, files(1))
		require.Equal(t, []string{"a"}, files(2))
		require.Equal(t, []string{"c"}, files(3))
	}
}

// A run by a spec without secrets is given none of those that the job has since, during an update to them and after a rollback from it: it may
// be where none can be delivered.
func TestRunsBySpecsWithoutSecretsGetNone(t *testing.T) {
	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "k") })
	r := &rig{t: t, s: a.Scheduler, conn: a.conn}
	a.emit(t, &cluster.HostReported{ID: "t/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
	sh := r.connect("s", 0)
	sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{
		{Name: "h", Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000, MemoryBytes: 1 << 30}}},
	}}}})
	spec := sleepJob("job")
	spec.Restart = &sluicev1.RestartPolicy{MaxFailures: proto.Uint32(9), BackoffInitial: durationpb.New(0)}
	a.submit(t, spec)
	var update uint64
	again := func() { // looks at the next launch, and has its run fail
		var launch *sluicev1.Launch
		for launch == nil {
			launch = sh.down().GetLaunch()
		}
		require.Empty(t, launch.GetTask().GetSecrets(), "%v", launch.GetRun())
		update++
		sh.up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: &sluicev1.RunStatus{
			Run: launch.GetRun(), State: sluicev1.RunState_RUN_STATE_FAILED, UpdateId: update,
		}}})
	}
	again()
	more := withSecret("job", "one")
	more.Restart = spec.Restart
	more.Update = &sluicev1.UpdatePolicy{StartPaused: true}
	_, err := a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: more, ExpectedVersion: 1})
	require.NoError(t, err)
	again()
	again()
	_, err = a.jobs.ControlUpdate(t.Context(), &sluicev1.ControlUpdateRequest{Name: "job", Action: sluicev1.ControlUpdateRequest_ROLLBACK})
	require.NoError(t, err)
	again()
	again()
}

func TestSecretsThatAreRefused(t *testing.T) {
	without := newAPITest(t)
	_, err := without.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: withSecret("job", "x")})
	requireViolation(t, err, codes.Unimplemented, "spec.secrets", "scheduler.secret_key_file")
	_, err = without.cluster.RotateKey(t.Context(), &sluicev1.RotateKeyRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Empty(t, status.Convert(err).Details(), "the request has no field")

	a := newAPITestWith(t, func(c *Config) { c.Secrets = newKeyring(t, "k") })
	a.emit(t, &cluster.HostReported{ID: "s/h", Machine: cluster.Machine{Capabilities: cluster.CanSecrets}})
	long := strings.Repeat("x", maxSecretBytes+1)
	for name, tt := range map[string]struct {
		secrets []*sluicev1.Secret
		field   string
		says    string
	}{
		"no value":  {[]*sluicev1.Secret{{Name: "a", Path: "a"}}, "spec.secrets[0].value", "is required"},
		"no name":   {[]*sluicev1.Secret{{Path: "a", Value: []byte("x")}}, "spec.secrets[0].name", "is required"},
		"twice":     {[]*sluicev1.Secret{{Name: "a", Path: "a", Value: []byte("x")}, {Name: "a", Path: "b", Value: []byte("x")}}, "spec.secrets[1].name", "unique"},
		"same path": {[]*sluicev1.Secret{{Name: "a", Path: "a", Value: []byte("x")}, {Name: "b", Path: "a/b", Value: []byte("x")}}, "spec.secrets[1].path", "above or below"},
		"too long":  {[]*sluicev1.Secret{{Name: "a", Path: "a", Value: []byte(long)}}, "spec.secrets[0].value", "too long"},
		"absolute":  {[]*sluicev1.Secret{{Name: "a", Path: "/etc/passwd", Value: []byte("x")}}, "spec.secrets[0].path", "relative"},
		"traversal": {[]*sluicev1.Secret{{Name: "a", Path: "../../x", Value: []byte("x")}}, "spec.secrets[0].path", "relative"},
		"hidden":    {[]*sluicev1.Secret{{Name: "a", Path: "a/../../x", Value: []byte("x")}}, "spec.secrets[0].path", "relative"},
		"folder":    {[]*sluicev1.Secret{{Name: "a", Path: "..", Value: []byte("x")}}, "spec.secrets[0].path", "relative"},
	} {
		spec := sleepJob("job")
		spec.Secrets = tt.secrets
		_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: spec})
		require.Error(t, err, name)
		requireViolation(t, err, codes.InvalidArgument, tt.field, tt.says)
	}
	// What an update keeps counts with what it brings.
	spec := sleepJob("grows")
	for i := range maxSecretsSize / maxSecretBytes {
		name := fmt.Sprint("s", i)
		spec.Secrets = append(spec.Secrets, &sluicev1.Secret{Name: name, Path: name, Value: []byte(long[1:])})
	}
	a.submit(t, spec)
	for _, s := range spec.Secrets {
		s.Value = nil
	}
	spec.Secrets = append(spec.Secrets, &sluicev1.Secret{Name: "more", Path: "more", Value: []byte("x")})
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	requireViolation(t, err, codes.InvalidArgument, "spec.secrets", "262145 bytes together")
	spec.Secrets[0].Value = []byte("short")
	_, err = a.jobs.UpdateJob(t.Context(), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1})
	require.NoError(t, err)
	// What is not sealed does not reach the journal, whoever forgets it.
	err = a.Do(t.Context(), func(tx *Tx) error {
		return tx.Emit(&cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: tx.State().NextJob(), Spec: &cluster.JobSpec{
			Name: "x", Pool: cluster.DefaultPool, Instances: 1, Secrets: []cluster.Secret{{Name: "a"}},
		}}}})
	})
	require.ErrorContains(t, err, "not sealed")
	// A start without the key says which one is missing.
	a.submit(t, withSecret("job", "x"))
	copied := cluster.NewState()
	for part := range a.Snapshot().Parts() {
		require.NoError(t, copied.Apply(cluster.Record{Event: part}))
	}
	_, err = New(Config{State: copied, Journal: journal.NewMemory()})
	require.ErrorContains(t, err, `key "k", which is not there: scheduler.secret_key_file`)
}
