package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A meter is a client's hook that measures the server's CPU time for each script. It sends commands
// one at a time, even those of pipelines.
type meter struct {
	server  *server
	mu      sync.Mutex
	worst   metered // since the last reset
	scripts int
}

// metered is a measured script.
type metered struct {
	command string
	took    time.Duration
}

// reset returns the longest script and the number of scripts, and resets both.
func (m *meter) reset() (metered, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	worst, scripts := m.worst, m.scripts
	m.worst, m.scripts = metered{}, 0
	return worst, scripts
}

// DialHook leaves dialing as it is.
func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook measures a script.
func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		name := commandOf(cmd.Args())
		if name == "" {
			return next(ctx, cmd)
		}
		return m.measure(ctx, name, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook sends and measures the commands of a pipeline one by one.
func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			one := func() error { return next(ctx, []redis.Cmder{cmd}) }
			if name := commandOf(cmd.Args()); name != "" {
				_ = m.measure(ctx, name, one) // the error is in the command
			} else {
				_ = one()
			}
		}
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

func (m *meter) measure(ctx context.Context, name string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	before, err := m.server.busy(ctx)
	if err != nil {
		return err
	}
	failed := do()
	after, err := m.server.busy(ctx)
	if err != nil {
		return err
	}
	m.scripts++
	if took := after - before; took > m.worst.took {
		m.worst = metered{name, took}
	}
	return failed
}

// commandOf returns the script's command in a call, or the empty string.
func commandOf(args []any) string {
	if len(args) < 5 || args[0] != "evalsha" {
		return "" // another workload measures loading the script
	}
	name, _ := args[4].(string)
	return name
}

// busy returns the CPU time of the thread that runs the scripts.
func (s *server) busy(ctx context.Context) (time.Duration, error) {
	text, err := s.admin.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, field := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		seconds, err := infoNumber(text, field)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", field, err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	return total, nil
}
