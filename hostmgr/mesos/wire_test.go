package mesos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

// scripted is a master of which a test says every word.
type scripted struct {
	*httptest.Server
	subscribe func(subscription int, w *records) // until it returns
	answer    atomic.Pointer[func(call string) (status int, text string)]
	count     atomic.Int32
	streams   atomic.Pointer[http.Request]
	calls     chan *http.Request // all others, if somebody listens
}

// answers sets how calls are answered from now on.
func (s *scripted) answers(answer func(call string) (status int, text string)) {
	s.answer.Store(&answer)
}

// records writes an event stream.
type records struct {
	http.ResponseWriter
	gone      <-chan struct{}
	framework string // id, as the call has it
}

func (r *records) event(text string) {
	_, _ = fmt.Fprintf(r, "%d\n%s", len(text), text)
	r.ResponseWriter.(http.Flusher).Flush()
}

func (r *records) subscribed() {
	r.subscribedFor(0.02)
}

// subscribedFor says how often there will be heartbeats, in seconds.
func (r *records) subscribedFor(interval float64) {
	r.event(fmt.Sprintf(`{"type":"SUBSCRIBED","subscribed":{"framework_id":{"value":%q},"heartbeat_interval_seconds":%v}}`, r.framework, interval))
}

// beat sends heartbeats until the client is gone or the time is over.
func (r *records) beat(d time.Duration) {
	over := time.After(d)
	for {
		select {
		case <-r.gone:
			return
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
			r.event(`{"type":"HEARTBEAT"}`)
		}
	}
}

func newScripted(t *testing.T, subscribe func(int, *records)) *scripted {
	s := &scripted{subscribe: subscribe, calls: make(chan *http.Request, 100)}
	s.answers(func(string) (int, string) { return http.StatusAccepted, "" })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var call struct {
			Type        string
			FrameworkID struct{ Value string } `json:"framework_id"`
		}
		_ = json.Unmarshal(body, &call)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if call.Type == "SUBSCRIBE" {
			s.streams.Store(r)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mesos-Stream-Id", "stream-1")
			subscribe(int(s.count.Add(1)), &records{w, r.Context().Done(), call.FrameworkID.Value})
			return
		}
		select {
		case s.calls <- r:
		default:
		}
		status, text := (*s.answer.Load())(call.Type)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

// config returns settings of a driver that was there before, as the framework f-1.
func (s *scripted) config(t *testing.T) Config {
	dir := t.TempDir()
	state, err := openFolder(dir, func(string) {})
	require.NoError(t, err)
	require.NoError(t, errors.Join(state.setFramework("f-1"), state.Close()))
	return Config{Dir: dir, Masters: s.Listener.Addr().String(), JSON: true, User: "nobody", OfferWait: time.Millisecond}
}

// whyEnded waits for the end of a driver.
func whyEnded(t *testing.T, d *driver) error {
	t.Helper()
	select {
	case err := <-d.Ended():
		return err
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the driver goes on")
		return nil
	}
}

// startOf starts a driver in the background, since Start waits for a subscription, and returns how that went.
func startOf(t *testing.T, d *driver) <-chan error {
	started := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { started <- d.Start(ctx, drivertest.NewRecorder()) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, d.Close())
	})
	return started
}

func TestWhatEndsADriver(t *testing.T) {
	for message, want := range map[string]error{
		"Framework failed over":                                ErrSuperseded,
		"Framework has been removed":                           ErrRemoved,
		"Role 'x y' contains invalid characters":               ErrRejected,
		"User 'nobody' is not authorized to launch frameworks": ErrRejected,
	} {
		m := newScripted(t, func(_ int, w *records) {
			w.event(`{"type":"ERROR","error":{"message":"` + message + `"}}`)
		})
		err := <-startOf(t, newDriver(t, m.config(t)))
		require.ErrorIs(t, err, want, message)
		require.EqualValues(t, 1, m.count.Load(), "it does not try again")
	}
}

func TestAnotherSubscription(t *testing.T) {
	m := newScripted(t, func(_ int, w *records) {
		w.subscribedFor(10)
		w.beat(300 * time.Millisecond)
		w.event(`{"type":"ERROR","error":{"message":"Framework failed over"}}`)
	})
	m.answers(func(string) (int, string) { // a call may be told before the stream is
		return http.StatusBadRequest, "The stream ID 'stream-1' included in this request didn't match the stream ID currently associated with framework ID f-1"
	})
	d := newDriver(t, m.config(t))
	startOf(t, d)
	require.ErrorIs(t, whyEnded(t, d), ErrSuperseded)
	require.EqualValues(t, 1, m.count.Load(), "the framework is not taken back")
}

// TestSubscribingAgain: what may pass does not end a driver.
func TestSubscribingAgain(t *testing.T) {
	for name, first := range map[string]func(*records){
		"unavailable":      func(w *records) { w.WriteHeader(http.StatusServiceUnavailable) },
		"starting":         func(w *records) { w.WriteHeader(http.StatusNotFound) },
		"a proxy's 408":    func(w *records) { w.WriteHeader(http.StatusRequestTimeout) },
		"a proxy's 429":    func(w *records) { w.WriteHeader(http.StatusTooManyRequests) },
		"redirect nowhere": func(w *records) { w.WriteHeader(http.StatusTemporaryRedirect) },
		"not a master":     func(w *records) { w.Header().Set("Content-Type", "text/html"); w.WriteHeader(http.StatusOK) },
		"no events":        func(*records) {},
		"silence":          func(w *records) { w.subscribed(); <-w.gone },
		"the end":          func(w *records) { w.subscribed() },
		"broken framing":   func(w *records) { w.subscribed(); _, _ = io.WriteString(w, "ten\n") },
		"10 GB":            func(w *records) { w.subscribed(); _, _ = io.WriteString(w, "10000000000\n{") },
		"no SUBSCRIBED":    func(w *records) { w.event(`{"type":"HEARTBEAT"}`) },
		"no framework id":  func(w *records) { w.event(`{"type":"SUBSCRIBED","subscribed":{}}`) },
		"no authorizer": func(w *records) {
			w.event(`{"type":"ERROR","error":{"message":"Authorization failure: could not create ObjectApprovers for a framework: timed out"}}`)
		},
		"an error": func(w *records) { w.subscribed(); w.event(`{"type":"ERROR","error":{"message":"internal"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newScripted(t, func(n int, w *records) {
				if n == 1 {
					first(w)
					return
				}
				w.subscribed()
				w.event(`{"type":"OFFERS","offers":{"offers":[]}}`)
				w.beat(time.Minute)
			})
			d := newDriver(t, m.config(t))
			startOf(t, d)
			d.comesTo(t, func() bool { return m.count.Load() >= 2 && d.session != nil })
		})
	}
}

// TestAnEventThatTakesLong: as long as parts of it arrive the master is not silent, however many heartbeats would have been due. Another
// subscription would begin with the same event.
func TestAnEventThatTakesLong(t *testing.T) {
	m := newScripted(t, func(_ int, w *records) {
		w.subscribedFor(0.3) // it may be silent for three times as long
		text := fmt.Sprintf(factOffer, "o-1", 4.0)
		_, _ = fmt.Fprintf(w, "%d\n", len(text))
		for part := range slices.Chunk([]byte(text), len(text)/20) {
			_, _ = w.Write(part)
			w.ResponseWriter.(http.Flusher).Flush()
			time.Sleep(90 * time.Millisecond)
		}
		w.beat(time.Minute)
	})
	d := newDriver(t, m.config(t))
	startOf(t, d)
	d.comesTo(t, func() bool { return len(d.offers) == 1 })
	require.EqualValues(t, 1, m.count.Load())
}

// TestWhatASubscriptionSays: the id is in both places from the first attempt on, which the master may have taken though its answer is
// lost, and calls carry the stream's id.
func TestWhatASubscriptionSays(t *testing.T) {
	ids := make(chan string, 10)
	m := newScripted(t, func(n int, w *records) {
		ids <- w.framework
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
		w.subscribed()
		w.event(`{"type":"OFFERS","offers":{"offers":[]}}`)
		w.beat(time.Minute)
	})
	c := m.config(t)
	c.Dir = t.TempDir()
	c.Name, c.Roles, c.Principal, c.Secret, c.GPUs, c.Revocable = "mine", []string{"a", "b"}, "p", "hush", true, true
	said := func() (call struct {
		FrameworkID struct{ Value string } `json:"framework_id"`
		Subscribe   struct {
			Info map[string]any `json:"framework_info"`
		}
	},
	) {
		body, err := io.ReadAll(m.streams.Load().Body)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &call))
		return call
	}
	d := newDriver(t, c)
	require.NoError(t, <-startOf(t, d))
	first := said()
	id := <-ids
	require.NotEmpty(t, id)
	require.Equal(t, id, <-ids)
	require.Equal(t, id, first.FrameworkID.Value)
	require.Equal(t, map[string]any{
		"id":   map[string]any{"value": id},
		"user": "nobody", "name": "mine", "roles": []any{"a", "b"}, "failover_timeout": 604800.0, "checkpoint": true, "principal": "p",
		"capabilities": []any{
			map[string]any{"type": "MULTI_ROLE"},
			map[string]any{"type": "RESERVATION_REFINEMENT"},
			map[string]any{"type": "TASK_KILLING_STATE"},
			map[string]any{"type": "PARTITION_AWARE"},
			map[string]any{"type": "GPU_RESOURCES"},
			map[string]any{"type": "REVOCABLE_RESOURCES"},
		},
	}, first.Subscribe.Info)
	name, secret, ok := m.streams.Load().BasicAuth()
	require.Equal(t, []any{"p", "hush", true}, []any{name, secret, ok})
	d.mu.Lock()
	d.demand(d.session)
	d.mu.Unlock()
	require.Equal(t, "stream-1", (<-m.calls).Header.Get("Mesos-Stream-Id"))
	require.NoError(t, d.Close())

	require.NoError(t, <-startOf(t, newDriver(t, c)))
	again := said()
	require.Equal(t, id, again.FrameworkID.Value)
	require.Equal(t, map[string]any{"value": id}, again.Subscribe.Info["id"])
}

// TestFindingTheLeader: masters that do not lead redirect, with an address that has no scheme; some are down.
func TestFindingTheLeader(t *testing.T) {
	w := newWorld(t, mesostest.Config{Masters: []string{"one:5050", "two:5050", "three:5050"}}, 1)
	w.SetMasterDown("two:5050", true)
	d, recorder := w.drive(t, func(c *Config) { c.Masters = "two,three" })
	require.Len(t, recorder.Hosts(), 1)
	require.NoError(t, d.Launch(t.Context(), launchOf(1, "h0", "serve")))
	w.Elect("three:5050")
	d.comesTo(t, func() bool { return d.session != nil && d.session.master == "three:5050" })
}

func TestParseMasters(t *testing.T) {
	for in, want := range map[string]Masters{
		"h":                        {Addresses: []string{"h:5050"}},
		"h:1, [::1]:2,10.0.0.1":    {Addresses: []string{"h:1", "[::1]:2", "10.0.0.1:5050"}},
		"::1":                      {Addresses: []string{"[::1]:5050"}},
		"zk://a,b:3/mesos":         {Addresses: []string{"a:2181", "b:3"}, Path: "/mesos"},
		"zk://a/deep/path/":        {Addresses: []string{"a:2181"}, Path: "/deep/path"},
		"":                         {},
		"h:0":                      {},
		"h:http":                   {},
		"h:1:2":                    {},
		"h,":                       {},
		":5050":                    {},
		"http://h:5050":            {},
		"zk://a":                   {},
		"zk:///mesos":              {},
		"zk://user:word@a:1/mesos": {},
	} {
		got, err := ParseMasters(in)
		if want.Addresses == nil {
			require.ErrorContains(t, err, "mesos: masters: ", in)
			require.NotContains(t, err.Error(), "word", "credentials are not repeated")
			continue
		}
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

// TestTLS: the subscription and the calls go over TLS, to the leader that is redirected to as well. That one takes what libprocess does if
// nothing is said of ciphers and versions.
func TestTLS(t *testing.T) {
	subscribed := make(chan struct{}, 1)
	leader := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s := &records{w, r.Context().Done(), ""}
		s.subscribed()
		subscribed <- struct{}{}
		s.beat(time.Minute)
	}))
	leader.TLS = &tls.Config{
		MaxVersion:   tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_RC4_128_SHA},
	}
	leader.StartTLS()
	t.Cleanup(leader.Close)
	standby := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "//"+leader.Listener.Addr().String()+"/api/v1/scheduler")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(standby.Close)
	_, port, err := net.SplitHostPort(standby.Listener.Addr().String())
	require.NoError(t, err)
	c := Config{Dir: t.TempDir(), Masters: "127.0.0.1:" + port, JSON: true, User: "nobody"}
	c.TLS = leader.Client().Transport.(*http.Transport).TLSClientConfig
	startOf(t, newDriver(t, c))
	select {
	case <-subscribed:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "no subscription")
	}
}
