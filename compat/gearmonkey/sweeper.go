package gearmonkey

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// SweeperConfig configures a [Sweeper].
type SweeperConfig struct {
	// After is how long a busy job may go without a progress update before it counts as lost. After
	// must be longer than any job takes between two updates: a job swept while running runs twice. It
	// has no default.
	After time.Duration

	// Clock returns the current time. Defaults to [time.Now].
	Clock func() time.Time

	// Functions are the functions with jobs to check.
	Functions []string

	// Interval is the time between the sweeps of [Sweeper.Run]. Defaults to a tenth of After.
	Interval time.Duration

	// Logger receives the sweeper's log. Defaults to [slog.Default].
	Logger *slog.Logger

	// Priority is the priority of requeued jobs, because the original priority is not stored. Defaults
	// to [Normal].
	Priority Priority
}

// A Sweeper requeues jobs left busy by a killed worker. Sweeping is not part of the protocol, in
// which only age distinguishes a lost job from a long one. With a Sweeper, jobs therefore run at
// least once instead of at most once. Nothing is swept unless a Sweeper runs.
//
// Jobs taken but not yet started look idle and are not found.
//
// A sweeper's memory is not shared, so run one sweeper per function. A Sweeper is not safe for
// concurrent use.
type Sweeper struct {
	client *Client
	cfg    SweeperConfig
	seen   map[string]map[int64]sighting // busy jobs, by function and id
}

// sighting records since when a job has had the same progress.
type sighting struct {
	since    time.Time
	progress string
}

// NewSweeper returns a sweeper that has seen no jobs yet.
func NewSweeper(client *Client, config SweeperConfig) *Sweeper {
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.Interval == 0 {
		config.Interval = config.After / 10
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = guard.Logger(config.Logger)
	config.Clock = guard.Clock(config.Clock, config.Logger)
	if config.Priority == "" {
		config.Priority = Normal
	}
	return &Sweeper{client: client, cfg: config, seen: map[string]map[int64]sighting{}}
}

// Run sweeps at every interval until ctx is done, and then returns nil. For an invalid
// configuration, Run returns [ErrInvalid]; other errors are logged.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(s.cfg.Interval, 1))
	defer ticker.Stop()
	for {
		_, err := s.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrInvalid):
			return err
		case err != nil:
			s.cfg.Logger.Warn("gearmonkey: sweep failed", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Sweep sweeps once, and returns the number of requeued jobs. A job is never requeued when first
// seen. An error for one function or job does not affect the others; the errors are joined. A job
// with a failed requeue counts as first seen again. Keys of another type with names of jobs are
// skipped.
//
// Requeueing a job is atomic, and skipped if the job has ended meanwhile. Cost: a scan of all keys
// of the function's server, a command for each job of the functions, and one for each lost job.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	swept := 0
	var errs []error
	for _, fn := range s.cfg.Functions {
		n, err := s.sweep(ctx, fn)
		swept += n
		errs = append(errs, err)
	}
	return swept, errors.Join(errs...)
}

// sweep sweeps one function.
func (s *Sweeper) sweep(ctx context.Context, fn string) (int, error) {
	now, swept := s.cfg.Clock(), 0
	busy, err := s.client.busy(ctx, fn)
	if err != nil {
		return 0, err
	}
	before, seen := s.seen[fn], map[int64]sighting{}
	s.seen[fn] = seen
	var lost []int64
	for id, progress := range busy {
		sight, known := before[id]
		if !known || sight.progress != progress {
			sight = sighting{since: now, progress: progress}
		}
		if now.Sub(sight.since) >= s.cfg.After {
			lost = append(lost, id) // forget the job, too: a requeue may succeed even if the reply is lost
		} else {
			seen[id] = sight
		}
	}
	var errs []error
	for _, id := range lost {
		queued, err := s.client.requeue(ctx, fn, id, s.cfg.Priority)
		errs = append(errs, err)
		if queued {
			swept++
			s.cfg.Logger.Warn("gearmonkey: requeued a lost job", "function", fn, "id", id)
		}
	}
	return swept, errors.Join(errs...)
}

func (s *Sweeper) check() error {
	switch {
	case s.cfg.After <= 0:
		return invalid("sweep", "", "After %v is not positive", s.cfg.After)
	case s.cfg.Interval < 0:
		return invalid("sweep", "", "Interval %v is negative", s.cfg.Interval)
	case len(s.cfg.Functions) == 0:
		return invalid("sweep", "", "no function is named")
	}
	for _, fn := range s.cfg.Functions {
		if err := checkFunction("sweep", fn); err != nil {
			return err
		}
	}
	return checkPriority("sweep", "", s.cfg.Priority)
}

// scanCount is the number of keys examined by one step of a scan.
const scanCount = 1000

// busy returns the progress of the busy jobs of a function, by id.
func (c *Client) busy(ctx context.Context, fn string) (map[int64]string, error) {
	prefix := strings.TrimSuffix(jobKey(fn, 0), "0")
	server, err := redisx.ServerOf(ctx, c.rdb, prefix)
	if err != nil {
		return nil, wrap("sweep", fn, 0, err)
	}
	jobs := map[int64]string{}
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		keys, next, err := server.Scan(ctx, cursor, redisx.EscapeGlob(prefix)+"*", scanCount).Result()
		if err != nil {
			return nil, wrap("sweep", fn, 0, err)
		}
		cursor = next
		if err := c.addBusy(ctx, fn, keys, prefix, jobs); err != nil {
			return nil, wrap("sweep", fn, 0, err)
		}
	}
	return jobs, nil
}

// addBusy adds the keys of busy jobs to jobs.
func (c *Client) addBusy(
	ctx context.Context, fn string, keys []string, prefix string, jobs map[int64]string,
) error {
	pipe := c.rdb.Pipeline()
	replies := map[int64]*redis.SliceCmd{}
	for _, key := range keys {
		if id, ok := parseID(strings.TrimPrefix(key, prefix)); ok {
			replies[id] = pipe.HMGet(ctx, key, "status", "status:dividend", "status:divisor")
		}
	}
	if len(replies) == 0 {
		return nil
	}
	_, _ = pipe.Exec(ctx) // the errors are in the replies
	for id, reply := range replies {
		if redisx.IsDamage(reply.Err()) {
			continue
		}
		if reply.Err() != nil {
			return reply.Err()
		}
		fields := make([]string, 3)
		for i, value := range reply.Val() {
			fields[i], _ = value.(string)
		}
		if Status(fields[0]) == StatusBusy {
			jobs[id] = fields[1] + "/" + fields[2]
		}
	}
	return nil
}

// requeueScript requeues a busy job. KEYS: the job and the queue. ARGV: the id.
const requeueScript = `
if redis.call('HGET', KEYS[1], 'status') ~= 'busy' then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[1]) -- first, because it fails if the key is not a list
redis.call('HMSET', KEYS[1], 'status', 'idle')
redis.call('HDEL', KEYS[1], 'status:dividend', 'status:divisor')
return 1`

// requeue requeues a job if it is busy, and reports whether it was. The script is sent once.
func (c *Client) requeue(
	ctx context.Context, fn string, id int64, priority Priority,
) (bool, error) {
	queued, err := c.sendOnce(ctx, "EVAL", requeueScript, 2,
		jobKey(fn, id), queueKey(fn, string(priority)), id).Bool()
	return queued, wrap("sweep", fn, id, err)
}
