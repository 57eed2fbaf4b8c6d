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

// changes returns the keys that changed since the last call: the name of each, its type, whether it
// expires, and its values as one text. A missing key has no type. Changes are detected by the keys'
// dumps, kept in another database: reading and sending all values would take much longer.
var changes = redis.NewScript(`
local dumps = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local expires = redis.call('pttl', key) >= 0 and 'expires' or ''
  dumps[key] = redis.call('dump', key) .. expires
end

redis.call('select', 1)
local before, all = redis.call('hgetall', 'dumps'), {}
for i = 1, #before, 2 do
  local key = before[i]
  if dumps[key] == before[i + 1] then
    dumps[key] = nil
  elseif not dumps[key] then
    redis.call('hdel', 'dumps', key)
    all[#all + 1] = {key, '', '', ''}
  end
end
for key, dump in pairs(dumps) do
  redis.call('hset', 'dumps', key, dump)
end
redis.call('select', 0)

local read = {
  hash = {'hgetall'}, list = {'lrange', 0, -1}, set = {'smembers'},
  zset = {'zrange', 0, -1, 'withscores'}, string = {'getrange', 0, -1},
}
for key, _ in pairs(dumps) do
  local kind = redis.call('type', key).ok
  local how, values = read[kind], {}
  if how then
    values = redis.call(how[1], key, unpack(how, 2))
    values = type(values) == 'string' and {values} or values
  end
  local expires = redis.call('pttl', key) >= 0 and 'expires' or ''
  all[#all + 1] = {key, kind, expires, table.concat(values, '\n')}
end
return all`)

// An entry holds the contents of a key. Entries are immutable: a changed key has a new entry.
type entry struct {
	kind, text string
	expires    bool
	members    []string           // for a list or a set
	fields     map[string]string  // for a hash
	scores     map[string]float64 // for a sorted set
	names      []string           // the members of any kind of set or list, in order
	history    []event            // of a job's list
	job        told               // for the hash of a job
}

// told has the fields of the hash of a job.
type told struct {
	jid, klass, data, queue, worker, spawnedFrom, state string

	priority, retries, remaining, expires, time float64

	grace   bool
	sudden  bool   // the lock has no grace period
	options string // in order
	result  string
	parked  string

	progress progress

	tags    []string
	failure failure
	place   string // the name of the job's set
}

var nothing = &entry{}

// A keyspace holds the contents of the server: all keys, and the keys of jobs and queues by their
// names.
type keyspace struct {
	entries map[string]*entry
	changed map[string]bool   // keys that the last step changed
	was     map[string]*entry // their earlier values
	jobs    map[string]*entry // by jid
	recurs  map[string]*entry
	queues  map[string]map[string]*entry // by queue and part
	holders map[string]*entry            // the sets of jobs, except for the lists of workers
	workers map[string]*entry            // the jobs of each worker
	groups  map[string]*entry
	tags    map[string]*entry
	stats   map[string]map[statKey]*entry // by kind
	ours    map[string]*entry             // values unknown to other clients
	expired map[statKey]*entry            // our statistics
	unknown map[string]*entry             // keys of an unknown layout

	histories, dependents, dependencies map[string]*entry
}

func newKeyspace() *keyspace {
	return &keyspace{
		entries: map[string]*entry{}, jobs: map[string]*entry{}, recurs: map[string]*entry{},
		queues: map[string]map[string]*entry{}, holders: map[string]*entry{},
		workers: map[string]*entry{}, groups: map[string]*entry{}, tags: map[string]*entry{},
		stats: map[string]map[statKey]*entry{"stats": {}, "wait": {}, "run": {}},
		ours:  map[string]*entry{}, expired: map[statKey]*entry{}, unknown: map[string]*entry{},
		histories:  map[string]*entry{},
		dependents: map[string]*entry{}, dependencies: map[string]*entry{},
	}
}

// update reads the changes of a step.
func (w *world) update() {
	reply, err := changes.Run(w.ctx, w.rdb, nil).Slice()
	require.NoError(w.t, err)
	w.k.changed, w.k.was = map[string]bool{}, map[string]*entry{}
	for _, row := range reply {
		var values [4]string
		for i, value := range row.([]any) {
			values[i] = value.(string)
		}
		w.k.change(values[0], parse(values[1], values[2] != "", values[3]))
	}
}

// change files the new contents of a key, or nil if it is gone.
func (k *keyspace) change(key string, e *entry) {
	k.changed[key], k.was[key] = true, k.entries[key]
	file(k.entries, key, e)
	if k.place(key, e) {
		e = nil
	}
	file(k.unknown, key, e)
}

// file stores an entry, or deletes the old one.
func file[K comparable](all map[K]*entry, key K, e *entry) {
	if e == nil {
		delete(all, key)
	} else {
		all[key] = e
	}
}

// parse parses the values of a key. A key without a type is gone.
func parse(kind string, expires bool, text string) *entry {
	if kind == "" {
		return nil
	}
	e := &entry{kind: kind, expires: expires, text: text}
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
		e.job = parseJob(e.fields)
	case "zset":
		e.scores = map[string]float64{}
		for i := 0; i+1 < len(values); i += 2 {
			e.scores[values[i]] = number(values[i+1])
		}
		e.names = inOrder(e.scores)
	default:
		e.members = values
		e.names = slices.Sorted(slices.Values(values))
		e.history = parseHistory(values)
	}
	return e
}

// parseJob parses the fields of a job.
func parseJob(fields map[string]string) told {
	t := told{
		jid: fields["jid"], klass: fields["klass"], data: fields["data"], queue: fields["queue"],
		worker: fields["worker"], spawnedFrom: fields["spawned_from_jid"], state: fields["state"],
		priority: amount(fields["priority"]), retries: amount(fields["retries"]),
		remaining: amount(fields["remaining"]), expires: amount(fields["expires"]),
		time: amount(fields["time"]), grace: fields["grace"] == "1", sudden: fields["grace"] == "1.0",
		options: normal(fields["x:o"]), result: fields["x:result"],
		parked:   fields["x:parked"],
		progress: parseProgress(fields["x:progress"]),
		tags:     parseTags(fields["tags"]), failure: parseFailure(fields["failure"]),
	}
	t.place = place(t)
	return t
}

// place returns the name of a job's set.
func place(t told) string {
	queue := "q:" + t.queue
	switch t.state {
	case "waiting", "stalled":
		return queue + "-work"
	case "running":
		return queue + "-locks"
	case "scheduled":
		return queue + "-scheduled"
	case "depends":
		return queue + "-depends"
	case "failed":
		return "f:" + t.failure.group
	case "complete":
		return "completed"
	}
	return "no state"
}

// amount parses a number of a job. An empty field counts as 0.
func amount(text string) float64 {
	if text == "" {
		return 0
	}
	return number(text)
}

// number parses a number. Any other text is not equal to any number.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

func parseTags(text string) []string {
	var tags []string
	_ = json.Unmarshal([]byte(text), &tags) // {} means none
	return tags
}

func parseFailure(text string) failure {
	var told struct {
		Group, Message, Worker string
		When                   float64
	}
	_ = json.Unmarshal([]byte(text), &told) // empty if there is none
	return failure{group: told.Group, message: told.Message, worker: told.Worker, when: told.When}
}

// parseHistory parses entries such as [1704196800,"put",{"q":"q1"}].
func parseHistory(values []string) []event {
	var history []event
	for _, value := range values {
		when, rest, _ := strings.Cut(strings.TrimPrefix(value, "["), ",")
		what, err := strconv.QuotedPrefix(rest)
		second, err2 := strconv.ParseInt(when, 10, 64)
		if err != nil || err2 != nil {
			return nil // another kind of list
		}
		history = append(history, event{what: strings.Trim(what, `"`), when: second})
	}
	return history
}

// place files an entry by the name of its key, nil for a missing key. It returns false if the
// layout has no such key.
func (k *keyspace) place(key string, e *entry) bool {
	area, name, _ := strings.Cut(strings.TrimPrefix(key, prefix), ":")
	switch area {
	case "j":
		return k.placeJob(name, e)
	case "r":
		file(k.recurs, name, e)
		return e.is("hash")
	case "q":
		return k.placeQueue(name, e)
	case "w":
		file(k.workers, strings.TrimSuffix(name, ":jobs"), e)
		return e.is("zset") && strings.HasSuffix(name, ":jobs")
	case "f":
		file(k.groups, name, e)
		file(k.holders, area+":"+name, e)
		return e.is("list")
	case "t":
		file(k.tags, name, e)
		return e.is("zset")
	case "s":
		return k.placeStats(name, e)
	case "x":
		file(k.ours, name, e)
		return k.placeOurs(name, e)
	case "completed":
		file(k.holders, area, e)
		return e.is("zset")
	case "queues", "workers", "tracked", "tags", "failed-jobs-list":
		return e.is("zset")
	case "failures", "paused_queues":
		return e.is("set")
	case "config":
		return e.is("hash")
	}
	return false
}

// is reports whether an entry is missing or of a type.
func (e *entry) is(kind string) bool { return e == nil || e.kind == kind }

func (k *keyspace) placeJob(name string, e *entry) bool {
	if jid, ok := strings.CutSuffix(name, "-history"); ok {
		file(k.histories, jid, e)
		return e.is("list")
	}
	if jid, ok := strings.CutSuffix(name, "-dependents"); ok {
		file(k.dependents, jid, e)
		return e.is("set")
	}
	if jid, ok := strings.CutSuffix(name, "-dependencies"); ok {
		file(k.dependencies, jid, e)
		return e.is("set")
	}
	file(k.jobs, name, e)
	return e.is("hash")
}

func (k *keyspace) placeQueue(name string, e *entry) bool {
	at := strings.LastIndex(name, "-")
	queue, part := name[:max(at, 0)], name[at+1:]
	if k.queues[queue] == nil {
		k.queues[queue] = map[string]*entry{}
	}
	file(k.queues[queue], part, e)
	if part != "recur" {
		file(k.holders, "q:"+name, e)
	}
	parts := []string{"work", "locks", "scheduled", "depends", "recur"}
	return e.is("zset") && slices.Contains(parts, part)
}

// placeOurs files an entry unknown to other clients.
func (k *keyspace) placeOurs(name string, e *entry) bool {
	rest, ok := strings.CutPrefix(name, "stats:")
	if !ok {
		return true
	}
	text, queue, _ := strings.Cut(rest, ":")
	day, err := strconv.ParseInt(text, 10, 64)
	file(k.expired, statKey{day: day, queue: queue}, e)
	return err == nil && e.is("hash")
}

func (k *keyspace) placeStats(name string, e *entry) bool {
	words := strings.SplitN(name, ":", 3)
	if len(words) < 3 || k.stats[words[0]] == nil {
		return false
	}
	day, err := strconv.ParseInt(words[1], 10, 64)
	file(k.stats[words[0]], statKey{day: day, queue: words[2]}, e)
	return err == nil && e.is("hash")
}

// at returns the contents of a key, empty if it does not exist.
func (k *keyspace) at(key string) *entry { return in(k.entries, prefix+key) }

// of returns a part of a queue.
func (k *keyspace) of(queue, part string) *entry { return in(k.queues[queue], part) }

// worker returns the list of a worker's jobs.
func (k *keyspace) worker(name string) *entry { return in(k.workers, name) }

// in returns one of some entries, empty if it does not exist.
func in[K comparable](all map[K]*entry, key K) *entry {
	if e := all[key]; e != nil {
		return e
	}
	return nothing
}

// field returns a count in a hash, or 0 if there is none.
func (e *entry) field(name string) int {
	n, _ := strconv.Atoi(e.fields[name]) // other values count as 0
	return n
}
