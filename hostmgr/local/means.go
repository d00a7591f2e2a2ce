//go:build linux

package local

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// A machine that cannot record or start launches takes no more of them: its hosts are reported with what their runs have and no room. They
// would draw the same launches again and again, for being empty, while other machines have room. What is kept of ended runs gives way first.

const (
	meansBytes    = 256 << 10       // that it has to be possible to write
	meansInterval = 2 * time.Second // between two looks whether that is so again
	// recordPatience is how long it may take to record a launch. What takes longer is not given back, as it may be recorded yet.
	recordPatience = 10 * time.Second
	hangs          = "the disk does not answer"
)

// means returns why nothing can be recorded, or no supervisor started, nil if both are possible.
func (d *driver) means() error {
	if err := unix.Access(d.state.run(""), unix.W_OK|unix.X_OK); err != nil {
		return err
	}
	dir := d.state.temp("means-" + rand.Text())
	defer func() { _ = os.RemoveAll(dir) }() // which takes no file where nothing could be written
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, exitFile), make([]byte, meansBytes), synced); err != nil {
		return err
	}
	p, ready, err := spawn(dir) // it finds that the run has ended
	if err != nil {
		return err
	}
	defer p.close()
	return errors.Join(p.wait(), ready.Close())
}

// shortage returns why nothing can be recorded or started, 0 if it can: whatever it is, no task is to blame.
func (d *driver) shortage() (why syscall.Errno) {
	errors.As(d.means(), &why)
	return why
}

// lookForMeans has it looked at soon.
func (d *driver) lookForMeans() {
	select {
	case d.failing <- struct{}{}:
	default:
	}
}

// timed records a launch, and has it known meanwhile if that takes too long.
func (d *driver) timed(r *run, l hostmgr.Launch) error {
	timer := time.AfterFunc(d.patience, func() {
		select {
		case d.hanging <- struct{}{}:
		default:
		}
	})
	err := d.record(r, l)
	if !timer.Stop() {
		d.lookForMeans()
	}
	return err
}

// watchMeans looks whether launches can be recorded and started when one could not be, and until they can again.
func (d *driver) watchMeans() {
	tick := time.NewTicker(meansInterval)
	defer tick.Stop()
	before := ""
	for {
		failed, lacks := false, ""
		select {
		case <-d.ctx.Done():
			return
		case <-d.failing:
			failed = true
		case <-d.hanging: // to look would hang, too
			lacks = hangs
		case <-tick.C:
		}
		if failed || lacks != "" || before != "" {
			if lacks == "" {
				why := d.shortage()
				for (why == unix.ENOSPC || why == unix.EDQUOT) && d.thin() {
					why = d.shortage()
				}
				if why != 0 {
					lacks = why.Error()
				}
			}
			d.mu.Lock()
			d.lacks = lacks
			d.mu.Unlock()
			switch {
			case before == "" && lacks != "":
				d.config.Log.Error("this machine takes no new tasks", "reason", lacks)
			case before != "" && lacks == "":
				d.config.Log.Info("this machine takes tasks again")
			}
			before = lacks
			d.reportHosts()
		}
	}
}

// reportHosts reports the hosts as they are now.
func (d *driver) reportHosts() {
	d.presenting.Lock()
	defer d.presenting.Unlock()
	hosts := d.present()
	d.reporting.RLock()
	defer d.reporting.RUnlock()
	if d.sink != nil {
		d.sink.ReportHosts(hosts)
	}
}

// present returns the hosts, with no room if nothing can be recorded.
func (d *driver) present() []hostmgr.Host {
	d.mu.Lock()
	defer d.mu.Unlock()
	hosts := slices.Clone(d.machines)
	if d.lacks == "" {
		d.keepPorts(hosts)
		return hosts
	}
	at := map[string]*hostmgr.Host{}
	for i := range hosts {
		h := &hosts[i]
		h.Capacity, h.Ports = cluster.Resources{}, nil
		h.Notes = append(slices.Clone(h.Notes), "no new tasks: "+d.lacks)
		at[h.Name] = h
	}
	for _, r := range d.runs {
		h := at[r.host]
		if h == nil || r.status.State.Terminal() {
			continue
		}
		h.Capacity = h.Capacity.Add(r.asks)
		for _, port := range r.ports {
			h.Ports = append(h.Ports, cluster.PortRange{First: port, Last: port})
		}
	}
	for i := range hosts {
		slices.SortFunc(hosts[i].Ports, func(a, b cluster.PortRange) int { return cmp.Compare(a.First, b.First) })
	}
	return hosts
}
