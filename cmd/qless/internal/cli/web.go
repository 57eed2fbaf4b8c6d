package cli

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

	"github.com/qless/qless-go/internal/hosts"
	"github.com/qless/qless-go/web"
)

// maxWebConnections is how many connections the dashboard has at a time. Pages that are updated
// have one each, and the dashboard updates fewer.
const maxWebConnections = 2000

// webOptions are the options of the dashboard.
type webOptions struct {
	listen, prefix, user string
	hosts                []string
	readOnly             bool
}

func (o *webOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "web", "", "address of the dashboard")
	flags.StringVar(&o.prefix, "web-prefix", "", "path below which the dashboard is, such as /queues")
	flags.StringSliceVar(&o.hosts, "web-host", nil, "name under which browsers reach the dashboard, "+
		"besides localhost, its addresses, and that in --web")
	flags.StringVar(&o.user, "web-user", "",
		"user who may see the dashboard, with the password in QLESS_WEB_PASSWORD")
	flags.BoolVar(&o.readOnly, "web-read-only", false, "offer no actions in the dashboard")
}

// listenWeb has the dashboard listen.
func (s *servers) listenWeb(ctx context.Context) error {
	o := &s.options.web
	if o.listen == "" {
		return nil
	}
	dashboard, err := web.New(
		web.Options{Prefix: o.prefix, ReadOnly: o.readOnly, Logger: s.log, Hosts: o.names()},
		web.Source{Client: s.qless, Redis: s.redis},
	)
	if err != nil {
		return err
	}
	handler, err := o.protected(dashboard)
	if err != nil {
		return err
	}
	// Live updates last for as long as a page is open: they end when the server does.
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
	l.listener = limited(l.listener, maxWebConnections)
	return nil
}

// names returns the names under which the dashboard is reached. There is always one, so that the
// others are refused.
func (o *webOptions) names() []string {
	names := append([]string{"localhost"}, o.hosts...)
	if host, _, err := net.SplitHostPort(o.listen); err == nil && host != "" {
		names = append(names, host)
	}
	return names
}

// protected asks for a user and a password before it passes requests on, if there is a user.
func (o *webOptions) protected(handler http.Handler) (http.Handler, error) {
	if o.user == "" {
		return handler, nil
	}
	password := os.Getenv("QLESS_WEB_PASSWORD")
	if password == "" {
		return nil, usageError{errors.New("--web-user needs a password in QLESS_WEB_PASSWORD")}
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
