package serve

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// checkUsage validates what ListUsage is asked for.
func checkUsage(r *sluicev1.ListUsageRequest, v *violations) {
	from, to := dayFrom(r.FromDay, "from_day", 0, v), dayFrom(r.ToDay, "to_day", lastDay, v)
	if from > to {
		v.Invalid("to_day", "is %s, before from_day, which is %s", to, from)
	}
	if r.Pool != "" {
		checkPoolPath(r.Pool, "pool", v)
	}
}

// lastDay is a day that no clock gets to.
const lastDay cluster.Day = 100_000

// dayFrom reads a day such as 2026-01-31; fallback for none.
func dayFrom(s, path string, fallback cluster.Day, v *violations) cluster.Day {
	if s == "" {
		return fallback
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		v.Invalid(path, "is %s: a day such as 2026-01-31, from 1970-01-01 to 2200-12-31", quote(s))
		return fallback
	}
	return cluster.DayOf(cluster.Time(t.UnixNano()))
}

// ListUsage implements sluicev1.PoolServiceServer. Complexity: accounts + tasks that run.
func (a *poolService) ListUsage(ctx context.Context, r *sluicev1.ListUsageRequest) (*sluicev1.ListUsageResponse, error) {
	page, err := openPage(r)
	if err != nil {
		return nil, err
	}
	s, c := a.s.Snapshot(), callOf(ctx)
	var v violations // was checked before
	sums := usageSums{from: dayFrom(r.FromDay, "", 0, &v), to: dayFrom(r.ToDay, "", lastDay, &v), entries: map[string]*usageSum{}}
	for _, g := range r.GroupBy {
		sums.byDay = sums.byDay || g == sluicev1.ListUsageRequest_GROUP_DAY
		sums.byPool = sums.byPool || g == sluicev1.ListUsageRequest_GROUP_POOL
		sums.byOwner = sums.byOwner || g == sluicev1.ListUsageRequest_GROUP_OWNER
	}
	answer, last := &sluicev1.ListUsageResponse{}, ""
	if kept := s.KeptFrom(); kept > sums.from {
		answer.KeptFromDay = kept.String()
	}
	if sums.byDay && page.after != "" { // its key begins with its day
		day, _, _ := strings.Cut(page.after, "\x00")
		sums.from = max(sums.from, dayFrom(day, "", 0, &v))
	}
	shown := usageSight(s, c.who, r)
	for account := range s.Accounts(sums.from) {
		if shown(account.Pool, account.Owner) {
			sums.add(account)
		}
	}
	sums.addRunning(s, a.s.clock(), shown)
	if r.Pool != "" && len(sums.entries) == 0 && !c.knowsPool(s, cluster.PoolPath(r.Pool)) { // else there is, or was, such a pool for the caller
		return nil, noPool(r.Pool)
	}
	for _, key := range slices.Sorted(maps.Keys(sums.entries)) {
		if key <= page.after {
			continue
		}
		entry := sums.entries[key].message()
		if !page.Add(entry) {
			answer.NextPageToken = page.Token(last)
			break
		}
		answer.Entries = append(answer.Entries, entry)
		last = key
	}
	return answer, nil
}

// usageSight returns whose usage the caller asked for and may see: that of his own jobs, and of pools that he may view.
func usageSight(s *cluster.Snapshot, who *access.Caller, r *sluicev1.ListUsageRequest) func(cluster.PoolPath, string) bool {
	views := map[cluster.PoolPath]bool{}
	return func(p cluster.PoolPath, owner string) bool {
		if r.Pool != "" && !cluster.PoolPath(r.Pool).Covers(p) || r.Owner != "" && owner != r.Owner {
			return false
		}
		view, known := views[p]
		if !known {
			view = who.May(s, cluster.MayView, p)
			views[p] = view
		}
		return view || owner == who.User && owner != "" && who.Job == 0
	}
}

// usageSums are the accounts of some days, summed up by what they are to be told apart by.
type usageSums struct {
	from, to               cluster.Day
	byDay, byPool, byOwner bool
	entries                map[string]*usageSum
}

// usageSum is an account, with room for the runs of many days.
type usageSum struct {
	day         string
	pool, owner string
	used, lost  cluster.Usage
	runs        [4]uint64 // succeeded, failed, lost, killed
}

// of returns the sum that something on a day counts to; nil if the day was not asked for.
func (u *usageSums) of(d cluster.Day, p cluster.PoolPath, owner string) *usageSum {
	if d < u.from || d > u.to {
		return nil
	}
	var own usageSum
	if u.byDay {
		own.day = d.String()
	}
	if u.byPool {
		own.pool = string(p)
	}
	if u.byOwner {
		own.owner = owner
	}
	key := own.day + "\x00" + own.pool + "\x00" + own.owner
	if u.entries[key] == nil {
		u.entries[key] = &own
	}
	return u.entries[key]
}

// add takes an account in.
func (u *usageSums) add(a *cluster.Account) {
	s := u.of(a.Day, a.Pool, a.Owner)
	if s == nil {
		return
	}
	s.used, s.lost = s.used.Add(a.Used), s.lost.Add(a.Lost)
	for i, n := range []uint32{a.Runs.Succeeded, a.Runs.Failed, a.Runs.Lost, a.Runs.Killed} {
		s.runs[i] += uint64(n)
	}
}

// addRunning takes in what goes on, of the days that are kept. Complexity: the tasks that run, times the days where these are told apart.
func (u *usageSums) addRunning(s *cluster.Snapshot, now cluster.Time, shown func(cluster.PoolPath, string) bool) {
	from, to := max(u.from, s.KeptFrom(), cluster.DayOf(now)-cluster.KeptDays).Begin(), min(now, (u.to+1).Begin())
	last := cluster.DayOf(to - 1)
	type account struct {
		pool  cluster.PoolPath
		owner string
	}
	sums := map[account][]*usageSum{} // by how many days before the last, for look-up
	for h := range s.Hosts("") {
		for _, k := range h.Tasks {
			t, j := s.Task(k), s.Job(k.Job())
			if t == nil || j == nil || t.Started == 0 || !t.State.Bound() || !shown(j.Spec.Pool, j.Spec.Owner) {
				continue
			}
			resources, whose := &j.TaskFor(t).Resources, account{j.Spec.Pool, j.Spec.Owner}
			own := sums[whose]
			for d, ran := range u.days(max(t.Started, from), to) {
				for ago := int(last - d); len(own) <= ago; {
					own = append(own, u.of(last-cluster.Day(len(own)), whose.pool, whose.owner))
				}
				sum := own[last-d]
				sum.used = sum.used.Add(cluster.UsageOf(resources, ran))
			}
			sums[whose] = own
		}
	}
}

// days yields the parts of a time that count to a sum each: where days are not told apart that is all of it.
func (u *usageSums) days(from, to cluster.Time) iter.Seq2[cluster.Day, time.Duration] {
	if u.byDay {
		return cluster.Days(from, to)
	}
	return func(yield func(cluster.Day, time.Duration) bool) {
		if from < to {
			yield(cluster.DayOf(to-1), to.Sub(from))
		}
	}
}

func (s *usageSum) message() *sluicev1.UsageEntry {
	return &sluicev1.UsageEntry{
		Day: s.day, Pool: s.pool, Owner: s.owner, Used: usageAmounts(s.used), Lost: usageAmounts(s.lost),
		RunsSucceeded: s.runs[0], RunsFailed: s.runs[1], RunsLost: s.runs[2], RunsKilled: s.runs[3],
	}
}

// usageAmounts gives usage in the units of the API.
func usageAmounts(u cluster.Usage) *sluicev1.Usage {
	return &sluicev1.Usage{
		RunSeconds: float64(u.Time) / 1e3, CpuSeconds: float64(u.CPU) / 1e6, MemoryGibSeconds: float64(u.Memory) / 1e3 / 1024, GpuSeconds: float64(u.GPU) / 1e6,
	}
}
