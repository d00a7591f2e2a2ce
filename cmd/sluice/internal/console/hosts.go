package console

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// bringHosts says where hosts come from.
const bringHosts = "`sluice hostmgr local` brings the machine that it runs on, `sluice hostmgr mesos` the agents of a Mesos cluster."

// bound are the states of tasks that have room on their hosts.
var bound = []sluicev1.TaskState{
	sluicev1.TaskState_TASK_STATE_PLACED, sluicev1.TaskState_TASK_STATE_LAUNCHING, sluicev1.TaskState_TASK_STATE_STARTING,
	sluicev1.TaskState_TASK_STATE_RUNNING, sluicev1.TaskState_TASK_STATE_PREEMPTING, sluicev1.TaskState_TASK_STATE_KILLING,
}

// hosts lists hosts that a filter lets through.
func hosts(v *visit) (*page, error) {
	q := v.request.URL.Query()
	req := &sluicev1.ListHostsRequest{Shard: q.Get("shard"), Rack: q.Get("rack"), Zone: q.Get("zone"), PageToken: q.Get("page")}
	var err error
	if req.States, err = states[sluicev1.HostState](v, hostStates, sluicev1.HostState_value); err != nil {
		return nil, err
	}
	var res *sluicev1.ListHostsResponse
	if name := q.Get("name"); name != "" {
		res, err = oneHost(v, name)
	} else {
		res, err = v.hosts.ListHosts(v.ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return &page{Title: "Hosts", Parts: []part{
		{Form: []field{
			v.field("name", "Name, as SHARD/NAME"),
			v.field("state", "State", words.StateNames(hostStates, sluicev1.HostState_value)...),
			v.field("shard", "Shard"), v.field("rack", "Rack"), v.field("zone", "Zone"),
		}},
		{Table: hostTable(res.GetHosts(), v.none("host", "There are no hosts: "+bringHosts)), More: next(v.request.URL, res.GetNextPageToken())},
		{More: &link{"Volumes of all hosts", "/volumes"}},
	}}, nil
}

// oneHost is the list of the host of a name, whatever else it is filtered by.
func oneHost(v *visit, name string) (*sluicev1.ListHostsResponse, error) {
	res, err := v.hosts.GetHost(v.ctx, &sluicev1.GetHostRequest{Name: name})
	switch {
	case status.Code(err) == codes.NotFound:
		return &sluicev1.ListHostsResponse{}, nil
	case err != nil:
		return nil, err
	}
	return &sluicev1.ListHostsResponse{Hosts: []*sluicev1.Host{res.GetHost()}}, nil
}

func hostTable(all []*sluicev1.Host, none string) *table {
	return tableOf("Hosts by name", words.HostTable(all), links{"NAME": "/hosts"}, none)
}

// host shows a host and the tasks on it that the caller may see.
func host(v *visit) (*page, error) {
	name := v.request.PathValue("name")
	if name == "" {
		return hosts(v)
	}
	res, err := v.hosts.GetHost(v.ctx, &sluicev1.GetHostRequest{Name: name})
	if err != nil {
		return nil, err
	}
	tasks, err := taskList(v, &sluicev1.ListTasksRequest{Host: name, States: bound, Explain: true}, "here now", "No task that you may see is here.")
	if err != nil {
		return nil, err
	}
	h := res.GetHost()
	kept, token, err := volumeList(v, name, "")
	if err != nil {
		return nil, err
	}
	parts := []part{{Properties: propertiesOf(words.HostProperties(h))}}
	if rest := words.Remaining(h); len(rest) > 0 {
		parts = append(parts, part{Heading: "Still here", Text: strings.Join(rest, "\n")})
	}
	if notes := h.GetNotes(); len(notes) > 0 {
		parts = append(parts, part{Heading: "Notes of the host manager", Text: words.Visible(strings.Join(notes, "\n"), "\n")})
	}
	parts = append(parts, part{Heading: "Capacity", Table: capacity(h.GetCapacity().GetTotal(), h.GetAllocated(), h.GetUsed())})
	if len(kept.Rows) > 0 {
		more := &link{"Volumes of all hosts", "/volumes"}
		if token != "" {
			more = &link{"All volumes of this host", filtered("/volumes", "host", name)}
		}
		parts = append(parts, part{Heading: "Volumes", Table: kept, More: more})
	}
	return &page{Title: "Host " + name, Above: []link{{"Hosts", "/hosts"}}, Parts: append(parts, tasks...)}, nil
}

// volumes lists persistent volumes of all hosts, or of one.
func volumes(v *visit) (*page, error) {
	list, token, err := volumeList(v, v.request.URL.Query().Get("host"), v.request.URL.Query().Get("page"))
	if err != nil {
		return nil, err
	}
	return &page{Title: "Volumes", Above: []link{{"Hosts", "/hosts"}}, Parts: []part{
		{Form: []field{v.field("host", "Host, as SHARD/NAME")}},
		{Table: list, More: next(v.request.URL, token)},
	}}, nil
}

// volumeList lists what hosts keep, with the token of the next page.
func volumeList(v *visit, host, token string) (*table, string, error) {
	res, err := v.volumes.ListVolumes(v.ctx, &sluicev1.ListVolumesRequest{Host: host, PageToken: token})
	if err != nil {
		return nil, "", err
	}
	list := tableOf("Persistent volumes by host, and which task uses each or comes back to it", words.VolumeTable(res.GetVolumes()), links{"USER": "/tasks"},
		"No host keeps a persistent volume: tasks on Mesos that ask for one by name have it made.")
	return list, res.GetNextPageToken(), nil
}
