package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// server reports dangers of the Redis server itself: that it takes no writes, its version, eviction
// policy and persistence.
func (e *exam) server() error {
	if err := redisx.AskWrites(e.ctx, e.rdb, e.Namespace); redisx.RefusesWrites(err) {
		e.record(newFinding(e.Namespace, CodeRefused, "", "", redisx.Hint(err), false))
	}
	text, err := e.rdb.Info(e.ctx).Result()
	if err != nil {
		e.skip("the server", err)
		return e.ctx.Err()
	}
	info := redisx.ParseInfo(text)
	e.recordInfo(info)
	return e.persistence(info)
}

// recordInfo records the dangers that INFO shows.
func (e *exam) recordInfo(info map[string]string) {
	about := func(code Code, details string) {
		e.record(newFinding(e.Namespace, code, "", "", details, false))
	}
	if redisx.IsTooOld(info["redis_version"]) {
		about(CodeOldServer, info["redis_version"])
	}
	for _, server := range tested {
		text := info[strings.ToLower(server.name)+"_version"]
		if version, ok := redisx.SeriesOf(text); ok && slices.Compare(version, server.newest) > 0 {
			about(CodeNewServer, server.name+" "+text)
		}
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		about(CodeEvicts, policy)
	}
	for _, field := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status := info[field]; status != "" && status != "ok" {
			about(CodePersistenceFailed, field+" is "+status)
		}
	}
}

// tested has the newest series that the tests ran on, as docs/operations.md lists them. Valkey
// names a version of Redis, too: the last one before their ways parted.
var tested = []struct {
	name   string
	newest []int
}{{"Redis", []int{8, 6}}, {"Valkey", []int{9, 1}}}

// persistence reports whether the server keeps anything on disk.
func (e *exam) persistence(info map[string]string) error {
	if info["aof_enabled"] != "0" {
		return nil
	}
	config, err := e.rdb.ConfigGet(e.ctx, "save").Result()
	if err != nil {
		e.skip("how the server saves", err)
	}
	if keepsNothing(info, config, time.Now()) {
		e.record(newFinding(e.Namespace, CodeNoPersistence, "", "", "", false))
	}
	return e.ctx.Err()
}

// unsaved is the age of the last save at which a server that has changed seems to keep nothing on
// disk.
const unsaved = 24 * time.Hour

// keepsNothing reports whether a server keeps nothing on disk, by its INFO and its setting save. If
// the setting is not known, it depends on the last save.
func keepsNothing(info, config map[string]string, now time.Time) bool {
	if info["aof_enabled"] != "0" {
		return false
	}
	if save, known := config["save"]; known {
		return save == ""
	}
	changes, _ := parseNumber(info["rdb_changes_since_last_save"])
	saved, known := parseNumber(info["rdb_last_save_time"])
	return changes > 0 && known && now.Sub(time.Unix(int64(saved), 0)) >= unsaved
}

// maxSkew is the skew that the network and a busy server can explain.
const maxSkew = 5 * time.Second

// clocks reports workers that were last seen in the future. Clients in other languages send their
// own time.
func (e *exam) clocks() error {
	key := e.Namespace + "workers"
	if kind, err := e.rdb.Type(e.ctx, key).Result(); err != nil || kind != keys.ZSet {
		return err
	}
	now, err := e.now()
	if err != nil {
		return err
	}
	ahead, err := e.rdb.ZRangeArgsWithScores(e.ctx, redis.ZRangeArgs{
		Key: key, ByScore: true, Count: int64(e.Step),
		Start: fmt.Sprintf("(%d", now.Add(maxSkew).Unix()), Stop: "+inf",
	}).Result()
	if err != nil {
		return err
	}
	for _, worker := range ahead {
		name, _ := worker.Member.(string)
		seconds := worker.Score - float64(now.Unix())
		by := time.Duration(seconds * float64(time.Second)).Round(time.Second)
		e.record(newFinding(e.Namespace, CodeClockSkew, "workers", name, by.String(), false))
	}
	return e.pace()
}

// now returns the time that the scripts use.
func (e *exam) now() (time.Time, error) {
	if e.Clock != nil {
		return guard.Value(guard.Call, e.Clock)
	}
	return e.rdb.Time(e.ctx).Result()
}
