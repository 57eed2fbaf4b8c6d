// Package cluster tests the client and its worker on real clusters and behind real sentinels: slots
// are moved and masters fail over while jobs are put and run. It contains only tests.
//
// Acknowledged puts must survive: every job put without an error is completed, however the servers
// change. If a master is killed, this also applies to jobs acknowledged by a replica (Replicas in
// [qless.ClientConfig]).
package cluster
