package model

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// settingActions change queues, settings, workers and the clock.
var settingActions = []action{
	{
		name: "Clock", weight: 10,
		draw:    func(d *dice) step { return step{Do: "Clock", Tick: d.leap()} },
		play:    func(w *world, s step) outcome { return done },
		predict: func(m *queues, s step) outcome { return done },
	},
	{
		name: "Pause", weight: 1,
		draw: func(d *dice) step { return step{Do: "Pause", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Queue(s.Queue).Pause(w.ctx))
		},
		predict: func(m *queues, s step) outcome {
			m.paused[s.Queue] = true
			return done
		},
	},
	{
		name: "Unpause", weight: 4,
		draw: func(d *dice) step { return step{Do: "Unpause", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Queue(s.Queue).Resume(w.ctx))
		},
		predict: func(m *queues, s step) outcome {
			delete(m.paused, s.Queue)
			return done
		},
	},
	{
		name: "Forget", weight: 1,
		draw: func(d *dice) step { return step{Do: "Forget", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(inspect.New(w.by(s)).ForgetQueue(w.ctx, s.Queue))
		},
		predict: func(m *queues, s step) outcome {
			if m.hasJobs(s.Queue) {
				return refused(qless.ErrInvalid)
			}
			delete(m.known, s.Queue)
			delete(m.unlisted, s.Queue)
			return done
		},
	},
	{
		name: "Queue.Unfail", weight: 3,
		draw: func(d *dice) step {
			return step{Do: "Queue.Unfail", Queue: d.queue(), Group: d.failed(), Count: 1 + d.IntN(3)}
		},
		play: func(w *world, s step) outcome {
			n, err := repairs.UnfailInto(w.ctx, w.by(s), s.Queue, s.Group, s.Count)
			return outcomeOf(err, func() string { return strconv.Itoa(n) })
		},
		predict: predictUnfail,
	},
	{
		name: "Client.Unfail", weight: 3,
		draw: func(d *dice) step {
			return step{Do: "Client.Unfail", Group: d.failed(), Count: 1 + d.IntN(3)}
		},
		play: func(w *world, s step) outcome {
			n, err := repairs.Unfail(w.ctx, w.by(s), s.Group, s.Count)
			return outcomeOf(err, func() string { return strconv.Itoa(n) })
		},
		predict: predictUnfail,
	},
	{
		name: "Config.Set", weight: 4,
		draw: func(d *dice) step {
			option, value := d.setting()
			return step{Do: "Config.Set", Option: option, Value: value}
		},
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Config().Set(w.ctx, s.Option, s.Value))
		},
		predict: func(m *queues, s step) outcome {
			if n, _ := strconv.ParseFloat(s.Value, 64); n < 0 || s.Option == "heartbeat" && n <= 0 {
				return refused(qless.ErrInvalid)
			}
			m.config[s.Option] = s.Value
			return done
		},
	},
	{
		name: "Config.Unset", weight: 2,
		draw: func(d *dice) step {
			option, _ := d.setting()
			return step{Do: "Config.Unset", Option: option}
		},
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Config().Unset(w.ctx, s.Option))
		},
		predict: func(m *queues, s step) outcome {
			delete(m.config, s.Option)
			return done
		},
	},
	{
		name: "Deregister", weight: 1,
		draw: func(d *dice) step { return step{Do: "Deregister"} },
		play: func(w *world, s step) outcome { return ended(inspect.New(w.by(s)).ForgetWorkers(w.ctx, s.Worker)) },
		predict: func(m *queues, s step) outcome {
			delete(m.seen, s.Worker)
			return done
		},
	},
}

// predictUnfail moves the oldest failures of a group into a queue.
func predictUnfail(m *queues, s step) outcome {
	group := m.groups[s.Group]
	staying := max(0, len(group)-s.Count)
	var back []*job // the oldest failure first
	for _, jid := range slices.Backward(group[staying:]) {
		at := m.now
		if s.Queue == "" { // into their own queues, each a microsecond after the one before
			at += float64(len(back)) * 1e-6
		}
		j := m.jobs[jid]
		m.count(j.queue, j.failure.when).failed--
		delete(m.filed, jid)
		m.unfail(j, cmp.Or(s.Queue, j.queue), at)
		back = append(back, j)
	}
	m.takeTurns(back...)
	m.setGroup(s.Group, group[:staying])
	return outcome(strconv.Itoa(len(group) - staying))
}

// unfail puts a job that has left its group into a queue.
func (m *queues) unfail(j *job, queue string, at float64) {
	m.record(j, "put", m.now)
	j.worker, j.expires, j.queue, j.remaining = "", 0, queue, j.retries
	m.enqueue(j, at)
	m.knowUnlisted(queue)
	m.claimAgain(j)
	if l := &j.options.life; l.isMortal() {
		l.startBy, l.ttl = 0, 0
		delete(m.until, j.jid)
	}
}
