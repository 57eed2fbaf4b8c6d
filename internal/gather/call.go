package gather

import (
	"sync"
	"time"
)

// patience is how long jobs in a call wait for the next job to join.
const patience = 5 * time.Second

// A Call is a call of a function on behalf of several goroutines, one for each job of a group.
type Call[J comparable, M any] struct {
	work func(members []M)

	turn   sync.Mutex // one call of work at a time
	mu     sync.Mutex
	coming map[J]bool    // jobs that have neither joined nor passed
	here   []M           // the members of the next call of work
	ended  chan struct{} // closed when that call has ended
	timer  *time.Timer
}

// NewCall returns a call of a function for jobs. The function must return.
func NewCall[J comparable, M any](jobs []J, work func(members []M)) *Call[J, M] {
	c := &Call[J, M]{work: work, coming: map[J]bool{}, ended: make(chan struct{})}
	for _, job := range jobs {
		c.coming[job] = true
	}
	c.timer = time.AfterFunc(patience, c.begin)
	return c
}

// Join joins the call on behalf of a job, and returns when the call has ended. The call begins when
// all jobs have joined or passed. If none does for some seconds, the call begins without the
// others, which may be waiting for its end. They get their own call.
func (c *Call[J, M]) Join(job J, member M) {
	c.mu.Lock()
	c.here = append(c.here, member)
	ended := c.ended
	c.mu.Unlock()
	c.Pass(job)
	<-ended
}

// Pass records that a job does not join the call, or has already joined.
func (c *Call[J, M]) Pass(job J) {
	c.mu.Lock()
	delete(c.coming, job)
	last := len(c.coming) == 0
	c.mu.Unlock()
	if last {
		c.timer.Stop()
		c.begin()
	} else {
		c.timer.Reset(patience)
	}
}

// begin calls the function for the members that have joined.
func (c *Call[J, M]) begin() {
	c.mu.Lock()
	members, ended := c.here, c.ended
	c.here, c.ended = nil, make(chan struct{})
	c.mu.Unlock()
	if len(members) == 0 {
		return
	}
	go func() {
		defer close(ended)
		c.turn.Lock()
		defer c.turn.Unlock()
		c.work(members)
	}()
}
