package hostmgr_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// curious is a driver that wants to know what is durable, and that may come to an end.
type curious struct {
	*driver
	ended chan error

	mu      sync.Mutex
	durable []hostmgr.Status
}

var (
	_ hostmgr.Acknowledger = (*curious)(nil)
	_ hostmgr.Ender        = (*curious)(nil)
)

func (d *curious) Ended() <-chan error { return d.ended }

func (d *curious) Durable(s hostmgr.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = append(d.durable, s)
}

func (d *curious) told() []hostmgr.Status {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.durable
}

// A driver is told of its statuses when the scheduler has made them durable: the latest one where they overtook each
// other, and none of a launch that never got to it.
func TestDriverIsToldWhatIsDurable(t *testing.T) {
	onBench(t, func(b *bench) {
		d := &curious{driver: b.driver}
		b.config.Driver = d
		c := b.begin()
		launching, running := status(0, cluster.TaskLaunching), status(0, cluster.TaskRunning)
		b.driver.report(launching)
		first := b.status(c)
		require.Empty(b, d.told())
		b.ack(c, first)
		require.Equal(b, []hostmgr.Status{launching}, d.told())

		b.driver.report(status(0, cluster.TaskStarting))
		overtaken := b.status(c)
		b.driver.report(running)
		last := b.status(c)
		b.ack(c, overtaken)
		require.Len(b, d.told(), 1)
		b.ack(c, last)
		require.Equal(b, []hostmgr.Status{launching, running}, d.told())

		b.driver.onLaunch = func(hostmgr.Launch) error { return hostmgr.ErrRefused }
		b.launch(c, 1)
		refused := b.status(c)
		require.Equal(b, string(cluster.ReasonLaunchRefused), refused.GetReason())
		b.ack(c, refused)
		require.Len(b, d.told(), 2)
	})
}

// What a driver brings from an earlier life is told as news too: it waits to hear that it is durable.
func TestDriverIsToldOfWhatItBrings(t *testing.T) {
	onBench(t, func(b *bench) {
		d := &curious{driver: b.driver}
		b.config.Driver = d
		running := status(0, cluster.TaskRunning)
		b.driver.runs = map[cluster.RunID]hostmgr.Status{running.Run: running}
		b.start()
		c, inventory := b.welcome()
		require.Len(b, inventory, 1)
		require.Empty(b, d.told())
		b.ack(c, b.status(c))
		require.Equal(b, []hostmgr.Status{running}, d.told())
	})
}

// A driver that comes to an end takes the shard with it, and its reason is the shard's.
func TestDriverThatEnds(t *testing.T) {
	onBench(t, func(b *bench) {
		d := &curious{driver: b.driver, ended: make(chan error, 1)}
		b.config.Driver = d
		b.begin()
		gone := errors.New("the provider has removed it")
		d.ended <- gone
		require.ErrorIs(b, b.fails(), gone)
	})
}

// What runs on a host that comes back is told again, so that a scheduler that has given it up can say so.
func TestHostThatComesBack(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for n, state := range []cluster.TaskState{cluster.TaskRunning, cluster.TaskSucceeded} {
			b.driver.report(status(n, state))
			b.ack(c, b.status(c))
		}
		b.driver.sink.ReportHosts(nil)
		require.Empty(b, b.up(c).GetHostReport().GetHosts())
		b.driver.sink.ReportHosts(b.driver.hosts)
		require.Len(b, b.up(c).GetHostReport().GetHosts(), 1)
		again := b.status(c)
		require.Equal(b, ref(0).GetInstance(), again.GetRun().GetInstance())
		require.Equal(b, sluicev1.RunState_RUN_STATE_RUNNING, again.GetState())
		b.ack(c, again)
		b.driver.sink.ReportHosts(b.driver.hosts)
		require.Len(b, b.up(c).GetHostReport().GetHosts(), 1)
		b.silent(c)
	})
}

// keeper is a driver with volumes.
type keeper struct {
	*driver
	deleted []string
}

var _ hostmgr.VolumeKeeper = (*keeper)(nil)

func (d *keeper) DeleteVolume(_ context.Context, host, name string) error {
	if name == "used" {
		return errors.New("a run uses it")
	}
	d.deleted = append(d.deleted, host+" "+name)
	return nil
}

// Commands for volumes are answered one by one, also by a driver that has none.
func TestVolumesAreDeleted(t *testing.T) {
	command := func(name string, destroy bool) *sluicev1.ShardDown {
		return &sluicev1.ShardDown{Message: &sluicev1.ShardDown_Volume{Volume: &sluicev1.VolumeCommand{Name: name, Host: "h0", Destroy: destroy}}}
	}
	onBench(t, func(b *bench) {
		d := &keeper{driver: b.driver}
		b.config.Driver = d
		b.driver.hosts[0].Volumes = []cluster.HeldVolume{{Name: "old", Bytes: 7}}
		c := b.begin()
		answer := func() *sluicev1.VolumeInfo {
			all := b.up(c).GetVolumes().GetVolumes()
			require.Len(b, all, 1)
			return all[0]
		}
		b.down(c, command("old", true))
		require.True(b, proto.Equal(&sluicev1.VolumeInfo{Name: "old", Host: "h0"}, answer()))
		b.down(c, command("used", true))
		require.True(b, proto.Equal(&sluicev1.VolumeInfo{Name: "used", Host: "h0", Present: true, Message: "a run uses it"}, answer()))
		b.down(c, command("new", false))
		require.Contains(b, answer().GetMessage(), "made by the first task")
		require.Equal(b, []string{"h0 old"}, d.deleted)
		b.driver.sink.ReportHosts(b.driver.hosts)
		require.True(b, proto.Equal(&sluicev1.VolumeInfo{Name: "old", Bytes: 7, Present: true}, b.up(c).GetHostReport().GetHosts()[0].GetVolumes()[0]))
	})
	onBench(t, func(b *bench) {
		c := b.begin()
		b.down(c, command("old", true))
		require.Contains(b, b.up(c).GetVolumes().GetVolumes()[0].GetMessage(), "does not delete volumes")
	})
}
