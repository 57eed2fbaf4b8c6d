package qless

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// finishBatch bounds how many outcomes one script takes.
const finishBatch = 200

// inBatches cuts outcomes into what one script takes.
func inBatches(outcomes []*outcome) [][]*outcome {
	var batches [][]*outcome
	var together []*outcome
	for _, o := range outcomes {
		if o.alone {
			batches = append(batches, []*outcome{o})
		} else {
			together = append(together, o)
		}
	}
	return append(batches, slices.Collect(slices.Chunk(together, finishBatch))...)
}

// told deals with the answer to outcomes that went in one script, or with the error that came
// instead of one. Others tells whether the server did something else of the same exchange. An
// error is returned when the next exchange has to wait.
func (w *Worker) told(outcomes []*outcome, reply any, err error, others bool) error {
	var answers []string
	if err == nil {
		answers, err = decodeStrings("finish", reply)
	}
	if err == nil && len(answers) != len(outcomes) {
		err = unexpected("finish", reply)
	}
	if err == nil {
		w.settle(outcomes, answers)
		return nil
	}
	err = wrap("finish", "", err)
	if errors.Is(err, ErrInvalid) {
		w.unusable(outcomes, err)
		return nil
	}
	for _, o := range outcomes {
		o.unknown = true
	}
	switch general := isGeneral(err); {
	case !redisx.IsAnswer(err) && !errors.Is(err, ErrServer):
		w.putBack(outcomes)
		return err
	case general && !others:
		w.putBackLocked(outcomes, err)
		return err
	case len(outcomes) > 1:
		w.separate(outcomes)
	default:
		w.refused(outcomes[0], err, general)
	}
	return nil
}

// settle notes what the server said to each of some outcomes. One that it could not deal with for a
// damaged key is tried again for a while.
func (w *Worker) settle(outcomes []*outcome, answers []string) {
	var log notes
	damaged := map[*outcome]error{}
	w.mu.Lock()
	for i, o := range outcomes {
		problem, refused := strings.CutPrefix(answers[i], "!")
		if refused && codeOf(problem) == CodeServer {
			damaged[o] = &Error{Op: "finish", Code: CodeServer, JID: o.jid, Message: problem}
		} else {
			w.settled(o, problem, refused, &log)
		}
	}
	w.mu.Unlock()
	w.report(log)
	for o, err := range damaged {
		o.alone = true
		w.refused(o, err, false)
	}
}

// settled notes what the server said to one outcome: the problem, if it was refused. The mutex is
// held.
func (w *Worker) settled(o *outcome, problem string, refused bool, log *notes) {
	var err error
	switch {
	case !refused:
		w.health.count(o.Action)
	case o.late:
	case o.unknown:
		// It was sent before and no answer came: that one was heard, or the job is lost.
		w.health.count(o.Action)
		log.add(slog.LevelInfo, "qless: an outcome told again was refused",
			"jid", o.jid, "outcome", o.Action, "problem", problem)
	case codeOf(problem) == CodeNotFound && o.run != nil:
		err = ErrCanceled
		w.canceled(o.run, log)
		log.do(func() { w.observe(o.run, JobCanceled, Outcome{}, ErrCanceled) })
	default:
		err = &Error{Op: "finish", Code: codeOf(problem), JID: o.jid, Message: problem}
		w.health.stats.Lost++
		log.add(slog.LevelWarn, "qless: an outcome was discarded",
			"jid", o.jid, "outcome", o.Action, "problem", problem)
	}
	log.do(func() { w.observeEnd(o.run, o.Outcome, err) })
}

// canceled notes that a job was canceled while it ran. The mutex is held.
func (w *Worker) canceled(r *run, log *notes) {
	w.health.stats.Canceled++
	log.add(slog.LevelInfo, "qless: a job was canceled while it ran",
		"jid", r.jid, "klass", r.klass, "queue", r.queue)
}

// unusable deals with outcomes of which one can't be used, such as data that is nested too
// deeply: each is sent by itself, and the job of the unusable one fails.
func (w *Worker) unusable(outcomes []*outcome, err error) {
	switch o := outcomes[0]; {
	case len(outcomes) > 1:
		w.separate(outcomes)
	case o.Action != ActionFail || o.data != "":
		o.Outcome, o.data = Outcome{Action: ActionFail, Group: "refused", Err: err}, ""
		w.putBack(outcomes)
	default:
		w.giveUp(o, err)
	}
}

// separate has outcomes sent again, each by itself: what the server refused may be one of them.
func (w *Worker) separate(outcomes []*outcome) {
	for _, o := range outcomes {
		o.alone = true
	}
	w.putBack(outcomes)
}

// maxRefusals is how often the server may refuse an outcome that it was sent alone.
const maxRefusals = 5

// refusedBackoff says how long an outcome waits that the server refused.
var refusedBackoff = redisx.Backoff{First: 200 * time.Millisecond, Longest: 10 * time.Second}

// refused deals with an outcome that the server refuses by itself, as for a key that is damaged.
// It is tried again for a while, and keeps no other outcome waiting. A general refusal says
// nothing about the outcome, which is then tried until its lock has ended.
func (w *Worker) refused(o *outcome, err error, general bool) {
	o.refusals++
	if o.lockEnded() || !general && o.refusals >= maxRefusals {
		w.giveUp(o, err)
		return
	}
	if o.refusals == 1 {
		w.log.Warn("qless: the server refuses an outcome",
			withHint(err, "jid", o.jid, "outcome", o.Action)...)
	}
	w.holdBack(o, refusedBackoff.After(o.refusals))
}

// giveUp drops an outcome that the server does not take. Its job's lock ends by itself.
func (w *Worker) giveUp(o *outcome, err error) {
	level := slog.LevelInfo // a late one was worth a try
	if !o.late {
		level = slog.LevelError
		w.mu.Lock()
		w.health.stats.Lost++
		w.mu.Unlock()
	}
	w.log.Log(context.Background(), level, "qless: an outcome was given up",
		withHint(err, "jid", o.jid, "outcome", o.Action)...)
	w.observeEnd(o.run, o.Outcome, err)
}

// holdBack has an outcome sent again after a time. The others need not wait for it.
func (w *Worker) holdBack(o *outcome, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[o] = time.AfterFunc(wait, func() { w.sendAgain(o) })
}

// sendAgain puts an outcome back that was held back, unless it was dropped in the meantime.
func (w *Worker) sendAgain(o *outcome) {
	w.mu.Lock()
	if _, ok := w.held[o]; ok {
		delete(w.held, o)
		w.outcomes = append(w.outcomes, o)
	}
	w.mu.Unlock()
	w.nudge()
}

// forget drops what is still to be told of a job. The mutex is held.
func (w *Worker) forget(jid string, after *notes) {
	forgotten := func(o *outcome) bool {
		if o.jid == jid {
			after.do(func() { w.observeEnd(o.run, o.Outcome, ErrLockLost) })
		}
		return o.jid == jid
	}
	w.outcomes = slices.DeleteFunc(w.outcomes, forgotten)
	maps.DeleteFunc(w.held, func(o *outcome, _ *time.Timer) bool { return forgotten(o) })
}

// putBackLocked returns outcomes whose locks have not ended, and gives up the others.
func (w *Worker) putBackLocked(outcomes []*outcome, err error) {
	var kept []*outcome
	for _, o := range outcomes {
		if o.lockEnded() {
			w.giveUp(o, err)
		} else {
			kept = append(kept, o)
		}
	}
	w.putBack(kept)
}

// putBack returns outcomes that could not be told. They are told when the server is back: it
// knows whether the locks are still this worker's.
func (w *Worker) putBack(outcomes []*outcome) {
	w.mu.Lock()
	w.outcomes = append(w.outcomes, outcomes...)
	w.mu.Unlock()
	w.nudge()
}
