package serve

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
)

// meteredPools is the most pools that there are metrics of: each has some thirty series.
const meteredPools = 500

// poolCollector tells what is in the pools that a reader may know, when it is asked.
type poolCollector struct {
	s   *Scheduler
	who *access.Caller // nil: nobody is asked who he is
}

var (
	poolJobsDesc    = prometheus.NewDesc("sluice_pool_jobs", "Jobs of the pool and those below it that have not ended.", []string{"pool"}, nil)
	poolTasksDesc   = prometheus.NewDesc("sluice_pool_tasks", "Tasks of the pool and those below it that wait, and that have a place.", []string{"pool", "state"}, nil)
	poolDemandDesc  = poolDesc("demand", "What those tasks of the pool ask for that wait for a place, without revocable ones")
	poolHeldDesc    = poolDesc("allocated", "What tasks of the pool have of the hosts, without revocable ones")
	poolEntitled    = poolDesc("entitlement", "What the pool is entitled to, as the last cycle found")
	poolReservation = poolDesc("reservation", "What is reserved for the pool")
	poolLimitDesc   = poolDesc("limit", "What the tasks of the pool have at most, where it sets that")
	poolsLeftDesc   = prometheus.NewDesc("sluice_pools_left_out", "Pools of which there are no metrics, since there are so many.", nil, nil)
)

func poolDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_pool_"+name, help+", in the unit of the dimension.", []string{"pool", "dimension"}, nil)
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		poolJobsDesc, poolTasksDesc, poolDemandDesc, poolHeldDesc, poolEntitled, poolReservation, poolLimitDesc, poolsLeftDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Complexity: the jobs and the pools.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	snapshot := c.s.Snapshot()
	pools, left := c.metered(snapshot)
	gauge(poolsLeftDesc, float64(left))
	present := dimensionsOfHosts(snapshot)
	totals := poolTotals(snapshot)
	for _, p := range pools {
		path, now := string(p.Path), totals.describe(snapshot, p, c.s.poolStatus(p.Path))
		gauge(poolJobsDesc, float64(now.ActiveJobs), path)
		gauge(poolTasksDesc, float64(now.WaitingTasks), path, "waiting")
		gauge(poolTasksDesc, float64(now.RunningTasks), path, "running")
		for _, d := range now.Dimensions {
			if !present[d.Dimension] {
				continue
			}
			gauge(poolDemandDesc, float64(d.Demand), path, d.Dimension)
			gauge(poolHeldDesc, float64(d.Allocation), path, d.Dimension)
			gauge(poolEntitled, float64(d.Entitlement), path, d.Dimension)
			gauge(poolReservation, float64(d.Reservation), path, d.Dimension)
			if d.Limit != cluster.NoLimit {
				gauge(poolLimitDesc, float64(d.Limit), path, d.Dimension)
			}
		}
	}
}

// metered returns the pools that there are metrics of, those nearest to the root first, and how many there are besides.
func (c *poolCollector) metered(in *cluster.Snapshot) (pools []*cluster.Pool, left int) {
	for p := range in.Pools() {
		if c.who == nil || c.who.MayKnow(in, p.Path) {
			pools = append(pools, p)
		}
	}
	slices.SortStableFunc(pools, func(a, b *cluster.Pool) int {
		return strings.Count(string(a.Path), "/") - strings.Count(string(b.Path), "/")
	})
	n := min(len(pools), meteredPools)
	return pools[:n], len(pools) - n
}

// dimensionsOfHosts returns the fixed dimensions and those that some host has: any job may ask for others, by whatever name.
func dimensionsOfHosts(in *cluster.Snapshot) map[string]bool {
	present := map[string]bool{}
	for d := range cluster.NumDimensions {
		present[d.String()] = true
	}
	for h := range in.Hosts("") {
		for _, a := range h.Capacity.Named {
			present[a.Name] = true
		}
	}
	return present
}

// readerKey is for the caller in the context of a request for a page.
type readerKey struct{}

// withReader says in a context who reads a page.
func withReader(ctx context.Context, who *access.Caller) context.Context {
	return context.WithValue(ctx, readerKey{}, who)
}

// readerOf returns who reads a page, nil if nobody was asked who he is.
func readerOf(ctx context.Context) *access.Caller {
	who, _ := ctx.Value(readerKey{}).(*access.Caller)
	return who
}
