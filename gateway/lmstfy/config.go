package lmstfy

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
)

// A Config configures a [Server]. Pools and Admin are required. In numbers and times, 0 means the
// default.
type Config struct {
	// AccessLog logs every request. The admin API can switch it on and off.
	AccessLog bool

	// Accounts maps the users of the admin API to their passwords. If empty, every client may use the
	// API.
	Accounts map[string]string

	// Admin stores tokens and rate limits. The server does not close Admin.
	Admin redis.UniversalClient

	// AdminHosts are further host names of the admin API, such as the name of a service. Addresses,
	// localhost and names ending in .localhost are always allowed.
	AdminHosts []string

	// AdminPrefix is the prefix of the keys in Admin. Defaults to "ql:x:lmstfy:". "-" means no
	// prefix, as in lmstfy's own server: then both share tokens and limits.
	AdminPrefix string

	// Carried names the request headers that published jobs carry, as qless headers beside the
	// attributes. The answer to a consumer of a single job contains these headers, too. Defaults to
	// the headers of a trace: traceparent, tracestate and baggage. A non-nil empty list means none.
	Carried []string

	// Delay is the delay of a job if the request has none.
	Delay time.Duration

	// IdleTimeout limits how long a connection may stay open without a request. Defaults to 2 minutes;
	// -1 means no limit.
	IdleTimeout time.Duration

	// Logger logs failures and requests. Defaults to slog.Default.
	Logger *slog.Logger

	// MaxBulkSize is the maximum size of the body of a bulk publish, in bytes. Defaults to 64 jobs
	// of 1 MiB.
	MaxBulkSize int64

	// MaxConnections is the maximum number of open connections of [Server.Serve]; others must wait.
	// Defaults to 16,384; -1 means no limit.
	MaxConnections int

	// PeerTimeout limits how long a client's host may leave TCP probes unanswered before
	// [Server.Serve] considers the connection broken. Written data may stay unacknowledged for the
	// longer of PeerTimeout and WriteTimeout. Defaults to 30 seconds; -1 leaves the limit to the
	// system.
	PeerTimeout time.Duration

	// Pools maps names to pools. One pool must be called [DefaultPool]. The server does not close the
	// pools' clients.
	Pools map[string]Pool

	// ReadTimeout limits how long a client may take to send the headers of a request, and again to
	// send the body. Defaults to 30 seconds; -1 means no limit.
	ReadTimeout time.Duration

	// SkipTokens makes the server accept every request, with any token or none.
	SkipTokens bool

	// TTL is the lifetime of a job if the request has none. Defaults to 24 hours; -1 means forever.
	TTL time.Duration

	// TTR is the time to run if the request has none. Defaults to 2 minutes; -1 means no time.
	TTR time.Duration

	// Timeout is how long a request without a timeout waits for a job.
	Timeout time.Duration

	// Tries is the number of tries of a job if the request has none. Defaults to 1.
	Tries int

	// WriteTimeout limits how long a client may take to read the answer. Defaults to 30 seconds; -1
	// means no limit.
	WriteTimeout time.Duration
}

// A Pool stores jobs.
type Pool struct {
	// Client stores the jobs in its namespace. Other clients see consumers under its worker's name.
	Client *qless.Client

	// Redis is used for metrics of the server and of the commands sent by this client. Redis may be
	// nil. If Client uses this client, too, the metrics cover all commands.
	Redis redis.UniversalClient

	// MigrateTo is the pool to publish jobs into instead. Jobs left in this pool are consumed first.
	MigrateTo string
}

func invalid(format string, args ...any) error {
	return &qless.Error{Op: "lmstfy", Code: qless.ErrInvalid, Message: fmt.Sprintf(format, args...)}
}

// check sets the defaults, and returns an error if the configuration is invalid.
func (c *Config) check() error {
	if c.Admin == nil {
		return invalid("Config.Admin is nil")
	}
	if _, found := c.Pools[DefaultPool]; !found {
		return invalid("Config.Pools has no pool %q", DefaultPool)
	}
	for _, name := range sortedKeys(c.Pools) {
		if err := c.checkPool(name, c.Pools[name]); err != nil {
			return err
		}
	}
	if c.Tries < 0 || c.Tries > math.MaxUint16 {
		return invalid("Config.Tries %d is not from 1 to %d", c.Tries, math.MaxUint16)
	}
	if slices.Contains(c.Carried, "") {
		return invalid("Config.Carried has an empty name")
	}
	if c.MaxBulkSize < 0 || c.MaxConnections < -1 {
		return invalid("Config.MaxBulkSize or Config.MaxConnections is negative")
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	c.setDefaults()
	return nil
}

func (c *Config) checkPool(name string, p Pool) error {
	if !isName(name, "") {
		return invalid("Config.Pools has a pool whose name is not of letters, digits, - and _: %q", name)
	}
	if p.Client == nil {
		return invalid("Config.Pools: the pool %q has no client", name)
	}
	if p.MigrateTo == "" {
		return nil
	}
	target, found := c.Pools[p.MigrateTo]
	if !found || p.MigrateTo == name || target.MigrateTo != "" {
		return invalid("Config.Pools: the pool %q can't be migrated to %q", name, p.MigrateTo)
	}
	return nil
}

// checkTimes checks the durations.
func (c *Config) checkTimes() error {
	for _, t := range []struct {
		name    string
		value   time.Duration
		none    bool
		seconds bool
	}{
		{"TTL", c.TTL, true, true}, {"TTR", c.TTR, true, true},
		{"Delay", c.Delay, false, true}, {"Timeout", c.Timeout, false, true},
		{"ReadTimeout", c.ReadTimeout, true, false}, {"WriteTimeout", c.WriteTimeout, true, false},
		{"IdleTimeout", c.IdleTimeout, true, false}, {"PeerTimeout", c.PeerTimeout, true, false},
	} {
		if t.none && t.value == -1 {
			continue
		}
		if t.value < 0 || t.value > seconds(math.MaxUint32) {
			return invalid("Config.%s %v is not from 0 to 2^32-1 seconds", t.name, t.value)
		}
		if t.seconds && t.value%time.Second != 0 {
			return invalid("Config.%s %v is not a number of whole seconds", t.name, t.value)
		}
	}
	return nil
}

func (c *Config) setDefaults() {
	set(&c.TTL, 24*time.Hour)
	set(&c.TTR, 2*time.Minute)
	set(&c.Tries, 1)
	set(&c.MaxConnections, 1<<14)
	set(&c.MaxBulkSize, maxBulkJobs*(maxJobSize+16))
	set(&c.ReadTimeout, 30*time.Second)
	set(&c.WriteTimeout, 30*time.Second)
	set(&c.IdleTimeout, 2*time.Minute)
	set(&c.PeerTimeout, 30*time.Second)
	switch c.AdminPrefix {
	case "":
		c.AdminPrefix = "ql:x:lmstfy:"
	case "-":
		c.AdminPrefix = ""
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = guard.Logger(c.Logger)
	if c.Carried == nil {
		c.Carried = defaultCarried
	}
}

// set gives a value its default, and turns -1 into 0.
func set[T int | int64 | time.Duration](value *T, missing T) {
	switch *value {
	case 0:
		*value = missing
	case -1:
		*value = 0
	}
}

// defaults returns the defaults of omitted parameters.
func (c *Config) defaults() defaults {
	whole := func(d time.Duration) uint64 { return uint64(d / time.Second) }
	return defaults{
		ttl: whole(c.TTL), delay: whole(c.Delay), tries: uint64(c.Tries),
		ttr: whole(c.TTR), timeout: whole(c.Timeout),
	}
}

// pools returns the pools, and the stores behind them.
func (c *Config) pools() (map[string]*pool, []*store) {
	stores := map[string]*store{}
	var all []*store
	for _, name := range sortedKeys(c.Pools) {
		stores[name] = newStore(name, c.Pools[name].Client)
		all = append(all, stores[name])
	}
	pools := map[string]*pool{}
	for name, p := range c.Pools {
		pools[name] = &pool{name: name, now: stores[name]}
		if p.MigrateTo != "" {
			pools[name].now, pools[name].old = stores[p.MigrateTo], stores[name]
		}
	}
	return pools, all
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// defaultCarried are the headers of a trace's context.
var defaultCarried = []string{"traceparent", "tracestate", "baggage"}
