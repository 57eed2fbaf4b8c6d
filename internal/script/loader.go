package script

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A loader makes sure that only one of many callers sends the script's text to a server without the
// script: the others wait, and then call it again by its digest. The zero value is ready for use.
type loader struct {
	mu      sync.Mutex
	loads   int           // the number of ended loads
	loading chan struct{} // closed when the current load ends; nil without one
}

// loaders holds the loaders of this process, by script and server.
var loaders sync.Map

// behindSentinel is the address that go-redis gives every sentinel client. It does not identify a
// server.
const behindSentinel = "FailoverClient"

// loaderOf returns the loader shared by all runners of the script with clients for the same server
// or cluster. The masters of a cluster load the script one after the other.
func loaderOf(s *Script, rdb redis.UniversalClient) *loader {
	key := struct{ sha, server string }{sha: s.sha}
	switch client := rdb.(type) {
	case *redis.Client:
		if client.Options().Addr == behindSentinel {
			return &loader{}
		}
		key.server = client.Options().Network + " " + client.Options().Addr
	case *redis.ClusterClient:
		key.server = strings.Join(client.Options().Addrs, " ")
	default:
		return &loader{}
	}
	shared, _ := loaders.LoadOrStore(key, &loader{})
	return shared.(*loader)
}

// seen returns the number of ended loads. Calls from now on find the scripts loaded.
func (l *loader) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

// lead is called after a call found no script on the server; seen is the number of loads that had
// ended before the call. lead returns a function if the caller must send the text, and call the
// function afterward. Otherwise it waits for any caller that sends the text, and returns nil.
func (l *loader) lead(ctx context.Context, seen int) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loads > seen {
		return nil, nil
	}
	if loading := l.loading; loading != nil {
		l.mu.Unlock()
		defer l.mu.Lock()
		select {
		case <-loading:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	loading := make(chan struct{})
	l.loading = loading
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.loads++
		l.loading = nil
		close(loading)
	}, nil
}
