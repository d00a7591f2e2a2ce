package sim

import "time"

// maxPoints bounds a series.
const maxPoints = 512

// series holds the averages over time of a few values that change in steps, in at most maxPoints intervals of one width.
// When they are full, the width doubles and neighbours merge.
type series struct {
	width time.Duration
	names []string
	sums  [][]float64 // by interval: ∫ value dt, in seconds
	last  time.Duration
	value []float64 // since last
}

func newSeries(names ...string) *series {
	return &series{width: time.Second, names: names, value: make([]float64, len(names))}
}

// advance accounts for the present values up to the time now.
func (s *series) advance(now time.Duration) {
	for s.last < now {
		i := int(s.last / s.width)
		for i >= maxPoints {
			s.halve()
			i = int(s.last / s.width)
		}
		for len(s.sums) <= i {
			s.sums = append(s.sums, make([]float64, len(s.names)))
		}
		end := now
		if left := s.width - s.last%s.width; left < now-s.last {
			end = s.last + left
		}
		for k, v := range s.value {
			s.sums[i][k] += v * (end - s.last).Seconds()
		}
		s.last = end
	}
}

// skip doubles the width until now is within reach, so that advance takes few steps over a long time.
func (s *series) skip(now time.Duration) {
	for now/s.width >= maxPoints {
		s.halve()
	}
}

func (s *series) halve() {
	s.width *= 2
	for i := 0; i < len(s.sums); i += 2 {
		merged := s.sums[i]
		if i+1 < len(s.sums) {
			for k, v := range s.sums[i+1] {
				merged[k] += v
			}
		}
		s.sums[i/2] = merged
	}
	s.sums = s.sums[:(len(s.sums)+1)/2]
}

// set changes a value from now on.
func (s *series) set(k int, now time.Duration, v float64) {
	s.skip(now)
	s.advance(now)
	s.value[k] = v
}

// mean returns the average of a value over all of the time.
func (s *series) mean(k int) float64 {
	sum := 0.0
	for _, x := range s.sums {
		sum += x[k]
	}
	if s.last == 0 {
		return s.value[k]
	}
	return sum / s.last.Seconds()
}

// Series is how values went over time: point i is the average from i·IntervalSeconds on, for as long.
type Series struct {
	IntervalSeconds float64              `json:"interval_seconds"`
	Values          map[string][]float64 `json:"values"`
}

func (s *series) export() Series {
	out := Series{IntervalSeconds: s.width.Seconds(), Values: map[string][]float64{}}
	for k, name := range s.names {
		points := make([]float64, len(s.sums))
		for i, x := range s.sums {
			length := min(s.width, s.last-time.Duration(i)*s.width)
			points[i] = x[k] / length.Seconds()
		}
		out.Values[name] = points
	}
	return out
}
