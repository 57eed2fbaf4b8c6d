// Package outbox puts jobs as part of database transactions: either the transaction is committed
// and its jobs run, or neither happens. A job that was committed is put once, and no earlier than
// the jobs that it depends on.
//
// [Queue.Put] writes a job to a table in the transaction of the caller. A [Relay] moves the rows
// to Redis; any number of processes may run one. The package supports PostgreSQL 13 or later and
// SQLite 3.35 or later, with any driver for database/sql, MySQL 8 and MariaDB 10.6 or later with
// github.com/go-sql-driver/mysql. [Migrate] creates the tables.
//
// # Once
//
// A job gets its jid when its row is written. The script that puts it also leaves a receipt in
// Redis, and never puts a job that has one. So a relay may send a row again after any failure, even
// if the job has run and its record is gone. A receipt is kept for a week if the row is never
// deleted, and for a minute after that.
//
// The rows are lost with the database, and the jobs with Redis. If Redis loses its data while a row
// still exists, the job is put again, and may run again. A job that is put once may also run more
// than once because workers run jobs at least once.
//
// # Order
//
// A row whose job depends on others ([qless.DependsOn]) is put after their rows, whatever their
// queues and whichever relays have them, provided that they were committed before. All other rows
// are put independently. A single relay puts the jobs of a queue in the order of their rows. With
// several relays, a batch may overtake another.
package outbox
