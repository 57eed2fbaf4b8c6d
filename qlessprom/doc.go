// Package qlessprom exports the metrics of qless to Prometheus.
//
// [NewCollector] exports the figures of the server: queues, failures, limits and schedules. These
// cover the workers and clients of all languages, so one collector per namespace is enough. Each
// scrape costs the server a few reads.
//
// [ClientMetrics] and [WorkerMetrics] export the figures of a process, reported by the observers of
// package qless: the puts of a client, the duration of calls, and the outcomes of jobs.
//
// All labels are bounded: values beyond the bounds are counted together, with the label "other".
// [prometheus.WrapRegistererWith] distinguishes several namespaces. [NewGroup] reads many
// namespaces together, such as those of shards or tenants.
package qlessprom
