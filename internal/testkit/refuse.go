package testkit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Refuse makes the server refuse write commands, with an error that begins with one of the
// Refusals, until the returned function is called. Nothing else may disturb the server meanwhile.
func (s *Server) Refuse(t testing.TB, refusal string) (allow func()) {
	t.Helper()
	// Neither the end of the test's context nor a reset of the server's connections ends the refusal.
	ctx, rdb := context.Background(), redis.NewClient(Options(s.addr))
	set := func(name, value string) {
		t.Helper()
		if err := rdb.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	switch refusal {
	case "BUSY":
		return s.beBusy(t, rdb, set)
	case "MISCONF":
		obstacle := s.failToSave(t, rdb)
		set("save", "3600 1")
		return func() {
			set("save", "")
			_ = os.RemoveAll(obstacle)
			if err := rdb.Save(ctx).Err(); err != nil { // clears the failure
				t.Error(err)
			}
			_ = os.Remove(obstacle)
			_ = rdb.Close()
		}
	case "NOREPLICAS":
		set("min-replicas-to-write", "1")
		return func() { set("min-replicas-to-write", "0"); _ = rdb.Close() }
	case "OOM":
		set("maxmemory", "1")
		return func() { set("maxmemory", "0"); _ = rdb.Close() }
	case "READONLY":
		follow := func(host, port string) {
			t.Helper()
			if err := rdb.ReplicaOf(ctx, host, port).Err(); err != nil {
				t.Fatal(err)
			}
		}
		follow("127.0.0.1", "1") // nothing listens there, so the keys stay
		return func() { follow("no", "one"); _ = rdb.Close() }
	}
	t.Fatalf("unknown refusal %q", refusal)
	return nil
}

// Refusals are the errors available for [Server.Refuse].
var Refusals = []string{"BUSY", "MISCONF", "NOREPLICAS", "OOM", "READONLY"}

// beBusy runs a script that does not end by itself.
func (s *Server) beBusy(
	t testing.TB, rdb *redis.Client, set func(name, value string),
) (allow func()) {
	t.Helper()
	limit := rdb.ConfigGet(context.Background(), "lua-time-limit").Val()["lua-time-limit"]
	set("lua-time-limit", "1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		options := Options(s.addr)
		options.ReadTimeout, options.MaxRetries = -1, -1
		runner := redis.NewClient(options)
		defer runner.Close()
		_ = runner.Eval(context.Background(), "while true do end", nil).Err()
	}()
	Until(t, "the server is busy", func() bool {
		return redis.HasErrorPrefix(rdb.Get(context.Background(), "busy").Err(), "BUSY")
	})
	return func() {
		Until(t, "the script was stopped", func() bool {
			_ = rdb.ScriptKill(context.Background()).Err()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
		set("lua-time-limit", limit)
		_ = rdb.Close()
	}
}

// failToSave makes the server try to save its data to the path of a folder, and returns the path.
func (s *Server) failToSave(t testing.TB, rdb *redis.Client) (obstacle string) {
	t.Helper()
	ctx := context.Background()
	dir := rdb.ConfigGet(ctx, "dir").Val()["dir"]
	obstacle = filepath.Join(dir, rdb.ConfigGet(ctx, "dbfilename").Val()["dbfilename"])
	if err := os.MkdirAll(filepath.Join(obstacle, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := rdb.BgSave(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	Until(t, "the server has failed to save", func() bool {
		info := rdb.Info(ctx, "persistence").Val()
		return strings.Contains(info, "rdb_bgsave_in_progress:0") &&
			strings.Contains(info, "rdb_last_bgsave_status:err")
	})
	return obstacle
}
