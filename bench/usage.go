package main

import (
	"flag"
	"fmt"
)

const about = `bench measures this package beside other job queues, on one Redis that it starts itself.

usage: go run . [flags]

The runs that are compared take turns (A B C A B C ...), each on an emptied server; the figures
are medians of the rounds. Only work that the server has acknowledged counts: a run in which
a job is missing, or is done twice, ends the bench with an error.

figures
  CPU us/job   CPU time of the server process, user and system, from INFO cpu: the first
               figure, because one core of Redis is what queues are limited by
  cmds/job     commands that the server ran, from INFO commandstats: those inside scripts are
               counted; the calls of scripts are not, nor is what opens a connection
  scripts/job  calls of scripts
  jobs/s       by the clock of the client, which shares the machine with the server
  p50, p99 ms  from before the put to the beginning of the handler
  B/job        growth of used_memory
  CPU x PEER   CPU us/job divided by PEER's in the same round: median (least-most); PEER is
               the first of the group, and any that -against names
  speed x, B x the same for jobs/s and for B/job, medians only

workloads
  ops     single commands, 100 to a pipeline: put, pop(1), pop(10) (a job), heartbeat, complete,
          a pop that finds nothing; of our own also the batches that the worker sends (a job)
  job     whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put
          (enqueue), then all are worked (process); total is both
  depth   put, pop(1) and complete with -depth jobs waiting
  kept    the same with -kept completed jobs kept; from 50000 on each complete clears one away
  queues  a call that finds work when -queues are watched, by where the work is; when it is in
          every one, they take turns. Figures are for each reserve that finds jobs; for classic
          scripts, for the pops until one does
  pickup  from put to handler, one job at a time, with 1 and 16 idle workers
  idle    the server's work in a second of 16 idle workers ("job" means second)
  memory  bytes of a waiting job of 100 bytes, with and without hash-max-listpack-value 1024

peers of job, pickup, idle and memory
  NAME           a classic script given by -script (EVALSHA sha 0 COMMAND NOW ARG...), popped
                 and completed job by job, as its clients do
  qless-single   this package, each job put, popped and completed by a call
  qless-worker   each job put by a call, and worked by the Worker
  qless-batched  the same with the client option WithBatchedPuts
  qless-bulk     jobs put by PutMany, 100 a call, and worked by the Worker
  qless-dropin   our script for clients of other languages, called like a classic one
  asynq          hibiken/asynq with its defaults; jobs that are done are deleted
  bullmq         BullMQ with its defaults; needs node and npm, and is left out without them
  bullmq-bulk    the same with addBulk of 100
  floor          our layout's reads and writes as bare commands, 100 jobs to a pipeline on one
                 connection: nothing is checked, nothing is atomic
adjust/rmq is not among them: the module proxy does not serve it.

peers of ops, depth, kept and queues are scripts: those of -script, ours (from the folder -lua),
and the drop-in.

flags
`

func usage(flags *flag.FlagSet) func() {
	return func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
}
