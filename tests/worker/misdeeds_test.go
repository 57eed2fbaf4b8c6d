package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// misdeeds are actions of a user's function instead of returning. A block ends with the test.
var misdeeds = map[string]func(ended <-chan struct{}){
	"panic":  func(<-chan struct{}) { panic("a misdeed") },
	"goexit": func(<-chan struct{}) { runtime.Goexit() },
	"block":  func(ended <-chan struct{}) { <-ended },
}

// A setting is the environment for a user's function. Its functions must call do.
type setting struct {
	client     qless.ClientConfig
	worker     qless.WorkerConfig
	handle     []qless.HandleOption
	middleware qless.Middleware
	bulk       *qless.Bulk   // of the jobs, instead of work
	work       qless.Handler // for the job "bad"
	do         func()
}

type badError struct{ do func() }

func (e *badError) Error() string { e.do(); return "bad" }

// A nilError panics in each of its methods.
type nilError struct{ text *string }

func (e *nilError) Error() string { return *e.text }
func (e *nilError) Is(error) bool { panic("Is") }

// A badCodec leaves data unchanged except for the texts "bad", when encoding, and "worse".
type badCodec struct{ encode, decode func() }

func (badCodec) Name() string { return "bad" }

func (c badCodec) Encode(_ string, data []byte) ([]byte, string, error) {
	switch string(data) {
	case `"bad"`:
		return data, "", nil
	case `"worse"`:
		c.encode()
	}
	return nil, "", nil
}

func (c badCodec) Decode(_ string, data []byte) ([]byte, error) { c.decode(); return data, nil }

// A badLog is a handler with calls that all end badly.
type badLog struct{ do func() }

func (l badLog) Enabled(context.Context, slog.Level) bool  { l.do(); return true }
func (l badLog) Handle(context.Context, slog.Record) error { l.do(); return nil }
func (l badLog) WithAttrs([]slog.Attr) slog.Handler        { l.do(); return l }
func (l badLog) WithGroup(string) slog.Handler             { l.do(); return l }

// A misplaced misdeed ends the job "bad" in a group of failures, or leaves it running. The message
// of the failure, or the log, describes the misdeed.
type misplaced struct {
	install              func(s *setting)
	panic, goexit, block string // the group; "" if the job keeps running
	told                 string // in the log; "" if described by the failure
}

// inGroups is a misplaced misdeed: a panic or a Goexit ends the job in a group, and a block lets it
// run.
func inGroups(ofPanic, ofGoexit string, install func(s *setting)) misplaced {
	return misplaced{install: install, panic: ofPanic, goexit: ofGoexit}
}

// always is a misplaced misdeed that ends the job like any other.
func always(group, told string, install func(s *setting)) misplaced {
	return misplaced{install, group, group, group, told}
}

const (
	isGoexit = "K:a function ended its goroutine (runtime.Goexit)"
	isLogged = "the log, but for the log's own"
)

// places are the users' functions called by a worker's goroutines.
var places = map[string]misplaced{
	"qless.Handler": inGroups("K:panic", isGoexit, func(s *setting) {
		s.work = func(context.Context, *qless.Job) error { s.do(); return nil }
	}),
	"qless.Middleware": inGroups("K:panic", isGoexit, func(s *setting) {
		s.middleware = before(func(job *qless.Job) error {
			if job.JID == "bad" {
				s.do()
			}
			return nil
		})
	}),
	"qless.WorkerConfig.Backoff": inGroups("K:panic", "K:panic", func(s *setting) {
		s.worker.Backoff = func(*qless.Job, int, error) time.Duration { s.do(); return 0 }
	}),
	"qless.Backoff": inGroups("K:panic", "K:panic", func(s *setting) {
		s.handle = []qless.HandleOption{qless.Backoff(
			func(*qless.Job, int, error) time.Duration { s.do(); return 0 },
		)}
	}),
	"qless.Bulk.By": {
		install: func(s *setting) {
			s.bulk = &qless.Bulk{Max: 2, By: func(job *qless.Job) string {
				if job.JID == "bad" {
					s.do()
				}
				return ""
			}}
		},
		panic: "K:panic", goexit: isGoexit, block: "K:a function has not returned", told: "Bulk.By",
	},
	"qless.WorkerConfig.FailGroup": inGroups("K:panic", "K:panic", func(s *setting) {
		s.worker.FailGroup = func(*qless.Job, error) string { s.do(); return "" }
	}),
	"error": inGroups("K:worker.badError", "K:worker.badError", func(s *setting) {
		s.work = func(context.Context, *qless.Job) error { return &badError{s.do} }
	}),
	"a typed nil": always("K:panic", "", func(s *setting) {
		s.work = answers((*nilError)(nil))
	}),
	"a typed nil of FailWith": always("group", "", func(s *setting) {
		s.work = answers(qless.FailWith("group", &nilError{}))
	}),
	"a typed nil among others": always("K:panic", "", func(s *setting) {
		s.work = answers(errors.Join((*nilError)(nil)))
	}),
	"qless.Codec.Decode": inGroups("K:qless.Error", "K:qless.Error", func(s *setting) {
		s.client.Codec = badCodec{decode: s.do, encode: func() {}}
	}),
	"qless.Codec.Encode": inGroups("K:data", "K:data", func(s *setting) {
		s.client.Codec = badCodec{encode: s.do, decode: func() {}}
		s.work = func(_ context.Context, job *qless.Job) error { return job.SetData("worse") }
	}),
	"qless.WorkerConfig.Observer": always("K:no", "WorkerConfig.Observer", func(s *setting) {
		s.worker.Observer = func(qless.JobEvent) { s.do() }
	}),
	"qless.ClientConfig.Observer": always("K:no", "ClientConfig.Observer", func(s *setting) {
		s.client.Observer = func(context.Context, qless.Command) { s.do() }
	}),
	"qless.ClientConfig.Clock": always("K:no", "Clock", func(s *setting) {
		s.client.Clock = func() time.Time { s.do(); return time.Time{} }
	}),
	"qless.WorkerConfig.Logger": always("K:no", isLogged, func(s *setting) {
		s.worker.Logger = slog.New(badLog{s.do})
	}),
	"qless.ClientConfig.Logger": always("K:no", isLogged, func(s *setting) {
		s.client.Logger = slog.New(badLog{s.do})
	}),
}

func (m misplaced) group(misdeed string) string {
	return map[string]string{"panic": m.panic, "goexit": m.goexit, "block": m.block}[misdeed]
}

// start starts a worker in a setting. Its jobs are of klass K.
func (s *setting) start(e *env) *testWorker {
	e.T.Helper()
	w := e.workerAt(e.Server.Addr(), s.worker, s.client)
	if s.bulk != nil {
		qless.NewKlass[any]("K").HandleBulk(w.Worker, *s.bulk,
			func(context.Context, []*qless.Member[any]) error { return nil })
	} else {
		w.Handle("K", func(ctx context.Context, job *qless.Job) error {
			if job.JID == "bad" {
				return s.work(ctx, job)
			}
			return nil
		}, s.handle...)
	}
	if s.middleware != nil {
		w.Use(s.middleware)
	}
	return w.start()
}

// completes puts jobs, and waits until each is complete.
func (e *env) completes(jids ...string) {
	e.T.Helper()
	for _, jid := range jids {
		e.Put("q", qless.JID(jid))
		until(e.T, jid+" is complete", func() bool { return e.state(jid) == "complete" })
	}
}

// A misdeed of a user's function ends its own job at most.
func TestAMisdeedEndsOneJobAtMost(t *testing.T) {
	t.Parallel()
	for name, place := range places {
		for misdeed, do := range misdeeds {
			t.Run(name+"/"+misdeed, func(t *testing.T) {
				e := newLiveEnv(t)
				ended := make(chan struct{})
				s := &setting{do: func() { do(ended) }, work: answers(errors.New("no"))}
				s.worker.Concurrency = 2
				place.install(s)
				w := s.start(e)
				t.Cleanup(func() { close(ended) })
				var encoding qless.ClientConfig
				if s.client.Codec != nil {
					encoding.Codec = badCodec{}
				}
				_, err := e.NewLiveClient(e.Redis, encoding).Queue("q").Put(
					t.Context(), "K", "bad", qless.JID("bad"), qless.Retries(0))
				require.NoError(t, err)
				if group := place.group(misdeed); group != "" {
					e.fails("bad", group)
				} else {
					until(t, "it runs", func() bool { return e.state("bad") == "running" })
				}
				e.completes("a", "b", "c")
				if place.told != "" && place.told != isLogged {
					until(t, "the misdeed is logged", func() bool { return w.log.count(place.told) > 0 })
				}
				if place.group(misdeed) != "" {
					w.stop()
				}
			})
		}
	}
}

func (e *env) state(jid string) string {
	return e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "state").Val()
}

// fails waits until a job has failed, and checks its group.
func (e *env) fails(jid, group string) {
	e.T.Helper()
	until(e.T, jid+" has failed", func() bool { return e.state(jid) == "failed" })
	require.Equal(e.T, group, e.Read(jid).Failure.Group)
}

// A function that overwrites its job ends that job at most.
func TestAnOverwrittenJobEndsAlone(t *testing.T) {
	overwrite := func(job *qless.Job) { *job = qless.Job{} }
	overwrites := func(err error) qless.Handler {
		return func(_ context.Context, job *qless.Job) error { overwrite(job); return err }
	}
	for name, c := range map[string]struct {
		install func(s *setting)
		group   string
	}{
		"handler, nil":    {func(s *setting) { s.work = overwrites(nil) }, "K:data"},
		"handler, error":  {func(s *setting) { s.work = overwrites(errors.New("no")) }, "K:data"},
		"handler, Snooze": {func(s *setting) { s.work = overwrites(qless.Snooze(0)) }, "K:data"},
		"another job": {func(s *setting) {
			s.work = func(_ context.Context, job *qless.Job) error {
				*job = qless.Job{JID: job.JID, Klass: "K", Data: raw(`{"other":1}`)}
				return nil
			}
		}, "K:data"},
		"middleware": {func(s *setting) {
			s.middleware = func(next qless.Handler) qless.Handler {
				return func(ctx context.Context, job *qless.Job) error {
					err := next(ctx, job)
					if err != nil {
						overwrite(job)
					}
					return err
				}
			}
		}, "K:data"},
		"Backoff": {func(s *setting) {
			s.worker.Backoff = func(job *qless.Job, _ int, _ error) time.Duration { overwrite(job); return 0 }
		}, "K:no"},
		"FailGroup": {func(s *setting) {
			s.worker.FailGroup = func(job *qless.Job, _ error) string { overwrite(job); return "own" }
		}, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			s := &setting{work: answers(errors.New("no"))}
			c.install(s)
			w := s.start(e)
			e.Put("q", qless.JID("bad"), qless.Retries(0))
			e.fails("bad", c.group)
			require.Equal(t, "{}", string(e.Read("bad").Data), "the data is kept")
			e.completes("good")
			w.stop()
		})
	}
}

type badData struct{ do func() }

func (d badData) MarshalJSON() ([]byte, error) { d.do(); return []byte("{}"), nil }

// inSchedules returns the functions called by schedules.
var inSchedules = map[string]func(do func(), s *qless.Schedule, c *qless.ClientConfig){
	"Data": func(do func(), s *qless.Schedule, _ *qless.ClientConfig) { s.Job.Data = badData{do} },
	"Headers": func(do func(), _ *qless.Schedule, c *qless.ClientConfig) {
		c.Headers = func(context.Context) map[string]string { do(); return nil }
	},
}

// A misdeed in a schedule costs it some of its times at most.
func TestAScheduleContinuesAfterAMisdeed(t *testing.T) {
	t.Parallel()
	for name, install := range inSchedules {
		for misdeed, do := range misdeeds {
			t.Run(name+"/"+misdeed, func(t *testing.T) {
				e := newLiveEnv(t)
				var client qless.ClientConfig
				bad := qless.Schedule{ID: "bad", When: "@every 1s", Queue: "q", Job: qless.JobSpec{Klass: "K"}}
				var armed, begun atomic.Bool
				ended := make(chan struct{})
				install(func() {
					if armed.Load() {
						begun.Store(true)
						do(ended)
					}
				}, &bad, &client)
				config := qless.WorkerConfig{Schedules: []qless.Schedule{bad}}
				w := e.workerAt(e.Server.Addr(), config, client)
				armed.Store(true) // NewWorker, whose caller gets a panic, has encoded the data
				var ran atomic.Int32
				w.Handle("K", func(_ context.Context, job *qless.Job) error {
					if job.JID != "good" {
						ran.Add(1)
					}
					return nil
				})
				w.start()
				until(t, "the misdeed is logged, unless it still blocks", func() bool {
					return begun.Load() && misdeed == "block" ||
						w.log.count("a schedule can't be followed")+w.log.count("a scheduled job can't be put") > 0
				})
				e.completes("good")
				require.Zero(t, ran.Load())
				armed.Store(false)
				close(ended)
				until(t, "the schedule continues", func() bool { return ran.Load() > 0 })
				w.stop()
			})
		}
	}
}
