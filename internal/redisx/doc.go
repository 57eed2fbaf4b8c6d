// Package redisx is what this module's clients do with go-redis: send a command only once, tell
// what an error means, wait for a server that is away, and keep a subscription alive.
//
// It imports the standard library and go-redis, and nothing else.
package redisx
