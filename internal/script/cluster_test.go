package script_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/testkit"
)

// A master that vanishes leaves its connections open and redirects no client. The other master is
// asked after the first unanswered call, and not only when the client next reads the cluster's
// state, which is once a minute.
func TestAMasterThatVanishesIsLookedForElsewhere(t *testing.T) {
	replicas := script.Replicas{Count: 1, Timeout: time.Millisecond}
	for how, send := range map[string]func(context.Context, *script.Runner) error{
		"alone": func(ctx context.Context, r *script.Runner) error {
			_, err := r.Run(ctx, "push", "list", "a")
			return err
		},
		"in a pipeline": func(ctx context.Context, r *script.Runner) error {
			p := r.Pipeline()
			p.Add("push", "list", "a")
			_, errs := exec(ctx, p)
			return errs[0]
		},
		"replicated": func(ctx context.Context, r *script.Runner) error {
			reply, err := r.RunReplicated(ctx, replicas, "push", "list", "a")
			if reply != nil {
				return nil // no replica has the write
			}
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			old, promoted := testkit.Start(t), testkit.Start(t)
			var master atomic.Pointer[testkit.Server]
			master.Store(old)
			rdb := redis.NewClusterClient(&redis.ClusterOptions{
				ReadTimeout: time.Second,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					nodes := []redis.ClusterNode{{Addr: master.Load().Addr()}}
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: nodes}}, nil
				},
			})
			defer rdb.Close()
			r := script.NewRunner(small, rdb, "{ns}:", nil)
			require.NoError(t, send(t.Context(), r))
			old.Suspend()
			master.Store(promoted)
			testkit.Until(t, "the other master is asked", func() bool { return send(t.Context(), r) == nil })
		})
	}
}
