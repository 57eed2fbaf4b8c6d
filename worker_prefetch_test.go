package qless_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// An aheadEnv has a worker of one slot that runs a long job and has taken the jobs m, z and a
// ahead, in this order.
type aheadEnv struct {
	t      *testing.T
	server *testkit.Server
	client *qless.Client
	queue  *qless.Queue
	worker *qless.Worker
	end    func() // ends the long job
	ended  chan struct{}
	ran    chan string // the jids of other jobs that were run

	mu     sync.Mutex
	events []qless.JobEvent
	counts []int // the number of jobs of each reserve that returned any
}

var takenAhead = []string{"m", "z", "a"}

func newAheadEnv(t *testing.T, settings map[string]any) *aheadEnv {
	t.Helper()
	e := emptyAheadEnv(t)
	for name, value := range settings {
		require.NoError(t, e.client.Config().Set(t.Context(), name, value))
	}
	e.putLong()
	for _, jid := range takenAhead {
		e.put("K", jid)
	}
	e.start("q")
	e.holds(len(takenAhead))
	return e
}

func emptyAheadEnv(t *testing.T) *aheadEnv {
	t.Helper()
	end := make(chan struct{})
	e := &aheadEnv{
		t: t, server: testkit.Start(t), ran: make(chan string, 100),
		end: sync.OnceFunc(func() { close(end) }), ended: end,
	}
	var err error
	e.client, err = qless.New(
		e.server.Client(t), &qless.ClientConfig{Logger: testkit.Quiet(), Observer: e.observeCall})
	require.NoError(t, err)
	e.queue = e.client.Queue("q")
	return e
}

func (e *aheadEnv) observeCall(_ context.Context, call qless.Command) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if call.Name == "reserve" && call.Count > 0 {
		e.counts = append(e.counts, call.Count)
	}
}

// takeCounts returns the number of jobs of each reserve since the last time.
func (e *aheadEnv) takeCounts() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := e.counts
	e.counts = nil
	return counts
}

// putLong puts the long job after as many short ones as a worker times.
func (e *aheadEnv) putLong(options ...qless.PutOption) {
	e.t.Helper()
	for i := range 8 {
		e.put("Short", fmt.Sprint("short", i), options...)
	}
	e.put("Long", "long", options...)
}

// start starts the worker, and waits until the long job runs.
func (e *aheadEnv) start(queues ...string) {
	e.t.Helper()
	var err error
	e.worker, err = qless.NewWorker(e.client, qless.WorkerConfig{
		Queues: queues, Concurrency: 1, PollInterval: time.Hour, Observer: e.observe,
	})
	require.NoError(e.t, err)
	e.worker.SetPrefetchWindow(time.Hour)
	running := make(chan bool, 1)
	e.worker.Handle("Short", func(context.Context, *qless.Job) error { return nil })
	e.worker.Handle("Long", func(context.Context, *qless.Job) error {
		running <- true
		<-e.ended
		return nil
	})
	e.worker.Handle("K", e.run)
	require.NoError(e.t, e.worker.Start(e.t.Context()))
	e.t.Cleanup(func() {
		e.end()
		_ = e.worker.Stop(context.Background())
	})
	testkit.Soon(e.t, "the long job", running)
}

func (e *aheadEnv) run(_ context.Context, job *qless.Job) error {
	e.ran <- job.JID
	return nil
}

func (e *aheadEnv) put(klass, jid string, options ...qless.PutOption) {
	e.t.Helper()
	e.putInto("q", klass, jid, options...)
}

func (e *aheadEnv) putInto(queue, klass, jid string, options ...qless.PutOption) {
	e.t.Helper()
	options = append([]qless.PutOption{qless.JID(jid)}, options...)
	_, err := e.client.Queue(queue).Put(e.t.Context(), klass, nil, options...)
	require.NoError(e.t, err)
}

func (e *aheadEnv) observe(event qless.JobEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

// eventsOf returns the kinds of the events of a job.
func (e *aheadEnv) eventsOf(jid string) (kinds []qless.JobEventKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.events {
		if event.JID == jid {
			kinds = append(kinds, event.Kind)
		}
	}
	return kinds
}

// holds waits until the worker holds a number of jobs ahead.
func (e *aheadEnv) holds(count int) {
	e.t.Helper()
	testkit.Until(e.t, fmt.Sprint(count, " jobs are held ahead"), func() bool {
		return e.worker.Stats().Prefetched == count
	})
}

// runs requires that the worker runs jobs in their order.
func (e *aheadEnv) runs(jids ...string) {
	e.t.Helper()
	for _, jid := range jids {
		require.Equal(e.t, jid, testkit.Soon(e.t, "a job", e.ran))
	}
}

func (e *aheadEnv) job(jid string) *qless.Job {
	e.t.Helper()
	job, err := e.client.Job(e.t.Context(), jid)
	require.NoError(e.t, err)
	return job
}

// givenBack waits until the jobs that were taken ahead wait in the queue again, and requires that
// they are its next jobs in order, and have all their retries.
func (e *aheadEnv) givenBack() {
	e.t.Helper()
	for _, jid := range takenAhead {
		testkit.Until(e.t, jid+" waits", func() bool { return e.job(jid).State == qless.StateWaiting })
		require.Equal(e.t, 5, e.job(jid).Remaining)
	}
	require.Equal(e.t, append(takenAhead[:3:3], "new"), e.waiting("q"))
}

// waiting returns the next jobs of a queue.
func (e *aheadEnv) waiting(queue string) (jids []string) {
	e.t.Helper()
	jobs, err := e.client.Queue(queue).Peek(e.t.Context(), 10)
	require.NoError(e.t, err)
	for _, job := range jobs {
		jids = append(jids, job.JID)
	}
	return jids
}

func TestJobsThatWereTakenAheadRunInTheirOrder(t *testing.T) {
	e := newAheadEnv(t, nil)
	running := e.worker.Stats().Running
	require.Len(t, running, 1)
	require.Equal(t, "long", running[0].JID)
	for _, jid := range takenAhead {
		require.Equal(t, qless.StateRunning, e.job(jid).State, "for the server")
		require.Empty(t, e.eventsOf(jid))
	}
	e.end()
	e.runs(takenAhead...)
	for _, jid := range takenAhead {
		testkit.Until(t, jid+" ends", func() bool { return len(e.eventsOf(jid)) == 2 })
		ran := []qless.JobEventKind{qless.JobEventStarted, qless.JobEventEnded}
		require.Equal(t, ran, e.eventsOf(jid))
	}
}

func TestStopGivesBackWhatWasTakenAhead(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	stopped := make(chan error, 1)
	go func() { stopped <- e.worker.Stop(context.Background()) }()
	e.givenBack()
	e.end()
	require.NoError(t, testkit.Soon(t, "the end of Stop", stopped))
	require.Empty(t, e.ran)
	require.Zero(t, e.worker.Stats().Lost)
}

func TestPauseGivesBackWhatWasTakenAhead(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	e.worker.Pause()
	e.givenBack()
	e.worker.Resume()
	e.end()
	e.runs(append(takenAhead[:3:3], "new")...)
	require.Zero(t, e.worker.Stats().Lost)
}

func TestAHandlerThatOverrunsGivesBackWhatWasTakenAhead(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	e.worker.OverrunPrefetch()
	e.givenBack()
	e.end()
	e.runs(append(takenAhead[:3:3], "new")...)
	require.Equal(t, 3, e.worker.Stats().Released)
	require.Zero(t, e.worker.Stats().Lost)
}

func TestNothingIsTakenAheadSoonAfterGivingBack(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	e.worker.OverrunPrefetch()
	e.givenBack()
	e.takeCounts()
	for i := range 20 {
		e.put("K", fmt.Sprint("later", i))
	}
	e.end()
	testkit.Until(t, "all jobs are complete", func() bool {
		return e.worker.Stats().Completed == 8+1+4+20
	})
	require.Equal(t, ones(7), e.takeCounts()[:7], "until handlers were timed again")
}

// While the queue is paused, released jobs are not popped.
func TestWhatIsGivenBackToAPausedQueueWaits(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	require.NoError(t, e.queue.Pause(t.Context()))
	e.worker.OverrunPrefetch()
	e.givenBack()
	e.end()
	testkit.Until(t, "the worker is idle", func() bool { return e.worker.Stats().Idle })
	require.Equal(t, append(takenAhead[:3:3], "new"), e.waiting("q"))
	require.Empty(t, e.ran)
	require.NoError(t, e.queue.Resume(t.Context()))
	e.runs(append(takenAhead[:3:3], "new")...)
}

func TestWhatIsGivenBackGoesToItsPlaceInItsQueue(t *testing.T) {
	e := emptyAheadEnv(t)
	e.putLong(qless.Priority(10))
	for _, jid := range []string{"m", "z"} {
		e.put("K", jid, qless.Priority(5))
	}
	e.put("K", "low")
	for _, jid := range []string{"y", "b"} {
		e.putInto("r", "K", jid)
	}
	e.start("q", "r")
	e.holds(5)
	e.put("K", "new", qless.Priority(5))
	e.putInto("r", "K", "newer")
	e.putInto("r", "K", "urgent", qless.Priority(1))
	stopped := make(chan error, 1)
	go func() { stopped <- e.worker.Stop(context.Background()) }()
	testkit.Until(t, "all wait", func() bool { return len(e.waiting("q"))+len(e.waiting("r")) == 8 })
	require.Equal(t, []string{"m", "z", "new", "low"}, e.waiting("q"))
	require.Equal(t, []string{"urgent", "y", "b", "newer"}, e.waiting("r"))
	e.end()
	require.NoError(t, testkit.Soon(t, "the end of Stop", stopped))
}

// To the server, they are running.
func TestJobsOfAPausedQueueThatWereTakenAheadStillRun(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.put("K", "new")
	require.NoError(t, e.queue.Pause(t.Context()))
	e.end()
	e.runs(takenAhead...)
	testkit.Until(t, "the worker is idle", func() bool { return e.worker.Stats().Idle })
	require.Equal(t, []string{"new"}, e.waiting("q"))
	require.NoError(t, e.queue.Resume(t.Context()))
	e.runs("new")
}

func TestASecondWorkerGetsWhatTheFirstDoesNotHold(t *testing.T) {
	const jobs = 40
	e := emptyAheadEnv(t)
	e.putLong()
	for i := range jobs {
		e.put("K", fmt.Sprint("k", i))
	}
	e.start("q")
	second, err := qless.NewWorker(e.client, qless.WorkerConfig{Queues: []string{"q"}, Concurrency: 1})
	require.NoError(t, err)
	second.Handle("K", e.run)
	require.NoError(t, second.Start(t.Context()))
	testkit.Until(t, "the second has nothing to do", func() bool {
		return second.Stats().Idle && len(e.waiting("q")) == 0
	})
	held := e.worker.Stats().Prefetched
	require.Positive(t, held)
	require.LessOrEqual(t, held, 16)
	require.NoError(t, second.Stop(t.Context()))
	require.Equal(t, jobs-held, second.Stats().Completed)
	e.end()
	testkit.Until(t, "the first has run the others", func() bool {
		return e.worker.Stats().Completed == 8+1+held
	})
}

func TestLocksOfJobsThatWereTakenAheadAreRenewed(t *testing.T) {
	e := newAheadEnv(t, map[string]any{"heartbeat": 2})
	for range 3 {
		expires := e.job("a").Expires
		testkit.Until(t, "a renewal", func() bool { return e.job("a").Expires.After(expires) })
	}
	e.end()
	e.runs(takenAhead...)
	require.Equal(t, 5, e.job("a").Remaining)
}

func TestJobCanceledWhileHeldAheadLeavesSilently(t *testing.T) {
	e := newAheadEnv(t, nil)
	require.NoError(t, e.client.Cancel(t.Context(), "z"))
	e.holds(2)
	e.end()
	e.runs("m", "a")
	require.NoError(t, e.worker.Stop(t.Context()))
	stats := e.worker.Stats()
	require.Zero(t, stats.Canceled+stats.Lost+stats.Released)
	require.Empty(t, e.eventsOf("z"))
}

func TestAJobThatIsLostWhileItIsHeldAheadIsNotStarted(t *testing.T) {
	e := newAheadEnv(t, nil)
	require.NoError(t, repairs.TimeOut(t.Context(), e.client, "z"))
	other, err := qless.New(e.server.Client(t), &qless.ClientConfig{WorkerName: "other"})
	require.NoError(t, err)
	jobs, err := other.Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "z", jobs[0].JID)
	e.holds(2)
	e.end()
	e.runs("m", "a")
	require.NoError(t, e.worker.Stop(t.Context()))
	require.Zero(t, e.worker.Stats().Lost)
	require.Empty(t, e.eventsOf("z"))
	require.Equal(t, "other", e.job("z").Worker)
}

func TestStopReturnsThoughGivingBackFails(t *testing.T) {
	e := newAheadEnv(t, nil)
	e.server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.worker.Stop(ctx) }()
	require.ErrorIs(t, testkit.Soon(t, "the end of Stop", stopped), qless.ErrStopped)
	require.Empty(t, e.ran)
}

// worksOff lets a worker of one slot run some short jobs, and returns the number of jobs of each
// reserve.
func worksOff(
	t *testing.T, config qless.WorkerConfig, set func(client *qless.Client),
) (counts []int) {
	t.Helper()
	const jobs = 200
	var mu sync.Mutex
	observer := func(_ context.Context, call qless.Command) {
		mu.Lock()
		defer mu.Unlock()
		if call.Name == "reserve" && call.Count > 0 {
			counts = append(counts, call.Count)
		}
	}
	rdb := testkit.Start(t).Client(t)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	observed, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), Observer: observer})
	require.NoError(t, err)
	if set != nil {
		set(client)
	}
	for range jobs {
		_, err := client.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
	}
	config.Queues, config.Concurrency, config.PollInterval = []string{"q"}, 1, time.Hour
	worker, err := qless.NewWorker(observed, config)
	require.NoError(t, err)
	worker.SetPrefetchWindow(time.Hour)
	worker.Handle("K", func(context.Context, *qless.Job) error { return nil })
	require.NoError(t, worker.Start(t.Context()))
	testkit.Until(t, "all jobs are complete", func() bool { return worker.Stats().Completed == jobs })
	require.NoError(t, worker.Stop(t.Context()))
	return counts
}

func ones(n int) (all []int) {
	for range n {
		all = append(all, 1)
	}
	return all
}

func TestAWorkerWithShortHandlersAsksSeldom(t *testing.T) {
	counts := worksOff(t, qless.WorkerConfig{}, nil)
	require.Equal(t, ones(8), counts[:8], "until handlers were timed")
	require.Less(t, len(counts), 60)
}

func TestShortHandlersAskSeldomWhileAnotherIsIdle(t *testing.T) {
	counts := worksOff(t, qless.WorkerConfig{}, func(client *qless.Client) {
		other, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"other"}})
		require.NoError(t, err)
		other.Handle("K", func(context.Context, *qless.Job) error { return nil })
		require.NoError(t, other.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, other.Stop(context.Background())) })
		testkit.Until(t, "it is idle", func() bool { return other.Stats().Idle })
	})
	require.Less(t, len(counts), 60)
}

func TestAWorkerTakesNoMoreAheadThanPrefetchSays(t *testing.T) {
	for _, count := range worksOff(t, qless.WorkerConfig{Prefetch: 3}, nil) {
		require.LessOrEqual(t, count, 4)
	}
}

// A chat is a worker of one slot with a backlog that never ends: each job puts another one.
type chat struct {
	special chan string // the jid of the special job that runs; then no other does
	between int         // the number of jobs that ran after act, until then
}

// chatty starts such a worker. The first job that runs while others are held ahead calls act with
// their number.
func chatty(
	t *testing.T, config qless.WorkerConfig, act func(client *qless.Client, held int),
) *chat {
	t.Helper()
	c := &chat{special: make(chan string, 1)}
	client, err := qless.New(testkit.Start(t).Client(t), &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	put := func(ctx context.Context) error {
		_, err := client.Queue("mail-b").Put(ctx, "K", nil)
		return err
	}
	for range 50 {
		require.NoError(t, put(t.Context()))
	}
	config.Concurrency, config.PollInterval = 1, time.Hour
	worker, err := qless.NewWorker(client, config)
	require.NoError(t, err)
	worker.SetPrefetchWindow(time.Hour)
	acted := false // one job runs at a time
	worker.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		c.between++
		if held := worker.Stats().Prefetched; held > 0 && !acted {
			acted = true
			act(client, held)
			c.between = 0
		}
		return put(ctx)
	})
	worker.Handle("Special", func(_ context.Context, job *qless.Job) error {
		c.special <- job.JID
		<-t.Context().Done()
		return nil
	})
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, worker.Stop(context.Background())) })
	return c
}

// A job ahead of the others waits for the ones taken ahead, but for no more of the backlog.
func TestAJobIsBehindNoMoreThanWhatWasTakenAhead(t *testing.T) {
	const prefetch = 5
	for name, c := range map[string]struct {
		order  qless.Order
		queue  string
		option qless.PutOption
		turns  int // of the others before its own
	}{
		"of a higher priority":     {qless.OrderStrict, "mail-b", qless.Priority(1), 0},
		"of an earlier queue":      {qless.OrderStrict, "mail-a", qless.Priority(0), 0},
		"of another queue in turn": {qless.OrderRoundRobin, "mail-a", qless.Priority(0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			config := qless.WorkerConfig{
				Queues: []string{"mail-a", "mail-b"}, Order: c.order, Prefetch: prefetch,
			}
			ahead := 0
			chat := chatty(t, config, func(client *qless.Client, held int) {
				ahead = held
				_, err := client.Queue(c.queue).Put(t.Context(), "Special", nil, c.option)
				assert.NoError(t, err)
			})
			testkit.Soon(t, "the special job", chat.special)
			require.GreaterOrEqual(t, chat.between, ahead)
			require.LessOrEqual(t, chat.between, prefetch+c.turns)
		})
	}
}

func TestNewQueueIsAskedThoughJobsAreTakenAhead(t *testing.T) {
	for _, order := range []qless.Order{qless.OrderRoundRobin, qless.OrderShuffled} {
		config := qless.WorkerConfig{Queues: []string{"mail-*"}, Order: order}
		chat := chatty(t, config, func(client *qless.Client, _ int) {
			_, err := client.Queue("mail-new").Put(t.Context(), "Special", nil, qless.JID("new"))
			assert.NoError(t, err)
		})
		require.Equal(t, "new", testkit.Soon(t, "the job of the new queue", chat.special))
	}
}

func TestNothingIsTakenAhead(t *testing.T) {
	for name, c := range map[string]struct {
		config qless.WorkerConfig
		set    func(client *qless.Client)
	}{
		"if it is switched off": {qless.WorkerConfig{Prefetch: -1}, nil},
		"of a queue with a max-concurrency": {qless.WorkerConfig{}, func(client *qless.Client) {
			require.NoError(t, client.Queue("q").SetMaxConcurrency(t.Context(), 1000))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, ones(200), worksOff(t, c.config, c.set))
		})
	}
}
