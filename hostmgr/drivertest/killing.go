package drivertest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

const (
	long  = time.Hour             // a grace that never ends within a test
	short = 50 * time.Millisecond // a grace that does
)

func (s *suite) kill() {
	r := s.launch(0, Serve)
	other := s.launch(1, Serve)
	s.ready(r)
	s.ready(other)
	require.NoError(s, s.driver.Kill(s.Context(), r, long))
	st := s.ended(r)
	require.Equal(s, cluster.TaskKilled, st.State, "%+v", st)
	require.EqualValues(s, 15, st.Signal, "%+v", st)
	s.reported(st)
	s.runs(other)
}

func (s *suite) killEscalates() {
	r := s.launch(0, Stubborn)
	s.ready(r)
	require.NoError(s, s.driver.Kill(s.Context(), r, short))
	st := s.ended(r)
	require.Equal(s, cluster.TaskKilled, st.State, "%+v", st)
	require.EqualValues(s, 9, st.Signal, "%+v", st)
}

func (s *suite) killSooner() {
	r := s.launch(0, Stubborn)
	s.ready(r)
	require.NoError(s, s.driver.Kill(s.Context(), r, long))
	require.NoError(s, s.driver.Kill(s.Context(), r, long))
	s.runs(r) // the end of the grace is far away
	require.NoError(s, s.driver.Kill(s.Context(), r, short))
	require.NoError(s, s.driver.Kill(s.Context(), r, long), "a longer grace changes nothing")
	require.EqualValues(s, 9, s.ended(r).Signal)
}

func (s *suite) killAtOnce() {
	for i := range 10 {
		r := s.launch(i, Serve)
		require.NoError(s, s.driver.Kill(s.Context(), r, 0))
	}
	for _, r := range s.launched {
		st := s.ended(r)
		require.Equal(s, cluster.TaskKilled, st.State, "%+v", st)
		s.reported(st)
	}
	again := s.payload(run(0), Serve)
	require.NoError(s, s.driver.Launch(s.Context(), again))
	require.Equal(s, cluster.TaskKilled, s.ended(run(0)).State, "a launch that is repeated does not undo a kill")
}

func (s *suite) killAfterTheEnd() {
	r := s.launch(0, Succeed)
	before := s.ended(r)
	require.NoError(s, s.driver.Kill(s.Context(), r, 0))
	require.Equal(s, before, s.ended(r))
}
