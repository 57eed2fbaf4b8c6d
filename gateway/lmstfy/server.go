package lmstfy

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// A Server speaks lmstfy's protocol. Create one with [New], and end it with [Server.Shutdown].
type Server struct {
	config    Config
	defaults  defaults
	pools     map[string]*pool
	tokens    *tokens
	limiters  *limiters
	metrics   *metrics
	sizes     *sizes
	accessLog atomic.Bool

	// stopping ends when consumers must be answered, and closing when background work must end.
	stopping context.Context
	stop     context.CancelFunc
	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	servers []*http.Server
}
