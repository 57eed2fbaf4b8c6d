package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestSettingsAreListedSetAndUnset(t *testing.T) {
	e := newEnv(t)
	e.ok("config", "set", "heartbeat", "2m", "--yes")
	e.ok("config", "set", "mail-max-concurrency", "5", "--yes")
	e.ok("config", "set", "php-thing", "x", "--raw", "--yes")
	require.Equal(t, "120\n", e.ok("config", "get", "heartbeat"))
	golden(t, "config_ls.txt", e.ok("config", "ls"))
	all := map[string]string{}
	require.NoError(t, json.Unmarshal([]byte(e.ok("config", "ls", "--json")), &all))
	require.Equal(t, "x", all["php-thing"])
	require.Equal(t, run{2, "", "qless: this would unset 1 setting: confirm it with --yes\n"},
		e.run("", "config", "unset", "heartbeat"))
	require.Equal(t, run{0, "", "would unset 2 settings\n"},
		e.run("", "config", "unset", "heartbeat", "php-thing", "--dry-run"))
	e.ok("config", "unset", "heartbeat", "php-thing", "-y")
	require.Equal(t, "60\n", e.ok("config", "get", "heartbeat"))
	e.exits(3, "config get php-thing")
	require.Equal(t, "{\n  \"heartbeat\": \"60\"\n}\n", e.ok("config", "get", "heartbeat", "--json"))
}

func TestInvalidSettingIsRefusedBeforeConfirmation(t *testing.T) {
	e := newEnv(t)
	for _, args := range []string{
		"heartbeet 30", "heartbeat 0", "jobs-history-count 2m", "heartbeat soon",
	} {
		e.exits(2, "config set "+args+" --dry-run")
	}
	require.Contains(t, e.run("", "config", "set", "heartbeet", "30", "-y").errors, `"heartbeat"`)
	screen, status := e.terminal("config set heartbeat 30").typed("y\n")
	require.Equal(t, 0, status)
	require.Contains(t, screen, "Set heartbeat to 30? [y/N]")
	require.Equal(t, "30\n", e.ok("config", "get", "heartbeat"))
}

// filled returns a client of a namespace with settings, paused queues and limits.
func filled(t *testing.T, client *qless.Client) {
	ctx := t.Context()
	require.NoError(t, client.Config().Set(ctx, "heartbeat", 30))
	require.NoError(t, client.Queue("mail").SetMaxRate(ctx, 10, time.Minute))
	for _, queue := range []string{"mail", "sms", "push"} {
		must(client.Queue(queue).Put(ctx, "Welcome", nil))(t)
	}
	require.NoError(t, client.Queue("mail").Pause(ctx))
	require.NoError(t, client.Queue("sms").Pause(ctx))
	require.NoError(t, client.Limit("shop").Set(ctx,
		qless.LimitConfig{Concurrency: 2, Rate: 100, Per: time.Minute}))
}

func TestADumpIsLoadedElsewhere(t *testing.T) {
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			from, to := start(t), start(t)
			filled(t, from.Client())
			text := from.ok("config", "dump")
			golden(t, "config_dump.txt", text)
			r := to.run(text, "config", "load", "-", "--yes")
			require.Equal(t, 0, r.status, r.errors)
			golden(t, "config_load.txt", r.out)
			r = to.run(text, "config", "load", "-", "--dry-run")
			require.Equal(t, run{0, "nothing to change\n", ""}, r)
			require.NoError(t, inspect.New(to.Client()).ForgetQueue(t.Context(), "sms"))
			for _, queue := range []string{"mail", "sms"} {
				must(to.Client().Queue(queue).Put(t.Context(), "Welcome", nil))(t)
			}
			require.Equal(t, text, to.ok("config", "dump"))
		})
	}
}

func TestALoadChangesNothingUntilItIsConfirmed(t *testing.T) {
	e := newEnv(t)
	filled(t, e.Client())
	before := e.ok("config", "dump")
	path := filepath.Join(t.TempDir(), "qless.json")
	require.NoError(t, os.WriteFile(path, []byte(`{
		"settings": {"grace-period": "5", "heartbeat": "30"}, "paused": ["push", "mail"],
		"limits": [{"name": "bank", "config": {"concurrency": 1}}]}`), 0o600))

	r := e.run("", "config", "load", path, "--clear", "--dry-run")
	require.Equal(t, 0, r.status, r.errors)
	golden(t, "config_load_clear.txt", r.out)
	require.Equal(t, "would make 6 changes\n", r.errors)
	e.exits(2, "config load "+path)
	screen, status := e.terminal("config load " + path).typed("no\n")
	require.Equal(t, 0, status)
	require.Contains(t, screen, "Make 3 changes? [y/N]")
	require.Equal(t, before, e.ok("config", "dump"))

	e.ok("config", "load", path, "--yes")
	require.Contains(t, e.ok("config", "dump"), "shop", "what is not in the file stays")
	e.ok("config", "load", path, "--clear", "--yes")
	golden(t, "config_dump_clear.txt", e.ok("config", "dump"))
}

func TestAWrongDumpIsRefusedAsAWhole(t *testing.T) {
	e := newEnv(t)
	before := e.ok("config", "dump")
	for _, text := range []string{
		`{"settings": {"heartbeat": "30", "colour": "blue"}}`,
		`{"settings": {"grace-period": "-1", "heartbeat": "30"}}`,
		`{"paused": ["mail"], "limits": [{"name": "shop", "config": {}}]}`,
		`{"paused": ["mail", ""]}`,
		`{"heartbeat": "30"}`, `{} {}`, `[]`, `nonsense`, ``,
	} {
		r := e.run(text, "config", "load", "-", "--yes")
		require.Equal(t, 2, r.status, "%s: %s", text, r.errors)
		require.Equal(t, before, e.ok("config", "dump"), text)
	}
	e.exits(2, "config load missing.json")
	r := e.run(`{"settings": {"colour": "blue"}}`, "config", "load", "-", "--raw", "--yes")
	require.Equal(t, 0, r.status, r.errors)
	require.Equal(t, "blue\n", e.ok("config", "get", "colour"))
}
