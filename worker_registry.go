package qless

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// registerInterval is how often a worker registers. The server forgets one that has not done so for
// 150 s.
const registerInterval = time.Minute

// A workerInfo is what a worker registers. Package inspect reads it.
type workerInfo struct {
	Queues   []string `json:"queues"`
	Klasses  []string `json:"klasses"`
	Slots    int      `json:"slots"`
	Language string   `json:"language"`
	Version  string   `json:"version,omitempty"`
	Host     string   `json:"host"`
	PID      int      `json:"pid"`
	Paused   bool     `json:"paused,omitempty"`
	Stopping bool     `json:"stopping,omitempty"`
}

// A registrar keeps a running worker registered with the server.
type registrar struct {
	log      *workerLog
	describe func() workerInfo
	send     func(ctx context.Context, info workerInfo, age time.Duration) error
	now      func() time.Time
	inStep   func(wait, interval time.Duration) time.Duration
	again    signal // something may have changed

	// Used only by the goroutine of run.
	started  time.Time
	at       time.Time  // of the last call
	told     workerInfo // what the server knows; only whether it is paused or stopping is used
	failures int        // consecutive calls that failed
}

func newRegistrar(client *Client, log *workerLog, describe func() workerInfo) *registrar {
	return &registrar{
		log: log, describe: describe, send: client.register, now: client.now,
		inStep: client.hub.inStep, again: newSignal(),
	}
}

// run registers the worker until the context ends.
func (r *registrar) run(ctx context.Context) {
	r.started = r.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.again:
			if !r.isNews() {
				continue
			}
		case <-ctx.Done():
			return
		}
		timer.Reset(r.register(ctx))
	}
}

// isNews reports whether the worker was paused, resumed or stopped since it has registered, or the
// clock was moved.
func (r *registrar) isNews() bool {
	info, since := r.describe(), r.now().Sub(r.at)
	return info.Paused != r.told.Paused || info.Stopping != r.told.Stopping ||
		since < 0 || since >= registerInterval
}

// register registers the worker once. It returns how long to wait before the next time.
func (r *registrar) register(ctx context.Context) time.Duration {
	info := r.describe()
	r.at = r.now()
	err := r.send(ctx, info, r.at.Sub(r.started))
	if err == nil {
		r.told, r.failures = info, 0
		return r.inStep(registerInterval, registerInterval)
	}
	r.failures++
	refused := redisx.IsAnswer(err)
	if refused && r.failures == 1 && ctx.Err() == nil {
		r.log.cantRegister(err)
	}
	if refused {
		return registerInterval
	}
	return redisx.WhileAway.After(r.failures)
}

// Replies of the script worker.register if there is something to do.
const (
	registeredRest  int64 = 1 // jobs are left to be released
	registeredSweep int64 = 2 // it is this worker's turn to look at the failed jobs
)

// sweptTogether is how many times a worker looks at failed jobs, about 100 each, when it is its
// turn.
const sweptTogether = 20

// register registers the client's worker, with its description and start time. It releases jobs
// that calls which have ended early left over, and notifies the jobs that wait for failed ones if
// other clients failed these.
func (c *Client) register(ctx context.Context, info workerInfo, age time.Duration) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	reply, err := c.run(ctx, "worker.register", "", c.worker, wire.FormatSeconds(max(age, 0)), string(text))
	switch reply {
	case registeredRest:
		c.settleDeferred(ctx)
	case registeredSweep:
		c.sweepFailures(ctx)
	}
	return err
}

// sweepFailures looks at failed jobs from where the last sweep stopped on. An error is no news: the
// next worker whose turn it is continues.
func (c *Client) sweepFailures(ctx context.Context) {
	for range sweptTogether {
		reply, err := c.run(ctx, "sweep", "", "")
		if more, wrong := decodeInt("sweep", reply); err != nil || wrong != nil || more == 0 {
			return
		}
	}
}

// now returns the time by which the scripts go, as far as that is known here.
func (c *Client) now() time.Time {
	if c.clock != nil {
		return c.clock()
	}
	return time.Now()
}

// describe returns the worker's description of itself.
func (w *Worker) describe() workerInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return workerInfo{
		Queues:   w.cfg.Queues,
		Klasses:  w.mux.klasses(),
		Slots:    w.cfg.Concurrency,
		Language: "go",
		Version:  moduleVersion(),
		Host:     hostName(),
		PID:      os.Getpid(),
		Paused:   w.paused,
		Stopping: w.state != workerRunning,
	}
}

// hostName returns the name of this machine.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return strings.ToValidUTF8(host, "")
}

// modulePath is the module that this package is in.
const modulePath = "github.com/qless/qless-go"

// moduleVersion returns the version of this package in the program, or the empty string if that
// is not known.
var moduleVersion = sync.OnceValue(func() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range append(build.Deps, &build.Main) {
		if module.Path == modulePath {
			return module.Version
		}
	}
	return ""
})

// liveWorkers holds the workers that this process runs, by workerKey.
var liveWorkers sync.Map

// A workerKey must be unique among live workers.
type workerKey struct{ server, namespace, name string }

func (w *Worker) key() workerKey {
	return workerKey{serverOf(w.client.rdb), w.client.Namespace(), w.Name()}
}

// claimName claims the name, and reports whether no other worker of this process has it.
func (w *Worker) claimName() bool {
	_, taken := liveWorkers.LoadOrStore(w.key(), w)
	return !taken
}

func (w *Worker) freeName() { liveWorkers.CompareAndDelete(w.key(), w) }

// serverOf identifies the server of a go-redis client, as far as its options allow.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" { // the address of every sentinel client
			return fmt.Sprintf("%s:%s/%d", o.Network, o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), ",")
	}
	return fmt.Sprintf("%p", rdb)
}
