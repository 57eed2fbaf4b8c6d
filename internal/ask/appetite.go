package ask

import (
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// appetiteRest is how long requests ask for fewer jobs after a lost answer.
const appetiteRest = 30 * time.Second

// An appetite bounds the number of jobs in a request. A lost answer may have been too long for the
// client's ReadTimeout: asking for as many jobs again would never succeed.
type appetite struct {
	most     int // 0 for no bound
	lost     int // the number of jobs requested when an answer was last lost
	lostAt   time.Time
	inARow   int // the number of answers lost since the last one received
	loggedAt time.Time
}

// limit bounds the number of jobs to request, and to prefetch.
func (a *appetite) limit(room, ahead int) (int, int) {
	if a.most > 0 {
		room = min(room, a.most)
		ahead = min(ahead, a.most-room)
	}
	return room, ahead
}

// succeeded records an answer with a number of jobs.
func (a *appetite) succeeded(jobs int) {
	a.inARow = 0
	if a.most == 0 || jobs < a.most {
		return
	}
	more := 2 * a.most
	if time.Since(a.lostAt) < appetiteRest {
		more = min(more, a.lost-1)
	}
	if a.most = max(a.most, more); a.most >= AtOnce {
		a.most = 0
	}
}

// failed records a failed request for a number of jobs. After a lost answer, the next request asks
// for half as many. failed returns both numbers if they should be logged: seldom, and not if a
// single broken connection may be the cause.
func (a *appetite) failed(jobs int, err error) (asked, next int) {
	if jobs == 0 || redisx.IsAnswer(err) || redisx.NeverRan(err) {
		return 0, 0
	}
	a.most, a.lost, a.lostAt = max(1, jobs/2), jobs, time.Now()
	a.inARow++
	if !redisx.IsTimeout(err) && a.inARow == 1 || time.Since(a.loggedAt) < appetiteRest {
		return 0, 0
	}
	a.loggedAt = time.Now()
	return jobs, a.most
}
