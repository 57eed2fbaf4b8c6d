package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A reading holds the server's report about itself at one moment.
type reading struct {
	CPU         time.Duration // of the whole process, user and system
	Commands    int64         // executed, including those inside scripts
	Scripts     int64         // calls of scripts
	Memory      int64
	Peak        int64 // the peak memory since the server's start
	Connections int64 // open connections
	Connected   int64 // connections opened so far
	Channels    int64 // channels with subscribers
	Sent        int64 // bytes sent by the server
}

// uncounted are the commands for opening connections, and the bench's own commands.
var uncounted = map[string]bool{
	"auth": true, "client": true, "command": true, "config": true, "flushall": true, "hello": true,
	"info": true, "lastsave": true, "script": true, "select": true, "slowlog": true,
}

var scriptCalls = map[string]bool{
	"eval": true, "evalsha": true, "eval_ro": true, "evalsha_ro": true,
	"fcall": true, "fcall_ro": true,
}

// sections are the required sections of INFO.
var sections = []string{"cpu", "commandstats", "memory", "clients", "stats"}

// readServer takes a reading.
func readServer(ctx context.Context, rdb *redis.Client) (reading, error) {
	replies := make([]*redis.StringCmd, len(sections))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, section := range sections {
			replies[i] = p.Info(ctx, section)
		}
		return nil
	})
	if err != nil {
		return reading{}, err
	}
	var text strings.Builder
	for _, reply := range replies {
		text.WriteString(reply.Val())
	}
	return parseReading(text.String())
}

func parseReading(text string) (reading, error) {
	var r reading
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := infoNumber(text, name)
		if err != nil {
			return reading{}, err
		}
		r.CPU += time.Duration(seconds * float64(time.Second))
	}
	for _, field := range []struct {
		name string
		to   *int64
	}{
		{"used_memory", &r.Memory}, {"used_memory_peak", &r.Peak},
		{"connected_clients", &r.Connections}, {"total_connections_received", &r.Connected},
		{"pubsub_channels", &r.Channels}, {"total_net_output_bytes", &r.Sent},
	} {
		number, err := strconv.ParseInt(infoField(text, field.name), 10, 64)
		if err != nil {
			return reading{}, fmt.Errorf("INFO: %s: %w", field.name, err)
		}
		*field.to = number
	}
	var err error
	r.Commands, r.Scripts, err = countCalls(text)
	return r, err
}

// countCalls sums the lines cmdstat_NAME:calls=N,... of INFO commandstats.
func countCalls(stats string) (commands, scripts int64, err error) {
	for line := range strings.Lines(stats) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("INFO commandstats: %w", err)
		}
		name, _, _ = strings.Cut(name, "|")
		switch {
		case scriptCalls[name]:
			scripts += calls
		case !uncounted[name]:
			commands += calls
		}
	}
	return commands, scripts, nil
}

// infoField returns the value of a line NAME:VALUE of INFO.
func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// infoNumber returns the value of a numeric line NAME:VALUE of INFO.
func infoNumber(text, name string) (float64, error) {
	number, err := strconv.ParseFloat(infoField(text, name), 64)
	if err != nil {
		return 0, fmt.Errorf("INFO: %s: %w", name, err)
	}
	return number, nil
}
