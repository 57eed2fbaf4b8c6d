package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/settings"
)

// server reports dangers of the Redis server itself: refused writes, its version, eviction policy
// and persistence.
func (e *exam) server(ctx context.Context) error {
	if err := redisx.AskWrites(ctx, e.rdb, e.Namespace); redisx.RefusesWrites(err) {
		e.record(newFinding(e.Namespace, ReasonRefused, "", "", redisx.Hint(err), false))
	}
	text, err := e.rdb.Info(ctx).Result()
	if err != nil {
		e.skip("the server", err)
		return ctx.Err()
	}
	info, config := redisx.ParseInfo(text), map[string]string(nil)
	if info["aof_enabled"] == "0" {
		if config, err = e.rdb.ConfigGet(ctx, "save").Result(); err != nil {
			e.skip("how the server saves", err)
		}
	}
	for _, r := range ServerReasons(info, config) {
		e.record(r)
	}
	return ctx.Err()
}

// ServerReasons returns the dangers shown by a server's INFO, and by the setting save if known.
func ServerReasons(info, config map[string]string) []Reason {
	used, _ := parseNumber(info["used_memory"])
	most, _ := parseNumber(info["maxmemory"])
	found := memoryReasons(used, most, info["maxmemory_policy"])
	add := func(code ReasonCode, details string) {
		found = append(found, Reason{Code: code, details: details})
	}
	if redisx.IsTooOld(info["redis_version"]) {
		add(ReasonOldServer, info["redis_version"])
	}
	for _, server := range tested {
		text := info[strings.ToLower(server.name)+"_version"]
		if version, ok := redisx.SeriesOf(text); ok && slices.Compare(version, server.newest) > 0 {
			add(ReasonNewServer, server.name+" "+text)
		}
	}
	for _, field := range []string{"rdb_last_bgsave_status", "aof_last_write_status"} {
		if status := info[field]; status != "" && status != "ok" {
			add(ReasonPersistenceFailed, field+" is "+status)
		}
	}
	if keepsNothing(info, config, time.Now()) {
		add(ReasonNoPersistence, "")
	}
	for i := range found {
		found[i].Certain = true
		found[i] = found[i].explained()
	}
	return found
}

// memoryReasons returns the dangers of a server's memory use. Without a limit, most is 0.
func memoryReasons(used, most float64, policy string) []Reason {
	var found []Reason
	if policy == "noeviction" {
		policy = ""
	}
	switch share := used / max(most, 1); {
	case most > 0 && share >= 1:
		found = append(found, Reason{Code: ReasonMemoryFull, rate: 100 * share, details: policy})
	case most > 0 && share >= MemoryLow:
		found = append(found, Reason{Code: ReasonMemoryLow, rate: 100 * share})
	}
	if policy != "" {
		found = append(found, Reason{Code: ReasonEvicts, details: policy})
	}
	return found
}

// tested has the newest series covered by the tests, as listed in docs/operations.md. Valkey also
// reports a version of Redis: the last one before the fork.
var tested = []struct {
	name   string
	newest []int
}{{"Redis", []int{8, 6}}, {"Valkey", []int{9, 1}}}

// unsaved is the age of the last save from which a changed server seems to keep nothing on disk.
const unsaved = 24 * time.Hour

// keepsNothing reports whether a server keeps nothing on disk, by its INFO and the setting save. If
// the setting is unknown, the last save decides.
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

// maxSkew is the largest skew explained by the network and a busy server.
const maxSkew = 5 * time.Second

// clocks reports workers last seen in the future. Classic clients send their own time.
func (e *exam) clocks(ctx context.Context) error {
	key := e.Namespace + "workers"
	if kind, err := e.rdb.Type(ctx, key).Result(); err != nil || kind != keys.ZSet {
		return err
	}
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	ahead, err := e.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
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
		e.record(newFinding(e.Namespace, ReasonClockSkew, "workers", name, by.String(), false))
	}
	return e.pace(ctx)
}

// now returns the time used by the scripts.
func (e *exam) now(ctx context.Context) (time.Time, error) {
	if e.Clock != nil {
		return guard.Value(guard.Call, e.Clock)
	}
	return e.rdb.Time(ctx).Result()
}

const endedDanger = "locks expire at once, except those of Go workers and receivers"

// settings examines the settings of the namespace.
func (e *exam) settings(ctx context.Context) error {
	key := e.Namespace + "config"
	if kind, err := e.rdb.Type(ctx, key).Result(); err != nil || kind != keys.Hash {
		return err
	}
	return e.members(ctx, key, keys.Hash, func(name, value string) error {
		e.setting(name, value)
		return nil
	})
}

// setting examines a setting.
func (e *exam) setting(name, value string) {
	about := func(code ReasonCode, details string) {
		e.record(newFinding(e.Namespace, code, "config", name, details, false))
	}
	known, _, ok := settings.Of(name)
	n, isNumber := parseNumber(value)
	switch {
	case !ok:
		about(ReasonSettingUnknown, value)
	case known.Kind == settings.Rate && !isRate(value), known.Kind.IsNumber() && !isNumber:
		about(ReasonSettingInvalid, fmt.Sprintf("%q", value))
	case known.Kind == settings.LockTime && n <= 0:
		about(ReasonSettingDangerous, value+": "+endedDanger)
	case n < known.Least && known.Danger != "":
		about(ReasonSettingDangerous, value+": "+known.Danger)
	}
}

// isRate reports whether text is a max-rate: "n/seconds".
func isRate(text string) bool {
	count, seconds, _ := strings.Cut(text, "/")
	n, ok := parseNumber(count)
	per, also := parseNumber(seconds)
	return ok && also && n >= 1 && n == math.Trunc(n) && per > 0
}

// parseNumber reads a finite number.
func parseNumber(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}
