package qless

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A ScheduleInfo is a [Schedule] as the server knows it: what the worker that began to follow it
// last has registered, and who follows it. It is a snapshot.
type ScheduleInfo struct {
	// ID is the schedule's ID.
	ID string `json:"id"`

	// Spec says when it is due.
	Spec string `json:"spec"`

	// Zone is the time zone of the Spec. It is empty for an interval.
	Zone string `json:"zone,omitempty"`

	// Queue and Klass are those of its jobs.
	Queue string `json:"queue"`
	Klass string `json:"klass"`

	// Data is the data of its jobs. Only [Client.Schedule] reads it.
	Data json.RawMessage `json:"data,omitempty"`

	// OnMissed says what it does about times that were missed.
	OnMissed Missed `json:"on_missed"`

	// Last is the latest time for which a job was put, and LastJID the jid of that job.
	Last    time.Time `json:"last,omitzero"`
	LastJID string    `json:"last_jid,omitempty"`

	// Next is when it is due next. It is the zero time if this machine can't read the Spec, such as
	// when it does not know the Zone.
	Next time.Time `json:"next,omitzero"`

	// Overdue is how many times have passed for which no job was put yet, at most 1000. It is 0 as
	// long as a worker follows the schedule and can put its jobs.
	Overdue int `json:"overdue"`

	// Missed is how many times in all have got no job, because nobody followed the schedule and
	// OnMissed does not put it later. It is counted with the next job.
	Missed int `json:"missed"`

	// Since is when the schedule was registered first, and Seen when a worker looked at it last.
	Since time.Time `json:"since,omitzero"`
	Seen  time.Time `json:"seen,omitzero"`

	// Followers are the workers that follow it, by name. A worker that was killed is one of them
	// for up to three minutes. If there are none, no jobs are put.
	Followers []ScheduleFollower `json:"followers"`
}

// A ScheduleFollower is a worker that follows a schedule.
type ScheduleFollower struct {
	Worker string    `json:"worker"`
	Since  time.Time `json:"since,omitzero"` // when it began
	Seen   time.Time `json:"seen,omitzero"`  // when it looked last

	// Differs says that its schedule is another one than that of the ScheduleInfo, although both
	// have the same ID: its Spec, Missed, Queue, Klass, Data or Options. The jobs of both are put.
	Differs bool `json:"differs"`
}

// followed is how long a worker counts as following a schedule after it has looked at it. It is the
// same in lua/lib/schedules.lua.
const followed = 3 * lookInterval

// maxOverdue is up to where Overdue is counted.
const maxOverdue = 1000

// maxScheduleSize is how many bytes the data and the options of a schedule may have that are
// registered, so that [Client.RunSchedule] can put its job.
const maxScheduleSize = 64 << 10

// schedulesAtOnce is how many schedules a script reads.
const schedulesAtOnce = 100

// Schedules returns the schedules that workers have registered, by ID, without their Data. A
// schedule is registered when a worker starts, and stays until [Client.ForgetSchedule]. It reads 100
// in a step, or fewer if many workers follow them.
func (c *Client) Schedules(ctx context.Context, r Range) (Page[ScheduleInfo], error) {
	offset, limit, err := r.bounds("schedules")
	if err != nil {
		return Page[ScheduleInfo]{}, err
	}
	page := Page[ScheduleInfo]{Items: []ScheduleInfo{}}
	for {
		read := len(page.Items)
		n := min(limit-read, schedulesAtOnce)
		reply, err := c.readSchedules(ctx, strconv.Itoa(offset+read), strconv.Itoa(n))
		if err != nil {
			return Page[ScheduleInfo]{}, err
		}
		page.Total = reply.Total.Int()
		for i := range reply.Items {
			page.Items = append(page.Items, reply.Items[i].info(reply.Now.Time()))
		}
		if len(reply.Items) == 0 || len(page.Items) == limit || offset+len(page.Items) >= page.Total {
			return page, nil
		}
	}
}

// Schedule returns a schedule that workers have registered, or [ErrNotFound].
func (c *Client) Schedule(ctx context.Context, id string) (*ScheduleInfo, error) {
	item, now, err := c.readSchedule(ctx, id)
	if err != nil {
		return nil, err
	}
	info := item.info(now)
	if data := item.field(fieldData); data != "" {
		info.Data, _ = c.decode("", "data", data) // what can't be decoded stays as it is
		info.Data = shownJSON(info.Data)
	}
	return &info, nil
}

// RunSchedule puts a job of a schedule at once, in addition to those that it puts by itself: when
// it is due next, and what was missed, stays as it is. The job is as the schedule's last worker has
// registered it, with its data and options but without a delay. Its jid, which RunSchedule returns,
// is <ID>@run-<random>, unless the schedule's options set one.
//
// Nobody needs to follow the schedule. If its data and options have more than 64 KiB together, they
// are not registered, and the error is [ErrInvalid]. If there is no such schedule, it is
// [ErrNotFound], and [ErrExists] if an option refuses the job.
func (c *Client) RunSchedule(ctx context.Context, id string) (jid string, err error) {
	item, _, err := c.readSchedule(ctx, id)
	if err != nil {
		return "", err
	}
	var pairs []string
	if json.Unmarshal([]byte(item.field(fieldPairs)), &pairs) != nil {
		return "", invalid("put", "", "schedule %q: its data and options have more than %d bytes, "+
			"so that they are not registered", id, maxScheduleSize)
	}
	jid = item.field(fieldOnly)
	if jid == "" {
		jid = id + "@run-" + newJID()
	}
	queue, klass := item.field(fieldQueue), item.field(fieldKlass)
	args := []any{c.worker, queue, jid, klass, item.field(fieldData), "0", "checked", "1"}
	call := Call{Command: "put", Queue: queue, Klass: klass, JID: jid, Count: 1}
	ctx, done := c.beginCall(ctx, call)
	defer func() { done(jid, err) }()
	reply, err := c.run(ctx, "put", jid, anys(args, c.addHeadersTo(ctx, pairs)...)...)
	if found, there := foundBy(reply); there {
		found.holds = found.jid != jid
		return found.answer(err)
	}
	return jid, err
}

// addHeadersTo gives the headers of [WithHeaders] to the options of a job to be put. Those that it
// has win.
func (c *Client) addHeadersTo(ctx context.Context, pairs []string) []string {
	if c.headerFuncs == nil {
		return pairs
	}
	headers := c.safeHeadersFor(ctx)
	for i := 0; i+1 < len(pairs); i += 2 {
		switch {
		case pairs[i] == "drop" && strings.Contains(pairs[i+1], "h"):
			return pairs
		case pairs[i] == "o" && len(headers) > 0:
			stored := parseJobOptions(pairs[i+1])
			maps.Copy(headers, stored.Headers)
			stored.Headers = headers
			pairs[i+1] = stored.text()
			return pairs
		}
	}
	if len(headers) == 0 {
		return pairs
	}
	own := jobOptions{Headers: headers}
	return append(pairs, "o", own.text())
}

// ForgetSchedule removes a schedule that nobody follows any more, and when it was last due. The
// jobs that it has put stay. If a worker follows it, the error is [ErrFollowed], because it would
// come back; a worker that was killed counts for three minutes. If there is no such schedule, it is
// [ErrNotFound].
func (c *Client) ForgetSchedule(ctx context.Context, id string) error {
	const op = "schedule.forget"
	if err := checkName(op, "schedule ID", id); err != nil {
		return err
	}
	reply, err := c.run(ctx, op, "", id)
	if err != nil {
		return err
	}
	switch reply {
	case "forgotten":
		return nil
	case "followed":
		return &Error{Op: op, Code: CodeFollowed, Message: "a worker follows the schedule " + id}
	case "unknown":
		return noSchedule(op, id)
	}
	return unexpected(op, reply)
}

func noSchedule(op, id string) error {
	return &Error{Op: op, Code: CodeNotFound, Message: "no such schedule: " + id}
}

// The fields of a schedule in a reply, by their places.
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
	fieldPairs
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

func (c *Client) readSchedules(ctx context.Context, args ...any) (schedulesReply, error) {
	reply, err := c.run(ctx, "schedules", "", args...)
	if err != nil {
		return schedulesReply{}, err
	}
	return decode[schedulesReply]("schedules", reply)
}

// readSchedule returns a single schedule, and the server's time.
func (c *Client) readSchedule(
	ctx context.Context, id string,
) (item *scheduleReply, now time.Time, err error) {
	if err := checkName("schedules", "schedule ID", id); err != nil {
		return nil, now, err
	}
	reply, err := c.readSchedules(ctx, id)
	if err != nil {
		return nil, now, err
	}
	if len(reply.Items) == 0 {
		return nil, now, noSchedule("schedules", id)
	}
	return &reply.Items[0], reply.Now.Time(), nil
}

// field returns a field, empty if it is not there.
func (r *scheduleReply) field(place int) string {
	if place >= len(r.Fields) {
		return ""
	}
	return string(r.Fields[place])
}

func (r *scheduleReply) time(place int) time.Time { return wire.AsNumber(r.field(place)).Time() }

// info returns what is known at a time.
func (r *scheduleReply) info(now time.Time) ScheduleInfo {
	info := ScheduleInfo{
		ID:       string(r.ID),
		Spec:     r.field(fieldSpec),
		Zone:     zoneOf(r.field(fieldSpec)),
		Queue:    r.field(fieldQueue),
		Klass:    r.field(fieldKlass),
		OnMissed: Missed(r.field(fieldOnMissed)),
		Last:     r.time(fieldLast),
		LastJID:  r.field(fieldJID),
		Missed:   wire.AsNumber(r.field(fieldMissed)).Int(),
		Since:    r.time(fieldSince),
		Seen:     r.time(fieldSeen),
	}
	info.Followers = r.followers(now)
	info.foresee(r.Due.Time(), now)
	return info
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
	slices.SortFunc(all, func(a, b ScheduleFollower) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}

// foresee finds out when the schedule is due next, and how often it has been due since it was last.
func (s *ScheduleInfo) foresee(due, now time.Time) {
	times, err := parseSpec(s.Spec)
	if err != nil {
		return
	}
	s.Next = times.Next(now).Local() // as all times
	if s.OnMissed == MissedSkip && s.Seen.After(due) {
		due = s.Seen // what it skipped before is not put any more
	}
	if due.IsZero() {
		return
	}
	late := now.Add(-lateness)
	for at := times.Next(due); !at.IsZero() && at.Before(late) && s.Overdue < maxOverdue; {
		s.Overdue++
		at = times.Next(at)
	}
}

// zoneOf returns the time zone of a spec.
func zoneOf(spec string) string {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(spec, prefix); ok {
			zone, _, _ := strings.Cut(rest, " ")
			return zone
		}
	}
	if spec == "" || strings.HasPrefix(spec, "@every ") {
		return ""
	}
	return "UTC"
}

// A registration is what a worker registers of a schedule.
type registration struct {
	digest string
	args   []any // of the script
}

// registrationOf returns what is registered of a schedule, or nil if it can't put its job.
func (c *Client) registrationOf(s *schedule) *registration {
	p, err := newPut(s.Queue, s.Klass, s.Data, append([]PutOption{givenJID(s.ID + "@")}, s.Options...))
	if err != nil {
		return nil
	}
	only := ""
	if p.options.named {
		only = p.options.jid
	}
	onMissed := s.Missed
	if onMissed == "" {
		onMissed = MissedOnce
	}
	pairs, err := json.Marshal(p.optionArgs([]any{}))
	if err != nil {
		return nil
	}
	fields := []string{s.Spec, string(onMissed), s.Queue, s.Klass, only}
	digest := digestOf(append(fields, p.data, string(pairs))...)
	if err := c.encodePut(p); err != nil {
		return nil
	}
	data, options := p.data, string(pairs)
	if len(data)+len(options) > maxScheduleSize {
		data, options = "", ""
	}
	args := anys([]any{s.ID, digest}, append(fields, data, options)...)
	return &registration{digest: digest, args: args}
}

// digestOf returns a short text that stands for some others.
func digestOf(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		hash.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// register registers a schedule if the server wants that, by its answer about the last time. Jobs
// are put even if that fails.
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

// leaveSchedules says that the worker follows its schedules no more. Should that fail, the server
// finds out by itself.
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
