package main

import (
	"context"
	"time"

	"github.com/qless/qless-go"
)

// loadOnce measures the time and memory that loading the script costs the server, the longest call
// of a start, and how long other clients wait while many send the script at once.
func loadOnce(ctx context.Context, b *bench, r *report) error {
	before, err := b.scriptMemory(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.server.admin.ScriptLoad(ctx, qless.DropInScript()).Err(); err != nil {
		return err
	}
	r.add("load", ms(time.Since(began)), "ms")
	after, err := b.scriptMemory(ctx)
	if err != nil {
		return err
	}
	r.add("memory of Lua and the text", (after-before)/1e6, "MB")
	if err := b.server.admin.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- each(make([]struct{}, b.workers), func(struct{}) error {
			rdb := b.server.dial(0)
			defer func() { _ = rdb.Close() }()
			return rdb.Eval(ctx, qless.DropInScript(), nil, "length", "", "q").Err()
		})
	}()
	var longest time.Duration
	for {
		began := time.Now()
		if err := b.server.admin.Ping(ctx).Err(); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
		select {
		case err := <-ended:
			r.add("others waited, while many sent it", ms(longest), "ms")
			return err
		default:
		}
	}
}

// scriptMemory returns the memory of the server's scripts, in bytes.
func (b *bench) scriptMemory(ctx context.Context) (float64, error) {
	text, err := b.server.admin.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	lua, err := infoNumber(text, "used_memory_vm_eval")
	if err != nil {
		return 0, err
	}
	texts, err := infoNumber(text, "used_memory_scripts_eval")
	return lua + texts, err
}
