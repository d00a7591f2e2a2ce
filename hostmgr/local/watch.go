//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Bounds of the watcher's patience.
const (
	maxStarts     = 3                     // supervisors that may end before they claim the run
	retryPause    = time.Second           // after an error of the machine, such as no more processes or a full disk
	lookAgain     = 20 * time.Millisecond // until an adopted supervisor that is just starting has recorded the process
	startPatience = 5 * time.Second       // until others start beside a supervisor that hangs, as on a file system that does not answer
)

// watch follows a run to its end: one goroutine, which waits and does not poll. Every round looks at the folder and the
// lock and does the one thing that is next; see the package documentation for why no interleaving breaks it.
func (d *driver) watch(r *run) {
	var tried attempts
	told := "" // of the last error: once is enough, however long the machine is as it is
	for d.ctx.Err() == nil {
		ended, err := d.step(r, &tried)
		if ended {
			return
		}
		if err != nil && d.ctx.Err() == nil {
			if text := err.Error(); text != told {
				d.config.Log.Warn("a run needs another look", "run", r.id, "error", err)
				told = text
			}
			select {
			case <-d.ctx.Done():
			case <-time.After(retryPause):
			}
		}
	}
}

// attempts counts how often a supervisor was started for a run, and remembers the last reason why it could not be.
type attempts struct {
	n   int
	err error
}

// step does what is next for a run and reports whether the run has ended.
func (d *driver) step(r *run, tried *attempts) (ended bool, err error) {
	exit, err := readExit(r.dir)
	if err == nil && exit == nil && d.gone(r) {
		exit, err = d.settleGone(r)
	}
	if err != nil {
		return false, err
	}
	if exit != nil {
		d.report(r, exit.after(r.status))
		if exit.Lacks {
			d.lookForMeans()
		}
		if r.strays {
			d.reportHosts() // others have its ports again
		}
		return true, nil
	}
	holder, err := lockHolder(filepath.Join(r.dir, lockFile))
	if err != nil {
		return false, err
	}
	switch {
	case holder != 0:
		return false, d.follow(r, holder)
	case r.boot != d.boot:
		return false, d.settle(r, supervisorLost("the machine was restarted"))
	case exists(r.dir, startedFile):
		return false, d.settle(r, supervisorLost("the supervisor of the process ended"+lastWords(r.dir)))
	case tried.n == maxStarts && exists(r.dir, killFile):
		return false, d.settle(r, killedBefore)
	case tried.n == maxStarts && tried.err != nil:
		return false, d.settle(r, launchRefused(tried.err))
	case tried.n == maxStarts:
		return false, d.settle(r, launchRefused(errors.New("the supervisor ended before it started the command"+lastWords(r.dir))))
	}
	select {
	case <-r.wanted:
	default:
		select {
		case <-r.wanted:
		case <-d.ctx.Done():
		}
		return false, nil // a late supervisor may have begun it
	}
	if r.secrets != "" && !exists(r.secrets, "") { // the memory that they were in
		return false, d.settle(r, launchRefused(errors.New("its secrets are gone")))
	}
	tried.n++
	tried.err = d.start(r)
	return false, tried.err
}

func supervisorLost(why string) exitRecord {
	return exitRecord{State: cluster.TaskLost, ExitCode: -1, Reason: cluster.ReasonSupervisorLost, Message: why + "; how the run ended is not known"}
}

// start runs a supervisor for a run and follows it to its end.
func (d *driver) start(r *run) error {
	select {
	case d.starting <- struct{}{}:
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	started := sync.OnceFunc(func() { <-d.starting })
	p, ready, err := spawn(r.dir)
	if err != nil {
		started()
		return err
	}
	defer time.AfterFunc(startPatience, started).Stop()
	crashPoint(r.dir, "driver after spawn")
	stop := context.AfterFunc(d.ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	return d.accompany(r, p, func() {
		// The first read ends when the run is being prepared, the second when the task runs or never will; both when the
		// driver closes.
		n, _ := ready.Read(make([]byte, 1))
		started()
		if n > 0 {
			d.preparing(r)
			_, _ = ready.Read(make([]byte, 1))
		}
		stop()
		_ = ready.Close()
	})
}

// follow waits for the end of the supervisor that holds the lock.
func (d *driver) follow(r *run, holder int) error {
	p, err := openProcess(holder)
	if err != nil || p == nil {
		return err
	}
	// The number may have been given away between the two; whoever has the lock now is who is meant.
	if again, err := lockHolder(filepath.Join(r.dir, lockFile)); err != nil || again != holder {
		p.close()
		return err
	}
	return d.accompany(r, p, func() {
		for d.ctx.Err() == nil && !exists(r.dir, runningFile) && !p.hasEnded() {
			if exists(r.dir, startedFile) && r.prepares {
				d.preparing(r)
			}
			time.Sleep(lookAgain)
		}
	})
}

// accompany makes a supervisor the one that is told of kills, reports that the task runs when begun returns, and waits
// for the end of the supervisor.
func (d *driver) accompany(r *run, p *supervised, begun func()) error {
	stop := context.AfterFunc(d.ctx, p.interrupt)
	defer p.close()
	defer stop()
	d.mu.Lock()
	r.supervisor = p
	killed := r.killed
	d.mu.Unlock()
	if killed {
		d.tell(r, p) // the record may be newer than the supervisor's last look
	}
	begun()
	running, err := readRecord[runningRecord](r.dir, runningFile)
	if errors.Is(err, errDamaged) { // it is there, so it runs
		running, err = &runningRecord{At: now()}, nil
	}
	if err == nil && running != nil && r.status.State < cluster.TaskRunning {
		s := r.status
		s.State, s.At = cluster.TaskRunning, max(s.At, running.At)
		d.report(r, s)
	}
	if err == nil {
		err = p.wait()
	}
	d.mu.Lock()
	r.supervisor = nil
	d.mu.Unlock()
	return err
}

// preparing reports that a run is being prepared, once.
func (d *driver) preparing(r *run) {
	if r.status.State == cluster.TaskLaunching {
		s := r.status
		s.State, s.At = cluster.TaskStarting, max(s.At, now())
		d.report(r, s)
	}
}

// lastWords returns the last line that a supervisor has written, as the end of a sentence.
func lastWords(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, errorFile))
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	last := lines[len(lines)-1]
	if err != nil || last == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(last[:min(len(last), 200)], "")
}
