package main

import (
	"flag"
	"fmt"
)

const about = `bench compares this package with other job queues on a Redis that it starts.

usage: go run . [flags]

Compared runs take turns (A B C A B C ...), each on an empty server; the figures are medians of
the rounds. Only work acknowledged by the server counts: a run in which a job is missing or done
twice ends the bench with an error.

figures
  instr/job    instructions of the server process outside the kernel, with -instructions, which
               leaves out all times. They are the same on a busy and on a quiet machine
  instr/call   the same for each call of a script
  CPU us/job   CPU time of the server process, user and system, from INFO cpu: the most important
               figure, because one core of Redis is the limit of a queue
  client us/job
               CPU time of the bench's own process, which puts and runs the jobs; only of the
               workload job, and not for BullMQ, which runs in a process of node
  cmds/job     commands that the server ran, from INFO commandstats, including those inside scripts
               but not the script calls themselves or what opens a connection
  scripts/job  calls of scripts
  jobs/s       by the clock of the client, which shares the machine with the server
  p50, p99 ms  from just before the put to the start of the handler
  B/job        growth of used_memory
  CPU x PEER   CPU us/job divided by PEER's in the same round: median (least-most); PEER is
               the first of the group, and any named by -against
  speed x, B x the same for jobs/s and for B/job, medians only

workloads
  ops     single commands, 100 per pipeline: put, pop(1), pop(10) (per job), heartbeat, complete,
          and a pop that finds nothing; for our scripts also the worker's batches (per job). With
          -instructions, also its calls with one job and with none, and turn(16): reserve(16) and
          finish(16) one after the other, so that there are never more locks
  job     whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put
          (enqueue), then all are run (process); total is both
  depth   put, pop(1) and complete with -depth jobs waiting
  kept    the same with -kept completed jobs kept; from 50000 on each complete removes one
  queues  a call that finds work while -queues are watched, by where the work is; when every
          queue has work, they take turns. Figures are per reserve that finds jobs; the first one
          does not know yet which queues are empty. For classic scripts, for all pops up to one
          that finds a job
  extensions
          what each option of a job adds to its put, reserve(16) and finish(16), for our scripts
  pickup  from put to handler, one job at a time, with 1 and 16 idle workers
  idle    the server's work in one second with 16 idle workers ("job" means second)
  memory  memory of a waiting job of 100 bytes, with and without hash-max-listpack-value 1024
  prices  with -instructions: commands and pieces of Lua inside a script ("job" means one of them)

peers of job, pickup, idle and memory
  NAME             a classic script given by -script (EVALSHA sha 0 COMMAND NOW ARG...), popped
                   and completed job by job, as its clients do
  qless-single     this package, each job put, popped and completed with its own script
  qless-unbatched  each job put with its own script, and run by the Worker
  qless-worker     the same, but the puts of several goroutines share scripts, as by default
  qless-bulk       jobs put by PutMany, 100 per call, and run by the Worker
  qless-dropin     our script for clients in other languages, called like a classic one
  asynq            hibiken/asynq with its defaults; jobs that are done are deleted
  bullmq           BullMQ with its defaults; needs node and npm, and is skipped without them
  bullmq-bulk      the same with addBulk of 100
  floor            our layout's reads and writes as bare commands, 100 jobs per pipeline on one
                   connection: nothing is checked, nothing is atomic
adjust/rmq is not included, because the module proxy does not serve it.

peers of ops, depth, kept, queues and extensions are scripts: those of -script, ours (from the folder -lua),
and the drop-in.

flags
`

func usage(flags *flag.FlagSet) func() {
	return func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
}
