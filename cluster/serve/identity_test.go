package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// newGuarded is an apiTest whose server asks who calls. The group ops operates it; audit gets the lines.
func newGuarded(t *testing.T, limits Limits) (a *apiTest, audit *syncBuffer) {
	t.Helper()
	audit = new(syncBuffer)
	a = newAPITestWith(t, func(c *Config) {
		c.Identity = &Identity{Roles: []cluster.RoleBinding{{Role: cluster.Operator, Group: "ops", Pool: cluster.RootPool}}}
		c.Limits = limits
		c.Audit = slog.New(slog.NewJSONHandler(audit, nil))
	})
	return a, audit
}

// syncBuffer is a buffer that several goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// as returns a context that shows a new token of the user.
func (a *apiTest) as(t *testing.T, user string, groups ...string) context.Context {
	t.Helper()
	id, secret := randomHex(8), randomHex(32)
	a.emit(t, &cluster.TokenCreated{Token: cluster.Token{
		ID: id, Hash: hashSecret(secret), User: user, Groups: groups, Expires: cluster.Time(time.Now().Add(time.Hour).UnixNano()),
	}})
	return showing(t.Context(), tokenText(id, secret))
}

// createToken makes a token as a user who shows a certificate.
func (a *apiTest) createToken(t *testing.T, user string, groups []string, r *sluicev1.CreateTokenRequest) (*sluicev1.CreateTokenResponse, error) {
	t.Helper()
	chain := []*x509.Certificate{{Subject: pkix.Name{CommonName: user, Organization: groups}, NotAfter: time.Now().Add(time.Hour)}}
	ctx := peer.NewContext(t.Context(), &peer.Peer{
		Addr: &net.IPAddr{}, AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}}},
	})
	service := &accessService{api: &api{s: a.Scheduler}}
	next := func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		r := &sluicev1.CreateTokenRequest{}
		if err := receive(r); err != nil {
			return nil, err
		}
		return service.CreateToken(ctx, r)
	}
	s := &oneCall{ctx: ctx, request: r}
	err := gate{s: a.Scheduler, check: service.check}.unary(sluicev1.AccessService_CreateToken_FullMethodName, next)(nil, s)
	made, _ := s.answer.(*sluicev1.CreateTokenResponse)
	return made, err
}

// oneCall is the stream of a call with one request.
type oneCall struct {
	grpc.ServerStream
	ctx     context.Context
	request proto.Message
	late    func() // what happens until the request has come; nil: nothing
	answer  any
}

func (c *oneCall) Context() context.Context { return c.ctx }

func (c *oneCall) SendMsg(m any) error {
	c.answer = m
	return nil
}

func (c *oneCall) RecvMsg(m any) error {
	if c.late != nil {
		c.late()
	}
	raw, err := proto.Marshal(c.request)
	m.(proto.Message).ProtoReflect().SetUnknown(raw) // as the codec leaves it
	return err
}

func showing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func (a *apiTest) grant(t *testing.T, role cluster.Role, user string, pool cluster.PoolPath) {
	t.Helper()
	a.emit(t, &cluster.RoleGranted{Binding: cluster.RoleBinding{Role: role, User: user, Pool: pool}})
}

// Who is made an operator by the configuration, and goes on with a watch, is shown the jobs that he could not see before.
func TestAWatchFollowsTheConfiguredRoles(t *testing.T) {
	store := journal.NewMemory()
	start := func(t *testing.T, roles ...cluster.RoleBinding) *apiTest {
		state, err := journal.Load(store)
		require.NoError(t, err)
		return newAPITestWith(t, func(c *Config) { c.Journal, c.State, c.Identity = store, state, &Identity{Roles: roles} })
	}
	watch := func(t *testing.T, a *apiTest, since uint64) *sluicev1.WatchJobsResponse {
		ctx, cancel := context.WithCancel(a.as(t, "ann", "ops"))
		defer cancel()
		stream, err := a.jobs.WatchJobs(ctx, &sluicev1.WatchJobsRequest{AfterRevision: since})
		require.NoError(t, err)
		m, err := stream.Recv()
		require.NoError(t, err)
		return m
	}
	var before *sluicev1.WatchJobsResponse
	t.Run("before", func(t *testing.T) {
		a := start(t)
		a.emit(t, &cluster.JobsSubmitted{Jobs: []cluster.NewJob{{UID: 1, Spec: &cluster.JobSpec{Name: "job", Pool: cluster.DefaultPool, Instances: 1, Owner: "bob"}}}})
		before = watch(t, a, 0)
		require.Empty(t, before.Jobs)
	})
	t.Run("after", func(t *testing.T) {
		a := start(t, cluster.RoleBinding{Role: cluster.Operator, Group: "ops", Pool: cluster.RootPool})
		after := watch(t, a, before.Revision)
		require.Len(t, after.Jobs, 1)
		a.emit(t, &cluster.JobStopping{Job: 1})
		now := watch(t, a, after.Revision)
		require.Len(t, now.Jobs, 1, "it has changed")
		require.Equal(t, []uint32{1}, watch(t, a, now.Revision).Unchanged)
	})
}

func TestCallersSeeAndChangeWhatIsTheirs(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	a.grant(t, cluster.Submitter, "bob", "root")
	a.grant(t, cluster.Viewer, "vera", "root")
	ann, bob, vera, ops := a.as(t, "ann", "red"), a.as(t, "bob"), a.as(t, "vera"), a.as(t, "olga", "ops")

	_, err := a.jobs.SubmitJob(t.Context(), &sluicev1.SubmitJobRequest{Spec: sleepJob("job")})
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "--token-file")
	_, err = a.jobs.SubmitJob(vera, &sluicev1.SubmitJobRequest{Spec: sleepJob("job")})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	_, err = a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: sleepJob("job")})
	require.NoError(t, err)

	names := func(ctx context.Context) (names []string) {
		res, err := a.jobs.ListJobs(ctx, &sluicev1.ListJobsRequest{})
		require.NoError(t, err)
		for _, j := range res.Jobs {
			names = append(names, j.Spec.Name)
		}
		tasks, err := a.tasks.ListTasks(ctx, &sluicev1.ListTasksRequest{})
		require.NoError(t, err)
		require.Len(t, tasks.Tasks, len(names))
		watching, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := a.jobs.WatchJobs(watching, &sluicev1.WatchJobsRequest{})
		require.NoError(t, err)
		first, err := stream.Recv()
		require.NoError(t, err)
		require.Len(t, first.Jobs, len(names))
		return names
	}
	require.Equal(t, []string{"job"}, names(ann))
	require.Equal(t, []string{"job"}, names(vera))
	require.Equal(t, []string{"job"}, names(ops))
	require.Empty(t, names(bob))
	got, err := a.jobs.GetJob(ann, &sluicev1.GetJobRequest{Name: "job"})
	require.NoError(t, err)
	require.Equal(t, "ann", got.Job.Spec.Owner, "an owner that is left out is the caller")
	require.Equal(t, []string{"red"}, got.Job.Spec.Groups)

	_, err = a.jobs.StopJob(bob, &sluicev1.StopJobRequest{Name: "job"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = a.jobs.StopJob(vera, &sluicev1.StopJobRequest{Name: "job"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	update := sleepJob("job")
	update.Priority = 3
	updated, err := a.jobs.UpdateJob(ops, &sluicev1.UpdateJobRequest{Spec: update, ExpectedVersion: 1})
	require.NoError(t, err)
	require.Equal(t, "ann", updated.Job.Spec.Owner, "an update that names no owner changes none")
	require.Equal(t, []string{"red"}, updated.Job.Spec.Groups)
	update.Groups = []string{"blue"}
	_, err = a.jobs.UpdateJob(ann, &sluicev1.UpdateJobRequest{Spec: update, ExpectedVersion: updated.Job.Version})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	moved, err := a.jobs.UpdateJob(ops, &sluicev1.UpdateJobRequest{Spec: update, ExpectedVersion: updated.Job.Version})
	require.NoError(t, err)
	require.Equal(t, updated.Job.Version+1, moved.Job.Version)
	require.Equal(t, "ann", moved.Job.Spec.Owner)
	require.Equal(t, []string{"blue"}, moved.Job.Spec.Groups, "groups that are named count, also without an owner")
	_, err = a.jobs.StopJob(ann, &sluicev1.StopJobRequest{Name: "job"})
	require.NoError(t, err)
}

func TestAccessListsAreEnforced(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	ops := a.as(t, "olga", "ops")
	_, err := a.pools.CreatePool(ops, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/a", Access: []*sluicev1.AccessRule{
		{Permission: sluicev1.AccessRule_SUBMIT, Users: []string{"ann"}},
		{Permission: sluicev1.AccessRule_ADMINISTER, Users: []string{"lead"}},
	}}})
	require.NoError(t, err)
	a.grant(t, cluster.Submitter, "bob", "root")
	ann, bob, lead := a.as(t, "ann"), a.as(t, "bob"), a.as(t, "lead")
	inA := func(name string) *sluicev1.SubmitJobRequest {
		spec := sleepJob(name)
		spec.Pool = "root/a"
		return &sluicev1.SubmitJobRequest{Spec: spec}
	}
	_, err = a.jobs.SubmitJob(bob, inA("bobs"))
	require.Equal(t, codes.PermissionDenied, status.Code(err), "the list closes the pool for who is not on it")
	_, err = a.jobs.SubmitJob(ann, inA("anns"))
	require.NoError(t, err)
	_, err = a.jobs.StopJob(lead, &sluicev1.StopJobRequest{Name: "anns"})
	require.NoError(t, err)
	_, err = a.pools.CreatePool(lead, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/b"}})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	pools, err := a.pools.ListPools(ann, &sluicev1.ListPoolsRequest{})
	require.NoError(t, err)
	require.Len(t, pools.Pools, 1)
	require.Equal(t, "root/a", pools.Pools[0].Spec.Path)
}

// Nothing of the request has to come for an unknown caller to be refused: nobody can have it taken in.
func TestWhoCallsComesBeforeWhatHeSent(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	for _, method := range []string{sluicev1.JobService_SubmitJob_FullMethodName, sluicev1.JobService_WatchJobs_FullMethodName} {
		stream, err := a.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
		require.NoError(t, err)
		require.Equal(t, codes.Unauthenticated, status.Code(stream.RecvMsg(&sluicev1.SubmitJobResponse{})), method)
	}
}

// Health is told to everybody: what they send for it is bounded by how many do so at once, and goes on when they have ended.
func TestRequestsOfUnknownCallersAreFewAtOnce(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	ctx, end := context.WithCancel(t.Context())
	answers := make(chan error, maxReceiving+1)
	for i := range maxReceiving + 1 {
		stream, err := a.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
			[]string{healthv1.Health_Check_FullMethodName, healthv1.Health_Watch_FullMethodName}[i%2])
		require.NoError(t, err)
		go func() { answers <- stream.RecvMsg(&healthv1.HealthCheckResponse{}) }()
	}
	require.Equal(t, codes.ResourceExhausted, status.Code(<-answers), "one is too many; the others wait for what is sent")
	end()
	for range maxReceiving {
		require.Equal(t, codes.Canceled, status.Code(<-answers))
	}
	require.Eventually(t, func() bool {
		_, err := healthv1.NewHealthClient(a.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err == nil
	}, time.Minute, time.Millisecond)
}

func TestTokens(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	tokens := sluicev1.NewAccessServiceClient(a.conn)
	create := func(r *sluicev1.CreateTokenRequest) (*sluicev1.CreateTokenResponse, error) {
		return a.createToken(t, "olga", []string{"ops"}, r)
	}
	made, err := create(&sluicev1.CreateTokenRequest{User: "ann", Groups: []string{"red", "blue", "red"}, Note: "laptop"})
	require.NoError(t, err)
	require.Equal(t, []string{"blue", "red"}, made.Token.Groups)
	ann := showing(t.Context(), made.Secret)
	who, err := tokens.WhoAmI(ann, &sluicev1.WhoAmIRequest{})
	require.NoError(t, err)
	require.Equal(t, "ann", who.User)
	require.True(t, who.Identified)
	_, err = tokens.CreateToken(ann, &sluicev1.CreateTokenRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	own, err := tokens.ListTokens(ann, &sluicev1.ListTokensRequest{})
	require.NoError(t, err)
	require.Len(t, own.Tokens, 1)

	others, err := create(&sluicev1.CreateTokenRequest{User: "bob"})
	require.NoError(t, err)
	mine := []string{made.Token.Id}
	for range 3 {
		more, err := create(&sluicev1.CreateTokenRequest{User: "ann"})
		require.NoError(t, err)
		mine = append(mine, more.Token.Id)
	}
	slices.Sort(mine)
	listed := pages(t, func(token string) (*sluicev1.ListTokensResponse, error) {
		return tokens.ListTokens(ann, &sluicev1.ListTokensRequest{PageSize: proto.Uint32(2), PageToken: token})
	}, (*sluicev1.ListTokensResponse).GetTokens)
	require.Len(t, listed, len(mine))
	for i, token := range listed {
		require.Equal(t, mine[i], token.Id)
		require.NotEqual(t, others.Token.Id, token.Id)
	}

	// Only a hash is kept.
	var kept bytes.Buffer
	require.NoError(t, json.NewEncoder(&kept).Encode(a.Snapshot().Tokens()))
	require.NotContains(t, kept.String(), made.Secret[len(made.Secret)-20:])

	_, err = tokens.RevokeToken(ann, &sluicev1.RevokeTokenRequest{Id: made.Token.Id})
	require.NoError(t, err)
	_, err = tokens.WhoAmI(ann, &sluicev1.WhoAmIRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))

	// An open stream ends, too: within a second, or at once where the clock has been set back since it was looked at last.
	open := &call{who: &access.Caller{User: "ann"}, shown: Credentials{Token: made.Secret}}
	open.checked.Store(time.Now().Add(time.Hour).UnixNano())
	require.Equal(t, codes.Unauthenticated, status.Code(gate{s: a.Scheduler}.standing(open)))

	// A token is good for as long as was asked for, up to a year.
	for _, lifetime := range []time.Duration{time.Minute, 30 * 24 * time.Hour, 366 * 24 * time.Hour} {
		made, err := create(&sluicev1.CreateTokenRequest{User: "x", Lifetime: durationpb.New(lifetime)})
		require.NoError(t, err, lifetime)
		require.WithinDuration(t, time.Now().Add(lifetime), made.Token.ExpireTime.AsTime(), 30*time.Second)
	}
	_, err = create(&sluicev1.CreateTokenRequest{User: "x", Lifetime: durationpb.New(366*24*time.Hour + 1)})
	require.ErrorContains(t, err, "is 8784h0m0.000000001s: 1m0s to 8784h0m0s")

	for field, r := range map[string]*sluicev1.CreateTokenRequest{
		"lifetime":  {User: "x", Lifetime: durationpb.New(time.Second)},
		"groups[0]": {User: "x", Groups: []string{""}},
		"note":      {User: "x", Note: string(make([]byte, 300))},
		"job":       {User: "x", Job: "NO"},
	} {
		_, err := create(r)
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%s: %v", field, err)
		require.Contains(t, violated(err), field)
	}
	_, err = create(&sluicev1.CreateTokenRequest{User: "x", Job: "none"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = tokens.CreateToken(a.as(t, "olga", "ops"), &sluicev1.CreateTokenRequest{User: "x"})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "nor does an operator's token make tokens")
}

// Nobody uses up the tokens of others: each may have so many that are good. Those that have expired go.
func TestTokensOfAUserAreLimited(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	create := func() error {
		_, err := a.createToken(t, "ann", nil, &sluicev1.CreateTokenRequest{})
		return err
	}
	for i := range maxTokensEach {
		a.emit(t, &cluster.TokenCreated{Token: cluster.Token{ID: fmt.Sprint("t", i), User: "ann", Expires: 1 << 62}})
	}
	err := create()
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Contains(t, violated(err), "user")
	_, err = a.createToken(t, "bob", nil, &sluicev1.CreateTokenRequest{})
	require.NoError(t, err)
	a.emit(t, &cluster.TokenRevoked{ID: "t1"}, &cluster.TokenCreated{Token: cluster.Token{ID: "t1", User: "ann", Expires: 1}})
	require.NoError(t, create())
	require.Nil(t, a.Snapshot().Token("t1"))
	require.Equal(t, codes.FailedPrecondition, status.Code(create()))

	// Those of all that have expired go when there are as many as there may be.
	var others []cluster.Event
	for i := len(a.Snapshot().Tokens()); i < cluster.MaxTokens; i++ {
		others = append(others, &cluster.TokenCreated{Token: cluster.Token{ID: fmt.Sprint("o", i), User: fmt.Sprint("user-", i), Expires: 1}})
	}
	a.emit(t, others...)
	_, err = a.createToken(t, "bob", nil, &sluicev1.CreateTokenRequest{})
	require.NoError(t, err)
	require.Len(t, a.Snapshot().Tokens(), maxTokensEach+2)
}

func TestRolesAreGrantedAndRevoked(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	roles := sluicev1.NewAccessServiceClient(a.conn)
	ops, ann := a.as(t, "olga", "ops"), a.as(t, "ann")
	status1 := func() codes.Code {
		_, err := a.cluster.GetStatus(ann, &sluicev1.GetStatusRequest{})
		return status.Code(err)
	}
	require.Equal(t, codes.PermissionDenied, status1())
	b := &sluicev1.RoleBinding{Role: sluicev1.Role_ROLE_VIEWER, User: "ann"}
	for range 2 {
		_, err := roles.GrantRole(ops, &sluicev1.GrantRoleRequest{Binding: b})
		require.NoError(t, err)
	}
	require.Equal(t, codes.OK, status1())
	list, err := roles.ListRoles(ops, &sluicev1.ListRolesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Bindings, 1)
	require.Equal(t, "root", list.Bindings[0].Pool)
	for range 2 {
		_, err = roles.RevokeRole(ops, &sluicev1.RevokeRoleRequest{Binding: b})
		require.NoError(t, err)
	}
	require.Equal(t, codes.PermissionDenied, status1())
	for text, b := range map[string]*sluicev1.RoleBinding{
		"is required":                nil,
		"viewer, submitter":          {User: "x"},
		"needs either":               {Role: sluicev1.Role_ROLE_VIEWER},
		"either a user or a group":   {Role: sluicev1.Role_ROLE_VIEWER, User: "x", Group: "y"},
		"for the whole cluster":      {Role: sluicev1.Role_ROLE_OPERATOR, User: "x", Pool: "root/default"},
		"knows no Role of that numb": {Role: 77, User: "x"},
	} {
		_, err := roles.GrantRole(ops, &sluicev1.GrantRoleRequest{Binding: b})
		require.ErrorContains(t, err, text)
	}
	_, err = roles.GrantRole(ops, &sluicev1.GrantRoleRequest{Binding: &sluicev1.RoleBinding{Role: sluicev1.Role_ROLE_VIEWER, User: "x", Pool: "root/none"}})
	requireViolation(t, err, codes.NotFound, "binding.pool", "there is no such pool")
}

func TestRolesAreListedInPages(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	roles, ops := sluicev1.NewAccessServiceClient(a.conn), a.as(t, "olga", "ops")
	for _, b := range []*sluicev1.RoleBinding{
		{Role: sluicev1.Role_ROLE_VIEWER, Group: "é"},
		{Role: sluicev1.Role_ROLE_VIEWER, User: "ann"},
		{Role: sluicev1.Role_ROLE_VIEWER, User: "ann", Pool: "root/default"},
		{Role: sluicev1.Role_ROLE_VIEWER, User: "bob"},
		{Role: sluicev1.Role_ROLE_OPERATOR, User: "ann"},
	} {
		_, err := roles.GrantRole(ops, &sluicev1.GrantRoleRequest{Binding: b})
		require.NoError(t, err)
	}
	whole, err := roles.ListRoles(ops, &sluicev1.ListRolesRequest{})
	require.NoError(t, err)
	require.Len(t, whole.Bindings, 5)
	for size := range uint32(5) {
		listed := pages(t, func(token string) (*sluicev1.ListRolesResponse, error) {
			return roles.ListRoles(ops, &sluicev1.ListRolesRequest{PageSize: proto.Uint32(size + 1), PageToken: token})
		}, (*sluicev1.ListRolesResponse).GetBindings)
		requireSame(t, &sluicev1.ListRolesResponse{Bindings: whole.Bindings}, &sluicev1.ListRolesResponse{Bindings: listed})
	}
	_, err = roles.ListRoles(ops, &sluicev1.ListRolesRequest{PageToken: "x"})
	requireViolation(t, err, codes.InvalidArgument, "page_token", "is not of this list")
}

// TestRolesEndWithTheirPool: a pool that is made again under the name begins without those of the one before.
func TestRolesEndWithTheirPool(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	ops, roles, pools := a.as(t, "olga", "ops"), sluicev1.NewAccessServiceClient(a.conn), sluicev1.NewPoolServiceClient(a.conn)
	create := func() {
		_, err := pools.CreatePool(ops, &sluicev1.CreatePoolRequest{Spec: &sluicev1.PoolSpec{Path: "root/x"}})
		require.NoError(t, err)
	}
	create()
	kept := &sluicev1.RoleBinding{Role: sluicev1.Role_ROLE_VIEWER, User: "ann", Pool: "root/default"}
	for _, b := range []*sluicev1.RoleBinding{
		kept, {Role: sluicev1.Role_ROLE_POOL_ADMIN, User: "ann", Pool: "root/x"}, {Role: sluicev1.Role_ROLE_VIEWER, Group: "staff", Pool: "root/x"},
	} {
		_, err := roles.GrantRole(ops, &sluicev1.GrantRoleRequest{Binding: b})
		require.NoError(t, err)
	}
	_, err := pools.DeletePool(ops, &sluicev1.DeletePoolRequest{Path: "root/x"})
	require.NoError(t, err)
	create()
	list, err := roles.ListRoles(ops, &sluicev1.ListRolesRequest{})
	require.NoError(t, err)
	require.Len(t, list.Bindings, 1)
	require.True(t, proto.Equal(kept, list.Bindings[0]), list.Bindings[0])
	_, err = pools.DrainPool(a.as(t, "ann"), &sluicev1.DrainPoolRequest{Path: "root/x"})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}

func TestWhoIsIdentified(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	now := time.Now()
	revoked := errors.New("the certificate was revoked")
	chain := func(name string, groups ...string) []*x509.Certificate {
		return []*x509.Certificate{{Subject: pkix.Name{CommonName: name, Organization: groups}, NotAfter: now.Add(time.Hour)}}
	}
	who, err := a.Identify(Credentials{Chain: chain("olga", "ops")}, now)
	require.NoError(t, err)
	require.Equal(t, "olga", who.User)
	require.Equal(t, []cluster.Role{cluster.Operator}, who.Roles)
	_, err = a.Identify(Credentials{Chain: chain("")}, now)
	require.ErrorContains(t, err, "no common name")
	_, err = a.Identify(Credentials{Chain: chain("ann")}, now.Add(2*time.Hour))
	require.ErrorContains(t, err, "expired", "an open connection outlives its certificate")
	a.config.Identity.CheckCertificate = func([]*x509.Certificate) error { return revoked }
	_, err = a.Identify(Credentials{Chain: chain("ann")}, now)
	require.ErrorIs(t, err, revoked)
	a.emit(t, &cluster.TokenCreated{Token: cluster.Token{ID: "old", Hash: hashSecret("s"), User: "ann", Expires: cluster.Time(now.UnixNano())}})
	_, err = a.Identify(Credentials{Token: tokenText("old", "s")}, now)
	require.ErrorContains(t, err, "expired")
	for _, text := range []string{"x", "sluice_", "sluice_old", "sluice_old_", "sluice_old_t", "sluice__s", "SLUICE_old_s"} {
		_, err = a.Identify(Credentials{Token: text}, now)
		require.ErrorContains(t, err, "is not valid", text)
	}
	require.Equal(t, "x", tokenIn("bearer x "))
	basic := func(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
	require.Equal(t, "x", tokenIn(basic("ann:x")), "a browser shows it as a password")
	require.Equal(t, "x:y", tokenIn(basic(":x:y")))
	for _, header := range []string{"Bearer", "Basic x", basic("x"), basic("ann:"), "Digest x", "x"} {
		require.Equal(t, "?", tokenIn(header), header)
	}
}

func TestGuessingTokensIsLimited(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	wrong := showing(t.Context(), "sluice_a_b")
	for range guessBurst {
		_, err := a.cluster.GetStatus(wrong, &sluicev1.GetStatusRequest{})
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	}
	_, err := a.cluster.GetStatus(wrong, &sluicev1.GetStatusRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = a.cluster.GetStatus(a.as(t, "olga", "ops"), &sluicev1.GetStatusRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "nor is it told whether a guess was right")
}

func TestGuessesAreForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guessing
		for range guessBurst {
			require.False(t, g.locked("x"))
			g.failed("x")
		}
		require.True(t, g.locked("x"))
		require.False(t, g.locked("y"))
		time.Sleep(guessPause)
		require.False(t, g.locked("x"))
		g.failed("x")
		require.True(t, g.locked("x"))
	})
}

func TestCallsAreLimitedPerUser(t *testing.T) {
	a, _ := newGuarded(t, Limits{Rate: 1, Burst: 5, Streams: 2})
	a.grant(t, cluster.Viewer, "ann", "root")
	a.grant(t, cluster.Viewer, "bob", "root")
	ann, bob := a.as(t, "ann"), a.as(t, "bob")
	codeOf := func(ctx context.Context) codes.Code {
		_, err := a.cluster.GetStatus(ctx, &sluicev1.GetStatusRequest{})
		return status.Code(err)
	}
	for range 5 {
		require.Equal(t, codes.OK, codeOf(ann))
	}
	require.Equal(t, codes.ResourceExhausted, codeOf(ann))
	require.Equal(t, codes.OK, codeOf(bob), "others do not suffer")

	for range 2 {
		stream, err := a.jobs.WatchJobs(bob, &sluicev1.WatchJobsRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
	}
	third, err := a.jobs.WatchJobs(bob, &sluicev1.WatchJobsRequest{})
	require.NoError(t, err)
	_, err = third.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

// A watch whose reader does not read, and a stream that is opened and left alone, end; others go on all the while.
func TestSlowClientsAreGivenUp(t *testing.T) {
	a, _ := newGuarded(t, Limits{Patience: 200 * time.Millisecond})
	ops := a.as(t, "olga", "ops")

	silent, err := a.conn.NewStream(ops, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/sluice.v1.JobService/WatchJobs")
	require.NoError(t, err)
	require.Equal(t, codes.DeadlineExceeded, status.Code(silent.RecvMsg(&sluicev1.WatchJobsResponse{})))
	asHost := a.as(t, "local")
	a.grant(t, cluster.HostManager, "local", cluster.RootPool)
	shard, err := sluicev1.NewHostManagerServiceClient(a.conn).Control(asHost)
	require.NoError(t, err)
	_, err = shard.Recv()
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "a shard that never says hello")

	submit := func() { // what fills the window of the stream
		spec := sleepJob("job-" + randomHex(4))
		spec.Task.Processes[0].Environment = map[string]string{"A": string(bytes.Repeat([]byte("x"), 30_000))}
		_, err := a.jobs.SubmitJob(ops, &sluicev1.SubmitJobRequest{Spec: spec})
		require.NoError(t, err)
	}
	narrow, err := a.dial(grpc.WithStaticStreamWindowSize(64 << 10))
	require.NoError(t, err)
	defer func() { _ = narrow.Close() }()
	slow, err := sluicev1.NewJobServiceClient(narrow).WatchJobs(ops, &sluicev1.WatchJobsRequest{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return a.watching() == 1 }, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		submit()
		return a.watching() == 0
	}, 20*time.Second, 20*time.Millisecond, "the server keeps nothing for it")
	for err == nil {
		_, err = slow.Recv()
	}
	require.NotEqual(t, codes.OK, status.Code(err), "%v", err)
	_, err = a.cluster.GetStatus(ops, &sluicev1.GetStatusRequest{})
	require.NoError(t, err)
}

// watching counts the streams that operators have open.
func (a *apiTest) watching() int {
	a.throttle.mu.Lock()
	defer a.throttle.mu.Unlock()
	return a.throttle.of("olga").streams
}

func TestAnOpenStreamEndsWithItsToken(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	id, secret := "anns", "s"
	a.emit(t, &cluster.TokenCreated{Token: cluster.Token{ID: id, Hash: hashSecret(secret), User: "olga", Groups: []string{"ops"}, Expires: 1 << 62}})
	ctx := showing(t.Context(), tokenText(id, secret))
	stream, err := a.jobs.WatchJobs(ctx, &sluicev1.WatchJobsRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	a.emit(t, &cluster.TokenRevoked{ID: id})
	ops := a.as(t, "olga", "ops")
	require.Eventually(t, func() bool { // each submission gives the stream something to say
		_, err := a.jobs.SubmitJob(ops, &sluicev1.SubmitJobRequest{Spec: sleepJob("job-" + randomHex(4))})
		require.NoError(t, err)
		return a.watching() == 0
	}, time.Minute, 100*time.Millisecond)
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

// A request that was begun with a token and comes when that has been revoked is refused.
func TestARequestThatOutlivesItsToken(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.emit(t, &cluster.TokenCreated{Token: cluster.Token{ID: "olgas", Hash: hashSecret("s"), User: "olga", Groups: []string{"ops"}, Expires: 1 << 62}})
	s := &oneCall{
		ctx:     metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+tokenText("olgas", "s"))),
		request: &sluicev1.GetStatusRequest{},
		late: func() {
			a.emit(t, &cluster.TokenRevoked{ID: "olgas"})
			time.Sleep(recheckEvery)
		},
	}
	service := &clusterService{api: &api{s: a.Scheduler}}
	err := gate{s: a.Scheduler, check: service.check}.unary(sluicev1.ClusterService_GetStatus_FullMethodName,
		func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return nil, receive(&sluicev1.GetStatusRequest{})
		})(nil, s)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

func TestAudit(t *testing.T) {
	a, audit := newGuarded(t, Limits{})
	a.grant(t, cluster.Submitter, "ann", "root")
	ann := a.as(t, "ann")
	spec := sleepJob("job")
	spec.Task.Processes[0].Environment = map[string]string{"KEY": "canary"}
	_, err := a.jobs.SubmitJob(ann, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	_, err = a.jobs.GetJob(ann, &sluicev1.GetJobRequest{Name: "job"})
	require.NoError(t, err)
	_, err = a.hosts.DrainHost(ann, &sluicev1.DrainHostRequest{Name: "s/h"})
	require.Error(t, err)
	_, err = a.cluster.GetStatus(showing(t.Context(), "wrong"), &sluicev1.GetStatusRequest{})
	require.Error(t, err)
	spec.Groups = []string{"red", "blue"}
	for _, try := range []bool{true, false} { // what only asks is a read
		_, err = a.jobs.UpdateJob(a.as(t, "olga", "ops"), &sluicev1.UpdateJobRequest{Spec: spec, ExpectedVersion: 1, DryRun: try})
		require.NoError(t, err)
	}
	for _, name := range []string{"job", "none"} {
		_, err = a.jobs.GetJob(a.as(t, "bob"), &sluicev1.GetJobRequest{Name: name})
		require.Equal(t, codes.NotFound, status.Code(err))
	}

	var lines []map[string]any
	for line := range bytes.Lines([]byte(audit.String())) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(line, &fields))
		lines = append(lines, fields)
	}
	require.Len(t, lines, 5, "reads that succeed are not told, nor those of what nobody finds")
	require.Equal(t, "JobService/SubmitJob", lines[0]["call"])
	require.Equal(t, "ann", lines[0]["user"])
	require.Equal(t, "OK", lines[0]["result"])
	require.Equal(t, "job", lines[0]["about"].(map[string]any)["spec"].(map[string]any)["name"])
	require.Equal(t, "PermissionDenied", lines[1]["result"])
	require.Equal(t, "s/h", lines[1]["about"].(map[string]any)["name"])
	require.Equal(t, "Unauthenticated", lines[2]["result"])
	require.Equal(t, []any{"red", "blue"}, lines[3]["about"].(map[string]any)["spec"].(map[string]any)["groups"])
	require.Equal(t, "NotFound", lines[4]["result"])
	require.Equal(t, "bob", lines[4]["user"])
	require.NotContains(t, audit.String(), "canary")
}

// A host manager is told of when it comes, and when it goes.
func TestAuditOfAHostManager(t *testing.T) {
	a, audit := newGuarded(t, Limits{})
	a.grant(t, cluster.HostManager, "s", cluster.RootPool)
	ctx, cancel := context.WithCancel(a.as(t, "s"))
	defer cancel()
	shard, err := sluicev1.NewHostManagerServiceClient(a.conn).Control(ctx)
	require.NoError(t, err)
	hello := &sluicev1.Hello{Shard: "s", ProtocolVersion: protocolVersion, SessionId: "x"}
	require.NoError(t, shard.Send(&sluicev1.ShardUp{Message: &sluicev1.ShardUp_Hello{Hello: hello}}))
	told := func(result string) func() bool {
		return func() bool {
			return strings.Count(audit.String(), `"about":{"hello":{"shard":"s"}},"result":"`+result+`"`) == 1
		}
	}
	_, err = shard.Recv()
	require.NoError(t, err)
	require.True(t, told("begun")(), audit.String())
	cancel()
	require.Eventually(t, told("Canceled"), 10*time.Second, time.Millisecond, audit)
}

// To stop a job with all that depend on it takes the right to stop each of them that the caller sees; where that is missing for one,
// none is stopped. One that he may not see is left to what it waits for.
func TestACascadeStopsOnlyWhatTheCallerMay(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	for _, user := range []string{"ann", "bob"} {
		a.grant(t, cluster.Submitter, user, "root")
	}
	a.grant(t, cluster.Viewer, "bob", "root")
	a.grant(t, cluster.PoolAdmin, "paul", "root/default")
	ann, bob, paul := a.as(t, "ann"), a.as(t, "bob"), a.as(t, "paul")
	submit := func(who context.Context, name, on string) {
		t.Helper()
		spec := sleepJob(name)
		if on != "" {
			spec.DependsOn = []*sluicev1.Dependency{{Job: on, Condition: sluicev1.Dependency_ENDED}}
		}
		_, err := a.jobs.SubmitJob(who, &sluicev1.SubmitJobRequest{Spec: spec})
		require.NoError(t, err)
	}
	state := func(name cluster.JobID) cluster.JobState { return a.Snapshot().JobByName(name).State() }
	stop := func(who context.Context, name string) error {
		_, err := a.jobs.StopJob(who, &sluicev1.StopJobRequest{Name: name, Cascade: true})
		return err
	}
	submit(ann, "first", "")
	submit(ann, "second", "first")
	require.NoError(t, stop(ann, "first"))
	require.Equal(t, cluster.JobKilled, a.Snapshot().JobByName("second").State())

	submit(ann, "third", "")
	submit(ann, "fourth", "third")
	submit(bob, "bobs", "fourth")
	binding := cluster.RoleBinding{Role: cluster.Viewer, User: "ann", Pool: cluster.RootPool}
	a.emit(t, &cluster.RoleGranted{Binding: binding})
	before := a.Snapshot().Seq()
	err := stop(ann, "third")
	require.Equal(t, codes.PermissionDenied, status.Code(err), "%v", err)
	require.Equal(t, before, a.Snapshot().Seq())
	a.emit(t, &cluster.RoleRevoked{Binding: binding})
	require.NoError(t, stop(ann, "third"))
	require.Equal(t, []cluster.JobState{cluster.JobKilled, cluster.JobKilled, cluster.JobPending}, []cluster.JobState{state("third"), state("fourth"), state("bobs")})
	require.NoError(t, stop(paul, "third"))
	require.Equal(t, cluster.JobKilled, state("bobs"))

	// That another's job waits for one keeps it from being deleted, and no more is told.
	submit(ann, "fifth", "")
	submit(ann, "sixth", "")
	spec := sleepJob("both")
	spec.DependsOn = []*sluicev1.Dependency{{Job: "fifth", Condition: sluicev1.Dependency_ENDED}, {Job: "sixth", Condition: sluicev1.Dependency_ENDED}}
	_, err = a.jobs.SubmitJob(bob, &sluicev1.SubmitJobRequest{Spec: spec})
	require.NoError(t, err)
	require.NoError(t, stop(ann, "fifth"))
	_, err = a.jobs.DeleteJob(ann, &sluicev1.DeleteJobRequest{Name: "fifth"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.NotContains(t, err.Error(), "both")
}

func TestPagesAreProtected(t *testing.T) {
	a, _ := newGuarded(t, Limits{})
	a.grant(t, cluster.Viewer, "vera", "root")
	token := func(user string, groups ...string) string {
		ctx := a.as(t, user, groups...)
		md, _ := metadata.FromOutgoingContext(ctx)
		return md.Get("authorization")[0]
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	said := ""
	get := func(everybody bool, header string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		a.Protect(page, everybody).ServeHTTP(w, r)
		said = w.Body.String()
		return w.Code
	}
	require.Equal(t, http.StatusUnauthorized, get(true, ""))
	require.Equal(t, http.StatusUnauthorized, get(true, "Basic x"))
	require.Equal(t, http.StatusNoContent, get(true, token("vera")))
	secret := strings.TrimPrefix(token("vera"), "Bearer ")
	require.Equal(t, http.StatusNoContent, get(true, "Basic "+base64.StdEncoding.EncodeToString([]byte("vera:"+secret))))
	require.Equal(t, http.StatusForbidden, get(false, token("vera")))
	require.Contains(t, said, "the role operator is needed")
	require.Equal(t, http.StatusForbidden, get(true, token("nobody")))
	require.Contains(t, said, "a role, whichever, is needed")
	require.Equal(t, http.StatusNoContent, get(false, token("olga", "ops")))
}
