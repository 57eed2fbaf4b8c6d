package script

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A loader makes sure that only one of many callers sends the text of the script to a server that
// does not have it: the others wait, and then call it by its digest again. The zero value is ready
// for use.
type loader struct {
	mu      sync.Mutex
	loads   int           // the number of loads that have ended
	loading chan struct{} // closed when the one under way ends; nil if there is none
}

// loaders holds the loaders of this process, by script and server.
var loaders sync.Map

// behindSentinel is the address that go-redis gives every client that asks sentinels for its
// server: it does not identify a server.
const behindSentinel = "FailoverClient"

// loaderOf returns the loader shared by all runners of the script whose clients name the same
// server or cluster. The masters of a cluster load the script one after the other.
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

// seen returns the number of loads that have ended. Calls from now on find the script that they
// loaded.
func (l *loader) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loads
}

// lead is called after a call for which the server did not have the script; seen is the number of
// loads that had ended before it. It returns a function if the caller must send the text, and call
// the function afterward. Otherwise it waits for the caller that does, if there is one, and returns
// nil.
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
