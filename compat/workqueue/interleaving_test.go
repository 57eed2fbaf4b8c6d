package workqueue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
)

// A walk interleaves steps of this package and of clients like the crate in any order in which
// their commands may arrive at the server. Each client can stop after any step.
type walk struct {
	*env
	popped []string          // by other clients, which have not leased them yet
	leased []*workqueue.Item // by this package, at some time
}

// steps are the steps that may happen next to an item.
var steps = []struct {
	name string
	do   func(w *walk, id string)
}{
	{"another client adds", func(w *walk, id string) { // in one pipeline
		if w.cli("SETNX P:item:"+id+" data") == int64(1) {
			w.cli("LPUSH P:queue " + id)
		}
	}},
	{"we add", func(w *walk, id string) {
		_, err := w.AddItem(w.t.Context(), w.rdb, item(id))
		require.NoError(w.t, err)
	}},
	{"another client pops", func(w *walk, _ string) {
		if id, ok := w.cli("RPOPLPUSH P:queue P:processing").(string); ok {
			w.popped = append(w.popped, id)
		}
	}},
	{"another client leases what it has popped", func(w *walk, _ string) {
		if len(w.popped) > 0 {
			id := w.popped[0]
			w.popped = w.popped[1:]
			w.cli("SETEX P:lease:" + id + " 100 somebody")
		}
	}},
	{"another client completes", func(w *walk, id string) { // its commands arrive together
		w.cli("DEL P:item:" + id)
		w.cli("LREM P:processing 0 " + id)
		w.cli("DEL P:lease:" + id)
	}},
	{"we lease", func(w *walk, _ string) {
		if leased := w.take(); leased != nil {
			w.leased = append(w.leased, leased)
		}
	}},
	{"we complete", func(w *walk, id string) { w.complete(id) }},
	{"we renew", func(w *walk, _ string) {
		for _, one := range w.leased {
			_, err := w.Renew(w.t.Context(), w.rdb, one, lease)
			require.NoError(w.t, err)
		}
	}},
	{"we release", func(w *walk, _ string) {
		for _, one := range w.leased {
			_, err := w.Release(w.t.Context(), w.rdb, one)
			require.NoError(w.t, err)
		}
		w.leased = nil
	}},
	{"a lease ends", func(w *walk, id string) { w.endLease(id) }},
	{"a light cleaning", func(w *walk, _ string) { w.light() }},
	{"a deep cleaning", func(w *walk, _ string) { w.deep() }},
}

// Whatever the order of the steps, an item is in a list as long as it exists. So only a client that
// dies between two commands, or that removes ids from lists, leaves an item for a deep cleaning.
func TestItemsAreAlwaysInAList(t *testing.T) {
	e := newEnv(t)
	random := newRand(t)
	for range 20 {
		w := &walk{env: e}
		e.cli("FLUSHALL")
		var path []string
		for range 100 {
			id := fmt.Sprint(random.IntN(2))
			step := steps[random.IntN(len(steps))]
			step.do(w, id)
			path = append(path, step.name+" "+id)
			w.requireListed(path)
		}
	}
}

func (w *walk) requireListed(path []string) {
	w.t.Helper()
	all := slices.Concat(w.list("P:queue"), w.list("P:processing"))
	for _, id := range []string{"0", "1"} {
		if w.cli("EXISTS P:item:"+id) == int64(1) {
			require.Contains(w.t, all, id, "%q", path)
		}
	}
}
