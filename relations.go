package qless

import (
	"context"

	"github.com/qless/qless-go/internal/wire"
)

// The relations of a job, as the command relations calls them, and as its JSON does.
const (
	relationDependents   = "dependents"
	relationDependencies = "dependencies"
)

// readRelations reads what the replies with these jobs have left out, because it was too much for
// one: thousands of dependents or dependencies.
func (c *Client) readRelations(ctx context.Context, jobs ...*Job) error {
	for _, job := range jobs {
		for _, relation := range job.leftOut {
			jids, err := c.related(ctx, job.JID, relation)
			if err != nil {
				return err
			}
			switch relation {
			case relationDependents:
				job.Dependents = jids
			case relationDependencies:
				job.Dependencies = jids
			}
		}
		job.leftOut = nil
	}
	return nil
}

// related returns the jobs that wait for a job, or that it waits for, some thousand in a step.
func (c *Client) related(ctx context.Context, jid, relation string) ([]string, error) {
	const op = "relations"
	var all []string // some perhaps twice
	for cursor := "0"; ; {
		reply, err := c.run(ctx, op, jid, jid, relation, cursor)
		if err != nil {
			return nil, err
		}
		parts := items(reply)
		if len(parts) != 2 {
			return nil, unexpected(op, reply)
		}
		some, err := decodeStrings(op, parts[1])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if cursor = wire.AsString(parts[0]); cursor == "0" {
			return unique(all), nil
		}
	}
}
