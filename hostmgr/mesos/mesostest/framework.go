package mesostest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// master is what the leading master knows. It is gone when another one leads.
type master struct {
	c          *Cluster
	id, addr   string
	started    time.Time
	recovering bool
	starting   bool

	frameworks map[string]*framework
	completed  map[string]*framework // by id: those that were torn down
	offers     map[string]*offer
	inverse    map[string]*inverseOffer
	waiting    map[string]bool // agents in the registry that have not come back yet

	frameworkSerial, offerSerial int
	tick, giveUp                 timer
}

// framework is a framework as the master knows it.
type framework struct {
	m           *master
	id          string
	info        mesos.FrameworkInfo
	constraints constraints
	can         map[mesos.FrameworkInfo_Capability_Type]bool
	suppressed  map[string]bool
	served      map[string]int // role → offers made
	filters     map[filterKey][]filter
	tasks       map[string]*task // by id, until a terminal state is acknowledged
	operations  map[string]*operation
	answers     map[string]inverseAnswer // by agent
	stream      *stream                  // nil while it is not connected
	heartbeat   timer
	failover    timer
	registered  time.Time
	again       time.Time // of the last subscription
	recovered   bool      // known from agents only: it has not subscribed with this master
}

func (f *framework) roles() []string {
	if f.can[mesos.FrameworkInfo_Capability_MULTI_ROLE] {
		return f.info.Roles
	}
	if f.info.Role != nil {
		return []string{*f.info.Role}
	}
	return []string{"*"}
}

func (f *framework) setInfo(info mesos.FrameworkInfo) {
	f.info = info
	f.can = make(map[mesos.FrameworkInfo_Capability_Type]bool)
	for _, capability := range info.Capabilities {
		f.can[capability.Type] = true
	}
}

// send puts an event on the framework's stream. While there is none, events are lost.
func (f *framework) send(e *scheduler.Event) {
	if f.stream != nil {
		f.stream.send(e)
	}
}

// drop breaks the stream off.
func (f *framework) drop() {
	if f.stream != nil {
		f.stream.breakOff()
	}
	f.stream = nil
	f.heartbeat.cancel()
}

// handleSubscribe answers a SUBSCRIBE and serves the stream.
func (c *Cluster) handleSubscribe(w http.ResponseWriter, r *http.Request, call *scheduler.Call, raw map[string]any, principal string) {
	if r.Header.Get(streamHeader) != "" {
		say(w, http.StatusBadRequest, "Subscribe calls should not include the '%s' header", streamHeader)
		return
	}
	asJSON, ok := acceptsJSON(r)
	if !ok {
		say(w, http.StatusNotAcceptable, "Expecting 'Accept' to allow '%s' or '%s'", typeProtobuf, typeJSON)
		return
	}
	c.mu.Lock()
	if c.m == nil || c.faults.take(call) != fine {
		c.mu.Unlock()
		say(w, http.StatusServiceUnavailable, "Master has not finished recovery")
		return
	}
	m := c.m
	s := newStream(c.uuidText(), asJSON)
	s.delay = c.faults.slow
	f := m.subscribe(call, raw, principal, s)
	c.mu.Unlock()

	header := w.Header()
	header.Set("Content-Type", typeProtobuf)
	if asJSON {
		header.Set("Content-Type", typeJSON)
	}
	header.Set(streamHeader, s.id)
	w.WriteHeader(http.StatusOK)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f != nil && c.m == m && f.stream == s {
			m.disconnected(f)
		}
	}()
	c.serve(w, r, s)
}

// subscribe connects a stream with a framework, new or known, or sends why not.
func (m *master) subscribe(call *scheduler.Call, raw map[string]any, principal string, s *stream) *framework {
	sub := call.Subscribe
	info := *sub.FrameworkInfo
	limits, err := readConstraints(raw, "subscribe")
	if err == nil {
		err = m.validateFramework(&info, limits)
	}
	if info.Principal == nil && principal != "" {
		info.Principal = &principal
	}
	id := info.GetID().GetValue()
	f := m.frameworks[id]
	if err == nil && f != nil && !equal(f.info.Principal, info.Principal) {
		err = refuse("Changing framework's principal is not allowed.")
	}
	if err != nil {
		s.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: err.Error()}})
		s.end()
		return nil
	}
	at := m.c.clock.Now()
	connected := f != nil && f.stream != nil
	switch {
	case f == nil:
		if id == "" {
			id = fmt.Sprintf("%s-%04d", m.id, m.frameworkSerial)
			m.frameworkSerial++
		}
		f = &framework{
			m: m, id: id, registered: at,
			filters: make(map[filterKey][]filter),
			tasks:   make(map[string]*task), operations: make(map[string]*operation),
		}
		m.frameworks[id] = f
	case f.recovered:
		f.recovered, f.registered = false, at
	default:
		info.User, info.Checkpoint = f.info.User, f.info.Checkpoint // silently kept
	}
	info.ID = &mesos.FrameworkID{Value: id}
	grown := f.info.ID == nil || len(info.Roles) > len(f.info.Roles)
	m.takeOffersBack(func(o *offer) bool { return o.f == f && !slices.Contains(info.Roles, o.role) }, true)
	m.takeOffersBack(func(o *offer) bool { return o.f == f }, false) // no word about these
	if connected {
		f.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
		f.stream.end()
	}
	f.setInfo(info)
	f.again = at
	f.constraints = limits
	f.unfilter(func(role string) bool { return f.suppressed[role] })
	f.suppressed, f.served = make(map[string]bool), make(map[string]int)
	for _, role := range sub.SuppressedRoles {
		f.suppressed[role] = true
	}
	f.failover.cancel()
	f.stream = s
	m.welcome(f)
	if !connected || grown {
		m.allocate()
	}
	for _, a := range m.c.agents { // the agents send again what they could not deliver
		a.frameworkIsBack(f.id)
	}
	return f
}

func equal(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// welcome sends what a subscription begins with.
func (m *master) welcome(f *framework) {
	interval := m.c.config.HeartbeatInterval.Seconds()
	info := m.info()
	f.send(&scheduler.Event{
		Type: scheduler.Event_SUBSCRIBED,
		Subscribed: &scheduler.Event_Subscribed{
			FrameworkID: f.info.ID, HeartbeatIntervalSeconds: &interval, MasterInfo: &info,
		},
	})
	m.beat(f)
}

func (m *master) beat(f *framework) {
	f.send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
	m.c.after(&f.heartbeat, m.c.config.HeartbeatInterval, func() { m.beat(f) })
}

// disconnected is called when the client of a stream has gone.
func (m *master) disconnected(f *framework) {
	f.stream = nil
	f.heartbeat.cancel()
	f.unfilter(func(string) bool { return true })
	m.takeOffersBack(func(o *offer) bool { return o.f == f }, false)
	wait := max(0, f.info.GetFailoverTimeout())
	m.c.after(&f.failover, time.Duration(wait*float64(time.Second)), func() { m.remove(f) })
}

// remove tears a framework down: its tasks are killed without a word, and its id is never accepted again.
func (m *master) remove(f *framework) {
	m.takeOffersBack(func(o *offer) bool { return o.f == f }, false)
	for _, id := range slices.Sorted(maps.Keys(f.tasks)) {
		f.tasks[id].release()
	}
	f.tasks = make(map[string]*task)
	for _, a := range m.c.agents {
		a.shutdownFramework(f.id)
	}
	if f.stream != nil {
		f.stream.end()
	}
	f.stream = nil
	f.heartbeat.cancel()
	f.failover.cancel()
	delete(m.frameworks, f.id)
	m.completed[f.id] = f
}

// updateFramework is the call of this name.
func (m *master) updateFramework(f *framework, u *scheduler.Call_UpdateFramework, raw map[string]any) error {
	info := u.FrameworkInfo
	limits, err := readConstraints(raw, "update_framework")
	if err == nil {
		err = m.validateFramework(&info, limits)
	}
	if err != nil {
		return answer(http.StatusBadRequest, "Supplied FrameworkInfo is not valid: %s", err)
	}
	const invalid = "FrameworkInfo update is not valid: Updating 'FrameworkInfo.%s' is unsupported; attempted to update from '%v' to '%v'"
	if info.User != f.info.User {
		return answer(http.StatusBadRequest, invalid, "user", f.info.User, info.User)
	}
	if info.GetCheckpoint() != f.info.GetCheckpoint() {
		return answer(http.StatusBadRequest, invalid, "checkpoint", f.info.GetCheckpoint(), info.GetCheckpoint())
	}
	if info.Principal == nil {
		info.Principal = f.info.Principal
	}
	f.setInfo(info)
	f.constraints = limits
	f.suppressed = make(map[string]bool)
	for _, role := range u.SuppressedRoles {
		f.suppressed[role] = true
	}
	m.takeOffersBack(func(o *offer) bool { return o.f == f && !slices.Contains(f.roles(), o.role) }, true)
	return nil
}

// validateFramework tells why the master refuses a FrameworkInfo.
func (m *master) validateFramework(info *mesos.FrameworkInfo, limits constraints) error {
	multi := slices.ContainsFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
		return c.Type == mesos.FrameworkInfo_Capability_MULTI_ROLE
	})
	switch {
	case multi && info.Role != nil:
		return refuse("'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable")
	case !multi && len(info.Roles) > 0:
		return refuse("'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable")
	}
	var twice []string
	for i, role := range info.Roles {
		if slices.Contains(info.Roles[:i], role) && !slices.Contains(twice, role) {
			twice = append(twice, role)
		}
	}
	if len(twice) > 0 {
		return refuse("'FrameworkInfo.roles' contains duplicate items: { %s }", strings.Join(twice, ", "))
	}
	for _, role := range info.Roles {
		if err := validateRole(role); err != nil {
			return refuse("'FrameworkInfo.roles' contains invalid role: %s", err)
		}
	}
	if info.Role != nil {
		if err := validateRole(*info.Role); err != nil {
			return refuse("'FrameworkInfo.role' is not a valid role: %s", err)
		}
	}
	id := info.GetID().GetValue()
	if id != "" {
		if err := validateID(id); err != nil {
			return err
		}
	}
	if t := info.GetFailoverTimeout(); t > math.MaxInt64/1e9 || t < math.MinInt64/1e9 {
		return refuse("The framework failover_timeout (%g) is invalid", t)
	}
	roles := info.Roles
	if !multi {
		roles = []string{cmp.Or(info.GetRole(), "*")}
	}
	foreign := slices.Sorted(slices.Values(roles))
	foreign = slices.DeleteFunc(foreign, func(role string) bool { return slices.Contains(m.c.config.Roles, role) })
	switch {
	case m.c.config.Roles != nil && len(foreign) > 0:
		return refuse("Roles { %s } are not present in the master's --roles", strings.Join(foreign, ", "))
	case m.completed[id] != nil:
		return refuse("Framework has been removed")
	}
	return limits.validate(roles)
}

// validateRole tells why a role is none.
func validateRole(role string) error {
	switch {
	case role == "*":
		return nil
	case role == "":
		return refuse("Role names cannot be the empty string")
	case strings.HasPrefix(role, "/"):
		return refuse("Role '%s' cannot start with a slash", role)
	case strings.HasSuffix(role, "/"):
		return refuse("Role '%s' cannot end with a slash", role)
	}
	for component := range strings.SplitSeq(role, "/") {
		switch {
		case component == "":
			return refuse("Role '%s' cannot contain two adjacent slashes", role)
		case component == "." || component == ".." || component == "*":
			return refuse("Role '%s' cannot include '%s' as a component", role, component)
		case strings.HasPrefix(component, "-"):
			return refuse("Role component '%s' is invalid because it starts with a dash", component)
		case strings.ContainsAny(component, "\x7f \t\n\v\f\r"):
			return refuse("Role component '%s' is invalid because it contains backspace or whitespace", component)
		}
	}
	return nil
}

// validateID tells why an id is none, of a task, an executor, a framework or a volume.
func validateID(id string) error {
	switch {
	case id == "":
		return refuse("ID must not be empty")
	case len(id) > 255:
		return refuse("ID must not be greater than 255 characters")
	case id == "." || id == "..":
		return refuse("'%s' is disallowed", id)
	case strings.ContainsFunc(id, func(r rune) bool { return r == '/' || r == '\\' || r < ' ' || r == 0x7f }):
		return refuse("'%s' contains invalid characters", id)
	}
	return nil
}
