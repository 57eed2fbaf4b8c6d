// Package qless is a job queue on Redis: jobs with priorities, delays, dependencies, retries,
// recurring schedules, tags, tracking, failure groups, statistics and a history of each job.
//
// A program puts jobs into queues, and workers run the handlers for their klasses:
//
//	client, err := qless.Dial(ctx, "redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	type Welcome struct{ To string }
//	mail := client.Queue("mail")
//	if _, err := mail.Put(ctx, "Welcome", Welcome{To: "ann@example.com"}); err != nil {
//		return err
//	}
//
//	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
//	if err != nil {
//		return err
//	}
//	worker.Handle("Welcome", qless.Typed(
//		func(ctx context.Context, job *qless.Job, data Welcome) error {
//			return send(ctx, data.To)
//		}))
//	return worker.Run(ctx) // until the context ends
//
// A job whose handler returns nil is complete; one whose handler returns an error is retried, and
// fails when it has no retries left. See [Worker], and [Schedule] for jobs at fixed times.
//
// # Without a worker
//
// [Queue.Pop] locks jobs, and the methods of [Job] end them:
//
//	jobs, err := mail.Pop(ctx, 1)
//	...
//	err = jobs[0].Complete(ctx)
//
// # Jobs
//
// A job has an id (jid), a klass that names the kind of work, and data in JSON. Popping a job locks
// it for the queue's heartbeat time, 60 s by default, and [Job.Heartbeat] renews the lock. A job
// whose lock has ended goes to the next Pop and uses up one retry: jobs are run at least once.
//
// Instead of completing a job, its worker can send it on to another queue ([Job.Next]), put it back
// to be tried again ([Job.Retry]), release it without using up a retry ([Job.Release]), or fail it
// ([Job.Fail]), which keeps it in a failure group until it is put back ([Client.Unfail]) or
// canceled ([Client.Cancel]).
//
// All state, and every decision about it, is in Lua scripts that run atomically on the server; this
// package sends arguments and returns typed values. Keys and commands are those of the qless
// clients for Ruby, Python and PHP, which can share the Redis server when they load the script
// that [DropInScript] returns.
//
// # Options
//
// A put can do what qless lacks: claim a key ([Unique]) or a jid ([IfAbsent]), end the job after a
// time ([TTL]), share the queue between tenants ([Fair]), and more; see [PutOption]. Jobs have
// results ([HandleResult], [Client.Wait], [CallFor]) and progress ([Job.SetProgress]), and form
// batches ([Batch]). A job that uses none of this costs the server nothing more. The page
// docs/extensions.md says what each costs, and what clients of other languages make of it.
//
// # Time
//
// The scripts use the server's clock, so the clocks of client machines need not agree. [WithClock]
// is for tests.
//
// # Errors
//
// Every error is an [*Error] with a code; compare it with the sentinels using [errors.Is]. Commands
// that are not safe to run twice are never sent twice: if the connection breaks before the reply,
// or the caller's context ends, the error is [ErrUnavailable] and the outcome is unknown. Puts of
// jobs without a [JID] are safe.
package qless
