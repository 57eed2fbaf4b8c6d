package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

var rows = qless.NewKlass[int]("Row")

// A bulkCall has the arguments of a call of a bulk handler.
type bulkCall struct {
	ctx     context.Context
	members []*qless.Member[int]
}

// A bulkWorker records the calls of its bulk handler. The test ends each call.
type bulkWorker struct {
	*testWorker
	e     *env
	calls chan bulkCall
	end   chan error
	ctx   context.Context // of the last call
}

// bulk returns a worker with a bulk handler of rows, not yet started.
func (e *env) bulk(
	config qless.WorkerConfig, bulk qless.Bulk, options ...qless.HandleOption,
) *bulkWorker {
	e.T.Helper()
	w := &bulkWorker{e.worker(config), e, make(chan bulkCall, 1000), make(chan error, 1000), nil}
	rows.HandleBulk(w.Worker, bulk, func(ctx context.Context, all []*qless.Member[int]) error {
		w.calls <- bulkCall{ctx, slices.Clone(all)}
		select {
		case err := <-w.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, options...)
	return w
}

// bulkEnv is newLiveEnv with the worker of bulk.
func bulkEnv(
	t testing.TB, config qless.WorkerConfig, bulk qless.Bulk, options ...qless.HandleOption,
) (*env, *bulkWorker) {
	t.Helper()
	e := newLiveEnv(t)
	return e, e.bulk(config, bulk, options...)
}

// begin puts a number of rows, and starts the worker, which may never be idle.
func (w *bulkWorker) begin(rows int, options ...qless.PutOption) {
	w.e.T.Helper()
	w.put(0, rows, options...)
	require.NoError(w.e.T, w.Start(context.Background()))
}

// put puts rows with these numbers, also used as jids.
func (w *bulkWorker) put(from, to int, options ...qless.PutOption) {
	w.e.T.Helper()
	var specs []qless.JobSpec
	for i := from; i < to; i++ {
		specs = append(specs, rows.Spec(i, append(options, qless.JID(fmt.Sprint(i)))...))
	}
	_, err := w.e.Queue("q").PutMany(w.e.T.Context(), specs)
	require.NoError(w.e.T, err)
}

// called waits for the next call, and returns its numbers.
func (w *bulkWorker) called() (numbers []int) {
	w.e.T.Helper()
	call := soon(w.e.T, "a call", w.calls)
	w.ctx = call.ctx
	for _, m := range call.members {
		require.Equal(w.e.T, fmt.Sprint(m.Data), m.Job.JID)
		numbers = append(numbers, m.Data)
	}
	slices.Sort(numbers)
	return numbers
}

// becomes waits until rows have a state.
func (w *bulkWorker) becomes(state qless.State, numbers ...int) {
	w.e.T.Helper()
	for _, i := range numbers {
		until(w.e.T, fmt.Sprint(i, " is ", state), func() bool {
			return w.e.state(fmt.Sprint(i)) == string(state)
		})
	}
}

// holds waits until the worker has prefetched a number of jobs.
func (w *bulkWorker) holds(jobs int) {
	w.e.T.Helper()
	until(w.e.T, "the worker holds the jobs", func() bool { return w.Stats().Prefetched == jobs })
}

func TestManyJobsAreHandledTogether(t *testing.T) {
	_, w := bulkEnv(t, qless.WorkerConfig{Concurrency: 4}, qless.Bulk{Max: 100, Wait: time.Hour})
	w.begin(1000)
	seen := map[int]bool{}
	for range 10 {
		numbers := w.called()
		require.Len(t, numbers, 100)
		for _, n := range numbers {
			seen[n] = true
		}
		require.LessOrEqual(t, len(w.Stats().Running), 400, "four calls")
		w.end <- nil
	}
	require.Len(t, seen, 1000)
	until(t, "all are complete", func() bool { return w.Stats().Completed == 1000 })
	require.Zero(t, w.Stats().Released)
}

func TestACallWithoutAWaitTakesWhatIsReady(t *testing.T) {
	_, w := bulkEnv(t, qless.WorkerConfig{Concurrency: 20}, qless.Bulk{Max: 10})
	w.begin(3)
	require.Equal(t, []int{0, 1, 2}, w.called())
	w.put(3, 4)
	require.Equal(t, []int{3}, w.called(), "beside the first call")
	w.end <- nil
	w.end <- nil
	w.becomes(qless.StateComplete, 0, 1, 2, 3)
}

func TestACallBeginsWhenItsTimeIsOver(t *testing.T) {
	_, w := bulkEnv(t, qless.WorkerConfig{}, qless.Bulk{Max: 10, Wait: 20 * time.Millisecond})
	w.begin(0)
	w.put(0, 1)
	require.Equal(t, []int{0}, w.called())
	w.end <- nil
	w.becomes(qless.StateComplete, 0)
}

func TestMembersHaveTheirOwnOutcomes(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	rows.HandleBulk(w.Worker, qless.Bulk{Max: 4, Wait: time.Hour},
		func(_ context.Context, all []*qless.Member[int]) error {
			for _, m := range all {
				switch m.Data {
				case 1:
					m.Err = qless.FailWith("one", nil)
				case 2:
					m.Err = qless.Next("next")
				case 3:
					require.NoError(t, m.Job.SetResult("three"))
					m.Err = qless.Snooze(time.Hour)
				}
			}
			return qless.RetryIn(time.Hour, errors.New("all"))
		})
	b := &bulkWorker{testWorker: w, e: e}
	b.begin(4, qless.Retries(2))
	for i, action := range []string{"retry", "fail", "complete", "release"} {
		require.Equal(t, action, w.outcome(strconv.Itoa(i)).action)
	}
	require.Equal(t, 1, e.Read("0").Remaining)
	require.Equal(t, "one", e.Read("1").Failure.Group)
	require.Equal(t, "next", e.Read("2").Queue)
	require.Equal(t, 2, e.Read("3").Remaining)
}

func TestACallThatDoesNotReturnFailsItsMembers(t *testing.T) {
	for misdeed, group := range map[string]string{"panic": "Row:panic", "goexit": "Row:" + isGoexit[2:]} {
		e := newLiveEnv(t)
		w, o := e.watched(qless.WorkerConfig{})
		rows.HandleBulk(w.Worker, qless.Bulk{Max: 2, Wait: time.Hour},
			func(_ context.Context, all []*qless.Member[int]) error {
				for _, m := range all {
					m.Err = errors.New("of its own")
				}
				if misdeed == "panic" {
					panic("a misdeed")
				}
				runtime.Goexit()
				return nil
			})
		b := &bulkWorker{testWorker: w, e: e}
		b.begin(2, qless.Retries(0))
		for _, jid := range []string{"0", "1"} {
			e.fails(jid, group)
			if misdeed == "panic" {
				o.ends(t, jid, qless.JobEventStarted, qless.JobEventPanicked)
				require.ErrorContains(t, o.of(jid)[1].Err, "a misdeed")
			}
		}
	}
}

func TestACallHasJobsOfOneKey(t *testing.T) {
	e := newLiveEnv(t)
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 3, Wait: time.Hour, By: func(job *qless.Job) string {
		n, _ := rows.Data(job)
		clear(job.Data) // a copy
		return fmt.Sprint(n % 2)
	}})
	w.begin(7)
	calls := [][]int{w.called(), w.called()}
	slices.SortFunc(calls, slices.Compare)
	require.Equal(t, [][]int{{0, 2, 4}, {1, 3, 5}}, calls)
	w.holds(1)
	w.end <- nil
	w.end <- nil
	w.stop()
	require.Equal(t, qless.StateWaiting, e.Read("6").State)
}

// The worker leaves the data of such a job alone: it may be JSON only to other clients.
func TestAJobWhoseKeyFailsKeepsItsData(t *testing.T) {
	e := newLiveEnv(t)
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 2, By: func(*qless.Job) string { panic("a misdeed") }})
	w.put(0, 1, qless.Retries(0))
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:0", "data", "NaN").Err())
	w.begin(0)
	e.fails("0", "Row:panic")
	require.Equal(t, "NaN", string(e.Read("0").Data))
	w.stop()
}

func TestWaitingMembersAreReleased(t *testing.T) {
	for how, end := range map[string]func(w *bulkWorker){
		"pause": func(w *bulkWorker) { w.Pause() },
		"stop":  func(w *bulkWorker) { w.stop() },
		"drain": func(w *bulkWorker) { require.NoError(w.t, w.Drain(w.t.Context())) },
	} {
		e, w := bulkEnv(t, qless.WorkerConfig{}, qless.Bulk{Max: 10, Wait: time.Hour})
		w.begin(3, qless.Retries(5))
		w.holds(3)
		require.Equal(t, qless.StateRunning, e.Read("0").State)
		end(w)
		w.becomes(qless.StateWaiting, 0, 1, 2)
		require.Equal(t, 5, e.Read("1").Remaining, how)
		require.Empty(t, w.calls, how)
		jobs := must(e.Queue("q").Peek(t.Context(), 10))(t)
		require.Equal(t, []string{"0", "1", "2"}, jids(jobs), "they keep their order")
	}
}

func TestLocksOfWaitingMembersAreKept(t *testing.T) {
	e := newLiveEnv(t)
	require.NoError(t, e.Queue("q").SetHeartbeat(t.Context(), 12*time.Second))
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 3, Wait: time.Hour})
	w.begin(2)
	w.holds(2)
	w.await(t, "renewals", 1, of("renew"))
	require.NoError(t, e.Cancel(t.Context(), "0"))
	w.holds(1)
	w.put(2, 4)
	require.Equal(t, []int{1, 2, 3}, w.called())
	w.end <- nil
	w.becomes(qless.StateComplete, 1, 2, 3)
}

func TestAMemberIsLostAlone(t *testing.T) {
	e, w := bulkEnv(t, qless.WorkerConfig{}, qless.Bulk{Max: 2, Wait: time.Hour})
	w.begin(2)
	require.Equal(t, []int{0, 1}, w.called())
	require.NoError(t, e.Cancel(t.Context(), "0"))
	until(t, "the worker knows", func() bool { return w.Stats().Canceled == 1 })
	require.NoError(t, w.ctx.Err())
	w.end <- nil
	w.becomes(qless.StateComplete, 1)
	until(t, "the worker counts the other", func() bool { return w.Stats().Completed == 1 })

	w.put(2, 4)
	require.Equal(t, []int{2, 3}, w.called())
	for _, jid := range []string{"2", "3"} {
		require.NoError(t, e.Cancel(t.Context(), jid))
	}
	until(t, "the call has ended", func() bool { return w.ctx.Err() != nil })
	require.ErrorIs(t, context.Cause(w.ctx), qless.ErrCanceled)
}

func TestACallHasTheShortestMaxRunTime(t *testing.T) {
	e := newLiveEnv(t)
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 2, Wait: time.Hour}, qless.MaxRunTime(time.Hour))
	w.put(0, 1, qless.Retries(0))
	w.put(1, 2, qless.Retries(0), qless.MaxRunTime(20*time.Millisecond))
	w.begin(0)
	w.called()
	e.fails("0", "Row:max-run-time")
	e.fails("1", "Row:max-run-time")
	require.ErrorIs(t, context.Cause(w.ctx), qless.ErrMaxRunTime)
}

func TestAStoppedWorkerEndsItsCalls(t *testing.T) {
	e, w := bulkEnv(t, qless.WorkerConfig{ShutdownTimeout: -1}, qless.Bulk{Max: 2, Wait: time.Hour})
	w.begin(2, qless.Retries(5))
	w.called()
	_ = w.Stop(t.Context())
	w.becomes(qless.StateWaiting, 0, 1)
	require.Equal(t, 5, e.Read("0").Remaining)
	until(t, "the call has ended", func() bool { return w.ctx.Err() != nil })
	require.ErrorIs(t, context.Cause(w.ctx), qless.ErrStopped)
}

func TestConcurrencyCountsCalls(t *testing.T) {
	e := newLiveEnv(t)
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 2, Wait: time.Hour}, qless.Concurrency(1))
	w.begin(8)
	var all []int
	for range 4 {
		called := w.called()
		require.Len(t, called, 2)
		require.Len(t, w.Stats().Running, 2)
		all = append(all, called...)
		w.end <- nil
	}
	// Jobs handed back may return after the jobs behind them.
	require.ElementsMatch(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, all)
	until(t, "all are complete", func() bool { return w.Stats().Completed == 8 })
}

func TestLimitsBoundTheMembersOfACall(t *testing.T) {
	e := newLiveEnv(t)
	require.NoError(t, e.Limit("l").Set(t.Context(), qless.LimitConfig{Concurrency: 3}))
	w := e.bulk(qless.WorkerConfig{}, qless.Bulk{Max: 10})
	w.begin(6, qless.Limits{"l"})
	require.Equal(t, []int{0, 1, 2}, w.called())
	w.end <- nil
	for done := 3; done < 6; {
		done += len(w.called())
		w.end <- nil
	}
	until(t, "all are complete", func() bool { return w.Stats().Completed == 6 })
}

func TestEventsOfMembersAreTheirOwn(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w := e.bulk(qless.WorkerConfig{Observer: o.observe}, qless.Bulk{Max: 2, Wait: time.Hour})
	wrapped := make(chan string, 10)
	w.Use(before(func(job *qless.Job) error { wrapped <- job.JID; return nil }))
	w.begin(1)
	w.holds(1)
	require.Empty(t, w.Stats().Running)
	require.Empty(t, o.of("0"))
	w.put(1, 2)
	w.called()
	require.Len(t, w.Stats().Running, 2)
	w.end <- nil
	w.stop()
	for _, jid := range []string{"0", "1"} {
		o.ends(t, jid, qless.JobEventStarted)
	}
	require.ElementsMatch(t, []string{"0", "1"}, []string{<-wrapped, <-wrapped})
}

// A job with wrong data, or ended by a middleware, is no member.
func TestACallBeginsWithoutThoseThatFailBefore(t *testing.T) {
	e, w := bulkEnv(t, qless.WorkerConfig{}, qless.Bulk{Max: 3, Wait: time.Hour})
	w.Use(before(func(job *qless.Job) error {
		if job.JID == "1" {
			return qless.FailWith("refused", nil)
		}
		return nil
	}))
	w.put(0, 2)
	must(e.Queue("q").Put(t.Context(), "Row", "text", qless.JID("2")))(t)
	w.begin(0)
	require.Equal(t, []int{0}, w.called())
	w.end <- nil
	w.becomes(qless.StateComplete, 0)
	e.fails("1", "refused")
	e.fails("2", "Row:data")
}

func TestOtherKlassesRunBesideBulkCalls(t *testing.T) {
	e, w := bulkEnv(t, qless.WorkerConfig{Concurrency: 3}, qless.Bulk{Max: 10, Wait: time.Hour})
	w.Handle("K", nothing)
	for i := range 100 {
		w.put(i, i+1)
		e.Put("q")
	}
	w.begin(0)
	for range 10 {
		require.Len(t, w.called(), 10)
		w.end <- nil
	}
	until(t, "all are complete", func() bool { return w.Stats().Completed == 200 })
}

func TestABulkHandlerMustBeValid(t *testing.T) {
	e := newLiveEnv(t)
	work := func(context.Context, []*qless.Member[int]) error { return nil }
	for problem, bulk := range map[string]qless.Bulk{
		"Bulk.Max 1 is not from 2 to 1000":    {Max: 1},
		"Bulk.Max 1001 is not from 2 to 1000": {Max: 1001},
		"negative Bulk.Wait -1ns":             {Max: 2, Wait: -1},
	} {
		require.PanicsWithValue(t, `qless: Handle("Row"): `+problem, func() {
			rows.HandleBulk(e.worker(qless.WorkerConfig{}).Worker, bulk, work)
		})
	}
	require.PanicsWithValue(t, `qless: HandleBulk("Row"): nil function`, func() {
		rows.HandleBulk(e.worker(qless.WorkerConfig{}).Worker, qless.Bulk{Max: 2}, nil)
	})
}

func TestABulkHandlerIsTestedWithOneJob(t *testing.T) {
	_, w := workerEnv(t, qless.WorkerConfig{})
	own := errors.New("own")
	rows.HandleBulk(w.Worker, qless.Bulk{Max: 2},
		func(_ context.Context, all []*qless.Member[int]) error {
			require.Len(t, all, 1)
			if all[0].Data == 1 {
				all[0].Err = own
			}
			return errors.ErrUnsupported
		})
	for data, want := range map[string]error{"1": own, "2": errors.ErrUnsupported} {
		job := &qless.Job{Klass: "Row", Data: []byte(data)}
		require.ErrorIs(t, w.Worker.Handler("Row")(t.Context(), job), want)
	}
}
