package main

import (
	"fmt"
	"syscall"
)

// checkFiles returns an error if this process may not open the connections of so many workers: one
// each for what wakes it, and at least two for each client. Without them, workers would try for
// ever.
func checkFiles(workers, clients int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(workers + 2*clients + 100); need > limit.Cur {
		return fmt.Errorf("%d workers on %d clients need %d open files, and may have %d: see ulimit -n",
			workers, clients, need, limit.Cur)
	}
	return nil
}
