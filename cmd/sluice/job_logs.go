package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	// readAtOnce is about how many outputs are read at once where one is printed after the other.
	readAtOnce = 8
	// followedAtOnce is how many outputs are followed at once: less than a host manager reads, and than a user may have open
	// (scheduler.streams), so that others can be read beside them.
	followedAtOnce = 32
	// crowdedPause is after how long an output is asked for again of which there are too many just then.
	crowdedPause = time.Second
	// missingTold is of how many outputs that cannot be read it is told one by one, where there is no end to wait for.
	missingTold = 10
)

func newJobLogsCommand(a *app) *cobra.Command {
	req := &sluicev1.TaskLogsRequest{}
	var flags logFlags
	var instances []string
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the output of all instances of a job, each line with its instance before it",
		Long: fmt.Sprintf(`Print the output of all instances of a job, each line with its instance before
it, standard output to standard output and standard error to standard error. It
is the output of the current or last run of each instance, one after the other.

With --follow it goes on until the job has ended, with every further run and
instance, also over a restart of the scheduler; lines come as they are written.
The outputs of at most %d instances are followed at once, and others when those
have ended. With -o json or yaml it prints the pieces with instance, stream, run
and position.`, followedAtOnce),
		Args: wants("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(flags.read(cmd, req), filled(cmd, "instances")); err != nil {
				return err
			}
			only, err := parseRanges(instances)
			if err != nil {
				return err
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			req.Job = args[0]
			l := newJobLogs(a, c, req, only, true)
			if !req.Follow {
				return l.read(cmd.Context())
			}
			if _, err = l.follow(cmd.Context()); err == nil && l.missed != exitOK {
				return exitError{l.missed, nil}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&req.Follow, "follow", "f", false, "go on until the job has ended")
	f.StringSliceVar(&instances, "instances", nil, "only of these, such as 0,3-5")
	flags.add(cmd, req)
	return cmd
}

// jobLogs prints the output of the instances of a job.
type jobLogs struct {
	c       *client
	req     *sluicev1.TaskLogsRequest // for each of them, save the instance and the run
	only    []*sluicev1.InstanceRange // none: all
	printer *logPrinter
	missed  int // the exit code of the first output that follow could not read, which it has told; exitOK: none
}

// newJobLogs reads with the client, which says to the printer what it has to say from now on.
func newJobLogs(a *app, c *client, req *sluicev1.TaskLogsRequest, only []*sluicev1.InstanceRange, labels bool) *jobLogs {
	p := newLogPrinter(a, labels)
	c.notes = p
	return &jobLogs{c: c, req: req, only: only, printer: p}
}

func (l *jobLogs) wants(instance uint32) bool {
	return len(l.only) == 0 || slices.ContainsFunc(l.only, func(r *sluicev1.InstanceRange) bool {
		return r.GetFirst() <= instance && instance <= r.GetLast()
	})
}

func (l *jobLogs) request(instance uint32, run *uint32) *sluicev1.TaskLogsRequest {
	req := proto.CloneOf(l.req)
	req.Instance, req.Run = instance, run
	return req
}

// launched returns the last run of a task that may have an output, 0 if none may.
func launched(t *sluicev1.Task) uint32 {
	switch {
	case t.GetHost() == "": // it has not run: its runs are counted on from those of an instance that is gone
		return 0
	case t.GetState() == sluicev1.TaskState_TASK_STATE_PLACED:
		return t.GetRun() - 1
	}
	return t.GetRun()
}

// outputOf is the output of an instance, as it comes.
type outputOf struct {
	instance uint32
	pieces   chan *sluicev1.TaskLogsResponse
	err      error // when pieces is closed
}

// read prints what there is, in the order of the instances. A few that come next are read ahead.
func (l *jobLogs) read(ctx context.Context) error {
	var begun []*sluicev1.Task
	waiting, named := 0, 0
	list := &sluicev1.ListTasksRequest{Job: l.req.GetJob()}
	_, err := pages(0, func(size uint32, token string) (int, string, error) {
		list.PageSize, list.PageToken = &size, token
		res, err := call(ctx, l.c, l.c.tasks.ListTasks, list)
		for _, t := range res.GetTasks() {
			switch {
			case !l.wants(t.GetInstance()):
				continue
			case launched(t) > 0:
				begun = append(begun, t)
			default:
				waiting++
			}
			named++
		}
		return len(res.GetTasks()), res.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if named == 0 && len(l.only) > 0 {
		return exitError{exitNotFound, fmt.Errorf("job %s has none of these instances", l.req.GetJob())}
	}
	if len(begun) > 0 {
		l.printer.widen(begun[len(begun)-1].GetInstance())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs []error
	untold := 0
	for o := range l.ahead(ctx, begun) {
		for piece := range o.pieces {
			if err := l.printer.print(piece); err != nil {
				return err
			}
		}
		if err := l.printer.end(o.instance); err != nil {
			return err
		}
		if o.err != nil {
			last := codeOf(o.err) == exitUnavailable || ctx.Err() != nil
			if last || len(errs) < missingTold {
				errs = append(errs, exitError{codeOf(o.err), fmt.Errorf("instance %d: %w", o.instance, o.err)})
			} else {
				untold++
			}
			if last {
				break
			}
		}
	}
	if untold > 0 {
		errs = append(errs, fmt.Errorf("and so of %s", words.Number(untold, "further instance")))
	}
	if waiting > 0 {
		fmt.Fprintf(l.c.notes, "sluice: instances that have not run yet: %d\n", waiting)
	}
	return together(errs...)
}

// ahead yields the outputs of tasks in their order, and begins with those that come next meanwhile.
func (l *jobLogs) ahead(ctx context.Context, tasks []*sluicev1.Task) <-chan *outputOf {
	line := make(chan *outputOf, readAtOnce)
	go func() {
		defer close(line)
		for _, t := range tasks {
			o := &outputOf{instance: t.GetInstance(), pieces: make(chan *sluicev1.TaskLogsResponse, 1)}
			select {
			case line <- o:
			case <-ctx.Done():
				return
			}
			go func() {
				defer close(o.pieces)
				run := launched(t)
				req := l.request(o.instance, &run)
				if t.GetReason() == "OUTRUN" { // lists do not tell of copies
					res, err := call(ctx, l.c, l.c.tasks.GetTask, &sluicev1.GetTaskRequest{Job: req.GetJob(), Instance: o.instance})
					if err == nil && succeededByCopy(res.GetTask()) {
						req.Run, req.Copy = nil, true
					}
				}
				o.err = l.c.logsWith(ctx, req, crowdedPause, func(res *sluicev1.TaskLogsResponse) error {
					select {
					case o.pieces <- res:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}()
		}
	}()
	return line
}

// follow prints what all instances write until the job has ended or is gone, and returns it as it was last.
func (l *jobLogs) follow(ctx context.Context) (job *sluicev1.Job, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &followed{jobLogs: l, ctx: ctx, cancel: cancel, runs: map[uint32]*runsOf{}, slots: make(chan struct{}, followedAtOnce)}
	defer f.outputs.Wait()
	var uid uint32
	err = l.c.follow(ctx, &sluicev1.WatchJobsRequest{
		Filter: &sluicev1.JobFilter{Names: []string{l.req.GetJob()}}, IncludeTasks: true,
	}, func(view *jobView, res *sluicev1.WatchJobsResponse) (bool, error) {
		if j := view.named([]string{l.req.GetJob()})[0]; j != nil && (uid == 0 || j.GetUid() == uid) {
			job, uid = j, j.GetUid()
			l.printer.widen(max(1, j.GetSpec().GetInstances()) - 1)
		}
		for _, t := range res.GetTasks() {
			if t.GetJobUid() == uid && l.wants(t.GetInstance()) {
				f.take(t)
			}
		}
		switch {
		case !view.synced || res.GetRevision() == 0: // there is more to come
			return false, nil
		case uid == 0:
			return false, status.Errorf(codes.NotFound, "job %s does not exist", l.req.GetJob())
		}
		return view.jobs[uid] == nil || hasEnded(job), nil
	})
	if err != nil {
		cancel(err)
	}
	f.outputs.Wait()
	if failed := context.Cause(ctx); failed != nil && err == nil {
		err = l.c.describe(failed)
	}
	return job, err
}

// followed is what follow has begun with.
type followed struct {
	*jobLogs
	ctx     context.Context
	cancel  context.CancelCauseFunc // once nothing can be printed any more
	outputs sync.WaitGroup
	slots   chan struct{}
	told    sync.Once

	mu   sync.Mutex
	runs map[uint32]*runsOf // by instance
}

// runsOf is the runs of one instance, which are printed one after the other.
type runsOf struct {
	last uint32   // begun or queued
	next []uint32 // queued
	busy bool
}

// take begins with the runs of a task that are new: at first the last one only.
func (f *followed) take(t *sluicev1.Task) {
	last := launched(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[t.GetInstance()]
	if r == nil {
		if last == 0 {
			return
		}
		r = &runsOf{last: last - 1}
		f.runs[t.GetInstance()] = r
	}
	for ; r.last < last; r.last++ {
		r.next = append(r.next, r.last+1)
	}
	if !r.busy && len(r.next) > 0 {
		r.busy = true
		f.outputs.Go(func() { f.print(t.GetInstance(), r) })
	}
}

// print prints the queued runs of an instance.
func (f *followed) print(instance uint32, r *runsOf) {
	for {
		f.mu.Lock()
		if r.busy = len(r.next) > 0; !r.busy {
			f.mu.Unlock()
			return
		}
		run := r.next[0]
		r.next = r.next[1:]
		f.mu.Unlock()
		if !f.enter() {
			return
		}
		var unwritten error
		err := f.c.logsWith(f.ctx, f.request(instance, &run), crowdedPause, func(res *sluicev1.TaskLogsResponse) error {
			unwritten = f.printer.print(res)
			return unwritten
		})
		if unwritten == nil {
			unwritten = f.printer.end(instance)
		}
		<-f.slots
		switch {
		case unwritten != nil:
			f.cancel(unwritten)
			return
		case f.ctx.Err() != nil:
			return
		case err != nil: // such as an output that is not kept any more; the others go on
			f.mu.Lock()
			f.missed = cmp.Or(f.missed, codeOf(err))
			f.mu.Unlock()
			fmt.Fprintf(f.c.notes, "sluice: instance %d: %v\n", instance, err)
		}
	}
}

// enter waits until one more output may be followed, and reports whether that is so before the end.
func (f *followed) enter() bool {
	select {
	case f.slots <- struct{}{}:
		return true
	default:
		f.told.Do(func() {
			fmt.Fprintf(f.c.notes, "sluice: %d outputs are followed at once; others come when those have ended\n", followedAtOnce)
		})
	}
	select {
	case f.slots <- struct{}{}:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// longestLine is how much of a line is kept to be printed in one piece, in bytes.
const longestLine = 64 << 10

// logPrinter prints outputs of several instances, whole lines at a time. It is safe for concurrent use.
type logPrinter struct {
	a      *app
	labels bool // the instance before each line; else as showLog

	mu    sync.Mutex
	width int // of a label
	rests map[origin][]byte
	ends  map[origin]position // of what was printed last
	note  string              // the last thing that was said; "" after an output
}

// position is one in an output of a run.
type position struct {
	run    uint32
	offset int64
}

func newLogPrinter(a *app, labels bool) *logPrinter {
	return &logPrinter{a: a, labels: labels, rests: map[origin][]byte{}, ends: map[origin]position{}}
}

// origin is where a line comes from.
type origin struct {
	instance uint32
	stream   sluicev1.LogStream
}

// widen makes place for the label of the instance.
func (p *logPrinter) widen(instance uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.width = max(p.width, len(fmt.Sprint(instance)))
}

// print prints a piece, save the beginning of a line that has not ended.
func (p *logPrinter) print(res *sluicev1.TaskLogsResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = ""
	from := origin{res.GetInstance(), res.GetStream()}
	if err := p.tellGap(from, res); err != nil {
		return err
	}
	if !p.labels || p.a.config.Output != "table" {
		return p.a.showLog(res)
	}
	data := append(p.rests[from], res.GetData()...)
	var whole []byte
	for {
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 && len(data) < longestLine {
			break
		}
		if n == 0 {
			n = longestLine
		}
		whole = p.line(whole, from, data[:n])
		data = data[n:]
	}
	p.rests[from] = slices.Clone(data)
	return p.write(from, whole)
}

// tellGap says what is missing before a piece: more was written than is kept before all of it was read.
func (p *logPrinter) tellGap(from origin, res *sluicev1.TaskLogsResponse) error {
	was, known := p.ends[from]
	p.ends[from] = position{res.GetRun(), res.GetOffset() + int64(len(res.GetData()))}
	missing := res.GetOffset() - was.offset
	if !known || was.run != res.GetRun() || missing <= 0 {
		return nil
	}
	err := p.endLine(from) // which has nothing to do with what follows
	_, told := fmt.Fprintf(p.a.err, "sluice: instance %d: %d bytes of %s are missing here: they were gone before they were read, since a run keeps no more than its log limit\n",
		from.instance, missing, words.State(from.stream, "LOG_STREAM_"))
	return errors.Join(err, told)
}

// end prints what is left of the last lines of an instance.
func (p *logPrinter) end(instance uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, stream := range []sluicev1.LogStream{sluicev1.LogStream_LOG_STREAM_STDOUT, sluicev1.LogStream_LOG_STREAM_STDERR} {
		from := origin{instance, stream}
		err = errors.Join(err, p.endLine(from))
		delete(p.ends, from)
	}
	return err
}

// endLine prints what is left of a line.
func (p *logPrinter) endLine(from origin) error {
	rest := p.rests[from]
	delete(p.rests, from)
	if len(rest) == 0 {
		return nil
	}
	return p.write(from, p.line(nil, from, rest))
}

// line adds a line with its label, and ends it if it has no end.
func (p *logPrinter) line(to []byte, from origin, text []byte) []byte {
	to = fmt.Appendf(to, "%*d: ", p.width, from.instance)
	to = append(to, text...)
	if text[len(text)-1] != '\n' {
		to = append(to, '\n')
	}
	return to
}

// Write implements [io.Writer] for what is said meanwhile: of several outputs of a scheduler that is away it is said once.
func (p *logPrinter) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.note == string(text) {
		return len(text), nil
	}
	p.note = string(text)
	return p.a.err.Write(text)
}

func (p *logPrinter) write(from origin, text []byte) error {
	return p.a.showLog(&sluicev1.TaskLogsResponse{Stream: from.stream, Data: text})
}
