package web

import (
	"context"
	"net/url"
	"strconv"

	"github.com/qless/qless-go"
)

// changesOfQueues are the actions on queues.
func changesOfQueues() []deed {
	queue := subject("queue", "Queue")
	return []deed{
		{
			Action: ActionQueuePause, Label: "Pause", Done: "The queue is paused.",
			Fields: []field{queue}, one: onQueue((*qless.Queue).Pause),
		},
		{
			Action: ActionQueueUnpause, Label: "Unpause", Done: "The queue is open.",
			Fields: []field{queue}, one: onQueue((*qless.Queue).Unpause),
		},
		{
			Action: ActionQueueForget, Label: "Forget", Done: "The queue is forgotten.",
			Hint:   "It leaves the list of queues until a job is put into it. Its jobs are kept.",
			IsGrim: true, Fields: []field{queue}, one: onQueue((*qless.Queue).Forget),
		},
		{
			Action: ActionQueueConcurrency, Label: "Set concurrency", Done: "The concurrency is set.",
			Fields: []field{queue, {Name: "value", Label: "Jobs at once", Kind: "number",
				Hint: "0 means any number."}},
			fill: fillConcurrency, one: setConcurrency,
		},
		{
			Action: ActionQueueHeartbeat, Label: "Set heartbeat", Done: "The heartbeat is set.",
			Fields: []field{queue, {Name: "value", Label: "Locks last", Kind: "text",
				Hint: hintTime + " 0 removes the queue's own setting."}},
			fill: fillHeartbeat, one: setHeartbeat,
		},
		{
			Action: ActionQueueRate, Label: "Set rate", Done: "The rate is set.",
			Fields: []field{queue,
				{Name: "value", Label: "Jobs started", Kind: "number", Hint: "0 means any number."},
				{Name: "per", Label: "In each", Kind: "text", Hint: hintTime, IsOpt: true}},
			fill: fillRate, one: setRate,
		},
		{
			Action: ActionQueueUnfail, Label: "Unfail into this queue", Done: "put into the queue",
			Hint: "Jobs of the group go into this queue, the oldest failures first, with fresh retries.",
			Fields: []field{queue,
				{Name: "group", Label: "Failure group", Kind: "text"},
				{Name: "count", Label: "At most", Kind: "number", Hint: "10,000 at most."}},
			one: unfail, long: func(_ *site, in *input) bool { return in.number("count") > doneAtOnce },
		},
	}
}

// onQueue returns what does something with a queue.
func onQueue(do func(q *qless.Queue, ctx context.Context) error) func(in *input) doOne {
	return func(in *input) doOne {
		name := in.text("queue")
		return func(ctx context.Context, run *run) error {
			return do(run.site.Client.Queue(name), ctx)
		}
	}
}

func setConcurrency(in *input) doOne {
	n := in.number("value")
	return onQueue(func(q *qless.Queue, ctx context.Context) error {
		return q.SetMaxConcurrency(ctx, n)
	})(in)
}

func setHeartbeat(in *input) doOne {
	d := in.time("value")
	return onQueue(func(q *qless.Queue, ctx context.Context) error {
		return q.SetHeartbeat(ctx, d)
	})(in)
}

func setRate(in *input) doOne {
	n, per := in.number("value"), in.time("per")
	if n > 0 && per == 0 {
		in.refuse("per", "This is needed.")
	}
	return onQueue(func(q *qless.Queue, ctx context.Context) error {
		return q.SetMaxRate(ctx, n, per)
	})(in)
}

// unfailStep is how many jobs go back in one step.
const (
	unfailStep = 100
	maxUnfail  = 10_000
)

func unfail(in *input) doOne {
	queue, group, most := in.text("queue"), in.text("group"), in.number("count")
	if most < 1 || most > maxUnfail {
		in.refuse("count", "This has to be from 1 to %d.", maxUnfail)
	}
	return func(ctx context.Context, run *run) error {
		run.mu.Lock()
		run.done.isOne = false
		run.mu.Unlock()
		for left := most; left > 0; {
			if err := run.isStopped(); err != nil {
				return err
			}
			n, err := run.site.Client.Queue(queue).Unfail(ctx, group, min(left, unfailStep))
			if err != nil || n == 0 {
				return err
			}
			left -= n
			run.mu.Lock()
			run.done.Count += n
			run.mu.Unlock()
		}
		return nil
	}
}

// fillValues sets values that the form does not have.
func fillValues(form url.Values, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if !form.Has(pairs[i]) {
			form.Set(pairs[i], pairs[i+1])
		}
	}
}

func fillConcurrency(ctx context.Context, s *site, form url.Values) error {
	if form.Get("queue") == "" || form.Has("value") {
		return nil
	}
	n, err := s.Client.Queue(form.Get("queue")).MaxConcurrency(ctx)
	if err == nil {
		fillValues(form, "value", strconv.Itoa(n))
	}
	return err
}

func fillHeartbeat(ctx context.Context, s *site, form url.Values) error {
	if form.Get("queue") == "" || form.Has("value") {
		return nil
	}
	d, err := s.Client.Queue(form.Get("queue")).Heartbeat(ctx)
	if err == nil {
		fillValues(form, "value", everyText(d))
	}
	return err
}

func fillRate(ctx context.Context, s *site, form url.Values) error {
	if form.Get("queue") == "" || form.Has("value") {
		return nil
	}
	n, per, err := s.Client.Queue(form.Get("queue")).MaxRate(ctx)
	if err == nil {
		fillValues(form, "value", strconv.Itoa(n))
		if n > 0 {
			fillValues(form, "per", everyText(per))
		}
	}
	return err
}
