// Package words says in plain words what messages of the API hold: what commands print and what pages show. Times are of the zone of
// this process.
package words

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// Table is a list: names of columns, separated by spaces, and rows with a cell for each. An empty cell is one of which there is nothing
// to say.
type Table struct {
	Heading string
	Rows    [][]string
}

// Property is a name and a value, "" where there is nothing to say.
type Property = [2]string

// Bytes writes bytes with the largest 1024-based unit that keeps them exact, or else with one decimal place.
func Bytes(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	i, v := 0, float64(n)
	for (v >= 1024 || v <= -1024) && i < len(units)-1 {
		v /= 1024
		i++
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + units[i]
}

// Milli writes thousandths as a decimal number.
func Milli(n int64) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

// Amount is how much there is of a resource: as a number, and as job files write it.
type Amount struct {
	Name   string
	Number int64
	Word   string
}

// Amounts lists what of a vector is not 0, the named resources last, by name.
func Amounts(r *sluicev1.ResourceVector) (all []Amount) {
	add := func(name string, n int64, word func(int64) string) {
		if n != 0 {
			all = append(all, Amount{name, n, word(n)})
		}
	}
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	add("cpu", r.GetCpuMilli(), Milli)
	add("memory", r.GetMemoryBytes(), Bytes)
	add("disk", r.GetDiskBytes(), Bytes)
	add("gpu", r.GetGpuMilli(), Milli)
	add("ports", r.GetPorts(), plain)
	add("network_per_second", r.GetNetworkBytesPerSecond(), Bytes)
	for _, name := range slices.Sorted(maps.Keys(r.GetNamed())) {
		add(name, r.GetNamed()[name], plain)
	}
	return all
}

// Resources writes a vector in the units of job files.
func Resources(r *sluicev1.ResourceVector) string {
	var parts []string
	for _, a := range Amounts(r) {
		parts = append(parts, a.Name+"="+a.Word)
	}
	return strings.Join(parts, " ")
}

// Labels writes labels in the order of their keys.
func Labels(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

// Time writes an instant, "" where there is none.
func Time(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05 MST")
}

// Moment is Time to the millisecond.
func Moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05.000 MST")
}

// Span writes how long it is from one instant to another, or to now where there is no other.
func Span(from, to *timestamppb.Timestamp) string {
	if from == nil {
		return ""
	}
	end := time.Now()
	if to != nil {
		end = to.AsTime()
	}
	d := max(0, end.Sub(from.AsTime()))
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// State writes the value of an enumeration in lower case without the enumeration's name.
func State(s fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), prefix))
}

// stateCount says how many are in a state.
type stateCount[S fmt.Stringer] interface {
	GetState() S
	GetCount() uint32
}

// states says how many there are, and in which state: "200: 12 running, 188 succeeded", with what more there is to say.
func states[C stateCount[S], S fmt.Stringer](counts []C, prefix string, more ...string) string {
	var parts []string
	all := uint32(0)
	for _, c := range counts {
		if all += c.GetCount(); c.GetCount() > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.GetCount(), State(c.GetState(), prefix)))
		}
	}
	return fmt.Sprint(all) + After(": ", strings.Join(append(parts, more...), ", "))
}

// JobState writes the state of a job.
func JobState(s sluicev1.JobState) string { return State(s, "JOB_STATE_") }

// TaskState writes the state of a task.
func TaskState(s sluicev1.TaskState) string { return State(s, "TASK_STATE_") }

// HostState writes the state of a host.
func HostState(s sluicev1.HostState) string { return State(s, "HOST_STATE_") }

// PoolState writes the state of a pool.
func PoolState(s sluicev1.PoolState) string { return State(s, "POOL_STATE_") }

// Visible writes control characters out, save those in keep: what a job or a host manager has put into a message is not to command
// the terminal of whoever looks at it, nor to look like another row. Those that turn the direction of text are among them: by them a
// command would read as another one (Boucher, Anderson, "Trojan Source", USENIX Security 2023).
func Visible(s, keep string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.In(r, unicode.Cc, unicode.Bidi_Control) && !strings.ContainsRune(keep, r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// After joins two texts, or returns nothing where there is no second.
func After(text, more string) string {
	if more == "" {
		return ""
	}
	return text + more
}

// ParseStates reads what State writes, of an enumeration whose values are given. What is none of them is an error.
func ParseStates[E ~int32](words []string, prefix string, values map[string]int32) ([]E, error) {
	var states []E
	for _, w := range words {
		n, ok := values[prefix+strings.ToUpper(w)]
		if !ok || n == 0 {
			return nil, fmt.Errorf("%q is none of %s", w, strings.Join(StateNames(prefix, values), ", "))
		}
		states = append(states, E(n))
	}
	return states, nil
}

// StateNames lists what State writes, sorted.
func StateNames(prefix string, values map[string]int32) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] != 0 {
			all = append(all, strings.ToLower(strings.TrimPrefix(name, prefix)))
		}
	}
	return all
}

// Number counts things, whose word gets an s where they are not one.
func Number[N int | uint32 | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Problems says what an error of the API is about: a line for each field that is wrong, else one line.
func Problems(err error) (lines []string) {
	s := status.Convert(err)
	for _, d := range s.Details() {
		bad, ok := d.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		for _, v := range bad.GetFieldViolations() {
			lines = append(lines, strings.TrimPrefix(v.GetField()+": "+v.GetDescription(), ": ")) // some are about no field
		}
	}
	switch {
	case len(lines) > 0:
		return lines
	case s.Code() == codes.Unimplemented:
		return []string{"this scheduler cannot do that yet: " + s.Message()}
	}
	return []string{s.Message()}
}
