package qless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
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
// server, by the schedule's id. It is due by the server's clock (that of [WithClock], if the client
// has one): what the workers' machines take for the time does not matter.
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
// A time that the clocks of the zone skip, when they are put forward, is due an hour later; one that
// they show twice, when they are put back, is due twice.
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
	if _, ok := times.(cron.ConstantDelaySchedule); ok {
		return nil, invalid("schedule", "", "%q: an interval has no time zone", spec)
	}
	if times.Next(time.Now()).IsZero() {
		return nil, invalid("schedule", "", "%q is never due", spec)
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

// errNotYet means that the server refused to put a job that is not due by its clock.
var errNotYet = errors.New("not due yet")

// notYetBackoff says how long to wait before such a job is tried again.
var notYetBackoff = redisx.Backoff{First: 10 * time.Millisecond, Longest: time.Second}

// lookInterval bounds how long a worker trusts its own count of the server's time.
const lookInterval = time.Minute

// follow puts the jobs of a schedule until the worker stops.
func (w *Worker) follow(ctx context.Context, s *Schedule) {
	var last time.Time
	for failures := 0; ; {
		wait, err := w.putDue(ctx, s, &last)
		switch {
		case err == nil && wait < 0:
			return // it is never due again
		case err == nil:
			failures = 0
		case errors.Is(err, errNotYet):
			failures++
			wait = notYetBackoff.After(failures)
		default:
			failures++
			wait = redisx.WhileAway.After(failures)
			if failures == 1 && ctx.Err() == nil {
				w.log.Error("qless: a schedule can't be followed", "schedule", s.id, "error", err)
			}
		}
		if !w.idleFor(ctx, wait) {
			return
		}
	}
}

// idleFor waits; false when the worker stops or the context ends first.
func (w *Worker) idleFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.quit:
	case <-ctx.Done():
	}
	return false
}

// putDue puts the jobs that have fallen due after the last one, which it moves on. It returns how
// long to wait before the next look; less than 0 when the schedule is never due again. All times
// are the server's, so that it does not matter what this machine takes for the time.
func (w *Worker) putDue(ctx context.Context, s *Schedule, last *time.Time) (time.Duration, error) {
	stored, now, err := w.client.scheduledLast(ctx, s.id)
	if err != nil {
		return 0, err
	}
	looked := time.Now()
	*last = between(stored, *last, now)
	times, next := s.due(*last, now)
	for _, at := range times {
		err := w.client.putScheduled(ctx, s, at)
		if errors.Is(err, ErrInvalid) { // it would be refused again
			w.log.Error("qless: a scheduled job can't be put", "schedule", s.id, "due", at, "error", err)
		} else if err != nil {
			return 0, err
		}
		*last = at
	}
	if next.IsZero() {
		return -1, nil
	}
	return max(min(next.Sub(now), lookInterval)-time.Since(looked), time.Millisecond), nil
}

// between returns t, or the limit that it exceeds.
func between(earliest, t, latest time.Time) time.Time {
	if t.Before(earliest) {
		t = earliest
	}
	if t.After(latest) {
		t = latest
	}
	return t
}

// scheduledLast returns when a schedule was last due, and what time it is on the server.
func (c *Client) scheduledLast(ctx context.Context, id string) (last, now time.Time, err error) {
	const op = "schedule.last"
	reply, err := c.run(ctx, op, "", id)
	if err != nil {
		return last, now, err
	}
	times, err := decodeStrings(op, reply)
	if err != nil {
		return last, now, err
	}
	if len(times) == 2 {
		last, now = wire.AsNumber(times[0]).Time(), wire.AsNumber(times[1]).Time()
	}
	if last.IsZero() || now.IsZero() {
		return last, now, unexpected(op, reply)
	}
	return last, now, nil
}

// putScheduled puts the job of a time, unless another process did; errNotYet when the server says
// that it is not due.
func (c *Client) putScheduled(ctx context.Context, s *Schedule, at time.Time) error {
	jid := s.id + "@" + at.UTC().Format(time.RFC3339)
	p, err := newPut(s.queue, s.klass, s.data, append([]PutOption{JID(jid)}, s.options...))
	if err != nil {
		return err
	}
	reply, err := c.run(ctx, "schedule", p.options.jid, append([]any{s.id, wire.FormatTime(at)}, p.args(c.worker)...)...)
	if early, ok := reply.(int64); ok && early == 0 {
		return errNotYet
	}
	return err
}
