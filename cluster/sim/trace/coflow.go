package trace

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// megabyte is the unit of coflow lists.
const megabyte = 1_000_000

// coflows reads a list as the Coflow-Benchmark defines it (Chowdhury, Zhong, Stoica, "Efficient Coflow Scheduling with
// Varys", SIGCOMM 2014): the first line has the number of ports and of coflows; each other line has the coflow's number,
// its arrival in milliseconds, the number of mappers, the port of each, the number of reducers, and port:megabytes of each.
type coflows struct {
	rs          *blanks
	racks       []string      // by port
	lines       map[int64]int // of the coflows so far, by their numbers
	count, seen int64
}

// openCoflow makes each coflow a job whose instances are its reducers. A reducer reads, in equal parts, from the racks of
// all mappers; where it ran is not used: that is for the scheduler to decide. A port is a rack.
func openCoflow(name string, r io.Reader, o jobOptions) (*jobList, error) {
	rs, err := newBlanks(name, r, 0)
	if err != nil {
		return nil, err
	}
	head, err := rs.next()
	if err == io.EOF {
		return nil, fmt.Errorf("trace: %s:1:1: the file is empty: want the number of ports and of coflows", name)
	}
	if err != nil {
		return nil, err
	}
	if len(head.fields) != 2 {
		return nil, head.errorf("%d fields: want the number of ports and of coflows", len(head.fields))
	}
	c := &coflows{rs: rs, lines: make(map[int64]int), racks: slices.DeleteFunc(rackNames(o.hosts), func(rack string) bool { return rack == "" })}
	ports := head.integer(0, 1, maxHosts)
	c.count = head.integer(1, 0, maxRows)
	if int(ports) > len(c.racks) {
		head.fail(0, "is %d: the hosts have only %d racks to be its ports", ports, len(c.racks))
	}
	c.racks = c.racks[:min(int(ports), len(c.racks))]
	jobs := streamJobs(c, c.job)
	return &jobList{Source: jobs, arrivals: true, departures: true}, head.err
}

// next implements rows: it holds the file to the number of coflows that its first line states.
func (c *coflows) next() (*row, error) {
	r, err := c.rs.next()
	switch {
	case err == io.EOF && c.seen != c.count:
		return nil, fmt.Errorf("trace: %s:%d:1: the file ends after %d coflows: the first line says %d",
			c.rs.row.file, c.rs.row.line, c.seen, c.count)
	case err != nil:
		return nil, err
	case c.seen == c.count:
		return nil, r.errorf("a line after %d coflows: the first line says that there are no more", c.seen)
	}
	c.seen++
	return r, nil
}

func (c *coflows) job(r *row) *Job {
	m := c.counted(r, 2, "mappers")
	n := c.counted(r, 3+m, "reducers")
	if r.err == nil && len(r.fields) != 4+m+n {
		r.err = r.errorf("%d fields: want %d for %d mappers and %d reducers", len(r.fields), 4+m+n, m, n)
	}
	if r.err != nil {
		return nil
	}
	number := r.integer(0, 0, math.MaxInt64)
	if first, taken := c.lines[number]; taken {
		r.fail(0, "is %d: coflow %d is in line %d already", number, number, first)
	}
	c.lines[number] = r.line
	at := time.Duration(r.integer(1, 0, maxSeconds*1000)) * time.Millisecond
	j := newJob(numbered("coflow", number), at, uint32(n), hadoopTask)
	j.Durations = make([]time.Duration, n)
	for i := range n {
		bytes := c.shuffle(r, 4+m+i)
		j.Durations[i] = readTime(bytes)
		for k := range m {
			// Parts that do not divide evenly go to the first mappers.
			part := (bytes + int64(m-1-k)) / int64(m)
			rack := c.racks[r.integer(3+k, 0, int64(len(c.racks)-1))]
			j.Spec.Inputs = append(j.Spec.Inputs, cluster.Input{
				Name: string(j.Spec.Name), Bytes: part, Racks: []string{rack}, First: uint32(i), Last: uint32(i),
			})
		}
	}
	return j
}

// counted returns field i, which says how many fields of a kind follow.
func (c *coflows) counted(r *row, i int, what string) int {
	if r.err != nil {
		return 0
	}
	if i >= len(r.fields) {
		r.err = r.errorf("%d fields: want the number of %s in field %d", len(r.fields), what, i+1)
		return 0
	}
	return int(r.integer(i, 1, int64(len(c.racks))))
}

// shuffle returns the bytes of the reducer in field i.
func (c *coflows) shuffle(r *row, i int) int64 {
	port, size, ok := strings.Cut(r.fields[i], ":")
	parts := &row{file: r.file, line: r.line, fields: []string{port, size}, cols: []int{r.cols[i], r.cols[i] + len(port) + 1}, names: []string{"port", "megabytes"}}
	if !ok {
		r.fail(i, "is %s: want port:megabytes", quote(r.fields[i]))
		return 0
	}
	parts.integer(0, 0, int64(len(c.racks)-1))
	bytes := int64(parts.number(1, 0, maxAmount/megabyte) * megabyte)
	if r.err == nil {
		r.err = parts.err
	}
	return bytes
}
