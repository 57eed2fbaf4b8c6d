// Package qlessotel gives programs that use qless traces and metrics with OpenTelemetry. It needs
// the API of OpenTelemetry only: exporters and samplers are those of the program's SDK.
//
// A put is a span, whose context goes with the job in its headers, and a run is another one, which
// has a link to the put:
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
// The page docs/tracing.md describes the spans, the metrics, and what is carried where.
package qlessotel
