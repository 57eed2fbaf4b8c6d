// Package gearmonkey implements the GearMonkey protocol: a small asynchronous job queue shared by
// programs in any language that agree on the keys and commands to use in one Redis.
//
// A job calls a function, identified by name, with an input of any bytes. A client queues the job.
// A worker that accepts the function takes the job, runs it, and stores the output:
//
//	client := gearmonkey.NewClient(rdb)
//	id, err := client.Run(ctx, "resize", input, gearmonkey.High)
//	state, err := client.Get(ctx, "resize", id)
//
//	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
//	worker.Accept("resize", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
//		return resize(job.Input)
//	})
//	err = worker.Work(ctx)
//
// # Keys
//
// Every key contains the name of the function, F below. Ids are integers.
//
//	uid:F                  the last id
//	job:F:ID               a job: status, input, output, status:dividend, status:divisor
//	queue:F:high           ids of waiting jobs, and the same for normal and low
//	queue:F:scheduled      ids of scheduled jobs, scored by due time in Unix seconds
//	lock:F:ID              the list that a client waiting for a job pops from
//	count:F                the number of workers that accept F
//	channel:F              where create:ID, start:ID and finish:ID are published
//
// In a Redis Cluster all keys of a function must be in one slot: put the name of the function in
// braces, as in {resize}, and let each worker accept functions of one slot only.
//
// # Guarantees
//
// The protocol has no locks. A job runs at most once: if a worker is killed, its job stays busy
// forever. A [Sweeper] turns this into at least once. Commands are sent one by one, as other
// implementations expect; the commands that begin a job are a transaction, as are the commands that
// end a job. Commands that must not run twice are sent once, so a broken connection can lose a job
// but never duplicates one. Package qless gives stronger guarantees; [Client.Move] moves jobs
// there.
//
// # Errors
//
// Every error of this package is an [*Error] with a code; compare it with the sentinels using
// [errors.Is]. The error of a failed job is a [*JobError].
package gearmonkey
