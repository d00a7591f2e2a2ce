package serve

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// Who stands by asks nobody who he is, and so takes little in.
func TestAStandbyReadsLittle(t *testing.T) {
	server := NewStandby(func() string { return "it stands by" }, func() (string, string) { return "", "" })
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///standby", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()

	health := healthv1.NewHealthClient(conn)
	answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, answer.Status)
	_, err = health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: strings.Repeat("x", maxHealthBytes)})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}
