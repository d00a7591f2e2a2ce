package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// runFlags are what `job run` says of a job in place of a file.
type runFlags struct {
	spec                   *sluicev1.JobSpec
	kind                   string
	cpu, memory, disk, gpu string
	env                    []string
	instances, failures    uint32
	runTime                time.Duration
	directory              string
}

func newJobRunCommand(a *app) *cobra.Command {
	r := &runFlags{spec: &sluicev1.JobSpec{}}
	var key string
	var wait, attach, dryRun bool
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command as a job, without a file",
		Long: `Run a command as a job, without a file.

  sluice job run hello --attach -- echo hello
  sluice job run sums --instances 20 --attach -- sh -c 'echo part $SLUICE_INSTANCE'
  sluice job run web --type stateless --dry-run -- ./serve > web.yaml

What follows -- is the program and its arguments, which no shell reads. It runs
in a folder of its own on one of the hosts. With --attach its output is printed
until the job has ended, each line with its instance before it where there are
several; an interrupt ends the command, and the job goes on. Where the job fails,
the exit code is that of the command, or 128 and the signal that ended it: of
several instances the highest one. With --dry-run the job file is printed, and
nothing is submitted.`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case len(args) == 0 || dash == 0:
				return usageError(cmd, errors.New("NAME is missing"))
			case dash > 1 || dash < 0 && len(args) > 1:
				return usageError(cmd, fmt.Errorf("unexpected argument %q: the command comes after --", args[1]))
			case len(args) == 1:
				return usageError(cmd, errors.New("COMMAND is missing: give it after --"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.read(cmd, args[0], args[1:]); err != nil {
				return err
			}
			if dryRun {
				if err := noOutput(cmd, "--dry-run prints a job file"); err != nil {
					return err
				}
				return a.showTable(func(w io.Writer) error {
					file, err := jobfile.Format(r.spec)
					if err == nil {
						_, err = w.Write(file)
					}
					return err
				})
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			if key == "" {
				key = rand.Text()
			}
			var then func(context.Context, []string) error
			switch {
			case attach:
				several := r.spec.GetInstances() > 1 || r.spec.GetType() == sluicev1.JobType_JOB_TYPE_DAEMON
				then = func(ctx context.Context, names []string) error { return a.attach(ctx, c, names[0], several) }
			case wait:
				then = func(ctx context.Context, names []string) error { return a.finishWait(ctx, c, names) }
			}
			return flagged(a.submit(cmd.Context(), c, []*sluicev1.JobSpec{r.spec}, key, then))
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.cpu, "cpu", "100m", "CPU of each instance, such as 2 or 500m")
	f.StringVar(&r.memory, "memory", "256Mi", "memory of each instance, such as 4Gi")
	f.StringVar(&r.disk, "disk", "", "disk of each instance, such as 10Gi")
	f.StringVar(&r.gpu, "gpu", "", "GPUs of each instance: whole devices, or a part of one, such as 0.25")
	f.Uint32Var(&r.instances, "instances", 1, "how many run the command; each finds its number in SLUICE_INSTANCE")
	f.StringVar(&r.spec.Pool, "pool", "", "pool; without it, the one that the rules find")
	f.Int32Var(&r.spec.Priority, "priority", 0, "from 0 to 1000; more is more urgent")
	f.StringVar(&r.kind, "type", "batch", "batch, stateless, stateful or daemon")
	f.StringArrayVar(&r.env, "env", nil, "variable of the environment, as KEY=VALUE; several times for several")
	addPairs(f, &r.spec.Labels, "label", "labels of the job, as key=value")
	f.StringVar(&r.directory, "working-directory", "", "folder on the host to run in, in place of one of its own")
	f.Uint32Var(&r.failures, "max-failures", 0, "how often an instance may fail and run again")
	f.DurationVar(&r.runTime, "max-run-time", 0, "a run that takes longer is ended, and has failed")
	f.BoolVar(&wait, "wait", false, "wait until it has ended; exit code 4 if it did not succeed")
	f.BoolVar(&attach, "attach", false, "print the output until it has ended, and exit as the command did")
	f.BoolVar(&dryRun, "dry-run", false, "print the job file and submit nothing")
	f.StringVar(&key, "idempotency-key", "", "the same key does not submit twice within a day")
	return cmd
}

// read completes the spec.
func (r *runFlags) read(cmd *cobra.Command, name string, command []string) error {
	if err := filled(cmd, "pool", "cpu", "memory", "disk", "gpu", "type", "working-directory", "idempotency-key"); err != nil {
		return err
	}
	kinds, err := parseStates[sluicev1.JobType]("type", []string{r.kind}, "JOB_TYPE_", sluicev1.JobType_value)
	if err != nil {
		return err
	}
	process := &sluicev1.ProcessSpec{
		Command:          &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: command}},
		WorkingDirectory: r.directory,
	}
	var wrong []error
	for _, text := range command {
		if !utf8.ValidString(text) {
			wrong = append(wrong, exitError{exitUsage, fmt.Errorf("COMMAND: %q is not UTF-8", text)})
		}
	}
	usage := func(format string, args ...any) error { return exitError{exitUsage, fmt.Errorf(format, args...)} }
	amount := func(flag, value string, parse func(string) (int64, error)) int64 {
		n, err := parse(value)
		if err == nil && n < 0 {
			err = fmt.Errorf("%q is negative", value)
		}
		if err != nil {
			wrong = append(wrong, usage("--%s: %w", flag, err))
		}
		return n
	}
	request := &sluicev1.ResourceRequest{
		CpuMilli:    amount("cpu", r.cpu, jobfile.ParseMilli),
		MemoryBytes: amount("memory", r.memory, jobfile.ParseBytes),
	}
	if r.disk != "" {
		request.DiskBytes = amount("disk", r.disk, jobfile.ParseBytes)
	}
	if r.gpu != "" {
		switch n := amount("gpu", r.gpu, jobfile.ParseMilli); {
		case n%1000 == 0:
			request.Gpu = &sluicev1.GpuRequest{Count: n / 1000}
		case n > 1000:
			wrong = append(wrong, usage("--gpu: %q is neither whole devices nor a part of one", r.gpu))
		default:
			request.Gpu = &sluicev1.GpuRequest{Milli: n}
		}
	}
	for _, text := range r.env {
		key, value, ok := strings.Cut(text, "=")
		_, twice := process.GetEnvironment()[key]
		switch {
		case !ok:
			wrong = append(wrong, usage("--env: %q is not KEY=VALUE", text))
		case !utf8.ValidString(text):
			wrong = append(wrong, usage("--env: %q is not UTF-8", text))
		case twice:
			wrong = append(wrong, usage("--env: %s is given twice", key))
		case process.Environment == nil:
			process.Environment = map[string]string{}
			fallthrough
		default:
			process.Environment[key] = value
		}
	}
	r.spec.Name, r.spec.Type = name, kinds[0]
	r.spec.Task = &sluicev1.TaskSpec{Processes: []*sluicev1.ProcessSpec{process}, Resources: request}
	if r.spec.Type != sluicev1.JobType_JOB_TYPE_DAEMON || cmd.Flags().Changed("instances") {
		r.spec.Instances = &r.instances
	}
	if cmd.Flags().Changed("max-failures") {
		r.spec.Restart = &sluicev1.RestartPolicy{MaxFailures: &r.failures}
	}
	if cmd.Flags().Changed("max-run-time") {
		r.spec.Limits = &sluicev1.JobLimits{MaxRunTime: durationpb.New(r.runTime)}
	}
	return together(wrong...)
}

// flagOf says which flag or argument a field of a request comes from. Of names that begin alike the longest comes first.
var flagOf = [][2]string{
	{"spec.name", "NAME"},
	{"spec.type", "--type"},
	{"spec.pool", "--pool"},
	{"spec.labels", "--label"},
	{"spec.instances", "--instances"},
	{"spec.priority", "--priority"},
	{"spec.restart.max_failures", "--max-failures"},
	{"spec.limits.max_run_time", "--max-run-time"},
	{"spec.task.resources.cpu_milli", "--cpu"},
	{"spec.task.resources.memory_bytes", "--memory"},
	{"spec.task.resources.disk_bytes", "--disk"},
	{"spec.task.resources.gpu.count", "--gpu"},
	{"spec.task.resources.gpu.milli", "--gpu"},
	{"spec.task.resources.gpu", "--gpu"},
	{"spec.task.processes[0].argv.args", "COMMAND"},
	{"spec.task.processes[0].argv", "COMMAND"},
	{"spec.task.processes[0].environment", "--env"},
	{"spec.task.processes[0].working_directory", "--working-directory"},
	{"spec.path", "PATH"},
	{"spec.description", "--description"},
	{"idempotency_key", "--idempotency-key"},
	{"filter.pool", "--pool"},
	{"filter.owner", "--owner"},
	{"filter.name_prefix", "--prefix"},
	{"filter.labels", "--label"},
	{"filter.names", "NAME"},
	{"binding.user", "--user"},
	{"binding.group", "--group"},
	{"binding.pool", "--pool"},
}

// flagged gives an error that names fields of a request the names of the flags that they come from.
func flagged(err error) error {
	return renamed(err, func(line string) string {
		for _, f := range flagOf {
			if rest, ok := strings.CutPrefix(line, f[0]); ok {
				return f[1] + rest
			}
		}
		return line
	})
}

// requestField finds a field of a request itself at the beginning of an error of the API; no file has such.
var requestField = regexp.MustCompile(`^([a-z_]+)(?:\[\d+\])?: `)

// flaggedBy is flagged for the fields that have the name of a flag of the command.
func flaggedBy(cmd *cobra.Command, err error) error {
	if codeOf(err) < exitNotFound {
		return err // the scheduler has not been asked
	}
	return renamed(err, func(line string) string {
		field := requestField.FindStringSubmatch(line)
		if field == nil {
			return line
		}
		name := strings.ReplaceAll(field[1], "_", "-")
		for _, flag := range []string{name, strings.TrimSuffix(name, "s")} {
			if cmd.LocalNonPersistentFlags().Lookup(flag) != nil {
				return "--" + flag + ": " + line[len(field[0]):]
			}
		}
		return line
	})
}

// renamed changes each line of an error that has an exit code.
func renamed(err error, change func(line string) string) error {
	var e exitError
	if !errors.As(err, &e) || e.err == nil {
		return err
	}
	lines := strings.Split(e.err.Error(), "\n")
	for i, line := range lines {
		text, another := strings.CutPrefix(line, "sluice: ")
		if lines[i] = change(text); another {
			lines[i] = "sluice: " + lines[i]
		}
	}
	return exitError{e.code, errors.New(strings.Join(lines, "\n"))}
}

// waitsAfter is how long a job may show nothing before whoever is attached to it is told why.
const waitsAfter = 3 * time.Second

// attach prints what a job writes until it has ended, and fails if it did not succeed.
func (a *app) attach(ctx context.Context, c *client, name string, labels bool) error {
	l := newJobLogs(a, c, &sluicev1.TaskLogsRequest{Job: name, Follow: true}, nil, labels)
	note := time.AfterFunc(waitsAfter, func() { c.tellWait(ctx, name) })
	defer note.Stop()
	job, err := l.follow(ctx)
	switch {
	case err != nil:
		return err
	case !hasEnded(job):
		return exitError{exitNotFound, fmt.Errorf("job %s has been deleted", name)}
	}
	fmt.Fprintln(a.err, "sluice: "+words.Visible(endedWord(job), ""))
	err = a.judge(ctx, c, []*sluicev1.Job{job})
	if job.GetState() == sluicev1.JobState_JOB_STATE_FAILED {
		if code := c.commandCode(ctx, name); code != 0 {
			return exitError{code, nil}
		}
	}
	return err
}

// commandCode returns how the command of a job that has failed ended, as a shell tells it: its exit code, or 128 and the signal that ended it;
// the highest one of all instances that failed, and 0 where none has any. It is asked for until the scheduler answers, since whoever is
// attached relies on it.
func (c *client) commandCode(ctx context.Context, job string) (code int) {
	req := &sluicev1.ListTasksRequest{Job: job, States: []sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_FAILED}}
	_, _ = pages(0, func(size uint32, token string) (int, string, error) { // without an answer it is that of a job that did not succeed
		req.PageSize, req.PageToken = &size, token
		res, err := callAgain(ctx, c, c.tasks.ListTasks, req)
		for _, t := range res.GetTasks() {
			own := int(t.GetResult().GetExitCode())
			if signal := t.GetResult().GetSignal(); signal > 0 {
				own = 128 + int(signal)
			}
			if own <= 255 { // others are none that a command can end with
				code = max(code, own)
			}
		}
		return len(res.GetTasks()), res.GetNextPageToken(), err
	})
	return code
}

// tellWait notes why the first task of a job waits, if one does.
func (c *client) tellWait(ctx context.Context, job string) {
	one := uint32(1)
	res, err := call(ctx, c, c.tasks.ListTasks, &sluicev1.ListTasksRequest{Job: job, PageSize: &one, Explain: true, States: []sluicev1.TaskState{
		sluicev1.TaskState_TASK_STATE_INITIALIZED, sluicev1.TaskState_TASK_STATE_PENDING, sluicev1.TaskState_TASK_STATE_RESERVED,
	}})
	for _, t := range res.GetTasks() {
		if why := words.Waiting(t); err == nil && why != "" {
			fmt.Fprintf(c.notes, "sluice: task %s waits: %s; see: sluice task explain %s\n", words.Task(t), why, words.Task(t))
		}
	}
}
