package actions

import (
	"context"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// queueActions returns the actions on queues.
func queueActions() []*Info {
	queue := subject("queue", "Queue")
	return []*Info{
		{
			Name: "queue.pause", Label: "Pause", Done: "The queue is paused.",
			Fields: []Field{queue}, Action: onQueues((*qless.Queue).Pause),
		},
		{
			Name: "queue.resume", Label: "Resume", Done: "The queue is open.",
			Fields: []Field{queue}, Action: onQueues((*qless.Queue).Resume),
		},
		{
			Name: "queue.forget", Label: "Forget", Done: "The queue is forgotten.", Destructive: true,
			Hint:   "It leaves the list of queues until a job is put into it. It must have no jobs.",
			Fields: []Field{queue}, Action: single(func(ctx context.Context, r *Run) error {
				return inspect.New(r.Space.Client).ForgetQueue(ctx, r.queue().Name())
			}),
		},
		{
			Name: "queue.max_concurrency", Label: "Set concurrency", Done: "The concurrency is set.",
			Fields: []Field{queue, {Name: "value", Label: "Jobs at once", Kind: Number,
				Hint: "0 means any number."}},
			Fill: fillSettings(fillConcurrency).fill,
			Action: single(func(ctx context.Context, r *Run) error {
				return r.queue().SetMaxConcurrency(ctx, r.Form.number("value"))
			}),
		},
		{
			Name: "queue.heartbeat", Label: "Set heartbeat", Done: "The heartbeat is set.",
			Fields: []Field{queue, {Name: "value", Label: "Locks last", Kind: Duration,
				Hint: "0 removes the queue's own setting."}},
			Fill: fillSettings(fillHeartbeat).fill, Action: single(func(ctx context.Context, r *Run) error {
				return r.queue().SetHeartbeat(ctx, r.Form.duration("value"))
			}),
		},
		{
			Name: "queue.max_rate", Label: "Set rate", Done: "The rate is set.",
			Fields: []Field{queue,
				{Name: "value", Label: "Jobs started", Kind: Number, Hint: "0 means any number."},
				{Name: "per", Label: "In each", Kind: Duration, Optional: true}},
			Fill: fillSettings(fillRate).fill, Action: checked{setRate, checkRate},
		},
		{
			Name: "queue.unfail", Label: "Retry a failure group here", Done: "put into the queue",
			Hint: "Jobs of the group go into this queue, the oldest failures first, with fresh retries.",
			Fields: []Field{queue,
				{Name: "group", Label: "Failure group", Kind: Text},
				{Name: "count", Label: "At most", Kind: Number, Hint: "10,000 at most."}},
			IsLong: func(_ *Space, f *Form) bool { return f.number("count") > doneAtOnce },
			Action: unfail{},
		},
	}
}

// queue returns the queue named by a form.
func (r *Run) queue() *qless.Queue { return r.Space.Client.Queue(r.Form.Get("queue")) }

// onQueues is an action on one or several queues.
type onQueues func(q *qless.Queue, ctx context.Context) error

func (onQueues) Check(*Form) {}

func (do onQueues) Do(
	ctx context.Context, r *Run, _ []*qless.Job,
) (done inspect.Repair, err error) {
	names := r.Form.Values["queue"]
	if r.Form.Has(allQueues) {
		known, err := r.Space.Client.Queues(ctx)
		if err != nil {
			return done, err
		}
		names = nil
		for i := range known {
			names = append(names, known[i].Name)
		}
	}
	for _, name := range names {
		if err := do(r.Space.Client.Queue(name), ctx); err != nil {
			return done, err
		}
		done.Changed++
	}
	return done, nil
}

func checkRate(f *Form) {
	if f.number("value") > 0 && f.duration("per") == 0 {
		f.Refuse("per", isNeeded)
	}
}

func setRate(ctx context.Context, r *Run) error {
	return r.queue().SetMaxRate(ctx, r.Form.number("value"), r.Form.duration("per"))
}

// maxUnfail is the maximum number of jobs put into a queue at once.
const maxUnfail = 10_000

// An unfail puts jobs of a failure group into a queue.
type unfail struct{}

func (unfail) Check(f *Form) {
	if n := f.number("count"); n < 1 || n > maxUnfail {
		f.Refuse("count", "This has to be from 1 to %d.", maxUnfail)
	}
}

func (unfail) Do(ctx context.Context, r *Run, _ []*qless.Job) (inspect.Repair, error) {
	before := 0
	failed := r.Space.Failed(r.Form.Get("group")).AtMost(r.Form.number("count"))
	_, err := failed.OnStep(func(soFar inspect.Repair) error {
		r.add(inspect.Repair{Changed: soFar.Changed - before})
		before = soFar.Changed
		return r.checkStopped()
	}).Move(ctx, r.Form.Get("queue"))
	return inspect.Repair{}, err
}

// A fillSettings writes the settings of a queue into a form.
type fillSettings func(f *Form, now qless.QueueSettings)

func (write fillSettings) fill(ctx context.Context, s *Space, f *Form) error {
	now, err := s.Client.Queue(f.Get("queue")).Settings(ctx)
	if err == nil {
		write(f, now)
	}
	return err
}

func fillConcurrency(f *Form, now qless.QueueSettings) {
	f.fill("value", strconv.Itoa(now.MaxConcurrency))
}

func fillHeartbeat(f *Form, now qless.QueueSettings) {
	f.fill("value", words.Exact(now.Heartbeat))
}

func fillRate(f *Form, now qless.QueueSettings) {
	if f.fill("value", strconv.Itoa(now.MaxRate)); now.MaxRate > 0 {
		f.fill("per", words.Exact(now.Per))
	}
}
