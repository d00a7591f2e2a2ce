package mesos

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// ended returns why a driver has ended.
func ended(t *testing.T, d *settled) error {
	t.Helper()
	select {
	case err := <-d.Ended():
		return err
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on")
		return nil
	}
}

// TestAnotherTakesTheFrameworkOver: the first of two drivers with one state folder ends, also when a call of it is told
// first that its subscription is over, and does not take the framework back.
func TestAnotherTakesTheFrameworkOver(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "calling": true} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "copy")
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, mesostest.Config{}, 1)
				first, _ := w.drive(t, nil)
				require.NoError(t, first.Launch(t.Context(), launchOf(0, "h0", "stubborn")))
				time.Sleep(time.Second)
				require.NoError(t, os.CopyFS(folder, os.DirFS(w.dir)))
				if busy { // its next call is on the way while the other one subscribes
					w.SetFaults(mesostest.Faults{SlowCalls: 10 * time.Second})
					require.NoError(t, first.Kill(t.Context(), runID(0), time.Hour))
				}
				second, _ := w.drive(t, func(c *Config) { c.Dir = folder })
				require.ErrorIs(t, ended(t, first), ErrSuperseded)
				select {
				case err := <-second.Ended():
					require.NoError(t, err)
				case <-time.After(10 * time.Minute):
				}
				require.Equal(t, 1, w.Subscribers())
			})
		})
	}
}

// onPoweredOff makes dialling an address take as long as with a machine that is off.
func onPoweredOff(w *world, off string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != off {
			return w.net.DialContext(ctx, network, address)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(127 * time.Second):
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// TestAMasterThatIsOff is left for the next one within seconds, and at once when another one leads.
func TestAMasterThatIsOff(t *testing.T) {
	t.Run("in a list", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 1)
			begun := time.Now()
			w.drive(t, func(c *Config) { c.Masters, c.Dial = "off:5050,master:5050", onPoweredOff(w, "off:5050") })
			require.Less(t, time.Since(begun), 10*time.Second)
		})
	})
	t.Run("in ZooKeeper", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mesostest.Config{}, 1)
			c := w.config()
			c.Dial = onPoweredOff(w, "off:5050")
			d := newDriver(t, c)
			d.detector = elects{after: time.Second}
			begun := time.Now()
			_, err := d.subscribe(nil, nil)
			require.ErrorContains(t, err, "another master leads")
			require.Equal(t, time.Second, time.Since(begun))
			time.Sleep(dialTimeout) // net/http does not call the dialling off
		})
	})
}

// TestMastersThatAreAllOff: what is wrong with each of them is logged once, until there is a subscription.
func TestMastersThatAreAllOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		var log bytes.Buffer
		d, _ := w.drive(t, func(c *Config) {
			c.Masters, c.Log = "one:5050,two:5050,master:5050", slog.New(slog.NewTextHandler(&log, nil))
		})
		time.Sleep(time.Minute)
		for range 2 {
			synctest.Wait()
			log.Reset()
			w.SetMasterDown("master:5050", true)
			w.BreakStreams(false)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			require.Equal(t, 4, strings.Count(log.String(), "no subscription"), "the end of the stream, and of each: %s", &log)
			w.SetMasterDown("master:5050", false)
			time.Sleep(time.Minute)
		}
		require.NoError(t, d.Close())
	})
}

// TestAMasterThatStopsInARefusal, before the end of its text, is left for the next one.
func TestAMasterThatStopsInARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		begun := time.Now()
		w.drive(t, func(c *Config) {
			c.Masters = "stuck:5050,master:5050"
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if address != "stuck:5050" {
					return w.net.DialContext(ctx, network, address)
				}
				ours, theirs := net.Pipe()
				go func() {
					go func() { _, _ = io.Copy(io.Discard, theirs) }()
					_, _ = io.WriteString(theirs, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nNo leader")
				}()
				return ours, nil
			}
		})
		require.Less(t, time.Since(begun), 2*callTimeout)
	})
}

// elects is a detector whose leader is off, until another one leads.
type elects struct{ after time.Duration }

func (e elects) next(context.Context) (string, <-chan struct{}, error) {
	changed := make(chan struct{})
	time.AfterFunc(e.after, func() { close(changed) })
	return "off:5050", changed, nil
}

func (elects) close() {}

// TestAFrameworkThatWasRemoved: a driver that comes back later than its failover timeout ends and says so; with the
// setting for it, it begins anew.
func TestAFrameworkThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mesostest.Config{}, 1)
		c := w.config()
		c.FailoverTimeout = time.Hour
		first := newSettled(newDriver(t, c))
		require.NoError(t, first.Start(t.Context(), drivertest.NewRecorder()))
		require.NoError(t, first.Launch(t.Context(), launchOf(0, "h0", "serve")))
		becomes(t, first, runID(0), cluster.TaskRunning)
		require.NoError(t, first.Close())
		time.Sleep(2 * time.Hour)
		require.False(t, w.Runs()[0].Ended.IsZero())
		require.ErrorIs(t, newDriver(t, c).Start(t.Context(), drivertest.NewRecorder()), ErrRemoved)
		gone := newDriver(t, c)
		require.ErrorContains(t, gone.Start(t.Context(), drivertest.NewRecorder()), "to go on, in place of "+gone.framework)
		require.NoError(t, gone.Close())
		c.GiveUp = "another"
		require.ErrorIs(t, newDriver(t, c).Start(t.Context(), drivertest.NewRecorder()), ErrRemoved, "it is another one that was to be given up")
		c.GiveUp = gone.framework
		again := newSettled(newDriver(t, c))
		require.NoError(t, again.Start(t.Context(), drivertest.NewRecorder()))
		require.Equal(t, cluster.TaskLost, again.Inventory()[0].State)
		require.NoError(t, again.Launch(t.Context(), launchOf(1, "h0", "serve")))
		becomes(t, again, runID(1), cluster.TaskRunning)
		require.NoError(t, again.Close())
		once := newSettled(newDriver(t, c))
		require.NoError(t, once.Start(t.Context(), drivertest.NewRecorder()))
		becomes(t, once, runID(1), cluster.TaskRunning)
		require.NoError(t, once.Close())
	})
}
