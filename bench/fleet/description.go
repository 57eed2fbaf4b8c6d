package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/qless/qless-go/bench/internal/info"
)

// description holds what the results depend on.
type description struct {
	Command string `json:"command"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Load    string `json:"load,omitempty"` // of the last 1, 5 and 15 minutes
	Redis   string `json:"redis"`
	Go      string `json:"go"`
	GoRedis string `json:"go_redis,omitempty"`
}

// describe prints the description of a run.
func describe(ctx context.Context, out io.Writer, args []string, o *options) error {
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	text, err := s.admin.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	d := description{
		Command: strings.Join(append([]string{"go run ./fleet"}, args...), " "),
		Date:    time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Load:    load(),
		Redis:   info.Field(text, "redis_version"),
		Go:      runtime.Version(),
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if strings.HasSuffix(module.Path, "/go-redis/v9") {
				d.GoRedis = module.Version
			}
		}
	}
	if o.json {
		return json.NewEncoder(out).Encode(d)
	}
	fmt.Fprintf(out, "%s\n%s, %s", d.Command, d.Date, d.Machine)
	if d.Load != "" {
		fmt.Fprintf(out, ", load %s", d.Load)
	}
	fmt.Fprintf(out, "\nRedis %s, %s, go-redis %s\n", d.Redis, d.Go, d.GoRedis)
	return nil
}

// load returns the load averages of the machine, where they can be read as on Linux.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
