package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/internal/hosts"
	"github.com/qless/qless-go/internal/listeners"
	"github.com/qless/qless-go/web"
)

// maxWebConnections is the maximum number of connections to the dashboard. Each live page has one;
// the dashboard limits live pages to fewer.
const maxWebConnections = 2000

// webOptions are the options of the dashboard.
type webOptions struct {
	listen, prefix, user string
	hosts                []string
	readOnly             bool
	environment, colour  string
}

func (o *webOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "web", "", "address of the dashboard")
	flags.StringVar(&o.prefix, "web-prefix", "", "path of the dashboard, such as /queues")
	flags.StringSliceVar(&o.hosts, "web-host", nil, "host name of the dashboard for browsers, "+
		"besides localhost, its addresses, and that in --web")
	flags.StringVar(&o.user, "web-user", "",
		"user of the dashboard, whose password is in QLESS_WEB_PASSWORD")
	flags.StringVar(&o.environment, "web-environment", "",
		"name of the environment on the pages of the dashboard, such as production")
	flags.StringVar(&o.colour, "web-colour", "",
		"its colour: red, amber, green, blue or violet")
	flags.BoolVar(&o.readOnly, "web-read-only", false, "offer no actions in the dashboard")
}

// listenWeb opens the listener of the dashboard.
func (s *servers) listenWeb(ctx context.Context) error {
	o := &s.options.web
	if o.listen == "" {
		return nil
	}
	dashboard, err := s.dashboard()
	if err != nil {
		return err
	}
	handler, err := o.protected(dashboard)
	if err != nil {
		return err
	}
	// Live updates last as long as a page is open. They end with the server.
	live, end := context.WithCancel(context.Background())
	const patience = 30 * time.Second // with slow clients
	server := &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: 4 * patience,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return live },
	}
	server.RegisterOnShutdown(end)
	s.closes = append(s.closes, dashboard.Close, end)
	l := &listening{name: "web", serve: server.Serve, shutdown: server.Shutdown}
	if err := s.add(ctx, o.listen, l); err != nil {
		return err
	}
	if o.user == "" && !hosts.IsLoopback(l.listener.Addr()) {
		s.log.Warn("the dashboard asks for no user: anyone who can reach it may use it",
			"address", l.listener.Addr().String())
	}
	l.listener = listeners.AtMost(l.listener, maxWebConnections)
	return nil
}

func (s *servers) dashboard() (*web.Handler, error) {
	o := &s.options.web
	options := web.Options{
		Prefix: o.prefix, ReadOnly: o.readOnly, Logger: s.log, Hosts: o.names(),
		Environment: o.environment, Colour: o.colour,
	}
	if s.ManySpaces() {
		options.Namespaces = func(ctx context.Context) ([]web.Source, error) {
			clients, err := s.SpacesOf(ctx, s.qless, s.config())
			return s.sources(clients), err
		}
	}
	return web.New(options, s.sources(s.spaces)...)
}

// sources are the namespaces of the dashboard.
func (s *servers) sources(spaces []*qless.Client) []web.Source {
	if !s.ManySpaces() {
		return []web.Source{{Client: s.qless, Redis: s.redis}}
	}
	sources := make([]web.Source, len(spaces))
	for i, client := range spaces {
		sources[i] = web.Source{Client: client, Redis: s.redis}
	}
	return sources
}

// names returns the host names of the dashboard: at least one, for refusing all others.
func (o *webOptions) names() []string {
	names := append([]string{"localhost"}, o.hosts...)
	if host, _, err := net.SplitHostPort(o.listen); err == nil && host != "" {
		names = append(names, host)
	}
	return names
}

// protected passes on only requests with the user and password, if a user is set.
func (o *webOptions) protected(handler http.Handler) (http.Handler, error) {
	if o.user == "" {
		return handler, nil
	}
	password := os.Getenv("QLESS_WEB_PASSWORD")
	if password == "" {
		return nil, out.Error(errors.New("--web-user needs a password in QLESS_WEB_PASSWORD"))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		if !equal(user, o.user) || !equal(given, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="qless"`)
			http.Error(w, "want a user and a password", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}), nil
}

// equal compares texts in constant time.
func equal(a, b string) bool {
	one, other := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(one[:], other[:]) == 1
}
