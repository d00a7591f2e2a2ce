package drivertest

import (
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

func (s *suite) hosts() {
	seen := map[string]bool{}
	for _, h := range s.sink.Hosts() {
		require.NotEmpty(s, h.Name)
		require.False(s, seen[h.Name], "host %q is listed twice", h.Name)
		seen[h.Name] = true
		require.Positive(s, h.Capacity.Fixed[cluster.CPU])
		require.Positive(s, h.Capacity.Fixed[cluster.Memory])
		require.IsNonDecreasing(s, pairs(h.Attributes), "attributes are sorted")
	}
}

func pairs(list []cluster.KeyValue) []string {
	out := make([]string, len(list))
	for i, kv := range list {
		out[i] = kv.Key + "\x00" + kv.Value
	}
	return out
}

func (s *suite) outcomes() {
	cases := []struct {
		behavior Behavior
		state    cluster.TaskState
		code     int32
		signal   int32
		reason   cluster.Reason
	}{
		{Succeed, cluster.TaskSucceeded, 0, 0, cluster.ReasonExited},
		{Fail, cluster.TaskFailed, 3, 0, cluster.ReasonExited},
		{Crash, cluster.TaskFailed, -1, 9, cluster.ReasonSignaled},
		{Missing, cluster.TaskFailed, -1, 0, cluster.ReasonLaunchFailed},
	}
	for i, c := range cases {
		s.launch(i, c.behavior)
	}
	for i, c := range cases {
		st := s.ended(run(i))
		require.Equal(s, c.state, st.State, "%+v", st)
		require.Equal(s, c.code, st.ExitCode, "%+v", st)
		require.Equal(s, c.signal, st.Signal, "%+v", st)
		require.Equal(s, c.reason, st.Reason, "%+v", st)
		require.Equal(s, s.payload(run(i), c.behavior).Host, st.Host)
		s.reported(st)
		if c.behavior == Missing {
			require.NotEmpty(s, st.Message, "a run that could not be started says why")
			require.Zero(s, s.Starts(run(i)))
		} else {
			require.Equal(s, 1, s.Starts(run(i)))
		}
	}
}

// reported waits until the sink has the terminal status that the inventory shows.
func (s *suite) reported(final hostmgr.Status) {
	s.Helper()
	s.wait(final.Run.String()+"'s end is reported", func() bool {
		got := s.sink.Statuses(final.Run)
		return len(got) > 0 && got[len(got)-1] == final
	})
}

func (s *suite) launchAgain() {
	r := s.launch(0, Serve)
	var repeats sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		repeats.Go(func() { errs[i] = s.driver.Launch(s.Context(), s.payload(r, Serve)) })
	}
	repeats.Wait()
	for _, err := range errs {
		require.NoError(s, err)
	}
	s.ready(r)
	require.ErrorIs(s, s.driver.Launch(s.Context(), s.payload(r, Fail)), hostmgr.ErrConflict)
	require.NoError(s, s.driver.Launch(s.Context(), s.payload(r, Serve)))
	s.runs(r)
	require.Equal(s, 1, s.Starts(r))
	require.Len(s, s.driver.Inventory(), 1)

	ended := s.launch(1, Succeed)
	final := s.ended(ended)
	require.NoError(s, s.driver.Launch(s.Context(), s.payload(ended, Succeed)), "a run that has ended is known too")
	require.Equal(s, final, s.ended(ended))
	require.Equal(s, 1, s.Starts(ended))
}

func (s *suite) launchRefused() {
	elsewhere := s.payload(run(0), Succeed)
	elsewhere.Host = "no-such-host"
	require.ErrorIs(s, s.driver.Launch(s.Context(), elsewhere), hostmgr.ErrUnknownHost)
	nothing := s.payload(run(1), Succeed)
	nothing.Task.Processes = []cluster.Process{{}}
	require.ErrorContains(s, s.driver.Launch(s.Context(), nothing), "command")
	require.Empty(s, s.driver.Inventory(), "a launch that was refused leaves no trace")
	require.Zero(s, s.Starts(run(0)))
}

func (s *suite) launchMany() {
	const n = 60
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = s.driver.Launch(s.Context(), s.payload(run(i), Succeed)) })
	}
	all.Wait()
	for i, err := range errs {
		require.NoError(s, err)
		st := s.ended(run(i))
		require.Equal(s, cluster.TaskSucceeded, st.State, "%+v", st)
		require.Equal(s, 1, s.Starts(run(i)))
		s.reported(st)
	}
}

func (s *suite) unknownRun() {
	require.ErrorIs(s, s.driver.Kill(s.Context(), run(0), 0), hostmgr.ErrUnknownRun)
	_, err := s.driver.OpenLog(s.Context(), hostmgr.LogRequest{Run: run(0)})
	require.ErrorIs(s, err, hostmgr.ErrUnknownRun)
	s.driver.Release(run(0))
	require.Empty(s, s.driver.Inventory())
}
