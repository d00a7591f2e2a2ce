package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	jobStates  = "JOB_STATE_"
	taskStates = "TASK_STATE_"
	hostStates = "HOST_STATE_"
)

// versionsShown is how many versions the page of a job lists.
const versionsShown = 10

// noJobs is said where there are none, or none that whoever asks may see.
const noJobs = "There are no jobs that you may see: `sluice job submit FILE` submits some."

// endpointsShown is how many endpoints it lists.
const endpointsShown = 100

// orders are those that jobs are listed in where the address says so, with what is said above them.
var orders = map[string]struct {
	by      sluicev1.JobOrder
	caption string
}{
	"newest":   {sluicev1.JobOrder_JOB_ORDER_CREATE_TIME, "Jobs, the newest first"},
	"priority": {sluicev1.JobOrder_JOB_ORDER_PRIORITY, "Jobs, those of the highest priority first"},
}

// jobs lists jobs that a filter lets through.
func jobs(v *visit) (*page, error) {
	q := v.request.URL.Query()
	req := &sluicev1.ListJobsRequest{PageToken: q.Get("page"), Filter: &sluicev1.JobFilter{
		Pool: q.Get("pool"), Owner: q.Get("owner"), NamePrefix: q.Get("prefix"),
	}}
	var err error
	if req.Filter.States, err = states[sluicev1.JobState](v, jobStates, sluicev1.JobState_value); err != nil {
		return nil, err
	}
	caption := "Jobs by name"
	if name := q.Get("order"); name != "" {
		order, ok := orders[name]
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument, "order: %q is none of newest, priority", name)
		}
		req.Order, req.Descending, caption = order.by, true, order.caption
	}
	for _, l := range given(q["label"]) {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument, "label: %q is not key=value", l)
		}
		if req.Filter.Labels == nil {
			req.Filter.Labels = map[string]string{}
		}
		req.Filter.Labels[key] = value
	}
	res, err := v.jobs.ListJobs(v.ctx, req)
	if err != nil {
		return nil, err
	}
	list := tableOf(caption, words.JobTable(res.GetJobs()), links{"NAME": "/jobs"}, v.none("job", noJobs))
	for i, j := range res.GetJobs() {
		tasks := &list.Rows[i][5]
		*tasks = taskCounts(tasks.Text, j.GetName())
	}
	order := v.field("order", "Order", "newest", "priority")
	order.Otherwise = "name"
	return &page{Title: "Jobs", Parts: []part{
		{Form: []field{
			v.field("pool", "Pool"), v.field("state", "State", words.StateNames(jobStates, sluicev1.JobState_value)...),
			v.field("label", "Label, as key=value"), v.field("owner", "Owner"), v.field("prefix", "Name begins with"), order,
		}},
		{Table: list, More: next(v.request.URL, res.GetNextPageToken())},
	}}, nil
}

// taskCounts has the numbers of a job's tasks lead to those tasks.
func taskCounts(text, job string) cell {
	return countsOf(text, to("/jobs", job), taskStates, sluicev1.TaskState_value)
}

// field is an input with the value that the address has. Several of the options together are one more.
func (v *visit) field(name, label string, options ...string) field {
	value := v.request.URL.Query().Get(name)
	if options != nil {
		value = strings.Join(given(v.request.URL.Query()[name]), ",")
		if value != "" && !slices.Contains(options, value) {
			options = append(options, value)
		}
	}
	return field{Name: name, Label: label, Value: value, Options: options, Otherwise: "any"}
}

// states reads the states that the address has, as many values or joined by commas.
func states[E ~int32](v *visit, prefix string, values map[string]int32) ([]E, error) {
	names := strings.Split(strings.Join(v.request.URL.Query()["state"], ","), ",")
	all, err := words.ParseStates[E](given(names), prefix, values)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "state: %v", err)
	}
	return all, nil
}

// given leaves out what was not filled in.
func given(values []string) (all []string) {
	for _, x := range values {
		if x != "" {
			all = append(all, x)
		}
	}
	return all
}

// job shows a job and its tasks.
func job(v *visit) (*page, error) {
	res, err := v.jobs.GetJob(v.ctx, &sluicev1.GetJobRequest{Name: v.request.PathValue("name")})
	if err != nil {
		return nil, err
	}
	j := res.GetJob()
	tasks, err := taskList(v, &sluicev1.ListTasksRequest{Job: j.GetName(), Explain: true}, "any", "It has no tasks.")
	if err != nil {
		return nil, err
	}
	file, err := jobfile.Format(j.GetSpec())
	if err != nil {
		return nil, err
	}
	var versions, changes part
	if j.GetVersion() > 1 {
		size := uint32(versionsShown)
		history, err := v.jobs.ListJobVersions(v.ctx, &sluicev1.ListJobVersionsRequest{Name: j.GetName(), PageSize: &size})
		if err != nil {
			return nil, err
		}
		versions = part{
			Heading: "Versions",
			Table:   tableOf("The newest first, and how many fields each changed", words.HistoryTable(history.GetVersions()), nil, ""),
		}
		changes = changesOf(history.GetVersions())
	}
	places, err := endpoints(v, j)
	if err != nil {
		return nil, err
	}
	properties := propertiesOf(words.JobProperties(j))
	for i := range properties {
		if p := &properties[i]; p.Name == "tasks" {
			p.Value = taskCounts(p.Value.Text, j.GetName())
		}
	}
	return &page{
		Title: "Job " + j.GetName(), Above: []link{{"Jobs", "/jobs"}},
		Parts: append([]part{
			{Properties: properties},
			places,
			versions,
			changes,
			{Heading: "Job file", Text: words.Visible(string(file), "\n\t"), Folded: true},
		}, tasks...),
	}, nil
}

// changesOf shows in what the newest version of a job differs from the one before, where that is still known.
func changesOf(versions []*sluicev1.JobVersion) part {
	if len(versions) < 2 {
		return part{}
	}
	number := strconv.FormatUint(versions[0].GetVersion(), 10)
	var rows [][]string
	for _, x := range words.SpecDiff(versions[1].GetSpec(), versions[0].GetSpec()) {
		rows = append(rows, []string{x.Field, x.From, x.To})
	}
	return part{Heading: "Changes of version " + number, Folded: true, Table: tableOf(
		"Fields that differ from the version before, in the units of the API", words.Table{Heading: "FIELD FROM TO", Rows: rows}, nil, "No field differs.")}
}

// endpoints shows where a job that says so is reached.
func endpoints(v *visit, j *sluicev1.Job) (part, error) {
	if len(j.GetSpec().GetDiscovery().GetEndpoints()) == 0 {
		return part{}, nil
	}
	size := uint32(endpointsShown)
	res, err := v.places.ListEndpoints(v.ctx, &sluicev1.ListEndpointsRequest{Job: j.GetName(), PageSize: &size})
	if err != nil {
		return part{}, err
	}
	caption := "Where its ready instances are reached"
	if res.GetNextPageToken() != "" {
		caption += fmt.Sprintf(": the first %d; all by sluice job endpoints %s", endpointsShown, j.GetName())
	}
	list := tableOf(caption, words.EndpointTable(res.GetEndpoints()), nil, "No instance is ready: nobody is sent to this job.")
	for i, e := range res.GetEndpoints() {
		list.Rows[i][0].To = to("/tasks", fmt.Sprintf("%s/%d", j.GetName(), e.GetInstance()))
	}
	return part{Heading: "Endpoints", Table: list}, nil
}

// taskList lists tasks that a request lets through. States in the address take the place of those that it has, which otherwise names; none
// is said where there are none of these.
func taskList(v *visit, req *sluicev1.ListTasksRequest, otherwise, none string) ([]part, error) {
	req.PageToken = v.request.URL.Query().Get("page")
	chosen, err := states[sluicev1.TaskState](v, taskStates, sluicev1.TaskState_value)
	if err != nil {
		return nil, err
	}
	if len(chosen) > 0 {
		req.States = chosen
	}
	res, err := v.tasks.ListTasks(v.ctx, req)
	if err != nil {
		return nil, err
	}
	state := v.field("state", "State", words.StateNames(taskStates, sluicev1.TaskState_value)...)
	state.Otherwise = otherwise
	return []part{
		{Heading: "Tasks", Form: []field{state}},
		{
			Table: tableOf("Tasks by job and instance", words.TaskTable(res.GetTasks()), nil, v.none("task", none)),
			More:  next(v.request.URL, res.GetNextPageToken()),
		},
	}, nil
}
