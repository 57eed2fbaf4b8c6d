package qless

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// The settings of a namespace. A queue's own heartbeat is the setting <queue>-heartbeat,
// and how many of its jobs may run at once is <queue>-max-concurrency.
const (
	ConfigApplication      = "application"        // a name; "qless"
	ConfigGracePeriod      = "grace-period"       // how long a worker that lost its lock may still answer; 10 s
	ConfigHeartbeat        = "heartbeat"          // how long a lock lasts; 60 s
	ConfigHistogramHistory = "histogram-history"  // days that histograms are kept; 7
	ConfigJobsHistory      = "jobs-history"       // how long completed jobs are kept; 604800 s
	ConfigJobsHistoryCount = "jobs-history-count" // how many completed jobs are kept; 50000
	ConfigMaxJobHistory    = "max-job-history"    // entries in a job's history; 100
	ConfigMaxWorkerAge     = "max-worker-age"     // how long a silent worker is listed; 86400 s
	ConfigStatsHistory     = "stats-history"      // days that statistics are kept; 30
)

// Config is the settings of a namespace, which all its clients share.
type Config struct {
	client *Client
}

// Get returns a setting, or its default; empty when it has neither. It is the qless command
// config.get.
func (c *Config) Get(ctx context.Context, option string) (string, error) {
	if err := checkName("config.get", "option", option); err != nil {
		return "", err
	}
	reply, err := c.client.run(ctx, "config.get", "", option)
	if err != nil || reply == nil {
		return "", err
	}
	switch value := reply.(type) {
	case string:
		return value, nil
	case int64: // a default
		return strconv.FormatInt(value, 10), nil
	}
	return "", unexpected("config.get", reply)
}

// All returns every setting that is set or has a default. It is the qless command
// config.get.
func (c *Config) All(ctx context.Context) (map[string]string, error) {
	reply, err := c.client.run(ctx, "config.get", "")
	if err != nil {
		return nil, err
	}
	told, err := decode[map[string]wire.Text]("config.get", reply)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string, len(told))
	for option, value := range told {
		settings[option] = string(value)
	}
	return settings, nil
}

// Set changes a setting: a string, a number, or a [time.Duration], which is stored in
// seconds. A value that is no number is [ErrInvalid] for an option that must be one. It is
// the qless command config.set.
func (c *Config) Set(ctx context.Context, option string, value any) error {
	if err := checkName("config.set", "option", option); err != nil {
		return err
	}
	written := fmt.Sprint(value)
	if duration, ok := value.(time.Duration); ok {
		written = strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)
	}
	if err := checkSetting(option, written); err != nil {
		return err
	}
	_, err := c.client.run(ctx, "config.set", "", option, written)
	return err
}

// Unset gives a setting its default again. It is the qless command config.unset.
func (c *Config) Unset(ctx context.Context, option string) error {
	if err := checkName("config.unset", "option", option); err != nil {
		return err
	}
	_, err := c.client.run(ctx, "config.unset", "", option)
	return err
}

// checkSetting errors when an option that the scripts calculate with is no number, or a
// lock would end before it began.
func checkSetting(option, value string) error {
	numeric := strings.HasSuffix(option, "-max-concurrency")
	positive := option == ConfigHeartbeat || strings.HasSuffix(option, "-heartbeat")
	switch option {
	case ConfigGracePeriod, ConfigHistogramHistory, ConfigJobsHistory, ConfigJobsHistoryCount,
		ConfigMaxJobHistory, ConfigMaxWorkerAge, ConfigStatsHistory:
		numeric = true
	}
	if !numeric && !positive {
		return checkName("config.set", "value", value)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return invalid("config.set", "", "%s must be a number, not %q", option, value)
	}
	if positive && n <= 0 {
		return invalid("config.set", "", "%s must be more than 0, not %q", option, value)
	}
	return nil
}
