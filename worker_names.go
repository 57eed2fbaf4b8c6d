package qless

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// liveWorkers holds the workers that this process runs, by workerKey.
var liveWorkers sync.Map

// A workerKey must be unique among live workers.
type workerKey struct{ server, namespace, name string }

func (w *Worker) key() workerKey {
	return workerKey{serverOf(w.client.rdb), w.client.Namespace(), w.Name()}
}

// claimName claims the name, and reports whether no other worker of this process has it.
func (w *Worker) claimName() bool {
	_, taken := liveWorkers.LoadOrStore(w.key(), w)
	return !taken
}

func (w *Worker) freeName() { liveWorkers.CompareAndDelete(w.key(), w) }

// serverOf identifies the server of a go-redis client, as far as its options allow.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" { // the address of every sentinel client
			return fmt.Sprintf("%s:%s/%d", o.Network, o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), ",")
	}
	return fmt.Sprintf("%p", rdb)
}
