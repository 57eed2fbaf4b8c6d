package cli

import (
	"context"
	"errors"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// each returns a command that treats each argument alike, and continues if one is missing or
// refused.
func each(
	to *console, verb, done, noun string, confirmed bool,
	do func(ctx context.Context, client *qless.Client, name string) error,
) do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		names, err := to.names(args)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			to.say("%s 0 %ss", done, noun)
			return to.printJSON(inspect.Repair{})
		}
		what := verb + " " + text.Count(len(names), noun)
		if confirmed {
			if goOn, err := to.confirm(what); !goOn {
				return err
			}
		} else if !to.goOn("%s", what) {
			return nil
		}
		sum := leftError{noun: noun, sum: inspect.Repair{Reasons: map[string]*qless.Error{}}}
		for _, name := range names {
			to.watch.restart()
			err := do(ctx, client, name)
			var coded *qless.Error
			switch {
			case err == nil:
				to.say("%s %s", done, text.Clean(name))
				sum.sum.Changed++
			case errors.As(err, &coded) && isOfJob(coded.Code):
				to.say("%s: %s", text.Clean(name), text.Clean(coded.Message))
				sum.sum.Unchanged++
				sum.sum.Reasons[name] = coded
			default:
				return err
			}
		}
		if err := to.printJSON(sum.sum); err != nil {
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
