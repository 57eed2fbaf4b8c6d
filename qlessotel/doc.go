// Package qlessotel adds traces and metrics of OpenTelemetry to programs that use qless. It needs
// only the API of OpenTelemetry: exporters and samplers come from the program's SDK.
//
// A put is a span, whose context travels with the job in its headers. A run is another span, with a
// link to the put:
//
//	telemetry, err := qlessotel.New(qlessotel.Options{})
//	config := &qless.ClientConfig{}
//	telemetry.Configure(config)
//	client, err := qless.Dial(ctx, url, config)
//	worker, err := qless.NewWorker(client, qless.WorkerConfig{
//		Queues: []string{"mail"}, Observer: telemetry.Observe,
//	})
//	worker.Use(telemetry.Middleware)
//	telemetry.Watch(worker)
//
// The page docs/tracing.md describes the spans, the metrics and the propagation of contexts.
package qlessotel
