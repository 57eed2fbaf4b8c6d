// Package wake shows that every way of making a job ready wakes an idle worker for the job: no job
// waits for a worker's poll. It covers every command and setting that can make a job ready, with
// one and with two idle workers, and with subscriptions cut.
package wake
