package main

import "runtime"

// memory is what this process uses.
type memory struct {
	heap, stacks uint64
	goroutines   int
}

// inUse returns it, after the garbage was collected.
func inUse() memory {
	runtime.GC()
	runtime.GC() // what a finalizer has let go
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{stats.HeapAlloc, stats.StackInuse, runtime.NumGoroutine()}
}

// since returns the difference to an earlier reading, in KB and goroutines.
func (m memory) since(before memory) (heap, stacks, goroutines float64) {
	return (float64(m.heap) - float64(before.heap)) / 1e3,
		(float64(m.stacks) - float64(before.stacks)) / 1e3,
		float64(m.goroutines - before.goroutines)
}
