// Package parallel does things from several goroutines.
package parallel

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Do calls do as many times from several goroutines, with numbers from 0 on, until one fails.
func Do(goroutines, times int, do func(i int) error) error {
	var (
		next   atomic.Int64
		group  sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for range min(goroutines, times) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < times; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					next.Store(int64(times))
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}
