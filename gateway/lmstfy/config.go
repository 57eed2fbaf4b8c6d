package lmstfy

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// A Config configures a [Server]. Pools and Admin are required. In numbers and times, 0 is the
// default.
type Config struct {
	// Pools are the places where jobs are kept, by name. One is called [DefaultPool]. The server does
	// not close their clients.
	Pools map[string]Pool

	// Admin is where tokens and rate limits are kept. The server does not close it.
	Admin redis.UniversalClient

	// AdminPrefix begins the names of the keys in Admin. Defaults to "ql:x:lmstfy:". With "-" they
	// have no prefix, as those of lmstfy's own server: then both know the same tokens and limits.
	AdminPrefix string

	// SkipTokens has the server take every request, with any token or none.
	SkipTokens bool

	// Accounts are users of the admin API with their passwords. Without any, every client may use
	// it.
	Accounts map[string]string

	// AdminHosts are names by which the admin API may be asked, such as that of a service. Addresses,
	// localhost and names that end in .localhost need not be named.
	AdminHosts []string

	// AccessLog has requests logged. The admin API can change it.
	AccessLog bool

	// Logger is where failures and requests are logged. Defaults to slog.Default.
	Logger *slog.Logger

	// The defaults of requests. TTL defaults to 24 hours, and TTR to 2 minutes. A TTL of -1 means
	// that jobs live for ever, and a TTR of -1 none. Tries defaults to 1.
	TTL     time.Duration
	Delay   time.Duration
	Tries   int
	TTR     time.Duration
	Timeout time.Duration

	// Carried are the names of request headers that go with the jobs that the request publishes, as
	// headers of qless beside the attributes, and that a consumer of a single job gets back in the
	// answer. Defaults to those of a trace: traceparent, tracestate and baggage. With an empty list
	// that is not nil, there are none.
	Carried []string

	// MaxConnections is how many connections [Server.Serve] has open at most; others have to wait.
	// Defaults to 16,384; -1 means no limit.
	MaxConnections int

	// MaxBulkSize is how many bytes the body of a bulk publish may have. Defaults to 64 jobs of 1 MiB.
	MaxBulkSize int64

	// ReadTimeout is how long a client may take to send the headers of a request, and again for the
	// body, and WriteTimeout how long it may take to read the answer. Both default to 30 seconds. For
	// IdleTimeout, 2 minutes by default, a connection may be kept without a request. -1 means no
	// limit.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	IdleTimeout  time.Duration

	// PeerTimeout is for how long the host of a client may be silent, though TCP asks it, before
	// [Server.Serve] takes the connection for broken. Written data may stay unacknowledged for that
	// long, or for WriteTimeout if that is longer. Defaults to 30 seconds; -1 leaves it to the
	// system.
	PeerTimeout time.Duration
}

// DefaultPool is the name of the pool of tokens that name none.
const DefaultPool = "default"

// A Pool is a place where jobs are kept.
type Pool struct {
	// Client has the jobs in its namespace. Its worker's name is what other clients see of consumers.
	Client *qless.Client

	// Redis is for metrics, and may be nil: those of the server, and of the commands that this client
	// sends, which counts all of them if Client uses it too.
	Redis redis.UniversalClient

	// MigrateTo is the pool into which jobs are published instead. Jobs that are left in this one
	// are consumed first.
	MigrateTo string
}

// defaults are the parameters of requests that do not say them.
type defaults struct {
	ttl, delay, tries, ttr, timeout uint64
}

func invalid(format string, args ...any) error {
	return &qless.Error{Op: "lmstfy", Code: qless.ErrInvalid, Message: fmt.Sprintf(format, args...)}
}

// check returns an error if the configuration can't be used, and sets what is not said.
func (c *Config) check() error {
	if c.Admin == nil {
		return invalid("Config.Admin is nil")
	}
	if _, found := c.Pools[DefaultPool]; !found {
		return invalid("Config.Pools has no pool %q", DefaultPool)
	}
	for name, p := range c.Pools {
		if err := c.checkPool(name, p); err != nil {
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
	if c.Carried == nil {
		c.Carried = defaultCarried
	}
}

// set gives a value its default, and takes -1 for none.
func set[T int | int64 | time.Duration](value *T, missing T) {
	switch *value {
	case 0:
		*value = missing
	case -1:
		*value = 0
	}
}

// defaults returns the parameters of requests that do not say them.
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
