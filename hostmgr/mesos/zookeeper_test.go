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
		z, err := newZooKeeper(Masters{Addresses: []string{"10.0.0.1:2181", "10.0.0.2:2181"}, Path: "/mesos"}, false,
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

// TestTheAddressOfAMaster is its IP address, and where there is TLS the name that is in its certificate, as in redirects.
func TestTheAddressOfAMaster(t *testing.T) {
	for info, want := range map[string][2]string{
		`{"address":{"hostname":"m1.example","ip":"10.0.0.1","port":5050},"hostname":"m1.example","ip":16777226,"port":5050}`: {"10.0.0.1:5050", "m1.example:5050"},
		`{"hostname":"m1.example","ip":16777226,"port":5051}`:                                                                 {"m1.example:5051", "m1.example:5051"},
		`{"address":{"ip":"fd00::1","port":5050},"port":1}`:                                                                   {"[fd00::1]:5050", "[fd00::1]:5050"},
	} {
		for i, byName := range []bool{false, true} {
			address, err := masterAddress([]byte(info), byName)
			require.NoError(t, err)
			require.Equal(t, want[i], address)
		}
	}
	_, err := masterAddress([]byte(`{"address":{"port":5050}}`), true)
	require.ErrorContains(t, err, "has no address")
}
