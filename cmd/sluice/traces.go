package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/sluice-scheduler/sluice/cluster/serve"
)

// openTraces returns traces that go to the OTLP endpoint; nil for "". It does not wait for a collector there. What the environment
// variables of OpenTelemetry say holds, save the endpoint.
func openTraces(endpoint string, log *slog.Logger) (*serve.Traces, error) {
	if endpoint == "" {
		return nil, nil
	}
	// What the library has to say about those variables.
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", "error", err) }))
	ctx := context.Background()
	of, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "sluice"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv()) // the last one wins
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, err
	}
	return serve.NewTraces(exporter, of, log), nil
}
