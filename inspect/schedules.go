package inspect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/cron"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/wire"
)

// A ScheduleInfo is a [qless.Schedule] with its followers, as registered by the worker that began
// to follow it last.
type ScheduleInfo struct {
	ID       string          `json:"id"`
	When     string          `json:"when"`
	Zone     string          `json:"zone,omitempty"` // the time zone; empty for an interval
	Queue    string          `json:"queue"`
	Klass    string          `json:"klass"`
	Data     json.RawMessage `json:"data,omitempty"` // of its jobs: see Inspector.Schedule
	OnMissed qless.Missed    `json:"on_missed"`

	// Last is the latest time for which a job was put, and LastJID the jid of that job.
	Last    time.Time `json:"last,omitzero"`
	LastJID string    `json:"last_jid,omitempty"`

	// Next is the next due time. It is zero if this machine can't read When, for example because the
	// Zone is unknown.
	Next time.Time `json:"next,omitzero"`

	// Overdue is the number of due times that have passed without a job so far, at most 1000. It is 0
	// while a worker follows the schedule and can put its jobs.
	Overdue int `json:"overdue"`

	// Missed is the number of due times without a job, because no worker followed the schedule and
	// OnMissed does not put the job later. It is updated with the next job.
	Missed int `json:"missed"`

	Since time.Time `json:"since,omitzero"` // when the schedule was first registered
	Seen  time.Time `json:"seen,omitzero"`  // when a worker last checked the schedule

	// Followers are the workers that follow the schedule, by name. Without followers, no jobs are put.
	// A killed worker is listed for up to three minutes.
	Followers []ScheduleFollower `json:"followers"`
}

// ErrFollowed is the error code for a schedule that can't be forgotten because a worker follows it.
const ErrFollowed qless.Code = "followed"

// A ScheduleFollower is a worker that follows a schedule.
type ScheduleFollower struct {
	Worker string    `json:"worker"`
	Since  time.Time `json:"since,omitzero"` // when the worker began
	Seen   time.Time `json:"seen,omitzero"`  // when the worker last checked the schedule

	// Differs reports that the worker's schedule differs from the registered one with the same ID in
	// When, Missed, Queue, Klass, Data or Options. The jobs of both are put.
	Differs bool `json:"differs"`
}

// followed is how long a worker counts as a follower after checking a schedule. It is the same in
// lua/lib/schedules.lua.
const followed = 3 * cron.CheckInterval

// maxOverdue is the maximum of Overdue.
const maxOverdue = 1000

// schedulesAtOnce is the number of schedules that a script reads.
const schedulesAtOnce = 100

// Schedules returns the schedules registered by workers, sorted by ID, without their data. A
// schedule is registered when a worker starts, and stays until [Inspector.ForgetSchedule].
// Schedules are read 100 at a time, or fewer if many workers follow them.
func (in *Inspector) Schedules(ctx context.Context, r Range) (Page[ScheduleInfo], error) {
	offset, limit, err := r.bounds("schedules")
	if err != nil {
		return Page[ScheduleInfo]{}, err
	}
	page := Page[ScheduleInfo]{Items: []ScheduleInfo{}}
	for {
		read := len(page.Items)
		reply, err := do[schedulesReply](ctx, in.client, "schedules", offset+read,
			min(limit-read, schedulesAtOnce))
		if err != nil {
			return Page[ScheduleInfo]{}, err
		}
		page.Total = reply.Total.Int()
		for i := range reply.Items {
			page.Items = append(page.Items, reply.Items[i].schedule(reply.Now.Time()))
		}
		if len(reply.Items) == 0 || len(page.Items) == limit || offset+len(page.Items) >= page.Total {
			return page, nil
		}
	}
}

// Schedule returns a registered schedule with its data, or [qless.ErrNotFound].
// [Inspector.RunSchedule] puts its job.
func (in *Inspector) Schedule(ctx context.Context, id string) (*ScheduleInfo, error) {
	reply, err := in.registered(ctx, id)
	if err != nil {
		return nil, err
	}
	s := reply.Items[0].schedule(reply.Now.Time())
	if data := reply.Items[0].field(fieldData); data != "" {
		s.Data, _ = in.client.Decode([]byte(data)) // undecodable data stays unchanged
		s.Data = shownJSON(s.Data)
	}
	return &s, nil
}

// registered reads a schedule, the only item of the reply.
func (in *Inspector) registered(ctx context.Context, id string) (reply schedulesReply, err error) {
	const command = "schedules"
	if err := checkName(command, "schedule ID", id); err != nil {
		return reply, err
	}
	reply, err = do[schedulesReply](ctx, in.client, command, id)
	if err == nil && len(reply.Items) == 0 {
		err = noSchedule(command, id)
	}
	return reply, err
}

// RunSchedule puts a job of a schedule at once, in addition to its regular jobs: its next due time
// and its missed times stay unchanged. The job has the data and options registered by the
// schedule's last worker, but no delay. RunSchedule returns the jid, which is <ID>@run-<random>
// unless the schedule's options set one.
//
// The schedule needs no followers. If its data and options exceed 64 KiB together, they are not
// registered, and the error is [qless.ErrInvalid]. For an unknown schedule, the error is
// [qless.ErrNotFound]; if an option refuses the job, [qless.ErrExists].
func (in *Inspector) RunSchedule(ctx context.Context, id string) (jid string, err error) {
	reply, err := in.registered(ctx, id)
	if err != nil {
		return "", err
	}
	s := &reply.Items[0]
	var pairs []string
	if json.Unmarshal([]byte(s.field(fieldPairs)), &pairs) != nil {
		return "", invalid("put", "schedule %q: its data and options have more than 64 KiB, "+
			"so that they are not registered", id)
	}
	if jid = s.field(fieldOnly); jid == "" {
		jid = id + "@run-" + strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	return inside.PutStored(ctx, in.client, s.field(fieldQueue), jid, s.field(fieldKlass),
		s.field(fieldData), pairs)
}

// ForgetSchedule removes a schedule without followers. Its jobs are kept. A schedule with a
// follower would come back: the error is [ErrFollowed].
func (in *Inspector) ForgetSchedule(ctx context.Context, id string) error {
	const command = "schedule.forget"
	if err := checkName(command, "schedule ID", id); err != nil {
		return err
	}
	reply, err := in.client.Do(ctx, command, id)
	if err != nil {
		return err
	}
	switch reply {
	case "forgotten":
		return nil
	case "followed":
		return &qless.Error{
			Op: command, Code: ErrFollowed, Message: "a worker follows the schedule " + id,
		}
	case "unknown":
		return noSchedule(command, id)
	}
	return unexpected(command, reply)
}

func noSchedule(command, id string) error {
	return &qless.Error{Op: command, Code: qless.ErrNotFound, Message: "no such schedule: " + id}
}

// shownJSON returns data that is not JSON as a JSON string.
func shownJSON(data json.RawMessage) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	text, err := json.Marshal(string(data))
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// The fields of a schedule in a reply, by place.
const (
	fieldSpec = iota
	fieldOnMissed
	fieldQueue
	fieldKlass
	fieldDigest
	fieldSince
	fieldSeen
	fieldLast
	fieldJID
	fieldMissed
	fieldOnly // of a single schedule, from here on
	fieldData
	fieldPairs // its options
)

type schedulesReply struct {
	Now   wire.Number              `json:"now"`
	Total wire.Number              `json:"total"`
	Items wire.List[scheduleReply] `json:"items"`
}

type scheduleReply struct {
	ID        wire.Text            `json:"id"`
	Due       wire.Number          `json:"due"`
	Followers wire.List[wire.Text] `json:"followers"`
	Fields    wire.List[wire.Text] `json:"fields"`
}

// field returns a field, or the empty string if it is missing.
func (r *scheduleReply) field(place int) string {
	if place >= len(r.Fields) {
		return ""
	}
	return string(r.Fields[place])
}

func (r *scheduleReply) time(place int) time.Time { return wire.AsNumber(r.field(place)).Time() }

// schedule returns the schedule at a time.
func (r *scheduleReply) schedule(now time.Time) ScheduleInfo {
	s := ScheduleInfo{
		ID:       string(r.ID),
		When:     r.field(fieldSpec),
		Zone:     cron.Zone(r.field(fieldSpec)),
		Queue:    r.field(fieldQueue),
		Klass:    r.field(fieldKlass),
		OnMissed: qless.Missed(r.field(fieldOnMissed)),
		Last:     r.time(fieldLast),
		LastJID:  r.field(fieldJID),
		Missed:   wire.AsNumber(r.field(fieldMissed)).Int(),
		Since:    r.time(fieldSince),
		Seen:     r.time(fieldSeen),
	}
	s.Followers = r.followers(now)
	s.foresee(r.Due.Time(), now)
	return s
}

// followers returns the workers that follow the schedule, by name.
func (r *scheduleReply) followers(now time.Time) []ScheduleFollower {
	all := []ScheduleFollower{}
	for i := 0; i+1 < len(r.Followers); i += 2 {
		parts := strings.Fields(string(r.Followers[i+1]))
		if len(parts) != 3 {
			continue
		}
		f := ScheduleFollower{
			Worker:  string(r.Followers[i]),
			Since:   wire.AsNumber(parts[0]).Time(),
			Seen:    wire.AsNumber(parts[1]).Time(),
			Differs: parts[2] != r.field(fieldDigest),
		}
		if now.Sub(f.Seen) < followed {
			all = append(all, f)
		}
	}
	byWorker := func(a, b ScheduleFollower) int { return strings.Compare(a.Worker, b.Worker) }
	slices.SortFunc(all, byWorker)
	return all
}

// NextRuns returns up to n due times of the schedule after a time, or none if this machine can't
// read When.
func (s *ScheduleInfo) NextRuns(after time.Time, n int) []time.Time {
	var all []time.Time
	times, err := cron.Parse(s.When)
	if err != nil {
		return nil
	}
	for after = times.Next(after); !after.IsZero() && len(all) < n; after = times.Next(after) {
		all = append(all, after.Local())
	}
	return all
}

// foresee sets Next and Overdue.
func (s *ScheduleInfo) foresee(due, now time.Time) {
	times, err := cron.Parse(s.When)
	if err != nil {
		return
	}
	s.Next = times.Next(now).Local() // like all times
	if s.OnMissed == qless.MissedSkip && s.Seen.After(due) {
		due = s.Seen // no jobs are put for times skipped before
	}
	if due.IsZero() {
		return
	}
	late := now.Add(-cron.Lateness)
	for at := times.Next(due); !at.IsZero() && at.Before(late) && s.Overdue < maxOverdue; {
		s.Overdue++
		at = times.Next(at)
	}
}
