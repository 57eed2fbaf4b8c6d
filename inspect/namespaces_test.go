package inspect_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// A sorted set with a name that ends like a list of queues belongs to the namespace that begins it.
func TestNamespacesAreToldFromOtherKeys(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	for _, key := range []string{
		"ql:queues", "ql:t:old-queues", "ql:x:idle:work-queues", "ql:x:fair:3:queues", "ql:x:queues",
		"ql:t:eu:queues", "ql:eu:queues", // an inner namespace
		"new:x:queues", // of recurring jobs, unknown to classic clients
		"new:t:x-queues",
		"{mail-t:1}:queues", "t:queues", "x:queues", "client:queues", // these only look like others
	} {
		require.NoError(t, rdb.ZAdd(t.Context(), key, redis.Z{Member: "mail"}).Err())
	}
	for pattern, want := range map[string][]string{
		"*":       {"ql:", "ql:eu:", "new:", "{mail-t:1}:", "t:", "x:", "client:"},
		"ql:*":    {"ql:", "ql:eu:"},
		"ql:t:*":  nil,
		"ql:x:":   nil,
		"new:":    {"new:"},
		"???:":    {"new:"},
		"*e*:":    {"ql:eu:", "new:", "client:"},
		"none:*":  nil,
		"{mail*:": {"{mail-t:1}:"},
	} {
		found, err := inspect.Namespaces(t.Context(), rdb, pattern)
		require.NoError(t, err)
		slices.Sort(want)
		require.Equal(t, want, found, pattern)
	}
}
