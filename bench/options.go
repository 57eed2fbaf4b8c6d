package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// options holds the values of the flags.
type options struct {
	workloads, peers, against, classic, lua, redis names

	concurrency, payload, waiting, kept, clients numbers

	rounds, jobs, workers, queues int

	poll, lasting time.Duration

	json, instructions bool
	profile, chart     string
}

// names is a flag holding a comma-separated list.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	return nil
}

// numbers is like names, for integers that are not negative.
type numbers []int

func (n *numbers) String() string { return strings.Trim(fmt.Sprint(*n), "[]") }

func (n *numbers) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		number, err := strconv.ParseUint(one, 10, 31)
		if err != nil {
			return err
		}
		*n = append(*n, int(number))
	}
	return nil
}

const aboutFigures = `bench compares this package with other job queues, and measures it at
the scale of a fleet, on servers that it starts.

usage: go run . [flags]

Compared runs take turns (A B C A B C ...), each on an empty server; the figures are medians over
the rounds. Only work acknowledged by the server counts: if a run misses a job or does one twice,
or if something grows without bound, the bench ends with an error.

figures of compared runs
  instr/job   instructions of the server process outside the kernel, with -instructions, which
              omits all times. They do not depend on the load of the machine
  instr/call  the same per call of a script
  CPU us/job  CPU time of the server process, user and system, from INFO cpu: the most important
              figure, because one core of Redis limits a queue
  client us/job
              CPU time of the bench's own process, which puts and runs the jobs; omitted for
              BullMQ, which runs in a node process
  cmds/job    commands run by the server, from INFO commandstats, including those inside scripts
              but neither the script calls themselves nor the commands that open connections
  scripts/job calls of scripts
  jobs/s      by the clock of the client, which shares the machine with the server
  p50, p99 ms from just before the put to the start of the handler
  longest call
              the server's longest call, from SLOWLOG, if it takes a millisecond or more: it blocks
              all other clients
  B/job       growth of used_memory
  CPU x PEER  CPU us/job divided by PEER's in the same round: median (minimum-maximum); PEER is
              the first of the group, or one named by -against. The same goes for speed, instr
              and B

workloads
`

const aboutPeers = `
peers of job, pickup, rest and memory
  NAME             a classic script given by -script (EVALSHA sha 0 COMMAND NOW ARG...), popped
                   and completed job by job, as its clients do
  qless-single     this package; each job is put, popped and completed by its own script
  qless-unbatched  each job is put by its own script, and run by the Worker
  qless-worker     the same, but the puts of several goroutines share scripts, as by default
  qless-eager      the same, with workers that do not linger between calls
  qless-sealed     the same as qless-worker, with a Codec that encrypts the data
  qless-bulk       jobs are put by PutMany, 100 per call, and run by the Worker
  qless-dropin     our script for clients in other languages, called like a classic one
  asynq            hibiken/asynq with its defaults; completed jobs are deleted
  bullmq           BullMQ with its defaults; needs node and npm, and is skipped without them
  bullmq-bulk      the same with addBulk of 100
  river            riverqueue/river on a Postgres that does not wait for its disk, fetching as often
                   as possible; CPU us/job is Postgres's, B/job is on its disk
  river-bulk       the same with InsertManyFast of 100

flags
`
