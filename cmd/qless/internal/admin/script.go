package admin

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/lua"
)

func (a *app) scriptCommand() *cobra.Command {
	var load, classic bool
	command := &cobra.Command{
		Use:   "script",
		Short: "Print the script for clients in other languages",
		RunE: func(command *cobra.Command, args []string) error {
			text := qless.DropInScript()
			if classic {
				text = lua.Classic
			}
			if load {
				return a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
					return a.loadScript(ctx, client, text)
				})(command, args)
			}
			if a.JSON {
				return a.Print(map[string]string{"script": text}, nil)
			}
			_, err := io.WriteString(a.Out, text)
			return err
		},
	}
	command.Flags().BoolVar(&load, "load", false, "load it into the server, and print its SHA-1")
	command.Flags().BoolVar(&classic, "classic", false, "only commands of clients in other languages")
	return command
}

// loadScript loads a script into the server, or each server of a cluster, until the next restart or
// SCRIPT FLUSH.
func (a *app) loadScript(ctx context.Context, client *qless.Client, text string) error {
	sha, err := client.Redis().ScriptLoad(ctx, text).Result()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Print(map[string]string{"sha": sha}, nil)
	}
	_, err = fmt.Fprintln(a.Out, sha)
	return err
}

// A version identifies the sources of the program.
type version struct {
	Qless       string `json:"qless"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	Revision    string `json:"revision,omitempty"`
	LowestRedis string `json:"lowest_redis"`
}

func versionOf(build *debug.BuildInfo) version {
	v := version{
		Qless: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		LowestRedis: redisx.OldestServer,
	}
	if build == nil {
		return v
	}
	if build.Main.Version != "" {
		v.Qless = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			v.Revision = setting.Value
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and the oldest Redis that it supports",
		RunE: func(*cobra.Command, []string) error {
			build, _ := debug.ReadBuildInfo()
			v := versionOf(build)
			if a.JSON {
				return a.Print(v, nil)
			}
			_, err := fmt.Fprintf(a.Out, "qless %s, %s %s, for Redis %s or later\n",
				v.Qless, v.Go, v.Platform, v.LowestRedis)
			return err
		},
	}
}
