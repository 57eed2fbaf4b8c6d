package batch

import (
	"runtime"
	"time"
)

const (
	patience = 2 * time.Millisecond // the longest wait of a call for others
	recently = 10 * patience        // calls are no burst if the last exchange was earlier
	enough   = 16                   // the number of calls that makes an exchange cheap for each
)

// A Burst lets calls in quick succession share an exchange, however fast each is made: the first
// call waits for as many as shared the last exchange. The zero value is ready for use. A Burst is
// not safe for concurrent use.
type Burst struct {
	shared int // the number of calls in the last exchange, or enough
	sent   time.Time
}

// Sent records an exchange shared by a number of calls.
func (b *Burst) Sent(calls int) { b.shared, b.sent = min(calls, enough), time.Now() }

// Wait briefly waits for calls to come. waiting returns their number; if it is 0, Wait returns at
// once. The number may change whenever joined receives.
func (b *Burst) Wait(joined <-chan struct{}, waiting func() int) {
	runtime.Gosched() // let goroutines that are about to call join
	isOver := func() bool { n := waiting(); return n == 0 || n >= b.shared }
	if time.Since(b.sent) > recently || isOver() {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for !isOver() {
		select {
		case <-joined:
		case <-timer.C:
			return
		}
	}
	runtime.Gosched()
}
