package lmstfy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"
)

// serveAdmin answers a request of the admin API.
func (s *Server) serveAdmin(w http.ResponseWriter, hr *http.Request) {
	r := requestOf(hr)
	path := r.URL.Path
	if name, is := strings.CutPrefix(path, "/debug/pprof/"); is {
		r.profile(name)
		return
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) == 1 && r.plain(r.Method+" "+parts[0]):
	case len(parts) > 1 && parts[0] == "token" && r.tokenRoute(parts[1:]):
	case len(parts) == 2 && parts[1] == "" && isPlain(r.Method+" "+parts[0]):
		redirectToFile(r)
	default:
		r.send(http.StatusNotFound, "text/plain", []byte("404 page not found"))
	}
}

// plain answers a request whose path is a single name. It reports whether the route exists.
func (r *request) plain(route string) bool {
	serve, protected := plainRoute(route)
	if serve == nil {
		return false
	}
	if !protected || r.authorized() {
		serve(r)
	}
	return true
}

func isPlain(route string) bool {
	serve, _ := plainRoute(route)
	return serve != nil
}

// plainRoute returns the handler of a route, and whether only accounts may use it.
func plainRoute(route string) (serve func(*request), protected bool) {
	switch route {
	case "GET pools":
		return (*request).listPools, false
	case "GET version":
		return (*request).version, false
	case "GET info":
		return (*request).info, false
	case "GET metrics":
		return (*request).showMetrics, false
	case "GET limits":
		return (*request).listLimits, true
	case "GET accesslog":
		return (*request).showAccessLog, false
	case "POST accesslog":
		return (*request).setAccessLog, true
	}
	return nil, false
}

// tokenRoute answers a request about tokens. It reports whether the route exists.
func (r *request) tokenRoute(parts []string) bool {
	serve := (func(*request, []string))(nil)
	switch {
	case parts[0] == "":
	case len(parts) == 1:
		serve = map[string]func(*request, []string){
			"GET": (*request).listTokens, "POST": (*request).addToken,
		}[r.Method]
	case len(parts) == 2 && parts[1] != "" && r.Method == http.MethodDelete:
		serve = (*request).removeToken
	case len(parts) == 3 && parts[1] != "" && parts[2] == "limit":
		serve = map[string]func(*request, []string){
			"GET": (*request).showLimit, "POST": (*request).setLimit, "PUT": (*request).setLimit,
			"DELETE": (*request).removeLimit,
		}[r.Method]
	}
	if serve == nil {
		return false
	}
	r.namespace = parts[0]
	if r.authorized() {
		serve(r, parts)
	}
	return true
}

// authorized reports whether an account sent the request. Without accounts, every request is
// authorized. authorized answers the requests that it refuses.
func (r *request) authorized() bool {
	accounts := r.server.config.Accounts
	if len(accounts) == 0 {
		return true
	}
	name, password, _ := r.BasicAuth()
	found := 0
	for n, p := range accounts {
		found |= same(n, name) & same(p, password)
	}
	if found == 1 {
		return true
	}
	r.writer.Header().Set("Www-Authenticate", `Basic realm="Authorization Required"`)
	r.send(http.StatusUnauthorized, "", nil)
	return false
}

// same compares two secrets in constant time.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

func (r *request) listPools() { r.replyIndented(http.StatusOK, sortedKeys(r.server.config.Pools)) }

// version answers with the program's version of qless.
func (r *request) version() {
	version, commit, date := buildVersion()
	r.replyIndented(http.StatusOK, map[string]any{
		"version": version, "build_commit": commit, "build_date": date,
	})
}

func buildVersion() (version, commit, date string) {
	build, known := debug.ReadBuildInfo()
	if !known {
		return "", "", ""
	}
	version = build.Main.Version
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			date = s.Value
		}
	}
	return version, commit, date
}

// info answers with the queues of a pool.
func (r *request) info() {
	p := r.server.pools[poolName(r.values.Get("pool"))]
	if p == nil {
		r.send(http.StatusOK, "", nil)
		return
	}
	all, err := info(r.Context(), p.now.client)
	text, failed := json.MarshalIndent(all, "", "    ")
	if err := cmp.Or(err, failed); err != nil {
		r.internal("list queues", err)
		return
	}
	r.send(http.StatusOK, "text/plain; charset=utf-8", append(text, '\n'))
}

func (r *request) showMetrics() {
	var text bytes.Buffer
	for _, f := range r.server.metrics.families() {
		f.write(&text)
	}
	text.Write(r.server.sizes.write(r.Context()))
	r.send(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", text.Bytes())
}

func (r *request) listLimits() {
	var err error
	if force, _ := strconv.ParseBool(r.values.Get("force_update")); force {
		err = r.server.limiters.read(r.Context())
	}
	r.answer("read limits", err, r.server.limiters.list())
}

func (r *request) showAccessLog() {
	status := "disabled"
	if r.server.accessLog.Load() {
		status = "enabled"
	}
	r.reply(http.StatusOK, map[string]any{"status": status})
}

func (r *request) setAccessLog() {
	switch r.values.Get("status") {
	case "enable":
		r.server.accessLog.Store(true)
	case "disable":
		r.server.accessLog.Store(false)
	default:
		r.fail(http.StatusBadRequest, "invalid status")
		return
	}
	r.showAccessLog()
}

// The errors about a token or its pool.
const (
	noSuchPool  = "the pool was not exists"
	tokenExists = "the token has already existed"
)

func (r *request) listTokens(parts []string) {
	pool := r.values.Get("pool")
	if r.server.pools[poolName(pool)] == nil {
		r.fail(http.StatusBadRequest, noSuchPool)
		return
	}
	stored, err := r.server.tokens.list(r.Context(), poolName(pool), parts[0])
	if err != nil {
		r.internal("list tokens", err)
		return
	}
	all := map[string]string{}
	for token, description := range stored {
		if pool != "" {
			token = pool + ":" + token
		}
		all[token] = description
	}
	r.replyIndented(http.StatusOK, map[string]any{"tokens": all})
}

// minToken is the minimum length of a token chosen by a user.
const minToken = 20

func (r *request) addToken(parts []string) {
	r.Body = http.MaxBytesReader(r.writer, r.Body, maxJobSize)
	_ = r.ParseForm() // missing values are refused below
	description, token := r.Form.Get("description"), r.Form.Get("token")
	pool := r.values.Get("pool")
	switch {
	case description == "":
		r.fail(http.StatusBadRequest, "invalid description")
		return
	case token != "" && len(token) < minToken:
		r.fail(http.StatusBadRequest, "the user token was too short")
		return
	case len(parts[0]) > maxName:
		r.fail(http.StatusBadRequest, "the namespace name was too long")
		return
	case !isName(parts[0], ""):
		r.fail(http.StatusBadRequest, namespaceForbidden)
		return
	}
	if token == "" {
		token = newToken()
	} else if fields := strings.Split(token, ":"); len(fields) == 2 {
		pool, token = fields[0], fields[1]
	}
	r.storeToken(poolName(pool), token, description)
}

func (r *request) storeToken(pool, token, description string) {
	if r.server.pools[pool] == nil {
		r.fail(http.StatusBadRequest, noSuchPool)
		return
	}
	added, err := r.server.tokens.add(r.Context(), pool, r.namespace, token, description)
	switch {
	case err != nil:
		r.internal("add a token", err)
		return
	case !added:
		r.fail(http.StatusBadRequest, tokenExists)
		return
	}
	if pool != DefaultPool {
		token = pool + ":" + token
	}
	r.replyIndented(http.StatusCreated, map[string]any{"token": token})
}

func (r *request) removeToken(parts []string) {
	pool, token := splitToken(parts[1])
	if r.server.pools[pool] == nil {
		r.fail(http.StatusBadRequest, noSuchPool)
		return
	}
	err := r.server.tokens.remove(r.Context(), pool, parts[0], token)
	if err == nil {
		err = r.server.limiters.remove(r.Context(), limiterName(pool, parts[0], token))
	}
	r.answer("delete a token", err, nil)
}

func (r *request) showLimit(parts []string) {
	pool, token := splitToken(parts[1])
	limiter := r.server.limiters.get(pool, parts[0], token)
	if limiter == nil {
		r.reply(http.StatusNotFound, nil)
		return
	}
	r.reply(http.StatusOK, limiter)
}

// setLimit answers POST, which creates a limit, and PUT, which creates or changes one.
func (r *request) setLimit(parts []string) {
	limiter, ok := r.readLimiter()
	if !ok {
		return
	}
	pool, token := splitToken(parts[1])
	isNew, status := r.Method == http.MethodPost, http.StatusOK
	if isNew {
		status = http.StatusCreated
	}
	name := limiterName(pool, parts[0], token)
	stored, err := r.server.limiters.set(r.Context(), name, limiter, isNew)
	switch {
	case err != nil:
		r.internal("store a limit", err)
	case !stored:
		r.fail(http.StatusInternalServerError, "throttler token("+token+") has already exists")
	default:
		r.reply(status, map[string]any{"limiter": limiter})
	}
}

// readLimiter reads a limit. If the limit is invalid, readLimiter answers the request.
func (r *request) readLimiter() (limiter Limiter, ok bool) {
	body := http.MaxBytesReader(r.writer, r.Body, maxJobSize)
	if err := json.NewDecoder(body).Decode(&limiter); err != nil {
		text, _ := json.Marshal(map[string]any{"error": jsonProblem(err)})
		r.send(http.StatusBadRequest, "text/plain; charset=utf-8", text)
		return limiter, false
	}
	if limiter.Read == 0 && limiter.Write == 0 {
		r.reply(http.StatusBadRequest, map[string]any{"limiter": limiter})
		return limiter, false
	}
	if limiter.Interval == 0 {
		r.fail(http.StatusBadRequest, "interval should be > 0")
		return limiter, false
	}
	if err := limiter.check(); err != nil {
		r.fail(http.StatusInternalServerError, err.Error())
		return limiter, false
	}
	return limiter, true
}

// jsonProblem returns the answer to JSON that can't be read.
func jsonProblem(err error) map[string]any {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF):
		return map[string]any{"Offset": syntax.Offset}
	case errors.As(err, &kind):
		return map[string]any{
			"Value": kind.Value, "Type": map[string]any{}, "Offset": kind.Offset, "Struct": kind.Struct,
			"Field": kind.Field,
		}
	}
	return map[string]any{}
}

func (r *request) removeLimit(parts []string) {
	pool, token := splitToken(parts[1])
	err := r.server.limiters.remove(r.Context(), limiterName(pool, parts[0], token))
	r.answer("delete a limit", err, map[string]any{"msg": "success"})
}

// profile answers with a profile of the program: a profile of runtime/pprof, "profile" for the CPU,
// or "trace".
func (r *request) profile(name string) {
	profile := pprof.Lookup(name)
	switch {
	case name == "":
		var list bytes.Buffer
		for _, p := range pprof.Profiles() {
			list.WriteString(p.Name() + " " + strconv.Itoa(p.Count()) + "\n")
		}
		r.send(http.StatusOK, "text/plain; charset=utf-8", list.Bytes())
	case name == "profile":
		r.record(30, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case name == "trace":
		r.record(1, trace.Start, trace.Stop)
	case profile == nil:
		r.send(http.StatusNotFound, "text/plain; charset=utf-8", []byte("Unknown profile\n"))
	default:
		debug, _ := strconv.Atoi(r.values.Get("debug"))
		kind := "application/octet-stream"
		if debug > 0 {
			kind = "text/plain; charset=utf-8"
		}
		var text bytes.Buffer
		_ = profile.WriteTo(&text, debug)
		r.send(http.StatusOK, kind, text.Bytes())
	}
}

// maxProfile is the longest duration of a recording.
const maxProfile = 5 * time.Minute

// record records the program for the requested number of seconds. The recording is streamed, as it
// may not fit in memory.
func (r *request) record(missing float64, start func(io.Writer) error, stop func()) {
	length, err := strconv.ParseFloat(r.values.Get("seconds"), 64)
	if err != nil || length <= 0 {
		length = missing
	}
	recorded := &stream{request: r}
	if err := start(recorded); err != nil {
		r.send(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(err.Error()+"\n"))
		return
	}
	ctx, cancel := r.server.stop.Context(r.Context())
	defer cancel()
	select {
	case <-time.After(min(maxProfile, time.Duration(length*float64(time.Second)))):
	case <-ctx.Done():
	}
	stop()
}

// A stream is an answer sent while being written.
type stream struct{ request *request }

// Write sends a part of the answer.
func (s *stream) Write(p []byte) (int, error) {
	r := s.request
	if r.status == 0 {
		r.status = http.StatusOK
		r.writer.Header().Set("Content-Type", "application/octet-stream")
	}
	controller := http.NewResponseController(r.writer)
	setDeadline(controller.SetWriteDeadline, r.server.config.WriteTimeout)
	return r.writer.Write(p)
}
