// Package outbox puts jobs in the transactions of a database that make them necessary: either the
// transaction is committed and its jobs run, or neither happens.
//
// [Outbox.Put] writes a job as a row of the table qless_outbox, in the transaction of the caller. A
// [Relay] moves the rows to Redis, in any number of processes. It works with PostgreSQL from 12 on
// and SQLite from 3.35 on, by any driver for database/sql. [Migrate] makes the table; [Migrations]
// has the same as files for other tools.
//
// # Once
//
// A job gets its jid when its row is written, and a relay never puts a job over one with its jid.
// The row has the time at which a relay first took it, and is deleted when the server has the job.
// If the relay dies in between, the row is in doubt. After [RelayConfig].Lease, another relay looks
// for the job:
//
//   - If there is one, in whatever state, the row is deleted.
//   - If there is none, and the server can't have deleted the record of a job since then, the job
//     is put. The settings of the server decide about that: jobs-history (a week) and
//     jobs-history-count (the last 50,000 complete jobs), and those for failed jobs.
//   - Otherwise the job may have run. The row stays, with a problem, until a person decides.
//
// So no row is lost, and no row becomes two jobs. Two things are an exception. A job that is
// canceled or forgotten while its row is in doubt is put again. A job with
// [qless.UniqueOption.Replace] has no jid of its own, and is put again, as by a later put of its
// key. The clocks of the programs and of Redis may be a minute apart.
//
// A job that is put once may run more than once: workers run jobs at least once.
package outbox
