// Package qlessprom exports the metrics of qless to Prometheus.
//
// [NewCollector] has the figures of the server: queues, failures, limits, schedules. They count the
// workers and clients of all languages, so one collector for each namespace is enough. Its cost for
// the server is that of a few reads at each scrape.
//
// [ClientMetrics] and [WorkerMetrics] have those of a process, which they get from the observers of
// package qless: what a client puts, how long calls take, and how jobs end.
//
// All labels are bounded: what exceeds the bounds is counted together, with the label "other".
// Several namespaces are distinguished by [prometheus.WrapRegistererWith].
package qlessprom
