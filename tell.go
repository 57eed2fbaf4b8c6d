package qless

import (
	"errors"
	"slices"
	"strings"
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

// told deals with the answers to outcomes.
func (w *Worker) told(outcomes []*outcome, reply any, err error) error {
	var answers []string
	if err == nil {
		answers, err = decodeStrings("finish", reply)
	}
	if err == nil && len(answers) != len(outcomes) {
		err = unexpected("finish", reply)
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, o := range outcomes {
			w.settled(o, answers[i])
		}
		return nil
	}
	err = wrap("finish", "", err)
	if errors.Is(err, ErrInvalid) {
		w.refused(outcomes, err)
		return nil
	}
	for _, o := range outcomes {
		o.unknown = true
		o.alone = errors.Is(err, ErrServer) // it may be about one of them
	}
	w.putBack(outcomes)
	return err
}

// refused deals with outcomes of which one can't be used, such as data that is nested too
// deeply: each is told by itself, and the one that it is fails its job.
func (w *Worker) refused(outcomes []*outcome, err error) {
	switch o := outcomes[0]; {
	case len(outcomes) > 1:
		for _, o := range outcomes {
			o.alone = true
		}
	case o.action != actionFail || o.data != "":
		o.action, o.data, o.args = actionFail, "", []string{"refused", validText(err.Error())}
	default:
		w.log.Error("qless: an outcome was refused", "jid", o.jid, "outcome", o.action, "error", err)
		return
	}
	w.putBack(outcomes)
}

// settled notes what the server said to one outcome. The mutex is held.
func (w *Worker) settled(o *outcome, answer string) {
	problem, refused := strings.CutPrefix(answer, "!")
	switch {
	case !refused:
		w.health.count(o.action)
	case o.late:
	case o.unknown:
		// It was sent before and no answer came: that one was heard, or the job is lost.
		w.health.count(o.action)
		w.log.Info("qless: an outcome told again was refused", "jid", o.jid, "outcome", o.action, "problem", problem)
	default:
		w.health.lost++
		w.log.Warn("qless: an outcome was discarded", "jid", o.jid, "outcome", o.action, "problem", problem)
	}
}

// putBack returns outcomes that could not be told. They are told when the server is back: it
// knows whether the locks are still this worker's.
func (w *Worker) putBack(outcomes []*outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes = append(w.outcomes, outcomes...)
}
