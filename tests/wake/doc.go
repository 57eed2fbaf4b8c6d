// Package wake shows that whatever makes a job ready wakes an idle worker that could take it: no
// job waits for a worker's poll. It goes through every command and setting that can make a job
// ready, with one and with two idle workers, and with their subscriptions cut.
package wake
