package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plot is a diagram of lines, each axis linear from 0 or logarithmic.
type plot struct {
	title, xLabel, yLabel string
	logX, logY            bool
	yMax                  float64 // at least this much of the axis is shown
	lines                 []line
}

// line is a sequence of points.
type line struct {
	name   string
	x, y   []float64
	dashed bool
}

const (
	width, height = 820.0, 300.0
	left, right   = 70.0, 190.0
	top, bottom   = 34.0, 44.0
)

var colours = []string{"#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#555555", "#008b8b", "#a0306a"}

// scale maps values between low and high to positions.
type scale struct {
	low, high, from, to float64
	log                 bool
}

func newScale(values []float64, log bool, atLeast, from, to float64) scale {
	s := scale{low: math.Inf(1), high: math.Inf(-1), from: from, to: to, log: log}
	for _, v := range values {
		if !log || v > 0 {
			s.low, s.high = min(s.low, s.of(v)), max(s.high, s.of(v))
		}
	}
	switch {
	case s.low > s.high:
		s.low, s.high = 0, 1
	case log:
		s.low, s.high = math.Floor(s.low), math.Ceil(s.high)
	default:
		s.low, s.high = min(0, s.low), max(s.high, atLeast)
	}
	if s.low == s.high {
		s.high++
	}
	return s
}

func (s scale) of(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

func (s scale) at(v float64) float64 {
	if s.log && v <= 0 {
		return s.from
	}
	return s.from + (s.of(v)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// ticks returns round values on the scale.
func (s scale) ticks() []float64 {
	var out []float64
	if s.log {
		for e := s.low; e <= s.high; e++ {
			out = append(out, math.Pow(10, e))
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10(s.high-s.low)))
	for (s.high-s.low)/step < 4 {
		step /= 2
	}
	for k := math.Ceil(s.low / step); k*step <= s.high*(1+1e-9); k++ {
		out = append(out, k*step)
	}
	return out
}

// svg draws the plot.
func (p *plot) svg() string {
	var b strings.Builder
	high := max(height, top+10+18*float64(len(p.lines))) // so that the names of all lines are in the picture
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, high)
	fmt.Fprintf(&b, `<text x="%.0f" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(p.title))
	var xs, ys []float64
	for _, l := range p.lines {
		xs, ys = append(xs, l.x...), append(ys, l.y...)
	}
	x := newScale(xs, p.logX, 0, left, width-right)
	y := newScale(ys, p.logY, p.yMax, height-bottom, top)
	p.axes(&b, x, y)
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		dash := ""
		if l.dashed {
			dash = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5"%s points="`, colour, dash)
		for k := range l.x {
			fmt.Fprintf(&b, "%.1f,%.1f ", x.at(l.x[k]), y.at(l.y[k]))
		}
		at := top + 10 + 18*float64(i)
		fmt.Fprintf(&b, `"/>`+"\n"+`<path d="M%.1f %.1fh18" stroke="%s" stroke-width="3"%s/><text x="%.1f" y="%.1f">%s</text>`+"\n",
			width-right+12, at, colour, dash, width-right+36, at+4, html.EscapeString(l.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *plot) axes(b *strings.Builder, x, y scale) {
	for _, v := range x.ticks() {
		fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			x.at(v), top, y.from, x.at(v), y.from+16, number(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y.at(v), x.to, left-6, y.at(v)+4, number(v))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (x.from+x.to)/2, height-8, html.EscapeString(p.xLabel))
	fmt.Fprintf(b, `<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(p.yLabel))
}

func number(v float64) string {
	switch {
	case math.Abs(v) >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case math.Abs(v) >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", math.Round(v*1e6)/1e6)
}
