package qless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/cron"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// Missed is the policy of a [Schedule] for times without a worker to follow it.
type Missed string

// The values of Missed.
const (
	// MissedOnce, the default, puts one job, for the latest such time.
	MissedOnce Missed = "once"

	// MissedAll puts a job for each such time, up to the last 100.
	MissedAll Missed = "all"

	// MissedSkip puts no jobs.
	MissedSkip Missed = "skip"
)

// maxMissed is the maximum number of missed jobs put by MissedAll.
const maxMissed = 100

// A Schedule puts a job into a queue at certain times, while a worker with the schedule in its
// [WorkerConfig] is running. One job is put for each time, by the server's clock, however many
// workers there are.
//
// Unlike a recurring job ([Queue.Recur]), a schedule needs a running worker, and knows calendars
// and time zones.
type Schedule struct {
	// ID names the schedule on the server. Keep the ID when you change the schedule. The jid of
	// each job is <ID>@<time>, unless the Job has a [JID].
	ID string

	// When determines when the schedule is due, in one of these forms:
	//
	//	"30 6 * * 1-5"                       minute, hour, day, month, weekday
	//	"CRON_TZ=Europe/Berlin 30 6 * * *"   in a time zone; else in UTC
	//	"@hourly", "@daily", "@weekly"       and so on
	//	"@every 90s"                         at whole multiples of 90 s since 1970
	//
	// If both day and weekday are restricted, either may match, as in POSIX. A time that does not
	// exist, because clocks in the zone are put forward, is due when that happens. A time that occurs
	// twice, because clocks are put back, is due twice.
	When string

	// Queue is the queue of the jobs.
	Queue string

	// Job describes the jobs: see [Klass.Spec].
	Job JobSpec

	// Missed is the policy for times without a worker to follow the schedule.
	//
	// Defaults to [MissedOnce].
	Missed Missed
}

// A schedule is a checked Schedule.
type schedule struct {
	Schedule
	times cron.Schedule
	again hub.Signal // look again at once: the clock may have moved

	registration *registration // nil if the job can't be put
	unregistered bool          // the registration has failed
	reported     bool          // that another worker follows another schedule with the same ID

	mu     sync.Mutex
	looked time.Time // when the last check began
	next   time.Time // the next due time, by the server's clock
}

// setLooked records when a check of the schedule began, and the next due time.
func (s *schedule) setLooked(looked, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked, s.next = looked, next
}

// ScheduleStatus describes how a worker follows a schedule.
type ScheduleStatus struct {
	ID string `json:"id"`

	// Checked is when the worker last checked whether the schedule was due, by this machine's clock;
	// zero before the first check.
	Checked time.Time `json:"checked,omitzero"`

	// Next is when the schedule is due next, by the server's clock; zero if that is never, or
	// not known yet.
	Next time.Time `json:"next,omitzero"`
}

func (s *schedule) status() ScheduleStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ScheduleStatus{ID: s.ID, Checked: s.looked, Next: s.next}
}

// newSchedules checks the schedules of a worker.
func newSchedules(given []Schedule) ([]*schedule, error) {
	var schedules []*schedule
	ids := map[string]bool{}
	for i, s := range given {
		if s.ID == "" {
			return nil, badConfig("Schedules[%d]: the ID is empty", i)
		}
		if ids[s.ID] {
			return nil, badConfig("Schedules[%d]: two schedules have the ID %q", i, s.ID)
		}
		ids[s.ID] = true
		checked, err := newSchedule(s)
		if err != nil {
			return nil, err
		}
		schedules = append(schedules, checked)
	}
	return schedules, nil
}

// newSchedule checks a schedule. Errors begin with the schedule's ID.
func newSchedule(s Schedule) (*schedule, error) {
	times, err := cron.Parse(s.When)
	if err == nil {
		err = checkName("schedule", "ID", s.ID)
	}
	if err == nil && !slices.Contains([]Missed{"", MissedOnce, MissedAll, MissedSkip}, s.Missed) {
		err = fmt.Errorf("Missed %q is unknown", s.Missed)
	}
	if err == nil {
		_, err = newPut(s.Queue, s.Job)
	}
	if err == nil {
		return &schedule{Schedule: s, times: times, again: hub.NewSignal()}, nil
	}
	message := err.Error()
	var cause *Error
	if errors.As(err, &cause) {
		message = cause.Message // without the random jid of a job that was not put
	}
	return nil, &Error{Op: "work", Code: ErrInvalid, Err: err,
		Message: fmt.Sprintf("schedule %q: %s", s.ID, message)}
}

// due returns the times in (last, now] for which to put a job, oldest first, the next time after
// now, and the number of times without a job.
func (s *schedule) due(last, now time.Time) (times []time.Time, next time.Time, missed int) {
	next = s.times.Next(last)
	for !next.IsZero() && !next.After(now) {
		times = append(times, next)
		if len(times) > maxMissed {
			times = times[1:]
		}
		next = s.times.Next(next)
		missed++
	}
	if len(times) == 0 {
		return nil, next, 0
	}
	late := now.Sub(times[len(times)-1]) > cron.Lateness
	switch {
	case s.Missed == MissedAll:
	case s.Missed == MissedSkip && late:
		times = nil
	default:
		times = times[len(times)-1:]
	}
	return times, next, missed - len(times)
}

// errNotYet: a job is not due yet by the server's clock.
var errNotYet = errors.New("not due yet")

// notYetBackoff is how long to wait before trying such a job again.
var notYetBackoff = redisx.Backoff{First: 10 * time.Millisecond, Longest: time.Second}

// follow puts the jobs of a schedule until the worker stops.
func (w *Worker) follow(ctx context.Context, s *schedule) {
	var last time.Time
	var wait time.Duration
	_ = guard.Call(func() { s.registration = w.client.registrationOf(s) })
	for failures := 0; ; {
		err := guard.Try(func() (err error) { wait, err = w.putDue(ctx, s, &last); return err })
		switch {
		case err == nil && wait < 0:
			return // never due again
		case err == nil:
			failures = 0
		case errors.Is(err, errNotYet):
			failures++
			wait = notYetBackoff.After(failures)
		default:
			failures++
			wait = redisx.WhileAway.After(failures)
			if failures == 1 && ctx.Err() == nil {
				w.log.cantFollow(s, err)
			}
		}
		if !w.idleFor(ctx, wait, s.again) {
			return
		}
	}
}

// recheck makes each schedule check whether it is due, and triggers other periodic work.
func (w *Worker) recheck() {
	w.registry.again.Notify()
	w.rates.Ask()
	for _, s := range w.schedules {
		s.again.Notify()
	}
}

// idleFor waits for a time, or for a signal, and returns false if the worker stops or the context
// ends first.
func (w *Worker) idleFor(ctx context.Context, d time.Duration, again hub.Signal) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-again:
		return true
	case <-w.shutdown.stopping.c:
	case <-ctx.Done():
	}
	return false
}

// putDue puts the jobs that have fallen due since last, updates last, and returns how long to wait
// before looking again, or a negative duration if the schedule is never due again. All times are
// the server's, so that this machine's clock does not matter.
func (w *Worker) putDue(ctx context.Context, s *schedule, last *time.Time) (time.Duration, error) {
	began := time.Now()
	stored, now, answer, err := w.client.scheduledLast(ctx, s)
	if err != nil {
		return 0, err
	}
	looked := time.Now()
	w.register(ctx, s, answer)
	*last = between(stored, *last, now)
	times, next, missed := s.due(*last, now)
	for i, at := range times {
		if i > 0 {
			missed = 0 // counted with the first
		}
		err := w.client.putScheduled(ctx, s, at, missed)
		if errors.Is(err, ErrInvalid) { // it would be refused again
			w.log.cantPut(s, at, err)
		} else if err != nil {
			return 0, err
		}
		*last = at
	}
	s.setLooked(began, next)
	if next.IsZero() {
		return -1, nil
	}
	wait := min(next.Sub(now), cron.CheckInterval) - time.Since(looked)
	return max(wait, time.Millisecond), nil
}

// between returns t, or the limit if t is beyond one.
func between(earliest, t, latest time.Time) time.Time {
	if t.Before(earliest) {
		t = earliest
	}
	if t.After(latest) {
		t = latest
	}
	return t
}

// scheduledLast records that this worker follows a schedule, and returns the last due time, the
// server's time, and the answer about the registration.
func (c *Client) scheduledLast(
	ctx context.Context, s *schedule,
) (last, now time.Time, answer string, err error) {
	const op = "schedule.last"
	args := []any{s.ID}
	if s.registration != nil {
		args = append(args, c.worker, s.registration.digest)
	}
	reply, err := c.run(ctx, op, "", args...)
	if err != nil {
		return last, now, "", err
	}
	texts, err := decodeStrings(op, reply)
	if err != nil {
		return last, now, "", err
	}
	if len(texts) == 3 {
		last, now = wire.AsNumber(texts[0]).Time(), wire.AsNumber(texts[1]).Time()
		answer = texts[2]
	}
	if last.IsZero() || now.IsZero() {
		return last, now, "", unexpected(op, reply)
	}
	return last, now, answer, nil
}

// putScheduled puts the job for a time, unless another process has done so, and counts the times
// before it that were missed. It returns errNotYet if the job is not due yet by the server's clock.
func (c *Client) putScheduled(ctx context.Context, s *schedule, at time.Time, missed int) error {
	jid := s.ID + "@" + at.UTC().Format(time.RFC3339)
	p, err := newPutOf(jid, s.Queue, s.Job)
	if err != nil {
		return err
	}
	if err := c.prepare(ctx, p); err != nil {
		return err
	}
	args := append([]any{s.ID, wire.FormatTime(at), strconv.Itoa(missed)}, p.args(c.worker)...)
	reply, err := c.run(ctx, "schedule", p.jid, args...)
	if early, ok := reply.(int64); ok && early == 0 {
		return errNotYet
	}
	return err
}

// maxScheduleSize is the maximum size in bytes of the data and options of a schedule that are
// registered, so that package inspect can put the job.
const maxScheduleSize = 64 << 10

// putStored puts a job with encoded data, pairs of stored options, and the Headers of the config.
func (c *Client) putStored(
	ctx context.Context, queue, jid, klass, data string, pairs []string,
) (_ string, err error) {
	args := []any{c.worker, queue, jid, klass, data, "0", "checked", "1"}
	call := Command{Name: "put", Queue: queue, Klass: klass, JID: jid, Count: 1}
	ctx, done := c.beginCall(ctx, call)
	defer func() { done(jid, err) }()
	if pairs, err = c.addHeadersTo(ctx, pairs); err != nil {
		return "", invalid("put", jid, "Headers: %s", err)
	}
	reply, err := c.run(ctx, "put", jid, wire.Anys(args, pairs...)...)
	if found, there := conflictIn(reply); there {
		found.holds = found.jid != jid
		return found.answer(err)
	}
	return jid, err
}

// addHeadersTo adds the Headers of the config to the options of a job to be put. The job's own take
// precedence.
func (c *Client) addHeadersTo(ctx context.Context, pairs []string) ([]string, error) {
	if c.headers == nil {
		return pairs, nil
	}
	headers, err := c.headers(ctx)
	if len(headers) == 0 {
		return pairs, err
	}
	headers = maps.Clone(headers)
	for i := 0; i+1 < len(pairs); i += 2 {
		switch {
		case pairs[i] == "drop" && strings.Contains(pairs[i+1], "h"):
			return pairs, nil
		case pairs[i] == "o":
			stored := jobopts.Parse(pairs[i+1])
			maps.Copy(headers, stored.Headers)
			stored.Headers = headers
			pairs[i+1] = stored.Text()
			return pairs, nil
		}
	}
	own := jobopts.Options{Headers: headers}
	return append(pairs, "o", own.Text()), nil
}

// A registration holds a worker's data about a schedule.
type registration struct {
	digest string
	args   []any // of the script
}

// registrationOf returns the registration of a schedule, or nil if the job can't be put.
func (c *Client) registrationOf(s *schedule) *registration {
	p, err := newPutOf(s.ID+"@", s.Queue, s.Job)
	if err != nil {
		return nil
	}
	onMissed := s.Missed
	if onMissed == "" {
		onMissed = MissedOnce
	}
	pairs, err := json.Marshal(p.options.PutArgs([]any{}, p.isNew))
	if err != nil {
		return nil
	}
	fields := []string{s.When, string(onMissed), s.Queue, s.Job.Klass, p.options.JID}
	digest := wire.Digest(append(fields, p.data, string(pairs))...)
	if err := c.encodePut(p); err != nil {
		return nil
	}
	data, options := p.data, string(pairs)
	if len(data)+len(options) > maxScheduleSize {
		data, options = "", ""
	}
	args := wire.Anys([]any{s.ID, digest}, append(fields, data, options)...)
	return &registration{digest: digest, args: args}
}

// register registers a schedule if the server's answer about the last time asks for it. Jobs are
// put even if that fails.
func (w *Worker) register(ctx context.Context, s *schedule, answer string) {
	if answer == "differs" && !s.reported && !s.unregistered {
		s.reported = true
		w.log.followedDifferently(s)
	}
	if answer == "register" || s.unregistered {
		_, err := w.client.run(ctx, "schedule.register", "", s.registration.args...)
		s.unregistered = err != nil
	}
}

// leaveSchedules removes the worker from the followers of its schedules. If that fails, the server
// notices by itself.
func (w *Worker) leaveSchedules(ctx context.Context) {
	if len(w.schedules) == 0 {
		return
	}
	args := []any{w.Name()}
	for _, s := range w.schedules {
		args = append(args, s.ID)
	}
	_, _ = w.client.run(ctx, "schedule.leave", "", args...)
}
