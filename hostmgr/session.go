package hostmgr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// welcomeTimeout is how long a scheduler may take to answer a Hello.
const welcomeTimeout = 15 * time.Second

// session is one connection to the scheduler, from Hello to the end of the Control stream.
type session struct {
	*Shard
	life   context.Context // of the shard: a command that has begun is not given up with the session
	stream sluicev1.HostManagerService_ControlClient
	group  *errgroup.Group
	lanes  lanes
}

// connect runs one session and tells why it ended, and whether the scheduler had welcomed the shard.
func (s *Shard) connect(life context.Context) (welcomed bool, err error) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	stream, err := s.client.Control(ctx)
	if err != nil {
		return false, err
	}
	c := &session{Shard: s, life: life, stream: stream}
	patience := time.AfterFunc(welcomeTimeout, cancel)
	id, err := c.greet()
	switch {
	case !patience.Stop() && err != nil:
		return false, fmt.Errorf("hostmgr: the scheduler did not answer within %v", welcomeTimeout)
	case err != nil:
		return false, err
	}
	if err := s.enter(id); err != nil {
		return true, err
	}
	s.log.Info("connected to the scheduler", "cluster", id)
	return true, c.serve(ctx, cancel)
}

// greet says Hello and returns the cluster id of the Welcome.
func (c *session) greet() (clusterID string, err error) {
	recorded, err := c.config.Cluster.ClusterID()
	if err != nil {
		return "", err
	}
	folder, err := c.config.Cluster.Folder()
	if err != nil {
		return "", err
	}
	hello := &sluicev1.Hello{
		Shard:           string(c.config.Name),
		ProtocolVersion: protocolVersion,
		ClusterId:       recorded,
		SessionId:       c.id,
		Driver:          c.config.Kind,
		Capabilities:    capabilitiesOf(c.config.Driver).Names(),
		Version:         c.config.Version,
		Folder:          folder,
	}
	if err := c.stream.Send(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		return "", err // after io.EOF, Recv says what it was
	}
	down, err := c.stream.Recv()
	if err != nil {
		return "", err
	}
	switch m := down.GetMessage().(type) {
	case *sluicev1.ShardDown_Welcome:
		if v := m.Welcome.GetProtocolVersion(); v != protocolVersion {
			return "", fmt.Errorf("%w: it speaks version %d of the protocol, this shard %d; use the same release on both sides",
				ErrRejected, v, protocolVersion)
		}
		if m.Welcome.GetClusterId() == "" {
			return "", errors.New("hostmgr: the scheduler has no cluster id")
		}
		return m.Welcome.GetClusterId(), nil
	case *sluicev1.ShardDown_Reject:
		if m.Reject.GetRetry() {
			return "", fmt.Errorf("hostmgr: rejected for now: %s", m.Reject.GetReason())
		}
		return "", fmt.Errorf("%w: %s", ErrRejected, m.Reject.GetReason())
	default:
		return "", fmt.Errorf("hostmgr: the scheduler answered a hello with %T", m)
	}
}

// enter makes sure that what the driver runs belongs to the scheduler's cluster.
func (s *Shard) enter(id string) error {
	recorded, err := s.config.Cluster.ClusterID()
	switch {
	case err != nil:
		return err
	case recorded == id:
	case recorded != "":
		return fmt.Errorf("%w: its runs are of cluster %s, the scheduler's is %s; connect it to its own scheduler, or give it another state folder",
			ErrOtherCluster, recorded, id)
	}
	return s.config.Cluster.SetClusterID(id)
}

// serve works until the stream or ctx ends. When it returns, no command is in progress any more.
func (c *session) serve(ctx context.Context, cancel func()) error {
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, cancel)() // whichever part fails ends the stream, and with it the others
	c.group = group
	opening := c.out.begin(c.config.Driver.Inventory)
	c.lanes = newLanes(ctx, group, c.config.Driver)
	group.Go(func() error { return c.send(ctx, opening) })
	group.Go(func() error { return c.bulk(ctx) })
	group.Go(func() error { return c.receive(ctx) })
	return group.Wait()
}

func (c *session) send(ctx context.Context, messages []*sluicev1.ShardUp) error {
	for {
		for _, m := range messages {
			if err := c.stream.Send(m); errors.Is(err, io.EOF) {
				<-ctx.Done() // the stream is broken; receive learns why and ends the session
				return nil
			} else if err != nil {
				return err
			}
		}
		if messages = c.out.next(); messages != nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.out.wake:
		}
	}
}

func (c *session) receive(ctx context.Context) error {
	for {
		down, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return errors.New("hostmgr: the scheduler ended the stream")
		}
		if err != nil {
			return err
		}
		if err := c.obey(ctx, down); err != nil {
			return err
		}
	}
}
