package mesos

import (
	"context"
	"net"
	"testing"
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
