package console

import (
	"strconv"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// idle are the states of hosts that take no work.
var idle = []sluicev1.HostState{
	sluicev1.HostState_HOST_STATE_DRAINING, sluicev1.HostState_HOST_STATE_DRAINED, sluicev1.HostState_HOST_STATE_UNREACHABLE,
}

// fewHosts is how many hosts that take no work the overview names.
const fewHosts = 20

// overview shows the scheduler as a whole.
func overview(v *visit) (*page, error) {
	s, err := v.cluster.GetStatus(v.ctx, &sluicev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	size := uint32(fewHosts)
	away, err := v.hosts.ListHosts(v.ctx, &sluicev1.ListHostsRequest{PageSize: &size, States: idle})
	if err != nil {
		return nil, err
	}
	members, err := v.cluster.ListMembers(v.ctx, &sluicev1.ListMembersRequest{})
	if err != nil {
		return nil, err
	}
	shards := tableOf("Who starts tasks on hosts", words.ShardTable(s.GetShards()), nil, "No host manager has been here: "+bringHosts)
	for i, x := range s.GetShards() {
		shards.Rows[i][0].To = filtered("/hosts", "shard", x.GetName())
	}
	numbers := propertiesOf(words.StatusProperties(s))
	for i := range numbers {
		switch n := &numbers[i]; n.Name {
		case "jobs":
			n.Value = countsOf(n.Value.Text, "/jobs", jobStates, sluicev1.JobState_value)
		case "tasks":
			n.Value = countsOf(n.Value.Text, "/tasks", taskStates, sluicev1.TaskState_value)
		case "hosts":
			n.Value = countsOf(n.Value.Text, "/hosts", hostStates, sluicev1.HostState_value)
		}
	}
	p := &page{Title: "Overview", Parts: []part{
		{Properties: numbers},
		{Heading: "Capacity", Table: capacity(s.GetCapacity(), s.GetAllocated(), s.GetUsed())},
		{Heading: "Host managers", Table: shards},
	}}
	if all := members.GetMembers(); len(all) > 0 {
		p.Parts = append(p.Parts, part{
			Heading: "Schedulers", Table: tableOf("Which stand by for each other, and how many records each lacks", words.MemberTable(all), nil, ""),
		})
	}
	if hosts := away.GetHosts(); len(hosts) > 0 {
		take := part{Heading: "Hosts that take no work", Table: hostTable(hosts, "")}
		if away.GetNextPageToken() != "" {
			var states []string
			for _, x := range idle {
				states = append(states, words.HostState(x))
			}
			take.More = &link{Text: "All of them", To: filtered("/hosts", "state", states...)}
		}
		p.Parts = append(p.Parts, take)
	}
	if c := s.GetLastCycle(); c != nil {
		p.Parts = append(p.Parts, part{Heading: "Last cycle", Table: phases(c)})
	}
	return p, nil
}

// phases shows how long each part of a cycle took.
func phases(c *sluicev1.CycleSummary) *table {
	t := &table{
		Caption: "Phases of cycle " + strconv.FormatUint(c.GetNumber(), 10) + ", at " + words.Moment(c.GetTime()),
		Columns: []column{{Name: "Phase"}, {Name: "Microseconds", Numeric: true}, {Name: "Part"}},
	}
	for _, x := range c.GetPhases() {
		t.Rows = append(t.Rows, []cell{
			{Text: x.GetName()}, {Text: strconv.FormatInt(x.GetDurationUs(), 10)}, {Meter: &meter{Value: x.GetDurationUs(), Max: max(1, c.GetTotalUs())}},
		})
	}
	return t
}
