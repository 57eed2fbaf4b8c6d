package cli

import (
	"context"
	"errors"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// eachNamed returns a command that treats each argument alike, and continues if one is missing or
// refused.
func (a *app) eachNamed(
	verb, done, noun string, confirmed bool,
	do func(ctx context.Context, client *qless.Client, name string) error,
) do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		names, err := a.names(args)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			a.say("%s 0 %ss", done, noun)
			return a.printJSON(inspect.Repair{})
		}
		what := verb + " " + text.Count(len(names), noun)
		if confirmed {
			if goOn, err := a.confirm(what); !goOn {
				return err
			}
		} else if !a.goOn("%s", what) {
			return nil
		}
		sum := leftError{noun: noun, sum: inspect.Repair{Reasons: map[string]*qless.Error{}}}
		for _, name := range names {
			a.watch.restart()
			err := do(ctx, client, name)
			var coded *qless.Error
			switch {
			case err == nil:
				a.say("%s %s", done, text.Clean(name))
				sum.sum.Changed++
			case errors.As(err, &coded) && isOfJob(coded.Code):
				a.say("%s: %s", text.Clean(name), text.Clean(coded.Message))
				sum.sum.Unchanged++
				sum.sum.Reasons[name] = coded
			default:
				return err
			}
		}
		if err := a.printJSON(sum.sum); err != nil {
			return err
		}
		if sum.sum.Unchanged > 0 {
			return sum
		}
		return nil
	}
}

// isOfJob reports whether an error is about one job, so that others may still be changed.
func isOfJob(code qless.Code) bool {
	status := statusByCode[code]
	return status == statusNotFound || status == statusRefused
}
