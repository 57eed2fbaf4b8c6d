// Package chaos tests the worker in real processes on a real Redis, while workers, server and
// connections are disturbed. It contains only tests.
//
// The test binary runs copies of itself as worker processes. Jobs are put before and while they
// work, and each test disturbs them in one way: it kills, ends or halts workers, restarts or pauses
// the server, or cuts or blocks connections. Then all of these must hold:
//
//   - every job completes exactly once, within two lock times after the last disturbance;
//   - no job runs at two live holders of its lock at the same time;
//   - the statistics agree with the histories, and no more locks end than the disturbances explain;
//   - nothing is left on the server but the completed jobs and their statistics.
//
// # Two live holders
//
// On the server, a lock has one holder by construction. The danger is a process that relies on a
// lock already given to another process. So each run of a handler prints the times of its start,
// the end of its context, and its return, and asks the server at both ends which worker holds the
// job. A run is live from its start until the first of:
//
//   - the return;
//   - the end of the context: from then on, the worker no longer claims the job;
//   - the death or the suspension of the process, as seen by the parent: a process that does not
//     run can't let go.
//
// No other run of the job may start in that time, and the server may not name another holder to a
// run that is still live after the answer. Clocks do not matter, because all processes share a
// machine.
//
// The server warns a worker when a lock expires, and gives the job to another worker after the
// grace period. A worker that lets go at lock expiry does so a grace period before any other worker
// starts. In tests with processes that outlive their locks, the grace period is longer than any
// delay by the scheduler of a busy machine, and the tests tolerate only that the end of a context
// may be printed a tenth of a second late.
//
// # What is random
//
// Each test prints its seed. Set QLESS_SEED to repeat a run. With -short, there are fewer jobs and
// disturbances.
package chaos
