package batch

import (
	"runtime"
	"time"
)

const (
	patience = 2 * time.Millisecond // how long a call waits for others at most
	recently = 10 * patience        // calls are no burst unless others went out since then
	enough   = 16                   // with so many calls, an exchange costs each of them little
)

// A Burst lets calls that come in quick succession share an exchange, however fast each is made:
// the first one waits for as many as shared the last exchange. Its zero value is ready for use. It
// is not safe for concurrent use.
type Burst struct {
	shared int // the number of calls in the last exchange, or enough
	sent   time.Time
}

// Sent records an exchange that a number of calls shared.
func (b *Burst) Sent(calls int) { b.shared, b.sent = min(calls, enough), time.Now() }

// Wait waits for calls to come, but not long. waiting returns their number; if it is 0, there is
// nothing to wait for. Whenever joined receives, it may have changed.
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
