package workqueue

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
)

// CleanerConfig configures a [Cleaner]. The zero value is ready to use.
type CleanerConfig struct {
	// DeepInterval is the time between deep cleanings. Defaults to 6 h.
	DeepInterval time.Duration

	// LightInterval is the time between light cleanings. LightInterval should be about the shortest
	// lease in use. Defaults to 1 min.
	LightInterval time.Duration

	// Logger receives the cleaner's log. Defaults to [slog.Default].
	Logger *slog.Logger
}

func (c CleanerConfig) withDefaults() CleanerConfig {
	if c.DeepInterval == 0 {
		c.DeepInterval = 6 * time.Hour
	}
	if c.LightInterval == 0 {
		c.LightInterval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = guard.Logger(c.Logger)
	return c
}

// A Cleaner cleans queues at intervals. Any number of cleaners may clean the same queues: each
// process can have a cleaner.
type Cleaner struct {
	db     redis.UniversalClient
	queues []*Queue
	cfg    CleanerConfig
}

// NewCleaner returns a cleaner for some queues. It does nothing until [Cleaner.Run] is called.
func NewCleaner(db redis.UniversalClient, config CleanerConfig, queues ...*Queue) *Cleaner {
	return &Cleaner{db: db, queues: queues, cfg: config.withDefaults()}
}

// Run performs a light and a deep cleaning at once, then repeats both at their intervals until ctx
// is done, and returns nil. Errors are logged, and the cleaning is retried at the next interval.
// Run returns [ErrInvalid] if an interval is negative.
func (c *Cleaner) Run(ctx context.Context) error {
	if c.cfg.DeepInterval < 0 || c.cfg.LightInterval < 0 {
		return invalid("clean", "an interval is negative: %v, %v",
			c.cfg.LightInterval, c.cfg.DeepInterval)
	}
	light, deep := time.NewTicker(c.cfg.LightInterval), time.NewTicker(c.cfg.DeepInterval)
	defer light.Stop()
	defer deep.Stop()
	c.follow(ctx, light.C, deep.C)
	return nil
}

// follow cleans at once, and then at each tick.
func (c *Cleaner) follow(ctx context.Context, light, deep <-chan time.Time) {
	c.clean(ctx, "light", (*Queue).LightClean)
	c.clean(ctx, "deep", (*Queue).DeepClean)
	for {
		select {
		case <-light:
			c.clean(ctx, "light", (*Queue).LightClean)
		case <-deep:
			c.clean(ctx, "deep", (*Queue).DeepClean)
		case <-ctx.Done():
			return
		}
	}
}

// clean runs one kind of cleaning on all queues.
func (c *Cleaner) clean(
	ctx context.Context, kind string,
	clean func(*Queue, context.Context, redis.UniversalClient) (Cleaned, error),
) {
	for _, q := range c.queues {
		log := c.cfg.Logger.With("queue", q.prefix, "kind", kind)
		cleaned, err := clean(q, ctx, c.db)
		for _, id := range cleaned.Reset {
			log.Info("workqueue: requeued an item without a lease", "id", id)
		}
		for _, id := range cleaned.Dropped {
			log.Info("workqueue: removed an id without an item", "id", id)
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("workqueue: cleaning failed", "error", err)
		}
	}
}

// ServeCleaner cleans on request of another program: for each line "light:PREFIX" or "deep:PREFIX",
// ServeCleaner cleans the queue with the prefix once, and then writes "light cleaned PREFIX" or
// "deep cleaned PREFIX". The protocol's test suite controls a cleaner in this way through standard
// input and output.
//
// ServeCleaner returns nil at the end of the input, [ErrInvalid] for any other line, and the error
// if cleaning, reading or writing fails.
func ServeCleaner(
	ctx context.Context, db redis.UniversalClient, in io.Reader, out io.Writer,
) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		kind, prefix, found := strings.Cut(lines.Text(), ":")
		var err error
		switch {
		case found && kind == "light":
			_, err = New(prefix).LightClean(ctx, db)
		case found && kind == "deep":
			_, err = New(prefix).DeepClean(ctx, db)
		default:
			err = invalid("clean", "the line %q is neither light:PREFIX nor deep:PREFIX", lines.Text())
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s cleaned %s\n", kind, prefix); err != nil {
			return err
		}
	}
	return lines.Err()
}
