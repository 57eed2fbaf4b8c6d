// Package network tests workers on a bad network: one that loses what is sent, in one direction or
// in both, in bursts or all the time, that delays it, or that cuts a master off. It has tests only,
// which make network namespaces of the machine's own, with a server in one and a worker in the
// other, and are skipped without the right to do so.
//
// The invariants: every job whose put was answered is completed, and no job has two live runs: one
// that has neither returned nor lost its context when another one starts.
package network
