//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// stock is the side calling a script that is not ours, the script of later clients, in the way of
// clients of the stock script.
type stock struct {
	rdb    *redis.Client
	script *redis.Script
	worker string
	held   map[string]map[string]any
	events *redis.PubSub
}

func startStock(t *testing.T, server *testkit.Server) side {
	text, err := os.ReadFile(clients + "reqless/reqless/lua/qless.lua")
	require.NoError(t, err)
	return &stock{rdb: server.Client(t), script: redis.NewScript(string(text))}
}

func (s *stock) String() string { return "theirs" }

// call runs a command of the script.
func (s *stock) call(ctx context.Context, command string, a ...any) (any, error) {
	now := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
	reply, err := s.script.Run(ctx, s.rdb, nil, append([]any{command, now}, a...)...).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, refusal{"ResponseError", err.Error()}
	}
	return reply, nil
}

// decoded runs a command with a JSON reply.
func (s *stock) decoded(ctx context.Context, command string, a ...any) (any, error) {
	reply, err := s.call(ctx, command, a...)
	if err != nil || reply == nil {
		return nil, err
	}
	var value any
	return value, json.Unmarshal([]byte(reply.(string)), &value)
}

func (s *stock) do(ctx context.Context, op string, a args) (any, error) {
	reply, err := s.run(ctx, op, a)
	if err != nil {
		return nil, err
	}
	return plain(reply), nil
}

func (s *stock) run(ctx context.Context, op string, a args) (any, error) {
	jid, queue := a.text("jid"), a.text("queue")
	switch op {
	case "begin":
		s.close()
		s.worker, s.held = a.text("worker"), map[string]map[string]any{}
		return nil, nil
	case "listen":
		return nil, s.listen(ctx)
	case "hear":
		return s.hear(ctx, a.text("event"), jid)
	case "put":
		return s.call(ctx, "put", append([]any{s.worker, queue, jid, klassOf(a), string(a.json("data")), a.number("delay", 0)},
			options(a, "priority", "tags", "retries", "depends")...)...)
	case "pop", "peek":
		return s.take(ctx, op, queue, a.number("count", 1))
	case "job":
		job, err := s.decoded(ctx, "get", jid)
		if job == nil {
			return nil, err
		}
		return jobReplyOf(job), err
	case "complete", "fail", "heartbeat", "retry", "move", "prioritize", "timeout", "cancel", "track", "untrack",
		"depend", "undepend", "tag", "untag":
		return s.onJob(ctx, op, jid, a)
	case "tagged":
		return s.decoded(ctx, "tag", "get", a.text("tag"), 0, 25)
	case "tags":
		return s.decoded(ctx, "tag", "top", 0, 25)
	case "tracked":
		found, err := s.decoded(ctx, "track")
		return map[string]any{"jobs": jidsOf(found, "jobs"), "expired": field(found, "expired")}, err
	case "failed":
		return s.decoded(ctx, "failed")
	case "failed_in":
		return s.decoded(ctx, "failed", a.text("group"), 0, 25)
	case "unfail":
		return s.call(ctx, "unfail", queue, a.text("group"), a.number("count", 25))
	case "completed":
		return s.call(ctx, "jobs", "complete", 0, 25)
	case "jobs":
		return s.call(ctx, "jobs", a.text("state"), queue, 0, 25)
	case "counts":
		return s.decoded(ctx, "queues", queue)
	case "queues":
		all, err := s.decoded(ctx, "queues")
		return namesOf(all), err
	case "stats":
		stats, err := s.decoded(ctx, "stats", queue, time.Now().Unix())
		for _, times := range []string{"wait", "run"} {
			stats.(map[string]any)[times] = field(field(stats, times), "count")
		}
		return stats, err
	case "workers":
		all, err := s.decoded(ctx, "workers")
		if list, ok := all.([]any); ok {
			slices.SortFunc(list, func(a, b any) int {
				return strings.Compare(field(a, "name").(string), field(b, "name").(string))
			})
		}
		return all, err
	case "worker":
		return s.decoded(ctx, "workers", a.text("name"))
	case "recur":
		return s.call(ctx, "recur", append([]any{queue, jid, klassOf(a), string(a.json("data")), "interval",
			a.number("interval", 0), a.number("offset", 0)}, options(a, "priority", "tags", "retries")...)...)
	case "recurring":
		job, err := s.decoded(ctx, "recur.get", jid)
		if job != nil {
			decodeData(job)
		}
		return job, err
	case "recur_change":
		if tags := a.texts("tags"); len(tags) > 0 {
			if _, err := s.call(ctx, "recur.tag", anys(jid, tags)...); err != nil {
				return nil, err
			}
		}
		return s.call(ctx, "recur.update", append([]any{jid}, options(a, "priority", "retries", "interval", "data", "queue")...)...)
	case "unrecur", "pause", "unpause":
		return s.call(ctx, op, jid+queue)
	case "set":
		return s.call(ctx, "config.set", a.text("option"), a["value"])
	case "unset":
		return s.call(ctx, "config.unset", a.text("option"))
	case "get":
		value, err := s.call(ctx, "config.get", a.text("option"))
		return fmt.Sprint(value), err
	}
	return nil, fmt.Errorf("there is no operation %q", op)
}

// onJob runs the operations on one job.
func (s *stock) onJob(ctx context.Context, op, jid string, a args) (any, error) {
	job := s.held[jid]
	if job == nil {
		found, err := s.decoded(ctx, "get", jid)
		if err != nil {
			return nil, err
		}
		if job, _ = found.(map[string]any); job == nil {
			return nil, refusal{"LookupError", "Job " + jid + " does not exist"}
		}
		decodeData(job)
	}
	if changed, ok := a["data"]; ok {
		job["data"] = changed
	}
	data := string(args(job).json("data"))
	switch op {
	case "complete":
		command := []any{jid, s.worker, job["queue"], data}
		if next := a.text("next"); next != "" {
			command = append(command, "next", next, "delay", a.number("delay", 0))
			command = append(command, options(a, "depends")...)
		}
		return s.call(ctx, "complete", command...)
	case "fail":
		return s.call(ctx, "fail", jid, s.worker, a.text("group"), a.text("message"), data)
	case "heartbeat":
		expires, err := s.call(ctx, "heartbeat", jid, s.worker, data)
		return err == nil && expires.(int64) >= time.Now().Unix(), err
	case "retry":
		command := []any{jid, job["queue"], job["worker"], a.number("delay", 0)}
		if group := a.text("group"); group != "" {
			command = append(command, group, a.text("message"))
		}
		return s.call(ctx, "retry", command...)
	case "move":
		return s.call(ctx, "put", s.worker, a.text("queue"), jid, job["klass"], data, 0)
	case "prioritize":
		return s.call(ctx, "priority", jid, a.number("priority", 0))
	case "timeout", "cancel":
		return s.call(ctx, op, jid)
	case "track", "untrack":
		return s.call(ctx, "track", op, jid)
	case "depend":
		return s.call(ctx, "depends", anys(jid, append([]string{"on"}, a.texts("on")...))...)
	case "undepend":
		return s.call(ctx, "depends", anys(jid, append([]string{"off"}, a.texts("on")...))...)
	case "tag":
		return s.decoded(ctx, "tag", anys("add", append([]string{jid}, a.texts("tags")...))...)
	default: // untag
		return s.decoded(ctx, "tag", anys("remove", append([]string{jid}, a.texts("tags")...))...)
	}
}

// take pops or peeks jobs.
func (s *stock) take(ctx context.Context, op, queue string, count int) (any, error) {
	var reply any
	var err error
	if op == "pop" {
		reply, err = s.decoded(ctx, "pop", queue, s.worker, count)
	} else {
		reply, err = s.decoded(ctx, "peek", queue, 0, count)
	}
	list, _ := reply.([]any)
	all := []any{}
	for _, job := range list {
		all = append(all, jobReplyOf(job))
		if op == "pop" {
			s.held[job.(map[string]any)["jid"].(string)] = job.(map[string]any)
		}
	}
	return all, err
}

// listen begins to record the events of tracked jobs, and of this side's worker.
func (s *stock) listen(ctx context.Context) error {
	channels := []string{"ql:w:" + s.worker}
	for _, kind := range []string{"canceled", "completed", "failed", "popped", "put", "stalled", "track", "untrack"} {
		channels = append(channels, "ql:"+kind)
	}
	s.events = s.rdb.Subscribe(ctx, channels...)
	for range channels {
		if _, err := s.events.Receive(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hear waits for an event, and drops earlier events.
func (s *stock) hear(ctx context.Context, kind, jid string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		message, err := s.events.ReceiveMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("no %s of %s: %w", kind, jid, err)
		}
		heard := map[string]any{"event": strings.TrimPrefix(message.Channel, "ql:"), "jid": message.Payload}
		if strings.HasPrefix(message.Channel, "ql:w:") {
			if err := json.Unmarshal([]byte(message.Payload), &heard); err != nil {
				return nil, err
			}
		}
		if heard["event"] == kind && heard["jid"] == jid {
			return heard, nil
		}
	}
}

func (s *stock) close() {
	if s.events != nil {
		_ = s.events.Close()
		s.events = nil
	}
}

// options returns the given options as pairs of arguments.
func options(a args, names ...string) []any {
	var pairs []any
	for _, name := range names {
		switch value := a[name].(type) {
		case nil:
		case string, float64:
			pairs = append(pairs, name, value)
		default:
			pairs = append(pairs, name, string(a.json(name)))
		}
	}
	return pairs
}

func anys(first string, rest []string) []any {
	list := []any{first}
	for _, text := range rest {
		list = append(list, text)
	}
	return list
}

// jobReplyOf returns a job of the script in the scenarios' form.
func jobReplyOf(reply any) map[string]any {
	job := reply.(map[string]any)
	decodeData(job)
	history := []any{}
	for _, entry := range job["history"].([]any) {
		history = append(history, field(entry, "what"))
	}
	theirs := map[string]any{}
	for name, value := range job {
		theirs[name] = value
	}
	theirs["history"] = history
	theirs["failure"] = ""
	if group := field(job["failure"], "group"); group != nil {
		theirs["failure"] = group
	}
	for _, name := range []string{"dependencies", "dependents"} {
		theirs[name] = sorted(args(job).texts(name))
	}
	return theirs
}

// decodeData decodes a job's data, which is text.
func decodeData(job any) {
	fields := job.(map[string]any)
	var data any
	if text, ok := fields["data"].(string); ok && json.Unmarshal([]byte(text), &data) == nil {
		fields["data"] = data
	}
}

// field returns a field of an object, or nil if missing.
func field(object any, name string) any {
	fields, _ := object.(map[string]any)
	return fields[name]
}

// jidsOf returns the jids of the jobs in a field.
func jidsOf(object any, name string) []string {
	jobs, _ := field(object, name).([]any)
	jids := []string{}
	for _, job := range jobs {
		jids = append(jids, field(job, "jid").(string))
	}
	return jids
}

// namesOf returns the names of objects, in order.
func namesOf(objects any) []string {
	list, _ := objects.([]any)
	names := []string{}
	for _, object := range list {
		names = append(names, field(object, "name").(string))
	}
	slices.Sort(names)
	return names
}
