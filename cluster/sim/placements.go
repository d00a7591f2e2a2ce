package sim

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-scheduler/sluice/cluster"
)

// placementColumns heads the list of runs: one line for each, in the order in which their room was released, then those
// that still run at the end, by task. start and end are when the run took room on its host and gave it back, in seconds
// since the beginning of the trace; end is empty for what still runs. gpus lists the indices of its devices, joined with
// blanks; copy is true of a copy, which runs beside its task. With the requests of the jobs this is all that it takes to
// check every host at every moment.
var placementColumns = []string{"job", "instance", "run", "host", "gpus", "start", "end", "state", "copy"}

// placementWriter writes the runs as they end. A nil one writes nothing. Errors show when it is flushed.
type placementWriter struct {
	out   *bufio.Writer
	csv   *csv.Writer
	begin cluster.Time
}

func newPlacementWriter(w io.Writer, begin cluster.Time) *placementWriter {
	out := bufio.NewWriter(w)
	p := &placementWriter{out, csv.NewWriter(out), begin}
	_ = p.csv.Write(placementColumns) // kept by the writer until Flush
	return p
}

func (p *placementWriter) write(s *cluster.JobSpec, k cluster.TaskKey, r *openRun, end time.Duration, state string) {
	if p == nil {
		return
	}
	devices := make([]string, len(r.devices))
	for i, d := range r.devices {
		devices[i] = strconv.Itoa(int(d))
	}
	until := ""
	if end >= 0 {
		until = inSeconds(end)
	}
	_ = p.csv.Write([]string{
		string(s.Name), strconv.Itoa(int(k.Instance())), strconv.Itoa(int(r.run)), r.host.Name(),
		strings.Join(devices, " "), inSeconds(r.placed.Sub(p.begin)), until, state, strconv.FormatBool(k.IsCopy()),
	})
}

// inSeconds renders d exactly.
func inSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(d/time.Second), 10) + "." + strconv.FormatInt(int64(time.Second+d%time.Second), 10)[1:]
}

// flushPlacements writes what still runs, and everything out.
func (m *measure) flushPlacements() error {
	p := m.writer
	if p == nil {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(m.runs)) {
		p.write(m.byUID[k.Job()].spec, k, m.runs[k], -1, cluster.TaskRunning.String())
	}
	p.csv.Flush()
	return cmp.Or(p.csv.Error(), p.out.Flush())
}
