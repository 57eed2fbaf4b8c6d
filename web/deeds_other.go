package web

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/qless/qless-go"
)

// otherChanges are the actions on workers, schedules, limits and settings.
func otherChanges() []deed {
	worker, id := subject("worker", "Worker"), subject("id", "Schedule")
	limit, setting := subject("name", "Limit"), subject("name", "Setting")
	return []deed{
		{
			Action: ActionWorkerDeregister, Label: "Deregister", Done: "The worker is deregistered.",
			Hint: "It leaves the list of workers, and keeps its locks. One that runs is listed again " +
				"within a minute.",
			Fields: []field{worker}, isAsked: true,
			one: onNamed("worker", func(ctx context.Context, run *run, name string) error {
				return run.site.Client.Deregister(ctx, name)
			}),
		},
		{
			Action: ActionScheduleRun, Label: "Run now", Done: "A job was put.", isNew: true,
			Hint:   "When it is due next stays as it is.",
			Fields: []field{id},
			one: onNamed("id", func(ctx context.Context, run *run, name string) error {
				jid, err := run.site.Client.RunSchedule(ctx, name)
				if err == nil {
					run.made(jid)
				}
				return err
			}),
		},
		{
			Action: ActionScheduleForget, Label: "Forget", Done: "The schedule is forgotten.",
			Hint:   "Jobs that it has put are kept. It comes back when a worker follows it.",
			IsGrim: true, Fields: []field{id},
			one: onNamed("id", func(ctx context.Context, run *run, name string) error {
				return run.site.Client.ForgetSchedule(ctx, name)
			}),
		},
		{
			Action: ActionLimitSet, Label: "Set limit", Done: "The limit is set.",
			Fields: []field{limit,
				{Name: "concurrency", Label: "Jobs at once", Kind: "number", IsOpt: true,
					Hint: "Empty or 0 for any number."},
				{Name: "rate", Label: "Jobs started", Kind: "number", IsOpt: true,
					Hint: "Empty or 0 for any number."},
				{Name: "per", Label: "In each", Kind: "text", Hint: hintTime, IsOpt: true}},
			fill: fillLimit, one: setLimit,
		},
		{
			Action: ActionLimitHold, Label: "Hold", Done: "The limit is changed.",
			Hint: "No job with the limit is started meanwhile.",
			Fields: []field{limit, {Name: "for", Label: "For", Kind: "text",
				Hint: hintTime + " 0 ends the hold."}},
			one: holdLimit,
		},
		{
			Action: ActionLimitDelete, Label: "Delete", Done: "The limit is deleted.",
			Hint:   "Jobs that wait for room are started.",
			IsGrim: true, Fields: []field{limit},
			one: onNamed("name", func(ctx context.Context, run *run, name string) error {
				return run.site.Client.Limit(name).Delete(ctx)
			}),
		},
		{
			Action: ActionConfigSet, Label: "Set", Done: "The setting is changed.",
			Fields: []field{setting, {Name: "value", Label: "Value", Kind: "text"},
				{Name: "raw", Label: "Also if this package does not know the name", Kind: "check",
					IsOpt: true}},
			fill: fillSetting, one: setSetting,
		},
		{
			Action: ActionConfigUnset, Label: "Reset", Done: "The setting has its default.",
			Fields: []field{setting}, isAsked: true,
			one: onNamed("name", func(ctx context.Context, run *run, name string) error {
				return run.site.Client.Config().Unset(ctx, name)
			}),
		},
	}
}

// onNamed returns what does something with what a field names.
func onNamed(
	fieldName string, do func(ctx context.Context, run *run, name string) error,
) func(in *input) doOne {
	return func(in *input) doOne {
		name := in.text(fieldName)
		return func(ctx context.Context, run *run) error { return do(ctx, run, name) }
	}
}

func setLimit(in *input) doOne {
	config := qless.LimitConfig{
		Concurrency: in.number("concurrency"), Rate: in.number("rate"), Per: in.time("per"),
	}
	switch {
	case config.Concurrency == 0 && config.Rate == 0:
		in.refuse("concurrency", "One of the two numbers is needed.")
	case config.Rate > 0 && config.Per == 0:
		in.refuse("per", "This is needed.")
	case config.Rate == 0:
		config.Per = 0
	}
	return onNamed("name", func(ctx context.Context, run *run, name string) error {
		return run.site.Client.Limit(name).Set(ctx, config)
	})(in)
}

func fillLimit(ctx context.Context, s *site, form url.Values) error {
	if form.Get("name") == "" || form.Has("concurrency") || form.Has("rate") {
		return nil
	}
	info, err := s.Client.Limit(form.Get("name")).Info(ctx)
	if err != nil {
		if errors.Is(err, qless.ErrInvalid) { // the page says so when it is set
			return nil
		}
		return err
	}
	if n := info.Config.Concurrency; n > 0 {
		fillValues(form, "concurrency", strconv.Itoa(n))
	}
	if n := info.Config.Rate; n > 0 {
		fillValues(form, "rate", strconv.Itoa(n), "per", everyText(info.Config.Per))
	}
	return nil
}

func holdLimit(in *input) doOne {
	d := in.time("for")
	return onNamed("name", func(ctx context.Context, run *run, name string) error {
		return run.site.Client.Limit(name).Hold(ctx, d)
	})(in)
}

func setSetting(in *input) doOne {
	value, isRaw := in.text("value"), in.has("raw")
	return onNamed("name", func(ctx context.Context, run *run, name string) error {
		if isRaw {
			return run.site.Client.Config().SetRaw(ctx, name, value)
		}
		return run.site.Client.Config().Set(ctx, name, value)
	})(in)
}

func fillSetting(ctx context.Context, s *site, form url.Values) error {
	if form.Get("name") == "" || form.Has("value") {
		return nil
	}
	value, err := s.Client.Config().Get(ctx, form.Get("name"))
	if err == nil && isPlain(value) {
		fillValues(form, "value", value)
	}
	return err
}
