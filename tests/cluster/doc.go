// Package cluster tests the client and its worker on real clusters and behind real sentinels:
// slots are moved and masters fail over while jobs are put and worked. It has tests only.
//
// Acknowledged puts must survive: every job whose put returned without an error is completed,
// however the servers changed. Where a master is killed, that holds for jobs that a replica had
// acknowledged as well (Replicas in [qless.ClientConfig]).
package cluster
