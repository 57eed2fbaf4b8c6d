// Package qless is a client of the qless job queue on Redis: jobs with priorities, delays,
// dependencies, retries, recurring schedules, tags, tracking, failure groups, statistics
// and a history of each job.
//
// All state, and every decision about it, is in Lua scripts that run atomically on the
// server; this package carries arguments in and typed values out. The keys, and what the
// commands do to them, are those of the qless clients for Ruby, Python and PHP, so that all
// of them can share one Redis: they load the script that [DropIn] returns.
//
// # Jobs
//
// A job has an id (jid), a klass that names what is to be done, and data in JSON. It is put
// into a queue, popped by a worker, and ended by it:
//
//	client, err := qless.Dial(ctx, "redis://localhost:6379")
//	queue := client.Queue("mail")
//	jid, err := queue.Put(ctx, "Welcome", map[string]any{"to": "ann@example.com"})
//
//	jobs, err := queue.Pop(ctx, 1)
//	err = jobs[0].Complete(ctx)
//
// Whoever pops a job holds its lock for the queue's heartbeat time (60 s unless the
// settings say otherwise) and renews it by [Job.Heartbeat]. A job whose lock has ended is
// popped by the next who asks, at the price of a retry: jobs are run at least once.
//
// Instead of completing a job for good, its worker can send it on to another queue
// ([Job.Next]), give it back ([Job.Retry]), or fail it ([Job.Fail]), which keeps it in a
// failure group until it is put back ([Queue.Unfail]) or canceled.
//
// # Time
//
// Durations are [time.Duration], times [time.Time]. The scripts use the server's clock, so
// that the clocks of the machines need not agree; [WithClock] is for tests.
//
// # Errors
//
// Every error is an [*Error] with a code; compare it with the sentinels by [errors.Is].
// Commands that are not safe to run twice are never sent twice: when the connection breaks
// before their answer, the error is [ErrUnavailable] and the outcome is unknown.
package qless
