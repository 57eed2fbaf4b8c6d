package doctor

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

//go:embed lua/*.lua
var sources embed.FS

// A check is a script that checks items, and repairs them.
type check struct{ *redis.Script }

func newCheck(name string) *check {
	var text strings.Builder
	for _, file := range []string{"base", name} {
		part, err := sources.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		text.Write(part)
	}
	return &check{redis.NewScript(text.String())}
}

var (
	checkJob     = newCheck("job")
	checkPlace   = newCheck("place")
	checkDepends = newCheck("depends")
	checkTags    = newCheck("tags")
	checkWorkers = newCheck("workers")
	checkLimits  = newCheck("limits")
	checkNotes   = newCheck("notes")
	checkFigures = newCheck("figures")
)

// An item is what a check looks at: a key without the prefix and, of a set or a list, a member.
type item struct{ key, member string }

// run runs a check for some items, and returns the problems. With a kind, it repairs those, and
// returns what it has repaired.
func (c *check) run(ctx context.Context, e *exam, kind Kind, items []item) ([]Finding, error) {
	now := ""
	if e.Clock != nil {
		now = wire.FormatTime(e.Clock())
	}
	args := make([]any, 0, 2+2*len(items))
	args = append(args, now, string(kind))
	for _, i := range items {
		args = append(args, i.key, i.member)
	}
	rows, err := c.Run(ctx, e.rdb, []string{e.Namespace}, args...).Slice()
	if err != nil {
		return nil, err
	}
	found := make([]Finding, 0, len(rows))
	for _, row := range rows {
		fields, ok := row.([]any)
		if !ok || len(fields) != 5 {
			return nil, &qless.Error{Op: op, Code: qless.CodeServer, Message: fmt.Sprintf("unexpected reply: %.100v", row)}
		}
		var texts [5]string
		for i := range texts {
			texts[i] = wire.AsString(fields[i])
		}
		found = append(found, newFinding(e.Namespace, Kind(texts[0]), texts[1], texts[2], texts[3], texts[4] == "1"))
	}
	return found, nil
}
