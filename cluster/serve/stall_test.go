package serve

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// slowLog makes nothing durable while it is held.
type slowLog struct {
	journal.Journal
	hold chan struct{} // has an element while it is held
}

func (l *slowLog) Append(records []cluster.Record) error {
	l.hold <- struct{}{}
	<-l.hold
	return l.Journal.Append(records)
}

// A disk that hangs without an error is told to the operator, and to whoever wants to change something, and heals by itself.
func TestADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowLog{journal.NewMemory(), make(chan struct{}, 1)}
		var said, audit syncBuffer
		a := newAPITestWith(t, func(c *Config) {
			c.Journal, c.Logger, c.Audit = disk, slog.New(slog.NewTextHandler(&said, nil)), slog.New(slog.NewTextHandler(&audit, nil))
		})
		put := func(path string) error {
			_, err := a.pools.CreatePool(t.Context(), &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: path}})
			return err
		}
		require.NoError(t, put("root/a"))

		disk.hold <- struct{}{}
		first := make(chan error, 1)
		go func() { first <- put("root/b") }()
		time.Sleep(stallAfter + time.Second)
		err := put("root/c")
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.Contains(t, err.Error(), "waits for a disk that does not answer")
		require.Equal(t, ReasonStalled, status.Convert(err).Details()[0].(*errdetails.ErrorInfo).GetReason())
		require.Contains(t, said.String(), "does not become durable")
		require.NotContains(t, audit.String(), "root/c", "the audit log may be on that disk")
		_, err = a.pools.GetPool(t.Context(), &sluicev1.GetPoolRequest{Path: "root/a"})
		require.NoError(t, err, "what is durable is there to be read")
		_, err = a.pools.GetPool(t.Context(), &sluicev1.GetPoolRequest{Path: "root/b"})
		require.Equal(t, codes.NotFound, status.Code(err))

		<-disk.hold
		require.NoError(t, <-first)
		require.NoError(t, put("root/d"))
		_, err = a.pools.GetPool(t.Context(), &sluicev1.GetPoolRequest{Path: "root/c"})
		require.Equal(t, codes.NotFound, status.Code(err), "what was refused is not done")
		require.Contains(t, said.String(), "has become durable")
	})
}

var errLost = errors.New("lost")

// lostLog fails after a time.
type lostLog time.Duration

func (l lostLog) Append([]cluster.Record) error {
	time.Sleep(time.Duration(l))
	return errLost
}

// What a disk that hung for too long was to make durable is not said to be.
func TestWhatIsLostIsNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(cluster.NewState(), lostLog(2*stallAfter), time.Now)
		var told []bool
		w.stalls = func(begins bool) { told = append(told, begins) }
		require.ErrorIs(t, w.append(nil), errLost)
		require.Equal(t, []bool{true}, told)
	})
}
