package bench

import (
	"slices"
	"time"
)

// Summary describes a sample. Times are in milliseconds.
type Summary struct {
	Count  int     `json:"count"`
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
}

// Summarize returns the summary of values, zero if there are none. Quantiles
// are by nearest rank: the p99 of up to 99 values is their maximum.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := func(percent int) float64 { return sorted[(percent*len(sorted)+99)/100-1] }
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return Summary{
		Count: len(sorted), Min: sorted[0], Median: rank(50), P99: rank(99),
		Max: sorted[len(sorted)-1], Mean: sum / float64(len(sorted)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
