package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/queues"
)

// matching returns the queues that match in place of each pattern, in which a * stands for any
// text, and other names as they are. A pattern that matches no queue is an error.
func matching(ctx context.Context, client *qless.Client, args []string) ([]string, error) {
	var names, known []string
	for _, arg := range args {
		if !strings.Contains(arg, "*") {
			names = append(names, arg)
			continue
		}
		if known == nil {
			var err error
			if known, err = queuesKnown(ctx, client); err != nil {
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
			return nil, missingError{fmt.Errorf("no queue matches %q", arg)}
		}
	}
	return names, nil
}

// queueNames returns the queues with names or patterns, or all of them.
func queueNames(
	ctx context.Context, from *console, client *qless.Client, args []string,
) ([]string, error) {
	if len(args) == 0 {
		return queuesKnown(ctx, client)
	}
	names, err := from.names(args)
	if err != nil {
		return nil, err
	}
	return matching(ctx, client, names)
}
