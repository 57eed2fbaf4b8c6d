package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	lmstfy "github.com/qless/qless-go/gateway/lmstfy/serve"
	workq "github.com/qless/qless-go/gateway/workq/serve"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.serveCommand(), a.exporterCommand()}
}

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	command := usage.Group("serve", "Run servers for other protocols, the dashboard, and metrics",
		a.serveWorkqCommand(), a.serveLmstfyCommand())
	command.RunE = func(command *cobra.Command, _ []string) error {
		if o.lmstfy == "" && o.workq == "" && o.web.listen == "" && o.metrics == "" {
			return out.Error(errors.New("want at least one of --lmstfy, --workq, --web and --metrics"))
		}
		return a.serve(command.Context(), &o)
	}
	flags := command.Flags()
	flags.StringVar(&o.lmstfy, "lmstfy", "", "address of lmstfy's API")
	flags.StringVar(&o.lmstfyAdmin, "lmstfy-admin", "", "address of lmstfy's admin API")
	flags.StringArrayVar(&o.lmstfyAdminHosts, "lmstfy-admin-host", nil,
		"host `name` of lmstfy's admin API; may be repeated")
	flags.IntVar(&o.maxConnections, "max-connections", 0,
		"connections of each gateway (default 16384 for lmstfy and 10000 for workq; -1 for any number)")
	flags.BoolVar(&o.skipTokens, "skip-tokens", false,
		"accept requests of lmstfy's clients with any token")
	flags.StringVar(&o.workq, "workq", "", "address for Workq's protocol")
	o.web.addFlags(flags)
	flags.StringVar(&o.metrics, "metrics", "", "address of /metrics, /healthz and /readyz")
	o.addFlags(command)
	return command
}

func (a *app) exporterCommand() *cobra.Command {
	var o serveOptions
	command := &cobra.Command{
		Use:   "exporter",
		Short: "Serve the metrics of the queues to Prometheus",
		RunE: func(command *cobra.Command, _ []string) error {
			return a.serve(command.Context(), &o)
		},
	}
	command.Flags().StringVar(&o.metrics, "listen", "127.0.0.1:9464", "address to listen on")
	o.addFlags(command)
	return command
}

// serveOptions are the options of the servers.
type serveOptions struct {
	lmstfy, lmstfyAdmin, workq, metrics string
	lmstfyAdminHosts                    []string
	maxConnections                      int
	web                                 webOptions

	skipTokens             bool
	delay, shutdownTimeout time.Duration
	logFormat, logLevel    string
}

// addFlags adds the flags of all servers.
func (o *serveOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.DurationVar(&o.delay, "shutdown-delay", 0,
		"time to keep serving after a signal, so that load balancers notice")
	flags.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 20*time.Second,
		"time limit for requests under way after a signal")
	flags.StringVar(&o.logFormat, "log-format", "text", "format of the log: text or json")
	flags.StringVar(&o.logLevel, "log-level", "info", "level of the log: debug, info, warn or error")
	place.CompleteWords(command, "log-format", "text", "json")
	place.CompleteWords(command, "log-level", "debug", "info", "warn", "error")
}

// hasGateway reports whether a server for another protocol is included, which works without Redis.
func (o *serveOptions) hasGateway() bool {
	return o.lmstfy != "" || o.workq != ""
}

// logger returns the logger described by the options.
func (a *app) logger(o *serveOptions) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, out.Error(fmt.Errorf("--log-level %q is not debug, info, warn or error", o.logLevel))
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.Err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Err, options)), nil
	}
	return nil, out.Error(fmt.Errorf("--log-format %q is neither text nor json", o.logFormat))
}

// serve serves until the context ends.
func (a *app) serve(ctx context.Context, o *serveOptions) error {
	logger, err := a.logger(o)
	if err != nil {
		return err
	}
	s := &servers{app: a, options: o, log: logger}
	defer s.close()
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

func (a *app) serveWorkqCommand() *cobra.Command {
	var options workq.Options
	command := &cobra.Command{
		Use:   "workq",
		Short: "Serve Workq's protocol over TCP",
		RunE: func(command *cobra.Command, _ []string) error {
			where, err := a.Where()
			if err == nil {
				err = a.RefusePattern()
			}
			if err != nil {
				return err
			}
			command.Flags().Visit(func(f *pflag.Flag) {
				if strings.HasPrefix(f.Name, "cmdlog-") {
					fmt.Fprintf(a.Err, "qless: --%s has no effect: Redis keeps the jobs\n", f.Name)
				}
			})
			options.Redis, options.Namespace = where.Redis, where.Namespace
			return workq.Run(command.Context(), options, a.Out, a.Err)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Listen, "listen", workq.DefaultListen, "address to listen on")
	flags.IntVar(&options.MaxConnections, "max-connections", 0,
		"connections of clients; others are refused (default 10000; -1 for any number)")
	flags.String("cmdlog-path", "", "has no effect, like the other flags of Workq's command log")
	flags.Uint("cmdlog-seg-size", 67108864, "has no effect")
	flags.String("cmdlog-sync", "interval", "has no effect")
	flags.Uint("cmdlog-sync-int", 1000, "has no effect")
	flags.Uint("cmdlog-clean-int", 300000, "has no effect")
	return command
}

func (a *app) serveLmstfyCommand() *cobra.Command {
	var options lmstfy.Options
	command := &cobra.Command{
		Use:   "lmstfy",
		Short: "Serve lmstfy's protocol over HTTP",
		RunE: func(command *cobra.Command, _ []string) error {
			where, err := a.Where()
			if err == nil {
				err = a.RefusePattern()
			}
			if err != nil {
				return err
			}
			options.Redis, options.Namespace = where.Redis, where.Namespace
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGHUP)
			defer stop()
			return lmstfy.Run(ctx, options, a.Out, a.Err)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Listen, "listen", "", "address of the API (default 127.0.0.1:7777)")
	flags.StringVar(&options.AdminListen, "admin-listen", "",
		"address of the admin API (default 127.0.0.1:7778)")
	flags.StringArrayVar(&options.AdminHosts, "admin-host", nil,
		"host `name` of the admin API; may be repeated")
	flags.IntVar(&options.MaxConnections, "max-connections", 0,
		"connections of each API; others wait (default 16384; -1 for any number)")
	flags.StringVarP(&options.ConfigFile, "config", "c", "", "configuration file of lmstfy's server\n"+
		"(default conf/config.toml, if it exists and no Redis is named)")
	flags.StringVarP(&options.PIDFile, "pid-file", "p", "", "file for the id of the process")
	flags.String("bt", "warn", "has no effect")
	flags.BoolVar(&options.SkipTokens, "skip-tokens", false,
		"accept requests with any token")
	return command
}
