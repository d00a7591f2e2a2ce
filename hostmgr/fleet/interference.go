package fleet

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Pair is work, and work of a run that runs on the same host.
type Pair struct{ Work, Beside string }

// Interference says how much longer work takes in company: for each run of Beside on its host so many thousandths of the time
// that it takes alone, which add up. A pair that is not in it does nothing. It is not modified.
type Interference map[Pair]int64

// maxExtra bounds what one run does to another.
const maxExtra = 1_000_000

func (i Interference) validate() error {
	var wrong []string
	for p, extra := range i {
		if extra < 0 || extra > maxExtra {
			wrong = append(wrong, fmt.Sprintf("%q beside %q takes %d thousandths longer", p.Work, p.Beside, extra))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("fleet: interference is from 0 to %d thousandths: %s", maxExtra, strings.Join(wrong, "; "))
}

// join counts a run that begins to run among the company on its host. Complexity: the runs there.
func (f *Fleet) join(r *run) {
	if len(f.config.Interference) == 0 {
		return
	}
	for _, other := range r.host.running {
		r.extra += f.config.Interference[Pair{r.plan.Work, other.plan.Work}]
		f.press(other, f.config.Interference[Pair{other.plan.Work, r.plan.Work}])
	}
	r.host.running = append(r.host.running, r)
}

// part takes a run that has ended out of the company on its host. Complexity: the runs there.
func (f *Fleet) part(r *run) {
	i := slices.Index(r.host.running, r)
	if i < 0 {
		return
	}
	r.host.running = slices.Delete(r.host.running, i, i+1)
	for _, other := range r.host.running {
		f.press(other, -f.config.Interference[Pair{other.plan.Work, r.plan.Work}])
	}
}

// press has a run take so many more thousandths of its time from now on. What it has done is done.
func (f *Fleet) press(r *run, more int64) {
	if more == 0 {
		return
	}
	now := f.clock.Now()
	r.left -= time.Duration(math.Round(float64(now.Sub(r.paced)) * r.pace()))
	r.paced = now
	r.extra += more
	r.cancel()
	f.goOn(r)
}

// goOn schedules the end of a run, in the company that it has now.
func (f *Fleet) goOn(r *run) {
	if r.plan.Duration == Forever {
		return
	}
	lasts := r.left
	if r.extra > 0 {
		lasts = time.Duration(min(math.Round(float64(r.left)/r.pace()), math.MaxInt64/2))
	}
	f.later(r, lasts, func() { f.finish(r) })
}

// pace is how fast the run gets on, as a part of how fast it does alone.
func (r *run) pace() float64 { return 1000 / float64(1000+r.extra) }
