package lmstfy

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// sizes are metrics of the contents of the pools. They are read on request, but not often.
type sizes struct {
	config *Config

	mu   sync.Mutex
	at   time.Time
	text []byte
	jobs map[string]float64 // by pool: known jobs that have become due
}

func newSizes(config *Config) *sizes {
	return &sizes{config: config, jobs: map[string]float64{}}
}

const sizesInterval = 5 * time.Second

// write returns the metrics. They are up to sizesInterval old.
func (s *sizes) write(ctx context.Context) []byte {
	s.mu.Lock()
	text, fresh := s.text, time.Since(s.at) < sizesInterval
	s.mu.Unlock()
	if fresh {
		return text
	}
	text = s.read(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.at = text, time.Now()
	return text
}

// read reads the sizes of all pools.
func (s *sizes) read(ctx context.Context) []byte {
	queue := func(name string) *family {
		return newFamily("gauge", redisMetric+name, "namespace", "pool", "queue")
	}
	timers := newFamily("gauge", redisMetric+"timer_sizes", "pool")
	queues, dead := queue("queue_sizes"), queue("deadletter_sizes")
	servers := serverGauges()
	for name, pool := range s.config.Pools {
		readQueues(ctx, name, pool.Client, timers, queues, dead)
		if pool.Redis != nil {
			servers.read(ctx, name, pool.Redis)
		}
	}
	var text bytes.Buffer
	for _, f := range append([]*family{dead, queues, timers}, servers.families()...) {
		f.write(&text)
	}
	return text.Bytes()
}

func readQueues(
	ctx context.Context, pool string, client *qless.Client, timers, queues, dead *family,
) {
	counts, err := client.Queues(ctx)
	if err != nil {
		return
	}
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return
	}
	timed := 0
	for _, c := range counts {
		namespace, queue, is := strings.Cut(c.Name, "/")
		if !is {
			continue
		}
		timed += c.Scheduled + c.Running + c.Stalled
		queues.set(float64(c.Waiting), namespace, pool, queue)
		dead.set(float64(groups[deadGroup(c.Name)]), namespace, pool, queue)
	}
	timers.set(float64(timed), pool)
}

// info returns the queues of a pool, by namespace.
func info(ctx context.Context, client *qless.Client) (map[string][]string, error) {
	counts, err := client.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, c := range counts {
		if namespace, queue, is := strings.Cut(c.Name, "/"); is {
			all[namespace] = append(all[namespace], queue)
		}
	}
	return all, nil
}

// gauges are figures from a Redis server's INFO: metrics and their fields in INFO.
type gauges struct {
	byField map[string]*family
	keys    *family
	expires *family
}

func serverGauges() gauges {
	gauge := func(name string) *family { return newFamily("gauge", redisMetric+name, "pool") }
	return gauges{
		byField: map[string]*family{
			"maxmemory":         gauge("max_mem_bytes"),
			"used_memory":       gauge("used_mem_bytes"),
			"connected_clients": gauge("connections"),
			"blocked_clients":   gauge("blocking_connections"),
		},
		keys:    gauge("total_keys"),
		expires: gauge("total_ttl_keys"),
	}
}

func (g gauges) families() []*family {
	all := []*family{g.keys, g.expires}
	for _, field := range sortedKeys(maps.Clone(g.byField)) {
		all = append(all, g.byField[field])
	}
	return all
}

// read reads the figures of a server. A cluster answers for one of its nodes.
func (g gauges) read(ctx context.Context, pool string, rdb redis.UniversalClient) {
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		return
	}
	var keys, expires float64
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if f := g.byField[field]; f != nil {
			n, _ := strconv.ParseFloat(value, 64)
			f.set(n, pool)
		}
		if strings.HasPrefix(field, "db") && strings.HasPrefix(value, "keys=") {
			keys += keyspace(value, "keys")
			expires += keyspace(value, "expires")
		}
	}
	g.keys.set(keys, pool)
	g.expires.set(expires, pool)
}

// keyspace returns a number of "keys=1,expires=0,avg_ttl=0".
func keyspace(text, name string) float64 {
	for part := range strings.SplitSeq(text, ",") {
		if value, is := strings.CutPrefix(part, name+"="); is {
			n, _ := strconv.ParseFloat(value, 64)
			return n
		}
	}
	return 0
}
