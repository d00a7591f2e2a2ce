package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster/sim"
)

const simLine = "sim --generate --hosts 10 --span 1m --faults host=20s/5s,scheduler=30s/1s --lost-after 20s"

func TestSimulate(t *testing.T) {
	noSettings(t)
	page, placements := filepath.Join(t.TempDir(), "page.html"), filepath.Join(t.TempDir(), "runs.csv")
	args := append(strings.Fields(simLine), "-o", "json", "--html", page, "--placements", placements)
	got := try(t, "", args...)
	require.Zero(t, got.code, got.err)
	var r sim.Result
	require.NoError(t, json.Unmarshal([]byte(got.out), &r))
	require.Positive(t, r.Tasks.Finished)
	require.Positive(t, r.Faults.Restarts)
	require.Zero(t, r.ViolationCount)
	require.Positive(t, r.Cycles.Latency["total"].Max, "no latency was measured")

	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "sluice sim --faults=host=20s/5s,scheduler=30s/1s --generate=true")
	runs, err := os.ReadFile(placements)
	require.NoError(t, err)
	require.Equal(t, int(r.Placements)+1, strings.Count(string(runs), "\n"))
}

// A page that cannot be written is found out before the run, and not after it.
func TestSimulateForNoPage(t *testing.T) {
	noSettings(t)
	got := try(t, "", append(strings.Fields(simLine), "--html", filepath.Join(t.TempDir(), "none", "page.html"))...)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--html: open ")
	got = try(t, "", append(strings.Fields(simLine), "--placements", filepath.Join(t.TempDir(), "none", "runs.csv"))...)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, "--placements: open ")
	require.Empty(t, got.out)
	require.Empty(t, got.out, "it ran")
}

// TestSimKeepsFilesApart: no output takes the place of what is read, or of another output.
func TestSimKeepsFilesApart(t *testing.T) {
	noSettings(t)
	t.Chdir(t.TempDir())
	const jobs = "job,duration_s\na,1\n"
	require.NoError(t, os.WriteFile("jobs.csv", []byte(jobs), 0o600))
	require.NoError(t, os.Symlink("jobs.csv", "link.csv"))
	for line, want := range map[string]string{
		"--jobs jobs.csv --placements ./jobs.csv":        "--placements ./jobs.csv would be written over the file of --jobs",
		"--jobs jobs.csv --html link.csv":                "--html link.csv would be written over the file of --jobs",
		"--jobs jobs.csv --placements x --html ./x":      "--html ./x would be written over the file of --placements",
		"--jobs a --machines jobs.csv --html ./jobs.csv": "over the file of --machines",
	} {
		got := try(t, "", append([]string{"sim", "--format", "csv"}, strings.Fields(line)...)...)
		require.Equal(t, exitUsage, got.code, line)
		require.Contains(t, got.err, want, line)
	}
	left, err := os.ReadFile("jobs.csv")
	require.NoError(t, err)
	require.Equal(t, jobs, string(left))
	got := try(t, "", "sim", "--format", "csv", "--jobs", "jobs.csv", "--hosts", "2", "--placements", os.DevNull, "--html", os.DevNull)
	require.Zero(t, got.code, got.err)
}

// compared returns the results of simLine with a flag that has several runs.
func compared(t *testing.T, flag, value string) (results []sim.Result) {
	t.Helper()
	noSettings(t)
	got := try(t, "", append(strings.Fields(simLine), flag, value, "-o", "json")...)
	require.Zero(t, got.code, got.err)
	require.NoError(t, json.Unmarshal([]byte(got.out), &results))
	require.Len(t, results, 2)
	return results
}

func TestCompareModels(t *testing.T) {
	results := compared(t, "--compare", "loadspread,quincy")
	require.Equal(t, "quincy", results[1].Model)
	require.Equal(t, results[0].Tasks.Submitted, results[1].Tasks.Submitted)
	require.NotEqual(t, results[0].Hash, results[1].Hash)
}

// TestCompareSettings: models that differ in their settings are told apart.
func TestCompareSettings(t *testing.T) {
	results := compared(t, "--compare", "quincy(theta=20,psi=2), quincy")
	require.Equal(t, []string{"quincy(theta=20,psi=2)", "quincy"}, []string{results[0].Model, results[1].Model})
}

func TestComparePlanners(t *testing.T) {
	results := compared(t, "--planner", "flow,greedy")
	require.Equal(t, []string{sim.Flow, sim.Greedy}, []string{results[0].Planner, results[1].Planner})
	require.Positive(t, results[0].Cycles.Solves)
	require.Zero(t, results[1].Cycles.Solves)
	require.Equal(t, results[0].Tasks.Submitted, results[1].Tasks.Submitted)
}

func TestSimUsage(t *testing.T) {
	noSettings(t)
	for line, want := range map[string]string{
		"":                                                  "give a workload",
		"--jobs jobs.csv":                                   "--format is missing",
		"--generate --jobs x":                               "give one or the other",
		"--jobs x --arrivals sideways":                      "choose recorded or order",
		"--jobs x --arrivals order":                         "go together",
		"--jobs x --demand 2":                               "go together",
		"--generate --demand 2 --arrivals order":            "give --load",
		"--generate --model nonesuch":                       "nonesuch",
		"--generate --compare loadspread,nonesuch":          "nonesuch",
		"--generate --compare quincy --model quincy":        "exclude each other",
		"--generate --compare quincy(theta=20,psi=2":        "--compare: models: \"quincy(theta=20,psi=2\": the parentheses do not match",
		"--jobs x --pools p.yaml --reserve 0.5":             "--pools and --reserve both say what pools reserve",
		"--generate --limit 10":                             "--limit is for traces",
		"--jobs x --load 0.9":                               "--load is for --generate: a trace has --offered-load",
		"--jobs x --gap 1s":                                 "--gap goes with --arrivals order",
		"--generate --load 0":                               "--load is 0, which stands for its default: leave it out",
		"--generate --usage 0.5 --slack-margin 0":           "--slack-margin is 0, which stands for its default",
		"--generate --plan-time 0s":                         "--plan-time is 0s, which stands for its default",
		"--generate --slack-margin 50":                      "--slack-margin goes with --usage",
		"--generate --slowdown 9":                           "--slowdown goes with --slow-hosts or --slow-runs",
		"--generate --planner greedy --solver ssp":          "--solver goes with --planner flow",
		"--generate --planner greedy --solve-budget 9":      "--solve-budget goes with --planner flow",
		"--generate --host-gpu-model A":                     "--host-gpu-model goes with --host-gpus",
		"--generate --solve-budget -1":                      "cannot be negative",
		"--generate --usage NaN":                            "--usage is NaN: it is a part, at most 1",
		"--generate --slow-hosts 2":                         "--slow-hosts is 2: it is a part, at most 1",
		"--generate --slow-runs 1.5":                        "--slow-runs is 1.5: it is a part, at most 1",
		"--jobs x --format csv --reserve 90":                "--reserve is 90: it is a part, at most 1",
		"--generate --hosts 1 --fault 1s:drain:nobody:5s":   `the workload has no host "nobody"`,
		"--format csv --jobs nothing.csv":                   "nothing.csv: no such file",
		"--format swim --jobs nothing.csv --hosts=-5":       "hosts is -5",
		"--generate --compare quincy,sluice --placements x": "without --compare",
		"--generate --compare quincy,sluice,quincy":         "--compare: quincy is there twice",
		"--generate --planner flow,flow":                    "--planner: flow is there twice",
		"--generate --host-gpus -5":                         "a host has -5 gpus: 0 to 1024, or -1 for none",
		"--generate --planner random":                       "choose flow or greedy",
		"--generate --solver nonesuch":                      "--solver",
		"--generate --faults rock=1h/1m":                    "--faults",
		"--generate --fault 1s:rack":                        "--fault:",
		"--generate --mix nothing=1":                        "--mix",
		"--jobs x --interference sort=2":                    `--interference: "sort=2" does not name two kinds of work; give WORK+BESIDE=FACTOR`,
		"--generate --interference batch+scan=2":            `--interference "batch+scan=2": no job does scan; name kinds of --mix: service, batch, short, data`,
	} {
		got := try(t, "", append([]string{"sim"}, strings.Fields(line)...)...)
		require.Equal(t, exitUsage, got.code, line)
		require.Contains(t, got.err, want, line)
	}
}

// TestSimInterrupted: what there is by then is shown, as a part of what was asked for.
func TestSimInterrupted(t *testing.T) {
	noSettings(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	line := append(strings.Fields(simLine), "--compare", "loadspread,quincy", "-o", "json")
	require.Equal(t, exitInterrupted, run(ctx, line, nil, &out, &errOut))
	require.Contains(t, errOut.String(), "sluice: interrupted: what is shown of loadspread ends 0s after the beginning of the workload\n")
	var results []sim.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &results))
	require.Len(t, results, 1)
}

// TestSimBadFile: a file that is wrong is wrong usage, also far behind its beginning, and told before anything is simulated.
func TestSimBadFile(t *testing.T) {
	noSettings(t)
	file := filepath.Join(t.TempDir(), "jobs.csv")
	require.NoError(t, os.WriteFile(file, []byte("job,submit_s,duration_s\na,0,1\nb,5,1\nc,9,many\n"), 0o600))
	got := try(t, "", "sim", "--format", "csv", "--jobs", file, "--hosts", "2")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, `sluice: trace: `+file+`:4:5: duration_s is "many": want a number`)

	got = try(t, "", "sim", "--format", "csv", "--jobs", file, "--hosts", "2", "--horizon", "4s")
	require.Zero(t, got.code, got.err)
}

// TestSimInterferenceOfNobody: kinds of work that no job of a trace does would slow nobody down.
func TestSimInterferenceOfNobody(t *testing.T) {
	noSettings(t)
	file := filepath.Join(t.TempDir(), "jobs.csv")
	for label, want := range map[string]string{
		"work=sort": "no job does scan, srt; name values of the label work of its jobs: sort",
		"":          "no job does scan, srt; name values of the label work of its jobs: there are none",
	} {
		require.NoError(t, os.WriteFile(file, []byte("job,duration_s,labels\na,1,"+label+"\n"), 0o600))
		got := try(t, "", "sim", "--format", "csv", "--jobs", file, "--hosts", "2", "--interference", "srt+scan=2")
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, want)
	}
	require.NoError(t, os.WriteFile(file, []byte("job,submit_s,labels\na,1,work=sort\nb,9,work=srt\nc,99,\n"), 0o600))
	got := try(t, "", "sim", "--format", "csv", "--jobs", file, "--hosts", "2", "--interference", "srt+sort=2", "--horizon", "5s")
	require.Equal(t, exitUsage, got.code, "what comes after the horizon does not come")
	require.Contains(t, got.err, "no job does srt; name values of the label work of its jobs: sort")
}

// TestSimWithoutJobs: a file without jobs, as of a download that broke off, is no replay in which nothing happens.
func TestSimWithoutJobs(t *testing.T) {
	noSettings(t)
	file := filepath.Join(t.TempDir(), "jobs.swf")
	require.NoError(t, os.WriteFile(file, []byte("; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 4\n"), 0o600))
	got := try(t, "", "sim", "--format", "swf", "--jobs", file)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.err, file+" has no jobs")
}

// TestSimOfAnotherFormat: who gave the wrong format is told the right one, and who gave a file that is damaged is not.
func TestSimOfAnotherFormat(t *testing.T) {
	noSettings(t)
	jobs, hosts := filepath.Join(t.TempDir(), "jobs"), filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(jobs, []byte("5.5 1 2 2\n7 2 1.5 1 2\n"), 0o600))
	require.NoError(t, os.WriteFile(hosts, []byte("host,cpu_milli\nh,1000\n"), 0o600))
	a := try(t, "", "sim", "--format", "swf", "--jobs", jobs, "--hosts", "3")
	require.Contains(t, a.err, ":1:1: 4 fields: want 18; "+jobs+" looks like --format google-2011\n")
	a = try(t, "", "sim", "--format", "google-2011", "--jobs", jobs, "--machines", hosts)
	require.Contains(t, a.err, `is "host": want "machine_id"; `+hosts+" looks like --machines-format csv\n")
	require.NoError(t, os.WriteFile(jobs, []byte("5.5 1 2 2\n7 2 1.5 1 x\n"), 0o600))
	a = try(t, "", "sim", "--format", "google-2011", "--jobs", jobs, "--hosts", "3")
	require.Contains(t, a.err, `:2:11: field 5 is "x": want a number from 0 to 1e+09`)
	require.NotContains(t, a.err, "looks like")
}

// fifo returns the path of a pipe with a text that can be read once.
func fifo(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	go func() {
		if w, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil { // when somebody reads
			_, _ = w.WriteString(text)
			_ = w.Close()
		}
	}()
	t.Cleanup(func() {
		if r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // nobody did
			_ = r.Close()
		}
	})
	return path
}

// TestSimPipe: what comes out of a pipe is replayed whole, or refused; it is read once.
func TestSimPipe(t *testing.T) {
	noSettings(t)
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	require.NoError(t, os.WriteFile(jobs, []byte("job,duration_s\na,1\nb,1\n"), 0o600))
	got := try(t, "", "sim", "--format", "csv", "--jobs", jobs, "--machines", fifo(t, "host\nh\n"))
	require.Zero(t, got.code, got.err)

	for want, flags := range map[string][]string{
		"a pipe, which can be read once only, and there are 2 runs": {"--format", "csv", "--hosts", "2", "--compare", "sluice,quincy"},
		"cannot be read once for hosts and once for jobs":           {"--format", "swf"},
		"has no jobs, or none that the other flags leave":           {"--format", "csv", "--hosts", "2"},
	} {
		got := try(t, "", append([]string{"sim", "--jobs", fifo(t, "job\n")}, flags...)...)
		require.Equal(t, exitUsage, got.code, want)
		require.Contains(t, got.err, want)
		require.Empty(t, got.out)
	}
}

// TestSimIntoPipes: who reads a page or runs from a pipe gets them whole.
func TestSimIntoPipes(t *testing.T) {
	noSettings(t)
	for flag, end := range map[string]string{"--html": "</html>\n", "--placements": "false\n"} {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		read := make(chan string, 1)
		go func() {
			text, _ := os.ReadFile(path)
			read <- string(text)
		}()
		ended := make(chan answer, 1)
		go func() { ended <- try(t, "", append(strings.Fields(simLine), flag, path)...) }()
		select {
		case text := <-read:
			require.True(t, strings.HasSuffix(text, end), "%s: %q", flag, text)
		case <-time.After(time.Minute):
			t.Fatal("nothing comes")
		}
		require.Zero(t, (<-ended).code, flag)
	}
}

// TestSimIsInterruptedWhileItReads: a workload that takes long to read says so, and whoever gives up need not wait for it.
func TestSimIsInterruptedWhileItReads(t *testing.T) {
	noSettings(t)
	path := filepath.Join(t.TempDir(), "pipe") // that nobody writes to
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	var out, said output
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"sim", "--format", "csv", "--hosts", "2", "--jobs", path}, nil, &out, &said)
	}()
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "sluice: reading the workload\n") }, time.Minute, time.Millisecond)
	interrupt()
	require.Equal(t, exitInterrupted, <-ended)
	require.Contains(t, said.String(), "sluice: interrupted before the simulation began\n")
	require.Empty(t, out.String())
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // lets what still reads end
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// TestSimRefusesLimitsOnPendingJobs: they would have no effect.
func TestSimRefusesLimitsOnPendingJobs(t *testing.T) {
	noSettings(t)
	file := filepath.Join(t.TempDir(), "pools.yaml")
	for _, limit := range []string{"max_pending_jobs", "max_pending_jobs_per_user", "max_pending_jobs_per_group"} {
		require.NoError(t, os.WriteFile(file, []byte("path: root/a\nlimits: {"+limit+": 1}\n"), 0o600))
		got := try(t, "", append(strings.Fields(simLine), "--pools", file)...)
		require.Equal(t, 2, got.code)
		require.Contains(t, got.err, "pool root/a: limits on pending jobs")
	}
}

// TestBenchCycleBounds: what no machine has memory for is refused before anything is made of it.
func TestBenchCycleBounds(t *testing.T) {
	noSettings(t)
	for flag, want := range map[string]string{
		"--hosts": "hosts is 100000000000, it must be at most 1000000",
		"--tasks": "tasks is 100000000000, it must be at most 100000000",
	} {
		got := try(t, "", "bench", "cycle", flag, "100000000000")
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, want)
	}
}

func TestBenchCycle(t *testing.T) {
	noSettings(t)
	got := try(t, "", "bench", "cycle", "--hosts", "10", "--tasks", "100", "--classes", "5", "--cycles", "3", "--disk", "--model", "quincy(theta=100)", "-o", "json")
	require.Zero(t, got.code, got.err)
	var a cycleAnswer
	require.NoError(t, json.Unmarshal([]byte(got.out), &a))
	require.EqualValues(t, 3, a.Placements)
	require.Equal(t, "quincy(theta=100)", a.Model)
	require.Positive(t, a.Latency["commit"].P50)
	require.Positive(t, a.Allocations.P50)
}

// Models are named with their settings: two scores of one model can be told apart.
func TestBenchQualityNamesPolicies(t *testing.T) {
	noSettings(t)
	folder := t.TempDir()
	pods, machines := filepath.Join(folder, "pods.csv"), filepath.Join(folder, "machines.csv")
	require.NoError(t, os.WriteFile(pods, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,460\n"), 0o600))
	require.NoError(t, os.WriteFile(machines, []byte("sn,cpu_milli,memory_mib,gpu,model\nm,32000,65536,2,T4\n"), 0o600))
	got := try(t, "", "bench", "quality", "--pods", pods, "--machines", machines, "--seeds", "1", "--batch",
		"--model", "fragmentation(rate=1)", "--model", "fragmentation(rate=40)")
	require.Zero(t, got.code, got.err)
	for _, policy := range []string{"sluice: fragmentation(rate=1) ", "sluice: fragmentation(rate=40), one batch "} {
		require.Contains(t, got.out, policy)
	}
}

// What a shell could take for something else is quoted in the command that does the same again.
func TestReplayIsForAShell(t *testing.T) {
	cmd := &cobra.Command{Use: "sim"}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		cmd.Flags().String(name, "", "")
	}
	cmd.Flags().StringSlice("f", nil, "")
	cmd.Flags().StringArray("g", nil, "")
	require.NoError(t, cmd.ParseFlags([]string{
		"--a=/x/y-1.csv.gz", "--b=coco(devils=sort scan)", "--c=it's", "--d=`x`", "--e={1,2}[3]!", "--f=x,y", "--g=m+n", "--g=$HOME",
	}))
	require.Equal(t, `sim --a=/x/y-1.csv.gz --b='coco(devils=sort scan)' --c='it'\''s' --d='`+"`x`"+`' --e='{1,2}[3]!' --f=x,y --g=m+n --g='$HOME'`, replay(cmd))
}

// What a file has that is not replayed is told, once for all runs.
func TestSimTellsWhatIsLeftOut(t *testing.T) {
	noSettings(t)
	jobs := filepath.Join(t.TempDir(), "batch_task.csv")
	require.NoError(t, os.WriteFile(jobs, []byte("M1,,j_1,1,Waiting,,,,\nM2,2,j_1,1,Terminated,50,60,100,0.2\nM3,0,j_1,1,Terminated,50,60,100,0.2\n"), 0o600))
	a := try(t, "", "sim", "--format", "alibaba-2018", "--jobs", jobs, "--hosts", "3", "--compare", "loadspread,quincy")
	require.Zero(t, a.code, a.err)
	require.Equal(t, 1, strings.Count(a.err, "sluice: left out of "+jobs+": 2 rows, which record no job to replay\n"), a.err)

	none := "M1,,j_1,1,Waiting,,,,\nM3,0,j_1,1,Terminated,50,60,100,0.2\n"
	require.NoError(t, os.WriteFile(jobs, []byte(none), 0o600))
	for _, flags := range [][]string{
		{jobs}, {fifo(t, none)}, {jobs, "--offered-load", "0.9"}, {jobs, "--arrivals", "order", "--demand", "1.1"}, {jobs, "--reserve", "0.5"},
	} {
		a = try(t, "", append([]string{"sim", "--format", "alibaba-2018", "--hosts", "3", "--jobs"}, flags...)...)
		require.Equal(t, exitUsage, a.code)
		require.Contains(t, a.err, "has no jobs, or none that the other flags leave: left out are 2 rows, which record no job to replay")
	}
}
