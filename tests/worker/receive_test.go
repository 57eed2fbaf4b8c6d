package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
)

// A receiving is a client with scripts seen by the test, and with its received jobs.
type receiving struct {
	*qless.Client
	*tap
	t testing.TB

	mu  sync.Mutex
	got map[string]bool // jids
	dup []string
}

// receiving creates a client with a worker's name, which is closed with the test.
func (e *env) receiving(worker string) *receiving {
	e.T.Helper()
	r := &receiving{t: e.T, tap: e.newTap(), got: map[string]bool{}}
	rdb := e.Server.Client(e.T)
	rdb.AddHook(r.tap)
	r.Client = e.NewLiveClient(rdb, qless.ClientConfig{WorkerName: worker})
	e.T.Cleanup(func() { _ = r.Close() })
	return r
}

// receivingEnv is newLiveEnv with a client that receives jobs as w1.
func receivingEnv(t testing.TB) (*env, *receiving) {
	t.Helper()
	e := newLiveEnv(t)
	return e, e.receiving("w1")
}

// note records received jobs.
func (r *receiving) note(jobs []*qless.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range jobs {
		if r.got[job.JID] {
			r.dup = append(r.dup, job.JID)
		}
		r.got[job.JID] = true
	}
}

// start begins to receive a job, and returns a channel for the result.
func (r *receiving) start(ctx context.Context, config lease.Request) <-chan error {
	ended := make(chan error, 1)
	if config.Queues == nil {
		config.Queues = []string{"q"}
	}
	if config.PollInterval == 0 {
		config.PollInterval = time.Hour
	}
	go func() {
		jobs, err := lease.New(r.Client).Take(ctx, config)
		r.note(jobs)
		ended <- err
	}()
	return ended
}

// cancelable is start. The returned function cancels the call, and waits for its end.
func (r *receiving) cancelable(config lease.Request) func() {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := r.start(ctx, config)
	return func() {
		cancel()
		require.ErrorIs(r.t, soon(r.t, "an error", ended), context.Canceled)
	}
}

// idle waits until the calls have been seen to be idle n times.
func (r *receiving) idle(n int) {
	r.t.Helper()
	r.await(r.t, "an idle call", n, func(c tapped) bool { return c.idle })
}

func TestEachOfTwoThousandReceivesGetsAJob(t *testing.T) {
	const calls = 2000
	e, r := receivingEnv(t)
	ended := make([]<-chan error, calls)
	for i := range ended {
		ended[i] = r.start(t.Context(), lease.Request{LockTime: time.Hour})
	}
	r.idle(1)
	asked := r.count(of("reserve"))
	for range calls {
		e.Put("q")
	}
	for _, end := range ended {
		require.NoError(t, soon(t, "a job", end))
	}
	require.Empty(t, r.dup)
	require.Len(t, r.got, calls)
	require.LessOrEqual(t, r.count(of("reserve"))-asked, calls+10, "how often the server was asked")
}

func TestReceivesThatAreCanceledLeaveNothingBehind(t *testing.T) {
	const calls = 2000
	dice := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	e, r := receivingEnv(t)
	var cancels []context.CancelFunc
	var kept, gone []<-chan error
	for i := range calls {
		if i%2 == 0 {
			kept = append(kept, r.start(t.Context(), lease.Request{LockTime: time.Hour}))
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancels = append(cancels, cancel)
		gone = append(gone, r.start(ctx, lease.Request{LockTime: time.Hour}))
	}
	dice.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
	var putting sync.WaitGroup
	var jids []string
	putting.Go(func() {
		for range calls {
			jids = append(jids, e.Put("q"))
		}
	})
	for _, cancel := range cancels {
		cancel()
	}
	for _, end := range append(gone, kept...) {
		if err := soon(t, "the end of a call", end); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	putting.Wait()
	require.NoError(t, r.Close()) // jobs on their way are released
	require.Empty(t, r.dup)
	require.GreaterOrEqual(t, len(r.got), calls/2)
	for _, jid := range jids {
		job := e.Read(jid)
		want := qless.StateWaiting
		if r.got[jid] {
			want = qless.StateRunning
		}
		require.Equal(t, want, job.State, jid)
		require.Equal(t, job.Retries, job.Remaining)
	}
	counts := must(e.Queue("q").Counts(t.Context()))(t)
	require.Equal(t, len(r.got), counts.Running)
	require.Equal(t, calls-len(r.got), counts.Waiting)
}

func TestAJobOnItsWayToACanceledReceive(t *testing.T) {
	for name, others := range map[string]struct{ here, elsewhere bool }{
		"waits again":                      {false, false},
		"goes to another call":             {true, false},
		"goes to a call of another client": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			r, other := e.receiving("w1"), e.receiving("w2")
			first, second := e.Put("q"), e.Put("q", qless.Delay(time.Hour))
			arrived, open := r.gate("reserve", true)
			cancel := r.cancelable(lease.Request{})
			soon(t, "an answer", arrived)
			require.Equal(t, qless.StateRunning, e.Read(first).State)
			cancel()
			var next <-chan error
			if others.here {
				next = r.start(t.Context(), lease.Request{})
			} else if others.elsewhere {
				next = other.start(t.Context(), lease.Request{})
				other.idle(1)
			}
			open()
			if next != nil {
				require.NoError(t, soon(t, "the job", next))
				require.Equal(t, qless.StateRunning, e.Read(first).State)
				require.Len(t, other.got, map[bool]int{true: 1}[others.elsewhere])
				require.Len(t, r.got, map[bool]int{true: 1}[others.here])
			} else {
				until(t, "the job waits", func() bool { return e.Read(first).State == qless.StateWaiting })
				until(t, "no worker is idle", func() bool { return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == 0 })
				e.Put("q")
				require.Equal(t, first, e.Pops("q", 1)[0].JID, "it has kept its place")
			}
			job := e.Read(first)
			require.Equal(t, job.Retries, job.Remaining)
			require.Equal(t, qless.StateScheduled, e.Read(second).State)
		})
	}
}

// A call canceled before the next request to the server takes nothing.
func TestACanceledReceiveIsNotAskedFor(t *testing.T) {
	e, r := receivingEnv(t)
	arrived, open := r.gate("reserve", true)
	first := r.start(t.Context(), lease.Request{})
	soon(t, "a question", arrived)
	r.cancelable(lease.Request{Count: 7})()
	open()
	e.Put("q")
	require.NoError(t, soon(t, "the job", first))
	require.Zero(t, r.count(func(c tapped) bool { return c.script == "reserve" && c.args[1] > "1" }))
}

func TestAReceiveWaitsForTheServer(t *testing.T) {
	e, r := receivingEnv(t)
	r.offline.Store(true)
	ended := r.start(t.Context(), lease.Request{})
	_, err := lease.New(r.Client).Take(t.Context(), lease.Request{Queues: []string{"q"}, NoWait: true, PollInterval: time.Minute})
	requireCode(t, qless.ErrUnavailable, err)
	r.cancelable(lease.Request{})()
	e.Put("q")
	require.Empty(t, ended)
	r.offline.Store(false)
	require.NoError(t, soon(t, "the job", ended))
}

func TestAReceiveThatTheServerRefuses(t *testing.T) {
	for answer, returns := range map[string]bool{
		"NOPERM this user has no permissions to run the 'evalsha' command":  true,
		"NOAUTH Authentication required.":                                   true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": true,
		"OOM command not allowed when used memory > 'maxmemory'.":           false,
		"LOADING Redis is loading the dataset in memory":                    false,
		"READONLY You can't write against a read only replica.":             false,
	} {
		t.Run(answer[:6], func(t *testing.T) {
			e, r := receivingEnv(t)
			refused := r.refuseScript("reserve", serverError(answer))
			ended := r.start(t.Context(), lease.Request{})
			soon(t, "a question", refused)
			if returns {
				requireCode(t, qless.ErrServer, soon(t, "an error", ended))
				r.refuseWith(nil)
				e.Put("q")
				require.NoError(t, soon(t, "the job", r.start(t.Context(), lease.Request{})))
				return
			}
			soon(t, "another question", refused)
			require.Empty(t, ended)
			e.Put("q")
			r.refuseWith(nil)
			require.NoError(t, soon(t, "the job", ended))
		})
	}
}

// A release temporarily refused by the server is sent again.
func TestAReleaseOfAReceiveThatGetsNoAnswer(t *testing.T) {
	e, r := receivingEnv(t)
	jid := e.Put("q")
	arrived, open := r.gate("reserve", true)
	r.once("finish", func(send func() error) error {
		return errors.Join(send(), errOffline)
	})
	cancel := r.cancelable(lease.Request{})
	soon(t, "an answer", arrived)
	cancel()
	open()
	r.await(t, "a second release", 1, of("finish"))
	job := e.Read(jid)
	require.Equal(t, qless.StateWaiting, job.State)
	require.Equal(t, job.Retries, job.Remaining)
}

// Some seconds after the last call, nothing is left of a receiver on the server.
func TestAReceiverEndsAfterItsLastCall(t *testing.T) {
	t.Parallel()
	e, r := receivingEnv(t)
	cancel := r.cancelable(lease.Request{})
	e.relaysAre(1)
	cancel()
	until(t, "it has ended", func() bool {
		keys := e.Redis.Keys(t.Context(), "ql:x:idle*").Val()
		return len(keys)+len(e.Redis.PubSubChannels(t.Context(), "ql:x:wake:*").Val()) == 0
	})
	require.Zero(t, e.subscribers("ql:x:listen"))
	e.Put("q")
	require.NoError(t, soon(t, "the job", r.start(t.Context(), lease.Request{})))
}
