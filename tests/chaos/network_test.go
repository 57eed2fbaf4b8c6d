package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/qless/qless-go/internal/testkit"
)

func TestCutConnections(t *testing.T) {
	a := newArena(t, plan{jobs: 3_000, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second, shutdown: 5 * time.Second})
	var proxies []*testkit.Proxy
	var addrs []string
	for range processes {
		proxy := testkit.NewProxy(t, a.server.Addr())
		proxies, addrs = append(proxies, proxy), append(addrs, proxy.Addr())
	}
	a.begin(addrs...)
	a.disturb(40, func(i int) {
		at := i % processes // in turn: cutting off the same one repeatedly would make its locks end
		switch a.random.IntN(3) {
		case 0:
			proxies[at].CutAll()
		case 1:
			proxies[at].CutAfterRequest("evalsha")
		case 2:
			proxies[at].CutBeforeReply("evalsha")
		}
		if i%5 == 0 {
			a.replace(at, a.terminate)
		}
	})
	cost := a.verify()
	assert.Zero(t, cost.timedOut, "locks that ended: a job that was taken without its worker's knowledge is given back")
}

// One worker after another is cut off in silence, while the others keep running.
func TestBlockedConnections(t *testing.T) {
	a := newArena(t, plan{
		jobs: 3_000, work: 60 * time.Millisecond, longest: 3 * lockTime, concurrency: 10,
		grace: time.Second, shutdown: 5 * time.Second,
	})
	var valves []*valve
	var addrs []string
	for range processes {
		v := newValve(t, a.server.Addr(), 0)
		valves, addrs = append(valves, v), append(addrs, v.addr())
	}
	a.begin(addrs...)
	a.disturb(6, func(i int) {
		valves[a.random.IntN(len(valves))].block(func() { a.elapse(a.lapse(i)) })
	})
	a.verify()
}

// A round trip takes a fifth of a lock's time.
func TestSlowConnections(t *testing.T) {
	a := newArena(t, plan{
		jobs: 600, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second,
		shutdown: 10 * time.Second,
	})
	var addrs []string
	for range processes {
		addrs = append(addrs, newValve(t, a.server.Addr(), lockTime/10).addr())
	}
	a.begin(addrs...)
	a.disturb(4, func(i int) { a.replace(i, a.terminate) })
	cost := a.verify()
	assert.Zero(t, cost.timedOut, "locks that ended")
}
