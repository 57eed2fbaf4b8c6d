package security

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/tour"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// The scripts run by the users of the page.
var (
	looking = []string{
		"config.get", "failed", "failures", "find", "get", "holder", "jobs", "latency", "length",
		"limit.info", "limit.list", "list", "multiget", "overview", "peek", "queue.settings", "queues",
		"queue.history", "rates",
		"recur.get", "relations", "result", "schedules", "stats", "tag", "tags", "track", "tracked", "workerJobs",
		"workers", "workersCount",
	}
	working = []string{
		"depart", "finish", "queues.ready", "rates.add", "renew", "reserve", "schedule",
		"schedule.last", "wake", "worker.register", "find", "schedule.leave",
		"schedule.register",
	}
	// The actions of handlers on their jobs.
	handling = []string{
		"queues.record", // by workers and by an open dashboard
		"await", "batch.commit", "batch.status", "cancel", "cancel.all", "complete", "depends",
		"fail", "get", "heartbeat", "limit.hold", "log", "priority", "progress", "put",
		"put.many", "relations", "requeue", "reschedule",
		"retry", "tag", "timeout", "track", "withdraw",
	}
)

// user creates a user with rules on a server, and returns a client logged in as that user.
func user(t testing.TB, server *testkit.Server, name string, rules []string) *redis.Client {
	t.Helper()
	admin := server.Client(t)
	require.NoError(t, admin.ACLSetUser(t.Context(), name, append([]string{"reset", "on", ">secret"}, rules...)...).Err())
	require.NoError(t, admin.Do(t.Context(), "acl", "log", "reset").Err())
	rdb := redis.NewClient(&redis.Options{
		Addr: server.Addr(), Username: name, Password: "secret", DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// rules returns the rules of a user of the page, without the password.
func rules(t testing.TB, name string) []string {
	return slices.DeleteFunc(tour.Rules(t, name), func(rule string) bool { return rule[0] == '>' })
}

// granted returns the commands allowed by rules.
func granted(rules []string) []string {
	var names []string
	for _, rule := range rules {
		if name, ok := strings.CutPrefix(rule, "+"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func newClient(t testing.TB, rdb *redis.Client) *qless.Client {
	t.Helper()
	c, err := qless.New(rdb, nil)
	require.NoError(t, err)
	return c
}

// refusals returns the commands refused by the server, with the missing permissions.
func refusals(t testing.TB, server *testkit.Server) []string {
	t.Helper()
	entries, err := server.Client(t).ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Reason+" "+entry.Object)
	}
	return all
}

// optional is requested by the status, but not required.
var optional = []string{"command config|get"}

func TestAnApplicationNeedsNoMore(t *testing.T) {
	server := testkit.Start(t)
	c := newClient(t, user(t, server, "app", rules(t, "app")))
	tour.Furnish(t, c)
	tour.Dashboard(t, c)
	tour.Client(t, c)
	require.Equal(t, optional, refusals(t, server))
}

// A URL with the number of a database needs one more command, named on the page.
func TestADatabaseWithANumberNeedsSelect(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "database number other than 0: `+select`")
	server := testkit.Start(t)
	for name, select1 := range map[string]bool{"app": false, "chooser": true} {
		allowed := rules(t, "app")
		if select1 {
			allowed = append(allowed, "+select")
		}
		user(t, server, name, allowed)
		c, err := qless.Dial(t.Context(), "redis://"+name+":secret@"+server.Addr()+"/1", nil)
		if !select1 {
			require.ErrorIs(t, err, qless.ErrServer)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		require.NoError(t, err)
		tour.Furnish(t, c)
		tour.Dashboard(t, c)
		tour.Client(t, c)
		require.NoError(t, c.Close())
	}
	require.Empty(t, server.Client(t).Keys(t.Context(), "*").Val(), "database 0 is left alone")
}

func TestAWorkerNeedsNoMore(t *testing.T) {
	server := testkit.Start(t)
	app := newClient(t, user(t, server, "app", rules(t, "app")))
	worker := newClient(t, user(t, server, "worker", rules(t, "worker")))
	tour.Worker(t, worker, app)
	require.Empty(t, refusals(t, server))
}

// A dashboard sees due jobs, and can't move them.
func TestADashboardNeedsNoMore(t *testing.T) {
	server := testkit.Start(t)
	admin := server.Client(t)
	tour.Furnish(t, newClient(t, admin))
	ctx := t.Context()
	dirty := func() string {
		info := admin.Info(ctx, "persistence").Val()
		_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
		changes, _, _ := strings.Cut(rest, "\r\n")
		return changes
	}
	before := dirty()
	tour.Dashboard(t, newClient(t, user(t, server, "dashboard", rules(t, "dashboard"))))
	require.Equal(t, before, dirty(), "changes of the keyspace")
	require.Equal(t, optional, refusals(t, server))
}

// The page grants exactly the commands needed by the scripts according to their headers.
func TestRulesGrantWhatScriptsNeed(t *testing.T) {
	admin := testkit.Start(t).Client(t)
	infos, err := admin.Command(t.Context()).Result()
	require.NoError(t, err)
	writes := func(name string) bool {
		info := infos[name]
		return info != nil && slices.Contains(info.Flags, "write") || name == "publish"
	}
	api := slices.DeleteFunc(scripts.Names(), func(name string) bool {
		return slices.Contains(working, name) && name != "workers"
	})
	basic := []string{"eval", "evalsha", "ping", "subscribe"}
	for name, needed := range map[string][]string{
		"app":       needsOf(t, api...),
		"worker":    append(needsOf(t, append(slices.Clone(working), handling...)...), "zrange"),
		"dashboard": slices.DeleteFunc(needsOf(t, looking...), writes),
	} {
		needed = append(needed, basic...)
		if name != "dashboard" { // the dashboard never waits for jobs
			needed = append(needed, "unsubscribe")
		}
		slices.Sort(needed)
		require.Equal(t, slices.Compact(needed), granted(rules(t, name)), name)
	}
}

// Commands that are not granted are refused, by themselves and inside scripts.
func TestRulesReachNoFurther(t *testing.T) {
	server := testkit.Start(t)
	ctx := t.Context()
	for _, name := range []string{"app", "worker", "dashboard"} {
		rdb := user(t, server, name, rules(t, name))
		for _, line := range [][]any{
			{"keys", "*"}, {"scan", "0"}, {"flushall"}, {"flushdb"}, {"config", "get", "*"}, {"acl", "list"},
			{"shutdown"}, {"monitor"}, {"script", "flush"}, {"eval", "return redis.call('keys', '*')", 0},
			{"eval", "return redis.call('hget', 'other', 'x')", 0}, {"subscribe", "other"},
		} {
			err := rdb.Do(ctx, line...).Err()
			require.Error(t, err, line)
			require.Regexp(t, "NOPERM|can't run this command|No permissions|can't access at least one of the keys|"+
				"doesn't have permissions|ACL failure", err.Error(), line)
		}
	}
	for missing, use := range map[string]func(c *qless.Client) error{
		"resetkeys":     func(c *qless.Client) error { _, err := c.Queue("q").Put(ctx, "K", nil); return err },
		"resetchannels": func(c *qless.Client) error { _, err := events.Listen(ctx, c); return err },
		"-publish":      func(c *qless.Client) error { _, err := c.Queue("q").Put(ctx, "K", nil); return err },
	} {
		rdb := user(t, server, "less", append(rules(t, "app"), missing))
		require.ErrorIs(t, use(newClient(t, rdb)), qless.ErrServer, missing)
	}
}
