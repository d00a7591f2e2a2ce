package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-scheduler/sluice/cluster"
)

// Format is a kind of files that a workload can be read from. docs/traces.md describes each of them.
type Format struct {
	Name string
	Doc  string // one line for people

	// Fleet is what stands in for hosts that the format does not record. Its machines have room for the format's jobs.
	Fleet Fleet

	hosts   func(name string, r io.Reader) ([]Host, error) // nil: there are no machine lists
	jobs    func(name string, r io.Reader, o jobOptions) (*jobList, error)
	oneFile bool // a file of jobs says what the hosts are
}

// jobOptions is what readers of jobs need besides the file.
type jobOptions struct {
	hosts      []Host
	seed       uint64
	blockBytes int64
}

// jobList is a Source and what its file records.
type jobList struct {
	Source
	arrivals, departures bool
	begun                bool // arrivals count from a beginning that the file chooses, and not from the first one
	leftOut              *int // rows that record no job to replay, as far as it is read; nil: the format has none
}

// Formats lists the known formats by name.
var Formats = []Format{
	{
		Name: "alibaba-2017", Doc: "Alibaba's cluster-trace-v2017: machines; batch tasks", Fleet: alibaba2017Fleet,
		hosts: readAlibaba2017, jobs: openAlibaba2017,
	},
	{
		Name: "alibaba-2018", Doc: "Alibaba's cluster-trace-v2018: machines with failure domains; batch tasks", Fleet: alibaba2018Fleet,
		hosts: readAlibaba2018, jobs: openAlibaba2018,
	},
	{
		Name: "azure-vm", Doc: "VMs of Azure's public dataset, of 2017 or 2019: lifetimes, cores and memory", Fleet: azureFleet,
		jobs: openAzure,
	},
	{Name: "batch-jobs", Doc: "batch tasks of many instances, as CloudSimPy ships them", Fleet: batchFleet, jobs: openBatchJobs},
	{
		Name: "bytedance-services", Doc: "services and machines of a microservice cluster (JSON)",
		hosts: readServiceHosts, jobs: openServices, oneFile: true,
	},
	{Name: "coflow", Doc: "coflow-benchmark lists: shuffles between racks", Fleet: hadoopFleet, jobs: openCoflow},
	{Name: "csv", Doc: "Sluice's own tables of jobs and hosts", Fleet: csvFleet, hosts: readCSVHosts, jobs: openCSV},
	{Name: "dlrm", Doc: "inference instances of Alibaba's cluster-trace-gpu-v2025", Fleet: dlrmFleet, jobs: openDLRM},
	{
		Name: "google-2011", Doc: "clusterdata-2011-2: machines; jobs with task durations (Hawk/Eagle form)",
		hosts: readGoogleMachines, jobs: openGoogleSubtrace,
	},
	{
		Name: "google-2011-events", Doc: "clusterdata-2011-2: machines; jobs from task_events or job_events",
		hosts: readGoogleMachines, jobs: openGoogleEvents,
	},
	{
		Name: "google-2019", Doc: "clusterdata-2019: machines; jobs from instance_events or collection_events (JSON lines)",
		Fleet: Fleet{CPUMilli: googleCPUMilli, MemoryBytes: googleMemory}, hosts: readBorgMachines, jobs: openBorg,
	},
	{
		Name: "helios", Doc: "SenseTime Helios: GPUs by day; gangs of nodes by virtual cluster",
		Fleet: heliosFleet, hosts: readHeliosHosts, jobs: openHelios,
	},
	{Name: "openb", Doc: "Alibaba's cluster-trace-gpu-v2023: nodes and pods with parts of GPUs", hosts: readOpenbNodes, jobs: openOpenb},
	{
		Name: "pai-2020", Doc: "Alibaba's cluster-trace-gpu-v2020: machines; gangs with parts of GPUs",
		hosts: readPAIMachines, jobs: openPAI,
	},
	{
		Name: "philly", Doc: "Microsoft Philly: gangs of GPUs by virtual cluster (JSON or CSV); machine lists",
		Fleet: phillyFleet, hosts: readPhillyMachines, jobs: openPhilly,
	},
	{
		Name: "spot-2026", Doc: "Alibaba's cluster-trace-v2026-spot-gpu: machines; spot jobs and such of high priority",
		hosts: readSpotNodes, jobs: openSpot,
	},
	{
		Name: "swf", Doc: "the Parallel Workloads Archive's standard workload format", Fleet: swfFleet,
		hosts: readSWFHosts, jobs: openSWF, oneFile: true,
	},
	{Name: "swim", Doc: "SWIM: Hadoop jobs with input paths", Fleet: hadoopFleet, jobs: openSWIM},
}

// lookup returns the format of that name.
func lookup(name string) (*Format, error) {
	names := make([]string, len(Formats))
	for i := range Formats {
		if Formats[i].Name == name {
			return &Formats[i], nil
		}
		names[i] = Formats[i].Name
	}
	return nil, fmt.Errorf("trace: format %q is not known: one of %s", name, strings.Join(names, ", "))
}

// Options says what Open reads and how the jobs of it arrive. The zero value of a field means its default.
type Options struct {
	Format string // of Jobs
	Jobs   string // path

	// The hosts come from a machine list, or are made up, or, with neither, are those that the file of jobs describes,
	// or at last as many as the format usually has.
	HostFormat string // of Hosts; "": Format
	Hosts      string // path
	Fleet      Fleet  // of hosts that are made up; what it does not say is as in the format's fleet

	Seed       uint64 // of everything that the files do not say
	BlockBytes int64  // of input files where jobs name them; 0: DefaultBlockBytes

	Every int // only every n-th job, from the first on; 0 and 1: all
	Limit int // at most so many jobs; 0: all

	Mode Mode

	// Reserve, if not 0, gives every pool with jobs a reservation: that part of the capacity, divided in each dimension in
	// proportion to what the pools' jobs take in the long run, request times duration. For ever counts as to the end of the
	// trace.
	Reserve float64
}

// Open reads a workload. The caller closes it. Errors name the option, or the file with line and column.
func Open(o Options) (*Workload, error) {
	f, err := lookup(o.Format)
	switch {
	case err != nil:
		return nil, err
	case o.Jobs == "":
		return nil, errors.New("trace: no file of jobs is given")
	case o.Every < 0:
		return nil, fmt.Errorf("trace: every is %d: want 0 or more", o.Every)
	case o.Limit < 0:
		return nil, fmt.Errorf("trace: limit is %d: want 0 or more", o.Limit)
	case o.BlockBytes < 0 || o.BlockBytes > maxAmount:
		return nil, fmt.Errorf("trace: blocks of %d bytes: want 0 to %d", o.BlockBytes, int64(maxAmount))
	case !(o.Reserve >= 0 && o.Reserve <= 1):
		return nil, fmt.Errorf("trace: the reserved part of the capacity is %v: want 0 to 1", o.Reserve)
	}
	if err := o.Mode.validate(); err != nil {
		return nil, err
	}
	hosts, err := openHosts(f, o)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(o.Jobs)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	jobs, err := f.jobs(o.Jobs, file, jobOptions{hosts: hosts, seed: o.Seed, blockBytes: o.BlockBytes})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if jobs.arrivals && !jobs.begun {
		jobs.Source = fromFirst(jobs.Source)
	}
	w := &Workload{Hosts: hosts, Jobs: jobs.Source, Arrivals: jobs.arrivals, Departures: jobs.departures, file: file, leftOut: jobs.leftOut}
	if l, all := w.Jobs.(*listed); all {
		w.until = l.last
	} else if info, err := file.Stat(); err == nil {
		w.size = info.Size()
	}
	if o.Every > 1 || o.Limit > 0 {
		thin := &thinned{Source: w.Jobs, every: o.Every, limit: o.Limit}
		w.Jobs = thin
		if o.Limit > 0 && o.Mode.OfferedLoad == 0 && o.Mode.Demand == 0 && o.Reserve == 0 { // else all jobs are read at once
			w.limited = thin
		}
	}
	if err := o.Mode.apply(w, o.Seed); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if o.Reserve > 0 {
		if err := w.reserve(o.Reserve); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// Fits returns the formats that read how a file of jobs, or a machine list, begins: all of it, or its first 64 KiB. They tell a file of
// another format than was said from one that is damaged. Of a list in JSON that goes on no format reads the beginning.
func Fits(path string, hosts bool) (names []string) {
	head, err := beginning(path)
	if err != nil {
		return nil
	}
	fits := (*Format).readsJobs
	if hosts {
		fits = (*Format).readsHosts
	}
	for i := range Formats {
		if fits(&Formats[i], path, head) {
			names = append(names, Formats[i].Name)
		}
	}
	return names
}

// readsHosts tells whether a text has machines, all of which can be read.
func (f *Format) readsHosts(path string, text []byte) bool {
	if f.hosts == nil {
		return false
	}
	hosts, err := f.hosts(path, bytes.NewReader(text))
	return err == nil && len(hosts) > 0
}

// readsJobs tells whether a text has rows of jobs, all of which can be read.
func (f *Format) readsJobs(path string, text []byte) bool {
	hosts, err := hadoopFleet.build() // with enough racks for the traces that name some
	if err != nil {
		return false
	}
	list, err := f.jobs(path, bytes.NewReader(text), jobOptions{hosts: hosts})
	if err != nil {
		return false
	}
	jobs, err := keepAll(list)
	return err == nil && (len(jobs) > 0 || list.leftOut != nil && *list.leftOut > 0)
}

// beginning returns the first lines of a file, or all of them.
func beginning(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := decompress(path, file)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(text, 64<<10))
	if _, more := text.Peek(1); more == nil {
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	return head, err
}

// IsPipe tells whether what is at path can be read once only.
func IsPipe(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

func openHosts(f *Format, o Options) ([]Host, error) {
	path := o.Hosts
	switch {
	case path != "" && o.Fleet.Hosts != 0:
		return nil, errors.New("trace: hosts are given twice: as a machine list and as a number")
	case path == "" && o.HostFormat != "":
		return nil, fmt.Errorf("trace: there is no machine list of format %q: give the file", o.HostFormat)
	case o.Fleet.Hosts != 0 || path == "" && !f.oneFile && f.Fleet.Hosts > 0:
		return o.Fleet.or(f.Fleet).build()
	case path == "" && !f.oneFile:
		return nil, fmt.Errorf("trace: format %q needs hosts: give its machine list, or how many there are", f.Name)
	case !o.Fleet.isZero():
		return nil, errors.New("trace: the list of machines says what hosts have: give nothing of that, or how many to make up in their place")
	case path == "":
		path = o.Jobs
	}
	if o.HostFormat != "" {
		var err error
		if f, err = lookup(o.HostFormat); err != nil {
			return nil, err
		}
	}
	if path == o.Jobs && IsPipe(path) {
		return nil, fmt.Errorf("trace: %s is a pipe, and cannot be read once for hosts and once for jobs: write it to a file, or say how many hosts there are", path)
	}
	if f.hosts == nil {
		return nil, fmt.Errorf("trace: format %q has no machine lists: name another format for the hosts", f.Name)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	hosts, err := f.hosts(path, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return finishHosts(path, hosts)
}

// machine returns the facts about a machine.
func machine(cpuMilli, memory, disk int64, gpus int, model string) cluster.Machine {
	m := cluster.Machine{Capacity: cluster.Resources{Fixed: [cluster.NumDimensions]int64{
		cluster.CPU: cpuMilli, cluster.Memory: memory, cluster.Disk: disk, cluster.GPU: int64(gpus) * cluster.WholeGPU,
	}}}
	for range gpus {
		m.GPUs = append(m.GPUs, cluster.GPUDevice{Model: model})
	}
	return m
}
