//go:build linux

package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
)

// probe is one health check at work.
type probe struct {
	cluster.HealthCheck
	rec     *processRecord // of the process that is checked
	argv    []string       // of a command
	port    uint16         // of the others
	health  cluster.Health // Unhealthy, HealthReady, or unknown before it is decided
	message string         // of the last failure
	row     uint32         // results of the same kind, one after the other
	went    bool           // how the last of them went
}

// scratchInterval is how often the size of scratch folders is looked at.
const scratchInterval = 10 * time.Second

// beginChecks starts the checks of all processes, and watches what scratch folders hold.
func (s *supervisor) beginChecks() {
	l := &s.launch.Launch
	for i := range l.Task.Processes {
		for _, c := range l.Task.Processes[i].Checks {
			p := &probe{HealthCheck: c, rec: &s.launch.Processes[i]}
			p.argv = l.Expand(c.Command, s.launch.Address)
			ref := c.TCP
			if c.HTTP != nil {
				ref = &c.HTTP.Port
			}
			if ref != nil {
				p.port, _ = l.Task.Ports.Resolve(*ref, l.Ports) // was checked with the task
			}
			s.checks = append(s.checks, p)
			s.after(c.Delay, func() { s.probe(p) })
		}
	}
	for _, v := range s.launch.Volumes {
		if v.Limit > 0 {
			s.after(scratchInterval, func() { s.measureScratch(v) })
		}
	}
}

// after lets the supervisor's goroutine run f later.
func (s *supervisor) after(d time.Duration, f func()) { time.AfterFunc(d, func() { s.post(f) }) }

// endChecks stops the checks: what they are still about to find out does not matter.
func (s *supervisor) endChecks() {
	s.checks = nil
	for pid, c := range s.live {
		if c.then != nil {
			signalGroup(pid, unix.SIGKILL)
		}
	}
}

// probe begins one check.
func (s *supervisor) probe(p *probe) {
	switch {
	case s.checks == nil || s.killed || s.failure != nil:
	case len(p.argv) > 0:
		s.probeCommand(p)
	default:
		go func() {
			err := p.look(s.launch.Address)
			s.post(func() { s.result(p, err) })
		}()
	}
}

// probeCommand runs the command as the process that it checks is run.
func (s *supervisor) probeCommand(p *probe) {
	rec := *p.rec
	rec.Argv, rec.Main = p.argv, false
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		s.result(p, err)
		return
	}
	defer closeQuietly(null)
	c, err := s.start(&rec, []uintptr{null.Fd(), null.Fd()})
	if err != nil {
		s.result(p, err)
		return
	}
	late := false
	c.then = func(status syscall.WaitStatus) {
		switch {
		case late:
			s.result(p, fmt.Errorf("it took longer than %v", p.Timeout))
		case status.Exited() && status.ExitStatus() == 0:
			s.result(p, nil)
		default:
			s.result(p, fmt.Errorf("it %s", words(status)))
		}
	}
	s.after(p.Timeout, func() {
		if !c.ended {
			late = true
			signalGroup(c.pid, unix.SIGKILL)
		}
	})
}

// look connects to the port, and asks over HTTP if that is the check.
func (p *probe) look(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	at := net.JoinHostPort(address, strconv.Itoa(int(p.port)))
	if p.HTTP == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cmp.Or(p.HTTP.Scheme, "http")+"://"+at+cmp.Or(p.HTTP.Path, "/"), nil)
	if err != nil {
		return err
	}
	for _, h := range p.HTTP.Headers {
		if request.Header.Set(h.Key, h.Value); http.CanonicalHeaderKey(h.Key) == "Host" {
			request.Host = h.Value
		}
	}
	answer, err := prober.Do(request)
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // some servers complain if nobody reads
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	return nil
}

// prober asks the task itself, on this machine: it needs no proxy, keeps no connection open, follows nothing, and does
// not ask who signed the certificate.
var prober = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// result takes in how a check went and plans the next. While the task ends because of a kill, which reaches a check that is at work,
// it says nothing of the task.
func (s *supervisor) result(p *probe, err error) {
	if s.checks == nil || s.killed {
		return
	}
	if trouble(err) != 0 { // the machine cannot look: that says nothing of the task
		s.after(p.Interval, func() { s.probe(p) })
		return
	}
	if went := err == nil; went != p.went || p.row == 0 {
		p.went, p.row = went, 0
	}
	p.row++
	switch {
	case err == nil && (p.health == cluster.HealthUnknown || p.row >= p.Successes):
		p.health, p.message = cluster.HealthReady, ""
	case err != nil && p.row >= p.Failures:
		p.health = cluster.Unhealthy
		p.message = fmt.Sprintf("%d checks in a row have failed, the last one: %v", p.row, err)
		if p.rec.Name != "" {
			p.message = fmt.Sprintf("process %q: %s", p.rec.Name, p.message)
		}
	}
	s.conclude()
	s.after(p.Interval, func() { s.probe(p) })
}

// conclude makes the health of the task out of that of its checks, records a change, and ends a task that is not alive. Whether
// it is fit to serve is known when that is known of all checks that say so, however late others begin.
func (s *supervisor) conclude() {
	health, message, open := cluster.HealthUnknown, "", false
	for _, p := range s.checks {
		switch {
		case p.health == cluster.HealthUnknown:
			open = open || p.Effect != cluster.Liveness
		case p.health == cluster.HealthReady:
			health = max(health, cluster.HealthReady)
		case p.Effect == cluster.Readiness && health != cluster.Unhealthy:
			health, message = cluster.HealthUnready, p.message
		case p.Effect != cluster.Readiness:
			health, message = cluster.Unhealthy, p.message
		}
	}
	if health == cluster.HealthUnknown || health == cluster.HealthReady && open || health == s.health.Health {
		return
	}
	told := healthRecord{health, message, now()}
	if err := writeRecord(s.dir, healthFile, told, unsynced); err != nil {
		fmt.Fprintln(os.Stderr, err) // written with the next result
	} else {
		s.health = told
	}
	if health == cluster.Unhealthy {
		s.fail(cluster.ReasonUnhealthy, message)
	}
}

// measureScratch ends a task whose scratch folder holds more than it asked for.
func (s *supervisor) measureScratch(v volumeRecord) {
	go func() {
		bytes := size(v.Source)
		s.post(func() {
			if bytes > v.Limit {
				s.fail(cluster.ReasonScratchFull, fmt.Sprintf("the scratch folder holds %d bytes, it asked for %d", bytes, v.Limit))
				return
			}
			s.after(scratchInterval, func() { s.measureScratch(v) })
		})
	}()
}
