package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// loadOnce measures how long the server takes to load the script, the longest call of a start, how
// much memory that needs, and how long other clients wait while many send the script at once.
func loadOnce(ctx context.Context, o *options, r *report, s *server) error {
	before, err := readScripts(ctx, s.admin)
	if err != nil {
		return err
	}
	took, err := loading(ctx, s, 1)
	if err != nil {
		return err
	}
	r.add("load", ms(took), "ms")
	after, err := readScripts(ctx, s.admin)
	if err != nil {
		return err
	}
	r.add("memory of Lua", (after.lua-before.lua)/1e6, "MB")
	r.add("memory of texts", (after.texts-before.texts)/1e6, "MB")
	const again = 20
	took, err = loading(ctx, s, again)
	if err != nil {
		return err
	}
	r.add("load again", ms(took)/again, "ms")
	if err := s.admin.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	waited, err := meetAtOnce(ctx, s, o.workers)
	if err != nil {
		return err
	}
	r.in("%d clients at once", o.workers)
	r.add("others waited", ms(waited), "ms")
	return nil
}

// scriptMemory is what the server says of the memory of its scripts, in bytes.
type scriptMemory struct{ lua, texts float64 }

func readScripts(ctx context.Context, rdb *redis.Client) (m scriptMemory, err error) {
	text, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return m, err
	}
	if m.lua, err = infoNumber(text, "used_memory_vm_eval"); err != nil {
		return m, err
	}
	m.texts, err = infoNumber(text, "used_memory_scripts_eval")
	return m, err
}

// loading returns how long the server was busy with a number of loads.
func loading(ctx context.Context, s *server, times int) (time.Duration, error) {
	if err := s.admin.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	for range times {
		if err := s.admin.ScriptLoad(ctx, qless.DropInScript()).Err(); err != nil {
			return 0, err
		}
	}
	text, err := s.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(infoField(text, "cmdstat_script|load"), "usec=")
	number, _, _ := strings.Cut(rest, ",")
	micros, err := strconv.ParseInt(number, 10, 64)
	return time.Duration(micros) * time.Microsecond, err
}

// meetAtOnce has clients find that the server lacks the script, and all send it at once. It returns
// the longest time that another client had to wait meanwhile.
func meetAtOnce(ctx context.Context, s *server, clients int) (time.Duration, error) {
	var all sync.WaitGroup
	failures := make(chan error, clients)
	for range clients {
		all.Go(func() {
			rdb := s.dial(0)
			defer func() { _ = rdb.Close() }()
			failures <- rdb.Eval(ctx, qless.DropInScript(), nil, "length", "", "q").Err()
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	var longest time.Duration
	for {
		began := time.Now()
		if err := s.admin.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(began))
		select {
		case <-done:
			for range clients {
				if err := <-failures; err != nil {
					return 0, err
				}
			}
			return longest, nil
		default:
		}
	}
}
