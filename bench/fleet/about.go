package main

import (
	"flag"
	"fmt"
)

const about = `fleet measures this package at the scale of a fleet: many workers, queues, jobs and
tenants, servers that are killed, and work that goes on. By default everything is small, and all
of it takes a minute. The flags make it large.

usage: go run ./fleet [flags]

Each workload starts servers of its own. The columns are what was measured, the figure, its unit,
and the bar that docs/scaling.md sets, if there is one. Only counts are the same on each machine. A
workload ends with an error if jobs are lost where none may be, if jobs are left that nobody runs,
or if something grows for ever.

figures
  server CPU          of the server process, user and system, from INFO cpu; idle workers keep that
                      part of a core busy
  scripts, commands   from INFO commandstats; commands are those inside scripts, and others
  longest call        of the server, from SLOWLOG; 0 is less than a millisecond. For so long, all
                      other clients wait
  server memory       used_memory; its peak is that since the server was started
  bytes sent          by the server, from INFO stats
  connections         to the server, those of the bench included
  heap, stacks        of this process, from the runtime, after the garbage was collected

workloads
  idle        -workers of one queue that wait: what they need, and what one job has them do
  newqueues   queues that appear one by one, besides -queues that there are, among -workers that
              don't want them, and -patterns workers whose patterns match them
  queues      1 worker, and -workers, that watch -queues, at most 1000, by their names
  depth       single calls on an empty queue, and on one where -jobs wait
  states      the memory of -jobs of each state
  tenants     a process that works -tenants namespaces
  bulk        calls about -jobs, -queues or -workers at once, most of which go in steps
  durability  a server that keeps a file: its speed with -jobs, and what it has lost after it was
              killed -kills times in the middle of as many more
  load        the script, sent to a server that lacks it, by one client, and by -workers at once
  restart     -workers whose server forgets its scripts, cuts their connections, and is restarted,
              and what those leave that are killed
  soak        jobs of all kinds at -rate for -duration, while workers come and go; with -for 100m,
              in processes of their own, with schedules, gateways, their clients, and the
              dashboard with a reader, while a worker is killed each minute

flags
`

func usage(flags *flag.FlagSet) func() {
	return func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
}
