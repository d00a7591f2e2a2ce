package drivertest

import (
	"context"
	"io"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// read returns a run's output up to its present end.
func (s *suite) read(r cluster.RunID, stream hostmgr.LogStream, offset int64) string {
	s.Helper()
	return s.readAll(s.Context(), hostmgr.LogRequest{Run: r, Stream: stream, Offset: offset})
}

func (s *suite) readAll(ctx context.Context, req hostmgr.LogRequest) string {
	s.Helper()
	log, err := s.driver.OpenLog(ctx, req)
	require.NoError(s, err)
	data, err := io.ReadAll(log)
	require.NoError(s, err)
	require.NoError(s, log.Close())
	return string(data)
}

func (s *suite) logs() {
	if !s.Logs {
		s.Skip("the driver keeps no output")
	}
	r := s.launch(0, Print)
	require.Equal(s, cluster.TaskSucceeded, s.ended(r).State)
	require.Equal(s, Output, s.read(r, hostmgr.Stdout, 0))
	require.Equal(s, Errors, s.read(r, hostmgr.Stderr, 0))
	require.Equal(s, Output[4:], s.read(r, hostmgr.Stdout, 4))
	require.Empty(s, s.read(r, hostmgr.Stdout, int64(len(Output))))
	require.Empty(s, s.read(r, hostmgr.Stdout, 1<<40), "an offset behind the end")
	require.Equal(s, Output, s.readAll(s.Context(), hostmgr.LogRequest{Run: r, Follow: true}), "following ends with the run")
	_, err := s.driver.OpenLog(s.Context(), hostmgr.LogRequest{Run: r, Offset: -1})
	require.ErrorContains(s, err, "offset")
}

func (s *suite) logsFollowed() {
	if !s.Logs {
		s.Skip("the driver keeps no output")
	}
	r := s.launch(0, Serve)
	s.ready(r)
	log, err := s.driver.OpenLog(s.Context(), hostmgr.LogRequest{Run: r, Follow: true})
	require.NoError(s, err)
	head := make([]byte, len(Ready))
	_, err = io.ReadFull(log, head)
	require.NoError(s, err)
	require.Equal(s, Ready, string(head))
	require.NoError(s, s.driver.Kill(s.Context(), r, long))
	rest, err := io.ReadAll(log)
	require.NoError(s, err)
	require.Empty(s, rest)
	require.NoError(s, log.Close())

	abandoned := s.launch(1, Serve)
	s.ready(abandoned)
	ctx, cancel := context.WithCancel(s.Context())
	log, err = s.driver.OpenLog(ctx, hostmgr.LogRequest{Run: abandoned, Follow: true})
	require.NoError(s, err)
	_, err = io.ReadFull(log, head)
	require.NoError(s, err)
	cancel()
	_, err = log.Read(head)
	require.ErrorIs(s, err, context.Canceled, "a follower that gives up is not kept waiting")
	require.NoError(s, log.Close())
}
