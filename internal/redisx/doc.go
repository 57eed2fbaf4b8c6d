// Package redisx extends go-redis for this module's clients: it sends a command only once,
// classifies errors, waits while a server is unavailable, and keeps a subscription alive.
//
// It imports only the standard library and go-redis.
package redisx
