package wake

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// A way makes the job j of the queue q ready.
type way struct {
	name string
	set  func(e *env) // called before workers start; may be nil
	do   func(e *env) // called while workers are idle
}

func must(e *env, err error) {
	e.T.Helper()
	require.NoError(e.T, err)
}

// held keeps a job popped by the env's client until needed by the way.
type held struct{ job *qless.Job }

// hold puts and pops a job.
func (h *held) hold(queue, jid string, options ...qless.PutOption) func(e *env) {
	return func(e *env) {
		e.put(queue, jid, options...)
		h.job = e.pop(queue, jid)
	}
}

// holdBriefly puts and pops a job with a short life. It retries if the life was over before the
// pop.
func (h *held) holdBriefly(queue, jid string) func(e *env) {
	return func(e *env) {
		for h.job == nil {
			e.put(queue, jid, qless.TTL(soon))
			jobs, err := e.Queue(queue).Pop(e.T.Context(), 1)
			must(e, err)
			if len(jobs) == 1 {
				h.job = jobs[0]
			}
		}
	}
}

// failed makes the job j of a queue fail.
func (h *held) failed(queue string) func(e *env) {
	return func(e *env) {
		h.hold(queue, "j")(e)
		must(e, h.job.Fail(e.T.Context(), "g", "m"))
	}
}

// full makes q run as many jobs as it may, the job "first", so that j waits.
func (h *held) full(e *env) {
	e.Set("q-max-concurrency", 1)
	h.hold("q", "first")(e)
	e.put("q", "j")
}

// limited makes a limit full: the job "first" has the only slot, for so long that no job waiting
// for the limit falls due in the test.
func (h *held) limited(e *env) {
	must(e, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Concurrency: 1}))
	h.hold("q", "first", qless.Limits{"api"}, qless.LockTime(time.Hour))(e)
	e.put("q", "j", qless.Limits{"api"})
}

// soon is how long until an event of a way happens.
const soon = 300 * time.Millisecond

func ways() []way {
	var h held
	return []way{
		{"put", nil, func(e *env) { e.put("q", "j") }},
		{"put with a delay", nil, func(e *env) { e.put("q", "j", qless.Delay(soon)) }},
		{"put of many", nil, func(e *env) {
			_, err := e.Queue("q").PutMany(e.T.Context(), []qless.JobSpec{{Klass: "K", Options: []qless.PutOption{qless.JID("j")}}})
			must(e, err)
		}},
		{"put that replaces a job", func(e *env) {
			e.put("q", "j", qless.Unique("k"), qless.Delay(time.Hour))
		}, func(e *env) {
			_, err := e.Queue("q").Put(e.T.Context(), "K", nil, qless.Unique("k").Replace())
			must(e, err)
		}},
		{"put by another script", nil, func(e *env) { e.foreignPut("q", "j") }},
		{"move", func(e *env) { e.put("p", "j") }, func(e *env) {
			job, err := e.Job(e.T.Context(), "j")
			must(e, err)
			must(e, job.Move(e.T.Context(), "q"))
		}},
		{"a limit's job that ends", h.limited, func(e *env) { must(e, h.job.Complete(e.T.Context())) }},
		{"a limit's job that is retried", h.limited, func(e *env) {
			_, err := h.job.Retry(e.T.Context(), time.Hour, "", "")
			must(e, err)
		}},
		{"a limit's job that is canceled", h.limited, func(e *env) { must(e, h.job.Cancel(e.T.Context())) }},
		{"a limit's job that is moved", h.limited, func(e *env) { must(e, h.job.Move(e.T.Context(), "p")) }},
		{"a limit that is raised", h.limited, func(e *env) {
			must(e, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Concurrency: 2}))
		}},
		{"a limit that is deleted", h.limited, func(e *env) { must(e, e.Limit("api").Unset(e.T.Context())) }},
		{"a limit's hold that ends", func(e *env) {
			must(e, e.Limit("api").Hold(e.T.Context(), time.Hour))
			e.put("q", "j", qless.Limits{"api"})
		}, func(e *env) { must(e, e.Limit("api").Hold(e.T.Context(), soon)) }},
		{"a rate that allows the next start", func(e *env) {
			must(e, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Rate: 1, Per: 2 * time.Second}))
			h.hold("q", "first", qless.Limits{"api"})(e)
			e.put("q", "j", qless.Limits{"api"})
		}, func(*env) {}},
		{"a hold that ends, in a queue with nothing else", nil, func(e *env) {
			must(e, e.Limit("api").Hold(e.T.Context(), soon))
			e.put("q", "j", qless.Limits{"api"})
		}},
		{"a rate, in a queue with nothing else", nil, func(e *env) {
			must(e, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Rate: 1, Per: time.Second}))
			h.hold("p", "first", qless.Limits{"api"})(e)
			e.put("q", "j", qless.Limits{"api"})
		}},
		{"a dead worker's slot, in a queue with nothing else", nil, func(e *env) {
			must(e, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Concurrency: 1}))
			h.hold("p", "first", qless.Limits{"api"}, qless.LockTime(time.Second))(e)
			e.put("q", "j", qless.Limits{"api"})
		}},
		{"a max-rate, in a queue with nothing else", func(e *env) {
			e.Set("q-max-rate", "1/2")
			h.hold("q", "first")(e)
			must(e, h.job.Complete(e.T.Context()))
		}, func(e *env) { e.put("q", "j") }},
		{"a max-rate that allows the next start", func(e *env) {
			e.Set("q-max-rate", "1/2")
			h.hold("q", "first")(e)
			e.put("q", "j")
		}, func(*env) {}},
		{"a max-rate that is taken away", func(e *env) {
			e.Set("q-max-rate", "1/3600")
			h.hold("q", "first")(e)
			e.put("q", "j")
		}, func(e *env) { must(e, e.Queue("q").SetMaxRate(e.T.Context(), 0, 0)) }},
		{"a move that frees a slot", h.full, func(e *env) { must(e, h.job.Move(e.T.Context(), "p")) }},
		{"complete into the queue", h.hold("p", "j"), func(e *env) {
			must(e, h.job.Next(e.T.Context(), "q"))
		}},
		{"complete into the queue with a delay", h.hold("p", "j"), func(e *env) {
			must(e, h.job.Next(e.T.Context(), "q", qless.Delay(soon)))
		}},
		{"complete that frees a slot", h.full, func(e *env) { must(e, h.job.Complete(e.T.Context())) }},
		{"complete of a dependency", func(e *env) {
			h.hold("p", "parent")(e)
			e.put("q", "j", qless.DependsOn{"parent"})
		}, func(e *env) { must(e, h.job.Complete(e.T.Context())) }},
		{"complete of a dependency of a job with a delay", func(e *env) {
			h.hold("p", "parent")(e)
			e.put("q", "j", qless.DependsOn{"parent"}, qless.Delay(5*time.Second))
		}, func(e *env) { must(e, h.job.Complete(e.T.Context())) }},
		{"a sweep that releases the remaining dependents of a complete job", func(e *env) {
			h.hold("p", "parent")(e)
			e.put("q", "j", qless.DependsOn{"parent"})
			ctx := e.T.Context()
			must(e, e.Redis.Rename(ctx, e.Namespace()+"j:parent-dependents",
				e.Namespace()+"x:rest:parent").Err())
			must(e, e.Redis.ZAdd(ctx, e.Namespace()+"x:rest", redis.Z{Score: 1, Member: "parent"}).Err())
		}, func(e *env) { must(e, errOf(e.Sweep(e.T.Context()))) }},
		{"fail that frees a slot", h.full, func(e *env) { must(e, h.job.Fail(e.T.Context(), "g", "m")) }},
		{"retry", h.hold("q", "j"), func(e *env) { must(e, errOf(h.job.Retry(e.T.Context(), 0, "", ""))) }},
		{"retry with a delay", h.hold("q", "j"), func(e *env) { must(e, errOf(h.job.Retry(e.T.Context(), soon, "", ""))) }},
		{"retry that frees a slot", h.full, func(e *env) { must(e, errOf(h.job.Retry(e.T.Context(), time.Hour, "", ""))) }},
		{"release", h.hold("q", "j"), func(e *env) { must(e, h.job.Release(e.T.Context(), 0)) }},
		{"release with a delay", h.hold("q", "j"), func(e *env) { must(e, h.job.Release(e.T.Context(), soon)) }},
		{"release that frees a slot", h.full, func(e *env) { must(e, h.job.Release(e.T.Context(), time.Hour)) }},
		{"cancel that frees a slot", h.full, func(e *env) { must(e, h.job.Cancel(e.T.Context())) }},
		{"timeout", h.hold("q", "j"), func(e *env) { must(e, repairs.TimeOut(e.T.Context(), e.Client, "j")) }},
		{"the end of a lock", func(e *env) {
			e.Set("grace-period", 0)
			e.Set("q-heartbeat", 5)
			h.hold("q", "j")(e)
		}, func(*env) {}},
		{"the end of a lock and of its grace period", func(e *env) {
			e.Set("grace-period", 1)
			e.Set("q-heartbeat", 5)
			h.hold("q", "j")(e)
		}, func(*env) {}},
		{"unfail", func(e *env) {
			h.hold("p", "j")(e)
			must(e, h.job.Fail(e.T.Context(), "g", "m"))
		}, func(e *env) {
			_, err := repairs.UnfailInto(e.T.Context(), e.Client, "q", "g", 1)
			must(e, err)
		}},
		{"unfail of a job", h.failed("q"), func(e *env) { must(e, h.job.Unfail(e.T.Context())) }},
		{"unfail of a group", h.failed("q"), func(e *env) {
			must(e, errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 1)))
		}},
		{"unfail of a group of several queues", func(e *env) {
			h.failed("q")(e)
			h.hold("p", "another")(e)
			must(e, h.job.Fail(e.T.Context(), "g", "m"))
		}, func(e *env) {
			must(e, errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 2)))
		}},
		{"retry of a group", h.failed("q"), func(e *env) { must(e, errOf(inspect.New(e.Client).Failed("g").Unfail(e.T.Context()))) }},
		{"retry of jobs", h.failed("q"), func(e *env) { must(e, errOf(inspect.New(e.Client).JIDs("j").Unfail(e.T.Context()))) }},
		{"move of many", func(e *env) { e.put("p", "j") }, func(e *env) {
			must(e, errOf(inspect.New(e.Client).JIDs("j").Move(e.T.Context(), "q")))
		}},
		{"promote", func(e *env) { e.put("q", "j", qless.Delay(time.Hour)) }, func(e *env) {
			must(e, errOf(inspect.New(e.Client).JIDs(e.Read("j").JID).Promote(e.T.Context())))
		}},
		{"reschedule to now", func(e *env) { e.put("q", "j", qless.Delay(time.Hour)) }, func(e *env) {
			must(e, e.Read("j").Reschedule(e.T.Context(), 0))
		}},
		{"reschedule", func(e *env) { e.put("q", "j", qless.Delay(time.Hour)) }, func(e *env) {
			must(e, e.Read("j").Reschedule(e.T.Context(), soon))
		}},
		{"cancel of several that frees a slot", h.full, func(e *env) {
			must(e, e.Cancel(e.T.Context(), h.job.JID, "another"))
		}},
		{"cancel of a list that frees a slot", h.full, func(e *env) {
			must(e, errOf(inspect.New(e.Client).Queue("q", inspect.Running).Cancel(e.T.Context())))
		}},
		{"unpause", func(e *env) {
			must(e, e.Queue("q").Pause(e.T.Context()))
			e.put("q", "j")
		}, func(e *env) { must(e, e.Queue("q").Resume(e.T.Context())) }},
		{"the end of one dependency", dependent, func(e *env) {
			must(e, e.Read("j").Undepend(e.T.Context(), "parent"))
		}},
		{"the end of all dependencies", dependent, func(e *env) { must(e, e.Read("j").UndependAll(e.T.Context())) }},
		{"recur", nil, func(e *env) {
			_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.JID("r"))
			must(e, err)
		}},
		{"recur with an offset", nil, func(e *env) {
			_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.JID("r"), qless.Offset(soon))
			must(e, err)
		}},
		{"recurring job moved here", func(e *env) { recurring(e, "p", 0) }, func(e *env) {
			r := e.recurring("r")
			r.Queue = "q"
			must(e, r.Update(e.T.Context()))
		}},
		{"shorter interval of a recurring job", func(e *env) { recurring(e, "q", time.Hour) }, func(e *env) {
			r := e.recurring("r")
			r.Interval = time.Second
			must(e, r.Update(e.T.Context()))
		}},
		{"put with a time", nil, func(e *env) { e.put("q", "j", qless.At(time.Now().Add(soon))) }},
		{"the end of a life that frees a slot", func(e *env) {
			e.Set("q-max-concurrency", 1)
			h.holdBriefly("q", "first")(e)
			e.put("q", "j")
		}, sweepOne},
		{"the end of a life that others waited for", func(e *env) {
			h.holdBriefly("p", "parent")(e)
			e.put("q", "j", qless.DependsOn{"parent"}, qless.OnFailureRun)
		}, sweepOne},
		{"an end by anyone that frees a slot", h.full, func(e *env) {
			must(e, errOf(repairs.End(e.T.Context(), e.Client, "first", repairs.Ending{})))
		}},
		{"an end after which the job is tried again", h.hold("q", "j"), func(e *env) {
			must(e, errOf(repairs.End(e.T.Context(), e.Client, "j", repairs.Ending{TryAgain: 2})))
		}},
		{"the end of a dependency by anyone", dependent, func(e *env) {
			must(e, errOf(repairs.End(e.T.Context(), e.Client, "parent", repairs.Ending{})))
		}},
		{"a failure of a dependency by anyone", func(e *env) {
			e.put("p", "parent")
			e.put("q", "j", qless.DependsOn{"parent"}, qless.OnFailureRun)
		}, func(e *env) {
			must(e, errOf(repairs.End(e.T.Context(), e.Client, "parent", repairs.Ending{State: qless.StateFailed, Group: "g"})))
		}},
		{"larger max-concurrency", h.full, func(e *env) { e.Set("q-max-concurrency", 2) }},
		{"no max-concurrency anymore", h.full, func(e *env) {
			must(e, e.Config().Unset(e.T.Context(), "q-max-concurrency"))
		}},
	}
}

// namespaces counts the namespaces of all tests.
var namespaces atomic.Int64

// idleWorker starts a worker of the queue q.
func (e *env) idleWorker() { e.worker(qless.WorkerConfig{Queues: []string{"q"}}) }

// receiver starts a client that receives the jobs of the queue q, and waits until it is idle. It is
// closed with the test.
func (e *env) receiver() {
	e.T.Helper()
	ctx := context.Background()
	client := e.client(e.Namespace())
	idle := func() int64 { return e.Redis.SCard(ctx, e.Namespace()+"x:idle").Val() }
	before := idle()
	var receiving sync.WaitGroup
	receiving.Go(func() {
		for {
			jobs, err := lease.New(client).Take(ctx, lease.Request{Queues: []string{"q"}, PollInterval: poll})
			if err != nil {
				return
			}
			e.ran <- jobs[0].JID
			_ = jobs[0].Complete(ctx)
		}
	})
	e.T.Cleanup(func() {
		_ = client.Close()
		receiving.Wait()
	})
	until(e.T, "the receiver is idle", func() bool {
		listening := e.Redis.PubSubChannels(ctx, e.Namespace()+"x:wake:*").Val()
		return idle() > before && len(listening) > int(before)
	})
}

// sweepOne sweeps until a sweep ends a life.
func sweepOne(e *env) {
	testkit.Until(e.T, "a life ends", func() bool {
		n, err := e.Sweep(e.T.Context())
		must(e, err)
		return n == 1
	})
}

func dependent(e *env) {
	e.put("p", "parent")
	e.put("q", "j", qless.DependsOn{"parent"})
}

// recurring creates the recurring job r, whose first job is due after an offset.
func recurring(e *env, queue string, offset time.Duration) {
	_, err := e.Queue(queue).Recur(e.T.Context(), "K", nil, time.Hour, qless.JID("r"), qless.Offset(offset))
	must(e, err)
}

func (e *env) recurring(jid string) *qless.RecurringJob {
	e.T.Helper()
	job, err := e.RecurringJob(e.T.Context(), jid)
	must(e, err)
	return job
}

// wanted returns the job made ready by a way.
func (w way) wanted() string {
	if strings.Contains(w.name, "recur") {
		return "r-1"
	}
	return "j"
}

func TestWhateverMakesAJobReadyWakesAnIdleWorker(t *testing.T) {
	server := testkit.Start(t)
	eachWay(t, server, (*env).idleWorker, func(*env) {})
}

func TestWhateverMakesAJobReadyWakesAReceive(t *testing.T) {
	server := testkit.Start(t)
	eachWay(t, server, (*env).receiver, func(*env) {})
}

// A cut subscription delays a job no longer than until restored.
func TestWakeUpsOutliveTheirConnections(t *testing.T) {
	server := testkit.Start(t)
	for _, start := range []func(e *env){(*env).idleWorker, (*env).receiver} {
		eachWay(t, server, start, func(e *env) {
			require.NoError(t, e.Redis.ClientKillByFilter(e.T.Context(), "type", "pubsub").Err())
		})
	}
}

// eachWay tries every way with one and with two workers, and calls before just before it.
func eachWay(t *testing.T, server *testkit.Server, start, before func(e *env)) {
	for workers := 1; workers <= 2; workers++ {
		for i, w := range ways() {
			t.Run(fmt.Sprintf("%s with %d workers", w.name, workers), func(t *testing.T) {
				t.Parallel()
				w := ways()[i] // the jobs that it holds are its own
				e := newEnv(t, server, fmt.Sprintf("%d-%d-%d:", workers, i, namespaces.Add(1)))
				if w.set != nil {
					w.set(e)
				}
				for range workers {
					start(e)
				}
				before(e)
				w.do(e)
				e.runs(w.wanted())
			})
		}
	}
}
