// Package gearmonkey speaks the GearMonkey protocol: a small asynchronous job queue that
// programs of any language share by agreeing on keys and commands of one Redis.
//
// A job is a call of a function, which is a name, with an input, which is bytes. A client
// queues it; a worker that accepts the function takes it, works, and stores an output:
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
// All keys have the function in their names, here F; ids are whole numbers.
//
//	uid:F                  the last id
//	job:F:ID               a job: status, input, output, status:dividend, status:divisor
//	queue:F:high           ids to be worked, and the same for normal and low
//	queue:F:scheduled      ids to be worked at a time, scored by it in Unix seconds
//	lock:F:ID              what a client that waits for a job pops
//	count:F                how many workers accept F
//	channel:F              where create:ID, start:ID and finish:ID are published
//
// In a Redis Cluster all keys of a function have to be in one slot: give the function a
// name in braces, such as {resize}, and let a worker accept functions of one slot only.
//
// # What to expect
//
// The protocol has no locks. A job is worked at most once: what a worker held when it was
// killed stays busy for ever, unless a [Sweeper] runs, which makes it at least once.
// Commands are single, not transactions, as other implementations expect them; those that
// must not run twice are sent once, so that a broken connection can lose a job and never
// doubles one. The package qless promises more; [Client.Move] takes the jobs there.
//
// # Errors
//
// Every error of this package is an [*Error] with a code; compare it with the sentinels by
// [errors.Is]. The error of a job that failed is a [*JobError].
package gearmonkey
