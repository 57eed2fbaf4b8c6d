// Package chaos tests the worker in real processes on a real Redis, while workers, server
// and connections are disturbed. It has tests only.
//
// The test binary runs itself again as worker processes. Jobs are put before and while they
// work, and each test disturbs them in one way: it kills, ends or halts workers, restarts
// or pauses the server, cuts or blocks connections. Then all of these must hold:
//
//   - every job completes, once, within two lock times after the last disturbance;
//   - no job runs at two live holders of its lock at once;
//   - the statistics agree with the histories, and no more locks end than the disturbances explain;
//   - nothing is left on the server but the completed jobs and what describes them.
//
// # Two live holders
//
// On the server a lock has one holder by construction. The danger is that a process believes in a
// lock that the server has given to another one. So each run of a handler prints, on its process's
// output, when it started, when its context ended, and when it returned, and asks the server at
// both ends who holds the job. A run is live from its start until the first of:
//
//   - its return;
//   - the end of its context: from then on the worker does not claim the job any more;
//   - the death of its process, as the parent saw it, or its being stopped: a process that
//     does not run can't let go.
//
// No other run of the job may start in that time, and the server may not name another holder
// to a run that is live after it has answered. Clocks are of no concern, as all processes
// share a machine.
//
// The server warns a worker when its lock ends, and gives the job to another one after the grace
// period. A worker that lets go when its lock ends does so a grace period before anyone else
// starts. Where processes live on while their locks end, the grace period is above what the
// scheduler of a busy machine may add, and only the tenth of a second by which the end of a context
// may be printed late is allowed for.
//
// # What is random
//
// Each test prints its seed. Set QLESS_SEED to repeat one. With -short there are fewer jobs
// and disturbances.
package chaos
