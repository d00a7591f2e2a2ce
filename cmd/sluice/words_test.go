package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func TestProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	width := 0
	p := &progress{w: &b, terminal: true, width: func() int { return width }}
	for _, line := range []string{"one", "one", "two"} {
		p.show(line, time.Time{})
	}
	width = 5 // it was made narrower
	p.show("job a: 3 done", time.Time{})
	p.show("four", time.Time{})
	fmt.Fprintln(p, "a note")
	p.show("four", time.Time{})
	p.end()
	require.Equal(t, "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K…one\r\x1b[Kfour\na note\n\r\x1b[Kfour\n", b.String())
}

// A terminal that says that it knows no escape sequences gets none.
func TestProgressOnADumbTerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { require.NoError(t, f.Close()) }()
	t.Setenv("TERM", "xterm")
	require.True(t, newProgress(f).terminal)
	t.Setenv("TERM", "dumb")
	require.False(t, newProgress(f).terminal)
}

func TestProgressElsewhere(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b}
	at := time.Unix(1000, 0)
	p.show("one", at)
	p.show("two", at.Add(100*time.Millisecond))
	p.show("three", at.Add(200*time.Millisecond))
	p.show("four", at.Add(1200*time.Millisecond))
	p.show("five", at.Add(1300*time.Millisecond))
	p.end()
	require.Equal(t, "one\nfour\nfive\n", b.String())
}

// The last line of a change is shown, also if nothing changes after it.
func TestProgressThatStandsStill(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b)
	at := time.Unix(1000, 0)
	p.show("one", at)
	p.show("two", at.Add(100*time.Millisecond))
	p.flush(at.Add(900 * time.Millisecond))
	require.Equal(t, "one\n", b.String())
	p.flush(at.Add(1100 * time.Millisecond))
	p.flush(at.Add(2100 * time.Millisecond))
	require.Equal(t, "one\ntwo\n", b.String())
	p.end()
	require.Equal(t, "one\ntwo\n", b.String())
}

// Who waits is shown the last line of a change while the jobs go on, not when they have ended.
func TestWaitThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		jobs, err := (&app{err: &b}).waitForJobs(t.Context(), &client{jobs: &lasting{}}, []string{"a"})
		require.NoError(t, err)
		require.Equal(t, sluicev1.JobState_JOB_STATE_SUCCEEDED, jobs[0].GetState())
		require.Equal(t, `job a: 0 of 0 tasks succeeded, 0 running, 4 waiting, 0 failed
job a: 0 of 0 tasks succeeded, 4 running, 0 waiting, 0 failed
job a: 4 of 0 tasks succeeded, 0 running, 0 waiting, 0 failed
`, b.String())
	})
}

// lasting has a job that starts within a second and ends after an hour.
type lasting struct {
	sluicev1.JobServiceClient
	grpc.ServerStreamingClient[sluicev1.WatchJobsResponse]
	told uint64
}

func (f *lasting) WatchJobs(context.Context, *sluicev1.WatchJobsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[sluicev1.WatchJobsResponse], error) {
	return f, nil
}

func (f *lasting) Recv() (*sluicev1.WatchJobsResponse, error) {
	time.Sleep([]time.Duration{0, 100 * time.Millisecond, time.Hour}[f.told])
	job := &sluicev1.Job{Name: "a", Uid: 1, Revision: f.told, State: sluicev1.JobState_JOB_STATE_RUNNING}
	state := []sluicev1.TaskState{sluicev1.TaskState_TASK_STATE_PENDING, sluicev1.TaskState_TASK_STATE_RUNNING, sluicev1.TaskState_TASK_STATE_SUCCEEDED}[f.told]
	job.TaskCounts = []*sluicev1.TaskStateCount{{State: state, Count: 4}}
	if f.told++; state == sluicev1.TaskState_TASK_STATE_SUCCEEDED {
		job.State = sluicev1.JobState_JOB_STATE_SUCCEEDED
	}
	return &sluicev1.WatchJobsResponse{Jobs: []*sluicev1.Job{job}, Revision: f.told, Synced: true}, nil
}

// Things are counted in words.
func TestNumbers(t *testing.T) {
	for n, want := range []string{"0 jobs", "1 job", "2 jobs"} {
		require.Equal(t, want, words.Number(n, "job"))
	}
}

func TestProgressLine(t *testing.T) {
	n := uint32(6)
	count := func(s sluicev1.TaskState, n uint32) *sluicev1.TaskStateCount {
		return &sluicev1.TaskStateCount{State: s, Count: n}
	}
	job := &sluicev1.Job{Name: "a", Spec: &sluicev1.JobSpec{Instances: &n}, TaskCounts: []*sluicev1.TaskStateCount{
		count(sluicev1.TaskState_TASK_STATE_PENDING, 1), count(sluicev1.TaskState_TASK_STATE_PLACED, 1),
		count(sluicev1.TaskState_TASK_STATE_RUNNING, 1), count(sluicev1.TaskState_TASK_STATE_SUCCEEDED, 2),
		count(sluicev1.TaskState_TASK_STATE_LOST, 1),
	}}
	require.Equal(t, "job a: 2 of 6 tasks succeeded, 2 running, 1 waiting, 1 failed", progressLine([]*sluicev1.Job{job}))
	require.Contains(t, progressLine([]*sluicev1.Job{job, job, job, job}), "4 jobs: 8 of 24 tasks")
	job.TaskCounts = append(job.TaskCounts, count(sluicev1.TaskState_TASK_STATE_KILLED, 3))
	require.Equal(t, "job a: 2 of 6 tasks succeeded, 2 running, 1 waiting, 1 failed, 3 killed", progressLine([]*sluicev1.Job{job}))
	job.Spec = &sluicev1.JobSpec{Type: sluicev1.JobType_JOB_TYPE_DAEMON}
	require.Contains(t, progressLine([]*sluicev1.Job{job}), "job a: 2 of 9 tasks succeeded, ", "instances are as many as there are hosts")
}

func TestPrinting(t *testing.T) {
	n := uint32(2)
	jobs := &sluicev1.ListJobsResponse{Jobs: []*sluicev1.Job{{
		Name: "a", Version: 3, State: sluicev1.JobState_JOB_STATE_PENDING, Spec: &sluicev1.JobSpec{Instances: &n, Pool: "root", Priority: 5},
		TaskCounts: []*sluicev1.TaskStateCount{{State: sluicev1.TaskState_TASK_STATE_PENDING, Count: 2}},
	}}}
	for output, want := range map[string]string{
		"table": "NAME  STATE    POOL  OWNER  PRIORITY  TASKS         AGE\n" +
			"a     pending  root  -      5         2: 2 pending  -\n",
		"json": "{\n  \"name\": \"a\",\n  \"version\": \"3\"\n}\n",
		"yaml": "name: a\nversion: \"3\"\n",
	} {
		var b bytes.Buffer
		a := &app{out: &b, config: &config.Loaded{Config: config.Config{Output: output}}}
		if output == "table" {
			table(&b, words.JobTable(jobs.GetJobs()))
		} else {
			require.NoError(t, a.show(&sluicev1.Job{Name: "a", Version: 3}, nil))
		}
		require.Equal(t, want, b.String())
	}
}

// Versions and health have columns where there is something to tell apart.
func TestColumnsOfTasks(t *testing.T) {
	tasks := []*sluicev1.Task{
		{Job: "a", State: sluicev1.TaskState_TASK_STATE_RUNNING, Host: "s/h", Run: 1, JobVersion: 1},
		{Job: "a", Instance: 1, State: sluicev1.TaskState_TASK_STATE_PENDING},
	}
	table := func() string {
		var b bytes.Buffer
		table(&b, words.TaskTable(tasks))
		return b.String()
	}
	require.Equal(t, "TASK  STATE    HOST  RUN  FAILURES  RAN  REASON\n"+
		"a/0   running  s/h   1    0         -    -\n"+
		"a/1   pending  -     0    0         -    -\n", table())
	tasks[0].JobVersion, tasks[0].Health = 2, sluicev1.Health_HEALTH_UNREADY
	require.Equal(t, "TASK  STATE    HOST  RUN  VERSION  HEALTH   FAILURES  RAN  REASON\n"+
		"a/0   running  s/h   1    2        unready  0         -    -\n"+
		"a/1   pending  -     0    -        -        0         -    -\n", table())
}

// A task that runs does not wait any more.
func TestWhenATaskWasQueued(t *testing.T) {
	var b bytes.Buffer
	properties(&b, words.TaskProperties(&sluicev1.Task{Job: "a", State: sluicev1.TaskState_TASK_STATE_RUNNING, QueueTime: timestamppb.New(time.Unix(0, 0))})...)
	require.Regexp(t, `(?m)^queued: +\d`, b.String())
	require.NotContains(t, b.String(), "waiting")
}

// All tables have times of one form, and of the zone of who looks at them.
func TestTimes(t *testing.T) {
	at := timestamppb.New(time.Unix(0, 5e6))
	var b bytes.Buffer
	properties(&b, words.TaskProperties(&sluicev1.Task{QueueTime: at})...)
	table(&b, words.EventTable([]*sluicev1.TaskEvent{{Time: at}}))
	tokenTable(&b, []*sluicev1.Token{{CreateTime: at, ExpireTime: at}})
	for _, text := range []string{"queued:    1970-01-01 02:00:00 HERE", "\n1970-01-01 02:00:00.005 HERE", "1970-01-01 02:00:00 HERE  1970-01-01 02:00:00 HERE"} {
		require.Contains(t, b.String(), text)
	}
}

// Amounts and numbers of tasks, whose columns have names that are alike, are in tables of their own.
func TestNumbersOfAPool(t *testing.T) {
	var b bytes.Buffer
	poolProperties(&b, &sluicev1.Pool{Dimensions: []*sluicev1.PoolDimensionStatus{{
		Dimension: "cpu_milli", Reservation: 8000, Limit: -1, Share: 2, Demand: 5000, Allocation: 16000, Entitlement: 12000, BoundBy: "root",
		ReservedTasks: 8, EntitledTasks: 4, BorrowedTasks: 5, RefusedTasks: 9,
	}}})
	require.Contains(t, b.String(), `
DIMENSION  RESERVATION  LIMIT  SHARE  DEMAND  ALLOCATION  ENTITLEMENT  BOUND-BY
cpu_milli  8000         -      2      5000    16000       12000        root

tasks that run or wait, by the tier that they are admitted in
DIMENSION  RESERVED  ENTITLED  BORROWED  REFUSED
cpu_milli  8         4         5         9
`)
}

// A list of hosts has GPUs, and why hosts take no work, where there is something to tell.
func TestColumnsOfHosts(t *testing.T) {
	hosts := []*sluicev1.Host{
		{Name: "s/a", Rack: "r", Zone: "z", State: sluicev1.HostState_HOST_STATE_UP, Capacity: &sluicev1.Capacity{Total: &sluicev1.ResourceVector{CpuMilli: 4000}}},
		{Name: "s/b", Rack: "r", Zone: "z", State: sluicev1.HostState_HOST_STATE_DRAINED},
	}
	var b bytes.Buffer
	table(&b, words.HostTable(hosts))
	require.Equal(t, "NAME  STATE    RACK  ZONE  TASKS  CPU  MEMORY\n"+
		"s/a   up       r     z     0      0/4  0/0\n"+
		"s/b   drained  r     z     0      0/0  0/0\n", b.String())
	hosts[0].Capacity.Total.GpuMilli, hosts[0].Allocated = 8000, &sluicev1.ResourceVector{GpuMilli: 2500}
	hosts[1].Reason, hosts[1].Drain = "the fan is broken", &sluicev1.Drain{Reason: "the fan is broken"}
	b.Reset()
	table(&b, words.HostTable(hosts))
	require.Equal(t, "NAME  STATE    RACK  ZONE  TASKS  CPU  MEMORY  GPU    REASON\n"+
		"s/a   up       r     z     0      0/4  0/0     2.5/8  -\n"+
		"s/b   drained  r     z     0      0/0  0/0     0/0    the fan is broken\n", b.String())
	b.Reset()
	hostProperties(&b, hosts[1])
	require.Equal(t, 1, strings.Count(b.String(), "the fan is broken"))
}

func TestStreamsOfMessages(t *testing.T) {
	for output, want := range map[string]string{
		"json": "{\"name\":\"a\",\"version\":\"3\"}\n{\"name\":\"a\",\"version\":\"3\"}\n",
		"yaml": "---\nname: a\nversion: \"3\"\n---\nname: a\nversion: \"3\"\n",
	} {
		var b bytes.Buffer
		a := &app{out: &b, config: &config.Loaded{Config: config.Config{Output: output}}}
		for range 2 {
			require.NoError(t, a.showEach(&sluicev1.Job{Name: "a", Version: 3}, nil))
		}
		require.Equal(t, want, b.String())
	}
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		limit uint32
		pages []int
		sizes []uint32
		more  bool
	}{
		{0, []int{1000, 1000, 3}, []uint32{1000, 1000, 1000}, false},
		{1500, []int{1000, 500}, []uint32{1000, 500}, true},
		{10, []int{4, 3, 2}, []uint32{10, 6, 3}, false}, // a server may give fewer than asked for
		{5, []int{5}, []uint32{5}, false},
	} {
		var sizes []uint32
		more, err := pages(c.limit, func(size uint32, token string) (int, string, error) {
			require.Equal(t, len(sizes) > 0, token != "")
			sizes = append(sizes, size)
			next := "next"
			if len(sizes) == len(c.pages) && !c.more {
				next = ""
			}
			return c.pages[len(sizes)-1], next, nil
		})
		require.NoError(t, err)
		require.Equal(t, c.sizes, sizes)
		require.Equal(t, c.more, more)
	}
}

// TestControlCharacters: what a job says of itself neither commands a terminal nor looks like another row.
func TestControlCharacters(t *testing.T) {
	var out, notes bytes.Buffer
	a := &app{out: &out, err: &notes, config: &config.Loaded{Config: config.Config{Output: "table"}}}
	task := &sluicev1.Task{Job: "a", State: sluicev1.TaskState_TASK_STATE_FAILED, Message: "start x\n\x1b[31my\tz\u009bß"}
	require.NoError(t, a.show(task, func(w io.Writer) {
		columns(w, "TASK REASON", [][]string{{"a/0", task.GetMessage()}})
		properties(w, [2]string{"reason", task.GetMessage()})
		fmt.Fprintln(w, task.GetMessage())
	}))
	const plain = `start x\n\x1b[31my\tz\u009bß`
	require.Equal(t, "TASK  REASON\na/0   "+plain+"\nreason:  "+plain+"\nstart x\n"+`\x1b[31my`+"\tz"+`\u009bß`+"\n", out.String())
	require.Equal(t, plain, words.End(task))
}

func TestWhyAJobEnded(t *testing.T) {
	job := &sluicev1.Job{
		Name: "late", State: sluicev1.JobState_JOB_STATE_FAILED, Reason: "DEADLINE",
		CreateTime: timestamppb.New(time.Unix(1, 0)), EndTime: timestamppb.New(time.Unix(4, 0)),
		TaskCounts: []*sluicev1.TaskStateCount{{State: sluicev1.TaskState_TASK_STATE_KILLED, Count: 1}},
	}
	require.Equal(t, "job late failed after 3s (1: 1 killed): DEADLINE", endedWord(job))
	job.Reason, job.State = "", sluicev1.JobState_JOB_STATE_SUCCEEDED
	require.Equal(t, "job late succeeded after 3s (1: 1 killed)", endedWord(job))
}

// What is wrong with a cost model is said of what was typed.
func TestErrorsNameArguments(t *testing.T) {
	err := asTyped(exitError{exitRefused, errors.New("binding.models[1].name: no cost model \"slice\"\nsluice: binding.shadow_every: is missing")})
	require.EqualError(t, err, "MODEL: no cost model \"slice\"\nsluice: --shadow-every: is missing")
	var e exitError
	require.ErrorAs(t, err, &e)
	require.Equal(t, exitRefused, e.code)
	other := errors.New("binding.pool: as it is")
	require.Equal(t, other, asTyped(other))
}
