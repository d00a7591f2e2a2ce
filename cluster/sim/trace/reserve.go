package trace

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// reserve reads all jobs and divides a part of the capacity among their pools; see Options.Reserve.
func (w *Workload) reserve(part float64) error {
	jobs, err := keepAll(w.Jobs)
	if err != nil {
		return err
	}
	l := fromList(jobs)
	w.Jobs, w.until = l, l.last
	var end time.Duration
	for _, j := range jobs {
		end = max(end, j.submit+max(time.Second, slices.Max(j.durations))) // so that who is there for ever takes something
	}
	takes := map[cluster.PoolPath]*[cluster.NumDimensions]float64{}
	var all [cluster.NumDimensions]float64
	for _, j := range jobs {
		in := takes[j.rest.Pool]
		if in == nil {
			in = &[cluster.NumDimensions]float64{}
			takes[j.rest.Pool] = in
		}
		seconds := 0.0
		for _, d := range j.durations {
			seconds += cmp.Or(d, end-j.submit).Seconds() * float64(j.instances) / float64(len(j.durations))
		}
		for d, v := range j.resources.Fixed {
			in[d] += float64(v) * seconds
			all[d] += float64(v) * seconds
		}
	}
	capacity := capacityOf(w.Hosts)
	above := map[cluster.PoolPath]*cluster.Pool{}
	for _, path := range slices.Sorted(maps.Keys(takes)) {
		for d := range cluster.NumDimensions {
			if all[d] == 0 {
				continue
			}
			amount := int64(part * float64(capacity.Fixed[d]) * takes[path][d] / all[d])
			for p := path; p != cluster.RootPool; p = p.Parent() { // whoever is above reserves what those below do
				if above[p] == nil {
					above[p] = &cluster.Pool{Path: p}
				}
				above[p].Resources = reserveMore(above[p].Resources, d.String(), amount)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(above)) {
		w.Pools = append(w.Pools, *above[path])
	}
	return nil
}

// reserveMore adds to the reservation of a dimension. Entries are sorted by dimension.
func reserveMore(list []cluster.PoolResource, dimension string, amount int64) []cluster.PoolResource {
	i, found := slices.BinarySearchFunc(list, dimension, func(r cluster.PoolResource, d string) int { return cmp.Compare(r.Dimension, d) })
	if !found {
		list = slices.Insert(list, i, cluster.PoolResource{Dimension: dimension, Limit: cluster.NoLimit, Share: 1})
	}
	list[i].Reservation += amount
	return list
}
