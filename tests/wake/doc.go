// Package wake shows that every way of making a job ready wakes an idle worker that can take it: no
// job waits for a worker's poll. It covers every command and setting that can make a job ready,
// with one and with two idle workers, and with their subscriptions cut.
package wake
