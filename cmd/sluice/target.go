package main

import (
	"net"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/health" // registers what looks at the health of servers
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// byHealth has a client connect with all addresses, and call the one that says that it is healthy: those that stand by do not.
const byHealth = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`

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
	options := []grpc.DialOption{grpc.WithNoProxy(), grpc.WithResolvers(known)}
	if len(servers) > 1 {
		options = append(options, grpc.WithDefaultServiceConfig(byHealth))
	}
	return known.Scheme() + ":///" + servers[0], options
}
