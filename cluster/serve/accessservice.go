package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/access"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

type accessService struct {
	sluicev1.UnimplementedAccessServiceServer
	*api
}

// Bounds of a token.
const (
	defaultLifetime = 30 * 24 * time.Hour
	minLifetime     = time.Minute
	maxLifetime     = 366 * 24 * time.Hour
	maxNote         = 255
	maxGroups       = 100
	maxTokensEach   = 100 // good ones of a user, lest he use up those of all
)

// WhoAmI implements sluicev1.AccessServiceServer.
func (a *accessService) WhoAmI(ctx context.Context, _ *sluicev1.WhoAmIRequest) (*sluicev1.WhoAmIResponse, error) {
	who, s := callOf(ctx).who, a.s.Snapshot()
	answer := &sluicev1.WhoAmIResponse{User: who.User, Groups: who.Groups, Identified: !who.Free}
	if who.Job != 0 {
		if j := s.Job(who.Job); j != nil {
			answer.Job = string(j.Spec.Name)
		}
		return answer, nil
	}
	if a.s.identified() {
		for _, b := range slices.Concat(a.s.config.Identity.Roles, s.RoleBindings()) {
			if who.Is(b) {
				answer.Roles = append(answer.Roles, bindingTo(b))
			}
		}
	}
	return answer, nil
}

// CreateToken implements sluicev1.AccessServiceServer.
func (a *accessService) CreateToken(ctx context.Context, r *sluicev1.CreateTokenRequest) (*sluicev1.CreateTokenResponse, error) {
	who := callOf(ctx).who
	t := cluster.Token{User: r.User, Groups: slices.Compact(slices.Sorted(slices.Values(r.Groups))), Note: r.Note}
	if t.User == "" {
		t.User = who.User
	}
	switch {
	case t.User == "":
		return nil, fieldError(codes.InvalidArgument, "user", "is required: the server does not ask who calls")
	case t.User == who.User && len(t.Groups) == 0:
		t.Groups = slices.Sorted(slices.Values(who.Groups))
	}
	id, secret := randomHex(8), randomHex(32)
	t.ID, t.Hash = id, hashSecret(secret)
	err := a.do(ctx, func(tx *Tx) error {
		if r.Job != "" {
			j, err := findJob(tx.State(), r.Job)
			if err != nil {
				return err
			}
			t.Job = j.UID
		}
		now := time.Now()
		if err := forgetExpired(tx, t.User, now); err != nil {
			return err
		}
		t.Created = cluster.Time(now.UnixNano())
		t.Expires = cluster.Time(now.Add(lifetimeOf(r, new(violations))).UnixNano())
		return tx.Emit(&cluster.TokenCreated{Token: t})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.CreateTokenResponse{Token: tokenTo(&t), Secret: tokenText(id, secret)}, nil
}

// forgetExpired forgets the user's tokens that have expired, those of all where there is no room for another one, and refuses him
// one more where he, or everybody, has too many.
func forgetExpired(tx *Tx, user string, now time.Time) error {
	own, kept := 0, tx.State().Tokens()
	for _, t := range kept {
		switch mine := t.User == user; {
		case !mine && len(kept) < cluster.MaxTokens:
		case expired(t, now):
			if err := tx.Emit(&cluster.TokenRevoked{ID: t.ID}); err != nil {
				return err
			}
		case mine:
			own++
		}
	}
	switch all := len(tx.State().Tokens()); {
	case own >= maxTokensEach:
		return fieldError(codes.FailedPrecondition, "user", "%s has %d tokens: revoke some", quote(user), own)
	case all >= cluster.MaxTokens:
		return fieldError(codes.FailedPrecondition, "user", "cannot get a token: there are %d: revoke some", all)
	}
	return nil
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ListTokens implements sluicev1.AccessServiceServer.
func (a *accessService) ListTokens(ctx context.Context, r *sluicev1.ListTokensRequest) (*sluicev1.ListTokensResponse, error) {
	who, s := callOf(ctx).who, a.s.Snapshot()
	page, err := openLong(r)
	if err != nil {
		return nil, err
	}
	answer := &sluicev1.ListTokensResponse{}
	for _, t := range s.Tokens() {
		if t.ID <= page.after || r.User != "" && r.User != t.User || t.User != who.User && !who.IsOperator(s) {
			continue
		}
		record := tokenTo(t)
		if !page.Add(record) {
			answer.NextPageToken = page.Token(answer.Tokens[len(answer.Tokens)-1].Id)
			break
		}
		answer.Tokens = append(answer.Tokens, record)
	}
	return answer, nil
}

// RevokeToken implements sluicev1.AccessServiceServer.
func (a *accessService) RevokeToken(ctx context.Context, r *sluicev1.RevokeTokenRequest) (*sluicev1.RevokeTokenResponse, error) {
	err := a.do(ctx, func(tx *Tx) error {
		if tx.State().Token(r.Id) == nil {
			return resourceError(codes.NotFound, "token", r.Id, "there is no such token")
		}
		return tx.Emit(&cluster.TokenRevoked{ID: r.Id})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.RevokeTokenResponse{}, nil
}

// GrantRole implements sluicev1.AccessServiceServer.
func (a *accessService) GrantRole(ctx context.Context, r *sluicev1.GrantRoleRequest) (*sluicev1.GrantRoleResponse, error) {
	b := bindingFrom(r.Binding, new(violations))
	err := a.do(ctx, func(tx *Tx) error {
		switch held := tx.State().RoleBindings(); {
		case tx.State().Pool(b.Pool) == nil:
			return fieldError(codes.NotFound, "binding.pool", "is %s: there is no such pool", quote(string(b.Pool)))
		case slices.Contains(held, b):
			return nil
		case len(held) >= cluster.MaxRoleBindings:
			return fieldError(codes.FailedPrecondition, "binding", "is one too many: there are %d: use groups", len(held))
		}
		return tx.Emit(&cluster.RoleGranted{Binding: b})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.GrantRoleResponse{}, nil
}

// RevokeRole implements sluicev1.AccessServiceServer. The pool need not exist any more.
func (a *accessService) RevokeRole(ctx context.Context, r *sluicev1.RevokeRoleRequest) (*sluicev1.RevokeRoleResponse, error) {
	b := bindingFrom(r.Binding, new(violations))
	err := a.do(ctx, func(tx *Tx) error {
		if !slices.Contains(tx.State().RoleBindings(), b) {
			return nil
		}
		return tx.Emit(&cluster.RoleRevoked{Binding: b})
	})
	if err != nil {
		return nil, err
	}
	return &sluicev1.RevokeRoleResponse{}, nil
}

// ListRoles implements sluicev1.AccessServiceServer.
func (a *accessService) ListRoles(_ context.Context, r *sluicev1.ListRolesRequest) (*sluicev1.ListRolesResponse, error) {
	page, err := openLong(r)
	if err != nil {
		return nil, err
	}
	last := &sluicev1.RoleBinding{}
	if err := proto.Unmarshal([]byte(page.after), last); err != nil {
		return nil, fieldError(codes.InvalidArgument, "page_token", "is not of this list")
	}
	after := bindingFrom(last, new(violations))
	answer := &sluicev1.ListRolesResponse{}
	for _, b := range a.s.Snapshot().RoleBindings() {
		if page.after != "" && b.Compare(after) <= 0 {
			continue
		}
		record := bindingTo(b)
		if !page.Add(record) {
			key, err := proto.Marshal(last)
			if err != nil {
				return nil, statusOf(err)
			}
			answer.NextPageToken = page.Token(string(key))
			break
		}
		answer.Bindings, last = append(answer.Bindings, record), record
	}
	return answer, nil
}

// The rules of the service.

// mayCreateToken: a caller makes tokens for himself, with no more groups than he has. A token makes no tokens, an operator's
// neither, or revoking it would be of no use.
func mayCreateToken(in reading, who *access.Caller, request proto.Message) error {
	r := request.(*sluicev1.CreateTokenRequest)
	switch {
	case who.Token != "":
		return lacking(who, "make a token by means of a token", "a client certificate")
	case who.IsOperator(in):
		return nil
	case r.GetUser() != "" && r.GetUser() != who.User:
		return denied(who, "make tokens for "+quote(r.GetUser()), "the role operator")
	case slices.ContainsFunc(r.GetGroups(), func(g string) bool { return !slices.Contains(who.Groups, g) }):
		return denied(who, "make tokens for groups that are not the caller's", "the role operator")
	}
	return mayChangeJob(in, who, request)
}

func mayListTokens(in reading, who *access.Caller, request proto.Message) error {
	user := request.(*sluicev1.ListTokensRequest).GetUser()
	if who.IsOperator(in) || who.Job == 0 && (user == "" || user == who.User) {
		return nil
	}
	if user == "" || user == who.User {
		return lacking(who, "see tokens", unbound)
	}
	return denied(who, "see tokens of "+quote(user), "the role operator")
}

// mayRevokeToken: one that is not the caller's is to him as if it were not there.
func mayRevokeToken(in reading, who *access.Caller, request proto.Message) error {
	id := request.(*sluicev1.RevokeTokenRequest).GetId()
	t := in.Token(id)
	if t == nil || who.IsOperator(in) || who.Job == 0 && t.User == who.User {
		return nil
	}
	return resourceError(codes.NotFound, "token", id, "there is no such token")
}

// Conversion.

var rolesFrom = map[sluicev1.Role]cluster.Role{
	sluicev1.Role_ROLE_VIEWER:       cluster.Viewer,
	sluicev1.Role_ROLE_SUBMITTER:    cluster.Submitter,
	sluicev1.Role_ROLE_POOL_ADMIN:   cluster.PoolAdmin,
	sluicev1.Role_ROLE_OPERATOR:     cluster.Operator,
	sluicev1.Role_ROLE_HOST_MANAGER: cluster.HostManager,
}

func bindingFrom(p *sluicev1.RoleBinding, v *violations) cluster.RoleBinding {
	const path = "binding"
	role, known := rolesFrom[p.GetRole()]
	b := cluster.RoleBinding{Role: role, User: p.GetUser(), Group: p.GetGroup(), Pool: cluster.RootPool}
	if p.GetPool() != "" && checkPoolPath(p.GetPool(), child(path, "pool"), v) {
		b.Pool = cluster.PoolPath(p.GetPool())
	}
	checkText(b.User, child(path, "user"), maxOwner, v)
	checkText(b.Group, child(path, "group"), maxOwner, v)
	switch {
	case p == nil:
		v.Invalid(path, "is required")
	case !known:
		v.Invalid(child(path, "role"), "is required: viewer, submitter, pool-admin, operator or host-manager")
	case (b.User == "") == (b.Group == ""):
		v.Invalid(path, "needs either a user or a group")
	case role >= cluster.Operator && b.Pool != cluster.RootPool:
		v.Invalid(child(path, "pool"), "is %s: the role %v holds for the whole cluster: leave the pool out", quote(p.GetPool()), role)
	}
	return b
}

func bindingTo(b cluster.RoleBinding) *sluicev1.RoleBinding {
	return &sluicev1.RoleBinding{Role: sluicev1.Role(b.Role) + 1, User: b.User, Group: b.Group, Pool: string(b.Pool)}
}

func tokenTo(t *cluster.Token) *sluicev1.Token {
	return &sluicev1.Token{
		Id: t.ID, User: t.User, Groups: t.Groups, JobUid: uint32(t.Job), Note: t.Note,
		CreateTime: timestamppb.New(t.Created.Go()), ExpireTime: timestamppb.New(t.Expires.Go()),
	}
}

// checkToken validates a request for a token.
func checkToken(r *sluicev1.CreateTokenRequest, v *violations) {
	checkText(r.User, "user", maxOwner, v)
	checkText(r.Note, "note", maxNote, v)
	if len(r.Groups) > maxGroups {
		v.Invalid("groups", "has %d entries: at most %d", len(r.Groups), maxGroups)
	}
	for i, g := range r.Groups {
		checkRequired(g, item("groups", i), v)
		checkText(g, item("groups", i), maxOwner, v)
	}
	lifetimeOf(r, v)
	if r.Job != "" {
		checkName(r.Job, "job", v)
	}
}

// lifetimeOf returns how long the token that a request asks for is good.
func lifetimeOf(r *sluicev1.CreateTokenRequest, v *violations) time.Duration {
	return durationOr(r.Lifetime, defaultLifetime, minLifetime, maxLifetime, "lifetime", v)
}
