package mesostest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/hostmgr/mesos/mesostest"
)

const (
	schedulerURL = "http://master:5050/api/v1/scheduler"
	asJSON       = "application/json"
	asProtobuf   = "application/x-protobuf"
)

// bench is a cluster in a bubble with a virtual clock, and a plain HTTP client.
type bench struct {
	*testing.T
	*mesostest.Cluster
	net  *mesostest.Net
	http *http.Client
}

func onBench(t *testing.T, config mesostest.Config, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := mesostest.New(config)
		net := mesostest.NewNet(c)
		transport := &http.Transport{DialContext: net.DialContext, DisableKeepAlives: true}
		b := &bench{T: t, Cluster: c, net: net, http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		defer func() {
			net.Close()
			c.Close()
			transport.CloseIdleConnections()
		}()
		test(b)
	})
}

// answer is what came back to a call.
type answer struct {
	status int
	header http.Header
	body   string
}

// post sends a call with the given headers, name and value in turn.
func (b *bench) post(url, body string, headers ...string) answer {
	b.Helper()
	return b.do(http.MethodPost, url, body, headers...)
}

func (b *bench) do(method, url, body string, headers ...string) answer {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
	require.NoError(b, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return answer{}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	synctest.Wait()
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// object is a JSON object.
type object = map[string]any

// at returns what a path of names and indices leads to, nil if it leads nowhere.
func at(v any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			o, _ := v.(object)
			v = o[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// event is what came on a stream, and when.
type event struct {
	at   time.Time
	raw  []byte
	json object // nil if it is protobuf
}

func (e event) kind() string { return fmt.Sprint(e.json["type"]) }

// stream is an open subscription.
type stream struct {
	answer
	id     string
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	events []event
	end    error // io.EOF: properly
	cut    bool  // in the middle of a record
}

// subscribe opens a stream. If the answer is no stream it is in answer.
func (b *bench) subscribe(url, body string, headers ...string) *stream {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(b, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	require.NoError(b, err)
	s := &stream{
		answer: answer{status: resp.StatusCode, header: resp.Header}, id: resp.Header.Get("Mesos-Stream-Id"),
		cancel: cancel, done: make(chan struct{}),
	}
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		require.NoError(b, err)
		s.body = string(text)
		_ = resp.Body.Close()
		cancel()
		close(s.done)
		return s
	}
	go s.read(resp.Body, resp.Header.Get("Content-Type") == asJSON)
	synctest.Wait()
	return s
}

func (s *stream) read(body io.ReadCloser, parse bool) {
	defer close(s.done)
	defer func() { _ = body.Close() }()
	r := bufio.NewReader(body)
	for {
		raw, err := readRecord(r)
		s.mu.Lock()
		if err != nil {
			s.end, s.cut = err, errors.Is(err, errTorn)
			s.mu.Unlock()
			return
		}
		e := event{at: time.Now(), raw: raw}
		if parse {
			e.json = parseJSON(raw)
		}
		s.events = append(s.events, e)
		s.mu.Unlock()
	}
}

var errTorn = errors.New("torn record")

// readRecord reads one record, by itself: nothing of the package is used here.
func readRecord(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if line != "" {
			return nil, errTorn
		}
		return nil, err
	}
	var n int
	if _, err := fmt.Sscanf(line, "%d\n", &n); err != nil {
		return nil, err
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, errTorn
	}
	return raw, nil
}

func parseJSON(raw []byte) object {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	if err := dec.Decode(&o); err != nil {
		panic(err)
	}
	return o
}

// all returns what has come, of some kinds or of all.
func (s *stream) all(kinds ...string) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []event
	for _, e := range s.events {
		if len(kinds) == 0 || strings.Contains(" "+strings.Join(kinds, " ")+" ", " "+e.kind()+" ") {
			out = append(out, e)
		}
	}
	return out
}

// over tells how the stream ended; nil if it has not.
func (s *stream) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}
