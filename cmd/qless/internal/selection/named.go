package selection

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/queues"
)

// Each returns a command that treats each argument alike, and continues if an argument is missing
// or refused.
func Each(
	to *out.Console, verb, done, noun string, confirmed bool,
	do func(ctx context.Context, client *qless.Client, name string) error,
) place.Do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		names, err := to.Names(args)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			to.Say("%s 0 %ss", done, noun)
			return to.PrintJSON(inspect.Repair{})
		}
		what := verb + " " + text.Count(len(names), noun)
		if confirmed {
			if goOn, err := to.Confirm(what); !goOn {
				return err
			}
		} else if !to.GoOn("%s", what) {
			return nil
		}
		sum := out.Left{Noun: noun, Sum: inspect.Repair{Reasons: map[string]*qless.Error{}}}
		for _, name := range names {
			to.Watch.Restart()
			err := do(ctx, client, name)
			var coded *qless.Error
			switch {
			case err == nil:
				to.Say("%s %s", done, text.Clean(name))
				sum.Sum.Changed++
			case errors.As(err, &coded) && out.IsOfJob(coded.Code):
				to.Say("%s: %s", text.Clean(name), text.Clean(coded.Message))
				sum.Sum.Unchanged++
				sum.Sum.Reasons[name] = coded
			default:
				return err
			}
		}
		if err := to.PrintJSON(sum.Sum); err != nil {
			return err
		}
		if sum.Sum.Unchanged > 0 {
			return sum
		}
		return nil
	}
}

// Matching returns the matching queues for each pattern, with * for any text, and other names
// unchanged. A pattern without a matching queue is an error.
func Matching(ctx context.Context, client *qless.Client, args []string) ([]string, error) {
	var names, known []string
	for _, arg := range args {
		if !strings.Contains(arg, "*") {
			names = append(names, arg)
			continue
		}
		if known == nil {
			var err error
			if known, err = place.QueuesKnown(ctx, client); err != nil {
				return nil, err
			}
		}
		found, pattern := len(names), queues.NewPatterns([]string{arg})
		for _, name := range known {
			if pattern.Find(name) == 0 {
				names = append(names, name)
			}
		}
		if len(names) == found {
			return nil, out.Missing(fmt.Errorf("no queue matches %q", arg))
		}
	}
	return names, nil
}

// QueueNames returns the queues with names or patterns, or all queues.
func QueueNames(
	ctx context.Context, from *out.Console, client *qless.Client, args []string,
) ([]string, error) {
	if len(args) == 0 {
		return place.QueuesKnown(ctx, client)
	}
	names, err := from.Names(args)
	if err != nil {
		return nil, err
	}
	return Matching(ctx, client, names)
}
