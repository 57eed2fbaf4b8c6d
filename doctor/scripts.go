package doctor

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

//go:embed doctor.lua
var scriptText string

// script is the script in doctor.lua. It is generated from lua and from the library that the doctor
// shares with qless.
var script = redis.NewScript(scriptText)

// A check is a command of the doctor's script that checks items, and repairs them.
type check string

// The commands in lua/commands.
const (
	checkJob     check = "job"
	checkPlace   check = "place"
	checkDepends check = "depends"
	checkTags    check = "tags"
	checkWorkers check = "workers"
	checkLimits  check = "limits"
	checkNotes   check = "notes"
	checkFigures check = "figures"
)

// An item is the subject of a check: a key without the prefix and, for a set or a list, a member.
type item struct{ key, member string }

// run checks some items and returns the problems. Given a kind, it repairs the problems of that
// kind and returns the repaired ones.
func (c check) run(ctx context.Context, e *exam, code ReasonCode, items []item) ([]Reason, error) {
	now := ""
	if e.Clock != nil {
		given, err := e.now(ctx)
		if err != nil {
			return nil, err
		}
		now = wire.FormatTime(given)
	}
	args := make([]any, 0, 3+2*len(items))
	args = append(args, string(c), now, string(code))
	for _, i := range items {
		args = append(args, i.key, i.member)
	}
	rows, err := script.Run(ctx, e.rdb, []string{e.Namespace}, args...).Slice()
	if err != nil {
		return nil, err
	}
	found := make([]Reason, 0, len(rows))
	for _, row := range rows {
		fields, ok := row.([]any)
		if !ok || len(fields) != 5 {
			message := fmt.Sprintf("unexpected reply: %.100v", row)
			return nil, &qless.Error{Op: op, Code: qless.ErrServer, Message: message}
		}
		texts := wire.AsStrings(fields)
		code, isFixable := ReasonCode(texts[0]), texts[4] == "1"
		found = append(found,
			newFinding(e.Namespace, code, texts[1], texts[2], texts[3], isFixable))
	}
	return found, nil
}
