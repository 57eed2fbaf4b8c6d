package lmstfy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/hosts"
)

// A route describes how requests of one kind are served.
type route struct {
	api    string // pattern of the path
	serve  func(*request)
	action string // "produce" or "consume" if it is rate limited
	open   bool   // needs no token
}

const (
	queueAPI = "/api/:namespace/:queue"
	jobAPI   = queueAPI + "/job/:job_id"
	deadAPI  = queueAPI + "/deadletter"
)

// The routes, by method and by the rest of the path after the queue.
var routes = map[string]route{
	"PUT ":                {api: queueAPI, serve: (*request).publish, action: produce},
	"GET ":                {api: queueAPI, serve: (*request).consume, action: consume},
	"DELETE ":             {api: queueAPI, serve: (*request).destroy},
	"PUT bulk":            {api: queueAPI + "/bulk", serve: (*request).publishBulk, action: produce},
	"PUT job":             {api: jobAPI, serve: (*request).republish},
	"GET job":             {api: jobAPI, serve: (*request).get},
	"DELETE job":          {api: jobAPI, serve: (*request).remove},
	"GET peek":            {api: queueAPI + "/peek", serve: (*request).peek},
	"GET size":            {api: queueAPI + "/size", serve: (*request).size, open: true},
	"GET deadletter":      {api: deadAPI, serve: (*request).dead},
	"PUT deadletter":      {api: deadAPI, serve: (*request).respawn},
	"DELETE deadletter":   {api: deadAPI, serve: (*request).bury},
	"GET deadletter/size": {api: deadAPI + "/size", serve: (*request).deadSize, open: true},
}

// findRoute returns the route of a request, and notes the names in its path. A path with an extra
// slash is redirected.
func (r *request) findRoute() (found *route, redirect bool) {
	rest, is := strings.CutPrefix(r.URL.Path, "/api/")
	parts := strings.Split(rest, "/")
	if !is || len(parts) < 2 {
		return nil, false
	}
	r.namespace, r.queue = parts[0], parts[1]
	parts = parts[2:]
	switch n := len(parts); {
	case n == 0 && r.queue == "":
		return nil, false
	case n == 2 && parts[0] == "job" && parts[1] != "":
		r.job = parts[1]
		parts = parts[:1]
	case n > 0 && parts[0] == "job", n == 1 && parts[0] == "":
		return nil, false
	case n > 1 && parts[n-1] == "":
		redirect = true
		parts = parts[:n-1]
	}
	if route, known := routes[r.Method+" "+strings.Join(parts, "/")]; known {
		return &route, redirect
	}
	return nil, false
}

// serveAPI answers a request of the API.
func (s *Server) serveAPI(w http.ResponseWriter, hr *http.Request) {
	r := requestOf(hr)
	route, redirect := r.findRoute()
	switch {
	case route == nil:
		r.namespace, r.queue = "", ""
		began := time.Now()
		r.fail(http.StatusNotFound, "api not found")
		s.metrics.request(r, time.Since(began))
	case redirect:
		redirectToFile(r)
	default:
		r.api = route.api
		began := time.Now()
		r.run(route)
		s.metrics.request(r, time.Since(began))
	}
}

// run checks a request, in the order that clients rely on, and serves it.
func (r *request) run(route *route) {
	if problem := checkNames(r.namespace, r.queue, route.action == consume); problem != "" {
		r.fail(http.StatusBadRequest, problem)
		return
	}
	if route.action == consume {
		defer r.limitTime()()
	}
	if !r.findPool() || !route.open && !r.checkToken() {
		return
	}
	if route.action == "" {
		route.serve(r)
		return
	}
	limiter := r.server.limiters.get(r.poolName, r.namespace, r.token)
	if !r.enter(limiter, route.action) {
		return
	}
	r.settle = func() {
		r.settle = nil
		if route.action == produce && r.status != http.StatusCreated ||
			route.action == consume && r.status != http.StatusOK {
			r.server.limiters.refund(r, limiter, route.action)
		}
	}
	route.serve(r)
	if r.settle != nil { // no client is left to answer
		r.settle()
	}
}

// findPool looks up the pool named by the token.
func (r *request) findPool() bool {
	text := r.Header.Get("X-Token")
	if text == "" {
		text = r.values.Get("token")
	}
	name, token := splitToken(text)
	p := r.server.pools[name]
	if p == nil {
		r.fail(http.StatusNotFound, "pool not found")
		return false
	}
	r.pool, r.poolName, r.token = p, name, token
	return true
}

func (r *request) checkToken() bool {
	switch {
	case r.server.config.SkipTokens:
		return true
	case r.token == "":
		r.fail(http.StatusUnauthorized, "token not found")
		return false
	}
	known, err := r.server.tokens.has(r.Context(), r.poolName, r.namespace, r.token)
	switch {
	case err != nil:
		r.internal("look up a token", err)
	case !known:
		r.fail(http.StatusUnauthorized, "invalid token")
	}
	if err != nil || !known {
		return false
	}
	r.server.metrics.name(r.namespace)
	return true
}

// enter counts a request against the limit of its token. It reports whether there was room.
func (r *request) enter(limiter *Limiter, action string) bool {
	full, err := r.server.limiters.enter(r, limiter, action)
	switch {
	case err != nil:
		r.internal("count requests", err)
		return false
	case full:
		r.server.metrics.limited.add(1, action, r.server.metrics.named(r.namespace), r.poolName)
		r.reply(http.StatusTooManyRequests, map[string]any{
			"msg": "token(" + r.token + ") " + action + " reach the limit rate, please retry later",
		})
		return false
	}
	return true
}

// enter counts a request. It reports whether the limit is exceeded.
func (l *limiters) enter(r *request, limiter *Limiter, action string) (full bool, err error) {
	most := limiter.most(action)
	if most == 0 {
		return false, nil
	}
	keys := []string{l.counter(limiterName(r.poolName, r.namespace, r.token), action)}
	n, err := countUp.Run(r.Context(), l.rdb, keys, limiter.Interval).Int64()
	return err == nil && n > most, err
}

// refund takes back the count of a failed request. A consumer that timed out is answered without
// waiting for the refund: Redis may hang.
func (l *limiters) refund(r *request, limiter *Limiter, action string) {
	if limiter.most(action) == 0 {
		return
	}
	keys := []string{l.counter(limiterName(r.poolName, r.namespace, r.token), action)}
	lasting := context.WithoutCancel(r.Context())
	countDown := func() {
		ctx, cancel := context.WithTimeout(lasting, refundTimeout)
		defer cancel()
		err := countDown.Run(ctx, l.rdb, keys).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			r.server.config.Logger.Warn("can't take back the count of a request",
				"err", err, "request", r.id)
		}
	}
	if r.Context().Err() != nil {
		r.server.running.Go(countDown)
		return
	}
	countDown()
}

// request counts an answered request.
func (m *metrics) request(r *request, took time.Duration) {
	method, namespace := methodLabel(r.Method), m.named(r.namespace)
	m.codes.add(1, r.api, strconv.Itoa(r.status), method, namespace, r.poolName)
	if r.status < 300 {
		m.latencies.observe(milliseconds(took), r.api, method, namespace, r.poolName)
	}
}

// guard refuses browser requests made on behalf of other sites' pages: a browser on the operator's
// machine can reach servers closed to outsiders. A page could even read answers if its own name
// were made to resolve to this server, but then the request's host is that name.
func (s *Server) guard(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := requestOf(hr)
		switch {
		case !hosts.Allows(hr.Host, s.config.AdminHosts):
			r.fail(http.StatusForbidden, "the admin API does not answer requests to this host")
		case protection.Check(hr) != nil:
			r.fail(http.StatusForbidden, "the request comes from a page of another site")
		default:
			next.ServeHTTP(w, hr)
		}
	})
}
