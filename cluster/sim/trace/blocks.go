package trace

import (
	"cmp"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// DefaultBlockBytes is the size of the blocks into which input files are cut.
const DefaultBlockBytes = 256 * mib

// How a byte becomes run time where a trace records bytes only: each task starts up and reads what it reads at a steady
// rate. Both numbers are ours.
const (
	taskStartup    = time.Second
	bytesPerSecond = 50_000_000
)

// hadoopFleet has the shape of the cluster of the Facebook traces: 150 racks of 20 machines.
var hadoopFleet = Fleet{Hosts: 3000, HostsPerRack: 20, CPUMilli: 16_000, MemoryBytes: 64 * gib}

// hadoopTask is the size of every task of a trace that records bytes only.
var hadoopTask = task(1000, 2*gib, 0, cluster.GPURequest{})

func readTime(bytes int64) time.Duration {
	return taskStartup + time.Duration(float64(bytes)/bytesPerSecond*float64(time.Second))
}

// blockMap says where the blocks of files are. Each has three replicas: one on any host, two on different hosts of one
// other rack, as HDFS places them by default (Shvachko et al., "The Hadoop Distributed File System", MSST 2010, §III.B);
// fewer where there are not enough hosts or racks. The position of a block follows from seed, path and index alone, so
// that jobs reading one path find the same blocks.
type blockMap struct {
	seed  uint64
	hosts []cluster.HostID
	rack  []string // of each host
	racks [][]int  // hosts by rack, in the order of rack names
	of    []int    // index into racks, by host
}

func newBlockMap(hosts []Host, seed uint64) *blockMap {
	m := &blockMap{seed: seed, of: make([]int, len(hosts))}
	for i := range hosts {
		m.hosts, m.rack = append(m.hosts, hosts[i].ID()), append(m.rack, hosts[i].Rack)
	}
	names := rackNames(hosts)
	m.racks = make([][]int, len(names))
	for i, rack := range m.rack {
		n, _ := slices.BinarySearch(names, rack)
		m.of[i], m.racks[n] = n, append(m.racks[n], i)
	}
	return m
}

// rackNames returns the racks of the hosts, sorted.
func rackNames(hosts []Host) []string {
	var names []string
	for i := range hosts {
		names = append(names, hosts[i].Rack)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pick draws the hosts that hold a block, by index: at most three, in rising order.
func (m *blockMap) pick(random *rand.Rand) (chosen [3]int, n int) {
	first := random.IntN(len(m.hosts))
	chosen[0], n = first, 1
	rack, skip := m.racks[m.of[first]], true // the only rack has the hosts in order
	if len(m.racks) > 1 {
		rack, skip = m.racks[(m.of[first]+1+random.IntN(len(m.racks)-1))%len(m.racks)], false
	}
	there := len(rack)
	if skip {
		there--
	}
	at := func(i int) int {
		if skip && i >= first {
			i++
		}
		return rack[i]
	}
	if there > 0 {
		second := random.IntN(there)
		chosen[1], n = at(second), 2
		if there > 1 {
			chosen[2], n = at((second+1+random.IntN(there-1))%there), 3
		}
	}
	slices.Sort(chosen[:n])
	return chosen, n
}

// openSWIM reads the jobs of SWIM (Chen, Alspaugh, Katz, "Interactive Analytical Processing in Big Data Systems", VLDB
// 2012). A job's instances are its maps, one for each block of its input; each reads its block. Shuffles and reduces are
// left out: they begin when the maps have ended, and have no preferred place. Of jobs without input paths each reads a file of
// its own. SWIM's synthesis ends each row with paths, or nothing where it knows none, and an empty column.
func openSWIM(name string, r io.Reader, o jobOptions) (*jobList, error) {
	columns := []string{
		"job id", "submit time", "gap", "map input bytes", "shuffle bytes", "reduce output bytes", "input path",
		"output path", "column 9",
	}
	const path, end = 6, 8
	t, err := openColumns(name, r, '\t', columns, columns[:end], columns[:path])
	if err != nil {
		return nil, err
	}
	size := cmp.Or(o.blockBytes, DefaultBlockBytes)
	blocks := newBlockMap(o.hosts, o.seed)
	number, last := -1, int64(0)
	jobs := streamJobs(t, func(r *row) *Job {
		if number < 0 { // the first: the file may be a later part
			number, _ = strconv.Atoi(strings.TrimPrefix(r.fields[0], "job"))
			last = r.integer(1, 0, maxSeconds) - r.integer(2, 0, maxSeconds)
		}
		name := numbered("swim", number)
		if want := numbered("job", number); r.fields[0] != "job"+string(want[len("job-"):]) {
			r.fail(0, "is %s: want job%d, jobs are numbered", quote(r.fields[0]), number)
		}
		number++
		at := r.integer(1, 0, maxSeconds)
		if gap := r.integer(2, 0, maxSeconds); gap != at-last {
			r.fail(2, "is %d: want %d, the time since the row above", gap, at-last)
		}
		last = at
		bytes := r.integer(3, 0, maxAmount)
		r.integer(4, 0, maxAmount)
		r.integer(5, 0, maxAmount)
		input := strings.Clone(r.fields[0])
		if len(r.fields) > path && r.fields[path] != "" {
			input = r.text(path)
		}
		if len(r.fields) > end && r.fields[end] != "" {
			r.fail(end, "is %s: want nothing", quote(r.fields[end]))
		}
		n := max(1, (bytes+size-1)/size)
		if n > cluster.MaxInstances {
			r.fail(3, "is %d: %d blocks of %d bytes; a job has at most %d tasks: choose larger blocks",
				bytes, n, size, cluster.MaxInstances)
		}
		if r.err != nil {
			return nil
		}
		j := newJob(name, time.Duration(at)*time.Second, uint32(n), hadoopTask)
		j.Durations = []time.Duration{readTime(min(bytes, size))}
		if tail := bytes - (n-1)*size; tail != size && n > 1 {
			j.Durations = slices.Repeat(j.Durations, int(n))
			j.Durations[n-1] = readTime(tail)
		}
		j.Spec.Inputs = blocks.inputs(input, bytes, size)
		return j
	})
	return &jobList{Source: jobs, arrivals: true, departures: true}, nil
}

// inputs returns one input for each block of a file, read by the instance of the same index. The lists of all blocks lie
// one after the other: a day of jobs has millions of blocks.
func (m *blockMap) inputs(path string, bytes, size int64) []cluster.Input {
	n := int((bytes + size - 1) / size)
	h := fnv.New64a()
	_, _ = io.WriteString(h, path) // never fails
	inputs, hosts, racks := make([]cluster.Input, n), make([]cluster.HostID, 0, 3*n), make([]string, 0, 3*n)
	source := rand.NewPCG(0, 0)
	random := rand.New(source)
	for i := range inputs {
		source.Seed(m.seed^h.Sum64(), uint64(i))
		chosen, k := m.pick(random)
		atHost, atRack := len(hosts), len(racks)
		for _, c := range chosen[:k] {
			hosts = append(hosts, m.hosts[c])
			if m.rack[c] != "" { // it is in one
				racks = append(racks, m.rack[c])
			}
		}
		slices.Sort(racks[atRack:])
		racks = racks[:atRack+len(slices.Compact(racks[atRack:]))]
		inputs[i] = cluster.Input{
			Name: path, Bytes: min(size, bytes-int64(i)*size), First: uint32(i), Last: uint32(i),
			Hosts: hosts[atHost:len(hosts):len(hosts)], Racks: racks[atRack:len(racks):len(racks)],
		}
	}
	return inputs
}
