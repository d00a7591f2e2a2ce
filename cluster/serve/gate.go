package serve

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// gate is what every call from outside passes before a handler sees it: who calls is found out, counted and held to what
// he may do, and what he sent is checked. The answer is audited.
type gate struct {
	s *Scheduler
	// check refuses a request of the API.
	check func(c *call, request proto.Message) error
}

// call is one call from outside, from its first byte to its answer.
type call struct {
	method  string
	row     row
	who     *access.Caller
	shown   Credentials
	from    string        // address of the caller
	request proto.Message // the first message; nil until it is there
	checked atomic.Int64  // when who was found out last, in unix nanoseconds
	keyed   keyed
	left    map[*sluicev1.JobSpec]bool // specs that left the owner to the caller; true where they left the groups, too
	refused atomic.Bool                // something was refused or kept from the caller for who he is
}

type callKey struct{}

// callOf returns the call that a handler answers.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// begin lets a call in, or says why not.
func (g gate) begin(ctx context.Context, method string) (c *call, err error) {
	c = &call{method: method}
	if leads := g.s.config.Leads; leads != nil && leads() != nil {
		return c, unavailable(ReasonStandby, "this scheduler does not lead any more: ask the one that does", nil)
	}
	c.shown, c.from = credentialsOf(ctx)
	known := false
	if c.row, known = rows[strings.TrimPrefix(method, "/")]; !known {
		return c, status.Errorf(codes.PermissionDenied, "nobody may call %s: no rule says who may", method)
	}
	if c.row.public {
		c.who = &access.Caller{}
		return c, g.s.throttle.call(c.key())
	}
	if c.who, err = g.s.authenticate(c.shown, c.from); err != nil || c.who.Free {
		return c, err
	}
	c.checked.Store(time.Now().UnixNano())
	return c, g.s.throttle.call(c.key())
}

// key names the caller whose calls are counted together.
func (c *call) key() string {
	if c.who.User == "" {
		return "@" + c.from
	}
	return c.who.User
}

// recheckEvery is how often it is looked whether the caller of an open stream, or of a request that is coming in, is still who he was.
const recheckEvery = time.Second

// known looks whether the caller is still who he was, if that is some time ago, and whether it had to look.
func (g gate) known(c *call) (looked bool, err error) {
	last, now := c.checked.Load(), time.Now()
	since := time.Duration(now.UnixNano() - last) // below 0 where the clock has been set back
	if c.row.public || c.who.Free || since >= 0 && since < recheckEvery || !c.checked.CompareAndSwap(last, now.UnixNano()) {
		return false, nil
	}
	if _, err := g.s.Identify(c.shown, now); err != nil {
		return true, status.Error(codes.Unauthenticated, err.Error())
	}
	return true, nil
}

// standing reports whether the caller of an open stream may go on: his token may have been revoked, or his role.
func (g gate) standing(c *call) error {
	if looked, err := g.known(c); err != nil || !looked {
		return err
	}
	return c.allow(g.s.Snapshot(), c.request)
}

// admit decodes the message and refuses what cannot be, whoever sent it, then what the caller may not ask for, and checks
// requests of the API. The streams of host managers agree on a protocol version instead of refusing each unknown field.
func (g gate) admit(c *call, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	if err := decode(m); err != nil {
		return err
	}
	if err := c.note(m); err != nil {
		return err
	}
	c.left = adopt(c.who, m)
	if c.request == nil {
		c.request = m
	}
	in := g.s.Snapshot()
	if c.row.checked() {
		// What was carried out before has passed all of this, and is only told again: what it names may have gone since, and what
		// the caller may do, or the mode, may be another.
		if err := c.keyed.find(in, g.s.config.Secrets, g.s.clock()); err != nil || c.keyed.receipt != nil {
			return err
		}
	}
	err := c.allow(in, m)
	if !c.row.checked() {
		return err
	}
	// What is hidden from the caller is as if it were not there: then too, what is wrong with the request comes first.
	if err == nil || status.Code(err) == codes.NotFound {
		if bad := g.check(c, m); bad != nil {
			return bad
		}
	}
	return err
}

// allow reports whether the caller may do what he asks for as things are. It is asked once before the handler runs, and once
// more where the state is changed.
func (c *call) allow(in reading, message proto.Message) error {
	if c.row.writes && in.Mode().ReadOnly && !tries(message) {
		return status.Error(codes.FailedPrecondition, "the cluster is read-only: an operator ends that with `sluice cluster mode --read-only=false`")
	}
	if c.who.Free || c.row.public {
		return nil
	}
	err := c.row.rule(in, c.who, message)
	if err != nil {
		c.refused.Store(true)
	}
	return err
}

// tries reports whether a request changes nothing and only asks what it would.
func tries(request proto.Message) bool {
	r, can := request.(interface{ GetDryRun() bool })
	return can && r.GetDryRun()
}

// sight returns which jobs there are for the caller, where a request may only be about those.
func (c *call) sight(in access.View) func(*cluster.Job) bool {
	sees := c.who.Sight(in)
	return func(j *cluster.Job) bool {
		if sees(j) {
			return true
		}
		c.refused.Store(true)
		return false
	}
}

// knowsPool reports whether there is such a pool for the caller.
func (c *call) knowsPool(in *cluster.Snapshot, path cluster.PoolPath) bool {
	if knowsPool(in, c.who, path) {
		return true
	}
	if in.Pool(path) != nil {
		c.refused.Store(true)
	}
	return false
}

// knowsFiltered refuses a field that filters by a pool that is not there for the caller.
func (c *call) knowsFiltered(in *cluster.Snapshot, field, pool string) error {
	if pool != "" && !c.knowsPool(in, cluster.PoolPath(pool)) {
		return fieldError(codes.NotFound, field, "is %s: there is no such pool", quote(pool))
	}
	return nil
}

// gated registers services with a server so that every call comes to the gate with nothing read of it but its header: gRPC by itself hands
// on a call that is no stream when it has taken all of its request in, whoever sends it.
type gated struct {
	*grpc.Server
	gate gate
}

// RegisterService implements grpc.ServiceRegistrar.
func (r gated) RegisterService(desc *grpc.ServiceDesc, service any) {
	d := *desc
	d.Methods, d.Streams = nil, nil
	for _, m := range desc.Methods {
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: r.gate.unary("/"+desc.ServiceName+"/"+m.MethodName, m.Handler)})
	}
	for _, s := range desc.Streams {
		s.Handler = r.gate.stream("/"+desc.ServiceName+"/"+s.StreamName, s)
		d.Streams = append(d.Streams, s)
	}
	r.Server.RegisterService(&d, service)
}

// unary answers calls of a method that are no streams.
func (g gate) unary(method string, next grpc.MethodHandler) grpc.StreamHandler {
	answer := func(service any, s grpc.ServerStream) (answer any, err error) {
		c, err := g.begin(s.Context(), method)
		defer func() { g.s.audit(s.Context(), c, err) }()
		if err != nil {
			return nil, err
		}
		receive := func(request any) error {
			if err := g.receive(c, s, request); err != nil {
				return err
			}
			if _, err := g.known(c); err != nil { // it may have taken long to come
				return err
			}
			return g.admit(c, request)
		}
		return next(service, context.WithValue(s.Context(), callKey{}, c), receive, nil)
	}
	return func(service any, s grpc.ServerStream) error {
		message, err := answer(service, s)
		if err != nil {
			return err
		}
		return s.SendMsg(message)
	}
}

// receive takes in the first message of a call. Those that anybody may send are few at a time.
func (g gate) receive(c *call, s grpc.ServerStream, message any) error {
	if c.row.public {
		done, err := g.s.throttle.receive(c.key())
		if err != nil {
			return err
		}
		defer done()
	}
	return s.RecvMsg(message)
}

// stream answers calls of a method that are streams.
func (g gate) stream(method string, desc grpc.StreamDesc) grpc.StreamHandler {
	return func(service any, s grpc.ServerStream) (err error) {
		c, err := g.begin(s.Context(), method)
		defer func() { g.s.audit(s.Context(), c, err) }()
		if err != nil {
			return err
		}
		if !c.who.Free {
			done, err := g.s.throttle.open(c.key())
			if err != nil {
				return err
			}
			defer done()
		}
		return desc.Handler(service, &gatedStream{ServerStream: s, gate: g, call: c, session: desc.ClientStreams})
	}
}

// gatedStream holds a stream to the gate, message by message.
type gatedStream struct {
	grpc.ServerStream
	gate    gate
	call    *call
	session bool // its end may be far off
	begun   bool // the first message has been asked for
}

// Context implements grpc.ServerStream.
func (s *gatedStream) Context() context.Context {
	return context.WithValue(s.ServerStream.Context(), callKey{}, s.call)
}

// RecvMsg implements grpc.ServerStream. Who opens a stream has to say soon what for.
func (s *gatedStream) RecvMsg(m any) error {
	var err error
	first := !s.begun
	if first {
		receive := func() error { return s.gate.receive(s.call, s.ServerStream, m) }
		err = inTime(s.gate.s.config.Limits.Patience, receive, "the first message of the call did not come within %v")
	} else {
		err = s.ServerStream.RecvMsg(m)
	}
	s.begun = true
	if err != nil {
		return err
	}
	if err := s.gate.standing(s.call); err != nil {
		return err
	}
	if err := s.gate.admit(s.call, m); err != nil {
		return err
	}
	if first && s.session {
		s.gate.s.auditBegin(s.Context(), s.call)
	}
	return nil
}

// SendMsg implements grpc.ServerStream. A client that does not read for long is given up, since what is kept for it is kept
// for nothing. A host manager may take its time: it holds up nobody but itself.
func (s *gatedStream) SendMsg(m any) error {
	if err := s.gate.standing(s.call); err != nil {
		return err
	}
	if !s.call.row.checked() {
		return s.ServerStream.SendMsg(m)
	}
	return inTime(s.gate.s.config.Limits.Patience, func() error { return s.ServerStream.SendMsg(m) }, "nothing was read for %v: the client is too slow")
}

// inTime gives f some time. An f that needs more ends by itself when the handler, told of it, ends the stream.
func inTime(patience time.Duration, f func() error, late string) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, late, patience)
	}
}

// maxUnary bounds a call with one request and one answer, from its header on: a client that sends the rest of it drop by
// drop does not hold the server.
const maxUnary = 2 * time.Minute

// limitUnary gives calls that are no streams a deadline before anything of them is read.
func limitUnary(ctx context.Context, info *tap.Info) (context.Context, error) {
	if rows[strings.TrimPrefix(info.FullMethodName, "/")].stream {
		return ctx, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxUnary)
	context.AfterFunc(ctx, cancel)
	return ctx, nil
}
