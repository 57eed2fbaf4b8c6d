package model

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// prefix is the namespace.
const prefix = qless.DefaultNamespace

// dump returns every key: its name, its type, whether it expires, and its values as one text, so
// that what has not changed need not be read again.
var dump = redis.NewScript(`
local read = {
  hash = {'hgetall'}, list = {'lrange', 0, -1}, set = {'smembers'},
  zset = {'zrange', 0, -1, 'withscores'},
}
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind = redis.call('type', key).ok
  local how, values = read[kind], {}
  if how then
    values = redis.call(how[1], key, unpack(how, 2))
  end
  all[#all + 1] = key
  all[#all + 1] = kind
  all[#all + 1] = redis.call('pttl', key) >= 0 and 'expires' or ''
  all[#all + 1] = table.concat(values, '\n')
end
return all`)

// An entry is what a key holds.
type entry struct {
	kind, text string
	expires    bool
	members    []string           // of a list or a set
	fields     map[string]string  // of a hash
	scores     map[string]float64 // of a sorted set
	tags       []string           // of a job
	failure    failure            // of a job
	history    []event            // of a job's list
}

var nothing = &entry{}

// A keyspace is all that the server holds: the keys of jobs and queues by their names, and all of
// them.
type keyspace struct {
	entries map[string]*entry
	jobs    map[string]*entry            // by jid
	recurs  map[string]*entry            // by jid
	queues  map[string]map[string]*entry // by queue and part
	workers map[string]*entry            // the jobs of each worker
	groups  map[string]*entry
	tags    map[string]*entry
	stats   map[string]map[statKey]*entry // by kind
	unknown []string                      // keys of no known layout
}

func newKeyspace() *keyspace {
	return &keyspace{
		entries: map[string]*entry{}, jobs: map[string]*entry{}, recurs: map[string]*entry{},
		queues: map[string]map[string]*entry{}, workers: map[string]*entry{}, groups: map[string]*entry{},
		tags:  map[string]*entry{},
		stats: map[string]map[statKey]*entry{"stats": {}, "wait": {}, "run": {}},
	}
}

// read reads all keys.
func (w *world) read() *keyspace {
	reply, err := dump.Run(w.ctx, w.rdb, nil).StringSlice()
	require.NoError(w.t, err)
	k := newKeyspace()
	for i := 0; i < len(reply); i += 4 {
		key, kind, expires, text := reply[i], reply[i+1], reply[i+2] != "", reply[i+3]
		e := w.k.entries[key]
		if e == nil || e.kind != kind || e.text != text || e.expires != expires {
			e = parse(kind, text)
			e.expires = expires
		}
		k.entries[key] = e
		if !k.file(key, e) {
			k.unknown = append(k.unknown, key)
		}
	}
	return k
}

// parse reads the values of a key.
func parse(kind, text string) *entry {
	e := &entry{kind: kind, text: text}
	if text == "" {
		return e
	}
	values := strings.Split(text, "\n")
	switch kind {
	case "hash":
		e.fields = map[string]string{}
		for i := 0; i+1 < len(values); i += 2 {
			e.fields[values[i]] = values[i+1]
		}
		e.tags, e.failure = parseTags(e.fields["tags"]), parseFailure(e.fields["failure"])
	case "zset":
		e.scores = map[string]float64{}
		for i := 0; i+1 < len(values); i += 2 {
			e.scores[values[i]] = number(values[i+1])
		}
	default:
		e.members = values
		e.history = parseHistory(values)
	}
	return e
}

// number reads a number; what is none is not equal to any.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

func parseTags(text string) []string {
	var tags []string
	_ = json.Unmarshal([]byte(text), &tags) // {} is none
	return tags
}

func parseFailure(text string) failure {
	var told struct {
		Group, Message, Worker string
		When                   float64
	}
	_ = json.Unmarshal([]byte(text), &told) // empty is none
	return failure{group: told.Group, message: told.Message, worker: told.Worker, when: told.When}
}

// parseHistory reads entries such as [1704196800,"put",{"q":"q1"}].
func parseHistory(values []string) []event {
	var history []event
	for _, value := range values {
		when, rest, _ := strings.Cut(strings.TrimPrefix(value, "["), ",")
		what, err := strconv.QuotedPrefix(rest)
		second, err2 := strconv.ParseInt(when, 10, 64)
		if err != nil || err2 != nil {
			return nil // a list of something else
		}
		history = append(history, event{what: strings.Trim(what, `"`), when: second})
	}
	return history
}

// file files an entry by the name of its key; false when the layout has no such key.
func (k *keyspace) file(key string, e *entry) bool {
	area, name, _ := strings.Cut(strings.TrimPrefix(key, prefix), ":")
	switch area {
	case "j":
		return k.fileJob(name, e)
	case "r":
		k.recurs[name] = e
		return e.kind == "hash"
	case "q":
		return k.fileQueue(name, e)
	case "w":
		k.workers[strings.TrimSuffix(name, ":jobs")] = e
		return e.kind == "zset" && strings.HasSuffix(name, ":jobs")
	case "f":
		k.groups[name] = e
		return e.kind == "list"
	case "t":
		k.tags[name] = e
		return e.kind == "zset"
	case "s":
		return k.fileStats(name, e)
	case "x":
		return true // ours alone
	case "queues", "workers", "completed", "tracked", "tags":
		return e.kind == "zset"
	case "failures", "paused_queues":
		return e.kind == "set"
	case "config":
		return e.kind == "hash"
	}
	return false
}

func (k *keyspace) fileJob(name string, e *entry) bool {
	switch {
	case strings.HasSuffix(name, "-history"):
		return e.kind == "list"
	case strings.HasSuffix(name, "-dependents"), strings.HasSuffix(name, "-dependencies"):
		return e.kind == "set"
	}
	k.jobs[name] = e
	return e.kind == "hash"
}

func (k *keyspace) fileQueue(name string, e *entry) bool {
	at := strings.LastIndex(name, "-")
	queue, part := name[:max(at, 0)], name[at+1:]
	if k.queues[queue] == nil {
		k.queues[queue] = map[string]*entry{}
	}
	k.queues[queue][part] = e
	parts := []string{"work", "locks", "scheduled", "depends", "recur"}
	return e.kind == "zset" && slices.Contains(parts, part)
}

func (k *keyspace) fileStats(name string, e *entry) bool {
	words := strings.SplitN(name, ":", 3)
	if len(words) < 3 || k.stats[words[0]] == nil {
		return false
	}
	day, err := strconv.ParseInt(words[1], 10, 64)
	k.stats[words[0]][statKey{day: day, queue: words[2]}] = e
	return err == nil && e.kind == "hash"
}

// at returns what a key holds, nothing when there is none.
func (k *keyspace) at(key string) *entry {
	if e := k.entries[prefix+key]; e != nil {
		return e
	}
	return nothing
}

// of returns a part of a queue.
func (k *keyspace) of(queue, part string) *entry {
	if e := k.queues[queue][part]; e != nil {
		return e
	}
	return nothing
}

// field returns a count in a hash, 0 when there is none.
func (e *entry) field(name string) int {
	n, _ := strconv.Atoi(e.fields[name]) // what is none counts nothing
	return n
}
