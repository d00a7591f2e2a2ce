package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
)

// metricsFor returns the lines of the page of metrics with that in them, for a reader, nil for anybody.
func (a *apiTest) metricsFor(ctx context.Context, with string) (lines []string) {
	w := httptest.NewRecorder()
	a.MetricsHandler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, with) && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Metrics tell of pools what the API tells, as it is now, and of nothing that hosts do not have.
func TestMetricsOfPools(t *testing.T) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 2)
	a.createPool(t, cpuClaim("root/a", 1000, 5000))
	job := sleepJob("job")
	job.Pool, job.Instances = "root/a", proto.Uint32(3)
	a.submit(t, job)
	strange := sleepJob("strange")
	strange.Pool, strange.Task.Resources.Named = "root/a", map[string]int64{"made-up": 1}
	a.submit(t, strange)
	require.Eventually(t, func() bool { return len(a.Snapshot().Host("s/h").Tasks) == 2 }, 10*time.Second, time.Millisecond)
	want := []string{
		`sluice_pool_allocated{dimension="cpu_milli",pool="root/a"} 2000`,
		`sluice_pool_allocated{dimension="memory_bytes",pool="root/a"} 2.097152e+06`,
		`sluice_pool_demand{dimension="cpu_milli",pool="root/a"} 2000`,
		`sluice_pool_demand{dimension="memory_bytes",pool="root/a"} 2.097152e+06`,
		`sluice_pool_entitlement{dimension="cpu_milli",pool="root/a"} 2000`,
		`sluice_pool_entitlement{dimension="memory_bytes",pool="root/a"} 4.194304e+06`,
		`sluice_pool_jobs{pool="root/a"} 2`,
		`sluice_pool_limit{dimension="cpu_milli",pool="root/a"} 5000`,
		`sluice_pool_reservation{dimension="cpu_milli",pool="root/a"} 1000`,
		`sluice_pool_reservation{dimension="memory_bytes",pool="root/a"} 0`,
		`sluice_pool_tasks{pool="root/a",state="running"} 2`,
		`sluice_pool_tasks{pool="root/a",state="waiting"} 2`,
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the last cycle was before the second job, or after it
		assert.Equal(c, want, a.metricsFor(t.Context(), `pool="root/a"`))
	}, 10*time.Second, time.Millisecond)
	require.Contains(t, a.metricsFor(t.Context(), `pool="root"`), `sluice_pool_tasks{pool="root",state="waiting"} 2`)
	require.Empty(t, a.metricsFor(t.Context(), "made-up"))
	require.Equal(t, []string{"sluice_pools_left_out 0"}, a.metricsFor(t.Context(), "left_out"))
}

// However many pools there are, metrics are of a bounded number, those nearest to the root first.
func TestMetricsOfManyPools(t *testing.T) {
	a := newAPITest(t)
	events := []cluster.Event{&cluster.PoolPut{Pool: cluster.Pool{Path: "root/a"}}}
	for i := range meteredPools {
		events = append(events, &cluster.PoolPut{Pool: cluster.Pool{Path: cluster.PoolPath(fmt.Sprintf("root/a/%03d", i))}})
	}
	events = append(events, &cluster.PoolPut{Pool: cluster.Pool{Path: "root/b"}})
	a.emit(t, events...)
	require.Len(t, a.metricsFor(t.Context(), "sluice_pool_jobs{"), meteredPools)
	require.Len(t, a.metricsFor(t.Context(), `sluice_pool_jobs{pool="root/b"}`), 1)
	require.Equal(t, []string{"sluice_pools_left_out 4"}, a.metricsFor(t.Context(), "left_out"), "root, its default pool, a and b have metrics")
}

// A reader finds the pools that he may know, and no others.
func TestMetricsOfHiddenPools(t *testing.T) {
	a, _, bob, _ := withHidden(t)
	page := func(who context.Context) (pools []string) {
		md, _ := metadata.FromOutgoingContext(who)
		r, w := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", md.Get("authorization")[0])
		a.Protect(a.MetricsHandler(), true).ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		for line := range strings.Lines(w.Body.String()) {
			if path, ok := strings.CutPrefix(line, `sluice_pool_jobs{pool="`); ok {
				pools = append(pools, path[:strings.Index(path, `"`)])
			}
		}
		return pools
	}
	require.Equal(t, []string{"root", "root/default", "root/open"}, page(bob))
	require.Equal(t, []string{"root", "root/default", "root/open", "root/secret"}, page(a.as(t, "olga", "ops")))
}
