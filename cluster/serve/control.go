package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/rules"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// protocolVersion is the version of the host-manager streams that is spoken here.
const protocolVersion = 1

// maxFolder bounds the ids of state folders, in bytes.
const maxFolder = 64

// maxAnswers bounds the statuses of one shard that are on their way to the journal, or whose answers are on their way back.
const maxAnswers = 1024

// hostManagers serves the streams of host-manager shards.
type hostManagers struct {
	sluicev1.UnimplementedHostManagerServiceServer
	s *Scheduler
}

// control is one session with a shard: from Hello to the end of the Control stream.
//
// Three goroutines work on it: receive takes what comes up and queues it for the writer, dispatch derives from the state
// of the shard's tasks what is to be launched and killed, and send is the only one that writes to the stream. A shard
// that does not read blocks its own dispatch, and nobody else.
type control struct {
	s         *Scheduler
	shard     cluster.ShardID
	sessionID string
	driver    string
	folder    string // its state folder; "": it names none
	blank     bool   // which has not served this cluster yet
	can       cluster.Capabilities
	expires   time.Time // what it showed, when it began; zero: it shows nothing
	cancel    context.CancelFunc
	gone      <-chan struct{} // closed when the session has ended

	answers  chan []*sluicev1.ShardDown // to one status each; never full, since slots bound it
	commands chan *sluicev1.ShardDown   // launches and kills, from dispatch
	slots    chan struct{}              // has an element for each status whose answer has not been sent

	hosts  map[string]cluster.Machine // of a full report that is coming in; nil while none is
	early  []func(*Tx) error          // host reports that wait for the first inventory
	runs   []*cluster.TaskStatus      // of an inventory that is coming in
	spared chan struct{}              // has an element when a run that nobody waits for was not killed
	spares bool                       // nothing is killed; belongs to dispatch
	peers  peers                      // told last; belongs to dispatch
	ready  chan struct{}              // closed when the inventory has been reconciled
}

// Control implements the stream of that name.
func (m hostManagers) Control(stream sluicev1.HostManagerService_ControlServer) error {
	first, err := stream.Recv()
	if err != nil {
		return hungUp(err)
	}
	hello := first.GetHello()
	if reason := m.s.rejects(hello); reason != "" {
		return stream.Send(rejectDown(reason, false))
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	c := &control{
		s: m.s, shard: cluster.ShardID(hello.GetShard()), sessionID: hello.GetSessionId(), driver: shorten(hello.GetDriver(), maxShownValue),
		cancel: cancel, gone: ctx.Done(), folder: hello.GetFolder(), blank: hello.GetClusterId() == "",
		can:      cluster.ParseCapabilities(hello.GetCapabilities()),
		answers:  make(chan []*sluicev1.ShardDown, maxAnswers),
		commands: make(chan *sluicev1.ShardDown, 64),
		slots:    make(chan struct{}, maxAnswers),
		spared:   make(chan struct{}, 1),
		ready:    make(chan struct{}),
	}
	shown, _ := credentialsOf(ctx)
	c.expires = m.s.expires(shown, m.s.now())
	if err := m.s.shards.connect(c, time.Now()); err != nil {
		return stream.Send(rejectDown(err.Error(), true))
	}
	defer func() {
		m.s.shards.disconnect(c, time.Now())
		m.s.shards.forget(m.s.Snapshot(), c.shard)
	}()
	m.s.log.Info("shard connected", "shard", c.shard, "driver", c.driver)
	return hungUp(c.serve(ctx, stream))
}

// hungUp is what a stream ends with that ended with err: that its client had no more to say is no error.
func hungUp(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// rejects says why a shard may not connect, "" if it may.
func (s *Scheduler) rejects(h *sluicev1.Hello) string {
	var v violations
	checkName(h.GetShard(), "hello.shard", &v)
	checkText(h.GetFolder(), "hello.folder", maxFolder, &v)
	id := s.Snapshot().ClusterID()
	switch {
	case h == nil:
		return "the first message must be a hello"
	case !v.Empty():
		return status.Convert(v.Err()).Message()
	case h.GetSessionId() == "":
		return "hello.session_id is empty; it must be random and new for each process"
	case h.GetProtocolVersion() != protocolVersion:
		return fmt.Sprintf("hello.protocol_version is %d, this scheduler speaks %d; use the same release on both sides",
			h.GetProtocolVersion(), protocolVersion)
	case h.GetClusterId() != "" && h.GetClusterId() != id:
		return fmt.Sprintf("the shard's state folder belongs to cluster %s, this is cluster %s; give the shard another state folder, or connect it to its own scheduler",
			h.GetClusterId(), id)
	}
	return ""
}

// serve runs the session until one of its goroutines ends it. One that waits for the stream ends with that, when this function has
// returned: who has closed his side, or has begun another session, may read no more.
func (c *control) serve(ctx context.Context, stream sluicev1.HostManagerService_ControlServer) error {
	welcome := &sluicev1.Welcome{ClusterId: c.s.Snapshot().ClusterID(), ProtocolVersion: protocolVersion}
	if err := stream.Send(&sluicev1.ShardDown{Message: &sluicev1.ShardDown_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	ended := make(chan error, 3)
	dispatched := make(chan struct{})
	go func() { ended <- c.send(ctx, stream) }()
	go func() {
		defer close(dispatched)
		ended <- c.dispatch(ctx)
	}()
	go func() { ended <- c.receive(ctx, stream) }()

	var err error
	select {
	case err = <-ended:
	case <-ctx.Done(): // another session has taken its place
		err = ctx.Err()
	case <-c.s.stopped:
		err = status.Error(codes.Unavailable, "the scheduler is stopping")
	}
	c.cancel()
	<-dispatched // what is PLACED from now on is not sent any more
	c.s.log.Info("shard disconnected", "shard", c.shard, "reason", err)
	return err
}

func (c *control) send(ctx context.Context, stream sluicev1.HostManagerService_ControlServer) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message := <-c.commands:
			if err := stream.Send(message); err != nil {
				return err
			}
		case answer := <-c.answers:
			for _, message := range answer {
				if err := stream.Send(message); err != nil {
					return err
				}
			}
			<-c.slots
		}
	}
}

func (c *control) receive(ctx context.Context, stream sluicev1.HostManagerService_ControlServer) error {
	for {
		up, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := up.GetMessage().(type) {
		case *sluicev1.ShardUp_HostReport:
			err = c.hostReport(ctx, m.HostReport)
		case *sluicev1.ShardUp_Inventory:
			err = c.inventory(ctx, m.Inventory)
		case *sluicev1.ShardUp_Status:
			err = c.status(ctx, m.Status)
		case *sluicev1.ShardUp_Health:
			err = c.health(ctx, m.Health)
		case *sluicev1.ShardUp_Volumes:
			c.volumes(m.Volumes)
		case *sluicev1.ShardUp_Pong:
		default:
			c.s.log.Warn("shard sent a message that this release does not know", "shard", c.shard, "message", fmt.Sprintf("%T", m))
		}
		if err != nil {
			return err
		}
	}
}

// health queues what checks say for the writer. It is not acknowledged: the shard tells it again in its next session, which it must
// not overtake.
func (c *control) health(ctx context.Context, h *sluicev1.RunHealth) error {
	run := runFrom(h.GetRun())
	e := &cluster.TaskHealth{Task: run.Task, Run: run.Run, Health: healthFrom(h), Message: shorten(strings.ToValidUTF8(h.GetMessage(), "�"), maxMessage)}
	return c.s.Send(ctx, e.Task, func(tx *Tx) error {
		if ctx.Err() != nil {
			return nil
		}
		return rules.Health(tx, c.shard, e)
	}, func(err error) {
		if err != nil {
			c.refused("health", run, err)
		}
	})
}

// status queues a status for the writer, and the acknowledgement for when it is durable.
func (c *control) status(ctx context.Context, st *sluicev1.RunStatus) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	e, err := statusFrom(st)
	if err != nil {
		c.s.log.Warn("shard sent a status that makes no sense", "shard", c.shard, "error", err)
		c.answers <- []*sluicev1.ShardDown{ackDown(st)}
		return nil
	}
	c.s.notePeak(c.shard, e)
	var outcome rules.Verdict
	return c.s.Send(ctx, e.Task, func(tx *Tx) (err error) {
		outcome, err = rules.Report(tx, c.shard, e)
		return err
	}, func(err error) {
		if err != nil {
			c.refused("status", cluster.RunID{Task: e.Task, Run: e.Run}, err)
			<-c.slots
			return // unacknowledged, so it comes again
		}
		answer := []*sluicev1.ShardDown{ackDown(st)}
		switch {
		case e.State.Terminal():
			if outcome == rules.Stale {
				c.s.shards.part(c, runFrom(st.GetRun()))
			}
			answer = append(answer, releaseDown(st.GetRun()))
		case outcome == rules.Stale:
			if e.State == cluster.TaskLaunching {
				answer = nil // or it would begin
			}
			if !c.spare() {
				answer = append(answer, killDown(st.GetRun(), rules.StaleGrace, nil, cluster.ReasonSuperseded))
			}
		}
		c.answers <- answer
	})
}

// refused logs what a shard told of a run and the State did not take. That the journal failed, or that this scheduler leads no more, says
// nothing of the run.
func (c *control) refused(what string, run cluster.RunID, err error) {
	if !stopping(err) {
		c.s.log.Error(what+" refused by the state", "run", run, "error", err)
	}
}

// spare tells whether a run that nobody waits for is to be left alone, as nothing is killed. Dispatch then hears of it,
// also if killing goes on before it has looked.
func (c *control) spare() bool {
	if !c.s.Snapshot().Mode().KillingStopped {
		return false
	}
	select {
	case c.spared <- struct{}{}:
	default:
	}
	return true
}
