// Package qless is a job queue on Redis: jobs with priorities, delays, dependencies, retries,
// recurring schedules, tags, tracking, failure groups, statistics and a history of each job.
//
// A program puts jobs into queues, and workers run the handlers for their klasses. A [Klass] is the
// kind of a job: a name, the type of the data, and default options.
//
//	type Mail struct{ To string }
//
//	var Welcome = qless.NewKlass[Mail]("Welcome", qless.Retries(3))
//
// Jobs of a klass are put and handled with a client:
//
//	client, err := qless.Dial(ctx, "redis://localhost:6379", nil)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	mail := client.Queue("mail")
//	if _, err := Welcome.Put(ctx, mail, Mail{To: "ann@example.com"}); err != nil {
//		return err
//	}
//
//	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
//	if err != nil {
//		return err
//	}
//	Welcome.Handle(worker, func(ctx context.Context, job *qless.Job, data Mail) error {
//		return send(ctx, data.To)
//	})
//	return worker.Run(ctx) // until the context ends
//
// A job is complete once the handler has returned nil. After an error, it is retried, and fails
// when no retries are left.
//
// # Queues and jobs
//
// A [Client] gives access to one namespace of one Redis server or cluster. A [Queue] is a handle to
// a named queue, which need not exist. A [Job] is a snapshot of a job: its id (jid), klass, data as
// JSON, and history. [Queue.Put] and [Worker.Handle] take the name of a klass, such as that of a
// class in another language.
//
// Popping a job locks it for the queue's heartbeat time, 60 s by default. A [Worker] renews the
// locks of its jobs. A job whose lock has ended goes to the next worker and uses up one retry, so
// jobs run at least once. A failed job is kept in a failure group until it is put back
// ([Job.Unfail]) or canceled ([Client.Cancel]).
//
// # Without a worker
//
// [Queue.Pop] locks jobs, [Job.Heartbeat] renews a lock, and other methods of [Job] end the run:
//
//	jobs, err := mail.Pop(ctx, 1)
//	...
//	err = jobs[0].Complete(ctx)
//
// Package lease is for programs that are workers themselves.
//
// # Options
//
// Each option is a type, whose doc comment states the unit and default. The parameter type of a
// call determines the accepted options. docs/extensions.md lists their costs.
//
//   - Identity and order: [JID], [If], [Unique], [Priority], [Fair], [Limits], [Tags], [Headers].
//   - Times and retries: [Delay], [At], [Retries], [LockTime], [OnLost], [MaxRunTime], [StartBy],
//     [TTL], [KeepFor], [KeepFailedFor].
//   - Other jobs: [DependsOn], [OnFailure].
//   - Single calls: [Offset] and [Backlog] of a recurring job, [OnProgress] of a wait.
//
// # Zero, nil and -1
//
// In a field of a config, 0, nil and an empty text mean the default, and -1 means none, such as no
// limit or no wait. Other negative values are [ErrInvalid]. In an option or an argument, 0 is a
// value like others, and the default applies if the option is left out. Exceptions say so: for a
// [Backlog], 0 means no limit.
//
// # Words
//
// A state is an adjective, a list of jobs has the name of a state or one of its own, and what has
// happened, as an event or a number, is a participle. The words are the same in JSON, in metrics,
// on the command line and in the dashboard:
//
//	states  complete depends failed running scheduled timed_out waiting
//	lists   recurring stalled (running with a lock that has ended)
//	events  advanced canceled completed config_set config_unset ended failed lock_lost lost
//	        panicked paused popped put released resumed retried spawned stalled started
//	        tracked unfailed untracked
//
// # Workers, handlers and outcomes
//
// A [Worker] passes jobs to a [Handler] for each klass: see [WorkerConfig] and [Middleware].
// [Klass.HandleBulk] handles several jobs in one call. For other outcomes than completion and a
// usual retry, a handler returns [Next], [Snooze], [Throttled], [RetryIn] or [FailWith].
//
// # Results
//
// A [Function] is a klass whose handler returns a result. [Function.Call] puts a job and waits for
// its result, and [Function.Wait] waits for a job that was put earlier. Without a Function, a
// handler sets a result with [Job.SetResult] or [TypedResult], and [Queue.Call], [Client.Wait] and
// [ResultAs] return it.
//
// # Batches, limits and schedules
//
// A [Batch] runs a job once all its members have ended. A [Limit] bounds the number of jobs, in all
// queues, that run at once or start within a period. A [Schedule] puts jobs at fixed times while a
// worker follows it; a [RecurringJob] puts jobs at intervals, whenever any client pops its queue.
// Package shards spreads jobs over several namespaces, of one server or of many.
//
// # Errors
//
// Calls for many jobs run several scripts, each for up to 500 jobs, or fewer if they cost more. A
// script does all or nothing. If a later script fails, the results of the others are returned with
// the error, unless noted otherwise.
//
// Every error is an [*Error]; compare it with a [Code] using [errors.Is]. Commands that are not
// safe to run twice are never sent twice: if the connection breaks before the reply, or the
// caller's context ends, the error is [ErrUnavailable] and the outcome is unknown.
//
// # Other languages
//
// All state, and every decision about it, is in a Lua script that runs atomically on the server.
// Keys and commands are the same as in the qless clients for Ruby, Python and PHP. Such clients can
// share the Redis server if they load the script that [DropInScript] returns.
//
// # Tools
//
// Package inspect lists, finds and repairs jobs. Package events listens to the events of a
// namespace. [Client.Do] runs any command of the script.
package qless
