package mesos

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
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

// TestTheNamesOfZooKeeperServers are looked up at each connection: they may mean other machines by then, and not all need mean any.
func TestTheNamesOfZooKeeperServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var there atomic.Bool
		z, err := newZooKeeper(Masters{Addresses: []string{"zk1:2181", "zk2:2181"}, Path: "/mesos"}, false,
			func(_ context.Context, _, address string) (net.Conn, error) {
				if address != "zk2:2181" || !there.Load() {
					return nil, &net.DNSError{Err: "no such host", Name: address}
				}
				ours, theirs := net.Pipe()
				go serveNothing(theirs)
				return ours, nil
			}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		_, _, err = z.next(t.Context())
		require.ErrorContains(t, err, "zookeeper: list /mesos: ")
		require.ErrorContains(t, err, "no such host")
		there.Store(true)
		time.Sleep(zkSession)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = z.next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for a master")
		time.Sleep(zkSession)
	})
}

// TestAZooKeeperThatIsAway says nothing about who leads: a subscription goes on, and ends when another master is found there.
func TestAZooKeeperThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var there atomic.Bool
		z, err := newZooKeeper(Masters{Addresses: []string{"zk1:2181"}, Path: "/mesos"}, false,
			func(context.Context, string, string) (net.Conn, error) {
				if !there.Load() {
					return nil, errors.New("no route to host")
				}
				ours, theirs := net.Pipe()
				go serveNothing(theirs)
				return ours, nil
			}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		lost := make(chan zk.Event, 1)
		lost <- zk.Event{Type: zk.EventNotWatching, Err: zk.ErrSessionExpired}
		changed := make(chan struct{})
		go z.follow(t.Context(), "json.info_0000000001", lost, changed)
		time.Sleep(time.Minute)
		select {
		case <-changed:
			require.FailNow(t, "another master is said to lead")
		default:
		}
		there.Store(true) // and has no master any more
		<-changed
		z.close()
		time.Sleep(zkSession)
	})
}

// TestAPathWithoutMasters, as one that is misspelt, is named in the log, once.
func TestAPathWithoutMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		z, err := newZooKeeper(Masters{Addresses: []string{"10.0.0.1:2181"}, Path: "/meso"}, false,
			func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go serveNothing(theirs)
				return ours, nil
			}, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = z.next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(zkSession)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "path=/meso")
	})
}

// serveNothing is a ZooKeeper server that has no node.
func serveNothing(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for greeted := false; ; greeted = true {
		var size uint32
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		request := make([]byte, size)
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		answer := make([]byte, 36)
		copy(answer, request[:4])                          // the number of the request
		binary.BigEndian.PutUint32(answer[12:], 1<<32-101) // no node
		if !greeted {
			copy(answer, []byte{6: 0x27, 7: 0x10, 15: 1, 19: 16}) // ten seconds, session 1, 16 bytes of a password
		}
		if binary.Write(conn, binary.BigEndian, uint32(len(answer))) != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
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
