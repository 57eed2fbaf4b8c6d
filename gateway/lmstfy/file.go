package lmstfy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// A File holds the contents of a configuration file of lmstfy's own server. [File.Config] turns it
// into a [Config].
type File struct {
	Host      string
	Port      int
	AdminHost string
	AdminPort int

	LogLevel  string
	LogDir    string
	LogFormat string

	Accounts        map[string]string
	EnableAccessLog bool

	TTLSecond     int
	DelaySecond   int
	TriesNum      int
	TTRSecond     int
	TimeoutSecond int

	AdminRedis FileRedis
	Pool       map[string]FileRedis

	// Unknown contains the unknown keys of the file.
	Unknown []string `toml:"-"`
}

// A FileRedis is a Redis server in a configuration file. With a MasterName, the server is reached
// through sentinels; Addr may then list several, separated by commas. Addr may also be a URL for
// [qless.Dial] with all settings.
type FileRedis struct {
	Addr             string
	Password         string
	DB               int
	PoolSize         int
	MigrateTo        string
	MasterName       string
	SentinelPassword string
	Version          string // ignored

	// Namespace is the qless namespace of a pool. lmstfy's own server does not have this key.
	// Defaults to "ql:".
	Namespace string
}

// LoadFile reads a configuration file. Errors describe the problem, but contain no password.
func LoadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := parseFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

func parseFile(text string) (*File, error) {
	file := File{
		AdminHost: "127.0.0.1", LogLevel: "info",
		TTLSecond: 24 * 60 * 60, TriesNum: 1, TTRSecond: 2 * 60,
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		return nil, err
	}
	for _, key := range meta.Undecoded() {
		file.Unknown = append(file.Unknown, key.String())
	}
	return &file, file.check()
}

func (f *File) check() error {
	switch {
	case f.Host == "":
		return invalid("invalid host")
	case f.Port <= 0 || f.Port > 65535:
		return invalid("invalid port")
	case f.AdminPort <= 0 || f.AdminPort > 65535:
		return invalid("invalid admin port")
	}
	if _, found := f.Pool[DefaultPool]; !found {
		return invalid("default redis pool not found")
	}
	for name, pool := range f.Pool {
		if err := pool.check(); err != nil {
			return invalid("invalid config in pool(%s): %s", name, err)
		}
	}
	if err := f.AdminRedis.check(); err != nil {
		return invalid("invalid config in admin redis: %s", err)
	}
	if _, known := f.level(); !known {
		return invalid("invalid log level")
	}
	return nil
}

func (r *FileRedis) check() error {
	switch {
	case r.Addr == "":
		return errors.New("the pool addr must not be empty")
	case r.DB < 0:
		return errors.New("the pool db must be greater than 0 or equal to 0")
	}
	return nil
}

// level returns the log level, and whether it is valid.
func (f *File) level() (slog.Level, bool) {
	switch strings.ToLower(f.LogLevel) {
	case "panic", "fatal", "error":
		return slog.LevelError, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "info":
		return slog.LevelInfo, true
	case "debug", "trace":
		return slog.LevelDebug, true
	}
	return 0, false
}

// Level returns the log level.
func (f *File) Level() slog.Level {
	level, _ := f.level()
	return level
}

// Addr returns the listen address of the API.
func (f *File) Addr() string { return net.JoinHostPort(f.Host, strconv.Itoa(f.Port)) }

// AdminAddr returns the listen address of the admin API.
func (f *File) AdminAddr() string {
	return net.JoinHostPort(f.AdminHost, strconv.Itoa(f.AdminPort))
}

// Config returns a configuration without Pools and Admin, which the caller must set. The
// configuration uses the tokens and limits in the AdminRedis of lmstfy's own server.
func (f *File) Config() Config {
	config := Config{
		AdminPrefix: "-",
		Accounts:    f.Accounts,
		AdminHosts:  []string{f.AdminHost},
		AccessLog:   f.EnableAccessLog,
		TTL:         time.Duration(f.TTLSecond) * time.Second,
		Delay:       time.Duration(f.DelaySecond) * time.Second,
		Tries:       f.TriesNum,
		TTR:         time.Duration(f.TTRSecond) * time.Second,
		Timeout:     time.Duration(f.TimeoutSecond) * time.Second,
	}
	if f.TTLSecond == 0 {
		config.TTL = -1
	}
	if f.TTRSecond == 0 {
		config.TTR = -1
	}
	return config
}

// addrs returns the addresses of a Redis, or of its sentinels.
func (r *FileRedis) addrs() []string {
	return slices.DeleteFunc(strings.FieldsFunc(r.Addr, func(c rune) bool {
		return c == ',' || c == ' '
	}), func(addr string) bool { return addr == "" })
}

// Connect returns the configuration with the pools and the AdminRedis of the file. The caller must
// call end after the server has shut down.
func (f *File) Connect(ctx context.Context) (config Config, end func(), err error) {
	var closes []func()
	end = func() {
		for _, end := range closes {
			end()
		}
	}
	open := func(r FileRedis) (*qless.Client, error) {
		client, end, err := r.connect(ctx)
		if err == nil {
			closes = append(closes, end)
			err = redisx.AskReads(ctx, client.Redis(), client.Namespace())
		}
		return client, err
	}
	config = f.Config()
	config.Pools = map[string]Pool{}
	for _, name := range sortedKeys(f.Pool) {
		r := f.Pool[name]
		client, err := open(r)
		if err != nil {
			end()
			return Config{}, nil, fmt.Errorf("pool %q: %w", name, err)
		}
		config.Pools[name] = Pool{Client: client, Redis: client.Redis(), MigrateTo: r.MigrateTo}
	}
	admin, err := open(f.AdminRedis)
	if err != nil {
		end()
		return Config{}, nil, fmt.Errorf("admin redis: %w", err)
	}
	config.Admin = admin.Redis()
	return config, end, nil
}

// connect returns a client, and a function that closes its connections.
func (r *FileRedis) connect(ctx context.Context) (*qless.Client, func(), error) {
	config := &qless.ClientConfig{Namespace: r.Namespace}
	if strings.Contains(r.Addr, "://") {
		client, err := qless.Dial(ctx, r.Addr, config)
		return client, func() { _ = client.Close() }, err
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: r.addrs(), MasterName: r.MasterName, Password: r.Password, DB: r.DB,
		SentinelPassword: r.SentinelPassword, PoolSize: r.PoolSize, ContextTimeoutEnabled: true,
	})
	end := func() { _ = rdb.Close() }
	client, err := qless.New(rdb, config)
	if err != nil {
		end()
	}
	return client, end, err
}
