package mesostest_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// What a client of a real master must know, one test each.

const (
	multiRole  = `{"type":"MULTI_ROLE"}`
	aware      = multiRole + `,{"type":"PARTITION_AWARE"},{"type":"TASK_KILLING_STATE"},{"type":"RESERVATION_REFINEMENT"}`
	frameworkA = `"user":"nobody","name":"a","failover_timeout":60.0,"checkpoint":true,"roles":["*"],"capabilities":[` + aware + `]`
	frameworkB = `"user":"nobody","name":"b","failover_timeout":60.0,"roles":["*"],"capabilities":[` + multiRole + `]`
)

func factsConfig() mesostest.Config {
	return mesostest.Config{
		AllocationInterval: 100 * time.Millisecond,
		Behave: func(info mesos.TaskInfo) mesostest.Behaviour {
			b := mesostest.Behaviour{Startup: 10 * time.Millisecond, Runs: mesostest.Forever, TermTakes: 10 * time.Millisecond}
			switch info.Command.GetValue() {
			case "short":
				b.Runs = 50 * time.Millisecond
			case "fail":
				b.Runs, b.ExitCode = 50*time.Millisecond, 3
			case "stubborn":
				b.IgnoresTerm = true
			case "missing":
				b.LaunchFails = true
			}
			return b
		},
	}
}

// onFacts runs a test on a bench with two agents.
func onFacts(t *testing.T, test func(*bench)) {
	t.Helper()
	onBench(t, factsConfig(), func(b *bench) {
		b.AddAgent(twoCores("h1"))
		b.AddAgent(twoCores("h2"))
		test(b)
	})
}

// executorAmount is what an executor has at least. Without disk a master takes none.
const executorAmount = `"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0.1}},{"name":"mem","type":"SCALAR","scalar":{"value":32}},
{"name":"disk","type":"SCALAR","scalar":{"value":1}}]`

// withDisk is twoCores, with some disk.
func withDisk(host string) mesostest.AgentSpec {
	spec := twoCores(host)
	spec.Resources = append(spec.Resources, mesostest.Scalar("disk", 1000))
	return spec
}

func twoCores(host string) mesostest.AgentSpec {
	return mesostest.AgentSpec{
		Hostname: host, Attributes: map[string]string{"rack": "r-" + host},
		Resources: []mesos.Resource{mesostest.Scalar("cpus", 2), mesostest.Scalar("mem", 1024), mesostest.Ports(31000, 31099)},
	}
}

// fw is a framework that is subscribed.
type fw struct {
	*bench
	*stream
	framework string
}

func (b *bench) framework(info string) *fw {
	b.Helper()
	s := b.subscribe(schedulerURL, `{"type":"SUBSCRIBE","subscribe":{"framework_info":{`+info+`}}}`, "Content-Type", asJSON)
	require.Equal(b, http.StatusOK, s.status)
	return &fw{b, s, fmt.Sprint(at(s.all()[0].json, "subscribed", "framework_id", "value"))}
}

// again subscribes with the same id.
func (f *fw) again(info string) *fw {
	f.Helper()
	id := `{"value":"` + f.framework + `"}`
	s := f.subscribe(schedulerURL, `{"type":"SUBSCRIBE","framework_id":`+id+`,"subscribe":{"framework_info":{"id":`+id+`,`+info+`}}}`,
		"Content-Type", asJSON)
	return &fw{f.bench, s, f.framework}
}

// call sends a call with further fields, on a connection of its own.
func (f *fw) call(kind, fields string) answer {
	f.Helper()
	if fields != "" {
		fields = "," + fields
	}
	return f.post(schedulerURL, `{"type":"`+kind+`","framework_id":{"value":"`+f.framework+`"}`+fields+`}`,
		"Content-Type", asJSON, "Mesos-Stream-Id", f.id)
}

// offer is an offer as it came.
type offer struct {
	id, agent, host, amounts string
	raw                      any
}

func (f *fw) offers() (out []offer) {
	for _, e := range f.all("OFFERS") {
		list, _ := at(e.json, "offers", "offers").([]any)
		for _, o := range list {
			out = append(out, offer{
				fmt.Sprint(at(o, "id", "value")), fmt.Sprint(at(o, "agent_id", "value")), fmt.Sprint(at(o, "hostname")), amounts(o), o,
			})
		}
	}
	return out
}

// on returns the last offer on a host.
func (f *fw) on(host string) offer {
	f.Helper()
	var found offer
	for _, o := range f.offers() {
		if o.host == host {
			found = o
		}
	}
	require.NotEmpty(f, found.id, "no offer on %s", host)
	return found
}

func taskJSON(id, agent, command string, cpus float64) string {
	return fmt.Sprintf(`{"name":"t","task_id":{"value":%q},"agent_id":{"value":%q},"command":{"value":%q},`+
		`"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":%v}}]}`, id, agent, command, cpus)
}

// accept launches on an offer.
func (f *fw) accept(o offer, refuse float64, tasks ...string) answer {
	f.Helper()
	return f.call("ACCEPT", fmt.Sprintf(`"accept":{"offer_ids":[{"value":%q}],"operations":[{"type":"LAUNCH","launch":{"task_infos":[%s]}}],`+
		`"filters":{"refuse_seconds":%v}}`, o.id, strings.Join(tasks, ","), refuse))
}

// status is an update as it came.
type status struct {
	task, state, reason, source, message, uuid, agent string
	raw                                               any
}

func (s status) String() string { return s.state }

func (f *fw) updates(task string) (out []status) {
	text := func(v any) string { t, _ := v.(string); return t }
	for _, e := range f.all("UPDATE") {
		s := at(e.json, "update", "status")
		u := status{
			text(at(s, "task_id", "value")), text(at(s, "state")), text(at(s, "reason")), text(at(s, "source")),
			text(at(s, "message")), text(at(s, "uuid")), text(at(s, "agent_id", "value")), s,
		}
		if u.task == task {
			out = append(out, u)
		}
	}
	return out
}

// last returns the last update of a task.
func (f *fw) last(task string) status {
	f.Helper()
	all := f.updates(task)
	require.NotEmpty(f, all, "no update of %s", task)
	return all[len(all)-1]
}

func (f *fw) acknowledge(s status) answer {
	return f.call("ACKNOWLEDGE", fmt.Sprintf(`"acknowledge":{"agent_id":{"value":%q},"task_id":{"value":%q},"uuid":%q}`, s.agent, s.task, s.uuid))
}

// settle acknowledges a task's updates as they come, for a while.
func (f *fw) settle(task string) {
	f.Helper()
	for range 4 {
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if all := f.updates(task); len(all) > 0 && all[len(all)-1].uuid != "" {
			f.acknowledge(all[len(all)-1])
		}
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestNamesAreThoseOfTheProtoFile(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		camel := b.post(schedulerURL, `{"type":"REVIVE","frameworkId":{"value":"`+f.framework+`"}}`, "Content-Type", asJSON)
		require.Equal(t, 400, camel.status)
		require.Equal(t, "Failed to validate scheduler::Call: Expecting 'framework_id' to be present", camel.body)
		require.Equal(t, 202, f.call("REVIVE", `"noSuchField":1,"no_such_field":{"a":[]}`).status)

		lower := b.post(schedulerURL, `{"type":"subscribe"}`, "Content-Type", asJSON)
		require.Equal(t, "Failed to validate scheduler::Call: Expecting 'type' to be present", lower.body)
		number := b.post(schedulerURL, `{"type":5}`, "Content-Type", asJSON)
		require.Equal(t, "Failed to convert JSON into Call protobuf: Not expecting a JSON number for field 'type'", number.body)
		require.Equal(t, 202, f.call("DECLINE", `"decline":{"offer_ids":[],"filters":{"refuse_seconds":"1"}}`).status)
	})
}

func TestDoublesHaveAFractionAndTimesDoNotFitADouble(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		require.Contains(t, string(f.all()[0].raw), `"heartbeat_interval_seconds":15.0`)
		require.Contains(t, string(f.all("OFFERS")[0].raw), `"scalar":{"value":2.0}`)

		start := time.Now().Add(time.Hour).Add(1)
		b.Maintain(start, time.Hour, "h1")
		synctest.Wait()
		n := at(f.on("h1").raw, "unavailability", "start", "nanoseconds").(json.Number)
		require.Equal(t, fmt.Sprint(start.UnixNano()), n.String())
		_, exact := at(f.on("h1").raw, "unavailability", "duration", "nanoseconds").(json.Number)
		require.True(t, exact)
		require.Greater(t, start.UnixNano(), int64(1)<<53)
	})
}

func TestOnlyTheOldEndpointsSaySlave(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		for _, e := range f.all() {
			require.NotContains(t, string(e.raw), "slave_id")
		}
		old := b.do(http.MethodGet, "http://master:5050/master/slaves", "")
		require.Equal(t, b.AgentID("h1"), at(parseJSON([]byte(old.body)), "slaves", 0, "id"))
		agents := b.post("http://master:5050/api/v1", `{"type":"GET_AGENTS"}`, "Content-Type", asJSON)
		require.Equal(t, b.AgentID("h1"), at(parseJSON([]byte(agents.body)), "get_agents", "agents", 0, "agent_info", "id", "value"))
	})
}

func TestTheStreamBeginsAndBeats(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		require.Equal(t, asJSON, f.header.Get("Content-Type"))
		require.NotEmpty(t, f.id)
		var kinds []string
		for _, e := range f.all() {
			kinds = append(kinds, e.kind())
		}
		require.Equal(t, []string{"SUBSCRIBED", "HEARTBEAT", "OFFERS"}, kinds)
		began := time.Now()
		pass(7 * time.Second)
		f.call("DECLINE", `"decline":{"offer_ids":[{"value":"`+f.on("h1").id+`"}],"filters":{"refuse_seconds":0}}`) // other traffic
		pass(24 * time.Second)
		beats := f.all("HEARTBEAT")
		require.Len(t, beats, 3)
		require.Equal(t, 15*time.Second, beats[1].at.Sub(began))
		require.Equal(t, 30*time.Second, beats[2].at.Sub(began))
	})
}

func TestFiltersEndWithTheirSubscription(t *testing.T) {
	onFacts(t, func(b *bench) {
		declined := func(f *fw) {
			f.call("DECLINE", `"decline":{"offer_ids":[{"value":"`+f.on("h1").id+`"}],"filters":{"refuse_seconds":3600}}`)
			pass(time.Second)
			require.Len(t, b.Offers(), 1, "h2")
		}
		f := b.framework(frameworkA)
		declined(f)
		f.cancel()
		synctest.Wait()
		g := f.again(frameworkA)
		pass(time.Second)
		require.Len(t, b.Offers(), 2, "the master has heard the end")
		declined(g)
		h := g.again(frameworkA)
		pass(time.Minute)
		require.Len(t, b.Offers(), 1, "it has not")
		h.call("REVIVE", "")
		require.Len(t, b.Offers(), 2)
	})
}

func TestRefusalsAre200AndAnErrorEvent(t *testing.T) {
	for name, c := range map[string]struct{ info, message string }{
		"a bad role":      {`"user":"u","name":"n","roles":["a b"],"capabilities":[` + multiRole + `]`, "contains backspace or whitespace"},
		"roles twice":     {`"user":"u","name":"n","roles":["a","a"],"capabilities":[` + multiRole + `]`, "duplicate items: { a }"},
		"both forms":      {`"user":"u","name":"n","role":"x","roles":["a"],"capabilities":[` + multiRole + `]`, "'FrameworkInfo.role' must not be set"},
		"not MULTI_ROLE":  {`"user":"u","name":"n","roles":["a"]`, "'FrameworkInfo.roles' must not be set"},
		"unknown ability": {`"user":"u","name":"n","roles":["a"],"capabilities":[{"type":"FLYING"}]`, "'FrameworkInfo.roles' must not be set"},
		"too long a wait": {`"user":"u","name":"n","failover_timeout":1e12`, "The framework failover_timeout (1e+12) is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				s := b.subscribe(schedulerURL, `{"type":"SUBSCRIBE","subscribe":{"framework_info":{`+c.info+`}}}`, "Content-Type", asJSON)
				require.Equal(t, 200, s.status)
				require.Len(t, s.all(), 1)
				require.Contains(t, at(s.all()[0].json, "error", "message"), c.message)
				require.Equal(t, io.EOF, s.over())
			})
		})
	}
}

func TestCallsNeedTheStreamID(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		ok := f.call("REVIVE", "")
		require.Equal(t, 202, ok.status)
		require.Empty(t, ok.body)
		update := f.call("UPDATE_FRAMEWORK", `"update_framework":{"framework_info":{"id":{"value":"`+f.framework+`"},`+frameworkA+`}}`)
		require.Equal(t, 200, update.status)

		revive := `{"type":"REVIVE","framework_id":{"value":"` + f.framework + `"}}`
		without := b.post(schedulerURL, revive, "Content-Type", asJSON)
		require.Equal(t, 400, without.status)
		require.Equal(t, "All non-subscribe calls should include the 'Mesos-Stream-Id' header", without.body)
		stale := b.post(schedulerURL, revive, "Content-Type", asJSON, "Mesos-Stream-Id", "00000000-0000-4000-8000-000000000000")
		require.Equal(t, 400, stale.status)
		require.Contains(t, stale.body, "didn't match the stream ID currently associated with framework ID")

		f.cancel()
		synctest.Wait()
		off := f.call("REVIVE", "")
		require.Equal(t, 403, off.status)
		require.Equal(t, "Framework is not subscribed", off.body)
	})
}

func TestErrorsArePlainText(t *testing.T) {
	sub := `{"type":"SUBSCRIBE","subscribe":{"framework_info":{` + frameworkA + `}}}`
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		status       int
		text         string
	}{
		"no JSON":          {"POST", `{"type": `, []string{"Content-Type", asJSON}, 400, "Failed to parse body into JSON: syntax error at line 1 near:"},
		"no object":        {"POST", `[]`, []string{"Content-Type", asJSON}, 400, "Failed to convert JSON into Call protobuf: Expecting a JSON object"},
		"no protobuf":      {"POST", "\xff\xff", []string{"Content-Type", asProtobuf}, 400, "Failed to parse body into Call protobuf"},
		"missing field":    {"POST", `{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"u"}}}`, []string{"Content-Type", asJSON}, 400, "Failed to convert JSON into Call protobuf: Missing required fields: subscribe.framework_info.name"},
		"no type":          {"POST", `{}`, []string{"Content-Type", asJSON}, 400, "Failed to validate scheduler::Call: Expecting 'type' to be present"},
		"nobody":           {"POST", `{"type":"REVIVE","framework_id":{"value":"x"}}`, []string{"Content-Type", asJSON}, 400, "Framework cannot be found"},
		"no content type":  {"POST", sub, []string{"Content-Type", ""}, 400, "Expecting 'Content-Type' to be present"},
		"with a charset":   {"POST", sub, []string{"Content-Type", asJSON + "; charset=utf-8"}, 415, "Expecting 'Content-Type' of application/json or application/x-protobuf"},
		"wants text":       {"POST", sub, []string{"Content-Type", asJSON, "Accept", "text/plain"}, 406, "Expecting 'Accept' to allow 'application/x-protobuf' or 'application/json'"},
		"GET":              {"GET", "", nil, 405, "405 Method Not Allowed. Expecting one of { 'POST' }, but received 'GET'."},
		"id in one place":  {"POST", `{"type":"SUBSCRIBE","framework_id":{"value":"x"},"subscribe":{"framework_info":{` + frameworkA + `}}}`, []string{"Content-Type", asJSON}, 400, "Failed to validate scheduler::Call: 'framework_id' differs from 'subscribe.framework_info.id'"},
		"SUBSCRIBE again":  {"POST", sub, []string{"Content-Type", asJSON, "Mesos-Stream-Id", "x"}, 400, "Subscribe calls should not include the 'Mesos-Stream-Id' header"},
		"uuid not base64":  {"POST", `{"type":"ACKNOWLEDGE","framework_id":{"value":"x"},"acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"!!"}}`, []string{"Content-Type", asJSON}, 400, "Failed to convert JSON into Call protobuf: Failed to base64 decode bytes field 'uuid': Invalid character '!'"},
		"uuid of 5 bytes":  {"POST", `{"type":"ACKNOWLEDGE","framework_id":{"value":"x"},"acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"c2hvcnQ="}}`, []string{"Content-Type", asJSON}, 400, "Failed to validate scheduler::Call: Not a valid UUID"},
		"nothing to do":    {"POST", `{"type":"RECONCILE","framework_id":{"value":"x"}}`, []string{"Content-Type", asJSON}, 400, "Failed to validate scheduler::Call: Expecting 'reconcile' to be present"},
		"word as a number": {"POST", strings.Replace(sub, "60.0", `"abc"`, 1), []string{"Content-Type", asJSON}, 400, "Failed to convert JSON into Call protobuf: Failed to parse 'abc' as a JSON number for field 'failover_timeout': syntax error at line 1 near: abc"},
	} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				got := b.do(c.method, schedulerURL, c.body, c.headers...)
				require.Equal(t, c.status, got.status)
				require.Equal(t, c.text, strings.TrimSpace(got.body))
				require.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
			})
		})
	}
}

func TestNobodyGetsInWithoutCredentials(t *testing.T) {
	config := factsConfig()
	config.Credentials = map[string]string{"me": "secret", "they": "a:b"}
	onBench(t, config, func(b *bench) {
		sub := `{"type":"SUBSCRIBE","subscribe":{"framework_info":{%s` + frameworkA + `}}}`
		basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
		for _, headers := range [][]string{{}, {"Authorization", basic("me:wrong")}, {"Authorization", basic("you:secret")}, {"Authorization", basic("they:a:b")}} {
			got := b.post(schedulerURL, fmt.Sprintf(sub, ""), append(headers, "Content-Type", asJSON)...)
			require.Equal(t, 401, got.status)
			require.Equal(t, `Basic realm="mesos-master-scheduler"`, got.header.Get("WWW-Authenticate"))
		}
		other := b.post(schedulerURL, fmt.Sprintf(sub, `"principal":"you",`), "Content-Type", asJSON, "Authorization", basic("me:secret"))
		require.Equal(t, 400, other.status)
		require.Contains(t, other.body, "Authenticated principal 'me' does not match principal 'you'")
		s := b.subscribe(schedulerURL, fmt.Sprintf(sub, ""), "Content-Type", asJSON, "Authorization", basic("me:secret"))
		require.Equal(t, 200, s.status)
	})
}

func TestMastersThatDoNotLead(t *testing.T) {
	config := factsConfig()
	config.Masters = []string{"one:5050", "two:5050"}
	onBench(t, config, func(b *bench) {
		call := func(addr string) answer {
			return b.post("http://"+addr+"/api/v1/scheduler", `{"type":"REVIVE","framework_id":{"value":"x"}}`, "Content-Type", asJSON)
		}
		away := call("two:5050")
		require.Equal(t, 307, away.status)
		require.Equal(t, "//one:5050/api/v1/scheduler", away.header.Get("Location"))
		hint := b.do(http.MethodGet, "http://two:5050/master/redirect", "")
		require.Equal(t, 307, hint.status)
		require.Equal(t, "//one:5050", hint.header.Get("Location"))

		b.Elect("")
		require.Equal(t, 503, call("one:5050").status)
		b.SetMasterDown("one:5050", true)
		require.Zero(t, call("one:5050").status, "no connection")
		b.Elect("two:5050")
		b.SetStarting(true)
		require.Equal(t, 404, call("two:5050").status, "its routes are not there yet")
		b.SetStarting(false)
		b.SetRecovering(true)
		busy := call("two:5050")
		require.Equal(t, 503, busy.status)
		require.Equal(t, "Master has not finished recovery", busy.body)
		b.SetRecovering(false)
		require.Equal(t, "Framework cannot be found", call("two:5050").body)
	})
}

func TestWrongCallsAreAnsweredByUpdatesWithoutUUID(t *testing.T) {
	for name, c := range map[string]struct{ info, state string }{
		"partition aware": {frameworkA, "TASK_DROPPED"}, "not": {frameworkB, "TASK_LOST"},
	} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				f := b.framework(c.info)
				o := f.on("h1")
				require.Equal(t, 202, f.accept(offer{id: "no-such"}, 0, taskJSON("t1", o.agent, "x", 1)).status)
				s := f.last("t1")
				require.Equal(t, c.state, s.state)
				require.Equal(t, "REASON_INVALID_OFFERS", s.reason)
				require.Equal(t, "Task launched with invalid offers: Offer no-such is no longer valid", s.message)
				require.Empty(t, s.uuid)
			})
		})
	}
	for name, c := range map[string]struct{ id, agent, command, message string }{
		"bad id":      {"a/b", "", "x", "'a/b' contains invalid characters"},
		"other agent": {"t", "elsewhere", "x", "Task uses invalid agent elsewhere while agent"},
		"too big":     {"t", "", "x", "is more than available"},
		"no command":  {"t", "", "", "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"},
	} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				f := b.framework(frameworkA)
				o := f.on("h1")
				cpus := 1.0
				if name == "too big" {
					cpus = 400
				}
				task := taskJSON(c.id, map[bool]string{true: o.agent, false: c.agent}[c.agent == ""], c.command, cpus)
				if name == "no command" {
					task = strings.Replace(task, `"command":{"value":""},`, "", 1)
				}
				require.Equal(t, 202, f.accept(o, 0, task).status)
				s := f.last(c.id)
				require.Equal(t, "TASK_ERROR", s.state)
				require.Equal(t, "REASON_TASK_INVALID", s.reason)
				require.Contains(t, s.message, c.message)
				require.Empty(t, s.uuid)
			})
		})
	}
	t.Run("nothing at all", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			before := len(f.all())
			require.Equal(t, 202, f.call("DECLINE", `"decline":{"offer_ids":[{"value":"no-such"}]}`).status)
			require.Equal(t, 202, f.call("SUPPRESS", `"suppress":{"roles":["foreign"]}`).status)
			require.Equal(t, 202, f.call("REVIVE", `"revive":{"roles":["a b"]}`).status)
			require.Equal(t, 202, f.acknowledge(status{agent: b.AgentID("h1"), task: "t", uuid: "MDEyMzQ1Njc4OWFiY2RlZg=="}).status)
			pass(time.Second)
			require.Len(t, f.all(), before)
		})
	})
}

func TestTheSecondOfTwoEqualIDsIsRefusedAndTheFirstRuns(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("twin", o.agent, "x", 0.5), taskJSON("twin", o.agent, "x", 0.5))
		f.settle("twin")
		require.Equal(t, "[TASK_ERROR TASK_STARTING TASK_RUNNING]", fmt.Sprint(f.updates("twin")))
		require.Len(t, b.Runs(), 1)
	})
}

func TestUpdatesAreSentAgainAndHoldTheNextBack(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "short", 1))
		pass(35 * time.Second)
		var times []string
		var first time.Time
		for _, e := range f.all("UPDATE") {
			if first.IsZero() {
				first = e.at
			}
			times = append(times, fmt.Sprint(e.at.Sub(first)))
		}
		require.Equal(t, []string{"0s", "10s", "30s"}, times)
		all := f.updates("t")
		require.Equal(t, "[TASK_STARTING TASK_STARTING TASK_STARTING]", fmt.Sprint(all))
		require.Equal(t, all[0].uuid, all[2].uuid)
		for _, next := range []string{"TASK_RUNNING", "TASK_FINISHED"} {
			require.Equal(t, 202, f.acknowledge(f.last("t")).status)
			require.Equal(t, next, f.last("t").state)
		}
		require.Equal(t, "Command exited with status 0", f.last("t").message)
		f.acknowledge(f.last("t"))
		f.acknowledge(f.last("t")) // twice does no harm
		count := len(f.updates("t"))
		pass(time.Hour)
		require.Len(t, f.updates("t"), count)
	})
}

func TestASecondSubscriptionReplacesTheFirst(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		held := f.on("h1")
		g := f.again(frameworkA)
		errors := f.all("ERROR")
		require.Len(t, errors, 1)
		require.Equal(t, "Framework failed over", at(errors[0].json, "error", "message"))
		require.Equal(t, io.EOF, f.over())
		require.Equal(t, 400, f.call("REVIVE", "").status, "the old stream id")
		require.Equal(t, 202, g.call("REVIVE", "").status)
		require.Empty(t, g.all("RESCIND"))
		g.accept(held, 0, taskJSON("t", held.agent, "x", 1))
		require.Equal(t, "REASON_INVALID_OFFERS", g.last("t").reason)
		pass(200 * time.Millisecond)
		require.NotEqual(t, held.id, g.on("h1").id, "it is offered again")
	})
}

func TestKillAndReconcileOfWhatTheMasterDoesNotKnow(t *testing.T) {
	onFacts(t, func(b *bench) {
		agent := b.AgentID("h1")
		for info, want := range map[string][3]string{
			frameworkA: {"TASK_UNKNOWN", "TASK_GONE", "TASK_UNKNOWN"},
			frameworkB: {"TASK_LOST", "TASK_LOST", "TASK_LOST"},
		} {
			f := b.framework(info)
			for i, where := range []string{"", `,"agent_id":{"value":"` + agent + `"}`, `,"agent_id":{"value":"nowhere"}`} {
				id := fmt.Sprint("t", i)
				f.call("RECONCILE", `"reconcile":{"tasks":[{"task_id":{"value":"`+id+`"}`+where+`}]}`)
				f.call("KILL", `"kill":{"task_id":{"value":"`+id+`"}`+where+`}`)
				all := f.updates(id)
				require.Len(t, all, 2)
				for _, s := range all {
					require.Equal(t, want[i], s.state)
					require.Equal(t, "REASON_RECONCILIATION", s.reason)
					require.Equal(t, "SOURCE_MASTER", s.source)
					require.Empty(t, s.uuid)
				}
			}
		}
	})
}

func TestATaskThatHasEndedIsGone(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "fail", 1))
		f.settle("t")
		require.Equal(t, "[TASK_STARTING TASK_RUNNING TASK_FAILED]", fmt.Sprint(f.updates("t")))
		require.Equal(t, "Command exited with status 3", f.last("t").message)
		f.call("KILL", `"kill":{"task_id":{"value":"t"},"agent_id":{"value":"`+o.agent+`"}}`)
		require.Equal(t, "TASK_GONE", f.last("t").state)
	})
}

func TestTimestampsAreSecondsInADouble(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
		pass(250 * time.Millisecond)
		seconds, err := at(f.last("t").raw, "timestamp").(json.Number).Float64()
		require.NoError(t, err)
		require.InDelta(t, float64(time.Now().UnixNano())/1e9, seconds, 0.3)
		require.NotEqual(t, math.Trunc(seconds), seconds)
	})
}

func TestOperationsThatNobodyKnowsArePassedOver(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		before := len(f.all("UPDATE", "ERROR", "UPDATE_OPERATION_STATUS"))
		require.Equal(t, 202, f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[{"type":"SING"}],"filters":{"refuse_seconds":0}}`).status)
		pass(200 * time.Millisecond)
		require.Len(t, f.all("UPDATE", "ERROR", "UPDATE_OPERATION_STATUS"), before)
		require.NotEqual(t, o.id, f.on("h1").id, "the offer is used up, and its resources are offered again")
		require.Equal(t, o.amounts, f.on("h1").amounts)
	})
}

func TestAnInvalidAcceptGivesAllItsOffersBack(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		one, two := f.on("h1"), f.on("h2")
		f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+one.id+`"},{"value":"`+two.id+`"}],"operations":[{"type":"LAUNCH","launch":{"task_infos":[`+
			taskJSON("t", one.agent, "x", 1)+`]}}],"filters":{"refuse_seconds":0}}`)
		require.Equal(t, "TASK_DROPPED", f.last("t").state)
		require.Contains(t, f.last("t").message, "must belong to one single agent")
		pass(200 * time.Millisecond)
		require.NotEqual(t, one.id, f.on("h1").id)
		require.NotEqual(t, two.id, f.on("h2").id)
	})
}

func TestImplicitReconciliationTellsWhatRuns(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
		f.settle("t")
		f.call("RECONCILE", `"reconcile":{"tasks":[]}`)
		s := f.last("t")
		require.Equal(t, []string{"TASK_RUNNING", "REASON_RECONCILIATION", ""}, []string{s.state, s.reason, s.uuid})
		require.Equal(t, "Reconciliation: Latest task state", s.message)
	})
}

func TestKillingTakesItsGracePeriod(t *testing.T) {
	for name, overrides := range map[string]bool{"the task's own": false, "the call's": true} {
		t.Run(name, func(t *testing.T) {
			config := factsConfig()
			config.KillPolicyOverrides = overrides
			onBench(t, config, func(b *bench) {
				b.AddAgent(twoCores("h1"))
				f := b.framework(frameworkA)
				o := f.on("h1")
				task := taskJSON("t", o.agent, "stubborn", 1)
				f.accept(o, 0, strings.Replace(task, `"name"`, `"kill_policy":{"grace_period":{"nanoseconds":10000000000}},"name"`, 1))
				f.settle("t")
				asked := time.Now()
				f.call("KILL", `"kill":{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":500000000}}}`)
				require.Equal(t, "TASK_KILLING", f.last("t").state)
				f.acknowledge(f.last("t"))
				pass(9 * time.Second)
				if overrides {
					require.Equal(t, "TASK_KILLED", f.last("t").state)
				} else {
					require.Equal(t, "TASK_KILLING", f.last("t").state)
				}
				pass(time.Minute)
				s := f.last("t")
				require.Equal(t, "TASK_KILLED", s.state)
				require.Equal(t, "Command terminated with signal Killed", s.message)
				took := b.Runs()[0].Ended.Sub(asked)
				require.Equal(t, map[bool]time.Duration{false: 10 * time.Second, true: 500 * time.Millisecond}[overrides], took)
			})
		})
	}
}

func TestTheWaysOfAnAgentToGo(t *testing.T) {
	for name, c := range map[string]struct {
		info, state, reason string
		leave               func(*bench)
		after               time.Duration
	}{
		"unregisters, aware":  {frameworkA, "TASK_LOST", "REASON_AGENT_REMOVED", func(b *bench) { b.UnregisterAgent("h1") }, 0},
		"set down, aware":     {frameworkA, "TASK_LOST", "REASON_AGENT_REMOVED", func(b *bench) { b.Maintain(time.Now(), time.Hour, "h1"); _ = b.MachineDown("h1") }, 0},
		"dies, aware":         {frameworkA, "TASK_UNREACHABLE", "REASON_AGENT_REMOVED", func(b *bench) { b.StopAgent("h1") }, 75 * time.Second},
		"dies, not aware":     {frameworkB, "TASK_LOST", "REASON_AGENT_REMOVED", func(b *bench) { b.StopAgent("h1") }, 75 * time.Second},
		"cut off, aware":      {frameworkA, "TASK_UNREACHABLE", "REASON_AGENT_REMOVED", func(b *bench) { b.CutAgent("h1") }, 75 * time.Second},
		"marked gone, aware":  {frameworkA, "TASK_GONE_BY_OPERATOR", "REASON_AGENT_REMOVED_BY_OPERATOR", func(b *bench) { b.MarkAgentGone("h1") }, 0},
		"host crashes, aware": {frameworkA, "TASK_UNREACHABLE", "REASON_AGENT_REMOVED", func(b *bench) { b.CrashHost("h1") }, 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				f := b.framework(c.info)
				o := f.on("h1")
				f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
				f.settle("t")
				pass(200 * time.Millisecond)
				rest := f.on("h1").id
				c.leave(b)
				if c.after > 0 {
					pass(c.after - time.Second)
					require.Equal(t, "TASK_RUNNING", f.last("t").state)
					require.Empty(t, f.all("FAILURE"))
					pass(2 * time.Second)
				}
				synctest.Wait()
				s := f.last("t")
				require.Equal(t, []string{c.state, c.reason, ""}, []string{s.state, s.reason, s.uuid})
				require.Equal(t, c.state == "TASK_UNREACHABLE" || c.after > 0, at(s.raw, "unreachable_time", "nanoseconds") != nil)
				// These come too, in an order that nobody may rely on.
				require.Len(t, f.all("FAILURE"), 1)
				require.Equal(t, o.agent, at(f.all("FAILURE")[0].json, "failure", "agent_id", "value"))
				require.Nil(t, at(f.all("FAILURE")[0].json, "failure", "status"))
				rescinded := false
				for _, e := range f.all("RESCIND") {
					rescinded = rescinded || at(e.json, "rescind", "offer_id", "value") == rest
				}
				require.True(t, rescinded)
			})
		})
	}
}

func TestTasksOfAnAgentThatComesBackRunOn(t *testing.T) {
	for name, info := range map[string]string{"aware": frameworkA, "not": frameworkB} {
		t.Run(name, func(t *testing.T) {
			onFacts(t, func(b *bench) {
				f := b.framework(info)
				o := f.on("h1")
				f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
				f.settle("t")
				b.StopAgent("h1")
				pass(2 * time.Minute)
				b.ReturnAgent("h1")
				pass(2 * time.Second)
				s := f.last("t")
				require.Equal(t, []string{"TASK_RUNNING", "REASON_AGENT_REREGISTERED", "SOURCE_MASTER", ""}, []string{s.state, s.reason, s.source, s.uuid})
				require.Len(t, b.Runs(), 1)
			})
		})
	}
}

func TestFailureIsNotOnlyForFailures(t *testing.T) {
	onFacts(t, func(b *bench) {
		b.AddAgent(withDisk("h3"))
		f := b.framework(frameworkA)
		o := f.on("h3")
		group := `{"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"DEFAULT","executor_id":{"value":"e"},"framework_id":{"value":"` + f.framework + `"},` + executorAmount + `},` +
			`"task_group":{"tasks":[` + taskJSON("g", o.agent, "short", 0.5) + `]}}}`
		f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[`+group+`],"filters":{"refuse_seconds":0}}`)
		f.settle("g")
		require.Equal(t, "TASK_FINISHED", f.last("g").state)
		require.Equal(t, "e", at(f.last("g").raw, "executor_id", "value"))
		failures := f.all("FAILURE")
		require.Len(t, failures, 1)
		require.Equal(t, json.Number("0"), at(failures[0].json, "failure", "status"))
		require.Equal(t, "e", at(failures[0].json, "failure", "executor_id", "value"))

		o = f.on("h2")
		f.accept(o, 0, taskJSON("c", o.agent, "fail", 1))
		f.settle("c")
		require.Equal(t, "TASK_FAILED", f.last("c").state)
		require.Len(t, f.all("FAILURE"), 1, "none for a command executor")
	})
}

func TestAGroupLivesAndDiesTogether(t *testing.T) {
	onFacts(t, func(b *bench) {
		b.AddAgent(withDisk("h3"))
		f := b.framework(frameworkA)
		o := f.on("h3")
		amount := executorAmount
		launch := func(o offer, tasks string) {
			group := `{"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"DEFAULT","executor_id":{"value":"e"},"framework_id":{"value":"` + f.framework + `"},` + amount + `},"task_group":{"tasks":[` + tasks + `]}}}`
			f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[`+group+`],"filters":{"refuse_seconds":0}}`)
		}
		launch(o, taskJSON("a", o.agent, "x", 0.5)+","+taskJSON("b", "elsewhere", "x", 0.5))
		require.Equal(t, "REASON_TASK_GROUP_INVALID", f.last("a").reason)
		require.Equal(t, "REASON_TASK_GROUP_INVALID", f.last("b").reason)
		pass(200 * time.Millisecond)
		o = f.on("h3")
		amount = strings.Replace(executorAmount, `"disk"`, `"mem"`, 1)
		launch(o, taskJSON("e", o.agent, "x", 0.5))
		require.Equal(t, "REASON_TASK_GROUP_INVALID", f.last("e").reason, "its executor has no disk")
		amount = executorAmount
		pass(200 * time.Millisecond)
		o = f.on("h3")
		dies := func(good, bad, command string) {
			launch(o, taskJSON(good, o.agent, "x", 0.5)+","+taskJSON(bad, o.agent, command, 0.5))
			for range 3 {
				f.settle(good)
				f.settle(bad)
			}
			require.Equal(t, "TASK_FAILED", f.last(bad).state)
			require.Equal(t, "TASK_KILLED", f.last(good).state)
		}
		dies("c", "d", "fail")
		b.RescindOffers()
		pass(200 * time.Millisecond) // all is in one offer
		o = f.on("h3")
		dies("g", "h", "missing")
		starting := f.updates("h")[0]
		require.Equal(t, "TASK_STARTING", starting.state, "before there is a container")
		require.Empty(t, f.last("h").reason, "of why there is none")
	})
}

func TestTheGraceOfAGroupThatDies(t *testing.T) {
	onFacts(t, func(b *bench) {
		b.AddAgent(withDisk("h3"))
		f := b.framework(frameworkA)
		o := f.on("h3")
		stubborn := strings.Replace(taskJSON("s", o.agent, "stubborn", 0.5), "{", `{"kill_policy":{"grace_period":{"nanoseconds":60000000000}},`, 1)
		group := `{"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"DEFAULT","executor_id":{"value":"e"},"framework_id":{"value":"` + f.framework + `"},` + executorAmount + `},` +
			`"task_group":{"tasks":[` + stubborn + "," + taskJSON("f", o.agent, "fail", 0.5) + `]}}}`
		f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[`+group+`],"filters":{"refuse_seconds":0}}`)
		for range 3 {
			f.settle("f")
			f.settle("s")
		}
		pass(4 * time.Second)
		f.settle("s")
		require.Equal(t, "TASK_KILLED", f.last("s").state, "after three seconds, whatever its own policy says")
	})
}

func TestAGroupThatIsKilledBeforeItIsDelivered(t *testing.T) {
	config := factsConfig()
	config.Behave = func(mesos.TaskInfo) mesostest.Behaviour { return mesostest.Behaviour{Startup: time.Minute} }
	onBench(t, config, func(b *bench) {
		b.AddAgent(withDisk("h3"))
		f := b.framework(frameworkA)
		o := f.on("h3")
		group := `{"type":"LAUNCH_GROUP","launch_group":{"executor":{"type":"DEFAULT","executor_id":{"value":"e"},"framework_id":{"value":"` + f.framework + `"},` + executorAmount + `},` +
			`"task_group":{"tasks":[` + taskJSON("a", o.agent, "x", 0.5) + "," + taskJSON("b", o.agent, "x", 0.5) + `]}}}`
		f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[`+group+`],"filters":{"refuse_seconds":0}}`)
		f.call("KILL", `"kill":{"task_id":{"value":"b"}}`)
		pass(time.Second)
		for _, id := range []string{"a", "b"} {
			require.Equal(t, []string{"TASK_KILLED", "REASON_TASK_KILLED_DURING_LAUNCH"}, []string{f.last(id).state, f.last(id).reason})
		}
	})
}

func TestOneBadResourceSpoilsAllOfALaunch(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("good", o.agent, "x", 0.5), taskJSON("bad", o.agent, "x", -1))
		for _, id := range []string{"good", "bad"} {
			require.Equal(t, []string{"TASK_ERROR", "REASON_TASK_INVALID"}, []string{f.last(id).state, f.last(id).reason})
		}
	})
}

func TestAKillForAnotherAgentIsDropped(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 0.5))
		f.settle("t")
		f.settle("t")
		f.call("KILL", `"kill":{"task_id":{"value":"t"},"agent_id":{"value":"`+f.on("h2").agent+`"}}`)
		pass(time.Minute)
		require.Equal(t, "TASK_RUNNING", f.last("t").state)
	})
}

func TestTheLastMomentOfATaskWithALimit(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, strings.Replace(taskJSON("t", o.agent, "stubborn", 0.5), "{",
			`{"max_completion_time":{"nanoseconds":5000000000},"kill_policy":{"grace_period":{"nanoseconds":60000000000}},`, 1))
		for range 3 {
			f.settle("t")
		}
		pass(6 * time.Second)
		f.settle("t")
		require.Equal(t, []string{"TASK_FAILED", "REASON_MAX_COMPLETION_TIME_REACHED"}, []string{f.last("t").state, f.last("t").reason})
		for _, u := range f.updates("t") {
			require.NotEqual(t, "TASK_KILLING", u.state, "it has no grace, and is not told of")
		}
	})
}

func TestFiltersRefuseOnlyWhatTheyContain(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 3600, taskJSON("t", o.agent, "fail", 1))
		pass(5 * time.Second)
		require.Equal(t, o.id, f.on("h1").id, "the rest is filtered")
		f.settle("t") // frees a cpu
		pass(time.Second)
		require.Equal(t, o.amounts, f.on("h1").amounts, "more than was refused")
		require.NotEqual(t, o.id, f.on("h1").id)
	})
}

func TestDeclineFilters(t *testing.T) {
	for name, c := range map[string]struct {
		filters string
		after   time.Duration
	}{
		"none":     {`"filters":{"refuse_seconds":0}`, 0},
		"2 s":      {`"filters":{"refuse_seconds":2}`, 2 * time.Second},
		"default":  {`"offer_ids":[]`, 5 * time.Second},
		"negative": {`"filters":{"refuse_seconds":-1}`, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, factsConfig(), func(b *bench) {
				b.AddAgent(twoCores("h1"))
				f := b.framework(frameworkA)
				o := f.on("h1")
				f.call("DECLINE", `"decline":{`+c.filters+`,"offer_ids":[{"value":"`+o.id+`"}]}`)
				if c.after > 0 {
					pass(c.after - 10*time.Millisecond)
					require.Len(t, f.offers(), 1)
				}
				pass(150 * time.Millisecond)
				require.Len(t, f.offers(), 2)
				require.NotEqual(t, o.id, f.on("h1").id)
			})
		})
	}
}

func TestSuppressAndRevive(t *testing.T) {
	onBench(t, factsConfig(), func(b *bench) {
		b.AddAgent(twoCores("h1"))
		f := b.framework(frameworkA)
		f.call("SUPPRESS", "")
		require.Empty(t, f.all("RESCIND"), "an offer that is out stays")
		f.call("DECLINE", `"decline":{"offer_ids":[{"value":"`+f.on("h1").id+`"}],"filters":{"refuse_seconds":3600}}`)
		pass(time.Minute)
		require.Len(t, f.offers(), 1)
		f.call("REVIVE", "")
		require.Len(t, f.offers(), 2, "at once, filters or not")
	})
}

func TestOffersTimeOut(t *testing.T) {
	config := factsConfig()
	config.OfferTimeout = 3 * time.Second
	onBench(t, config, func(b *bench) {
		b.AddAgent(twoCores("h1"))
		f := b.framework(frameworkA)
		o := f.on("h1")
		pass(3200 * time.Millisecond)
		require.Equal(t, o.id, at(f.all("RESCIND")[0].json, "rescind", "offer_id", "value"))
		require.NotEqual(t, o.id, f.on("h1").id)
	})
}

func TestTheFailoverTimeout(t *testing.T) {
	onFacts(t, func(b *bench) {
		info := strings.Replace(frameworkA, "60.0", "20.0", 1)
		f := b.framework(info)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "short", 1), taskJSON("u", o.agent, "x", 1))
		f.settle("u")
		for range 2 {
			if s := f.last("t"); s.state != "TASK_FINISHED" {
				f.acknowledge(s)
			}
		}
		f.cancel()
		pass(19 * time.Second)
		g := f.again(info)
		require.Equal(t, "TASK_FINISHED", g.last("t").state, "what was not delivered comes at once")
		g.cancel()
		pass(21 * time.Second)
		late := f.again(info)
		require.Equal(t, 200, late.status)
		require.Equal(t, "Framework has been removed", at(late.all()[0].json, "error", "message"))
		require.Equal(t, io.EOF, late.over())
		for _, r := range b.Runs() {
			require.False(t, r.Ended.IsZero(), "%s still runs", r.TaskID)
		}
	})
}

func TestANewLeaderHearsFromAgentsByAndBy(t *testing.T) {
	config := factsConfig()
	config.ReregisterAfter = 4 * time.Second
	onBench(t, config, func(b *bench) {
		b.AddAgent(twoCores("h1"))
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
		f.settle("t")
		master := at(f.all()[0].json, "subscribed", "master_info", "id")
		b.Elect("master:5050")
		synctest.Wait()
		require.ErrorIs(t, f.over(), io.ErrUnexpectedEOF, "no last chunk")
		require.Equal(t, "Framework cannot be found", f.call("REVIVE", "").body)
		g := f.again(frameworkA)
		require.NotEqual(t, master, at(g.all()[0].json, "subscribed", "master_info", "id"))
		ask := `"reconcile":{"tasks":[{"task_id":{"value":"t"},"agent_id":{"value":"` + o.agent + `"}}]}`
		require.Equal(t, 202, g.call("RECONCILE", ask).status)
		require.Empty(t, g.updates("t"), "no answer before the agent is back")
		pass(5 * time.Second)
		g.call("RECONCILE", ask)
		require.Equal(t, "TASK_RUNNING", g.last("t").state)
		require.Equal(t, o.agent, g.on("h1").agent, "agents keep their ids")
		require.Len(t, b.Runs(), 1)
	})
}

func TestMaintenanceAsksFrameworksToLeave(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
		f.settle("t")
		pass(200 * time.Millisecond)
		before := []string{f.on("h1").id, f.on("h2").id}
		b.Maintain(time.Now().Add(time.Hour), time.Hour, "h1")
		synctest.Wait()
		require.Len(t, f.all("RESCIND"), 2, "the offers of all agents")
		require.NotContains(t, before, f.on("h2").id)
		require.NotNil(t, at(f.on("h1").raw, "unavailability"))
		require.Nil(t, at(f.on("h2").raw, "unavailability"))
		inverse := f.all("INVERSE_OFFERS")
		require.Len(t, inverse, 1)
		require.Equal(t, o.agent, at(inverse[0].json, "inverse_offers", "inverse_offers", 0, "agent_id", "value"))
		id := fmt.Sprint(at(inverse[0].json, "inverse_offers", "inverse_offers", 0, "id", "value"))
		f.call("DECLINE_INVERSE_OFFERS", `"decline_inverse_offers":{"inverse_offer_ids":[{"value":"`+id+`"}],"filters":{"refuse_seconds":2}}`)
		pass(time.Second)
		require.Len(t, f.all("INVERSE_OFFERS"), 1)
		pass(1200 * time.Millisecond)
		require.Len(t, f.all("INVERSE_OFFERS"), 2, "it is asked again")
		id = fmt.Sprint(at(f.all("INVERSE_OFFERS")[1].json, "inverse_offers", "inverse_offers", 0, "id", "value"))
		f.call("ACCEPT_INVERSE_OFFERS", `"accept_inverse_offers":{"inverse_offer_ids":[{"value":"`+id+`"}],"filters":{"refuse_seconds":3600}}`)
		pass(time.Second)
		require.Len(t, f.all("INVERSE_OFFERS"), 2)
		f.call("REVIVE", `"revive":{}`)
		synctest.Wait()
		require.Len(t, f.all("INVERSE_OFFERS"), 3, "a REVIVE ends its filters")
		b.Maintain(time.Time{}, 0)
		synctest.Wait()
		require.Len(t, f.all("RESCIND_INVERSE_OFFER"), 1)
	})
}

func TestDrainingAnAgent(t *testing.T) {
	onFacts(t, func(b *bench) {
		f := b.framework(frameworkA)
		o := f.on("h1")
		f.accept(o, 0, taskJSON("t", o.agent, "x", 1))
		f.settle("t")
		pass(200 * time.Millisecond)
		// The operator's durations have seconds, unlike those of the scheduler API.
		drain := b.post("http://master:5050/api/v1",
			`{"type":"DRAIN_AGENT","drain_agent":{"agent_id":{"value":"`+o.agent+`"},"max_grace_period":{"seconds":5}}}`, "Content-Type", asJSON)
		require.Equal(t, 200, drain.status, drain.body)
		require.Len(t, f.all("RESCIND"), 1)
		f.settle("t")
		s := f.last("t")
		require.Equal(t, []string{"TASK_KILLED", "REASON_AGENT_DRAINING"}, []string{s.state, s.reason})
		count := len(f.offers())
		pass(time.Minute)
		require.Len(t, f.offers(), count, "nothing of it is offered")
		b.ReactivateAgent("h1")
		pass(200 * time.Millisecond)
		require.Equal(t, o.amounts, f.on("h1").amounts)
	})
}

func TestReservationsAndVolumes(t *testing.T) {
	config := factsConfig()
	onBench(t, config, func(b *bench) {
		spec := twoCores("h1")
		spec.Resources = append(spec.Resources, mesostest.Scalar("disk", 1000))
		b.AddAgent(spec)
		f := b.framework(strings.Replace(frameworkA, `"*"`, `"eng"`, 1))
		reserved := `"allocation_info":{"role":"eng"},"reservations":[{"type":"DYNAMIC","role":"eng"}]`
		disk := `{"name":"disk","type":"SCALAR","scalar":{"value":100},` + reserved + `}`
		volume := strings.TrimSuffix(disk, "}") + `,"disk":{"persistence":{"id":"v"},"volume":{"container_path":"data","mode":"RW"}}}`
		operation := func(kind, id, field, list, what string) string {
			return fmt.Sprintf(`{"type":%q,"id":{"value":%q},%q:{%q:[%s]}}`, kind, id, field, list, what)
		}
		do := func(o offer, operations ...string) {
			f.call("ACCEPT", `"accept":{"offer_ids":[{"value":"`+o.id+`"}],"operations":[`+strings.Join(operations, ",")+`],"filters":{"refuse_seconds":0}}`)
			pass(200 * time.Millisecond)
		}
		state := func() string {
			all := f.all("UPDATE_OPERATION_STATUS")
			s := at(all[len(all)-1].json, "update_operation_status", "status")
			return fmt.Sprint(at(s, "operation_id", "value"), " ", at(s, "state"), " ", at(s, "uuid", "value") != nil)
		}
		do(f.on("h1"), operation("RESERVE", "r", "reserve", "resources", disk))
		require.Equal(t, "r OPERATION_FINISHED true", state())
		require.Contains(t, f.on("h1").amounts, "disk(eng):100.0")
		o := f.on("h1")
		task := taskJSON("t", o.agent, "short", 0.5)
		task = strings.Replace(task, `"resources":[`, `"resources":[`+volume+`,`, 1)
		do(o, operation("CREATE", "c", "create", "volumes", volume), `{"type":"LAUNCH","launch":{"task_infos":[`+task+`]}}`)
		require.Equal(t, "c OPERATION_FINISHED true", state())
		f.settle("t")
		require.Equal(t, "TASK_FINISHED", f.last("t").state)
		pass(200 * time.Millisecond)
		do(f.on("h1"), operation("UNRESERVE", "early", "unreserve", "resources", disk))
		require.Equal(t, "early OPERATION_ERROR false", state(), "a volume is on it")
		b.RescindOffers()
		pass(200 * time.Millisecond) // all is in one offer
		do(f.on("h1"), operation("RESERVE", "r2", "reserve", "resources", disk), operation("CREATE", "again", "create", "volumes", volume))
		require.Equal(t, "again OPERATION_ERROR false", state(), "its id is not unique")
		do(f.on("h1"), operation("UNRESERVE", "u2", "unreserve", "resources", disk))
		require.Equal(t, "u2 OPERATION_FINISHED true", state())
		do(f.on("h1"), operation("DESTROY", "d", "destroy", "volumes", volume), operation("UNRESERVE", "u", "unreserve", "resources", disk))
		require.Equal(t, "u OPERATION_FINISHED true", state())
		require.Contains(t, f.on("h1").amounts, "disk(<nil>):")
		require.NotContains(t, f.on("h1").amounts, "disk(eng)")

		do(f.on("h1"), operation("RESERVE", "r3", "reserve", "resources", disk), operation("CREATE", "c3", "create", "volumes", volume))
		b.CrashHost("h1")
		b.RenewAgent("h1")
		pass(200 * time.Millisecond)
		require.Contains(t, f.on("h1").amounts, "disk(eng):100.0")
		require.Equal(t, []mesostest.Volume{{Role: "eng", ID: "v", Made: 2}}, b.Volumes("h1"))
	})
}

// TestWhatAMasterDoesNotTake of operations and tasks.
func TestWhatAMasterDoesNotTake(t *testing.T) {
	onBench(t, factsConfig(), func(b *bench) {
		spec := withDisk("h1")
		mount := mesostest.Scalar("disk", 500)
		mount.Disk = &mesos.Resource_DiskInfo{Source: &mesos.Resource_DiskInfo_Source{Type: mesos.Resource_DiskInfo_Source_MOUNT}}
		spec.Resources = append(spec.Resources, mesostest.Scalar("gpus", 2), mount)
		b.AddAgent(spec)
		info := strings.Replace(frameworkA, `"*"`, `"eng"`, 1) + `,"principal":"me"`
		f := b.framework(strings.Replace(info, aware, aware+`,{"type":"GPU_RESOURCES"}`, 1))
		resource := func(name string, amount float64, more string) string {
			return fmt.Sprintf(`{"name":%q,"type":"SCALAR","scalar":{"value":%v},"allocation_info":{"role":"eng"}%s}`, name, amount, more)
		}
		by := func(kind, role, principal string) string {
			return fmt.Sprintf(`{"type":%q,"role":%q,"principal":%q}`, kind, role, principal)
		}
		reserved := func(stack ...string) string { return `,"reservations":[` + strings.Join(stack, ",") + `]` }
		volume := func(id, more string) string {
			return fmt.Sprintf(`,"disk":{"persistence":{"id":%q%s},"volume":{"container_path":"x","mode":"RW"}}`, id, more)
		}
		mine := reserved(by("DYNAMIC", "eng", "me"))
		refused := func(kind, field, list, what, why string) {
			t.Helper()
			f.call("ACCEPT", fmt.Sprintf(`"accept":{"offer_ids":[{"value":%q}],"operations":[{"type":%q,"id":{"value":"o"},%q:{%q:[%s]}}],"filters":{"refuse_seconds":0}}`,
				f.on("h1").id, kind, field, list, what))
			pass(200 * time.Millisecond)
			all := f.all("UPDATE_OPERATION_STATUS")
			s := at(all[len(all)-1].json, "update_operation_status", "status")
			require.Equal(t, "OPERATION_ERROR", at(s, "state"), what)
			require.Contains(t, at(s, "message"), why)
		}
		for what, why := range map[string]string{
			resource("disk", 10, ""):                                                                "not dynamically reserved",
			resource("disk", 10, reserved(by("STATIC", "eng", "me"))):                               "not dynamically reserved",
			resource("disk", 10, `,"reservations":[{"type":"DYNAMIC","role":"eng"}]`):               "no principal set",
			resource("disk", 10, reserved(by("DYNAMIC", "eng", "you"))):                             "does not match a reserved resource",
			resource("disk", 10, reserved(by("DYNAMIC", "ops", "me"))):                              "was allocated to role 'eng'",
			resource("disk", 10, reserved(by("DYNAMIC", "*", "me"))):                                "cannot be reserved",
			resource("disk", 10, reserved(by("DYNAMIC", "a", "me"), by("DYNAMIC", "eng", "me"))):    "is not a refinement of 'a'",
			resource("disk", 10, `,"reservations":[{"role":"eng","principal":"me"}]`):               "type' field must be set",
			resource("disk", 10, mine+`,"disk":{}`):                                                 "set but empty",
			resource("disk", 10, mine+`,"revocable":{}`):                                            "revocable",
			resource("disk", -1, mine):                                                              "value <= 0",
			resource("disk", 0.0001, mine):                                                          "value <= 0",
			resource("disk", 200, mine+`,"disk":{"source":{"type":"MOUNT"}}`):                       "does not contain",
			`{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":2,"end":1}]}` + mine + `}`: "begin > end",
			`{"name":"ports","type":"RANGES","scalar":{"value":1}` + mine + `}`:                     "Invalid ranges",
			resource("cpus", 1, mine+volume("v", `,"principal":"me"`)):                              "should not be set for cpus",
			resource("gpus", 0.5, mine):                                                             "must be an unsigned integer",
		} {
			refused("RESERVE", "reserve", "resources", what, why)
		}
		for what, why := range map[string]string{
			resource("disk", 10, mine):                                                                  "'persistence' is not set",
			resource("disk", 10, volume("v", `,"principal":"me"`)):                                      "from unreserved resources",
			resource("disk", 10, mine+volume("v", "")):                                                  "no principal set in 'disk.persistence'",
			resource("disk", 10, mine+volume("v", `,"principal":"you"`)):                                "does not match a volume",
			resource("disk", 10, mine+volume("a/b", `,"principal":"me"`)):                               "invalid characters",
			resource("disk", 10, mine+`,"disk":{"persistence":{"id":"v","principal":"me"}}`):            "Expecting 'volume'",
			strings.Replace(resource("disk", 10, mine+volume("v", `,"principal":"me"`)), "RW", "RO", 1): "Read-only",
		} {
			refused("CREATE", "create", "volumes", what, why)
		}
		refused("UNRESERVE", "unreserve", "resources", resource("disk", 10, mine+volume("v", "")), "cannot be unreserved directly")
		refused("DESTROY", "destroy", "volumes", resource("disk", 10, mine), "'persistence' is not set")
		refused("UNRESERVE", "unreserve", "resources",
			resource("disk", 10, `,"reservations":[{"type":"DYNAMIC","role":"eng","principal":"me","labels":{"labels":[{"key":"other"}]}}]`), "does not contain")

		for i, c := range []struct{ old, new, why string }{
			{`"name":"t"`, `"health_check":{"type":"HTTP","http":{"port":80,"path":"x"}},"name":"t"`, "must start with '/'"},
			{`"name":"t"`, `"check":{"type":"TCP"},"name":"t"`, "not complete"},
			{`"name":"t"`, `"container":{"type":"MESOS","volumes":[{"container_path":"x","mode":"RW"}]},"name":"t"`, "Only one of them"},
			{`"name":"t"`, `"container":{"type":"DOCKER"},"name":"t"`, "is not set for DOCKER"},
			{`"name":"t"`, `"max_completion_time":{"nanoseconds":-1},"name":"t"`, "non-negative"},
			{`"resources":[`, `"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":1},"revocable":{}},`, "revocable and non-revocable"},
			{`"resources":[`, `"resources":[{"name":"cpus","type":"SCALAR","set":{"item":["a"]}},`, "Invalid scalar resource"},
		} {
			o := f.on("h1")
			id := fmt.Sprint("t-", i)
			f.accept(o, 0, strings.Replace(taskJSON(id, o.agent, "x", 1), c.old, c.new, 1))
			pass(200 * time.Millisecond)
			require.Equal(t, "TASK_ERROR", f.last(id).state, c.new)
			require.Contains(t, f.last(id).message, c.why)
		}
		again := f.again(strings.Replace(info, `"me"`, `"you"`, 1))
		require.Equal(t, "Changing framework's principal is not allowed.", at(again.all()[0].json, "error", "message"))
		status := f.call("ACKNOWLEDGE_OPERATION_STATUS", `"acknowledge_operation_status":{"uuid":"AAAAAAAAAAAAAAAAAAAAAA==","operation_id":{"value":"o"}}`)
		require.Equal(t, http.StatusBadRequest, status.status)
	})
}

func TestProtobufSaysTheSame(t *testing.T) {
	onFacts(t, func(b *bench) {
		s := b.subscribe(schedulerURL, `{"type":"SUBSCRIBE","subscribe":{"framework_info":{`+frameworkA+`}}}`,
			"Content-Type", asJSON, "Accept", asProtobuf)
		require.Equal(t, asProtobuf, s.header.Get("Content-Type"))
		var kinds []string
		for _, e := range s.all() {
			kinds = append(kinds, fmt.Sprint(fromProtobuf(t, e.raw)["type"]))
		}
		require.Equal(t, []string{"SUBSCRIBED", "HEARTBEAT", "OFFERS"}, kinds)
		both := b.subscribe(schedulerURL, `{"type":"SUBSCRIBE","subscribe":{"framework_info":{`+frameworkA+`}}}`,
			"Content-Type", asJSON, "Accept", asProtobuf+", "+asJSON)
		require.Equal(t, asJSON, both.header.Get("Content-Type"), "JSON wins")
	})
}

func TestFaults(t *testing.T) {
	t.Run("torn record", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			b.BreakStreams(true)
			pass(16 * time.Second) // the next record is a heartbeat
			require.Error(t, f.over())
			require.True(t, f.cut)
		})
	})
	t.Run("slow stream", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			b.SetFaults(mesostest.Faults{Slow: time.Second})
			s := b.subscribe(schedulerURL, `{"type":"SUBSCRIBE","subscribe":{"framework_info":{`+frameworkA+`}}}`, "Content-Type", asJSON)
			require.Empty(t, s.all())
			pass(3 * time.Second)
			require.Len(t, s.all(), 1)
		})
	})
	t.Run("silence", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			before := len(f.all())
			b.net.SetSilent(true)
			pass(time.Minute)
			require.Len(t, f.all(), before, "nothing comes through")
			f.cancel() // the master does not see that
			synctest.Wait()
			b.net.SetSilent(false)
			g := f.again(frameworkA)
			require.Equal(t, http.StatusOK, g.status)
			pass(time.Second)
			require.Equal(t, 202, g.call("REVIVE", "").status)
			require.Empty(t, f.all("ERROR"), "the old stream is replaced, but nobody hears it")
		})
	})
	t.Run("calls", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			b.SetFaults(mesostest.Faults{RefuseCalls: 1, LoseCalls: 1, LoseAnswers: 1})
			o := f.on("h1")
			require.Equal(t, 503, f.accept(o, 0, taskJSON("a", o.agent, "x", 1)).status)
			require.Zero(t, f.accept(o, 0, taskJSON("b", o.agent, "x", 1)).status)
			require.Zero(t, f.accept(o, 0, taskJSON("c", o.agent, "x", 1)).status)
			pass(time.Second)
			require.Empty(t, f.updates("a"))
			require.Empty(t, f.updates("b"))
			require.Equal(t, "TASK_STARTING", f.last("c").state, "only the answer was lost")
		})
	})
	t.Run("rescinded between plan and accept", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			b.SetFaults(mesostest.Faults{RescindAccepts: 1})
			o := f.on("h1")
			f.accept(o, 0, taskJSON("a", o.agent, "x", 1))
			require.Equal(t, "TASK_DROPPED", f.last("a").state)
			require.Len(t, f.all("RESCIND"), 1)
		})
	})
	t.Run("updates twice and late", func(t *testing.T) {
		onFacts(t, func(b *bench) {
			f := b.framework(frameworkA)
			b.SetFaults(mesostest.Faults{HoldBack: 1, Duplicate: 1})
			o := f.on("h1")
			f.accept(o, 0, taskJSON("a", o.agent, "x", 1), taskJSON("b", o.agent, "x", 1))
			pass(5 * time.Second)
			var order []string
			for _, e := range f.all("UPDATE") {
				order = append(order, fmt.Sprint(at(e.json, "update", "status", "task_id", "value")))
			}
			require.Len(t, order, 3)
			require.NotEqual(t, order[0], order[2])
			require.Equal(t, order[0], order[1])
		})
	})
}
