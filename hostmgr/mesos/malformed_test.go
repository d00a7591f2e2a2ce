package mesos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
)

// oddMaster is a master that accepts every subscription, sends what it is told to, and then heartbeats.
type oddMaster struct {
	asJSON        bool
	says          func(subscription int) []byte // after SUBSCRIBED, as it goes over the wire
	hangsUp       bool                          // after that
	subscriptions atomic.Int32
	heard         atomic.Int32 // calls beside SUBSCRIBE
	open          atomic.Int32 // connections
}

// counted is a connection that counts as open until it is closed.
type counted struct {
	net.Conn
	close func()
}

func (c counted) Close() error {
	c.close()
	return c.Conn.Close()
}

func (m *oddMaster) dial(ctx context.Context, listener *bufconn.Listener) (net.Conn, error) {
	conn, err := listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	m.open.Add(1)
	return counted{conn, sync.OnceFunc(func() { m.open.Add(-1) })}, nil
}

func (m *oddMaster) record(e *scheduler.Event) []byte {
	data, err := e.Marshal()
	if m.asJSON {
		data, err = e.MarshalJSON()
	}
	if err != nil {
		panic(err)
	}
	return append(fmt.Appendln(nil, len(data)), data...)
}

func (m *oddMaster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the server looks for the end of the connection behind it
	if r.Header.Get(streamIDHeader) != "" {
		m.heard.Add(1)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var call scheduler.Call
	decode := call.Unmarshal
	if m.asJSON {
		decode = call.UnmarshalJSON
	}
	if err := decode(body); err != nil {
		panic(err)
	}
	n := m.subscriptions.Add(1)
	w.Header().Set("Content-Type", r.Header.Get("Accept"))
	w.Header().Set(streamIDHeader, "s")
	interval := 15.0
	send := func(data []byte) {
		_, _ = w.Write(data)
		_ = http.NewResponseController(w).Flush()
	}
	send(m.record(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: call.FrameworkID, HeartbeatIntervalSeconds: &interval,
	}}))
	send(m.says(int(n)))
	for !m.hangsUp {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(15 * time.Second):
			send(m.record(&scheduler.Event{Type: scheduler.Event_HEARTBEAT}))
		}
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with returns the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// listen has a driver listen to an odd master for a while, and returns what it logged.
func (m *oddMaster) listen(t *testing.T, dir string, lasts time.Duration) *lines {
	listener := bufconn.Listen(1 << 16)
	server := &http.Server{Handler: m}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	log := new(lines)
	d := newDriver(t, Config{
		Dir: filepath.Join(dir, "state"), Masters: "master:5050", User: "nobody", JSON: m.asJSON,
		Log:  slog.New(slog.NewTextHandler(log, nil)),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx, listener) },
	})
	require.NoError(t, d.Start(t.Context(), drivertest.NewRecorder()))
	time.Sleep(lasts)
	require.NoError(t, d.Close())
	require.NoError(t, server.Close())
	serving.Wait()
	return log
}

// TestNonsenseFromTheMaster: it is logged once, with the reason, however often it comes. What leaves the stream readable
// does not end the subscription; what does not is tried again ever more slowly.
func TestNonsenseFromTheMaster(t *testing.T) {
	frame := func(s string) string { return fmt.Sprintf("%d\n%s", len(s), s) }
	for name, c := range map[string]struct {
		text, says string
		ends       bool
		asJSON     bool
	}{
		"broken JSON":           {frame(`{"type":`), "an event makes no sense: unexpected EOF", false, true},
		"JSON of another kind":  {frame(`{"type":"OFFERS","offers":7}`), "an event makes no sense: ffjson error", false, true},
		"unknown word":          {frame(`{"type":"SONG","song":{}}`), "an event that this release does not know", false, true},
		"broken protobuf":       {frame("\x08\x03\x1a\x7f"), "an event makes no sense", false, false},
		"unknown number":        {frame("\x08\x63"), "an event that this release does not know", false, false},
		"update without a task": {frame("\x08\x05\x2a\x00"), "makes no sense", false, false},
		"10 GB":                 {"10000000000\n", "a record of 10000000000 bytes", true, false},
		"10 GB of JSON":         {"10000000000\n", "a record of 10000000000 bytes", true, true},
		"no length":             {"HTTP/1.1 202 Accepted\r\n\r\n", "is not the length of a record", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := &oddMaster{asJSON: c.asJSON, says: func(int) []byte { return []byte(strings.Repeat(c.text, 100)) }}
				log := m.listen(t, dir, 20*time.Minute)
				require.Len(t, log.with(c.says), 1, "%s", log.text.String())
				if c.ends {
					require.Greater(t, m.subscriptions.Load(), int32(60))
					require.Less(t, m.subscriptions.Load(), int32(200))
				} else {
					require.Equal(t, int32(1), m.subscriptions.Load())
					require.Positive(t, m.heard.Load(), "it goes on")
				}
			})
		})
	}
}

// TestAThousandSubscriptions: a master that hangs up a thousand times leaves no goroutine and no connection behind. Those
// of the end would not let the bubble end.
func TestAThousandSubscriptions(t *testing.T) {
	dir := t.TempDir()
	times, lasts := 1000, 4*time.Hour
	if testing.Short() {
		times, lasts = 200, 50*time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		var early, most int
		late := math.MaxInt
		m := &oddMaster{hangsUp: true}
		m.says = func(n int) []byte {
			switch now := runtime.NumGoroutine(); { // some are about to end
			case n <= 40:
				early = max(early, now)
			case n > times-40 && n <= times:
				late = min(late, now)
			}
			most = max(most, int(m.open.Load()))
			return nil
		}
		m.listen(t, dir, lasts)
		require.Greater(t, m.subscriptions.Load(), int32(times))
		require.LessOrEqual(t, late, early)
		require.LessOrEqual(t, most, 2+callLanes)
		require.Zero(t, m.open.Load())
	})
}
