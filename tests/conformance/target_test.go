package conformance

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lua"
)

// sources is the folder of the Lua sources.
const sources = "../../lua"

// A target runs qless commands on a server, and receives their events.
type target struct {
	client *redis.Client
	events *redis.PubSub
	prefix string
	call   calling
}

// A calling turns a qless command into a Redis command, or nil if there is none.
type calling func(command []string) []any

// newTarget prepares a server for commands under a prefix.
func newTarget(t *testing.T, addr, prefix string, prepare func(*testing.T, *redis.Client, string) calling) *target {
	t.Helper()
	options := testkit.Options(addr)
	options.MaxRetries = -1           // a command runs once
	options.ReadTimeout = time.Minute // miniredis takes long to load the whole script
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	events := client.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = events.Close() })
	_, err := events.Receive(t.Context())
	require.NoError(t, err)
	return &target{client: client, events: events, prefix: prefix, call: prepare(t, client, prefix)}
}

// dropIn calls the script with every command.
func dropIn(t *testing.T, client *redis.Client, _ string) calling {
	t.Helper()
	script, err := fs.ReadFile(os.DirFS(sources), luasrc.DropInName)
	require.NoError(t, err)
	sha := load(t, client, string(script))
	return func(command []string) []any {
		return append([]any{"EVALSHA", sha, 0}, anys(command)...)
	}
}

// classic calls the script with only the commands of classic clients.
func classic(t *testing.T, client *redis.Client, _ string) calling {
	t.Helper()
	sha := load(t, client, lua.Classic)
	return func(command []string) []any {
		return append([]any{"EVALSHA", sha, 0}, anys(command)...)
	}
}

// scripts calls the scripts as Go does, with the prefix as their key.
func scripts(t *testing.T, client *redis.Client, prefix string) calling {
	t.Helper()
	script, err := fs.ReadFile(os.DirFS(sources), luasrc.DropInName)
	require.NoError(t, err)
	sha := load(t, client, string(script))
	return func(command []string) []any {
		return append([]any{"EVALSHA", sha, 1, prefix}, anys(command)...)
	}
}

func load(t *testing.T, client *redis.Client, script string) string {
	t.Helper()
	sha, err := client.ScriptLoad(t.Context(), script).Result()
	require.NoError(t, err)
	return sha
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// mark is the channel of the message at the end of a command's events.
const mark = "end of step"

// run runs one command.
func (g *target) run(ctx context.Context, command []string) (outcome, error) {
	request := g.call(command)
	if request == nil {
		return outcome{Area: area(""), Message: "no script for " + command[0]}, nil
	}
	pipe := g.client.Pipeline()
	reply := pipe.Do(ctx, request...)
	marked := pipe.Publish(ctx, mark, "")
	_, _ = pipe.Exec(ctx) // fails if either command does, and both are checked
	if err := marked.Err(); err != nil {
		return outcome{}, err
	}
	result, err := outcomeOf(reply)
	if err != nil {
		return outcome{}, err
	}
	for {
		message, err := g.events.ReceiveMessage(ctx)
		if err != nil {
			return outcome{}, err
		}
		if message.Channel == mark {
			return result, nil
		}
		result.Events = append(result.Events, event{stockName(message.Channel, g.prefix), message.Payload})
	}
}

// outcomeOf returns a command's reply, or the error in the server's reply. Without a reply, it
// returns an error of its own.
func outcomeOf(reply *redis.Cmd) (outcome, error) {
	value, err := reply.Result()
	var refusal redis.Error
	switch {
	case err == nil:
		return outcome{Reply: value}, nil
	case errors.Is(err, redis.Nil):
		return outcome{}, nil
	case errors.As(err, &refusal):
		return outcome{Area: area(err.Error()), Message: err.Error()}, nil
	}
	return outcome{}, err
}

var areaPattern = regexp.MustCompile(`([A-Z][A-Za-z.]*(?: On)?|config\.\w+)\(\):`)

// area returns the part of an error's message that names the command, such as Put(). An error
// without an area has the area "?".
func area(message string) string {
	found := areaPattern.FindStringSubmatch(message)
	if found == nil {
		return "?"
	}
	switch found[1] { // odd names in the stock script
	case "Heatbeat":
		return "Heartbeat()"
	case "RecurringJob On":
		return "Recur()"
	}
	return found[1] + "()"
}
