package qless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Missed says what becomes of the times at which no process ran that follows a schedule.
type Missed int

const (
	// RunOnce puts one job for all the times that were missed, that of the last one.
	RunOnce Missed = iota

	// RunAll puts a job for each time that was missed, at most the last 100.
	RunAll

	// Skip puts none.
	Skip
)

// maxMissed bounds how many missed jobs RunAll puts.
const maxMissed = 100

// A Schedule puts a job into a queue at certain times, in every worker process that it is
// given to: however many follow it, each time has one job. What was last put is kept on the
// server, by the schedule's id.
//
// Unlike a recurring job ([Queue.Recur]), which any client's pop puts, it needs a running
// worker, and knows calendars and time zones.
type Schedule struct {
	id      string
	times   cron.Schedule
	queue   string
	klass   string
	data    any
	missed  Missed
	options []PutOption
	err     error
}

// NewSchedule returns a schedule, for [WorkerConfig].Schedules. The spec is one of:
//
//	"30 6 * * 1-5"                       minute, hour, day, month, weekday
//	"CRON_TZ=Europe/Berlin 30 6 * * *"   in a time zone; else in UTC
//	"@hourly", "@daily", "@weekly"       and so on
//	"@every 90s"                         at whole multiples of 90 s since 1970
//
// The id names the schedule on the server: to change what a schedule does, keep its id. The
// jid of each job is <id>@<time>, unless the options say otherwise. A spec that can't be
// read is [ErrInvalid] when the worker is started.
func NewSchedule(id, spec, queue, klass string, data any, options ...PutOption) *Schedule {
	s := &Schedule{id: id, queue: queue, klass: klass, data: data, options: options}
	s.times, s.err = parseSpec(spec)
	if s.err == nil {
		s.err = checkName("schedule", "id", id)
	}
	if s.err == nil {
		_, s.err = newPut(queue, klass, data, options)
	}
	return s
}

// OnMissed sets what becomes of missed times. Defaults to [RunOnce]. It returns the
// schedule.
func (s *Schedule) OnMissed(missed Missed) *Schedule {
	s.missed = missed
	return s
}

func parseSpec(spec string) (cron.Schedule, error) {
	if rest, ok := strings.CutPrefix(spec, "@every "); ok {
		every, err := time.ParseDuration(rest)
		if err != nil || every < time.Second {
			return nil, invalid("schedule", "", "%q is no interval of a second or more", spec)
		}
		return interval(every), nil
	}
	if !strings.HasPrefix(spec, "CRON_TZ=") && !strings.HasPrefix(spec, "TZ=") {
		spec = "CRON_TZ=UTC " + spec
	}
	times, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, &Error{Op: "schedule", Code: CodeInvalid, Message: fmt.Sprintf("%q: %v", spec, err), Err: err}
	}
	return times, nil
}

// interval is due at whole multiples of itself since 1970, the same for every process.
type interval time.Duration

func (i interval) Next(t time.Time) time.Time {
	return time.Unix(0, (t.UnixNano()/int64(i)+1)*int64(i)).UTC()
}

// due returns the times after last and not after now at which a job is to be put, oldest
// first, and the next time after now.
func (s *Schedule) due(last, now time.Time) (times []time.Time, next time.Time) {
	next = s.times.Next(last)
	for !next.IsZero() && !next.After(now) {
		times = append(times, next)
		if len(times) > maxMissed {
			times = times[1:]
		}
		next = s.times.Next(next)
	}
	if len(times) == 0 {
		return nil, next
	}
	late := now.Sub(times[len(times)-1]) > lateness
	switch {
	case s.missed == RunAll:
	case s.missed == Skip && late:
		times = nil
	default:
		times = times[len(times)-1:]
	}
	return times, next
}

// lateness is how far behind its time a job may be put without having been missed.
const lateness = 10 * time.Second

// follow puts the jobs of a schedule until the context ends.
func (w *Worker) follow(ctx context.Context, s *Schedule) {
	var last time.Time
	for attempt := 1; ; attempt++ {
		var err error
		if last, err = w.client.scheduledLast(ctx, s.id, w.now()); err == nil {
			break
		}
		if attempt == 1 && ctx.Err() == nil {
			w.log.Warn("qless: a schedule can't be read", "schedule", s.id, "error", err)
		}
		if !pause(ctx, attempt) {
			return
		}
	}
	for ctx.Err() == nil {
		times, next := s.due(last, w.now())
		for _, at := range times {
			if err := w.client.putScheduled(ctx, s, at); err != nil {
				w.log.Error("qless: a scheduled job could not be put", "schedule", s.id, "due", at, "error", err)
				if !errors.Is(err, ErrInvalid) {
					next = at // again, after a while
					break
				}
			}
			last = at
		}
		if next.IsZero() {
			return // it is never due again
		}
		timer := time.NewTimer(min(max(next.Sub(w.now()), 500*time.Millisecond), time.Hour))
		select {
		case <-timer.C:
		case <-w.quit:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// now is the time by the client's clock, or this machine's.
func (w *Worker) now() time.Time {
	if clock := w.client.runner.clock; clock != nil {
		return clock()
	}
	return time.Now()
}

// scheduledLast returns when a schedule was last due; for a new one, a given time.
func (c *Client) scheduledLast(ctx context.Context, id string, since time.Time) (time.Time, error) {
	reply, err := c.run(ctx, "schedule.last", "", id, formatTime(since))
	if err != nil {
		return time.Time{}, err
	}
	last := numberOf(reply).time()
	if last.IsZero() {
		return time.Time{}, unexpected("schedule.last", reply)
	}
	return last, nil
}

// putScheduled puts the job of a time, unless another process did.
func (c *Client) putScheduled(ctx context.Context, s *Schedule, at time.Time) error {
	jid := s.id + "@" + at.UTC().Format(time.RFC3339)
	p, err := newPut(s.queue, s.klass, s.data, append([]PutOption{JID(jid)}, s.options...))
	if err != nil {
		return err
	}
	_, err = c.run(ctx, "schedule", p.options.jid, append([]any{s.id, formatTime(at)}, p.args(c.worker)...)...)
	return err
}
