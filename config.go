package qless

import (
	"context"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/settings"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A Config gives access to the settings of a namespace, shared by all its clients. Times are in
// seconds.
//
//	name                       default
//	heartbeat                  60       duration of a lock; whole seconds if there are Python clients
//	grace-period               10       how long a worker may still report after its lock has expired
//	max-worker-age             86400    how long a silent worker is listed
//	backoff-initial-delay      0        delay of a lost job, before the factor
//	backoff-factor             3        factor of that delay for each loss, including the first
//	jobs-history               604800   how long completed jobs are kept
//	jobs-history-count         50000    number of completed jobs to keep
//	jobs-failed-history        -        how long failed jobs are kept
//	jobs-failed-history-count  -        number of failed jobs to keep in each failure group
//	max-job-history            100      entries of a job's history to keep; 0 for all
//	stats-history              30       days to keep statistics
//	histogram-history          7        days to keep histograms
//
// Failed jobs are kept until unfailed or canceled, unless a setting limits that. When a job fails,
// up to 100 jobs beyond jobs-failed-history and 10 of its group are deleted, except for jobs that
// others depend on or that have a [KeepFailedFor]. A queue has three settings of its own: see
// [Queue.SetHeartbeat], [Queue.SetMaxConcurrency] and [Queue.SetMaxRate].
type Config struct {
	client *Client
}

// Config returns the settings of the namespace, shared by all its clients.
func (c *Client) Config() *Config { return &Config{client: c} }

// Get returns a setting or its default, or the empty string if it has neither.
func (c *Config) Get(ctx context.Context, name string) (string, error) {
	if err := checkName("config.get", "name", name); err != nil {
		return "", err
	}
	reply, err := c.client.run(ctx, "config.get", "", name)
	if err != nil {
		return "", err
	}
	switch value := reply.(type) {
	case nil: // the scripts only have defaults for settings that other clients know
		return settings.Default(name), nil
	case string:
		return value, nil
	case int64: // a default
		return strconv.FormatInt(value, 10), nil
	}
	return "", unexpected("config.get", reply)
}

// All returns every setting with a value or a default.
func (c *Config) All(ctx context.Context) (map[string]string, error) {
	all := settings.Defaults()
	for cursor := ""; ; {
		reply, err := c.client.run(ctx, "config.get", "", "", "from", cursor)
		if err != nil {
			return nil, err
		}
		part, err := decode[struct {
			Cursor   wire.Text            `json:"cursor"`
			Settings map[string]wire.Text `json:"settings"`
		}]("config.get", reply)
		if err != nil {
			return nil, err
		}
		for name, value := range part.Settings {
			all[name] = string(value)
		}
		if cursor = string(part.Cursor); cursor == "" {
			return all, nil
		}
	}
}

// Set changes a setting. The value is a number or a string, a [time.Duration] for a setting in
// seconds, or a bool for sync-enabled, with which PHP clients perform a job in the process that
// puts it. An unknown name and an impossible value, such as a negative one, are [ErrInvalid]; the
// command config.set accepts any, through [Client.Do].
func (c *Config) Set(ctx context.Context, name string, value any) error {
	if err := checkName("config.set", "name", name); err != nil {
		return err
	}
	written, err := settings.Write(name, value)
	if err != nil {
		return asInvalid("config.set", "", err)
	}
	if err := checkName("config.set", "value", written); err != nil {
		return err
	}
	_, err = c.client.run(ctx, "config.set", "", name, written)
	return err
}

// Unset resets a setting to its default.
func (c *Config) Unset(ctx context.Context, name string) error {
	if err := checkName("config.unset", "name", name); err != nil {
		return err
	}
	_, err := c.client.run(ctx, "config.unset", "", name)
	return err
}

// SetHeartbeat sets how long locks of the queue's jobs last. 0 removes the queue's own setting, so
// that the namespace's applies again: see [ConfigHeartbeat]. A negative time is [ErrInvalid].
//
// Fractions of a second are kept. The Python client reads only whole seconds, so use these for a
// queue that it shares.
func (q *Queue) SetHeartbeat(ctx context.Context, d time.Duration) error {
	if err := q.check("config.set"); err != nil {
		return err
	}
	if d == 0 {
		return q.client.Config().Unset(ctx, q.name+settings.SuffixHeartbeat)
	}
	if d > 0 && d < time.Millisecond {
		return invalid("config.set", "", "the heartbeat %v is less than 1ms", d)
	}
	return q.client.Config().Set(ctx, q.name+settings.SuffixHeartbeat, d)
}

// SetMaxConcurrency sets the maximum number of the queue's jobs that run at once, across all
// workers. 0 and -1 mean no limit.
func (q *Queue) SetMaxConcurrency(ctx context.Context, n int) error {
	if err := q.check("config.set"); err != nil {
		return err
	}
	if n == 0 || n == -1 {
		return q.client.Config().Unset(ctx, q.name+settings.SuffixMaxConcurrency)
	}
	return q.client.Config().Set(ctx, q.name+settings.SuffixMaxConcurrency, n)
}

// SetMaxRate sets the maximum number of the queue's jobs that all workers together start in any
// period of length per. Further jobs stay waiting. A job that is started again, after a retry or a
// lost lock, counts again. Scripts of other clients ignore the rate. An n of 0 or -1 means no
// limit. Otherwise n is at most 1,000,000, and per is from 1 ms to 366 days.
func (q *Queue) SetMaxRate(ctx context.Context, n int, per time.Duration) error {
	if err := q.check("config.set"); err != nil {
		return err
	}
	if n == 0 || n == -1 {
		return q.client.Config().Unset(ctx, q.name+settings.SuffixMaxRate)
	}
	rate := strconv.Itoa(n) + "/" + strconv.FormatFloat(per.Seconds(), 'f', -1, 64)
	return q.client.Config().Set(ctx, q.name+settings.SuffixMaxRate, rate)
}

// QueueSettings holds the settings of a queue.
type QueueSettings struct {
	// Heartbeat is the duration of locks: the queue's own setting, or the namespace's. Another client
	// may have set 0 or less: workers of this package then keep their locks for 60 s each.
	Heartbeat time.Duration `json:"heartbeat"`

	// MaxConcurrency is the maximum number of running jobs, or 0 if there is no limit.
	MaxConcurrency int `json:"max_concurrency"`

	// MaxRate is the number of jobs that may start in any period of length Per, or 0 if there is no
	// limit.
	MaxRate int           `json:"max_rate"`
	Per     time.Duration `json:"per"`

	// NextStart is when MaxRate allows the next start, or zero for now.
	NextStart time.Time `json:"next_start,omitzero"`
}

// MarshalJSON writes durations as text.
func (s QueueSettings) MarshalJSON() ([]byte, error) { return units.Marshal(s) }

// UnmarshalJSON reads the output of MarshalJSON.
func (s *QueueSettings) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, s) }

// Settings returns the settings of the queue. Unusable values count as unset.
func (q *Queue) Settings(ctx context.Context) (QueueSettings, error) {
	const op = "queue.settings"
	if err := q.check(op); err != nil {
		return QueueSettings{}, err
	}
	reply, err := q.client.run(ctx, op, "", q.name)
	if err != nil {
		return QueueSettings{}, err
	}
	parts := wire.Items(reply)
	if len(parts) < 5 {
		return QueueSettings{}, unexpected(op, reply)
	}
	return QueueSettings{
		Heartbeat:      wire.AsNumber(parts[0]).Duration(),
		MaxConcurrency: max(0, wire.AsNumber(parts[1]).Int()),
		MaxRate:        wire.AsNumber(parts[2]).Int(),
		Per:            wire.AsNumber(parts[3]).Duration(),
		NextStart:      wire.AsNumber(parts[4]).Time(),
	}, nil
}
