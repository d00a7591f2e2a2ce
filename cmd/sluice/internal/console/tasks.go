package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	// eventsShown is the most events of a task on one page, as many as the API gives at a time.
	eventsShown = 1000
	// outputShown is how many bytes of the end of each stream of a task's output are shown.
	outputShown = 16 << 10
	// outputPatience is how long a page waits for the output: it comes from the host, while all else is here.
	outputPatience = 3 * time.Second
)

// tasks lists tasks of all jobs.
func tasks(v *visit) (*page, error) {
	list, err := taskList(v, &sluicev1.ListTasksRequest{Pool: v.request.URL.Query().Get("pool"), Explain: true}, "any", noJobs)
	if err != nil {
		return nil, err
	}
	list[0].Heading = "" // is that of the page
	list[0].Form = append(list[0].Form, v.field("pool", "Pool"))
	return &page{Title: "Tasks", Parts: list}, nil
}

// task shows a task, why it is as it is, what happened to it, and the end of its output.
func task(v *visit) (*page, error) {
	name := v.request.PathValue("job")
	n, err := strconv.ParseUint(v.request.PathValue("instance"), 10, 32)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "there is no such task: %q is not the number of an instance", v.request.PathValue("instance"))
	}
	instance := uint32(n)
	got, err := v.tasks.GetTask(v.ctx, &sluicev1.GetTaskRequest{Job: name, Instance: instance})
	if err != nil {
		return nil, err
	}
	why, err := v.tasks.ExplainTask(v.ctx, &sluicev1.ExplainTaskRequest{Job: name, Instance: instance})
	if err != nil {
		return nil, err
	}
	size := uint32(eventsShown)
	events, err := v.tasks.ListTaskEvents(v.ctx, &sluicev1.ListTaskEventsRequest{
		Job: name, Instance: instance, PageSize: &size, PageToken: v.request.URL.Query().Get("page"),
	})
	if err != nil {
		return nil, err
	}
	var explanation strings.Builder
	words.Explanation(&explanation, why)
	return &page{
		Title: "Task " + words.Task(got.GetTask()), Above: []link{{"Jobs", "/jobs"}, {name, to("/jobs", name)}},
		Parts: append(append([]part{
			{Properties: propertiesOf(words.TaskProperties(got.GetTask()))},
			{Heading: "Explanation", Text: words.Visible(explanation.String(), "\n\t")},
		}, output(v, got.GetTask())...), part{
			Heading: "Events",
			Table:   tableOf("What happened, oldest first", words.EventTable(events.GetEvents()), nil, "Nothing that is still known happened to it."),
			More:    next(v.request.URL, events.GetNextPageToken()),
		}),
	}, nil
}

// output shows the end of what a task has written, or says why there is none: the rest of the page does not depend on it.
func output(v *visit, t *sluicev1.Task) []part {
	ctx, cancel := context.WithTimeout(v.ctx, outputPatience)
	defer cancel()
	out, errOut, err := readOutput(ctx, v, &sluicev1.TaskLogsRequest{
		Job: t.GetJob(), Instance: t.GetInstance(), Copy: t.GetCopy().GetState() == sluicev1.TaskState_TASK_STATE_SUCCEEDED, Tail: &sluicev1.TaskLogsRequest_TailBytes{TailBytes: outputShown},
	})
	why := "It has written nothing."
	switch status.Code(err) {
	case codes.OK:
	case codes.DeadlineExceeded:
		why = "The host did not send it in time."
	default:
		why = strings.Join(words.Problems(err), "\n")
	}
	var parts []part
	if err != nil || out == "" && errOut == "" {
		parts = append(parts, part{Heading: "Output", Note: why})
	}
	if out != "" {
		parts = append(parts, part{Heading: "Standard output", Text: out})
	}
	if errOut != "" {
		parts = append(parts, part{Heading: "Standard error", Text: errOut})
	}
	return parts
}

// readOutput returns the end of both streams as text. After an error it returns what came before.
func readOutput(ctx context.Context, v *visit, req *sluicev1.TaskLogsRequest) (out, errOut string, err error) {
	var tails [2]tail
	defer func() { out, errOut = tails[0].text(), tails[1].text() }()
	stream, err := v.tasks.TaskLogs(ctx, req)
	if err != nil {
		return "", "", err
	}
	for {
		res, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return "", "", nil
		case err != nil:
			return "", "", err
		case res.GetStream() == sluicev1.LogStream_LOG_STREAM_STDERR:
			tails[1].take(res)
		default:
			tails[0].take(res)
		}
	}
}

// tail is the end of a stream.
type tail struct {
	b   bytes.Buffer
	cut bool // there was more before
}

func (t *tail) take(res *sluicev1.TaskLogsResponse) {
	if t.b.Len() == 0 && res.GetOffset() > 0 {
		t.cut = true
	}
	t.b.Write(res.GetData())
	if more := t.b.Len() - outputShown; more > 0 { // it went on meanwhile
		t.b.Next(more)
		t.cut = true
	}
}

// text begins with a whole line, unless there is none.
func (t *tail) text() string {
	text := t.b.String()
	if _, rest, ok := strings.Cut(text, "\n"); ok && t.cut {
		text = rest
	}
	return words.Visible(strings.ToValidUTF8(text, "\uFFFD"), "\n\t")
}
