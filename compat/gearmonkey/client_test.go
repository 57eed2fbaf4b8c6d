package gearmonkey_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

func TestRollCall(t *testing.T) {
	e := newEnv(t)
	for _, count := range []string{"", "0", "-1", "x", "1.5", "1x"} {
		if count != "" {
			e.cli("SET count:F " + count)
		}
		id, err := e.Run(t.Context(), "F", nil, gearmonkey.RollCall())
		requireCode(t, gearmonkey.ErrNoWorkers, err)
		require.Zero(t, id)
		require.Empty(t, e.cli("KEYS [^c]*"), "nothing is written for the count %q", count)
	}
	e.cli("DEL count:F")
	e.cli("LPUSH count:F x")
	requireCode(t, gearmonkey.ErrServer,
		errOf(e.Run(t.Context(), "F", nil, gearmonkey.RollCall())))
	require.Empty(t, e.cli("KEYS [^c]*"))

	e.cli("DEL count:F")
	e.cli("SET count:F 1")
	require.EqualValues(t, 1, e.run("F", "", gearmonkey.RollCall()))
}

func TestRollCallSeesAWorker(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	e.works(1, func(ctx context.Context, _ *gearmonkey.Job) ([]byte, error) {
		e.run("F", "", gearmonkey.RollCall())
		return nil, nil
	})
	requireCode(t, gearmonkey.ErrNoWorkers,
		errOf(e.Run(t.Context(), "F", nil, gearmonkey.RollCall())))
}

func TestIDsCountForEachFunction(t *testing.T) {
	e := newEnv(t)
	require.EqualValues(t, 1, e.run("F", ""))
	require.EqualValues(t, 2, e.run("F", ""))
	require.EqualValues(t, 1, e.run("G", ""))
	require.EqualValues(t, 3, e.run("F", ""))
	e.cli("SET uid:F 41")
	require.EqualValues(t, 42, e.run("F", ""))
}

func TestNoIDIsNoJob(t *testing.T) {
	e := newEnv(t)
	e.cli("LPUSH uid:F x")
	id, err := e.Run(t.Context(), "F", nil)
	requireCode(t, gearmonkey.ErrServer, err)
	require.Zero(t, id)
	require.Equal(t, []any{"uid:F"}, e.cli("KEYS *"))
}

func TestAJobThatIsNotStoredIsNotQueued(t *testing.T) {
	e := newEnv(t)
	e.cli("LPUSH job:F:1 x")
	id, err := e.Run(t.Context(), "F", nil)
	own := requireCode(t, gearmonkey.ErrServer, err)
	require.EqualValues(t, 1, id)
	require.EqualValues(t, 1, own.ID)
	require.Empty(t, e.cli("KEYS queue:*"))
}

func TestGetUnknown(t *testing.T) {
	e := newEnv(t)
	_, err := e.Get(t.Context(), "F", 1)
	own := requireCode(t, gearmonkey.ErrNotFound, err)
	require.Equal(t, "F", own.Function)
	require.EqualValues(t, 1, own.ID)
	require.EqualError(t, err, "gearmonkey: get F:1: no such job")

	e.run("F", "")
	e.cli("DEL job:F:1") // as if it had expired
	requireCode(t, gearmonkey.ErrNotFound, errOf(e.Get(t.Context(), "F", 1)))
}

func TestGetReadsWhatOthersWrote(t *testing.T) {
	e := newEnv(t)
	e.cli(`HMSET job:F:7 status busy input x status:dividend 0.5 status:divisor 2 mine too`)
	state := e.state("F", 7)
	require.Equal(t, &gearmonkey.State{
		Function: "F", ID: 7, Status: gearmonkey.StatusBusy, Input: []byte("x"), Dividend: 0.5, Divisor: 2,
	}, state)
	require.Equal(t, 0.25, state.Progress())

	e.cli(`HMSET job:F:7 status odd status:dividend half status:divisor NaN`)
	state = e.state("F", 7)
	require.Zero(t, state.Progress())
	require.False(t, state.Status.Finished())
}

func TestArgumentsAreChecked(t *testing.T) {
	e := newEnv(t)
	for name, options := range map[string][]gearmonkey.RunOption{
		"before 1970":       {gearmonkey.At(time.Time{})},
		"negative timeout":  {gearmonkey.Blocking(-1)},
		"endless timeout":   {gearmonkey.Blocking(1 << 62)},
		"unknown priority":  {gearmonkey.Priority("urgent")},
		"scheduled by name": {gearmonkey.Priority("scheduled")},
		"both":              {gearmonkey.At(now), gearmonkey.High},
	} {
		err := errOf(e.Run(t.Context(), "F", nil, options...))
		require.ErrorIs(t, err, gearmonkey.ErrInvalid, name)
	}
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Run(t.Context(), "", nil)))
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Get(t.Context(), "", 1)))
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Get(t.Context(), "F", 0)))
	requireCode(t, gearmonkey.ErrInvalid, e.Finish(t.Context(), "F", 0, nil, nil))
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Events(t.Context())))
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Events(t.Context(), "")))
	requireCode(t, gearmonkey.ErrInvalid, errOf(e.Move(t.Context(), "", nil)))
	require.Empty(t, e.cli("KEYS *"), "nothing is written")
}

func TestAtRoundsUp(t *testing.T) {
	e := newEnv(t)
	e.run("F", "", gearmonkey.At(now.Add(time.Nanosecond)))
	require.Equal(t, nowUnix+1.0, e.rdb.ZScore(t.Context(), "queue:F:scheduled", "1").Val())
}

func TestBlockingReturnsWhenTheJobHasEnded(t *testing.T) {
	e := newEnv(t)
	ran, ended := make(chan int64), make(chan struct{})
	go func() {
		defer close(ran)
		id, err := e.Run(context.Background(), "F", nil, gearmonkey.Blocking(0))
		select {
		case <-ended:
		default:
			t.Error("it returned before the job had ended")
		}
		if err != nil {
			t.Error(err)
		}
		ran <- id
	}()
	e.works(1, func(context.Context, *gearmonkey.Job) ([]byte, error) {
		e.awaitBlocked(1)
		close(ended)
		return nil, errors.New("an end, too")
	})
	id := receive(t, ran, "the end of the run")
	require.Equal(t, gearmonkey.StatusError, e.state("F", id).Status)
}

// awaitBlocked waits until n clients wait for an element.
func (e *env) awaitBlocked(n int) {
	e.t.Helper()
	e.eventually(func() bool {
		info := must(e.rdb.InfoMap(e.t.Context(), "clients").Result())(e.t)
		return info["Clients"]["blocked_clients"] == strconv.Itoa(n)
	})
}

func TestBlockingTimesOut(t *testing.T) {
	e := newEnv(t)
	id, err := e.Run(t.Context(), "F", []byte("x"), gearmonkey.Blocking(time.Millisecond))
	requireCode(t, gearmonkey.ErrTimeout, err)
	require.EqualValues(t, 1, id)
	e.works(1, echo)
	require.Equal(t, gearmonkey.StatusSuccess, e.state("F", id).Status, "the job continued")
}

func TestBlockingSeesAnEndBeforeItWaits(t *testing.T) {
	e := newEnv(t)
	// The client dials to wait, and the job has ended by the time of the connection.
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if e.cli("EXISTS job:F:1") == int64(1) {
			e.works(1, echo)
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	dialing := e.with(&redis.Options{Addr: e.server.Addr(), Dialer: dial})
	require.EqualValues(t, 1, dialing.run("F", "", gearmonkey.Blocking(patience)))
}

func TestBlockingEndsWithTheContext(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() {
		id, err := e.Run(ctx, "F", nil, gearmonkey.Blocking(0))
		if id != 1 {
			t.Error("no id")
		}
		ran <- err
	}()
	e.awaitBlocked(1)
	cancel()
	err := receive(t, ran, "the end of the run")
	requireCode(t, gearmonkey.ErrUnavailable, err)
	require.ErrorIs(t, err, context.Canceled)
	e.awaitBlocked(0)
	require.Equal(t, gearmonkey.StatusIdle, e.state("F", 1).Status, "the job moves on")
}

func TestManyWaitWithoutThePool(t *testing.T) {
	e := newEnv(t)
	client := e.with(&redis.Options{Addr: e.server.Addr(), PoolSize: 1})
	const runs = 5
	errs := make(chan error, runs)
	for range runs {
		go func() {
			_, err := client.Run(context.Background(), "F", nil, gearmonkey.Blocking(patience))
			errs <- err
		}()
	}
	e.awaitBlocked(runs)
	e.works(runs, echo)
	for range runs {
		require.NoError(t, receive(t, errs, "the end of a run"))
	}
}

func TestNoServer(t *testing.T) {
	e := newEnv(t)
	e.server.Kill()
	client := e.with(&redis.Options{Addr: e.server.Addr(), MaxRetries: -1, DialerRetries: 1})
	requireCode(t, gearmonkey.ErrUnavailable, errOf(client.Run(t.Context(), "F", nil)))
	requireCode(t, gearmonkey.ErrUnavailable, errOf(client.Get(t.Context(), "F", 1)))
	requireCode(t, gearmonkey.ErrUnavailable, errOf(client.Events(t.Context(), "F")))
	requireCode(t, gearmonkey.ErrUnavailable, client.worker(echo).Work(t.Context()))
}

// Neither queueing nor popping an id may be sent twice.
func TestQueueingIsNotSentAgain(t *testing.T) {
	e := newEnv(t)
	proxy := testkit.NewProxy(t, e.server.Addr())
	client := e.with(&redis.Options{Addr: proxy.Addr()}) // retries commands that are safe to retry
	for command, option := range map[string]gearmonkey.RunOption{"LPUSH": gearmonkey.High, "ZADD": gearmonkey.At(now)} {
		proxy.CutBeforeReply(command)
		id, err := client.Run(t.Context(), "F", nil, option)
		requireCode(t, gearmonkey.ErrUnavailable, err)
		require.Positive(t, id)
		require.Equal(t, 1, proxy.Seen(command))
	}
	require.EqualValues(t, 1, e.cli("LLEN queue:F:high"))
	require.EqualValues(t, 1, e.cli("ZCARD queue:F:scheduled"))
}

func TestFinish(t *testing.T) {
	e := newEnv(t)
	e.run("F", "in")
	e.run("F", "in")
	require.NoError(t, e.Finish(t.Context(), "F", 1, []byte("out"), nil))
	require.Equal(t, "success", e.cli("HGET job:F:1 status"))
	require.Equal(t, "out", e.cli("HGET job:F:1 output"))
	require.NoError(t, e.Finish(t.Context(), "F", 2, nil, errors.New("no luck")))
	var failed *gearmonkey.JobError
	require.ErrorAs(t, e.state("F", 2).Err(), &failed)
	require.Equal(t, gearmonkey.JobError{Function: "F", ID: 2, Message: "no luck"}, *failed)
	require.EqualError(t, failed, "gearmonkey: the job F:2 failed: no luck")
	require.Equal(t, "OK", e.cli("RPOP lock:F:2"))
}

func TestEventsComeInOrder(t *testing.T) {
	e := newEnv(t)
	events := must(e.Events(t.Context(), "F", "G:1", "F"))(t)
	e.run("F", "")
	e.run("H", "")
	e.run("G:1", "")
	e.cli("PUBLISH channel:F rubbish")
	e.cli("PUBLISH channel:F finish:x")
	e.works(1, echo)
	for _, want := range []gearmonkey.Event{
		{Kind: gearmonkey.EventCreate, Function: "F", ID: 1},
		{Kind: gearmonkey.EventCreate, Function: "G:1", ID: 1},
		{Kind: gearmonkey.EventStart, Function: "F", ID: 1},
		{Kind: gearmonkey.EventFinish, Function: "F", ID: 1},
	} {
		require.Equal(t, want, receive(t, events.C(), string(want.Kind)))
	}
	require.NoError(t, events.Close())
	require.NoError(t, events.Close())
	_, open := <-events.C()
	require.False(t, open)
}

func TestEventsEndWithTheContext(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	events := must(e.Events(ctx, "F"))(t)
	cancel()
	for range events.C() {
	}
	require.NoError(t, events.Close())
}

func TestEventsReportAGap(t *testing.T) {
	for name, lose := range map[string]func(*testkit.Proxy){
		"cut": (*testkit.Proxy).CutAll, "silent": (*testkit.Proxy).GoSilent,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			proxy := testkit.NewProxy(t, e.server.Addr())
			events := must(e.with(testkit.Options(proxy.Addr())).Events(t.Context(), "F"))(t)
			defer events.Close()
			lose(proxy)
			require.Equal(t, gearmonkey.Event{Kind: gearmonkey.EventGap}, receive(t, events.C(), "the gap"))
			e.run("F", "")
			require.Equal(t, gearmonkey.EventCreate, receive(t, events.C(), "create").Kind)
		})
	}
}
