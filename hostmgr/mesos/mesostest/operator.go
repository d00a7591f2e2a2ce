package mesostest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	pb "github.com/mesos/mesos-go/api/v1/lib/master"
)

// version is what the masters say that they are.
const version = "1.12.0"

// handleOperator serves what is not the scheduler API: the operator API, of which every other path below /api/v1 is a
// part, and some of the older endpoints.
func (c *Cluster) handleOperator(addr, path string, w http.ResponseWriter, r *http.Request) {
	switch path {
	case "health":
		say(w, http.StatusOK, "")
		return
	case "version":
		c.sayJSON(w, func() any { return versionInfo() })
		return
	case "redirect":
		c.mu.Lock()
		leader := c.leader
		c.mu.Unlock()
		if leader == "" {
			say(w, http.StatusServiceUnavailable, "No leader elected")
			return
		}
		w.Header().Set("Location", "//"+leader)
		say(w, http.StatusTemporaryRedirect, "")
		return
	}
	if c.notLeading(addr, w, "/"+path) {
		return
	}
	switch {
	case strings.HasPrefix("/"+path, operatorPath):
		c.handleOperatorCall(w, r)
	case path == "state":
		c.sayJSON(w, func() any { return c.m.state() })
	case path == "slaves":
		c.sayJSON(w, func() any { return map[string]any{"slaves": c.m.slaves()} })
	case path == "tasks":
		c.sayJSON(w, func() any { return map[string]any{"tasks": c.m.oldTasks()} })
	case path == "frameworks":
		c.sayJSON(w, func() any { return c.m.oldFrameworks() })
	case path == "metrics/snapshot":
		c.sayJSON(w, func() any { return c.m.metrics() })
	case path == "maintenance/schedule" && r.Method == http.MethodGet:
		c.sayJSON(w, func() any { return c.scheduleJSON() })
	case path == "maintenance/schedule":
		c.postSchedule(w, r)
	case path == "maintenance/status":
		c.sayJSON(w, func() any { return c.maintenanceStatus() })
	case path == "machine/down":
		c.postMachines(w, r, c.MachineDown)
	case path == "machine/up":
		c.postMachines(w, r, c.MachineUp)
	default:
		say(w, http.StatusNotFound, "")
	}
}

func (c *Cluster) sayJSON(w http.ResponseWriter, make func() any) {
	c.mu.Lock()
	var body []byte
	if c.m != nil {
		body, _ = json.Marshal(make()) // of maps and texts: it cannot fail
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", typeJSON)
	_, _ = w.Write(body)
}

func versionInfo() map[string]any {
	return map[string]any{
		"version": version, "build_date": "2024-08-01 00:00:00 UTC", "build_time": 1722470400.0,
		"build_user": "root", "git_sha": "0",
	}
}

// quotaV2 is a capability that the generated code is too old to know, as real masters have it.
const quotaV2 mesos.MasterInfo_Capability_Type = 3

func (m *master) info() mesos.MasterInfo {
	host, port := m.addr, uint32(5050)
	if name, number, ok := strings.Cut(m.addr, ":"); ok {
		host = name
		_, _ = fmt.Sscan(number, &port)
	}
	return mesos.MasterInfo{
		ID: m.id, IP: 0x0100007f, Port: &port, PID: text("master@" + m.addr), Hostname: &host, Version: text(version),
		Address: &mesos.Address{Hostname: &host, IP: text("127.0.0.1"), Port: int32(port)},
		Capabilities: []mesos.MasterInfo_Capability{
			{Type: mesos.MasterInfo_Capability_AGENT_UPDATE}, {Type: mesos.MasterInfo_Capability_AGENT_DRAINING}, {Type: quotaV2},
		},
	}
}

// handleOperatorCall takes a call of the operator API, in JSON or protobuf.
func (c *Cluster) handleOperatorCall(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		say(w, http.StatusMethodNotAllowed,
			"405 Method Not Allowed. Expecting one of { 'POST' }, but received '%s'.", r.Method)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	call := new(pb.Call)
	if err == nil && r.Header.Get("Content-Type") == typeProtobuf {
		err = call.Unmarshal(body)
	} else if err == nil {
		_, err = decodeJSON(body, "Call", call)
	}
	if err != nil {
		say(w, http.StatusBadRequest, "%s", err)
		return
	}
	c.mu.Lock()
	response, err := c.operate(call)
	c.mu.Unlock()
	asJSON, _ := acceptsJSON(r)
	switch {
	case err != nil:
		say(w, http.StatusBadRequest, "%s", err)
	case response == nil:
		say(w, http.StatusOK, "")
	case asJSON:
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(appendJSON(nil, response))
	default:
		w.Header().Set("Content-Type", typeProtobuf)
		body, err := response.Marshal()
		if err != nil {
			panic(err) // a required field is missing: a mistake in this package
		}
		_, _ = w.Write(body)
	}
}

// operate carries out a call of the operator API.
func (c *Cluster) operate(call *pb.Call) (*pb.Response, error) {
	agentOf := func(id string) (*agent, error) {
		if a := c.byID[id]; a != nil && !a.left {
			return a, nil
		}
		return nil, refuse("No agent found with specified ID")
	}
	if c.m == nil {
		return nil, refuse("No leader elected")
	}
	switch call.Type {
	case pb.Call_GET_HEALTH:
		return &pb.Response{Type: pb.Response_GET_HEALTH, GetHealth: &pb.Response_GetHealth{Healthy: true}}, nil
	case pb.Call_GET_VERSION:
		return &pb.Response{
			Type:       pb.Response_GET_VERSION,
			GetVersion: &pb.Response_GetVersion{VersionInfo: mesos.VersionInfo{Version: version}},
		}, nil
	case pb.Call_GET_MASTER:
		info, started := c.m.info(), float64(c.m.started.UnixMicro())/1e6
		return &pb.Response{
			Type:      pb.Response_GET_MASTER,
			GetMaster: &pb.Response_GetMaster{MasterInfo: &info, StartTime: &started, ElectedTime: &started},
		}, nil
	case pb.Call_GET_AGENTS:
		return &pb.Response{Type: pb.Response_GET_AGENTS, GetAgents: c.m.getAgents()}, nil
	case pb.Call_GET_FRAMEWORKS:
		return &pb.Response{Type: pb.Response_GET_FRAMEWORKS, GetFrameworks: c.m.getFrameworks()}, nil
	case pb.Call_DRAIN_AGENT:
		a, err := agentOf(call.DrainAgent.GetAgentID().Value)
		if err == nil {
			grace := call.DrainAgent.MaxGracePeriod
			c.drainAgent(a, time.Duration(grace.GetSeconds())*time.Second, call.DrainAgent.GetMarkGone())
		}
		return nil, err
	case pb.Call_REACTIVATE_AGENT:
		a, err := agentOf(call.ReactivateAgent.GetAgentID().Value)
		if err == nil {
			c.reactivate(a)
		}
		return nil, err
	case pb.Call_MARK_AGENT_GONE:
		a, err := agentOf(call.MarkAgentGone.GetAgentID().Value)
		if err == nil {
			c.markGone(a)
		}
		return nil, err
	case pb.Call_TEARDOWN:
		f := c.m.frameworks[call.Teardown.GetFrameworkID().Value]
		if f == nil {
			return nil, refuse("No framework found with specified ID")
		}
		c.m.remove(f)
		return nil, nil
	}
	return nil, refuse("Expecting 'type' to be present")
}

func (m *master) getAgents() *pb.Response_GetAgents {
	out := new(pb.Response_GetAgents)
	for _, a := range m.c.agents {
		info := mesos.AgentInfo{
			Hostname: a.spec.Hostname, Port: &a.spec.Port, Resources: a.spec.Resources,
			Attributes: a.spec.attributes(), ID: &mesos.AgentID{Value: a.id},
		}
		switch {
		case m.waiting[a.id]:
			out.RecoveredAgents = append(out.RecoveredAgents, info)
		case a.registered:
			x := pb.Response_GetAgents_Agent{
				AgentInfo: info, Active: a.offerable(), Deactivated: &a.deactivated, Version: version,
				PID:            text(fmt.Sprintf("slave(1)@127.0.0.1:%d", a.spec.Port)),
				RegisteredTime: &mesos.TimeInfo{Nanoseconds: a.registeredT.UnixNano()},
				TotalResources: starred(a.total.resources("")),
				Capabilities: []mesos.AgentInfo_Capability{
					{Type: mesos.AgentInfo_Capability_MULTI_ROLE},
					{Type: mesos.AgentInfo_Capability_HIERARCHICAL_ROLE},
					{Type: mesos.AgentInfo_Capability_RESERVATION_REFINEMENT},
					{Type: mesos.AgentInfo_Capability_AGENT_DRAINING},
				},
			}
			x.AllocatedResources, x.OfferedResources = m.allocated(func(o *agent) bool { return o == a }, nil)
			if d := a.draining; d != nil {
				state := mesos.DrainState_DRAINED
				if slices.ContainsFunc(slices.Collect(maps.Values(a.runs)), func(r *run) bool { return !r.ended }) {
					state = mesos.DrainState_DRAINING
				}
				x.DrainInfo = &mesos.DrainInfo{State: state, Config: mesos.DrainConfig{
					MaxGracePeriod: &mesos.DurationInfo{Nanoseconds: int64(d.grace)}, MarkGone: &d.markGone,
				}}
				x.EstimatedDrainStartTime = &mesos.TimeInfo{Nanoseconds: d.started.UnixNano()}
			}
			out.Agents = append(out.Agents, x)
		}
	}
	return out
}

// starred writes the role of unreserved resources, as the operator API does.
func starred(resources []mesos.Resource) []mesos.Resource {
	for i := range resources {
		if len(resources[i].Reservations) == 0 {
			resources[i].Role = text("*")
		}
	}
	return resources
}

// allocated returns what is used and what is offered on some agents to one framework, or to all.
func (m *master) allocated(where func(*agent) bool, only *framework) (used, offered []mesos.Resource) {
	usedBy, offeredTo := make(map[string]bag), make(map[string]bag)
	for _, f := range m.sortedFrameworks() {
		for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
			if t := f.tasks[id]; (only == nil || only == f) && !t.released && where(t.a) {
				usedBy[t.role] = usedBy[t.role].add(t.has)
			}
		}
	}
	for _, o := range m.sorted(func(o *offer) bool { return (only == nil || only == o.f) && where(o.a) }) {
		offeredTo[o.role] = offeredTo[o.role].add(o.has)
	}
	for _, role := range slices.Sorted(maps.Keys(usedBy)) {
		used = append(used, starred(usedBy[role].resources(role))...)
	}
	for _, role := range slices.Sorted(maps.Keys(offeredTo)) {
		offered = append(offered, starred(offeredTo[role].resources(role))...)
	}
	return used, offered
}

func (m *master) getFrameworks() *pb.Response_GetFrameworks {
	out := new(pb.Response_GetFrameworks)
	describe := func(f *framework) pb.Response_GetFrameworks_Framework {
		x := pb.Response_GetFrameworks_Framework{
			FrameworkInfo: f.info, Active: f.stream != nil, Connected: f.stream != nil, Recovered: f.recovered,
			RegisteredTime:   &mesos.TimeInfo{Nanoseconds: f.registered.UnixNano()},
			ReregisteredTime: &mesos.TimeInfo{Nanoseconds: f.again.UnixNano()},
		}
		for _, o := range m.sorted(func(o *offer) bool { return o.f == f }) {
			x.Offers = append(x.Offers, o.message())
		}
		x.AllocatedResources, x.OfferedResources = m.allocated(func(*agent) bool { return true }, f)
		return x
	}
	for _, f := range m.sortedFrameworks() {
		out.Frameworks = append(out.Frameworks, describe(f))
	}
	for _, id := range slices.Sorted(maps.Keys(m.completed)) {
		out.CompletedFrameworks = append(out.CompletedFrameworks, describe(m.completed[id]))
	}
	return out
}

// amounts writes a bag as the older endpoints do.
func amounts(b bag) map[string]any {
	out := map[string]any{"cpus": 0.0, "mem": 0.0, "disk": 0.0, "gpus": 0.0}
	for _, p := range b {
		switch p.kind.GetType() {
		case mesos.SCALAR:
			out[p.kind.Name] = float64(b.scalar(p.kind.Name)) / 1000
		case mesos.RANGES:
			spans := make([]string, len(p.ranges))
			for i, s := range p.ranges {
				spans[i] = fmt.Sprintf("%d-%d", s.from, s.to)
			}
			out[p.kind.Name] = "[" + strings.Join(spans, ", ") + "]"
		}
	}
	return out
}

func (m *master) slaves() []any {
	out := []any{}
	for _, a := range m.c.agents {
		if !a.registered {
			continue
		}
		var used, offered bag
		for _, f := range m.frameworks {
			for _, t := range f.tasks {
				if t.a == a && !t.released {
					used = used.add(t.has)
				}
			}
		}
		for _, o := range m.offers {
			if o.a == a {
				offered = offered.add(o.has)
			}
		}
		out = append(out, map[string]any{
			"id": a.id, "hostname": a.spec.Hostname, "port": a.spec.Port, "attributes": a.spec.Attributes,
			"pid":             fmt.Sprintf("slave(1)@127.0.0.1:%d", a.spec.Port),
			"registered_time": float64(a.registeredT.UnixMicro()) / 1e6, "active": a.offerable(), "deactivated": a.deactivated,
			"version": version, "resources": amounts(a.total), "used_resources": amounts(used), "offered_resources": amounts(offered),
		})
	}
	return out
}

func (m *master) oldTasks() []any {
	out := []any{}
	for _, f := range m.sortedFrameworks() {
		for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
			t := f.tasks[id]
			out = append(out, map[string]any{
				"id": id, "name": t.info.Name, "framework_id": f.id, "executor_id": "", "slave_id": t.a.id,
				"state": t.state.String(), "resources": amounts(t.has), "role": t.role, "statuses": []any{},
			})
		}
	}
	return out
}

func (m *master) oldFrameworks() map[string]any {
	describe := func(f *framework) any {
		return map[string]any{
			"id": f.id, "name": f.info.Name, "active": f.stream != nil, "connected": f.stream != nil, "roles": f.roles(),
		}
	}
	frameworks, completed := []any{}, []any{}
	for _, f := range m.sortedFrameworks() {
		frameworks = append(frameworks, describe(f))
	}
	for _, id := range slices.Sorted(maps.Keys(m.completed)) {
		completed = append(completed, describe(m.completed[id]))
	}
	return map[string]any{"frameworks": frameworks, "completed_frameworks": completed, "unregistered_frameworks": []any{}}
}

func (m *master) state() map[string]any {
	started := float64(m.started.UnixMicro()) / 1e6
	return map[string]any{
		"version": version, "id": m.id, "pid": "master@" + m.addr, "leader": "master@" + m.addr,
		"start_time": started, "elected_time": started, "slaves": m.slaves(), "frameworks": m.oldFrameworks()["frameworks"],
	}
}

func (m *master) metrics() map[string]float64 {
	out := map[string]float64{"master/elected": 1, "master/frameworks_connected": 0, "master/slaves_active": 0, "master/tasks_running": 0}
	for _, f := range m.frameworks {
		if f.stream != nil {
			out["master/frameworks_connected"]++
		}
		for _, t := range f.tasks {
			if t.state == mesos.TASK_RUNNING {
				out["master/tasks_running"]++
			}
		}
	}
	for _, a := range m.c.agents {
		if a.offerable() {
			out["master/slaves_active"]++
		}
	}
	return out
}

// machineID is a machine in the maintenance API.
type machineID struct {
	Hostname string `json:"hostname"`
	IP       string `json:"ip,omitempty"`
}

// windowJSON is a window of the schedule in the maintenance API.
type windowJSON struct {
	Machines       []machineID `json:"machine_ids"`
	Unavailability struct {
		Start    nanoseconds  `json:"start"`
		Duration *nanoseconds `json:"duration,omitempty"`
	} `json:"unavailability"`
}

type nanoseconds struct {
	Nanoseconds int64 `json:"nanoseconds"`
}

type scheduleJSON struct {
	Windows []windowJSON `json:"windows,omitempty"`
}

func (c *Cluster) postSchedule(w http.ResponseWriter, r *http.Request) {
	var s scheduleJSON
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&s); err != nil {
		say(w, http.StatusBadRequest, "Failed to parse body into JSON: %s", err)
		return
	}
	var windows []window
	for _, in := range s.Windows {
		out := window{when: mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: in.Unavailability.Start.Nanoseconds}}}
		if d := in.Unavailability.Duration; d != nil {
			out.when.Duration = &mesos.DurationInfo{Nanoseconds: d.Nanoseconds}
		}
		for _, machine := range in.Machines {
			out.hosts = append(out.hosts, machine.Hostname)
		}
		windows = append(windows, out)
	}
	c.mu.Lock()
	c.schedule(windows)
	c.mu.Unlock()
	say(w, http.StatusOK, "")
}

func (c *Cluster) scheduleJSON() scheduleJSON {
	var s scheduleJSON
	for _, in := range c.reg.windows {
		var out windowJSON
		out.Unavailability.Start.Nanoseconds = in.when.Start.Nanoseconds
		if d := in.when.Duration; d != nil {
			out.Unavailability.Duration = &nanoseconds{d.Nanoseconds}
		}
		for _, host := range in.hosts {
			out.Machines = append(out.Machines, machineID{Hostname: host, IP: "127.0.0.1"})
		}
		s.Windows = append(s.Windows, out)
	}
	return s
}

func (c *Cluster) maintenanceStatus() map[string]any {
	out := make(map[string]any)
	for _, host := range slices.Sorted(maps.Keys(c.reg.machines)) {
		id := machineID{Hostname: host, IP: "127.0.0.1"}
		if c.reg.machines[host] == "DOWN" {
			down, _ := out["down_machines"].([]any)
			out["down_machines"] = append(down, id)
			continue
		}
		draining, _ := out["draining_machines"].([]any)
		out["draining_machines"] = append(draining, map[string]any{"id": id, "statuses": c.m.statuses(host)})
	}
	return out
}

func (c *Cluster) postMachines(w http.ResponseWriter, r *http.Request, do func(string) error) {
	var machines []machineID
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&machines); err != nil {
		say(w, http.StatusBadRequest, "Failed to parse body into JSON: %s", err)
		return
	}
	for _, machine := range machines {
		if err := do(machine.Hostname); err != nil {
			say(w, http.StatusBadRequest, "%s", err)
			return
		}
	}
	say(w, http.StatusOK, "")
}
