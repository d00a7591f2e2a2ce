package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/pool"
)

// TestFairnessIsOfTheTimeBefore: what changes at a moment counts from then on, not for the time until then.
func TestFairnessIsOfTheTimeBefore(t *testing.T) {
	m := newPoolMeasure()
	entitled := func(a, b int64) []pool.Status {
		of := func(path cluster.PoolPath, n int64) pool.Status {
			return pool.Status{Path: path, Dimensions: []pool.DimensionStatus{{Dimension: "cpu_milli", Entitlement: n, Claimed: n, BoundBy: path}}}
		}
		return []pool.Status{of("root/a", a), of("root/b", b)}
	}
	cpu := func(n int64) *amounts { return &amounts{cluster.CPU: n} }
	at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	m.entitle(at(10), entitled(100, 100))
	m.load(at(10), "root/a", cpu(100), 1)
	m.load(at(40), "root/b", cpu(50), 1)   // for 30 s they had 1 and 0 of it,
	m.entitle(at(50), entitled(200, 50))   // for 10 s 1 and 0.5,
	m.load(at(70), "root/a", cpu(100), -1) // for 20 s 0.5 and 1,
	f := m.fairness(at(80))                // and for 10 s 0 and 1.
	require.InDelta(t, 70, f.Contended, 1e-9)
	require.InDelta(t, (30*1+10*1+20*0.5)/70, f.Satisfaction["root/a"], 1e-9)
	require.InDelta(t, (10*0.5+20+10)/70, f.Satisfaction["root/b"], 1e-9)
	require.InDelta(t, (30*0.5+30*0.9+10*0.5)/70, f.Jain, 1e-9)
	require.Equal(t, f.Satisfaction, f.SatisfactionAmounts)
}
