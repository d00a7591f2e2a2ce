package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// progress shows one line that changes: rewritten on a terminal, else printed anew at most once a second. It is safe for concurrent
// use.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	width    func() int // of the terminal; 0: not known
	last     string
	held     string // not printed yet
	printed  time.Time
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, terminal: isTerminal(w), width: func() int { return widthOf(w) }}
}

func (p *progress) show(line string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case line == p.last:
		p.held = ""
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", fit(line, p.width()))
		p.last = line
	case now.Sub(p.printed) < time.Second:
		p.held = line
	default:
		fmt.Fprintln(p.w, line)
		p.last, p.held, p.printed = line, "", now
	}
}

// keep prints lines that came too soon when their second is over, also if no other comes, until stop is called.
func (p *progress) keep() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				p.flush(now)
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (p *progress) flush(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != "" && now.Sub(p.printed) >= time.Second {
		fmt.Fprintln(p.w, p.held)
		p.last, p.held, p.printed = p.held, "", now
	}
}

// fit cuts off the beginning of a line that would go on in the next row, which is not rewritten: the end of it is what changes.
func fit(line string, width int) string {
	runes := []rune(line)
	if width < 2 || len(runes) < width {
		return line
	}
	return "…" + string(runes[len(runes)-width+2:])
}

// end leaves the last line standing.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

func (p *progress) leave() {
	switch {
	case p.held != "":
		fmt.Fprintln(p.w, p.held)
	case p.terminal && p.last != "":
		fmt.Fprintln(p.w)
	}
	p.last, p.held = "", ""
}

// Write implements [io.Writer] for what is said meanwhile: it gets lines of its own.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
	return p.w.Write(text)
}

// progressLine sums up what is left to wait for.
func progressLine(jobs []*sluicev1.Job) string {
	var total, waiting, running, succeeded, failed, killed uint32
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.GetName()
		total += j.GetSpec().GetInstances()
		for _, c := range j.GetTaskCounts() {
			if j.GetSpec().GetType() == sluicev1.JobType_JOB_TYPE_DAEMON { // which says no number
				total += c.GetCount()
			}
			switch s := c.GetState(); {
			case s == sluicev1.TaskState_TASK_STATE_SUCCEEDED:
				succeeded += c.GetCount()
			case s == sluicev1.TaskState_TASK_STATE_FAILED, s == sluicev1.TaskState_TASK_STATE_LOST:
				failed += c.GetCount()
			case s == sluicev1.TaskState_TASK_STATE_KILLED:
				killed += c.GetCount()
			case s < sluicev1.TaskState_TASK_STATE_PLACED:
				waiting += c.GetCount()
			default:
				running += c.GetCount()
			}
		}
	}
	what := "job " + strings.Join(names, ", ")
	if len(names) > 3 {
		what = fmt.Sprintf("%d jobs", len(names))
	}
	line := fmt.Sprintf("%s: %d of %d tasks succeeded, %d running, %d waiting, %d failed", what, succeeded, total, running, waiting, failed)
	if killed > 0 {
		line += fmt.Sprintf(", %d killed", killed)
	}
	return line
}
