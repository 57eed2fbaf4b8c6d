package workqueue

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

var (
	//go:embed lua/add.lua
	addText string
	//go:embed lua/complete.lua
	completeText string
	//go:embed lua/deep.lua
	deepText string
	//go:embed lua/lease.lua
	leaseText string
	//go:embed lua/light.lua
	lightText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/renew.lua
	renewText string
)

// Repeatable scripts have the same effect when run twice, and are retried if a connection breaks
// before the reply. Other scripts are sent once: an item leased or completed by a lost first run
// would look like another client's.
var (
	addScript      = newScript(addText, once)
	completeScript = newScript(completeText, once)
	deepScript     = newScript(deepText, repeatable)
	leaseScript    = newScript(leaseText, once)
	lightScript    = newScript(lightText, repeatable)
	releaseScript  = newScript(releaseText, once)
	renewScript    = newScript(renewText, repeatable)
)

const (
	once       = true
	repeatable = false
)

// A script is a change of the queue in Lua.
type script struct {
	text string
	sha  string
	once bool
}

func newScript(text string, once bool) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:]), once: once}
}

// run runs the script and returns its reply, nil for none. If the server does not know the script,
// run sends its text.
func (s *script) run(
	ctx context.Context, db redis.UniversalClient, keys []string, args ...any,
) (any, error) {
	c := s.call(ctx, "evalsha", s.sha, keys, args)
	err := db.Process(ctx, c)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		c = s.call(ctx, "eval", s.text, keys, args)
		err = db.Process(ctx, c)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	return c.Val(), nil
}

func (s *script) call(
	ctx context.Context, command, body string, keys []string, args []any,
) *redisx.Cmd {
	line := evalLine(command, body, keys, args)
	if s.once {
		return redisx.NewOnceCmd(ctx, line...)
	}
	return redisx.NewCmd(ctx, line...)
}

// evalLine returns the words of a command that runs a script.
func evalLine(command, body string, keys []string, args []any) []any {
	line := make([]any, 0, 3+len(keys)+len(args))
	line = append(line, command, body, len(keys))
	for _, key := range keys {
		line = append(line, key)
	}
	return append(line, args...)
}

// yes runs a script, and reports whether it returned 1.
func (s *script) yes(
	ctx context.Context, db redis.UniversalClient, keys []string, args ...any,
) (bool, error) {
	reply, err := s.run(ctx, db, keys, args...)
	return reply == int64(1), err
}

// texts returns a reply that is a list of strings.
func texts(reply any) []string {
	list, _ := reply.([]any)
	all := make([]string, 0, len(list))
	for _, entry := range list {
		text, _ := entry.(string)
		all = append(all, text)
	}
	return all
}
