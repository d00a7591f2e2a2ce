package bench

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Shapes of preferences.
const (
	Random   = "random"   // every task draws its own
	Patterns = "patterns" // a job has a few, which its tasks share
)

// Modes of a workload.
const (
	Warm = "warm" // cycles on one network
	Cold = "cold" // one solve each of networks that differ by seed
)

// Workload declares a cluster, what happens to it and what is wanted of a
// solver. Fractions are of one, prices per task.
type Workload struct {
	Name   string   `yaml:"name" json:"name"`
	About  string   `yaml:"about" json:"about,omitempty"`
	Suites []string `yaml:"suites" json:"-"`
	Mode   string   `yaml:"mode" json:"mode"`

	Hosts        int     `yaml:"hosts" json:"hosts"`
	Slots        int     `yaml:"slots" json:"slots"` // of each host
	HostsPerRack int     `yaml:"hosts_per_rack" json:"hosts_per_rack"`
	Utilisation  float64 `yaml:"utilisation" json:"utilisation"` // tasks per slot
	TasksPerJob  int     `yaml:"tasks_per_job" json:"tasks_per_job"`

	Shape          string `yaml:"shape" json:"shape"`
	Preferences    int    `yaml:"preferences" json:"preferences"`           // preferred hosts of a task
	PatternsPerJob int    `yaml:"patterns_per_job" json:"patterns_per_job"` // with shape patterns
	Merge          bool   `yaml:"merge" json:"merge"`                       // tasks of one pattern into a class
	Convex         int    `yaml:"convex" json:"convex"`                     // parallel arcs of a convex price
	Fit            int    `yaml:"fit" json:"fit"`                           // most tasks of a class on a preferred host; 0: no bounds

	Placed     bool    `yaml:"placed" json:"placed"` // slots are taken by running tasks at the start
	Churn      float64 `yaml:"churn" json:"churn"`   // part of the tasks that finishes, and as many arrive, each cycle
	Hysteresis int     `yaml:"hysteresis" json:"hysteresis"`
	Growth     int     `yaml:"growth" json:"growth"`     // of a waiting task's price, each cycle
	Failures   float64 `yaml:"failures" json:"failures"` // part of the hosts that fails or returns, each cycle
	Huge       Huge    `yaml:"huge" json:"huge"`

	WarmUp  int    `yaml:"warm_up" json:"warm_up"` // cycles before the first that counts
	Cycles  int    `yaml:"cycles" json:"cycles"`   // warm ones, after those
	Samples int    `yaml:"samples" json:"samples"` // cold networks, or cycles given to peers
	Seed    uint64 `yaml:"seed" json:"seed"`

	// Floor and Target are wanted ratios of a peer's cold median to our p99 (warm)
	// or median (cold); zero wants nothing.
	Floor  float64 `yaml:"floor" json:"floor,omitempty"`
	Target float64 `yaml:"target" json:"target,omitempty"`

	// Sweep runs the workload once for each value of one setting.
	Sweep Sweep `yaml:"sweep" json:"-"`
	// Instance is set for a problem from a file; only the name, mode and samples
	// then mean something.
	Instance bool `yaml:"-" json:"instance,omitempty"`
	// Point is where in a sweep an expanded workload stands.
	Point Point `yaml:"-" json:"point,omitzero"`
}

// Point is one value of a swept setting.
type Point struct {
	Workload string  `json:"workload"` // that was swept
	Setting  string  `json:"setting"`
	Value    float64 `json:"value"`
}

// Huge is a job of many tasks that arrives every so many cycles and is withdrawn
// half-way to the next. If there is one, only the cycles of its arrival count in
// summaries.
type Huge struct {
	Tasks int `yaml:"tasks" json:"tasks"`
	Every int `yaml:"every" json:"every"`
}

// Sweep lists the values of at most one setting.
type Sweep struct {
	Hosts       []int     `yaml:"hosts"`
	Utilisation []float64 `yaml:"utilisation"`
	Churn       []float64 `yaml:"churn"`
	TasksPerJob []int     `yaml:"tasks_per_job"`
}

// Default is the workload that a file starts from: 1,000 hosts of 10 slots.
func Default() Workload {
	return Workload{
		Name: "default", Mode: Warm,
		Hosts: 1000, Slots: 10, HostsPerRack: 40, Utilisation: 0.9, TasksPerJob: 100,
		Shape: Random, Preferences: 8, PatternsPerJob: 3, Convex: 1,
		Churn: 0.01, Hysteresis: 50, Growth: 5, Failures: 0.001,
		Cycles: 50, Samples: 5, Seed: 1,
	}
}

// Tasks returns how many tasks there are, a huge job left out.
func (w *Workload) Tasks() int {
	return int(math.Round(w.Utilisation * float64(w.Hosts) * float64(w.Slots)))
}

// maxTasks is the most that a workload may have: more take all memory of any machine.
const maxTasks = 100_000_000

// Validate returns all that is wrong with w as one error, or nil.
func (w *Workload) Validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	fraction := func(name string, x float64) {
		check(x >= 0 && x <= 1, "%s: %v is not a fraction between 0 and 1", name, x)
	}
	between := func(name string, x, low, high int) {
		check(x >= low && x <= high, "%s: %d is not between %d and %d", name, x, low, high)
	}
	least, shortest := 0, 0
	if w.Mode == Cold {
		least = 1
	}
	if w.Huge.Tasks > 0 {
		shortest = 2
	}
	check(w.Name != "" && !strings.ContainsAny(w.Name, "/\\ "), "name: %q is empty or has spaces or slashes", w.Name)
	check(w.Mode == Warm || w.Mode == Cold, "mode: %q is neither %s nor %s", w.Mode, Warm, Cold)
	between("hosts", w.Hosts, 1, 1_000_000)
	between("slots", w.Slots, 1, 10_000)
	between("hosts_per_rack", w.HostsPerRack, 1, 1_000_000)
	check(w.Utilisation > 0 && w.Utilisation <= 10, "utilisation: %v is not above 0 and at most 10", w.Utilisation)
	check(w.Tasks() <= maxTasks, "utilisation: %v of hosts times slots are %d tasks, want at most %d", w.Utilisation, w.Tasks(), maxTasks)
	between("tasks_per_job", w.TasksPerJob, 1, 1_000_000)
	check(w.Shape == Random || w.Shape == Patterns, "shape: %q is neither %s nor %s", w.Shape, Random, Patterns)
	between("preferences", w.Preferences, 0, min(64, w.Hosts))
	between("patterns_per_job", w.PatternsPerJob, 1, 1000)
	check(!w.Merge || w.Shape == Patterns, "merge: tasks are alike only with shape: %s", Patterns)
	between("convex", w.Convex, 1, 16)
	between("fit", w.Fit, 0, 10_000)
	check(w.Fit == 0 || w.Merge, "fit: only arcs of merged classes are bounded")
	fraction("churn", w.Churn)
	fraction("failures", w.Failures)
	between("hysteresis", w.Hysteresis, 0, 1_000_000)
	between("growth", w.Growth, 0, 1_000_000)
	check(!w.Placed || w.Hysteresis > 0, "placed: running tasks have arcs of their own only with a hysteresis above 0")
	between("huge.tasks", w.Huge.Tasks, 0, 1_000_000)
	between("huge.every", w.Huge.Every, shortest, 1_000_000)
	check(w.Huge.Tasks == 0 || w.Mode == Cold || w.Cycles >= w.Huge.Every, "cycles: %d is below huge.every, %d: none would count", w.Cycles, w.Huge.Every)
	between("warm_up", w.WarmUp, 0, 1_000_000)
	check(w.WarmUp == 0 || w.Huge.Tasks == 0, "warm_up: %d is not 0, though with a huge job only the cycles of its arrival count", w.WarmUp)
	between("cycles", w.Cycles, 0, 1_000_000)
	between("samples", w.Samples, least, 1000)
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("bench: workload %q: %w", w.Name, err)
	}
	return nil
}

// Expand returns one workload for each value of the sweep, or w itself.
func (w *Workload) Expand() []Workload {
	var all []Workload
	add := func(setting string, value float64, change func(*Workload)) {
		v := *w
		v.Sweep, v.Point = Sweep{}, Point{w.Name, setting, value}
		v.Name = fmt.Sprintf("%s-%s-%v", w.Name, setting, value)
		change(&v)
		all = append(all, v)
	}
	for _, x := range w.Sweep.Hosts {
		add("hosts", float64(x), func(v *Workload) { v.Hosts = x })
	}
	for _, x := range w.Sweep.Utilisation {
		add("utilisation", x, func(v *Workload) { v.Utilisation = x })
	}
	for _, x := range w.Sweep.Churn {
		add("churn", x, func(v *Workload) { v.Churn = x })
	}
	for _, x := range w.Sweep.TasksPerJob {
		add("tasks_per_job", float64(x), func(v *Workload) { v.TasksPerJob = x })
	}
	if all == nil {
		return []Workload{*w}
	}
	return all
}

//go:embed workloads/*.yaml
var declared embed.FS

// ErrUnknownWorkload is wrapped by the error of [Find].
var ErrUnknownWorkload = errors.New("bench: unknown workload")

// Names lists the declared workloads of a suite, or all if suite is empty.
func Names(suite string) []string {
	files, _ := fs.Glob(declared, "workloads/*.yaml")
	var names []string
	for _, f := range files {
		if suite != "" {
			w, err := parse(declared, f)
			if err != nil || !slices.Contains(w.Suites, suite) {
				continue
			}
		}
		names = append(names, strings.TrimSuffix(path.Base(f), ".yaml"))
	}
	return names
}

// Find returns the workload of that name, or the one in the file of that name
// if it ends in .yaml. It is validated when it runs, so that a caller may still
// change it.
func Find(name string) (Workload, error) {
	if strings.HasSuffix(name, ".yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			return Workload{}, fmt.Errorf("bench: workload: %w", err)
		}
		return decode(name, data)
	}
	if names := Names(""); !slices.Contains(names, name) {
		return Workload{}, fmt.Errorf("%w %q: name a .yaml file or one of %s", ErrUnknownWorkload, name, strings.Join(names, ", "))
	}
	return parse(declared, "workloads/"+name+".yaml")
}

func parse(files fs.FS, file string) (Workload, error) {
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return Workload{}, fmt.Errorf("bench: workload: %w", err)
	}
	return decode(file, data)
}

// decode is strict: an unknown key is an error that gives its line.
func decode(file string, data []byte) (Workload, error) {
	w := Default()
	w.Name = strings.TrimSuffix(path.Base(file), ".yaml")
	read := w
	if err := yaml.UnmarshalWithOptions(data, &read, yaml.Strict()); err != nil {
		return Workload{}, fmt.Errorf("bench: workload %s: %w", file, err)
	}
	if reflect.ValueOf(read).IsZero() {
		return w, nil // of a file that says nothing
	}
	var given, more any
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&given); err != nil {
		return Workload{}, fmt.Errorf("bench: workload %s: %w", file, err)
	}
	if err := documents.Decode(&more); !errors.Is(err, io.EOF) {
		return Workload{}, fmt.Errorf("bench: workload %s: more than one document, and a file is one workload", file)
	}
	if err := whole(given, reflect.TypeOf(read), ""); err != nil {
		return Workload{}, fmt.Errorf("bench: workload %s: %w", file, err)
	}
	return read, nil
}

// whole refuses a fraction where t has a whole number: the reader of YAML cuts it off.
func whole(given any, t reflect.Type, name string) error {
	switch v := given.(type) {
	case float64:
		if (t.Kind() == reflect.Int || t.Kind() == reflect.Uint64) && v != math.Trunc(v) {
			return fmt.Errorf("%s: %v is not a whole number", name, v)
		}
	case []any:
		for _, x := range v {
			if err := whole(x, t.Elem(), name); err != nil {
				return err
			}
		}
	case map[string]any:
		for i := range t.NumField() {
			key := t.Field(i).Tag.Get("yaml")
			if err := whole(v[key], t.Field(i).Type, strings.TrimPrefix(name+"."+key, ".")); err != nil {
				return err
			}
		}
	}
	return nil
}

// Suites lists the suites that declared workloads belong to.
func Suites() []string {
	var all []string
	for _, name := range Names("") {
		if w, err := Find(name); err == nil {
			all = append(all, w.Suites...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
