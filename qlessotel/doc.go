// Package qlessotel adds OpenTelemetry traces and metrics to programs that use qless. It needs only
// the OpenTelemetry API: exporters and samplers come from the program's SDK.
//
// A put is a span. The span's context travels in the job's headers. A run is another span, with a
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
