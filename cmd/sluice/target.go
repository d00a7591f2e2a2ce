package main

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/health" // registers what looks at the health of servers
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// byHealth has a client connect with all addresses, and call the one that says that it is healthy: those that stand by do not.
const byHealth = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

// endTCP has a connection end some seconds after its other end's machine is gone, even where nothing is on its way to it. Of a process that
// hangs the system answers: that gRPC finds out.
var endTCP = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{KeepAliveConfig: endTCP}).DialContext(ctx, network, address)
}

// target returns what commands and host managers connect with, and the options to do so.
func (a *app) target() (string, []grpc.DialOption) {
	known := manual.NewBuilderWithScheme("sluice")
	servers := a.config.Servers()
	var addresses []resolver.Address
	for _, s := range servers {
		host, _, _ := net.SplitHostPort(s) // was checked with the settings
		addresses = append(addresses, resolver.Address{Addr: s, ServerName: host})
	}
	known.InitialState(resolver.State{Addresses: addresses})
	options := []grpc.DialOption{
		grpc.WithNoProxy(), grpc.WithResolvers(known),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepalivePatience}),
	}
	if len(servers) > 1 {
		options = append(options, grpc.WithDefaultServiceConfig(byHealth))
	}
	return known.Scheme() + ":///" + servers[0], options
}
