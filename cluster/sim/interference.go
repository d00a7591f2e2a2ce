package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/hostmgr/fleet"
)

// ParseInterference reads "sort+scan=1.5,sort+sort=2": for a kind of work, and a kind beside it, how many times as long the first
// takes beside one task of the second, to the thousandth. "" is none.
func ParseInterference(text string) (fleet.Interference, error) {
	if text == "" {
		return nil, nil
	}
	all := fleet.Interference{}
	for item := range strings.SplitSeq(text, ",") {
		works, times, _ := strings.Cut(strings.TrimSpace(item), "=")
		work, beside, _ := strings.Cut(works, "+")
		pair := fleet.Pair{Work: work, Beside: beside}
		factor, err := strconv.ParseFloat(times, 64)
		switch _, twice := all[pair]; {
		case work == "" || beside == "" || strings.Contains(beside, "+"):
			return nil, fmt.Errorf("%q does not name two kinds of work; give WORK+BESIDE=FACTOR, as in sort+scan=1.5", item)
		case err != nil || !(factor >= 1 && factor <= 1000):
			return nil, fmt.Errorf("%q: %q is not how many times as long %s takes beside %s; give a number from 1 to 1000, as in %s=1.5",
				item, times, work, beside, works)
		case twice:
			return nil, fmt.Errorf("%q: %s is there twice; give it once", item, works)
		}
		all[pair] = int64(math.Round((factor - 1) * 1000))
	}
	return all, nil
}
