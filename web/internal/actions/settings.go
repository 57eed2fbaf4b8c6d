package actions

import (
	"context"
	"errors"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// scheduleActions returns the actions on workers and schedules.
func scheduleActions() []*Info {
	worker, id := subject("worker", "Worker"), subject("id", "Schedule")
	return []*Info{
		{
			Name: "worker.forget", Label: "Forget", Done: "The worker is forgotten.",
			Hint: "It leaves the list of workers, and keeps its locks. One that runs is listed again " +
				"within a minute.",
			Fields: []Field{worker}, Confirm: true,
			Action: single(func(ctx context.Context, r *Run) error {
				return r.Space.ForgetWorkers(ctx, r.Form.Get("worker"))
			}),
		},
		{
			Name: "schedule.run", Label: "Run now", Done: "A job was put.", Creates: true,
			Hint:   "When it is due next stays as it is.",
			Fields: []Field{id},
			Action: single(func(ctx context.Context, r *Run) error {
				return r.put(inspect.New(r.Space.Client).RunSchedule(ctx, r.Form.Get("id")))
			}),
		},
		{
			Name: "schedule.forget", Label: "Forget", Done: "The schedule is forgotten.",
			Hint:   "Jobs that it has put are kept. It comes back when a worker follows it.",
			Fields: []Field{id}, Destructive: true,
			Action: single(func(ctx context.Context, r *Run) error {
				return r.Space.ForgetSchedule(ctx, r.Form.Get("id"))
			}),
		},
	}
}

// limitActions returns the actions on limits.
func limitActions() []*Info {
	limit := subject("name", "Limit")
	return []*Info{
		{
			Name: "limit.set", Label: "Set limit", Done: "The limit is set.",
			Fields: []Field{limit,
				{Name: "concurrency", Label: "Jobs at once", Kind: Number, Optional: true,
					Hint: "Empty or 0 for any number."},
				{Name: "rate", Label: "Jobs started", Kind: Number, Optional: true,
					Hint: "Empty or 0 for any number."},
				{Name: "per", Label: "In each", Kind: Duration, Optional: true}},
			Fill: fillLimit, Action: checked{setLimit, checkLimit},
		},
		{
			Name: "limit.hold", Label: "Hold", Done: "The limit is changed.",
			Hint:   "No job with the limit is started meanwhile.",
			Fields: []Field{limit, {Name: "for", Label: "For", Kind: Duration, Hint: "0 ends the hold."}},
			Action: single(func(ctx context.Context, r *Run) error {
				return r.limit().Hold(ctx, r.Form.duration("for"))
			}),
		},
		{
			Name: "limit.unset", Label: "Unset", Done: "The limit is unset.",
			Hint:   "Jobs that wait for room are started.",
			Fields: []Field{limit}, Destructive: true,
			Action: single(func(ctx context.Context, r *Run) error { return r.limit().Unset(ctx) }),
		},
	}
}

// settingActions returns the actions on settings, and on the namespace as a whole.
func settingActions() []*Info {
	setting := subject("name", "Setting")
	return []*Info{
		{
			Name: "doctor.examine", Label: "Examine", Done: "The exam has begun.",
			Action: single(func(_ context.Context, r *Run) error { return r.Space.Examine(false) }),
		},
		{
			Name: "doctor.fix", Label: "Repair", Done: "The repair has begun.", Confirm: true,
			Hint: "All that can be repaired safely is, as it is found now. No job is run, failed or " +
				"deleted.",
			Action: single(func(_ context.Context, r *Run) error { return r.Space.Examine(true) }),
		},
		{
			Name: "config.set", Label: "Set", Done: "The setting is changed.",
			Fields: []Field{setting, {Name: "value", Label: "Value", Kind: Text},
				{Name: "raw", Label: "Also if this package does not know the name", Kind: Box,
					Optional: true}},
			Fill: fillSetting, Action: single(setSetting),
		},
		{
			Name: "config.unset", Label: "Reset", Done: "The setting has its default.",
			Fields: []Field{setting}, Confirm: true,
			Action: single(func(ctx context.Context, r *Run) error {
				return r.Space.Client.Config().Unset(ctx, r.Form.Get("name"))
			}),
		},
	}
}

// limit returns the limit named by a form.
func (r *Run) limit() *qless.Limit { return r.Space.Client.Limit(r.Form.Get("name")) }

func checkLimit(f *Form) {
	switch rate := f.number("rate"); {
	case f.number("concurrency") == 0 && rate == 0:
		f.Refuse("concurrency", "One of the two numbers is needed.")
	case rate > 0 && f.duration("per") == 0:
		f.Refuse("per", isNeeded)
	}
}

func setLimit(ctx context.Context, r *Run) error {
	config := qless.LimitConfig{
		Concurrency: r.Form.number("concurrency"), Rate: r.Form.number("rate"),
	}
	if config.Rate != 0 {
		config.Per = r.Form.duration("per")
	}
	return r.limit().Set(ctx, config)
}

func fillLimit(ctx context.Context, s *Space, f *Form) error {
	info, err := s.Limit(ctx, f.Get("name"))
	if errors.Is(err, qless.ErrInvalid) { // setting it reports the error
		return nil
	}
	if n := info.Config.Concurrency; n > 0 {
		f.fill("concurrency", strconv.Itoa(n))
	}
	if n := info.Config.Rate; n > 0 {
		f.fill("rate", strconv.Itoa(n), "per", words.Exact(info.Config.Per))
	}
	return err
}

func setSetting(ctx context.Context, r *Run) error {
	name, value := r.Form.Get("name"), r.Form.Get("value")
	if r.Form.has("raw") {
		_, err := r.Space.Client.Do(ctx, "config.set", name, value)
		return err
	}
	return r.Space.Client.Config().Set(ctx, name, value)
}

func fillSetting(ctx context.Context, s *Space, f *Form) error {
	value, err := s.Client.Config().Get(ctx, f.Get("name"))
	if err == nil {
		f.fill("value", value)
	}
	return err
}
