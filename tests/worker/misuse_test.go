package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// scheduled returns the config of a worker with schedules.
func scheduled(schedules ...qless.Schedule) qless.WorkerConfig {
	return qless.WorkerConfig{Queues: []string{"q"}, Schedules: schedules}
}

func TestAConfigThatCannotBeUsedIsRefusedWithItsField(t *testing.T) {
	q := []string{"q"}
	every := func(id, queue, klass string) qless.Schedule {
		return newSchedule(id, "@daily", queue, klass, nil)
	}
	daily := every("a", "q", "K")
	configs := map[string]qless.WorkerConfig{
		`WorkerConfig.Queues is empty`:                                      {},
		`WorkerConfig.Queues[1] is empty`:                                   {Queues: []string{"q", ""}},
		`WorkerConfig.Queues[0] "\xff" is not UTF-8`:                        {Queues: []string{"\xff"}},
		`WorkerConfig.Queues has only exclusions, as "!a"`:                  {Queues: []string{"!a", "!b"}},
		`WorkerConfig.Name "\xff" is not UTF-8, or begins with the byte 1`:  {Queues: q, Name: "\xff"},
		`WorkerConfig.Name "\x01w" is not UTF-8, or begins with the byte 1`: {Queues: q, Name: "\x01w"},
		`WorkerConfig.Order "strict" is set beside Weights`: {
			Queues: q, Order: qless.OrderStrict, Weights: map[string]int{"q": 1},
		},
		`WorkerConfig.Weights has "r", which Queues has not`: {
			Queues: q, Weights: map[string]int{"r": 1},
		},
		`WorkerConfig.Weights["q"] 0 is not from 1 to 1000`: {Queues: q, Weights: map[string]int{"q": 0}},
		`WorkerConfig.Weights["q"] 1001 is not from 1 to 1000`: {
			Queues: q, Weights: map[string]int{"q": 1001},
		},
		`WorkerConfig.Order "random" is unknown`:               {Queues: q, Order: "random"},
		`WorkerConfig.Concurrency -1 is negative`:              {Queues: q, Concurrency: -1},
		`WorkerConfig.Prefetch -2 is negative, and not -1`:     {Queues: q, Prefetch: -2},
		`WorkerConfig.PollInterval -1ns is less than 1ms`:      {Queues: q, PollInterval: -1},
		`WorkerConfig.PollInterval 10ns is less than 1ms`:      {Queues: q, PollInterval: 10},
		`WorkerConfig.MaxRunTime -2ns is negative, and not -1`: {Queues: q, MaxRunTime: -2},
		`WorkerConfig.ShutdownTimeout -1s is negative, and not -1`: {
			Queues: q, ShutdownTimeout: -time.Second,
		},
		`WorkerConfig.UnknownKlassDelay -1m0s is negative, and not -1`: {
			Queues: q, UnknownKlassDelay: -time.Minute,
		},

		`WorkerConfig.Schedules[1]: the ID is empty`:               scheduled(daily, every("", "q", "K")),
		`WorkerConfig.Schedules[1]: two schedules have the ID "a"`: scheduled(daily, daily),
		`schedule "\xff": the ID "\xff" is not UTF-8`:              scheduled(every("\xff", "q", "K")),
		`schedule "a": the queue name is empty`:                    scheduled(every("a", "", "K")),
		`schedule "a": the klass is empty`:                         scheduled(every("a", "q", "")),
		`schedule "a": Missed "never" is unknown`:                  scheduled(onMissed("never", daily)),
		`schedule "a": the delay -1s is negative`: scheduled(
			newSchedule("a", "@daily", "q", "K", nil, qless.Delay(-time.Second))),
		`schedule "a": the data can't be JSON: json: unsupported type: chan int`: scheduled(
			newSchedule("a", "@daily", "q", "K", make(chan int))),
		`schedule "a": the spec is empty`: scheduled(newSchedule("a", " ", "q", "K", nil)),
	}
	for spec, problem := range map[string]string{
		"61 * * * *":            `end of range (61) above maximum (59): "61"`,
		"* * * *":               "needs 5 fields (minute, hour, day, month, weekday), has 4",
		"CRON_TZ=Europe/Berlin": "needs 5 fields (minute, hour, day, month, weekday), has 0",
		"@sometimes": "@sometimes is not one of " +
			"@yearly, @monthly, @weekly, @daily, @hourly and @every",
		"*/0 * * * *":                 `step of range must be a positive number: "*/0"`,
		"0 0 30 2 *":                  "it is never due",
		"@every 0s":                   "not an interval of a second or more",
		"@every -1m":                  "not an interval of a second or more",
		"@every 999ms":                "not an interval of a second or more",
		"@every 5":                    "not an interval of a second or more",
		"CRON_TZ=Mars/Base * * * * *": "unknown time zone Mars/Base",
		"CRON_TZ=UTC @every 5s":       "an interval has no time zone",
	} {
		message := fmt.Sprintf(`schedule "a": spec %q: %s`, spec, problem)
		configs[message] = scheduled(newSchedule("a", spec, "q", "K", nil))
	}
	for message, config := range configs {
		t.Run(message, func(t *testing.T) {
			_, err := qless.NewWorker(offline(t), config)
			require.Equal(t, message, requireCode(t, qless.ErrInvalid, err).Message)
			_, err = qless.NewWorkerGroup([]*qless.Client{offline(t)}, config)
			require.Equal(t, message, requireCode(t, qless.ErrInvalid, err).Message)
		})
	}
}

func TestMinusOneMeansNone(t *testing.T) {
	_, err := qless.NewWorker(offline(t), qless.WorkerConfig{
		Queues: []string{"q"}, MaxRunTime: -1, ShutdownTimeout: -1, UnknownKlassDelay: -1,
	})
	require.NoError(t, err)
}

func TestProgrammingErrorsPanic(t *testing.T) {
	config := qless.WorkerConfig{Queues: []string{"q"}}
	started := newWorker(t, offline(t), config)
	started.Handle("K", nothing)
	require.NoError(t, started.Start(t.Context()))
	defer func() { require.NoError(t, started.Stop(context.Background())) }()

	w := newWorker(t, offline(t), config)
	w.Handle("Twice", nothing)
	w.Handle("Twice*", nothing)
	for message, misuse := range map[string]func(){
		`qless: NewWorker: nil client`:                             func() { _, _ = qless.NewWorker(nil, config) },
		`qless: NewWorkerGroup: nil client`:                        func() { _, _ = qless.NewWorkerGroup([]*qless.Client{nil}, config) },
		`qless: Typed: nil function`:                               func() { qless.Typed[int](nil) },
		`qless: Handle(""): the klass is empty`:                    func() { w.Handle("", nothing) },
		`qless: Handle("\xff"): the klass is not UTF-8`:            func() { w.Handle("\xff", nothing) },
		`qless: Handle("a*b"): a * is a pattern only at the end`:   func() { w.Handle("a*b", nothing) },
		`qless: Handle("K"): nil handler`:                          func() { w.Handle("K", nil) },
		`qless: Handle("K"): nil option`:                           func() { w.Handle("K", nothing, nil) },
		`qless: Handle("K"): nil Backoff`:                          func() { w.Handle("K", nothing, qless.Backoff(nil)) },
		`qless: Handle("K"): negative MaxRunTime -2ns`:             func() { w.Handle("K", nothing, qless.MaxRunTime(-2)) },
		`qless: Handle("Twice"): the klass has a handler already`:  func() { w.Handle("Twice", nothing) },
		`qless: Handle("Twice*"): the klass has a handler already`: func() { w.Handle("Twice*", nothing) },
		`qless: Handle("L"): the worker was started`:               func() { started.Handle("L", nothing) },
		`qless: Use: the worker was started`:                       func() { started.Use(func(h qless.Handler) qless.Handler { return h }) },
		`qless: Use: nil middleware`:                               func() { w.Use(nil) },
	} {
		t.Run(message, func(t *testing.T) { require.PanicsWithValue(t, message, misuse) })
	}
}

func TestAWorkerWithoutHandlersDoesNotStart(t *testing.T) {
	w := newWorker(t, offline(t), qless.WorkerConfig{Queues: []string{"q"}})
	for _, start := range []func(context.Context) error{w.Start, w.Run} {
		err := requireCode(t, qless.ErrInvalid, start(t.Context()))
		require.Equal(t, "no handler is registered: call Worker.Handle before Start", err.Message)
	}
	w.Handle("K", nothing)
	broken := newWorker(t, offline(t), qless.WorkerConfig{Queues: []string{"q"}})
	broken.Handle("K", nothing)
	broken.Use(func(qless.Handler) qless.Handler { return nil })
	refused := requireCode(t, qless.ErrInvalid, broken.Start(t.Context()))
	require.Equal(t, "a middleware returned a nil handler", refused.Message)

	require.NoError(t, w.Start(t.Context()))
	err := requireCode(t, qless.ErrInvalid, w.Start(t.Context()))
	require.Equal(t, "a worker can be started only once", err.Message)
	require.NoError(t, w.Stop(t.Context()))
	requireCode(t, qless.ErrInvalid, w.Start(t.Context()))
	requireCode(t, qless.ErrInvalid, w.Run(t.Context()))
}

func TestTwoLiveWorkersOfAProcessHaveDifferentNames(t *testing.T) {
	e := newLiveEnv(t)
	create := func(client *qless.Client) *qless.Worker {
		w := newWorker(t, client, qless.WorkerConfig{Queues: []string{"q"}, Name: "me"})
		w.Handle("K", nothing)
		t.Cleanup(func() { _ = w.Stop(context.Background()) })
		return w
	}
	first := create(e.Client)
	require.NoError(t, first.Start(t.Context()))

	second := create(e.NewClient(e.Server.Client(t), qless.ClientConfig{}))
	err := requireCode(t, qless.ErrInvalid, second.Start(t.Context()))
	require.Equal(t, `a worker named "me" runs in this process already`, err.Message)
	require.NoError(t, create(e.NewClient(e.Redis, qless.ClientConfig{Namespace: "other:"})).Start(t.Context()))

	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, second.Start(t.Context()), "the first has stopped")
}

type contextKey struct{}

func TestAHandlersContextHasTheValuesOfTheWorkers(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Name: "me"})
	type seen struct {
		value  any
		client *qless.Client
		err    error
	}
	values := make(chan seen, 2)
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		client := qless.ClientFromContext(ctx)
		_, err := client.Queue("q").Put(ctx, "L", nil, qless.JID("follow-up"))
		values <- seen{ctx.Value(contextKey{}), client, err}
		return nil
	})
	w.Handle("L", nothing)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, 7))
	defer cancel()
	require.NoError(t, w.Start(ctx))
	e.Put("q")
	got := soon(t, "the handler", values)
	require.Equal(t, 7, got.value)
	require.NoError(t, got.err)
	require.Equal(t, "me", got.client.WorkerName())
	require.Equal(t, reported{"complete", "complete"}, w.outcome("follow-up"))
	require.Nil(t, qless.ClientFromContext(ctx), "it is not a handler's")
}

func TestAnOutcomeTellsWhatAnErrorMeans(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		err  error
		want qless.Outcome
	}{
		"nothing":  {nil, qless.Outcome{Action: qless.ActionComplete}},
		"an error": {why, qless.Outcome{Action: qless.ActionRetry, Err: why}},
		"Next": {
			qless.Next("b", qless.Delay(time.Minute), qless.DependsOn{"a"}),
			qless.Outcome{Action: qless.ActionComplete, Queue: "b", Delay: time.Minute, DependsOn: []string{"a"}},
		},
		"Snooze":    {qless.Snooze(time.Minute), qless.Outcome{Action: qless.ActionRelease, Delay: time.Minute}},
		"Snooze 0":  {qless.Snooze(0), qless.Outcome{Action: qless.ActionRelease, Delay: time.Second}},
		"RetryIn":   {qless.RetryIn(time.Minute, why), qless.Outcome{Action: qless.ActionRetry, Delay: time.Minute, Err: why}},
		"RetryIn 0": {qless.RetryIn(0, why), qless.Outcome{Action: qless.ActionRetry, Delay: -1, Err: why}},
		"FailWith":  {qless.FailWith("g", why), qless.Outcome{Action: qless.ActionFail, Group: "g", Err: why}},
		"wrapped": {
			errors.Join(errors.New("late"), qless.FailWith("g", why)),
			qless.Outcome{Action: qless.ActionFail, Group: "g", Err: why},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, qless.OutcomeOf(c.err)) })
	}
	require.ErrorIs(t, qless.OutcomeOf(qless.Next("")).Err, qless.ErrInvalid)
	require.ErrorIs(t, qless.OutcomeOf(qless.Next("b", nil)).Err, qless.ErrInvalid)
}

func TestAWorkerAsksAThousandNamedQueuesAtMost(t *testing.T) {
	queues := []string{"q*", "!q1", "name0"}
	for i := range 1001 {
		queues = append(queues, fmt.Sprint("name", i))
	}
	_, err := qless.NewWorker(offline(t), qless.WorkerConfig{Queues: queues})
	require.Equal(t, "WorkerConfig.Queues names 1001 queues; a worker asks at most 1000",
		requireCode(t, qless.ErrInvalid, err).Message)

	w := newWorker(t, offline(t), qless.WorkerConfig{Queues: queues[:len(queues)-1]})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	require.NoError(t, w.Stop(t.Context()))
}

func TestAWorkerLocksUnderItsName(t *testing.T) {
	e := newLiveEnv(t)
	one, two := e.worker(qless.WorkerConfig{}), e.worker(qless.WorkerConfig{})
	require.Regexp(t, `^.+-\d+-[0-9a-f]{8}$`, one.Name())
	require.NotEqual(t, one.Name(), two.Name(), "though their clients have one name")

	w, jid, _, _ := e.holding(qless.WorkerConfig{Name: "me"})
	require.Equal(t, "me", w.Name())
	require.Equal(t, "me", e.Read(jid).Worker)
	require.Equal(t, []string{jid}, must(repairs.HeldBy(t.Context(), e.Client, "me"))(t))
}
