package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeclaredWorkloads(t *testing.T) {
	require.NotEmpty(t, Names(""))
	require.Subset(t, Suites(), []string{"short", "full", "scale", "growth"})
	for _, name := range Names("") {
		w, err := Find(name)
		require.NoError(t, err, name)
		require.NotEmpty(t, w.About, name)
		require.NotEmpty(t, w.Suites, "%s would never run", name)
		for _, x := range w.Expand() {
			require.NoError(t, x.Validate())
		}
	}
}

func TestFindReadsFilesStrictly(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "mine.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	w, err := Find(write("hosts: 7\nhuge: {tasks: 3, every: 4}\n"))
	require.NoError(t, err)
	want := Default()
	want.Name, want.Hosts, want.Huge = "mine", 7, Huge{3, 4}
	require.Equal(t, want, w)

	for _, text := range []string{"", "# nothing\n"} {
		w, err = Find(write(text))
		require.NoError(t, err)
		want = Default()
		want.Name = "mine"
		require.Equal(t, want, w)
	}

	_, err = Find(write("hosts: 7\nhoosts: 8\n"))
	require.ErrorContains(t, err, "hoosts")
	require.ErrorContains(t, err, "[2:1]", "the line")
	for field, text := range map[string]string{"hosts": "hosts: 1.5", "huge.every": "huge: {tasks: 2, every: 2.5}", "sweep.hosts": "sweep: {hosts: [10, 20.5]}"} {
		_, err = Find(write(text))
		require.ErrorContains(t, err, field+": ")
		require.ErrorContains(t, err, "5 is not a whole number")
	}
	_, err = Find(write("hosts: 7\n---\nhosts: 8\n"))
	require.ErrorContains(t, err, "more than one document")
	_, err = Find(write("---\n# mine\nhosts: 7\n...\n"))
	require.NoError(t, err)
	w, err = Find(write("name: 1.5\nhosts: 1e3\nutilisation: 1\nsweep: {churn: [0, 0.5]}\n"))
	require.NoError(t, err)
	require.Equal(t, 1000, w.Hosts)
	_, err = Find("no-such")
	require.ErrorIs(t, err, ErrUnknownWorkload)
	require.ErrorContains(t, err, "1k-90")
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Workload)
	}{
		{"name", func(w *Workload) { w.Name = "a/b" }},
		{"mode", func(w *Workload) { w.Mode = "hot" }},
		{"hosts", func(w *Workload) { w.Hosts = 0 }},
		{"slots", func(w *Workload) { w.Slots = -1 }},
		{"utilisation", func(w *Workload) { w.Utilisation = 0 }},
		{"utilisation", func(w *Workload) { w.Hosts, w.Slots = 1_000_000, 1000 }},
		{"shape", func(w *Workload) { w.Shape = "round" }},
		{"preferences", func(w *Workload) { w.Hosts, w.Preferences = 3, 4 }},
		{"merge", func(w *Workload) { w.Merge = true }},
		{"fit", func(w *Workload) { w.Fit = 2 }},
		{"churn", func(w *Workload) { w.Churn = 1.5 }},
		{"failures", func(w *Workload) { w.Failures = -0.1 }},
		{"placed", func(w *Workload) { w.Placed, w.Hysteresis = true, 0 }},
		{"huge.every", func(w *Workload) { w.Huge.Tasks = 5 }},
		{"huge.every", func(w *Workload) { w.Huge.Every = -1 }},
		{"warm_up", func(w *Workload) { w.Huge, w.WarmUp = Huge{5, 5}, 1 }},
		{"cycles", func(w *Workload) { w.Cycles = -1 }},
		{"cycles", func(w *Workload) { w.Huge, w.Cycles = Huge{5, 5}, 4 }},
		{"samples", func(w *Workload) { w.Mode, w.Samples = Cold, 0 }},
	} {
		w := Default()
		c.change(&w)
		require.ErrorContains(t, w.Validate(), c.field+":")
	}
	w := Default()
	w.Hosts, w.Slots = 0, 0
	require.ErrorContains(t, w.Validate(), "hosts:")
	require.ErrorContains(t, w.Validate(), "slots:", "all problems at once")
}

func TestExpand(t *testing.T) {
	w := Default()
	w.Sweep.Churn = []float64{0.1, 0.2}
	all := w.Expand()
	require.Len(t, all, 2)
	require.Equal(t, "default-churn-0.2", all[1].Name)
	require.Equal(t, Point{"default", "churn", 0.2}, all[1].Point)
	require.Equal(t, 0.2, all[1].Churn)
	require.Equal(t, Default().Churn, w.Churn)
}
