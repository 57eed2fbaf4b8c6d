// Package workq is a server that speaks the protocol of Workq and keeps the jobs in qless.
//
// Clients of Workq need no change. Their jobs are durable, can be replicated by Redis, and are
// qless jobs: other clients of qless see and run them, and put jobs for Workq clients to lease.
//
//	client, err := qless.Dial(ctx, "redis://localhost:6379", nil)
//	...
//	server, err := workq.New(workq.Config{Client: client})
//	...
//	listener, err := net.Listen("tcp", "127.0.0.1:9922")
//	...
//	err = server.Serve(listener)
//
// Any number of servers may share a namespace. The command qless serve workq replaces Workq's own
// program.
//
// # Queues
//
// Jobs with a name and a priority are in the queue workq/NAME/PRIORITY, and scheduled jobs in
// workq/NAME/PRIORITY/s: see [Queue] and [ScheduledQueue]. The klass is the name, and data and
// results are a [Body].
package workq
