package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/filecount"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	demoJob   = "demo"
	demoTasks = 200
)

// demo is a job of many tasks that count and hash the files of a folder, a share each, and the check of its result.
type demo struct {
	wanted bool
	dir    string
}

// run submits the job, waits for it, adds the outputs of its tasks up and compares them with a direct count.
func (d *demo) run(ctx context.Context, a *app, server string) error {
	if !d.wanted && d.dir == "" {
		return nil
	}
	dir, err := d.folder(a)
	if err != nil {
		return err
	}
	settings := *a.config
	settings.Server, settings.TLS, settings.TokenFile, settings.Output = server, config.TLS{}, "", "table"
	a = &app{in: a.in, out: a.out, err: a.err, config: &settings}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	total, err := d.count(ctx, a, c, dir)
	if ctx.Err() != nil {
		return nil // interrupted: that is no failure of the demo
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	direct, err := filecount.Share(dir, 0, 1)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	fmt.Fprintf(a.out, "demo: by %d tasks: %v\ndemo: directly:     %v\n", demoTasks, total, direct)
	if total != direct {
		return errors.New("demo: the two differ: did something change the folder meanwhile?")
	}
	fmt.Fprintln(a.out, "demo: equal. The scheduler goes on: try `sluice job get demo`, `sluice task list demo`, `sluice task logs demo/0`.")
	return nil
}

// count lets the job count the folder.
func (d *demo) count(ctx context.Context, a *app, c *client, dir string) (filecount.Total, error) {
	var total filecount.Total
	if err := c.removeJob(ctx, a, demoJob); err != nil {
		return total, err
	}
	program, err := os.Executable()
	if err != nil {
		return total, err
	}
	fmt.Fprintf(a.out, "demo: job %s: %d tasks hash and count the files of %s\n", demoJob, demoTasks, dir)
	if _, err := c.submit(ctx, []*sluicev1.JobSpec{demoSpec(program, dir)}, ""); err != nil {
		return total, err
	}
	jobs, err := a.waitForJobs(ctx, c, []string{demoJob})
	if err != nil {
		return total, err
	}
	if jobs[0].GetState() != sluicev1.JobState_JOB_STATE_SUCCEEDED {
		a.failures(ctx, c, jobs[0])
		return total, fmt.Errorf("job %s %s", demoJob, words.JobState(jobs[0].GetState()))
	}
	fmt.Fprintf(a.out, "demo: done after %s\n", words.Span(jobs[0].GetCreateTime(), jobs[0].GetEndTime()))
	for i := range uint32(demoTasks) {
		share, err := c.shareOf(ctx, i)
		if err != nil {
			return total, fmt.Errorf("output of task %s/%d: %w", demoJob, i, err)
		}
		total.Add(share)
	}
	return total, a.placement(ctx, c)
}

func demoSpec(program, dir string) *sluicev1.JobSpec {
	instances := uint32(demoTasks)
	return &sluicev1.JobSpec{
		Name:      demoJob,
		Instances: &instances,
		Task: &sluicev1.TaskSpec{
			Processes: []*sluicev1.ProcessSpec{{
				Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{
					Args: []string{program, "count-files", dir, "--shares", fmt.Sprint(demoTasks)},
				}},
			}},
			Resources: &sluicev1.ResourceRequest{CpuMilli: 100, MemoryBytes: 32 << 20},
		},
	}
}

// removeJob makes room for a job of that name.
func (c *client) removeJob(ctx context.Context, a *app, name string) error {
	err := c.stopAndWait(ctx, a, name, nil)
	var e exitError
	if errors.As(err, &e) && e.code == exitNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = call(ctx, c, c.jobs.DeleteJob, &sluicev1.DeleteJobRequest{Name: name})
	return err
}

// shareOf reads what a task of the job has printed.
func (c *client) shareOf(ctx context.Context, instance uint32) (filecount.Total, error) {
	var text strings.Builder
	req := &sluicev1.TaskLogsRequest{Job: demoJob, Instance: instance, Stream: sluicev1.LogStream_LOG_STREAM_STDOUT}
	err := c.logs(ctx, req, func(res *sluicev1.TaskLogsResponse) error {
		text.Write(res.GetData())
		return nil
	})
	if err != nil {
		return filecount.Total{}, err
	}
	return filecount.Parse(text.String())
}

// placement tells how many tasks ran on which host.
func (a *app) placement(ctx context.Context, c *client) error {
	size := uint32(demoTasks)
	res, err := call(ctx, c, c.tasks.ListTasks, &sluicev1.ListTasksRequest{Job: demoJob, PageSize: &size})
	if err != nil {
		return err
	}
	tasks := map[string]int{}
	for _, t := range res.GetTasks() {
		tasks[t.GetHost()]++
	}
	var parts []string
	for _, host := range slices.Sorted(maps.Keys(tasks)) {
		parts = append(parts, fmt.Sprintf("%s %d", host, tasks[host]))
	}
	fmt.Fprintf(a.out, "demo: tasks by host: %s\n", strings.Join(parts, ", "))
	return nil
}

// folder finds something real to count: the sources of Go's library, or else documents that most machines have.
func (d *demo) folder(a *app) (string, error) {
	if d.dir != "" {
		return filepath.Abs(d.dir)
	}
	root := os.Getenv("GOROOT")
	if root == "" {
		out, _ := exec.Command("go", "env", "GOROOT").Output() // no Go, no folder
		root = strings.TrimSpace(string(out))
	}
	if dir := filepath.Join(root, "src"); root != "" && isDir(dir) {
		return dir, nil
	}
	for _, dir := range []string{"/usr/share/doc", "/usr/share"} {
		if isDir(dir) {
			fmt.Fprintf(a.out, "demo: Go is not installed here, so the demo counts %s; --demo-dir chooses another folder\n", dir)
			return dir, nil
		}
	}
	return "", errors.New("demo: Go is not installed here: choose a folder with --demo-dir")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// newCountFilesCommand is what the tasks of the demo run.
func newCountFilesCommand(a *app) *cobra.Command {
	var share, shares int
	cmd := &cobra.Command{
		Use:   "count-files DIR",
		Short: "Count and hash the files of a folder, or a share of them",
		Long: `Count and hash the regular files below a folder, and print their number, their
bytes and a digest. With --shares N it takes only every Nth file, beginning with
number --share: as a task of a job, with the number of its instance. The digests of
all shares together, added up, are the digest of the whole.`,
		Args: wants("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s := os.Getenv("SLUICE_INSTANCE"); s != "" && !cmd.Flags().Changed("share") {
				if _, err := fmt.Sscanf(s, "%d", &share); err != nil {
					return usageError(cmd, fmt.Errorf("SLUICE_INSTANCE=%q is not a number", s))
				}
			}
			if shares < 1 || share < 0 || share >= shares {
				return usageError(cmd, fmt.Errorf("--share %d has to be from 0 to one less than --shares, %d", share, shares))
			}
			total, err := filecount.Share(args[0], share, shares)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, total)
			return err
		},
	}
	cmd.Flags().IntVar(&share, "share", 0, "which share, from 0; without it, SLUICE_INSTANCE")
	cmd.Flags().IntVar(&shares, "shares", 1, "number of shares")
	return cmd
}
