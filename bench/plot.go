package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Plot is a diagram of curves over two logarithmic or one linear and one
// logarithmic axis.
type Plot struct {
	Name   string // of a file
	Title  string
	XLabel string
	YLabel string // the axis is always logarithmic
	LogX   bool
	Curves []Curve
}

// Curve is a sequence of points with positive Y.
type Curve struct {
	Name   string
	X, Y   []float64
	Points bool // mark the points
	Loose  bool // do not join them
	Dashed bool
}

const (
	plotWidth, plotHeight = 760.0, 380.0
	left, right           = 64.0, 190.0
	top, bottom           = 34.0, 46.0
)

var colours = []string{"#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#555555", "#008b8b", "#a0306a"}

// axis maps values to positions.
type axis struct {
	low, high float64 // logarithms if log
	log       bool
	from, to  float64
}

func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), log: log, from: from, to: to}
	for _, v := range values {
		if !log || v > 0 {
			a.low, a.high = math.Min(a.low, a.scale(v)), math.Max(a.high, a.scale(v))
		}
	}
	if a.low > a.high {
		a.low, a.high = 0, 1
	}
	if log {
		a.low, a.high = math.Floor(a.low), math.Ceil(a.high)
	}
	if a.low == a.high {
		a.high++
	}
	return a
}

func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

func (a axis) at(v float64) float64 {
	return a.from + (a.scale(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks returns round values inside the axis.
func (a axis) ticks() []float64 {
	var t []float64
	if a.log {
		for e := a.low; e <= a.high; e++ {
			t = append(t, math.Pow(10, e))
		}
		return t
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high-a.low)))
	for (a.high-a.low)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high+step/1e6; v += step {
		t = append(t, v)
	}
	return t
}

// WriteSVG writes the plot as a file of its own.
func (p *Plot) WriteSVG(w io.Writer) error {
	if _, err := io.WriteString(w, p.svg()); err != nil {
		return fmt.Errorf("bench: plot: %w", err)
	}
	return nil
}

func (p *Plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight, plotWidth)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%.0f" y="20" font-size="14" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(p.Title))
	var xs, ys []float64
	for _, c := range p.Curves {
		xs, ys = append(xs, c.X...), append(ys, c.Y...)
	}
	log := p.LogX && !slices.ContainsFunc(xs, func(v float64) bool { return v <= 0 }) // 0 would be infinitely far away
	x := newAxis(xs, log, left, plotWidth-right)
	y := newAxis(ys, true, plotHeight-bottom, top)
	p.drawAxes(&b, x, y)
	for i, c := range p.Curves {
		drawCurve(&b, c, x, y, colours[i%len(colours)])
		drawLegend(&b, c, i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *Plot) drawAxes(b *strings.Builder, x, y axis) {
	for _, v := range x.ticks() {
		at := x.at(v)
		fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", at, top, y.from, at, y.from+16, tick(v))
	}
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", left, at, x.to, left-6, at+4, tick(v))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (x.from+x.to)/2, plotHeight-10, html.EscapeString(p.XLabel))
	fmt.Fprintf(b, `<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (y.from+y.to)/2, html.EscapeString(p.YLabel))
}

func drawCurve(b *strings.Builder, c Curve, x, y axis, colour string) {
	if c.Points {
		drawPoints(b, c, x, y, colour)
	}
	if c.Loose {
		return
	}
	dash := ""
	if c.Dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5"%s points="`, colour, dash)
	for i := range c.X {
		if c.Y[i] > 0 {
			fmt.Fprintf(b, "%.1f,%.1f ", x.at(c.X[i]), y.at(c.Y[i]))
		}
	}
	b.WriteString("\"/>\n")
}

func drawPoints(b *strings.Builder, c Curve, x, y axis, colour string) {
	for i := range c.X {
		if c.Y[i] > 0 {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x.at(c.X[i]), y.at(c.Y[i]), colour)
		}
	}
}

func drawLegend(b *strings.Builder, c Curve, i int) {
	at, x := top+10+18*float64(i), plotWidth-right+12
	fmt.Fprintf(b, `<path d="M%.1f %.1fh18" stroke="%s" stroke-width="3"/><text x="%.1f" y="%.1f">%s</text>`+"\n",
		x, at, colours[i%len(colours)], x+24, at+4, html.EscapeString(c.Name))
}

func tick(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", math.Round(v*1e6)/1e6)
}
