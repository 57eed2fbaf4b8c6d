package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/internal/redisx"
)

func (a *app) benchCommand() *cobra.Command {
	b := &bench{app: a}
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast the server processes jobs",
		RunE: func(command *cobra.Command, _ []string) error {
			if b.concurrency < 1 || b.duration <= 0 {
				return out.Error(errors.New("--concurrency and --duration must be more than 0"))
			}
			return b.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.DurationVar(&b.duration, "duration", 2*time.Second,
		"time of each measurement")
	flags.IntVar(&b.concurrency, "concurrency", 10,
		"number of puts at once, and of jobs that run at once")
	return command
}

// A bench measures a server.
type bench struct {
	*app
	duration    time.Duration
	concurrency int

	redis  redis.UniversalClient
	client *qless.Client
	found  benchResult
}

// A benchResult holds the results of a bench.
type benchResult struct {
	Server         string   `json:"server"`
	Concurrency    int      `json:"concurrency"`
	RoundTripP50   float64  `json:"round_trip_p50"` // in seconds, like all times
	RoundTripP99   float64  `json:"round_trip_p99"`
	Puts           float64  `json:"puts_per_second"`            // by one goroutine
	ConcurrentPuts float64  `json:"concurrent_puts_per_second"` // by several
	BulkPuts       float64  `json:"bulk_puts_per_second"`       // benchPage in a call
	Jobs           float64  `json:"jobs_per_second"`            // taken, run and completed
	StartP50       float64  `json:"start_p50"`                  // from the put to the handler
	StartP99       float64  `json:"start_p99"`
	Warnings       []string `json:"warnings"`
}

// The queues of a bench.
const (
	benchPuts = "puts"
	benchWork = "work"
	benchIdle = "idle"
)

const (
	maxBenchJobs = 100_000 // the maximum of a measurement, to avoid filling the server
	benchPage    = 500     // jobs put in a call
)

func (b *bench) run(ctx context.Context) (failed error) {
	if err := b.connect(ctx); err != nil {
		return err
	}
	defer func() {
		failed = errors.Join(failed, b.clean())
	}()
	b.found.Concurrency = b.concurrency
	for _, step := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"the round trip", b.measureRoundTrip}, {"the settings", b.look},
		{"single puts", b.measurePuts}, {"concurrent puts", b.measureConcurrentPuts},
		{"bulk puts", b.measureBulk}, {"whole jobs", b.measureJobs},
		{"the time until a job starts", b.measureStarts},
	} {
		if text.IsTerminal(b.Err) {
			fmt.Fprintf(b.Err, "\rmeasuring %s ...%s", step.name, out.ClearToEnd)
		}
		err := step.measure(ctx)
		if text.IsTerminal(b.Err) {
			fmt.Fprint(b.Err, "\r"+out.ClearToEnd)
		}
		if err != nil {
			return err
		}
	}
	if err := b.Print(b.found, b.found.table); err != nil {
		return err
	}
	for _, warning := range b.found.Warnings {
		fmt.Fprintln(b.Err, "warning:", warning)
	}
	return nil
}

// connect connects to the server, in a separate namespace.
func (b *bench) connect(ctx context.Context) error {
	client, err := b.app.Client(ctx)
	if err != nil {
		return err
	}
	b.client, err = qless.New(client.Redis(), &qless.ClientConfig{
		Logger: slog.New(slog.DiscardHandler), Namespace: "{qless-bench-" + rand.Text() + "}:",
	})
	if err != nil {
		return err
	}
	b.redis, err = redisx.ServerOf(ctx, client.Redis(), b.client.Namespace())
	return err
}

// clean deletes the namespace, even if the bench was interrupted.
func (b *bench) clean() error {
	_ = b.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	keys := b.redis.Scan(ctx, 0, b.client.Namespace()+"*", 1000).Iterator()
	var page []string
	for keys.Next(ctx) {
		if page = append(page, keys.Val()); len(page) == 500 {
			if err := b.redis.Unlink(ctx, page...).Err(); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := keys.Err(); err != nil || len(page) == 0 {
		return err
	}
	return b.redis.Unlink(ctx, page...).Err()
}

func (b *bench) measureRoundTrip(ctx context.Context) error {
	const pings = 200
	times := make([]time.Duration, 0, pings)
	end := time.Now().Add(b.duration)
	for len(times) < pings && time.Now().Before(end) {
		begun := time.Now()
		if err := b.redis.Ping(ctx).Err(); err != nil {
			return err
		}
		times = append(times, time.Since(begun))
	}
	b.found.RoundTripP50, b.found.RoundTripP99 = quantiles(times)
	return nil
}

// quantiles returns the median and the 99th percentile in seconds.
func quantiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return times[len(times)/2].Seconds(), times[len(times)*99/100].Seconds()
}

func (b *bench) measurePuts(ctx context.Context) (err error) {
	b.found.Puts, err = b.rate(ctx, 1, 1, func(ctx context.Context) error {
		_, err := b.client.Queue(benchPuts).Put(ctx, "Bench", nil)
		return err
	})
	return err
}

func (b *bench) measureConcurrentPuts(ctx context.Context) (err error) {
	b.found.ConcurrentPuts, err = b.rate(ctx, b.concurrency, 1, func(ctx context.Context) error {
		_, err := b.client.Queue(benchPuts).Put(ctx, "Bench", nil)
		return err
	})
	return err
}

func (b *bench) measureBulk(ctx context.Context) (err error) {
	jobs := make([]qless.JobSpec, benchPage)
	for i := range jobs {
		jobs[i].Klass = "Bench"
	}
	b.found.BulkPuts, err = b.rate(ctx, 1, benchPage, func(ctx context.Context) error {
		_, err := b.client.Queue(benchWork).PutMany(ctx, jobs)
		return err
	})
	return err
}

// rate returns the number of operations per second of goroutines, with n operations each.
func (b *bench) rate(
	ctx context.Context, goroutines, n int, do func(ctx context.Context) error,
) (float64, error) {
	var done atomic.Int64
	begun := time.Now()
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() {
			var err error
			for err == nil && time.Since(begun) < b.duration && done.Load() < maxBenchJobs {
				if err = do(ctx); err == nil {
					done.Add(int64(n))
				}
			}
			errs <- err
		}()
	}
	var failed error
	for range goroutines {
		failed = errors.Join(failed, <-errs)
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), failed
}

// measureJobs lets a worker run the bulk-put jobs.
func (b *bench) measureJobs(ctx context.Context) error {
	there, err := b.client.Queue(benchWork).Counts(ctx)
	if err != nil {
		return err
	}
	var ran atomic.Int64
	empty := make(chan struct{})
	worker, err := b.worker(benchWork, func(context.Context, *qless.Job) error {
		if ran.Add(1) == int64(there.Waiting) {
			close(empty)
		}
		return nil
	})
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := worker.Start(ctx); err != nil {
		return err
	}
	select {
	case <-empty:
	case <-time.After(b.duration):
	case <-ctx.Done():
	}
	stopped := worker.Stop(ctx) // waits for outcomes
	b.found.Jobs = float64(worker.Stats().Completed) / time.Since(begun).Seconds()
	return errors.Join(ctx.Err(), stopped)
}

func (b *bench) worker(queue string, handler qless.Handler) (*qless.Worker, error) {
	worker, err := qless.NewWorker(b.client, qless.WorkerConfig{
		Queues: []string{queue}, Concurrency: b.concurrency,
	})
	if err != nil {
		return nil, err
	}
	worker.Handle("Bench", handler)
	return worker, nil
}

// measureStarts puts one job after another for an idle worker.
func (b *bench) measureStarts(ctx context.Context) error {
	const most = 1000
	started := make(chan time.Time, 1)
	worker, err := b.worker(benchIdle, func(context.Context, *qless.Job) error {
		started <- time.Now()
		return nil
	})
	if err != nil {
		return err
	}
	if err := worker.Start(ctx); err != nil {
		return err
	}
	var times []time.Duration
	end := time.Now().Add(b.duration)
	for err == nil && len(times) < most && time.Now().Before(end) {
		var took time.Duration
		if took, err = b.untilStarted(ctx, started); err == nil {
			times = append(times, took)
		}
	}
	if len(times) > 1 {
		times = times[1:] // the first start includes the start of the worker
	}
	b.found.StartP50, b.found.StartP99 = quantiles(times)
	return errors.Join(err, worker.Stop(ctx))
}

func (b *bench) untilStarted(
	ctx context.Context, started <-chan time.Time,
) (time.Duration, error) {
	begun := time.Now()
	if _, err := b.client.Queue(benchIdle).Put(ctx, "Bench", nil); err != nil {
		return 0, err
	}
	select {
	case at := <-started:
		return at.Sub(begun), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(b.Timeout):
		return 0, errors.New("a job was not started in time")
	}
}

func (r *benchResult) table() *out.Table {
	t := &out.Table{Header: []string{"MEASURED ON " + r.Server, "VALUE"}}
	t.Add("round trip, half within", milliseconds(r.RoundTripP50))
	t.Add("round trip, 99% within", milliseconds(r.RoundTripP99))
	t.Add("puts, one at a time", perSecond(r.Puts))
	t.Add(fmt.Sprintf("puts, %d at a time", r.Concurrency), perSecond(r.ConcurrentPuts))
	t.Add(fmt.Sprintf("puts of %d in a call", benchPage), perSecond(r.BulkPuts))
	t.Add(fmt.Sprintf("jobs run, %d at once", r.Concurrency), perSecond(r.Jobs))
	t.Add("from put to start, half within", milliseconds(r.StartP50))
	t.Add("from put to start, 99% within", milliseconds(r.StartP99))
	return t
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }

func perSecond(n float64) string { return fmt.Sprintf("%.0f/s", n) }
