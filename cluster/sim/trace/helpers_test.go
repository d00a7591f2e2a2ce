package trace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
)

// sample is a small file of each kind that can be read.
type sample struct {
	format string
	hosts  bool // a machine list, not jobs
	file   string
}

var samples = []sample{
	{"alibaba-2017", true, "alibaba-2017.csv"},
	{"alibaba-2017", false, "alibaba-2017-tasks.csv"},
	{"alibaba-2018", true, "alibaba-2018.csv"},
	{"alibaba-2018", false, "alibaba-2018-tasks.csv"},
	{"azure-vm", false, "azure-vms.csv"},
	{"batch-jobs", false, "batch-jobs.csv"},
	{"bytedance-services", true, "services.json"},
	{"bytedance-services", false, "services.json"},
	{"coflow", false, "coflows.txt"},
	{"csv", true, "hosts.csv"},
	{"csv", false, "jobs.csv"},
	{"dlrm", false, "dlrm.csv"},
	{"google-2011", true, "google-machines.csv"},
	{"google-2011", true, "google-machine-events.csv"},
	{"google-2011", false, "google-subtrace.tr"},
	{"google-2011-events", false, "google-events.csv"},
	{"google-2011-events", false, "google-task-events.csv"},
	{"google-2019", true, "google-2019-machines.json"},
	{"google-2019", false, "google-2019-instances.json"},
	{"google-2019", false, "google-2019-collections.json"},
	{"helios", true, "helios.csv"},
	{"helios", false, "helios-jobs.csv"},
	{"openb", true, "openb-nodes.csv"},
	{"openb", false, "openb-pods.csv"},
	{"openb", false, "openb-pods-untimed.csv"},
	{"pai-2020", true, "pai.csv"},
	{"pai-2020", false, "pai-tasks.csv"},
	{"philly", true, "philly-machines.csv"},
	{"philly", true, "philly-machine-list.csv"},
	{"philly", false, "philly-jobs.csv"},
	{"philly", false, "philly-log.json"},
	{"spot-2026", true, "spot.csv"},
	{"spot-2026", false, "spot-jobs.csv"},
	{"swf", true, "log.swf"},
	{"swf", false, "log.swf"},
	{"swim", false, "swim.tsv"},
}

func (s sample) text(t testing.TB) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", s.file))
	require.NoError(t, err)
	return text
}

// testFleet are the hosts that jobs in tests can have data on.
func testFleet(t testing.TB) []Host {
	hosts, err := Fleet{Hosts: 9, HostsPerRack: 3}.build()
	require.NoError(t, err)
	return hosts
}

// read reads a text as the sample's format does, and renders what it says, one line for each host and job.
func (s sample) read(t testing.TB, text io.Reader) (string, error) {
	f, err := lookup(s.format)
	require.NoError(t, err)
	var out strings.Builder
	if s.hosts {
		hosts, err := f.hosts(s.file, text)
		if err == nil {
			hosts, err = finishHosts(s.file, hosts)
		}
		for i := range hosts {
			fmt.Fprintln(&out, renderHost(&hosts[i]))
		}
		return out.String(), err
	}
	fleet := testFleet(t)
	list, err := f.jobs(s.file, text, jobOptions{hosts: fleet, seed: 1})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&out, "arrivals %t, departures %t\n", list.arrivals, list.departures)
	v := validator{hosts: fleet}
	for {
		j, err := list.Next()
		if err == io.EOF {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		require.NoError(t, v.check(j))
		fmt.Fprintln(&out, renderJob(j))
	}
}

func renderHost(h *Host) string {
	var models []string
	for _, g := range h.GPUs {
		models = append(models, g.Model)
	}
	return fmt.Sprintf("%s rack=%s zone=%s attributes=%v %v gpus=%q", h.Name, h.Rack, h.Zone, h.Attributes, h.Capacity, models)
}

func renderJob(j *Job) string {
	s := &j.Spec
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s %v pool=%s priority=%d preemptible=%t owner=%q labels=%v x%d gang=%d %v gpu=%d/%d/%q for %v",
		j.Submit, s.Name, s.Type, s.Pool, s.Priority, s.Preemptible, s.Owner, s.Labels, s.Instances, coreOf(j),
		s.Task.Resources, s.Task.GPU.Count, s.Task.GPU.Milli, s.Task.GPU.Models, j.Durations)
	if s.Constraint != nil {
		fmt.Fprintf(&b, " on %v", s.Constraint)
	}
	for _, i := range s.Inputs {
		fmt.Fprintf(&b, "\n  %d-%d reads %d of %s on %v in %v", i.First, i.Last, i.Bytes, i.Name, i.Hosts, i.Racks)
	}
	return b.String()
}

// validator checks what Source and Job promise.
type validator struct {
	hosts []Host
	last  time.Duration
	names map[cluster.JobID]bool
	pools map[cluster.PoolPath]bool
}

func (v *validator) check(j *Job) error {
	if v.names == nil {
		v.names, v.pools = make(map[cluster.JobID]bool), make(map[cluster.PoolPath]bool)
	}
	s := &j.Spec
	v.pools[s.Pool] = true
	err := errors.Join(
		holds(isJobName(string(s.Name)) && !v.names[s.Name], "name %q", s.Name),
		holds(j.Submit >= v.last, "submission at %v after %v", j.Submit, v.last),
		holds(s.Instances >= 1 && s.Instances <= cluster.MaxInstances, "%d instances", s.Instances),
		holds(len(j.Durations) == 1 || len(j.Durations) == int(s.Instances), "%d durations", len(j.Durations)),
		holds(coreOf(j) <= s.Instances, "gang of %d", coreOf(j)),
		holds(s.Priority >= 0 && s.Priority <= cluster.MaxPriority, "priority %d", s.Priority),
		holds(len(s.Task.Processes) == 1 && len(s.Task.Processes[0].Command) > 0, "no command"),
		holds(s.Task.Resources.Fixed[cluster.GPU] == s.Task.GPU.Amount(), "gpu amount"),
		holds(s.Task.GPU.Count == 0 || s.Task.GPU.Milli == 0, "whole and shared gpus"),
		holds(strings.HasPrefix(string(s.Pool), "root/"), "pool %q", s.Pool),
	)
	for above := s.Pool.Parent(); above != ""; above = above.Parent() {
		err = errors.Join(err, holds(!v.pools[above], "pool %q is above another", above))
	}
	for _, a := range s.Task.Resources.Fixed {
		err = errors.Join(err, holds(a >= 0 && a <= maxAmount, "amount %d", a))
	}
	for _, d := range j.Durations {
		err = errors.Join(err, holds(d >= 0, "duration %v", d))
	}
	for _, in := range s.Inputs {
		err = errors.Join(err, v.checkInput(s, in))
	}
	v.last, v.names[s.Name] = j.Submit, true
	return err
}

func (v *validator) checkInput(s *cluster.JobSpec, in cluster.Input) error {
	racks := make(map[string]bool)
	for _, h := range v.hosts {
		racks[h.Rack] = true
	}
	err := holds(in.First <= in.Last && in.Last < s.Instances && in.Bytes >= 0 && len(in.Racks) > 0, "input %+v", in)
	for _, r := range in.Racks {
		err = errors.Join(err, holds(racks[r], "rack %q", r))
	}
	for i, id := range in.Hosts {
		known := false
		for k := range v.hosts {
			known = known || v.hosts[k].ID() == id
		}
		err = errors.Join(err, holds(known && (i == 0 || in.Hosts[i-1] < id), "hosts of input %v", in.Hosts))
	}
	return err
}

func holds(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// coreOf returns how many instances are of use only together.
func coreOf(j *Job) uint32 {
	if j.Spec.Gang == nil {
		return 1
	}
	return j.Spec.Gang.Minimum
}

// collect reads a source to its end.
func collect(s Source) ([]*Job, error) {
	var jobs []*Job
	for {
		j, err := s.Next()
		if err != nil {
			return jobs, endOf(err)
		}
		jobs = append(jobs, j)
	}
}

// fromSlice yields copies of jobs.
func fromSlice(jobs []*Job) *listed { return fromList(keepCopies(jobs)) }

func keepCopies(jobs []*Job) []*kept {
	var out []*kept
	k := make(keeper)
	for _, j := range clone(jobs) {
		out = append(out, k.keep(j))
	}
	return out
}
