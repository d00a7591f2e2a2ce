package mesos

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// What a real master says that surprises, in bytes of our own, and what the driver makes of it. That the stand-in says the
// same is tested in its own package.

// talk is a driver that listens to what a test says.
type talk struct {
	*testing.T
	*scripted
	d        *settled
	recorder *drivertest.Recorder
	say      chan string
}

const factOffer = `{"type":"OFFERS","offers":{"offers":[{"id":{"value":"%s"},"framework_id":{"value":"f-1"},"agent_id":{"value":"a-1"},
"hostname":"h0","allocation_info":{"role":"*"},"url":{"scheme":"http","address":{"ip":"10.0.0.7","port":5051},"path":"/slave(1)"},"resources":[
{"name":"cpus","type":"SCALAR","scalar":{"value":%v},"allocation_info":{"role":"*"}},
{"name":"mem","type":"SCALAR","scalar":{"value":4096.0},"allocation_info":{"role":"*"}}]}]}}`

// newTalk starts a driver that is offered an agent with 4 cores.
func newTalk(t *testing.T, change ...func(*Config)) *talk {
	k := &talk{T: t, say: make(chan string, 100), recorder: drivertest.NewRecorder()}
	k.scripted = newScripted(t, func(n int, w *records) {
		w.subscribedFor(15)
		w.event(fmt.Sprintf(factOffer, fmt.Sprint("o-", n), 4.0))
		for {
			select {
			case <-w.gone:
				return
			case event := <-k.say:
				if event == "" {
					return
				}
				w.event(event)
			}
		}
	})
	c := k.config(t)
	c.OfferWait = time.Minute
	for _, f := range change {
		f(&c)
	}
	k.d = newSettled(newDriver(t, c))
	require.NoError(t, k.d.Start(t.Context(), k.recorder))
	t.Cleanup(func() {
		require.NoError(t, k.d.Close())
		require.Empty(t, k.recorder.Violations())
	})
	return k
}

// launch has a run launched, and returns the ids of the offers that were accepted for it.
func (k *talk) launch(n int) (offers []string) {
	k.Helper()
	require.NoError(k, k.d.Launch(k.Context(), launchOf(n, "h0", "serve")))
	var call struct {
		Accept struct {
			OfferIDs []struct{ Value string } `json:"offer_ids"`
		}
	}
	require.NoError(k, json.Unmarshal(k.awaits(k.T, "ACCEPT"), &call))
	for _, id := range call.Accept.OfferIDs {
		offers = append(offers, id.Value)
	}
	return offers
}

// tell says an update of a run.
func (k *talk) tell(n int, state, more string) {
	k.say <- fmt.Sprintf(`{"type":"UPDATE","update":{"status":{"task_id":{"value":"%v"},"agent_id":{"value":"a-1"},"state":%q,
"timestamp":1700000000.25,"source":"SOURCE_MASTER"%s}}}`, runID(n), state, more)
}

const uuid = `,"uuid":"MDEyMzQ1Njc4OWFiY2RlZg=="`

// run launches a run and has it run.
func (k *talk) run(n int) {
	k.Helper()
	k.launch(n)
	k.tell(n, "TASK_RUNNING", uuid)
	becomes(k, k.d, runID(n), cluster.TaskRunning)
	k.awaits(k.T, "ACKNOWLEDGE")
}

// none: no call of a kind was made until now.
func (k *talk) none(kind string) {
	k.Helper()
	time.Sleep(50 * time.Millisecond)
	for {
		select {
		case r := <-k.calls:
			var call struct{ Type string }
			require.NoError(k, json.NewDecoder(r.Body).Decode(&call))
			require.NotEqual(k, kind, call.Type)
		default:
			return
		}
	}
}

// TestOnlyUpdatesWithAUUIDAreAcknowledged, and those by the bytes that came, in base64.
func TestOnlyUpdatesWithAUUIDAreAcknowledged(t *testing.T) {
	k := newTalk(t)
	k.launch(0)
	k.tell(0, "TASK_STARTING", "")
	becomes(t, k.d, runID(0), cluster.TaskStarting)
	k.none("ACKNOWLEDGE")
	k.tell(0, "TASK_RUNNING", uuid)
	require.JSONEq(t, `{"type":"ACKNOWLEDGE","framework_id":{"value":"f-1"},"acknowledge":{"agent_id":{"value":"a-1"},
		"task_id":{"value":"7.0.1"},"uuid":"MDEyMzQ1Njc4OWFiY2RlZg=="}}`, string(k.awaits(t, "ACKNOWLEDGE")))
	k.tell(0, "TASK_RUNNING", uuid) // the agent has not heard that, and says it again
	k.awaits(t, "ACKNOWLEDGE")
	k.tell(0, "TASK_STARTING", uuid) // late
	k.awaits(t, "ACKNOWLEDGE")
	require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
}

// TestALongMessage is cut before it is kept: the state folder does not take records of any length, and what waits behind one that it does
// not take is never acknowledged.
func TestALongMessage(t *testing.T) {
	k := newTalk(t)
	k.run(0)
	k.tell(0, "TASK_FAILED", uuid+`,"message":"exited with status 3; stderr='`+strings.Repeat("x", 2<<20)+`'"`)
	k.awaits(t, "ACKNOWLEDGE")
	require.Less(t, len(k.d.Inventory()[0].Message), 5<<10)
}

// TestWrongCallsAreToldByUpdates: the call was answered 202 all the same.
func TestWrongCallsAreToldByUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		state, more string
		reason      cluster.Reason
	}{
		"the offers are gone":     {"TASK_DROPPED", `,"reason":"REASON_INVALID_OFFERS","message":"Task launched with invalid offers"`, cluster.ReasonLaunchRefused},
		"as an old framework's":   {"TASK_LOST", `,"reason":"REASON_INVALID_OFFERS"`, cluster.ReasonLaunchRefused},
		"the task is wrong":       {"TASK_ERROR", `,"reason":"REASON_TASK_INVALID","message":"Task uses no resources"`, cluster.ReasonLaunchFailed},
		"a reason of tomorrow":    {"TASK_DROPPED", `,"reason":"REASON_FULL_MOON"`, cluster.ReasonLaunchRefused},
		"nothing but a new field": {"TASK_ERROR", `,"taskId":{"value":"camel"},"weather":{"rain":[1,2]}`, cluster.ReasonLaunchFailed},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t)
			k.launch(0)
			k.tell(0, c.state, c.more)
			require.Equal(t, c.reason, becomes(t, k.d, runID(0), cluster.TaskFailed).Reason)
			k.none("ACKNOWLEDGE")
		})
	}
}

// TestUnknownToAnAgentThatIsThere is what masters before 1.5 answer, where later ones say TASK_GONE: the task is lost, and its agent not.
func TestUnknownToAnAgentThatIsThere(t *testing.T) {
	k := newTalk(t)
	k.run(0)
	k.tell(0, "TASK_UNKNOWN", `,"reason":"REASON_RECONCILIATION","message":"Reconciliation: Task is unknown to the agent"`)
	require.Equal(t, cluster.ReasonHostLost, becomes(t, k.d, runID(0), cluster.TaskLost).Reason)
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	require.NotNil(t, k.d.agents["a-1"])
	require.False(t, k.d.agents["a-1"].lost)
}

// TestGoneIsTheAnswerToWhatIsOver: a task that has ended and was acknowledged is TASK_GONE, or TASK_UNKNOWN, for the master.
func TestGoneIsTheAnswerToWhatIsOver(t *testing.T) {
	for _, answer := range []string{"TASK_GONE", "TASK_UNKNOWN"} {
		k := newTalk(t)
		k.run(0)
		k.say <- fmt.Sprintf(factOffer, "o-2", 3.5)
		k.run(1)
		require.NoError(t, k.d.Kill(t.Context(), runID(0), time.Second))
		require.Contains(t, string(k.awaits(t, "KILL")), `"task_id":{"value":"7.0.1"}`)
		k.tell(0, answer, `,"reason":"REASON_RECONCILIATION"`)
		becomes(t, k.d, runID(0), cluster.TaskKilled)
		k.tell(1, answer, `,"reason":"REASON_RECONCILIATION"`)
		becomes(t, k.d, runID(1), cluster.TaskLost)
		k.tell(1, "TASK_GONE", "")
		k.tell(1, "TASK_RUNNING", "") // the copy comes back
		require.Contains(t, string(k.awaits(t, "KILL")), `"task_id":{"value":"7.1.1"}`)
	}
}

// TestAReconciliationDoesNotTellHowATaskEnded: the agent does, whose update may come after the answer to a reconciliation. One that
// never comes is waited for in vain for a while.
func TestAReconciliationDoesNotTellHowATaskEnded(t *testing.T) {
	const latest = `,"reason":"REASON_RECONCILIATION","message":"Reconciliation: Latest task state"`
	k := newTalk(t)
	for n := range 4 {
		k.run(n)
		k.say <- fmt.Sprintf(factOffer, fmt.Sprint("o-", n+10), 3.5)
	}
	for n := range 3 {
		k.tell(n, "TASK_FAILED", latest)
	}
	k.tell(3, "TASK_KILLED", latest)
	k.tell(0, "TASK_FAILED", `,"message":"Command exited with status 3"`+uuid)
	failed := becomes(t, k.d, runID(0), cluster.TaskFailed)
	require.Equal(t, []any{cluster.ReasonExited, int32(3)}, []any{failed.Reason, failed.ExitCode})
	k.tell(3, "TASK_KILLED", `,"reason":"REASON_AGENT_DRAINING"`+uuid)
	becomes(t, k.d, runID(3), cluster.TaskLost)
	require.Contains(t, string(k.awaits(t, "RECONCILE")), `"value":"7.1.1"`)

	k.d.mu.Lock()
	k.d.runs[runID(1)].vague = time.Now().Add(-agentRepeats)
	k.d.mu.Unlock()
	k.tell(1, "TASK_FAILED", latest)
	require.Equal(t, cluster.ReasonSupervisorLost, becomes(t, k.d, runID(1), cluster.TaskFailed).Reason)
	require.NoError(t, k.d.Kill(t.Context(), runID(2), 0))
	k.tell(2, "TASK_KILLED", latest)
	becomes(t, k.d, runID(2), cluster.TaskKilled)
}

// TestLostAlsoReachesThePartitionAware: of an agent that unregisters, or whose machine is set down.
func TestLostAlsoReachesThePartitionAware(t *testing.T) {
	k := newTalk(t)
	k.run(0)
	k.tell(0, "TASK_LOST", `,"reason":"REASON_AGENT_REMOVED","message":"Agent h0 removed: the agent unregistered"`)
	lost := becomes(t, k.d, runID(0), cluster.TaskLost)
	require.Equal(t, cluster.ReasonHostLost, lost.Reason)
	require.Equal(t, "TASK_LOST REASON_AGENT_REMOVED from master: Agent h0 removed: the agent unregistered", lost.Message)
}

// TestAnAgentIsLostInAnyOrder: of the update, the rescission and the failure. Its task is not given up; that is up to the
// scheduler.
func TestAnAgentIsLostInAnyOrder(t *testing.T) {
	const (
		failure = `{"type":"FAILURE","failure":{"agent_id":{"value":"a-1"}}}`
		rescind = `{"type":"RESCIND","rescind":{"offer_id":{"value":"o-2"}}}`
		update  = ""
	)
	for _, order := range [][]string{
		{failure, rescind, update},
		{failure, update, rescind},
		{rescind, failure, update},
		{rescind, update, failure},
		{update, failure, rescind},
		{update, rescind, failure},
	} {
		k := newTalk(t)
		k.run(0)
		k.say <- fmt.Sprintf(factOffer, "o-2", 3.5)
		for _, event := range order {
			if event == update {
				k.tell(0, "TASK_UNREACHABLE", `,"reason":"REASON_AGENT_REMOVED","unreachable_time":{"nanoseconds":1795231943861821953}`)
				continue
			}
			k.say <- event
		}
		require.Eventually(t, func() bool { return len(k.recorder.Hosts()) == 0 }, 30*time.Second, time.Millisecond)
		require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
		k.say <- fmt.Sprintf(factOffer, "o-3", 3.5)
		k.tell(0, "TASK_RUNNING", `,"reason":"REASON_AGENT_REREGISTERED"`)
		require.Eventually(t, func() bool { return len(k.recorder.Hosts()) == 1 }, 30*time.Second, time.Millisecond)
		require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
	}
}

// TestTheEndOfAnExecutorIsNoFailureOfItsAgent: FAILURE tells of executors too, also when they end well.
func TestTheEndOfAnExecutorIsNoFailureOfItsAgent(t *testing.T) {
	k := newTalk(t)
	k.run(0)
	k.say <- `{"type":"FAILURE","failure":{"agent_id":{"value":"a-1"},"executor_id":{"value":"7.0.1"},"status":0}}`
	k.say <- `{"type":"FAILURE","failure":{"agent_id":{"value":"a-1"},"executor_id":{"value":"7.0.1"},"status":9}}`
	k.say <- `{"type":"FAILURE","failure":{"agent_id":{"value":"somebody else's"}}}`
	k.tell(0, "TASK_RUNNING", uuid)
	k.awaits(t, "ACKNOWLEDGE") // all of that has been read
	require.Len(t, k.recorder.Hosts(), 1)
	require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
}

// TestOffersOfAnOldSubscriptionAreNoMore, though nobody rescinds them; and calls never go over the stream's connection, since
// their answers would be written into the middle of it.
func TestOffersOfAnOldSubscriptionAreNoMore(t *testing.T) {
	k := newTalk(t)
	k.say <- "" // the end of the stream
	require.Eventually(t, func() bool { return k.count.Load() == 2 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"o-2"}, k.launch(0))
	require.NoError(t, k.d.Kill(t.Context(), runID(0), 0))
	for {
		r := <-k.calls
		require.NotEqual(t, k.streams.Load().RemoteAddr, r.RemoteAddr)
		var call struct{ Type string }
		require.NoError(t, json.NewDecoder(r.Body).Decode(&call))
		if call.Type == "KILL" {
			break
		}
	}
}

// TestASecondOfferIsHeldBesideTheFirst: what is freed on an agent is offered before a filter ends, and offers of one agent are
// accepted together.
func TestASecondOfferIsHeldBesideTheFirst(t *testing.T) {
	k := newTalk(t)
	k.say <- fmt.Sprintf(factOffer, "o-2", 3.0)
	cores := func() int64 {
		if hosts := k.recorder.Hosts(); len(hosts) == 1 {
			return hosts[0].Capacity.Fixed[cluster.CPU]
		}
		return 0
	}
	require.Eventually(t, func() bool { return cores() == 7000 }, 30*time.Second, time.Millisecond)
	got := k.launch(0)
	slices.Sort(got)
	require.Equal(t, []string{"o-1", "o-2"}, got)
	k.tell(0, "TASK_RUNNING", uuid)
	becomes(t, k.d, runID(0), cluster.TaskRunning)
	require.EqualValues(t, 7000, cores(), "it has what it had, with a task on it")
}

// TestErrorsArePlainText: the reason reaches the operator as the master wrote it.
func TestErrorsArePlainText(t *testing.T) {
	for status, text := range map[int]string{
		http.StatusUnauthorized:         `principal "sluice" and its secret are not accepted`,
		http.StatusUnsupportedMediaType: "Expecting 'Content-Type' of application/json or application/x-protobuf (status 415)",
		http.StatusBadRequest:           "Expecting 'framework_info.name' to be present (status 400)",
	} {
		m := newScripted(t, func(_ int, w *records) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, map[int]string{
				http.StatusUnsupportedMediaType: "Expecting 'Content-Type' of application/json or application/x-protobuf",
				http.StatusBadRequest:           "Expecting 'framework_info.name' to be present\n",
			}[status])
		})
		c := m.config(t)
		c.Principal, c.Secret = "sluice", "hush"
		err := <-startOf(t, newDriver(t, c))
		require.ErrorIs(t, err, ErrRejected)
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "hush")
	}
}

// TestASecretWithAColon: whoever looks for a wrong secret is told that it need not be wrong.
func TestASecretWithAColon(t *testing.T) {
	m := newScripted(t, func(_ int, w *records) { w.WriteHeader(http.StatusUnauthorized) })
	c := m.config(t)
	c.Principal, c.Secret = "sluice", "hush:hush"
	err := <-startOf(t, newDriver(t, c))
	require.ErrorContains(t, err, "its secret has a colon, and Mesos' own authenticator takes none that has")
	require.NotContains(t, err.Error(), "hush")
}

// TestCredentialsThatAreTakenAway: a master that does not know the caller of a call any more is asked for another subscription, which it
// refuses with the reason if that lasts.
func TestCredentialsThatAreTakenAway(t *testing.T) {
	k := newTalk(t)
	var passes atomic.Bool
	k.answers(func(string) (int, string) {
		if passes.Load() {
			return http.StatusAccepted, ""
		}
		return http.StatusUnauthorized, "401 Unauthorized."
	})
	k.launch(0)
	require.Eventually(t, func() bool { return k.count.Load() == 2 }, 30*time.Second, time.Millisecond)
	require.Equal(t, cluster.ReasonLaunchRefused, becomes(t, k.d, runID(0), cluster.TaskFailed).Reason)
	passes.Store(true)
	k.run(1)
}

// TestAnAcceptThatAProxyAnswers: it may have reached the master, so the run is not given back, to be started elsewhere.
func TestAnAcceptThatAProxyAnswers(t *testing.T) {
	for _, status := range []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusGatewayTimeout} {
		k := newTalk(t)
		k.answers(func(call string) (int, string) {
			if call == "ACCEPT" {
				return status, ""
			}
			return http.StatusAccepted, ""
		})
		k.launch(0)
		k.d.comesTo(t, func() bool { return !k.d.runs[runID(0)].accepting })
		require.Equal(t, cluster.TaskLaunching, k.d.Inventory()[0].State)
		k.tell(0, "TASK_RUNNING", uuid)
		becomes(t, k.d, runID(0), cluster.TaskRunning)
	}
}

// TestTheRoomOfAnAcceptThatIsRefused counts, until it is offered again: what its launch was to use as well as the rest.
func TestTheRoomOfAnAcceptThatIsRefused(t *testing.T) {
	k := newTalk(t)
	k.answers(func(call string) (int, string) {
		if call == "ACCEPT" {
			return http.StatusBadRequest, "no"
		}
		return http.StatusAccepted, ""
	})
	k.launch(0)
	require.Equal(t, cluster.ReasonLaunchRefused, becomes(t, k.d, runID(0), cluster.TaskFailed).Reason)
	k.d.comesTo(t, func() bool { return len(k.d.touched) == 0 })
	require.EqualValues(t, 4000, k.recorder.Hosts()[0].Capacity.Fixed[cluster.CPU])
}

// TestAGroupThatIsFound: Mesos knows tasks of a run that we do not know any more. They are killed and asked for by the ids that they
// have, also those that are seen later, and the run ends with the last of them.
func TestAGroupThatIsFound(t *testing.T) {
	k := newTalk(t)
	tell := func(task, state string) {
		k.say <- fmt.Sprintf(`{"type":"UPDATE","update":{"status":{"task_id":{"value":%q},"agent_id":{"value":"a-1"},"state":%q}}}`, task, state)
	}
	seen := func(kind string, tasks ...string) {
		t.Helper()
		for len(tasks) > 0 {
			call := string(k.awaits(t, kind))
			require.NotContains(t, call, `"7.5.1"`, "no task has this id")
			tasks = slices.DeleteFunc(tasks, func(id string) bool { return strings.Contains(call, `"`+id+`"`) })
		}
	}
	tell("7.5.1_2", "TASK_RUNNING")
	becomes(t, k.d, runID(5), cluster.TaskRunning)
	require.NoError(t, k.d.Kill(t.Context(), runID(5), 0))
	seen("KILL", "7.5.1_2")
	tell("7.5.1_0", "TASK_RUNNING")
	seen("KILL", "7.5.1_0")
	k.say <- "" // the end of the stream
	seen("KILL", "7.5.1_0", "7.5.1_2")
	require.NoError(t, k.d.Close())

	again := newSettled(newDriver(t, k.d.config))
	require.NoError(t, again.Start(t.Context(), drivertest.NewRecorder()))
	t.Cleanup(func() { require.NoError(t, again.Close()) })
	require.Equal(t, []string{"7.5.1_2", "7.5.1_0"}, again.runs[runID(5)].record.Found)
	seen("RECONCILE", "7.5.1_0", "7.5.1_2")
	tell("7.5.1_0", "TASK_KILLED")
	tell("7.5.1_2", "TASK_RUNNING")
	tell("7.5.1_2", "TASK_KILLED")
	require.Contains(t, becomes(t, again, runID(5), cluster.TaskKilled).Message, "TASK_KILLED")
}

// TestTheHealthOfSeveralProcesses is that of the worst, and known when it is known of all that have checks of readiness, whichever
// began last.
func TestTheHealthOfSeveralProcesses(t *testing.T) {
	k := newTalk(t)
	k.say <- strings.Replace(fmt.Sprintf(factOffer, "o-disk", 1.0), `{"name":"mem"`,
		`{"name":"disk","type":"SCALAR","scalar":{"value":100},"allocation_info":{"role":"*"}},{"name":"mem"`, 1)
	require.Eventually(t, func() bool { return k.recorder.Hosts()[0].Capacity.Fixed[cluster.Disk] > 0 }, 30*time.Second, time.Millisecond)
	l := launchOf(0, "h0", "serve")
	ready := []cluster.HealthCheck{{Command: []string{"ready"}, Effect: cluster.Readiness}}
	alive := []cluster.HealthCheck{{Command: []string{"alive"}, Effect: cluster.Liveness, Delay: time.Hour}}
	l.Task.Processes = []cluster.Process{{Name: "a", Command: []string{"a"}, Checks: ready}, {Name: "b", Command: []string{"b"}, Checks: ready}, {Name: "c", Command: []string{"c"}, Checks: alive}}
	require.NoError(t, k.d.Launch(t.Context(), l))
	k.awaits(t, "ACCEPT")
	checked := func(member int, code string) {
		k.say <- fmt.Sprintf(`{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.0.1_%d"},"agent_id":{"value":"a-1"},"state":"TASK_RUNNING",
"reason":"REASON_TASK_CHECK_STATUS_UPDATED","check_status":{"type":"COMMAND","command":{%s}}}}}`, member, code)
	}
	health := func(want ...cluster.Health) {
		t.Helper()
		k.say <- `{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.9.1"},"agent_id":{"value":"a-1"},"state":"TASK_FINISHED","uuid":"MDEyMzQ1Njc4OWFiY2RlZg=="}}}`
		k.awaits(t, "ACKNOWLEDGE") // all before has been read
		var got []cluster.Health
		for _, h := range k.recorder.Health(runID(0)) {
			got = append(got, h.Health)
		}
		require.Equal(t, want, got)
	}
	checked(0, `"exit_code":0`)
	checked(1, `"exit_code":0`)
	health()
	k.say <- `{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.0.1_2"},"agent_id":{"value":"a-1"},"state":"TASK_RUNNING"}}}`
	health(cluster.HealthReady)
	checked(0, `"exit_code":1`)
	checked(1, "")
	checked(1, `"exit_code":0`)
	health(cluster.HealthReady, cluster.HealthUnready)
	checked(0, `"exit_code":0`)
	health(cluster.HealthReady, cluster.HealthUnready, cluster.HealthReady)
	require.NoError(t, k.d.Close())

	again, recorder := newSettled(newDriver(t, k.d.config)), drivertest.NewRecorder()
	k.recorder = recorder
	require.NoError(t, again.Start(t.Context(), recorder))
	t.Cleanup(func() { require.NoError(t, again.Close()) })
	checked(0, `"exit_code":0`)
	health()
	checked(1, `"exit_code":1`)
	health(cluster.HealthUnready)
}

// TestMachinesOfOneHostname are hosts of their own, each with a name that it keeps when it comes back as another agent.
func TestMachinesOfOneHostname(t *testing.T) {
	k := newTalk(t)
	k.run(0) // on a-1 at 10.0.0.7
	offer := func(agent, ip string) {
		offer := strings.NewReplacer("a-1", agent, "10.0.0.7", ip).Replace(fmt.Sprintf(factOffer, "o-"+agent, 4.0))
		k.say <- offer
	}
	named := func(want map[string]string) { // name to agent
		t.Helper()
		require.Eventually(t, func() bool {
			k.d.mu.Lock()
			defer k.d.mu.Unlock()
			got := map[string]string{}
			for name, a := range k.d.byName {
				got[name] = a.ID
			}
			return maps.Equal(got, want)
		}, 30*time.Second, time.Millisecond)
	}
	offer("a-2", "10.0.0.8")
	offer("a-3", "10.0.0.9")
	named(map[string]string{"h0": "a-1", "h0:5051": "a-2", "h0:10.0.0.9:5051": "a-3"})
	require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
	for agent, ip := range map[string]string{"a-4": "10.0.0.8", "a-5": "10.0.0.9"} {
		offer(agent, ip)
		require.Contains(t, string(k.awaits(t, "DECLINE")), `"o-a-`, "the old one's")
	}
	named(map[string]string{"h0": "a-1", "h0:5051": "a-4", "h0:10.0.0.9:5051": "a-5"})
	require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
	offer("a-6", "10.0.0.7")
	becomes(t, k.d, runID(0), cluster.TaskLost)
	named(map[string]string{"h0": "a-6", "h0:5051": "a-4", "h0:10.0.0.9:5051": "a-5"})
	k.say <- `{"type":"FAILURE","failure":{"agent_id":{"value":"a-4"}}}`
	offer("a-7", "10.0.0.10")
	named(map[string]string{"h0": "a-6", "h0:5051": "a-7", "h0:10.0.0.9:5051": "a-5"})
}

// TestAgentsOfOneProcess, as mesos-local has them, differ in their path only. None has come in the place of another one, also after a restart.
func TestAgentsOfOneProcess(t *testing.T) {
	k := newTalk(t)
	k.run(0) // on a-1
	round := 0
	offer := func(agent, path string) {
		round++
		id := fmt.Sprint("o-", agent, round)
		k.say <- strings.NewReplacer("a-1", agent, "slave(1)", path).Replace(fmt.Sprintf(factOffer, id, 4.0))
		k.d.comesTo(t, func() bool { return k.d.offers[id] != nil })
	}
	named := func(want map[string]string) { // agent to name
		t.Helper()
		k.d.mu.Lock()
		defer k.d.mu.Unlock()
		got := map[string]string{}
		for id, a := range k.d.agents {
			got[id] = a.Name
		}
		require.Equal(t, want, got)
	}
	for range 2 {
		for _, n := range []string{"2", "3", "4", "1"} {
			offer("a-"+n, "slave("+n+")")
		}
		named(map[string]string{"a-1": "h0", "a-2": "h0:5051", "a-3": "h0:10.0.0.7:5051", "a-4": "a-4"})
		require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
	}
	require.NoError(t, k.d.Close())
	d, recorder := newSettled(newDriver(t, k.d.config)), drivertest.NewRecorder()
	require.NoError(t, d.Start(t.Context(), recorder))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	k.d = d
	offer("a-2", "slave(2)")
	offer("a-5", "slave(3)")
	named(map[string]string{"a-1": "h0", "a-2": "h0:5051", "a-4": "a-4", "a-5": "h0:10.0.0.7:5051"})
	require.Equal(t, cluster.TaskRunning, k.d.Inventory()[0].State)
}

// TestMachinesOfOneHostnameThatComeBack in any order have their names as before, by which stateful tasks find their volumes.
func TestMachinesOfOneHostnameThatComeBack(t *testing.T) {
	const volume = `"resources":[{"name":"disk","type":"SCALAR","scalar":{"value":64.0},"allocation_info":{"role":"*"},
"reservations":[{"type":"DYNAMIC","role":"eng"}],"disk":{"persistence":{"id":"v"},"volume":{"container_path":"x","mode":"RW"}}},`
	k := newTalk(t)
	offer := func(round int, agent, port string) {
		id := fmt.Sprint("o-", agent, round)
		k.say <- strings.NewReplacer("a-1", agent, "5051", port, `"resources":[`, volume).Replace(fmt.Sprintf(factOffer, id, 4.0))
		k.d.comesTo(t, func() bool { return k.d.offers[id] != nil })
	}
	offer(1, "a-1", "5051")
	offer(1, "a-2", "5052")
	for _, agent := range []string{"a-1", "a-2"} {
		k.say <- `{"type":"FAILURE","failure":{"agent_id":{"value":"` + agent + `"}}}`
		k.d.comesTo(t, func() bool { return k.d.agents[agent] == nil || k.d.agents[agent].lost })
	}
	offer(2, "a-2", "5052")
	offer(2, "a-3", "5053") // new
	offer(2, "a-1", "5051")
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	for agent, name := range map[string]string{"a-1": "h0", "a-2": "h0:5052", "a-3": "h0:5053"} {
		require.Equal(t, name, k.d.agents[agent].Name)
	}
}

// TestARunIsOfOneRole: what offers for several roles have together is no room for one run, and neither reported nor promised.
func TestARunIsOfOneRole(t *testing.T) {
	k := newTalk(t, func(c *Config) { c.Roles = []string{"a", "b"} })
	offer := func(id, role string, cores float64) {
		offer := strings.NewReplacer(`"a-1"`, `"a-2"`, "h0", "h1", `"role":"*"`, `"role":"`+role+`"`).Replace(fmt.Sprintf(factOffer, id, cores))
		k.say <- offer
	}
	cores := func(want int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			hosts := k.recorder.Hosts()
			return len(hosts) == 2 && hosts[1].Capacity.Fixed[cluster.CPU] == want
		}, 30*time.Second, time.Millisecond)
	}
	launch := func(n int, cores int64) error {
		l := launchOf(n, "h1", "serve")
		l.Task.Resources.Fixed[cluster.CPU] = cores
		return k.d.Launch(t.Context(), l)
	}
	offer("o-a", "a", 1.5)
	offer("o-b", "b", 2.5)
	cores(2500)
	require.ErrorIs(t, launch(0, 3000), hostmgr.ErrRefused)
	require.NoError(t, launch(1, 2500))
	require.ErrorIs(t, launch(2, 2500), hostmgr.ErrRefused, "that room is taken")
	require.Contains(t, string(k.awaits(t, "ACCEPT")), `"o-b"`)
	cores(4000)
	require.NoError(t, launch(3, 1000))
	require.Contains(t, string(k.awaits(t, "ACCEPT")), `"o-a"`)
	cores(4000)
	offer("o-c", "b", 0.5) // what the second left is offered for the other role
	cores(4000)
	require.ErrorIs(t, launch(4, 600), hostmgr.ErrRefused)
	require.NoError(t, launch(5, 500))
}

// TestAnAgentThatIsHeardOfThroughATask is no host before an offer tells its name, also after a restart; then it is one of that name.
func TestAnAgentThatIsHeardOfThroughATask(t *testing.T) {
	k := newTalk(t)
	k.say <- `{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.5.1"},"agent_id":{"value":"a-9"},"state":"TASK_RUNNING"}}}`
	becomes(t, k.d, runID(5), cluster.TaskRunning)
	hidden := func(r *drivertest.Recorder) {
		t.Helper()
		time.Sleep(3 * reportRest)
		require.Len(t, r.Hosts(), 1)
		require.Equal(t, "h0", r.Hosts()[0].Name)
	}
	hidden(k.recorder)
	require.NoError(t, k.d.Close())
	d, recorder := newSettled(newDriver(t, k.d.config)), drivertest.NewRecorder()
	require.NoError(t, d.Start(t.Context(), recorder))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	hidden(recorder)
	k.say <- strings.NewReplacer(`"a-1"`, `"a-9"`, "h0", "h9").Replace(fmt.Sprintf(factOffer, "o-9", 4.0))
	require.Eventually(t, func() bool {
		hosts := recorder.Hosts()
		return len(hosts) == 2 && hosts[1].Name == "h9"
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, cluster.TaskRunning, d.Inventory()[0].State)
}

// TestAnOfferThatMakesNoSense is declined, and the others of its event are taken.
func TestAnOfferThatMakesNoSense(t *testing.T) {
	k := newTalk(t)
	good := strings.TrimSuffix(fmt.Sprintf(factOffer, "o-good", 2.0), "]}}")
	k.say <- good + `,{"id":{"value":"o-bad"},"agent_id":{"value":"a-2"},"hostname":7},7]}}`
	k.d.comesTo(t, func() bool { return k.d.offers["o-good"] != nil })
	require.Contains(t, string(k.awaits(t, "DECLINE")), `"offer_ids":[{"value":"o-bad"}]`)
	require.Len(t, k.recorder.Hosts(), 1)
	require.EqualValues(t, 1, k.count.Load(), "the subscription goes on")
}

// TestAnUpdateWithoutAnAgent for a task that is not known makes neither a run nor a host.
func TestAnUpdateWithoutAnAgent(t *testing.T) {
	k := newTalk(t)
	k.say <- `{"type":"UPDATE","update":{"status":{"task_id":{"value":"7.5.1"},"state":"TASK_RUNNING"}}}`
	k.run(0) // that has been read
	require.Len(t, k.d.Inventory(), 1)
	require.Len(t, k.recorder.Hosts(), 1)
}

// TestMoreGPUsThanASchedulerTakes: a host has as many as it takes.
func TestMoreGPUsThanASchedulerTakes(t *testing.T) {
	k := newTalk(t)
	k.say <- strings.NewReplacer("a-1", "a-2", "h0", "h1", `{"name":"mem"`, `{"name":"gpus","type":"SCALAR","scalar":{"value":20000000}},{"name":"mem"`).
		Replace(fmt.Sprintf(factOffer, "o-2", 4.0))
	require.Eventually(t, func() bool { return len(k.recorder.Hosts()) == 2 }, 30*time.Second, time.Millisecond)
	h := k.recorder.Hosts()[1]
	require.Equal(t, 1024, len(h.GPUs)) // without listing them
	require.EqualValues(t, 1024*cluster.WholeGPU, h.Capacity.Fixed[cluster.GPU])
}
