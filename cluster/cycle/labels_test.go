package cycle

import (
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// CheckTallies requires that the tasks of every job, counted as they came and went since the last call, are those that a new
// count finds.
func (s *Supervisor) CheckTallies(t require.TestingT) (counted int) {
	p := s.planner
	l := p.labels
	for job := range l.byJob {
		s := selector{job: job}
		kept := l.tally(s, cluster.DomainHost, 1)
		fresh := &tally{selector: s, domain: cluster.DomainHost, in: map[string]presence{}}
		l.index(fresh)
		require.Equal(t, fresh.in, kept.in)
		require.Equal(t, fresh.total, kept.total)
		counted += len(kept.in)
		l.release(fresh)
	}
	return counted
}

// Listed returns for how many jobs and labels it is known what counts them.
func (s *Supervisor) Listed() int { return len(s.planner.labels.jobs) + len(s.planner.labels.keys) }
