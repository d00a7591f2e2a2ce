package mesostest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// recordings returns the folder of the recorded scenarios.
func recordings(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("SLUICE_DATA"), "mesos-recordings")
	if os.Getenv("SLUICE_DATA") == "" {
		t.Skip("SLUICE_DATA is not set: there are no recordings of a real master to compare with")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recordings in SLUICE_DATA: %v", err)
	}
	return dir
}

// TestReplay sends every recorded request to the stand-in, at its time, and compares the answers.
func TestReplay(t *testing.T) {
	root := recordings(t)
	scenarios, err := filepath.Glob(filepath.Join(root, "[0-9]*"))
	require.NoError(t, err)
	require.NotEmpty(t, scenarios)
	for _, dir := range scenarios {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s := loadScenario(t, dir)
			onBench(t, s.config(), func(b *bench) {
				p := &player{bench: b, s: s, started: time.Now(), ids: make(map[string]string), streams: make(map[string]*stream)}
				p.play()
				p.compare()
			})
		})
	}
}

// What is compared differently, and why.
var (
	// skipped calls are not in the stand-in.
	skipped = map[string]string{
		"16-http-errors/18-url-unknown":   "the operator API's event stream",
		"26-teardown-state/07-get-master": "compression",
	}
	// timing is what recordings show only because of how long processes took to start.
	looseOffers = map[string]string{
		"22-health-checks":  "two tasks end around an allocation",
		"10-accept-invalid": "whose offers come together depends on the moment of the allocation",
		"13-agent-lost":     "whose offers come together depends on the moment of the allocation",
	}
)

// scenario is a recording.
type scenario struct {
	dir, name string
	steps     []recordedStep
	streams   map[string][]recordedEvent
	texts     map[string]string // of files
}

type recordedStep struct {
	at     time.Duration
	name   string // of the files; "" for an action
	action string
}

type recordedEvent struct {
	at  time.Duration
	raw object
}

var (
	stepLine   = regexp.MustCompile(`^\+\s*([0-9.]+)s > \[([^\]]+)\]`)
	actionLine = regexp.MustCompile(`^\+\s*([0-9.]+)s # (.*)$`)
)

func loadScenario(t *testing.T, dir string) *scenario {
	s := &scenario{dir: dir, name: filepath.Base(dir), streams: make(map[string][]recordedEvent), texts: make(map[string]string)}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		s.texts[f.Name()] = string(text)
		if name, ok := strings.CutSuffix(f.Name(), ".events.jsonl"); ok {
			s.streams[name] = readEvents(t, text)
		}
	}
	for line := range strings.Lines(s.texts["timeline.txt"]) {
		if m := stepLine.FindStringSubmatch(line); m != nil {
			s.steps = append(s.steps, recordedStep{at: seconds(t, m[1]), name: m[2]})
		}
		if m := actionLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			s.steps = append(s.steps, recordedStep{at: seconds(t, m[1]), action: m[2]})
		}
	}
	require.NotEmpty(t, s.steps)
	return s
}

func readEvents(t *testing.T, text []byte) (out []recordedEvent) {
	for line := range bytes.Lines(text) {
		o := parseJSON(line)
		at, err := o["t"].(json.Number).Float64()
		require.NoError(t, err)
		out = append(out, recordedEvent{time.Duration(at * float64(time.Second)), o["event"].(object)})
	}
	return out
}

func seconds(t *testing.T, text string) time.Duration {
	f, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return time.Duration(f * float64(time.Second))
}

// config reads the set-up of the scenario off its README.
func (s *scenario) config() mesostest.Config {
	readme := s.texts["README.md"]
	c := mesostest.Config{
		Masters: []string{"localhost:5050"}, AllocationInterval: 200 * time.Millisecond, Behave: behave, Seed: 1,
		KillPolicyOverrides: strings.Contains(readme, "--http_command_executor"),
	}
	if strings.Contains(readme, "--offer_timeout=3secs") {
		c.OfferTimeout = 3 * time.Second
	}
	if m := regexp.MustCompile(`--max_agent_ping_timeouts=(\d)`).FindStringSubmatch(readme); m != nil {
		n, _ := strconv.Atoi(m[1])
		c.AgentTimeout = time.Duration(n) * time.Second
		c.ReregisterAfter = 2300 * time.Millisecond
		if n == 5 {
			c.ReregisterAfter = 4300 * time.Millisecond
		}
	}
	if strings.Contains(readme, "--authenticate_http_frameworks") {
		c.Credentials = map[string]string{"rec": "sec"}
	}
	return c
}

func (s *scenario) agents() int {
	m := regexp.MustCompile(`- (\d) agents:`).FindStringSubmatch(s.texts["README.md"])
	n, _ := strconv.Atoi(m[1])
	return n
}

// behave does what the shell would do with the commands of the recordings.
func behave(info mesos.TaskInfo) mesostest.Behaviour {
	command := info.Command.GetValue()
	b := mesostest.Behaviour{Startup: 220 * time.Millisecond, TermTakes: 45 * time.Millisecond, Runs: 30 * time.Millisecond}
	if strings.Contains(command, "trap") {
		b.IgnoresTerm, b.Runs = true, mesostest.Forever
		return b
	}
	for _, m := range regexp.MustCompile(`sleep (\d+)`).FindAllStringSubmatch(command, -1) {
		n, _ := strconv.Atoi(m[1])
		b.Runs += time.Duration(n)*time.Second + 100*time.Millisecond
	}
	if m := regexp.MustCompile(`exit (\d+)`).FindStringSubmatch(command); m != nil {
		b.ExitCode, _ = strconv.Atoi(m[1])
	}
	yes, no := true, false
	if info.HealthCheck != nil {
		for i, healthy := range []*bool{&no, &yes, &no, &no, &no} {
			after := []time.Duration{50, 1060, 4090, 5100, 6110}[i] * time.Millisecond
			b.Checks = append(b.Checks, mesostest.CheckResult{After: after, Healthy: healthy, Kill: i == 4})
		}
	}
	if info.Check != nil {
		code := int32(7)
		b.Checks = append(b.Checks, mesostest.CheckResult{After: 40 * time.Millisecond, Status: &mesos.CheckStatusInfo{
			Type: mesos.CheckInfo_COMMAND.Enum(), Command: &mesos.CheckStatusInfo_Command{ExitCode: &code},
		}})
	}
	return b
}

// player replays a scenario.
type player struct {
	*bench
	s       *scenario
	started time.Time
	late    time.Duration // behind the recording, from waiting for what a call needs

	ids     map[string]string // recorded → ours: framework, agent, offer, stream ids, uuids
	streams map[string]*stream
	order   []string
}

func (p *player) play() {
	for i := range p.s.agents() {
		host := fmt.Sprintf("h%d", i+1)
		from := uint64(31000 + 1000*i)
		p.AddAgent(mesostest.AgentSpec{
			Hostname: host, Port: int32(5051 + i), Attributes: map[string]string{"rack": fmt.Sprintf("r%d", i+1), "host": host},
			Resources: []mesos.Resource{
				mesostest.Ports(from, from+999), mesostest.Scalar("cpus", 4), mesostest.Scalar("mem", 4096), mesostest.Scalar("disk", 10000),
			},
		})
	}
	p.started = time.Now()
	for _, step := range p.s.steps {
		p.sleepUntil(step.at)
		if step.name == "" {
			p.act(step.action)
			continue
		}
		if skipped[p.s.name+"/"+step.name] != "" {
			continue
		}
		p.wait(step.at)
		p.call(step.name)
	}
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

func (p *player) sleepUntil(at time.Duration) {
	time.Sleep(time.Until(p.started.Add(at + p.late)))
	synctest.Wait()
}

// act does what the recording did without a call.
func (p *player) act(action string) {
	switch {
	case strings.HasPrefix(action, "client closes"):
		p.streams[p.order[len(p.order)-1]].cancel()
	case strings.HasPrefix(action, "the executor process is killed"):
		require.True(p, p.KillExecutor("e-1"))
	case strings.HasPrefix(action, "the default executor process"):
		require.True(p, p.KillExecutor("e-2"))
	case action == "agent 1 is killed (SIGKILL)":
		p.StopAgent("h1")
	case strings.HasPrefix(action, "agent 1 starts again"):
		p.ReturnAgent("h1")
	case strings.HasPrefix(action, "agent 2 is told to go"):
		p.UnregisterAgent("h2")
	case strings.HasPrefix(action, "agent 1 is told to go"):
		p.UnregisterAgent("h1")
	case strings.HasPrefix(action, "master killed"):
		p.Elect("")
		p.SetMasterDown("localhost:5050", true)
	case action == "master starts":
		p.SetMasterDown("localhost:5050", false)
		p.Elect("localhost:5050")
		p.SetRecovering(true)
	case action == "probe: HTTP 400":
		p.SetRecovering(false)
	case strings.HasPrefix(action, "probe"):
	default:
		require.Fail(p, "an action that the player does not know", action)
	}
	synctest.Wait()
}

// call sends a recorded request and compares the status and the text of the answer.
func (p *player) call(name string) {
	body := ""
	for _, ending := range []string{".json", ".txt", ".pb"} {
		if text, ok := p.s.texts[name+".request"+ending]; ok {
			body = text
		}
	}
	head, want := p.s.texts[name+".request.headers"], p.s.texts[name+".response.headers"]
	plain := p.s.texts[name+".http"]
	wantBody := ""
	if plain != "" {
		_, rest, _ := strings.Cut(plain, "--- request head ---\n")
		head, rest, _ = strings.Cut(rest, "--- response head ---\n")
		want, wantBody, _ = strings.Cut(rest, "--- response body ---\n")
	}
	if strings.TrimSpace(head) == "" { // there was no connection
		head = "POST /api/v1/scheduler HTTP/1.1\nContent-Type: application/json\n"
	}
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path := "", ""
	_, err := fmt.Sscan(lines[0], &method, &path)
	require.NoError(p, err)
	var headers []string
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Host", "User-Agent", "Content-Length":
		case "Mesos-Stream-Id", "Authorization":
			headers = append(headers, key, p.translate(p.ourSecret(value)))
		default:
			headers = append(headers, key, value)
		}
	}
	if !slices.Contains(headers, "Content-Type") { // the client would set it
		headers = append(headers, "Content-Type", "")
	}
	body = p.translate(body)
	url := "http://localhost:5050" + path
	status := 0
	_, _ = fmt.Sscanf(want, "HTTP/1.1 %d", &status)
	if p.s.texts[name+".request.headers"] != "" || strings.Contains(want, "Mesos-Stream-Id") {
		s := p.subscribe(url, body, headers...)
		require.Equal(p, status, s.status, "%s: %s", name, s.body)
		if strings.Contains(want, "HTTP/1.1 200") {
			p.opened(name, s, want)
			return
		}
		wantBody += p.s.texts[name+".response.body"]
		require.Equal(p, p.normal(strings.TrimSpace(wantBody)), strings.TrimSpace(s.body), name)
		return
	}
	got := p.do(method, url, body, headers...)
	p.compareAnswer(name, status, want, wantBody, got)
}

// ourSecret replaces the recorded credentials by ours: what is right stays right, and what is wrong stays wrong.
func (p *player) ourSecret(value string) string {
	if !strings.HasPrefix(value, "Basic ") || value == "Basic cmVjOm5vcGU=" {
		return value
	}
	return "Basic cmVjOnNlYw==" // rec:sec
}

// opened notes a stream that is open.
func (p *player) opened(name string, s *stream, want string) {
	m := regexp.MustCompile(`Mesos-Stream-Id: (\S+)`).FindStringSubmatch(want)
	require.NotNil(p, m, name)
	p.ids[m[1]] = s.id
	require.Regexp(p, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, s.id)
	kind := regexp.MustCompile(`Content-Type: (\S+)`).FindStringSubmatch(want)
	require.Equal(p, kind[1], s.header.Get("Content-Type"), name)
	if p.s.texts[name+".http"] != "" { // recorded for 3 s
		stop := time.AfterFunc(3005*time.Millisecond, s.cancel)
		p.Cleanup(func() { stop.Stop() })
	}
	p.streams[name] = s
	p.order = append(p.order, name)
}

// compareAnswer compares an answer that is no stream.
func (p *player) compareAnswer(name string, status int, want, wantBody string, got answer) {
	require.Equal(p, status, got.status, "%s: %s", name, got.body)
	if status == 0 {
		return // no connection
	}
	for _, key := range []string{"Location", "WWW-Authenticate", "Allow"} {
		m := regexp.MustCompile(key + `: (.*)`).FindStringSubmatch(want)
		if m != nil {
			assert.Equal(p, strings.TrimSpace(m[1]), got.header.Get(key), name)
		}
	}
	if wantBody == "" {
		wantBody = p.s.texts[name+".response.body"]
	}
	switch {
	case strings.Contains(want, asJSON) && !strings.Contains(want, "gzip"):
		paths := func(body string) (out []string) { // here numbers may have a fraction or not
			for _, path := range shape(parseJSON([]byte(body))) {
				out = append(out, strings.Replace(path, " double", " json.Number", 1))
			}
			return out
		}
		for _, path := range paths(got.body) {
			assert.Contains(p, paths(wantBody), path, name)
		}
	case strings.Contains(want, "text/plain"):
		got := strings.TrimSpace(got.body)
		// The parsers' own words differ.
		for _, parser := range []string{"missing ): ((", "error parsing regexp"} {
			wantBody, _, _ = strings.Cut(wantBody, parser)
			got, _, _ = strings.Cut(got, parser)
		}
		assert.Equal(p, p.normal(strings.TrimSpace(wantBody)), strings.TrimSpace(got), name)
	}
}

// wait lets time go on, a little, until we have seen offers and updates that the recording had seen by then.
func (p *player) wait(until time.Duration) {
	for range 30 {
		if p.match(); p.caughtUp(until) {
			return
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		p.late += 10 * time.Millisecond
	}
}

func (p *player) caughtUp(until time.Duration) bool {
	for _, name := range p.order {
		var want []object
		for _, e := range p.s.streams[name] {
			if e.at <= until {
				want = append(want, e.raw)
			}
		}
		for _, id := range named(want) {
			if p.ids[id] == "" {
				return false
			}
		}
	}
	return true
}

var token = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-[OS]?\d+)?|"[A-Za-z0-9+/]{22}=="`)

// translate replaces recorded ids by ours. Those that no event has told are left as they are.
func (p *player) translate(text string) string {
	p.match()
	return token.ReplaceAllStringFunc(text, func(id string) string {
		bare := strings.Trim(id, `"`)
		if ours := p.ids[bare]; ours != "" {
			return strings.Replace(id, bare, ours, 1)
		}
		return id
	})
}

// normal replaces recorded ids by ours where ours are known.
func (p *player) normal(text string) string { return p.translate(text) }

// match pairs the ids in recorded events with those in ours.
func (p *player) match() {
	for _, name := range p.order {
		var want []object
		for _, e := range p.s.streams[name] {
			want = append(want, e.raw)
		}
		var got []object
		for _, e := range p.streams[name].all() {
			if e.json != nil {
				got = append(got, e.json)
			} else {
				got = append(got, fromProtobuf(p, e.raw))
			}
		}
		if len(want) == 0 { // a recording in protobuf
			for _, raw := range records(p, p.s.texts[name+".response.recordio"]) {
				if o := fromAny(raw); o != nil {
					want = append(want, o)
				} else {
					want = append(want, fromProtobuf(p, raw))
				}
			}
		}
		theirs, ours := named(want), named(got)
		for key, id := range theirs {
			if ours[key] != "" {
				p.ids[id] = ours[key]
			}
		}
	}
}

// named gives each id in events a name that does not depend on the run.
func named(events []object) map[string]string {
	out := make(map[string]string)
	count := make(map[string]int)
	seen := make(map[string]bool)
	note := func(key, id string) {
		if id == "" || seen[id] {
			return
		}
		seen[id] = true
		count[key]++
		out[fmt.Sprintf("%s#%d", key, count[key])] = id
	}
	str := func(v any) string { s, _ := v.(string); return s }
	for _, e := range events {
		note("framework", str(at(e, "subscribed", "framework_id", "value")))
		note("master", str(at(e, "subscribed", "master_info", "id")))
		offers, _ := at(e, "offers", "offers").([]any)
		for _, o := range offers {
			host := str(at(o, "hostname"))
			note("agent "+host, str(at(o, "agent_id", "value")))
			note("offer "+host+" "+amounts(o), str(at(o, "id", "value")))
		}
		inverse, _ := at(e, "inverse_offers", "inverse_offers").([]any)
		for _, o := range inverse {
			note("inverse "+str(at(o, "url", "address", "hostname")), str(at(o, "id", "value")))
		}
		status := at(e, "update", "status")
		note("update "+str(at(status, "task_id", "value")), str(at(status, "uuid")))
		operation := at(e, "update_operation_status", "status")
		note("operation "+str(at(operation, "operation_id", "value")), str(at(operation, "uuid", "value")))
	}
	return out
}

// amounts writes an offer's resources.
func amounts(offer any) string {
	list, _ := at(offer, "resources").([]any)
	var parts []string
	for _, r := range list {
		amount := fmt.Sprint(at(r, "scalar", "value"))
		if ranges, ok := at(r, "ranges", "range").([]any); ok {
			amount = fmt.Sprint(ranges...)
		}
		role := fmt.Sprint(at(r, "reservations", 0, "role"))
		parts = append(parts, fmt.Sprint(at(r, "name"), "(", role, "):", amount))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func fromAny(raw []byte) object {
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	return parseJSON(raw)
}

func records(t require.TestingT, text string) (out [][]byte) {
	r := bufio.NewReader(strings.NewReader(text))
	for {
		raw, err := readRecord(r)
		if err == io.EOF {
			return out
		}
		if err == errTorn {
			return out
		}
		require.NoError(t, err)
		out = append(out, raw)
	}
}

// shape lists the paths of a JSON value with the kind of what is there; elements of a list are one.
func shape(v any) []string {
	out := make(map[string]bool)
	var walk func(string, any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case object:
			for key, item := range x {
				walk(path+"."+key, item)
			}
		case []any:
			for _, item := range x {
				walk(path+"[]", item)
			}
		default:
			kind := fmt.Sprintf("%T", v)
			if n, ok := v.(json.Number); ok && strings.ContainsAny(n.String(), ".eE") {
				kind = "double"
			}
			out[path+" "+kind] = true
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(out))
}

// compare compares all streams.
func (p *player) compare() {
	for _, name := range p.order {
		want := p.s.streams[name]
		var got []recordedEvent
		for _, e := range p.streams[name].all() {
			if e.json != nil {
				got = append(got, recordedEvent{e.at.Sub(p.started), e.json})
			} else {
				got = append(got, recordedEvent{e.at.Sub(p.started), fromProtobuf(p, e.raw)})
			}
		}
		if len(want) == 0 {
			for _, raw := range records(p, p.s.texts[name+".response.recordio"]) {
				if o := fromAny(raw); o != nil {
					want = append(want, recordedEvent{raw: o})
				} else {
					want = append(want, recordedEvent{raw: fromProtobuf(p, raw)})
				}
			}
		}
		if len(want) == 0 && p.s.texts[name+".http"] != "" {
			_, body, _ := strings.Cut(p.s.texts[name+".http"], "--- response body ---\n")
			for _, raw := range records(p, strings.TrimSpace(body)) {
				want = append(want, recordedEvent{raw: fromAny(raw)})
			}
		}
		if len(want) == 0 { // the recording is in chunks
			assert.Equal(p, "SUBSCRIBED", fmt.Sprint(got[0].raw["type"]), name)
			continue
		}
		p.compareLists(name, p.transcript(want), p.transcript(got))
		p.compareLists(name, shapes(want), shapes(got))
		p.compareEnd(name)
	}
}

func (p *player) compareLists(name string, want, got map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		have := got[key]
		if strings.HasPrefix(key, "offers on") && len(have) == len(want[key])+1 {
			have = have[:len(want[key])] // one more came before the end
		}
		assert.Equal(p, want[key], have, "%s: %s", name, key)
	}
	for key := range got {
		assert.Contains(p, want, key, name)
	}
}

// transcript lists what matters of a stream's events: for each task, host and kind, what came in order.
func (p *player) transcript(events []recordedEvent) map[string][]string {
	out := make(map[string][]string)
	add := func(key, format string, args ...any) { out[key] = append(out[key], fmt.Sprintf(format, args...)) }
	for _, e := range events {
		kind := fmt.Sprint(e.raw["type"])
		switch kind {
		case "UPDATE":
			s := at(e.raw, "update", "status")
			add(fmt.Sprint("task ", at(s, "task_id", "value")), "%v %v %v %q uuid=%v healthy=%v",
				at(s, "state"), at(s, "source"), at(s, "reason"), p.message(s), at(s, "uuid") != nil, at(s, "healthy"))
		case "OFFERS":
			offers, _ := at(e.raw, "offers", "offers").([]any)
			for _, o := range offers {
				if looseOffers[p.s.name] == "" {
					add(fmt.Sprint("offers on ", at(o, "hostname")), "%s", amounts(o))
				}
			}
		case "UPDATE_OPERATION_STATUS":
			s := at(e.raw, "update_operation_status", "status")
			add("operations", "%v %v uuid=%v", at(s, "operation_id", "value"), at(s, "state"), at(s, "uuid") != nil)
		case "ERROR":
			text := fmt.Sprint(at(e.raw, "error", "message"))
			for _, parser := range []string{"missing ): ((", "error parsing regexp"} {
				text, _, _ = strings.Cut(text, parser)
			}
			add("errors", "%s", text)
		default:
			add("others", "%s", kind)
		}
	}
	slices.Sort(out["others"])
	return out
}

// message is a status' message in our ids, without the order in which a resource vector is written.
func (p *player) message(s any) string {
	text, _ := at(s, "message").(string)
	text = p.normal(text)
	if before, after, ok := strings.Cut(text, "is more than available "); ok {
		parts := strings.Split(after, "; ")
		slices.Sort(parts)
		text = before + "is more than available " + strings.Join(parts, "; ")
	}
	return text
}

// shapes returns the shapes of events by kind.
func shapes(events []recordedEvent) map[string][]string {
	all := make(map[string]map[string]bool)
	for _, e := range events {
		kind := fmt.Sprint(e.raw["type"])
		if s, ok := at(e.raw, "update", "status", "state").(string); ok {
			kind += " " + s
		}
		if all[kind] == nil {
			all[kind] = make(map[string]bool)
		}
		for _, path := range shape(e.raw) {
			all[kind][path] = true
		}
	}
	out := make(map[string][]string)
	for kind, set := range all {
		out[kind] = slices.Sorted(maps.Keys(set))
	}
	return out
}

var endLine = regexp.MustCompile(`(?m)= (\S+) stream closed by (\w+)(?: \(curl exit (\d+)\))?`)

// compareEnd compares how a stream ended.
func (p *player) compareEnd(name string) {
	for _, m := range endLine.FindAllStringSubmatch(p.s.texts["timeline.txt"], -1) {
		if m[1] != name || m[2] == "client" {
			continue
		}
		err := p.streams[name].over()
		if m[3] == "0" {
			assert.Equal(p, io.EOF, err, name)
		} else {
			assert.Error(p, err, name)
			assert.NotEqual(p, io.EOF, err, name)
		}
	}
}
