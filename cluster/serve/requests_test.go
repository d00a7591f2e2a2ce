package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sluice-scheduler/sluice/cluster"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// TestManyRequests sends one server after the other thousands of requests, of every call and stream, made up at random or
// spoiled: each is answered with a status that says whose fault it is, and after each what is stored counts up. SLUICE_LONG
// makes it ten million; SLUICE_REQUESTS says how many, SLUICE_SEED which.
func TestManyRequests(t *testing.T) {
	total, seed := 3000, uint64(1)
	if os.Getenv("SLUICE_LONG") != "" {
		total = 10_000_000
	}
	if n, err := strconv.Atoi(os.Getenv("SLUICE_REQUESTS")); err == nil {
		total = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64); err == nil {
		seed = n
	}
	const round = 20_000 // then the server has more than enough jobs
	for ; total > 0; total, seed = total-round, seed+1 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := &maker{Rand: rand.New(rand.NewPCG(seed, 0))}
			m.flood(t, min(total, round))
		})
	}
}

// maker makes requests up.
type maker struct{ *rand.Rand }

func (m *maker) flood(t *testing.T, requests int) {
	a := newAPITest(t)
	a.addHost(t, "s/h", 16)
	there := sleepJob("there")
	there.Instances = proto.Uint32(3)
	a.submit(t, there)
	calls := everyCall(t)
	var seq uint64
	for range requests {
		c := calls[m.IntN(len(calls))]
		raw := m.message(t, c.request, c.seeds)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := a.try(ctx, cancel, c, raw)
		cancel()
		sent := func() string { return fmt.Sprintf("%s %x", c.name, raw) }
		switch code := status.Code(err); code {
		case codes.OK, codes.InvalidArgument, codes.Unimplemented, codes.NotFound, codes.AlreadyExists, codes.Aborted,
			codes.FailedPrecondition, codes.OutOfRange:
		case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
			require.True(t, c.stream, "%s: %v", sent(), err)
		case codes.Internal: // gRPC's own answer to what is no protobuf at all
			require.Contains(t, err.Error(), "unmarshal the received message", sent())
		default:
			require.Failf(t, "an unexpected answer", "%s: %v", sent(), err)
		}
		if a.Snapshot().Mode() != (cluster.Mode{}) {
			a.emit(t, &cluster.ModeSet{}) // else the rest is refused
		}
		if s := a.Snapshot(); s.Seq() != seq && (s.NumTasks() < 1000 || m.IntN(500) == 0) {
			seq = s.Seq()
			countsUp(t, s, sent)
		}
	}
	copied := cluster.NewState()
	for part := range a.Snapshot().Parts() {
		require.NoError(t, copied.Apply(cluster.Record{Event: part}))
	}
}

// countsUp counts anew what the state keeps as sums.
func countsUp(t *testing.T, s *cluster.Snapshot, sent func() string) {
	t.Helper()
	for h := range s.Hosts("") {
		var sum cluster.Resources
		for _, k := range h.Tasks {
			task := s.Task(k)
			require.NotNil(t, task, sent())
			require.True(t, task.State.Bound() && task.Host == h.ID, sent())
			sum = sum.Add(s.Job(k.Job()).TaskFor(task).Resources)
		}
		require.True(t, sum.Equal(h.Allocated), "%s: %v is allocated on %s, its tasks have %v", sent(), h.Allocated, h.ID, sum)
	}
	tasks := 0
	for j := range s.Jobs(0) {
		var counts [cluster.NumTaskStates]uint32
		for task := range s.TasksOf(j.UID, 0) {
			counts[task.State]++
			tasks++
			h := s.Host(task.Host)
			require.True(t, !task.State.Bound() || h != nil && slices.Contains(h.Tasks, task.Key), sent())
		}
		require.Equal(t, counts, j.Counts, sent())
		for _, uid := range s.WaitingFor(j.Spec.Name) {
			require.True(t, s.Job(uid) != nil && s.Job(uid).Waiting, "%s: job %d waits for %s", sent(), uid, j.Spec.Name)
		}
	}
	require.Equal(t, s.NumTasks(), tasks, sent())
}

// rpc is a call, with the requests that make sense to spoil.
type rpc struct {
	name    string
	stream  bool
	talks   bool // more than one message may be sent
	request protoreflect.MessageType
	seeds   [][]byte
}

// everyCall lists the calls of all services of ours.
func everyCall(t *testing.T) (all []rpc) {
	seeds := map[protoreflect.FullName][][]byte{}
	for _, m := range requestSeeds() {
		raw, err := proto.Marshal(m)
		require.NoError(t, err)
		name := m.ProtoReflect().Descriptor().FullName()
		seeds[name] = append(seeds[name], raw)
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(apiPackage, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				method := s.Methods().Get(k)
				request, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
				require.NoError(t, err)
				all = append(all, rpc{
					fmt.Sprintf("/%s/%s", s.FullName(), method.Name()), method.IsStreamingClient() || method.IsStreamingServer(), method.IsStreamingClient(),
					request, seeds[method.Input().FullName()],
				})
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b rpc) int { return strings.Compare(a.name, b.name) })
	require.Greater(t, len(all), 40)
	return all
}

// try makes a call, and reads one answer. Where more than one message may be sent, the request comes after one that makes
// sense.
func (a *apiTest) try(ctx context.Context, cancel func(), c rpc, raw []byte) error {
	if !c.stream {
		return a.sendRaw(ctx, c.name, raw, &emptypb.Empty{})
	}
	soon := time.AfterFunc(20*time.Millisecond, cancel)
	defer soon.Stop()
	stream, err := a.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, c.name, grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))
	if err != nil {
		return err
	}
	messages := [][]byte{raw}
	if c.talks {
		messages = [][]byte{c.seeds[0], raw}
	}
	for _, message := range messages {
		if err := stream.SendMsg(message); err != nil {
			break // RecvMsg says why
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err = stream.RecvMsg(&emptypb.Empty{}); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// message returns a request: one that makes sense, spoiled or not, or one of fields that were drawn.
func (m *maker) message(t *testing.T, kind protoreflect.MessageType, seeds [][]byte) []byte {
	var raw []byte
	if len(seeds) > 0 && m.IntN(2) == 0 {
		raw = slices.Clone(seeds[m.IntN(len(seeds))])
	} else {
		message := kind.New()
		m.fill(message, 0)
		var err error
		raw, err = proto.Marshal(message.Interface())
		require.NoError(t, err)
	}
	for range m.IntN(3) { // how often it is spoiled
		if len(raw) == 0 {
			return raw
		}
		at := m.IntN(len(raw))
		switch m.IntN(4) {
		case 0:
			raw[at] ^= 1 << m.IntN(8)
		case 1:
			raw = raw[:at]
		case 2:
			raw = slices.Insert(raw, at, byte(m.Uint32()))
		case 3:
			raw = slices.Concat(raw[:at], raw[at/2:])
		}
	}
	return raw
}

var (
	words   = []string{"", "there", "a", "b", "s/h", "s", "h", "root", "root/default", "root/x", "k", "loadspread", "\x00", "${SLUICE_PORT_0}", "../x", "cpu_milli"}
	numbers = []int64{0, 1, 2, 3, 10, 100, 1000, 1 << 30, 1<<31 - 1, -1, 1<<62 - 1, -1 << 62}
)

// fill sets some of the fields of a message.
func (m *maker) fill(message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if depth > 6 || m.IntN(3) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() == nil {
				message.Mutable(f).Map().Set(m.value(f.MapKey()).MapKey(), m.value(f.MapValue()))
			}
		case f.IsList() && f.Message() != nil:
			for range m.IntN(3) {
				m.fill(message.Mutable(f).List().AppendMutable().Message(), depth+1)
			}
		case f.IsList():
			for range m.IntN(3) {
				message.Mutable(f).List().Append(m.value(f))
			}
		case f.Message() != nil:
			m.fill(message.Mutable(f).Message(), depth+1)
		default:
			message.Set(f, m.value(f))
		}
	}
}

// value draws a value for a field that is no message.
func (m *maker) value(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := numbers[m.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(words[m.IntN(len(words))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(words[m.IntN(len(words))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(m.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(m.IntN(8)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	default:
		return protoreflect.ValueOfFloat64(float64(n))
	}
}

// shardSeeds are what a host manager says.
func shardSeeds() []proto.Message {
	total := &sluicev1.ResourceVector{CpuMilli: 4000, MemoryBytes: 1 << 30}
	up := func(m *sluicev1.ShardUp) proto.Message { return m }
	return []proto.Message{
		up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: &sluicev1.Hello{Shard: "s", SessionId: "1", ProtocolVersion: protocolVersion}}}),
		up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_HostReport{HostReport: &sluicev1.HostReport{Full: true, Last: true, Hosts: []*sluicev1.HostInfo{
			{Name: "h", Capacity: &sluicev1.Capacity{Total: total}},
		}}}}),
		up(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Status{Status: runStatus(ref(1, 0, 1), sluicev1.RunState_RUN_STATE_RUNNING)}}),
		&sluicev1.BulkUp{Message: &sluicev1.BulkUp_Hello{Hello: &sluicev1.BulkHello{Shard: "s", SessionId: "1"}}},
	}
}
