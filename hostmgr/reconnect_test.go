package hostmgr_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func reject(reason string, retry bool) *sluicev1.ShardDown {
	return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Reject{Reject: &sluicev1.Reject{Reason: reason, Retry: retry}}}
}

func TestRejectedForGood(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		c, _ := b.hello()
		b.down(c, reject(`hello.shard is "here", which is taken; give this one another name`, false))
		err := b.fails()
		require.ErrorIs(t, err, hostmgr.ErrRejected)
		require.ErrorContains(t, err, "give this one another name")
	})
}

func TestRejectedForNow(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		for range 5 {
			c, _ := b.hello()
			b.down(c, reject("the other one is still there", true))
		}
		b.welcome()
	})
}

// TestRejectedAfterASession: a scheduler over another folder, or of another release, in the place of the one that the shard has
// served does not end it.
func TestRejectedAfterASession(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		c.result <- nil
		for _, answer := range []*sluicev1.ShardDown{
			reject("the shard's state folder belongs to cluster cluster-1, this is cluster cluster-2", false),
			{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{ClusterId: "cluster-2", ProtocolVersion: 1}}},
			{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{ClusterId: "cluster-1", ProtocolVersion: 2}}},
		} {
			c, hello := b.hello()
			require.Equal(t, "cluster-1", hello.GetClusterId())
			b.down(c, answer)
		}
		b.welcome()
	})
}

func TestOtherProtocolVersion(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		c, _ := b.hello()
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
			ClusterId: "cluster-1", ProtocolVersion: 2,
		}}})
		require.ErrorIs(t, b.fails(), hostmgr.ErrRejected)
	})
}

// TestBackoff: attempts go on for ever, ever more slowly, and quickly again after a session.
func TestBackoff(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		attempt := func() time.Duration {
			begun := time.Now()
			c := <-b.controls
			c.result <- grpcstatus.Error(codes.Unavailable, "not yet")
			return time.Since(begun)
		}
		attempt()
		longest := 100 * time.Millisecond
		for range 20 {
			waited := attempt()
			require.GreaterOrEqual(t, waited, longest/2)
			require.LessOrEqual(t, waited, longest)
			longest = min(2*longest, 2*time.Second)
		}
		c, _ := b.welcome()
		c.result <- nil
		require.LessOrEqual(t, attempt(), 100*time.Millisecond)
	})
}

func TestNoAnswerToAHello(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		begun := time.Now()
		b.hello()
		b.welcome()
		require.Greater(t, time.Since(begun), 15*time.Second)
	})
}

func TestStrangeAnswersToAHello(t *testing.T) {
	onBench(t, func(b *bench) {
		b.start()
		for _, answer := range []*sluicev1.ShardDown{
			{},
			{Message: &sluicev1.ShardDown_Ack{Ack: &sluicev1.Ack{}}},
			{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{ProtocolVersion: 1}}},
		} {
			c, _ := b.hello()
			b.down(c, answer)
		}
		b.welcome()
	})
}

func TestRejectInTheMiddle(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.down(c, reject("the scheduler is stopping", true))
		b.welcome()
	})
}

type broken struct{ *driver }

func (broken) Start(context.Context, hostmgr.Sink) error { return errors.New("the folder is in use") }

func TestDriverThatDoesNotStart(t *testing.T) {
	onBench(t, func(b *bench) {
		b.config.Driver = broken{b.driver}
		b.start()
		require.ErrorContains(t, b.fails(), "the folder is in use")
	})
}

func TestConfigurationThatLacksSomething(t *testing.T) {
	_, err := hostmgr.NewShard(hostmgr.ShardConfig{})
	require.ErrorContains(t, err, "a shard needs a name")
	require.ErrorContains(t, err, "a shard needs a driver and a connection")
}

func TestOtherCluster(t *testing.T) {
	onBench(t, func(b *bench) {
		file := hostmgr.ClusterFile{Path: filepath.Join(t.TempDir(), "cluster"), Shard: "s1"}
		require.NoError(t, file.SetClusterID("cluster-0"))
		b.config.Cluster = file
		b.driver.runs[run(1)] = status(1, cluster.TaskRunning)
		b.start()
		c, hello := b.hello()
		require.Equal(t, "cluster-0", hello.GetClusterId())
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
			ClusterId: "cluster-1", ProtocolVersion: 1,
		}}})
		err := b.fails()
		require.ErrorIs(t, err, hostmgr.ErrOtherCluster)
		require.ErrorContains(t, err, "cluster-0")
		require.ErrorContains(t, err, "cluster-1")
		require.Empty(t, b.driver.killed, "nobody has asked for that")
	})
}

func TestOtherShard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.WriteFile(path, []byte("cluster-1\n"), 0o600), "of an earlier version")
	onBench(t, func(b *bench) {
		b.config.Cluster = hostmgr.ClusterFile{Path: path, Shard: b.config.Name}
		b.start()
		b.welcome()
	})
	onBench(t, func(b *bench) {
		b.config.Name = "there"
		b.config.Cluster = hostmgr.ClusterFile{Path: path, Shard: b.config.Name}
		b.driver.runs[run(1)] = status(1, cluster.TaskRunning)
		b.start()
		require.ErrorContains(t, b.fails(), filepath.Dir(path)+` are of the shard "here", not of "there"`)
		require.Empty(t, b.driver.killed, "under another name the scheduler would have killed it")
	})
}

func TestClusterFile(t *testing.T) {
	dir := t.TempDir()
	file := hostmgr.ClusterFile{Path: filepath.Join(dir, "cluster"), Shard: "s1"}
	id, err := file.ClusterID()
	require.NoError(t, err)
	require.Empty(t, id)
	for _, want := range []string{"a", "b"} {
		require.NoError(t, file.SetClusterID(want))
		id, err = file.ClusterID()
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, err = hostmgr.ClusterFile{Path: file.Path, Shard: "s2"}.ClusterID()
	require.ErrorContains(t, err, dir+` are of the shard "s1", not of "s2"`)
	require.NoError(t, os.WriteFile(file.Path, []byte("b\n"), 0o600))
	id, err = hostmgr.ClusterFile{Path: file.Path, Shard: "s2"}.ClusterID()
	require.NoError(t, err, "an earlier version wrote no name")
	require.Equal(t, "b", id)

	for _, damaged := range []string{" \n", "\xff\n", "\x00\x00\x00"} {
		require.NoError(t, os.WriteFile(file.Path, []byte(damaged), 0o600))
		_, err = file.ClusterID()
		require.ErrorContains(t, err, file.Path+" is empty or damaged; write the id")
	}
	require.Error(t, hostmgr.ClusterFile{Path: filepath.Join(dir, "no", "cluster")}.SetClusterID("a"))
}

// TestFolder: a folder has an id that no other one has, from when it is first asked for, also where an earlier version made it and
// whatever becomes of the id of the cluster.
func TestFolder(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		file := hostmgr.ClusterFile{Path: filepath.Join(t.TempDir(), "cluster"), Shard: "here"}
		require.NoError(t, file.SetClusterID("cluster-1"))
		id, err := file.Folder()
		require.NoError(t, err)
		require.Len(t, id, 32)
		require.False(t, seen[id])
		seen[id] = true
		require.NoError(t, os.WriteFile(file.Path, []byte("cluster-1\n"), 0o600))
		for range 2 {
			onBench(t, func(b *bench) {
				b.config.Cluster = file
				b.start()
				_, hello := b.hello()
				require.Equal(t, id, hello.GetFolder())
			})
		}
		path := filepath.Join(filepath.Dir(file.Path), "folder")
		for _, damaged := range []string{"", " \n", "\xff\n", "\x00\x00\x00", "a b\n"} {
			require.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
			_, err = file.Folder()
			require.ErrorContains(t, err, path+" is empty or damaged; remove it")
		}
	}
	id, err := hostmgr.ClusterFile{Path: filepath.Join(t.TempDir(), "no", "cluster")}.Folder()
	require.NoError(t, err)
	require.Empty(t, id, "one that would be another the next time is worse than none")
}

func TestClusterFileThatFails(t *testing.T) {
	onBench(t, func(b *bench) {
		b.config.Cluster = hostmgr.ClusterFile{Path: filepath.Join(t.TempDir(), "no", "cluster")}
		b.start()
		c, _ := b.hello()
		b.down(c, &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: &sluicev1.Welcome{
			ClusterId: "cluster-1", ProtocolVersion: 1,
		}}})
		require.ErrorIs(t, b.fails(), os.ErrNotExist, "serving without would mix the runs of two clusters one day")
	})
}

// TestEndInTheMiddle: Run ends at once wherever it is.
func TestEndInTheMiddle(t *testing.T) {
	for name, at := range map[string]func(b *bench){
		"waiting":  func(b *bench) { c, _ := b.hello(); c.result <- nil },
		"greeting": func(b *bench) { b.hello() },
		"serving":  func(b *bench) { b.welcome() },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.start()
				at(b)
				synctest.Wait()
				begun := time.Now()
				b.cancel()
				require.NoError(t, <-b.result)
				require.Zero(t, time.Since(begun))
				b.cancel = nil
			})
		})
	}
}
