package drivertest

import (
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

func (s *suite) inventoryAndRelease() {
	for _, n := range []int{5, 3, 11, 1} {
		s.launch(n, Succeed)
	}
	serving := s.launch(4, Serve)
	for _, n := range []int{5, 3, 11, 1} {
		s.ended(run(n))
	}
	require.Equal(s, []cluster.RunID{run(1), run(3), run(4), run(5), run(11)}, s.known())
	s.driver.Release(run(3))
	s.driver.Release(run(3))
	s.driver.Release(serving) // has not ended: there is no terminal status that could be durable
	require.Equal(s, []cluster.RunID{run(1), run(4), run(5), run(11)}, s.known())
	require.ErrorIs(s, s.driver.Kill(s.Context(), run(3), 0), hostmgr.ErrUnknownRun)
	s.ready(serving)
}

func (s *suite) known() []cluster.RunID {
	var out []cluster.RunID
	for _, st := range s.driver.Inventory() {
		out = append(out, st.Run)
	}
	return out
}

func (s *suite) closed() {
	s.launch(0, Serve)
	s.ready(run(0))
	require.NoError(s, s.driver.Close())
	reports := s.sink.Reports()
	for range 20 {
		if s.Wait != nil {
			s.Wait()
		}
	}
	require.Equal(s, reports, s.sink.Reports(), "nothing is reported after Close")
	s.open()
	if !s.Durable {
		s.launched = nil
	}
}

func (s *suite) restart() {
	if !s.Durable {
		s.Skip("the driver's runs do not survive it")
	}
	serving, done, ignored := s.launch(0, Serve), s.launch(1, Fail), s.launch(2, Stubborn)
	s.ready(serving)
	s.ready(ignored)
	final := s.ended(done)
	s.launch(3, Serve) // perhaps not started yet when the driver closes
	s.reopen()
	require.Equal(s, s.launched, s.known(), "Inventory is complete when Start returns")
	s.ready(run(3))
	for i, b := range []Behavior{Serve, Fail, Stubborn, Serve} {
		require.NoError(s, s.driver.Launch(s.Context(), s.payload(run(i), b)), "a launch that is repeated changes nothing")
	}
	require.ErrorIs(s, s.driver.Launch(s.Context(), s.payload(serving, Fail)), hostmgr.ErrConflict)
	require.Equal(s, final, s.ended(done))
	s.runs(serving)

	require.NoError(s, s.driver.Kill(s.Context(), serving, long))
	require.EqualValues(s, 15, s.ended(serving).Signal)
	require.NoError(s, s.driver.Kill(s.Context(), ignored, long))
	s.driver.Release(done)
	s.reopen() // the kill is not forgotten
	require.NotContains(s, s.known(), done)
	require.NoError(s, s.driver.Kill(s.Context(), ignored, short))
	require.EqualValues(s, 9, s.ended(ignored).Signal)
	for _, r := range s.launched {
		require.Equal(s, 1, s.Starts(r))
	}
}

// random applies operations in a seeded order and compares the driver with a model of three facts per run: launched,
// killed, released.
func (s *suite) random() {
	type fact struct{ launched, killed, released bool }
	const runs, steps = 12, 80
	behaviors := []Behavior{Succeed, Fail, Serve, Missing, Serve}
	rng := rand.New(rand.NewPCG(1, 2))
	facts := [runs]fact{}
	for range steps {
		n := rng.IntN(runs)
		f, r, b := &facts[n], run(n), behaviors[n%len(behaviors)]
		switch op := rng.IntN(10); {
		case op < 4 && !f.released:
			require.NoError(s, s.driver.Launch(s.Context(), s.payload(r, b)))
			if !f.launched {
				s.launched = append(s.launched, r)
			}
			f.launched = true
		case op < 6:
			err := s.driver.Kill(s.Context(), r, short)
			if !f.launched || f.released {
				require.ErrorIs(s, err, hostmgr.ErrUnknownRun)
			} else {
				require.NoError(s, err)
				f.killed = true
			}
		case op < 8 && f.launched && !f.released && (b != Serve || f.killed):
			s.ended(r)
			s.driver.Release(r)
			f.released = true
		case op == 9 && s.Durable:
			s.reopen()
		}
	}
	var known []cluster.RunID
	for n, f := range facts {
		if !f.launched || f.released {
			continue
		}
		known = append(known, run(n))
		switch b := behaviors[n%len(behaviors)]; {
		case b == Serve && !f.killed:
			s.runs(run(n))
		case !f.killed:
			require.NotEqual(s, cluster.TaskKilled, s.ended(run(n)).State)
		default:
			s.ended(run(n))
		}
	}
	require.True(s, slices.Equal(known, s.known()), "known %v, want %v", s.known(), known)
}
