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

	"github.com/qless/qless-go/web"
)

// webOptions say how the dashboard is served.
type webOptions struct {
	listen, prefix, user string
	readOnly             bool
}

func (o *webOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "web", "", "address of the dashboard")
	flags.StringVar(&o.prefix, "web-prefix", "", "path below which the dashboard is, such as /queues")
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
		web.Options{Prefix: o.prefix, ReadOnly: o.readOnly, Logger: s.log},
		web.Source{Client: s.qless, Redis: s.redis},
	)
	if err != nil {
		return err
	}
	handler, err := o.protected(dashboard)
	if err != nil {
		return err
	}
	// Live updates last for as long as somebody looks at a page: they end when the server does.
	live, end := context.WithCancel(context.Background())
	const patience = 30 * time.Second // with slow clients
	server := &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: 4 * patience,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return live },
	}
	server.RegisterOnShutdown(end)
	s.closes = append(s.closes, dashboard.Close, end)
	return s.add(ctx, o.listen, &listening{name: "web", serve: server.Serve, shutdown: server.Shutdown})
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

// equal compares texts in a time that tells nothing of them.
func equal(a, b string) bool {
	one, other := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(one[:], other[:]) == 1
}
