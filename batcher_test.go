package qless_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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
	p, first := afterFirst(t, g, client, "a", "b")
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
	require.Len(t, batch.jids, 4)
	for _, jid := range []string{"a", "b"} {
		require.ErrorIs(t, p.result(jid), qless.ErrUnavailable)
	}
	again := g.pass(nil)
	require.Equal(t, batch.jids[2:], again.jids)
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

// A firstFinish is a hook that holds the first script finish, and counts the jobs of each.
type firstFinish struct {
	passing
	arrived chan struct{}
	release chan struct{}
	mu      sync.Mutex
	jobs    []int
}

func (h *firstFinish) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); scripts.CommandOf(args) == "finish" {
			h.mu.Lock()
			h.jobs = append(h.jobs, (len(args)-7)/5)
			first := len(h.jobs) == 1
			h.mu.Unlock()
			if first {
				close(h.arrived)
				<-h.release
			}
		}
		return next(ctx, cmd)
	}
}

// newCompletes returns a client whose worker has jobs of the queues a and b, with a call in flight
// that completes one more.
func newCompletes(
	t *testing.T, config qless.ClientConfig,
) (*qless.Client, *firstFinish, <-chan []error) {
	rdb := testkit.Start(t).Client(t)
	h := &firstFinish{arrived: make(chan struct{}), release: make(chan struct{})}
	rdb.AddHook(h)
	config.Logger = testkit.Quiet()
	client, err := qless.New(rdb, &config)
	require.NoError(t, err)
	for _, queue := range []string{"a", "b"} {
		for i := range 200 {
			_, err := client.Queue(queue).Put(t.Context(), "K", nil, qless.JID(fmt.Sprint(queue, i)))
			require.NoError(t, err)
		}
		jobs, err := client.Queue(queue).Pop(t.Context(), 200)
		require.NoError(t, err)
		require.Len(t, jobs, 200)
	}
	first := beginCompletes(t, client, "a", "a0")
	testkit.Soon(t, "the first script", h.arrived)
	return client, h, first
}

func beginCompletes(
	t *testing.T, client *qless.Client, queue string, jids ...string,
) <-chan []error {
	result := make(chan []error, 1)
	go func() { result <- client.Queue(queue).CompleteMany(t.Context(), jids...) }()
	return result
}

func joinCompletes(
	t *testing.T, client *qless.Client, queue string, jids ...string,
) <-chan []error {
	t.Helper()
	before := client.WaitingCompletes()
	result := beginCompletes(t, client, queue, jids...)
	testkit.Until(t, "the call waits", func() bool { return client.WaitingCompletes() > before })
	return result
}

func numbered(queue string, from, to int) []string {
	var jids []string
	for i := from; i < to; i++ {
		jids = append(jids, fmt.Sprint(queue, i))
	}
	return jids
}

// Each call has the answers about its own jobs.
func TestJobsThatGoroutinesCompleteShareAScript(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	two := joinCompletes(t, client, "a", "a1", "missing", "a2")
	elsewhere := joinCompletes(t, client, "a", "b1")
	other := joinCompletes(t, client, "b", "b2")
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	errs := testkit.Soon(t, "answers", two)
	require.NoError(t, errs[0])
	require.Equal(t, "missing", requireCode(t, qless.ErrNotFound, errs[1]).JID)
	require.NoError(t, errs[2])
	wrong := testkit.Soon(t, "answers", elsewhere)[0]
	require.Equal(t, "b1", requireCode(t, qless.ErrWrongQueue, wrong).JID)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", other))
	require.Equal(t, []int{1, 5}, h.jobs)
	for jid, state := range map[string]qless.State{
		"a0": qless.StateComplete, "a2": qless.StateComplete, "b1": qless.StateRunning,
		"b2": qless.StateComplete,
	} {
		job, err := client.Job(t.Context(), jid)
		require.NoError(t, err)
		require.Equal(t, state, job.State, jid)
	}
}

func TestAScriptCompletesOnlySoManyJobs(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	results := []<-chan []error{
		first,
		joinCompletes(t, client, "a", numbered("a", 1, 121)...),
		joinCompletes(t, client, "b", numbered("b", 0, 80)...),
		joinCompletes(t, client, "b", "b80"),
	}
	close(h.release)
	for _, result := range results {
		for _, err := range testkit.Soon(t, "answers", result) {
			require.NoError(t, err)
		}
	}
	require.Equal(t, []int{1, 200, 1}, h.jobs)
}

func TestCompleteThatIsCanceledBeforeItIsSent(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan []error, 1)
	go func() { result <- client.Queue("a").CompleteMany(ctx, "a1") }()
	testkit.Until(t, "the call waits", func() bool { return client.WaitingCompletes() == 1 })
	cancel()
	errs := testkit.Soon(t, "answers", result)
	require.ErrorIs(t, errs[0], context.Canceled)
	require.Equal(t, "a1", requireCode(t, qless.ErrUnavailable, errs[0]).JID)
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	job, err := client.Job(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, qless.StateRunning, job.State)
}

func TestWithoutBatchingJobsAreCompletedAtOnce(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{Unbatched: true})
	require.Equal(t, []error{nil}, client.Queue("a").CompleteMany(t.Context(), "a1"))
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	require.Equal(t, []int{1, 1}, h.jobs)
}

// A firstEnd is a hook that holds the first end that is sent alone, and records the others.
type firstEnd struct {
	passing
	arrived   chan struct{}
	release   chan struct{}
	mu        sync.Mutex
	alone     int
	pipelines []int // the number of ends in each
	refuse    error // the error of pipelines
}

func isEnd(cmd redis.Cmder) bool {
	return scripts.CommandOf(cmd.Args()) == "end"
}

func (h *firstEnd) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isEnd(cmd) {
			h.mu.Lock()
			h.alone++
			first := h.alone == 1
			h.mu.Unlock()
			if first {
				close(h.arrived)
				<-h.release
			}
		}
		return next(ctx, cmd)
	}
}

func (h *firstEnd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !isEnd(cmds[0]) {
			return next(ctx, cmds)
		}
		h.mu.Lock()
		h.pipelines = append(h.pipelines, len(cmds))
		h.mu.Unlock()
		if h.refuse != nil {
			for _, cmd := range cmds {
				cmd.SetErr(h.refuse)
			}
			return h.refuse
		}
		return next(ctx, cmds)
	}
}

// An endsTest has one end in flight, which is held.
type endsTest struct {
	*testing.T
	client *qless.Client
	hook   *firstEnd
	first  chan error
}

func newEndsTest(t *testing.T, config qless.ClientConfig) *endsTest {
	rdb := testkit.Start(t).Client(t)
	hook := &firstEnd{arrived: make(chan struct{}), release: make(chan struct{})}
	rdb.AddHook(hook)
	config.Logger = testkit.Quiet()
	client, err := qless.New(rdb, &config)
	require.NoError(t, err)
	e := &endsTest{t, client, hook, make(chan error, 1)}
	first := e.put("first")
	go func() { e.first <- e.end(t.Context(), first) }()
	testkit.Soon(t, "the first end", hook.arrived)
	return e
}

func (e *endsTest) put(jid string) string {
	e.Helper()
	_, err := e.client.Queue("q").Put(e.Context(), "K", nil, qless.JID(jid))
	require.NoError(e, err)
	return jid
}

func (e *endsTest) end(ctx context.Context, jid string) error {
	_, err := e.client.End(ctx, jid, qless.End{Result: jid})
	return err
}

// begin ends jobs, each from a goroutine of its own, and returns when all wait.
func (e *endsTest) begin(ctx context.Context, jids ...string) (results map[string]chan error) {
	e.Helper()
	results = map[string]chan error{}
	for _, jid := range jids {
		result := make(chan error, 1)
		results[jid] = result
		before := e.client.WaitingEnds()
		go func() { result <- e.end(ctx, jid) }()
		testkit.Until(e, "an end that waits", func() bool {
			return e.client.WaitingEnds() == before+1
		})
	}
	return results
}

// finish lets the first end through.
func (e *endsTest) finish() {
	e.Helper()
	close(e.hook.release)
	require.NoError(e, testkit.Soon(e, "the first end", e.first))
}

func TestEndsShareARoundTripAndHaveTheirOwnResults(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	var jids []string
	for i := range 20 {
		jids = append(jids, e.put(fmt.Sprint(i)))
	}
	results := e.begin(t.Context(), append(jids, "unknown", "first")...)
	e.finish()
	require.ErrorIs(t, testkit.Soon(t, "an end", results["unknown"]), qless.ErrNotFound)
	require.ErrorIs(t, testkit.Soon(t, "an end", results["first"]), qless.ErrFinished)
	for _, jid := range jids {
		require.NoError(t, testkit.Soon(t, "an end", results[jid]))
		result, err := e.client.Result(t.Context(), jid)
		require.NoError(t, err)
		require.JSONEq(t, `"`+jid+`"`, string(result.Data))
	}
	require.Equal(t, []int{22}, e.hook.pipelines)
	require.Equal(t, 1, e.hook.alone)
}

func TestAnEndThatIsCanceledWhileItWaitsIsNotSent(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	results := e.begin(ctx, e.put("a"))
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "an end", results["a"]), context.Canceled)
	e.finish()
	_, err := e.client.Result(t.Context(), "a")
	require.ErrorIs(t, err, qless.ErrUnfinished)
	require.Empty(t, e.hook.pipelines)
}

func TestEndsThatDidNotRunAreSentAgainAndOthersAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no connection":     {&net.OpError{Op: "dial", Err: errors.New("refused")}, nil},
		"a lost connection": {errors.New("broken"), qless.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndsTest(t, qless.ClientConfig{})
			e.hook.refuse = c.err
			results := e.begin(t.Context(), e.put("a"), e.put("b"))
			e.finish()
			for _, result := range results {
				err := testkit.Soon(t, "an end", result)
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, []int{2}, e.hook.pipelines)
		})
	}
}

func TestTheObserverIsToldOfEachEndThatSharesARoundTrip(t *testing.T) {
	var mu sync.Mutex
	var told []string
	e := newEndsTest(t, qless.ClientConfig{Observer: func(_ context.Context, call qless.Command) {
		mu.Lock()
		defer mu.Unlock()
		if call.Name == "end" {
			told = append(told, call.JID)
		}
	}})
	results := e.begin(t.Context(), e.put("a"), e.put("b"))
	e.finish()
	for _, result := range results {
		require.NoError(t, testkit.Soon(t, "an end", result))
	}
	mu.Lock()
	defer mu.Unlock()
	require.ElementsMatch(t, []string{"first", "a", "b"}, told)
}

func TestAnEndWithALargeResultIsSentAlone(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	_, err := e.client.End(t.Context(), e.put("a"), qless.End{Result: strings.Repeat("x", 1<<20)})
	require.NoError(t, err)
	e.finish()
	require.Equal(t, 2, e.hook.alone)
}

func TestWithoutBatchingEndsAreSentAlone(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{Unbatched: true})
	require.NoError(t, e.end(t.Context(), e.put("a")))
	e.finish()
	require.Equal(t, 2, e.hook.alone)
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
