package qless

import (
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// appetiteRest is how long after a lost answer no reserve asks for as many jobs again.
const appetiteRest = 30 * time.Second

// An appetite bounds how many jobs one reserve asks for. When an answer is lost, it may have been too
// long for the client's ReadTimeout, so that asking for the same again would never end.
type appetite struct {
	most     int // 0 for no bound
	lost     int // how many jobs were asked for when an answer was lost last
	lostAt   time.Time
	inARow   int // how many answers were lost since the last one that came
	loggedAt time.Time
}

// limit bounds what an exchange asks for.
func (a *appetite) limit(e *exchange) {
	if a.most > 0 {
		e.room = min(e.room, a.most)
		e.ahead = min(e.ahead, a.most-e.room)
	}
}

// heard notes that an answer came, with so many jobs.
func (a *appetite) heard(jobs int) {
	a.inARow = 0
	if a.most == 0 || jobs < a.most {
		return
	}
	more := 2 * a.most
	if time.Since(a.lostAt) < appetiteRest {
		more = min(more, a.lost-1)
	}
	if a.most = max(a.most, more); a.most >= reservedAtOnce {
		a.most = 0
	}
}

// failed notes that a reserve for so many jobs failed. If its answer was lost, the next one asks for
// half as many. That is logged unless it may be due to a connection that broke once.
func (a *appetite) failed(asked int, err error, log *workerLog) {
	if asked == 0 || redisx.IsAnswer(err) || redisx.NeverRan(err) {
		return
	}
	a.most, a.lost, a.lostAt = max(1, asked/2), asked, time.Now()
	a.inARow++
	if (redisx.IsTimeout(err) || a.inARow > 1) && time.Since(a.loggedAt) >= appetiteRest {
		a.loggedAt = time.Now()
		log.answerLost(asked, a.most, err)
	}
}
