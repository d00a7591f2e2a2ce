package serve

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// jobFilter is a JobFilter made ready for many jobs.
type jobFilter struct {
	*sluicev1.JobFilter
	names map[string]bool
}

func newJobFilter(p *sluicev1.JobFilter) jobFilter {
	f := jobFilter{JobFilter: p}
	if len(p.GetNames()) > 0 {
		f.names = map[string]bool{}
		for _, n := range p.Names {
			f.names[n] = true
		}
	}
	return f
}

// Match reports whether every condition that is set holds for the job.
func (f jobFilter) Match(j *cluster.Job) bool {
	spec := j.Spec
	switch {
	case f.JobFilter == nil:
		return true
	case f.names != nil && !f.names[string(spec.Name)],
		!strings.HasPrefix(string(spec.Name), f.NamePrefix),
		f.Pool != "" && !cluster.PoolPath(f.Pool).Covers(spec.Pool),
		f.Owner != "" && spec.Owner != f.Owner,
		len(f.States) > 0 && !slices.Contains(f.States, jobStates[j.State()]),
		len(f.Types) > 0 && !slices.Contains(f.Types, jobTypes.to(spec.Type)):
		return false
	}
	return hasAll(spec.Labels, f.Labels)
}

// hasAll reports whether the pairs hold all that are wanted.
func hasAll(pairs []cluster.KeyValue, wanted map[string]string) bool {
	for k, v := range wanted {
		if !slices.Contains(pairs, cluster.KeyValue{Key: k, Value: v}) {
			return false
		}
	}
	return true
}

// ListJobs implements sluicev1.JobServiceServer. Complexity: the jobs from the beginning of the page on that it takes to
// fill it, by ascending name or submission; all jobs in the other orders.
func (a *jobService) ListJobs(ctx context.Context, r *sluicev1.ListJobsRequest) (*sluicev1.ListJobsResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	order := jobOrders[r.Order]
	snapshot := a.s.Snapshot()
	if err := callOf(ctx).knowsFiltered(snapshot, "filter.pool", r.Filter.GetPool()); err != nil {
		return nil, err
	}
	all, err := order.from(snapshot, page.after, r.Descending)
	if err != nil {
		return nil, err
	}
	filter, seen := newJobFilter(r.Filter), callOf(ctx).who.Sight(snapshot)
	answer := &sluicev1.ListJobsResponse{}
	last := ""
	for j := range all {
		if !filter.Match(j) || !seen(j) {
			continue
		}
		record := jobTo(j)
		if !page.Add(record) {
			answer.NextPageToken = page.Token(last)
			break
		}
		answer.Jobs = append(answer.Jobs, record)
		last = order.key(j)
	}
	return answer, nil
}

// jobOrder is one of the orders of a list. key is what a page token holds of its last job; parse makes of it a job that
// compares like that one.
type jobOrder struct {
	key     func(*cluster.Job) string
	parse   func(string) (*cluster.Job, bool)
	compare func(a, b *cluster.Job) int
	// seek yields the jobs in ascending order from one that compares like the given one on; nil where no table is in
	// that order.
	seek func(*cluster.Snapshot, *cluster.Job) iter.Seq[*cluster.Job]
}

var (
	byName = jobOrder{
		key:     func(j *cluster.Job) string { return string(j.Spec.Name) },
		parse:   func(s string) (*cluster.Job, bool) { return jobLike(0, s, 0), true },
		compare: func(a, b *cluster.Job) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) },
		seek: func(s *cluster.Snapshot, from *cluster.Job) iter.Seq[*cluster.Job] {
			return s.JobNames(from.Spec.Name)
		},
	}
	byCreateTime = jobOrder{
		key: func(j *cluster.Job) string { return strconv.FormatUint(uint64(j.UID), 10) },
		parse: func(s string) (*cluster.Job, bool) {
			uid, err := strconv.ParseUint(s, 10, 32)
			return jobLike(cluster.JobUID(uid), "", 0), err == nil
		},
		compare: func(a, b *cluster.Job) int { return cmp.Compare(a.UID, b.UID) },
		seek: func(s *cluster.Snapshot, from *cluster.Job) iter.Seq[*cluster.Job] {
			return s.Jobs(from.UID)
		},
	}
	byPriority = jobOrder{
		key: func(j *cluster.Job) string { return strconv.Itoa(int(j.Spec.Priority)) + "/" + string(j.Spec.Name) },
		parse: func(s string) (*cluster.Job, bool) {
			p, name, _ := strings.Cut(s, "/")
			n, err := strconv.ParseInt(p, 10, 32)
			return jobLike(0, name, int32(n)), err == nil
		},
		compare: func(a, b *cluster.Job) int {
			return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), cmp.Compare(a.Spec.Name, b.Spec.Name))
		},
	}
)

var jobOrders = map[sluicev1.JobOrder]*jobOrder{
	sluicev1.JobOrder_JOB_ORDER_UNSPECIFIED: &byName,
	sluicev1.JobOrder_JOB_ORDER_NAME:        &byName,
	sluicev1.JobOrder_JOB_ORDER_CREATE_TIME: &byCreateTime,
	sluicev1.JobOrder_JOB_ORDER_PRIORITY:    &byPriority,
}

func jobLike(uid cluster.JobUID, name string, priority int32) *cluster.Job {
	return &cluster.Job{UID: uid, Spec: &cluster.JobSpec{Name: cluster.JobID(name), Priority: priority}}
}

// from yields the jobs after the one with the key, all if it is "".
func (o *jobOrder) from(s *cluster.Snapshot, after string, descending bool) (iter.Seq[*cluster.Job], error) {
	begin := jobLike(0, "", -1)
	if after != "" {
		var ok bool
		if begin, ok = o.parse(after); !ok {
			return nil, fieldError(codes.InvalidArgument, "page_token", "is damaged")
		}
	}
	beyond := func(j *cluster.Job) bool { return after == "" || o.compare(j, begin) > 0 }
	all := s.Jobs(0)
	if o.seek != nil && !descending {
		all = o.seek(s, begin)
	} else {
		sign := 1
		if descending {
			sign = -1
			beyond = func(j *cluster.Job) bool { return after == "" || o.compare(j, begin) < 0 }
		}
		sorted := slices.SortedFunc(all, func(a, b *cluster.Job) int { return sign * o.compare(a, b) })
		all = slices.Values(sorted)
	}
	return func(yield func(*cluster.Job) bool) {
		for j := range all {
			if beyond(j) && !yield(j) {
				return
			}
		}
	}, nil
}
