// Package network tests workers on a bad network, which loses packets in one direction or in both,
// in bursts or all the time, delays packets, or cuts off a master. It contains only tests, which
// create network namespaces, with a server in one and a worker in the other, and are skipped
// without permission to do so.
//
// The invariants are that every job with an answered put is completed, and that no job has two live
// runs. A run is live until it returns or its context ends.
package network
