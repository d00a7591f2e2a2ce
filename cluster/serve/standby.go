package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// ReasonStandby is the reason, in a google.rpc.ErrorInfo of the domain "sluice", of calls that came to a scheduler which stands by for
// another one. Its metadata has the name of the one that leads as "leader" and the address of its API as "address", where they are
// known.
const ReasonStandby = "STANDBY"

// maxHealthBytes bounds a request for health, which everybody may make, where no other is read.
const maxHealthBytes = 1 << 10

// NewStandby returns a gRPC server, ready to Serve, of a scheduler that stands by for another one. Every call but that of health is
// UNAVAILABLE, with what why says as its message, and with what leader says of the one that leads. Its health is NOT_SERVING: clients that know the addresses of all schedulers, and
// look at their health, find the one that leads.
func NewStandby(why func() string, leader func() (name, address string), options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxHealthBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxConnectionStreams),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			about := map[string]string{}
			if name, address := leader(); name != "" {
				about["leader"] = name
				if address != "" {
					about["address"] = address
				}
			}
			return unavailable(ReasonStandby, why(), about)
		}),
	}, options...)...)
	h := health.NewServer()
	h.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(server, h)
	return server
}

// StandbyMetrics are the metrics of a scheduler that stands by: figures of the process.
func StandbyMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(leading(0), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// leading says whether this scheduler leads. One that is alone does.
func leading(is float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "sluice", Name: "leader", Help: "1: this scheduler leads, or is alone; 0: it stands by.",
	}, func() float64 { return is })
}
