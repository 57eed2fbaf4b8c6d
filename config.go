package qless

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/settings"
	"github.com/qless/qless-go/internal/wire"
)

// The settings of a namespace. Times are in seconds. A queue has three settings of its own: see
// [Queue.SetHeartbeat], [Queue.SetMaxConcurrency] and [Queue.SetMaxRate].
const (
	// ConfigBackoffFactor multiplies the delay of [ConfigBackoffInitialDelay] each time that a job
	// is lost. Defaults to 3.
	ConfigBackoffFactor = "backoff-factor"

	// ConfigBackoffInitialDelay is the delay with which a job is run again after its worker lost
	// it, before it is multiplied: the first time, the job waits for this times
	// [ConfigBackoffFactor]. Jobs that clients in PHP put may have a delay and a factor of their
	// own. Defaults to 0 s: such a job is run again at once.
	ConfigBackoffInitialDelay = "backoff-initial-delay"

	// ConfigGracePeriod is how long a worker whose lock has expired may still report. Defaults to
	// 10 s.
	ConfigGracePeriod = "grace-period"

	// ConfigHeartbeat is how long a lock lasts, in whole seconds if there are clients in Python.
	// Defaults to 60 s.
	ConfigHeartbeat = "heartbeat"

	// ConfigHistogramHistory is for how many days histograms are kept. Defaults to 7.
	ConfigHistogramHistory = "histogram-history"

	// ConfigJobsFailedHistory is how long failed jobs are kept. When a job fails, jobs that failed
	// earlier than that are deleted, at most 100 of them, except for jobs that others depend on or
	// that have a [KeepFailedFor]. Jobs that failed while this was not set, or by a script of
	// another client, are deleted when another one fails in their group, or by [Client.Sweep]. It
	// has no default: if it is not set, failed jobs are kept until they are unfailed or canceled.
	ConfigJobsFailedHistory = "jobs-failed-history"

	// ConfigJobsFailedHistoryCount is how many failed jobs are kept in each failure group. When a
	// job fails, the oldest of its group beyond that are deleted, at most 10 of them, except for
	// jobs that ConfigJobsFailedHistory leaves. It has no default: if it is not set, all are kept.
	ConfigJobsFailedHistoryCount = "jobs-failed-history-count"

	// ConfigJobsHistory is how long completed jobs are kept. Defaults to 604800 s, which is a week.
	ConfigJobsHistory = "jobs-history"

	// ConfigJobsHistoryCount is how many completed jobs are kept. Defaults to 50000.
	ConfigJobsHistoryCount = "jobs-history-count"

	// ConfigMaxJobHistory is how many entries the history of a job keeps; 0 means all. Defaults to
	// 100.
	ConfigMaxJobHistory = "max-job-history"

	// ConfigMaxWorkerAge is how long a silent worker is listed. Defaults to 86400 s, which is a day.
	ConfigMaxWorkerAge = "max-worker-age"

	// ConfigStatsHistory is for how many days statistics are kept. Defaults to 30.
	ConfigStatsHistory = "stats-history"
)

// A Config gives access to the settings of a namespace, which all its clients share.
type Config struct {
	client *Client
}

// Config returns the settings of the namespace, which all of its clients share.
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

// All returns every setting that is set or has a default. It reads about 500 in a step.
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

// Set changes a setting. The value is a number, a string, for a setting in seconds also a
// [time.Duration], or true or false for sync-enabled, by which clients in PHP perform a job in the
// process that puts it. An unknown name and a value that the setting can't have, such as a negative
// one, are [ErrInvalid]; the command config.set takes any, by [Client.Do].
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
// A fraction of a second is kept. The Python client reads only whole seconds, so use these for a
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

// SetMaxConcurrency sets how many of the queue's jobs may run at once, over all workers. 0 and -1
// mean that there is no limit.
func (q *Queue) SetMaxConcurrency(ctx context.Context, n int) error {
	if err := q.check("config.set"); err != nil {
		return err
	}
	if n == 0 || n == -1 {
		return q.client.Config().Unset(ctx, q.name+settings.SuffixMaxConcurrency)
	}
	return q.client.Config().Set(ctx, q.name+settings.SuffixMaxConcurrency, n)
}

// SetMaxRate sets how many of the queue's jobs may be started in any period of the length per, by
// all workers together. Scripts of other clients don't look at it. The others stay waiting. A job
// that is started again, after a retry or a lost lock, counts again. An n of 0 or -1 means that
// there is no limit; otherwise it is at most 1,000,000, and per is from 1 ms to 366 days.
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
	// Heartbeat is the duration of locks: the queue's own setting, or the namespace's. Another
	// client may have set 0 or less, which ends a lock as it begins. A [Worker] and [Client.Receive]
	// then keep their locks for 60 s each.
	Heartbeat time.Duration `json:"heartbeat"`

	// MaxConcurrency is the number of jobs that may run at once, or 0 if there is no limit.
	MaxConcurrency int `json:"max_concurrency"`

	// MaxRate is the number of jobs that may be started in any period of the length Per, or 0 if
	// there is no limit.
	MaxRate int           `json:"max_rate"`
	Per     time.Duration `json:"per"`

	// NextStart is when MaxRate allows the next job to be started, or zero if that is now.
	NextStart time.Time `json:"next_start,omitzero"`
}

// MarshalJSON writes durations in seconds.
func (s QueueSettings) MarshalJSON() ([]byte, error) {
	type fields QueueSettings
	return json.Marshal(struct {
		fields
		Heartbeat float64 `json:"heartbeat"`
		Per       float64 `json:"per"`
	}{fields(s), secondsOf(s.Heartbeat), secondsOf(s.Per)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *QueueSettings) UnmarshalJSON(text []byte) error {
	type fields QueueSettings
	read := struct {
		fields
		Heartbeat float64 `json:"heartbeat"`
		Per       float64 `json:"per"`
	}{fields(*s), secondsOf(s.Heartbeat), secondsOf(s.Per)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*s = QueueSettings(read.fields)
	s.Heartbeat, s.Per = durationOf(read.Heartbeat), durationOf(read.Per)
	return nil
}

// Settings returns the settings of the queue. Values that the scripts can't use are ignored, as if
// they were not set.
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
