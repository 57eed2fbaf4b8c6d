package qless_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// A passing is a hook that lets connections and pipelines pass.
type passing struct{}

func (passing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (passing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A gate is a hook that stands in for the server: every call waits at it until the test lets it
// through, with an answer.
type gate struct {
	passing
	t     *testing.T
	calls chan *gatedCall
}

// A gatedCall is a put or a put.many on its way to the server.
type gatedCall struct {
	ctx    context.Context
	script string   // put or put.many
	worker string   // its first argument
	jids   []string // of the jobs
	answer chan error
}

func (g *gate) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		call := &gatedCall{ctx: ctx, answer: make(chan error)}
		call.read(cmd.Args())
		g.calls <- call
		err := <-call.answer
		cmd.SetErr(err)
		return err
	}
}

// read reads the arguments of a script: EVALSHA sha 1 prefix command now worker ...
func (c *gatedCall) read(args []any) {
	c.worker = fmt.Sprint(args[6])
	if scripts.CommandOf(args) == "put" {
		c.script, c.jids = "put", []string{fmt.Sprint(args[8])}
		return
	}
	c.script = "put.many"
	if args[8] == "" { // they agree in all but their jids and data
		var more int
		_, _ = fmt.Sscan(fmt.Sprint(args[12]), &more)
		for at := 13 + more; at < len(args); at += 2 {
			c.jids = append(c.jids, fmt.Sprint(args[at]))
		}
		return
	}
	for at := 8; at < len(args); {
		c.jids = append(c.jids, fmt.Sprint(args[at+1]))
		var more int
		_, _ = fmt.Sscan(fmt.Sprint(args[at+5]), &more)
		at += 6 + more
	}
}

// newGate returns a client whose calls wait at a gate.
func newGate(t *testing.T) (*gate, *qless.Client) {
	return newGateWith(t, qless.ClientConfig{})
}

func newGateWith(t *testing.T, config qless.ClientConfig) (*gate, *qless.Client) {
	g := &gate{t: t, calls: make(chan *gatedCall)}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(g)
	config.Logger = testkit.Quiet()
	client, err := qless.New(rdb, &config)
	require.NoError(t, err)
	return g, client
}

// next waits for the next call.
func (g *gate) next() *gatedCall {
	g.t.Helper()
	select {
	case call := <-g.calls:
		return call
	case <-time.After(testkit.Patience):
		require.FailNow(g.t, "no call came")
		return nil
	}
}

// pass lets the next call through, and returns it.
func (g *gate) pass(answer error) *gatedCall {
	g.t.Helper()
	call := g.next()
	call.answer <- answer
	return call
}

// puts are the puts that a test has begun, with their results.
type puts struct {
	t       *testing.T
	client  *qless.Client
	results map[string]chan error
}

// begin puts a job on a goroutine of its own. Unless it is the first, it waits until the put has
// joined the waiting puts.
func (p *puts) begin(ctx context.Context, jid string, data any) {
	p.t.Helper()
	first := len(p.results) == 0
	result := make(chan error, 1)
	p.results[jid] = result
	before := p.client.WaitingPuts()
	go func() {
		_, err := p.client.Queue("q").Put(ctx, "K", data, qless.JID(jid))
		result <- err
	}()
	if !first {
		testkit.Until(p.t, "the put waits", func() bool { return p.client.WaitingPuts() > before })
	}
}

// result returns the result of a put.
func (p *puts) result(jid string) error {
	p.t.Helper()
	select {
	case err := <-p.results[jid]:
		return err
	case <-time.After(testkit.Patience):
		require.FailNow(p.t, "the put did not return", jid)
		return nil
	}
}

func beginPuts(t *testing.T, client *qless.Client, jids ...string) *puts {
	t.Helper()
	p := &puts{t: t, client: client, results: map[string]chan error{}}
	for _, jid := range jids {
		p.begin(t.Context(), jid, nil)
	}
	return p
}

// afterFirst begins puts the first of which is in flight, while the others wait.
func afterFirst(t *testing.T, g *gate, client *qless.Client, jids ...string) (*puts, *gatedCall) {
	t.Helper()
	p := beginPuts(t, client, "first")
	first := g.next()
	require.Equal(t, []string{"first"}, first.jids)
	for _, jid := range jids {
		p.begin(t.Context(), jid, nil)
	}
	return p, first
}

type contextKey struct{}

func TestSinglePutIsSentAtOnceInItsContext(t *testing.T) {
	g, client := newGate(t)
	ctx := context.WithValue(t.Context(), contextKey{}, "mine")
	go func() {
		for i := range 3 {
			_, _ = client.Queue("q").Put(ctx, "K", nil, qless.JID(fmt.Sprint(i)))
		}
	}()
	for i := range 3 {
		call := g.next()
		require.Zero(t, client.WaitingPuts())
		require.Equal(t, "put", call.script)
		require.Equal(t, []string{fmt.Sprint(i)}, call.jids)
		require.Equal(t, ctx, call.ctx)
		call.answer <- nil
	}
}

func TestPutsThatAreMadeDuringACallShareTheNext(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a", "b", "c")
	first.answer <- nil
	batch := g.next()
	require.Equal(t, "put.many", batch.script)
	require.Equal(t, []string{"a", "b", "c"}, batch.jids)
	p.begin(t.Context(), "d", nil)
	batch.answer <- nil
	require.Equal(t, []string{"d"}, g.pass(nil).jids)
	for jid := range p.results {
		require.NoError(t, p.result(jid))
	}
	last := beginPuts(t, client, "e")
	require.Equal(t, "put", g.pass(nil).script)
	require.NoError(t, last.result("e"))
}

func TestWithoutBatchingPutsAreInFlightTogether(t *testing.T) {
	g, client := newGateWith(t, qless.ClientConfig{Unbatched: true})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = client.Queue("q").Put(t.Context(), "K", nil) })
	}
	calls := []*gatedCall{g.next(), g.next(), g.next()}
	for _, call := range calls {
		require.Equal(t, "put", call.script)
		call.answer <- nil
	}
	all.Wait()
}

func TestABatchHasLimits(t *testing.T) {
	t.Run("the number of jobs", func(t *testing.T) {
		g, client := newGate(t)
		var jids []string
		for i := range 250 {
			jids = append(jids, fmt.Sprint(i))
		}
		p, first := afterFirst(t, g, client, jids...)
		first.answer <- nil
		require.Equal(t, jids[:200], g.pass(nil).jids)
		require.Equal(t, jids[200:], g.pass(nil).jids)
		for _, jid := range jids {
			require.NoError(t, p.result(jid))
		}
	})
	t.Run("the bytes of their data", func(t *testing.T) {
		g, client := newGate(t)
		p, first := afterFirst(t, g, client)
		for jid, size := range []int{3 << 20, 1200 << 10, 600 << 10, 1200 << 10, 10} {
			p.begin(t.Context(), fmt.Sprint(jid), strings.Repeat("x", size))
		}
		first.answer <- nil
		for _, want := range [][]string{{"0"}, {"1", "2"}, {"3", "4"}} {
			require.Equal(t, want, g.pass(nil).jids)
		}
		for jid := range p.results {
			require.NoError(t, p.result(jid))
		}
	})
}

// A second put of a job goes out with a later script, and so do the puts made after it.
func TestPutsGoOutInTheirOrder(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a", "b")
	var again sync.WaitGroup
	again.Go(func() { _, _ = client.Queue("q").Put(t.Context(), "K", nil, qless.JID("a")) })
	testkit.Until(t, "the put waits", func() bool { return client.WaitingPuts() == 3 })
	p.begin(t.Context(), "c", nil)
	first.answer <- nil
	require.Equal(t, []string{"a", "b"}, g.pass(nil).jids)
	require.Equal(t, []string{"a", "c"}, g.pass(nil).jids)
	again.Wait()
	require.NoError(t, p.result("c"))
}

func TestAPutThatIsCanceledWhileItWaitsIsNotSent(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a")
	ctx, cancel := context.WithCancel(t.Context())
	p.begin(ctx, "b", nil)
	p.begin(t.Context(), "c", nil)
	cancel()
	err := p.result("b")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "b", requireCode(t, qless.ErrUnavailable, err).JID)
	first.answer <- nil
	require.Equal(t, []string{"a", "c"}, g.pass(nil).jids)
	require.NoError(t, p.result("a"))
	require.NoError(t, p.result("c"))
}

func TestAPutThatIsCanceledInFlightHarmsNoOther(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "mine"))
	p.begin(ctx, "a", nil)
	p.begin(t.Context(), "b", nil)
	first.answer <- nil
	batch := g.next()
	require.Equal(t, "mine", batch.ctx.Value(contextKey{}))
	cancel()
	require.ErrorIs(t, p.result("a"), context.Canceled)
	require.NoError(t, batch.ctx.Err())
	batch.answer <- nil
	require.NoError(t, p.result("b"))
}

func TestABatchHasTheLatestDeadlineOfItsPuts(t *testing.T) {
	soon, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	for _, c := range []struct {
		what      string
		deadlines []time.Time // zero for none
		want      time.Time
	}{
		{"all have one", []time.Time{soon, late, soon}, late},
		{"one has none", []time.Time{soon, {}, late}, time.Time{}},
		{"a single put", []time.Time{soon}, soon},
	} {
		t.Run(c.what, func(t *testing.T) {
			g, client := newGate(t)
			p, first := afterFirst(t, g, client)
			for i, deadline := range c.deadlines {
				ctx := t.Context()
				if !deadline.IsZero() {
					var cancel context.CancelFunc
					ctx, cancel = context.WithDeadline(ctx, deadline)
					defer cancel()
				}
				p.begin(ctx, fmt.Sprint(i), nil)
			}
			first.answer <- nil
			deadline, _ := g.pass(nil).ctx.Deadline()
			require.True(t, c.want.Equal(deadline), "%v", deadline)
			for i := range c.deadlines {
				require.NoError(t, p.result(fmt.Sprint(i)))
			}
		})
	}
}

// Each put gets an error of its own, as if it had been sent alone.
func TestOutcomeOfABrokenBatchIsUnknown(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a", "b")
	first.answer <- nil
	require.Equal(t, []string{"a", "b"}, g.pass(io.EOF).jids)
	for _, jid := range []string{"a", "b"} {
		err := p.result(jid)
		failure := requireCode(t, qless.ErrUnavailable, err)
		require.Equal(t, jid, failure.JID)
		require.Equal(t, "put", failure.Op)
		require.ErrorIs(t, err, io.EOF)
	}
	require.NoError(t, p.result("first"))
}

func TestNewJobsOfABrokenBatchAreSentAgain(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a")
	fresh := make(chan string, 2)
	for range cap(fresh) {
		before := client.WaitingPuts()
		go func() {
			jid, err := client.Queue("q").Put(t.Context(), "K", nil)
			if err != nil {
				t.Error(err)
			}
			fresh <- jid
		}()
		testkit.Until(t, "the put waits", func() bool { return client.WaitingPuts() > before })
	}
	first.answer <- nil
	batch := g.pass(io.ErrUnexpectedEOF)
	require.Len(t, batch.jids, 3)
	require.ErrorIs(t, p.result("a"), qless.ErrUnavailable)
	again := g.pass(nil)
	require.Equal(t, batch.jids[1:], again.jids)
	require.ElementsMatch(t, again.jids, []string{<-fresh, <-fresh})
}

func TestARefusedPutHarmsNoOtherOfItsBatch(t *testing.T) {
	g, client := newGate(t)
	jids := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
	p, first := afterFirst(t, g, client, jids...)
	first.answer <- nil
	calls := 0
	for put := 0; put < len(jids); calls++ {
		call := g.next()
		if strings.Contains(strings.Join(call.jids, " "), "5") {
			call.answer <- reply("ERR user_script:1: Put(): invalid 0 30  the data is nested too deeply")
			if len(call.jids) > 1 {
				continue
			}
		} else {
			call.answer <- nil
		}
		put += len(call.jids)
	}
	require.Equal(t, 7, calls, "8 4 4 2 1 1 2")
	for _, jid := range jids {
		err := p.result(jid)
		if jid == "5" {
			failure := requireCode(t, qless.ErrInvalid, err)
			require.Equal(t, "5", failure.JID)
			require.Equal(t, "put", failure.Op)
		} else {
			require.NoError(t, err)
		}
	}
}

// A server that refuses everything is not asked once for each put.
func TestAGeneralRefusalIsThatOfEachPutOfABatch(t *testing.T) {
	g, client := newGate(t)
	p, first := afterFirst(t, g, client, "a", "b")
	first.answer <- nil
	g.pass(reply("OOM command not allowed when used memory > 'maxmemory'."))
	for _, jid := range []string{"a", "b"} {
		require.Equal(t, jid, requireCode(t, qless.ErrServer, p.result(jid)).JID)
	}
}

func TestClientsDoNotShareBatches(t *testing.T) {
	g, client := newGateWith(t, qless.ClientConfig{WorkerName: "w1"})
	p, first := afterFirst(t, g, client, "a")
	other := beginPuts(t, client.As("w2"), "b")
	call := g.pass(nil)
	require.Equal(t, []string{"b"}, call.jids)
	require.Equal(t, "w2", call.worker)
	require.NoError(t, other.result("b"))
	first.answer <- nil
	require.Equal(t, "w1", g.pass(nil).worker)
	require.NoError(t, p.result("a"))
}

func TestPutsThatWaitEndWhenTheConnectionsAreClosed(t *testing.T) {
	server := testkit.Start(t)
	rdb := redis.NewClient(testkit.Options(server.Addr()))
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	var all sync.WaitGroup
	started := make(chan struct{}, 50)
	for range 50 {
		all.Go(func() {
			for {
				_, err := client.Queue("q").Put(t.Context(), "K", nil)
				select {
				case started <- struct{}{}:
				default:
				}
				if errors.Is(err, qless.ErrUnavailable) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	<-started
	require.NoError(t, rdb.Close())
	all.Wait()
	require.Zero(t, client.WaitingPuts())
}

// No caller waits for the goroutine that sends a batch. A misdeed of the observer there would end
// the program, or hold up all later puts.
func TestAnObserverOfABatchMayNotReturn(t *testing.T) {
	for _, misdeed := range []func(){func() { panic("the observer's") }, runtime.Goexit} {
		observer := func(_ context.Context, call qless.Command) {
			if call.Name == "put.many" {
				misdeed()
			}
		}
		g, client := newGateWith(t, qless.ClientConfig{Observer: observer})
		p, first := afterFirst(t, g, client, "a", "b")
		first.answer <- nil
		require.Equal(t, []string{"a", "b"}, g.pass(nil).jids)
		require.NoError(t, p.result("a"))
		require.NoError(t, p.result("b"))
		last := beginPuts(t, client, "c")
		require.Equal(t, []string{"c"}, g.pass(nil).jids)
		require.NoError(t, last.result("c"))
	}
}
