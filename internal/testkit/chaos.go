package testkit

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Chaos disturbs a server and the connections to it through a proxy.
type Chaos struct {
	server   *Server
	proxy    *Proxy
	random   *rand.Rand
	refused  atomic.Int64 // refused commands
	accepted atomic.Int64
}

// NewChaos returns a Chaos for a server with data that survives crashes.
func NewChaos(t testing.TB, random *rand.Rand) (*Chaos, *Server) {
	t.Helper()
	server := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return &Chaos{server: server, proxy: NewProxy(t, server.Addr()), random: random}, server
}

// Client returns a client with disturbed connections. The hook may be nil.
func (c *Chaos) Client(t testing.TB, hook redis.Hook) *redis.Client {
	t.Helper()
	client := redis.NewClient(Options(c.proxy.Addr()))
	if hook != nil {
		client.AddHook(hook)
	}
	client.AddHook(refusals{c})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Refusing makes the server refuse commands in a number of rounds. In each round, it refuses for
// one reason after another, each until clients have been refused several times, and then serves for
// a while.
func (c *Chaos) Refusing(t testing.TB, rounds int) {
	t.Helper()
	for round := range rounds {
		c.refuse(t, Refusals[round%len(Refusals)])
	}
}

// Everything is Refusing with other disturbances in between: lost requests and lost replies of
// commands that contain one of the texts, cut connections, and crashes of the server.
func (c *Chaos) Everything(t testing.TB, rounds int, texts ...string) {
	t.Helper()
	for round := range rounds {
		text := texts[c.random.IntN(len(texts))]
		switch c.random.IntN(4) {
		case 0:
			c.proxy.CutAll()
		case 1:
			c.proxy.CutAfterRequest(text)
		case 2:
			c.proxy.CutBeforeReply(text)
		case 3:
			c.server.Kill()
			c.server.Restart()
		}
		c.refuse(t, Refusals[round%len(Refusals)])
	}
}

func (c *Chaos) refuse(t testing.TB, refusal string) {
	t.Helper()
	allow := c.server.Refuse(t, refusal)
	enough := c.refused.Load() + 10 + c.random.Int64N(30)
	Until(t, "the clients were refused: "+refusal, func() bool { return c.refused.Load() >= enough })
	allow()
	enough = c.accepted.Load() + 50 + c.random.Int64N(300)
	Until(t, "the clients continued", func() bool { return c.accepted.Load() >= enough })
}

// refusals counts refused and accepted commands.
type refusals struct{ *Chaos }

func (refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return r.count(next(ctx, cmd))
	}
}

func (r refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return r.count(next(ctx, cmds))
	}
}

func (r refusals) count(err error) error {
	switch {
	case err == nil || err == redis.Nil:
		r.accepted.Add(1)
	case redisx.IsAnswer(err):
		r.refused.Add(1)
	}
	return err
}
