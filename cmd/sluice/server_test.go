package main

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A folder by mistake would have what two parts know in one place; who has worked in one for both goes on.
func TestFoldersOfOthers(t *testing.T) {
	noSettings(t)
	for mark, lines := range map[string][][]string{
		schedulerMark: {{"hostmgr", "local"}, {"hostmgr", "mesos"}},
		memberMark:    {{"hostmgr", "local"}, {"hostmgr", "mesos"}},
		localMark:     {{"scheduler", "--insecure"}, {"dev"}, {"hostmgr", "mesos"}},
		mesosMark:     {{"scheduler", "--insecure"}, {"dev"}, {"hostmgr", "local"}},
	} {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, mark)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, mark), nil, 0o600))
		for _, line := range lines {
			a := try(t, "", append(line, "--state-dir", dir)...)
			require.Equal(t, exitUsage, a.code, "%s: %v", mark, line)
			require.Contains(t, a.err, dir+" is the state folder of ", "%s: %v", mark, line)
		}
		require.NoError(t, ownFolder(dir, mark))
	}
}

// Connections, which anybody can open, do not take the files that the journal needs: those beyond their part wait.
func TestConnectionsLeaveFiles(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 200
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) })
	l, err := listen("127.0.0.1:0", "--listen", 8)
	require.NoError(t, err)
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	for range 30 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	var last net.Conn
	for range 25 {
		c := <-accepted
		t.Cleanup(func() { _ = c.Close() })
		last = c
	}
	select {
	case <-accepted:
		t.Fatal("there is one too many")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, last.Close())
	require.NoError(t, (<-accepted).Close())
	require.NoError(t, l.Close())
}

// A call that hangs, as one does whose line of the audit log waits for the disk, does not keep the server from ending.
func TestStopServingWhileACallHangs(t *testing.T) {
	called, hangs := make(chan struct{}), make(chan struct{})
	s := &server{grpc: grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		close(called)
		<-hangs
		return nil
	}))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	_, err = conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/x/y")
	require.NoError(t, err)
	<-called
	go func() {
		s.stopServing()
		served <- nil
	}()
	for range 2 {
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "it waits for the call")
		}
	}
	close(hangs)
	require.NoError(t, conn.Close())
}
