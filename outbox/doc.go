// Package outbox puts jobs as part of database transactions: either the transaction is committed
// and its jobs run, or neither happens. A committed job is put once, and no earlier than its
// parents.
//
// [Queue.Put] writes a job to a table in the transaction of the caller. A [Relay] moves the rows to
// Redis; any number of processes may run a relay. The package supports PostgreSQL 13 or later and
// SQLite 3.35 or later, with any driver for database/sql, MySQL 8 and MariaDB 10.6 or later with
// github.com/go-sql-driver/mysql. [Migrate] creates the tables.
//
// # Once
//
// A job gets its jid when its row is written. The put also leaves a receipt in Redis, and is
// skipped if a receipt exists. A relay may therefore send a row again after any failure, even if
// the job has run and its record is gone. A receipt is kept for a week if the row is never deleted,
// and for a minute after deletion.
//
// The rows are lost with the database, and the jobs with Redis. If Redis loses its data while a row
// still exists, the job is put again, and may run again. A job put once may still run more than
// once, because workers run jobs at least once.
//
// # Order
//
// A child ([qless.DependsOn]) is put after its parents, whatever the queues and relays, provided
// that the parents' rows were committed before. All other rows are put independently. A single
// relay puts the jobs of a queue in the order of their rows. With several relays, a batch may
// overtake another.
package outbox
