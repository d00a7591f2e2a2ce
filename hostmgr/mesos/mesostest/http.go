package mesostest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// The paths of a master.
const (
	schedulerPath = "/api/v1/scheduler"
	operatorPath  = "/api/v1"
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/x-protobuf"
	streamHeader = "Mesos-Stream-Id"
	maxBody      = 64 << 20
)

// Handler returns the HTTP interface of the master at addr, leading or not.
func (c *Cluster) Handler(addr string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.handle(addr, w, r) })
}

func (c *Cluster) handle(addr string, w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	down := c.down[addr]
	starting := c.leader == addr && c.m.starting
	c.mu.Unlock()
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case starting:
		say(w, http.StatusNotFound, "")
		return
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/master"), "/")
	if "/"+path == schedulerPath {
		c.handleScheduler(addr, w, r)
		return
	}
	c.handleOperator(addr, path, w, r)
}

// say answers with a status and a text, as the master does: plain text for errors, nothing for success.
func say(w http.ResponseWriter, status int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// notLeading answers for a master that does not lead, and tells whether it did.
func (c *Cluster) notLeading(addr string, w http.ResponseWriter, path string) bool {
	c.mu.Lock()
	leader := c.leader
	recovering := c.m != nil && c.m.recovering
	c.mu.Unlock()
	switch {
	case leader == "":
		say(w, http.StatusServiceUnavailable, "No leader elected")
	case leader != addr:
		w.Header().Set("Location", "//"+leader+path)
		say(w, http.StatusTemporaryRedirect, "")
	case recovering:
		say(w, http.StatusServiceUnavailable, "Master has not finished recovery")
	default:
		return false
	}
	return true
}

// handleScheduler takes a call of the scheduler API. The order of the checks is the master's.
func (c *Cluster) handleScheduler(addr string, w http.ResponseWriter, r *http.Request) {
	principal, ok := c.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="mesos-master-scheduler"`)
		say(w, http.StatusUnauthorized, "401 Unauthorized.")
		return
	}
	if c.notLeading(addr, w, schedulerPath) {
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		say(w, http.StatusMethodNotAllowed,
			"405 Method Not Allowed. Expecting one of { 'POST' }, but received '%s'.", r.Method)
		return
	}
	call, raw, status, err := readCall(w, r)
	if err == nil {
		if err = validateCall(call, principal); err != nil {
			status, err = http.StatusBadRequest, refuse("Failed to validate scheduler::Call: %s", err)
		}
	}
	if err != nil {
		say(w, status, "%s", err)
		return
	}
	c.dispatch(w, r, call, raw, principal)
}

// authenticate returns who calls; "" is nobody in particular.
func (c *Cluster) authenticate(r *http.Request) (string, bool) {
	if c.config.Credentials == nil {
		return "", true
	}
	principal, secret, ok := r.BasicAuth()
	want, known := c.config.Credentials[principal]
	return principal, ok && known && secret == want && !strings.Contains(secret, ":")
}

// readCall decodes the body. On an error, status goes with it.
func readCall(w http.ResponseWriter, r *http.Request) (*scheduler.Call, map[string]any, int, error) {
	contentType := r.Header.Get("Content-Type")
	switch contentType {
	case typeJSON, typeProtobuf:
	case "":
		return nil, nil, http.StatusBadRequest, refuse("Expecting 'Content-Type' to be present")
	default:
		return nil, nil, http.StatusUnsupportedMediaType,
			refuse("Expecting 'Content-Type' of application/json or application/x-protobuf")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, nil, http.StatusBadRequest, err
	}
	call := new(scheduler.Call)
	if contentType == typeProtobuf {
		if call.Unmarshal(body) != nil {
			return nil, nil, http.StatusBadRequest, refuse("Failed to parse body into Call protobuf")
		}
		return call, nil, 0, nil
	}
	raw, err := decodeJSON(body, "Call", call)
	return call, raw, http.StatusBadRequest, err
}

// validateCall checks what does not depend on the master's state.
func validateCall(call *scheduler.Call, principal string) error {
	expect := func(ok bool, field string) error {
		if !ok {
			return refuse("Expecting '%s' to be present", field)
		}
		return nil
	}
	if call.Type == scheduler.Call_UNKNOWN {
		return expect(false, "type")
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		return validateSubscribe(call, principal)
	}
	if err := expect(call.FrameworkID != nil, "framework_id"); err != nil {
		return err
	}
	switch call.Type {
	case scheduler.Call_ACCEPT:
		return expect(call.Accept != nil, "accept")
	case scheduler.Call_DECLINE:
		return expect(call.Decline != nil, "decline")
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		return expect(call.AcceptInverseOffers != nil, "accept_inverse_offers")
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		return expect(call.DeclineInverseOffers != nil, "decline_inverse_offers")
	case scheduler.Call_KILL:
		return expect(call.Kill != nil, "kill")
	case scheduler.Call_SHUTDOWN:
		return expect(call.Shutdown != nil, "shutdown")
	case scheduler.Call_ACKNOWLEDGE:
		if call.Acknowledge != nil && len(call.Acknowledge.UUID) != 16 {
			return refuse("Not a valid UUID")
		}
		return expect(call.Acknowledge != nil, "acknowledge")
	case scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		if a := call.AcknowledgeOperationStatus; a != nil && len(a.UUID) != 16 {
			return refuse("Not a valid UUID")
		}
		if a := call.AcknowledgeOperationStatus; a != nil && a.AgentID == nil {
			return expect(false, "agent_id")
		}
		return expect(call.AcknowledgeOperationStatus != nil, "acknowledge_operation_status")
	case scheduler.Call_RECONCILE:
		return expect(call.Reconcile != nil, "reconcile")
	case scheduler.Call_RECONCILE_OPERATIONS:
		return expect(call.ReconcileOperations != nil, "reconcile_operations")
	case scheduler.Call_MESSAGE:
		return expect(call.Message != nil, "message")
	case scheduler.Call_REQUEST:
		return expect(call.Request != nil, "request")
	case scheduler.Call_UPDATE_FRAMEWORK:
		u := call.UpdateFramework
		if u != nil && u.FrameworkInfo.GetID().GetValue() != call.FrameworkID.Value {
			return refuse("'framework_id' differs from 'update_framework.framework_info.id'")
		}
		return expect(u != nil, "update_framework")
	}
	return nil
}

func validateSubscribe(call *scheduler.Call, principal string) error {
	switch {
	case call.Subscribe == nil:
		return refuse("Expecting 'subscribe' to be present")
	case call.FrameworkID.GetValue() != call.Subscribe.FrameworkInfo.GetID().GetValue():
		return refuse("'framework_id' differs from 'subscribe.framework_info.id'")
	}
	if p := call.Subscribe.FrameworkInfo.Principal; p != nil && principal != "" && *p != principal {
		return refuse("Authenticated principal '%s' does not match principal '%s' set in `FrameworkInfo`", principal, *p)
	}
	return nil
}

// dispatch hands a valid call to the leading master.
func (c *Cluster) dispatch(w http.ResponseWriter, r *http.Request, call *scheduler.Call, raw map[string]any, principal string) {
	if call.Type == scheduler.Call_SUBSCRIBE {
		c.handleSubscribe(w, r, call, raw, principal)
		return
	}
	c.mu.Lock()
	slow := c.faults.SlowCalls
	c.mu.Unlock()
	c.sleep(r, slow)
	c.mu.Lock()
	switch c.faults.take(call) {
	case refused:
		c.mu.Unlock()
		say(w, http.StatusServiceUnavailable, "Master has not finished recovery")
		return
	case lost:
		c.mu.Unlock()
		panic(http.ErrAbortHandler)
	case answerLost:
		_ = c.carryOut(r, call, raw, principal)
		c.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	err := c.carryOut(r, call, raw, principal)
	c.mu.Unlock()
	var answer statusError
	switch {
	case errors.As(err, &answer):
		say(w, answer.status, "%s", answer.text)
	case call.Type == scheduler.Call_UPDATE_FRAMEWORK:
		say(w, http.StatusOK, "")
	default:
		say(w, http.StatusAccepted, "")
	}
}

// statusError is an answer that is not success.
type statusError struct {
	status int
	text   string
}

func (e statusError) Error() string { return cmp.Or(e.text, http.StatusText(e.status)) }

func answer(status int, format string, args ...any) error {
	return statusError{status, fmt.Sprintf(format, args...)}
}

// carryOut checks the call against the master's state and does it.
func (c *Cluster) carryOut(r *http.Request, call *scheduler.Call, raw map[string]any, principal string) error {
	m := c.m
	if m == nil {
		return answer(http.StatusServiceUnavailable, "No leader elected")
	}
	id := call.FrameworkID.Value
	f := m.frameworks[id]
	streamID := r.Header.Get(streamHeader)
	switch {
	case f == nil || f.recovered:
		return answer(http.StatusBadRequest, "Framework cannot be found")
	case f.stream == nil:
		return answer(http.StatusForbidden, "Framework is not subscribed")
	case principal != "" && f.info.GetPrincipal() != principal:
		return answer(http.StatusBadRequest,
			"Authenticated principal '%s' does not match principal '%s' set in `FrameworkInfo`", principal, f.info.GetPrincipal())
	case streamID == "":
		return answer(http.StatusBadRequest, "All non-subscribe calls should include the '%s' header", streamHeader)
	case streamID != f.stream.id:
		return answer(http.StatusBadRequest, "The stream ID '%s' included in this request didn't match the stream ID "+
			"currently associated with framework ID %s", streamID, id)
	}
	switch call.Type {
	case scheduler.Call_TEARDOWN:
		m.remove(f)
	case scheduler.Call_ACCEPT:
		m.accept(f, call.Accept)
	case scheduler.Call_DECLINE:
		m.decline(f, call.Decline)
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, call.AcceptInverseOffers.InverseOfferIDs, call.AcceptInverseOffers.Filters, "ACCEPT")
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, call.DeclineInverseOffers.InverseOfferIDs, call.DeclineInverseOffers.Filters, "DECLINE")
	case scheduler.Call_REVIVE:
		m.revive(f, call.Revive.GetRoles())
	case scheduler.Call_SUPPRESS:
		m.suppress(f, call.Suppress.GetRoles())
	case scheduler.Call_KILL:
		m.kill(f, call.Kill)
	case scheduler.Call_SHUTDOWN:
		m.shutdown(f, call.Shutdown)
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(f, call.Acknowledge)
	case scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		m.acknowledgeOperation(f, call.AcknowledgeOperationStatus)
	case scheduler.Call_RECONCILE:
		m.reconcile(f, call.Reconcile)
	case scheduler.Call_RECONCILE_OPERATIONS:
		m.reconcileOperations(f, call.ReconcileOperations)
	case scheduler.Call_UPDATE_FRAMEWORK:
		return m.updateFramework(f, call.UpdateFramework, raw)
	}
	return nil
}

// acceptsJSON tells in which form the client wants events; ok is false if in neither. JSON wins if both will do.
func acceptsJSON(r *http.Request) (asJSON, ok bool) {
	header := r.Header.Get("Accept")
	if header == "" {
		return true, true
	}
	protobuf := false
	for part := range strings.SplitSeq(header, ",") {
		kind, _, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		switch kind {
		case typeJSON, "*/*", "application/*":
			return true, true
		case typeProtobuf:
			protobuf = true
		}
	}
	return false, protobuf
}
