package cluster

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"time"
)

// Day is a day of UTC, in days since 1970-01-01.
type Day int32

const day = 24 * time.Hour

// DayOf returns the day of a time.
func DayOf(t Time) Day { return Day(int64(t) / int64(day)) }

// Begin returns when the day begins.
func (d Day) Begin() Time { return Time(int64(d) * int64(day)) }

// String returns the day as 2006-01-02.
func (d Day) String() string { return time.Unix(0, int64(d.Begin())).UTC().Format(time.DateOnly) }

// Bounds of the accounts that are kept: beyond them the oldest days go, each as a whole. Of today's as many are kept as there may be.
const (
	KeptDays    = 400
	MaxAccounts = 100_000
)

// Usage is what runs had for the time that they ran, whether they used it or not.
type Usage struct {
	Time   int64 // milliseconds of runs
	CPU    int64 // microseconds of a core
	Memory int64 // MiB for a millisecond
	GPU    int64 // microseconds of a device
}

// UsageOf returns what a run uses that has resources for a time, rounded down to milliseconds and MiB. What is more than a number can hold
// is as much as it can.
func UsageOf(r *Resources, d time.Duration) Usage {
	ms := d.Milliseconds()
	of := func(amount int64) int64 {
		hi, lo := bits.Mul64(uint64(max(0, amount)), uint64(max(0, ms)))
		if hi > 0 || lo > math.MaxInt64 {
			return math.MaxInt64
		}
		return int64(lo)
	}
	return Usage{of(1), of(r.Fixed[CPU]), of(r.Fixed[Memory] >> 20), of(r.Fixed[GPU])}
}

// Add returns the sum of both, none of them below 0.
func (u Usage) Add(v Usage) Usage {
	sum := func(a, b int64) int64 {
		if a > math.MaxInt64-b {
			return math.MaxInt64
		}
		return a + b
	}
	return Usage{sum(u.Time, v.Time), sum(u.CPU, v.CPU), sum(u.Memory, v.Memory), sum(u.GPU, v.GPU)}
}

// Account is what the jobs of one owner in one pool used on one day, by runs that have ended. Immutable; State replaces it.
type Account struct {
	Day   Day
	Pool  PoolPath
	Owner string
	Used  Usage // on the day, by runs that ended then or later
	// Lost is the part of Used by runs that came to nothing, and have to run again or were in vain: of batch jobs, those that failed, were lost,
	// left before they were done, or were overtaken by a copy, or by what they are a copy of.
	Lost Usage
	Runs RunCounts // that ended on the day
}

// RunCounts counts runs by how they ended.
type RunCounts struct{ Succeeded, Failed, Lost, Killed uint32 }

func (a *Account) key() string { return accountKey(a.Day, a.Pool, a.Owner) }

// accountKey sorts by day, then pool and owner.
func accountKey(d Day, p PoolPath, owner string) string {
	key := make([]byte, 0, 4+len(p)+1+len(owner))
	key = binary.BigEndian.AppendUint32(key, uint32(d))
	key = append(append(append(key, p...), 0), owner...)
	return string(key)
}

// KeptFrom returns the first day of which no account has been forgotten, 0 where none ever was.
func (t *tables) KeptFrom() Day { return t.keptFrom }

// Accounts yields the accounts from a day on, by day, pool and owner.
func (t *tables) Accounts(from Day) iter.Seq[*Account] {
	return ascend(t.accounts, accountKey(max(from, 0), "", ""))
}

// Days yields the parts of a time that lie on one day each.
func Days(from, to Time) iter.Seq2[Day, time.Duration] {
	return func(yield func(Day, time.Duration) bool) {
		for from < to {
			d := DayOf(from)
			end := min(to, (d + 1).Begin())
			if !yield(d, end.Sub(from)) {
				return
			}
			from = end
		}
	}
}

// charge adds a run that has just ended to the account of the job's owner. Complexity: the days that it ran.
func (s *State) charge(at Time, t *Task, j *Job) {
	resources := &j.TaskFor(t).Resources
	_, again := t.ShouldRequeue(j)
	beaten := t.Outrun || t.Copy != nil && (t.Removed || t.State != TaskSucceeded) // by the other one of a task and its copy
	lost := !j.Spec.Type.Service() && (again || beaten || t.State == TaskFailed || t.State == TaskLost)
	today, begun := DayOf(at), t.Started
	if begun == 0 {
		begun = at // it was over before it was seen running
	}
	var last Usage // of today
	// Of a run that began before what is kept the beginning is left out.
	for d, ran := range Days(max(begun, (today-KeptDays).Begin(), s.keptFrom.Begin()), at) {
		used := UsageOf(resources, ran)
		if d == today {
			last = used
			break
		}
		s.account(today, d, j, func(a *Account) { a.add(used, lost) })
	}
	s.account(today, today, j, func(a *Account) {
		a.add(last, lost)
		switch {
		case t.State == TaskSucceeded && !t.Outrun:
			a.Runs.Succeeded++
		case t.State == TaskFailed:
			a.Runs.Failed++
		case t.State == TaskLost:
			a.Runs.Lost++
		default:
			a.Runs.Killed++
		}
	})
}

// add adds what a run used.
func (a *Account) add(used Usage, lost bool) {
	a.Used = a.Used.Add(used)
	if lost {
		a.Lost = a.Lost.Add(used)
	}
}

// account changes the account of the job's owner on a day, today or before, unless it is not kept.
func (s *State) account(today, d Day, j *Job, change func(*Account)) {
	key := accountKey(d, j.Spec.Pool, j.Spec.Owner)
	own := Account{Day: d, Pool: j.Spec.Pool, Owner: j.Spec.Owner}
	if a := find(s.accounts, key); a != nil {
		own = *a
	} else if s.forgetAccounts(today); d < s.keptFrom || s.accounts.Len() >= MaxAccounts {
		return
	}
	change(&own)
	s.accounts.Set(key, &own)
}

// forgetAccounts makes room for one more account, of a day until today.
func (s *State) forgetAccounts(today Day) {
	for {
		key, oldest, ok := s.accounts.Min()
		if !ok || oldest.Day >= today || oldest.Day >= max(s.keptFrom, today-KeptDays) && s.accounts.Len() < MaxAccounts {
			return
		}
		s.keptFrom = max(s.keptFrom, oldest.Day+1)
		s.accounts.Delete(key)
	}
}
