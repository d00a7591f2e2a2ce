package mesos

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// TestAZooKeeperThatDoesNotAnswer does not keep a driver from ending.
func TestAZooKeeperThatDoesNotAnswer(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, which nobody serves
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	d := newDriver(t, Config{Dir: t.TempDir(), Masters: "zk://" + server.Addr().String() + "/mesos", User: "nobody"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Start(ctx, drivertest.NewRecorder()) }()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the driver does not end")
	}
}

// TestAZooKeeperServerThatIsMute is left for another one of its ensemble before a session would be over.
func TestAZooKeeperServerThatIsMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dialled := map[string]bool{}
		z, err := newZooKeeper(Masters{Addresses: []string{"10.0.0.1:2181", "10.0.0.2:2181"}, Path: "/mesos"},
			func(_ context.Context, _, address string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled[address] = true
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }() // it takes everything, and says nothing
				return ours, nil
			}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		time.Sleep(zkSession)
		mu.Lock()
		require.Len(t, dialled, 2)
		mu.Unlock()
		z.close()
		time.Sleep(zkSession)
	})
}
