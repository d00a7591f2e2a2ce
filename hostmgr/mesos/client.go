package mesos

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Errors that say what a master's answer means.
var (
	// errRefused: the master refuses the call as it is; trying again changes nothing.
	errRefused = errors.New("mesos: the master refuses")
	// errNotSubscribed: the master does not know the subscription any more.
	errNotSubscribed = errors.New("mesos: the subscription is over")
	// errUnavailable: the master is there, but does not work yet, or does not lead.
	errUnavailable = errors.New("mesos: the master is not available")
)

const (
	apiPath        = "/api/v1/scheduler"
	streamIDHeader = "Mesos-Stream-Id"
	// dialTimeout bounds the way to a master. A machine that is off says nothing, and Linux asks it for two minutes.
	dialTimeout = 5 * time.Second
	// callTimeout bounds one call; a master answers as soon as it has queued it.
	callTimeout = 30 * time.Second
	// maxRedirects bounds how often masters may point to each other in one attempt.
	maxRedirects = 4
	// maxErrorText bounds what is read of an error's text.
	maxErrorText = 4 << 10
)

// client speaks HTTP with masters. The subscription and the calls have connections of their own: what a master answers to
// a call on the connection of the subscription, it writes into the middle of the event stream.
//
// The client library's own transport is not used: it reads error bodies and events without a useful bound, hides why a
// subscription was refused behind retries of its own, and takes any error of a call for the end of the subscription.
type client struct {
	config *Config
	codec  encoding.Codec
	events *http.Client
	calls  *http.Client
}

func newClient(c *Config) *client {
	secure := withMastersCiphers(c.TLS)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return c.Dial(ctx, network, address)
	}
	transport := func(idle int) *http.Transport {
		return &http.Transport{
			DialContext: dial, TLSClientConfig: secure, TLSHandshakeTimeout: 10 * time.Second,
			ResponseHeaderTimeout: callTimeout, MaxIdleConnsPerHost: max(1, idle), DisableKeepAlives: idle == 0,
			IdleConnTimeout: time.Minute, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{
		config: c, codec: c.codec(),
		events: &http.Client{Transport: transport(0), CheckRedirect: stay},
		calls:  &http.Client{Transport: transport(callLanes), CheckRedirect: stay, Timeout: callTimeout},
	}
}

// withMastersCiphers adds what masters take to what Go offers. Left as they are they take TLS 1.2 only, with the key sent by RSA or agreed
// upon by Diffie-Hellman without curves; of those Go has the first, and does not offer it by itself. It prefers all others.
func withMastersCiphers(c *tls.Config) *tls.Config {
	if c == nil || c.CipherSuites != nil {
		return c
	}
	c = c.Clone()
	for _, suite := range tls.CipherSuites() {
		c.CipherSuites = append(c.CipherSuites, suite.ID)
	}
	c.CipherSuites = append(c.CipherSuites, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA)
	return c
}

func (c *client) close() {
	c.events.CloseIdleConnections()
	c.calls.CloseIdleConnections()
}

// subscription is an open event stream.
type subscription struct {
	master   string // host:port
	streamID string
	events   *eventReader
	body     io.Closer
}

// subscribe opens the event stream at a master, or at the one that it redirects to.
func (c *client) subscribe(ctx context.Context, master string, call *scheduler.Call) (*subscription, error) {
	for range maxRedirects {
		response, err := c.post(ctx, c.events, master, "", call)
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusOK {
			return c.opened(master, response)
		}
		leader, err := c.failed(response)
		if leader == "" {
			return nil, err
		}
		master = leader
	}
	return nil, fmt.Errorf("%w: masters redirect to each other", errUnavailable)
}

func (c *client) opened(master string, response *http.Response) (*subscription, error) {
	s := &subscription{
		master: master, streamID: response.Header.Get(streamIDHeader), body: response.Body,
		events: newEventReader(c.codec, response.Body),
	}
	if kind := response.Header.Get("Content-Type"); kind != c.codec.Type.ContentType() {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: it answers a subscription with content of type %q, not %q; is this the address of a master?",
			errUnavailable, kind, c.codec.Type.ContentType())
	}
	return s, nil // a refusal has no stream id, and an ERROR as its only event
}

// call makes a call in a subscription.
func (c *client) call(ctx context.Context, master, streamID string, call *scheduler.Call) error {
	response, err := c.post(ctx, c.calls, master, streamID, call)
	if err != nil {
		return err
	}
	if response.StatusCode/100 == 2 {
		_, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxErrorText))
		return errors.Join(err, response.Body.Close())
	}
	leader, err := c.failed(response)
	switch {
	case leader != "":
		return fmt.Errorf("%w: %s leads now", errNotSubscribed, leader)
	case response.StatusCode == http.StatusUnauthorized: // so are all calls; the next subscription tells whether that lasts
		return fmt.Errorf("%w: %v", errNotSubscribed, err)
	}
	return err
}

func (c *client) post(ctx context.Context, through *http.Client, master, streamID string, call *scheduler.Call) (*http.Response, error) {
	body, err := c.encode(call)
	if err != nil {
		return nil, fmt.Errorf("mesos: encode %v: %w", call.Type, err)
	}
	target := url.URL{Scheme: c.config.scheme(), Host: master, Path: apiPath}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("mesos: %v: %w", call.Type, err)
	}
	request.Header.Set("Content-Type", c.codec.Type.ContentType())
	request.Header.Set("Accept", c.codec.Type.ContentType())
	if streamID != "" {
		request.Header.Set(streamIDHeader, streamID)
	}
	if c.config.Principal != "" {
		request.SetBasicAuth(c.config.Principal, c.config.Secret)
	}
	response, err := through.Do(request)
	if err != nil {
		return nil, fmt.Errorf("mesos: %v: %w", call.Type, err)
	}
	return response, nil
}

// encode writes a call. In JSON, lists that are empty are left out, which the library writes as null and a master refuses.
func (c *client) encode(call *scheduler.Call) ([]byte, error) {
	var body bytes.Buffer
	if err := c.codec.NewEncoder(encoding.SinkWriter(&body)).Encode(call); err != nil || !c.config.JSON {
		return body.Bytes(), err
	}
	in := json.NewDecoder(&body)
	in.UseNumber() // times do not fit a double
	var raw any
	if err := in.Decode(&raw); err != nil {
		return nil, err
	}
	dropNulls(raw)
	return json.Marshal(raw)
}

func dropNulls(raw any) {
	switch v := raw.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, value any) bool { return value == nil })
		for _, value := range v {
			dropNulls(value)
		}
	case []any:
		for _, value := range v {
			dropNulls(value)
		}
	}
}

// failed takes in an answer that is no success: it returns the leader that it redirects to, or what it means.
func (c *client) failed(response *http.Response) (leader string, err error) {
	late := time.AfterFunc(callTimeout, func() { _ = response.Body.Close() }) // of a subscription nothing else bounds it
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	late.Stop()
	_ = response.Body.Close()
	says := strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
	if says == "" {
		says = response.Status
	}
	switch code := response.StatusCode; {
	case code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect:
		location, err := url.Parse(response.Header.Get("Location")) // scheme and path may be missing
		if err != nil || location.Host == "" {
			return "", fmt.Errorf("%w: it redirects to %q", errUnavailable, response.Header.Get("Location"))
		}
		if _, _, err := net.SplitHostPort(location.Host); err != nil {
			return net.JoinHostPort(location.Hostname(), defaultMasterPort), nil
		}
		return location.Host, nil
	case code == http.StatusUnauthorized:
		if strings.Contains(c.config.Secret, ":") {
			says += "; its secret has a colon, and Mesos' own authenticator takes none that has"
		}
		return "", fmt.Errorf("%w: principal %q and its secret are not accepted (%s)", errRefused, c.config.Principal, says)
	case code == http.StatusForbidden, code == http.StatusBadRequest && overForMaster(says):
		return "", fmt.Errorf("%w: %s", errNotSubscribed, says)
	case code == http.StatusNotFound, code >= 500, // while it starts, and while it reads its registry
		code == http.StatusRequestTimeout, code == http.StatusTooManyRequests: // from proxies
		return "", fmt.Errorf("%w: %s", errUnavailable, says)
	default:
		return "", fmt.Errorf("%w: %s (status %d)", errRefused, says, code)
	}
}

// overForMaster reports whether the text of a 400 means the subscription and not the call.
func overForMaster(says string) bool {
	return strings.Contains(says, "Framework cannot be found") || strings.Contains(says, "Stream-Id") ||
		strings.Contains(says, "stream ID")
}
