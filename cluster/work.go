package cluster

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// WorkLabel is the label of a job whose value names the kind of work that its tasks do: those that are expected to run
// equally long, use as much, and bear company as well. What is learned of one is believed of the others.
const WorkLabel = "work"

// KindAttribute is the attribute of a host whose value names its kind: work runs equally fast on all hosts of a kind.
const KindAttribute = "platform"

// WorkOf returns the kind of work that the job's tasks do, "" where the job does not say.
func WorkOf(s *JobSpec) string { return valueOf(s.Labels, WorkLabel) }

// Kind returns the kind of the host, "" where it does not say.
func (h *Host) Kind() string { return valueOf(h.Attributes, KindAttribute) }

func valueOf(labels []KeyValue, key string) string {
	for _, l := range labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

// Bounds of what is learned: beyond them, what was seen longest ago is forgotten.
const (
	MaxWorks = 4096 // kinds of work
	MaxPairs = 256  // kinds of host and company of one kind of work
	// MemoryRuns is the number of runs after which all counts are halved, so that later runs count more.
	MemoryRuns = 128
	// paceRuns is how many runs of a kind of work it takes until hosts are held to their median.
	paceRuns = 3
)

// Work is what was learned from the successful runs of one kind of work. Immutable; State replaces it.
type Work struct {
	Name  string
	Seen  Time      // when the last run ended
	Times []TimeBin // run times, by Bin
	Peak  Resources // peak of what a run used; a peak that is not reached again falls by a sixteenth of the difference with each run
	Pairs []Pair    `cbor:",omitempty"` // by Kind, then Company
}

// TimeBin counts run times that are about equal.
type TimeBin struct {
	Bin  uint16 // see binOf
	Runs uint32
}

// Pair is what is believed of runs on hosts of a kind, alone or beside others: a run takes the time that it takes alone
// and what each task beside it costs. The beliefs follow each run by a part of what they were wrong by (normalized least
// mean squares: J. Nagumo and A. Noda, IEEE Transactions on Automatic Control 12, 1967), so later runs count more.
type Pair struct {
	Kind    string
	Company string // work of the task beside; "" for runs alone
	Runs    uint32 // that were seen, up to MemoryRuns
	Milli   int64  // milliseconds of a run alone; or what one task of the company adds to them, which may be negative
	Seen    Time   // when the last of the runs ended
}

// Company is a number of tasks of one kind of work beside a run.
type Company struct {
	Work  string
	Tasks uint32
}

// binOf numbers run times: exact below 16 ms, then eight bins for each doubling, so that a bin's middle is within 6.25 % of
// all in it.
func binOf(d time.Duration) uint16 {
	ms := uint64(max(0, d/time.Millisecond))
	if ms < 16 {
		return uint16(ms)
	}
	octave := bits.Len64(ms) - 1 // ≥ 4
	return uint16(octave*8 + int(ms>>(octave-3)&7) - 16)
}

// middle returns the run time in the middle of a bin.
func middle(bin uint16) time.Duration {
	if bin < 16 {
		return time.Duration(bin) * time.Millisecond
	}
	octave := int(bin+16) / 8
	low := uint64(8+(bin+16)%8) << (octave - 3)
	return time.Duration(low+uint64(1)<<(octave-4)) * time.Millisecond
}

// Runs returns how many runs the estimates rest on. Older runs count less.
func (w *Work) Runs() (n uint32) {
	for _, b := range w.Times {
		n += b.Runs
	}
	return n
}

// RunTime returns the run time that the given part of the runs, in thousandths, did not exceed, within 6.25 %; 0 if no run
// was seen. Complexity: O(bins).
func (w *Work) RunTime(permille int) time.Duration {
	rank := (uint64(w.Runs())*uint64(permille) + 999) / 1000
	for _, b := range w.Times {
		if rank <= uint64(b.Runs) {
			return middle(b.Bin)
		}
		rank -= uint64(b.Runs)
	}
	return 0
}

// Pair returns what is known of runs on hosts of a kind in a company, nil for nothing.
func (w *Work) Pair(kind, company string) *Pair {
	if i, ok := w.findPair(kind, company); ok {
		return &w.Pairs[i]
	}
	return nil
}

func (w *Work) findPair(kind, company string) (int, bool) {
	return slices.BinarySearchFunc(w.Pairs, Pair{Kind: kind, Company: company}, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Company, b.Company))
	})
}

// after returns w with one more run.
func (w *Work) after(at Time, took time.Duration, peak Resources, kind string, beside []Company) *Work {
	next := *w
	next.Seen = at
	next.Times = countTime(w.Times, took)
	next.Peak = fade(w.Peak, peak)
	next.Pairs = slices.Clone(w.Pairs)
	next.correct(at, took, kind, beside)
	return &next
}

func countTime(times []TimeBin, took time.Duration) []TimeBin {
	bin := binOf(took)
	i, found := slices.BinarySearchFunc(times, bin, func(b TimeBin, bin uint16) int { return cmp.Compare(b.Bin, bin) })
	times = slices.Clone(times)
	if !found {
		times = slices.Insert(times, i, TimeBin{Bin: bin})
	}
	times[i].Runs++
	all := uint32(0)
	for _, b := range times {
		all += b.Runs
	}
	if all < MemoryRuns {
		return times
	}
	for i := range times {
		times[i].Runs /= 2
	}
	return slices.DeleteFunc(times, func(b TimeBin) bool { return b.Runs == 0 })
}

// fade returns the peak after a run that used at most what is given.
func fade(peak, used Resources) Resources {
	for d := range peak.Fixed {
		was := peak.Fixed[d]
		peak.Fixed[d] = max(used.Fixed[d], was-(was-used.Fixed[d]+15)/16)
	}
	return peak
}

// correct moves what is believed of runs beside such company towards one more run.
func (w *Work) correct(at Time, took time.Duration, kind string, beside []Company) {
	const step = 4 // a quarter of the error
	norm, err := int64(1), min(took.Milliseconds(), maxMilli)
	if alone := w.Pair(kind, ""); alone != nil {
		err -= alone.Milli
		for _, c := range beside {
			n := c.weight()
			norm += n * n
			if p := w.Pair(kind, c.Work); p != nil {
				err -= p.Milli * n
			}
		}
		err /= step * norm
	} else {
		beside = nil // the first run is taken for one alone
	}
	alone := w.touchPair(at, kind, "")
	alone.Milli = min(max(1, alone.Milli+err), maxMilli)
	for _, c := range beside {
		p := w.touchPair(at, kind, c.Work)
		p.Milli = min(max(-maxMilli, p.Milli+err*c.weight()), maxMilli)
	}
}

// maxMilli bounds beliefs at half a year, so that sums of them do not overflow.
const maxMilli = 1 << 34

// weight is the number of tasks, bounded like the beliefs.
func (c Company) weight() int64 { return int64(min(c.Tasks, 64)) }

// touchPair returns the pair, which was seen once more. What was seen longest ago is forgotten for it.
func (w *Work) touchPair(at Time, kind, company string) *Pair {
	i, found := w.findPair(kind, company)
	if !found && len(w.Pairs) >= MaxPairs {
		oldest := 0
		for j := range w.Pairs {
			if w.Pairs[j].Seen < w.Pairs[oldest].Seen {
				oldest = j
			}
		}
		w.Pairs = slices.Delete(w.Pairs, oldest, oldest+1)
		i, _ = w.findPair(kind, company)
	}
	if !found {
		w.Pairs = slices.Insert(w.Pairs, i, Pair{Kind: kind, Company: company})
	}
	p := &w.Pairs[i]
	p.Runs, p.Seen = min(p.Runs+1, MemoryRuns), at
	return p
}

// learn takes a run that has just succeeded into account. The task is still among those of its host.
func (s *State) learn(at Time, t *Task, j *Job, peak Resources) {
	name := WorkOf(j.SpecFor(t))
	if name == "" || t.Started == 0 || at < t.Started { // the clock has been set back
		return
	}
	w := find(s.works, name)
	if w == nil {
		forgetOldest(s.works, MaxWorks, func(w *Work) Time { return w.Seen })
		w = &Work{Name: name}
	}
	var kind string
	var beside []Company
	if h := s.Host(t.Host); h != nil {
		kind, beside = h.Kind(), s.company(h, t.Key)
	}
	if w.Runs() >= paceRuns {
		s.keepPace(t.Host, at.Sub(t.Started), w.RunTime(500))
	}
	s.works.Set(name, w.after(at, at.Sub(t.Started), peak, kind, beside))
	s.lessons++
}

// company counts the other tasks on the host by kind of work, those that do not say theirs left out, by name.
func (s *State) company(h *Host, but TaskKey) []Company {
	var all []Company
	for _, k := range h.Tasks {
		work := WorkOf(s.Job(k.Job()).SpecFor(s.Task(k)))
		if k == but || work == "" {
			continue
		}
		i, found := slices.BinarySearchFunc(all, work, func(c Company, w string) int { return cmp.Compare(c.Work, w) })
		if !found {
			all = slices.Insert(all, i, Company{Work: work})
		}
		all[i].Tasks++
	}
	return all
}
