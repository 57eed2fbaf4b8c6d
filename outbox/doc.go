// Package outbox puts jobs as part of database transactions: either the transaction is committed
// and its jobs run, or neither happens.
//
// [Outbox.Put] writes a job to the table qless_outbox in the transaction of the caller. A [Relay]
// moves the rows to Redis; any number of processes may run one. The package supports PostgreSQL 12
// or later and SQLite 3.35 or later, with any driver for database/sql. [Migrate] creates the table.
// [Migrations] has the same statements as files for other tools.
//
// # Once
//
// A job gets its jid when its row is written, and a relay never replaces a job with that jid. The
// row records the time at which a relay first took it, and is deleted once the server has the job.
// If the relay dies in between, the row is in doubt. After [RelayConfig].Lease, another relay looks
// for the job:
//
//   - If it exists, in any state, the row is deleted.
//   - If it does not exist, and the server can't have deleted its record since then, the job is
//     put. That depends on the settings of the server: jobs-history (a week),
//     jobs-history-count (the last 50,000 complete jobs), and those for failed jobs.
//   - Otherwise the job may have run. The row stays, with a problem, until a person decides.
//
// So no row is lost, and no row becomes two jobs, with two exceptions. A job that is canceled or
// forgotten while its row is in doubt is put again. A job with [qless.UniqueOption.Replace] has no
// jid of its own, and is put again like a later put of its key. The clocks of the programs and of
// Redis may differ by up to a minute.
//
// A job that is put once may still run more than once, because workers run jobs at least once.
package outbox
